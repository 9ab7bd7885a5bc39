import type { EventBatch } from '../../../core/event/batch.js'
import type { Amount } from '../counters.js'

export interface BatchLimits {
  readonly max_events: number
  readonly max_wait: number
}

/**
 * Queues batches, and merges and divides them into requests, in order. Every event is in exactly one request. This
 * request holds a share of the ack of the event's batch. Only a request of a single large event exceeds the limits.
 */
export class Batcher {
  readonly #limits: BatchLimits
  readonly #batches: EventBatch[] = []
  readonly #arrivedAt: number[] = []
  /** How many events and bytes of the first batch are already in requests. */
  #from = 0
  #fromBytes = 0
  #events = 0
  #bytes = 0
  /** Whether batches are kept whole. A batch is then divided only if it is larger than a whole request. */
  readonly #keepsWhole: boolean
  /** `maxBytes`: maximum number of bytes sent in a request. `ratio`: estimated bytes sent for each byte read. */
  readonly #sent: { readonly maxBytes: number; readonly ratio: number }

  constructor(limits: BatchLimits, sent: { readonly maxBytes: number; readonly ratio: number }, keepsWhole = false) {
    this.#limits = limits
    this.#sent = sent
    this.#keepsWhole = keepsWhole
  }

  /** Maximum size of a request, counted in bytes read instead of bytes sent. */
  get #maxBytes(): number {
    return this.#sent.maxBytes / this.#sent.ratio
  }

  get empty(): boolean {
    return this.#batches.length === 0
  }

  /**
   * Whether a request is complete. If batches are kept whole, this is the case when another batch as large as the last
   * one would not fit.
   */
  get full(): boolean {
    const last = this.#keepsWhole ? this.#batches.at(-1) : undefined
    const maxEvents = this.#limits.max_events - (last ? last.length - 1 : 0)
    return this.#events >= maxEvents || this.#bytes >= this.#maxBytes - (last ? last.bytes - 1 : 0)
  }

  /** Whether the next request should start, because it is complete or due, or because no more events arrive. */
  ready(now: number, isEnding: boolean): boolean {
    return this.full || this.dueAt <= now || (isEnding && !this.empty)
  }

  /** When the oldest event has waited `max_wait`, by the clock of `add`. Infinity if no event waits. */
  get dueAt(): number {
    return this.empty ? Number.POSITIVE_INFINITY : this.#arrivedAt[0]! + this.#limits.max_wait
  }

  /** Adds a non-empty batch. From now on, the batcher holds the batch's ack. */
  add(batch: EventBatch, now: number): void {
    this.#batches.push(batch)
    this.#arrivedAt.push(now)
    this.#events += batch.length
    this.#bytes += batch.bytes
  }

  /** Takes the next request: as many events as the limits allow. */
  take(): EventBatch[] {
    const { max_events: maxEvents } = this.#limits
    const maxBytes = this.#maxBytes
    const request: EventBatch[] = []
    let events = 0
    let bytes = 0
    let whole = 0
    for (const batch of this.#batches) {
      const count = batch.length - this.#from
      const size = batch.bytes - this.#fromBytes
      if (events + count > maxEvents || bytes + size > maxBytes) {
        if (this.#keepsWhole && events > 0) break
        const to = this.#fits(batch, maxEvents - events, maxBytes - bytes, events === 0)
        if (to < batch.length) {
          if (to > this.#from) request.push(this.#piece(batch, to))
          break
        }
      }
      request.push(this.#rest(batch))
      this.#events -= count
      this.#bytes -= size
      events += count
      bytes += size
      whole++
    }
    this.#batches.splice(0, whole)
    this.#arrivedAt.splice(0, whole)
    return request
  }

  /**
   * The index of the first event that does not fit. `first`: whether the request is empty. Then one event always fits.
   */
  #fits(batch: EventBatch, maxEvents: number, maxBytes: number, first: boolean): number {
    const end = Math.min(batch.length, this.#from + maxEvents)
    let to = this.#from
    for (let bytes = 0; to < end; to++) {
      bytes += batch.size(to)
      if (bytes > maxBytes && !(first && to === this.#from)) break
    }
    return to
  }

  /** The next events of the first batch, up to `to`. The batch stays in the queue. */
  #piece(batch: EventBatch, to: number): EventBatch {
    const piece = batch.fork(this.#from, to)
    this.#from = to
    this.#fromBytes += piece.bytes
    this.#events -= piece.length
    this.#bytes -= piece.bytes
    return piece
  }

  /** Returns the remaining events of the first batch. From now on, only the pieces of the batch hold its ack. */
  #rest(batch: EventBatch): EventBatch {
    if (this.#from === 0) return batch
    const piece = batch.fork(this.#from, batch.length)
    batch.ack.settle('delivered')
    this.#from = 0
    this.#fromBytes = 0
    return piece
  }

  amount(): Amount {
    return { events: this.#events, bytes: this.#bytes }
  }

  get batches(): readonly EventBatch[] {
    return this.#batches
  }

  /** Takes all waiting events. If part of the first batch is in a request, takes the rest of this batch. */
  takeAll(): EventBatch[] {
    const all = this.#batches.map(batch => this.#rest(batch))
    this.#batches.length = 0
    this.#arrivedAt.length = 0
    this.#events = this.#bytes = 0
    return all
  }

  /** Settles all waiting events as `errored`. Their sources then read them again. */
  giveBack(): Amount {
    const amount = this.amount()
    for (const [i, batch] of this.#batches.entries()) batch.giveBack(i === 0 ? this.#from : 0)
    this.#batches.length = 0
    this.#arrivedAt.length = 0
    this.#from = this.#fromBytes = this.#events = this.#bytes = 0
    return amount
  }
}

/** Divides a request into two requests with about the same number of events. Keeps the order. */
export function halve(request: readonly EventBatch[]): [EventBatch[], EventBatch[]] {
  let events = 0
  for (const batch of request) events += batch.length
  let room = events >> 1
  const left: EventBatch[] = []
  const right: EventBatch[] = []
  for (const batch of request) {
    if (room === 0) right.push(batch)
    else if (batch.length <= room) {
      left.push(batch)
      room -= batch.length
    } else {
      left.push(batch.fork(0, room))
      right.push(batch.fork(room, batch.length))
      batch.ack.settle('delivered')
      room = 0
    }
  }
  return [left, right]
}

/** Divides a request's events into groups, each in order. `groupOf` takes an event's index and returns its group. */
export function divide(
  request: readonly EventBatch[],
  groups: number,
  groupOf: (index: number) => number,
): EventBatch[][] {
  const divided = Array.from({ length: groups }, (): EventBatch[] => [])
  let first = 0
  for (const batch of request) {
    for (const [group, parts] of divided.entries()) {
      const picked = batch.pick(i => groupOf(first + i) === group)
      if (picked) parts.push(picked)
    }
    first += batch.length
    batch.ack.settle('delivered')
  }
  return divided
}
