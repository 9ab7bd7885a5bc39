import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Logger } from 'pino'
import type { Status } from '../../core/status-document.js'
import { CONTENT_TYPES, type Metrics } from '../../engine/run/measure/metrics.js'
import { type ListenAddress, listenOn } from '../../lib/network/inherited-sockets.js'
import { type AdminLimits, boundedServer, takesGzip, USUAL } from '../../net/http/server/bounded-server.js'
import { sendReply } from '../../net/http/server/respond.js'
import { answerBy, type HttpRoute, type HttpRoutes } from '../../net/http/server/router.js'
import type { ConnectionEvents } from '../../net/limits.js'
import { type Reports, readiness, statusOf } from '../status/status.js'
import { answerBucket, answerKeys, waitState } from './keys.js'
import { streamTap, type Tappable, tapQueryOf } from './tap.js'

const compress = promisify(gzip)

const NOTHING = 'there is nothing at this address; there are /metrics, /livez and /readyz'

export interface Served extends Reports {
  readonly metrics: Pick<Metrics, 'render' | 'samples' | 'components' | 'problems'>
  /** Receives notice of connections that are closed or refused. */
  readonly connections: ConnectionEvents
}

/** The part of the daemon's page that the socket needs. */
export interface Page {
  /** Answers a request of the owner. Resolves with false if the page does not have the path. */
  answerOwner(request: IncomingMessage, response: ServerResponse): Promise<boolean>
}

/**
 * Serves everything that `serveAdmin` serves, for the owner only. Also serves /status, /tap (shows events), /keys and
 * /bucket (counts by key), and the daemon's page, if there is one.
 */
export function socketServer(
  reports: Served,
  tappable: Tappable,
  log: Logger,
  page: () => Page | undefined = () => undefined,
): Server {
  const routes = routesOf(reports, tappable)
  const all = async (request: IncomingMessage, response: ServerResponse) => {
    if (!(await page()?.answerOwner(request, response))) await answerBy(routes, request, response, NOTHING)
  }
  return boundedServer(all, reports.connections, log, USUAL, {})
}

/** Serves GET /metrics, /livez or /healthz (the process is alive) and /readyz (destinations are ready, no stop has begun). */
export async function serveAdmin(
  listen: ListenAddress,
  reports: Served,
  log: Logger,
  limits?: AdminLimits,
): Promise<Server> {
  const routes = routesOf(reports)
  const server = boundedServer((...call) => answerBy(routes, ...call, NOTHING), reports.connections, log, limits)
  await listenOn(server, listen)
  // A scraper that disconnects must not end the daemon.
  server.on('error', () => {})
  return server
}

export async function statusNow(reports: Served, { taps }: Tappable, hasTexts = false): Promise<Status> {
  return await statusOf(reports, reports.metrics, hasTexts, component => waitState(component, taps))
}

function routesOf(reports: Served, tappable?: Tappable): HttpRoutes<HttpRoute> {
  const alive: HttpRoute = { answer: () => ({ status: 'alive' }) }
  return {
    '/metrics': { answer: ({ request, response }) => sendMetrics(request, response, reports) },
    '/livez': alive,
    '/healthz': alive,
    '/readyz': { answer: ({ response }) => sendReadiness(response, reports, tappable !== undefined) },
    ...(tappable && {
      '/status': { answer: () => statusNow(reports, tappable, true) },
      '/tap': { isStream: true, answer: ({ query, response }) => streamTap(tapQueryOf(query), tappable, response) },
      '/keys': { answer: ({ query, response }) => answerKeys(query, tappable.taps, response) },
      '/bucket': { answer: ({ query, response }) => answerBucket(query, tappable.taps, response) },
    }),
  }
}

function sendReadiness(response: ServerResponse, reports: Served, isOwner: boolean): void {
  const { ready, stopping, sources, processors, ...state } = readiness(reports, isOwner)
  const body = {
    status: stopping ? 'stopping' : ready ? 'ready' : 'not ready',
    ...state,
    ...(sources.length > 0 && { sources }),
    ...(processors.length > 0 && { processors }),
  }
  sendReply(response, { status: ready ? 200 : 503, body })
}

/** Matches the Accept header of scrapers that prefer OpenMetrics. They also accept plain text, but list it later. */
const OPEN_METRICS = /^(?:(?!text\/plain).)*application\/openmetrics-text(?! *; *version=0)/i

async function sendMetrics({ headers }: IncomingMessage, response: ServerResponse, reports: Served): Promise<void> {
  const format = OPEN_METRICS.test(headers.accept ?? '') ? 'openmetrics' : 'text'
  const text = await reports.metrics.render(format)
  const about = { 'content-type': CONTENT_TYPES[format], vary: 'Accept, Accept-Encoding' }
  if (!takesGzip(headers)) response.writeHead(200, about).end(text)
  // Compression runs in another thread. The fastest level already makes a scrape ten times smaller.
  else {
    const body = await compress(text, { level: 1 })
    response.writeHead(200, { ...about, 'content-encoding': 'gzip' }).end(body)
  }
}
