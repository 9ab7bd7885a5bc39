import { PASS } from '../../../components/throttle/decisions.js'
import type { Limit } from '../../../components/throttle/limit.js'
import { createWindows } from '../../../components/throttle/windows/several.js'
import { WallTime } from '../../../components/throttle/windows/wall-time.js'
import type { Windows } from '../../../components/throttle/windows.js'
import type { Turn } from './budget.js'
import { DEFAULT, REST, type RecentKeyCounts } from './key-counts.js'

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
}

/** Replays counts with other limits. Uses the same windows as throttles, but event times instead of the clock. */
export async function replay(
  counts: RecentKeyCounts,
  limits: readonly Limit[],
  to: number,
  turn: Turn,
): Promise<WhatIfOutcome> {
  for (;;) {
    const replay = new Replay(counts, limits, to)
    // If steps became longer or keys changed during the replay, the replay starts again.
    if (await replay.run(turn)) return replay.outcome()
  }
}

class Replay {
  readonly #counts: RecentKeyCounts
  readonly #windows: Windows
  /** A gcra limit passes an event if any room is left, even less than needed. So events cannot be taken together. */
  readonly #oneByOne: boolean
  readonly #from: number
  readonly #to: number
  readonly #offered: Float64Array
  readonly #was: Float64Array
  readonly #would: Float64Array
  readonly #curve: WhatIfOutcome['curve']

  constructor(counts: RecentKeyCounts, limits: readonly Limit[], to: number) {
    const { size } = counts
    this.#counts = counts
    this.#windows = createWindows(limits, new WallTime())
    this.#windows.reserve(size)
    this.#oneByOne = limits.some(({ mode }) => mode === 'gcra')
    this.#from = counts.counted().from
    this.#to = Math.max(to, this.#from)
    const sums = () => new Float64Array(size)
    this.#offered = sums()
    this.#was = sums()
    this.#would = sums()
    const steps = Math.floor((this.#to - this.#from) / CURVE_MS) + 1
    const line = () => new Array<number>(steps).fill(0)
    this.#curve = { at: this.#from, step_ms: CURVE_MS, offered: line(), was: line(), would: line() }
  }

  /** Resolves with false if the counts have changed during the replay. */
  run(turn: Turn): Promise<boolean> {
    return this.#counts.ring.readInTurns((at, key, offered, passed) => this.#see(at, key, offered, passed), turn)
  }

  #see(at: number, key: number, offered: number, passed: number): void {
    const would = key === REST ? passed : this.#take(key, at, offered)
    this.#offered[key]! += offered
    this.#was[key]! += passed
    this.#would[key]! += would
    const curve = this.#curve
    const step = Math.min(curve.offered.length - 1, Math.max(0, Math.floor((at - this.#from) / CURVE_MS)))
    curve.offered[step]! += offered
    curve.was[step]! += passed
    curve.would[step]! += would
  }

  /** Returns how many events of a key pass if `events` of them arrive at the same time. */
  #take(key: number, at: number, events: number): number {
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

  outcome(): WhatIfOutcome {
    const sum = (column: Float64Array) => column.reduce((all, n) => all + n, 0)
    const ids = Array.from(this.#offered.keys()).filter(id => id >= DEFAULT && this.#offered[id]! > 0)
    const change = (id: number) => Math.abs(this.#would[id]! - this.#was[id]!)
    const changed = [...ids].sort((a, b) => change(b) - change(a)).slice(0, SHOWN_KEYS)
    const most = changed.filter(id => change(id) > 0)
    const busiest = [...ids].sort((a, b) => this.#offered[b]! - this.#offered[a]!)
    const others = busiest.filter(id => !most.includes(id)).slice(0, SHOWN_KEYS)
    return {
      from: this.#from,
      to: this.#to,
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
    }
  }
}
