import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { errorCode, errorText } from '../../core/errors.js'
import type { Connections } from './connections.js'
import { inOrder } from './in-order.js'

/** How exactly the timeouts are kept, where they are not shorter. */
const CHECK_MS = 1000

export interface HttpTimeouts {
  /** For the headers of a request. */
  readonly headersMs: number
  /** For a request with its whole body. */
  readonly requestMs: number
  /** Between two requests. */
  readonly keepAliveMs?: number
}

/** The options of Node.js for a server with these timeouts. */
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
  /** Those of the server. */
  readonly connections: Connections
  /** Requests of one connection that are handled at the same time. */
  readonly atOnce: number
  /** A request with all its headers has come. It is handled in its turn. */
  arrived?(request: IncomingMessage, response: ServerResponse): void
  handle(request: IncomingMessage, response: ServerResponse): void
  /** Answers what is no request (`endWith`). */
  refuse(socket: Socket, status: number, error: string): void
  /** The rest of a body that is not answered yet came too slowly (408), or is not HTTP. False: it is no request then. */
  unfinished?(request: IncomingMessage, status: number): boolean
}

/**
 * Takes the requests of a server: each connection a few at a time, within the bounds of its connections. What is no
 * request is refused, but whoever sent a whole request before it gets the answer to that.
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

/** What came is not HTTP, or did not come in time. */
function notUnderstood(error: Error, socket: Socket, { connections, refuse, unfinished }: Serving): void {
  const status = statusOf(errorCode(error))
  if (socket.writableEnded) return // Answered: how long it may be left open is bounded already.
  if (status === undefined || !socket.writable) {
    socket.destroy()
    return
  }
  const last = connections.lastOf(socket)
  if (last?.request.complete && !last.response.writableFinished) {
    // A request that came whole before it keeps its answer, the last one of the connection.
    last.response.shouldKeepAlive = false
    last.response.once('close', () => socket.destroySoon())
    return
  }
  if (last && !last.request.complete) {
    // Of an answered request it is the rest of the body that did not come.
    if (last.response.headersSent) socket.destroy()
    if (last.response.headersSent || unfinished?.(last.request, status)) return
  }
  refuse(socket, status, errorText(error))
}

/** The status for what did not come in time, or is not HTTP; undefined when it is the connection that failed. */
function statusOf(code: string | undefined): number | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 408
  if (code === 'HPE_HEADER_OVERFLOW') return 431
  return code?.startsWith('HPE_') ? 400 : undefined
}

/** Ends a connection with an answer that no request belongs to. */
export function endWith(
  socket: Socket,
  status: number,
  headers: Readonly<Record<string, string>> = {},
  body = '',
): void {
  const all = { ...headers, 'content-length': Buffer.byteLength(body), connection: 'close' }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  // Who was too slow may never close its side. Others may still send: closing at once could take the answer away.
  if (status === 408) socket.destroySoon()
}
