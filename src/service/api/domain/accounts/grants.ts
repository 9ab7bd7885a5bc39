import { timingSafeEqual } from 'node:crypto'
import { ROLE_SCOPES, type Role, type Scope } from '../../../../daemon/client/scopes.js'
import { Cached } from '../../store/cached.js'
import type { Store } from '../../store/store.js'
import { NEVER } from '../keys/keys.js'
import type { Principal, TokenType } from '../keys/principal.js'

/** Caches the grants of keys, by the hash of the key. A change in a watched table applies to the next request. */

type Given =
  | 'version'
  | 'type'
  | 'subject'
  | 'enterpriseId'
  | 'account'
  | 'scopes'
  | 'isNarrowed'
  | 'role'
  | 'keyId'
  | 'expiresAt'
  | 'givesUntil'

export interface Grant extends Pick<Principal, Given> {
  readonly hash: Buffer
  /** Whether the key, its subject or its account was revoked or removed. */
  readonly revoked: boolean
}

interface Row {
  readonly id: string
  readonly type: TokenType
  readonly subject_id: string
  readonly enterprise_id: string
  readonly account_id: string | null
  readonly scopes: string | null
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly gives_until: string | null
  /** null if the key has no account, or the account was removed. */
  readonly short_id: string | null
  readonly email: string | null
  readonly role: Role | null
  /** null if the subject was removed. */
  readonly subject_title: string | null
  readonly subject_scopes: string | null
}

const GRANT = `
  SELECT k.id, k.type, k.subject_id, k.enterprise_id, k.account_id, k.scopes, k.expires_at, k.revoked_at, k.gives_until,
    a.short_id, p.email, p.role, coalesce(p.title, s.title) AS subject_title, s.scopes AS subject_scopes
  FROM access_key k
  LEFT JOIN account a ON a.id = k.account_id
  LEFT JOIN person p ON p.id = k.subject_id
  LEFT JOIN service_account s ON s.id = k.subject_id
  WHERE k.hash = $1`

/** Maximum grants in each generation of the cache. */
const MOST_REMEMBERED = 10_000

export class Grants {
  readonly #store: Pick<Store, 'get' | 'watch'>
  readonly #known: Cached<Grant>

  constructor(store: Pick<Store, 'get' | 'watch'>) {
    this.#store = store
    this.#known = new Cached(store, ['access_key', 'person', 'service_account', 'account'], MOST_REMEMBERED)
  }

  /** While this number stays the same, no grant has changed. */
  get version(): number {
    return this.#known.version
  }

  known(hash: Buffer): Grant | undefined {
    const found = this.#known.known(hash.toString('latin1'))?.value
    return found && timingSafeEqual(found.hash, hash) ? found : undefined
  }

  /** Reads a grant, even if its key was revoked or has expired. Undefined if the key is unknown. */
  async read(hash: Buffer): Promise<Grant | undefined> {
    const { version } = this
    return await this.#known.read(hash.toString('latin1'), async () => {
      const row = await this.#store.get<Row>(GRANT, hash.toString('hex'))
      return row && { ...grantOf(row, hash), version }
    })
  }
}

function grantOf(row: Row, hash: Buffer): Omit<Grant, 'version'> {
  const { type, subject_id, account_id, short_id, role, scopes, subject_scopes, subject_title } = row
  const own: readonly Scope[] = role ? ROLE_SCOPES[role] : JSON.parse(subject_scopes ?? '[]')
  const narrowed: readonly Scope[] | null = scopes === null ? null : JSON.parse(scopes)
  return {
    hash,
    type,
    revoked: row.revoked_at !== null || subject_title === null || (account_id !== null && short_id === null),
    subject: { id: subject_id, email: row.email ?? serviceAccountEmail(subject_id), title: subject_title ?? '' },
    enterpriseId: row.enterprise_id,
    account: account_id === null || short_id === null ? undefined : { id: account_id, shortId: short_id },
    scopes: new Set(narrowed ? own.filter(scope => narrowed.includes(scope)) : own),
    isNarrowed: narrowed !== null,
    role: role ?? undefined,
    keyId: row.id,
    expiresAt: row.expires_at,
    givesUntil: row.gives_until === null ? row.expires_at : row.gives_until === NEVER ? null : row.gives_until,
  }
}

export function serviceAccountEmail(id: string): string {
  return `${id}@service-account.invalid`
}
