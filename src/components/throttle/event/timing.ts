import type { EventBatch } from '../../../core/event/batch.js'
import type { EventTimeOptions } from '../decider-options.js'
import { type Decision, LATE, TOO_LATE } from '../decisions.js'
import type { Limit } from '../limit.js'
import type { Limiter, Timing } from '../limiter.js'
import { periodsOf, sideBySide } from '../windows/several.js'
import type { Windows } from '../windows.js'
import { CountedEventWindows } from './counted.js'
import { EarlierMemory } from './earlier-rows.js'
import { EventProgress } from './progress.js'
import { latestTime } from './time.js'

/** Extra time for which buckets are kept while no events arrive, so that an outage does not drop the buckets. */
const SILENCE_MS = 3_600_000

/**
 * Event time: an event is counted at its own time. A bucket is idle when every further event of active origins would be
 * late in this bucket. An event is counted at its arrival if it has no valid time, or if its time is ahead of the clock
 * by more than the allowed lateness. So a single wrong time does not make other events late.
 */
export class EventTiming implements Timing {
  readonly progress: EventProgress
  readonly room = new EarlierMemory()
  readonly graceMs: number
  readonly keepsUsed = true
  /**
   * Numbers of events in the last batch whose time cannot be read (`unreadable`) or is too far ahead of the clock
   * (`ahead`).
   */
  unreadable = 0
  ahead = 0
  readonly #onLate: EventTimeOptions['onLate']
  #time: EventTimeOptions['time']
  /** When the batch arrived, by the wall clock, and the latest event time that is accepted in this batch. */
  #arrival = 0
  #latest = 0

  constructor({ time, latenessMs, onLate }: EventTimeOptions) {
    this.#time = time
    this.#onLate = onLate
    this.graceMs = latenessMs
    this.progress = new EventProgress(latenessMs)
  }

  /** From now on, reads times with the successor's time reader. */
  setTime(time: EventTimeOptions['time']): void {
    this.#time = time
  }

  windows(limits: readonly Limit[]): Windows {
    return sideBySide(
      limits.map(limit => new CountedEventWindows(limit, periodsOf(limit), this)),
      this.#onLate === 'pass',
    )
  }

  present(): number {
    return this.progress.oldest
  }

  /** Call at the start of a batch, before the decisions about its events. `now` is monotonic. */
  begin(batch: EventBatch, now: number, wall: number): void {
    this.unreadable = 0
    this.ahead = 0
    // Events created by a program have no arrival time, so use `wall`.
    this.#arrival = batch.receivedAt || wall
    this.#latest = latestTime(this.#arrival, this.graceMs)
    this.progress.enter(batch.origin, now, this.#arrival)
  }

  /** Returns the time at which event `i` is counted. Records a valid time as progress. Call once for each event. */
  next(batch: EventBatch, i: number): number {
    const time = this.#time.of(batch, i)
    if (time <= this.#latest) {
      this.progress.see(time)
      return time
    }
    if (Number.isNaN(time)) this.unreadable++
    else this.ahead++
    return this.#arrival
  }

  /** The time at which event `i` of the last batch is counted. */
  timeOf(batch: EventBatch, i: number): number {
    const time = this.#time.of(batch, i)
    return time <= this.#latest ? time : this.#arrival
  }

  decisionOn(taken: Decision): Decision {
    return taken === LATE && this.#onLate === 'discard' ? TOO_LATE : taken
  }

  /** Drops buckets if no event has arrived for very long. `now` is monotonic. */
  rest(limiter: Limiter, now: number): void {
    limiter.dropUnused(this.progress.silentMs(now) - SILENCE_MS)
  }
}
