import type { BigIntStats } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { Clock } from '../../../lib/time.js'
import {
  type BirthTimes,
  begins,
  FINGERPRINT_BYTES,
  type Fingerprint,
  fingerprintAt,
  isCopyOnly,
  keyOf,
} from '../identity.js'
import type { PathProblems } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import type { Saved } from '../saved.js'
import type { Slices } from '../slices.js'
import { isBeginningOf } from './beginnings.js'
import { Copies, type Sought } from './copies.js'
import type { Candidate, Copy } from './copy.js'
import { SETTLE_MS } from './possible-copies.js'
import type { ShortCopy } from './short-copies.js'
import { isKnownFile, type Sibling, Siblings, type UnseenSibling } from './siblings.js'

/** A rotated file that was never seen, and its last modification. */
export interface Unseen {
  readonly place: UnseenSibling | Candidate
  readonly changedAt: bigint
}

interface Read {
  readonly head: Fingerprint
  readonly sizes: readonly number[]
}

/** Finds the rotated content of files: in plain copies, in compressed ones, and in files that came and went unseen. */
export class Rotated {
  readonly copies: Copies
  readonly siblings: Siblings
  readonly #saved: Saved
  /** What folders had when they were listed in this round: `namesIn`. */
  readonly #listed = new Map<string, string>()

  /** `isRead`: whether a tailer reads this file. `mayBeCopy`: whether the file at this path looks like a copy. */
  constructor(
    saved: Saved,
    births: BirthTimes,
    problems: PathProblems,
    clock: Clock,
    isRead: (stat: BigIntStats, path: string) => boolean,
    mayBeCopy: (path: string) => boolean = () => false,
  ) {
    this.#saved = saved
    this.copies = new Copies(problems, births, clock)
    const isSaved = (stat: BigIntStats, path: string) => {
      const entry = saved.knows(stat, births) ? saved.find(stat.dev, stat.ino, path) : undefined
      return entry !== undefined && isKnownFile(path, stat, { ...entry, birth: BigInt(entry.birth) }, births)
    }
    this.siblings = new Siblings(births, (stat, path) => isRead(stat, path) || isSaved(stat, path), mayBeCopy)
  }

  /** Starts a round; folders are listed again. */
  begin(): void {
    this.copies.begin()
    this.siblings.begin()
    this.#listed.clear()
  }

  /**
   * Claims the compressed copies of files that are read, so that they are not matched to files with a shorter known head.
   * An open file may have more than was read of it.
   */
  async claimCopies(folder: string, tailers: Iterable<Tailer>, slices: Slices): Promise<void> {
    for (const tailer of tailers) {
      if (slices.due) await slices.pause()
      // During the pause its file may have been closed, to make room for another one.
      const { path, copy, fd, sought } = tailer
      if (copy || dirname(path) !== folder) continue
      const { head, offset, size } = sought
      const whole = fd === undefined ? head : fingerprintAt(fd, 0, FINGERPRINT_BYTES)
      await this.copies.claim(folder, { head: whole, offset, size }, slices)
    }
  }

  /** Whether the folder contains a file that nobody read and that was written since, wall clock in milliseconds. */
  async hasUnread(folder: string, since: number, slices: Slices): Promise<boolean> {
    return (await this.siblings.newest(folder, slices)) >= since
  }

  /** Finds the copy of a file that is gone or was truncated. Search for files with longer heads first. */
  async find(folder: string, sought: Sought, slices: Slices): Promise<Sibling | Copy | undefined> {
    const isCompressed = this.copies.isFound(folder, sought) || isCopyOnly(sought.key)
    const sibling = isCompressed ? undefined : await this.siblings.find(folder, sought, slices)
    if (sibling && sibling.stat.size >= sought.size) return this.siblings.take(sibling)
    // If the plain copy is too short, a compressed one may be the right one.
    const copy = await this.copies.find(folder, sought, slices)
    return copy ?? (sibling && this.siblings.take(sibling))
  }

  /**
   * The files that had the name `path` since a time (wall clock in milliseconds) while the source read another file or
   * none. `now`: compressed files may still be incomplete. Undefined if it cannot be determined yet. `unreadable` is
   * called with files that cannot be opened now, and are missing in the result.
   */
  async unseen(
    path: string,
    since: number,
    now: number | undefined,
    tailers: readonly Tailer[],
    slices: Slices,
    unreadable: (path: string) => void = () => {},
  ): Promise<Unseen[] | undefined> {
    const folder = dirname(path)
    const until = now === undefined ? undefined : now - SETTLE_MS
    // Lists are those of the round, in which another file of the folder may have been searched for before.
    const names = this.#listed.get(folder) ?? this.siblings.namesIn(folder)
    this.#listed.set(folder, names)
    const open = tailers.filter(({ fd, origin }) => fd !== undefined && origin.path === path)
    // Their copies have what was written to them since the sweep looked at them.
    for (const tailer of open) if (tailer.holds()) tailer.sees(tailer.sureSize)
    const read = this.#readIn(folder, tailers)
    const reads = (first: Buffer, size: number) => read.filter(one => isWhole(one, first, size))
    const sought = { folder, name: basename(path), since, until, reads, unreadable }
    const compressed = await this.copies.unseen(sought, slices)
    if (!compressed) return undefined
    const plain = await this.siblings.unseen(sought, slices)
    // Compare keys, because names change with every rotation, and heads, because inodes of deleted copies are used again.
    const copied = tailers.filter(({ copy, copyKey }) => copy?.isFound || copyKey !== undefined)
    const isRead = ({ key, first }: Candidate) =>
      copied.some(one => (one.copy?.isFound ? one.copy.key : one.copyKey) === key && begins(first, one.sought.head))
    const others: Candidate[] = []
    for (const one of compressed) if (!isRead(one) && !(await isBeginningOf(one, open, slices))) others.push(one)
    const short = others.length === 0 ? new Map() : await this.#shortCopies(path, tailers, others)
    if (this.siblings.namesIn(folder) !== names) return undefined
    this.#claim(short)
    return [
      ...others.map(place => ({ place, changedAt: place.changedAt })),
      ...plain.map(place => ({ place, changedAt: place.stat.mtimeNs })),
    ].filter(({ place }) => !short.has(place))
  }

  /** Matches a truncated file with a plain copy that is shorter than what was read of it. */
  async claimShort(folder: string, of: Tailer, slices: Slices): Promise<void> {
    const places = await this.siblings.shorter(folder, of.sought, slices)
    if (places.length > 0) this.#claim(await this.#shortCopies(of.origin.path!, [of], places))
  }

  async #shortCopies(
    ...args: Parameters<typeof import('./short-copies.js').shortCopies>
  ): Promise<Map<Unseen['place'], ShortCopy>> {
    // It is seldom needed.
    const { shortCopies } = await import('./short-copies.js')
    return await shortCopies(...args)
  }

  #claim(short: Map<Unseen['place'], ShortCopy>): void {
    for (const [place, { entry, of }] of short) {
      this.#saved.put(entry)
      of.copyKey = 'stat' in place ? keyOf(place.stat) : place.key
    }
  }

  /**
   * The first bytes of a gzip file, and whether it was matched to a file that was read; undefined if there are none that
   * can be read.
   */
  async contentOf(
    path: string,
    stat: BigIntStats,
    slices: Slices,
  ): Promise<{ first: Buffer; isMatched: boolean } | undefined> {
    const one = await this.copies.examine(path, stat, slices)
    return one && { first: one.first, isMatched: one.owner !== undefined || one.spoken > 0 || one.over }
  }

  #readIn(folder: string, tailers: readonly Tailer[]): Read[] {
    const reads: Read[] = []
    for (const { path, head, offset } of this.#saved.entries()) {
      if (dirname(path) === folder) reads.push({ head, sizes: [offset] })
    }
    for (const { path, size, sought, copy } of tailers) {
      // The content of a copy may be shorter than the size seen of the file.
      if (dirname(path) === folder)
        reads.push({ head: sought.head, sizes: copy ? [sought.offset] : [size, sought.offset] })
    }
    return reads.filter(({ head }) => head.bytes > 0)
  }
}

function isWhole({ head, sizes }: Read, first: Buffer, size: number): boolean {
  return sizes.some(known => known % 2 ** 32 === size % 2 ** 32) && begins(first, head)
}
