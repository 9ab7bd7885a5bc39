import { secretVariable } from '../config/account-secrets.js'
import { LimitedReach } from '../config/limited-reach.js'
import { type ComponentConfig, type Config, parseDocument } from '../config/load.js'
import { sharedOutputs } from '../config/outputs.js'
import { type Permitted, refusedBy } from '../config/permitted.js'
import type { AnyDefinition } from '../core/component.js'
import { ConfigError, errorText } from '../core/errors.js'

/** The source that the requests to a pipeline come in by. */
export const INGEST = 'ingest'

/** Of a pipeline, as are the next ones. */
const MOST_DESTINATIONS = 32
/** Requests on their way. */
const MOST_IN_FLIGHT = 64
const MOST_BATCH_EVENTS = 50_000
const MOST_BATCH_BYTES = 4 * 1024 * 1024
/** Keys of all its throttles. */
const MOST_KEYS = 1_000_000
/** A receiver that refuses at once is not asked so often that nothing else gets done. */
const LEAST_RETRY_MS = 1000
const LEAST_LONGEST_RETRY_MS = 10_000

/** A published configuration that the service cannot run; the message says why, for people. */
export class NotHosted extends Error {}

export interface HostedOptions {
  readonly name: string
  readonly dataDir: string
  readonly components: readonly AnyDefinition[]
  readonly ingest: AnyDefinition<'source'>
  readonly permitted: Permitted
  /** Of the account, by name: those that the document refers to. */
  readonly secrets: Readonly<Record<string, string>>
}

/**
 * What of a published document runs in the service: all that the events sent to it reach. Its other sources are for
 * daemons. The environment of the service stays its own. Throws NotHosted.
 */
export function hostedConfig(document: unknown, options: HostedOptions): Config {
  const { name, dataDir, components, ingest, permitted, secrets } = options
  const source: ComponentConfig<'source'> = {
    id: INGEST,
    kind: 'source',
    type: ingest.type,
    inputs: [],
    options: {},
    definition: ingest,
  }
  let config: Config
  try {
    const env = Object.fromEntries(Object.entries(secrets).map(([secret, value]) => [secretVariable(secret), value]))
    config = parseDocument(document, name, { env, components, given: [source] })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    throw new NotHosted(textOf(error.problems), { cause: error })
  }
  const reached = reachedFrom(config)
  const all = { ...config, ...reached, dataDir, metrics: undefined, sources: [source] }
  if (all.destinations.length === 0) throw new NotHosted(`nothing that reaches a destination reads ${INGEST}`)
  const toStdout = all.destinations.find(({ type }) => type === 'stdout')
  if (toStdout)
    throw new NotHosted(
      `destinations.${toStdout.id}.type: the standard output of the service is not for pipelines; choose another destination, or run this pipeline in a daemon`,
    )
  refuse(refusedBy(permitted, all))
  refuse(sharedOutputs(all.destinations))
  const { length } = all.destinations
  if (length > MOST_DESTINATIONS)
    throw new NotHosted(
      `events from ${INGEST} reach ${length} destinations, and the service runs at most ${MOST_DESTINATIONS} of a pipeline; run it in a daemon, or divide it`,
    )
  const reach = new LimitedReach(permitted)
  return {
    ...all,
    processors: withFewerKeys(all.processors),
    destinations: all.destinations.map(one => ({ ...bounded(one, length), reach })),
  }
}

type Faults = readonly { readonly path: string; readonly message: string }[]

function refuse(faults: Faults): void {
  if (faults.length > 0) throw new NotHosted(textOf(faults))
}

function textOf(faults: Faults): string {
  return faults.map(({ path, message }) => `${path}: ${message}`).join('; ')
}

/** What a request takes of the memory and the connections of all: not as much of it as a daemon may have of its own. */
function bounded(destination: ComponentConfig<'destination'>, destinations: number): ComponentConfig<'destination'> {
  const { delivery } = destination
  if (!delivery) return destination
  const { max_in_flight, batch, retry } = delivery
  const share = Math.max(1, Math.floor(MOST_IN_FLIGHT / destinations))
  return {
    ...destination,
    delivery: {
      ...delivery,
      max_in_flight: Math.min(max_in_flight, share),
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

/** Throttles share the keys that one pipeline may keep. */
function withFewerKeys(processors: Config['processors']): Config['processors'] {
  const keysOf = ({ options }: ComponentConfig) => (options as { readonly max_keys?: unknown }).max_keys
  const keeping = processors.filter(one => typeof keysOf(one) === 'number').length
  const share = Math.floor(MOST_KEYS / Math.max(1, keeping))
  return processors.map(one => {
    const keys = keysOf(one)
    if (typeof keys !== 'number' || keys <= share) return one
    return { ...one, options: { ...(one.options as object), max_keys: share } }
  })
}

export function whyNot(error: unknown): string {
  return error instanceof NotHosted ? error.message : errorText(error)
}

/** Processors and destinations that events from `ingest` come to, with those of their inputs alone. */
function reachedFrom({ processors, destinations }: Config): Pick<Config, 'processors' | 'destinations'> {
  const reached = new Set([INGEST])
  const isReached = (input: string) => reached.has(input.split('.')[0]!)
  const components: readonly ComponentConfig[] = [...processors, ...destinations]
  for (let before = -1; before !== reached.size; ) {
    before = reached.size
    for (const { id, inputs } of components) if (inputs.some(isReached)) reached.add(id)
  }
  const kept = <T extends ComponentConfig>(all: readonly T[]): T[] =>
    all.filter(({ id }) => reached.has(id)).map(one => ({ ...one, inputs: one.inputs.filter(isReached) }))
  return { processors: kept(processors), destinations: kept(destinations) }
}
