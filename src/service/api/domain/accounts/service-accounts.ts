import type {
  KeyedServiceAccountDocument,
  PageDocument,
  ServiceAccountDocument,
} from '../../../../daemon/client/documents.js'
import type { PageQuery, RotateInput, ServiceAccountInput } from '../../../../daemon/client/inputs.js'
import { ENTERPRISE_SCOPES, type Scope, SERVICE_SCOPES } from '../../../../daemon/client/scopes.js'
import type { Sql } from '../../store/store.js'
import type { Context } from '../context.js'
import { ApiError, notFound } from '../errors.js'
import { type AccessKeys, endOfNew } from '../keys/keys.js'
import type { Principal } from '../keys/principal.js'
import { requireGrant, requireId, requireServiceAccountManagement } from './access.js'
import { serviceAccountEmail } from './grants.js'

/** The owner of service accounts: an account, or the enterprise itself if `accountId` is null. */
interface Owner {
  readonly enterpriseId: string
  readonly accountId: string | null
}

interface Row {
  readonly id: string
  readonly enterprise_id: string
  readonly account_id: string | null
  readonly title: string
  readonly scopes: string
  readonly created_at: string
  /** Id of the current key; null if the key was revoked. */
  readonly key_id: string | null
  readonly key_created_at: string
  readonly key_expires_at: string | null
  readonly key_last_used_at: string | null
}

const ROWS = `
  SELECT s.id, s.enterprise_id, s.account_id, s.title, s.scopes, s.created_at, k.id AS key_id,
    k.created_at AS key_created_at, k.expires_at AS key_expires_at, u.at AS key_last_used_at
  FROM service_account s LEFT JOIN access_key k ON k.id = s.key_id LEFT JOIN key_use u ON u.key_id = k.id`

const idOf = ({ accountId, enterpriseId }: Owner): string => accountId ?? enterpriseId

/** Service accounts of the current account, or of the enterprise at enterprise scope. Each has one key. */
export class ServiceAccounts {
  readonly #context: Context
  readonly #keys: AccessKeys

  constructor(context: Context, keys: AccessKeys) {
    this.#context = context
    this.#keys = keys
  }

  async list(principal: Principal, page: PageQuery): Promise<PageDocument<ServiceAccountDocument>> {
    const rows = {
      text: `${ROWS} WHERE s.id > $1 AND s.owner_id = $3 ORDER BY s.id`,
      values: [idOf(ownerFor(principal))],
    }
    return this.#context.page(page, rows, (row: Row) => this.#show(row))
  }

  async get(principal: Principal, id: string): Promise<ServiceAccountDocument> {
    return this.#show(await this.#read(this.#context.store, ownerFor(principal), id))
  }

  async create(principal: Principal, input: ServiceAccountInput): Promise<KeyedServiceAccountDocument> {
    const owner = ownerFor(principal)
    const scopes = grantedScopes(principal, owner, input.scopes)
    const context = this.#context
    return context.change(principal, async (sql, audit) => {
      const theirs = 'service_account WHERE owner_id = $1'
      await context.room(sql, context.limits.serviceAccounts, 'service accounts', theirs, idOf(owner))
      const expiresAt = endOfNew(context, principal.givesUntil, input.expires_in)
      const made = await this.add(sql, owner, input.title, scopes, expiresAt)
      const { id, title, access_key } = made
      await audit('service_account.create', target(id), { title, scopes: scopes.join(' '), key_id: access_key!.id })
      return made
    })
  }

  async add(
    sql: Sql,
    owner: Owner,
    title = 'service account',
    scopes: readonly Scope[],
    expiresAt: string | null = null,
  ): Promise<KeyedServiceAccountDocument> {
    const { ids } = this.#context
    const [id, now] = [ids.next(), this.#context.time()]
    await sql.run(
      `INSERT INTO service_account (id, owner_id, enterprise_id, account_id, title, scopes, created_at)
       VALUES ($1, $2, $3, $4, $5, $6, $7)`,
      ...[id, idOf(owner), owner.enterpriseId, owner.accountId, title, JSON.stringify(scopes), now],
    )
    const key = await this.#addKey(sql, owner, id, expiresAt)
    return { ...this.#show(await this.#read(sql, owner, id)), key, old_key_valid_until: null }
  }

  /** Issues a new key, even if the old key was revoked. Ends the old key now, or after the requested grace period. */
  async rotate(principal: Principal, id: string, input: RotateInput): Promise<KeyedServiceAccountDocument> {
    const owner = ownerFor(principal)
    const context = this.#context
    return context.change(principal, async (sql, audit) => {
      const before = await this.#read(sql, owner, id)
      requireGrant(principal, JSON.parse(before.scopes))
      const expiresAt = endOfNew(context, principal.givesUntil, input.expires_in)
      // Only the current key may get a grace period. Earlier keys end now.
      const until = await this.#grace(sql, before.key_id, input.grace ?? 0)
      await this.#keys.revoke(sql, id, until === null ? '' : before.key_id!)
      const key = await this.#addKey(sql, owner, id, expiresAt)
      const after = this.#show(await this.#read(sql, owner, id))
      const details = { key_id: after.access_key!.id, old_key_id: before.key_id, old_key_valid_until: until }
      await audit('service_account.rotate', target(id), details)
      return { ...after, key, old_key_valid_until: until }
    })
  }

  /** Makes a key end after `graceMs` at the latest. Resolves with the end of the key; null without a grace period. */
  async #grace(sql: Sql, key: string | null, graceMs: number): Promise<string | null> {
    if (key === null || graceMs === 0) return null
    const [now, then] = [this.#context.time(), this.#context.time(graceMs)]
    const left = await sql.get<{ expires_at: string }>(
      `UPDATE access_key SET expires_at = CASE WHEN expires_at <= $3 THEN expires_at ELSE $3 END
       WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2) RETURNING expires_at`,
      ...[key, now, then],
    )
    return left?.expires_at ?? null
  }

  /** Immediately revokes the key of the service account, and also an old key that still has a grace period. */
  async revoke(principal: Principal, id: string): Promise<void> {
    await this.#end(principal, id, 'service_account.revoke', 'UPDATE service_account SET key_id = NULL WHERE id = $1')
  }

  async remove(principal: Principal, id: string): Promise<void> {
    await this.#end(principal, id, 'service_account.remove', 'DELETE FROM service_account WHERE id = $1')
  }

  async #end(principal: Principal, id: string, action: string, statement: string): Promise<void> {
    const owner = ownerFor(principal)
    await this.#context.change(principal, async (sql, audit) => {
      const { title } = await this.#read(sql, owner, id)
      await this.#keys.revoke(sql, id)
      await sql.run(statement, id)
      await audit(action, target(id), { title })
    })
  }

  async #addKey(sql: Sql, owner: Owner, subject_id: string, expires_at: string | null): Promise<string> {
    const { enterpriseId: enterprise_id, accountId: account_id } = owner
    const type = account_id === null ? 'enterprise_service_account' : 'service_account'
    const { key, document } = await this.#keys.add(sql, { type, subject_id, enterprise_id, account_id, expires_at })
    await sql.run('UPDATE service_account SET key_id = $2 WHERE id = $1', subject_id, document.id)
    return key
  }

  async #read(sql: Sql, owner: Owner, id: string): Promise<Row> {
    requireId(id, 'service account')
    const row = await sql.get<Row>(`${ROWS} WHERE s.id = $1 AND s.owner_id = $2`, id, idOf(owner))
    if (!row) throw notFound('service account')
    return row
  }

  #show(row: Row): ServiceAccountDocument {
    const { id, title, account_id, enterprise_id, scopes, created_at, key_id } = row
    const { key_created_at, key_expires_at: expires_at, key_last_used_at: last_used_at } = row
    const key = key_id && this.#keys.show({ id: key_id, created_at: key_created_at, expires_at, last_used_at })
    const email = serviceAccountEmail(id)
    const own = JSON.parse(scopes)
    return { id, title, email, account_id, enterprise_id, scopes: own, created_at, access_key: key || null }
  }
}

const target = (id: string) => ({ type: 'service_account', id })

function ownerFor(principal: Principal): Owner {
  requireServiceAccountManagement(principal)
  return { enterpriseId: principal.enterpriseId, accountId: principal.account?.id ?? null }
}

/** Default: all scopes that the caller has and that this kind of service account can have. */
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
