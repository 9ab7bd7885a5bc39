import type { Logger } from 'pino'
import { ConfigError, type Problem } from '../../../core/errors.js'
import type { Config } from '../../config/load.js'
import { savedDocument } from './checkpoints.js'
import { type DataKind, findOrphans, inventory, kindsOf, type Orphan, type OrphanConfig } from './inventory.js'
import { renamesOf } from './renames.js'

/**
 * The configuration has no destination for the events in some disk buffers or spools, so they would not be delivered.
 */
export class EventsLeftBehind extends Error {
  readonly code = 'SLUICE_EVENTS_LEFT_BEHIND'

  constructor(buffers: readonly (Pick<Orphan, 'id'> & Partial<Pick<Orphan, 'kind'>>)[]) {
    const { kind } = buffers[0]!
    const ids = buffers.map(({ id }) => id).join(', ')
    super(
      `the ${kind === 'spool' ? 'spool' : 'disk buffer'} of ${ids} holds events that would not be delivered. Set "renamed_from: ${buffers[0]!.id}" on the destination that replaces it, keep ${ids} until it has delivered them, or list it in discard_orphans to delete them. The daemon tries the configuration again`,
    )
  }
}

/** Finds disk buffers and spools of destinations in `before` that hold events which `next` would not deliver. */
export async function buffersLeftBehind(before: Config, next: Config, log: Logger): Promise<Orphan[]> {
  const keeping = ({ destinations }: Config) =>
    destinations.flatMap(one =>
      kindsOf(one).flatMap(kind => (kind === 'buffer' || kind === 'spool' ? [`${kind} ${one.id}`] : [])),
    )
  const kept = new Set(keeping(next))
  const gone = new Set(keeping(before).filter(one => !kept.has(one)))
  if (gone.size === 0) return []
  return (await leftBehind(next, log, ['buffer', 'spool'])).filter(({ kind, id }) => gone.has(`${kind} ${id}`))
}

/** Orphans that a configuration neither takes over nor discards. */
export async function leftBehind(next: OrphanConfig, log: Logger, kinds?: DataKind[]): Promise<Orphan[]> {
  const taken = new Set(renamesOf(next).map(({ kind, from }) => `${kind} ${from}`))
  const orphans = await findOrphans(next, log, kinds)
  return orphans.filter(({ kind, id }) => !taken.has(`${kind} ${id}`) && !next.discardOrphans.includes(id))
}

/** `id`: the source that would read again what the source `removed` has read. */
interface Repeat extends Problem {
  readonly id: string
  readonly removed: string
}

/**
 * Finds sources that would read again what a removed source has read. Most likely, the removed source was renamed. The
 * found sources would deliver everything twice or, with `read_from: end`, skip undelivered events.
 */
export async function findRepeats({ dataDir, sources, discardOrphans }: OrphanConfig): Promise<Repeat[]> {
  const saved = await inventory(dataDir, ['checkpoint'])
  const configured = new Set(sources.flatMap(({ id, renamedFrom }) => [id, renamedFrom]))
  const orphans = saved.filter(({ id }) => !configured.has(id) && !discardOrphans.includes(id))
  return sources.flatMap(({ id, renamedFrom, definition, options, place }) => {
    if (!definition.overlaps || saved.some(own => own.id === id || own.id === renamedFrom)) return []
    return orphans.flatMap(({ id: other, path }) => {
      const [first, ...more] = definition.overlaps!(options, documentIn(path))
      if (first === undefined) return []
      const what = more.length > 0 ? `${first} and ${more.length} more` : first
      const message = `would read ${what} from the beginning: the source ${other}, which has read it, is no longer configured. Set "renamed_from: ${other}" to continue where it left off, or list ${other} in discard_orphans to start from the beginning`
      return [{ file: '', line: 1, column: 1, ...place, path: `sources.${id}`, message, id, removed: other }]
    })
  })
}

export async function refuseRepeats(config: Config): Promise<void> {
  const problems = await findRepeats(config)
  if (problems.length > 0) throw new ConfigError(problems)
}

function documentIn(path: string): unknown {
  try {
    return savedDocument(path)
  } catch {
    return undefined
  }
}

/** Returns an error if `next` would not deliver events buffered by `before`, or would repeat or skip events. */
export async function objectionTo(next: Config, before: Config, log: Logger): Promise<Error | undefined> {
  const known = new Set((await findRepeats(before)).map(({ message }) => message))
  const repeats = (await findRepeats(next)).filter(({ message }) => !known.has(message))
  if (repeats.length > 0) return new ConfigError(repeats)
  const left = await buffersLeftBehind(before, next, log)
  return left.length > 0 ? new EventsLeftBehind(left) : undefined
}
