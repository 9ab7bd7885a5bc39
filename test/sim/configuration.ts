import { fileDestination } from '../../src/components/file/destination.js'
import type { AnyDefinition } from '../../src/core/component.js'
import { type DeliveryOptions, deliveryOptions } from '../../src/core/options/delivery-options.js'
import type { ComponentConfig, Config } from '../../src/engine/config/load.js'
import { clientsSource } from './clients.js'
import { simulatedProcessor } from './processors.js'
import { receiverDestination } from './receiver.js'
import { throttleOptionsOf, watchedThrottle } from './throttle.js'
import { topicSource } from './topic.js'
import type { DestinationSpec, ProcessorSpec, SourceSpec, Topology } from './topology.js'

/** The configuration of a topology, for a process that has the disk at `root`. */
export function configOf({ sources, processors, destinations, shutdownMs }: Topology, root: string): Config {
  return {
    dataDir: `${root}/data`,
    metrics: undefined,
    metricsGiven: false,
    logFormat: undefined,
    shutdownTimeoutMs: shutdownMs,
    watched: false,
    discardOrphans: [],
    sources: sources.map(sourceOf),
    processors: processors.map(processorOf),
    destinations: destinations.map(one => destinationOf(one, root)),
    files: [],
    digest: '',
    warnings: [],
    tests: [],
    isLocalPart: false,
    managed: undefined as never,
    service: undefined,
  }
}

/** Where a file destination writes. */
export const outputOf = (id: string) => `/out/${id}.log`

/** Parsed once: checking the same options again for every process takes more time than most of what it does with them. */
const DELIVERY = deliveryOptions.parse({ retry: { initial: '200ms', max: '3 Seconds' } })
const FILE = fileDestination.options.parse({ path: '/', fsync: true })

/** `options`: as they are after a check. */
function component<K extends 'source' | 'processor' | 'destination'>(
  definition: AnyDefinition<K>,
  { id, inputs = [] }: { id: string; inputs?: readonly string[] },
  options: object,
): ComponentConfig<K> {
  return { id, kind: definition.kind as K, type: definition.type, inputs, options, definition }
}

function sourceOf(spec: SourceSpec): ComponentConfig<'source'> {
  const { id, kind, batch, large, version } = spec
  if (kind === 'clients') return component(clientsSource, spec, { topic: id, version })
  return component(topicSource, spec, { topic: id, batch, large, version })
}

function processorOf(spec: ProcessorSpec): ComponentConfig<'processor'> {
  const { deed, every, delay, concurrency, onError, version } = spec
  if (deed === 'throttle') {
    const config = component(watchedThrottle, spec, throttleOptionsOf(spec.throttle))
    return { ...config, plan: watchedThrottle.plan!(config.options as never), onError }
  }
  const config = component(simulatedProcessor, spec, { deed, every, delay, concurrency, version })
  return { ...config, plan: simulatedProcessor.plan!(config.options as never), onError }
}

function destinationOf(spec: DestinationSpec, root: string): ComponentConfig<'destination'> {
  const config =
    spec.kind === 'file'
      ? component(fileDestination, spec, { ...FILE, path: `${root}${outputOf(spec.id)}` })
      : component(receiverDestination, spec, { version: spec.version })
  return { ...config, delivery: deliveryOf(spec) }
}

function deliveryOf(spec: DestinationSpec): DeliveryOptions {
  return {
    ...DELIVERY,
    batch: { ...DELIVERY.batch, max_events: spec.maxEvents, max_wait: spec.maxWaitMs },
    timeout: spec.timeoutMs,
    retry: { ...DELIVERY.retry, max_attempts: spec.maxAttempts },
    max_in_flight: spec.kind === 'file' ? 1 : spec.inFlight === 'auto' ? DELIVERY.max_in_flight : spec.inFlight,
    hold_after_refusals: spec.holdAfter,
    on_reject: spec.onReject,
    // Smaller than a configuration may ask for, so that few events fill it.
    buffer:
      spec.buffer === 'disk' ? { type: 'disk', max_bytes: spec.bufferBytes, when_full: 'block' } : { type: 'memory' },
  }
}
