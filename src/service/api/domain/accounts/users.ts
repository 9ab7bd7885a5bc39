import type { InvitedUserDocument, PageDocument, UserDocument } from '../../../../daemon/client/documents.js'
import type { InvitationInput, PageQuery, UserInput, UserUpdate } from '../../../../daemon/client/inputs.js'
import { ROLE_SCOPES } from '../../../../daemon/client/scopes.js'
import type { Sql } from '../../store/store.js'
import type { Context } from '../context.js'
import { ApiError, notFound } from '../errors.js'
import { type AccessKeys, endOfNew, NEVER } from '../keys/keys.js'
import type { Principal } from '../keys/principal.js'
import { requireGrant, requireId, requireUserManagement } from './access.js'

/** Validity of a new user's first key. */
const INVITATION_MS = 7 * 86_400_000

interface Row extends UserDocument {
  readonly enterprise_id: string
}

const ROW = 'SELECT id, email, title, role, account_id, enterprise_id, created_at FROM person'

export class Users {
  readonly #context: Context
  readonly #keys: AccessKeys

  constructor(context: Context, keys: AccessKeys) {
    this.#context = context
    this.#keys = keys
  }

  async list(principal: Principal, page: PageQuery): Promise<PageDocument<UserDocument>> {
    const { id } = requireUserManagement(principal)
    const rows = {
      text: `${ROW} WHERE id > $1 AND account_id = $3 ORDER BY id`,
      values: [id],
    }
    return this.#context.page(page, rows, show)
  }

  async get(principal: Principal, id: string): Promise<UserDocument> {
    return show(await this.#read(this.#context.store, principal, id))
  }

  /** Creates a user with a first key. The user can create other keys with it. */
  async create(principal: Principal, input: UserInput): Promise<InvitedUserDocument> {
    const account = requireUserManagement(principal)
    requireGrant(principal, ROLE_SCOPES[input.role])
    const context = this.#context
    return context.change(principal, async (sql, audit) => {
      const { email, role } = input
      if (await sql.get('SELECT id FROM person WHERE account_id = $1 AND email = $2', account.id, email)) throw taken()
      await context.room(sql, context.limits.users, 'users in an account', 'person WHERE account_id = $1', account.id)
      const owner = { id: account.id, enterprise_id: principal.enterpriseId }
      const made = await this.add(sql, owner, input, principal.givesUntil)
      await audit('user.create', target(made.id), { email, role, key_id: made.key_id })
      return made
    })
  }

  /** Adds a user and a first key. If `expires_in` is null, the key does not expire. For `givesUntil`, see NewKey. */
  async add(
    sql: Sql,
    account: { readonly id: string; readonly enterprise_id: string },
    input: Omit<UserInput, 'expires_in' | 'title'> & {
      title?: string | undefined
      expires_in?: number | null | undefined
    },
    givesUntil: string | null,
  ): Promise<InvitedUserDocument> {
    const row: Row = {
      id: this.#context.ids.next(),
      enterprise_id: account.enterprise_id,
      account_id: account.id,
      email: input.email,
      title: input.title ?? input.email,
      role: input.role,
      created_at: this.#context.time(),
    }
    await sql.run(
      `INSERT INTO person (id, enterprise_id, account_id, email, title, role, created_at)
       VALUES ($1, $2, $3, $4, $5, $6, $7)`,
      ...[row.id, row.enterprise_id, row.account_id, row.email, row.title, row.role, row.created_at],
    )
    return { ...show(row), ...(await this.#addFirstKey(sql, row, input.expires_in, givesUntil)) }
  }

  /** Changes the role or the title. A new role applies to the keys of the user immediately. */
  async update(principal: Principal, id: string, input: UserUpdate): Promise<UserDocument> {
    requireUserManagement(principal)
    return this.#context.change(principal, async (sql, audit) => {
      const before = await this.#read(sql, principal, id)
      // A caller cannot assign or remove a role with more scopes than their key has.
      requireGrant(principal, [...ROLE_SCOPES[before.role], ...ROLE_SCOPES[input.role]])
      const after = { ...before, role: input.role, title: input.title ?? before.title }
      if (after.role !== 'manager') await requireOtherManager(sql, before)
      await sql.run('UPDATE person SET role = $2, title = $3 WHERE id = $1', id, after.role, after.title)
      await audit('user.update', target(id), { role: after.role, role_before: before.role })
      return show(after)
    })
  }

  /** Issues a new first key to a user who lost the old one. */
  async invite(principal: Principal, id: string, input: InvitationInput): Promise<InvitedUserDocument> {
    requireUserManagement(principal)
    return this.#context.change(principal, async (sql, audit) => {
      const row = await this.#read(sql, principal, id)
      requireGrant(principal, ROLE_SCOPES[row.role])
      await this.#keys.makeRoom(sql, id)
      const first = await this.#addFirstKey(sql, row, input.expires_in, principal.givesUntil)
      await audit('user.invite', target(id), { key_id: first.key_id })
      return { ...show(row), ...first }
    })
  }

  async remove(principal: Principal, id: string): Promise<void> {
    requireUserManagement(principal)
    await this.#context.change(principal, async (sql, audit) => {
      const before = await this.#read(sql, principal, id)
      requireGrant(principal, ROLE_SCOPES[before.role])
      await requireOtherManager(sql, before)
      const ended = 'UPDATE access_key SET revoked_at = $2 WHERE subject_id = $1 AND revoked_at IS NULL'
      const keys = await sql.run(ended, id, this.#context.time())
      await sql.run('DELETE FROM person WHERE id = $1', id)
      await audit('user.remove', target(id), { email: before.email, keys })
    })
  }

  /** Adds a first key. Keys that the user creates with it may outlast the first key, but not `givesUntil`. */
  async #addFirstKey(sql: Sql, user: Row, expiresIn: number | null | undefined, givesUntil: string | null) {
    const { key, document } = await this.#keys.add(sql, {
      type: 'personal',
      subject_id: user.id,
      enterprise_id: user.enterprise_id,
      account_id: user.account_id,
      title: 'first key',
      expires_at: expiresIn === null ? null : endOfNew(this.#context, givesUntil, expiresIn, INVITATION_MS),
      gives_until: givesUntil ?? NEVER,
    })
    return { key, key_id: document.id, expires_at: document.expires_at }
  }

  async #read(sql: Sql, principal: Principal, id: string): Promise<Row> {
    const account = requireUserManagement(principal)
    requireId(id, 'user')
    const row = await sql.get<Row>(`${ROW} WHERE id = $1 AND account_id = $2`, id, account.id)
    if (!row) throw notFound('user')
    return row
  }
}

const target = (id: string) => ({ type: 'user', id })

/** Throws ApiError 409 if this user is the only manager of the account. */
async function requireOtherManager(sql: Sql, { id, account_id, role }: Row): Promise<void> {
  if (role !== 'manager') return
  const other = "SELECT id FROM person WHERE account_id = $1 AND role = 'manager' AND id <> $2 LIMIT 1"
  if (await sql.get(other, account_id, id)) return
  throw new ApiError(409, 'last_manager', 'this is the last manager of the account; make another user a manager first')
}

function taken(): ApiError {
  return new ApiError(409, 'email_taken', 'the account already has a user with this e-mail address')
}

function show({ id, email, title, role, account_id, created_at }: Row): UserDocument {
  return { id, email, title, role, account_id, created_at }
}
