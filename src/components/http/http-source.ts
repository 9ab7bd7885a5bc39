import type { IncomingMessage, Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { TlsOptions } from 'node:tls'
import type { Output, Source, SourceContext } from '../../core/component.js'
import { errorFields } from '../../core/errors.js'
import type { AckStatus } from '../../core/event/ack.js'
import { PIECES } from '../../core/options/multiline-options.js'
import { LogLimit } from '../../lib/log-limit.js'
import { networkOf } from '../../lib/network/network-address.js'
import { createServer, STATUS_CODES } from '../../lib/network/node-http.js'
import { aborted, sleep } from '../../lib/time.js'
import { type BodyFormat, checkAccess, checkEventHeaders } from '../../net/http/events/checks.js'
import { sendBody } from '../../net/http/events/send-body.js'
import { readBody } from '../../net/http/server/body.js'
import { freeBody } from '../../net/http/server/body-memory.js'
import { type Lease, RequestMemory } from '../../net/http/server/quota.js'
import { Gone, notReadable, Refusal, stopping } from '../../net/http/server/refusal.js'
import { endWith, failReply, type Reply, readPast, sendReply } from '../../net/http/server/respond.js'
import { addressOf, checkMethod } from '../../net/http/server/router.js'
import { serveHttp, timeoutOptions } from '../../net/http/server/serve-http.js'
import { AccessKey } from '../../net/key.js'
import { addressTest, Listener, peerOf, perAddress } from '../../net/listen.js'
import { Exchange } from './exchange.js'
import { type HttpSourceOptions, listenWarnings } from './options.js'

const METHODS = ['POST', 'PUT', 'HEAD']
/** Maximum number of concurrent pipelined requests per connection. */
const AT_ONCE = 16
/** Maximum time for sending responses after all events are settled, in milliseconds. */
const LEAVE_MS = 1000

export class HttpSource implements Source {
  readonly #options: HttpSourceOptions
  readonly #context: SourceContext
  readonly #listener: Listener
  readonly #key: AccessKey | undefined
  readonly #quota: RequestMemory
  readonly #pieces: { value: number }
  readonly #logLimit: LogLimit
  readonly #isShared: (address: string) => boolean
  /** Requests without a response. */
  readonly #open = new Set<Exchange>()
  readonly #exchanges = new WeakMap<IncomingMessage, Exchange>()
  readonly #receiving = new Set<Promise<unknown>>()

  constructor(options: HttpSourceOptions, context: SourceContext) {
    this.#options = options
    this.#context = context
    this.#listener = new Listener(options, context, options)
    const { max_connections: most, max_connections_per_address: own, shared_addresses: shared } = options
    this.#quota = new RequestMemory(most, options.max_unsettled_bytes, perAddress(most, own))
    this.#isShared = addressTest(shared)
    this.#logLimit = new LogLimit(context.clock)
    this.#key = AccessKey.of(options.auth, context.log, context.reach)
    const { metrics, log } = context
    this.#pieces = metrics.counter(...PIECES)
    const help = 'Memory held by unanswered requests, in bytes.'
    metrics.gauge('sluice_http_unanswered_bytes', help, () => this.#quota.bytes)
    metrics.gauge('sluice_http_unanswered_requests', 'Unanswered requests.', () => this.#quota.requests)
    for (const { message } of listenWarnings(options)) log.warn(message)
  }

  async start(): Promise<void> {
    await this.#key?.current()
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    try {
      await this.#listener.open(tls => this.#server(tls, out, signal))
      await aborted(signal)
    } finally {
      this.#listener.stopAccepting()
      // Refuses requests whose body is incomplete. The other requests are answered when their events are settled.
      for (const exchange of this.#open) exchange.refuse(stopping())
      await Promise.allSettled(this.#receiving)
    }
  }

  async stop(): Promise<void> {
    const answered = [...this.#open].map(({ closed }) => closed)
    await Promise.race([Promise.all(answered), sleep(LEAVE_MS)])
    this.#listener.close()
  }

  #server(tls: TlsOptions | undefined, out: Output, signal: AbortSignal): Server {
    const { headers_timeout, request_timeout, keep_alive_timeout } = this.#options
    const timeouts = { headersMs: headers_timeout, requestMs: request_timeout, keepAliveMs: keep_alive_timeout }
    // This source also gets, answers and counts requests without a Host header.
    const options = { requireHostHeader: false, ...timeoutOptions(timeouts) }
    const server = tls ? createTlsServer({ ...options, ...tls }) : createServer(options)
    serveHttp(server, ['request', 'checkContinue', 'checkExpectation'], {
      connections: this.#listener.connections,
      atOnce: AT_ONCE,
      arrived: (request, response) => void this.#exchanges.set(request, new Exchange(request, response)),
      handle: (request, response) => {
        this.#answer(this.#exchanges.get(request)!, out, signal).catch(error => {
          this.#failed(error)
          this.#count('500')
          failReply(response)
        })
      },
      unfinished: (request, status) => {
        this.#exchanges.get(request)!.refuse(notReadable(status))
        return true
      },
      refuse: (socket, status) => {
        this.#count(String(status))
        this.#logRefused(socket, 'no_request', STATUS_CODES[status]!, status)
        endWith(socket, status)
      },
    })
    // A client may half-close its connection after the request and then read the response. Without a response, the
    // client would send the events again.
    Object.assign(server, { httpAllowHalfOpen: true })
    return server
  }

  async #answer(exchange: Exchange, out: Output, signal: AbortSignal): Promise<void> {
    const { request, response, closed } = exchange
    const { socket } = request
    this.#open.add(exchange)
    void closed.then(() => this.#open.delete(exchange))
    let answer: Reply
    try {
      answer = await this.#take(exchange, out, signal)
    } catch (error) {
      if (error instanceof Gone) {
        this.#logRefused(socket, 'aborted', 'the client closed the connection before the body was complete')
        return this.#count('aborted')
      }
      answer = this.#refusal(error, socket)
    }
    if (!request.complete) readPast(request)
    sendReply(response, { ...answer, close: signal.aborted || answer.close === true })
    this.#count(String(answer.status))
  }

  #refusal(error: unknown, socket: Socket): Reply {
    if (error instanceof Refusal) {
      const { status, headers, code, message } = error
      this.#logRefused(socket, code, message, status)
      return { status, headers, body: { code, message }, close: error.close }
    }
    this.#failed(error)
    return { status: 500, body: { code: 'failed', message: 'this request could not be handled' } }
  }

  #failed(error: unknown): void {
    this.#context.metrics.failed('bug')
    this.#context.log.error(errorFields(error), 'request failed')
  }

  async #take(exchange: Exchange, out: Output, signal: AbortSignal): Promise<Reply> {
    const { request } = exchange
    const { auth, path, max_body_bytes: maxBytes } = this.#options
    await checkAccess(request.headers, auth, this.#key)
    if (signal.aborted) throw stopping()
    if (request.method === 'HEAD') return { status: 200 }
    if (addressOf(request).path !== path) throw new Refusal(404, 'not_found', `send events to ${path}`)
    checkMethod(request, METHODS)
    const { content, gzip } = checkEventHeaders(request, maxBytes, this.#options.decode)
    const peer = peerOf(request.socket) ?? ''
    const sender = this.#isShared(peer) ? exchange : networkOf(peer)
    const lease = this.#quota.lease({ sender, refuse: refusal => exchange.refuse(refusal) })
    try {
      const receiving = this.#receive(exchange, { content, gzip, lease }, out, signal)
      this.#receiving.add(receiving)
      const { received, settled } = await receiving.finally(() => this.#receiving.delete(receiving))
      if ((await settled) === 'errored')
        throw new Refusal(503, 'not_delivered', 'the events could not be delivered; send this again', {
          'retry-after': '5',
        })
      return { status: 202, body: { received } }
    } finally {
      lease.release()
    }
  }

  /**
   * Passes on all events of a body as room becomes available. `settled` resolves with the worst status of these events.
   */
  async #receive(
    exchange: Exchange,
    { content, gzip, lease }: { content: BodyFormat; gzip: boolean; lease: Lease },
    out: Output,
    signal: AbortSignal,
  ): Promise<{ received: number; settled: Promise<AckStatus> }> {
    const { max_body_bytes: maxBytes, max_line_bytes: maxLineBytes, decode: codec } = this.#options
    const { request } = exchange
    const onBegin = (fail: (refusal: Refusal) => void) => exchange.reading(fail)
    const { bytes, size } = await readBody(request, { gzip, maxBytes, lease, onBegin })
    exchange.read()
    lease.received()
    // From here on, `run` does not end before all events of this body are passed on.
    if (signal.aborted) throw stopping()
    const body = { bytes, size, content, peer: peerOf(request.socket), release: () => freeBody(bytes) }
    return await sendBody(body, { context: this.#context, out, maxLineBytes, codec, pieces: this.#pieces })
  }

  #logRefused(socket: Socket, code: string, error: string, status?: number): void {
    const limited = this.#logLimit.next(code)
    if (!limited) return
    const fields = { peer: peerOf(socket), status, code, error, ...limited }
    this.#context.log.warn(fields, 'refused a request')
  }

  #count(status: string): void {
    const help =
      'Requests that were accepted or refused, by the status of the response; aborted: the client closed the connection.'
    this.#context.metrics.counter('sluice_http_answers_total', help, { status }).value++
  }
}
