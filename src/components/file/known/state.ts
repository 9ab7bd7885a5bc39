import type { Copy } from '../rotation/copy.js'

/**
 * Where the content of a file is. `named`: under a matching name. `nameless`: under no matching name; it is released
 * when it has been quiet since `since`. `missing`: it is closed, and the last search of its folder did not find it.
 * `copied`: the file is gone, and its rest is read from `copy`. Times are on the monotonic clock.
 */
export type Where =
  | { readonly is: 'named' }
  | { readonly is: 'nameless' | 'missing'; readonly since: number }
  | { readonly is: 'copied'; readonly since: number; readonly copy: Copy }

export const NAMED: Where = { is: 'named' }

/** The transitions of `Where`. */
export const wheres = {
  /** A sweep found the file under a matching name, or may have missed it there. */
  found: (where: Where): Where => (where.is === 'copied' ? where : NAMED),
  /** A sweep did not find the file under a matching name. */
  left: (where: Where, now: number): Where => (where.is === 'named' ? { is: 'nameless', since: now } : where),
  /** The file has grown, may have grown unseen, or was opened under another name. */
  stirred: (where: Where, now: number): Where =>
    where.is === 'copied' ? { ...where, since: now } : { is: 'nameless', since: now },
  /** A search of its folder found or did not find the closed file. */
  sought: (where: Where, isThere: boolean): Where =>
    where.is === 'named' || where.is === 'copied'
      ? where
      : { is: isThere ? 'nameless' : 'missing', since: where.since },
  /** The rest of the file is read from a compressed copy. */
  copied: (copy: Copy, now: number): Where => ({ is: 'copied', since: now, copy }),
  /** The copy is gone, or does not contain what was read. */
  copyLost: (where: Where): Where => (where.is === 'copied' ? { is: 'nameless', since: where.since } : where),
}

/**
 * Why a file is not read. `held`: until a search for the files before it is over. `moved`: it was not at its path, or
 * its file system did not respond, until a sweep has looked for it. `full`: too many files were open. `open`, `read`:
 * this failed.
 */
export type Block = 'held' | 'moved' | 'full' | 'open' | 'read' | undefined

/** The transitions of `Block`. A held file stays held, whatever else happens to it. */
export const blocks = {
  failed: (block: Block, how: Exclude<Block, 'held' | undefined>): Block => (block === 'held' ? block : how),
  released: (block: Block): Block => (block === 'held' ? undefined : block),
  lookedFor: (block: Block): Block => (block === 'moved' ? undefined : block),
  worked: (block: Block): Block => (block === 'held' ? block : undefined),
}
