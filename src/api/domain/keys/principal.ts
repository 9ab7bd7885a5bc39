import type { Role, Scope } from '../accounts/scopes.js'
import type { RateState } from './rate-limiter.js'

export type TokenType = 'service_account' | 'enterprise_service_account' | 'personal'

/** Who asks, as found by the key of this one request. */
export interface Principal {
  readonly type: TokenType
  readonly subject: {
    readonly id: string
    /** Of a user; `ID@service-account.invalid` for a service account. */
    readonly email: string
    readonly title: string
  }
  readonly enterpriseId: string
  /** The account acted in: the own one, or the delegated one; undefined at enterprise scope. */
  readonly account: { readonly id: string; readonly shortId: string } | undefined
  readonly scopes: ReadonlySet<Scope>
  /** Of a user. */
  readonly role: Role | undefined
  readonly keyId: string
  /** ISO 8601; null: never. */
  readonly expiresAt: string | null
  /** The latest end that a key can have which is made with this one; null: it needs none. */
  readonly givesUntil: string | null
  readonly delegated: boolean
  /** What is left of the requests of this key, for the RateLimit headers. */
  readonly rate: RateState
  /** Where the request came from, and its id: both go into the audit log. */
  readonly address: string
  readonly requestId: string | undefined
}

/** Whose requests they are: those of an account, or those of the enterprise itself. */
export const accountOf = ({ account, enterpriseId }: Principal): string => account?.id ?? enterpriseId
