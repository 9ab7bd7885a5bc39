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

/** Transitions of `Where`. `now`: on the monotonic clock. */
export const wheres = {
  /** A sweep found the file under a matching name, or could not look there. */
  found: (where: Where): Where => (where.is === 'copied' ? where : NAMED),
  /** A sweep did not find the file under a matching name. */
  left: (where: Where, now: number): Where => (where.is === 'named' ? { is: 'nameless', since: now } : where),
  /** The file grew, may have grown unseen, or is read on under another name. */
  stirred: (where: Where, now: number): Where =>
    where.is === 'copied' ? { ...where, since: now } : { is: 'nameless', since: now },
  /** A search of the file's folder found the closed file at its path, or did not find it there. */
  there: (where: Where): Where => (where.is === 'missing' ? { is: 'nameless', since: where.since } : where),
  notThere: (where: Where): Where => (where.is === 'nameless' ? { is: 'missing', since: where.since } : where),
  /** The copy is gone, or does not contain what was read. */
  copyLost: (where: Where): Where => (where.is === 'copied' ? { is: 'nameless', since: where.since } : where),
}

/**
 * Why a file is not read. `held`: until a search for the files before it is over. `moved`: it was not at its path, or
 * its file system did not respond, until a sweep has looked for it. `full`: too many files were open. `open`, `read`:
 * this failed.
 */
export type Block = 'held' | 'moved' | 'full' | 'open' | 'read' | undefined

const failed = (how: Block) => (block: Block) => (block === 'held' ? block : how)

/** Transitions of `Block`. A held file stays held, whatever else happens to it. */
export const blocks = {
  held: (): Block => 'held',
  released: (block: Block): Block => (block === 'held' ? undefined : block),
  moved: failed('moved'),
  full: failed('full'),
  open: failed('open'),
  read: failed('read'),
  /** A sweep has looked for the file, or the file is no longer read. */
  lookedFor: (block: Block): Block => (block === 'moved' ? undefined : block),
  /** The file was opened or read. */
  worked: failed(undefined),
}

/**
 * Whether earlier files with the same name must be read before this one, and whether they were checked for new lines
 * since this one grew or was at its end. It does not wait for another check, because an earlier file may always grow.
 */
export type Order = 'behind' | 'behind-checked' | 'free' | 'free-checked'

const isBehind = (order: Order) => order === 'behind' || order === 'behind-checked'

/** Transitions of `Order`. */
export const orders = {
  /** The run begins again, so earlier files may have to be read again. */
  restarted: (): Order => 'behind',
  /** This file and the files before it were read to their ends. */
  atEnd: (): Order => 'free',
  grown: (order: Order): Order => (isBehind(order) ? 'behind' : 'free'),
  checked: (order: Order): Order => (isBehind(order) ? 'behind-checked' : 'free-checked'),
  /** The check found an earlier file that must be read first. */
  delayed: (): Order => 'behind-checked',
}
