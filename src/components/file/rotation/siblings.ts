import type { BigIntStats } from 'node:fs'
import { join } from 'node:path'
import type { Reach } from '../../../core/options/reach.js'
import { closeSync, fstatSync, namesOrNone, withFile } from '../../../lib/files/disk/disk.js'
import {
  type BirthTimes,
  FINGERPRINT_BYTES,
  type Fingerprint,
  fingerprintAt,
  firstBytes,
  judge,
  keyOf,
  type Remembered,
  same,
} from '../identity.js'
import { openWithinSync } from '../open-within.js'
import type { Slices } from '../slices.js'
import type { Sought, Unseen } from './copies.js'
import { isRotatedName, mayNameCopy } from './names.js'
import { statIn } from './search.js'

/** A regular file without a known position. */
export interface Sibling {
  readonly path: string
  readonly stat: BigIntStats
}

/** An unseen file, and its first bytes. */
export interface UnseenSibling extends Sibling {
  readonly first: Buffer
}

/** Names with a number or date at the end, or before one or two extensions. */
const MAYBE_ROTATED = /\d(\.[^.]*){0,2}$/

/**
 * Finds uncompressed copies next to files: `cp app.log app.log.1` before app.log is truncated. A copy is identified by
 * its content and a name that begins like that of the file. It is newer than the file.
 */
export class Siblings {
  readonly #births: BirthTimes
  /** Whether the position in this file is known, so it is not a copy. */
  readonly #isKnown: (stat: BigIntStats, path: string) => boolean
  /** Whether the file at this path looks like a copy, whatever its name is. */
  readonly #mayBeCopy: (path: string) => boolean
  readonly #folders = new Map<string, readonly string[]>()
  /** When a file without a known position was last written, by folder. */
  readonly #newest = new Map<string, number>()
  /** Copies matched in this round, each to one file. */
  readonly #taken = new Set<string>()

  constructor(
    births: BirthTimes,
    isKnown: (stat: BigIntStats, path: string) => boolean,
    mayBeCopy: (path: string) => boolean,
  ) {
    this.#births = births
    this.#isKnown = isKnown
    this.#mayBeCopy = mayBeCopy
  }

  /** Starts a round; names are read again. */
  begin(): void {
    this.#folders.clear()
    this.#newest.clear()
    this.#taken.clear()
  }

  /**
   * Finds the copy of a file that is gone or was truncated: it contains what was read, and possibly more. Of several
   * copies, returns the oldest that contains as much as was seen.
   */
  async find(folder: string, sought: Sought, slices: Slices): Promise<Sibling | undefined> {
    const { head, tail, offset, birth, since } = sought
    if (head.bytes === 0) return undefined
    const strong = isStrong(sought)
    let short: Sibling | undefined
    for (const sibling of await this.#candidates(folder, sought, slices)) {
      const { stat } = sibling
      if (stat.size < offset || this.#isOlder(stat, birth)) continue
      // If little was read, other files may begin with the same bytes. Then only a file created since can be the copy.
      if (!strong && since !== undefined && !this.#isSince(stat, since)) continue
      const verdict = withFile(sibling.path, fd => judge(fd, stat, { birth: 0n, offset, head, tail }, this.#births))
      if (verdict !== 'same') continue
      if (stat.size < sought.size) {
        short ??= sibling
        continue
      }
      return sibling
    }
    return short
  }

  /** Files that may be copies of a part of what was read, the newest first. */
  async shorter(folder: string, sought: Sought, slices: Slices): Promise<UnseenSibling[]> {
    const found: UnseenSibling[] = []
    for (const { path, stat } of await this.#candidates(folder, sought, slices)) {
      if (stat.size === 0n || stat.size > sought.offset || this.#isOlder(stat, sought.birth)) continue
      const first = withFile(path, firstBytes)
      if (first) found.push({ path, stat, first })
    }
    return found.reverse()
  }

  /** Files with names like those of copies, or that look like copies, the oldest first. */
  #candidates(folder: string, { name, now }: Sought, slices: Slices): Promise<Sibling[]> {
    const wanted = (found: string) =>
      mayNameCopy(found, name) || mayNameCopy(found, now) || this.#mayBeCopy(join(folder, found))
    return this.#list(folder, wanted, slices)
  }

  /** Matches a copy to a file for this round. */
  take(sibling: Sibling): Sibling {
    this.#taken.add(keyOf(sibling.stat))
    return sibling
  }

  /** When a file without a known position was last written in this folder, wall clock in milliseconds. */
  async newest(folder: string, slices: Slices): Promise<number> {
    let newest = this.#newest.get(folder)
    if (newest === undefined) {
      const last = (await this.#list(folder, () => true, slices)).at(-1)
      newest = last ? Number(last.stat.mtimeNs) / 1e6 : Number.NEGATIVE_INFINITY
      this.#newest.set(folder, newest)
    }
    return newest
  }

  /** Rotated files that were never seen, the oldest first. */
  async unseen({ folder, name, since, reads, unreadable }: Unseen, slices: Slices): Promise<UnseenSibling[]> {
    const listed = await this.#list(folder, found => isRotatedName(found, name) && !found.endsWith('.gz'), slices)
    const found: UnseenSibling[] = []
    for (const { path, stat } of listed) {
      if (stat.size === 0n || !this.#isSince(stat, since) || Number(stat.mtimeNs) / 1e6 < since) continue
      const first = withFile(path, firstBytes)
      if (!first) unreadable(path)
      else if (reads(first, Number(stat.size)).length === 0) found.push({ path, stat, first })
    }
    return found
  }

  /** Whether `path` is just a copy of the beginning of the open file `original`. */
  isCopyOf(path: string, original: number): boolean {
    const of = fstatSync(original, { bigint: true })
    return (
      withFile(path, fd => {
        const stat = fstatSync(fd, { bigint: true })
        if (stat.size > of.size || this.#isOlder(stat, of.birthtimeNs)) return false
        const size = Number(stat.size)
        if (!this.#births.kept(stat) && size < FINGERPRINT_BYTES) return false
        const starts = [0, Math.floor(size / 2), Math.max(0, size - FINGERPRINT_BYTES)]
        const at = (fd: number, start: number) => fingerprintAt(fd, start, Math.min(size, start + FINGERPRINT_BYTES))
        return starts.every(start => same(at(fd, start), at(original, start)))
      }) === true
    )
  }

  /** The files with names like those of copies, each with its inode. If they change during a search, one may be missed. */
  namesIn(folder: string): string {
    const found: string[] = []
    for (const name of namesOrNone(folder)) {
      const stat = MAYBE_ROTATED.test(name) ? statIn(folder, name) : undefined
      if (stat?.isFile()) found.push(`${name}/${keyOf(stat)}`)
    }
    return found.sort().join('/')
  }

  #isOlder(stat: BigIntStats, birth: bigint): boolean {
    return this.#births.kept(stat) && birth > 0n && stat.birthtimeNs < birth
  }

  #isSince(stat: BigIntStats, since: number): boolean {
    return Number(this.#births.kept(stat) ? stat.birthtimeNs : stat.mtimeNs) / 1e6 >= since
  }

  /** Sorted, the oldest first. */
  async #list(folder: string, wanted: (name: string) => boolean, slices: Slices): Promise<Sibling[]> {
    const found: Sibling[] = []
    for (const name of this.#names(folder)) {
      if (slices.due) await slices.pause()
      if (!wanted(name)) continue
      const stat = statIn(folder, name)
      if (!stat?.isFile()) continue
      this.#births.learn(stat)
      const path = join(folder, name)
      if (!this.#isKnown(stat, path) && !this.#taken.has(keyOf(stat))) found.push({ path, stat })
    }
    return found.sort((a, b) => (a.stat.mtimeNs < b.stat.mtimeNs ? -1 : 1))
  }

  #names(folder: string): readonly string[] {
    let names = this.#folders.get(folder)
    if (!names) this.#folders.set(folder, (names = namesOrNone(folder)))
    return names
  }
}

/** Whether the file at `path` is the remembered one, which had its inode. Without birth times, the content shows it. */
export function isKnownFile(path: string, stat: BigIntStats, remembered: Remembered, births: BirthTimes): boolean {
  if (births.kept(stat)) return !births.differ(stat, remembered.birth)
  return withFile(path, fd => judge(fd, stat, remembered, births) === 'same') !== false
}

/** Opens a file that was found; undefined if its name now refers to another file. */
export function openSibling({ path, stat }: Sibling, births: BirthTimes, reach: Reach | undefined): number | undefined {
  const fd = openWithinSync(reach, path)
  let isIt = false
  try {
    const now = fstatSync(fd, { bigint: true })
    isIt = keyOf(now) === keyOf(stat) && !births.differ(now, stat.birthtimeNs)
    return isIt ? fd : undefined
  } finally {
    if (!isIt) closeSync(fd)
  }
}

/** Whether the fingerprints cover enough bytes to exclude a match by chance. */
export function isStrong({ head, tail }: { head: Fingerprint; tail: Fingerprint }): boolean {
  return head.bytes === FINGERPRINT_BYTES && tail.bytes === FINGERPRINT_BYTES
}
