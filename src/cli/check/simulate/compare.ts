import { deciderOptions } from '../../../components/processors/throttle/decider-options.js'
import type { ThrottleOptions } from '../../../components/processors/throttle/options.js'
import { BucketKey } from '../../../components/throttle/buckets/bucket-key.js'
import { DISCARD } from '../../../components/throttle/decisions.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldPath } from '../../../core/event/field-path.js'
import type { Origin } from '../../../core/event/origin.js'
import { UsageError } from '../../../daemon/process/command-line.js'
import type { Frame } from '../../../lib/lines/line-splitter.js'
import { formatSize } from '../../../lib/units.js'
import { grown, KeyIds, OTHERS } from './key-ids.js'
import { Replay, Twice, type Visitor } from './replay.js'
import type { Route } from './subject.js'
import { type SummaryStyle, tableLines } from './summary.js'
import { createTrialDecider, type TrialDecider } from './trial.js'
import type { FieldContext } from './trials.js'
import { keyName, number, percent } from './words.js'

/** Events and bytes that pass only one of two throttles. */
export interface Difference {
  readonly only_this: number
  readonly only_this_bytes: number
  readonly only_other: number
  readonly only_other_bytes: number
}

interface Side {
  readonly options: ThrottleOptions
  readonly route: Route
}

const MOST_KEYS = 250_000
/** Columns for each key: the four numbers of `Difference`. */
const WIDTH = 4
const THIS = 0
const OTHER = 2

/** Counts how often each event of a frame passes a throttle. */
class Passes implements Visitor {
  counts = new Uint8Array(1024)
  /** For each event of the frame: the batch in which it reached the throttle. `indices`: its index in this batch. */
  batches: (EventBatch | undefined)[] = []
  indices = new Int32Array(1024)
  /** How many events were read before the frame. */
  #first = 0
  readonly ids: KeyIds
  readonly #decider: TrialDecider

  constructor(options: ThrottleOptions, context: FieldContext) {
    this.#decider = createTrialDecider(options, context)
    this.ids = new KeyIds(new BucketKey(deciderOptions(options, context).keyFields), MOST_KEYS)
  }

  /** Prepares for a frame of `length` events. `first`: number of events read before the frame. */
  begin(length: number, first: number): void {
    this.#first = first
    this.batches = new Array(length)
    if (this.counts.length < length) {
      this.counts = new Uint8Array(length * 2)
      this.indices = new Int32Array(length * 2)
    }
    this.counts.fill(0)
  }

  enter(batch: EventBatch): void {
    this.#decider.enter(batch)
  }

  visit(batch: EventBatch, i: number, now: number, _slot: number, n: number): void {
    this.batches[n - this.#first] = batch
    this.indices[n - this.#first] = i
    if (this.#decider.decide(batch, i, now) !== DISCARD) this.counts[n - this.#first]!++
  }
}

/** Replays the same events through two throttles. Counts the differences by the bucket key of the first throttle. */
export class Comparison extends Twice<Passes> {
  readonly #otherRoute: Route
  #columns = new Float64Array(WIDTH * 64)
  /** Number of events that pass the first throttle. `otherPassed`: events that pass the second throttle. */
  passed = 0
  otherPassed = 0

  constructor(time: FieldPath | 'auto', one: Side, other: Side) {
    const replayOf = ({ route, options }: Side) => new Replay(time, route, context => new Passes(options, context))
    super(replayOf(one), replayOf(other))
    this.#otherRoute = other.route
  }

  /**
   * In the other configuration, the events enter at the source with the same id. If there is no source with this id,
   * they enter at the only source.
   */
  override enter(origin: Omit<Origin, 'wanted'>, receivedAt: number): void {
    const { sources, throttle } = this.#otherRoute
    const source = sources.find(({ id }) => id === origin.source) ?? (sources.length === 1 ? sources[0] : undefined)
    if (!source) {
      const ids = sources.map(({ id }) => id).join(', ')
      throw new UsageError(
        `--compare: in that configuration, ${throttle} reads ${ids} instead of the source ${origin.source}`,
        'simulate',
      )
    }
    this.one.enter(origin, receivedAt)
    this.other.enter({ ...origin, source: source.id }, receivedAt)
  }

  override async replay(frame: Frame): Promise<void> {
    const { one, other } = this
    for (const { visitor, read } of [one, other]) visitor.begin(frame.length, read)
    await super.replay(frame)
    for (let i = 0; i < frame.length; i++) {
      const [passes, otherPasses] = [one.visitor.counts[i]!, other.visitor.counts[i]!]
      this.passed += passes
      this.otherPassed += otherPasses
      if (passes === otherPasses) continue
      const { batches, indices, ids } = one.visitor
      const id = batches[i] ? ids.id(batches[i]!, indices[i]!) : ids.id(one.batch!, i)
      const at = id * WIDTH + (passes > otherPasses ? THIS : OTHER)
      if (at >= this.#columns.length) this.#columns = grown(this.#columns, (id + 1) * WIDTH)
      const times = Math.abs(passes - otherPasses)
      this.#columns[at]! += times
      this.#columns[at + 1]! += times * one.batch!.size(i)
    }
  }

  /**
   * The `most` keys with the largest differences, and the exact sum of the others. `others`: null if no others differ.
   */
  byKey(most: number): {
    readonly total: Difference
    readonly by_key: readonly (Difference & { readonly key: string | null })[]
    readonly others: Difference | null
  } {
    const ids = Array.from({ length: this.#columns.length / WIDTH }, (_, id) => id)
    const size = (id: number) => this.#columns[id * WIDTH + THIS]! + this.#columns[id * WIDTH + OTHER]!
    const differing = ids.filter(id => id !== OTHERS && size(id) > 0).sort((a, b) => size(b) - size(a) || a - b)
    const rest = [...differing.slice(most), ...(size(OTHERS) > 0 ? [OTHERS] : [])]
    return {
      total: this.#sum(ids),
      by_key: differing.slice(0, most).map(id => ({ key: this.one.visitor.ids.text(id), ...this.#sum([id]) })),
      others: rest.length > 0 ? this.#sum(rest) : null,
    }
  }

  #sum(ids: readonly number[]): Difference {
    const column = (n: number) => ids.reduce((sum, id) => sum + this.#columns[id * WIDTH + n]!, 0)
    return {
      only_this: column(THIS),
      only_this_bytes: column(THIS + 1),
      only_other: column(OTHER),
      only_other_bytes: column(OTHER + 1),
    }
  }
}

export interface ComparisonResult {
  readonly component: string
  readonly config: string
  readonly other: string
  readonly complete: boolean
  /** Events that the sources read. */
  readonly events: number
  /** Events that pass each throttle, including excluded events. */
  readonly passed: { readonly this: number; readonly other: number }
  readonly total: Difference
  readonly by_key: readonly (Difference & { readonly key: string | null })[]
  readonly others: Difference | null
}

/** Maximum keys in the result. SHOWN_KEYS: in the result's text. */
const REPORTED_KEYS = 1000
const SHOWN_KEYS = 20

export function comparisonResult(
  comparison: Comparison,
  about: Pick<ComparisonResult, 'component' | 'config' | 'other' | 'complete'>,
): ComparisonResult {
  const { one, passed, otherPassed } = comparison
  return {
    ...about,
    events: one.read,
    passed: { this: passed, other: otherPassed },
    ...comparison.byKey(REPORTED_KEYS),
  }
}

export function comparisonText(result: ComparisonResult, style: SummaryStyle): string {
  const { component, config, other, complete, events, passed, total, by_key, others } = result
  const lines = [
    `compared   ${component} of ${config} and of ${other}`,
    ...(complete ? [] : ['note       interrupted before the end of the input']),
    '',
    `events     ${number(events)}`,
    `passed     ${number(passed.this)} (${percent(passed.this, events)}) here, ${number(passed.other)} (${percent(passed.other, events)}) there`,
    `only here  ${number(total.only_this)} (${formatSize(total.only_this_bytes)})`,
    `only there ${number(total.only_other)} (${formatSize(total.only_other_bytes)})`,
  ]
  if (by_key.length === 0) return `${[...lines, '', 'The same events pass.'].join('\n')}\n`
  const cells = (row: Difference) => [
    number(row.only_this),
    formatSize(row.only_this_bytes),
    number(row.only_other),
    formatSize(row.only_other_bytes),
  ]
  const rows = by_key.slice(0, SHOWN_KEYS).map(row => [keyName(row), ...cells(row)])
  const rest = [...by_key.slice(SHOWN_KEYS), ...(others ? [others] : [])]
  if (rest.length > 0) rows.push(['other keys', ...cells(rest.reduce(sumOf))])
  const titles = ['key', 'only here', 'size', 'only there', 'size']
  return `${[...lines, '', ...tableLines(titles, rows, style)].join('\n')}\n`
}

function sumOf(a: Difference, b: Difference): Difference {
  return {
    only_this: a.only_this + b.only_this,
    only_this_bytes: a.only_this_bytes + b.only_this_bytes,
    only_other: a.only_other + b.only_other,
    only_other_bytes: a.only_other_bytes + b.only_other_bytes,
  }
}
