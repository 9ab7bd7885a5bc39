import type { Scope } from './accounts/scopes.js'
import type {
  AccountDocument,
  AuditDocument,
  DaemonDocument,
  KeyDocument,
  PipelineDocument,
  RevisionDocument,
  SecretDocument,
  ServiceAccountDocument,
  UserDocument,
} from './documents.js'
import type { TokenType } from './keys/principal.js'
import type { Sealed } from './secrets/sealer.js'

/**
 * The records of the store and their keys: what documents show, and what else is kept. No access key can be derived from
 * them: only keyed hashes are stored.
 */

export interface EnterpriseRecord {
  readonly id: string
  readonly title: string
  readonly created_at: string
}

export interface AccountRecord extends Readonly<Omit<AccountDocument, 'features'>> {
  readonly features: Readonly<Record<string, boolean>>
}

export interface UserRecord extends Readonly<UserDocument> {
  readonly enterprise_id: string
}

/** A key as listed for its owner. */
export interface KeyRef extends Readonly<Omit<KeyDocument, 'last_used_at'>> {
  /** Leads to its KeyRecord. */
  readonly hash: string
}

export interface ServiceAccountRecord
  extends Readonly<Omit<ServiceAccountDocument, 'email' | 'scopes' | 'access_key'>> {
  readonly scopes: readonly Scope[]
  /** null: revoked. */
  readonly key: KeyRef | null
  /** The previous key during its grace period. */
  readonly old_key: KeyRef | null
}

export interface UserKeyRecord extends KeyRef {
  readonly title: string
  /** null: not narrowed. */
  readonly scopes: readonly Scope[] | null
  /** The key it was created with, of the same user; revoking that one also revokes this one. Missing in old records. */
  readonly parent_id?: string | null
}

/** The owner of a key, found by the hash of the key. It is kept for a while after the key's end, to explain it. */
export interface KeyRecord extends KeyRef {
  readonly type: TokenType
  readonly subject_id: string
  readonly enterprise_id: string
  readonly account_id: string | null
  readonly scopes: readonly Scope[] | null
  readonly revoked_at: string | null
  /**
   * For the first key of a user: the latest end of keys created with it, null for none. Others pass on their own end.
   */
  readonly gives_until?: string | null
}

export interface PipelineRecord extends Readonly<Omit<PipelineDocument, 'config' | 'missing_secrets'>> {
  readonly enterprise_id: string
  readonly config: Readonly<Record<string, unknown>>
  readonly published_at: string | null
  /** Incremented by every change; the source of the ETag. */
  readonly version: number
}

export interface RevisionRecord extends Readonly<Omit<RevisionDocument, 'config' | 'published'>> {
  readonly config: Readonly<Record<string, unknown>>
}

/** A secret of an account, with its encrypted value. */
export interface SecretRecord extends Readonly<SecretDocument> {
  /** Changes each time a value is saved. */
  readonly id: string
  readonly sealed: Sealed
}

export type AuditRecord = AuditDocument
export type DaemonRecord = Omit<DaemonDocument, 'published_revision' | 'behind' | 'silent'> & {
  /** When it reported first. Missing in old records. */
  readonly registered_at?: string
}

/** In place of an account id for entities of the enterprise itself. */
const NO_ACCOUNT = 'enterprise'

/** Keys of the store. Those that end with a slash are prefixes of lists. */
export const at = {
  initialized: 'initialized',
  enterprise: (id: string) => `enterprise/${id}`,
  allAccounts: 'account/',
  accounts: (enterprise: string) => `account/${enterprise}/`,
  account: (enterprise: string, id: string) => `account/${enterprise}/${id}`,
  shortId: (shortId: string) => `short-id/${shortId}`,
  allUsers: 'user/',
  users: (enterprise: string, account: string) => `user/${enterprise}/${account}/`,
  user: (enterprise: string, account: string, id: string) => `user/${enterprise}/${account}/${id}`,
  email: (enterprise: string, account: string, email: string) =>
    `user-email/${enterprise}/${account}/${encodeURIComponent(email)}`,
  allServiceAccounts: 'service-account/',
  serviceAccounts: (enterprise: string, account: string | null) =>
    `service-account/${enterprise}/${account ?? NO_ACCOUNT}/`,
  serviceAccount: (enterprise: string, account: string | null, id: string) =>
    `service-account/${enterprise}/${account ?? NO_ACCOUNT}/${id}`,
  userKeys: (enterprise: string, account: string, user: string) => `user-key/${enterprise}/${account}/${user}/`,
  userKey: (enterprise: string, account: string, user: string, id: string) =>
    `user-key/${enterprise}/${account}/${user}/${id}`,
  allKeys: 'key/',
  key: (hash: string) => `key/${hash}`,
  keyEnds: 'key-end/',
  /** Sorted by the time when keys end or have ended. */
  keyEnd: (time: string, id: string) => `key-end/${time}/${id}`,
  keyUse: (id: string) => `key-use/${id}`,
  allPipelines: 'pipeline/',
  pipelines: (enterprise: string, account?: string) =>
    account === undefined ? `pipeline/${enterprise}/` : `pipeline/${enterprise}/${account}/`,
  pipeline: (enterprise: string, account: string, id: string) => `pipeline/${enterprise}/${account}/${id}`,
  allRemovedPipelines: 'removed-pipeline/',
  /** Exists until the files of its run are removed as well. */
  removedPipeline: (id: string) => `removed-pipeline/${id}`,
  revisions: (pipeline: string) => `revision/${pipeline}/`,
  revision: (pipeline: string, revision: number) => `revision/${pipeline}/${String(revision).padStart(10, '0')}`,
  allRevisionBytes: 'revision-bytes/',
  /** Size of the revisions of a pipeline. */
  revisionBytes: (account: string, pipeline: string) => `revision-bytes/${account}/${pipeline}`,
  secrets: (account: string) => `secret/${account}/`,
  secret: (account: string, name: string) => `secret/${account}/${name}`,
  allDaemons: 'daemon/',
  daemons: (enterprise: string, account?: string, pipeline?: string) =>
    `daemon/${[enterprise, account, pipeline].filter(part => part !== undefined).join('/')}/`,
  daemon: (enterprise: string, account: string, pipeline: string, id: string) =>
    `daemon/${enterprise}/${account}/${pipeline}/${id}`,
  allAudit: 'audit/',
  audit: (enterprise: string, account: string | null) => `audit/${enterprise}/${account ?? NO_ACCOUNT}/`,
  auditEntry: (enterprise: string, account: string | null, id: string) =>
    `audit/${enterprise}/${account ?? NO_ACCOUNT}/${id}`,
} as const
