import { errorText } from '../core/errors.js'
import type { EventBatch } from '../core/event/batch.js'
import type { Fields } from '../core/event/event.js'
import { MODIFIED } from '../core/event/flags.js'
import { Share } from '../core/event/share.js'
import { type BatchScope, type Decides, FAILED, MAIN } from '../core/processor.js'
import { checkWritable, madeLine } from './made-batch.js'

/** One batch in a processor: what is decided about its events. */
export class BatchWork implements BatchScope {
  readonly signal: AbortSignal
  readonly batch: EventBatch
  readonly to: Uint8Array
  /** The lines of what takes the place of events, by index. */
  replaced: Map<number, readonly string[]> | undefined = undefined
  /** Why events failed, by index. */
  errors: Map<number, string> | undefined
  /** Whether the processor threw, or decided something that its plan does not have. */
  hasBug = false
  readonly #shares: Set<Share>
  /** Those that were taken since the processor was called last. */
  #taken: Share[] = []
  /** While events are given to the processor one by one: the index of the one that it has. */
  #offset = 0
  #isOver = false

  constructor(batch: EventBatch, to: Uint8Array, shares: Set<Share>, signal: AbortSignal) {
    this.batch = batch
    this.to = to
    this.signal = signal
    this.#shares = shares
  }

  replace(i: number, events: readonly Fields[]): void {
    this.#checkTime('replace')
    // Written at once, so that what cannot be written fails this event alone.
    const lines = events.map(madeLine)
    this.replaced ??= new Map()
    this.replaced.set(this.#offset + i, lines)
  }

  share(): Share {
    this.#checkTime('share')
    const share = new Share(this.batch.ack, share => this.#shares.delete(share))
    this.#shares.add(share)
    this.#taken.push(share)
    return share
  }

  because(i: number, error: unknown): void {
    this.errors ??= new Map()
    this.errors.set(this.#offset + i, errorText(error))
  }

  /** Afterwards the batch may leave at any time, and be settled. */
  #checkTime(what: string): void {
    if (!this.#isOver) return
    throw new Error(
      `scope.${what}() was called after process() had ended for its batch; call it before process() returns, or before its promise resolves`,
    )
  }

  /** The processor has decided on the batch. Throws where it modified an event in a way that cannot be written. */
  end(): void {
    for (const i of this.batch.modified()) checkWritable(this.batch.fields(i))
    this.#isOver = true
  }

  /** The processor threw: nobody may have the shares that it had taken, and its events are still here. */
  #giveBackShares(): void {
    for (const share of this.#taken.splice(0)) share.settle('delivered')
  }

  /**
   * After the processor threw: gives it the events one by one, as they were before. Those that make it throw again are
   * FAILED, and all others as it decides now.
   */
  async processEach(processor: Decides): Promise<void> {
    const { batch, to, signal } = this
    batch.restore()
    this.hasBug = true
    this.#giveBackShares()
    this.replaced = undefined
    this.errors = undefined
    const one = new Uint8Array(1)
    for (let i = 0; i < batch.length && !signal.aborted; i++) {
      const event = batch.snapshot(i, i + 1)
      this.#offset = i
      one[0] = MAIN
      this.#taken.length = 0
      try {
        const waits = processor.process(event, one, this)
        if (waits) await waits
        if ((event.flags[0]! & MODIFIED) !== 0) checkWritable(event.fields(0))
        to[i] = one[0]
        batch.takeOver(event, i)
      } catch (error) {
        this.#offset = 0
        this.#giveBackShares()
        to[i] = FAILED
        this.because(i, error)
      }
    }
    this.#offset = 0
    this.#isOver = true
  }
}
