import type {
  AccountDocument,
  ChangedFeatureDocument,
  CreatedAccountDocument,
  FeatureDocument,
  PageDocument,
} from '../../../../daemon/client/documents.js'
import type { AccountInput, PageQuery } from '../../../../daemon/client/inputs.js'
import { ROLE_SCOPES } from '../../../../daemon/client/scopes.js'
import type { Sql } from '../../store/store.js'
import type { Context } from '../context.js'
import { notFound } from '../errors.js'
import type { Principal } from '../keys/principal.js'
import type { Pipelines } from '../pipelines/pipelines.js'
import {
  requireAccount,
  requireEnterprise,
  requireFeatureManagement,
  requireGrant,
  requirePipelineRead,
} from './access.js'
import { FEATURES } from './features.js'
import type { Users } from './users.js'

interface Row extends Omit<AccountDocument, 'features'> {
  readonly features: string
}

const ROW = 'SELECT id, short_id, title, enterprise_id, features, created_at FROM account'

export class Accounts {
  readonly #context: Context
  readonly #users: Users
  readonly #pipelines: Pipelines

  constructor(context: Context, users: Users, pipelines: Pipelines) {
    this.#context = context
    this.#users = users
    this.#pipelines = pipelines
  }

  /** Lists the accounts of the enterprise. Requires an enterprise token without delegation. */
  async list(principal: Principal, page: PageQuery): Promise<PageDocument<AccountDocument>> {
    requireEnterprise(principal)
    const rows = {
      text: `${ROW} WHERE id > $1 AND enterprise_id = $3 ORDER BY id`,
      values: [principal.enterpriseId],
    }
    return this.#context.page(page, rows, show)
  }

  async create(principal: Principal, { title, manager }: AccountInput): Promise<CreatedAccountDocument> {
    requireEnterprise(principal)
    if (manager) requireGrant(principal, ROLE_SCOPES.manager)
    const context = this.#context
    const { enterpriseId, givesUntil } = principal
    return context.change(principal, async (sql, audit) => {
      const theirs = 'account WHERE enterprise_id = $1'
      await context.room(sql, context.limits.accounts, 'accounts in an enterprise', theirs, enterpriseId)
      const account = await this.add(sql, enterpriseId, title)
      const first = manager && (await this.#users.add(sql, account, { ...manager, role: 'manager' }, givesUntil))
      await audit(
        'account.create',
        { type: 'account', id: account.id },
        first ? { title, manager_id: first.id } : { title },
      )
      return { ...account, ...(first ? { manager: first } : {}) }
    })
  }

  async add(sql: Sql, enterprise_id: string, title: string): Promise<AccountDocument> {
    const { ids } = this.#context
    let short_id = ids.short()
    while (await sql.get('SELECT id FROM account WHERE short_id = $1', short_id)) short_id = ids.short()
    const row: Row = {
      id: ids.next(),
      short_id,
      title,
      enterprise_id,
      features: '{}',
      created_at: this.#context.time(),
    }
    await sql.run(
      `INSERT INTO account (id, short_id, title, enterprise_id, features, created_at)
       VALUES ($1, $2, $3, $4, $5, $6)`,
      ...[row.id, short_id, title, enterprise_id, row.features, row.created_at],
    )
    return show(row)
  }

  async current(principal: Principal): Promise<AccountDocument> {
    return show(await read(this.#context.store, requireAccount(principal)))
  }

  /** Returns a beta feature, and the published pipelines that use it. Throws 404 for an unknown feature. */
  async feature(principal: Principal, name: string): Promise<FeatureDocument> {
    const { id } = requirePipelineRead(principal)
    requireFeature(name)
    const { features } = await read(this.#context.store, { id })
    const pipelines = await this.#pipelines.requiring(name, id)
    return { name, enabled: JSON.parse(features)[name] === true, pipelines }
  }

  /** Enables or disables a beta feature. Throws 404 for an unknown feature. Requires the personal key of a manager. */
  async setFeature(principal: Principal, feature: string, enabled: boolean): Promise<ChangedFeatureDocument> {
    const { id } = requireFeatureManagement(principal)
    requireFeature(feature)
    const account = await this.#context.change(principal, async (sql, audit) => {
      const before = await read(sql, { id })
      const features = JSON.parse(before.features)
      if ((features[feature] === true) === enabled) return show(before)
      const after = { ...before, features: JSON.stringify({ ...features, [feature]: enabled }) }
      await sql.run('UPDATE account SET features = $2 WHERE id = $1', id, after.features)
      await audit('account.feature', { type: 'account', id }, { feature, enabled })
      return show(after)
    })
    return { ...account, stopped_pipelines: enabled ? [] : await this.#pipelines.requiring(feature, id) }
  }
}

function requireFeature(name: string): void {
  if (!Object.hasOwn(FEATURES, name)) throw notFound('feature')
}

async function read(sql: Sql, { id }: { readonly id: string }): Promise<Row> {
  const row = await sql.get<Row>(`${ROW} WHERE id = $1`, id)
  if (!row) throw notFound('account')
  return row
}

function show({ id, short_id, title, enterprise_id, features, created_at }: Row): AccountDocument {
  const throttle = JSON.parse(features).throttle === true
  return { id, short_id, title, enterprise_id, features: { throttle }, created_at }
}
