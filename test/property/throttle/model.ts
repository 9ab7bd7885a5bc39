import {
  ClockFixed,
  ClockGcra,
  ClockPeriods,
  ClockSliding,
  EventFixed,
  EventPeriods,
  type Lateness,
  type LimitModel,
} from './limits.js'
import { alignedPeriods, calendarPeriods } from './periods.js'
import { bucketOf, durationOf, type Fields, foundTime, holds, matches, sizeOf, timeOf, valueAt } from './text.js'

/**
 * A throttle as the specification words it, slow and obvious. It shares no code with the product, keeps everything, and
 * counts in whole numbers.
 */

export type Options = Record<string, unknown>

export interface Arrival {
  readonly event: Fields
  /** Bytes, with the line end. */
  readonly size: number
  readonly source: string
  /** When it is decided, on the monotonic clock. */
  readonly now: number
}

/** What becomes of an event before `over_limit` and `mode`. */
export type Decision = 'passed' | 'excluded' | 'refused' | 'full' | 'fail_open' | 'late' | 'too_late' | 'unlimited'

/** The same as the metrics tell it. */
export type Kind = 'passed' | 'excluded' | 'stopped' | 'fail_open' | 'late'

export function kindOf(decision: Decision): Kind {
  if (decision === 'unlimited') return 'passed'
  if (decision === 'too_late') return 'late'
  return decision === 'refused' || decision === 'full' ? 'stopped' : decision
}

/** A limit as it is configured. */
export interface LimitSpec {
  readonly limit: number
  readonly unit: 'events' | 'bytes' | 'cost'
  /** Undefined: that of a calendar period. */
  readonly windowMs: number | undefined
  readonly create: () => LimitModel
}

/** What refused an event. */
export interface Refusal {
  readonly spec: LimitSpec
  readonly used: number
}

interface Bucket {
  readonly specs: readonly LimitSpec[]
  readonly limits: readonly LimitModel[]
  /** All that was counted in it. */
  readonly charges: Charge[]
}

interface Charge {
  readonly time: number
  /** Of each limit. */
  readonly costs: readonly bigint[]
  readonly lateness: Lateness
}

type Saved = ReadonlyMap<string, readonly Pick<Bucket, 'specs' | 'charges'>[]>

function count(limits: readonly LimitModel[], { time, costs, lateness }: Charge): void {
  for (const [n, limit] of limits.entries()) limit.charge(time, costs[n]!, lateness)
}

const MILLIONTHS = 1_000_000
const AHEAD_MS = 1000

export class ThrottleModel {
  readonly options: Options
  readonly #offsetMs: number
  /** By rule and key; several where it depends on when an idle bucket was released. */
  readonly #buckets = new Map<string, Bucket[]>()
  /** Keys that were ever looked up. */
  readonly seen = new Set<string>()
  rules: readonly Options[]
  readonly #newest = new Map<string, number>()
  #saved: Saved = new Map()
  unreadable = 0
  ahead = 0

  /** `offsetMs`: from the monotonic to the wall clock. `ofFile`: the rules of its limits file. */
  constructor(options: Options, offsetMs: number, ofFile: readonly Options[]) {
    this.options = options
    this.#offsetMs = offsetMs
    this.rules = []
    this.useFile(ofFile)
  }

  useFile(ofFile: readonly Options[]): void {
    this.rules = [...((this.options.limits as Options[]) ?? []), ...ofFile]
    const kept = new Set(this.rules.map((_, n) => this.#ruleName(n)))
    for (const name of this.#buckets.keys()) {
      const [rule] = JSON.parse(name) as [string]
      if (rule === '' || kept.has(rule)) continue
      this.#buckets.delete(name)
      this.seen.delete(name)
    }
  }

  /** After a reload, what a source had sent before does not make anything late. */
  newSources(): void {
    this.#newest.clear()
  }

  /** All buckets are saved as they are. */
  save(): void {
    this.#saved = this.#savable
  }

  get #savable(): Saved {
    const copy = ({ specs, charges }: Bucket) => ({ specs, charges: [...charges] })
    return new Map([...this.#buckets].map(([name, buckets]) => [name, buckets.map(copy)]))
  }

  /** The model of a throttle with other options, or in another process; `wasKilled`: it has what was saved last. */
  successor(options: Options, ofFile: readonly Options[], wasKilled: boolean): ThrottleModel {
    const next = new ThrottleModel(options, this.#offsetMs, [])
    if (options.persist === true) next.#restore(wasKilled ? this.#saved : this.#savable)
    next.useFile(ofFile)
    next.save()
    return next
  }

  #restore(saved: Saved): void {
    for (const [name, buckets] of saved) {
      this.#buckets.set(
        name,
        buckets.map(({ specs, charges }) => {
          const limits = specs.map(({ create }) => create())
          for (const charge of charges) count(limits, charge)
          return { specs, limits, charges: [...charges] }
        }),
      )
      const [, key] = JSON.parse(name) as [string, string | null]
      if (key !== null) this.seen.add(name)
    }
  }

  get inEventTime(): boolean {
    return this.options.time_field !== undefined
  }

  get #latenessMs(): number {
    return this.options.allowed_lateness === undefined ? 60_000 : durationOf(this.options.allowed_lateness)
  }

  /** What distinguishes a rule from others: rules that stay keep their buckets. */
  #ruleName(n: number): string {
    const same = JSON.stringify(this.rules[n])
    return `${this.rules.slice(0, n).filter(rule => JSON.stringify(rule) === same).length} ${same}`
  }

  /** The number of the rule that holds for an event; -1: none. */
  ruleOf(event: Fields): number {
    const bucket = bucketOf(this.options.key_field, event)
    return this.rules.findIndex(
      ({ when, key }) =>
        (when === undefined || holds(when, event)) &&
        (key === undefined || (bucket !== null && matches(this.#pattern(key as string), bucket))),
    )
  }

  /** With several key fields, a bracket at the beginning of a pattern is that of the list. */
  #pattern(key: string): string {
    return Array.isArray(this.options.key_field) && key.startsWith('[') ? `\\${key}` : key
  }

  /** The options for an event; undefined: it is unlimited. */
  #optionsFor(event: Fields): { rule: string; options: Options } | undefined {
    const n = this.ruleOf(event)
    if (n < 0) return { rule: '', options: this.options }
    const rule = this.rules[n]!
    if (rule.limit === 'unlimited') return undefined
    const options = { ...this.options, ...rule }
    if (rule.window_mode !== undefined && rule.window_mode !== 'gcra') options.burst = rule.burst
    return { rule: this.#ruleName(n), options }
  }

  #specsOf(options: Options): LimitSpec[] {
    const specs: LimitSpec[] = []
    const unit = options.cost === undefined ? 'events' : 'cost'
    const mode = (options.window_mode as string | undefined) ?? 'fixed'
    for (const one of [options, ...((options.also as Options[]) ?? [])]) {
      const { limit, limit_bytes, window, burst } = one
      const of = { mode: (one.window_mode as string | undefined) ?? mode, windowMs: window && durationOf(window) }
      if (limit !== undefined) specs.push(this.#spec(limit as number, unit, of, burst))
      if (limit_bytes !== undefined)
        specs.push(this.#spec(sizeOf(limit_bytes), 'bytes', of, limit === undefined ? burst : undefined))
    }
    const quota = options.quota as Options | undefined
    if (quota?.limit !== undefined) specs.push(this.#quota(quota.limit as number, unit, quota))
    if (quota?.limit_bytes !== undefined) specs.push(this.#quota(sizeOf(quota.limit_bytes), 'bytes', quota))
    return specs
  }

  #spec(limit: number, unit: LimitSpec['unit'], of: { mode: string; windowMs: unknown }, burst: unknown): LimitSpec {
    const scale = unit === 'bytes' ? 1 : MILLIONTHS
    const most = BigInt(limit * scale)
    const windowMs = of.windowMs as number
    const above = BigInt((burst === undefined ? limit - 1 : sizeOf(burst)) * scale)
    const inEventTime = this.inEventTime
    const create = (): LimitModel => {
      if (of.mode === 'aligned') {
        const periods = alignedPeriods(windowMs)
        return inEventTime ? new EventPeriods(most, periods) : new ClockPeriods(most, periods, this.#offsetMs)
      }
      if (of.mode === 'sliding') return new ClockSliding(most, windowMs)
      if (of.mode === 'gcra') return new ClockGcra(most, windowMs, above)
      return new (inEventTime ? EventFixed : ClockFixed)(most, windowMs)
    }
    return { limit, unit, windowMs, create }
  }

  #quota(limit: number, unit: LimitSpec['unit'], { per, time_zone = 'UTC' }: Options): LimitSpec {
    const most = BigInt(unit === 'bytes' ? limit : limit * MILLIONTHS)
    const periods = calendarPeriods(per as string, time_zone as string)
    const create = () =>
      this.inEventTime ? new EventPeriods(most, periods) : new ClockPeriods(most, periods, this.#offsetMs)
    return { limit, unit, windowMs: undefined, create }
  }

  /** What an event costs, in millionths. */
  #cost(options: Options, event: Fields): bigint {
    if (options.cost === undefined) return BigInt(MILLIONTHS)
    const value = valueAt(options.cost, event)
    return BigInt(Math.round((typeof value === 'number' && value >= 0 ? value : 1) * MILLIONTHS))
  }

  /** What a bucket may be now. */
  #bucket(name: string, options: Options): Bucket[] {
    const specs = this.#specsOf(options)
    const found = this.#buckets.get(name) ?? []
    if (found.length > 0 && !found.some(bucket => this.#mayBeReleased(bucket))) return found
    return [...found, { specs, limits: specs.map(({ create }) => create()), charges: [] }]
  }

  /** In event time: whether every further event of its windows would be late, since all sources have passed them. */
  #mayBeReleased({ limits }: Bucket): boolean {
    const reached = Math.min(...this.#newest.values()) - this.#latenessMs
    return (
      this.inEventTime && limits.every(({ idleFrom }) => idleFrom > Number.NEGATIVE_INFINITY && reached >= idleFrom)
    )
  }

  /** Whether a key finds no room: 'yes', 'no', or 'maybe' where it depends on when idle buckets are dropped. */
  fullness(arrival: Arrival): 'yes' | 'no' | 'maybe' {
    const most = (this.options.max_keys as number | undefined) ?? 100_000
    const of = this.#optionsFor(arrival.event)
    const key = bucketOf(this.options.key_field, arrival.event)
    if (!of || key === null) return 'no'
    const own = JSON.stringify([of.rule, key])
    let inUse = 0
    for (const name of this.seen) {
      if (name === own) continue
      if (this.#isInUse(name, arrival.now)) inUse++
    }
    if (this.inEventTime || this.rules.length > 0) {
      return this.seen.size - Number(this.seen.has(own)) < most ? 'no' : 'maybe'
    }
    return inUse >= most && !this.#isInUse(own, arrival.now) ? 'yes' : 'no'
  }

  #isInUse(name: string, now: number): boolean {
    return this.#buckets.get(name)?.[0]?.limits.some(limit => now < limit.idleFrom) ?? false
  }

  /** In event time: the time at which an event counts. Call once for each event. */
  #timeOf({ event, now, source }: Arrival): number {
    if (!this.inEventTime) return now
    const { time_field: field } = this.options
    const arrival = now + this.#offsetMs
    const time = field === 'auto' ? foundTime(event) : timeOf(valueAt(field, event))
    if (Number.isNaN(time)) this.unreadable++
    else if (time > arrival + Math.max(this.#latenessMs, AHEAD_MS)) this.ahead++
    else {
      this.#newest.set(source, Math.max(this.#newest.get(source) ?? time, time))
      return time
    }
    return arrival
  }

  #lateness(source: string): Lateness {
    const latenessMs = this.#latenessMs
    return { of: (this.#newest.get(source) ?? Number.NEGATIVE_INFINITY) - latenessMs, latenessMs }
  }

  /**
   * Decides on an event, and counts it if it passes and `counts`. `isFull`: whether its key finds no room. `seen`: what
   * became of it, for where that depends on when idle buckets are released.
   */
  decide(arrival: Arrival, isFull: boolean, seen?: Kind, counts = true): Decision {
    const { event } = arrival
    if (this.options.exclude !== undefined && holds(this.options.exclude, event)) return 'excluded'
    const time = counts ? this.#timeOf(arrival) : arrival.now
    const of = this.#optionsFor(event)
    if (!of) return 'unlimited'
    let key = bucketOf(this.options.key_field, event)
    if (key !== null && isFull) {
      const { on_max_keys = 'pass' } = this.options
      if (on_max_keys === 'pass') return 'fail_open'
      if (on_max_keys === 'discard') return 'full'
      key = null
    }
    const name = JSON.stringify([of.rule, key])
    const buckets = this.#bucket(name, of.options)
    const decided = buckets.map(bucket => ({ bucket, ...this.#decideIn(bucket, of.options, arrival, time) }))
    const { decision } = decided.find(one => kindOf(one.decision) === seen) ?? decided[0]!
    const alike = decided.filter(one => one.decision === decision)
    if (!counts) return decision
    if (decision === 'passed' || decision === 'late')
      for (const { bucket, costs } of alike) {
        const charge = { time, costs, lateness: this.#lateness(arrival.source) }
        bucket.charges.push(charge)
        count(bucket.limits, charge)
      }
    this.#buckets.set(
      name,
      alike.map(({ bucket }) => bucket),
    )
    if (key !== null) this.seen.add(name)
    return decision
  }

  #decideIn({ specs, limits }: Bucket, options: Options, { event, size, source }: Arrival, time: number) {
    const costs = specs.map(({ unit }) => (unit === 'bytes' ? BigInt(size) : this.#cost(options, event)))
    const verdicts = limits.map((limit, n) => limit.verdict(time, costs[n]!, this.#lateness(source)))
    const isLate = verdicts.includes('late')
    const late = this.options.on_late === 'discard' ? 'too_late' : 'late'
    const decision: Decision = verdicts.includes('refuses') ? 'refused' : isLate ? late : 'passed'
    return { decision, costs }
  }

  /** Whether an event of now would be let through by the limits at a later time, if nothing else passes until then. */
  fitsAt(arrival: Arrival, now: number, isFull: boolean): boolean {
    return this.decide({ ...arrival, now }, isFull, undefined, false) !== 'refused'
  }

  /** Whether an event fits behind all before it, of which each counts, even if it did not fit; so does this one. */
  fitsBehindAll(arrival: Arrival): boolean {
    const { event, now: time, source } = arrival
    if (this.options.exclude !== undefined && holds(this.options.exclude, event)) return true
    const of = this.#optionsFor(event)
    if (!of) return true
    const name = JSON.stringify([of.rule, bucketOf(this.options.key_field, event)])
    const [bucket] = this.#bucket(name, of.options)
    const { decision, costs } = this.#decideIn(bucket!, of.options, arrival, time)
    count(bucket!.limits, { time, costs, lateness: this.#lateness(source) })
    this.#buckets.set(name, [bucket!])
    return decision === 'passed'
  }

  /** What refuses an event now, on the clock: the first limit that does. */
  refusal(arrival: Arrival, isFull: boolean): Refusal | undefined {
    const of = this.#optionsFor(arrival.event)
    if (!of) return undefined
    const key = isFull ? null : bucketOf(this.options.key_field, arrival.event)
    const { specs, limits } = this.#bucket(JSON.stringify([of.rule, key]), of.options)[0]!
    for (const [n, limit] of limits.entries()) {
      const { unit } = specs[n]!
      const cost = unit === 'bytes' ? BigInt(arrival.size) : this.#cost(of.options, arrival.event)
      if (limit.verdict(arrival.now, cost, this.#lateness(arrival.source)) !== 'refuses') continue
      const used = limit.used(arrival.now)
      return { spec: specs[n]!, used: unit === 'bytes' ? used : used / MILLIONTHS }
    }
    return undefined
  }

  /** All limits that may be named for an event. */
  specsFor(event: Fields): readonly LimitSpec[] {
    return [...this.#specsOf(this.#optionsFor(event)?.options ?? this.options), ...this.#specsOf(this.options)]
  }

  /** The least and the greatest number of buckets that may be in memory. */
  buckets(now: number): { least: number; most: number } {
    const used = [...this.seen].filter(name => !this.inEventTime && this.#isInUse(name, now))
    return { least: used.length, most: Math.min(this.seen.size, (this.options.max_keys as number) ?? 100_000) }
  }
}
