import type { Change } from '../../store/store.js'
import { requireGrant, requireId, requireUserKeys } from '../accounts/access.js'
import { ROLE_SCOPES, type Scope } from '../accounts/scopes.js'
import { type Context, tooMany } from '../context.js'
import type { CreatedUserKeyDocument, Page, UserKeyDocument } from '../documents.js'
import { notFound, unauthorized } from '../errors.js'
import type { PageQuery, UserKeyInput } from '../inputs.js'
import { at, type UserKeyRecord, type UserRecord } from '../records.js'
import { endOfNew, isOver, type Keys } from './keys.js'
import type { Principal } from './principal.js'

type Owner = Pick<UserRecord, 'id' | 'enterprise_id' | 'account_id'>

/** Changes of the list of a user's keys. */
export const keyChanges = {
  put: ({ enterprise_id, account_id, id }: Owner, record: UserKeyRecord): Change => ({
    key: at.userKey(enterprise_id, account_id, id, record.id),
    value: record,
  }),

  /** Makes room for one more key: removes expired ones if the list is full, and throws if there are none. */
  async room(context: Context, { enterprise_id, account_id, id }: Owner): Promise<Change[]> {
    const entries = await context.store.list(at.userKeys(enterprise_id, account_id, id))
    const most = context.limits.keysPerUser
    if (entries.length < most) return []
    const over = entries.filter(({ value }) => isOver((value as UserKeyRecord).expires_at, context.time()))
    if (entries.length - over.length >= most) throw tooMany(most, 'personal keys of a user')
    return over.flatMap(({ key, value }) => {
      const { hash, id, expires_at } = value as UserKeyRecord
      return [key, at.key(hash), at.keyUse(id), at.keyEnd(expires_at!, id)].map(key => ({ key, value: undefined }))
    })
  },
}

/** Personal keys of the calling user. */
export class UserKeys {
  readonly #context: Context
  readonly #keys: Keys

  constructor(context: Context, keys: Keys) {
    this.#context = context
    this.#keys = keys
  }

  async list(principal: Principal, page: PageQuery): Promise<Page<UserKeyDocument>> {
    const { enterprise_id, account_id, id } = ownerOf(principal)
    const found = await this.#context.page<UserKeyRecord>(at.userKeys(enterprise_id, account_id, id), page)
    return { ...found, items: await Promise.all(found.items.map(record => this.#show(record))) }
  }

  async create(principal: Principal, input: UserKeyInput): Promise<CreatedUserKeyDocument> {
    const owner = ownerOf(principal)
    const context = this.#context
    return context.turns.take(owner.account_id, async () => {
      const scopes = grantedScopes(principal, input.scopes)
      const made = this.#keys.make({
        type: 'personal',
        subjectId: owner.id,
        enterpriseId: owner.enterprise_id,
        accountId: owner.account_id,
        scopes,
        expiresAt: endOfNew(context, principal.givesUntil, input.expires_in),
      })
      const record: UserKeyRecord = { ...made.ref, title: input.title ?? '', scopes, parent_id: principal.keyId }
      const user = at.user(owner.enterprise_id, owner.account_id, owner.id)
      const expected = await context.read(user)
      // Neither a user who was removed in the meantime nor the holder of a revoked key may get a new key.
      if (expected === undefined) throw notFound('user')
      const own = at.userKey(owner.enterprise_id, owner.account_id, owner.id, principal.keyId)
      const parent = await context.read(own)
      if (parent === undefined) throw unauthorized('revoked', 'this access key was revoked; use another one')
      const room = await keyChanges.room(context, owner)
      const details = { scopes: scopes === null ? null : scopes.join(' '), expires_at: record.expires_at }
      const entry = context.audit(principal, 'user_key.create', { type: 'user_key', id: record.id }, details)
      await context.write(
        [...room, ...made.changes, keyChanges.put(owner, record), entry],
        [
          { key: user, value: expected },
          { key: own, value: parent },
        ],
      )
      return { ...(await this.#show(record)), key: made.key }
    })
  }

  /** Revokes a key and all keys created with it, except the key of the caller. */
  async revoke(principal: Principal, id: string): Promise<void> {
    const owner = ownerOf(principal)
    requireId(id, 'key')
    const context = this.#context
    await context.turns.take(owner.account_id, async () => {
      const key = at.userKey(owner.enterprise_id, owner.account_id, owner.id, id)
      const record = await context.read<UserKeyRecord>(key)
      if (!record) throw notFound('key')
      const entries = await context.store.list(at.userKeys(owner.enterprise_id, owner.account_id, owner.id))
      const all = entries.map(({ value }) => value as UserKeyRecord)
      const { ended, kept } = madeWith(record, all, principal.keyId)
      const changes: Change[] = []
      for (const one of [record, ...ended]) {
        changes.push(...(await this.#keys.end(one)).changes)
        changes.push({ ...keyChanges.put(owner, one), value: undefined })
      }
      // It takes the place of the key that it was created with.
      if (kept) changes.push(keyChanges.put(owner, { ...kept, parent_id: record.parent_id ?? null }))
      const details = ended.length > 0 ? { also_revoked: ended.map(({ id }) => id).join(' ') } : {}
      const audited = context.audit(principal, 'user_key.revoke', { type: 'user_key', id }, details)
      await context.write([...changes, audited], [{ key, value: record }])
    })
  }

  async #show(record: UserKeyRecord): Promise<UserKeyDocument> {
    return { ...(await this.#keys.show(record)), title: record.title, scopes: record.scopes && [...record.scopes] }
  }
}

/** The keys that end together with `revoked`: those created with it, recursively. `asking` and its descendants stay. */
function madeWith(
  revoked: UserKeyRecord,
  all: readonly UserKeyRecord[],
  asking: string,
): { ended: UserKeyRecord[]; kept: UserKeyRecord | undefined } {
  const ended: UserKeyRecord[] = []
  let kept: UserKeyRecord | undefined
  const parents = [revoked.id]
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const key of all) {
      if (key.parent_id !== parent) continue
      if (key.id === asking) kept = key
      else {
        ended.push(key)
        parents.push(key.id)
      }
    }
  }
  return { ended, kept }
}

function ownerOf(principal: Principal): Owner {
  const { id: account_id } = requireUserKeys(principal)
  return { id: principal.subject.id, enterprise_id: principal.enterpriseId, account_id }
}

/** null: all scopes of the role. A narrowed key creates keys that are narrowed alike. */
function grantedScopes(principal: Principal, wanted: readonly Scope[] | undefined): readonly Scope[] | null {
  if (wanted) {
    requireGrant(principal, wanted)
    return wanted
  }
  const whole = ROLE_SCOPES[principal.role!].every(scope => principal.scopes.has(scope))
  return whole ? null : [...principal.scopes]
}
