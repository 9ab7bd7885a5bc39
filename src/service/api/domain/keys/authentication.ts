import { timingSafeEqual } from 'node:crypto'
import { networkOf } from '../../../../lib/network/network-address.js'
import { Cached } from '../../store/cached.js'
import { type Grant, Grants } from '../accounts/grants.js'
import type { Context } from '../context.js'
import { ApiError, forbidden, unauthorized } from '../errors.js'
import { ID } from '../ids.js'
import { type AccessKeys, isKey, isOver } from './keys.js'
import type { Principal } from './principal.js'
import { type RateLimits, type RateState, rateHeaders } from './rate-limiter.js'

/** Identifies the caller from the headers of a request. Changes in the store apply to the next request. */

export interface AuthenticateRequest {
  readonly authorization?: string | undefined
  /** The header x-delegate-account-id. */
  readonly delegateAccountId?: string | undefined
  /** Address of the client itself, even if the request came through trusted proxies. */
  readonly address: string
  readonly requestId?: string | undefined
  /** Identifies the connection; most of its requests have the same key. */
  readonly connection?: object | undefined
}

interface AccountRow {
  readonly id: string
  readonly short_id: string
}

interface LastKey {
  readonly authorization: Buffer
  readonly hash: Buffer
}

const ACCOUNT = 'SELECT id, short_id FROM account WHERE id = $1 AND enterprise_id = $2'
/** Maximum accounts in each generation of the cache. */
const MOST_REMEMBERED = 10_000
const USUAL_START = 'Token '
/** A longer header does not contain a key. */
const LONGEST_HEADER = 200
/** An error with one of these codes means that the key may be a guess. */
const GUESSES: ReadonlySet<string> = new Set(['token_malformed', 'token_unknown'])

export class Authentication {
  readonly refused: Record<string, number> = { missing: 0, malformed: 0, unknown: 0, expired: 0, revoked: 0 }
  authenticated = 0
  rateLimited = 0
  readonly #context: Context
  readonly #keys: AccessKeys
  readonly #grants: Grants
  /** For each connection: its last Authorization header, and the hash of the key in that header. */
  readonly #lastKeys = new WeakMap<object, LastKey>()
  /** Accounts that enterprises act in, by enterprise and id. */
  readonly #accounts: Cached<AccountRow>
  readonly #requests: RateLimits
  readonly #failures: RateLimits

  constructor(context: Context, keys: AccessKeys) {
    this.#context = context
    this.#keys = keys
    this.#grants = new Grants(context.store)
    this.#accounts = new Cached(context.store, ['account'], MOST_REMEMBERED)
    this.#requests = context.limiter('requestsPerKey')
    this.#failures = context.limiter('failedTries')
  }

  /** Identifies the caller. Synchronous if the grant of the key is cached and nothing else has to be read. */
  authenticate(request: AuthenticateRequest): Principal | Promise<Principal> {
    try {
      const hash = this.#hashOf(request)
      const known = this.#grants.known(hash)
      const entered = known
        ? this.#enter(request, known)
        : this.#grants.read(hash).then(grant => this.#enter(request, grant))
      return entered instanceof Promise ? entered.catch(error => this.#refusal(request, error)) : entered
    } catch (error) {
      return this.#refusal(request, error)
    }
  }

  /**
   * Checks the caller of a request again. Returns `known` itself if the cached grants have not changed since `known`
   * was made. Throws or rejects as `authenticate` does. Does not count the request again.
   */
  confirm(known: Principal, again: () => AuthenticateRequest): Principal | Promise<Principal> {
    if (known.version === this.#grants.version) {
      this.#requireTime(known)
      return known
    }
    const request = again()
    const hash = this.#hashOf(request)
    const fresh = (grant: Grant | undefined) => {
      const principal = principalOf(this.#valid(grant), request, known.rate)
      return known.delegated ? this.#delegate(principal, request.delegateAccountId!) : principal
    }
    const cached = this.#grants.known(hash)
    return cached ? fresh(cached) : this.#grants.read(hash).then(fresh)
  }

  #valid(grant: Grant | undefined): Grant {
    if (!grant) throw this.#refuse('unknown', 'this access key is unknown')
    if (grant.revoked) throw this.#refuse('revoked', 'this access key was revoked; use another key')
    this.#requireTime(grant)
    return grant
  }

  #requireTime({ expiresAt }: Pick<Grant, 'expiresAt'>): void {
    if (isOver(expiresAt, this.#context.time()))
      throw this.#refuse('expired', `this access key expired at ${expiresAt}; create a new one`)
  }

  #enter(request: AuthenticateRequest, found: Grant | undefined): Principal | Promise<Principal> {
    const grant = this.#valid(found)
    const rate = this.#requests.take(grant.keyId)
    return rate instanceof Promise
      ? rate.then(rate => this.#admit(request, grant, rate))
      : this.#admit(request, grant, rate)
  }

  #admit(request: AuthenticateRequest, grant: Grant, rate: RateState): Principal | Promise<Principal> {
    const principal = principalOf(grant, request, rate)
    if (!rate.allowed) {
      this.rateLimited++
      const message = `more than ${rate.limit} requests in ${rate.windowMs / 1000} seconds with this key; wait`
      throw new ApiError(429, 'too_many_requests', message, { headers: rateHeaders(rate), principal })
    }
    this.authenticated++
    this.#keys.used(grant.keyId)
    return request.delegateAccountId === undefined ? principal : this.#delegate(principal, request.delegateAccountId)
  }

  /** Hashing is the most expensive step, so the hash is reused if the connection sends the same header again. */
  #hashOf(request: AuthenticateRequest): Buffer {
    const { connection, authorization = '' } = request
    if (!connection) return this.#keys.hash(this.#keyOf(request))
    const given = Buffer.from(authorization)
    const before = this.#lastKeys.get(connection)
    if (before?.authorization.length === given.length && timingSafeEqual(before.authorization, given))
      return before.hash
    const hash = this.#keys.hash(this.#keyOf(request))
    this.#lastKeys.set(connection, { authorization: given, hash })
    return hash
  }

  #keyOf(request: AuthenticateRequest): string {
    const { authorization } = request
    if (authorization === undefined || authorization.trim() === '') {
      throw this.#refuse('missing', 'send an access key: "Authorization: Token KEY"')
    }
    const usual = authorization.startsWith(USUAL_START) ? authorization.slice(USUAL_START.length) : ''
    if (isKey(usual)) return usual
    const match = authorization.length <= LONGEST_HEADER ? /^ *token +(\S+) *$/i.exec(authorization) : null
    const key = match?.[1]
    if (key !== undefined && isKey(key)) return key
    const message = match
      ? 'this is not an access key: a key is sts_, ste_ or sta_ followed by 40 hexadecimal digits'
      : 'the header must be "Authorization: Token KEY"'
    throw this.#refuse('malformed', message)
  }

  async #delegate(principal: Principal, accountId: string): Promise<Principal> {
    if (principal.type !== 'enterprise_service_account') {
      throw forbidden(
        'delegation_not_allowed',
        'x-delegate-account-id is for the keys of enterprise service accounts only; leave it out',
        principal,
      )
    }
    const account = ID.test(accountId)
      ? await this.#accounts.read(`${principal.enterpriseId} ${accountId}`, () =>
          this.#context.store.get<AccountRow>(ACCOUNT, accountId, principal.enterpriseId),
        )
      : undefined
    if (!account) {
      throw forbidden('account_not_in_enterprise', 'the enterprise of this key has no account with this id', principal)
    }
    const scopes = new Set(principal.scopes)
    scopes.delete('enterprise:manage')
    return { ...principal, account: { id: account.id, shortId: account.short_id }, scopes, delegated: true }
  }

  #refuse(problem: string, message: string): ApiError {
    this.refused[problem] = (this.refused[problem] ?? 0) + 1
    return unauthorized(problem, message)
  }

  /** Throws `error`, or 429 if the key may be a guess and the caller's address has sent too many guesses. */
  #refusal({ address }: AuthenticateRequest, error: unknown): Promise<never> {
    if (!(error instanceof ApiError && GUESSES.has(error.code))) throw error
    const state = this.#failures.take(networkOf(address))
    const refuse = (state: RateState): never => {
      if (state.allowed) throw error
      this.rateLimited++
      const headers = { 'retry-after': rateHeaders(state)['retry-after']! }
      const message = 'too many wrong access keys from this address; wait'
      throw new ApiError(429, 'too_many_failed_tries', message, { headers })
    }
    return state instanceof Promise ? state.then(refuse) : refuse(state)
  }
}

function principalOf(grant: Grant, { address, requestId }: AuthenticateRequest, rate: RateState): Principal {
  return {
    type: grant.type,
    subject: grant.subject,
    enterpriseId: grant.enterpriseId,
    account: grant.account,
    scopes: grant.scopes,
    isNarrowed: grant.isNarrowed,
    role: grant.role,
    keyId: grant.keyId,
    version: grant.version,
    expiresAt: grant.expiresAt,
    givesUntil: grant.givesUntil,
    delegated: false,
    rate,
    address,
    requestId,
  }
}
