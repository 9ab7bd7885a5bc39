import type { IncomingMessage, Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { TlsOptions } from 'node:tls'
import type { SourceContext } from '../../../core/component.js'
import { createServer, STATUS_CODES } from '../../../lib/network/node-http.js'
import type { Intake } from '../../intake.js'
import { Exchange } from './exchange.js'
import { Gone, notReadable, Refusal } from './refusal.js'
import { endWith, failReply, type Reply, readPast, sendReply } from './respond.js'
import { serveHttp, timeoutOptions } from './serve-http.js'

/** Maximum number of concurrent pipelined requests per connection. */
const AT_ONCE = 16

export interface HttpIntakeOptions {
  readonly headers_timeout: number
  readonly request_timeout: number
  readonly keep_alive_timeout: number
}

export interface Answering {
  readonly intake: Intake
  readonly context: SourceContext
  /** Resolves with the reply to a request. May throw a Refusal. */
  take(exchange: Exchange): Promise<Reply>
  /** The reply to a refused request. Default: a JSON object with the code and the message. */
  refusal?(refusal: Refusal, request: IncomingMessage): Reply
}

/** The HTTP server of an intake. When the signal aborts, each reply closes its connection. */
export function httpServer(
  tls: TlsOptions | undefined,
  { headers_timeout, request_timeout, keep_alive_timeout }: HttpIntakeOptions,
  answering: Answering,
  signal: AbortSignal,
): Server {
  const { intake, context } = answering
  const exchanges = new WeakMap<IncomingMessage, Exchange>()
  const timeouts = { headersMs: headers_timeout, requestMs: request_timeout, keepAliveMs: keep_alive_timeout }
  // This server also gets, answers and counts requests without a Host header.
  const options = { requireHostHeader: false, ...timeoutOptions(timeouts) }
  const server = tls ? createTlsServer({ ...options, ...tls }) : createServer(options)
  serveHttp(server, ['request', 'checkContinue', 'checkExpectation'], {
    connections: intake.listener.connections,
    atOnce: AT_ONCE,
    arrived: (request, response) => void exchanges.set(request, new Exchange(request, response)),
    handle: (request, response) => {
      answer(exchanges.get(request)!, answering, signal).catch(error => {
        intake.failed(error)
        count(context, '500')
        failReply(response)
      })
    },
    unfinished: (request, status) => {
      exchanges.get(request)!.refuse(notReadable(status))
      return true
    },
    refuse: (socket, status) => {
      count(context, String(status))
      intake.refused(socket, { code: 'no_request', message: STATUS_CODES[status]!, status })
      endWith(socket, status)
    },
  })
  // A client may half-close its connection after the request and then read the response. Without a response, the
  // client would send the events again.
  Object.assign(server, { httpAllowHalfOpen: true })
  return server
}

async function answer(exchange: Exchange, answering: Answering, signal: AbortSignal): Promise<void> {
  const { request, response, socket } = exchange
  const { intake, context } = answering
  intake.begin(exchange)
  let reply: Reply
  try {
    reply = await answering.take(exchange)
  } catch (error) {
    if (error instanceof Gone) {
      intake.refused(socket, {
        code: 'aborted',
        message: 'the client closed the connection before the body was complete',
      })
      return count(context, 'aborted')
    }
    reply = refusalOf(error, socket, request, answering)
  }
  if (!request.complete) readPast(request)
  sendReply(response, { ...reply, close: signal.aborted || reply.close === true })
  count(context, String(reply.status))
}

function refusalOf(error: unknown, socket: Socket, request: IncomingMessage, { intake, refusal }: Answering): Reply {
  if (error instanceof Refusal) intake.refused(socket, error)
  else intake.failed(error)
  const refused = error instanceof Refusal ? error : new Refusal(500, 'failed', 'this request could not be handled')
  const { status, headers, code, message, close } = refused
  return refusal?.(refused, request) ?? { status, headers, body: { code, message }, close }
}

function count(context: SourceContext, status: string): void {
  const help =
    'Requests that were accepted or refused, by the status of the response; aborted: the client closed the connection.'
  context.metrics.counter('sluice_http_answers_total', help, { status }).value++
}
