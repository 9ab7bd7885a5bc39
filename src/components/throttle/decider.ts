import type { EventBatch } from '../../core/event/batch.js'
import type { FieldReader } from '../../core/event/field-reader.js'
import type { BatchKeys } from './batch-keys.js'
import { BucketKey } from './bucket-key.js'
import { Costs } from './costs.js'
import { EXCLUDED, FAIL_OPEN } from './decisions.js'
import type { TimeReader } from './event-time.js'
import { KeyedLimiter } from './keyed-limiter.js'
import { Lanes } from './lanes.js'
import type { Level, Limit } from './limit.js'
import {
  type DISCARD,
  FULL,
  type Limiter,
  type LimiterOptions,
  PASS,
  type RuledLimiter,
  type Taken,
} from './limiter.js'
import type { Rule, RuleName } from './rules.js'
import { WholeBatches } from './whole-batches.js'

/** The throttle's decisions as a function of keys and times, without streams, clocks or I/O. */

/** Whether event `i` is not counted; `all` writes 1 or 0 for each event. */
export interface Excludes {
  (batch: EventBatch, i: number): boolean
  readonly all: (batch: EventBatch, to: Uint8Array) => void
}

export interface DeciderOptions extends LimiterOptions {
  readonly onMaxKeys: 'default_bucket' | 'pass' | 'discard'
  readonly exclude?: Excludes | undefined
  /** The fields of the key; none: all events belong to the default bucket. */
  readonly keyFields: readonly FieldReader[]
  /** The field with what an event costs instead of 1. Limits of events are then of the unit `cost`. */
  readonly costField?: FieldReader | undefined
  readonly eventTime?: EventTimeOptions | undefined
  /** The first that holds for an event is used in the place of `limits` and `costField`. */
  readonly rules?: readonly Rule[] | undefined
}

export interface EventTimeOptions {
  readonly time: TimeReader
  readonly latenessMs: number
  readonly onLate: 'pass' | 'discard'
}

/** The limit that discarded an event. */
export interface Refusal extends Pick<Limit, 'limit' | 'unit' | 'windowMs'> {
  /** What had passed in the window, in the unit of the limit. */
  readonly count: number
  /** The rule that the limit is of; undefined: of the throttle itself. */
  readonly rule?: RuleName | undefined
}

/** A limiter that knows when there is room. */
type Rooms = Pick<KeyedLimiter, 'roomAt' | 'roomAtOfDefault'>

/** Decides on each event: first exclude, then the key, then the rule, then its bucket. */
export abstract class KeyedDecider<T, L extends RuledLimiter<T>> {
  /** Whether the last event was counted in the default bucket. */
  byDefault = false
  readonly limiter: L
  /** Undefined: all events belong to the default bucket. */
  protected readonly key: BucketKey | undefined
  readonly #exclude: DeciderOptions['exclude']
  readonly #onMaxKeys: DeciderOptions['onMaxKeys']
  /** Undefined: each event costs 1. */
  readonly #costs: Costs | undefined
  /** Undefined: there are no rules. */
  #lanes: Lanes<T> | undefined

  constructor({ exclude, keyFields, onMaxKeys, limits, costField, rules }: DeciderOptions, limiter: L) {
    this.limiter = limiter
    this.#exclude = exclude
    this.key = keyFields.length > 0 ? new BucketKey(keyFields, limiter.seed) : undefined
    this.#onMaxKeys = onMaxKeys
    this.#costs = Costs.for(limits, costField)
    if (rules) this.setRules(rules)
  }

  /** Sets the rules, in the place of those before; only if the options have some. Windows of rules that stay are kept. */
  setRules(rules: readonly Rule[]): void {
    this.#lanes = new Lanes(rules, this.limiter)
  }

  /** Whether each event for which no rule holds costs 1. */
  protected get costsOne(): boolean {
    return this.#costs === undefined
  }

  protected get lanes(): Lanes<T> | undefined {
    return this.#lanes
  }

  protected isExcluded(batch: EventBatch, i: number): boolean {
    this.byDefault = false
    return this.#exclude?.(batch, i) ?? false
  }

  /** Decides on an event that is not excluded. */
  protected take(batch: EventBatch, i: number, time: number): T | typeof PASS | typeof FULL | typeof FAIL_OPEN {
    const key = this.key?.load(batch, i) ? this.key : undefined
    const lanes = this.#lanes
    const rule = lanes === undefined ? -1 : lanes.find(batch, i, key)
    if (rule < 0) return this.#takeBy(this.limiter, this.#costs, rule, batch, i, key, time)
    const { limiter, costs } = lanes!.of(rule)
    if (limiter !== undefined) return this.#takeBy(limiter, costs, rule, batch, i, key, time)
    this.byDefault = key === undefined
    return PASS
  }

  #takeBy(
    limiter: Limiter<T>,
    costs: Costs | undefined,
    rule: number,
    batch: EventBatch,
    i: number,
    key: BucketKey | undefined,
    time: number,
  ): T | typeof FULL | typeof FAIL_OPEN {
    if (key !== undefined) {
      const taken =
        costs === undefined ? limiter.take(key, time) : limiter.takeCost(key, time, costs.of(batch, i), batch.size(i))
      if (taken !== FULL || this.#onMaxKeys === 'discard') return taken
      if (this.#onMaxKeys === 'pass') return FAIL_OPEN
    }
    this.byDefault = true
    const own = key === undefined || rule < 0 ? limiter : this.#lanes!.limiterOf(rule)!
    if (costs === undefined) return own.takeDefault(time)
    return own.takeDefaultCost(time, costs.of(batch, i), batch.size(i))
  }

  /** The rule that holds for event `i`. */
  ruleOf(batch: EventBatch, i: number): Rule | undefined {
    return this.#lanes?.rules[this.#ruleAt(batch, i)]
  }

  #ruleAt(batch: EventBatch, i: number): number {
    return this.#lanes?.find(batch, i, this.key?.load(batch, i) ? this.key : undefined) ?? -1
  }

  /** What event `i` costs limits that are not of bytes, in what windows count (`scaleOf`). */
  costOf(batch: EventBatch, i: number): number {
    const rule = this.#ruleAt(batch, i)
    const costs = rule < 0 ? this.#costs : this.#lanes!.of(rule).costs
    return costs === undefined ? 1 : costs.of(batch, i)
  }

  /**
   * The level of the bucket of event `i`: of the limit that would refuse it now, or else of the fullest. Undefined if
   * there is no room for the bucket, or nothing limits it.
   */
  level(batch: EventBatch, i: number, time: number): Level | undefined {
    const rule = this.#ruleAt(batch, i)
    const limiter = rule < 0 ? this.limiter : this.#lanes!.limiterOf(rule)
    if (limiter === undefined) return undefined
    const cost = this.costOf(batch, i)
    const size = batch.size(i)
    const key = this.key
    if (key?.load(batch, i)) {
      const level = limiter.level(key, time, cost, size)
      if (level || this.#onMaxKeys !== 'default_bucket') return level
    }
    return limiter.levelOfDefault(time, cost, size)
  }

  /** When event `i`, which was discarded, fits at the earliest if nothing else passes; Infinity: never. */
  protected roomIn(limiter: Rooms, batch: EventBatch, i: number, time: number): number {
    const cost = this.costOf(batch, i)
    const size = batch.size(i)
    const key = this.key
    if (!key?.load(batch, i)) return limiter.roomAtOfDefault(time, cost, size)
    return limiter.roomAt(key, time, cost, size) ?? limiter.roomAtOfDefault(time, cost, size)
  }

  /** Why event `i`, decided at `time`, was just discarded; undefined if no limit did. Slow: not for each event. */
  protected refusalAt(batch: EventBatch, i: number, time: number): Refusal | undefined {
    const level = this.level(batch, i, time)
    if (level === undefined) return undefined
    const { limit, unit, mode } = level.limit
    // A period in which nothing has passed has no limits yet.
    const windowMs = (mode === 'quota' && level.until - level.since) || level.limit.windowMs
    return { limit, unit, windowMs, count: level.used, rule: this.ruleOf(batch, i)?.name }
  }
}

/** Decides at times given by the caller, without a clock. */
export class Decider extends KeyedDecider<typeof PASS | typeof DISCARD, KeyedLimiter> {
  /** The decisions about the events of the last batch. */
  decisions = new Uint8Array(1024)
  /** Number of events per decision. */
  readonly counts = new Uint32Array(5)
  /** The keys of the last batch, if it was decided on as a whole. */
  keys: BatchKeys | undefined
  readonly #whole: WholeBatches | undefined
  #now = 0

  /** `limiter`: that of a predecessor with the same options. */
  constructor(options: DeciderOptions, limiter = new KeyedLimiter(options)) {
    super(options, limiter)
    const { exclude, keyFields } = options
    const take = (batch: EventBatch, i: number, now: number) => this.take(batch, i, now)
    if (keyFields.length < 2) this.#whole = new WholeBatches(limiter, exclude, keyFields[0], take)
  }

  /** Decides on all events of a batch at one point in time. */
  decide(batch: EventBatch, now: number): void {
    const length = batch.length
    if (this.decisions.length < length) this.decisions = new Uint8Array(length * 2)
    this.counts.fill(0)
    this.limiter.advance(now)
    this.#now = now
    const { decisions, counts } = this
    const isDecided = this.costsOne && (this.#whole?.decide(batch, now, this.lanes, decisions, counts) ?? false)
    this.keys = isDecided ? this.#whole!.keys : undefined
    if (isDecided) return
    for (let i = 0; i < length; i++) {
      const decision = this.decideOne(batch, i, now)
      decisions[i] = decision
      counts[decision]!++
    }
  }

  /** Decides on one event; the limiter must be advanced to `now`. */
  decideOne(batch: EventBatch, i: number, now: number): Taken | typeof EXCLUDED | typeof FAIL_OPEN {
    return this.isExcluded(batch, i) ? EXCLUDED : this.take(batch, i, now)
  }

  /** Why event `i` of the last batch was discarded; undefined if no limit did. Slow: not for each event. */
  refusal(batch: EventBatch, i: number): Refusal | undefined {
    return this.refusalAt(batch, i, this.#now)
  }

  /** When event `i` of the last batch, which was discarded, fits if nothing else passes; Infinity: never. */
  roomAt(batch: EventBatch, i: number): number {
    const rule = this.ruleOf(batch, i)
    return this.roomIn(rule ? this.limiter.ofRule(rule) : this.limiter, batch, i, this.#now)
  }
}
