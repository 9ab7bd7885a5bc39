/** Messages between FsThread (thread.ts) and its worker thread (worker.ts). */

/** A call of a node:fs function; `readSync` takes a descriptor, a length and an offset. */
export interface DiskCall {
  readonly name: string
  readonly args: readonly unknown[]
}

/** The states of the shared flag: busy (starting or calling), result ready, and caller no longer waiting. */
export const WAITING = 0
export const DONE = 1
export const GIVEN_UP = 2

export type DiskAnswer =
  /** The bytes, for `readSync`. */
  | { readonly result: unknown }
  /** The numbers of a Stats or BigIntStats; undefined if the file does not exist. */
  | { readonly stats: object | undefined }
  | { readonly entries: readonly { readonly name: string; readonly kind: EntryKind }[] }
  | { readonly error: { readonly message: string } & Partial<NodeJS.ErrnoException> }

export type EntryKind = 'folder' | 'link' | 'other'
