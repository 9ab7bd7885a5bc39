import type { Period, PeriodOf } from './periods.js'

/**
 * One limit of one bucket, as the specification words it: it remembers all that passed, and adds it up each time.
 * Times are in milliseconds, amounts are whole (events in millionths, sizes in bytes).
 */

export type Verdict = 'fits' | 'refuses' | 'late'

/** In event time: how late an event may be, seen from its source. Infinity: on the clock. */
export interface Lateness {
  /** The newest event time of the event's source, less the allowed lateness. */
  readonly of: number
  readonly latenessMs: number
}

export interface LimitModel {
  verdict(time: number, cost: bigint, lateness: Lateness): Verdict
  /** Counts an event that passes. */
  charge(time: number, cost: bigint, lateness: Lateness): void
  /** What has passed that counts for an event of this time. */
  used(time: number): number
  /** From this time on, the bucket is as if nothing had passed; in event time, for events from there on. */
  readonly idleFrom: number
}

interface Passed {
  readonly time: number
  readonly cost: bigint
}

const sum = (all: readonly Passed[]) => all.reduce((total, { cost }) => total + cost, 0n)
const NEVER = Number.NEGATIVE_INFINITY

abstract class Counting implements LimitModel {
  protected readonly most: bigint

  constructor(most: bigint) {
    this.most = most
  }

  /** What counts together with an event of this time. */
  protected abstract counted(time: number): bigint
  abstract charge(time: number, cost: bigint, lateness: Lateness): void
  abstract readonly idleFrom: number

  verdict(time: number, cost: bigint, _: Lateness): Verdict {
    return this.counted(time) + cost <= this.most ? 'fits' : 'refuses'
  }

  used(time: number): number {
    return Number(this.counted(time))
  }
}

/** A window opens at the first event that counts, and the next at the first one at or after its end. */
export class ClockFixed extends Counting {
  readonly #windowMs: number
  #start = NEVER
  #passed: Passed[] = []

  constructor(most: bigint, windowMs: number) {
    super(most)
    this.#windowMs = windowMs
  }

  protected counted(time: number): bigint {
    return time >= this.idleFrom ? 0n : sum(this.#passed)
  }

  charge(time: number, cost: bigint): void {
    if (time >= this.idleFrom) {
      this.#start = time
      this.#passed = []
    }
    this.#passed.push({ time, cost })
  }

  get idleFrom(): number {
    return this.#start + this.#windowMs
  }
}

/** Aligned windows and quotas on the clock. `offsetMs`: from the time of decisions to the wall clock. */
export class ClockPeriods extends Counting {
  readonly #periodOf: PeriodOf
  readonly #offsetMs: number
  readonly #passed: Passed[] = []
  #period: Period | undefined

  constructor(most: bigint, periodOf: PeriodOf, offsetMs: number) {
    super(most)
    this.#periodOf = periodOf
    this.#offsetMs = offsetMs
  }

  protected counted(time: number): bigint {
    const { start, end } = this.#periodOf(time + this.#offsetMs)
    const isIn = (passed: Passed) => start <= passed.time + this.#offsetMs && passed.time + this.#offsetMs < end
    return sum(this.#passed.filter(isIn))
  }

  charge(time: number, cost: bigint): void {
    this.#passed.push({ time, cost })
    this.#period = this.#periodOf(time + this.#offsetMs)
  }

  get idleFrom(): number {
    return this.#period === undefined ? NEVER : this.#period.end - this.#offsetMs
  }
}

export class ClockSliding extends Counting {
  readonly #windowMs: number
  readonly #passed: Passed[] = []

  constructor(most: bigint, windowMs: number) {
    super(most)
    this.#windowMs = windowMs
  }

  protected counted(time: number): bigint {
    return sum(this.#passed.filter(passed => passed.time > time - this.#windowMs))
  }

  charge(time: number, cost: bigint): void {
    this.#passed.push({ time, cost })
  }

  get idleFrom(): number {
    return (this.#passed.at(-1)?.time ?? NEVER) + this.#windowMs
  }
}

const NS_PER_MS = 1_000_000

/** Time in units of which a nanosecond and T are whole numbers. */
class Fine {
  /** T = window / limit, for one of what is counted, is the window in nanoseconds of these; a nanosecond `limit`. */
  readonly #most: bigint
  readonly unit: bigint

  constructor(most: bigint, windowMs: number) {
    this.#most = most
    this.unit = BigInt(windowMs * NS_PER_MS)
  }

  time(ms: number): bigint {
    const whole = Math.floor(ms)
    const ns = BigInt(whole) * BigInt(NS_PER_MS) + BigInt(Math.round((ms - whole) * NS_PER_MS))
    return ns * this.#most
  }

  ms(time: bigint): number {
    return Number(time / this.#most) / NS_PER_MS
  }
}

/** T = window / limit; an event passes at t >= TAT - burst * T; then TAT = max(t, TAT) + cost * T. */
export class ClockGcra implements LimitModel {
  protected readonly fine: Fine
  protected readonly tolerance: bigint
  #tat: bigint | undefined

  constructor(most: bigint, windowMs: number, burst: bigint) {
    this.fine = new Fine(most, windowMs)
    this.tolerance = burst * this.fine.unit
  }

  verdict(time: number, _cost: bigint, _: Lateness): Verdict {
    return this.#tat === undefined || this.fine.time(time) >= this.#tat - this.tolerance ? 'fits' : 'refuses'
  }

  charge(time: number, cost: bigint): void {
    const at = this.fine.time(time)
    this.#tat = (this.#tat === undefined || this.#tat < at ? at : this.#tat) + cost * this.fine.unit
  }

  used(time: number): number {
    const ahead = (this.#tat ?? 0n) - this.fine.time(time)
    return ahead <= 0n ? 0 : Number(ahead) / Number(this.fine.unit)
  }

  /** Buckets may be kept for a millisecond more than they need to. */
  get idleFrom(): number {
    return this.#tat === undefined ? NEVER : Math.floor(this.fine.ms(this.#tat)) + 1
  }
}

/** Event time: what all have in common is what passed, and when an event is late. */
abstract class InEventTime {
  protected readonly passed: Passed[] = []

  /** The time before which events of a source are late in this bucket. */
  protected lateBefore({ of, latenessMs }: Lateness): number {
    return Math.min(this.newest - latenessMs, of)
  }

  protected get newest(): number {
    return Math.max(NEVER, ...this.passed.map(({ time }) => time))
  }
}

interface Window {
  start: number
  latest: number
  count: bigint
}

export class EventFixed extends InEventTime implements LimitModel {
  readonly #most: bigint
  readonly #windowMs: number
  readonly #windows: Window[] = []

  constructor(most: bigint, windowMs: number) {
    super()
    this.#most = most
    this.#windowMs = windowMs
  }

  /** The window in which an event counts; undefined: it opens one. */
  #window(time: number, lateness: Lateness): Window | 'late' | undefined {
    const lateBefore = this.lateBefore(lateness)
    const sorted = this.#windows.toSorted((a, b) => a.start - b.start)
    const before = sorted.findLast(({ start }) => start <= time)
    const after = sorted.find(({ start }) => start > time)
    const isIn = before !== undefined && time - before.start < this.#windowMs
    // The newest window is always kept, the others until `allowed_lateness` after their end.
    if (isIn && (!after || before.start + this.#windowMs >= lateBefore)) return before
    if (!after) return undefined
    if (time < lateBefore) return 'late'
    return after.latest - time < this.#windowMs ? after : undefined
  }

  verdict(time: number, cost: bigint, lateness: Lateness): Verdict {
    const window = this.#window(time, lateness)
    if (window === 'late') return 'late'
    return (window?.count ?? 0n) + cost <= this.#most ? 'fits' : 'refuses'
  }

  charge(time: number, cost: bigint, lateness: Lateness): void {
    const window = this.#window(time, lateness)
    if (window === 'late') return
    this.passed.push({ time, cost })
    if (!window) this.#windows.push({ start: time, latest: time, count: cost })
    else {
      window.start = Math.min(window.start, time)
      window.latest = Math.max(window.latest, time)
      window.count += cost
    }
  }

  get idleFrom(): number {
    return Math.max(NEVER, ...this.#windows.map(({ start }) => start)) + this.#windowMs
  }

  used(time: number): number {
    const window = this.#window(time, { of: NEVER, latenessMs: 0 })
    return window === undefined || window === 'late' ? 0 : Number(window.count)
  }
}

export class EventPeriods extends InEventTime implements LimitModel {
  readonly #most: bigint
  readonly #periodOf: PeriodOf

  constructor(most: bigint, periodOf: PeriodOf) {
    super()
    this.#most = most
    this.#periodOf = periodOf
  }

  #isLate(time: number, lateness: Lateness): boolean {
    return this.#periodOf(time).end < this.lateBefore(lateness)
  }

  #counted(time: number): bigint {
    const { start, end } = this.#periodOf(time)
    return sum(this.passed.filter(passed => start <= passed.time && passed.time < end))
  }

  verdict(time: number, cost: bigint, lateness: Lateness): Verdict {
    if (this.#isLate(time, lateness)) return 'late'
    return this.#counted(time) + cost <= this.#most ? 'fits' : 'refuses'
  }

  get idleFrom(): number {
    return this.newest === NEVER ? NEVER : this.#periodOf(this.newest).end
  }

  charge(time: number, cost: bigint, lateness: Lateness): void {
    if (!this.#isLate(time, lateness)) this.passed.push({ time, cost })
  }

  used(time: number): number {
    return Number(this.#counted(time))
  }
}
