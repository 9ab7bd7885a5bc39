import type { Destination } from '../../../core/component.js'
import { DeliveryError, errorText } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { type Amount, add } from '../counters.js'
import type { Batcher } from './batcher.js'

/**
 * Default maximum of open partitions. An event that needs a further partition waits until the events of the least
 * recently used partition were sent.
 */
export const MOST_OPEN = 100

export interface Partition {
  readonly key: string
  /** The name that the destination gave the partition. */
  readonly name: string
  /** Why the receiver has no partition for these events; undefined if it has one. */
  readonly refusal: DeliveryError | undefined
  readonly batcher: Batcher
  /**
   * Whether the partition has a request in flight. The partition's next request waits until that request has ended, to
   * keep the order.
   */
  isBusy: boolean
}

/**
 * Queues events for a destination that divides them into partitions. Each partition has its own batcher. Every event is
 * in the batcher of its partition, or in a batch that is not divided yet. The events of a partition are sent in order,
 * because only one request of a partition is in flight at a time.
 */
export class Partitions {
  readonly #partitionOf: NonNullable<Destination['partitionOf']>
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
  /** Batches with events for which no partition can be opened now. `at`: when the batch arrived. */
  readonly #undivided: { batch: EventBatch; readonly at: number }[] = []

  constructor(partitionOf: NonNullable<Destination['partitionOf']>, most = MOST_OPEN, batcher: () => Batcher) {
    this.#partitionOf = partitionOf
    this.#most = most
    this.#batcher = batcher
  }

  get empty(): boolean {
    return this.#undivided.length === 0 && this.#all().every(({ empty }) => empty)
  }

  /** Whether no more batches should be added: a request is complete, or batches wait to be divided. */
  get full(): boolean {
    return this.#undivided.length > 0 || this.#all().some(({ full }) => full)
  }

  /** The earliest time at which a partition without a request is due (see Batcher). */
  get dueAt(): number {
    const idle = [...this.#open.values()].filter(({ isBusy }) => !isBusy)
    return Math.min(...idle.map(({ batcher }) => batcher.dueAt))
  }

  get oldestAt(): number {
    const undivided = this.#undivided.map(({ batch }) => batch.receivedAt)
    return Math.min(...undivided, ...this.#all().map(({ oldestAt }) => oldestAt))
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
    partition.isBusy = true
    this.#taken.set(request, partition)
    return request
  }

  of(request: readonly EventBatch[]): Partition {
    return this.#taken.get(request)!
  }

  ended(request: readonly EventBatch[]): void {
    const partition = this.of(request)
    this.#taken.delete(request)
    partition.isBusy = false
    if (!partition.batcher.empty) return
    this.#open.delete(partition.key)
    if (partition === this.#last) this.#last = undefined
    this.#divideAll()
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
    for (const partition of this.#open.values())
      if (!partition.isBusy && (isFull || partition.batcher.ready(now, isEnding))) return partition
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
    const indices = new Map<Partition, number[]>()
    let before: Partition | undefined
    let own: number[] = []
    let count = 0
    for (; count < batch.length; count++) {
      const partition = this.#find(batch, count)
      if (!partition) break
      if (partition !== before) {
        own = indices.get(partition) ?? []
        indices.set(partition, own)
        before = partition
      }
      own.push(count)
    }
    if (count === 0) return batch
    const [first] = indices.keys()
    if (count === batch.length && indices.size === 1) {
      first!.batcher.add(batch, at)
      return undefined
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
    if (named === this.#last) return this.#last
    const { key } = named
    let partition = this.#open.get(key)
    if (partition) this.#open.delete(key)
    else if (this.#open.size >= this.#most) return undefined
    partition ??= { ...named, batcher: this.#batcher(), isBusy: false }
    this.#open.set(key, partition)
    this.#last = partition
    return partition
  }

  #nameOf(batch: EventBatch, i: number): Pick<Partition, 'key' | 'name' | 'refusal'> {
    try {
      const name = this.#partitionOf(batch, i)
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
