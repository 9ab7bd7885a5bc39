import type { BigIntStats } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '../../../core/errors.js'
import {
  closeSync,
  fstatSync,
  namesOrNone,
  openToRead,
  readSync,
  statOrNone,
  unlessSilent,
  withFile,
} from '../../../lib/files/disk/disk.js'
import type { Clock } from '../../../lib/time.js'
import {
  type BirthTimes,
  FINGERPRINT_BYTES,
  type Fingerprint,
  fingerprint,
  fingerprintAt,
  firstBytes,
  keyOf,
} from '../identity.js'
import { isOfSystem, type PathProblems } from '../path-problems.js'
import type { Slices } from '../slices.js'
import { Inflated, type Slots } from './inflated.js'
import type { Answer, Candidate, Question } from './match.js'

/** Maximum number of compressed files examined per folder, the newest first. */
const MAX_COPIES = 2000
/** Work for reading the first bytes of a compressed file, in bytes. */
const PEEK_BUDGET = 1024 * 1024
/** Work for one question about a compressed file, in bytes. Then other files are searched for. */
const ANSWER_BUDGET = 8 * 1024 * 1024
/** Answers about compressed files that are kept, so that they are not inflated by each search. */
const MAX_ANSWERS = 10_000
/** Who compresses a file writes more often than this. */
const AT_REST_MS = 30_000
/** The minimum size of a gzip file. */
const SMALLEST = 18

/** A regular file of a folder. */
export interface Listed {
  readonly name: string
  readonly path: string
  readonly stat: BigIntStats
}

/** A file that may be a copy, and its first bytes. */
export interface Place extends Candidate, Listed {
  readonly first: Buffer
}

/** What is known of a file in one state. */
interface Content {
  readonly first: Buffer
  readonly size: number
  readonly changedAt: number
  readonly crc?: number
  /** The first bytes cannot be read, or not all of them. */
  readonly error?: unknown
}

/** Files of which no candidate, or only a part of one, could be made. */
export interface Unreadable extends Listed {
  readonly error: unknown
}

/** Reads what is needed of the files that may be copies. A file is examined once unless it changes. */
export class Candidates {
  readonly #problems: PathProblems
  readonly #births: BirthTimes
  readonly #clock: Clock
  readonly #slots: Slots
  /** By folder, and in it by the state of the file. */
  readonly #folders = new Map<string, Map<string, Content>>()
  /** Answers, by the state of the file and the question. */
  readonly #answers = new Map<string, Answer>()
  /** The last compressed file that was inflated, as far as it was. */
  #inflated: { readonly stamp: string; readonly of: Inflated } | undefined

  constructor(problems: PathProblems, births: BirthTimes, clock: Clock, slots: Slots) {
    this.#problems = problems
    this.#births = births
    this.#clock = clock
    this.#slots = slots
  }

  /** Forgets all folders except these. */
  keep(folders: { has(folder: string): boolean }): void {
    for (const folder of this.#folders.keys()) if (!folders.has(folder)) this.#folders.delete(folder)
  }

  /** The files that may be copies: all gzip files, and the plain files with a name that `isWanted` accepts. */
  async of(
    folder: string,
    listed: readonly Listed[],
    isWanted: (one: Listed) => boolean,
    slices: Slices,
  ): Promise<{ places: Place[]; unreadable: Unreadable[] }> {
    const names = new Map(listed.map(one => [one.name, one]))
    const before = this.#folders.get(folder)
    const known = new Map<string, Content>()
    this.#folders.set(folder, known)
    const places: Place[] = []
    const unreadable: Unreadable[] = []
    const gzips = listed.filter(one => isGzip(one) && !this.#isBeingMade(one, names))
    if (gzips.length > MAX_COPIES) gzips.sort((a, b) => (a.stat.mtimeNs > b.stat.mtimeNs ? -1 : 1)).length = MAX_COPIES
    const plain = listed.filter(one => !one.name.endsWith('.gz') && isWanted(one))
    for (const one of [...gzips, ...plain]) {
      if (slices.due) await slices.pause()
      // A compressed file has another name while it is made.
      const stamp = `${isGzip(one)}:${stampOf(one.stat)}`
      const content = before?.get(stamp) ?? (await this.#examine(one, slices))
      // Another file has the name now.
      if (!content) continue
      // What the system refuses is tried again.
      if (!content.error || !isOfSystem(content.error)) known.set(stamp, content)
      if (content.error) unreadable.push({ ...one, error: content.error })
      if (content.first.length > 0) places.push(this.#place(one, content))
    }
    return { places, unreadable }
  }

  #place(one: Listed, { first, size, changedAt, crc }: Content): Place {
    const { stat } = one
    const heads: Fingerprint[] = []
    return {
      ...one,
      first,
      key: keyOf(stat),
      isGzip: isGzip(one),
      size,
      birth: this.#births.kept(stat) ? Number(stat.birthtimeNs) / 1e6 : undefined,
      changedAt,
      ...(crc !== undefined && { crc }),
      head: bytes => (heads[bytes] ??= fingerprint(first, 0, Math.min(bytes, first.length))),
    }
  }

  async #examine(one: Listed, slices: Slices): Promise<Content | undefined> {
    if (!isGzip(one)) return examinePlain(one)
    const content = await examineGzip(one)
    slices.restart()
    if (content?.error && content.first.length < FINGERPRINT_BYTES && !isOfSystem(content.error))
      this.#problems.damaged(one.path, content.error)
    return content
  }

  /**
   * Whether the gzip file is made of the file beside it, and may be incomplete: that one is older, so no successor, and
   * they have the same size, or the gzip file is still being written. Else it is an older rotated file, left when
   * compression was turned on.
   */
  #isBeingMade({ name, path, stat }: Listed, names: ReadonlyMap<string, Listed>): boolean {
    const original = names.get(name.slice(0, -'.gz'.length))?.stat
    if (!original || original.birthtimeNs >= stat.birthtimeNs) return false
    // At its end it usually gets the times of what it was made of.
    const isFinished = stat.mtimeNs < stat.birthtimeNs || this.#clock.wall() - Number(stat.ctimeNs) / 1e6 >= AT_REST_MS
    if (!isFinished) return true
    return withFile(path, fd => trailerOf(fd, stat).size === Number(original.size) % 2 ** 32) ?? true
  }

  /** The first bytes of a gzip file, whatever its name is; undefined if they cannot be read. */
  async firstInflated(path: string, stat: BigIntStats): Promise<Buffer | undefined> {
    const content = stat.size < SMALLEST ? undefined : await examineGzip({ name: '', path, stat })
    return content?.error ? undefined : content?.first
  }

  /** Answers at once if that takes one read; undefined if `inflate` has to. */
  answer({ candidate, offset, bytes }: Question): { readonly answer: Answer } | undefined {
    const { isGzip, path, key, stat } = candidate as Place
    if (isGzip) {
      const of = `${stampOf(stat)}@${offset}/${bytes}`
      return this.#answers.has(of) ? { answer: this.#answers.get(of) } : undefined
    }
    const tail = withKnown(path, key, fd => fingerprintAt(fd, offset - bytes, offset))
    return { answer: tail && { tail } }
  }

  /** Inflates a compressed file to answer. False: that takes longer, and goes on with the next call. */
  async inflate({ candidate, offset, bytes }: Question): Promise<boolean> {
    const { path, key, stat } = candidate as Place
    const stamp = stampOf(stat)
    const give = (answer: Answer) => {
      this.#answers.set(`${stamp}@${offset}/${bytes}`, answer)
      return true
    }
    try {
      if (this.#inflated?.stamp !== stamp || this.#inflated.of.at > offset) {
        this.close()
        if (this.#slots.free <= 0) return false
        const of = withKnown(path, key, fd => new Inflated(fd, this.#slots), true)
        // If it was just renamed, the folder is searched again.
        if (!of) return statKey(path) === key && give(undefined)
        this.#inflated = { stamp, of }
      }
      const { of } = this.#inflated
      of.budget = ANSWER_BUDGET
      await of.skip(offset)
      if (of.at < offset && !of.ended && !of.damage) return false
      if (of.damage && of.at < offset) {
        this.#problems.hidden(path, of.damage)
        return give(undefined)
      }
      const room = Buffer.alloc(Math.min(bytes, of.at))
      of.last(room)
      return give({ tail: fingerprint(room, 0, room.length), ...(of.at < offset && { end: of.at }) })
    } catch (error) {
      unlessSilent(error)
      this.#problems.hidden(path, error)
      this.close()
      return give(undefined)
    }
  }

  /** Hands over the inflated file, if it is there and not beyond `offset`. */
  take(stat: BigIntStats, offset: number): Inflated | undefined {
    const { stamp, of } = this.#inflated ?? {}
    if (stamp !== stampOf(stat) || of!.at > offset) return undefined
    this.#inflated = undefined
    return of
  }

  /** Ends a search. */
  close(): void {
    this.#inflated?.of.close()
    this.#inflated = undefined
    if (this.#answers.size > MAX_ANSWERS) this.#answers.clear()
  }
}

/** The regular files of a folder: none if it is gone or cannot be read. */
export async function list(folder: string, slices: Slices): Promise<Listed[]> {
  const listed: Listed[] = []
  for (const name of namesOrNone(folder)) {
    if (slices.due) await slices.pause()
    const path = join(folder, name)
    const stat = statOrNone(path, folder)
    if (stat?.isFile()) listed.push({ name, path, stat })
  }
  return listed
}

/** Undefined if the file is gone, cannot be read, or is another one now. `keeps`: what is returned closes it. */
export function withKnown<T>(path: string, key: string, use: (fd: number) => T, keeps = false): T | undefined {
  return withFile(path, fd => (keyOf(fstatSync(fd, { bigint: true })) === key ? use(fd) : undefined), { keeps })
}

function statKey(path: string): string | undefined {
  const stat = statOrNone(path)
  return stat && keyOf(stat)
}

function isGzip({ name, stat }: Listed): boolean {
  return name.endsWith('.gz') && stat.size >= SMALLEST
}

/** Identifies a file and its state. */
function stampOf({ dev, ino, size, mtimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${size}:${mtimeNs}`
}

function examinePlain({ path, stat }: Listed): Content | undefined {
  const content = (first: Buffer, error?: unknown) => ({
    first,
    size: Number(stat.size),
    changedAt: Number(stat.mtimeNs) / 1e6,
    ...(error !== undefined && { error }),
  })
  let fd: number | undefined
  try {
    fd = openToRead(path)
    return keyOf(fstatSync(fd, { bigint: true })) === keyOf(stat) ? content(firstBytes(fd)) : undefined
  } catch (error) {
    unlessSilent(error)
    return errorCode(error) === 'ENOENT' ? undefined : content(Buffer.alloc(0), error)
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

async function examineGzip({ path, stat }: Listed): Promise<Content | undefined> {
  try {
    const fd = openToRead(path)
    const inflated = new Inflated(fd)
    try {
      if (keyOf(fstatSync(fd, { bigint: true })) !== keyOf(stat)) return undefined
      const trailer = trailerOf(fd, stat)
      inflated.budget = PEEK_BUDGET
      const room = Buffer.alloc(FINGERPRINT_BYTES)
      const first = room.subarray(0, await inflated.read(room))
      const error = first.length < FINGERPRINT_BYTES ? inflated.damage : undefined
      return { ...trailer, first, ...(error && { error }) }
    } finally {
      inflated.close()
    }
  } catch (error) {
    unlessSilent(error)
    if (errorCode(error) === 'ENOENT') return undefined
    return { first: Buffer.alloc(0), size: 0, changedAt: Number(stat.mtimeNs) / 1e6, error }
  }
}

/** The size and checksum at the end, and the modification time: that of the original, if it is recorded. */
function trailerOf(fd: number, stat: BigIntStats): { size: number; crc: number; changedAt: number } {
  const bytes = Buffer.alloc(12)
  readSync(fd, bytes, 0, 4, 4)
  readSync(fd, bytes, 4, 8, Number(stat.size) - 8)
  const second = bytes.readUInt32LE(0)
  const changedAt = Number(stat.mtimeNs) / 1e6
  return {
    size: bytes.readUInt32LE(8),
    crc: bytes.readUInt32LE(4),
    changedAt: second === 0 ? changedAt : Math.min((second + 1) * 1000, changedAt),
  }
}
