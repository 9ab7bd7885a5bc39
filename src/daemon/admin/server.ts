import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Logger } from 'pino'
import { errorFields } from '../../core/errors.js'
import { CONTENT_TYPES, type Metrics } from '../../engine/run/measure/metrics.js'
import { type ListenAddress, listenOn } from '../../lib/network/inherited-sockets.js'
import { createServer } from '../../lib/network/node-http.js'
import { endWith, failReply, sendReply } from '../../net/http/server/respond.js'
import { serveHttp, timeoutOptions } from '../../net/http/server/serve-http.js'
import { type ConnectionBounds, type ConnectionEvents, ConnectionLimits } from '../../net/limits.js'
import { type Reports, readiness, statusOf } from '../status/status.js'
import { answerBucket, answerKeys } from './keys.js'
import { streamTap, type Tappable } from './tap.js'

const compress = promisify(gzip)

export interface Served extends Reports {
  readonly metrics: Pick<Metrics, 'render' | 'samples'>
  /** Is notified of connections that are closed or refused. */
  readonly connections: ConnectionEvents
}

/** Limits for connections to /metrics and the other paths. */
export interface AdminLimits {
  readonly max: number
  /** Time limit for receiving a request, for the client to read the response, and for it to close the connection. */
  readonly timeoutMs: number
}
const USUAL: AdminLimits = { max: 64, timeoutMs: 10_000 }

/** Serves the same for the owner only, and also /status, /tap (shows events), /keys and /bucket (counts by key). */
export function socketServer(reports: Served, tappable: Tappable, log: Logger): Server {
  return createAdmin(reports, tappable, log, USUAL)
}

/** Serves GET /metrics, /healthz (the process is alive) and /readyz (destinations are ready, and it is not stopping). */
export async function serveAdmin(listen: ListenAddress, reports: Served, log: Logger, limits = USUAL): Promise<Server> {
  const { timeoutMs } = limits
  const server = createAdmin(reports, undefined, log, limits, { sendMs: timeoutMs, closeMs: timeoutMs })
  await listenOn(server, listen)
  // A scraper that disconnects must not end the daemon.
  server.on('error', () => {})
  return server
}

function createAdmin(
  reports: Served,
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
  reports: Served,
  tappable: Tappable | undefined,
): Promise<void> {
  const { url = '/' } = request
  if (!URL.canParse(url, 'http://localhost')) {
    sendReply(response, { status: 400, body: { status: 'the address of the request is malformed' } })
    return
  }
  const { pathname, searchParams } = new URL(url, 'http://localhost')
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    sendReply(response, { status: 405, headers: { allow: 'GET, HEAD' } })
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
    await answerKeys(searchParams, tappable.taps, response)
    return
  }
  if (pathname === '/bucket' && tappable) {
    answerBucket(searchParams, tappable.taps, response)
    return
  }
  if (pathname === '/status' && tappable) {
    const waits = (component: string) => tappable.taps.waitState(component)
    sendReply(response, { status: 200, body: statusOf(reports, await reports.metrics.samples(), waits) })
    return
  }
  switch (pathname) {
    case '/metrics': {
      await sendMetrics(request, response, reports)
      return
    }
    case '/healthz':
      sendReply(response, { status: 200, body: { status: 'alive' } })
      return
    case '/readyz': {
      const { ready, stopping, sources, processors, ...state } = readiness(reports)
      const body = {
        status: stopping ? 'stopping' : ready ? 'ready' : 'not ready',
        ...state,
        ...(sources.length > 0 && { sources }),
        ...(processors.length > 0 && { processors }),
      }
      sendReply(response, { status: ready ? 200 : 503, body })
      return
    }
    default:
      sendReply(response, { status: 404, body: { status: 'not found', paths: ['/metrics', '/healthz', '/readyz'] } })
  }
}

/** What scrapers send that read OpenMetrics: they name it before text, which they read as well. */
const OPEN_METRICS = /^(?:(?!text\/plain).)*application\/openmetrics-text(?! *; *version=0)/i
const GZIP = /\bgzip\b(?! *; *q=0(?:\.0*)? *(?:,|$))/i

async function sendMetrics({ headers }: IncomingMessage, response: ServerResponse, reports: Served): Promise<void> {
  const format = OPEN_METRICS.test(headers.accept ?? '') ? 'openmetrics' : 'text'
  const text = await reports.metrics.render(format)
  const about = { 'content-type': CONTENT_TYPES[format], vary: 'Accept, Accept-Encoding' }
  if (!GZIP.test(String(headers['accept-encoding']))) response.writeHead(200, about).end(text)
  // Compression runs in another thread. The fastest level already makes a scrape ten times smaller.
  else {
    const body = await compress(text, { level: 1 })
    response.writeHead(200, { ...about, 'content-encoding': 'gzip' }).end(body)
  }
}
