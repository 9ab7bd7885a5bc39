/**
 * Where the service keeps what it knows. Keys are paths, `pipeline/ACCOUNT/ID`; values are JSON. Small on purpose, so
 * that a database server can stand in for the embedded one. test/unit/api/store.test.ts runs against any of them.
 */

export interface Entry {
  readonly key: string
  readonly value: unknown
}

/** `value` undefined: removes the key. */
export interface Change {
  readonly key: string
  readonly value: unknown
}

/** What was read, and must still be so; undefined: that there is nothing. */
export type Expected = Entry

export interface ListOptions {
  /** Begins behind this key (in front of it with `reverse`); it need not exist. */
  readonly after?: string | undefined
  readonly limit?: number | undefined
  readonly reverse?: boolean | undefined
}

export interface Store {
  /** Undefined: missing. What comes out is shared: nobody changes it. */
  get(key: string): Promise<unknown>
  /** In the order of the keys. `prefix` ends in a slash. */
  list(prefix: string, options?: ListOptions): Promise<readonly Entry[]>
  /**
   * All of it or nothing; resolves when it is durable. Rejects with StoreError SLUICE_STORE_CONFLICT, and changes
   * nothing, when something of `expected` is not so any more. After any other rejection it may have been saved or not.
   */
  write(changes: readonly Change[], expected?: readonly Expected[]): Promise<void>
  /** Hears of every write that changes keys under `prefix`, which ends in a slash, before it resolves or fails. */
  watch(prefix: string, changed: () => void): void
  /** Removes from the disk what was overwritten or removed, which otherwise stays there for a while. */
  compact(): Promise<void>
  /** Copies everything, as it is at one moment, to a new folder that a store can be opened from. */
  backup(path: string): Promise<void>
  health(): StoreHealth
  close(): Promise<void>
}

export interface StoreHealth {
  /** Whether the last write was saved. */
  readonly writable: boolean
  /** Tries to write that failed. */
  readonly failedWrites: number
  /** Reads of records that were not what was saved. */
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
