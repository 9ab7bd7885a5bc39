import { type BigIntStats, constants } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { errorCode } from '../../../core/errors.js'
import {
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  statSync,
  unlessSilent,
} from '../../../lib/files/remote/guarded-fs.js'
import { type BirthTimes, FINGERPRINT_BYTES, type Fingerprint, fingerprint, isCopyOnly, keyOf } from '../identity.js'
import type { PathProblems } from '../path-problems.js'
import type { Slices } from '../slices.js'
import { type Candidate, Copy, Slots } from './copy.js'
import { Inflated } from './inflated.js'
import { isRotatedName } from './names.js'

/** Copies that are looked into in one folder, the newest first. */
const MAX_COPIES = 2000
/** What is inflated to see the first bytes of a copy. */
const PEEK_BUDGET = 1024 * 1024
/** No gzip file is smaller. */
const SMALLEST = 18

/** What is sought: a file that is gone, as far as it was read. */
export interface Sought {
  /** What it is known by here. */
  readonly key: string
  /** The name it was read under. */
  readonly name: string
  readonly birth: bigint
  readonly offset: number
  /** How many bytes it was seen to have: a copy of it has no fewer. */
  readonly size: number
  readonly head: Fingerprint
  readonly tail: Fingerprint
  /** As far as was known, it was read to its end. */
  readonly read: boolean
  /** When it was last known to be there, wall clock in milliseconds. */
  readonly since?: number | undefined
  /** The same of a file that was truncated while it was read: its copy may have been begun before. */
  readonly truncatedSince?: number | undefined
  /** The device and inode of the compressed file that it was read from. */
  readonly copyKey?: string | undefined
}

/** What is sought of a name that leads to another file now: what had it in between. Times are wall clock in milliseconds. */
export interface Unseen {
  readonly folder: string
  readonly name: string
  /** When the file that had the name before was last seen. */
  readonly since: number
  /** A compressed file that changed later may not be complete. */
  readonly until?: number | undefined
  /** How many files were read that have such first bytes and such a size. */
  reads(first: Buffer, size: number): number
}

interface Folder {
  /** By the stat that they were seen with, whatever their names are now. */
  readonly known: Map<string, Candidate | undefined>
  all: readonly Candidate[]
  /** By the length of a head: by its hash. */
  heads: Map<number, Map<number, Candidate[]>>
  stamp: string
  /** Whether the times of birth in it can be believed. */
  births: boolean
  /** The round in which it was listed last. */
  round: number
}

/**
 * Finds copies that files were compressed to, by content: the head of the copy's content is that of the file, and
 * whether the bytes before the position are the same as well is seen when it is read. The whole folder is looked
 * through, whatever the patterns say. Invariants: a copy is looked into once, as long as it does not change; it is the
 * copy of one file at most.
 */
export class Copies {
  readonly #problems: PathProblems
  readonly #births: BirthTimes
  readonly #folders = new Map<string, Folder>()
  readonly #slots = new Slots()
  #round = 0
  /** What is in the folders in this round. */
  readonly #listed = new Map<string, readonly Listed[]>()

  constructor(problems: PathProblems, births: BirthTimes) {
    this.#problems = problems
    this.#births = births
  }

  /** What is found until the next call is found among the copies that are there now: each folder is listed once. */
  begin(): void {
    this.#round++
    this.#listed.clear()
  }

  #list(folder: string): readonly Listed[] {
    let found = this.#listed.get(folder)
    if (!found) this.#listed.set(folder, (found = list(folder)))
    return found
  }

  /** Forgets what it knows of other folders than these. */
  keep(folders: { has(folder: string): boolean }): void {
    for (const folder of this.#folders.keys()) if (!folders.has(folder)) this.#folders.delete(folder)
  }

  /** Whether there are any. */
  areIn(folder: string): boolean {
    // Called for each file that is released, so it is not as thorough as `list`.
    try {
      return readdirSync(folder).some(name => copyStat(folder, name) !== undefined)
    } catch (error) {
      unlessSilent(error)
      return false
    }
  }

  /** Whether one is known to be its copy, under whatever name: then no other can be. */
  isFound(folder: string, { key, copyKey }: Sought): boolean {
    if (copyKey === undefined) return false
    for (const one of this.#folders.get(folder)?.known.values() ?? []) if (one?.owner === key) return true
    return false
  }

  /**
   * What may be a copy of what is sought and may have more than was read of it; undefined: nothing. To be asked first for
   * what more is known of.
   */
  async find(folder: string, sought: Sought, slices: Slices): Promise<Copy | undefined> {
    const looked = await this.#look(folder, slices)
    const { all, births } = looked
    if (all.length === 0) return undefined
    // What held nothing has no content to be known by.
    if (sought.head.bytes === 0) return undefined
    const { bytes } = sought.head
    const strong = bytes === FINGERPRINT_BYTES && sought.tail.bytes === FINGERPRINT_BYTES
    const later = ({ changedAt }: Candidate) => !births || changedAt >= sought.birth
    const free = ({ over, not, owner = sought.key, spoken }: Candidate) =>
      !over && !not.has(sought.key) && owner === sought.key && spoken <= bytes
    // What was last changed before the file was made is the copy of an older one, or its times were lost.
    const isFound = this.isFound(folder, sought)
    const isIt = (one: Candidate) => (isFound ? one.owner === sought.key : later(one) || strong)
    const matching = withHead(looked, sought.head).filter(one => isIt(one) && free(one))
    const whole = matching.find(one => isWhole(one, sought))
    if (whole) whole.spoken = Math.max(whole.spoken, bytes)
    // Which of several it is is seen when they are read.
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
    // What was changed before the file was last seen has nothing that was not.
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

  /** Of a file that is open, as far as it was read: its copy is of none that is known by less. */
  async speak(folder: string, read: Pick<Sought, 'head' | 'offset'>, slices: Slices): Promise<void> {
    const looked = await this.#look(folder, slices)
    const { head } = read
    for (const one of looked.all.length > 0 && head.bytes > 0 ? withHead(looked, head) : [])
      if (isWhole(one, read)) one.spoken = Math.max(one.spoken, head.bytes)
  }

  /**
   * What was rotated and never seen, the oldest first; undefined: a copy may still be being written. `isRead` says what
   * was seen, by its first bytes and its size.
   */
  async unseen(sought: Unseen, slices: Slices): Promise<Candidate[] | undefined> {
    const { folder, name, since, reads, until } = sought
    const kept = this.#kept(folder)
    const late = (ns: bigint) => Number(ns) / 1e6 >= since
    const found: Candidate[] = []
    for (const { path, stat, stamp } of this.#list(folder)) {
      if (!isRotatedName(basename(path), name) || !late(stat.mtimeNs) || (kept && !late(stat.birthtimeNs))) continue
      if (until !== undefined && Number(stat.ctimeNs) / 1e6 > until) return undefined
      const candidate = await this.#candidate(path, stat, stamp, slices)
      if (!candidate || candidate.owner || candidate.spoken > 0 || candidate.first.length === 0) continue
      if (!late(candidate.changedAt)) continue
      const count = reads(candidate.first, candidate.size)
      if (count === 0 || count <= (await this.#others(candidate, sought, slices))) found.push(candidate)
    }
    return found.reverse()
  }

  /** How many other copies those may be that were read of the same size and the same first bytes. */
  async #others(one: Candidate, { folder, reads }: Unseen, slices: Slices): Promise<number> {
    const { all } = await this.#look(folder, slices)
    const isOther = ({ size, crc, first, owner, over, changedAt }: Candidate) =>
      size === one.size && crc !== one.crc && reads(first, size) > 0 && (owner ? over : changedAt < one.changedAt)
    return all.filter(isOther).length
  }

  /** The only candidate, which is of no one else. */
  whole(candidate: Candidate, key: string): Copy {
    candidate.owner = key
    return new Copy([candidate], key, this.#problems, this.#slots)
  }

  #kept(folder: string): boolean {
    const stat = statSync(folder, { bigint: true, throwIfNoEntry: false })
    if (!stat) return false
    this.#births.learn(stat)
    return this.#births.kept(stat)
  }

  /** What is known of a copy. It is looked into once, unless it changes. */
  async #candidate(path: string, stat: BigIntStats, stamp: string, slices: Slices): Promise<Candidate | undefined> {
    const { known } = this.#folder(dirname(path))
    let one = known.get(stamp)
    if (!known.has(stamp)) {
      if (slices.due) await slices.pause()
      const peeked = await this.#peek(path, stat)
      slices.restart()
      if (peeked === 'moved') return undefined
      known.set(stamp, (one = peeked))
    }
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
    // One that is being renamed may be missing from a list: what is known of it is kept.
    if (folder.known.size > 2 * MAX_COPIES) {
      const stamps = new Set(found.map(one => one.stamp))
      for (const stamp of folder.known.keys()) if (!stamps.has(stamp)) folder.known.delete(stamp)
    }
    folder.all = all
    folder.heads = new Map()
    folder.stamp = found.every(one => folder.known.has(one.stamp)) ? stamp : ''
    return folder
  }

  async #peek(path: string, stat: BigIntStats): Promise<Candidate | 'moved' | undefined> {
    try {
      const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
      const inflated = new Inflated(fd)
      try {
        if (keyOf(fstatSync(fd, { bigint: true })) !== keyOf(stat)) return 'moved'
        const { size, crc, changedAt } = marksOf(fd, stat)
        inflated.budget = PEEK_BUDGET
        const room = Buffer.alloc(FINGERPRINT_BYTES)
        const length = await inflated.read(room)
        if (inflated.damage && length < FINGERPRINT_BYTES) this.#problems.damaged(path, inflated.damage)
        const first = room.subarray(0, length)
        return {
          path,
          key: keyOf(stat),
          changedAt,
          size,
          crc,
          first,
          not: new Set(),
          owner: undefined,
          spoken: 0,
          over: false,
        }
      } finally {
        inflated.close()
      }
    } catch (error) {
      unlessSilent(error)
      if (errorCode(error) === 'ENOENT') return 'moved'
      this.#problems.damaged(path, error)
      return undefined
    }
  }
}

interface Listed {
  readonly path: string
  readonly stat: BigIntStats
  readonly stamp: string
}

function unseen(): Folder {
  return { known: new Map(), all: [], heads: new Map(), stamp: '', births: false, round: 0 }
}

/** Those that begin with this. */
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

/** What is known of a file that may be gzip's; undefined: it is none. */
function copyStat(folder: string, name: string): BigIntStats | undefined {
  if (!name.endsWith('.gz')) return undefined
  const stat = statSync(join(folder, name), { bigint: true, throwIfNoEntry: false })
  return stat?.isFile() && stat.size >= SMALLEST ? stat : undefined
}

/** The gzip files of a folder, the newest first. One whose original is still there may be incomplete: the original is read. */
function list(folder: string): Listed[] {
  const found: Listed[] = []
  try {
    const names = new Set(readdirSync(folder))
    for (const name of names) {
      const stat = copyStat(folder, name)
      if (!stat) continue
      const original = name.slice(0, -'.gz'.length)
      if (names.has(original) && isMadeOf(stat, join(folder, original))) continue
      found.push({ path: join(folder, name), stat, stamp: `${stat.dev}:${stat.ino}:${stat.size}:${stat.mtimeNs}` })
    }
  } catch (error) {
    unlessSilent(error)
    // Gone or not to be read, or a loop of links: then what there is more is not found.
  }
  found.sort((a, b) => (a.stat.mtimeNs > b.stat.mtimeNs ? -1 : 1))
  return found.slice(0, MAX_COPIES)
}

/** Whether the file at `path` is older, and so not one that took the name of what was compressed. */
function isMadeOf(gz: BigIntStats, path: string): boolean {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
  return stat?.isFile() === true && stat.birthtimeNs < gz.birthtimeNs
}

/** The size that stands at the end, and the time of the last change: that of the file it was made of, where that is noted. */
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
