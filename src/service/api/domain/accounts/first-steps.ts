import type { Context } from '../context.js'
import type { InitResult } from '../documents.js'
import { ApiError } from '../errors.js'
import { type InitOptions, initInput } from '../inputs.js'
import { at, type EnterpriseRecord } from '../records.js'
import type { Accounts } from './accounts.js'
import { ENTERPRISE_SCOPES, SERVICE_SCOPES } from './scopes.js'
import type { ServiceAccounts } from './service-accounts.js'
import type { Users } from './users.js'

/** Creates the first enterprise, account, manager and keys in one write. Throws ApiError 409 already_initialized. */
export async function initialize(
  context: Context,
  parts: { accounts: Accounts; users: Users; serviceAccounts: ServiceAccounts },
  options: InitOptions,
): Promise<InitResult> {
  const checked = initInput.safeParse(options)
  if (!checked.success) {
    const errors = checked.error.issues.map(({ path, message }) => ({ path: path.join('.'), message }))
    throw new ApiError(400, 'invalid_request', 'a title or the e-mail address is not valid', { errors })
  }
  if ((await context.read(at.initialized)) !== undefined) throw already()
  const { enterpriseTitle, accountTitle, managerEmail } = checked.data
  const enterprise: EnterpriseRecord = { id: context.ids.next(), title: enterpriseTitle, created_at: context.time() }
  const account = await parts.accounts.make(enterprise.id, accountTitle)
  const { id } = account.record
  const invited = { email: managerEmail, role: 'manager', expires_in: null } as const
  const manager = parts.users.make(account.record, invited, null)
  const own = parts.serviceAccounts.make({ enterpriseId: enterprise.id, accountId: id }, 'first', SERVICE_SCOPES)
  const whole = parts.serviceAccounts.make({ enterpriseId: enterprise.id, accountId: null }, 'first', ENTERPRISE_SCOPES)
  const entry = context.auditEntry({
    action: 'enterprise.init',
    actor: { type: 'command', id: 'init', email: '', key_id: null },
    enterprise_id: enterprise.id,
    account_id: null,
    target: { type: 'enterprise', id: enterprise.id },
    details: { account_id: id, manager_id: manager.record.id },
    address: null,
    request_id: null,
  })
  const changes = [
    { key: at.initialized, value: { enterprise_id: enterprise.id } },
    { key: at.enterprise(enterprise.id), value: enterprise },
    ...account.changes,
    ...manager.changes,
    ...own.changes,
    ...whole.changes,
    entry,
  ]
  try {
    await context.write(changes, [{ key: at.initialized, value: undefined }])
  } catch (error) {
    throw error instanceof ApiError && error.code === 'conflict' ? already() : error
  }
  return {
    enterprise: { id: enterprise.id },
    account: { id, short_id: account.record.short_id },
    manager: { id: manager.record.id, email: manager.record.email, key: manager.document.key },
    service_account: { id: own.record.id, key: own.key },
    enterprise_service_account: { id: whole.record.id, key: whole.key },
  }
}

function already(): ApiError {
  return new ApiError(409, 'already_initialized', 'the service is initialised already; its keys were shown then')
}
