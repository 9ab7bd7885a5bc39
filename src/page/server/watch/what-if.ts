import { PASS } from '../../../components/throttle/decisions.js'
import type { Limit } from '../../../components/throttle/limit.js'
import { createWindows } from '../../../components/throttle/windows/several.js'
import { WallTime } from '../../../components/throttle/windows/wall-time.js'
import type { Windows } from '../../../components/throttle/windows.js'
import type { Turn } from './budget.js'
import { DEFAULT, REST, type RecentKeyCounts, type Start } from './key-counts.js'

/** The length of the steps of the curve, in milliseconds. */
const CURVE_MS = 5000
/** Shows at most this many keys with the largest changes, and as many other keys with the most events. */
const SHOWN_KEYS = 10

/** Numbers of events. `key`: null for events without a key. */
export interface KeyOutcome {
  readonly key: string | null
  readonly offered: number
  readonly was: number
  readonly would: number
}

/** The number of events that passed (`was`) and the number that would have passed with other limits (`would`). */
export interface WhatIfOutcome {
  /** Wall clock, in milliseconds. */
  readonly from: number
  readonly to: number
  readonly offered: number
  readonly was: number
  readonly would: number
  readonly curve: {
    readonly at: number
    readonly step_ms: number
    readonly offered: number[]
    readonly was: number[]
    readonly would: number[]
  }
  readonly keys: KeyOutcome[]
  readonly keysCount: number
  /** Number of events about which the throttle decided otherwise than a replay with its own limits. */
  readonly unexplained: number
  /** Whether the throttle began, with empty buckets, where the replay begins. */
  readonly isWhole: boolean
}

/**
 * Replays counts with other limits, in the same windows and at the same times as the throttle. A replay of its own limits
 * shows whether the counts explain what happened. If they do not, for example because buckets were already in use, a
 * higher limit still passes at least what passed, and a lower limit at most that.
 */
export async function replay(counts: RecentKeyCounts, tried: Tried, now: number, turn: Turn): Promise<WhatIfOutcome> {
  for (;;) {
    const replay = new Replay(counts, tried, now)
    // If steps became longer or keys changed during the replay, the replay starts again.
    if (await replay.run(turn)) return replay.outcome()
  }
}

export interface Tried {
  readonly limits: readonly Limit[]
  /** The limits that the throttle has, except limits on bytes. Undefined: with another key, or without any. */
  readonly own: readonly Limit[] | undefined
  /** By how much the limit changes. Undefined: the window, the mode or the key is another one, too. */
  readonly change: number | undefined
}

/** The windows of some limits, which decide on events of a key that arrive together. */
class Windowed {
  readonly #windows: Windows
  readonly #mode: Limit['mode'] | undefined
  /** A gcra limit passes an event if any room is left, even less than needed. So events cannot be taken together. */
  readonly #oneByOne: boolean

  constructor(limits: readonly Limit[], { size, offsetMs }: RecentKeyCounts) {
    const wall = new WallTime()
    wall.offsetMs = offsetMs
    this.#windows = createWindows(limits, wall)
    this.#windows.reserve(size)
    this.#mode = limits.length === 1 ? limits[0]!.mode : undefined
    this.#oneByOne = limits.some(({ mode }) => mode === 'gcra')
  }

  /** Counts events that passed before the replay begins. Only sliding windows need the time of each of them. */
  lead(key: number, at: number, passed: number): void {
    if (this.#mode === 'sliding' && passed > 0) this.#windows.charge(key, at, passed, 0)
  }

  /** Begins with the state of a bucket at the time `at`. Only fixed windows begin with an event. */
  begin(key: number, at: number, since: number, used: number): void {
    if (this.#mode !== undefined && this.#mode !== 'sliding' && used > 0)
      this.#windows.charge(key, this.#mode === 'fixed' ? since : at, used, 0)
  }

  /** Returns how many events of a key pass if `events` of them arrive at the same time. */
  take(key: number, at: number, events: number): number {
    const windows = this.#windows
    if (this.#oneByOne) {
      let passed = 0
      while (passed < events && windows.take(key, at, 1, 0) === PASS) passed++
      return passed
    }
    if (windows.take(key, at, events, 0) === PASS) return events
    let [fit, beyond] = [0, events]
    while (beyond - fit > 1) {
      const some = (fit + beyond) >> 1
      if (windows.fits(key, at, some, 0) === PASS) fit = some
      else beyond = some
    }
    if (fit > 0) windows.charge(key, at, fit, 0)
    return fit
  }
}

class Replay {
  readonly #counts: RecentKeyCounts
  readonly #start: Start
  readonly #tried: Windowed
  readonly #own: Windowed | undefined
  readonly #now: number
  readonly #from: number
  readonly #offsetMs: number
  readonly #offered: Float64Array
  readonly #was: Float64Array
  readonly #would: Float64Array
  readonly #change: Tried['change']
  /** For each key: how many more events the replay has passed than the throttle. */
  readonly #ahead: Float64Array
  readonly #curve: WhatIfOutcome['curve']
  #unexplained = 0

  constructor(counts: RecentKeyCounts, { limits, own, change }: Tried, now: number) {
    this.#change = change
    this.#now = now
    const { size, wallOffsetMs } = counts
    this.#counts = counts
    this.#tried = new Windowed(limits, counts)
    this.#own = own && new Windowed(own, counts)
    const sliding = [...limits, ...(own ?? [])].filter(({ mode }) => mode === 'sliding')
    this.#start = counts.start(Math.max(0, ...sliding.map(({ windowMs }) => windowMs)))
    const { at, levels = [] } = this.#start
    for (let key = DEFAULT; key * 2 < levels.length; key++)
      for (const windows of [this.#tried, this.#own]) windows?.begin(key, at, levels[key * 2]!, levels[key * 2 + 1]!)
    this.#from = Math.max(counts.counted().from, at)
    this.#offsetMs = wallOffsetMs
    const sums = () => new Float64Array(size)
    this.#offered = sums()
    this.#was = sums()
    this.#would = sums()
    this.#ahead = sums()
    const steps = Math.floor((Math.max(now, this.#from) - this.#from) / CURVE_MS) + 1
    const line = () => new Array<number>(steps).fill(0)
    this.#curve = { at: this.#wall(this.#from), step_ms: CURVE_MS, offered: line(), was: line(), would: line() }
  }

  #wall(at: number): number {
    return Math.round(at + this.#offsetMs)
  }

  /** Resolves with false if the counts have changed during the replay. */
  run(turn: Turn): Promise<boolean> {
    return this.#counts.ring.readInTurns((at, key, offered, passed, row) => {
      if (row >= this.#start.row && at >= this.#start.at) this.#see(at, key, offered, passed)
      else for (const windows of [this.#tried, this.#own]) windows?.lead(key, at, passed)
    }, turn)
  }

  #see(at: number, key: number, offered: number, passed: number): void {
    const would = key === REST ? passed : this.#wouldPass(key, at, offered, passed)
    this.#offered[key]! += offered
    this.#was[key]! += passed
    this.#would[key]! += would
    const curve = this.#curve
    const step = Math.min(curve.offered.length - 1, Math.max(0, Math.floor((at - this.#from) / CURVE_MS)))
    curve.offered[step]! += offered
    curve.was[step]! += passed
    curve.would[step]! += would
  }

  #wouldPass(key: number, at: number, offered: number, passed: number): number {
    const tried = this.#tried.take(key, at, offered)
    if (this.#own) this.#unexplained += Math.abs(this.#own.take(key, at, offered) - passed)
    if (this.#change === undefined) return tried
    const before = this.#ahead[key]!
    this.#ahead[key] = before + tried - passed
    return passed + this.#bounded(this.#ahead[key]!) - this.#bounded(before)
  }

  #bounded(ahead: number): number {
    return this.#change === 0 ? 0 : this.#change! > 0 ? Math.max(0, ahead) : Math.min(0, ahead)
  }

  outcome(): WhatIfOutcome {
    const sum = (column: Float64Array) => column.reduce((all, n) => all + n, 0)
    const ids = Array.from(this.#offered.keys()).filter(id => id >= DEFAULT && this.#offered[id]! > 0)
    const change = (id: number) => Math.abs(this.#would[id]! - this.#was[id]!)
    const changed = [...ids].sort((a, b) => change(b) - change(a)).slice(0, SHOWN_KEYS)
    const most = changed.filter(id => change(id) > 0)
    const busiest = [...ids].sort((a, b) => this.#offered[b]! - this.#offered[a]!)
    const others = busiest.filter(id => !most.includes(id)).slice(0, SHOWN_KEYS)
    return {
      from: this.#wall(this.#from),
      to: this.#wall(Math.max(this.#now, this.#from)),
      offered: sum(this.#offered),
      was: sum(this.#was),
      would: sum(this.#would),
      curve: this.#curve,
      keys: [...most, ...others].map(id => ({
        key: this.#counts.keyOf(id)!.key,
        offered: this.#offered[id]!,
        was: this.#was[id]!,
        would: this.#would[id]!,
      })),
      keysCount: ids.length,
      unexplained: this.#unexplained,
      isWhole: this.#start.levels === undefined,
    }
  }
}
