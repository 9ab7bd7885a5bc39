import type { Context } from './context.js'
import { Derived } from './derived.js'
import { ApiError, forbidden, unauthorized } from './errors.js'
import { ID } from './ids.js'
import { isKey, isOver, type Keys } from './keys.js'
import type { Principal } from './principal.js'
import { RateLimiter, rateHeaders } from './rate-limiter.js'
import { type AccountRecord, at, type KeyRecord, type ServiceAccountRecord, type UserRecord } from './records.js'
import { ROLE_SCOPES } from './scopes.js'

/** From the headers of one request to who asks. Everything is read from the store each time: what changed acts at once. */

export interface AuthenticateRequest {
  readonly authorization?: string | undefined
  /** x-delegate-account-id. */
  readonly delegateAccountId?: string | undefined
  /** Of the client, as far as proxies are trusted. */
  readonly address: string
  readonly requestId?: string | undefined
}

/** Longer headers hold no key. */
const LONGEST_HEADER = 200

type Subject = Pick<Principal, 'subject' | 'scopes' | 'role'>

export class Authentication {
  readonly refused: Record<string, number> = { missing: 0, malformed: 0, unknown: 0, expired: 0, revoked: 0 }
  authenticated = 0
  rateLimited = 0
  readonly #context: Context
  readonly #keys: Keys
  readonly #requests: RateLimiter
  readonly #failures: RateLimiter
  readonly #places = new Derived(placesOf)
  readonly #subjects = new Derived(subjectOf)
  readonly #accounts = new Derived(({ id, short_id }: AccountRecord) => ({ id, shortId: short_id }))

  constructor(context: Context, keys: Keys) {
    this.#context = context
    this.#keys = keys
    this.#requests = new RateLimiter(context.limits.requestsPerKey, context.clock)
    this.#failures = new RateLimiter(context.limits.failedTries, context.clock)
  }

  async authenticate(request: AuthenticateRequest): Promise<Principal> {
    const key = this.#keyOf(request)
    const record = await this.#keys.find(key)
    if (!record) throw this.#guessed(request, 'unknown', 'nobody has this access key')
    if (record.revoked_at !== null)
      throw this.#refuse('revoked', 'this access key was revoked; use the one that replaced it')
    if (isOver(record, this.#context.time())) {
      throw this.#refuse('expired', `this access key expired at ${record.expires_at}; make a new one`)
    }
    const { subject: place, account: accountPlace } = this.#places.of(record)
    const found = await this.#context.read<ServiceAccountRecord | UserRecord>(place)
    const subject = found && owns(found, record) ? this.#subjectFor(found, record) : undefined
    const account = accountPlace === undefined ? undefined : await this.#context.read<AccountRecord>(accountPlace)
    // Its subject or account is gone, and all keys with it.
    if (!subject || (accountPlace !== undefined && !account))
      throw this.#refuse('revoked', 'this access key was revoked')
    const rate = this.#requests.take(record.id)
    const principal: Principal = {
      type: record.type,
      subject: subject.subject,
      enterpriseId: record.enterprise_id,
      account: account && this.#accounts.of(account),
      scopes: subject.scopes,
      role: subject.role,
      keyId: record.id,
      expiresAt: record.expires_at,
      delegated: false,
      rate,
      address: request.address,
      requestId: request.requestId,
    }
    if (!rate.allowed) {
      this.rateLimited++
      const message = `more than ${rate.limit} requests in ${rate.windowMs / 1000} seconds with this key; wait`
      throw new ApiError(429, 'too_many_requests', message, { headers: rateHeaders(rate), principal })
    }
    this.authenticated++
    this.#keys.used(record.id)
    return request.delegateAccountId === undefined ? principal : this.#delegate(principal, request.delegateAccountId)
  }

  #keyOf(request: AuthenticateRequest): string {
    const { authorization } = request
    if (authorization === undefined || authorization.trim() === '') {
      throw this.#refuse('missing', 'send an access key: "Authorization: Token KEY"')
    }
    const match = authorization.length <= LONGEST_HEADER ? /^ *token +(\S+) *$/i.exec(authorization) : null
    const key = match?.[1]
    if (key !== undefined && isKey(key)) return key
    const message = match
      ? 'this is not an access key: one is sts_, ste_ or sta_ and 40 hexadecimal digits'
      : 'the header must be "Authorization: Token KEY"'
    throw this.#guessed(request, 'malformed', message)
  }

  #subjectFor(found: ServiceAccountRecord | UserRecord, { scopes }: KeyRecord): Subject {
    const subject = this.#subjects.of(found)
    return scopes === null
      ? subject
      : { ...subject, scopes: new Set([...subject.scopes].filter(scope => scopes.includes(scope))) }
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
      ? await this.#context.read<AccountRecord>(at.account(principal.enterpriseId, accountId))
      : undefined
    if (!account) {
      throw forbidden(
        'account_not_in_enterprise',
        'there is no account of this id in the enterprise of the key',
        principal,
      )
    }
    const scopes = new Set(principal.scopes)
    scopes.delete('enterprise:manage')
    return { ...principal, account: { id: account.id, shortId: account.short_id }, scopes, delegated: true }
  }

  #refuse(problem: string, message: string): ApiError {
    this.refused[problem] = (this.refused[problem] ?? 0) + 1
    return unauthorized(problem, message)
  }

  /** The same for what may be guessing: after too many from one address, it is told to wait. */
  #guessed({ address }: AuthenticateRequest, problem: string, message: string): ApiError {
    const error = this.#refuse(problem, message)
    const state = this.#failures.take(networkOf(address))
    if (state.allowed) return error
    this.rateLimited++
    const headers = { 'retry-after': rateHeaders(state)['retry-after']! }
    return new ApiError(429, 'too_many_failed_tries', 'too many wrong access keys from this address; wait', { headers })
  }
}

/** Where the subject and the account of a key are. */
function placesOf({ type, enterprise_id, account_id, subject_id }: KeyRecord) {
  const account = account_id === null ? undefined : at.account(enterprise_id, account_id)
  return type === 'personal'
    ? { subject: at.user(enterprise_id, account_id!, subject_id), account }
    : { subject: at.serviceAccount(enterprise_id, account_id, subject_id), account }
}

/** Whether a key is still one of those that its subject has. Users do not count theirs. */
function owns(subject: ServiceAccountRecord | UserRecord, { id }: KeyRecord): boolean {
  return 'role' in subject || subject.key?.id === id || subject.old_key?.id === id
}

function subjectOf(record: ServiceAccountRecord | UserRecord): Subject {
  const { id, title } = record
  if ('role' in record) {
    const { email, role } = record
    return { subject: { id, email, title }, scopes: new Set(ROLE_SCOPES[role]), role }
  }
  const subject = { id, email: serviceAccountEmail(id), title }
  return { subject, scopes: new Set(record.scopes), role: undefined }
}

/** The address that stands for a service account wherever one of a subject is shown. */
export function serviceAccountEmail(id: string): string {
  return `${id}@service-account.invalid`
}

/** Of an IPv6 address the 64 bits that one customer has; otherwise the address. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '')
  if (!plain.includes(':')) return plain
  const [head = '', tail] = plain.split('%')[0]!.split('::')
  const groups = head === '' ? [] : head.split(':')
  const behind = tail === undefined || tail === '' ? [] : tail.split(':')
  while (tail !== undefined && groups.length + behind.length < 8) groups.push('0')
  return `${[...groups, ...behind]
    .slice(0, 4)
    .map(group => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}
