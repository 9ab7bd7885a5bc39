import type { AnyDefinition, ComponentContext } from '../../core/component.js'
import { errorText, formatProblem } from '../../core/errors.js'
import { FieldReader } from '../../core/event/field-reader.js'
import { silentLog } from '../../core/silent-log.js'
import type { ComponentConfig, Config } from '../../engine/config/load.js'
import { SECTIONS } from '../../engine/config/schema.js'
import { ComponentCounters } from '../../engine/flow/counters.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import { aborted, deadline, systemClock } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'

const LIMIT_MS = 10_000

/** Result of checking one component, as a line of text. */
export interface OnlineFinding {
  readonly isProblem: boolean
  readonly line: string
}

/**
 * Checks, all at once, the servers that the components of a valid configuration connect to. `path` is the
 * configuration. Each check may take `limitMs`.
 */
export async function checkOnline(
  path: string,
  { sources, processors, destinations }: Config,
  limitMs = LIMIT_MS,
): Promise<OnlineFinding[]> {
  const all = [...sources, ...processors, ...destinations]
  return (await Promise.all(all.map(component => checkComponent(path, component, limitMs)))).flat()
}

async function checkComponent(file: string, config: ComponentConfig, limitMs: number): Promise<OnlineFinding[]> {
  const { id, kind, options, reach, place } = config
  const definition: AnyDefinition = config.definition
  if (!definition.check) return []
  const wanted = new WantedNames()
  const context: ComponentContext = {
    id,
    log: silentLog,
    clock: systemClock,
    metrics: new ComponentCounters(id, kind, definition.type),
    field: path => new FieldReader(path, wanted),
    reach,
  }
  const path = `${SECTIONS[kind]}.${id}`
  const limit = deadline(limitMs)
  try {
    const found = await Promise.race([definition.check(options, context, limit.signal), aborted(limit.signal)])
    limit.signal.throwIfAborted()
    return found ? [{ isProblem: false, line: `${file}: ${path}: ok (${found})` }] : []
  } catch (error) {
    const late = `no answer within ${formatDuration(limitMs)}; check the address and the network`
    const message = limit.signal.aborted ? late : errorText(error)
    return [{ isProblem: true, line: formatProblem({ file, line: 1, column: 1, ...place, path, message }) }]
  } finally {
    limit.clear()
  }
}
