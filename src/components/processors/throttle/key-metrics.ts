import type { Clock } from '../../../lib/time.js'
import { DEFAULT_NAME, OTHER_NAME } from '../../throttle/buckets/bucket-name.js'
import type { DiscardCount } from '../../throttle/counts/discard-tally.js'
import { HeaviestKeys, type HeavyKey } from '../../throttle/counts/heaviest-keys.js'
import type { KeyMetricsOptions } from './options.js'
import type { ThrottleMetrics } from './throttle-metrics.js'

interface KeysContext {
  readonly metrics: ThrottleMetrics
  readonly clock: Clock
}

const NAME = 'sluice_throttle_key_discarded_events_total'
const HELP =
  'Discarded events by key, for the keys with the most. All other keys are counted as key="__other__". The sum is exact.'
const ERROR_HELP =
  'At most this many discarded events are missing from the series of a key. They were counted as key="__other__".'
/** How many keys are followed for each series, and the minimum number of keys followed in total. */
const FOLLOWED_EACH = 4
const FOLLOWED = 1000
/** When the heaviest keys are chosen, events of this age have half their weight. */
const HALF_LIFE_MS = 3_600_000
/** A key replaces another if it is this many times as heavy. So keys of similar weight do not alternate. */
const HEAVIER = 1.1

/**
 * Counters of the heaviest keys. Events that a scrape has shown as `__other__` remain in `__other__`. When a key loses
 * its series, the count of the series moves to `__other__`. So a counter never decreases while its series exists, and
 * the sum of all counters is always exact.
 */
export class KeyCounters {
  readonly #options: KeyMetricsOptions
  #heaviest: HeaviestKeys
  readonly #named = new Set<HeavyKey>()
  #total = 0
  /** The part of the total that was shown as `__other__`. */
  #others = 0
  #chosenAt: number
  #agedAt: number

  constructor(options: KeyMetricsOptions, now: number) {
    this.#options = options
    this.#heaviest = this.#newHeaviest()
    this.#chosenAt = this.#agedAt = now
  }

  #newHeaviest(): HeaviestKeys {
    return new HeaviestKeys(Math.max(FOLLOWED, this.#options.top * FOLLOWED_EACH))
  }

  add({ bucket, events }: DiscardCount): void {
    this.#heaviest.add(bucket ?? DEFAULT_NAME, events)
    this.#total += events
  }

  trim(): void {
    this.#heaviest.trim()
  }

  /** Returns the series to show, and how much `__other__` has grown. */
  show(now: number): { named: { key: string; value: number }[]; others: number } {
    this.#choose(now)
    let others = this.#total
    const named = [...this.#named].map(({ name, counted, shown }) => {
      others -= counted - shown
      return { key: name, value: counted - shown }
    })
    const grown = others - this.#others
    this.#others = others
    for (const key of this.#heaviest.keys) if (!key.isKept) key.shown = key.counted
    return { named, others: grown }
  }

  /** Maximum number of events that may be missing from a series. */
  get error(): number {
    let error = this.#heaviest.floor
    for (const { missed, shown } of this.#named) error = Math.max(error, missed + shown)
    return error
  }

  #choose(now: number): void {
    this.#heaviest.age(0.5 ** ((now - this.#agedAt) / HALF_LIFE_MS))
    this.#agedAt = now
    const { top, every } = this.#options
    const isDue = now - this.#chosenAt >= every
    if (isDue) this.#chosenAt = now
    if (!isDue && this.#named.size === top) return
    const others = [...this.#heaviest.keys].filter(({ isKept }) => !isKept).sort((a, b) => b.weight - a.weight)
    const named = [...this.#named].sort((a, b) => b.weight - a.weight)
    for (const key of others) {
      if (this.#named.size === top) {
        const lightest = isDue ? named.pop() : undefined
        if (!lightest || key.weight <= lightest.weight * HEAVIER) return
        this.#named.delete(lightest)
        lightest.isKept = false
      }
      key.isKept = true
      this.#named.add(key)
    }
  }

  /** Forgets all keys. Returns by how many events `__other__` grows. */
  end(): number {
    const rest = this.#total - this.#others
    this.#others = this.#total
    this.#named.clear()
    this.#heaviest = this.#newHeaviest()
    return rest
  }
}

/** Shows the counters in the metrics. Before that, `drain` counts the events discarded so far. */
export function showKeys(counters: KeyCounters, { metrics, clock }: KeysContext, drain: () => void): void {
  const other = { key: OTHER_NAME }
  metrics.counters(NAME, HELP, other, () => {
    drain()
    const { named, others } = counters.show(clock.now())
    metrics.counter(NAME, HELP, other).value += others
    return named.map(({ key, value }) => ({ labels: { key }, value }))
  })
  metrics.counter(NAME, HELP, other)
  metrics.gauge('sluice_throttle_key_error_events', ERROR_HELP, () => counters.error)
}

export function endKeys(counters: KeyCounters, metrics: ThrottleMetrics): void {
  metrics.counter(NAME, HELP, { key: OTHER_NAME }).value += counters.end()
}
