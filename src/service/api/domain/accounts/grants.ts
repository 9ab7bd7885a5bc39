import { timingSafeEqual } from 'node:crypto'
import { Recent } from '../../store/recent.js'
import type { Context } from '../context.js'
import type { Keys } from '../keys/keys.js'
import type { Principal } from '../keys/principal.js'
import { type AccountRecord, at, type KeyRecord, type ServiceAccountRecord, type UserRecord } from '../records.js'
import { ROLE_SCOPES } from './scopes.js'

/**
 * Caches what each key grants, by its hash. Writing any record that grants are made from clears the cache, so changes
 * apply to the next request. A grant that was being read during such a write is not cached.
 */

type Given =
  | 'version'
  | 'type'
  | 'subject'
  | 'enterpriseId'
  | 'account'
  | 'scopes'
  | 'role'
  | 'keyId'
  | 'expiresAt'
  | 'givesUntil'

export interface Grant extends Pick<Principal, Given> {
  readonly hash: Buffer
  /** The key has ended, or its subject is gone. */
  readonly revoked: boolean
}

/** Of each of the two generations. */
const MOST_REMEMBERED = 10_000
const MADE_FROM = [at.allKeys, at.allUsers, at.allServiceAccounts, at.allAccounts]

export class Grants {
  readonly #context: Context
  readonly #keys: Keys
  #known = new Recent<Grant>(MOST_REMEMBERED)
  /** How often the cache was cleared: grants of the same number are as they were. */
  version = 0

  constructor(context: Context, keys: Keys) {
    this.#context = context
    this.#keys = keys
    const forget = () => {
      this.#known = new Recent(MOST_REMEMBERED)
      this.version++
    }
    for (const prefix of MADE_FROM) context.store.watch(prefix, forget)
  }

  /** The grant, if it is cached. */
  known(hash: Buffer): Grant | undefined {
    const found = this.#known.get(hash.toString('latin1'))?.value
    return found && timingSafeEqual(found.hash, hash) ? found : undefined
  }

  /** Includes ended keys. Undefined if the key is unknown. */
  async read(hash: Buffer): Promise<Grant | undefined> {
    const known = this.#known
    const { version } = this
    const record = await this.#keys.find(hash)
    if (!record) return undefined
    const grant = { ...(await this.#grant(record, hash)), version }
    known.set(hash.toString('latin1'), grant, 1)
    return grant
  }

  async #grant(record: KeyRecord, hash: Buffer): Promise<Omit<Grant, 'version'>> {
    const { type, enterprise_id, account_id, subject_id } = record
    const place =
      type === 'personal'
        ? at.user(enterprise_id, account_id!, subject_id)
        : at.serviceAccount(enterprise_id, account_id, subject_id)
    const found = await this.#context.read<ServiceAccountRecord | UserRecord>(place)
    const account =
      account_id === null ? undefined : await this.#context.read<AccountRecord>(at.account(enterprise_id, account_id))
    return {
      hash,
      type,
      revoked: record.revoked_at !== null || !found || !owns(found, record) || (account_id !== null && !account),
      subject: found ? subjectOf(found) : { id: subject_id, email: '', title: '' },
      enterpriseId: enterprise_id,
      account: account && { id: account.id, shortId: account.short_id },
      scopes: new Set(found ? scopesOf(found, record) : []),
      role: found && 'role' in found ? found.role : undefined,
      keyId: record.id,
      expiresAt: record.expires_at,
      givesUntil: record.gives_until === undefined ? record.expires_at : record.gives_until,
    }
  }
}

/** Whether the key is still one of its subject's keys. Records of users do not list theirs. */
function owns(subject: ServiceAccountRecord | UserRecord, { id }: KeyRecord): boolean {
  return 'role' in subject || subject.key?.id === id || subject.old_key?.id === id
}

/** The scopes of the subject, unless the key narrows them. */
function scopesOf(subject: ServiceAccountRecord | UserRecord, { scopes }: KeyRecord) {
  const own = 'role' in subject ? ROLE_SCOPES[subject.role] : subject.scopes
  return scopes === null ? own : own.filter(scope => scopes.includes(scope))
}

function subjectOf(record: ServiceAccountRecord | UserRecord): Principal['subject'] {
  const { id, title } = record
  return { id, email: 'role' in record ? record.email : serviceAccountEmail(id), title }
}

/** The address of a service account wherever the address of a subject is shown. */
export function serviceAccountEmail(id: string): string {
  return `${id}@service-account.invalid`
}
