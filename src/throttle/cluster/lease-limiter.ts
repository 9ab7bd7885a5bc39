import { BucketRoom } from '../bucket-room.js'
import { DISCARD, FULL, PASS } from '../decider.js'
import { viewOf } from '../key-table.js'
import { KeyedBuckets } from '../keyed-buckets.js'
import { Leases } from './leases.js'
import type { Demand, Grant } from './script.js'
import { CLOCK_MARGIN, LEASED_PART, type SharedLimit } from './shared-limit.js'

/** The server has to be asked about the event. */
export const ASK = 8
export type Asked = typeof PASS | typeof DISCARD | typeof FULL | typeof ASK

/** The part of a window for which a bucket that was found full is not asked about again. */
const FULL_PART = 1 / 20
/** In gcra, the part of a window for which a lease may be spent. */
export const GCRA_LEASE_PART = 1 / 10
/** A lease that was not used for this part of a window is given back. */
const IDLE_PART = 1 / 4
const LONGEST_IDLE_MS = 1000

const NO_KEY = viewOf(Buffer.alloc(0))

/** Decides from what was taken ahead, and collects what the server has to be asked for a batch. */
export class LeaseLimiter {
  /** The demand of the last event with ASK: its index in `demands`. */
  demand = 0
  /** The demands of the current batch. */
  demands: Demand[] = []
  readonly #limit: SharedLimit
  readonly #buckets: KeyedBuckets<Leases>
  readonly #room: BucketRoom
  readonly #default = new Leases()
  /** The keys of buckets that may hold a lease, by their text. */
  readonly #leased = new Map<string, Buffer>()
  #batch = 0

  constructor(limit: SharedLimit, maxKeys: number, seed: number) {
    this.#limit = limit
    const options = { idleMs: limit.windowMs, maxKeys, seed, keepsUsed: false }
    this.#room = new BucketRoom(maxKeys)
    this.#buckets = new KeyedBuckets(options, () => new Leases(), this.#room)
  }

  /** Number of buckets in memory, without the default one. */
  get keys(): number {
    return this.#buckets.size
  }

  /** Number of buckets that were dropped. */
  get dropped(): number {
    return this.#room.dropped
  }

  /** After so many milliseconds without use a lease is given back. */
  get idleMs(): number {
    return Math.min(LONGEST_IDLE_MS, this.#limit.windowMs * IDLE_PART)
  }

  advance(now: number): void {
    this.#buckets.advance(now)
  }

  /** Begins a batch. Call `advance` before. */
  begin(): void {
    this.#batch = (this.#batch + 1) >>> 0 || 1
    this.demands = []
  }

  take(bytes: DataView, start: number, end: number, now: number): Asked {
    const id = this.#buckets.bucket(bytes, start, end, now)
    return id < 0 ? FULL : this.#take(this.#buckets.windows, id, bytes, start, end, now)
  }

  takeDefault(now: number): Asked {
    return this.#take(this.#default, 0, NO_KEY, 0, 0, now)
  }

  #take(leases: Leases, id: number, bytes: DataView, start: number, end: number, now: number): Asked {
    if (leases.spend(id, now)) return PASS
    if (leases.isFull(id, now)) return DISCARD
    const index = leases.demand(id, this.#batch)
    if (index >= 0) {
      const demand = this.demands[index]!
      demand.need++
      demand.ahead = this.#ahead(demand.need, leases.size(id, now))
      this.demand = index
      return ASK
    }
    this.demand = this.demands.length
    leases.setDemand(id, this.#batch, this.demand)
    const key = Buffer.from(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start))
    this.demands.push({ key, need: 1, ahead: this.#ahead(1, leases.size(id, now)), ticket: 0 })
    return ASK
  }

  /** Twice as much as was spent of the last lease, so that a bucket in use is asked about ever less often. */
  #ahead(need: number, size: number): number {
    const { part, limit } = this.#limit
    return part === 0 ? 0 : Math.min(Math.floor(limit * LEASED_PART), Math.max(need, size * 2))
  }

  /** Keeps what was granted beyond the need, or that the bucket is full. `sentAt`: when the server was asked. */
  keep({ key, need }: Demand, { granted, waitMs, ticket }: Grant, sentAt: number, now: number): void {
    const { part, mode, windowMs } = this.#limit
    if (part === 0 || granted === need) return
    const [leases, id] = this.#place(key, now)
    if (id < 0) return
    // The server replied later than it was asked, so that on its clock the window ends later than this.
    if (granted < need) {
      leases.setFull(id, Math.min(sentAt + waitMs, now + windowMs * FULL_PART))
      return
    }
    const validMs = mode === 'gcra' ? windowMs * GCRA_LEASE_PART : waitMs
    const until = sentAt + validMs * (1 - CLOCK_MARGIN)
    leases.add(id, granted - need, until, ticket, now, mode === 'gcra')
    this.#leased.set(key.toString('latin1'), key)
  }

  /** Takes back the leases that were not used for `idleMs`: what to ask for to give them back. */
  giveBack(now: number, idleMs: number): Demand[] {
    const returned: Demand[] = []
    for (const [text, key] of this.#leased) {
      const [leases, id] = this.#place(key, now)
      const back = id < 0 ? undefined : leases.giveBack(id, now - idleMs, now)
      if (back) returned.push({ key, need: -back.units, ahead: 0, ticket: back.ticket })
      if (id < 0 || leases.isSpent(id)) this.#leased.delete(text)
    }
    return returned
  }

  #place(key: Buffer, now: number): [Leases, number] {
    if (key.length === 0) return [this.#default, 0]
    const id = this.#buckets.bucket(viewOf(key), 0, key.length, now)
    return [this.#buckets.windows, id]
  }
}
