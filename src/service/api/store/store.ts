/**
 * The store of the service: tables (`schema.ts`) and statements that SQLite and PostgreSQL both run. Values are `$1`,
 * `$2` …; times, ids and JSON are text.
 */

export type Value = string | number | null

export interface Sql {
  all<R>(text: string, ...values: readonly Value[]): Promise<R[]>
  /** Resolves with the first row, or with undefined if no row matches. */
  get<R>(text: string, ...values: readonly Value[]): Promise<R | undefined>
  /** Resolves with the number of changed rows. */
  run(text: string, ...values: readonly Value[]): Promise<number>
}

/** Outside of `change`, statements see committed data, and each call of `run` is a change of its own. */
export interface Store extends Sql {
  /**
   * Commits either all of `work` or nothing. Resolves when the change is durable. Changes of one owner (an account or
   * an enterprise) run one after the other. `work` may only await calls of `sql`. Rejects with the error of `work`, or
   * with StoreError. After a StoreError, it is not known whether the change was saved.
   */
  change<T>(owner: string, work: (sql: Sql) => Promise<T>): Promise<T>
  /**
   * Calls `forget` when one of the tables has changed. The call comes before `change` resolves, or within a second if
   * another process made the change. The returned function must be called before each use of a cache. It calls `forget`
   * if changes may have been missed, as while this process was stopped.
   */
  watch(tables: readonly TableName[], forget: () => void): () => void
  /** Calls `work` with a consistent snapshot, while others may change the store. */
  snapshot<T>(work: (sql: Sql) => Promise<T>): Promise<T>
  /** Copies a consistent snapshot into a new folder. */
  backup(folder: string): Promise<void>
  health(): StoreHealth
  close(): Promise<void>
}

/** Tables whose rows are cached. */
export const TABLES = ['account', 'person', 'service_account', 'access_key', 'pipeline', 'secret'] as const
export type TableName = (typeof TABLES)[number]

export interface StoreHealth {
  /** Whether the last change was saved. */
  readonly writable: boolean
  readonly readable: boolean
  /** When writing or reading began to fail, in milliseconds since 1970. */
  readonly failedSince: number | undefined
  readonly failedWrites: number
  /** Times in milliseconds since 1970. Changes that were confirmed between these times may be missing. */
  readonly lost: { readonly from: number; readonly until: number } | undefined
}

export type StoreErrorCode =
  | 'SLUICE_STORE_IN_USE'
  | 'SLUICE_STORE_DAMAGED'
  /** The store cannot be opened, read or written. */
  | 'SLUICE_STORE_UNUSABLE'

export class StoreError extends Error {
  readonly code: StoreErrorCode
  constructor(code: StoreErrorCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/** The table that a statement changes; undefined if it only reads. */
export function changedBy(text: string): string | undefined {
  return /^\s*(?:INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)/.exec(text)?.[1]
}
