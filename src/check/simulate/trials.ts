import type { EventBatch } from '../../core/event/batch.js'
import type { FieldPath } from '../../core/event/field-path.js'
import { type FieldReader, NUMBER } from '../../core/event/field-reader.js'
import { printableJson } from '../../lib/printable.js'
import { limitsOf } from '../../processors/throttle/limit-options.js'
import { deciderOptions, type ThrottleOptions } from '../../processors/throttle/options.js'
import { BucketKey } from '../../throttle/bucket-key.js'
import { EXEMPT } from '../../throttle/ranked-decider.js'
import { DEFAULT_BUCKET, KeyIds } from './key-ids.js'
import type { Visitor } from './replay.js'
import type { TimeSlots } from './slots.js'
import type { TrialDecider } from './trial-decider.js'
import { createTrialDecider, isRankable, isShareable } from './trial-deciders.js'
import { TrialTally, tallyWidth } from './trial-tally.js'

export interface FieldContext {
  field(path: FieldPath): FieldReader
}

/** Numbers that the tallies of one key may have together (48 MB). */
const MOST_NUMBERS = 6_000_000
const MOST_KEYS = 250_000

/** Trials that are decided together: they differ in their limits alone. */
interface Group {
  readonly decider: TrialDecider
  readonly tally: TrialTally
}

/** Groups with the same key, which is read once for all of them. */
interface SameKey {
  readonly key: BucketKey
  readonly ids: KeyIds
  readonly groups: readonly Group[]
}

/** The place of one trial. */
export interface Trial {
  readonly options: ThrottleOptions
  readonly ids: KeyIds
  readonly decider: TrialDecider
  readonly tally: TrialTally
  /** Its index in the tally. */
  readonly index: number
}

export interface TrialsOptions {
  readonly wantsDecisions?: boolean
  /** Whether trials share buckets where that makes no difference before there are more than `max_keys`. */
  readonly sharesBuckets?: boolean
}

/** Tries several throttles on the same events, in one pass. */
export class Trials implements Visitor {
  /** In the order in which they were given. */
  readonly all: readonly Trial[]
  /** The decisions of the first trial as JSON lines, if they are wanted. */
  decisions = ''
  /** Events whose cost is no number, or a negative one. */
  costless = 0
  readonly #cost: FieldReader | undefined
  readonly #keys: readonly SameKey[]
  readonly #wantsDecisions: boolean

  constructor(
    all: readonly ThrottleOptions[],
    context: FieldContext,
    slots: TimeSlots,
    { wantsDecisions = false, sharesBuckets = true }: TrialsOptions = {},
  ) {
    this.#wantsDecisions = wantsDecisions
    const [{ cost }] = all as [ThrottleOptions]
    this.#cost = cost && context.field(cost)
    const areTogether = sharesBuckets ? isShareable : isRankable
    const places = new Map<ThrottleOptions, Omit<Trial, 'options'>>()
    this.#keys = grouped(all, keyOf).map(sameKey => {
      const key = new BucketKey(deciderOptions(sameKey[0]!, context, 0).keyFields)
      const groups = grouped(sameKey, options => (areTogether(options) ? options.window : options))
      const width = groups.reduce((sum, group) => sum + tallyWidth(group.length), 0)
      const ids = new KeyIds(key, Math.min(MOST_KEYS, Math.floor(MOST_NUMBERS / width)))
      return {
        key,
        ids,
        groups: groups.map(group => {
          const ascending = [...group].sort(byLimit)
          const { windowMs, mode } = limitsOf(ascending[0]!)[0]!
          const aligned = mode === 'aligned'
          const tally = new TrialTally({ ids, slots, trials: group.length, windowMs, aligned })
          const decider = createTrialDecider(ascending, context)
          for (const [index, options] of ascending.entries()) places.set(options, { ids, decider, tally, index })
          return { decider, tally }
        }),
      }
    })
    this.all = all.map(options => ({ options, ...places.get(options)! }))
  }

  /** Whether each trial with a key has found it in an event. */
  get foundKeys(): boolean {
    return this.#keys.every(({ ids }) => !ids.hasNone)
  }

  /** Whether trials that share buckets had no room for more: each alone would have had its own. */
  get lackedRoom(): boolean {
    return this.all.some(
      ({ decider: { outcome, failedOpen, refused }, options: { on_max_keys, max_keys }, ids }) =>
        outcome !== undefined &&
        (failedOpen > 0 || refused > 0 || (on_max_keys === 'default_bucket' && ids.size > max_keys)),
    )
  }

  takeDecisions(): string {
    const { decisions } = this
    this.decisions = ''
    return decisions
  }

  enter(batch: EventBatch): void {
    for (const { groups } of this.#keys) for (const { decider } of groups) decider.enter(batch)
  }

  visit(batch: EventBatch, i: number, now: number, slot: number, n: number): void {
    const bytes = batch.size(i)
    const cost = this.#cost
    if (cost !== undefined && !(cost.load(batch, i) === NUMBER && cost.number() >= 0)) this.costless++
    for (const { ids, groups } of this.#keys) {
      const id = ids.id(batch, i)
      for (const { decider, tally } of groups) {
        const lost = decider.lost(batch, i, now)
        if (lost === EXEMPT) tally.addExcluded(id, bytes, slot)
        else {
          const bucket = decider.byDefault ? DEFAULT_BUCKET : id
          tally.add(bucket, lost, bytes, now, slot)
          if (decider.outcome !== undefined) tally.addFurther(bucket, decider.outcome, lost, bytes, slot)
        }
        if (this.#wantsDecisions) this.#write(n, lost, decider.byDefault ? DEFAULT_BUCKET : id)
      }
    }
  }

  #write(n: number, lost: number, id: number): void {
    const decision = lost === EXEMPT ? 'excluded' : lost === 0 ? 'pass' : 'discard'
    const bucket = id === DEFAULT_BUCKET ? 'null' : printableJson(JSON.stringify(this.#keys[0]!.key.text()))
    this.decisions += `{"n":${n},"decision":"${decision}","bucket":${bucket}}\n`
  }
}

function byLimit(a: ThrottleOptions, b: ThrottleOptions): number {
  const { limit: first = 0, limit_bytes: firstBytes = 0 } = a
  const { limit: second = 0, limit_bytes: secondBytes = 0 } = b
  return first - second || firstBytes - secondBytes
}

/** The items in groups of the same key, in the order of their first item. */
function grouped<T>(items: readonly T[], keyOf: (item: T) => unknown): T[][] {
  const groups = new Map<unknown, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return [...groups.values()]
}

function keyOf({ key_field }: ThrottleOptions): string {
  return JSON.stringify(key_field.map(({ text }) => text))
}
