import type {
  CreatedUserKeyDocument,
  KeyDocument,
  PageDocument,
  UserKeyDocument,
} from '../../../../daemon/client/documents.js'
import type { PageQuery, UserKeyInput } from '../../../../daemon/client/inputs.js'
import type { Scope } from '../../../../daemon/client/scopes.js'
import { requireGrant, requireId, requireUserKeys } from '../accounts/access.js'
import type { Context } from '../context.js'
import { notFound, unauthorized } from '../errors.js'
import { type AccessKeys, endOfNew } from './keys.js'
import type { Principal } from './principal.js'

interface Row extends KeyDocument {
  readonly title: string
  readonly scopes: string | null
  readonly parent_id: string | null
}

/** Keys that were not revoked. Includes expired keys that are not deleted yet. */
const ROWS = `
  SELECT k.id, k.title, k.scopes, k.parent_id, k.created_at, k.expires_at, u.at AS last_used_at
  FROM access_key k LEFT JOIN key_use u ON u.key_id = k.id WHERE k.revoked_at IS NULL`

export class UserKeys {
  readonly #context: Context
  readonly #keys: AccessKeys

  constructor(context: Context, keys: AccessKeys) {
    this.#context = context
    this.#keys = keys
  }

  async list(principal: Principal, page: PageQuery): Promise<PageDocument<UserKeyDocument>> {
    requireUserKeys(principal)
    const rows = {
      text: `${ROWS} AND k.id > $1 AND k.subject_id = $3 ORDER BY k.id`,
      values: [principal.subject.id],
    }
    return this.#context.page(page, rows, (row: Row) => this.#show(row))
  }

  async create(principal: Principal, input: UserKeyInput): Promise<CreatedUserKeyDocument> {
    const account = requireUserKeys(principal)
    const context = this.#context
    return context.change(principal, async (sql, audit) => {
      const scopes = grantedScopes(principal, input.scopes)
      const expires_at = endOfNew(context, principal.givesUntil, input.expires_in)
      const { subject, enterpriseId, keyId } = principal
      // Users who were removed in the meantime, and holders of a revoked key, may not get a new key.
      if (!(await sql.get('SELECT id FROM person WHERE id = $1', subject.id))) throw notFound('user')
      if (!(await sql.get(`${ROWS} AND k.id = $1`, keyId)))
        throw unauthorized('revoked', 'this access key was revoked; use another key')
      await this.#keys.makeRoom(sql, subject.id)
      const { key, document } = await this.#keys.add(sql, {
        type: 'personal',
        subject_id: subject.id,
        enterprise_id: enterpriseId,
        account_id: account.id,
        title: input.title ?? '',
        scopes: scopes && JSON.stringify(scopes),
        parent_id: keyId,
        expires_at,
      })
      await audit('user_key.create', target(document.id), { scopes: scopes?.join(' ') ?? null, expires_at })
      return { ...this.#keys.show(document), title: input.title ?? '', scopes: scopes && [...scopes], key }
    })
  }

  /** Revokes a key and all keys created with it, except the key of the caller. */
  async revoke(principal: Principal, id: string): Promise<void> {
    requireUserKeys(principal)
    requireId(id, 'key')
    const { subject, keyId } = principal
    await this.#context.change(principal, async (sql, audit) => {
      const revoked = await sql.get<Row>(`${ROWS} AND k.id = $1 AND k.subject_id = $2`, id, subject.id)
      if (!revoked) throw notFound('key')
      const ended = await sql.all<{ id: string }>(
        `WITH RECURSIVE made (id) AS (
           SELECT id FROM access_key WHERE id = $1
           UNION
           SELECT k.id FROM access_key k JOIN made ON k.parent_id = made.id
           WHERE k.subject_id = $2 AND k.id <> $3 AND k.revoked_at IS NULL
         )
         SELECT id FROM made ORDER BY id`,
        ...[id, subject.id, keyId],
      )
      for (const one of ended)
        await sql.run('UPDATE access_key SET revoked_at = $2 WHERE id = $1', one.id, this.#context.time())
      // The caller's key stays valid, with its own children, and becomes a child of the revoked key's parent.
      const kept = ended.map(one => one.id)
      for (const parent of kept)
        await sql.run(
          'UPDATE access_key SET parent_id = $3 WHERE id = $1 AND parent_id = $2',
          ...[keyId, parent, revoked.parent_id],
        )
      const also = kept.filter(one => one !== id)
      await audit('user_key.revoke', target(id), also.length > 0 ? { also_revoked: also.join(' ') } : {})
    })
  }

  #show(row: Row): UserKeyDocument {
    return { ...this.#keys.show(row), title: row.title, scopes: row.scopes === null ? null : JSON.parse(row.scopes) }
  }
}

const target = (id: string) => ({ type: 'user_key', id })

/** The scopes of a new key; null: all scopes of the role. Default: the scopes of the caller's key. */
function grantedScopes(principal: Principal, wanted: readonly Scope[] | undefined): readonly Scope[] | null {
  if (wanted) {
    requireGrant(principal, wanted)
    return wanted
  }
  // A list stays a list, even if it has all scopes of the role: the user may get a role with more scopes.
  return principal.isNarrowed ? [...principal.scopes] : null
}
