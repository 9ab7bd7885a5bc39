import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { errorCode, errorText } from '../../../core/errors.js'
import type { ConnectionLimits } from '../../limits.js'
import { inOrder } from './in-order.js'

/** How often timeouts are checked. Shorter timeouts are checked more often. */
const CHECK_MS = 1000

export interface HttpTimeouts {
  readonly headersMs: number
  /** Time limit for a whole request with its body. */
  readonly requestMs: number
  /** Time limit between two requests. */
  readonly keepAliveMs?: number
}

export function timeoutOptions({ headersMs, requestMs, keepAliveMs }: HttpTimeouts) {
  return {
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: Math.min(CHECK_MS, headersMs),
    ...(keepAliveMs !== undefined && { keepAliveTimeout: keepAliveMs }),
  }
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void

export interface Serving {
  readonly connections: ConnectionLimits
  /** Maximum number of requests of one connection that are handled concurrently. */
  readonly atOnce: number
  /** Called when the headers of a request are complete. Earlier requests can delay the call of `handle`. */
  arrived?(request: IncomingMessage, response: ServerResponse): void
  handle(request: IncomingMessage, response: ServerResponse): void
  /** Responds to bytes that are not a valid request (see `endWith`). */
  refuse(socket: Socket, status: number, error: string): void
  /** Handles a body that arrives too slowly (408) or is not valid HTTP. If the result is false, `refuse` is called. */
  unfinished?(request: IncomingMessage, status: number): boolean
}

/**
 * Serves the requests of a server within the limits of `connections`. Refuses an invalid request, but first responds to
 * a complete request that arrived earlier on the same connection.
 */
export function serveHttp(server: Server, events: readonly string[], serving: Serving): void {
  const { connections, atOnce } = serving
  const handle: Handler = inOrder((request, response) => serving.handle(request, response), {
    atOnce,
    tooMany: socket => connections.pipelined(socket),
  })
  for (const event of events) {
    server.on(event, (request: IncomingMessage, response: ServerResponse) => {
      connections.request(request, response)
      serving.arrived?.(request, response)
      handle(request, response)
    })
  }
  server.on('connect', (_request, socket) => serving.refuse(socket as Socket, 405, 'CONNECT'))
  server.on('clientError', (error, socket) => notUnderstood(error, socket as Socket, serving))
}

/** Handles input that is not HTTP or that did not arrive in time. */
function notUnderstood(error: Error, socket: Socket, { connections, refuse, unfinished }: Serving): void {
  const status = statusOf(errorCode(error))
  if (socket.writableEnded) return // The response was sent. Limits end the connection.
  if (status === undefined || !socket.writable) {
    socket.destroy()
    return
  }
  const last = connections.lastOf(socket)
  if (last?.request.complete && !last.response.writableFinished) {
    // The complete request before the invalid one is still answered. Its response is the last on the connection.
    last.response.shouldKeepAlive = false
    last.response.once('close', () => socket.destroySoon())
    return
  }
  if (last && !last.request.complete) {
    // The request was already answered; only the rest of its body is missing.
    if (last.response.headersSent) socket.destroy()
    if (last.response.headersSent || unfinished?.(last.request, status)) return
  }
  refuse(socket, status, errorText(error))
}

/** Returns the status for input that is not HTTP or did not arrive in time; undefined if the connection failed. */
function statusOf(code: string | undefined): number | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 408
  if (code === 'HPE_HEADER_OVERFLOW') return 431
  return code?.startsWith('HPE_') ? 400 : undefined
}
