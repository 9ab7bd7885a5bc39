import { DISCARD, LATE, PASS, type WindowDecision } from '../decisions.js'
import type { Level, Limit } from '../limit.js'
import type { StateReader, StateWriter } from '../persist/state-bytes.js'
import { FixedWindows, type LimitWindows, Windows } from '../windows.js'
import { type Credit, CreditedWindows } from './credited.js'
import { GcraWindows } from './gcra.js'
import { PeriodWindows } from './period.js'
import { AlignedPeriods, CalendarPeriods, type Periods } from './periods.js'
import { SlidingWindows } from './sliding.js'
import type { WallTime } from './wall-time.js'

/** Several limits. An event passes only if it fits all limits. All limits count exactly the events that pass. */
export class SeveralWindows extends Windows {
  override readonly spanMs: number
  readonly #members: readonly LimitWindows[]
  readonly #inBytes: readonly boolean[]

  readonly #latePasses: boolean

  /** `latePasses`: passes an event that is late in one limit, and counts it in the other limits. */
  constructor(members: readonly LimitWindows[], latePasses: boolean) {
    super()
    this.#latePasses = latePasses
    this.spanMs = Math.max(...members.map(({ spanMs }) => spanMs))
    this.#members = members
    this.#inBytes = members.map(({ limit }) => limit.unit === 'bytes')
  }

  fits(bucket: number, time: number, cost: number, bytes: number): WindowDecision {
    const members = this.#members
    let isLate = false
    for (let n = 0; n < members.length; n++) {
      const taken = members[n]!.fits(bucket, time, this.#inBytes[n]! ? bytes : cost, 0)
      if (taken === DISCARD) return DISCARD
      if (taken === LATE) isLate = true
    }
    return isLate ? LATE : PASS
  }

  override take(bucket: number, time: number, cost: number, bytes: number): WindowDecision {
    const taken = this.fits(bucket, time, cost, bytes)
    if (taken === PASS || (taken === LATE && this.#latePasses)) this.charge(bucket, time, cost, bytes)
    return taken
  }

  charge(bucket: number, now: number, cost: number, bytes: number): void {
    const members = this.#members
    for (let n = 0; n < members.length; n++) members[n]!.charge(bucket, now, this.#inBytes[n]! ? bytes : cost, 0)
  }

  override roomAt(bucket: number, now: number, cost: number, bytes: number): number {
    return Math.max(...this.#members.map((member, n) => member.roomAt(bucket, now, this.#inBytes[n] ? bytes : cost, 0)))
  }

  level(bucket: number, now: number, cost: number, bytes: number): Level {
    const refuses = this.#members.find(
      (member, n) => member.fits(bucket, now, this.#inBytes[n] ? bytes : cost, 0) === DISCARD,
    )
    return fullest((refuses ? [refuses] : this.#members).map(member => member.level(bucket, now, cost, bytes)))
  }

  setLimits(bucket: number, limits: readonly Limit[]): void {
    for (const [n, member] of this.#members.entries()) member.setLimits(bucket, limits.slice(n))
  }

  override latest(bucket: number): number {
    let latest = Number.NEGATIVE_INFINITY
    for (const member of this.#members) latest = Math.max(latest, member.latest(bucket) + member.spanMs)
    return latest - this.spanMs
  }

  override adopt(bucket: number, from: SeveralWindows, fromBucket: number): void {
    for (const [n, member] of this.#members.entries()) member.adopt(bucket, from.#members[n]!, fromBucket)
  }

  override reserve(capacity: number): void {
    for (const member of this.#members) member.reserve(capacity)
  }

  override write(bucket: number, to: StateWriter): void {
    for (const member of this.#members) member.write(bucket, to)
  }

  override read(bucket: number, from: StateReader): void {
    for (const member of this.#members) member.read(bucket, from)
  }

  override restartAligned(): void {
    for (const member of this.#members) member.restartAligned()
  }

  override release(): void {
    for (const member of this.#members) member.release()
  }
}

function fullest(levels: readonly Level[]): Level {
  const part = ({ used, limit }: Level) => used / limit.limit
  return levels.reduce((most, level) => (part(level) > part(most) ? level : most))
}

/** Combines the windows of several limits. A single limit that does not count bytes keeps its own windows. */
export function sideBySide(members: readonly LimitWindows[], latePasses = false): Windows {
  return members.length === 1 && members[0]!.limit.unit !== 'bytes'
    ? members[0]!
    : new SeveralWindows(members, latePasses)
}

/** `credit`: undefined if backlog counts like live events. Quotas always count in their calendar period. */
export function createWindows(limits: readonly Limit[], wall: WallTime, credit?: Credit): Windows {
  return sideBySide(
    limits.map(limit => {
      const windows = windowsOf(limit, wall)
      return credit === undefined || limit.mode === 'quota' ? windows : new CreditedWindows(windows, credit)
    }),
  )
}

/** The periods that a limit uses as windows; undefined if each window of the limit begins with an event. */
export function periodsOf(limit: Limit): Periods | undefined {
  if (limit.mode === 'quota') return new CalendarPeriods(limit.per, limit.timeZone)
  return limit.mode === 'aligned' ? new AlignedPeriods(limit.windowMs) : undefined
}

function windowsOf(limit: Limit, wall: WallTime): LimitWindows {
  const periods = periodsOf(limit)
  if (periods) return new PeriodWindows(limit, periods, wall)
  if (limit.mode === 'gcra') return new GcraWindows(limit)
  return limit.mode === 'sliding' ? new SlidingWindows(limit) : new FixedWindows(limit)
}
