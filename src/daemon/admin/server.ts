import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Logger } from 'pino'
import type { ProcessorOutage } from '../../core/component.js'
import { errorFields } from '../../core/errors.js'
import { CONTENT_TYPES, type Format } from '../../engine/run/measure/metrics.js'
import { type ListenAddress, listenOn } from '../../lib/network/inherited-sockets.js'
import { createServer } from '../../lib/network/node-http.js'
import { sendAnswer } from '../../net/http/server/answers.js'
import { failReply } from '../../net/http/server/reply.js'
import { endWith, serveHttp, timeoutOptions } from '../../net/http/server/serve-http.js'
import { type ConnectionBounds, type ConnectionEvents, ConnectionLimits } from '../../net/limits.js'
import { answerBucket, answerKeys, answerWaiting } from './keys.js'
import { formatFor, takesGzip } from './negotiate.js'
import { isReady, STOPPING } from './ready.js'
import { streamTap, type Tappable } from './tap.js'

const compress = promisify(gzip)

export interface Reports {
  /** The text of a scrape. */
  metrics(format: Format): Promise<Buffer>
  /** Is notified of connections that are closed or refused. */
  readonly connections: ConnectionEvents
  /** Every destination, with the reason if it is not ready. */
  destinations(): { id: string; state: string; reason: string | undefined }[]
  /** Sources that wait for an operator, or that failed recently and are being restarted. */
  failures?(): { id: string; state: string; reason: string }[]
  /** Processors that need a server which does not reply, or that do not finish with events. */
  outages?(): (ProcessorOutage & { readonly id: string })[]
  /** Whether a signal ends the daemon, which still delivers what it has read. */
  isStopping?(): boolean
  /** When the reload that is under way began, wall clock in milliseconds; undefined: none is. */
  reloadingSince?(): number | undefined
  /** State of a managed daemon and of its connection to the service. */
  managed?(): object
  /** Shown on the socket only: the paths of the configuration and of the data. */
  about?(): { readonly config: string | undefined; readonly data_dir: string }
}

/** Limits for connections to /metrics and the other paths. */
export interface AdminLimits {
  readonly max: number
  /** Time limit for receiving a request, for the client to read the response, and for it to close the connection. */
  readonly timeoutMs: number
}
const USUAL: AdminLimits = { max: 64, timeoutMs: 10_000 }

/** Serves GET /metrics, /healthz (the process is alive) and /readyz (destinations are ready, and it is not stopping), once it has connections. */
export function adminServer(reports: Reports, log: Logger, limits = USUAL): Server {
  const { timeoutMs } = limits
  return createAdmin(reports, undefined, log, limits, { sendMs: timeoutMs, closeMs: timeoutMs })
}

/** Serves the same for the owner only, and also /tap (shows events) and /keys (counts by key). */
export function socketServer(reports: Reports, tappable: Tappable, log: Logger): Server {
  return createAdmin(reports, tappable, log, USUAL)
}

/** An `adminServer` that listens. Close it with `close`. */
export async function serveAdmin(
  listen: ListenAddress,
  reports: Reports,
  log: Logger,
  limits = USUAL,
): Promise<Server> {
  const server = adminServer(reports, log, limits)
  await listenOn(server, listen)
  // A scraper that disconnects must not end the daemon.
  server.on('error', () => {})
  return server
}

function createAdmin(
  reports: Reports,
  tappable: Tappable | undefined,
  log: Logger,
  { max, timeoutMs }: AdminLimits,
  bounds: Partial<ConnectionBounds> = {},
): Server {
  const server = createServer(timeoutOptions({ headersMs: timeoutMs, requestMs: timeoutMs }))
  const connections = new ConnectionLimits({ max, closesUsed: true, ...bounds }, reports.connections)
  connections.attach(server, false)
  serveHttp(server, ['request'], {
    connections,
    atOnce: 1,
    handle: (request, response) => {
      answer(request, response, reports, tappable).catch(error => {
        const { method, url } = request
        log.error({ method, url, ...errorFields(error) }, 'cannot respond to a request; sending status 500')
        failReply(response)
      })
    },
    refuse: (socket, status) => endWith(socket, status),
  })
  return server
}

/** A positive number in a query; undefined if it is missing or no such number. */
function numberIn(query: URLSearchParams, name: string): number | undefined {
  const value = Number(query.get(name) ?? Number.NaN)
  return value > 0 && Number.isFinite(value) ? value : undefined
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  reports: Reports,
  tappable: Tappable | undefined,
): Promise<void> {
  const { url = '/' } = request
  if (!URL.canParse(url, 'http://localhost')) {
    sendAnswer(response, { status: 400, body: { status: 'the address of the request is malformed' } })
    return
  }
  const { pathname, searchParams } = new URL(url, 'http://localhost')
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    sendAnswer(response, { status: 405, headers: { allow: 'GET, HEAD' } })
    return
  }
  if (pathname === '/tap' && tappable) {
    const limit = numberIn(searchParams, 'limit') ?? Number.POSITIVE_INFINITY
    const where = searchParams.get('where') ?? undefined
    const [rate, forMs] = [numberIn(searchParams, 'rate'), numberIn(searchParams, 'for')]
    const component = searchParams.get('component') ?? ''
    streamTap({ component, limit, where, rate, forMs }, tappable, response)
    return
  }
  if (pathname === '/keys' && tappable) {
    const forMs = Number(searchParams.get('for') ?? 1000)
    await answerKeys({ component: searchParams.get('component') ?? '', forMs }, tappable, response)
    return
  }
  if (pathname === '/bucket' && tappable) {
    answerBucket(searchParams, tappable, response)
    return
  }
  if (pathname === '/waiting' && tappable) {
    answerWaiting(searchParams.get('component') ?? '', tappable, response)
    return
  }
  if (pathname === '/about' && tappable && reports.about) {
    sendAnswer(response, { status: 200, body: reports.about() })
    return
  }
  switch (pathname) {
    case '/metrics': {
      await sendMetrics(request, response, reports)
      return
    }
    case '/healthz':
      sendAnswer(response, { status: 200, body: { status: 'alive' } })
      return
    case '/readyz': {
      const destinations = reports.destinations()
      const failures = reports.failures?.() ?? []
      const outages = reports.outages?.() ?? []
      const stopping = reports.isStopping?.() ?? false
      const ready = !stopping && isReady(destinations, failures, outages)
      const sources = failures.length > 0 ? { sources: failures } : {}
      const processors = outages.length > 0 ? { processors: outages } : {}
      const managed = reports.managed && { managed: reports.managed() }
      const since = reports.reloadingSince?.()
      const reloading = since !== undefined && { reloading_since: new Date(since).toISOString() }
      const status = stopping ? STOPPING : ready ? 'ready' : 'not ready'
      const body = { status, ...reloading, destinations, ...sources, ...processors, ...managed }
      sendAnswer(response, { status: ready ? 200 : 503, body })
      return
    }
    default:
      sendAnswer(response, { status: 404, body: { status: 'not found', paths: ['/metrics', '/healthz', '/readyz'] } })
  }
}

async function sendMetrics({ headers }: IncomingMessage, response: ServerResponse, reports: Reports): Promise<void> {
  const format = formatFor(headers.accept)
  const text = await reports.metrics(format)
  const about = { 'content-type': CONTENT_TYPES[format], vary: 'Accept, Accept-Encoding' }
  if (!takesGzip(headers['accept-encoding'])) response.writeHead(200, about).end(text)
  // Compression runs in another thread. The fastest level already makes a scrape ten times smaller.
  else {
    const body = await compress(text, { level: 1 })
    response.writeHead(200, { ...about, 'content-encoding': 'gzip' }).end(body)
  }
}
