import type { BigIntStats } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errorCode } from '../../../core/errors.js'
import {
  fstatSync,
  namesOrNone,
  openToRead,
  readSync,
  statOrNone,
  unlessSilent,
  withFile,
} from '../../../lib/files/disk/disk.js'
import type { Clock } from '../../../lib/time.js'
import { type BirthTimes, FINGERPRINT_BYTES, type Fingerprint, fingerprint, isCopyOnly, keyOf } from '../identity.js'
import { isOfSystem, type PathProblems } from '../path-problems.js'
import type { Slices } from '../slices.js'
import { type Candidate, Copy, Slots } from './copy.js'
import { Inflated } from './inflated.js'
import { isRotatedName } from './names.js'
import { statIn } from './search.js'
import { isStrong } from './siblings.js'

/** Clocks of file systems may be behind by up to this. */
export const CLOCK_MS = 10
/** Maximum number of copies examined per folder, the newest first. */
const MAX_COPIES = 2000
/** Work for reading the first bytes of a copy, in bytes. */
const PEEK_BUDGET = 1024 * 1024
/** Who compresses a file writes more often than this. */
const AT_REST_MS = 30_000
/** The minimum size of a gzip file. */
const SMALLEST = 18

/** The file that is searched for: what is known about it. */
export interface Sought {
  /** Its key. */
  readonly key: string
  /** The name under which it was read. */
  readonly name: string
  /** The name that it had last. A copy may be named after either. */
  readonly now: string
  readonly birth: bigint
  readonly offset: number
  /** Last known size; a copy is at least as large. */
  readonly size: number
  readonly head: Fingerprint
  readonly tail: Fingerprint
  /** Whether it was read to its last known end. */
  readonly read: boolean
  /** When it was last known to exist, wall clock in milliseconds. */
  readonly since?: number | undefined
  /** The same for a file that was truncated during reading, whose copy may have been started earlier. */
  readonly truncatedSince?: number | undefined
  /** Device and inode of the compressed file that was read instead. */
  readonly copyKey?: string | undefined
}

/** A search for unseen files of a name that refers to another file now. Times are wall clock in milliseconds. */
export interface Unseen {
  readonly folder: string
  readonly name: string
  /** When the former file of this name was last seen. */
  readonly since: number
  /** A compressed file that changed after this time may be incomplete, unless it is the copy of a file that was read. */
  readonly until?: number | undefined
  /** The files that were read with these first bytes and this size. */
  reads(first: Buffer, size: number): readonly object[]
  /** Called with a file that cannot be opened now. */
  unreadable(path: string): void
}

interface Folder {
  /** Candidates by their stat, regardless of their names. */
  readonly known: Map<string, Candidate | undefined>
  all: readonly Candidate[]
  /** Candidates by length and hash of their heads. */
  heads: Map<number, Map<number, Candidate[]>>
  stamp: string
  /** Whether birth times in the folder are reliable. */
  births: boolean
  /** The round in which it was last listed. */
  round: number
  /** Files of which no candidate, or only a part of one, could be made, by their stat. */
  readonly unreadable: Map<string, Unreadable>
}

interface Unreadable {
  path: string
  readonly stat: BigIntStats
  readonly error: unknown
}

/**
 * Finds compressed copies of files by content: the heads must be equal, and reading the copy shows whether the bytes
 * before the position are, too. Searches the whole folder, regardless of patterns. Invariants: a copy is examined once
 * unless it changes, and it is matched to at most one file.
 */
export class Copies {
  readonly #problems: PathProblems
  readonly #births: BirthTimes
  readonly #clock: Clock
  readonly #folders = new Map<string, Folder>()
  readonly #slots = new Slots()
  #round = 0
  /** Contents of the folders in this round. */
  readonly #listed = new Map<string, readonly Listed[]>()
  /** Files that cannot be read and may have what is searched for, by path, with their state. */
  readonly #hiding = new Map<string, string>()

  constructor(problems: PathProblems, births: BirthTimes, clock: Clock) {
    this.#problems = problems
    this.#births = births
    this.#clock = clock
  }

  /** Starts a round, in which each folder is listed once. */
  begin(): void {
    this.#round++
    this.#listed.clear()
  }

  #list(folder: string): readonly Listed[] {
    let found = this.#listed.get(folder)
    if (!found) this.#listed.set(folder, (found = list(folder, this.#clock.wall())))
    return found
  }

  /** Forgets all folders except these. */
  keep(folders: { has(folder: string): boolean }): void {
    for (const folder of this.#folders.keys()) if (!folders.has(folder)) this.#folders.delete(folder)
  }

  /** Whether the folder contains compressed files. */
  areIn(folder: string): boolean {
    // Called for each released file, so it does less than `list`.
    return namesOrNone(folder).some(name => copyStat(folder, name) !== undefined)
  }

  /** Whether it contains one named like a rotated file of `name` that was made since, wall clock in milliseconds. */
  isIn(folder: string, name: string, since: number): boolean {
    const isIt = ({ path, stat }: Listed) =>
      isRotatedName(basename(path), name) && Number(stat.birthtimeNs) / 1e6 >= since - CLOCK_MS
    return this.#list(folder).some(isIt)
  }

  /** Whether its copy is known, under any name. Then no other file can be the copy. */
  isFound(folder: string, { key, copyKey }: Sought): boolean {
    if (copyKey === undefined) return false
    for (const one of this.#folders.get(folder)?.known.values() ?? []) if (one?.owner === key) return true
    return false
  }

  /**
   * Finds potential copies of a file that may contain more than was read; undefined if there are none. Search for files
   * with longer heads first.
   */
  async find(folder: string, sought: Sought, slices: Slices): Promise<Copy | undefined> {
    const looked = await this.#look(folder, slices)
    const { all, births } = looked
    if (all.length === 0) return undefined
    // An empty file has no content that identifies it.
    if (sought.head.bytes === 0) return undefined
    const { bytes } = sought.head
    const strong = isStrong(sought)
    const later = ({ changedAt }: Candidate) => !births || changedAt >= sought.birth
    const free = ({ over, not, owner = sought.key, spoken }: Candidate) =>
      !over && !not.has(sought.key) && owner === sought.key && spoken <= bytes
    // A copy last modified before the file was created is of an older file, or has lost its times.
    const isFound = this.isFound(folder, sought)
    const isIt = (one: Candidate) => (isFound ? one.owner === sought.key : later(one) || strong)
    const matching = withHead(looked, sought.head).filter(one => isIt(one) && free(one))
    const whole = matching.find(one => isWhole(one, sought))
    if (whole) whole.spoken = Math.max(whole.spoken, bytes)
    // If there are several, reading them shows which one it is.
    const isClear = matching.every(one => one.crc === whole?.crc || !isWhole(one, sought))
    if (whole && sought.read && isClear) {
      whole.owner = sought.key
      whole.over = true
      return undefined
    }
    if (matching.length === 0) return undefined
    const named = ({ path }: Candidate) => basename(path).startsWith(sought.name)
    const its = isCopyOnly(sought.key) ? matching.filter(({ changedAt }) => changedAt === sought.birth) : []
    if (its.length > 0) return this.whole(its.find(named) ?? its[0]!, sought.key)
    // A copy last modified before the file was last seen contains nothing new.
    const since = sought.since ?? sought.truncatedSince ?? 0
    const isSince = ({ changedAt }: Candidate) => Number(changedAt) / 1e6 >= since
    const misses = (one: Candidate) => sought.size < 2 ** 32 && one.size < sought.size
    const isExact = (one: Candidate) => one.size === sought.size % 2 ** 32
    const order = (one: Candidate) =>
      one.key === sought.copyKey
        ? -1
        : (misses(one) ? 16 : 0) +
          (isSince(one) ? 0 : 8) +
          (later(one) ? 0 : 4) +
          (isExact(one) ? 0 : 2) +
          (named(one) ? 0 : 1)
    matching.sort((a, b) => order(a) - order(b) || (a.changedAt < b.changedAt ? -1 : 1))
    return new Copy(matching, sought.key, this.#problems, this.#slots)
  }

  /** Whether a file that cannot be read may be the copy of a file that was not found. Reports it. */
  mayHide(folder: string, { name, now, birth, read, since, truncatedSince = 0 }: Sought): boolean {
    const isNamed = (path: string) => [name, now].some(of => isRotatedName(basename(path), of))
    const from = Math.max(Number(birth) / 1e6, since ?? truncatedSince)
    let hides = false
    for (const [stamp, { path, stat, error }] of read ? [] : this.#folder(folder).unreadable) {
      if (!isNamed(path) || Number(stat.ctimeNs) / 1e6 < from) continue
      this.#problems.hidden(path, error)
      this.#hiding.set(path, stamp)
      hides = true
    }
    return hides
  }

  /** Whether one of the files that may hide others can be read now, or is gone. */
  isUncovered(): boolean {
    let is = false
    for (const [path, stamp] of this.#hiding) {
      const stat = statOrNone(path)
      const isSame = stat !== undefined && stampOf(stat) === stamp
      const isLocked = isSame && (this.#folders.get(dirname(path))?.known.has(stamp) || !withFile(path, () => true))
      if (isLocked) continue
      this.#hiding.delete(path)
      if (stat) this.#problems.over(path)
      is = true
    }
    return is
  }

  /** Claims the copy of a file of which so much was read, so that it is not matched to a file with a shorter head. */
  async claim(folder: string, read: Pick<Sought, 'head' | 'offset' | 'size'>, slices: Slices): Promise<void> {
    const looked = await this.#look(folder, slices)
    const { head, size } = read
    for (const one of looked.all.length > 0 && head.bytes > 0 ? withHead(looked, head) : [])
      if (isWhole(one, read) || isWhole(one, { offset: size })) one.spoken = Math.max(one.spoken, head.bytes)
  }

  /**
   * Rotated files that were never seen, the oldest first; undefined if a copy may still be incomplete. `reads` finds
   * the files that were read, by their first bytes and size.
   */
  async unseen(sought: Unseen, slices: Slices): Promise<Candidate[] | undefined> {
    const { folder, name, since, reads, until, unreadable } = sought
    const kept = this.#kept(folder)
    const late = (ns: bigint) => Number(ns) / 1e6 >= since
    const found: Candidate[] = []
    for (const { path, stat, stamp } of this.#list(folder)) {
      if (!isRotatedName(basename(path), name) || !late(stat.mtimeNs) || (kept && !late(stat.birthtimeNs))) continue
      const mayGrow = until !== undefined && Number(stat.ctimeNs) / 1e6 > until
      const candidate = await this.#candidate(path, stat, stamp, slices, mayGrow)
      if (!candidate && mayGrow) return undefined
      const { error } = this.#folder(folder).unreadable.get(stamp) ?? {}
      if (error && !candidate && isOfSystem(error)) unreadable(path)
      else if (error) this.#problems.hidden(path, error)
      if (!candidate || candidate.owner || candidate.spoken > 0 || candidate.first.length === 0) continue
      if (!late(candidate.changedAt)) continue
      const alike = reads(candidate.first, candidate.size)
      if (alike.length > 0 && alike.length > (await this.#others(candidate, alike, sought, slices))) continue
      if (mayGrow) return undefined
      found.push(candidate)
    }
    return found.reverse()
  }

  /**
   * The number of other copies that may be those of the files `alike`, which begin like it and have its size. Of two with
   * the same time neither is known to be the copy: both are read, so that no line is lost.
   */
  async #others(one: Candidate, alike: readonly object[], sought: Unseen, slices: Slices): Promise<number> {
    const { all } = await this.#look(sought.folder, slices)
    const isAlike = ({ first, size }: Candidate) => sought.reads(first, size).some(read => alike.includes(read))
    const isOther = ({ size, crc, owner, over, changedAt }: Candidate) =>
      size === one.size && crc !== one.crc && (owner ? over : changedAt <= one.changedAt)
    return all.filter(other => isOther(other) && isAlike(other)).length
  }

  /** What is known of a gzip file; undefined if it cannot be read, or is incomplete. */
  async examine(path: string, stat: BigIntStats, slices: Slices): Promise<Candidate | undefined> {
    return stat.size < SMALLEST ? undefined : await this.#candidate(path, stat, stampOf(stat), slices, true)
  }

  /** A reader for all of a candidate, which is matched to this key. */
  whole(candidate: Candidate, key: string): Copy {
    candidate.owner = key
    return new Copy([candidate], key, this.#problems, this.#slots)
  }

  #kept(folder: string): boolean {
    const stat = statOrNone(folder)
    if (!stat) return false
    this.#births.learn(stat)
    return this.#births.kept(stat)
  }

  /** The candidate for a file, which is examined once unless it changes. `mayGrow`: damage may be a missing end. */
  async #candidate(
    path: string,
    stat: BigIntStats,
    stamp: string,
    slices: Slices,
    mayGrow = false,
  ): Promise<Candidate | undefined> {
    const { known, unreadable } = this.#folder(dirname(path))
    let one = known.get(stamp)
    if (!known.has(stamp)) {
      if (slices.due) await slices.pause()
      const { candidate, error } = await this.#peek(path, stat)
      slices.restart()
      if (error ? mayGrow : !candidate) return undefined
      if (error) unreadable.set(stamp, { path, stat, error })
      else unreadable.delete(stamp)
      // What the system refuses is tried again.
      if (error && isOfSystem(error)) return undefined
      if (error) this.#problems.damaged(path, error)
      known.set(stamp, (one = candidate))
    }
    const failed = unreadable.get(stamp)
    if (failed) failed.path = path
    if (one) one.path = path
    return one
  }

  #folder(path: string): Folder {
    let folder = this.#folders.get(path)
    if (!folder) this.#folders.set(path, (folder = unseen()))
    return folder
  }

  async #look(path: string, slices: Slices): Promise<Folder> {
    const folder = this.#folder(path)
    if (folder.round === this.#round) return folder
    folder.round = this.#round
    folder.births = this.#kept(path)
    const found = this.#list(path)
    const stamp = found.map(one => `${one.path}:${one.stamp}`).join()
    if (stamp === folder.stamp) return folder
    const all: Candidate[] = []
    for (const { path, stat, stamp } of found) {
      const candidate = await this.#candidate(path, stat, stamp, slices)
      if (candidate) all.push(candidate)
    }
    const { unreadable } = folder
    const stamps = new Set(unreadable.size > 0 ? found.map(one => one.stamp) : [])
    for (const stamp of unreadable.keys()) if (!stamps.has(stamp)) unreadable.delete(stamp)
    // A file that is being renamed may be missing from a list, so candidates are kept.
    if (folder.known.size > 2 * MAX_COPIES) {
      const stamps = new Set(found.map(one => one.stamp))
      for (const stamp of folder.known.keys()) if (!stamps.has(stamp)) folder.known.delete(stamp)
    }
    folder.all = all
    folder.heads = new Map()
    folder.stamp = found.every(one => folder.known.has(one.stamp)) ? stamp : 'incomplete'
    return folder
  }

  /** Neither: another file has the name now. Both: the file is damaged after the first bytes. */
  async #peek(path: string, stat: BigIntStats): Promise<{ candidate?: Candidate; error?: unknown }> {
    try {
      const fd = openToRead(path)
      const inflated = new Inflated(fd)
      try {
        if (keyOf(fstatSync(fd, { bigint: true })) !== keyOf(stat)) return {}
        const { size, crc, changedAt } = marksOf(fd, stat)
        inflated.budget = PEEK_BUDGET
        const room = Buffer.alloc(FINGERPRINT_BYTES)
        const length = await inflated.read(room)
        const first = room.subarray(0, length)
        const marks = { path, key: keyOf(stat), changedAt, size, crc, first }
        const candidate: Candidate = { ...marks, not: new Set(), owner: undefined, spoken: 0, over: false }
        return { candidate, error: length < FINGERPRINT_BYTES ? inflated.damage : undefined }
      } finally {
        inflated.close()
      }
    } catch (error) {
      unlessSilent(error)
      return errorCode(error) === 'ENOENT' ? {} : { error }
    }
  }
}

interface Listed {
  readonly path: string
  readonly stat: BigIntStats
  readonly stamp: string
}

function unseen(): Folder {
  return { known: new Map(), all: [], heads: new Map(), stamp: '', births: false, round: 0, unreadable: new Map() }
}

function withHead({ all, heads }: Folder, { bytes, hash }: Fingerprint): readonly Candidate[] {
  let byHash = heads.get(bytes)
  if (!byHash) heads.set(bytes, (byHash = indexOf(all, bytes)))
  return byHash.get(hash) ?? []
}

function isWhole({ size }: Candidate, { offset }: Pick<Sought, 'offset'>): boolean {
  return size === offset % 2 ** 32
}

function indexOf(all: readonly Candidate[], bytes: number): Map<number, Candidate[]> {
  const index = new Map<number, Candidate[]>()
  for (const one of all) {
    if (one.first.length < bytes) continue
    const { hash } = fingerprint(one.first, 0, bytes)
    const list = index.get(hash)
    if (list) list.push(one)
    else index.set(hash, [one])
  }
  return index
}

/** The stat of a potential gzip file; undefined if it is not one. */
function copyStat(folder: string, name: string): BigIntStats | undefined {
  if (!name.endsWith('.gz')) return undefined
  const stat = statIn(folder, name)
  return stat?.isFile() && stat.size >= SMALLEST ? stat : undefined
}

/** Identifies a file and its state. */
function stampOf({ dev, ino, size, mtimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${size}:${mtimeNs}`
}

/**
 * The gzip files of a folder, the newest first, without those whose original still exists, which may be incomplete.
 * `now`: wall clock in milliseconds.
 */
function list(folder: string, now: number): Listed[] {
  const found: Listed[] = []
  const names = new Set(namesOrNone(folder))
  for (const name of names) {
    const stat = copyStat(folder, name)
    if (!stat) continue
    const original = name.slice(0, -'.gz'.length)
    const path = join(folder, name)
    if (names.has(original) && isMadeOf(path, stat, statIn(folder, original), now)) continue
    found.push({ path, stat, stamp: stampOf(stat) })
  }
  found.sort((a, b) => (a.stat.mtimeNs > b.stat.mtimeNs ? -1 : 1))
  return found.slice(0, MAX_COPIES)
}

/**
 * Whether the file of that name is what the gzip file is made of: it is older, so no successor, and they have the same
 * size, or the gzip file is still being written. Else it is an older rotated file, left when compression was turned on.
 */
function isMadeOf(path: string, gz: BigIntStats, original: BigIntStats | undefined, now: number): boolean {
  if (!original?.isFile() || original.birthtimeNs >= gz.birthtimeNs) return false
  // At its end it usually gets the times of what it was made of.
  const isFinished = gz.mtimeNs < gz.birthtimeNs || now - Number(gz.ctimeNs) / 1e6 >= AT_REST_MS
  if (!isFinished) return true
  return withFile(path, fd => marksOf(fd, gz).size === Number(original.size) % 2 ** 32) ?? true
}

/** The size and checksum at the end, and the modification time: that of the original, if it is recorded. */
function marksOf(fd: number, stat: BigIntStats): Pick<Candidate, 'size' | 'crc' | 'changedAt'> {
  const marks = Buffer.alloc(12)
  readSync(fd, marks, 0, 4, 4)
  readSync(fd, marks, 4, 8, Number(stat.size) - 8)
  const second = BigInt(marks.readUInt32LE(0))
  const noted = second === 0n ? stat.mtimeNs : (second + 1n) * 1_000_000_000n
  return {
    size: marks.readUInt32LE(8),
    crc: marks.readUInt32LE(4),
    changedAt: noted < stat.mtimeNs ? noted : stat.mtimeNs,
  }
}
