import type { ThrottleConfig } from '../../../components/processors/throttle/options.js'
import type { BucketState, KeyedProcessor, SeeDecisions } from '../../../components/throttle/keyed-processor.js'
import { compileCondition } from '../../../core/condition/condition.js'
import { conditionText } from '../../../core/condition/condition-text.js'
import { LateFieldReader } from '../../../core/event/field-reader.js'
import type { TimerClock } from '../../../lib/time.js'
import type { Turn } from './budget.js'
import { type Counted, REST, RecentKeyCounts } from './key-counts.js'
import type { Asked, Question } from './question.js'
import { QuestionError } from './question-error.js'
import { type KeyOutcome, replay, type WhatIfOutcome } from './what-if.js'

/** Values of `busy` in KeyCountsOptions: first for counting by the throttle's key, then for counting by another key. */
const BUSY = 20_000
const BUSY_TRIAL = 2000
/** Counting by another key ends this many milliseconds after the last question about that key. */
const TRIAL_MS = 60_000
const MOST_TRIALS = 4
/** All trials of a throttle together use 1/TRIALS_PART of the throttle's memory. */
const TRIALS_PART = 8
/** If no event of a bucket was discarded for this many milliseconds, the bucket is within its limit again. */
const CALM_MS = 60_000
/** The history of a bucket has HISTORY steps, each HISTORY_MS long. */
const HISTORY_MS = 10_000
const HISTORY = 60

/** How events are counted by the throttle's key. Times are ISO 8601. */
export interface CountedBy {
  readonly from: string
  readonly step_ms: number
  readonly exact: boolean
  readonly keys: number
  readonly most_keys: number
  /** How events are counted, in words: all events or a sample, and in which steps. */
  readonly of: string
}

export interface KeyEvents {
  readonly passed: number
  readonly discarded: number
}

export interface WantedKeys {
  readonly most: number
  /** Only buckets whose names contain all of these words. */
  readonly words?: string | undefined
  /** Null: the default bucket. */
  readonly keys?: readonly (string | null)[] | undefined
}

export interface ThrottleKey {
  readonly key: string | null
  /** Events per second, averaged over the last minute, or over the time since when events are counted if that is less. */
  readonly passed: number
  readonly discarded: number
  /** Numbers of events, which are estimates unless `counted.exact`. */
  readonly last_minute: KeyEvents
  readonly ten_minutes: KeyEvents
  readonly used?: number
  readonly limit?: number
  readonly window_ms?: number
  readonly rule?: string
  /** At least 1: in the last minute, the events reached the limit; the throttle then discards the rest of them. */
  readonly pressure: number
  /** When the bucket began to discard events; null: it does not discard now. */
  readonly since: string | null
  readonly history: { readonly passed: number[]; readonly discarded: number[] }
}

export interface ThrottleView {
  readonly key_field: string[]
  readonly limits: { limit: number; unit: string; window_ms: number; mode: string }[]
  readonly rules: number
  readonly max_keys: number
  /** The interval of summary events, if they go to the main output. */
  readonly summary_ms?: number
  readonly keys: ThrottleKey[]
  /** `searched`: number of buckets with events in the last ten minutes; `found`: how many of them match the filter. */
  readonly searched: number
  readonly found: number
  /** If the filter is the name of a bucket whose events have no counts of their own: the state of this bucket. */
  readonly uncounted?: Omit<BucketState, 'outage'> & { readonly key: string }
  readonly counted: CountedBy
}

type FoundKeys = Pick<ThrottleView, 'keys' | 'searched' | 'found' | 'uncounted'>

export interface WhatIf {
  readonly from: string
  readonly to: string
  readonly events: number
  readonly exact: boolean
  readonly why_not_exact?: string
  readonly was: { readonly passed: number; readonly discarded: number }
  readonly would: { readonly passed: number; readonly discarded: number }
  readonly curve: WhatIfOutcome['curve']
  readonly keys: readonly KeyOutcome[]
  readonly keys_count: number
  readonly yaml: string
  /** When counting by another key began. */
  readonly since?: string
}

/** Counts by a key other than the throttle's. */
interface Trial {
  readonly counts: RecentKeyCounts
  askedAt: number
  since: number
}

const sum = (values: Float64Array) => values.reduce((all, n) => all + n, 0)

/** The name of the bucket without a key, as the page shows it. */
const DEFAULT_NAME = '(default bucket)'

function testOf({ words = '', keys }: WantedKeys): (key: string | null) => boolean {
  const parts = words.toLowerCase().split(/\s+/)
  return key => {
    const name = (key ?? DEFAULT_NAME).toLowerCase()
    return (keys === undefined || keys.includes(key)) && parts.every(part => name.includes(part))
  }
}

const iso = (wall: number) => new Date(wall).toISOString()

/** The page's data about one throttle. The data stays when a reload replaces the throttle. */
export class ThrottleWatch {
  readonly #clock: TimerClock
  #bytes: number
  #counts: RecentKeyCounts
  #options: ThrottleConfig
  #processor: KeyedProcessor
  #stop: (() => void) | undefined
  readonly #trials = new Map<string, Trial>()

  constructor(options: ThrottleConfig, processor: KeyedProcessor, bytes: number, clock: TimerClock) {
    this.#clock = clock
    this.#bytes = bytes
    this.#options = options
    this.#processor = processor
    this.#counts = this.#newCounts()
    this.#attach()
  }

  #newCounts(): RecentKeyCounts {
    const bytes = this.#bytes - this.#trialBytes * MOST_TRIALS
    const level: KeyedProcessor['level'] = (key, at) => this.#processor.level(key, at)
    return new RecentKeyCounts({ bytes, busy: BUSY, decided: this.#decided, clock: this.#clock, level })
  }

  get #trialBytes(): number {
    return Math.floor(this.#bytes / TRIALS_PART / MOST_TRIALS)
  }

  readonly #decided = () => this.#processor.decided

  readonly #see: SeeDecisions = (batch, decisions, key, buckets, decider) => {
    this.#counts.see(batch, decisions, key, buckets, decider)
    for (const { counts } of this.#trials.values()) counts.see(batch, decisions, key, undefined, decider)
    this.#endTrials()
    const { pauseMs } = this.#counts
    if (pauseMs === 0) return
    this.#stop?.()
    this.#stop = this.#clock.after(pauseMs, () => this.#attach())
  }

  #attach(): void {
    this.#stop = this.#processor.watchDecisions(this.#see)
  }

  /** Continues, after a reload, with the new throttle of the same id. */
  follow(options: ThrottleConfig, processor: KeyedProcessor, bytes: number): void {
    const isOther = whatIsCounted(options) !== whatIsCounted(this.#options)
    if (limitsText(options) !== limitsText(this.#options)) this.#counts.begin()
    this.#options = options
    this.#bytes = bytes
    if (isOther) this.#counts = this.#newCounts()
    else this.#counts.bytes = bytes - this.#trialBytes * MOST_TRIALS
    for (const { counts } of this.#trials.values()) counts.bytes = this.#trialBytes
    if (processor === this.#processor) return
    this.#stop?.()
    this.#processor = processor
    this.#attach()
  }

  stop(): void {
    this.#stop?.()
    this.#trials.clear()
  }

  get used(): number {
    return [...this.#trials.values()].reduce((sum, { counts }) => sum + counts.used, this.#counts.used)
  }

  #endTrials(): void {
    const now = this.#clock.now()
    for (const [name, { askedAt }] of this.#trials) if (now - askedAt > TRIAL_MS) this.#trials.delete(name)
  }

  /** The wanted buckets, those with the highest pressure first. */
  async view(wanted: WantedKeys, turn: Turn): Promise<ThrottleView> {
    const { limitsOf } = await import('../../../components/processors/throttle/options.js')
    const { key_field, max_keys, limits: rules = [], summary } = this.#options
    const limits = limitsOf(this.#options)
    const counted = this.#counts.counted()
    return {
      key_field: key_field.map(({ text }) => text),
      limits: limits.map(({ limit, unit, windowMs, mode }) => ({ limit, unit, window_ms: windowMs, mode })),
      rules: rules.length,
      max_keys,
      ...(summary && summary.to !== 'discarded' && { summary_ms: summary.every }),
      ...(await this.#keys(wanted, turn)),
      counted: countedBy(counted, this.#counts.wallOffsetMs),
    }
  }

  async #keys(wanted: WantedKeys, turn: Turn): Promise<FoundKeys> {
    const { ring, size } = this.#counts
    const now = this.#clock.now()
    const offsetMs = this.#clock.wall() - now
    /** The part of the last minute in which events were counted. A second at least, so that rates do not jump. */
    const countedMs = Math.min(60_000, Math.max(1000, now - this.#counts.counted().from))
    const start = now - HISTORY * HISTORY_MS
    const passed = new Float64Array(size * HISTORY)
    const discarded = new Float64Array(size * HISTORY)
    const minute = { passed: new Float64Array(size), discarded: new Float64Array(size) }
    const since = new Float64Array(size)
    const lastAt = new Float64Array(size).fill(Number.NEGATIVE_INFINITY)
    const isRead = await ring.readInTurns((at, key, offered, some) => {
      const lost = offered - some
      const step = Math.min(HISTORY - 1, Math.max(0, Math.floor((at - start) / HISTORY_MS)))
      passed[key * HISTORY + step]! += some
      discarded[key * HISTORY + step]! += lost
      if (at >= now - 60_000) {
        minute.passed[key]! += some
        minute.discarded[key]! += lost
      }
      if (lost === 0) return
      if (at - lastAt[key]! > CALM_MS) since[key] = at
      lastAt[key] = at
    }, turn)
    if (!isRead) return this.#keys(wanted, turn)
    // Keys may change during a turn.
    const names = Array.from(since.keys(), id => this.#counts.keyOf(id))
    const historyOf = (column: Float64Array, id: number) => column.subarray(id * HISTORY, (id + 1) * HISTORY)
    const found: { id: number; shown: Omit<ThrottleKey, 'history'> }[] = []
    const isWanted = testOf(wanted)
    const name = wanted.words?.trim() || (wanted.keys?.length === 1 && wanted.keys[0]) || undefined
    let isCounted = false
    let searched = 0
    for (let id = 0; id < size; id++) {
      await turn()
      const named = names[id]
      const isThere = [passed, discarded].some(column => historyOf(column, id).some(n => n > 0))
      if (id === REST || !named || !isThere) continue
      searched++
      isCounted ||= named.key === name
      if (!isWanted(named.key)) continue
      const state = named.isName ? undefined : this.#processor.bucket(named.key)
      const { limit, window_ms, used, rule } = state ?? {}
      const offered = (minute.passed[id]! + minute.discarded[id]!) / 60_000
      // For a window longer than a minute, only the events of one minute are used.
      const parts = limit === undefined ? [] : [(used ?? 0) / limit, (offered * Math.min(window_ms!, 60_000)) / limit]
      // A burst of less than a window reaches the limit, too.
      if (minute.discarded[id]! > 0) parts.push(1)
      const shown = {
        key: named.key,
        passed: (minute.passed[id]! * 1000) / countedMs,
        discarded: (minute.discarded[id]! * 1000) / countedMs,
        last_minute: { passed: minute.passed[id]!, discarded: minute.discarded[id]! },
        ten_minutes: { passed: sum(historyOf(passed, id)), discarded: sum(historyOf(discarded, id)) },
        ...(limit !== undefined && { used: used ?? 0, limit, window_ms: window_ms! }),
        ...(rule !== undefined && { rule }),
        pressure: Math.max(0, ...parts),
        since: now - lastAt[id]! <= CALM_MS ? iso(since[id]! + offsetMs) : null,
      }
      found.push({ id, shown })
    }
    const rate = ({ shown: { passed, discarded } }: (typeof found)[number]) => passed + discarded
    found.sort((a, b) => b.shown.pressure - a.shown.pressure || rate(b) - rate(a))
    const keys: ThrottleKey[] = []
    for (const { id, shown } of found.slice(0, wanted.most)) {
      await turn()
      const history = { passed: [...historyOf(passed, id)], discarded: [...historyOf(discarded, id)] }
      keys.push({ ...shown, history })
    }
    const uncounted = name === undefined || isCounted ? undefined : this.#uncounted(name, found.length === 0)
    return { keys, searched, found: found.length, ...(uncounted && { uncounted }) }
  }

  /** Undefined if nothing is known about the bucket. `isOnly`: whether the view has no other bucket. */
  #uncounted(key: string, isOnly: boolean): ThrottleView['uncounted'] {
    if (this.#options.key_field.length === 0) return undefined
    const state = this.#processor.bucket(key)
    if (!state || !(isOnly || state.used || state.discarded_last_hour)) return undefined
    // The reason of an outage may quote the server.
    const { outage: _, ...known } = state
    return { key, ...known }
  }

  /** Computes which events would pass with other options. Throws QuestionError. */
  async whatIf(asked: Asked, turn: Turn): Promise<WhatIf> {
    // Loaded on demand, because loading takes long.
    const { inexactness, questionOf } = await import('./question.js')
    const question = questionOf(this.#options, asked)
    const trial = question.key && this.#trial(question)
    const counts = trial?.counts ?? this.#counts
    const outcome = await replay(counts, question, this.#clock.now(), turn)
    const why = inexactness(this.#options, question, counts.counted(), outcome)
    const { from, to, offered, was, would, curve, keys, keysCount } = outcome
    return {
      from: iso(from),
      to: iso(to),
      events: offered,
      exact: why.length === 0,
      ...(why.length > 0 && { why_not_exact: why.join('; ') }),
      was: { passed: was, discarded: offered - was },
      would: { passed: would, discarded: offered - would },
      curve,
      keys,
      keys_count: keysCount,
      yaml: question.yaml,
      ...(trial && { since: iso(trial.since) }),
    }
  }

  /** Returns the counts by another key. Counting begins with the first question about this key. */
  #trial({ key = [], exclude }: Question): Trial {
    this.#endTrials()
    const name = JSON.stringify([key.map(({ text }) => text), exclude && conditionText(exclude)])
    let trial = this.#trials.get(name)
    if (!trial) {
      if (this.#trials.size >= MOST_TRIALS) {
        const text = `${MOST_TRIALS} other keys are being counted already; Sluice stops counting a key if nobody asks about it for a minute`
        throw new QuestionError(text)
      }
      const counts = new RecentKeyCounts({
        bytes: this.#trialBytes,
        busy: BUSY_TRIAL,
        decided: this.#decided,
        clock: this.#clock,
        key: key.map(path => new LateFieldReader(path)),
        ...(exclude && { exclude: compileCondition(exclude, path => new LateFieldReader(path)) }),
      })
      trial = { counts, askedAt: 0, since: this.#clock.wall() }
      this.#trials.set(name, trial)
    }
    trial.askedAt = this.#clock.now()
    return trial
  }
}

/** The options that decide which events are counted, and by which key. */
const whatIsCounted = ({ key_field, exclude }: ThrottleConfig) =>
  JSON.stringify([key_field.map(({ text }) => text), exclude && conditionText(exclude)])

const limitsText = ({ limit, limit_bytes, window, window_mode, burst, also, quota, cost }: ThrottleConfig) =>
  JSON.stringify([limit, limit_bytes, window, window_mode, burst, also, quota, cost?.text])

function countedBy({ from, stepMs, oneIn, hasRest, keys, mostKeys }: Counted, offsetMs: number): CountedBy {
  const sample = oneIn > 1 ? `one event in ${oneIn}` : 'every event'
  const which = hasRest ? `, the ${mostKeys} busiest keys separately` : ''
  return {
    from: iso(from + offsetMs),
    step_ms: stepMs,
    exact: oneIn === 1 && stepMs === 1 && !hasRest,
    keys,
    most_keys: mostKeys,
    of: `${sample}, in steps of ${stepMs} ms${which}`,
  }
}
