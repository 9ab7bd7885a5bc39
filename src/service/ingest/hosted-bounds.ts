import type { AggregateOptions } from '../../components/processors/aggregate/options.js'
import { mostInFlight } from '../../core/options/delivery-options.js'
import type { ComponentConfig, Config } from '../../engine/config/load.js'
import { formatDuration, formatSize } from '../../lib/units.js'

/** Maximum requests in flight to all destinations of a pipeline. */
const MOST_IN_FLIGHT = 64
const MOST_BATCH_EVENTS = 50_000
const MOST_BATCH_BYTES = 4 * 1024 * 1024
/** Maximum sum of `max_keys` over the processors of a pipeline. */
const MOST_KEYS = 1_000_000
/** Maximum metric series of a pipeline's aggregates. Limited, because the service shows all pipelines together. */
const MOST_SERIES = 10_000
/** Besides one row for each key, an aggregate has one row without a key and one for keys beyond `max_keys`. */
const FURTHER_ROWS = 2
/** Minimum retry delays. Without these, retries to a receiver that fails immediately could use up the CPU. */
const LEAST_RETRY_MS = 1000
const LEAST_LONGEST_RETRY_MS = 10_000

type Components = Pick<Config, 'processors' | 'destinations'>

/** A difference between running the pipeline in the service and in a daemon. */
export interface Bound {
  /** Path of the option that differs; empty for the whole pipeline. */
  readonly path: string
  readonly message: string
  /** Set if this difference prevents the service from accepting events for the pipeline. */
  readonly obstacle?: true
}

/** Limits the memory and the connections of a pipeline, since all pipelines in the service share them. */
export function boundedComponents({ processors, destinations }: Components): Components {
  return {
    processors: withFewerSeries(withFewerKeys(processors)),
    destinations: destinations.map(one => boundedDestination(one, destinations.length)),
  }
}

function boundedDestination(
  destination: ComponentConfig<'destination'>,
  destinations: number,
): ComponentConfig<'destination'> {
  const { delivery } = destination
  if (!delivery) return destination
  const { max_in_flight, batch, retry } = delivery
  const share = Math.max(1, Math.floor(MOST_IN_FLIGHT / destinations))
  return {
    ...destination,
    delivery: {
      ...delivery,
      max_in_flight:
        typeof max_in_flight === 'number'
          ? Math.min(max_in_flight, share)
          : { atMost: Math.min(max_in_flight.atMost, share) },
      batch: {
        ...batch,
        max_events: Math.min(batch.max_events, MOST_BATCH_EVENTS),
        max_bytes: Math.min(batch.max_bytes, MOST_BATCH_BYTES),
      },
      retry: {
        ...retry,
        initial: Math.max(retry.initial, LEAST_RETRY_MS),
        max: Math.max(retry.max, LEAST_LONGEST_RETRY_MS),
      },
    },
  }
}

/** Divides MOST_KEYS among the processors with keys. */
function withFewerKeys(processors: Config['processors']): Config['processors'] {
  const keeping = processors.filter(one => keysOf(one) !== undefined).length
  const share = Math.floor(MOST_KEYS / Math.max(1, keeping))
  return processors.map(one => {
    const keys = keysOf(one)
    if (keys === undefined || keys <= share) return one
    return { ...one, options: { ...(one.options as object), max_keys: share } }
  })
}

/** Divides MOST_SERIES among the aggregates. */
function withFewerSeries(processors: Config['processors']): Config['processors'] {
  const share = shareOfSeries(processors)
  return processors.map(one => {
    const most = Math.floor(share / seriesOfKey(one)) - FURTHER_ROWS
    if (seriesOfKey(one) === 0 || keysOf(one)! <= most) return one
    return { ...one, options: { ...(one.options as object), max_keys: Math.max(1, most) } }
  })
}

/** Finds aggregates that have too many series even with one key. */
export function tooManySeries({ processors }: Components): Bound[] {
  const share = shareOfSeries(processors)
  return processors
    .filter(one => seriesOfKey(one) * (1 + FURTHER_ROWS) > share)
    .map(({ id }) => ({
      path: `processors.${id}`,
      message: `its counters and buckets need too many series of metrics: the service shows at most ${MOST_SERIES} for a pipeline; use fewer counters and buckets`,
    }))
}

function shareOfSeries(processors: Config['processors']): number {
  const showing = processors.filter(one => seriesOfKey(one) > 0).length
  return Math.floor(MOST_SERIES / Math.max(1, showing))
}

/** Metric series per key of an aggregate; 0 for other processors. */
function seriesOfKey({ type, options }: ComponentConfig): number {
  if (type !== 'aggregate') return 0
  const { counters, histograms } = options as AggregateOptions
  const ofHistograms = Object.values(histograms).map(({ buckets }) => buckets.length + 3)
  return ofHistograms.reduce((sum, one) => sum + one, Object.keys(counters).length)
}

function keysOf({ options }: ComponentConfig): number | undefined {
  const { max_keys } = options as { readonly max_keys?: unknown }
  return typeof max_keys === 'number' ? max_keys : undefined
}

/** Describes how `runs` differs from `asked`. `maxDisk` is the disk space of the account in bytes. */
export function boundsOf(asked: Components, runs: Components, maxDisk: number): Bound[] {
  const bounds: Bound[] = []
  const add = (path: string, before = 0, after = 0, text = String as (value: number) => string) => {
    if (before !== after) bounds.push({ path, message: `the service uses ${text(after)} instead of ${text(before)}` })
  }
  for (const [i, processor] of runs.processors.entries())
    add(`processors.${processor.id}.max_keys`, keysOf(asked.processors[i]!), keysOf(processor))
  for (const [i, { id, delivery: after }] of runs.destinations.entries()) {
    const before = asked.destinations[i]!.delivery
    if (!before || !after) continue
    const at = (option: string) => `destinations.${id}.${option}`
    // `auto` does not request a number.
    if (typeof before.max_in_flight === 'number')
      add(at('max_in_flight'), before.max_in_flight, mostInFlight(after.max_in_flight))
    add(at('batch.max_events'), before.batch.max_events, after.batch.max_events)
    add(at('batch.max_bytes'), before.batch.max_bytes, after.batch.max_bytes, formatSize)
    add(at('retry.initial'), before.retry.initial, after.retry.initial, formatDuration)
    add(at('retry.max'), before.retry.max, after.retry.max, formatDuration)
    const { buffer } = after
    if (buffer.type === 'disk' && buffer.max_bytes > maxDisk)
      bounds.push({
        path: at('buffer.max_bytes'),
        message: `${formatSize(buffer.max_bytes)} exceeds the ${formatSize(maxDisk)} of disk space that all pipelines of the account share in the service`,
      })
  }
  const onDisk = runs.destinations.filter(
    ({ delivery }) => delivery?.buffer.type === 'disk' || delivery?.on_reject === 'dead_letter',
  )
  if (onDisk.length > 0)
    bounds.push({
      path: '',
      message: `in the service, all pipelines of the account share ${formatSize(maxDisk)} of disk space for disk buffers, dead-letter queues, idempotency keys and saved revisions; when it is used up, destinations wait and ingest answers 503`,
    })
  return bounds
}
