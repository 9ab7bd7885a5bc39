import type { ProcessorContext } from '../../../core/component.js'
import { compileCondition, type EventTest } from '../../../core/condition/condition.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import type { AggregateOptions } from './options.js'

const NEGATIVE_HELP =
  'Negative numbers that a counter of an aggregate processor left out of its series, because a series never falls.'

/** A measure keeps the numbers of a key in adjacent columns, from `at` on. */
export interface Measure {
  readonly name: string
  readonly at: number
  readonly width: number
  readonly series: number
  /** Adds event `i`. `row`: index in `values` of the first column of the event's key. */
  add(batch: EventBatch, i: number, values: Float64Array, row: number): void
  value(values: Float64Array, row: number): unknown
}

interface Sum {
  readonly field: FieldReader
  readonly negative: { value: number }
}

/**
 * Counts events, or adds up the numbers of a field. A value that is not a number, or makes the sum infinite, counts as
 * 0.
 */
export class CounterMeasure implements Measure {
  readonly name: string
  readonly at: number
  readonly series = 1
  /** A sum has a second column, without negative numbers, because a series must not decrease. */
  readonly width: number
  readonly #when: EventTest | undefined
  readonly #sum: Sum | undefined

  constructor(name: string, at: number, when: EventTest | undefined, sum: Sum | undefined) {
    this.name = name
    this.at = at
    this.width = sum ? 2 : 1
    this.#when = when
    this.#sum = sum
  }

  add(batch: EventBatch, i: number, values: Float64Array, row: number): void {
    if (this.#when && !this.#when(batch, i)) return
    if (!this.#sum) {
      values[row + this.at]!++
      return
    }
    const { field, negative } = this.#sum
    const number = numberAt(field, batch, i) ?? 0
    addTo(values, row + this.at, number)
    if (number < 0) negative.value++
    else addTo(values, row + this.at + 1, number)
  }

  value(values: Float64Array, row: number): number {
    return values[row + this.at]!
  }

  total(values: Float64Array, row: number): number {
    return values[row + this.at + this.width - 1]!
  }
}

/**
 * The first columns count the values in each bucket, without the values in lower buckets. The last column has the sum
 * of all values. The last bucket has no upper bound.
 */
export class HistogramMeasure implements Measure {
  readonly name: string
  readonly at: number
  readonly width: number
  readonly series: number
  readonly bounds: readonly string[]
  readonly #upper: readonly number[]
  readonly #when: EventTest | undefined
  readonly #field: FieldReader

  constructor(name: string, at: number, when: EventTest | undefined, field: FieldReader, upper: readonly number[]) {
    this.name = name
    this.at = at
    this.width = upper.length + 2
    this.bounds = [...upper.map(String), '+Inf']
    this.series = this.bounds.length + 2
    this.#upper = upper
    this.#when = when
    this.#field = field
  }

  add(batch: EventBatch, i: number, values: Float64Array, row: number): void {
    if (this.#when && !this.#when(batch, i)) return
    const number = numberAt(this.#field, batch, i)
    if (number === undefined) return
    const upper = this.#upper
    let bucket = 0
    while (bucket < upper.length && number > upper[bucket]!) bucket++
    values[row + this.at + bucket]!++
    addTo(values, row + this.at + this.width - 1, number)
  }

  value(values: Float64Array, row: number): unknown {
    const counts = this.cumulative(values, row)
    return {
      count: counts.at(-1),
      sum: this.sum(values, row),
      buckets: Object.fromEntries(this.bounds.map((bound, n) => [bound, counts[n]])),
    }
  }

  cumulative(values: Float64Array, row: number): number[] {
    let count = 0
    return this.bounds.map((_, n) => (count += values[row + this.at + n]!))
  }

  sum(values: Float64Array, row: number): number {
    return values[row + this.at + this.width - 1]!
  }
}

/** Keeps the sum finite, even if a sender writes 1e308 twice. */
function addTo(values: Float64Array, column: number, number: number): void {
  const sum = values[column]! + number
  if (Number.isFinite(sum)) values[column] = sum
}

function numberAt(field: FieldReader, batch: EventBatch, i: number): number | undefined {
  field.load(batch, i)
  const number = field.number()
  return Number.isFinite(number) ? number : undefined
}

/** The columns of the measures begin at 1, because column 0 counts events. */
export function measuresOf({ counters, histograms }: AggregateOptions, context: ProcessorContext): Measure[] {
  const measures: Measure[] = []
  let at = 1
  const add = (measure: Measure) => {
    measures.push(measure)
    at += measure.width
  }
  const negative = (counter: string) =>
    context.metrics.counter('sluice_negative_values_total', NEGATIVE_HELP, { counter })
  const test = (when: Parameters<typeof compileCondition>[0] | undefined) =>
    when && compileCondition(when, path => context.field(path))
  for (const [name, { sum, when }] of Object.entries(counters))
    add(new CounterMeasure(name, at, test(when), sum && { field: context.field(sum), negative: negative(name) }))
  for (const [name, { field, buckets, when }] of Object.entries(histograms))
    add(new HistogramMeasure(name, at, test(when), context.field(field), buckets))
  return measures
}
