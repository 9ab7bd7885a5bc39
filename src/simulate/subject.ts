import { components } from '../components/list.js'
import { throttle } from '../components/processors/throttle.js'
import type { AnyDefinition } from '../core/component.js'
import { loadDaemonConfig } from '../daemon/managed/local-part.js'
import { type Io, UsageError } from '../daemon/process/command-line.js'
import { AS_OBJECTS } from '../daemon/process/given-event.js'
import { componentsOf, splitInput } from '../engine/config/inputs.js'
import type { ComponentConfig, Config } from '../engine/config/load.js'
import { NearestName } from '../lib/nearest.js'

/** The simulated throttle: from a configuration, or described by the command line. */
export interface SimulatedThrottle {
  /** The id of the throttle. */
  readonly component: string
  /** Path of the configuration. Undefined without a configuration. */
  readonly config: string | undefined
  /** The inputs of the throttle; undefined without a configuration. */
  readonly inputs: readonly string[] | undefined
  /** The throttle's options as the configuration gives them, not parsed. */
  readonly given: Readonly<Record<string, unknown>>
  readonly route: ThrottlePath
}

/** The id of a throttle without a configuration. */
const NEW_ID = 'limit'

/** Reads the throttle `component`. If the configuration lacks this throttle, throws a UsageError naming the flag. */
export async function subjectOf(
  path: string | undefined,
  component: string | undefined,
  io: Io,
  flag: 'component' | 'tap' = 'component',
): Promise<SimulatedThrottle> {
  if (path === undefined) return newThrottle(component)
  const config = await loadDaemonConfig(path, io.env)
  const found = throttleOf(config, component, path, flag)
  return {
    component: found.id,
    config: path,
    inputs: found.inputs,
    given: found.given as Record<string, unknown>,
    route: routeTo(config, found.id),
  }
}

function newThrottle(component = NEW_ID): SimulatedThrottle {
  const route = routeFrom('input', component)
  return { component, config: undefined, inputs: undefined, given: {}, route }
}

/** The route from a source of JSON objects straight to a throttle. */
export function routeFrom(id: string, component: string): ThrottlePath {
  const definition = components.find(
    ({ kind, type }) => kind === 'source' && type === 'stdin',
  ) as AnyDefinition<'source'>
  const source = { id, kind: 'source', type: 'stdin', inputs: [], options: AS_OBJECTS, definition } as const
  return { throttle: component, sources: [source], processors: [], readers: new Map([[id, [component]]]) }
}

function throttleOf(config: Config, id: string | undefined, path: string, flag: string) {
  const throttles = config.processors.filter(({ type }) => type === throttle.type)
  const ids = throttles.map(processor => processor.id)
  const known = ids.length === 0 ? `${path} has no throttle` : `the throttles of ${path} are ${ids.join(', ')}`
  if (id === undefined) {
    if (throttles.length === 1) return throttles[0]!
    throw new UsageError(ids.length === 0 ? known : `--component ID is missing: ${known}`, 'simulate')
  }
  const found = throttles.find(processor => processor.id === id)
  if (found) return found
  const other = componentsOf(config).find(component => component.id === id)
  const wrong = other
    ? `${id} is a ${other.kind} of type ${other.type}, not a throttle`
    : `there is no component ${id} in ${path}`
  const near = other ? undefined : new NearestName().find(id, ids)
  throw new UsageError(`--${flag}: ${wrong}; ${near ? `did you mean ${near}?` : known}`, 'simulate')
}

/** The components of a configuration through which events reach a throttle. */
export interface ThrottlePath {
  readonly throttle: string
  readonly sources: readonly ComponentConfig<'source'>[]
  readonly processors: readonly ComponentConfig<'processor'>[]
  /** By output (`app_logs`, `wanted.discarded`): the ids of the components that read it. */
  readonly readers: ReadonlyMap<string, readonly string[]>
}

function routeTo(config: Config, throttleId: string): ThrottlePath {
  const sources = new Map(config.sources.map(source => [source.id, source]))
  const processors = new Map(config.processors.map(processor => [processor.id, processor]))
  const readers = new Map<string, string[]>()
  const met = new Set<string>()
  const follow = (id: string) => {
    if (met.has(id)) return
    met.add(id)
    for (const input of processors.get(id)?.inputs ?? []) {
      const others = readers.get(input)
      if (others) others.push(id)
      else readers.set(input, [id])
      follow(splitInput(input)[0])
    }
  }
  follow(throttleId)
  const isBefore = ({ id }: { id: string }) => met.has(id) && id !== throttleId
  return {
    throttle: throttleId,
    sources: [...sources.values()].filter(isBefore),
    processors: [...processors.values()].filter(isBefore),
    readers,
  }
}

export function isThrottle({ type }: ComponentConfig<'processor'>): boolean {
  return type === throttle.type
}

/** Throws UsageError if a processor of the route cannot be simulated, because it keeps events or uses timers. */
export function checkRoute({ processors, throttle: throttleId }: ThrottlePath): void {
  const keeping = processors.find(
    processor => !isThrottle(processor) && (processor.plan?.keeps || processor.plan?.waits || processor.plan?.every),
  )
  if (!keeping) return
  const { id, type } = keeping
  throw new UsageError(
    `${id} is before the throttle and keeps events for some time, which cannot be simulated (type ${type}); \
use --tap ${throttleId} to simulate the events that a running daemon passes to the throttle, \
or record events after ${id} (sluice tap ${id} > FILE) and simulate the file without a configuration`,
    'simulate',
  )
}
