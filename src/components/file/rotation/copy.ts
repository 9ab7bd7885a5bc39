import { errorCode } from '../../../core/errors.js'
import { closeSync, fstatSync, openToRead, unlessSilent } from '../../../lib/files/disk/disk.js'
import { type Fingerprint, fingerprint, keyOf, same } from '../identity.js'
import type { PathProblems } from '../path-problems.js'
import { Inflated } from './inflated.js'

/** A gzip file in a folder, with what is known about it. */
export interface Candidate {
  /** Last known path. */
  path: string
  /** Device and inode. */
  readonly key: string
  /** Nanoseconds since the epoch. */
  readonly changedAt: bigint
  /** The uncompressed size of the last member, modulo 4 GiB. */
  readonly size: number
  /** The checksum of the last member. */
  readonly crc: number
  /** The first uncompressed bytes. */
  readonly first: Buffer
  /** Keys of files that it is not a copy of. */
  readonly not: Set<string>
  /** Key of the file that it is the copy of. */
  owner: string | undefined
  /** Head length of an open file whose whole content it has. It is no copy of a file with a shorter head. */
  spoken: number
  /** Whether it was read completely. */
  over: boolean
}

/** The result of `read` while it is still skipping to the requested offset. */
export const ON_THE_WAY = -1
/** Maximum work per portion, in bytes, so that others do not wait longer. */
const BUDGET = 1024 * 1024
/** Maximum number of copies inflated at the same time. */
const MAX_INFLATED = 16

/** Slots for copies being inflated, each of which takes a descriptor and memory. */
export class Slots {
  free = MAX_INFLATED
}

/**
 * Reads the rest of a missing file from one of its potential compressed copies. Positions refer to uncompressed bytes.
 * Invariants: bytes are returned only if those before them have the requested fingerprint; otherwise the next copy is
 * tried. A portion takes bounded time and memory.
 */
export class Copy {
  readonly #candidates: Candidate[]
  #key: string
  readonly #problems: PathProblems
  readonly #slots: Slots
  #inflated: Inflated | undefined
  /** The end of the content, when known. */
  #end: number | undefined
  /** The file was renamed or removed, or none of the candidates matches: search again. */
  isLost = false

  /** `candidates`: the most likely first. `key`: identifies the missing file. */
  constructor(candidates: Candidate[], key: string, problems: PathProblems, slots: Slots) {
    this.#candidates = candidates
    this.#key = key
    this.#problems = problems
    this.#slots = slots
  }

  /** Path of the current candidate. */
  get path(): string | undefined {
    return this.#candidates[0]?.path
  }

  /** Device and inode of the current candidate. */
  get key(): string | undefined {
    return this.#candidates[0]?.key
  }

  /** Whether the right copy has been determined. */
  get isFound(): boolean {
    return this.#candidates[0]?.owner === this.#key
  }

  /** Modification time of the current candidate. */
  get changedAt(): bigint {
    return this.#candidates[0]?.changedAt ?? 0n
  }

  /** Changes the key of the missing file. */
  belongTo(key: string): void {
    for (const one of this.#candidates) if (one.owner === this.#key) one.owner = key
    this.#key = key
  }

  /** Whether it waits for another copy to be read completely. */
  get waits(): boolean {
    return !this.#inflated && this.#slots.free <= 0 && this.#candidates.length > 0
  }

  /** Whether `at` is the end of the content. */
  endsAt(at: number): boolean {
    return this.#end !== undefined && at >= this.#end
  }

  /**
   * Fills `before` with the bytes before offset `at`, which must match `tail`, and `room` with those after it. Returns
   * the number of bytes, or ON_THE_WAY.
   */
  async read(before: Buffer, room: Buffer, at: number, tail: Fingerprint): Promise<number> {
    const candidate = this.#candidates[0]
    if (!candidate) return this.#lose()
    try {
      if (this.#inflated && this.#inflated.at > at) this.close()
      const inflated = this.#inflated ?? this.#begin(candidate)
      if (!inflated) return ON_THE_WAY
      inflated.budget = BUDGET
      await inflated.skip(at)
      if (inflated.damage && inflated.at < at) throw inflated.damage
      if (inflated.at < at && !inflated.ended) return ON_THE_WAY
      inflated.last(before)
      if (inflated.at < at || !same(fingerprint(before, 0, before.length), tail)) return this.#refuse(candidate)
      candidate.owner ??= this.#key
      if (candidate.owner !== this.#key) return this.#refuse(candidate)
      const length = await inflated.read(room)
      if (inflated.damage) this.#problems.hidden(candidate.path, inflated.damage)
      if (inflated.damage || inflated.ended) {
        this.#end = at + length
        candidate.over = true
        this.close()
      }
      return before.length + length
    } catch (error) {
      unlessSilent(error)
      if (errorCode(error) === 'ENOENT') return this.#lose()
      this.#problems.hidden(candidate.path, error)
      return this.#refuse(candidate)
    }
  }

  #begin(candidate: Candidate): Inflated | undefined {
    const { path, key } = candidate
    // A batch from it came back. If it was renamed, it has to be found again.
    candidate.over = false
    const fd = openToRead(path)
    if (keyOf(fstatSync(fd, { bigint: true })) !== key) {
      closeSync(fd)
      this.isLost = true
      return undefined
    }
    this.#inflated = new Inflated(fd)
    this.#slots.free--
    return this.#inflated
  }

  /** Rejects a candidate and continues with the next one. */
  #refuse(candidate: Candidate): number {
    candidate.not.add(this.#key)
    if (candidate.owner === this.#key) candidate.owner = undefined
    this.#candidates.shift()
    this.close()
    return this.#candidates.length === 0 ? this.#lose() : ON_THE_WAY
  }

  #lose(): number {
    this.isLost = true
    return ON_THE_WAY
  }

  /** Releases the inflater; a later read starts at the beginning. Do not call during a read. */
  close(): void {
    if (!this.#inflated) return
    this.#slots.free++
    this.#inflated.close()
    this.#inflated = undefined
  }
}
