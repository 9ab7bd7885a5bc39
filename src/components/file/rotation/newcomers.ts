import type { BigIntStats } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Clock } from '../../../lib/time.js'
import type { KnownBeginnings } from '../beginnings.js'
import { PathMap } from '../by-folder.js'
import { formatOf } from '../compression.js'
import type { NameKind } from '../discovery/discovery.js'
import { ALIKE_BYTES, firstBytes, keyOf } from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import type { Saved } from '../saved.js'
import { originalNames } from './names.js'

interface NewcomersOptions {
  readonly clock: Clock
  readonly files: { isName(path: string): boolean }
  readonly saved: Saved
  readonly beginnings: KnownBeginnings<Tailer>
}

/** `new`: the file is not a copy. `unread`: it could not be read. */
export type Compared = 'new' | 'unread'

interface Seen {
  readonly isCompressed: boolean
  readonly size: bigint
  readonly changedAt: bigint
  /** Since when the file has been in this state, on the monotonic clock. */
  readonly since: number
  /** When a sweep last found the file, on the monotonic clock. */
  foundAt: number
}

/**
 * New files whose names or first bytes suggest that they are copies. A copy is created before its original is
 * truncated. Until then, the content is read from the original, and the copy waits. When the original is truncated, the
 * rest is read from the copy. If the copy gets different content, it is read as a separate file.
 */
export class Newcomers {
  readonly #options: NewcomersOptions
  readonly #waiting = new PathMap<NameKind>()
  /** Copies that were examined, by device and inode. */
  readonly #copies = new Map<string, Seen>()
  #begunAt = Number.NEGATIVE_INFINITY

  constructor(options: NewcomersOptions) {
    this.#options = options
  }

  get wait(): boolean {
    return this.#waiting.size > 0
  }

  has(path: string): boolean {
    return this.#waiting.has(path)
  }

  kindOf(path: string): NameKind | undefined {
    return this.#waiting.get(path)
  }

  get folders(): Iterable<string> {
    return this.#waiting.folders
  }

  in(folder: string): readonly string[] {
    return this.#waiting.in(folder)
  }

  /** Whether the file is named like a copy, or is known to be a copy. If so, the file then waits for a search. */
  add(path: string, kind: NameKind, stat: BigIntStats): boolean {
    const seen = this.#copies.get(keyOf(stat))
    if (!seen && !originalsOf(path).some(original => this.#options.files.isName(original))) return false
    if (seen) seen.foundAt = this.#options.clock.now()
    // A compressed file that has not changed needs no search.
    if (!seen?.isCompressed || !isSame(seen, stat)) this.#waiting.set(path, kind)
    return true
  }

  /** Whether the file is compressed, or begins like another file (if `isCompared`). If so, it waits for a search. */
  addByContent(path: string, kind: NameKind, fd: number, isCompared: boolean): boolean {
    const first = firstBytes(fd)
    if (!formatOf(first) && !(isCompared && this.#isKnown(path, first))) return false
    this.#waiting.set(path, kind)
    return true
  }

  /** Whether this file begins like a file that is or was read. Ignores the files whose name this file took. */
  #isKnown(path: string, first: Buffer): boolean {
    const { beginnings, saved } = this.#options
    if (first.length < ALIKE_BYTES) return false
    for (const { origin, path: of } of beginnings.like(first)) if (of !== path && origin.path !== path) return true
    for (const entry of saved.like(first)) if (entry.path !== path && entry.file !== path) return true
    return false
  }

  /** Starts a search. Forgets copies that no sweep has found since the last search began. */
  begin(): void {
    for (const [key, { foundAt }] of this.#copies) if (foundAt < this.#begunAt) this.#copies.delete(key)
    this.#begunAt = this.#options.clock.now()
  }

  /** For how long the file has been seen with this size and modification time, in milliseconds. */
  quietMs(stat: BigIntStats): number {
    const seen = this.#copies.get(keyOf(stat))
    return seen && isSame(seen, stat) ? this.#options.clock.now() - seen.since : 0
  }

  /** The file does not wait any more. `stat`: set if it is a copy. */
  over(path: string, stat?: BigIntStats, isCompressed = false): void {
    this.#waiting.delete(path)
    if (!stat) return
    const { size, mtimeNs: changedAt } = stat
    const now = this.#options.clock.now()
    this.#copies.set(keyOf(stat), { isCompressed, size, changedAt, since: now - this.quietMs(stat), foundAt: now })
  }

  forget(stat: BigIntStats): void {
    this.#copies.delete(keyOf(stat))
  }
}

function isSame({ size, changedAt }: Seen, stat: BigIntStats): boolean {
  return size === stat.size && changedAt === stat.mtimeNs
}

/** The paths of the possible originals of the file at `path`, according to its name. */
export function originalsOf(path: string): string[] {
  const folder = dirname(path)
  return [...originalNames(basename(path))].map(name => join(folder, name))
}
