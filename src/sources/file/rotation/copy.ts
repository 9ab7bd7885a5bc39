import { constants } from 'node:fs'
import { errorCode } from '../../../core/errors.js'
import { closeSync, fstatSync, openSync, unlessSilent } from '../../../lib/files/remote/guarded-fs.js'
import { type Fingerprint, fingerprint, keyOf, same } from '../identity.js'
import type { PathProblems } from '../path-problems.js'
import { Inflated } from './inflated.js'

/** A gzip file in a folder, and what is known of it. */
export interface Candidate {
  /** Where it was found last. */
  path: string
  /** Its device and inode. */
  readonly key: string
  /** In nanoseconds since the epoch. */
  readonly changedAt: bigint
  /** The uncompressed size, of the last member, modulo 4 GiB. */
  readonly size: number
  /** The checksum of the last member. */
  readonly crc: number
  /** The first uncompressed bytes. */
  readonly first: Buffer
  /** Those it is a copy of no one of. */
  readonly not: Set<string>
  /** The one it turned out to be the copy of. */
  owner: string | undefined
  /** It has what was read of a file that is known by so many first bytes, and no more: it is of none that is known by fewer. */
  spoken: number
  /** Nothing is left to be read of it. */
  over: boolean
}

/** What `read` answers when it is still on its way to what is to be read. */
export const ON_THE_WAY = -1
/** Work done for one portion, in bytes: others wait for no more than that. */
const BUDGET = 1024 * 1024
/** Copies that are inflated at the same time. */
const MAX_INFLATED = 16

/** Room for those that are being inflated: each takes a descriptor and some memory. */
export class Slots {
  free = MAX_INFLATED
}

/**
 * The rest of a file that is gone, in one of the copies that may be compressed ones of it. Positions are those in the
 * uncompressed bytes. Invariants: bytes are given out only behind those whose fingerprint is the one asked for; a copy
 * in which they are others is left for the next; a portion takes a bounded time and memory.
 */
export class Copy {
  readonly #candidates: Candidate[]
  #key: string
  readonly #problems: PathProblems
  readonly #slots: Slots
  #inflated: Inflated | undefined
  /** Where nothing comes behind any more. */
  #end: number | undefined
  /** Its file has another name by now, or none, or it is none of the candidates: it is to be looked for again. */
  isLost = false

  /** `candidates`: the likeliest first. `key`: what the file is known by. */
  constructor(candidates: Candidate[], key: string, problems: PathProblems, slots: Slots) {
    this.#candidates = candidates
    this.#key = key
    this.#problems = problems
    this.#slots = slots
  }

  /** The copy that is read, or may be the one. */
  get path(): string | undefined {
    return this.#candidates[0]?.path
  }

  /** The device and inode of that. */
  get key(): string | undefined {
    return this.#candidates[0]?.key
  }

  /** Whether it is known which copy it is. */
  get isFound(): boolean {
    return this.#candidates[0]?.owner === this.#key
  }

  /** When that was last changed. */
  get changedAt(): bigint {
    return this.#candidates[0]?.changedAt ?? 0n
  }

  /** What the file is known by from now on. */
  belongTo(key: string): void {
    for (const one of this.#candidates) if (one.owner === this.#key) one.owner = key
    this.#key = key
  }

  /** Whether it is to be read when another copy has come to its end. */
  get waits(): boolean {
    return !this.#inflated && this.#slots.free <= 0 && this.#candidates.length > 0
  }

  /** Whether nothing comes behind the offset `at`. */
  endsAt(at: number): boolean {
    return this.#end !== undefined && at >= this.#end
  }

  /**
   * Fills `before` with the bytes before the offset `at`, and `room` with those behind it: how many bytes that are, or
   * ON_THE_WAY. `tail` is what `before` must be.
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
      if (inflated.damage) this.#problems.damaged(candidate.path, inflated.damage)
      if (inflated.damage || inflated.ended) {
        this.#end = at + length
        candidate.over = true
        this.close()
      }
      return before.length + length
    } catch (error) {
      unlessSilent(error)
      if (errorCode(error) === 'ENOENT') return this.#lose()
      this.#problems.damaged(candidate.path, error)
      return this.#refuse(candidate)
    }
  }

  #begin({ path, key }: Candidate): Inflated | undefined {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    if (keyOf(fstatSync(fd, { bigint: true })) !== key) {
      closeSync(fd)
      this.isLost = true
      return undefined
    }
    this.#inflated = new Inflated(fd)
    this.#slots.free--
    return this.#inflated
  }

  /** It is not the one: on to the next. */
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

  /** What is read after this is read from the beginning. Not while a read is under way. */
  close(): void {
    if (!this.#inflated) return
    this.#slots.free++
    this.#inflated.close()
    this.#inflated = undefined
  }
}
