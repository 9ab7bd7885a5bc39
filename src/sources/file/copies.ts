import { type BigIntStats, closeSync, constants, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { type Candidate, Copy, Slots } from './copy.js'
import { type BirthTimes, FINGERPRINT_BYTES, type Fingerprint, fingerprint } from './identity.js'
import { Inflated } from './inflated.js'
import type { Slices } from './slices.js'
import type { Troubles } from './troubles.js'

/** Copies that are looked into in one folder, the newest first. */
const MAX_COPIES = 2000
/** What is inflated to see the first bytes of a copy. */
const PEEK_BUDGET = 1024 * 1024
/** No gzip file is smaller. */
const SMALLEST = 18

/** What rotation puts behind a name: a number or a time. */
const ROTATED = /^(?:[-._]\d[-._:T\d]*)?\.gz$/

/** What is sought: a file that is gone, as far as it was read. */
export interface Sought {
  /** What it is known by here. */
  readonly key: string
  /** The name it was read under. */
  readonly name: string
  readonly birth: bigint
  readonly offset: number
  readonly head: Fingerprint
  readonly tail: Fingerprint
  /** As far as was known, it was read to its end. */
  readonly read: boolean
  /** When the position was saved, wall clock in milliseconds, where it was. */
  readonly since?: number | undefined
}

interface Folder {
  /** By path, and the stat that they were seen with. */
  readonly known: Map<string, { readonly stamp: string; readonly candidate: Candidate | undefined }>
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
  readonly #troubles: Troubles
  readonly #births: BirthTimes
  readonly #folders = new Map<string, Folder>()
  readonly #slots = new Slots()
  #round = 0

  constructor(troubles: Troubles, births: BirthTimes) {
    this.#troubles = troubles
    this.#births = births
  }

  /** What is found until the next call is found among the copies that are there now: each folder is listed once. */
  begin(): void {
    this.#round++
  }

  /** Forgets what it knows of other folders than these. */
  keep(folders: { has(folder: string): boolean }): void {
    for (const folder of this.#folders.keys()) if (!folders.has(folder)) this.#folders.delete(folder)
  }

  /** Whether there are any. */
  areIn(folder: string): boolean {
    // Asked for each file that is let go of: not as thorough as `list`.
    try {
      return readdirSync(folder).some(name => copyStat(folder, name) !== undefined)
    } catch {
      return false
    }
  }

  /**
   * What may be a copy of what is sought and may have more than was read of it; undefined: nothing. To be asked first for
   * what more is known of.
   */
  async find(folder: string, sought: Sought, slices: Slices): Promise<Copy | undefined> {
    const looked = await this.#look(folder, slices)
    const { all, births } = looked
    if (all.length === 0) return undefined
    if (sought.head.bytes === 0) return this.#byName(all, sought)
    const { bytes } = sought.head
    const strong = bytes === FINGERPRINT_BYTES && sought.tail.bytes === FINGERPRINT_BYTES
    const later = ({ changedAt }: Candidate) => !births || changedAt >= sought.birth
    const free = ({ over, not, owner = sought.key, spoken }: Candidate) =>
      !over && !not.has(sought.key) && owner === sought.key && spoken <= bytes
    // What was last changed before the file was made is the copy of an older one, or its times were lost.
    const matching = withHead(looked, sought.head).filter(one => (later(one) || strong) && free(one))
    const whole = matching.find(one => isWhole(one, sought))
    if (whole) whole.spoken = Math.max(whole.spoken, bytes)
    if (whole && sought.read) {
      whole.owner = sought.key
      whole.over = true
      return undefined
    }
    if (matching.length === 0) return undefined
    const named = ({ path }: Candidate) => basename(path).startsWith(sought.name)
    const order = (one: Candidate) => (later(one) ? 0 : 2) + (named(one) ? 0 : 1)
    matching.sort((a, b) => order(a) - order(b) || (a.changedAt < b.changedAt ? -1 : 1))
    return new Copy(matching, sought.key, this.#troubles, this.#slots)
  }

  /** Of a file that is open, as far as it was read: its copy is of none that is known by less. */
  async speak(folder: string, read: Pick<Sought, 'head' | 'offset'>, slices: Slices): Promise<void> {
    const looked = await this.#look(folder, slices)
    const { head } = read
    for (const one of looked.all.length > 0 && head.bytes > 0 ? withHead(looked, head) : [])
      if (isWhole(one, read)) one.spoken = Math.max(one.spoken, head.bytes)
  }

  /** A file that held nothing has no content to be known by: the first copy under its name that was written to since. */
  #byName(all: readonly Candidate[], { name, key, since, read }: Sought): Copy | undefined {
    if (read || since === undefined) return undefined
    const from = BigInt(Math.floor(since)) * 1_000_000n
    const own = (path: string) => basename(path).startsWith(name) && ROTATED.test(basename(path).slice(name.length))
    const free = (one: Candidate) => !one.owner && one.spoken === 0 && one.first.length > 0
    const later = all.filter(one => one.changedAt > from && free(one) && own(one.path))
    const oldestFirst = later.sort((a, b) => (a.changedAt < b.changedAt ? -1 : 1))
    return later.length > 0 ? new Copy(oldestFirst, key, this.#troubles, this.#slots) : undefined
  }

  #kept(folder: string): boolean {
    const stat = statSync(folder, { bigint: true, throwIfNoEntry: false })
    if (!stat) return false
    this.#births.learn(stat)
    return this.#births.kept(stat)
  }

  async #look(path: string, slices: Slices): Promise<Folder> {
    let folder = this.#folders.get(path)
    if (!folder) this.#folders.set(path, (folder = unseen()))
    if (folder.round === this.#round) return folder
    folder.round = this.#round
    folder.births = this.#kept(path)
    const found = list(path)
    const stamp = found.map(one => one.stamp).join()
    if (stamp === folder.stamp) return folder
    const all: Candidate[] = []
    for (const { path, stat, stamp } of found) {
      let known = folder.known.get(path)
      if (known?.stamp !== stamp) {
        if (slices.due) await slices.pause()
        known = { stamp, candidate: await this.#peek(path, stat) }
        slices.restart()
        folder.known.set(path, known)
      }
      if (known.candidate) all.push(known.candidate)
    }
    const paths = new Set(found.map(one => one.path))
    for (const path of folder.known.keys()) if (!paths.has(path)) folder.known.delete(path)
    folder.all = all
    folder.heads = new Map()
    folder.stamp = stamp
    return folder
  }

  async #peek(path: string, stat: BigIntStats): Promise<Candidate | undefined> {
    try {
      const size = sizeOf(path, Number(stat.size))
      const inflated = new Inflated(path)
      try {
        inflated.budget = PEEK_BUDGET
        const room = Buffer.alloc(FINGERPRINT_BYTES)
        const length = await inflated.read(room)
        if (inflated.damage && length < FINGERPRINT_BYTES) this.#troubles.damaged(path, inflated.damage)
        const first = room.subarray(0, length)
        return {
          path,
          changedAt: stat.mtimeNs,
          size,
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
      this.#troubles.damaged(path, error)
      return undefined
    }
  }
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

/** The gzip files of a folder. */
function list(folder: string): { path: string; stat: BigIntStats; stamp: string }[] {
  const found: { path: string; stat: BigIntStats; stamp: string }[] = []
  try {
    for (const name of readdirSync(folder)) {
      const stat = copyStat(folder, name)
      if (!stat) continue
      found.push({ path: join(folder, name), stat, stamp: `${stat.dev}:${stat.ino}:${stat.size}:${stat.mtimeNs}` })
    }
  } catch {
    // Gone or not to be read, or a loop of links: then what there is more is not found.
  }
  found.sort((a, b) => (a.stat.mtimeNs > b.stat.mtimeNs ? -1 : 1))
  return found.slice(0, MAX_COPIES)
}

function sizeOf(path: string, size: number): number {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const last = Buffer.alloc(4)
    readSync(fd, last, 0, 4, size - 4)
    return last.readUInt32LE()
  } finally {
    closeSync(fd)
  }
}
