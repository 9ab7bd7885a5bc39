import { GcraEventWindows } from './event-gcra.js'
import { CountedEventWindows } from './event-limits.js'
import { SlidingEventWindows } from './event-sliding.js'
import { EventWindows, LATE, type LimitEventWindows, type Shared, type TakenInTime } from './event-windows.js'
import type { Level, Limit } from './limit.js'
import { DISCARD, PASS } from './limiter.js'
import { fullest, periodsOf } from './several-windows.js'
import type { StateReader, StateWriter } from './state-bytes.js'

/** Limits side by side: an event passes if each lets it, and only then counts in each. */
export class SeveralEventWindows extends EventWindows {
  override readonly longestMs: number
  readonly #members: readonly LimitEventWindows[]
  readonly #inBytes: readonly boolean[]
  readonly #latePasses: boolean

  /** `latePasses`: an event that is late in one of the limits passes, so it counts in the others. */
  constructor(members: readonly LimitEventWindows[], latePasses: boolean) {
    super()
    this.longestMs = Math.max(...members.map(({ longestMs }) => longestMs))
    this.#members = members
    this.#inBytes = members.map(({ limit }) => limit.unit === 'bytes')
    this.#latePasses = latePasses
  }

  take(bucket: number, time: number): TakenInTime {
    return this.takeCost(bucket, time, 1, 0)
  }

  takeCost(bucket: number, time: number, cost: number, bytes: number): TakenInTime {
    const members = this.#members
    let isLate = false
    for (let n = 0; n < members.length; n++) {
      const taken = members[n]!.fits(bucket, time, this.#inBytes[n]! ? bytes : cost)
      if (taken === DISCARD) return DISCARD
      if (taken === LATE) isLate = true
    }
    if (!isLate || this.#latePasses) {
      for (let n = 0; n < members.length; n++) members[n]!.charge(bucket, time, this.#inBytes[n]! ? bytes : cost)
    }
    return isLate ? LATE : PASS
  }

  level(bucket: number, time: number, cost: number, bytes: number): Level {
    const refuses = this.#members.find(
      (member, n) => member.fits(bucket, time, this.#inBytes[n] ? bytes : cost) === DISCARD,
    )
    return fullest((refuses ? [refuses] : this.#members).map(member => member.level(bucket, time, cost, bytes)))
  }

  override latest(bucket: number): number {
    let latest = Number.NEGATIVE_INFINITY
    for (const member of this.#members) latest = Math.max(latest, member.latest(bucket) + member.longestMs)
    return latest - this.longestMs
  }

  override adopt(bucket: number, from: SeveralEventWindows, fromBucket: number): void {
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

  override release(): void {
    for (const member of this.#members) member.release()
  }
}

/** The windows of limits, in event time. */
export function createEventWindows(limits: readonly Limit[], latePasses: boolean, shared: Shared): EventWindows {
  const members = limits.map(limit => windowsOf(limit, shared))
  return members.length === 1 && limits[0]!.unit !== 'bytes'
    ? members[0]!
    : new SeveralEventWindows(members, latePasses)
}

function windowsOf(limit: Limit, shared: Shared): LimitEventWindows {
  if (limit.mode === 'gcra') return new GcraEventWindows(limit, shared)
  if (limit.mode === 'sliding') return new SlidingEventWindows(limit, shared)
  return new CountedEventWindows(limit, periodsOf(limit), shared)
}
