import { type Limit, scaleOf } from '../limit.js'
import type { Periods } from '../windows/periods.js'
import { periodsOf } from '../windows/several.js'

/** The part of a limit, and of what is left of it, that a member takes ahead at most. */
export const LEASED_PART = 0.1

/** The speeds of two clocks may differ by this part: ten times what clocks of computers are off by. */
export const CLOCK_MARGIN = 0.001

const MODES = { fixed: 'f', aligned: 'a', gcra: 'g', quota: 'q' } as const
const UNITS = { events: '', cost: 'c', bytes: 'b' } as const

/** The mode of a limit that can be shared. */
export type SharedMode = keyof typeof MODES

/** One limit. Amounts are in what is counted (`scaleOf`). */
export interface SharedLimit {
  readonly of: Limit
  readonly mode: SharedMode
  readonly most: number
  /** gcra: what may pass at once above the smooth rate. */
  readonly burst: number
  readonly windowMs: number
  readonly inBytes: boolean
  /** Those of a quota. */
  readonly periods: Periods | undefined
}

/** The limits side by side that all members of a group apply to the same counts: those of a throttle, or of a rule. */
export class SharedLimits {
  readonly limits: readonly SharedLimit[]
  /** The greatest part of what is left that a member may take ahead; 0: it asks for each event. */
  readonly part: number
  /** What the names of its buckets begin with on the server. It tells apart what is stored in different ways. */
  readonly name: string
  readonly hasCosts: boolean
  readonly hasBytes: boolean
  /** Whether events may cost something else than 1. */
  readonly listsCosts: boolean
  /** What a member may take ahead at most. */
  readonly mostCost: number
  readonly mostBytes: number
  readonly shortestMs: number

  /** `rule`: the name of the rule; empty for the limits of the throttle itself. */
  constructor(limits: readonly Limit[], part: number, rule = '') {
    this.limits = limits.map(shared)
    this.part = part
    const shape = limits.map(({ mode, unit }) => MODES[mode as SharedMode] + UNITS[unit]).join('-')
    this.name = rule === '' ? shape : `${shape}:${rule}`
    this.hasBytes = this.limits.some(({ inBytes }) => inBytes)
    this.hasCosts = this.limits.some(({ inBytes }) => !inBytes)
    this.listsCosts = limits.some(({ unit }) => unit !== 'events')
    this.mostCost = this.#mostAhead(false)
    this.mostBytes = this.#mostAhead(true)
    this.shortestMs = Math.min(...limits.map(({ windowMs }) => windowMs))
  }

  #mostAhead(inBytes: boolean): number {
    const limits = this.limits.filter(limit => limit.inBytes === inBytes)
    if (limits.length === 0 || this.part === 0) return 0
    return Math.floor(Math.min(...limits.map(({ most }) => most)) * LEASED_PART)
  }
}

function shared(limit: Limit): SharedLimit {
  const { mode, windowMs, unit } = limit
  if (mode === 'sliding') throw new Error('sliding limits cannot be shared')
  const scale = scaleOf(limit)
  return {
    of: limit,
    mode,
    most: limit.limit * scale,
    burst: (limit.burst ?? limit.limit - 1) * scale,
    windowMs,
    inBytes: unit === 'bytes',
    periods: mode === 'quota' ? periodsOf(limit) : undefined,
  }
}
