import type { AnyDefinition } from '../../core/component.js'
import { ConfigError, errorText, lacksDescriptor } from '../../core/errors.js'
import { StateUnreadable } from '../../core/unreadable.js'
import { sharedOutputs } from '../../engine/config/checks/outputs.js'
import { type ComponentConfig, type Config, parseDocument } from '../../engine/config/load.js'
import { secretVariable } from '../../engine/config/published/account-secrets.js'
import { LimitedReach } from '../../engine/config/published/limited-reach.js'
import type { Permissions } from '../../engine/config/published/managed-options.js'
import { refusedBy } from '../../engine/config/published/permissions.js'
import { compilingWithin } from '../../lib/pattern.js'
import { Refusal } from '../../net/http/server/refusal.js'
import { type Bound, boundedComponents, boundsOf, tooManySeries } from './hosted-bounds.js'
import { INGEST, ingestSource } from './worker/feed.js'

const MOST_DESTINATIONS = 32
/** Maximum number of problems in the message of NotHosted. */
const MOST_PROBLEMS = 10
export const FILES_UNREADABLE = 'pipeline_files_unreadable'

/** The service cannot run a published configuration. The message is the reason. */
export class NotHosted extends Error {}

/** The pipeline is for daemons, because events that are sent to the service would not reach a destination. */
export class NothingToHost extends NotHosted {}

export interface HostedConfigOptions {
  readonly name: string
  readonly dataDir: string
  readonly components: readonly AnyDefinition[]
  readonly ingest: AnyDefinition<'source'>
  readonly permitted: Permissions
  /** The values, by name, of the secrets to which the document refers. */
  readonly secrets: Readonly<Record<string, string>>
  /** Disk space of the account in bytes. */
  readonly maxDisk: number
}

export interface Hosted {
  readonly config: Config
  readonly bounds: readonly Bound[]
}

/**
 * Returns the part of a published document that runs in the service: all components that events from `ingest` reach.
 * Other sources are for daemons. The document cannot use environment variables of the service. Throws NotHosted.
 */
export function hostedConfig(document: unknown, options: HostedConfigOptions): Hosted {
  const { name, dataDir, components, ingest, permitted, secrets, maxDisk } = options
  const source = ingestSource(ingest)
  let config: Config
  try {
    const env = Object.fromEntries(Object.entries(secrets).map(([secret, value]) => [secretVariable(secret), value]))
    const parse = () => parseDocument(document, name, { env, components, given: [source], mostProblems: MOST_PROBLEMS })
    config = compilingWithin(Number.POSITIVE_INFINITY, parse)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const more = error.problems.length < MOST_PROBLEMS ? '' : `; at most ${MOST_PROBLEMS} are listed`
    throw new NotHosted(faultsText(error.problems) + more, { cause: error })
  }
  const reached = reachedFrom(config)
  const all = { ...config, ...reached, dataDir, metrics: undefined, sources: [source] }
  if (all.destinations.length === 0) throw new NothingToHost(`events from ${INGEST} do not reach a destination`)
  const toStdout = all.destinations.find(({ type }) => type === 'stdout')
  if (toStdout)
    throw new NotHosted(
      `destinations.${toStdout.id}.type: pipelines cannot write to the standard output of the service; choose another destination, or run this pipeline in a daemon`,
    )
  refuse(refusedBy(permitted, all))
  refuse(sharedOutputs(all.destinations))
  const { length } = all.destinations
  if (length > MOST_DESTINATIONS)
    throw new NotHosted(
      `events from ${INGEST} reach ${length} destinations, and a pipeline in the service can have at most ${MOST_DESTINATIONS}; run the pipeline in a daemon, or divide it`,
    )
  refuse(tooManySeries(all))
  const reach = new LimitedReach(permitted)
  const { processors, destinations } = boundedComponents(all)
  const limited = <T extends object>(all: readonly T[]) => all.map(one => ({ ...one, reach }))
  return {
    config: { ...all, processors: limited(processors), destinations: limited(destinations) },
    bounds: boundsOf(all, { processors, destinations }, maxDisk),
  }
}

function refuse(faults: readonly Bound[]): void {
  if (faults.length > 0) throw new NotHosted(faultsText(faults))
}

export function faultsText(faults: readonly Bound[]): string {
  return faults.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ')
}

export function whyNot(error: unknown): string {
  return error instanceof NotHosted ? error.message : errorText(error)
}

/** Returns a Refusal if a start failed for a reason that may pass. The same revision may then start later. */
export function unreadable(error: unknown): Refusal | undefined {
  if (!(error instanceof StateUnreadable || lacksDescriptor(error))) return undefined
  const message = `the files of the pipeline cannot be read now: ${errorText(error)}`
  return new Refusal(503, FILES_UNREADABLE, message, { 'retry-after': '10' })
}

/**
 * Returns the processors and destinations that events from `ingest` reach. Inputs from other components are left out.
 */
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
