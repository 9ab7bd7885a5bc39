import type { Role, Scope } from '../../../../daemon/client/scopes.js'
import type { RateState } from './rate-limiter.js'

export type TokenType = 'service_account' | 'enterprise_service_account' | 'personal'

/** The caller, identified by the key of a request. */
export interface Principal {
  readonly type: TokenType
  readonly subject: {
    readonly id: string
    /** E-mail address of the user, or `ID@service-account.invalid` for a service account. */
    readonly email: string
    readonly title: string
  }
  readonly enterpriseId: string
  /** The caller's own account, or the account that the caller acts in. Undefined at enterprise scope. */
  readonly account: { readonly id: string; readonly shortId: string } | undefined
  readonly scopes: ReadonlySet<Scope>
  /** Whether the key was created with a list of scopes. Otherwise, it has all current scopes of its subject. */
  readonly isNarrowed: boolean
  /** Undefined for callers that are not users. */
  readonly role: Role | undefined
  readonly keyId: string
  /** Version of the grants when the principal was made; see Grants. */
  readonly version: number
  /** When the key expires, in ISO 8601; null: never. */
  readonly expiresAt: string | null
  /** Keys that are created with this key must expire by this time; null: they may be valid forever. */
  readonly givesUntil: string | null
  readonly delegated: boolean
  /** Remaining requests of this key, for the RateLimit headers. */
  readonly rate: RateState
  /** Address of the client and id of the request, for the audit log. */
  readonly address: string
  readonly requestId: string | undefined
}

/** The owner of the requests: an account, or the enterprise itself. */
export const accountOf = ({ account, enterpriseId }: Principal): string => account?.id ?? enterpriseId
