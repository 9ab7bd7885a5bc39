/** What FsThread (fs-thread.ts) and its thread (fs-worker.ts) say to each other. */

/** A function of node:fs; `readSync` takes a descriptor, a length and an offset. */
export interface Call {
  readonly name: string
  readonly args: readonly unknown[]
}

/** The thread begins, or makes a call; it has an answer; nobody waits for that any more. */
export const WAITING = 0
export const DONE = 1
export const GIVEN_UP = 2

export type Answer =
  /** Of `readSync`: the bytes. */
  | { readonly result: unknown }
  /** The numbers of a Stats or BigIntStats; undefined: there is no such file. */
  | { readonly stats: object | undefined }
  | { readonly entries: readonly { readonly name: string; readonly kind: EntryKind }[] }
  | { readonly error: { readonly message: string } & Partial<NodeJS.ErrnoException> }

export type EntryKind = 'file' | 'folder' | 'link' | 'other'
