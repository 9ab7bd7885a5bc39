import { limitsOf, type ThrottleConfig } from '../components/processors/throttle/options.js'
import { DISCARD, EXCLUDED } from '../components/throttle/decisions.js'
import type { EventBatch } from '../core/event/batch.js'
import { type FieldReader, NUMBER } from '../core/event/field-reader.js'
import { printableJson } from '../lib/printable.js'
import { DEFAULT_BUCKET, KeyIds } from './key-ids.js'
import type { Visitor } from './replay.js'
import type { TimeSlots } from './slots.js'
import { TALLY_WIDTH, TrialTally } from './tally.js'
import type { FieldContext } from './trial.js'
import { createTrialDecider, SharedKey, type SimulatedLag, type TrialDecider } from './trial.js'

/** Maximum count of numbers in all tallies together (80 MB). */
const MOST_NUMBERS = 10_000_000
const MOST_KEYS = 250_000

export interface Trial {
  readonly options: ThrottleConfig
  readonly ids: KeyIds
  readonly decider: TrialDecider
  readonly tally: TrialTally
}

interface TrialsOptions {
  readonly wantsDecisions?: boolean
  readonly isBacklog?: boolean
  readonly lag?: SimulatedLag | undefined
}

/** Tries several throttles on the same events, in one pass. */
export class Trials implements Visitor {
  readonly all: readonly Trial[]
  /** Decisions that `takeDecisions` has not returned yet, as JSON lines. Empty unless decisions are wanted. */
  decisions = ''
  /** Events whose cost is negative or not a number. */
  costless = 0
  readonly #cost: FieldReader | undefined
  /**
   * By the names of the key fields. Trials with the same key fields share one `SharedKey`, so the key of each event is
   * read only once.
   */
  readonly #keys = new Map<string, { readonly ids: KeyIds; readonly key: SharedKey; readonly trials: Trial[] }>()
  readonly #wantsDecisions: boolean
  readonly #isBacklog: boolean
  /** The time at which all backlog arrives. If undefined, the time of the first event. */
  #start: number | undefined

  constructor(
    all: readonly ThrottleConfig[],
    context: FieldContext,
    slots: TimeSlots,
    { wantsDecisions = false, isBacklog = false, lag }: TrialsOptions = {},
  ) {
    this.#wantsDecisions = wantsDecisions
    this.#isBacklog = isBacklog
    this.#start = lag?.until
    const [{ cost }] = all as [ThrottleConfig]
    this.#cost = cost && context.field(cost)
    const mostKeys = Math.min(MOST_KEYS, Math.floor(MOST_NUMBERS / TALLY_WIDTH / all.length))
    this.all = all.map(options => {
      const name = JSON.stringify(options.key_field.map(({ text }) => text))
      let known = this.#keys.get(name)
      if (!known) {
        const key = new SharedKey(options, context)
        known = { key, ids: new KeyIds(key, mostKeys), trials: [] }
        this.#keys.set(name, known)
      }
      const { ids, key, trials } = known
      const { windowMs, mode } = limitsOf(options)[0]!
      const tally = new TrialTally({ ids, slots, windowMs, aligned: mode === 'aligned', trials: all.length })
      const trial = { options, ids, tally, decider: createTrialDecider(options, context, isBacklog, key, lag) }
      trials.push(trial)
      return trial
    })
  }

  /** Whether each trial with key fields has found these fields in at least one event. */
  get foundKeys(): boolean {
    return this.all.every(({ ids }) => !ids.hasNone)
  }

  takeDecisions(): string {
    const { decisions } = this
    this.decisions = ''
    return decisions
  }

  enter(batch: EventBatch): void {
    for (const { decider } of this.all) decider.enter(batch)
  }

  visit(batch: EventBatch, i: number, now: number, slot: number, n: number): void {
    const bytes = batch.size(i)
    const at = this.#isBacklog ? (this.#start ??= now) : now
    const cost = this.#cost
    if (cost !== undefined && !(cost.load(batch, i) === NUMBER && cost.number() >= 0)) this.costless++
    for (const { ids, key, trials } of this.#keys.values()) {
      const id = ids.id(batch, i)
      for (const { decider, tally } of trials) {
        const outcome = decider.decide(batch, i, at)
        const bucket = decider.byDefault ? DEFAULT_BUCKET : id
        tally.add(bucket, outcome, bytes, now, slot)
        if (this.#wantsDecisions) this.#write(n, outcome, bucket === DEFAULT_BUCKET ? null : key.text())
      }
    }
  }

  #write(n: number, outcome: number, bucket: string | null): void {
    const decision = outcome === EXCLUDED ? 'excluded' : outcome === DISCARD ? 'discard' : 'pass'
    this.decisions += `{"n":${n},"decision":"${decision}","bucket":${printableJson(JSON.stringify(bucket))}}\n`
  }
}
