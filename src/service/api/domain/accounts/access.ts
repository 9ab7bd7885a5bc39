import { forbidden, notFound } from '../errors.js'
import { ID } from '../ids.js'
import type { Principal } from '../keys/principal.js'
import type { Scope } from './scopes.js'

/** Access checks that precede every operation. */

export function requireScope(principal: Principal, scope: Scope): void {
  if (principal.scopes.has(scope)) return
  throw forbidden('scope_missing', `this key does not have the scope ${scope}`)
}

/** Returns the account acted in. Throws 403 at enterprise scope. */
export function requireAccount(principal: Principal): { readonly id: string; readonly shortId: string } {
  if (principal.account) return principal.account
  throw forbidden(
    'account_required',
    'this concerns one account: send its id in x-delegate-account-id along with an enterprise token',
  )
}

/** Requires an enterprise token that acts for its enterprise, not within an account. */
export function requireEnterprise(principal: Principal): void {
  if (principal.type !== 'enterprise_service_account') {
    throw forbidden('enterprise_token_required', 'only the key of an enterprise service account may do this')
  }
  if (principal.delegated) {
    throw forbidden('enterprise_scope_required', 'this concerns the enterprise: leave x-delegate-account-id out')
  }
  requireScope(principal, 'enterprise:manage')
}

/** No one can grant scopes that their own key lacks. `user:key` is exempt, since every user may have keys. */
export function requireGrant(principal: Principal, scopes: Iterable<Scope>): void {
  const beyond = [...scopes].filter(scope => scope !== 'user:key' && !principal.scopes.has(scope))
  if (beyond.length === 0) return
  throw forbidden('scope_exceeded', `this key cannot give what it does not have: ${beyond.join(', ')}`)
}

/** Requires an id of the right form. Anything else cannot exist. */
export function requireId(id: string, what: string): void {
  if (!ID.test(id)) throw notFound(what)
}
