import { DISCARDED, type Emitted } from '../../../core/processor.js'
import type { Clock } from '../../../lib/time.js'
import { OTHER_NAME } from '../../throttle/buckets/bucket-name.js'
import type { DiscardCount } from '../../throttle/counts/discard-tally.js'
import type { SummaryOptions } from './options.js'

/** Maximum buckets counted per interval, as a multiple of `max_per_interval`. */
const COUNTED_EACH = 4

type Sum = { -readonly [K in keyof Omit<DiscardCount, 'bucket'>]: DiscardCount[K] }

/** Sums up, by bucket, the events discarded in an interval. Memory is bounded. */
export class Summary {
  readonly #options: SummaryOptions
  readonly #component: string
  readonly #isShadow: boolean
  readonly #clock: Clock
  /** Counts events that are reported without the name of their bucket. */
  readonly #unnamed: { value: number }
  readonly #sums = new Map<string | null, Sum>()
  /** The sum of all buckets that are not summed up separately. */
  #others: Sum | undefined
  #since: number

  constructor(options: SummaryOptions, component: string, isShadow: boolean, clock: Clock, unnamed: { value: number }) {
    this.#options = options
    this.#component = component
    this.#isShadow = isShadow
    this.#clock = clock
    this.#unnamed = unnamed
    this.#since = clock.now()
  }

  add({ bucket, ...count }: DiscardCount): void {
    const sum = this.#sums.get(bucket)
    if (sum) addTo(sum, count)
    else if (this.#sums.size < this.#options.max_per_interval * COUNTED_EACH) this.#sums.set(bucket, count)
    else this.#addToOthers(count)
  }

  #addToOthers(count: Sum): void {
    if (this.#others) addTo(this.#others, count)
    else this.#others = { ...count }
  }

  /** Ends the interval. Returns its summary events, beginning with the heaviest buckets. */
  emit(): Emitted[] {
    const now = this.#clock.now()
    const intervalMs = Math.round(now - this.#since)
    this.#since = now
    const { max_per_interval, to } = this.#options
    const sorted = [...this.#sums].sort(([, a], [, b]) => b.events - a.events)
    for (const [, sum] of sorted.splice(max_per_interval)) this.#addToOthers(sum)
    const events = sorted.map(([bucket, sum]) => this.#event(bucket, sum, intervalMs))
    if (this.#others) {
      events.push(this.#event(OTHER_NAME, this.#others, intervalMs))
      this.#unnamed.value += this.#others.events
    }
    this.#sums.clear()
    this.#others = undefined
    return [
      ...(to === 'discarded' ? [] : events.map(fields => ({ fields }))),
      ...(to === 'passed' ? [] : events.map(fields => ({ fields, to: DISCARDED }))),
    ]
  }

  #event(bucket: string | null, { events, bytes, first, last, sample }: Sum, intervalMs: number) {
    return {
      message: this.#isShadow ? 'would be throttled' : 'throttled',
      timestamp: timeText(this.#clock.wall()),
      throttle: {
        component: this.#component,
        ...(this.#isShadow && { mode: 'shadow' }),
        bucket,
        discarded_events: events,
        discarded_bytes: bytes,
        first: timeText(first),
        last: timeText(last),
        interval_ms: intervalMs,
        sample,
      },
    }
  }
}

function addTo(sum: Sum, { events, bytes, first, last }: Sum): void {
  sum.events += events
  sum.bytes += bytes
  sum.first = Math.min(sum.first, first)
  sum.last = Math.max(sum.last, last)
}

const timeText = (ms: number) => new Date(ms).toISOString()
