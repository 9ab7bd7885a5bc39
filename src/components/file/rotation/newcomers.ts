import type { BigIntStats } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { statOrNone, withFile } from '../../../lib/files/disk/disk.js'
import type { Slices } from '../../../lib/slices.js'
import type { Clock } from '../../../lib/time.js'
import type { KnownBeginnings } from '../beginnings.js'
import { PathMap } from '../by-folder.js'
import { type Format, formatOf, isReadable } from '../compression.js'
import type { NameKind } from '../discovery/discovery.js'
import { ALIKE_BYTES, firstBytes, keyOf } from '../identity.js'
import type { Tailer } from '../reading/tailer.js'
import { type Candidates, SETTLE_MS } from './candidates.js'
import { originalNames } from './names.js'
import type { SearchOptions } from './search.js'
import { beginsLike, TWIN_MS } from './subjects.js'

interface NewcomersOptions extends Pick<SearchOptions, 'files' | 'saved' | 'problems' | 'remote'> {
  readonly clock: Clock
  readonly candidates: Candidates
  readonly beginnings: KnownBeginnings<Tailer>
  /** Whether files with this name must wait for a search. */
  delays(path: string): boolean
  open(path: string): number
}

/** `new`: the file is not a copy. `unread`: it could not be read. */
export type Compared = 'new' | 'unread'

interface Seen {
  readonly isCompressed: boolean
  readonly size: bigint
  readonly changedAt: bigint
  /** Since when the file has been in this state, on the monotonic clock. */
  readonly since: number
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

  constructor(options: NewcomersOptions) {
    this.#options = options
  }

  get wait(): boolean {
    return this.#waiting.size > 0
  }

  has(path: string): boolean {
    return this.#waiting.has(path)
  }

  get folders(): Iterable<string> {
    return this.#waiting.folders
  }

  in(folder: string): readonly string[] {
    return this.#waiting.in(folder)
  }

  /** Whether the file is named like a copy, or is known to be a copy. If so, the file then waits for `takeUp`. */
  add(path: string, kind: NameKind, stat: BigIntStats): boolean {
    const isKnown = this.#copies.has(keyOf(stat))
    if (!isKnown && !originalsOf(path).some(original => this.#options.files.isName(original))) return false
    this.#waiting.set(path, kind)
    return true
  }

  /** Whether the file is compressed, or begins like another file (if `isCompared`). If so, it waits for `takeUp`. */
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

  /** Starts a search. Forgets copies that the sweep did not find. Known compressed files no longer wait. */
  async begin(slices: Slices): Promise<void> {
    const there = new Set<string>()
    let areLeft = false
    for (const path of this.#waiting.keys()) {
      if (slices.due) await slices.pause()
      if (this.#options.remote.isSilent(path)) {
        areLeft = true
        continue
      }
      const stat = statOrNone(path)
      if (stat) there.add(keyOf(stat))
      const seen = stat && this.#copies.get(keyOf(stat))
      if (!stat || (seen?.isCompressed && isSame(seen, stat))) this.#waiting.delete(path)
    }
    if (areLeft) return
    for (const key of this.#copies.keys()) if (!there.has(key)) this.#copies.delete(key)
  }

  /**
   * Reads the waiting files of a folder that are not copies. `copyOf` returns the name of the original of a copy.
   * `compared`: the device and inode of the files that were compared. `inflate` reads a compressed file, and returns
   * false if the file has changed.
   */
  async takeUp(
    folder: string,
    copyOf: (key: string) => string | undefined,
    compared: ReadonlySet<string>,
    inflate: (stat: BigIntStats) => boolean,
    slices: Slices,
  ): Promise<void> {
    for (const path of this.in(folder)) {
      const kind = this.#waiting.get(path)!
      if (slices.due) await slices.pause()
      this.#waiting.delete(path)
      const stat = statOrNone(path)
      if (!stat?.isFile()) continue
      const key = keyOf(stat)
      const state = this.#stateOf(path, stat, copyOf(key), compared.has(key), inflate)
      if (state === 'later') this.#waiting.set(path, kind)
      else if (state === 'new' || state === 'unread') {
        this.#copies.delete(keyOf(stat))
        this.#options.files.examine(path, kind, state)
      } else this.#copies.set(keyOf(stat), state)
    }
  }

  #stateOf(
    path: string,
    stat: BigIntStats,
    of: string | undefined,
    isCompared: boolean,
    inflate: (stat: BigIntStats) => boolean,
  ): Seen | 'later' | Compared {
    const { clock, files, delays, open } = this.#options
    const seen = this.#copies.get(keyOf(stat))
    const names = originalsOf(path)
    if (names.some(delays) || (of !== undefined && delays(of))) return 'later'
    const { size, mtimeNs: changedAt } = stat
    const state = { isCompressed: false, size, changedAt, since: seen && isSame(seen, stat) ? seen.since : clock.now() }
    const first = withFile(path, firstBytes, { open })
    const format = first && formatOf(first)
    if (format) {
      const isDone = of !== undefined || this.#takeCompressed(path, stat, format, inflate)
      return isDone ? { ...state, isCompressed: true } : 'later'
    }
    // A copy may be in progress that is still empty or short.
    const current = names.flatMap(name => files.named(name) ?? [])
    if (size === 0n && current.length > 0) return state
    // If this lasts, the error is reported when the file is examined.
    if (!first) return withFile(path, firstBytes, { open }) ? 'later' : 'unread'
    const isChanging = clock.now() - state.since < SETTLE_MS
    if (of === undefined && isChanging && current.some(tailer => beginsLike(tailer, first))) return state
    // A file that was found or became readable during the search must be compared first.
    if (of === undefined) return size === 0n || isCompared || files.isRead(path, stat) ? 'new' : 'later'
    return names.includes(of) || clock.now() - state.since < TWIN_MS ? state : 'new'
  }

  /**
   * Reads a compressed file that is not a copy, or reports why it is not read. Returns false if the file may be
   * incomplete.
   */
  #takeCompressed(path: string, stat: BigIntStats, format: Format, inflate: (stat: BigIntStats) => boolean): boolean {
    const { candidates, problems, files } = this.#options
    // Such a file may be written all the time.
    if (format === 'UTF-16') problems.refused(path)
    else if (!candidates.isAtRest(stat)) return false
    else if (!isReadable(format)) problems.compressed(path, 'format')
    else if (files.isOld(stat)) problems.compressed(path, 'old')
    else {
      const first = candidates.firstBytes(dirname(path), { name: basename(path), stat })
      if (first && formatOf(first) === 'UTF-16') problems.refused(path)
      else if (first?.length !== 0) return inflate(stat)
    }
    return true
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
