import type { Level, Limit } from './limit.js'
import { PeriodWindows } from './period-windows.js'
import { AlignedPeriods } from './periods.js'
import { SlidingWindows } from './sliding-windows.js'
import type { WallTime } from './wall-time.js'
import { FixedWindows, type LimitWindows, Windows } from './windows.js'

/** Limits side by side: an event passes if each lets it, and only then counts in each. */
export class SeveralWindows extends Windows {
  readonly #members: readonly LimitWindows[]
  readonly #inBytes: readonly boolean[]

  constructor(members: readonly LimitWindows[]) {
    super()
    this.#members = members
    this.#inBytes = members.map(({ limit }) => limit.unit === 'bytes')
  }

  take(bucket: number, now: number): boolean {
    if (!this.fits(bucket, now, 1, 0)) return false
    this.charge(bucket, now, 1, 0)
    return true
  }

  takeMany(bucket: number, events: number, now: number): number {
    let passed = 0
    while (passed < events && this.take(bucket, now)) passed++
    return passed
  }

  fits(bucket: number, now: number, cost: number, bytes: number): boolean {
    const members = this.#members
    for (let n = 0; n < members.length; n++) {
      if (!members[n]!.fits(bucket, now, this.#inBytes[n]! ? bytes : cost, 0)) return false
    }
    return true
  }

  charge(bucket: number, now: number, cost: number, bytes: number): void {
    const members = this.#members
    for (let n = 0; n < members.length; n++) members[n]!.charge(bucket, now, this.#inBytes[n]! ? bytes : cost, 0)
  }

  roomAt(bucket: number, now: number, cost: number, bytes: number): number {
    return Math.max(...this.#members.map((member, n) => member.roomAt(bucket, now, this.#inBytes[n] ? bytes : cost, 0)))
  }

  level(bucket: number, now: number, cost: number, bytes: number): Level {
    const refuses = this.#members.find((member, n) => !member.fits(bucket, now, this.#inBytes[n] ? bytes : cost, 0))
    return fullest((refuses ? [refuses] : this.#members).map(member => member.level(bucket, now, cost, bytes)))
  }

  override latest(bucket: number): number {
    let latest = Number.NEGATIVE_INFINITY
    for (const member of this.#members) latest = Math.max(latest, member.latest(bucket))
    return latest
  }

  override adopt(bucket: number, from: SeveralWindows, fromBucket: number): void {
    for (const [n, member] of this.#members.entries()) member.adopt(bucket, from.#members[n]!, fromBucket)
  }

  override reserve(capacity: number): void {
    for (const member of this.#members) member.reserve(capacity)
  }

  override restartAligned(): void {
    for (const member of this.#members) member.restartAligned()
  }
}

/** The level of which the largest part is used. */
export function fullest(levels: readonly Level[]): Level {
  const part = ({ used, limit }: Level) => used / limit.limit
  return levels.reduce((most, level) => (part(level) > part(most) ? level : most))
}

/** The windows of limits, in clock time. */
export function createWindows(limits: readonly Limit[], wall: WallTime): Windows {
  const members = limits.map(limit => windowsOf(limit, wall))
  return members.length === 1 && limits[0]!.unit !== 'bytes' ? members[0]! : new SeveralWindows(members)
}

function windowsOf(limit: Limit, wall: WallTime): LimitWindows {
  switch (limit.mode) {
    case 'sliding':
      return new SlidingWindows(limit)
    case 'aligned':
      return new PeriodWindows(limit, new AlignedPeriods(limit.windowMs), wall)
    case 'fixed':
      return new FixedWindows(limit)
  }
}
