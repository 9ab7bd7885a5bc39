import type { HandoverState, ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldPath } from '../../../core/event/field-path.js'
import { type FieldReader, LateFieldReader } from '../../../core/event/field-reader.js'
import { above0 } from '../../../core/fact.js'
import type { BatchScope, Emitted } from '../../../core/processor.js'
import type { ProcessorOutage, WaitState } from '../../../core/status-document.js'
import { LogLimit } from '../../../lib/log-limit.js'
import type { Clock } from '../../../lib/time.js'
import { counted } from '../../../lib/units.js'
import { EventKey } from '../../throttle/buckets/event-key.js'
import { hashedKey } from '../../throttle/buckets/key-table.js'
import type { ClusterDecider } from '../../throttle/cluster/cluster-decider.js'
import { BusiestKeys } from '../../throttle/counts/busiest-keys.js'
import { MissingKey } from '../../throttle/counts/missing-key.js'
import { createClockDecider, type Decider } from '../../throttle/decider.js'
import type { DeciderOptions } from '../../throttle/decider-options.js'
import { DISCARD, EXCLUDED, FAIL_OPEN, FULL, NO_BACKEND, PASS, TOO_LATE } from '../../throttle/decisions.js'
import type {
  BucketState,
  EventBucket,
  KeyCount,
  KeyedProcessor,
  KeyWatch,
  SeeDecisions,
} from '../../throttle/keyed-processor.js'
import type { Level } from '../../throttle/limit.js'
import type { Rule } from '../../throttle/rules/rule.js'
import { ruleTitle } from '../../throttle/rules/rules.js'
import { bucketState } from './bucket-state.js'
import type { ClusterThrottle } from './cluster/cluster-throttle.js'
import { deciderOptions, rulesOf } from './decider-options.js'
import type { InEventTime } from './in-event-time.js'
import type { LimitsFile } from './limits-file.js'
import { creditMs, everWaits, type RuleOptions, type ThrottleConfig } from './options.js'
import type { Persisted } from './persist/open-saver.js'
import type { StateSaver } from './persist/state-saver.js'
import { reportQuotasAhead } from './quota-ahead.js'
import { type Decisions, type RefusalOf, RefusedEvents, type RefusedState } from './refused-events.js'
import {
  countFailOpen,
  DECIDED,
  DECISIONS_HELP,
  describeLosses,
  metricsIn,
  showBuckets,
  showLimitsFile,
} from './throttle-metrics.js'
import { type LateState, Pacing, waitingBuckets } from './waiting.js'

/** State that a throttle passes to a successor with the same options. */
class ThrottleState {
  readonly windows: unknown
  readonly refused: RefusedState
  readonly late: LateState | undefined

  constructor(windows: ThrottleState['windows'], refused: RefusedState, late: LateState | undefined) {
    this.windows = windows
    this.refused = refused
    this.late = late
  }
}

/** Parts of a throttle that only some options need. */
export interface ThrottleParts {
  /** With `scope: cluster`: creates the part that shares the limit with other daemons. */
  readonly share?: ((compiled: DeciderOptions, before: unknown) => ClusterThrottle) | undefined
  readonly file?: LimitsFile | undefined
  readonly inEventTime?: InEventTime | undefined
}

export class ThrottleProcessor implements KeyedProcessor {
  readonly #clock: Clock
  readonly #options: ThrottleConfig
  /** The decider. Undefined if other daemons share the limit. */
  readonly #local: Decider | undefined
  readonly #cluster: ClusterThrottle | undefined
  readonly #refusal: RefusalOf
  readonly #passed: { value: number }
  readonly #excluded: { value: number }
  readonly #failOpen: { value: number }
  readonly #countDropped: () => void
  readonly #countInEventTime: ((batch: EventBatch) => void) | undefined
  /** Undefined if no limit follows the wall clock. */
  readonly #reportQuotas: (() => void) | undefined
  readonly #keyFields: readonly FieldReader[]
  readonly #key: EventKey
  readonly #missingKey: MissingKey
  readonly #log: ProcessorContext['log']
  readonly #reports: LogLimit
  readonly #onMaxKeys: DeciderOptions['onMaxKeys']
  #rules: readonly Rule[] | undefined
  readonly #refused: RefusedEvents
  /** Undefined: events do not wait. */
  readonly #waiting: Pacing | undefined
  /** Counts the backlog that passes without a decision. Undefined if the throttle also decides on backlog. */
  readonly #passedBacklog: { value: number } | undefined
  readonly #observers = new Set<SeeDecisions>()
  #stands = 1
  #isSucceeded = false
  readonly #file: LimitsFile | undefined
  /** The buckets to save. Undefined if other daemons share the limit. */
  readonly #persisted: Persisted | undefined
  #saver: StateSaver | undefined
  readonly #applyRules: (ofFile: readonly RuleOptions[]) => void

  constructor(options: ThrottleConfig, context: ProcessorContext, { share, file, inEventTime }: ThrottleParts = {}) {
    const { clock } = context
    this.#clock = clock
    this.#options = options
    const inherited = context.inherited instanceof ThrottleState ? context.inherited : undefined
    // Readers of the fields that the line scanner finds. If only a later version of the limits file names a field, the
    // scanner does not find this field.
    const known = new Map<string, FieldReader>()
    const field = (path: FieldPath) => {
      const reader = context.field(path)
      known.set(path.text, reader)
      return reader
    }
    const persists = options.persist && context.state !== undefined
    const isLocal = !share && !options.time_field
    const maxCreditMs = isLocal ? (creditMs(options) ?? (persists ? 0 : undefined)) : undefined
    const compiled = { ...deciderOptions(options, { field }, file?.rules), persists, maxCreditMs }
    const windows = inherited?.windows
    this.#cluster = share?.(compiled, windows)
    if (!share) {
      const { eventTime } = compiled
      this.#local = eventTime
        ? inEventTime!.createEventDecider(compiled, eventTime, clock, windows)
        : createClockDecider(compiled, clock, windows)
      const { limiter } = this.#local
      this.#persisted = { limiter, rules: compiled.rules ?? [], isInherited: inherited !== undefined }
    }
    const decider = this.#decider
    this.#file = file
    this.#applyRules = ofFile => {
      const rules = rulesOf(options, ofFile, path => known.get(path.text) ?? new LateFieldReader(path))
      if (this.#cluster) this.#cluster.setRules(rules)
      else this.#local!.setRules(rules)
      this.#waiting?.setRules(rules)
      this.#rules = rules
      this.#saver?.rulesChanged()
    }
    this.#refusal = (batch, i) => decider.refusal(batch, i)
    this.#keyFields = compiled.keyFields
    this.#key = new EventKey(compiled.keyFields)
    this.#missingKey = new MissingKey(compiled.keyFields)
    this.#log = context.log
    this.#reports = new LogLimit(clock)
    this.#onMaxKeys = compiled.onMaxKeys
    this.#rules = compiled.rules
    const metrics = metricsIn(options.mode, context.metrics)
    const count = (decision: string) => metrics.counter(DECIDED, DECISIONS_HELP, { decision })
    this.#passed = count('passed')
    this.#excluded = count('excluded')
    // In shadow mode, nothing is limited. With a cluster limit, events also pass while its server does not reply.
    const isLimiting = options.mode === 'enforce' && !this.#cluster
    this.#failOpen = countFailOpen(metrics, () => isLimiting && decider.buckets >= compiled.maxKeys)
    if (!options.time_field && options.on_backlog === 'pass') this.#passedBacklog = count('backlog')
    this.#refused = new RefusedEvents(options, compiled, { ...context, metrics }, inherited?.refused)
    describeLosses(context.metrics)
    if (file) showLimitsFile(metrics, file)
    metrics.fact({
      name: 'sluice_throttle_keyless_events',
      help: 'Events without the key, as long as no event has had the key; they share one bucket. Otherwise 0.',
      read: () => this.#missingKey.events,
      problem: above0(
        'limits',
        events => `not one of ${counted(events, 'event')} had the key, so all share one bucket and its limit`,
        'Correct key_field, or decode of the source; `sluice tap` shows the fields of the events.',
      ),
    })
    const { wall, inEventTime: timed } = this.#local ?? {}
    if (!timed && everWaits(options)) this.#waiting = new Pacing(options, decider, compiled, clock, inherited?.late)
    if (wall) {
      const all = () => [...compiled.limits, ...(this.#rules ?? []).flatMap(({ limits }) => limits)]
      this.#reportQuotas = reportQuotasAhead(wall, all, clock, metrics, context.log)
    }
    this.#countDropped = showBuckets(metrics, decider, compiled.maxKeys)
    const tools = { log: context.log, reports: this.#reports, key: this.#key }
    if (timed) this.#countInEventTime = inEventTime!.countInEventTime(this.#local!, options, metrics, tools)
  }

  get #decider(): Decider | ClusterDecider {
    return this.#local ?? this.#cluster!.decider
  }

  /** Opens the saver of the buckets. Call before the first event. */
  async persist(open: (persisted: Persisted) => Promise<StateSaver>): Promise<void> {
    this.#saver = await open(this.#persisted!)
  }

  async start(): Promise<void> {
    this.#file?.watch(this.#applyRules)
    await this.#cluster?.start()
  }

  async stop(): Promise<void> {
    this.#file?.stop()
    if (!this.#isSucceeded) this.#refused.end()
    await this.#cluster?.stop()
    await this.#saver?.end()
  }

  get isWaiting(): boolean {
    return this.#cluster?.isWaiting ?? false
  }

  get outage(): ProcessorOutage | undefined {
    return this.#cluster?.outage
  }

  handOver(): HandoverState {
    const refused = this.#refused
    this.#isSucceeded = true
    const { value, release } = this.#cluster?.handOver() ?? { value: this.#decider.limiter }
    const releaseAll = async () => {
      refused.end()
      await release?.()
    }
    return { value: new ThrottleState(value, refused.state, this.#waiting?.state), release: releaseAll }
  }

  emit(): readonly Emitted[] {
    return this.#refused.emit()
  }

  watchKeys(): KeyWatch {
    const keys = new BusiestKeys(this.#keyFields, this.#clock, this.#stands)
    const stop = this.watchDecisions((batch, decisions) => keys.see(batch, decisions))
    return {
      end: most => {
        stop()
        this.#stands = keys.stands
        const { exact, keys: busiest } = keys.busiest(most)
        const bucket = ({ key }: KeyCount) => (keys.isName(key) ? undefined : this.bucket(key))
        return { exact, keys: busiest.map(count => ({ ...count, bucket: bucket(count) })) }
      },
    }
  }

  watchDecisions(see: SeeDecisions): () => void {
    this.#observers.add(see)
    return () => this.#observers.delete(see)
  }

  get decided(): number {
    return this.#passed.value + this.#excluded.value + this.#failOpen.value + this.#refused.decided
  }

  bucketOf(batch: EventBatch, i: number): EventBucket {
    this.#key.load(batch, i)
    const rule = this.#decider.ruleOf(batch, i)
    return { bucket: this.#key.name(), ...(rule && { rule: ruleTitle(rule.name) }) }
  }

  bucket(key: string | null, rule?: string | null): BucketState {
    const { history } = this.#refused
    const sharesDefault = this.#onMaxKeys === 'default_bucket'
    this.#local?.credit?.leave()
    const of = { decider: this.#decider, history, clock: this.#clock, rules: this.#rules, sharesDefault }
    const { outage } = this
    return { ...bucketState(of, key, rule), ...(outage && { outage }) }
  }

  level(key: Uint8Array | undefined, at: number): Level | undefined {
    const limiter = this.#local?.limiter
    return limiter?.level(key && hashedKey(key, limiter.seed), at, 1, 1)
  }

  waitsFor(events: Iterable<EventBatch>): WaitState {
    return waitingBuckets(this.#options, this.#keyFields, events)
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void | Promise<void> {
    if (batch.isBacklog && this.#passedBacklog) {
      this.#passedBacklog.value += batch.length
      return
    }
    const decided = this.#cluster?.decide(batch, scope.signal) ?? this.#local!.decide(batch)
    if (decided instanceof Promise) return decided.then(decided => this.#carryOut(batch, decided, to, scope))
    this.#carryOut(batch, decided, to, scope)
  }

  #carryOut(batch: EventBatch, decided: Decisions, to: Uint8Array, scope: BatchScope): void {
    const { counts, decisions } = decided
    this.#saver?.changed()
    if (this.#missingKey.see(batch, decisions)) this.#reportMissingKey()
    const waiting = this.#waiting?.apply(batch, decisions, counts[DISCARD]!, scope) ?? 0
    counts[DISCARD]! -= waiting
    if (this.#observers.size > 0)
      for (const see of this.#observers) see(batch, decisions, this.#keyFields, decided.keys, this.#local)
    this.#passed.value += counts[PASS]!
    this.#excluded.value += counts[EXCLUDED]!
    this.#failOpen.value += counts[FAIL_OPEN]!
    const beyondMaxKeys = counts[FAIL_OPEN]! + counts[FULL]!
    // In shadow mode, all events pass, so max_keys has no effect. With a cluster limit, the cause may be an unreachable
    // server, not max_keys. The cluster limit itself logs this.
    if (beyondMaxKeys > 0 && !this.#cluster && this.#options.mode === 'enforce') this.#reportMaxKeys()
    this.#countDropped()
    this.#countInEventTime?.(batch)
    this.#reportQuotas?.()
    const refused = counts[DISCARD]! + counts[FULL]! + counts[TOO_LATE]! + counts[NO_BACKEND]!
    if (refused + waiting > 0) this.#refused.carryOut(batch, decided, to, this.#refusal)
  }

  #reportMaxKeys(): void {
    if (!this.#reports.next('max_keys')) return
    const { max_keys, on_max_keys } = this.#options
    const what = on_max_keys === 'pass' ? 'pass without a limit' : 'are discarded'
    const text = `${max_keys} keys are in use, as many as max_keys allows: events of other keys ${what}. Raise max_keys, or choose a key_field with fewer values; sluice top shows the busiest keys`
    this.#log.warn({ code: 'SLUICE_MAX_KEYS' }, text)
  }

  #reportMissingKey(): void {
    const key = this.#options.key_field.map(({ text }) => text).join(', ')
    const code = 'SLUICE_KEY_MISSING'
    const { events } = this.#missingKey
    const text = `not one of the first ${counted(events, 'event')} has the key ${key}: all share one bucket and its limit. Correct key_field, or how the events are decoded; sluice tap shows their fields`
    this.#log.warn({ code }, text)
  }
}
