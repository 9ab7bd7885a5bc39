import type { InitResult } from '../../../../daemon/client/documents.js'
import { type InitOptions, initInput } from '../../../../daemon/client/inputs.js'
import { ENTERPRISE_SCOPES, SERVICE_SCOPES } from '../../../../daemon/client/scopes.js'
import type { Sql } from '../../store/store.js'
import type { Context } from '../context.js'
import { ApiError } from '../errors.js'
import type { Accounts } from './accounts.js'
import type { ServiceAccounts } from './service-accounts.js'
import type { Users } from './users.js'

/** Creates the first enterprise, account, manager and keys in one change. Throws ApiError 409 already_initialized. */
export async function initializeStore(
  context: Context,
  parts: { accounts: Accounts; users: Users; serviceAccounts: ServiceAccounts },
  options: InitOptions,
): Promise<InitResult> {
  const checked = initInput.safeParse(options)
  if (!checked.success) {
    const errors = checked.error.issues.map(({ path, message }) => ({ path: path.join('.'), message }))
    throw new ApiError(400, 'invalid_request', 'a title or the e-mail address is not valid', { errors })
  }
  const { enterpriseTitle: title, accountTitle, managerEmail } = checked.data
  if (await isInitialized(context.store)) throw already()
  return await context.store.change('', async sql => {
    if (await isInitialized(sql)) throw already()
    const id = context.ids.next()
    await sql.run('INSERT INTO enterprise (id, title, created_at) VALUES ($1, $2, $3)', id, title, context.time())
    const account = await parts.accounts.add(sql, id, accountTitle)
    const invited = { email: managerEmail, role: 'manager', expires_in: null } as const
    const manager = await parts.users.add(sql, account, invited, null)
    const owner = { enterpriseId: id, accountId: account.id }
    const own = await parts.serviceAccounts.add(sql, owner, 'first', SERVICE_SCOPES)
    const whole = await parts.serviceAccounts.add(sql, { ...owner, accountId: null }, 'first', ENTERPRISE_SCOPES)
    await context.audit(sql, 'enterprise.init', id, null, {
      actor: { type: 'command', id: 'init', email: '', key_id: null },
      target: { type: 'enterprise', id },
      details: { account_id: account.id, manager_id: manager.id },
      address: null,
      request_id: null,
    })
    return {
      enterprise: { id },
      account: { id: account.id, short_id: account.short_id },
      manager: { id: manager.id, email: manager.email, key: manager.key },
      service_account: { id: own.id, key: own.key },
      enterprise_service_account: { id: whole.id, key: whole.key },
    }
  })
}

export async function isInitialized(sql: Sql): Promise<boolean> {
  return (await sql.get('SELECT id FROM enterprise LIMIT 1')) !== undefined
}

function already(): ApiError {
  return new ApiError(
    409,
    'already_initialized',
    'the service was already initialised, and its keys were shown at that time',
  )
}
