import type { Scope } from '../../../../daemon/client/scopes.js'
import { forbidden, notFound } from '../errors.js'
import { ID } from '../ids.js'
import type { Principal } from '../keys/principal.js'

/**
 * Access checks, called before every operation. If a check needs only the principal, the route calls it before parsing
 * the request.
 */

export function requireScope(principal: Principal, scope: Scope): void {
  if (principal.scopes.has(scope)) return
  throw forbidden('scope_missing', `this key does not have the scope ${scope}`)
}

/** Returns the current account. Throws 403 at enterprise scope. */
export function requireAccount(principal: Principal): { readonly id: string; readonly shortId: string } {
  if (principal.account) return principal.account
  throw forbidden(
    'account_required',
    'this request acts in one account: with an enterprise token, send the id of the account in x-delegate-account-id',
  )
}

/** Requires an enterprise token that does not act within an account. */
export function requireEnterprise(principal: Principal): void {
  if (principal.type !== 'enterprise_service_account') {
    throw forbidden('enterprise_token_required', 'only the key of an enterprise service account may do this')
  }
  if (principal.delegated) {
    throw forbidden('enterprise_scope_required', 'this request acts on the enterprise: leave x-delegate-account-id out')
  }
  requireScope(principal, 'enterprise:manage')
}

/** Returns the account whose pipelines and secrets (only their names) the caller may read. */
export function requirePipelineRead(principal: Principal) {
  requireScope(principal, 'pipeline:read')
  return requireAccount(principal)
}

/** Returns the account whose pipelines and secrets the caller may change. */
export function requirePipelineWrite(principal: Principal) {
  requireScope(principal, 'pipeline:write')
  return requireAccount(principal)
}

/** Returns the current account. The caller may send reports for the daemons of this account. */
export function requireReporter(principal: Principal) {
  if (principal.role === 'viewer') {
    const message = 'viewers cannot report as daemons: use the key of a service account with pipeline:read'
    throw forbidden('role_missing', message)
  }
  return requirePipelineRead(principal)
}

/** Returns the account whose users the caller may manage. */
export function requireUserManagement(principal: Principal) {
  const account = requireAccount(principal)
  requireScope(principal, 'account:manage')
  return account
}

/** Throws 403 unless the caller may manage the service accounts of the current account, or of the enterprise. */
export function requireServiceAccountManagement(principal: Principal): void {
  if (principal.account) requireScope(principal, 'account:manage')
  else requireEnterprise(principal)
}

/** Returns the account whose features the caller may enable. Requires the personal key of a manager. */
export function requireFeatureManagement(principal: Principal) {
  const account = requireAccount(principal)
  if (principal.role !== 'manager') {
    throw forbidden('manager_required', 'only a manager of the account can do this, with a personal access key')
  }
  requireScope(principal, 'account:manage')
  return account
}

/** Returns the account of the calling user. Users may manage their own keys. */
export function requireUserKeys(principal: Principal) {
  if (principal.type !== 'personal') {
    throw forbidden('user_required', 'only users have personal keys; this is the key of a service account')
  }
  requireScope(principal, 'user:key')
  return requireAccount(principal)
}

/** Throws 403 unless the caller may read the audit log of the current account, or of the enterprise. */
export function requireAuditRead(principal: Principal): void {
  requireScope(principal, principal.account ? 'account:manage' : 'enterprise:manage')
}

/** Callers cannot grant scopes that their own key lacks. `user:key` is exempt, since every user may have keys. */
export function requireGrant(principal: Principal, scopes: Iterable<Scope>): void {
  const beyond = [...scopes].filter(scope => scope !== 'user:key' && !principal.scopes.has(scope))
  if (beyond.length === 0) return
  throw forbidden('scope_exceeded', `this key cannot grant scopes that it does not have: ${beyond.join(', ')}`)
}

/** Throws 404 for an id of the wrong form, which cannot exist. */
export function requireId(id: string, what: string): void {
  if (!ID.test(id)) throw notFound(what)
}
