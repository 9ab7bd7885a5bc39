import type { AnyDefinition, ComponentContext } from '../../core/component.js'
import { errorText, formatProblem, type Problem } from '../../core/errors.js'
import { FieldReader } from '../../core/event/field-reader.js'
import { silentLog } from '../../core/silent-log.js'
import type { ComponentConfig, Config } from '../../engine/config/load.js'
import { SECTIONS } from '../../engine/config/schema.js'
import { ComponentCounters } from '../../engine/flow/counters.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import { aborted, deadline, systemClock } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import { loadService } from '../wings.js'

const LIMIT_MS = 10_000

/** Result of checking one component, as a line of text. */
export interface OnlineFinding {
  readonly isProblem: boolean
  readonly line: string
}

/**
 * Checks the servers that the components and the rate limits of a valid configuration connect to. All checks run at the
 * same time, and each may take `limitMs`. `path`: the path of the configuration.
 */
export async function checkOnline(
  path: string,
  { sources, processors, destinations, service }: Config,
  limitMs = LIMIT_MS,
): Promise<OnlineFinding[]> {
  const all = [...sources, ...processors, ...destinations].map(config => checkComponent(path, config, limitMs))
  const { redis } = service?.limits ?? {}
  if (redis) all.push(checkRates(path, redis, limitMs))
  return (await Promise.all(all)).flat()
}

async function checkComponent(file: string, config: ComponentConfig, limitMs: number): Promise<OnlineFinding[]> {
  const { id, kind, options, reach, place } = config
  const definition: AnyDefinition = config.definition
  if (!definition.inspects) return []
  const wanted = new WantedNames()
  const context: ComponentContext = {
    ...contextOf(id, kind, definition.type),
    id,
    field: path => new FieldReader(path, wanted),
    reach,
  }
  return await found({ file, ...place, path: `${SECTIONS[kind]}.${id}` }, limitMs, async signal =>
    (await definition.inspects?.())?.check?.(options, context, signal),
  )
}

async function checkRates(
  file: string,
  redis: NonNullable<NonNullable<Config['service']>['limits']['redis']>,
  limitMs: number,
): Promise<OnlineFinding[]> {
  const { checkRatesBackend, LIMITS } = await (await loadService()).loadRates()
  const context = contextOf(LIMITS, 'processor', 'throttle')
  return await found({ file, path: `${LIMITS}.redis` }, limitMs, () => checkRatesBackend(redis, context))
}

const contextOf = (id: string, kind: ComponentConfig['kind'], type: string) => ({
  log: silentLog,
  clock: systemClock,
  metrics: new ComponentCounters(id, kind, type),
})

/** Checks the servers to which one part of the configuration connects. `place`: where this part is. */
async function found(
  place: Partial<Problem> & Pick<Problem, 'file' | 'path'>,
  limitMs: number,
  check: (signal: AbortSignal) => Promise<string | undefined>,
): Promise<OnlineFinding[]> {
  const limit = deadline(limitMs)
  try {
    const text = await Promise.race([check(limit.signal), aborted(limit.signal)])
    limit.signal.throwIfAborted()
    return text ? [{ isProblem: false, line: `${place.file}: ${place.path}: ok (${text})` }] : []
  } catch (error) {
    const late = `no answer within ${formatDuration(limitMs)}; check the address and the network`
    const message = limit.signal.aborted ? late : errorText(error)
    return [{ isProblem: true, line: formatProblem({ line: 1, column: 1, ...place, message }) }]
  } finally {
    limit.clear()
  }
}
