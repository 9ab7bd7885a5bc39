import { createEventWindows } from '../../throttle/event-several.js'
import { EventWindows, LATE, type Progress, type TakenInTime } from '../../throttle/event-windows.js'
import type { Level, Limit } from '../../throttle/limit.js'
import { DISCARD, PASS } from '../../throttle/limiter.js'
import type { Room } from '../../throttle/row-room.js'
import { createWindows } from '../../throttle/several-windows.js'
import { WallTime } from '../../throttle/wall-time.js'
import { Windows } from '../../throttle/windows.js'

/** What the trials of a grid did with the last event: 1 for each that discards it, 0 for each that lets it pass. */
export type Outcome = Uint8Array<ArrayBuffer>
/** Of windows in event time: the trial discards the event because it is late. */
export const TOO_LATE = 2

/** Windows of which nothing is asked but to take events, and to be kept. */
export abstract class OnlyTaken extends Windows {
  takeMany(): number {
    throw unasked()
  }

  fits(_bucket: number, _now: number, _cost: number, _bytes: number): boolean {
    throw unasked()
  }

  charge(_bucket: number, _now: number, _cost: number, _bytes: number): void {
    throw unasked()
  }

  roomAt(): number {
    throw unasked()
  }

  level(): Level {
    throw unasked()
  }
}

function unasked(): Error {
  return new Error('windows of several trials only take events')
}

/**
 * The windows of several trials in clock time, which share the buckets: the bucket of an event is looked up once. Each
 * event is taken, and `outcome` says what each trial does with it.
 */
export class GridWindows extends OnlyTaken {
  override readonly spanMs: number
  readonly #trials: readonly Windows[]
  readonly #outcome: Outcome

  constructor(trials: readonly (readonly Limit[])[], outcome: Outcome) {
    super()
    const wall = new WallTime()
    this.#trials = trials.map(limits => createWindows(limits, wall))
    this.#outcome = outcome
    this.spanMs = Math.max(...this.#trials.map(({ spanMs }) => spanMs))
  }

  take(bucket: number, now: number): boolean {
    const trials = this.#trials
    for (let k = 0; k < trials.length; k++) this.#outcome[k] = trials[k]!.take(bucket, now) ? 0 : 1
    return true
  }

  override fits(bucket: number, now: number, cost: number, bytes: number): boolean {
    const trials = this.#trials
    for (let k = 0; k < trials.length; k++) this.#outcome[k] = trials[k]!.fits(bucket, now, cost, bytes) ? 0 : 1
    return true
  }

  /** Counts the last event in the trials that it fits. */
  override charge(bucket: number, now: number, cost: number, bytes: number): void {
    const trials = this.#trials
    for (let k = 0; k < trials.length; k++) if (this.#outcome[k] === 0) trials[k]!.charge(bucket, now, cost, bytes)
  }

  override latest(bucket: number): number {
    let latest = Number.NEGATIVE_INFINITY
    for (const trial of this.#trials) latest = Math.max(latest, trial.latest(bucket) + trial.spanMs)
    return latest - this.spanMs
  }

  override adopt(bucket: number, from: GridWindows, fromBucket: number): void {
    for (const [k, trial] of this.#trials.entries()) trial.adopt(bucket, from.#trials[k]!, fromBucket)
  }

  override reserve(capacity: number): void {
    for (const trial of this.#trials) trial.reserve(capacity)
  }
}

/** The parts of a grid in event time that all its buckets share. */
export interface GridInTime {
  readonly trials: readonly (readonly Limit[])[]
  readonly outcome: Outcome
  readonly onLate: 'pass' | 'discard'
  /** The events of each trial that are later than allowed. */
  readonly late: Float64Array
  /** The memory of each trial. */
  readonly rooms: readonly Room[]
}

/** Like GridWindows, in event time; `outcome` may also be TOO_LATE. */
export class GridEventWindows extends EventWindows {
  override readonly longestMs: number
  readonly #grid: GridInTime
  readonly #trials: readonly EventWindows[]

  constructor(grid: GridInTime, progress: Progress) {
    super()
    this.#grid = grid
    const passes = grid.onLate === 'pass'
    this.#trials = grid.trials.map((limits, k) =>
      createEventWindows(limits, passes, { progress, room: grid.rooms[k]! }),
    )
    this.longestMs = Math.max(...this.#trials.map(({ longestMs }) => longestMs))
  }

  take(bucket: number, time: number): TakenInTime {
    const trials = this.#trials
    for (let k = 0; k < trials.length; k++) this.#note(k, trials[k]!.take(bucket, time))
    return PASS
  }

  takeCost(bucket: number, time: number, cost: number, bytes: number): TakenInTime {
    const trials = this.#trials
    for (let k = 0; k < trials.length; k++) this.#note(k, trials[k]!.takeCost(bucket, time, cost, bytes))
    return PASS
  }

  #note(k: number, taken: TakenInTime): void {
    const { outcome, late, onLate } = this.#grid
    if (taken === LATE) late[k]!++
    if (taken === LATE) outcome[k] = onLate === 'discard' ? TOO_LATE : 0
    else outcome[k] = taken === DISCARD ? 1 : 0
  }

  level(): Level {
    throw unasked()
  }

  override latest(bucket: number): number {
    let latest = Number.NEGATIVE_INFINITY
    for (const trial of this.#trials) latest = Math.max(latest, trial.latest(bucket) + trial.longestMs)
    return latest - this.longestMs
  }

  override adopt(bucket: number, from: GridEventWindows, fromBucket: number): void {
    for (const [k, trial] of this.#trials.entries()) trial.adopt(bucket, from.#trials[k]!, fromBucket)
  }

  override reserve(capacity: number): void {
    for (const trial of this.#trials) trial.reserve(capacity)
  }

  override release(): void {
    for (const trial of this.#trials) trial.release()
  }
}
