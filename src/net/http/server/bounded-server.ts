import type { Server as HttpServer, IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Server } from 'node:net'
import type { Logger } from 'pino'
import { errorFields } from '../../../core/errors.js'
import { type ListenAddress, listenText } from '../../../lib/network/inherited-sockets.js'
import { createServer } from '../../../lib/network/node-http.js'
import { type ConnectionBounds, type ConnectionEvents, ConnectionLimits } from '../../limits.js'
import { endWith, failReply } from './respond.js'
import { serveHttp, timeoutOptions } from './serve-http.js'

export interface AdminLimits {
  readonly max: number
  /**
   * The time limit for the server to receive a request, for the client to read the response, and for the client to
   * close the connection.
   */
  readonly timeoutMs: number
}

export const USUAL: AdminLimits = { max: 64, timeoutMs: 10_000 }

type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>

/**
 * Creates a server with limits for its connections and requests. If `answer` fails, logs the error and answers with
 * 500.
 */
export function boundedServer(
  answer: Answer,
  events: ConnectionEvents,
  log: Logger,
  { max, timeoutMs }: AdminLimits = USUAL,
  bounds: Partial<ConnectionBounds> = { sendMs: timeoutMs, closeMs: timeoutMs },
): HttpServer {
  const server = createServer(timeoutOptions({ headersMs: timeoutMs, requestMs: timeoutMs }))
  const connections = new ConnectionLimits({ max, closesUsed: true, ...bounds }, events)
  connections.attach(server, false)
  serveHttp(server, ['request'], {
    connections,
    atOnce: 1,
    handle: (request, response) => {
      answer(request, response).catch(error => {
        const { method, url } = request
        log.error({ method, url, ...errorFields(error) }, 'cannot respond to a request; sending status 500')
        failReply(response)
      })
    },
    refuse: (socket, status) => endWith(socket, status),
  })
  return server
}

const GZIP = /\bgzip\b(?! *; *q=0(?:\.0*)? *(?:,|$))/i

export const takesGzip = (headers: IncomingHttpHeaders): boolean => GZIP.test(String(headers['accept-encoding']))

/** Closes a server and all of its connections. */
export function closeServer(server: HttpServer | undefined): void {
  server?.close()
  server?.closeAllConnections()
}

/** The URL of a server. If the system chose the port, the URL has the actual port. */
export function urlOf(scheme: string, server: Server, address: ListenAddress, path: string): string {
  if ('systemd' in address) return listenText(address)
  const bound = server.address()
  const { port } = typeof bound === 'object' && bound ? bound : address
  return `${scheme}://${listenText({ ...address, port })}${path}`
}
