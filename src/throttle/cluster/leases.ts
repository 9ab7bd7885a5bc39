import { BucketColumns } from '../windows.js'

/**
 * Units that this daemon has taken ahead, by bucket. `counts`: units left; `times`: until when they may be spent, on the
 * local clock.
 */
export class Leases extends BucketColumns {
  /** When the bucket was last used. */
  #usedAt = new Float64Array(8)
  #tickets = new Float64Array(8)
  /** Units taken ahead the last time; while a bucket stays in use, the next lease is larger. */
  #sizes = new Uint32Array(8)
  /** Until when the bucket is known to be full. */
  #fullUntil = new Float64Array(8)
  /** The last batch that asks about the bucket, and the demand there. */
  #batches = new Uint32Array(8)
  #demands = new Uint32Array(8)

  override latest(bucket: number): number {
    return this.#usedAt[bucket]!
  }

  /** Spends a unit; false: there is none. */
  spend(bucket: number, now: number): boolean {
    this.#usedAt[bucket] = now
    const left = this.counts[bucket]!
    if (left === 0 || now >= this.times[bucket]!) return false
    this.counts[bucket] = left - 1
    return true
  }

  isFull(bucket: number, now: number): boolean {
    return now < this.#fullUntil[bucket]!
  }

  setFull(bucket: number, until: number): void {
    this.#fullUntil[bucket] = until
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
  size(bucket: number, now: number): number {
    return now < this.times[bucket]! ? this.#sizes[bucket]! : Math.max(0, this.#sizes[bucket]! - this.counts[bucket]!)
  }

  /**
   * Adds a lease. Units of an older ticket are no longer valid in windows; in gcra (`mixes`) they are kept, with the
   * older ticket and the earlier end, which is the safe side.
   */
  add(bucket: number, units: number, until: number, ticket: number, now: number, mixes: boolean): void {
    const left = now < this.times[bucket]! ? this.counts[bucket]! : 0
    const keeps = left > 0 && (mixes || this.#tickets[bucket] === ticket)
    this.counts[bucket] = units + (keeps ? left : 0)
    this.times[bucket] = keeps ? Math.min(until, this.times[bucket]!) : until
    this.#tickets[bucket] = keeps ? this.#tickets[bucket]! : ticket
    this.#sizes[bucket] = units
  }

  /** Takes all units out of a bucket that was not used since `idleSince`; undefined: there are none to give back. */
  giveBack(bucket: number, idleSince: number, now: number): { units: number; ticket: number } | undefined {
    const units = this.counts[bucket]!
    if (units === 0 || this.#usedAt[bucket]! > idleSince) return undefined
    this.counts[bucket] = 0
    this.#sizes[bucket] = 0
    return now < this.times[bucket]! ? { units, ticket: this.#tickets[bucket]! } : undefined
  }

  isSpent(bucket: number): boolean {
    return this.counts[bucket] === 0
  }

  override adopt(bucket: number, from: Leases, fromBucket: number): void {
    super.adopt(bucket, from, fromBucket)
    this.#usedAt[bucket] = from.#usedAt[fromBucket]!
    this.#tickets[bucket] = from.#tickets[fromBucket]!
    this.#sizes[bucket] = from.#sizes[fromBucket]!
    this.#fullUntil[bucket] = from.#fullUntil[fromBucket]!
    this.#batches[bucket] = from.#batches[fromBucket]!
    this.#demands[bucket] = from.#demands[fromBucket]!
  }

  override reserve(capacity: number): void {
    if (capacity <= this.#usedAt.length) return
    const size = Math.max(capacity, this.#usedAt.length * 2)
    super.reserve(size)
    this.#usedAt = grown(this.#usedAt, new Float64Array(size))
    this.#tickets = grown(this.#tickets, new Float64Array(size))
    this.#sizes = grown(this.#sizes, new Uint32Array(size))
    this.#fullUntil = grown(this.#fullUntil, new Float64Array(size))
    this.#batches = grown(this.#batches, new Uint32Array(size))
    this.#demands = grown(this.#demands, new Uint32Array(size))
  }
}

function grown<C extends Float64Array | Uint32Array>(column: C, larger: C): C {
  larger.set(column)
  return larger
}
