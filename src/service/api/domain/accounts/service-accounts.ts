import type { Change } from '../../store/store.js'
import type { Context } from '../context.js'
import type { KeyedServiceAccountDocument, Page, ServiceAccountDocument } from '../documents.js'
import { ApiError, notFound } from '../errors.js'
import type { PageQuery, RotateInput, ServiceAccountInput } from '../inputs.js'
import { endOfNew, type Keys } from '../keys/keys.js'
import type { Principal } from '../keys/principal.js'
import { at, type ServiceAccountRecord } from '../records.js'
import { requireGrant, requireId, requireServiceAccountManagement } from './access.js'
import { serviceAccountEmail } from './grants.js'
import { ENTERPRISE_SCOPES, type Scope, SERVICE_SCOPES } from './scopes.js'

/** The owner of service accounts: an account, or the enterprise itself if `accountId` is null. */
interface Owner {
  readonly enterpriseId: string
  readonly accountId: string | null
}

export interface MadeServiceAccount {
  readonly record: ServiceAccountRecord
  readonly key: string
  readonly changes: readonly Change[]
}

/** Service accounts of the account acted in, or of the enterprise at enterprise scope. Each has one key. */
export class ServiceAccounts {
  readonly #context: Context
  readonly #keys: Keys

  constructor(context: Context, keys: Keys) {
    this.#context = context
    this.#keys = keys
  }

  async list(principal: Principal, page: PageQuery): Promise<Page<ServiceAccountDocument>> {
    const { enterpriseId, accountId } = ownerFor(principal)
    const found = await this.#context.page<ServiceAccountRecord>(at.serviceAccounts(enterpriseId, accountId), page)
    return { ...found, items: await Promise.all(found.items.map(record => this.#show(record))) }
  }

  async get(principal: Principal, id: string): Promise<ServiceAccountDocument> {
    return this.#show(await this.#read(ownerFor(principal), id))
  }

  async create(principal: Principal, input: ServiceAccountInput): Promise<KeyedServiceAccountDocument> {
    const owner = ownerFor(principal)
    const scopes = grantedScopes(principal, owner, input.scopes)
    const context = this.#context
    return context.turns.take(owner.accountId ?? owner.enterpriseId, async () => {
      const prefix = at.serviceAccounts(owner.enterpriseId, owner.accountId)
      await context.room(prefix, context.limits.serviceAccounts, 'service accounts')
      const expiresAt = endOfNew(context, principal.givesUntil, input.expires_in)
      const made = this.make(owner, input.title, scopes, expiresAt)
      const { record } = made
      const details = { title: record.title, scopes: scopes.join(' '), key_id: record.key!.id }
      const entry = context.audit(principal, 'service_account.create', target(record.id), details)
      await context.write([...made.changes, entry], [{ key: keyOf(record), value: undefined }])
      return { ...(await this.#show(record)), key: made.key, old_key_valid_until: null }
    })
  }

  /** Prepares a service account and its key; the caller writes the changes. */
  make(
    { enterpriseId, accountId }: Owner,
    title: string | undefined,
    scopes: readonly Scope[],
    expiresAt: string | null = null,
  ): MadeServiceAccount {
    const id = this.#context.ids.next()
    const made = this.#makeKey({ id, enterprise_id: enterpriseId, account_id: accountId }, expiresAt)
    const record: ServiceAccountRecord = {
      id,
      enterprise_id: enterpriseId,
      account_id: accountId,
      title: title ?? 'service account',
      scopes,
      created_at: this.#context.time(),
      key: made.ref,
      old_key: null,
    }
    return { record, key: made.key, changes: [{ key: keyOf(record), value: record }, ...made.changes] }
  }

  /** Issues a new key, also if the old one was revoked. The old one ends immediately, or after the requested grace. */
  async rotate(principal: Principal, id: string, input: RotateInput): Promise<KeyedServiceAccountDocument> {
    const owner = ownerFor(principal)
    const context = this.#context
    return context.turns.take(owner.accountId ?? owner.enterpriseId, async () => {
      const before = await this.#read(owner, id)
      requireGrant(principal, before.scopes)
      const made = this.#makeKey(before, endOfNew(context, principal.givesUntil, input.expires_in))
      const older = await this.#keys.end(before.old_key)
      const old = await this.#keys.end(before.key, input.grace)
      const record: ServiceAccountRecord = { ...before, key: made.ref, old_key: old.left }
      const until = old.left?.expires_at ?? null
      const details = { key_id: made.ref.id, old_key_id: before.key?.id ?? null, old_key_valid_until: until }
      const entry = context.audit(principal, 'service_account.rotate', target(id), details)
      await context.write(
        [...older.changes, ...old.changes, ...made.changes, { key: keyOf(before), value: record }, entry],
        [{ key: keyOf(before), value: before }],
      )
      return { ...(await this.#show(record)), key: made.key, old_key_valid_until: until }
    })
  }

  /** Revokes its key, and one in a grace period, immediately. */
  async revoke(principal: Principal, id: string): Promise<void> {
    await this.#end(principal, id, 'service_account.revoke', before => ({ ...before, key: null, old_key: null }))
  }

  async remove(principal: Principal, id: string): Promise<void> {
    await this.#end(principal, id, 'service_account.remove', () => undefined)
  }

  async #end(
    principal: Principal,
    id: string,
    action: string,
    after: (before: ServiceAccountRecord) => ServiceAccountRecord | undefined,
  ): Promise<void> {
    const owner = ownerFor(principal)
    const context = this.#context
    await context.turns.take(owner.accountId ?? owner.enterpriseId, async () => {
      const before = await this.#read(owner, id)
      const ended = [...(await this.#keys.end(before.key)).changes, ...(await this.#keys.end(before.old_key)).changes]
      const entry = context.audit(principal, action, target(id), { title: before.title })
      const key = keyOf(before)
      await context.write([...ended, { key, value: after(before) }, entry], [{ key, value: before }])
    })
  }

  #makeKey(
    { id, enterprise_id, account_id }: Pick<ServiceAccountRecord, 'id' | 'enterprise_id' | 'account_id'>,
    expiresAt: string | null,
  ) {
    return this.#keys.make({
      type: account_id === null ? 'enterprise_service_account' : 'service_account',
      subjectId: id,
      enterpriseId: enterprise_id,
      accountId: account_id,
      scopes: null,
      expiresAt,
    })
  }

  async #read({ enterpriseId, accountId }: Owner, id: string): Promise<ServiceAccountRecord> {
    requireId(id, 'service account')
    const record = await this.#context.read<ServiceAccountRecord>(at.serviceAccount(enterpriseId, accountId, id))
    if (!record) throw notFound('service account')
    return record
  }

  async #show(record: ServiceAccountRecord): Promise<ServiceAccountDocument> {
    const { id, title, account_id, enterprise_id, scopes, created_at, key } = record
    return {
      id,
      title,
      email: serviceAccountEmail(id),
      account_id,
      enterprise_id,
      scopes: [...scopes],
      created_at,
      access_key: key && (await this.#keys.show(key)),
    }
  }
}

const target = (id: string) => ({ type: 'service_account', id })
const keyOf = ({ enterprise_id, account_id, id }: ServiceAccountRecord) =>
  at.serviceAccount(enterprise_id, account_id, id)

function ownerFor(principal: Principal): Owner {
  requireServiceAccountManagement(principal)
  return { enterpriseId: principal.enterpriseId, accountId: principal.account?.id ?? null }
}

/** By default all scopes that its kind can have and the caller has. */
function grantedScopes(principal: Principal, { accountId }: Owner, wanted: readonly Scope[] | undefined): Scope[] {
  const possible: readonly Scope[] = accountId === null ? ENTERPRISE_SCOPES : SERVICE_SCOPES
  const errors = (wanted ?? []).flatMap((scope, i) =>
    possible.includes(scope) ? [] : [{ path: `scopes[${i}]`, message: `must be one of ${possible.join(', ')}` }],
  )
  if (errors.length > 0)
    throw new ApiError(400, 'invalid_request', 'a service account cannot have this scope', { errors })
  const scopes = wanted ?? possible.filter(scope => principal.scopes.has(scope))
  requireGrant(principal, scopes.length > 0 ? scopes : possible)
  return [...scopes]
}
