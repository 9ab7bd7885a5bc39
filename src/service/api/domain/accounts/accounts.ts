import type { Change } from '../../store/store.js'
import { type Context, mapPage } from '../context.js'
import type { AccountDocument, CreatedAccountDocument, Page } from '../documents.js'
import { notFound } from '../errors.js'
import type { AccountInput, PageQuery } from '../inputs.js'
import type { Principal } from '../keys/principal.js'
import { type AccountRecord, at } from '../records.js'
import { requireAccount, requireEnterprise, requireFeatureManagement, requireGrant } from './access.js'
import { FEATURES } from './features.js'
import { ROLE_SCOPES } from './scopes.js'
import type { Users } from './users.js'

export class Accounts {
  readonly #context: Context
  readonly #users: Users

  constructor(context: Context, users: Users) {
    this.#context = context
    this.#users = users
  }

  /** Accounts of the enterprise. Enterprise tokens only, without delegation. */
  async list(principal: Principal, page: PageQuery): Promise<Page<AccountDocument>> {
    requireEnterprise(principal)
    return mapPage(await this.#context.page<AccountRecord>(at.accounts(principal.enterpriseId), page), show)
  }

  async create(principal: Principal, { title, manager }: AccountInput): Promise<CreatedAccountDocument> {
    requireEnterprise(principal)
    if (manager) requireGrant(principal, ROLE_SCOPES.manager)
    const context = this.#context
    const { enterpriseId } = principal
    return context.turns.take(enterpriseId, async () => {
      await context.room(at.accounts(enterpriseId), context.limits.accounts, 'accounts in an enterprise')
      const { record, changes, expected } = await this.make(enterpriseId, title)
      const first = manager && this.#users.make(record, { ...manager, role: 'manager' }, principal.givesUntil)
      const details = first ? { title, manager_id: first.record.id } : { title }
      const entry = context.audit(principal, 'account.create', { type: 'account', id: record.id }, details)
      await context.write([...changes, ...(first?.changes ?? []), entry], expected)
      return { ...show(record), ...(first ? { manager: first.document } : {}) }
    })
  }

  /** Prepares another account; the caller writes the changes. */
  async make(
    enterpriseId: string,
    title: string,
  ): Promise<{ record: AccountRecord; changes: Change[]; expected: Change[] }> {
    const context = this.#context
    let shortId = context.ids.short()
    while ((await context.read(at.shortId(shortId))) !== undefined) shortId = context.ids.short()
    const record: AccountRecord = {
      id: context.ids.next(),
      short_id: shortId,
      title,
      enterprise_id: enterpriseId,
      features: {},
      created_at: context.time(),
    }
    const changes = [
      { key: at.account(enterpriseId, record.id), value: record },
      { key: at.shortId(shortId), value: record.id },
    ]
    return { record, changes, expected: changes.map(({ key }) => ({ key, value: undefined })) }
  }

  /** The account acted in. */
  async current(principal: Principal): Promise<AccountDocument> {
    return show(await this.#current(principal))
  }

  /** Enables or disables a beta feature. Throws 404 if it is unknown. Requires the personal key of a manager. */
  async setFeature(principal: Principal, feature: string, enabled: boolean): Promise<AccountDocument> {
    const { id } = requireFeatureManagement(principal)
    if (!Object.hasOwn(FEATURES, feature)) throw notFound('feature')
    const context = this.#context
    return context.turns.take(id, async () => {
      const before = await this.#current(principal)
      if ((before.features[feature] === true) === enabled) return show(before)
      const record: AccountRecord = { ...before, features: { ...before.features, [feature]: enabled } }
      const key = at.account(principal.enterpriseId, id)
      const entry = context.audit(principal, 'account.feature', { type: 'account', id }, { feature, enabled })
      await context.write([{ key, value: record }, entry], [{ key, value: before }])
      return show(record)
    })
  }

  async #current(principal: Principal): Promise<AccountRecord> {
    const { id } = requireAccount(principal)
    const record = await this.#context.read<AccountRecord>(at.account(principal.enterpriseId, id))
    if (!record) throw notFound('account')
    return record
  }
}

function show(record: AccountRecord): AccountDocument {
  const { id, short_id, title, enterprise_id, features, created_at } = record
  return { id, short_id, title, enterprise_id, features: { throttle: features.throttle === true }, created_at }
}
