import type { Output, Source, SourceContext } from '../../core/component.js'
import { PIECES } from '../../core/options/multiline-options.js'
import { type BodyFormat, checkAccess, checkEventHeaders } from '../../net/http/events/checks.js'
import { sendBody } from '../../net/http/events/send-body.js'
import { type BodyEncoding, readBody } from '../../net/http/server/body.js'
import { freeBody } from '../../net/http/server/body-memory.js'
import type { Exchange } from '../../net/http/server/exchange.js'
import { httpServer } from '../../net/http/server/http-intake.js'
import type { Lease } from '../../net/http/server/quota.js'
import { Refusal, stopping } from '../../net/http/server/refusal.js'
import type { Reply } from '../../net/http/server/respond.js'
import { addressOf, checkMethod } from '../../net/http/server/router.js'
import { Intake, type PassedOn } from '../../net/intake.js'
import { AccessKey } from '../../net/key.js'
import { peerOf } from '../../net/listen.js'
import { type HttpSourceOptions, listenWarnings } from './options.js'

const METHODS = ['POST', 'PUT', 'HEAD']

export class HttpSource implements Source {
  readonly #options: HttpSourceOptions
  readonly #context: SourceContext
  readonly #intake: Intake
  readonly #key: AccessKey | undefined
  readonly #pieces: { value: number }

  constructor(options: HttpSourceOptions, context: SourceContext) {
    this.#options = options
    this.#context = context
    this.#intake = new Intake(options, context)
    this.#key = AccessKey.of(options.auth, context.log, context.reach)
    this.#pieces = context.metrics.counter(...PIECES)
    for (const { message } of listenWarnings(options)) context.log.warn(message)
  }

  async start(): Promise<void> {
    await this.#key?.current()
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    const { listener } = this.#intake
    const take = (exchange: Exchange) => this.#take(exchange, out, signal)
    const answering = { intake: this.#intake, context: this.#context, take }
    const open = () => listener.open(this.#options.listen, tls => httpServer(tls, this.#options, answering, signal))
    await this.#intake.run(open, signal)
  }

  async stop(): Promise<void> {
    await this.#intake.stop()
  }

  async #take(exchange: Exchange, out: Output, signal: AbortSignal): Promise<Reply> {
    const { request } = exchange
    const { auth, path, max_body_bytes: maxBytes } = this.#options
    await checkAccess(request.headers, auth, this.#key)
    if (signal.aborted) throw stopping()
    if (request.method === 'HEAD') return { status: 200 }
    if (addressOf(request).path !== path) throw new Refusal(404, 'not_found', `send events to ${path}`)
    checkMethod(request, METHODS)
    const { content, encoding } = checkEventHeaders(request, maxBytes, this.#options.decode)
    const received = await this.#intake.take(exchange, lease =>
      this.#receive(exchange, { content, encoding, lease }, out, signal),
    )
    return { status: 202, body: { received } }
  }

  /** Passes on all events of a body as room becomes available. */
  async #receive(
    exchange: Exchange,
    { content, encoding, lease }: { content: BodyFormat; encoding: BodyEncoding | undefined; lease: Lease },
    out: Output,
    signal: AbortSignal,
  ): Promise<PassedOn<number>> {
    const { max_body_bytes: maxBytes, max_line_bytes: maxLineBytes, decode: codec } = this.#options
    const { request } = exchange
    const onBegin = (fail: (refusal: Refusal) => void) => exchange.reading(fail)
    const { bytes, size } = await readBody(request, { encoding, maxBytes, lease, onBegin })
    exchange.read()
    lease.received()
    // From here on, `run` does not end before all events of this body are passed on.
    if (signal.aborted) throw stopping()
    const body = { bytes, size, content, peer: peerOf(request.socket), release: () => freeBody(bytes) }
    const sending = { context: this.#context, out, maxLineBytes, codec, pieces: this.#pieces }
    const { received, settled } = await sendBody(body, sending)
    return { result: received, settled }
  }
}
