import type { EventBatch } from '../../core/event/batch.js'
import type { Clock } from '../../lib/time.js'
import type { BatchKeys } from './batch/batch-keys.js'
import { WholeBatches } from './batch/whole-batches.js'
import { BucketKey } from './buckets/bucket-key.js'
import type { DeciderOptions } from './decider-options.js'
import { DECISIONS, type Decision, DISCARD, EXCLUDED, FAIL_OPEN, FULL, PASS } from './decisions.js'
import type { EventTiming } from './event/timing.js'
import { Costs, type Level, type Limit } from './limit.js'
import { ClockTiming, Limiter } from './limiter.js'
import type { Rule, RuleName } from './rules/rule.js'
import { type BucketLimiter, type RuledLimiter, type RuleLimit, RuleLimits } from './rules/rules.js'
import type { Credit } from './windows/credited.js'
import type { WallTime } from './windows/wall-time.js'

/** Decides which events of a throttle pass. Uses neither streams nor I/O. */

export interface LimitRefusal extends Pick<Limit, 'limit' | 'unit' | 'windowMs'> {
  /** The amount that the window had already counted, in `unit`. */
  readonly count: number
  /** The rule that has the limit; undefined if the throttle itself has the limit. */
  readonly rule?: RuleName | undefined
}

/** Arguments of a limiter: the key, time, cost and size of an event. */
type About = Parameters<BucketLimiter['take']>

/** Decides on each event: checks `exclude`, reads the key, finds the rule, then takes from the bucket. */
export abstract class KeyedDecider<L extends RuledLimiter> {
  /** Whether the last event was counted in the default bucket. */
  byDefault = false
  readonly limiter: L
  /** Undefined: all events belong to the default bucket. */
  readonly #key: BucketKey | undefined
  readonly #exclude: DeciderOptions['exclude']
  readonly #onMaxKeys: DeciderOptions['onMaxKeys']
  /** Undefined: each event costs 1. */
  readonly #costs: Costs | undefined
  /** Undefined: there are no rules. */
  #ruleLimits: RuleLimits | undefined

  constructor({ exclude, keyFields, key, onMaxKeys, limits, costField, rules }: DeciderOptions, limiter: L) {
    this.limiter = limiter
    this.#exclude = exclude
    this.#key = keyFields.length > 0 ? (key ?? new BucketKey(keyFields, limiter.seed)) : undefined
    this.#onMaxKeys = onMaxKeys
    this.#costs = Costs.for(limits, costField)
    if (rules) this.setRules(rules)
  }

  /** The time that `level` and `roomAt` use for event `i`, usually the time of the last decision about this event. */
  protected abstract decidedAt(batch: EventBatch, i: number): number

  /** Replaces the rules. A rule that is also in the new list keeps its windows. Call only if the options have rules. */
  setRules(rules: readonly Rule[]): void {
    this.#ruleLimits = new RuleLimits(rules, this.limiter)
  }

  /** Whether an event costs 1 if no rule holds for it. */
  protected get costsOne(): boolean {
    return this.#costs === undefined
  }

  protected get ruleLimits(): RuleLimits | undefined {
    return this.#ruleLimits
  }

  protected isExcluded(batch: EventBatch, i: number): boolean {
    this.byDefault = false
    return this.#exclude?.(batch, i) ?? false
  }

  #keyOf(batch: EventBatch, i: number): BucketKey | undefined {
    return this.#key?.load(batch, i) ? this.#key : undefined
  }

  /** Decides on an event that is not excluded. */
  protected take(batch: EventBatch, i: number, time: number): Decision {
    const key = this.#keyOf(batch, i)
    const ruleLimits = this.#ruleLimits
    const rule = ruleLimits === undefined ? -1 : ruleLimits.find(batch, i, key)
    const ruleLimit = rule < 0 ? undefined : ruleLimits!.of(rule)
    const limiter = ruleLimit === undefined ? this.limiter : ruleLimit.limiter
    const costs = ruleLimit === undefined ? this.#costs : ruleLimit.costs
    this.byDefault = key === undefined
    if (limiter === undefined) return PASS
    const cost = costs === undefined ? 1 : costs.of(batch, i)
    const size = costs === undefined ? 0 : batch.size(i)
    const taken = limiter.take(key, time, cost, size)
    if (taken !== FULL) return taken
    this.byDefault = this.#onMaxKeys === 'default_bucket'
    return this.takeFull(limiter, time, cost, size)
  }

  /** Decides on an event whose key has no bucket because `limiter` has no room for another bucket. */
  protected takeFull(limiter: BucketLimiter, time: number, cost: number, size: number): Decision {
    if (this.#onMaxKeys === 'discard') return FULL
    if (this.#onMaxKeys === 'pass') return FAIL_OPEN
    return limiter.take(undefined, time, cost, size)
  }

  ruleOf(batch: EventBatch, i: number): Rule | undefined {
    return this.#ruleLimits?.rules[this.#ruleLimits.find(batch, i, this.#keyOf(batch, i))]
  }

  #ruleLimitOf(batch: EventBatch, i: number): RuleLimit {
    const rule = this.#ruleLimits?.find(batch, i, this.#keyOf(batch, i)) ?? -1
    return rule < 0 ? { limiter: this.limiter, costs: this.#costs } : this.#ruleLimits!.of(rule)
  }

  /** The cost of event `i` for limits that do not count bytes, in window units (`scaleOf`). */
  costOf(batch: EventBatch, i: number): number {
    return this.#ruleLimitOf(batch, i).costs?.of(batch, i) ?? 1
  }

  /**
   * Calls `ask` for the bucket of event `i`. If there is no room for that bucket and `onMaxKeys` is `default_bucket`,
   * calls `ask` again for the default bucket.
   */
  #ask<A>(batch: EventBatch, i: number, ask: (limiter: BucketLimiter, ...about: About) => A | undefined) {
    const { limiter, costs } = this.#ruleLimitOf(batch, i)
    if (limiter === undefined) return undefined
    const [time, cost, size] = [this.decidedAt(batch, i), costs?.of(batch, i) ?? 1, batch.size(i)]
    const answer = ask(limiter, this.#keyOf(batch, i), time, cost, size)
    if (answer !== undefined || this.#onMaxKeys !== 'default_bucket') return answer
    return ask(limiter, undefined, time, cost, size)
  }

  /**
   * How full the bucket of event `i` is, according to the limit that would refuse the event. If every limit would let
   * the event pass, the fullest limit is used. Undefined if no room is left for the bucket, or if no limit applies.
   */
  level(batch: EventBatch, i: number): Level | undefined {
    return this.#ask(batch, i, (limiter, ...about) => limiter.level(...about))
  }

  /** The earliest time at which the discarded event `i` fits if no other event passes; Infinity: it never fits. */
  roomAt(batch: EventBatch, i: number): number {
    return this.#ask(batch, i, (limiter, ...about) => limiter.roomAt(...about)) ?? Number.POSITIVE_INFINITY
  }

  /** The limit that has just discarded event `i`; undefined if no limit did. Too slow to be called for each event. */
  refusal(batch: EventBatch, i: number): LimitRefusal | undefined {
    const level = this.level(batch, i)
    if (level === undefined) return undefined
    const { limit, unit, mode } = level.limit
    // Until an event has passed in a period, the start and the end of this period are unknown.
    const windowMs = (mode === 'quota' && level.until - level.since) || level.limit.windowMs
    return { limit, unit, windowMs, count: level.used, rule: this.ruleOf(batch, i)?.name }
  }
}

/**
 * Decides in event time, or in the time of the monotonic clock, which does not jump when the wall clock is set. With
 * the monotonic clock, aligned windows and quotas still follow the wall clock, with a difference of at most a second.
 */
export class Decider extends KeyedDecider<Limiter> {
  /** The decisions about the events of the last batch. */
  decisions = new Uint8Array(1024)
  /** Number of events per decision. */
  readonly counts = new Uint32Array(DECISIONS)
  /** The keys of the last batch; undefined if its events were decided one by one. */
  keys: BatchKeys | undefined
  /** Undefined: decisions are in clock time. */
  readonly inEventTime: EventTiming | undefined
  readonly #clock: Clock
  /** The wall clock for aligned windows and quotas; undefined in event time. */
  readonly wall: WallTime | undefined
  readonly credit: Credit | undefined
  readonly #followsWall: boolean
  readonly #whole: WholeBatches | undefined
  #now = 0

  constructor(options: DeciderOptions, clock: Clock, limiter: Limiter) {
    super(options, limiter)
    const { exclude, keyFields, rules, limits } = options
    const { timing } = limiter
    this.#clock = clock
    if (timing instanceof ClockTiming) {
      this.wall = timing.wall
      this.credit = timing.credit
    } else this.inEventTime = timing as EventTiming
    const ofWall = limits.some(({ mode }) => mode === 'aligned' || mode === 'quota')
    this.#followsWall = this.wall !== undefined && (rules !== undefined || ofWall)
    const take = (batch: EventBatch, i: number, now: number) => this.take(batch, i, now)
    if (this.wall && keyFields.length < 2) this.#whole = new WholeBatches(limiter, exclude, keyFields[0], take)
  }

  /** Decides on all events of a batch at the current time. The result is valid until the next call. */
  decide(batch: EventBatch): this {
    return this.decideAt(batch, this.#present())
  }

  /** Like `decide`, but at the time `now`. In event time, each event is decided at its own time. */
  decideAt(batch: EventBatch, now: number): this {
    const { length } = batch
    const { inEventTime, counts } = this
    if (this.decisions.length < length) this.decisions = new Uint8Array(length * 2)
    const { decisions } = this
    counts.fill(0)
    this.begin(batch, now)
    const isDecided = this.costsOne && (this.#whole?.decide(batch, now, this.ruleLimits, decisions, counts) ?? false)
    this.keys = isDecided ? this.#whole!.keys : undefined
    if (isDecided) return this
    for (let i = 0; i < length; i++) {
      let decision: Decision = EXCLUDED
      if (!this.isExcluded(batch, i)) {
        decision = this.take(batch, i, inEventTime === undefined ? now : inEventTime.next(batch, i))
        if (inEventTime !== undefined) decision = inEventTime.decisionOn(decision)
      }
      decisions[i] = decision
      counts[decision]!++
    }
    return this
  }

  /** Call before single events of a batch are decided. */
  begin(batch: EventBatch, now: number): void {
    this.#now = now
    this.inEventTime?.begin(batch, now, this.#clock.wall())
    this.credit?.enter(batch.origin.source, batch.behind, now)
    this.limiter.advance(now)
  }

  /** Decides on one event, at exactly this time. */
  decideOne(batch: EventBatch, i: number, time: number): Decision {
    const { inEventTime } = this
    this.#now = time
    if (this.isExcluded(batch, i)) return EXCLUDED
    inEventTime?.progress.see(time)
    const taken = this.take(batch, i, time)
    return inEventTime === undefined ? taken : inEventTime.decisionOn(taken)
  }

  /** Decides on one event now, without dropping idle buckets. Returns false if the event is beyond a limit. */
  lets(batch: EventBatch, i: number): boolean {
    return this.decideOne(batch, i, this.#present()) !== DISCARD
  }

  protected decidedAt(batch: EventBatch, i: number): number {
    return this.inEventTime?.timeOf(batch, i) ?? this.#now
  }

  get decidedByClockAt(): number | undefined {
    return this.inEventTime || this.credit?.accounts ? undefined : this.#now
  }

  get buckets(): number {
    if (this.inEventTime) this.inEventTime.rest(this.limiter, this.#clock.now())
    else this.limiter.advance(this.#present())
    return this.limiter.keys
  }

  /** Returns the current time. Also makes windows follow the wall clock. */
  #present(): number {
    const now = this.#clock.now()
    // If the wall clock was set back, aligned windows restart. They would otherwise last until the old time returns.
    if (this.#followsWall && this.wall!.follow(now, this.#clock.wall())) this.limiter.restartAligned()
    return now
  }
}

/** Creates a decider in clock time. `before`: the limiter of a previous decider with the same options. */
export function createClockDecider(options: DeciderOptions, clock: Clock, before?: unknown): Decider {
  if (before instanceof Limiter && before.timing instanceof ClockTiming) return new Decider(options, clock, before)
  const timing = new ClockTiming(options.maxCreditMs)
  timing.wall.offsetMs = clock.wall() - clock.now()
  return new Decider(options, clock, new Limiter(options, timing))
}
