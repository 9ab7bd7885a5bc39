import { resized } from '../../../lib/columns.js'
import { BucketColumns } from '../windows.js'

/** Columns of a bucket: the time when the bucket was last used, and the ticket of its lease. */
const USED_AT = 0
const TICKET = 1
/** An event with at least the cost and size in `REFUSED` does not fit before this time. */
const FULL_UNTIL = 2
/** The time at which the limit that refused an event has room again. */
const ROOM_AT = 3
/** The number of the last batch with a demand for the bucket, and the index of that demand. */
const BATCH = 4
const DEMAND = 5
/** The index of the limit that the server last described (`Grant.nearest`), and when the window of this limit ends. */
const NEAREST = 6
const ENDS = 7
/**
 * Three columns for costs, then the same three for bytes. LEFT: units that are left. SIZE: units that were last taken
 * ahead. REFUSED: units of the last refused event.
 */
const LEFT = 8
const SIZE = 9
const REFUSED = 10
const BYTES = 3
const WIDTH = 14

/**
 * Units that this daemon has taken ahead, by bucket. `times`: until when they may be spent, by the local clock.
 * `counts`: the used units of the NEAREST limit, as the server last reported.
 */
export class Leases extends BucketColumns {
  #rows = new Float64Array(8 * WIDTH)

  #get(bucket: number, column: number): number {
    return this.#rows[bucket * WIDTH + column]!
  }

  #set(bucket: number, column: number, value: number): void {
    this.#rows[bucket * WIDTH + column] = value
  }

  override latest(bucket: number): number {
    return this.#get(bucket, USED_AT)
  }

  /** Spends units of a lease. Returns false if the lease has too few units or has expired. */
  spend(bucket: number, cost: number, bytes: number, now: number): boolean {
    const rows = this.#rows
    const at = bucket * WIDTH
    rows[at + USED_AT] = now
    if (cost > rows[at + LEFT]! || bytes > rows[at + LEFT + BYTES]! || now >= this.times[bucket]!) return false
    rows[at + LEFT]! -= cost
    rows[at + LEFT + BYTES]! -= bytes
    return true
  }

  /** Whether it is already known that an event of this cost and size does not fit. */
  isFull(bucket: number, cost: number, bytes: number, now: number): boolean {
    if (now >= this.#get(bucket, FULL_UNTIL)) return false
    return cost >= this.#get(bucket, REFUSED) && bytes >= this.#get(bucket, REFUSED + BYTES)
  }

  setFull(bucket: number, cost: number, bytes: number, until: number): void {
    this.#set(bucket, FULL_UNTIL, until)
    this.#set(bucket, REFUSED, cost)
    this.#set(bucket, REFUSED + BYTES, bytes)
  }

  /** When there may be room for a refused event. If this is unknown, a time in the past. */
  roomAt(bucket: number): number {
    return this.#get(bucket, ROOM_AT)
  }

  setRoomAt(bucket: number, at: number): void {
    this.#set(bucket, ROOM_AT, at)
  }

  setLevel(bucket: number, nearest: number, used: number, ends: number): void {
    this.#set(bucket, NEAREST, nearest)
    this.#set(bucket, ENDS, ends)
    this.counts[bucket] = used
  }

  /** What the server last reported about the NEAREST limit: its index, its used units, and the end of its window. */
  level(bucket: number): { nearest: number; used: number; ends: number } {
    return { nearest: this.#get(bucket, NEAREST), used: this.counts[bucket]!, ends: this.#get(bucket, ENDS) }
  }

  /** The index of the batch's demand for the bucket, or -1 if no demand exists. Batches are numbered from 1. */
  demand(bucket: number, batch: number): number {
    return this.#get(bucket, BATCH) === batch ? this.#get(bucket, DEMAND) : -1
  }

  setDemand(bucket: number, batch: number, demand: number): void {
    this.#set(bucket, BATCH, batch)
    this.#set(bucket, DEMAND, demand)
  }

  /** Units of the last lease that were spent or are still valid. */
  spent(bucket: number, now: number): { cost: number; bytes: number } {
    const isValid = now < this.times[bucket]!
    const spent = (unit: number) =>
      Math.max(0, this.#get(bucket, SIZE + unit) - (isValid ? 0 : this.#get(bucket, LEFT + unit)))
    return { cost: spent(0), bytes: spent(BYTES) }
  }

  /**
   * Adds a lease. If the previous one has units, both get the older ticket and earlier end, so no limit is exceeded.
   */
  add(bucket: number, cost: number, bytes: number, until: number, ticket: number, now: number): void {
    const keeps = now < this.times[bucket]! && !this.isSpent(bucket)
    this.#set(bucket, LEFT, cost + (keeps ? this.#get(bucket, LEFT) : 0))
    this.#set(bucket, LEFT + BYTES, bytes + (keeps ? this.#get(bucket, LEFT + BYTES) : 0))
    this.#set(bucket, SIZE, cost)
    this.#set(bucket, SIZE + BYTES, bytes)
    this.times[bucket] = keeps ? Math.min(until, this.times[bucket]!) : until
    if (!keeps) this.#set(bucket, TICKET, ticket)
  }

  /** Removes all units from a bucket. Returns the removed units if they are still valid, and undefined otherwise. */
  takeBack(bucket: number, now: number): { cost: number; bytes: number; ticket: number } | undefined {
    if (this.isSpent(bucket)) return undefined
    const [cost, bytes] = [this.#get(bucket, LEFT), this.#get(bucket, LEFT + BYTES)]
    this.#set(bucket, LEFT, 0)
    this.#set(bucket, LEFT + BYTES, 0)
    return now < this.times[bucket]! ? { cost, bytes, ticket: this.#get(bucket, TICKET) } : undefined
  }

  /** Forgets the size of the last lease, because the lease was not needed. */
  restart(bucket: number): void {
    this.#set(bucket, SIZE, 0)
    this.#set(bucket, SIZE + BYTES, 0)
  }

  /** Remaining cost units of a valid lease. */
  left(bucket: number, now: number): number {
    return now < this.times[bucket]! ? this.#get(bucket, LEFT) : 0
  }

  isIdle(bucket: number, since: number): boolean {
    return this.#get(bucket, USED_AT) <= since
  }

  isSpent(bucket: number): boolean {
    return this.#get(bucket, LEFT) === 0 && this.#get(bucket, LEFT + BYTES) === 0
  }

  override adopt(bucket: number, from: Leases, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    this.#rows.set(from.#rows.subarray(fromBucket * WIDTH, (fromBucket + 1) * WIDTH), bucket * WIDTH)
  }

  override reserve(capacity: number): void {
    super.reserve(capacity)
    if (this.#rows.length < capacity * WIDTH) this.#rows = resized(this.#rows, capacity * WIDTH)
  }
}
