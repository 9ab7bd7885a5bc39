import { BucketColumns } from '../windows.js'

/**
 * Units that this daemon has taken ahead, by bucket. `times`: until when they may be spent, on the local clock.
 * `counts`: the units used of the nearest limit, as the server said last.
 */
export class Leases extends BucketColumns {
  /** When the bucket was last used. */
  #usedAt = new Float64Array(8)
  #tickets = new Float64Array(8)
  readonly #costs = new LeasedUnits()
  readonly #bytes: LeasedUnits | undefined
  /** Until when events of at least the cost and size in `refused` are known not to fit. */
  #fullUntil = new Float64Array(8)
  /** When the limit that refused an event has room. */
  #roomAt = new Float64Array(8)
  /** The last batch that asks about the bucket, and the demand there. */
  #batches = new Uint32Array(8)
  #demands = new Uint32Array(8)
  /** The index of the nearest limit, and the end of its window. */
  #nearest = new Uint8Array(8)
  #ends = new Float64Array(8)

  constructor(hasBytes: boolean) {
    super()
    if (hasBytes) this.#bytes = new LeasedUnits()
  }

  override latest(bucket: number): number {
    return this.#usedAt[bucket]!
  }

  /** Spends units; false: there are not enough. */
  spend(bucket: number, cost: number, bytes: number, now: number): boolean {
    this.#usedAt[bucket] = now
    const left = this.#costs.left[bucket]!
    if (cost > left || now >= this.times[bucket]!) return false
    if (this.#bytes !== undefined) {
      if (bytes > this.#bytes.left[bucket]!) return false
      this.#bytes.left[bucket]! -= bytes
    }
    this.#costs.left[bucket] = left - cost
    return true
  }

  /** Whether an event of this cost and size is known not to fit. */
  isFull(bucket: number, cost: number, bytes: number, now: number): boolean {
    if (now >= this.#fullUntil[bucket]! || cost < this.#costs.refused[bucket]!) return false
    return this.#bytes === undefined || bytes >= this.#bytes.refused[bucket]!
  }

  setFull(bucket: number, cost: number, bytes: number, until: number): void {
    this.#fullUntil[bucket] = until
    this.#costs.refused[bucket] = cost
    if (this.#bytes) this.#bytes.refused[bucket] = bytes
  }

  /** When there may be room for an event that was refused; in the past if nobody knows. */
  roomAt(bucket: number): number {
    return this.#roomAt[bucket]!
  }

  setRoomAt(bucket: number, at: number): void {
    this.#roomAt[bucket] = at
  }

  setLevel(bucket: number, nearest: number, used: number, ends: number): void {
    this.#nearest[bucket] = nearest
    this.counts[bucket] = used
    this.#ends[bucket] = ends
  }

  /** The nearest limit as the server described it last: its index, what is used of it, and the end of its window. */
  level(bucket: number): { nearest: number; used: number; ends: number } {
    return { nearest: this.#nearest[bucket]!, used: this.counts[bucket]!, ends: this.#ends[bucket]! }
  }

  /** The demand of a batch (1, 2, 3, …) about the bucket; -1: there is none yet. */
  demand(bucket: number, batch: number): number {
    return this.#batches[bucket] === batch ? this.#demands[bucket]! : -1
  }

  setDemand(bucket: number, batch: number, demand: number): void {
    this.#batches[bucket] = batch
    this.#demands[bucket] = demand
  }

  /** How much of the last lease was spent, or may still be. */
  spent(bucket: number, now: number): { cost: number; bytes: number } {
    const isValid = now < this.times[bucket]!
    return { cost: this.#costs.spent(bucket, isValid), bytes: this.#bytes?.spent(bucket, isValid) ?? 0 }
  }

  /** Adds a lease. What is left of another one keeps the older ticket and the earlier end, which is the safe side. */
  add(bucket: number, cost: number, bytes: number, until: number, ticket: number, now: number): void {
    const isValid = now < this.times[bucket]!
    const keeps = isValid && !this.isSpent(bucket)
    this.#costs.add(bucket, cost, keeps)
    this.#bytes?.add(bucket, bytes, keeps)
    this.times[bucket] = keeps ? Math.min(until, this.times[bucket]!) : until
    if (!keeps) this.#tickets[bucket] = ticket
  }

  /** Takes all units out of a bucket; undefined: there are none that are worth something. */
  takeBack(bucket: number, now: number): { cost: number; bytes: number; ticket: number } | undefined {
    if (this.isSpent(bucket)) return undefined
    const cost = this.#costs.left[bucket]!
    const bytes = this.#bytes?.left[bucket] ?? 0
    this.#costs.left[bucket] = 0
    if (this.#bytes) this.#bytes.left[bucket] = 0
    return now < this.times[bucket]! ? { cost, bytes, ticket: this.#tickets[bucket]! } : undefined
  }

  /** Forgets how large the last lease was, since it was not needed. */
  restart(bucket: number): void {
    this.#costs.sizes[bucket] = 0
    if (this.#bytes) this.#bytes.sizes[bucket] = 0
  }

  isIdle(bucket: number, since: number): boolean {
    return this.#usedAt[bucket]! <= since
  }

  isSpent(bucket: number): boolean {
    return this.#costs.left[bucket] === 0 && (this.#bytes === undefined || this.#bytes.left[bucket] === 0)
  }

  override adopt(bucket: number, from: Leases, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    this.#usedAt[bucket] = from.#usedAt[fromBucket]!
    this.#tickets[bucket] = from.#tickets[fromBucket]!
    this.#costs.adopt(bucket, from.#costs, fromBucket)
    if (from.#bytes) this.#bytes?.adopt(bucket, from.#bytes, fromBucket)
    this.#fullUntil[bucket] = from.#fullUntil[fromBucket]!
    this.#roomAt[bucket] = from.#roomAt[fromBucket]!
    this.#batches[bucket] = from.#batches[fromBucket]!
    this.#demands[bucket] = from.#demands[fromBucket]!
    this.#nearest[bucket] = from.#nearest[fromBucket]!
    this.#ends[bucket] = from.#ends[fromBucket]!
  }

  override reserve(capacity: number): void {
    if (capacity <= this.#usedAt.length) return
    const size = Math.max(capacity, this.#usedAt.length * 2)
    super.reserve(size)
    this.#usedAt = grown(this.#usedAt, new Float64Array(size))
    this.#tickets = grown(this.#tickets, new Float64Array(size))
    this.#costs.reserve(size)
    this.#bytes?.reserve(size)
    this.#fullUntil = grown(this.#fullUntil, new Float64Array(size))
    this.#roomAt = grown(this.#roomAt, new Float64Array(size))
    this.#batches = grown(this.#batches, new Uint32Array(size))
    this.#demands = grown(this.#demands, new Uint32Array(size))
    this.#nearest = grown(this.#nearest, new Uint8Array(size))
    this.#ends = grown(this.#ends, new Float64Array(size))
  }
}

/** The costs, or the bytes, in leases. */
class LeasedUnits {
  left = new Float64Array(8)
  /** Units taken ahead the last time; while a bucket stays in use, the next lease is larger. */
  sizes = new Float64Array(8)
  /** Those of the event that was refused last. */
  refused = new Float64Array(8)

  spent(bucket: number, isValid: boolean): number {
    return isValid ? this.sizes[bucket]! : Math.max(0, this.sizes[bucket]! - this.left[bucket]!)
  }

  add(bucket: number, units: number, keeps: boolean): void {
    this.left[bucket] = units + (keeps ? this.left[bucket]! : 0)
    this.sizes[bucket] = units
  }

  adopt(bucket: number, from: LeasedUnits, fromBucket: number): void {
    this.left[bucket] = from.left[fromBucket]!
    this.sizes[bucket] = from.sizes[fromBucket]!
    this.refused[bucket] = from.refused[fromBucket]!
  }

  reserve(size: number): void {
    this.left = grown(this.left, new Float64Array(size))
    this.sizes = grown(this.sizes, new Float64Array(size))
    this.refused = grown(this.refused, new Float64Array(size))
  }
}

function grown<C extends Float64Array | Uint32Array | Uint8Array>(column: C, larger: C): C {
  larger.set(column)
  return larger
}
