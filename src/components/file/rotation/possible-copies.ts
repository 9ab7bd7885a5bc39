import type { BigIntStats } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { statOrNone, withFile } from '../../../lib/files/disk/disk.js'
import type { Clock } from '../../../lib/time.js'
import type { NameKind } from '../discovery/discovery.js'
import { ALIKE_BYTES, fingerprint, firstBytes, isCompressed, keyOf } from '../identity.js'
import type { PathProblems } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import type { Entry } from '../saved.js'
import type { Slices } from '../slices.js'
import { originalNames } from './names.js'
import type { Rotated } from './rotated.js'

/** The original of a copy is truncated right after the copy was made. Later, a file that looks like one is its own. */
const TWIN_MS = 10_000
/** A compressed file that changed within this time may be incomplete. */
export const SETTLE_MS = 2000

const NOTHING = Buffer.alloc(0)

export interface PossibleCopiesOptions {
  readonly clock: Clock
  readonly problems: PathProblems
  readonly rotated: Rotated
  /** All tailers, including those of missing files. */
  tailers(): Iterable<Tailer>
  /** The positions of files without a tailer. */
  entries(): Iterable<Entry>
  /** Whether a file of this name is or was read. */
  isName(path: string): boolean
  /** The file being read under this name. */
  at(path: string): Tailer | undefined
  /** Whether the copies of the file of this name are all matched. */
  isSettled(path: string): boolean
  open(path: string): number
  /** Reads the file as one of its own. */
  examine(path: string, kind: NameKind): void
}

interface Seen {
  /** Undefined: a compressed file. */
  readonly of: Tailer | undefined
  readonly size: bigint
  readonly changedAt: bigint
  /** Since when it has been like this, on the monotonic clock. */
  readonly since: number
}

/**
 * New files that may be copies, by their names or their first bytes. A copy is created before its original is
 * truncated, and until then its content is read from the original. So it waits until the original is truncated, and
 * then its rest is read; or until it has different content, and then it is read as a file of its own. Compressed files
 * are never read as files of their own.
 */
export class PossibleCopies {
  readonly #options: PossibleCopiesOptions
  readonly #waiting = new Map<string, NameKind>()
  /** Copies that were examined, by device and inode, with the state in which they need no further examination. */
  #copies = new Map<string, Seen>()

  constructor(options: PossibleCopiesOptions) {
    this.#options = options
  }

  /** Whether files wait to be examined. */
  get wait(): boolean {
    return this.#waiting.size > 0
  }

  /** Whether this file waits to be examined. */
  has(path: string): boolean {
    return this.#waiting.has(path)
  }

  /** Whether the name is that of a copy, or the file is known as one. If so, it waits for `takeUp`. */
  add(path: string, kind: NameKind, stat: BigIntStats): boolean {
    const isKnown = this.#copies.has(keyOf(stat))
    if (!isKnown && !originalsOf(path).some(original => this.#options.isName(original))) return false
    this.#waiting.set(path, kind)
    return true
  }

  /**
   * Whether the open file is compressed or, if it is compared, begins like another file. If so, it waits for `takeUp`.
   */
  addByContent(path: string, kind: NameKind, fd: number, isCompared: boolean): boolean {
    const first = firstBytes(fd)
    if (!isCompressed(first) && !(isCompared && this.#isKnown(path, first, ALIKE_BYTES))) return false
    this.#waiting.set(path, kind)
    return true
  }

  /** Whether a file is or was read that begins like this one. */
  #isKnown(path: string, first: Buffer, least: number): boolean {
    const isAlike = alike(path, first, least)
    for (const tailer of this.#options.tailers()) if (isAlike(tailer)) return true
    for (const entry of this.#options.entries()) if (isAlike(entry)) return true
    return false
  }

  /** Reads the files that are not copies. Call when the copies of truncated files are known. */
  async takeUp(slices: Slices): Promise<void> {
    const copies = new Map<string, Seen>()
    for (const [path, kind] of [...this.#waiting]) {
      if (slices.due) await slices.pause()
      this.#waiting.delete(path)
      const stat = statOrNone(path)
      if (!stat?.isFile()) continue
      const state = await this.#stateOf(path, stat, slices)
      if (state === 'later') this.#waiting.set(path, kind)
      else if (state === 'new') this.#options.examine(path, kind)
      else copies.set(keyOf(stat), state)
    }
    // The sweep found all copies that still exist.
    this.#copies = copies
  }

  /** `later`: it may contain the rest of an original that was truncated. */
  async #stateOf(path: string, stat: BigIntStats, slices: Slices): Promise<Seen | 'later' | 'new'> {
    const { at, clock, isSettled, rotated, tailers } = this.#options
    const seen = this.#copies.get(keyOf(stat))
    const isSame = seen?.size === stat.size && seen.changedAt === stat.mtimeNs
    if (isSame && !seen.of) return seen
    const first = this.#firstOf(path)
    const similar = [...tailers()].filter(alike(path, first, ALIKE_BYTES))
    const names = originalsOf(path)
    const areSettled = () => names.every(isSettled) && similar.every(({ origin }) => isSettled(origin.path!))
    if (!areSettled()) return 'later'
    const { size, mtimeNs: changedAt } = stat
    const since = isSame ? seen.since : clock.now()
    if (isCompressed(first)) {
      const isDone = await this.#skip(path, stat, slices)
      return isDone ? { of: undefined, size, changedAt, since } : 'later'
    }
    const named = names.map(at)
    for (const of of new Set([...named, ...similar])) {
      if (!of || of.copy || of.fd === undefined) continue
      if (!named.includes(of) && clock.now() - since >= TWIN_MS) continue
      // A copy that has just been created is empty.
      if (size === 0n || (isSame && seen.of === of) || rotated.siblings.isCopyOf(path, of.fd))
        return { of, size, changedAt, since }
      // The original may have been truncated during the comparison.
      if (!areSettled()) return 'later'
    }
    return 'new'
  }

  /** Reports a compressed file that is not a copy. False: it may still be written. */
  async #skip(path: string, stat: BigIntStats, slices: Slices): Promise<boolean> {
    const { clock, problems, rotated } = this.#options
    const content = await rotated.contentOf(path, stat, slices)
    if (content?.isMatched || (content && this.#isKnown(path, content.first, 1))) return true
    const age = clock.wall() - Number(stat.ctimeMs)
    if (age >= 0 && age < SETTLE_MS) return false
    problems.compressed(path)
    return true
  }

  #firstOf(path: string): Buffer {
    // An error is reported when it is read as a file of its own.
    return withFile(path, firstBytes, { open: this.#options.open }) ?? NOTHING
  }
}

/** The paths of files that, by its name alone, the file at `path` may be a copy of. */
export function originalsOf(path: string): string[] {
  const folder = dirname(path)
  return [...originalNames(basename(path))].map(name => join(folder, name))
}

/** A test for files that begin like the one at `path`, except for those whose name it took. */
function alike(path: string, first: Buffer, least: number): (of: Tailer | Entry) => boolean {
  const hashes: number[] = []
  return of => {
    const { bytes, hash } = of.head
    const name = 'origin' in of ? of.origin.path : of.file
    if (bytes < least || of.path === path || name === path) return false
    // It has less than is known of the other one's beginning.
    if (bytes > first.length)
      return (
        first.length >= least &&
        'growth' in of &&
        of.growth.trail.began(first.length, fingerprint(first, 0, first.length).hash)
      )
    return (hashes[bytes] ??= fingerprint(first, 0, bytes).hash) === hash
  }
}
