import type { Destination } from '../../../core/component.js'
import { DeliveryError, errorText } from '../../../core/errors.js'
import { EventBatch } from '../../../core/event/batch.js'
import { type Amount, add } from '../counters.js'
import type { Batcher } from './batcher.js'

/**
 * Default maximum of open partitions. An event that needs a further partition waits until the events of the least
 * recently used partition were sent.
 */
export const MOST_OPEN = 100

/** Most events and bytes that wait for failing partitions while the events of other partitions are sent. */
export const MOST_APART: Amount = { events: 100_000, bytes: 16 * 1024 * 1024 }

export interface Partition {
  readonly key: string
  /** The name that the destination gave the partition; undefined: it has no partitions. */
  readonly name: string | undefined
  /** The target that fails and whose events wait here (`targetOf` of Destination). */
  readonly target?: string | undefined
  /** Why the receiver has no partition for these events; undefined if it has one. */
  readonly refusal: DeliveryError | undefined
  readonly batcher: Batcher
  /**
   * Whether the partition has a request in flight. The partition's next request waits until that request has ended, to
   * keep the order.
   */
  isBusy: boolean
  /** Whether the last attempt of its request failed. Its events then do not keep those of other partitions waiting. */
  isFailing: boolean
}

type Named = Pick<Partition, 'key' | 'name' | 'refusal' | 'target'>

/** All events of a destination without partitions. Any number of its requests may be in flight. */
const ALL: Named = { key: '', name: undefined, refusal: undefined }

/**
 * Queues events for a destination that divides them into partitions, or whose targets can fail alone. The events of
 * such a target are a partition of their own until a request of that partition has ended. Each partition has its own
 * batcher. Every event is in the batcher of its partition, or in a batch that is not divided yet. The events of a
 * partition are sent in order, because only one request of a partition is in flight at a time.
 */
export class Partitions {
  readonly #destination: Pick<Destination, 'partitionOf' | 'isOnePartition' | 'targetOf'>
  readonly #batcher: () => Batcher
  readonly #most: number
  /** Open partitions by key, least recently used first. Each of them has waiting events or a request in flight. */
  readonly #open = new Map<string, Partition>()
  /**
   * The partition of the last event. The next event is probably in the same partition. If this partition is open, it is
   * the last one in `#open`.
   */
  #last: Partition | undefined
  readonly #taken = new Map<readonly EventBatch[], Partition>()
  /** The keys of the partitions that consist of a failing target. */
  readonly #failing = new Set<string>()
  /** Batches with events for which no partition can be opened now. `at`: when the batch arrived. */
  readonly #undivided: { batch: EventBatch; readonly at: number }[] = []

  constructor(
    destination: Pick<Destination, 'partitionOf' | 'isOnePartition' | 'targetOf' | 'mostPartitions'>,
    batcher: () => Batcher,
  ) {
    this.#destination = destination
    this.#most = destination.mostPartitions ?? MOST_OPEN
    this.#batcher = batcher
  }

  get empty(): boolean {
    return this.#undivided.length === 0 && this.#all().every(({ empty }) => empty)
  }

  /** Whether no more batches should be added: a request is complete, or batches wait to be divided. */
  get full(): boolean {
    if (this.#undivided.length > 0 || this.apart?.isFull) return true
    for (const { batcher, isFailing } of this.#open.values()) if (!isFailing && batcher.full) return true
    return false
  }

  /** The events that wait for failing partitions; undefined: no partition fails. */
  get apart(): (Amount & { readonly isFull: boolean }) | undefined {
    let sum: Amount | undefined
    for (const { batcher, isFailing } of this.#open.values()) {
      const { events, bytes } = batcher.amount()
      if (isFailing) add((sum ??= { events: 0, bytes: 0 }), events, bytes)
    }
    return sum && { ...sum, isFull: sum.events >= MOST_APART.events || sum.bytes >= MOST_APART.bytes }
  }

  /** The earliest time at which a partition without a request is due (see Batcher). */
  get dueAt(): number {
    const idle = [...this.#open.values()].filter(({ isBusy }) => !isBusy)
    return Math.min(...idle.map(({ batcher }) => batcher.dueAt))
  }

  get batches(): readonly EventBatch[] {
    return [...this.#undivided.map(({ batch }) => batch), ...this.#all().flatMap(({ batches }) => batches)]
  }

  add(batch: EventBatch, now: number): void {
    this.#undivided.push({ batch, at: now })
    this.#divideAll()
  }

  ready(now: number, isEnding: boolean): boolean {
    return this.#next(now, isEnding) !== undefined
  }

  /** Takes the next request. Call only if `ready` is true. */
  take(now: number, isEnding: boolean): EventBatch[] {
    const partition = this.#next(now, isEnding)!
    const request = partition.batcher.take()
    partition.isBusy = partition.key !== ALL.key
    this.#taken.set(request, partition)
    return request
  }

  of(request: readonly EventBatch[]): Partition {
    return this.#taken.get(request)!
  }

  ended(request: readonly EventBatch[], now: number): void {
    const partition = this.of(request)
    const { key, batcher, target } = partition
    this.#taken.delete(request)
    partition.isBusy = partition.isFailing = false
    const left = target === undefined ? [] : batcher.takeAll()
    if (key !== ALL.key && batcher.empty) {
      this.#open.delete(key)
      this.#failing.delete(key)
      if (partition === this.#last) this.#last = undefined
    }
    // The target may work again. If not, its events fail alone once more.
    for (const batch of left) this.#divide(batch, now)
    this.#divideAll()
    this.#compact()
  }

  /**
   * Puts the failed events of a request in the partitions of their targets, and `left`, the events that were not sent
   * yet, behind them. Both come before all waiting events. Returns false if this is not possible. `isAll`: whether all
   * events of the attempt failed. The cause may then be another.
   */
  setApart(
    request: readonly EventBatch[],
    left: readonly EventBatch[],
    { key, target }: Partition,
    isAll: boolean,
    now: number,
  ): boolean {
    if (!this.#destination.targetOf || target !== undefined) return false
    const keys = new Set<string>()
    for (const batch of request)
      for (let i = 0; i < batch.length; i++) {
        const own = this.#destination.targetOf(batch, i)
        if (own === undefined) return false
        keys.add(keyOf(key, own))
      }
    if ((isAll && keys.size > 1) || this.#open.size + keys.size >= this.#most) return false
    for (const own of keys) this.#failing.add(own)
    const waiting = this.#open.get(key)?.batcher.takeAll() ?? []
    for (const batch of [...request, ...left, ...waiting]) this.#divide(batch, now)
    return true
  }

  /** Copies waiting events of failing partitions whose chunks nothing else needs. Requests may have slices of chunks. */
  #compact(): void {
    const byAck = new Map<EventBatch['ack'], EventBatch[]>()
    for (const { batcher, isFailing } of this.#open.values())
      for (const batch of isFailing ? batcher.batches : []) {
        const own = byAck.get(batch.ack)
        if (own) own.push(batch)
        else byAck.set(batch.ack, [batch])
      }
    for (const batches of byAck.values()) EventBatch.compactAll(batches)
  }

  amount(): Amount {
    const amount = { events: 0, bytes: 0 }
    for (const { batch } of this.#undivided) add(amount, batch.length, batch.bytes)
    for (const batcher of this.#all()) {
      const { events, bytes } = batcher.amount()
      add(amount, events, bytes)
    }
    return amount
  }

  /** Takes all waiting events, in order within each partition. */
  takeAll(): EventBatch[] {
    const undivided = this.#undivided.splice(0).map(({ batch }) => batch)
    return [...this.#all().flatMap(batcher => batcher.takeAll()), ...undivided]
  }

  /** Settles all waiting events as `errored`. Their sources then read them again. */
  giveBack(): Amount {
    const amount = this.amount()
    for (const { batch } of this.#undivided.splice(0))
      batch.ack.settle('errored', batch.sentOffsets?.before(batch.starts))
    for (const batcher of this.#all()) batcher.giveBack()
    return amount
  }

  #all(): Batcher[] {
    return Array.from(this.#open.values(), ({ batcher }) => batcher)
  }

  /** The least recently used idle partition. It must be ready to send, unless batches wait to be divided. */
  #next(now: number, isEnding: boolean): Partition | undefined {
    const isFull = this.#undivided.length > 0
    for (const partition of this.#open.values()) {
      const { isBusy, batcher } = partition
      if (!isBusy && !batcher.empty && (isFull || batcher.ready(now, isEnding))) return partition
    }
    return undefined
  }

  #divideAll(): void {
    for (let next = this.#undivided[0]; next; next = this.#undivided[0]) {
      const rest = this.#divide(next.batch, next.at)
      if (rest === next.batch) return
      if (rest) next.batch = rest
      else this.#undivided.shift()
    }
  }

  /**
   * Puts the events of a batch into their partitions. Stops at the first event whose partition cannot be opened.
   * Returns the remaining events.
   */
  #divide(batch: EventBatch, at: number): EventBatch | undefined {
    const first = this.#find(batch, 0)
    if (!first) return batch
    const isOne = !this.#destination.partitionOf || this.#destination.isOnePartition?.(batch)
    let count = isOne && this.#failing.size === 0 ? batch.length : 1
    let next: Partition | undefined = first
    while (count < batch.length && (next = this.#find(batch, count)) === first) count++
    if (count === batch.length) {
      first.batcher.add(batch, at)
      return undefined
    }
    const indices = new Map([[first, Array.from({ length: count }, (_, i) => i)]])
    while (next) {
      let own = indices.get(next)
      if (!own) indices.set(next, (own = []))
      own.push(count++)
      next = count < batch.length ? this.#find(batch, count) : undefined
    }
    for (const [partition, own] of indices) partition.batcher.add(batch.select(own), at)
    const rest = count < batch.length ? batch.fork(count) : undefined
    // From here on, the acknowledgement of the batch depends only on its parts.
    batch.ack.settle('delivered')
    return rest
  }

  /** The partition of an event, which is opened if necessary. Undefined if there is no room to open it. */
  #find(batch: EventBatch, i: number): Partition | undefined {
    const named = this.#nameOf(batch, i)
    if (named === this.#last && this.#failing.size === 0) return this.#last
    const { key, name, refusal, target } = this.#failing.size > 0 ? this.#withTarget(named, batch, i) : named
    let partition = this.#open.get(key)
    if (partition) this.#open.delete(key)
    else if (this.#open.size >= this.#most) return undefined
    const isFailing = target !== undefined
    partition ??= { key, name, refusal, target, batcher: this.#batcher(), isBusy: false, isFailing }
    this.#open.set(key, partition)
    if (!isFailing) this.#last = partition
    return partition
  }

  /** The partition of the event's target if that target fails, else `named`. */
  #withTarget(named: Named, batch: EventBatch, i: number): Named {
    const target = this.#destination.targetOf!(batch, i)
    if (target === undefined) return named
    const key = keyOf(named.key, target)
    return this.#failing.has(key) ? { ...named, key, target } : named
  }

  #nameOf(batch: EventBatch, i: number): Named {
    try {
      const name = this.#destination.partitionOf?.(batch, i)
      if (name === undefined) return this.#last ?? ALL
      if (this.#last?.name === name && !this.#last.refusal) return this.#last
      return { key: `=${name}`, name, refusal: undefined }
    } catch (cause) {
      const message = errorText(cause)
      const reason = cause instanceof DeliveryError ? cause.reason : 'partition'
      const refusal = new DeliveryError(message, { failure: 'reject', reason, cause })
      return { key: `!${message}`, name: '', refusal }
    }
  }
}

const keyOf = (partition: string, target: string) => `#${partition.length} ${partition}${target}`
