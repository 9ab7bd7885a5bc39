import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import { readPast } from '../../http/server/answers.js'
import { headerText, writeReply } from '../../http/server/reply.js'
import type { Clock } from '../../lib/time.js'
import type { Page } from '../domain/documents.js'
import { ID } from '../domain/ids.js'
import { accountOf, type Principal } from '../domain/principal.js'
import { rateHeaders } from '../domain/rate-limiter.js'
import { refusalFor } from './refusals.js'
import type { RequestCounts } from './request-counts.js'
import type { Reply, Route } from './route.js'
import { Unread } from './unread.js'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal | undefined
    /** When it came, on the clock of the sender. */
    began: number
    /** The path as it is declared. */
    route: string
  }
}

const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * Puts answers into their envelopes, with the headers of every answer, and writes them past the framework: what that
 * would do to headers and bodies is done already, and costs more than the rest of a short request.
 */
export class Sender {
  readonly #log: Logger
  readonly #counts: RequestCounts
  readonly #clock: Clock
  readonly #requestLevel: 'info' | 'debug'
  /** The same page object always is the same text. */
  readonly #pages = new WeakMap<Page<unknown>, string>()
  readonly #unread = new Unread()
  #closing = false

  constructor(log: Logger, counts: RequestCounts, clock: Clock, logRequests = false) {
    this.#requestLevel = logRequests ? 'info' : 'debug'
    this.#log = log
    this.#counts = counts
    this.#clock = clock
  }

  /** From now on each answer is the last of its connection: an idle one would keep the server from its end. */
  close(): void {
    this.#closing = true
  }

  begin(request: FastifyRequest): void {
    request.began = this.#clock.now()
  }

  /** `usual` is the status where the handler says nothing of it. */
  answer(request: FastifyRequest, reply: FastifyReply, route: Route, result: Reply, usual: number): void {
    const { status = usual, headers, one, page, raw } = result
    const { answers } = route
    let text: string | undefined
    if (one !== undefined) text = JSON.stringify({ meta: { type: answers[status]?.one?.[0] }, data: one })
    else if (page) text = this.#pageText(page, answers[status]?.list?.[0])
    else if (raw !== undefined) text = JSON.stringify(raw)
    if (text !== undefined && request.principal) this.#unread.check(accountOf(request.principal), text.length)
    this.#send(request, reply, status, request.principal, headers, text)
  }

  /** Whatever was thrown. What is left of a body is read past, so that the client gets to see the answer. */
  refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const refusal = refusalFor(error, this.#log, request.id)
    const { status, code, message, errors, headers } = refusal
    if (!request.raw.complete) readPast(request.raw, () => {})
    const text = JSON.stringify({ code, message, errors })
    this.#send(request, reply, status, refusal.principal ?? request.principal, headers, text)
  }

  #pageText(page: Page<unknown>, type: string | undefined): string {
    let text = this.#pages.get(page)
    if (text === undefined) {
      const { items, next, limit } = page
      text = JSON.stringify({ meta: { type, page: { limit, next } }, data: items })
      this.#pages.set(page, text)
    }
    return text
  }

  #send(
    request: FastifyRequest,
    reply: FastifyReply,
    status: number,
    principal: Principal | undefined,
    more: Readonly<Record<string, string>> | undefined,
    text: string | undefined,
  ): void {
    const { raw } = reply
    // From here on the framework answers nothing, whatever is thrown.
    reply.hijack()
    const written = writeReply(
      raw,
      () => this.#write(request, raw, status, principal, more, text),
      error => this.#failed(request, error),
      { 'x-request-id': request.id },
    )
    this.#tell(request, written ? status : 500, principal)
  }

  #write(
    request: FastifyRequest,
    raw: FastifyReply['raw'],
    status: number,
    principal: Principal | undefined,
    more: Readonly<Record<string, string>> | undefined,
    text: string | undefined,
  ): void {
    if (raw.writableEnded || raw.destroyed) return
    if (raw.headersSent) throw new Error('a part of another reply has been sent')
    const headers = ['x-request-id', request.id]
    if (principal) addIdentity(headers, principal, more)
    if (more) for (const name in more) headers.push(name, more[name]!)
    if (text !== undefined) headers.push('content-type', JSON_TYPE, 'content-length', String(Buffer.byteLength(text)))
    if (this.#closing) headers.push('connection', 'close')
    raw.writeHead(status, headers)
    if (text === undefined || request.method === 'HEAD') raw.end()
    else {
      if (principal) this.#unread.hold(accountOf(principal), text.length, raw)
      raw.end(text)
    }
  }

  #failed({ id, method, route }: FastifyRequest, error: unknown): void {
    const stack = error instanceof Error ? error.stack : undefined
    const fields = { request_id: id, method, route, error: errorText(error), stack }
    this.#log.error(fields, 'cannot write a reply; the client gets status 500')
  }

  #tell(request: FastifyRequest, status: number, principal: Principal | undefined): void {
    const { method, route } = request
    const ms = this.#clock.now() - request.began
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

/** The id in the path. Anything else that was sent there is not logged: it may be a key. */
function idOf({ params }: FastifyRequest): string | undefined {
  const { id } = (params ?? {}) as { id?: string }
  return id !== undefined && ID.test(id) ? id : undefined
}

/** Who the service took the client for, and what is left of its requests; not what `more` says anew. */
function addIdentity(
  headers: string[],
  { subject, account, enterpriseId, rate }: Principal,
  more: Readonly<Record<string, string>> = {},
): void {
  headers.push('x-auth-subject-id', subject.id, 'x-auth-subject-email', headerText(subject.email))
  headers.push('x-auth-enterprise-id', enterpriseId, 'x-auth-access-type', 'access')
  if (account) headers.push('x-auth-account-id', account.id, 'x-auth-account-short-id', account.shortId)
  const left = rateHeaders(rate)
  for (const name in left) if (more[name] === undefined) headers.push(name, left[name]!)
}
