import type { Logger } from 'pino'
import type { ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { discard, type Emitted, LATER, MAIN } from '../../../core/processor.js'
import { LogLimit } from '../../../lib/log-limit.js'
import type { Clock } from '../../../lib/time.js'
import type { BatchKeys } from '../../throttle/batch/batch-keys.js'
import { EventKey } from '../../throttle/buckets/event-key.js'
import { DiscardHistory } from '../../throttle/counts/discard-history.js'
import { DiscardTally } from '../../throttle/counts/discard-tally.js'
import type { LimitRefusal } from '../../throttle/decider.js'
import type { DeciderOptions } from '../../throttle/decider-options.js'
import { DISCARD, FULL, NO_BACKEND, TOO_LATE, WAITS } from '../../throttle/decisions.js'
import { Annotation, type Exceeded } from './annotate.js'
import { endKeys, KeyCounters, showKeys } from './key-metrics.js'
import { creditMs, type ThrottleConfig } from './options.js'
import { OneInN } from './over-limit.js'
import { type THROTTLE_REASONS, throttlePlan } from './plan.js'
import { Summary } from './summary.js'
import { DECIDED, DECISIONS_HELP, type ThrottleMetrics } from './throttle-metrics.js'

/** Maximum discarded events to inspect for the history each second. Then each batch may inspect one more. */
const LOOKS_PER_SECOND = 1000
/** If a batch discards more events than may still be inspected in this second, at most this many are inspected. */
const SOME_LOOKS = 16

/** State that RefusedEvents passes to a successor with the same options. */
export interface RefusedState {
  readonly oneIn: OneInN | undefined
  readonly keys: KeyCounters | undefined
  readonly history: DiscardHistory
}

export interface Decisions {
  readonly decisions: Uint8Array
  readonly counts: Uint32Array
  /** The bucket ids of the events. Undefined if the ids were not found for the whole batch. */
  readonly keys?: Pick<BatchKeys, 'ids' | 'owner'> | undefined
}

/** Returns the limit that discarded event `i` of the last batch. Undefined if no limit did, or if unknown. */
export type RefusalOf = (batch: EventBatch, i: number) => LimitRefusal | undefined

type Context = Pick<ProcessorContext, 'id' | 'log' | 'clock' | 'editor'> & { readonly metrics: ThrottleMetrics }

/** Applies the options to the events that do not pass a throttle. */
export class RefusedEvents {
  readonly #clock: Clock
  readonly #reasons: readonly string[]
  /** The value written to the column `to` for each decision. */
  readonly #values = new Uint8Array(NO_BACKEND + 1)
  /** The value in `to` for each decision about backlog. */
  readonly #backlogValues = new Uint8Array(NO_BACKEND + 1)
  readonly #reportBacklog: (events: number, hadCredit: boolean) => void
  readonly #metrics: ThrottleMetrics
  readonly #key: EventKey
  readonly #hasKey: boolean
  readonly #hasRules: boolean
  /** Whether backlog has credit. If so, all events of a source that is behind are backlog. */
  readonly #credits: boolean
  readonly #oneIn: OneInN | undefined
  readonly #marks: boolean
  readonly #isShadow: boolean
  readonly #annotation: Annotation | undefined
  readonly #annotatesDiscards: boolean
  /** Counts discarded events for the next three fields. Undefined if only the history needs the counts. */
  readonly #tally: DiscardTally | undefined
  readonly #summary: Summary | undefined
  readonly #keys: KeyCounters | undefined
  readonly #history: DiscardHistory
  /** How many events may still be inspected in this second. */
  #looks = 0
  #secondAt = Number.NEGATIVE_INFINITY
  /** Whether events are only discarded, without any other action. */
  readonly #isPlain: boolean
  /** Whether events are only discarded and counted by bucket. */
  readonly #onlyCounts: boolean
  /** The limit that is reported for an event if it is unknown which limit discarded the event. */
  readonly #limit: Exceeded
  readonly #discarded: { value: number }
  readonly #marked: { value: number }
  readonly #sampled: { value: number }

  constructor(options: ThrottleConfig, decider: DeciderOptions, context: Context, before?: RefusedState) {
    const { mode, over_limit: over, annotate, summary, per_key_metrics: perKey } = options
    const reasons: readonly string[] = throttlePlan(options).reasons
    this.#reasons = reasons
    const columnOf = (reason: keyof typeof THROTTLE_REASONS) => discard(reasons.indexOf(reason))
    this.#clock = context.clock
    this.#metrics = context.metrics
    this.#values[DISCARD] = columnOf('throttled')
    this.#values[WAITS] = LATER
    if (reasons.includes('max_keys')) this.#values[FULL] = columnOf('max_keys')
    if (reasons.includes('late')) this.#values[TOO_LATE] = columnOf('late')
    if (reasons.includes('no_backend')) this.#values[NO_BACKEND] = columnOf('no_backend')
    this.#backlogValues.set(this.#values)
    if (reasons.includes('throttled_backlog')) this.#backlogValues[DISCARD] = columnOf('throttled_backlog')
    this.#credits = creditMs(options) !== undefined
    this.#reportBacklog = options.time_field ? () => {} : backlogReport(context.log, context.clock)
    this.#hasKey = decider.keyFields.length > 0
    this.#hasRules = decider.rules !== undefined
    this.#isShadow = mode === 'shadow'
    this.#marks = over === 'mark'
    const oneIn = typeof over === 'object' && 'pass_one_in' in over ? over.pass_one_in : 0
    if (oneIn > 0) this.#oneIn = before?.oneIn ?? new OneInN(oneIn, decider.maxKeys, decider.seed)
    this.#key = new EventKey(decider.keyFields, this.#oneIn?.seed ?? decider.seed)
    this.#annotatesDiscards = annotate
    if (!this.#isShadow && (annotate || this.#marks)) this.#annotation = new Annotation(context)
    if (summary) {
      const unnamed = context.metrics.counter(
        'sluice_throttle_summarized_other_events_total',
        'Discarded events that a summary counts in the bucket __other__, because more than max_per_interval buckets had discarded events.',
      )
      this.#summary = new Summary(summary, context.id, this.#isShadow, context.clock, unnamed)
    }
    if (perKey) this.#keys = before?.keys ?? new KeyCounters(perKey, context.clock.now())
    if (this.#keys) showKeys(this.#keys, context, () => this.#drain())
    this.#history = before?.history ?? new DiscardHistory(context.clock.now())
    this.#isPlain = !(this.#isShadow || this.#oneIn || this.#annotation || summary || perKey)
    this.#onlyCounts = !(this.#isPlain || this.#oneIn || this.#marks || this.#annotation)
    if (!this.#isPlain) this.#tally = new DiscardTally(summary !== undefined)
    this.#limit = decider.limits[0]!
    const count = (decision: string) => context.metrics.counter(DECIDED, DECISIONS_HELP, { decision })
    this.#discarded = count(this.#isShadow ? 'would_discard' : 'discarded')
    this.#marked = this.#marks ? count(this.#isShadow ? 'would_mark' : 'marked') : { value: 0 }
    this.#sampled = this.#oneIn ? count(this.#isShadow ? 'would_sample' : 'sampled') : { value: 0 }
  }

  get decided(): number {
    return this.#discarded.value + this.#marked.value + this.#sampled.value
  }

  get state(): RefusedState {
    this.#drain()
    return { oneIn: this.#oneIn, keys: this.#keys, history: this.#history }
  }

  /** Ends the series of keys. The counts of these series move to `__other__`, because no successor continues them. */
  end(): void {
    this.#drain()
    if (this.#keys) endKeys(this.#keys, this.#metrics)
  }

  get history(): DiscardHistory {
    this.#drain()
    return this.#history
  }

  /** Ends an interval of the summary. Returns the events that report it. */
  emit(): readonly Emitted[] {
    this.#drain()
    return this.#summary?.emit() ?? []
  }

  /** Passes the counts of the tally to the objects that need them. */
  #drain(): void {
    const keys = this.#keys
    const summary = this.#summary
    const now = this.#clock.now()
    this.#tally?.drain(count => {
      this.#history.add(count.bucket, count.events, now)
      keys?.add(count)
      summary?.add(count)
    })
    keys?.trim()
  }

  /** Call for each batch with events that do not pass. */
  carryOut(batch: EventBatch, { decisions, counts, keys }: Decisions, to: Uint8Array, refusalOf?: RefusalOf): void {
    const isBacklog = this.#isBacklog(batch)
    const values = isBacklog ? this.#backlogValues : this.#values
    let overLimit = counts[DISCARD]!
    if (this.#isPlain) {
      this.#discarded.value += overLimit + counts[FULL]! + counts[NO_BACKEND]!
      const { length } = batch
      for (let i = 0; i < length; i++) to[i] = values[decisions[i]!]!
      const discards = overLimit + counts[FULL]! + counts[TOO_LATE]! + counts[NO_BACKEND]!
      if (discards > 0) this.#sample(batch, to, discards, refusalOf)
    } else {
      const now = this.#clock.now()
      const wall = this.#clock.wall()
      this.#oneIn?.advance(now)
      overLimit = 0
      for (let i = 0; i < batch.length; i++) {
        const decision = decisions[i]!
        const value = values[decision]!
        if (value === MAIN) continue
        if (value !== LATER && !this.#carryOutOne(batch, i, decision, keys, now, wall, refusalOf)) continue
        to[i] = value
        if (decision === DISCARD) overLimit++
      }
    }
    if (isBacklog && overLimit > 0) this.#reportBacklog(overLimit, batch.behind !== undefined && this.#credits)
  }

  #isBacklog({ isBacklog, behind }: EventBatch): boolean {
    return isBacklog || (this.#credits && behind !== undefined)
  }

  /**
   * Counts discarded events for the history. If a batch has too many, counts a sample, each event representing several.
   */
  #sample(batch: EventBatch, to: Uint8Array, discards: number, refusalOf: RefusalOf | undefined): void {
    const now = this.#clock.now()
    if (!this.#hasKey && !this.#hasRules) {
      this.#history.add(null, discards, now)
      return
    }
    if (now - this.#secondAt >= 1000) {
      this.#secondAt = now
      this.#looks = LOOKS_PER_SECOND
    }
    const isExact = discards <= Math.max(1, this.#looks)
    if (!isExact) this.#history.sampled(now)
    const { length } = batch
    const places = isExact ? length : Math.max(1, Math.min(SOME_LOOKS, this.#looks))
    // Finds the first discarded event after each of these equidistant places.
    const found: number[] = []
    for (let place = 0; place < places; place++) {
      const end = Math.floor(((place + 1) * length) / places)
      let i = Math.floor((place * length) / places)
      while (i < end && (to[i] === MAIN || to[i] === LATER)) i++
      if (i < end) found.push(i)
    }
    this.#looks -= found.length
    for (const i of found) {
      this.#key.load(batch, i)
      const bucket = this.#key.name()
      this.#history.add(bucket, discards / found.length, now)
      if (this.#hasRules) this.#history.note(bucket, refusalOf?.(batch, i), now)
    }
  }

  /** Returns false if the event passes in spite of the decision. */
  #carryOutOne(
    batch: EventBatch,
    i: number,
    decision: number,
    keys: Decisions['keys'],
    now: number,
    wall: number,
    refusalOf: RefusalOf | undefined,
  ): boolean {
    if (this.#onlyCounts && keys && this.#tally!.addKnown(keys.owner, keys.ids[i]!, batch, i, wall)) {
      this.#discarded.value++
      return !this.#isShadow
    }
    const key = this.#key
    key.load(batch, i)
    if (decision === DISCARD) {
      if (this.#oneIn?.passes(key, now)) {
        this.#sampled.value++
        return false
      }
      if (this.#marks) {
        this.#marked.value++
        this.#annotation?.add(batch, i, key, refusalOf?.(batch, i) ?? this.#limit)
        return false
      }
    }
    if (decision !== TOO_LATE) this.#discarded.value++
    if (this.#tally) {
      if (this.#tally.isFull) this.#drain()
      const isFirst = this.#tally.add(key, batch, i, wall)
      if (keys) this.#tally.know(keys.owner, keys.ids[i]!)
      if (isFirst && this.#hasRules) this.#history.note(key.name(), refusalOf?.(batch, i), now)
    }
    if (this.#annotatesDiscards)
      this.#annotation?.add(batch, i, key, this.#exceeded(batch, i, decision, refusalOf), this.#reason(batch, decision))
    return !this.#isShadow
  }

  #exceeded(batch: EventBatch, i: number, decision: number, refusalOf: RefusalOf | undefined): Exceeded {
    return (decision === DISCARD && refusalOf?.(batch, i)) || this.#limit
  }

  #reason(batch: EventBatch, decision: number): string | undefined {
    const values = this.#isBacklog(batch) ? this.#backlogValues : this.#values
    const reason = this.#reasons[values[decision]! - discard(0)]
    return reason === 'throttled' ? undefined : reason
  }
}

/** Creates a function that logs discarded backlog at a limited rate. */
function backlogReport(log: Logger, clock: Clock): (events: number, hadCredit: boolean) => void {
  const limit = new LogLimit(clock)
  let unreported = 0
  return (events, hadCredit) => {
    unreported += events
    const limited = limit.next('backlog')
    if (!limited) return
    log.warn(
      { code: 'SLUICE_THROTTLED_BACKLOG', events: unreported },
      hadCredit
        ? 'discarded events of a source that is catching up: their buckets exceeded the limit on average since the source fell behind'
        : 'discarded events of a source that is catching up: nothing is known about the time in which they were written. To keep them, set on_backlog: pace, or time_field: auto to count events at the time when they were written',
    )
    unreported = 0
  }
}
