import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Arrival, Options, Refusal, ThrottleModel } from './model.js'
import { bucketOf, durationOf } from './text.js'

/** What a throttle says of events that it did not let pass: summaries, annotations and metrics by key. */

export interface Discard {
  readonly key: string | null
  readonly size: number
  readonly line: string
  /** The wall clock. */
  readonly at: number
}

interface SummaryFields {
  readonly message: string
  readonly throttle: {
    readonly component: string
    readonly mode?: string
    readonly bucket: string | null
    readonly discarded_events: number
    readonly discarded_bytes: number
    readonly first: string
    readonly last: string
    readonly interval_ms: number
    readonly sample: string
  }
}

const OTHER = '__other__'
/** Buckets that are told apart in an interval, for each one that gets an event of its own. */
const TOLD_APART = 4
const LONGEST_NAME = 256

/** Whether a name in what the throttle says stands for a bucket. */
export function isNamed(name: string | null, key: string | null): boolean {
  if (name === null || key === null) return name === key
  const wanted = /^_+(?:other|default)__$/.test(key) ? `_${key}` : key
  if (Buffer.byteLength(wanted) <= LONGEST_NAME) return name === wanted
  const digest = createHash('sha256').update(wanted).digest('hex').slice(0, 16)
  return name.startsWith(wanted.slice(0, 100)) && name.endsWith(`…${digest}`)
}

export const isSummary = (line: string) => /^\{"message":"(?:throttled|would be throttled)"/.test(line)

/** What is to be summed up. */
export class Interval {
  #discards: Discard[] = []
  since: number
  /** Of all intervals: what was discarded, and what summaries said of it. */
  discarded = 0
  told = 0

  constructor(since: number) {
    this.since = since
  }

  add(discard: Discard): void {
    this.#discards.push(discard)
    this.discarded++
  }

  /** The same where the discards of this very moment may be in this interval or in the next. */
  endLoosely(lines: readonly string[], isLast: boolean, now: number): string[] {
    this.#discards = []
    this.since = now
    for (const line of lines) this.told += (JSON.parse(line) as SummaryFields).throttle.discarded_events
    if (isLast ? this.told === this.discarded : this.told <= this.discarded) return []
    return [`summaries told of ${this.told} discarded events, not ${this.discarded}`]
  }

  /** Ends the interval with these summaries; what is wrong with them. */
  end(lines: readonly string[], options: Options, now: number): string[] {
    const discards = this.#discards
    const since = this.since
    this.#discards = []
    this.since = now
    const { max_per_interval: most } = options.summary as { max_per_interval: number }
    const summaries = lines.map(line => JSON.parse(line) as SummaryFields)
    const sum = (of: (throttle: SummaryFields['throttle']) => number) =>
      summaries.reduce((all, { throttle }) => all + of(throttle), 0)
    this.told += sum(throttle => throttle.discarded_events)
    const problems: string[] = []
    const expect = (is: unknown, wanted: unknown, what: string) => {
      if (!isDeepStrictEqual(is, wanted))
        problems.push(`summary: ${what} is ${JSON.stringify(is)}, not ${JSON.stringify(wanted)}`)
    }
    expect(
      sum(({ discarded_events }) => discarded_events),
      discards.length,
      'the sum of discarded_events',
    )
    expect(
      sum(({ discarded_bytes }) => discarded_bytes),
      discards.reduce((all, { size }) => all + size, 0),
      'bytes',
    )
    const keys = new Map<string | null, Discard[]>()
    for (const discard of discards) keys.set(discard.key, [...(keys.get(discard.key) ?? []), discard])
    const named = summaries.filter(({ throttle }) => throttle.bucket !== OTHER)
    if (keys.size <= most * TOLD_APART) expect(named.length, Math.min(keys.size, most), 'the number of buckets')
    for (const { message, throttle } of summaries) {
      const isShadow = options.mode === 'shadow'
      expect(message, isShadow ? 'would be throttled' : 'throttled', 'message')
      expect(throttle.mode, isShadow ? 'shadow' : undefined, 'mode')
      expect(throttle.component, 'p', 'component')
      expect(throttle.interval_ms, Math.round(now - since), 'interval_ms')
      const found = [...keys].find(([key]) => isNamed(throttle.bucket, key))
      const own = throttle.bucket === OTHER ? undefined : found?.[1]
      if (!own) {
        if (throttle.bucket !== OTHER) problems.push(`summary: of ${throttle.bucket}, of which nothing was discarded`)
        continue
      }
      keys.delete(found![0])
      expect(throttle.discarded_events, own.length, `discarded_events of ${throttle.bucket}`)
      expect(
        throttle.discarded_bytes,
        own.reduce((all, { size }) => all + size, 0),
        'discarded_bytes',
      )
      expect(throttle.first, new Date(own[0]!.at).toISOString(), 'first')
      expect(throttle.last, new Date(own.at(-1)!.at).toISOString(), 'last')
      expect(own[0]!.line.startsWith(throttle.sample.replace(/�$/, '')), true, 'sample')
      if (throttle.sample === '') problems.push('summary: no sample')
    }
    const least = Math.min(...named.map(({ throttle }) => throttle.discarded_events))
    const others = [...keys.values()].map(({ length }) => length)
    if (named.length > 0 && others.some(events => events > least) && keys.size + named.length <= most * TOLD_APART)
      problems.push('summary: a bucket without an event of its own is heavier than one with')
    return problems
  }
}

/** What is wrong with the field `.throttle` of an event; `refusal`: what refused it, if a model can tell. */
export function annotationProblems(
  throttle: Record<string, unknown> | undefined,
  arrival: Arrival,
  model: ThrottleModel,
  refusal: Refusal | 'none' | undefined,
  reason: string | undefined,
): string[] {
  if (!throttle) return ['not annotated']
  const problems: string[] = []
  const key = bucketOf(model.options.key_field, arrival.event)
  if (throttle.component !== 'p') problems.push('component')
  if (!isNamed(throttle.bucket as string | null, key)) problems.push(`bucket ${throttle.bucket}`)
  const { limit, window_ms: windowMs, count, unit = 'events' } = throttle
  const specs = refusal && refusal !== 'none' ? [refusal.spec] : model.specsFor(arrival.event)
  const isOne = specs.some(
    spec =>
      spec.limit === limit &&
      spec.unit === unit &&
      (spec.windowMs === undefined ? (windowMs as number) >= 3_600_000 : spec.windowMs === windowMs),
  )
  if (!isOne) problems.push(`limit ${JSON.stringify(throttle)}, not of ${JSON.stringify(specs)}`)
  if (throttle.reason !== reason) problems.push(`reason ${throttle.reason}, not ${reason}`)
  if (refusal === 'none' && count !== undefined) problems.push('count')
  const wanted = refusal === 'none' ? undefined : refusal?.used
  if (wanted !== undefined && Math.abs((count as number) - wanted) > 1e-6 * Math.max(1, wanted))
    problems.push(`count ${count}, not ${wanted}`)
  if (refusal !== 'none' && (throttle.rule !== undefined) !== model.ruleOf(arrival.event) >= 0)
    problems.push(`rule ${throttle.rule}`)
  return problems
}

/** Metrics by key. */
export class KeyCounts {
  readonly #counts = new Map<string, number>()
  #total = 0
  readonly #shown = new Map<string, number>()

  add(key: string | null): void {
    const name = key ?? '__default__'
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
    this.#total++
  }

  /** All keys count as others from here on. */
  forget(): void {
    this.#counts.clear()
    this.#shown.clear()
  }

  problems(series: ReadonlyMap<string, number>, error: number, { top }: { top: number }): string[] {
    const problems: string[] = []
    const sum = [...series.values()].reduce((all, value) => all + value, 0)
    if (sum !== this.#total) problems.push(`key metrics: the sum is ${sum}, not ${this.#total}`)
    if (series.size > top + 1) problems.push(`key metrics: ${series.size} series`)
    for (const [name, value] of series) {
      if (name === OTHER) continue
      const [, count = 0] =
        [...this.#counts].find(([key]) => name === key || (key !== '__default__' && isNamed(name, key))) ?? []
      if (value > count || value < count - error)
        problems.push(`key metrics: ${name} is ${value}, and was discarded ${count} times; error ${error}`)
    }
    for (const [name, before] of this.#shown)
      if ((series.get(name) ?? before) < before) problems.push(`key metrics: ${name} has become less`)
    this.#shown.clear()
    for (const [name, value] of series) this.#shown.set(name, value)
    return problems
  }
}

export const everyMs = (options: Options) =>
  options.summary ? durationOf((options.summary as Options).every) : undefined
