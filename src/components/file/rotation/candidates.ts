import type { BigIntStats } from 'node:fs'
import { dirname, join } from 'node:path'
import { errorCode, isMissing } from '../../../core/errors.js'
import {
  closeSync,
  fstatSync,
  openToRead,
  readdirSync,
  readSync,
  statSync,
  unlessSilent,
  withFile,
} from '../../../lib/files/disk/disk.js'
import type { Clock } from '../../../lib/time.js'
import type { TimeSlices } from '../../../lib/time-slices.js'
import { type Format, formatOf, formatOfName, isReadable, uncompressedName } from '../compression.js'
import {
  FINGERPRINT_BYTES,
  type Fingerprint,
  fingerprint,
  fingerprintAt,
  firstBytes,
  keyOf,
  NO_BYTES,
} from '../identity.js'
import { isOfSystem, type PathProblems } from '../path-problems.js'
import { Inflated, type Slots } from './inflated.js'
import type { Candidate, MatchAnswer, MatchQuestion } from './match.js'
import type { Listed } from './owners.js'

const NOTHING = Buffer.alloc(0)

/** Maximum number of compressed files examined per folder, last modified first. Complete new files do not count. */
const MAX_COPIES = 2000
/** Maximum work for reading the first bytes of a compressed file, in bytes read and inflated. */
const PEEK_BUDGET = 1024 * 1024
/**
 * Maximum work for one question about a compressed file, in bytes. After that, the search continues with other files.
 */
const ANSWER_BUDGET = 8 * 1024 * 1024
/** Maximum number of answers that are kept, so that compressed files are not inflated again in each search. */
const MAX_ANSWERS = 10_000
/** A compressed file that changed within this time may be incomplete. */
export const SETTLE_MS = 2000
/** A program that compresses a file writes at shorter intervals than this. */
const AT_REST_MS = 30_000
/** The minimum size of a gzip file. A smaller file with the name of a compressed file is incomplete. */
const SMALLEST = 18

/** A file that may be a copy, and its first bytes. */
export interface Place extends Candidate, Listed {
  readonly first: Buffer
  /** Undefined: the file is not compressed. */
  readonly format: Format | undefined
}

export type Compressed = Place & { readonly format: Format }

export function isCompressed(place: Place): place is Compressed {
  return place.format !== undefined
}

export interface CandidatesOptions {
  readonly problems: PathProblems
  readonly clock: Clock
  readonly slots: Slots
  open(path: string): number
}

/** What is known about a file as long as it does not change. */
interface Content {
  readonly key: string
  readonly format?: Format
  readonly first: Buffer
  readonly size: number
  readonly changedAt: number
  readonly crc?: number
  /** The error that prevented reading all of the first bytes. */
  readonly error?: unknown
}

interface Inflating {
  readonly stamp: string
  readonly of: Inflated
}

/** A file whose first bytes cannot be read completely. */
export interface Unreadable extends Listed {
  readonly error: unknown
}

/** Reads only the bytes of possible copies that searches need. Examines an unchanged file again only after an error. */
export class Candidates {
  readonly #options: CandidatesOptions
  /** By folder, and in each folder by the result of `stateOf`. */
  readonly #folders = new Map<string, Map<string, Content>>()
  readonly #answers = new Map<string, MatchAnswer>()
  /** Questions of this search that were not answered because the system refused to read a file. */
  readonly #refused = new Set<string>()
  /** The unreadable files of the folder that was listed last. */
  #unreadable: Unreadable[] = []
  /** The compressed file that was inflated last. Its inflater stays at the offset that it has reached. */
  #inflated: Inflating | undefined
  /** A question that takes several searches, the file that is inflated for it, and whether this search has asked it. */
  #open: { readonly key: string; readonly inflating: Inflating; isAsked: boolean } | undefined

  constructor(options: CandidatesOptions) {
    this.#options = options
  }

  keep(folders: { has(folder: string): boolean }): void {
    for (const folder of this.#folders.keys()) if (!folders.has(folder)) this.#folders.delete(folder)
  }

  has(folder: string, key: string): boolean {
    for (const content of this.#folders.get(folder)?.values() ?? []) if (content.key === key) return true
    return false
  }

  /** Whether a compressed file has not changed for a while, and may be complete. */
  isAtRest({ ctimeMs }: BigIntStats): boolean {
    const age = this.#options.clock.wall() - Number(ctimeMs)
    return age < 0 || age >= SETTLE_MS
  }

  /** Call after `of`. Returns the inflated first bytes of a new file, or undefined if `of` did not examine the file. */
  firstBytes(folder: string, one: Pick<Listed, 'name' | 'stat'>): Buffer | undefined {
    return this.#folders.get(folder)?.get(stateOf(one))?.first
  }

  /**
   * The files that may be copies: files with the name of a compressed file, and files that `isWanted` accepts. A new
   * compressed file at rest is included even if its possible original still exists. `listed`: the
   * files of the folder that are not known yet.
   */
  async of(
    folder: string,
    listed: readonly Listed[],
    isWanted: (one: Listed) => boolean,
    isNew: (one: Listed) => boolean,
    slices: TimeSlices,
  ): Promise<{ places: Place[]; unreadable: Unreadable[] }> {
    const names = new Map<string, Listed>()
    await slices.each(listed, one => names.set(one.name, one))
    const before = this.#folders.get(folder)
    const known = new Map<string, Content>()
    this.#folders.set(folder, known)
    const places: Place[] = []
    const unreadable: Unreadable[] = []
    this.#unreadable = unreadable
    const compressed: Listed[] = []
    const others: Listed[] = []
    await slices.each(listed, one => {
      if (!hasName(one)) return isWanted(one) && others.push(one)
      if (isNew(one) && this.isAtRest(one.stat)) return others.push(one)
      return one.stat.size >= SMALLEST && !this.#isBeingMade(one, names) && compressed.push(one)
    })
    if (compressed.length > MAX_COPIES)
      compressed.sort((a, b) => (a.stat.mtimeNs > b.stat.mtimeNs ? -1 : 1)).length = MAX_COPIES
    for (const one of [...compressed, ...others]) {
      if (slices.due) await slices.pause()
      const stamp = stateOf(one)
      const content = before?.get(stamp) ?? (await this.#examine(one, slices))
      // The file is gone, or another file has its name.
      if (!content) continue
      // After an error, a file is examined again if the system refused to read it or it is still being written.
      if (!content.error || (!isOfSystem(content.error) && this.isAtRest(one.stat))) known.set(stamp, content)
      if (content.error) unreadable.push({ ...one, error: content.error })
      const isEmpty = one.stat.size === 0n && formatOfName(one.name) === undefined
      if (content.first.length > 0 || isEmpty) places.push(this.#place(one, content))
    }
    return { places, unreadable }
  }

  #place(one: Listed, { first, format, size, changedAt, crc }: Content): Place {
    const { stat } = one
    const heads: Fingerprint[] = []
    return {
      ...one,
      first,
      format,
      isCompressed: format !== undefined,
      size,
      birth: Number(stat.birthtimeNs) / 1e6,
      changedAt,
      uid: Number(stat.uid),
      ...(crc !== undefined && { crc }),
      head: bytes => (heads[bytes] ??= fingerprint(first, 0, Math.min(bytes, first.length))),
    }
  }

  async #examine(one: Listed, slices: TimeSlices): Promise<Content | undefined> {
    const content = await examine(one)
    if (content?.format) slices.restart()
    if (content?.error && !isOfSystem(content.error) && this.isAtRest(one.stat))
      this.#options.problems.damaged(one.path, content.error)
    return content
  }

  /**
   * Whether the compressed file is made from the uncompressed file of the same name, and may be incomplete. In this
   * case, the uncompressed file is older, and the compressed file is still being written or has content of the same
   * size. In all other cases, the uncompressed file is a successor, or was rotated before compression was turned on.
   */
  #isBeingMade({ name, path, stat }: Listed, names: ReadonlyMap<string, Listed>): boolean {
    const original = names.get(uncompressedName(name))?.stat
    if (!original || (stat.birthtimeNs > 0n && original.birthtimeNs >= stat.birthtimeNs)) return false
    // A program that has compressed a file usually gives the complete compressed file the times of the original.
    const isFinished =
      stat.mtimeNs < stat.birthtimeNs || this.#options.clock.wall() - Number(stat.ctimeNs) / 1e6 >= AT_REST_MS
    if (!isFinished) return true
    return formatOfName(name) === 'gzip'
      ? (withFile(path, fd => trailerOf(fd, stat).size === Number(original.size) % 2 ** 32) ?? true)
      : false
  }

  /** Answers a question if at most one read is necessary. If the result is undefined, call `inflate` first. */
  answer({ candidate, offset, bytes }: MatchQuestion): { readonly answer: MatchAnswer } | undefined {
    const { isCompressed, path, key } = candidate as Place
    if (isCompressed) {
      const answer = this.#answers.get(keyOfQuestion({ candidate, offset, bytes }))
      return answer && { answer }
    }
    let isOpened = false
    const tail = withKnown(path, key, fd => {
      isOpened = true
      return fingerprintAt(fd, offset - bytes, offset)
    })
    if (isOpened) return { answer: tail && { tail } }
    this.#examineAgain(candidate as Place)
    return undefined
  }

  /**
   * Inflates a compressed file to answer a question. Returns false if the folder must be searched again: to continue
   * the work, or because the file cannot be opened.
   */
  async inflate(question: MatchQuestion): Promise<boolean> {
    const { candidate, offset, bytes } = question
    if (!candidate.isCompressed) return false
    const key = keyOfQuestion(question)
    const isOpen = this.#open?.key === key
    if (isOpen) this.#open!.isAsked = true
    const inflating = isOpen ? this.#open!.inflating : this.#begin(candidate as Compressed, offset)
    if (!inflating) return false
    const { of } = inflating
    of.budget = ANSWER_BUDGET
    await of.skip(offset)
    const { at, damage, ended } = of
    if (at < offset && !ended && !damage) {
      if (this.#open) return false
      this.#open = { key, inflating, isAsked: true }
      this.#inflated = undefined
      return false
    }
    if (isOpen) {
      this.#keepInflated(inflating)
      this.#open = undefined
    }
    if (damage && at < offset) {
      this.#options.problems.hidden((candidate as Compressed).path, damage)
      if (isOfSystem(damage)) {
        this.#unreadable.push({ ...(candidate as Compressed), error: damage })
        this.#refused.add(key)
      }
      this.#answers.set(key, { tail: NO_BYTES, end: at, isDamaged: true })
      return true
    }
    const room = Buffer.alloc(Math.min(bytes, at))
    of.last(room)
    this.#answers.set(key, { tail: fingerprint(room, 0, room.length), ...(at < offset && { end: at }) })
    return true
  }

  /** The file, inflated to `offset` or less. Returns undefined if it cannot be opened now. */
  #begin(place: Compressed, offset: number): Inflating | undefined {
    const { path, key, stat, format } = place
    const { slots, open } = this.#options
    const stamp = stampOf(stat)
    if (this.#inflated?.stamp === stamp && this.#inflated.of.at <= offset) return this.#inflated
    this.#keepInflated()
    if (slots.free <= 0) return undefined
    const of = withKnown(path, key, fd => new Inflated(fd, format, slots), { keeps: true, open })
    if (of) this.#inflated = { stamp, of }
    else this.#examineAgain(place)
    return this.#inflated
  }

  /** Forgets the first bytes of a file that cannot be opened now. If this lasts, the file then counts as unreadable. */
  #examineAgain({ path, name, stat }: Pick<Listed, 'path' | 'name' | 'stat'>): void {
    this.#folders.get(dirname(path))?.delete(stateOf({ name, stat }))
  }

  /** Hands over the last inflated file if it is the file of `stat` and was not inflated beyond `offset`. */
  take(stat: BigIntStats, offset: number): Inflated | undefined {
    const { stamp, of } = this.#inflated ?? {}
    if (stamp !== stampOf(stat) || of!.at > offset) return undefined
    this.#inflated = undefined
    return of
  }

  /** Ends a search. If a question of this search takes longer, the next search continues. */
  endSearch(): void {
    this.#keepInflated()
    if (this.#open?.isAsked) this.#open.isAsked = false
    else this.close()
    if (this.#answers.size > MAX_ANSWERS) this.#answers.clear()
    for (const key of this.#refused) this.#answers.delete(key)
    this.#refused.clear()
  }

  close(): void {
    this.#keepInflated()
    this.#open?.inflating.of.close()
    this.#open = undefined
  }

  /** Keeps this file as the one that was inflated last, and closes the one before. */
  #keepInflated(inflating?: Inflating): void {
    this.#inflated?.of.close()
    this.#inflated = inflating
  }
}

/**
 * The regular files of a folder; empty if the folder is gone. Throws if it cannot be listed. `unexamined`: receives the
 * paths that the system refused to examine.
 */
export async function list(folder: string, slices: TimeSlices, unexamined?: Set<string>): Promise<Listed[]> {
  if (slices.due) await slices.pause()
  return await listedOf(folder, namesIn(folder), slices, unexamined)
}

/** The regular files of a folder that have these names. */
export async function listedOf(
  folder: string,
  names: Iterable<string>,
  slices: TimeSlices,
  unexamined?: Set<string>,
): Promise<Listed[]> {
  const listed: Listed[] = []
  await slices.each(names, name => {
    const path = join(folder, name)
    let stat: BigIntStats | undefined
    try {
      stat = statSync(path, { bigint: true, throwIfNoEntry: false })
    } catch (error) {
      unlessSilent(error, folder)
      if (!isMissing(error)) unexamined?.add(path)
    }
    if (stat?.isFile()) listed.push({ key: keyOf(stat), name, path, stat })
  })
  return listed
}

/** The names in a folder; empty if it is gone. */
export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

/**
 * Opens a file and calls `use`. Returns undefined if the file is gone or unreadable, or if another file has its path.
 * `keeps`: whether the result of `use` must close the file.
 */
export function withKnown<T>(
  path: string,
  key: string,
  use: (fd: number) => T,
  options?: { readonly keeps: boolean; open(path: string): number },
): T | undefined {
  return withFile(path, fd => (keyOf(fstatSync(fd, { bigint: true })) === key ? use(fd) : undefined), options)
}

/** Whether the file is named like a compressed file in a format that can be read. */
function hasName({ name }: Listed): boolean {
  const format = formatOfName(name)
  return format !== undefined && isReadable(format)
}

function keyOfQuestion({ candidate, offset, bytes }: MatchQuestion): string {
  return `${stampOf((candidate as Place).stat)}@${offset}/${bytes}`
}

function stampOf({ dev, ino, size, mtimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${size}:${mtimeNs}`
}

/**
 * Identifies a file, its state, and the format that its name shows. The format in the name is used if the first bytes
 * do not show a format.
 */
function stateOf({ name, stat }: Pick<Listed, 'name' | 'stat'>): string {
  return `${formatOfName(name)}:${stampOf(stat)}`
}

/** Reads the first bytes of a file; undefined if the file is gone, or another one has its name. */
async function examine({ key, name, path, stat }: Listed): Promise<Content | undefined> {
  const known = { key, size: Number(stat.size), changedAt: Number(stat.mtimeNs) / 1e6 }
  let fd: number | undefined
  try {
    fd = openToRead(path)
    if (keyOf(fstatSync(fd, { bigint: true })) !== key) return undefined
    const first = firstBytes(fd)
    const format = formatOf(first) ?? formatOfName(name)
    if (!format || first.length === 0) return { ...known, first }
    if (!isReadable(format)) return { ...known, first: NOTHING }
    const trailer = format === 'gzip' ? trailerOf(fd, stat) : { size: Number.POSITIVE_INFINITY }
    const inflated = new Inflated(fd, format)
    fd = undefined
    try {
      inflated.budget = PEEK_BUDGET
      const room = Buffer.alloc(FINGERPRINT_BYTES)
      const first = room.subarray(0, await inflated.read(room))
      const error = first.length < FINGERPRINT_BYTES ? inflated.damage : undefined
      return { ...known, format, ...trailer, first, ...(error && { error }) }
    } finally {
      inflated.close()
    }
  } catch (error) {
    unlessSilent(error)
    return errorCode(error) === 'ENOENT' ? undefined : { ...known, first: NOTHING, error }
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** The size and checksum at the end of a gzip file. */
function trailerOf(fd: number, stat: BigIntStats): { size: number; crc?: number } {
  if (stat.size < SMALLEST) return { size: 0 }
  const bytes = Buffer.alloc(8)
  readSync(fd, bytes, 0, 8, Number(stat.size) - 8)
  return { size: bytes.readUInt32LE(4), crc: bytes.readUInt32LE(0) }
}

/** Identifies a compressed file. The inode is not enough, because another file may get it later. */
export function compressedIdentity({ key, birth, changedAt }: Pick<Place, 'key' | 'birth' | 'changedAt'>): string {
  return `${key}@${birth || changedAt}`
}
