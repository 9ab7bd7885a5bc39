import { AlignedPeriods, CalendarPeriods, type Periods } from '../components/throttle/windows/periods.js'
import { compileCondition, type EventTest } from '../core/condition/condition.js'
import { conditionText } from '../core/condition/condition-text.js'
import type { EventBatch } from '../core/event/batch.js'
import { timeZone } from '../core/options/time-zone.js'
import { UsageError } from '../daemon/process/command-line.js'
import { conditionOf } from '../daemon/process/condition-flag.js'
import { formatDuration, formatSize, parseSize } from '../lib/units.js'
import type { FieldContext } from './trial.js'
import { number } from './words.js'

export interface Goal {
  /** True: larger limits achieve the goal, too, so find the smallest limit. False: find the largest limit. */
  readonly smallest: boolean
  /** The goal as text that can follow the words `a limit that`. */
  readonly text: string
  /** Creates a meter for throttles that differ only in their limit. `limits`: number of these throttles. */
  meter(limits: number, windowMs: number, context: FieldContext): Meter
}

export interface Effect {
  /** In words, beginning with a verb: `keeps 99.20 % of them`. */
  readonly text: string
  /** `matching` and `kept` events, or `bytes_per_period`. */
  readonly figures: Readonly<Record<string, number>>
}

/** Measures how each limit affects one goal. */
export interface Meter {
  /** `lost[k]` is 1 if the limit with index `k` discards event `i`. */
  add(batch: EventBatch, i: number, now: number, lost: Uint8Array): void
  achieves(limit: number): boolean
  result(limit: number): Effect
  /** Why no limit can achieve the goal. Undefined if a limit may achieve it. */
  readonly hopeless: string | undefined
}

export interface GoalOptions {
  readonly suggest: string | undefined
  readonly budget: string | undefined
  readonly 'time-zone': string | undefined
  readonly limit: readonly string[]
}

/** The goal that the command line names. Undefined if it names no goal. Throws UsageError. */
export function goalOf({ suggest, budget, limit, 'time-zone': zone }: GoalOptions): Goal | undefined {
  const option = suggest === undefined ? '--budget' : '--suggest'
  if ((suggest ?? budget) !== undefined && limit.length > 0)
    throw new UsageError(`${option} finds the limit: leave out --limit`, 'simulate')
  if (suggest !== undefined && budget !== undefined)
    throw new UsageError('give --suggest or --budget, not both', 'simulate')
  if (zone !== undefined && budget === undefined)
    throw new UsageError('--time-zone needs --budget, whose time zone it sets', 'simulate')
  if (suggest !== undefined) return keepGoal(suggest)
  return budget === undefined ? undefined : budgetGoal(budget, zone)
}

const KEEP = /^\s*keep\s+(\d{1,3})(?:\.(\d{1,6}))?\s*%(?:\s+(?:of\s+|where\s+)?(.+))?$/is

/** Parses text such as `keep 99% where .level equal 'error'`. Throws UsageError. */
export function keepGoal(text: string): Goal {
  const [, whole, fraction = '', where] = KEEP.exec(text) ?? []
  const form = `--suggest must be like "keep 99% where .level equal 'error'"`
  if (whole === undefined) throw new UsageError(form, 'simulate')
  const scale = 10 ** fraction.length
  const share = Number(whole + fraction)
  if (share > 100 * scale || share === 0)
    throw new UsageError(`${form}: more than 0 and at most 100 percent`, 'simulate')
  const condition = where === undefined ? undefined : conditionOf(where, 'suggest', 'simulate')
  const matching = condition === undefined ? 'events' : `events where ${conditionText(condition)}`
  const percent = `${whole}${fraction && `.${fraction}`}%`
  return {
    smallest: true,
    text: `keeps ${percent} of the ${matching}`,
    meter: (limits, _windowMs, context) => {
      const test = condition === undefined ? undefined : compileCondition(condition, path => context.field(path))
      return new KeepMeter(limits, test, matching, events => events * 100 * scale, share)
    },
  }
}

/** Counts the events to keep, and how many of them each limit keeps. */
class KeepMeter implements Meter {
  readonly #test: EventTest | undefined
  readonly #matching: string
  readonly #scaled: (events: number) => number
  readonly #share: number
  readonly #kept: Float64Array
  #total = 0

  constructor(
    limits: number,
    test: EventTest | undefined,
    matching: string,
    scaled: (events: number) => number,
    share: number,
  ) {
    this.#kept = new Float64Array(limits)
    this.#test = test
    this.#matching = matching
    this.#scaled = scaled
    this.#share = share
  }

  add(batch: EventBatch, i: number, _now: number, lost: Uint8Array): void {
    if (this.#test && !this.#test(batch, i)) return
    this.#total++
    for (let k = 0; k < lost.length; k++) this.#kept[k]! += 1 - lost[k]!
  }

  achieves(limit: number): boolean {
    return this.#total > 0 && this.#scaled(this.#kept[limit]!) >= this.#share * this.#total
  }

  result(limit: number): Effect {
    const kept = this.#kept[limit]!
    const percent = ((kept / this.#total) * 100).toFixed(2)
    const text = `keeps ${percent} % of them (${number(kept)} of ${number(this.#total)})`
    return { text, figures: { matching: this.#total, kept } }
  }

  get hopeless(): string | undefined {
    return this.#total === 0 ? `there are no ${this.#matching}` : undefined
  }
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** In milliseconds. The length of a month is an average. */
const LENGTHS = {
  second: 1000,
  minute: 60_000,
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: (365.2425 / 12) * DAY_MS,
} as const
type Period = keyof typeof LENGTHS

const BUDGET = /^\s*(\d.*?)\s*(?:per|a|\/)\s*(second|minute|hour|day|week|month)\s*$/i

/** Parses text such as `5GB per day`. `zone`: the time zone of the calendar (UTC if undefined). Throws UsageError. */
function budgetGoal(text: string, zone: string | undefined): Goal {
  const [, amount, unit] = BUDGET.exec(text) ?? []
  const bytes = amount === undefined ? undefined : parseSize(amount)
  const period = unit?.toLowerCase() as Period | undefined
  if (!bytes || !period) {
    const units = 'second, minute, hour, day, week or month'
    throw new UsageError(`--budget must be like '5GB per day': a size, and one of ${units}`, 'simulate')
  }
  const name = zone === undefined ? 'UTC' : zoneOf(zone)
  return {
    smallest: false,
    text: `passes at most ${formatSize(bytes)} per ${period}${zone === undefined ? '' : ` in ${name}`}`,
    meter: (limits, windowMs) => new BudgetMeter(limits, windowMs, bytes, period, periodsOf(period, name)),
  }
}

function zoneOf(zone: string): string {
  const { data, error } = timeZone.safeParse(zone)
  if (data !== undefined) return data
  throw new UsageError(`--time-zone: ${error!.issues[0]!.message}`, 'simulate')
}

function periodsOf(period: Period, zone: string): Periods {
  const isShort = period === 'second' || period === 'minute'
  return isShort ? new AlignedPeriods(LENGTHS[period]) : new CalendarPeriods(period, zone)
}

const MOST_PERIODS = 100_000

/**
 * For each limit and calendar period, counts the bytes that pass. If the input covers less than a period, the bytes are
 * extrapolated to a whole period.
 */
class BudgetMeter implements Meter {
  readonly hopeless = undefined
  readonly #limits: number
  readonly #windowMs: number
  readonly #budget: number
  readonly #period: Period
  readonly #periods: Periods
  readonly #bytes = new Map<number, Float64Array>()
  #start = Number.NaN
  #end = Number.NaN
  #current: Float64Array = new Float64Array(0)
  #from = Number.POSITIVE_INFINITY
  #to = Number.NEGATIVE_INFINITY

  constructor(limits: number, windowMs: number, budget: number, period: Period, periods: Periods) {
    this.#periods = periods
    this.#limits = limits
    this.#windowMs = windowMs
    this.#budget = budget
    this.#period = period
  }

  add(batch: EventBatch, i: number, now: number, lost: Uint8Array): void {
    if (!(now >= this.#start && now < this.#end)) this.#enter(now)
    if (now < this.#from) this.#from = now
    if (now > this.#to) this.#to = now
    const size = batch.size(i)
    for (let k = 0; k < lost.length; k++) if (lost[k] === 0) this.#current[k]! += size
  }

  #enter(now: number): void {
    const start = this.#periods.startOf(now)
    this.#start = start
    this.#end = this.#periods.endOf(now)
    let bytes = this.#bytes.get(start)
    if (!bytes) {
      if (this.#bytes.size === MOST_PERIODS)
        throw new Error(`the input covers more than ${number(MOST_PERIODS)} ${this.#period}s; name a longer period`)
      bytes = new Float64Array(this.#limits)
      this.#bytes.set(start, bytes)
    }
    this.#current = bytes
  }

  /** Milliseconds that the input covers, rounded up to whole windows. */
  get #covered(): number {
    return (Math.floor((this.#to - this.#from) / this.#windowMs) + 1) * this.#windowMs
  }

  /** Bytes per period: the maximum over all calendar periods, or the average per period if the average is larger. */
  #perPeriod(limit: number): number {
    let most = 0
    let sum = 0
    for (const bytes of this.#bytes.values()) {
      most = Math.max(most, bytes[limit]!)
      sum += bytes[limit]!
    }
    const average = (sum / this.#covered) * LENGTHS[this.#period]
    return Math.max(most, average)
  }

  achieves(limit: number): boolean {
    return this.#perPeriod(limit) <= this.#budget
  }

  result(limit: number): Effect {
    const covered = this.#covered
    const scaled = covered < LENGTHS[this.#period] ? `, extrapolated from ${formatDuration(covered)}` : ' at most'
    const bytes_per_period = Math.round(this.#perPeriod(limit))
    const text = `passes ${formatSize(bytes_per_period)} per ${this.#period}${scaled}`
    return { text, figures: { bytes_per_period } }
  }
}
