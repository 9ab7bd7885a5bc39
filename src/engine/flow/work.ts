import { errorText } from '../../core/errors.js'
import { Share } from '../../core/event/ack.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Fields } from '../../core/event/event-fields.js'
import { type BatchScope, type Decides, FAILED, MAIN, type Plan } from '../../core/processor.js'
import type { Amount } from './counters.js'
import { madeLine } from './made-batch.js'
import { Replacements } from './replacements.js'

/** Events that wait because the processor decided LATER about them. */
export interface Waiting {
  readonly batch: EventBatch
  /**
   * When the processor was first asked about these events. `dueAt`: when to ask again. Both by the clock of the stage.
   */
  readonly since: number
  dueAt: number
  isAsked: boolean
  /** The last round in which the processor was asked about these events. */
  readonly round: number
  /** Whether this stage's predecessor decided LATER about these events, and this stage has not decided yet. */
  readonly isInherited: boolean
}

const NOTHING: Amount = { events: 0, bytes: 0 }

/** One batch in a processor, and the decisions about its events. */
export class Work implements BatchScope {
  readonly signal: AbortSignal
  readonly batch: EventBatch
  readonly to: Uint8Array
  replaced: Replacements | undefined = undefined
  /**
   * By output number: a column with a 1 for each event that is copied to this output. Undefined if no event is copied.
   */
  copies: Map<number, Uint8Array> | undefined = undefined
  errors: Map<number, string> | undefined
  /** Error messages for the events in the dead-letter queue, in order. */
  readonly letterErrors: string[] = []
  /** The events for which the processor decided LATER, in order; undefined if there are none. */
  kept: EventBatch[] | undefined
  /** Milliseconds until the processor is asked about `kept` again. */
  laterMs = Number.POSITIVE_INFINITY
  mayWait = true
  keptMs = 0
  /** When the processor was first asked about the events, by the stage's clock. */
  since = 0
  /**
   * The waiting events about which the processor is asked; undefined for a batch that just arrived. `askedSize`: the
   * size of these events when the processor was asked.
   */
  readonly asked: Waiting | undefined
  readonly askedSize: Amount = NOTHING
  /** Whether the processor threw or decided outside its plan. */
  hasBug = false
  readonly #shares: Set<Share>
  readonly #plan: Plan
  readonly #isOnce: ((source: string) => boolean) | undefined
  /** Shares taken since the processor was last called. */
  #taken: Share[] = []
  /** The index of the current event while events are processed one by one. */
  #offset = 0
  #isOver = false

  constructor(
    batch: EventBatch,
    to: Uint8Array,
    shares: Set<Share>,
    signal: AbortSignal,
    plan: Plan,
    isOnce?: (source: string) => boolean,
    asked?: Waiting,
  ) {
    this.#plan = plan
    this.#isOnce = isOnce
    this.asked = asked
    if (asked) this.askedSize = { events: batch.length, bytes: batch.bytes }
    this.batch = batch
    this.to = to
    this.signal = signal
    this.#shares = shares
  }

  later(ms: number): void {
    this.laterMs = Math.min(this.laterMs, ms)
  }

  replace(i: number, events: readonly Fields[]): void {
    this.#checkTime('replace')
    // Encodes the fields now, so that only this event fails if they cannot be encoded.
    this.replaceByLines(i, Buffer.from(events.map(madeLine).join('')))
  }

  replaceByLines(i: number, lines: Buffer, start?: number, end?: number): void {
    this.#checkTime('replaceByLines')
    this.replaced ??= new Replacements(this.batch.length)
    this.replaced.set(this.#offset + i, lines, start, end)
  }

  copy(i: number, n: number): void {
    this.#checkTime('copy')
    const { outputs = [], copies } = this.#plan
    if (!copies || n >= outputs.length)
      throw new Error(`scope.copy() was called for output ${n}, which the plan does not copy to`)
    this.copies ??= new Map()
    let column = this.copies.get(n)
    if (!column) this.copies.set(n, (column = new Uint8Array(this.batch.length)))
    column[this.#offset + i] = 1
  }

  dropCopies(i: number): void {
    for (const column of this.copies?.values() ?? []) column[i] = 0
  }

  get isInherited(): boolean {
    return this.asked?.isInherited === true
  }

  get isOnce(): boolean {
    return this.#isOnce?.(this.batch.origin.source) === true
  }

  get shares(): number {
    return this.#taken.length
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

  /** Throws after `process` has ended, since the batch may then leave and be settled at any time. */
  #checkTime(what: string): void {
    if (!this.#isOver) return
    throw new Error(
      `scope.${what}() was called after process() had ended for its batch; call it before process() returns or its promise resolves`,
    )
  }

  end(): void {
    this.#isOver = true
  }

  /** Releases the shares that the processor took before it threw, because their events are still in the batch. */
  #giveBackShares(): void {
    for (const share of this.#taken.splice(0)) share.settle('delivered')
  }

  /**
   * Called after the processor threw. Asks the processor about each original event alone. If the processor throws
   * again, the event is FAILED; otherwise the new decision is used.
   */
  async processEach(processor: Decides): Promise<void> {
    const { batch, to, signal } = this
    batch.restore()
    this.hasBug = true
    this.#giveBackShares()
    this.replaced = undefined
    this.copies = undefined
    this.errors = undefined
    const one = new Uint8Array(1)
    for (let i = 0; i < batch.length && !signal.aborted; i++) {
      const event = batch.snapshot(i, i + 1)
      event.remember()
      this.#offset = i
      one[0] = MAIN
      this.#taken.length = 0
      try {
        const waits = processor.process(event, one, this)
        if (waits) await waits
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
