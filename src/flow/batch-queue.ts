import { Writable } from 'node:stream'
import type { EventBatch } from '../core/event/batch.js'
import { type Amount, add } from './counters.js'
import { STREAM_DEPTH } from './side-output.js'

/**
 * Where batches wait before a destination: in memory (delivery/delivery.ts) or on the disk (disk-buffer/disk-buffer.ts).
 * It takes one batch after the other, lets the next one in when it has room, and settles `errored` what it still has
 * when it gives up.
 */
export abstract class BatchQueue extends Writable {
  /** What was settled `errored`. It stays in flight until it comes again. */
  protected readonly givenBack: Amount = { events: 0, bytes: 0 }
  #isOver = false
  /** Lets in the next batch. */
  #accept: (() => void) | undefined
  /** Set when no batch follows any more. */
  #finish: (() => void) | undefined

  constructor(autoDestroy: boolean) {
    super({ objectMode: true, highWaterMark: STREAM_DEPTH, autoDestroy })
  }

  /** Events and bytes taken and not passed on. Those given back are among them. */
  abstract inFlight(): Amount

  /** Whether it has something to do, and nothing that it rightly waits for. */
  abstract get owes(): boolean

  /** Counts a batch as taken out of the queue of the stream. */
  protected abstract count(batch: EventBatch): void

  /** Keeps a batch, which has events. */
  protected abstract put(batch: EventBatch): void

  /** Does all that can be done now, and calls `letIn` when there is room, and `finish` when all is done. */
  protected abstract advance(): void

  /** Gives back what it has. Called once. */
  protected abstract abandon(): void

  protected get isOver(): boolean {
    return this.#isOver
  }

  /** Whether no batch follows any more. */
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

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.giveUp()
    done(error)
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
    batch.ack.settle('errored')
  }

  /** Ends everything now. What is not settled is given back, to be read again. */
  protected giveUp(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.abandon()
    this.letIn()
    this.advance()
  }
}
