import type { EventBatch } from '../../core/event/batch.js'
import type { Behind } from '../../core/event/behind.js'
import type { Clock } from '../../lib/time.js'
import { STALL_MS } from './stall.js'

/** A moment at which the source had nothing left to read, and the number of batches that it had created by then. */
interface Moment {
  readonly at: number
  readonly batches: number
}

/**
 * Notes when a source had last nothing left to read, and gives this moment to the batches that the source reads while
 * it is behind (EventBatch.behind). A source that reports such moments is behind from its start, from its first backlog
 * (`isBacklog`), or when it could not send for STALL_MS, until it reports the next moment. Any other source is behind
 * from the time at which it could not send for STALL_MS, until it has sent for as long again. If the whole process was
 * paused for STALL_MS, as by a suspended machine, every source was. All times are on the monotonic clock.
 */
export class SourceLag {
  readonly #clock: Clock
  #reports = false
  /** The last such moment whose earlier batches are all settled. After a restart, only later input is read again. */
  #settledAt: number | undefined
  /** The moment that becomes `#settledAt` next, and the newest moment. */
  #next: Moment | undefined
  #newest: Moment | undefined
  #behind: Behind | undefined
  /** When the lag ends; infinite if it ends at the next report. */
  #until = 0
  /** Until when the time without room of a source that does not report is counted. */
  #countedTo = 0
  /** Whether the source has sent nothing since it last reported. */
  #isIdle = false
  /** When the process was last known to run. */
  #beatAt: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get #caughtUpAt(): number | undefined {
    return this.#newest?.at ?? this.#settledAt
  }

  /** When the source had last nothing left to read or deliver, wall clock in milliseconds. Undefined: never. */
  get settledAt(): number | undefined {
    return this.#settledAt === undefined ? undefined : this.#clock.wall() - (this.#clock.now() - this.#settledAt)
  }

  /** Continues with a saved moment, wall clock in milliseconds. */
  resume(settledAt: number | undefined): void {
    if (settledAt === undefined || this.#settledAt !== undefined) return
    this.#reports = true
    this.#settledAt = this.#clock.now() - Math.max(0, this.#clock.wall() - settledAt)
    this.#begin(this.#caughtUpAt)
  }

  /** The source had nothing left to read at this time. `batches`: how many it has created. `open`: unsettled ones. */
  caughtUp(at: number, batches: number, open: number): void {
    this.#reports = this.#isIdle = true
    this.#end()
    this.#newest = { at, batches }
    this.#next ??= this.#newest
    if (open === 0) this.settled(batches)
  }

  /** All batches up to this number are settled. */
  settled(batches: number): void {
    if (this.#next === undefined || batches < this.#next.batches) return
    const { at } = this.#newest!.batches <= batches ? this.#newest! : this.#next
    this.#settledAt = at
    this.#next = at === this.#newest!.at ? undefined : this.#newest
  }

  /** The source has to read again what is not settled. */
  gaveBack(): void {
    this.#end()
    this.#next = this.#newest = undefined
    this.#begin(this.#caughtUpAt)
  }

  /** Call before a batch is sent. */
  mark(batch: EventBatch): void {
    if (this.#beatAt !== undefined) this.beat()
    if (batch.isBacklog) this.#begin(this.#caughtUpAt)
    else if (this.#clock.now() >= this.#until) this.#end()
    this.#isIdle = false
    batch.behind = this.#behind
  }

  /** Call several times in STALL_MS, to notice when the process is paused. */
  beat(): void {
    const now = this.#clock.now()
    const last = this.#beatAt ?? now
    this.#beatAt = now
    if (now - last < STALL_MS) return
    this.#begin(this.#reports && !this.#isIdle ? this.#caughtUpAt : last, now + now - last)
  }

  /** Call when a source that began to send at this time may send again. */
  sent(began: number): void {
    const now = this.#clock.now()
    if (now - began < STALL_MS) return
    const until = Math.max(this.#until, now) + now - Math.max(began, this.#countedTo)
    if (this.#reports) this.#begin(this.#caughtUpAt)
    else this.#begin(began, until)
    this.#countedTo = now
  }

  /** `since`: undefined if the source has never caught up, as at a first start. */
  #begin(since: number | undefined, until = Number.POSITIVE_INFINITY): void {
    if (since === undefined) return
    this.#behind ??= { since, isOver: false }
    this.#until = Math.max(this.#until, until)
  }

  #end(): void {
    if (this.#behind) this.#behind.isOver = true
    this.#behind = undefined
    this.#until = 0
  }
}
