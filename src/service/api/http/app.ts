import { randomUUID } from 'node:crypto'
import { createServer as createTlsServer } from 'node:https'
import { isIP, type Socket } from 'node:net'
import type { TlsOptions } from 'node:tls'
import { type FastifyInstance, type FastifyRequest, fastify } from 'fastify'
import type { Logger } from 'pino'
import type { z } from 'zod'
import { parseOptions } from '../../../engine/config/parse-options.js'
import { createServer } from '../../../lib/network/node-http.js'
import { endWith } from '../../../net/http/server/respond.js'
import { type HttpTimeouts, serveHttp, timeoutOptions } from '../../../net/http/server/serve-http.js'
import type { ConnectionLimits } from '../../../net/limits.js'
import { requireScope } from '../domain/accounts/access.js'
import { ApiError, MOST_ERRORS } from '../domain/errors.js'
import type { AuthenticateRequest } from '../domain/keys/authentication.js'
import type { Principal } from '../domain/keys/principal.js'
import type { Service } from '../domain/service.js'
import type { Ingest } from './ingest.js'
import { leaveBody, takeJson } from './json-body.js'
import type { ApiRoute } from './route.js'
import { allRoutes } from './routes.js'
import { RequestCounts, Sender } from './sender.js'

/** The HTTP server of the service: all routes, authentication, and response envelopes. */

export interface AppOptions extends Required<HttpTimeouts> {
  readonly service: Service
  /** Undefined if this process does not accept events. */
  readonly ingest?: Ingest | undefined
  readonly log: Logger
  readonly counts?: RequestCounts
  readonly requestLog?: boolean
  readonly maxBody: number
  readonly trustedProxies: readonly string[]
  readonly connections: ConnectionLimits
  readonly tls?: TlsOptions | undefined
}

/** A longer path parameter cannot be an id. */
const LONGEST_PARAM = 100
/** Maximum number of values in a body with the configuration of a pipeline, and in any other body. */
const MOST_CONFIG_VALUES = 10_000
const MOST_VALUES = 1000

export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { log, service, counts = new RequestCounts() } = options
  const sender = new Sender(log, counts, options.requestLog)
  const app = create(options, sender)
  app.decorateRequest('principal', undefined)
  app.decorateRequest('began', 0)
  app.decorateRequest('route', 'unknown')
  app.setErrorHandler((error, request, reply) => sender.refuse(error, request, reply))
  const authenticate: Authenticate = (request, access) =>
    recognize(request, service.authenticate(callerOf(request)), access)
  const confirm: Authenticate = (request, access) => {
    const { principal } = request
    // If the key has ended, `confirm` throws, and the response must not name the principal of the key.
    request.principal = undefined
    return recognize(
      request,
      service.confirm(principal!, () => callerOf(request)),
      access,
    )
  }
  app.addHook('onRequest', (request, _reply, done) => {
    sender.begin(request)
    const { expect } = request.headers
    done(expect === undefined || /^100-continue$/i.test(expect) ? undefined : unexpected())
  })
  app.setNotFoundHandler(async request => {
    // A request for an unknown path does not need a key. If the request has a key, the key is checked.
    if (request.headers.authorization !== undefined) await authenticate(request)
    throw new ApiError(404, 'not_found', 'the path does not exist')
  })
  app.addHook('preClose', done => {
    sender.close()
    options.connections.drain()
    app.server.close(() => done())
  })
  const routes = allRoutes(options.ingest)
  const shared = { service, sender, authenticate, confirm }
  leaveBody(app)
  for (const route of routes) if (!route.body) serve(app, route, shared)
  refuseOtherMethods(app, routes, authenticate)
  await app.register(async plugin => {
    takeJson(plugin, options.maxBody)
    for (const route of routes) if (route.body) serve(plugin, route, shared)
  })
  await app.ready()
  return app
}

function create(options: AppOptions, sender: Sender): FastifyInstance {
  const { trustedProxies, tls, connections } = options
  return fastify({
    logger: false,
    genReqId: () => randomUUID(),
    bodyLimit: options.maxBody,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: LONGEST_PARAM },
    frameworkErrors: (error, request, reply) => {
      sender.begin(request)
      sender.refuse(error, request, reply)
    },
    serverFactory: handle => {
      // The app, not Node.js, responds to requests without a Host header, so that these responses also have a request id.
      const http = { requireHostHeader: false, ...timeoutOptions(options) }
      const server = tls ? createTlsServer({ ...http, ...tls }) : createServer(http)
      connections.attach(server, tls !== undefined)
      serveHttp(server, ['request', 'checkExpectation'], {
        connections,
        atOnce: 1,
        handle,
        refuse: (socket, status, error) => refuseBare(socket, status, error, options),
      })
      return server
    },
    // `serveHttp` answers what is not a request.
    clientErrorHandler() {},
  })
}

/** The address of the client. Other text is ignored, because a trusted proxy may forward any text of a client. */
function addressOf({ ip, raw }: FastifyRequest): string {
  return isIP(ip) === 0 ? (raw.socket.remoteAddress ?? '') : ip
}

/** Answers input that the app cannot handle as a request. */
function refuseBare(
  socket: Socket,
  status: number,
  error: string,
  { counts, log, requestLog }: Pick<AppOptions, 'counts' | 'log' | 'requestLog'>,
): void {
  const requestId = randomUUID()
  counts?.add('UNKNOWN', 'unknown', status, 0)
  const fields = { request_id: requestId, status, address: socket.remoteAddress, error }
  log[requestLog ? 'info' : 'debug'](fields, 'not a request')
  const body = `${JSON.stringify({ code: 'invalid_request', message: BARE[status] ?? 'this is not HTTP', errors: [] })}\n`
  endWith(socket, status, { 'content-type': 'application/json; charset=utf-8', 'x-request-id': requestId }, body)
}

const BARE: Readonly<Record<number, string>> = {
  405: 'CONNECT is not supported',
  408: 'the request did not arrive in time',
  431: 'the headers are too large',
}

/** Authenticates a request, synchronously if possible. Throws or rejects if the service or `access` refuses it. */
type Authenticate = (request: FastifyRequest, access?: ApiRoute['access']) => Promise<void> | undefined

function recognize(
  request: FastifyRequest,
  found: Principal | Promise<Principal>,
  access: ApiRoute['access'],
): Promise<void> | undefined {
  const admit = (principal: Principal): undefined => {
    request.principal = principal
    access?.(principal)
  }
  return found instanceof Promise ? found.then(admit) : admit(found)
}

function callerOf(request: FastifyRequest): AuthenticateRequest {
  const { headers } = request
  const delegate = headers['x-delegate-account-id']
  return {
    authorization: headers.authorization,
    delegateAccountId: typeof delegate === 'string' ? delegate : delegate?.join(', '),
    address: addressOf(request),
    requestId: request.id,
    connection: request.raw.socket,
  }
}

function serve(
  app: FastifyInstance,
  route: ApiRoute,
  {
    service,
    sender,
    authenticate,
    confirm,
  }: { service: Service; sender: Sender; authenticate: Authenticate; confirm: Authenticate },
): void {
  const { method, query, body, scope } = route
  const access = route.access ?? (scope && ((principal: Principal) => requireScope(principal, scope)))
  const usual = query?.parse({})
  const status = Number(Object.keys(route.answers)[0])
  app.route({
    method,
    url: urlOf(route.path),
    config: { mostValues: body && 'config' in body.shape ? MOST_CONFIG_VALUES : MOST_VALUES },
    onRequest: (request, _reply, done) => {
      request.route = route.path
      let authenticating: Promise<void> | undefined
      try {
        authenticating = authenticate(request, access)
      } catch (error) {
        return done(error as Error)
      }
      if (authenticating) authenticating.then(() => done(), done)
      else done()
    },
    handler: async (request, reply) => {
      const given = request.query as object
      const confirmed = () => confirm(request, access)
      if (body) await confirmed()
      const result = await route.handle({
        service,
        principal: request.principal!,
        params: request.params as Record<string, string>,
        query: query && (Object.keys(given).length === 0 ? usual! : read(query, given, 'query')),
        body: body && read(body, request.body === undefined ? bodyInstead(route) : request.body, 'body'),
        request,
        confirm: confirmed,
      } as never)
      sender.answer(request, reply, route, result ?? {}, status)
    },
  })
}

/** Responds with 405 to methods that a path does not support. */
function refuseOtherMethods(app: FastifyInstance, routes: readonly ApiRoute[], authenticate: Authenticate): void {
  for (const path of new Set(routes.map(({ path }) => path))) {
    const own: string[] = routes.filter(route => route.path === path).map(({ method }) => method)
    if (own.includes('GET')) own.push('HEAD')
    const others = app.supportedMethods.filter(method => !own.includes(method))
    const allow = own.join(', ')
    const onRequest = async (request: FastifyRequest) => {
      request.route = path
      await authenticate(request)
      throw new ApiError(405, 'method_not_allowed', `use one of ${allow}`, { headers: { allow } })
    }
    app.route({ method: others, url: urlOf(path), onRequest, handler: async () => undefined, exposeHeadRoute: false })
  }
}

function bodyInstead({ bodyOptional }: ApiRoute): unknown {
  if (bodyOptional) return {}
  throw new ApiError(400, 'invalid_body', 'the body is missing: send a JSON object')
}

const unexpected = () =>
  new ApiError(417, 'invalid_request', 'expect must be 100-continue', { headers: { connection: 'close' } })

const urlOf = (path: string): string => path.replace(/\{(\w+)\}/g, ':$1')

function read<S extends z.ZodObject>(schema: S, value: unknown, what: 'query' | 'body'): z.output<S> {
  const parsed = parseOptions(schema, value, MOST_ERRORS)
  if ('value' in parsed) return parsed.value
  const { faults: errors, count } = parsed
  const [first] = errors
  const text = first ? `: ${first.path ? `${first.path} ` : ''}${first.message}` : ''
  const more = count > 1 ? `, and ${count - 1} more` : ''
  throw new ApiError(400, `invalid_${what}`, `the ${what} is not valid${text}${more}`, { errors, count })
}
