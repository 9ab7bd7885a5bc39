import type { Change, Expected } from '../../store/store.js'
import { type Context, mapPage } from '../context.js'
import type { InvitedUserDocument, Page, UserDocument } from '../documents.js'
import { ApiError, notFound } from '../errors.js'
import type { InvitationInput, PageQuery, UserInput, UserUpdate } from '../inputs.js'
import { endOfNew, type Keys } from '../keys/keys.js'
import type { Principal } from '../keys/principal.js'
import { keyChanges } from '../keys/user-keys.js'
import { type AccountRecord, at, type UserKeyRecord, type UserRecord } from '../records.js'
import { requireGrant, requireId, requireUserManagement } from './access.js'
import { ROLE_SCOPES } from './scopes.js'

/** Validity of a new user's first key. */
const INVITATION_MS = 7 * 86_400_000

export interface MadeUser {
  readonly record: UserRecord
  readonly document: InvitedUserDocument
  readonly changes: readonly Change[]
}

/** Users of the account acted in. */
export class Users {
  readonly #context: Context
  readonly #keys: Keys

  constructor(context: Context, keys: Keys) {
    this.#context = context
    this.#keys = keys
  }

  async list(principal: Principal, page: PageQuery): Promise<Page<UserDocument>> {
    const { id } = requireUserManagement(principal)
    return mapPage(await this.#context.page<UserRecord>(at.users(principal.enterpriseId, id), page), show)
  }

  async get(principal: Principal, id: string): Promise<UserDocument> {
    return show(await this.#read(principal, id))
  }

  /** Creates a user with a first key, with which that person can create others. */
  async create(principal: Principal, input: UserInput): Promise<InvitedUserDocument> {
    const account = requireUserManagement(principal)
    requireGrant(principal, ROLE_SCOPES[input.role])
    const context = this.#context
    const { enterpriseId } = principal
    return context.turns.take(account.id, async () => {
      const email = at.email(enterpriseId, account.id, input.email)
      if ((await context.read(email)) !== undefined) throw taken()
      await context.room(at.users(enterpriseId, account.id), context.limits.users, 'users in an account')
      const made = this.make({ id: account.id, enterprise_id: enterpriseId }, input, principal.givesUntil)
      const details = { email: input.email, role: input.role, key_id: made.document.key_id }
      const entry = context.audit(principal, 'user.create', { type: 'user', id: made.record.id }, details)
      await context.write([...made.changes, entry], [{ key: email, value: undefined }])
      return made.document
    })
  }

  /**
   * Prepares a user and a first key; the caller writes the changes. With `expires_in` null, the key does not expire.
   * `givesUntil` is that of the creator's key.
   */
  make(
    account: Pick<AccountRecord, 'id' | 'enterprise_id'>,
    input: Omit<UserInput, 'expires_in' | 'title'> & {
      title?: string | undefined
      expires_in?: number | null | undefined
    },
    givesUntil: string | null,
  ): MadeUser {
    const record: UserRecord = {
      id: this.#context.ids.next(),
      enterprise_id: account.enterprise_id,
      account_id: account.id,
      email: input.email,
      title: input.title ?? input.email,
      role: input.role,
      created_at: this.#context.time(),
    }
    const first = this.#firstKey(record, input.expires_in, givesUntil)
    const changes = [
      { key: at.user(record.enterprise_id, record.account_id, record.id), value: record },
      { key: at.email(record.enterprise_id, record.account_id, record.email), value: record.id },
      ...first.changes,
    ]
    return { record, changes, document: { ...show(record), ...first.shown } }
  }

  /** Takes effect on the keys of the user immediately. */
  async update(principal: Principal, id: string, input: UserUpdate): Promise<UserDocument> {
    const account = requireUserManagement(principal)
    const context = this.#context
    return context.turns.take(account.id, async () => {
      const before = await this.#read(principal, id)
      // A role with more scopes than the own key has can neither be assigned nor removed.
      requireGrant(principal, [...ROLE_SCOPES[before.role], ...ROLE_SCOPES[input.role]])
      const record: UserRecord = { ...before, role: input.role, title: input.title ?? before.title }
      const expected = record.role === 'manager' ? [] : await this.#otherManager(before)
      const details = { role: record.role, role_before: before.role }
      const entry = context.audit(principal, 'user.update', { type: 'user', id }, details)
      const key = at.user(before.enterprise_id, before.account_id, id)
      await context.write([{ key, value: record }, entry], [{ key, value: before }, ...expected])
      return show(record)
    })
  }

  /** Issues another first key to a user who lost theirs. */
  async invite(principal: Principal, id: string, input: InvitationInput): Promise<InvitedUserDocument> {
    const account = requireUserManagement(principal)
    const context = this.#context
    return context.turns.take(account.id, async () => {
      const record = await this.#read(principal, id)
      requireGrant(principal, ROLE_SCOPES[record.role])
      const first = this.#firstKey(record, input.expires_in, principal.givesUntil)
      const room = await keyChanges.room(context, record)
      const entry = context.audit(principal, 'user.invite', { type: 'user', id }, { key_id: first.shown.key_id })
      const expected = [{ key: at.user(record.enterprise_id, record.account_id, id), value: record }]
      await context.write([...room, ...first.changes, entry], expected)
      return { ...show(record), ...first.shown }
    })
  }

  /** Removes the user and all their keys. */
  async remove(principal: Principal, id: string): Promise<void> {
    const account = requireUserManagement(principal)
    const context = this.#context
    await context.turns.take(account.id, async () => {
      const before = await this.#read(principal, id)
      requireGrant(principal, ROLE_SCOPES[before.role])
      const expected = await this.#otherManager(before)
      const { enterprise_id, account_id, email } = before
      const keys = await context.store.list(at.userKeys(enterprise_id, account_id, id))
      const ended = await Promise.all(keys.map(({ value }) => this.#keys.end(value as UserKeyRecord)))
      const user = at.user(enterprise_id, account_id, id)
      const gone = [user, at.email(enterprise_id, account_id, email), ...keys.map(({ key }) => key)]
      const entry = context.audit(principal, 'user.remove', { type: 'user', id }, { email, keys: keys.length })
      const changes = [
        ...ended.flatMap(({ changes }) => changes),
        ...gone.map(key => ({ key, value: undefined })),
        entry,
      ]
      await context.write(changes, [{ key: user, value: before }, ...expected])
    })
  }

  /** Only the invitation expires, not the user: keys created with it may last until `givesUntil`. */
  #firstKey(record: UserRecord, expiresIn: number | null | undefined, givesUntil: string | null) {
    const made = this.#keys.make({
      type: 'personal',
      subjectId: record.id,
      enterpriseId: record.enterprise_id,
      accountId: record.account_id,
      scopes: null,
      expiresAt: expiresIn === null ? null : endOfNew(this.#context, givesUntil, expiresIn, INVITATION_MS),
      givesUntil,
    })
    const key: UserKeyRecord = { ...made.ref, title: 'first key', scopes: null, parent_id: null }
    return {
      changes: [...made.changes, keyChanges.put(record, key)],
      shown: { key: made.key, key_id: made.ref.id, expires_at: made.ref.expires_at },
    }
  }

  async #read(principal: Principal, id: string): Promise<UserRecord> {
    const account = requireUserManagement(principal)
    requireId(id, 'user')
    const record = await this.#context.read<UserRecord>(at.user(principal.enterpriseId, account.id, id))
    if (!record) throw notFound('user')
    return record
  }

  /** Expects that another manager remains, if this user is one. */
  async #otherManager(user: UserRecord): Promise<Expected[]> {
    if (user.role !== 'manager') return []
    const users = await this.#context.store.list(at.users(user.enterprise_id, user.account_id))
    const other = users.find(
      ({ value }) => (value as UserRecord).role === 'manager' && (value as UserRecord).id !== user.id,
    )
    if (!other)
      throw new ApiError(409, 'last_manager', 'this is the last manager of the account; make another one first')
    return [other]
  }
}

function taken(): ApiError {
  return new ApiError(409, 'email_taken', 'there is a user of this e-mail address in the account')
}

function show({ id, email, title, role, account_id, created_at }: UserRecord): UserDocument {
  return { id, email, title, role, account_id, created_at }
}
