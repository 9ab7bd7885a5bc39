import { Writable } from 'node:stream'
import type { Ack, AckStatus } from '../../core/event/ack.js'
import type { EventBatch } from '../../core/event/batch.js'
import { encodeBatch } from '../../flow/disk-buffer/batch-record.js'
import { STREAM_DEPTH } from '../../flow/side-output.js'
import { memoryOf } from '../../lib/lines/chunk-pool.js'
import type { FromWorker } from './messages.js'
import type { Rooms } from './rooms.js'

/** Batches that are on their way to the main thread while it is busy. */
const MOST_UNTAKEN = 4

/**
 * An output of a worker thread that the main thread reads. Each batch is copied into a record, whose memory goes to the
 * main thread, and the batch stays open here until the main thread says what became of it. Invariants:
 * - Batches arrive in the order in which they were written.
 * - At most MOST_UNTAKEN batches are on their way and not yet taken, so a slow reader slows this output.
 * - It finishes when every batch is settled; destroyed, it gives back those that are not.
 */
export class Exit extends Writable {
  /** Events written so far. */
  events = 0
  readonly #name: string
  readonly #rooms: Rooms
  readonly #post: (message: FromWorker, transfer?: readonly ArrayBuffer[]) => void
  readonly #open = new Map<number, Ack>()
  #number = 0
  #untaken = 0
  /** Accepts the next batch. */
  #accept: (() => void) | undefined
  #finish: (() => void) | undefined

  constructor(name: string, rooms: Rooms, post: (message: FromWorker, transfer?: readonly ArrayBuffer[]) => void) {
    super({ objectMode: true, highWaterMark: STREAM_DEPTH })
    this.#name = name
    this.#rooms = rooms
    this.#post = post
  }

  /** Counts a batch that was put into its queue. */
  arrived(events: number): void {
    this.events += events
  }

  override _write(batch: EventBatch, _encoding: string, done: () => void): void {
    if (batch.length === 0) {
      batch.ack.settle('delivered')
      done()
      return
    }
    const { ack, held } = batch
    const bytes = encodeBatch(batch, 0, size => this.#rooms.take(size))
    const record = bytes.buffer as ArrayBuffer
    const number = ++this.#number
    this.#open.set(number, ack)
    // The main thread has columns, too.
    ack.grow(record.byteLength + held - memoryOf(batch.chunk))
    // The lines are in the record now, so the chunk can be used again.
    if (ack.sole) ack.shrink(held)
    this.#post({ type: 'batch', exit: this.#name, number, record, size: bytes.length }, [record])
    this.#untaken++
    if (this.#untaken < MOST_UNTAKEN) done()
    else this.#accept = done
  }

  /** The main thread has room for one more batch. */
  taken(): void {
    this.#untaken--
    const accept = this.#accept
    this.#accept = undefined
    accept?.()
  }

  /** So many bytes of the record of a batch are free, though the batch is not settled. */
  shrunk(number: number, bytes: number): void {
    this.#open.get(number)?.grow(-bytes)
  }

  settle(number: number, status: AckStatus): void {
    const ack = this.#open.get(number)
    if (!this.#open.delete(number)) return
    ack!.settle(status)
    if (this.#open.size === 0) this.#finish?.()
  }

  override _final(done: () => void): void {
    this.#post({ type: 'over', exit: this.#name })
    if (this.#open.size === 0) done()
    else this.#finish = done
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const open = [...this.#open.values()]
    this.#open.clear()
    // The source reads the events again.
    for (const ack of open) ack.settle('errored')
    done(error)
  }
}
