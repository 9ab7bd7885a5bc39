import { Writable } from 'node:stream'
import type { EventBatch } from '../../core/event/batch.js'
import { type Amount, add } from './counters.js'
import { STREAM_DEPTH } from './side-output.js'

/**
 * The queue of batches before a destination, in memory (delivery/delivery.ts) or on disk (disk-buffer/disk-buffer.ts).
 * The queue accepts one batch at a time, as soon as the queue has room. When the queue gives up, it settles all
 * remaining batches as `errored`.
 */
export abstract class BatchQueue extends Writable {
  /** Events that the queue settled as `errored`. They count as in flight until they arrive again. */
  protected readonly givenBack: Amount = { events: 0, bytes: 0 }
  #isOver = false
  /** Lets the stream write the next batch. Undefined if the stream is not waiting. */
  #accept: (() => void) | undefined
  /** Tells the stream that its end is complete. Undefined until the last batch has arrived. */
  #finish: (() => void) | undefined

  constructor(autoDestroy: boolean) {
    super({ objectMode: true, highWaterMark: STREAM_DEPTH, autoDestroy })
  }

  /** Events and bytes that the queue has received but not passed on, including events that it gave back. */
  abstract inFlight(): Amount

  /** Whether the queue has work that it should do now. */
  abstract get owes(): boolean

  /** Counts a batch as taken from the stream's queue. */
  protected abstract count(batch: EventBatch): void

  /** Stores a non-empty batch. */
  protected abstract put(batch: EventBatch): void

  /** Makes as much progress as possible. Calls `letIn` when there is room, and `finish` when all is done. */
  protected abstract advance(): void

  /** Settles all batches as `errored`. Called once. */
  protected abstract abandon(): void

  protected get isOver(): boolean {
    return this.#isOver
  }

  protected get isEnding(): boolean {
    return this.#finish !== undefined
  }

  override _write(batch: EventBatch, _encoding: string, done: () => void): void {
    this.count(batch)
    this.#accept = done
    if (batch.length === 0) batch.ack.settle('delivered')
    else if (this.#isOver) this.giveBack(batch)
    else {
      this.put(batch)
      this.advance()
      return
    }
    this.letIn()
  }

  override _final(done: () => void): void {
    this.#finish = done
    this.advance()
  }

  /** A destroyed stream drops the batches that wait in it, so they are given back first. */
  override destroy(error?: Error): this {
    this.giveUp()
    return super.destroy(error)
  }

  protected letIn(): void {
    const accept = this.#accept
    this.#accept = undefined
    accept?.()
  }

  protected finish(): void {
    const finish = this.#finish
    this.#finish = undefined
    finish?.()
  }

  protected giveBack(batch: EventBatch): void {
    add(this.givenBack, batch.length, batch.bytes)
    batch.giveBack()
  }

  /** Ends the queue immediately. Gives unsettled events back to their sources, which then read these events again. */
  protected giveUp(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.abandon()
    this.letIn()
    this.advance()
  }
}
