import type { ComponentMetrics } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { TimerClock } from '../../lib/time.js'
import type { BatchWork } from './batch-work.js'
import { type Amount, add, sum } from './counters.js'
import { atOnce } from './steady-clock.js'
import { type Left, type Waiting, WaitingEvents } from './waiting-events.js'

/** The least time between two rounds of asking about the events that wait, also as a multiple of the last round's. */
const ROUND_MS = 5
const ROUND_SHARE = 10

export interface LaterContext {
  readonly clock: TimerClock
  readonly metrics: Pick<ComponentMetrics, 'took' | 'gauge'>
  /** Whether a source reads again what was given back. */
  readonly readsAgain: (source: string) => boolean
  /** Whether a batch can be decided now. When that changes, `advance` is called. */
  readonly mayAsk: () => boolean
  /** Asks the processor, and calls `decided` when it has decided. */
  readonly ask: (waiting: Waiting) => void
  /** Called after each round. */
  readonly onRound: () => void
}

/** Keeps the events that a processor decided LATER, and asks about them again when it is time. */
export class Later {
  readonly #context: LaterContext
  readonly #waiting = new WaitingEvents()
  /** Given back to their sources, or left to the successor; they stay in flight until they arrive again. */
  readonly #givenBack: Amount = { events: 0, bytes: 0 }
  /** Sources that were given something back. What they sent after it goes back as well, since it would overtake it. */
  readonly #gaveBackTo = new Set<string>()
  #isEnding = false
  /** Whether the successor takes what waits of a source. */
  #passesOn: (source: string) => boolean = () => false
  #isOver = false
  #notBefore = Number.NEGATIVE_INFINITY
  #cancelTimer: (() => void) | undefined

  constructor(context: LaterContext) {
    this.#context = context
    const { metrics } = context
    const waiting = 'Events that the component keeps until there is room for them.'
    metrics.gauge('sluice_component_waiting_events', waiting, () => this.#waiting.amount.events)
    const full = 'Sources of which so many events wait that no more are taken.'
    metrics.gauge('sluice_component_waiting_full_sources', full, () => this.#waiting.fullSources)
  }

  get isEmpty(): boolean {
    return this.#waiting.isEmpty
  }

  /** Whether no more batches should be taken. */
  get isFull(): boolean {
    return this.#waiting.isFull
  }

  /** Whether nothing waits but what is left to the successor. */
  get isDone(): boolean {
    return this.#waiting.isResting
  }

  /** Everything that waits. */
  batches(): Iterable<EventBatch> {
    return this.#waiting.batches()
  }

  /** Events and bytes that wait, also while they are asked about, and those given back. */
  get amount(): Amount {
    return sum(this.#waiting.amount, this.#givenBack)
  }

  /** Takes a batch that has to wait behind others of its source; false: it can be decided now. */
  takes(batch: EventBatch): boolean {
    if (this.#gaveBackTo.has(batch.origin.source)) {
      this.#giveBack(batch)
      return true
    }
    if (!this.#waiting.queues(batch.origin.source, this.#context.clock.now())) return false
    this.#waiting.queue(batch)
    this.advance()
    return true
  }

  /** Whether events of the batch may be LATER. At the end that depends on whether they could be read again. */
  mayWait({ origin: { source } }: EventBatch): boolean {
    return !this.#isEnding || this.#passesOn(source) || this.#context.readsAgain(source)
  }

  /** Keeps what is left of a batch after its decision. */
  decided({ batch, asked, since, askedSize, kept = [], laterMs }: BatchWork): void {
    const ends = this.#isOver || (this.#isEnding && !this.#passesOn(batch.origin.source))
    const left = ends ? [] : kept
    if (ends) for (const batch of kept) this.#giveBack(batch)
    const dueAt = this.#context.clock.now() + (Number.isFinite(laterMs) ? laterMs : ROUND_MS)
    if (asked) this.#waiting.answered(asked, askedSize, left, dueAt)
    else this.#waiting.keep(left, since, dueAt)
    if (!asked && left.length > 0) this.#setTimer()
  }

  /** Asks about everything that is due, as far as there is room. */
  advance(): void {
    const { clock, mayAsk, ask, onRound } = this.#context
    const began = clock.now()
    if (this.isEmpty || this.#isOver) return
    let goesOn = true
    if (began >= this.#notBefore || this.#isEnding) {
      // What is asked now may call this again.
      this.#notBefore = Number.POSITIVE_INFINITY
      this.#waiting.beginRound()
      atOnce(clock, () => {
        const at = clock.now()
        goesOn = mayAsk()
        while (goesOn) {
          const next = this.#waiting.next(at)
          if (!next) break
          // The others of its chunk may be gone by now.
          next.batch.compact()
          ask(next)
          goesOn = mayAsk()
        }
      })
      const now = clock.now()
      this.#notBefore = now + Math.max(ROUND_MS, ROUND_SHARE * (now - began))
      onRound()
    }
    // Otherwise this is called when it may go on.
    if (goesOn) this.#setTimer()
  }

  #setTimer(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    const at = Math.max(this.#waiting.dueAt, this.#notBefore)
    if (this.#isOver || at === Number.POSITIVE_INFINITY) return
    const { clock } = this.#context
    this.#cancelTimer = clock.after(Math.max(0, at - clock.now()), () => this.advance())
  }

  #giveBack(batch: EventBatch): void {
    this.#gaveBackTo.add(batch.origin.source)
    add(this.#givenBack, batch.length, batch.bytes)
    batch.giveBack()
  }

  /** Keeps what waited in the predecessor, before anything else arrives. */
  inherit(left: Left): void {
    const { clock, metrics } = this.#context
    metrics.took(left.batch.length, left.batch.bytes)
    this.#waiting.inherit(left, clock.now())
    if (this.#isEnding) this.end(this.#passesOn)
    else this.#setTimer()
  }

  /**
   * Leaves what waits of sources that `passesOn` accepts to the successor, now and from now on, and gives back the rest
   * if it can be read again. What is left then is decided now.
   */
  end(passesOn: (source: string) => boolean): void {
    this.#isEnding = true
    this.#passesOn = passesOn
    this.#waiting.rest(passesOn)
    const { readsAgain } = this.#context
    for (const batch of this.#waiting.takeAll(source => readsAgain(source) && !passesOn(source))) this.#giveBack(batch)
    this.#waiting.hurry()
    this.advance()
    this.#context.onRound()
  }

  /** Takes out what is left to the successor. */
  takeLeft(): Left[] {
    const left = this.#waiting.takeResting(this.#context.clock.now())
    for (const { batch } of left) add(this.#givenBack, batch.length, batch.bytes)
    return left
  }

  /** Gives back everything. */
  destroy(): void {
    this.#isOver = true
    this.#cancelTimer?.()
    for (const batch of this.#waiting.takeAll(() => true)) this.#giveBack(batch)
  }
}
