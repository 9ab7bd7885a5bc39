import type { ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { errorCode, errorFields } from '../../../core/errors.js'
import type { PageDocument } from '../../../daemon/client/documents.js'
import { systemClock } from '../../../lib/time.js'
import { Gone, Refusal } from '../../../net/http/server/refusal.js'
import { headerText, onReplyOver, readPast } from '../../../net/http/server/respond.js'
import { AccountQuotas } from '../../ingest/account/account-quota.js'
import { ApiError } from '../domain/errors.js'
import { ID } from '../domain/ids.js'
import { accountOf, type Principal } from '../domain/keys/principal.js'
import { rateHeaders } from '../domain/keys/rate-limiter.js'
import { StoreError } from '../store/store.js'
import type { ApiRoute, Handled } from './route.js'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal | undefined
    /** Time of arrival on the monotonic clock, in milliseconds. */
    began: number
    /** The path as declared in the route. */
    route: string
  }
}

const JSON_TYPE = 'application/json; charset=utf-8'

/** Responses up to this length are not counted, because the number of connections limits them. */
const SHORT = 16 * 1024
/** Maximum bytes of all responses that clients have not read yet. */
const MOST_UNSENT = 64 * 1024 * 1024

const UNWRITTEN = JSON.stringify({ code: 'failed', message: 'the reply could not be written', errors: [] })

/** Sends responses in their envelopes and with the common headers. Also counts and logs the responses. */
export class Sender {
  readonly #log: Logger
  readonly #counts: RequestCounts
  readonly #requestLevel: 'info' | 'debug'
  /** Text of each page object. Page objects do not change. */
  readonly #pages = new WeakMap<PageDocument<unknown>, string>()
  readonly #unsent = new AccountQuotas({ requests: Number.POSITIVE_INFINITY, bytes: MOST_UNSENT })
  #closing = false

  constructor(log: Logger, counts: RequestCounts, logRequests = false) {
    this.#requestLevel = logRequests ? 'info' : 'debug'
    this.#log = log
    this.#counts = counts
  }

  /** From now on, each response closes its connection. An idle connection would prevent the server from stopping. */
  close(): void {
    this.#closing = true
  }

  begin(request: FastifyRequest): void {
    request.began = systemClock.now()
  }

  /** `usual`: the status if the handler does not set one. */
  answer(request: FastifyRequest, reply: FastifyReply, route: ApiRoute, result: Handled, usual: number): void {
    const { status = usual, headers, one, page, raw } = result
    const { answers } = route
    let text: string | undefined
    if (one !== undefined) text = JSON.stringify({ meta: { type: answers[status]?.one?.[0] }, data: one })
    else if (page) text = this.#pageText(page, answers[status]?.list?.[0])
    else if (raw !== undefined) text = JSON.stringify(raw)
    if (text !== undefined && request.principal) hold(this.#unsent, accountOf(request.principal), text, reply.raw)
    this.#send(request, reply, status, request.principal, headers, text)
  }

  /** Sends an error response. Discards the rest of the request body, so that the client can read the response. */
  refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const refusal = refusalFor(error, this.#log, request.id)
    const { status, code, message, errors, headers } = refusal
    if (!request.raw.complete) readPast(request.raw)
    const text = JSON.stringify({ code, message, errors })
    this.#send(request, reply, status, refusal.principal ?? request.principal, headers, text)
  }

  #pageText(page: PageDocument<unknown>, type: string | undefined): string {
    let text = this.#pages.get(page)
    if (text === undefined) {
      const { items, next, limit } = page
      text = JSON.stringify({ meta: { type, page: { limit, next } }, data: items })
      this.#pages.set(page, text)
    }
    return text
  }

  /** Sends a response. If it cannot be written, for example because of an invalid header, sends status 500 instead. */
  #send(
    request: FastifyRequest,
    reply: FastifyReply,
    status: number,
    principal: Principal | undefined,
    more: Readonly<Record<string, string>> | undefined,
    text: string | undefined,
  ): void {
    reply.code(status).header('x-request-id', request.id)
    if (principal) setIdentity(reply, principal)
    if (more) reply.headers(more)
    if (text !== undefined) reply.header('content-type', JSON_TYPE)
    if (this.#closing) reply.header('connection', 'close')
    try {
      // The client may have disconnected.
      if (!reply.raw.destroyed) reply.send(text)
    } catch (error) {
      this.#failed(request, error)
      if (reply.raw.headersSent) reply.raw.destroy()
      else {
        for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name)
        reply.code(500).headers({ 'x-request-id': request.id, 'content-type': JSON_TYPE, connection: 'close' })
        reply.send(UNWRITTEN)
      }
    }
    this.#count(request, reply.statusCode, principal)
  }

  #failed({ id, method, route }: FastifyRequest, error: unknown): void {
    const fields = { request_id: id, method, route, ...errorFields(error) }
    this.#log.error(fields, 'cannot write a response; sending status 500')
  }

  #count(request: FastifyRequest, status: number, principal: Principal | undefined): void {
    const { method, route } = request
    const ms = systemClock.now() - request.began
    this.#counts.add(method, route, status, ms)
    if (!this.#log.isLevelEnabled(this.#requestLevel)) return
    const fields = {
      request_id: request.id,
      method,
      route,
      id: idOf(request),
      status,
      ms: +ms.toFixed(1),
      account: principal?.account?.id,
      subject: principal?.subject.id,
      address: request.ip,
    }
    this.#log[this.#requestLevel](fields, 'request')
  }
}

/** The id in the path. If this part of the path is not an id, it is not logged, because it may be a key. */
function idOf({ params }: FastifyRequest): string | undefined {
  const { id } = (params ?? {}) as { id?: string }
  return id !== undefined && ID.test(id) ? id : undefined
}

/** Sets headers that show the identity of the caller and how many more requests the caller may send. */
function setIdentity(reply: FastifyReply, { subject, account, enterpriseId, rate }: Principal): void {
  reply.header('x-auth-subject-id', subject.id).header('x-auth-subject-email', headerText(subject.email))
  reply.header('x-auth-enterprise-id', enterpriseId).header('x-auth-access-type', 'access')
  if (account) reply.header('x-auth-account-id', account.id).header('x-auth-account-short-id', account.shortId)
  reply.headers(rateHeaders(rate))
}

const BY_FRAMEWORK: Readonly<Record<string, readonly [status: number, code: string, message: string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [415, 'unsupported_content', 'send the body as content-type: application/json'],
  FST_ERR_BAD_URL: [404, 'not_found', 'the path does not exist'],
  FST_ERR_MAX_PARAM_LENGTH: [404, 'not_found', 'the path does not exist'],
}

/** Returns the response for an error. Unexpected errors are logged and get status 500. */
function refusalFor(error: unknown, log: Logger, requestId: string): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof Gone) return new ApiError(400, 'incomplete', 'the body is incomplete')
  if (error instanceof Refusal) {
    const { status, code, message, headers } = error
    return new ApiError(status, code, message, { headers })
  }
  if (error instanceof StoreError) {
    log.error({ request_id: requestId, code: error.code, error: error.message }, 'store failed')
    const message =
      'the service cannot use its store at the moment; check whether the change was saved before you try again'
    return new ApiError(503, 'store_unusable', message, { headers: { 'retry-after': '1' } })
  }
  const code = errorCode(error)
  const [status, own, message] = BY_FRAMEWORK[code ?? ''] ?? []
  if (status !== undefined) return new ApiError(status, own!, message!)
  const given = (error as { statusCode?: unknown } | undefined)?.statusCode
  if (typeof given === 'number' && given >= 400 && given < 500)
    return new ApiError(given, 'invalid_request', 'this request cannot be understood')
  log.error({ request_id: requestId, code, ...errorFields(error) }, 'request failed')
  return new ApiError(500, 'failed', `internal error; see the log of the service for request ${requestId}`)
}

export interface RequestCount {
  readonly method: string
  readonly route: string
  readonly status: number
  requests: number
  seconds: number
}

/** Counts requests by declared route only, so the number of entries is bounded. */
export class RequestCounts {
  readonly #byKey = new Map<string, RequestCount>()

  add(method: string, route: string, status: number, ms: number): void {
    const key = `${method} ${route} ${status}`
    let count = this.#byKey.get(key)
    if (!count) this.#byKey.set(key, (count = { method, route, status, requests: 0, seconds: 0 }))
    count.requests++
    count.seconds += ms / 1000
  }

  all(): Iterable<RequestCount> {
    return this.#byKey.values()
  }
}

/** Counts a response's bytes until it is sent or cut off. Throws ApiError 503 if the bytes exceed the quota. */
export function hold(unsent: AccountQuotas, account: string, text: string, response: ServerResponse): void {
  const bytes = Buffer.byteLength(text)
  if (bytes <= SHORT) return
  const lease = unsent.lease(account)
  onReplyOver(response, lease.release)
  try {
    lease.hold(bytes)
  } catch {
    const message = 'clients of this account have too many unread responses; read them, and send this request again'
    throw new ApiError(503, 'overloaded', message, { headers: { 'retry-after': '1' } })
  }
}
