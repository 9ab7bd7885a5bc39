/**
 * The storage of the service. Keys are paths, `pipeline/ACCOUNT/ID`; values are JSON. The interface is small, which
 * allows replacing the embedded database by a database server. test/unit/service/api/store.test.ts runs against any
 * implementation.
 */

export interface Entry {
  readonly key: string
  readonly value: unknown
}

/** `value` undefined removes the key. */
export interface Change {
  readonly key: string
  readonly value: unknown
}

/** A value that was read and must be unchanged; undefined: the key must not exist. */
export type Expected = Entry

export interface ListOptions {
  /** Starts after this key (before it with `reverse`), which need not exist. */
  readonly after?: string | undefined
  readonly limit?: number | undefined
  readonly reverse?: boolean | undefined
}

export interface Store {
  /** Undefined if missing. Results are shared and must not be modified. */
  get(key: string): Promise<unknown>
  /** In the order of the keys. `prefix` ends with a slash. */
  list(prefix: string, options?: ListOptions): Promise<readonly Entry[]>
  /**
   * Writes all changes or none; resolves when they are durable. Rejects with StoreError SLUICE_STORE_CONFLICT, changing
   * nothing, if something in `expected` has changed. After any other rejection it is unknown whether they were saved.
   */
  write(changes: readonly Change[], expected?: readonly Expected[]): Promise<void>
  /** Calls `changed` for every write of keys under `prefix` (with final slash), before the write resolves or fails. */
  watch(prefix: string, changed: () => void): void
  /** Reads every record. Rejects if one is not as it was saved. */
  check(): Promise<void>
  /** Copies a consistent snapshot to a new folder, from which a store can be opened. */
  backup(path: string): Promise<void>
  health(): StoreHealth
  close(): Promise<void>
}

/**
 * All entries below a prefix, up to `limit` at a time: other work has its turn in between. The caller may remove those
 * that were yielded.
 */
export async function* portionsOf(
  store: Pick<Store, 'list'>,
  prefix: string,
  limit: number,
): AsyncGenerator<readonly Entry[], void, undefined> {
  for (let after: string | undefined; ; ) {
    const entries = await store.list(prefix, { after, limit })
    if (entries.length > 0) yield entries
    if (entries.length < limit) return
    after = entries.at(-1)!.key
  }
}

export interface StoreHealth {
  /** Whether the last write was saved. */
  readonly writable: boolean
  readonly failedWrites: number
  /** Reads of records that differ from what was saved. */
  readonly damagedReads: number
  /** How often it was opened again after a failed write. */
  readonly reopens: number
}

export type StoreErrorCode =
  /** Something was changed in between. */
  | 'SLUICE_STORE_CONFLICT'
  /** Another process has it open. */
  | 'SLUICE_STORE_IN_USE'
  /** Something that was saved cannot be read any more. */
  | 'SLUICE_STORE_DAMAGED'
  /** It cannot be opened, read or written. */
  | 'SLUICE_STORE_UNUSABLE'

export class StoreError extends Error {
  readonly code: StoreErrorCode
  constructor(code: StoreErrorCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}
