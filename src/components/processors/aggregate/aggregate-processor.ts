import type { ComponentMetrics, HandoverState, Processor, ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Fields } from '../../../core/event/event-fields.js'
import { type BatchScope, CONSUMED, type EmitReason, type Emitted } from '../../../core/processor.js'
import { BucketKey } from '../../throttle/buckets/bucket-key.js'
import { OTHER_NAME } from '../../throttle/buckets/bucket-name.js'
import { IntervalCounts } from './interval-counts.js'
import { CounterMeasure, HistogramMeasure, type Measure, measuresOf } from './measures.js'
import type { AggregateOptions } from './options.js'

export class Aggregate implements Processor {
  readonly #every: number
  readonly #clock: ProcessorContext['clock']
  readonly #key: BucketKey
  readonly #measures: readonly Measure[]
  readonly #counted: IntervalCounts
  readonly #timeField: string | undefined

  constructor(options: AggregateOptions, context: ProcessorContext) {
    const { clock, metrics, inherited } = context
    this.#every = options.every
    this.#clock = clock
    this.#timeField = options.time_field?.segments[0]
    this.#measures = measuresOf(options, context)
    const width = this.#measures.reduce((sum, measure) => sum + measure.width, 1)
    this.#counted =
      inherited instanceof IntervalCounts ? inherited : new IntervalCounts(width, options.max_keys, clock.now())
    const fields = options.key_field.map(path => context.field(path))
    this.#key = new BucketKey(fields, this.#counted.seed)
    const series = this.#measures.reduce((sum, measure) => sum + measure.series, 0)
    this.#counted.showIn({
      take: () => metrics.takeSeries?.(series) ?? true,
      free: () => metrics.freeSeries?.(series),
    })
    for (const measure of this.#measures) this.#show(measure, metrics)
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    const counted = this.#counted
    const key = this.#key
    for (let i = 0; i < batch.length; i++) {
      to[i] = CONSUMED
      const row = key.load(batch, i) ? counted.rowOf(key) : counted.withoutKey
      counted.current[row]!++
      for (const measure of this.#measures) measure.add(batch, i, counted.current, row)
    }
    if (!scope.isOnce) counted.shares.push(scope.share())
  }

  emit(why: EmitReason): readonly Emitted[] {
    if (why === 'reload') return []
    const counted = this.#counted
    const now = this.#clock.now()
    const elapsedMs = Math.round(now - counted.since)
    // A timer is slightly late. But if the output was full, this interval was longer, and the next one is shorter.
    const isRegular = why === 'time' && Math.abs(elapsedMs - this.#every) < this.#every / 10
    const intervalMs = isRegular ? this.#every : elapsedMs
    const emitted: Emitted[] = []
    // All of these events are in one batch, so the first event can hold all shares.
    let shares = counted.shares
    for (const [key, row] of counted.keys(counted.current)) {
      const fields: Fields = { key: key === undefined ? OTHER_NAME : key, interval_ms: intervalMs }
      for (const measure of this.#measures) fields[measure.name] = measure.value(counted.current, row)
      if (this.#timeField !== undefined) fields[this.#timeField] = new Date(this.#clock.wall()).toISOString()
      emitted.push({ fields, shares })
      shares = []
    }
    counted.shares = []
    counted.next(now)
    return emitted
  }

  handOver(): HandoverState {
    return { value: this.#counted }
  }

  #show(measure: Measure, metrics: ComponentMetrics): void {
    const name = `sluice_aggregate_${measure.name}`
    if (measure instanceof CounterMeasure) {
      const help = 'A counter that an aggregate processor computes from events.'
      const read = () => this.#series((values, row) => [{ labels: {}, value: measure.total(values, row) }])
      metrics.counters(`${name}_total`, help, { key: OTHER_NAME }, read)
    }
    if (!(measure instanceof HistogramMeasure)) return
    const part = (suffix: string, help: string, of: Part) =>
      metrics.gauges(`${name}_${suffix}`, help, () => this.#series(of))
    part(
      'bucket',
      'Values up to each bound, in a histogram that an aggregate processor computes from events.',
      (values, row) => {
        const counts = measure.cumulative(values, row)
        return measure.bounds.map((le, n) => ({ labels: { le }, value: counts[n]! }))
      },
    )
    part('count', 'Number of values in the histogram.', (values, row) => {
      return [{ labels: {}, value: measure.cumulative(values, row).at(-1)! }]
    })
    part('sum', 'Sum of the values in the histogram.', (values, row) => {
      return [{ labels: {}, value: measure.sum(values, row) }]
    })
  }

  *#series(of: Part): Iterable<Series> {
    const values = this.#counted.shownTotals()
    for (const [key, row] of this.#counted.keys(values))
      for (const { labels, value } of of(values, row))
        yield { labels: { key: key === undefined ? OTHER_NAME : (key ?? ''), ...labels }, value }
  }
}

interface Series {
  readonly labels: Record<string, string>
  readonly value: number
}
type Part = (values: Float64Array, row: number) => readonly Series[]
