import type { BigIntStats } from 'node:fs'
import { errorCode } from '../../../core/errors.js'
import { statOrNone, unlessSilent } from '../../../lib/files/disk/disk.js'
import type { Clock } from '../../../lib/time.js'
import type { Format } from '../compression.js'
import { type Fingerprint, fingerprint, keyOf, same } from '../identity.js'
import { isOfSystem, type PathProblems } from '../path-problems.js'
import { type CandidatesOptions, type Compressed, withKnown } from './candidates.js'
import { Inflated, type Slots } from './inflated.js'

/** The result of `read` while the copy is still skipping to the requested offset. */
export const ON_THE_WAY = -1
/** Maximum number of bytes to read and inflate for one portion, because other files wait. */
const BUDGET = 1024 * 1024
/** When to read on after the first error of the system. The wait doubles each time, because reading starts at the beginning. */
const RETRY_MS = 500

/**
 * Reads a compressed file that may have the rest of a missing file. Positions refer to uncompressed bytes. Invariants:
 * bytes are returned only if the bytes before them have the requested fingerprint. A portion takes bounded time and
 * memory.
 */
export class Copy {
  readonly path: string
  readonly key: string
  /** Wall clock in milliseconds. `birth` is 0 if unknown. */
  readonly changedAt: number
  readonly birth: number
  /** The known first bytes. Without a birth time, only they show that another file has the inode now. */
  readonly #first: Buffer
  readonly #format: Format
  readonly #problems: PathProblems
  readonly #slots: Slots
  readonly #clock: Clock
  readonly #open: (path: string) => number
  #inflated: Inflated | undefined
  /** The offset at which the content ends, or undefined if it is not known yet. */
  #end: number | undefined
  /** The result of `versionOf` when the file was read up to damage. If it differs now, the file was only incomplete. */
  cut: string | undefined
  /** Whether the system refused to read on. Bytes may follow. */
  isRefused = false
  #retryAt = 0
  #retryMs = RETRY_MS
  /** Whether to search again, because the copy was renamed or removed, or does not contain what was read. */
  isLost = false

  /** `inflated`: set if the search has already opened the file and read enough of it to recognize the copy. */
  constructor(place: Compressed, { problems, slots, clock, open }: CandidatesOptions, inflated?: Inflated) {
    ;({ path: this.path, key: this.key, changedAt: this.changedAt, birth: this.birth } = place)
    this.#first = place.first
    this.#format = place.format
    this.#problems = problems
    this.#slots = slots
    this.#clock = clock
    this.#open = open
    this.#inflated = inflated
  }

  /** Whether this copy waits until another one is read completely. */
  get waits(): boolean {
    return !this.#inflated && this.#slots.free <= 0
  }

  endsAt(at: number): boolean {
    return this.#end !== undefined && at >= this.#end && !this.isRefused
  }

  /**
   * Fills `before` with the bytes before offset `at`, and `room` with the bytes from `at` on. The bytes in `before`
   * must match `tail`. Returns the total number of bytes in both buffers, or ON_THE_WAY.
   */
  async read(before: Buffer, room: Buffer, at: number, tail: Fingerprint): Promise<number> {
    try {
      // After a batch was given back, `at` may be less than the offset that the inflater has reached.
      if (this.#inflated && this.#inflated.at > at) this.close()
      this.#inflated ??= withKnown(this.path, this.key, fd => new Inflated(fd, this.#format, this.#slots), {
        keeps: true,
        open: this.#open,
      })
      const inflated = this.#inflated
      if (!inflated) return this.#lose()
      inflated.budget = BUDGET
      await inflated.skip(at)
      if (inflated.damage && inflated.at < at) throw inflated.damage
      if (inflated.at < at && !inflated.ended) return ON_THE_WAY
      inflated.last(before)
      if (inflated.at < at || !same(fingerprint(before, 0, before.length), tail)) return this.#lose()
      const length = await inflated.read(room)
      const first = this.#first.subarray(0, length)
      if (at === 0 && !first.equals(room.subarray(0, first.length))) return this.#lose()
      if (inflated.damage) {
        this.#problems.hidden(this.path, inflated.damage)
        this.isRefused = isOfSystem(inflated.damage)
        this.#retryAt = this.#clock.now() + this.#retryMs
        this.#retryMs *= 2
        this.cut = this.isRefused ? undefined : versionOf(statOrNone(this.path))
      } else if (inflated.ended) this.#problems.over(this.path)
      if (inflated.damage || inflated.ended) {
        this.#end = at + length
        this.close()
      }
      return before.length + length
    } catch (error) {
      unlessSilent(error)
      if (errorCode(error) !== 'ENOENT') this.#problems.hidden(this.path, error)
      return this.#lose()
    }
  }

  /** Lets reading continue if a damaged file has changed, or some time after an error of the system. */
  look(): void {
    if (this.isRefused ? this.#clock.now() < this.#retryAt : !this.#hasChanged()) return
    this.cut = undefined
    this.#end = undefined
    this.isRefused = false
  }

  #hasChanged(): boolean {
    if (this.cut === undefined) return false
    const stat = statOrNone(this.path)
    return stat !== undefined && keyOf(stat) === this.key && versionOf(stat) !== this.cut
  }

  #lose(): number {
    this.isLost = true
    this.close()
    return ON_THE_WAY
  }

  /** Call when this copy is not read for now. If all inflaters are in use, releases that of this copy for another. */
  pause(): void {
    if (this.#slots.free <= 0) this.close()
  }

  /** Releases the inflater, so that a later read starts at the beginning of the file. Do not call during a read. */
  close(): void {
    this.#inflated?.close()
    this.#inflated = undefined
  }
}

/** Changes with each write to the file. */
export function versionOf(stat: BigIntStats | undefined): string {
  return `${stat?.size}@${stat?.mtimeNs}`
}
