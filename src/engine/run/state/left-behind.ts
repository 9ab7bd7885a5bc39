import type { Logger } from 'pino'
import { ConfigError } from '../../../core/errors.js'
import type { Config } from '../../config/load.js'
import { findOrphans, type Orphan } from './orphans.js'
import { renamesOf } from './renames.js'
import { findRepeats } from './repeats.js'

/** A configuration has no destination for events in disk buffers, so they would not be delivered. */
export class EventsLeftBehind extends Error {
  readonly code = 'SLUICE_EVENTS_LEFT_BEHIND'

  constructor(buffers: readonly Pick<Orphan, 'id'>[]) {
    const ids = buffers.map(({ id }) => id).join(', ')
    super(
      `the disk buffer of ${ids} holds events that would not be delivered. Set "renamed_from: ${buffers[0]!.id}" on the destination that replaces it, keep ${ids} until it has delivered them, or list it in discard_orphans to delete them. The configuration is tried again`,
    )
  }
}

/** The disk buffers of destinations of `before` whose events have no destination in `next`. */
export async function leftBehind(before: Config, next: Config, log: Logger): Promise<Orphan[]> {
  const ids = before.destinations.flatMap(({ id, delivery }) => (delivery?.buffer.type === 'disk' ? [id] : []))
  if (ids.every(id => next.destinations.some(other => other.id === id && other.delivery?.buffer.type === 'disk')))
    return []
  return (await leftInBuffers(next, log)).filter(({ id }) => ids.includes(id))
}

/** All disk buffers whose events have no destination in `next`. */
export async function leftInBuffers(next: Config, log: Logger): Promise<Orphan[]> {
  const taken = new Set(renamesOf(next).flatMap(({ from, buffered }) => (buffered ? [from] : [])))
  const orphans = await findOrphans(next, log)
  return orphans.filter(({ kind, id }) => kind === 'buffer' && !taken.has(id) && !next.discardOrphans.includes(id))
}

/** Why a start with `next` would lose track of data that `before` left in data_dir; undefined if it would not. */
export async function objectionTo(next: Config, before: Config, log: Logger): Promise<Error | undefined> {
  const known = new Set(findRepeats(before).map(({ message }) => message))
  const repeats = findRepeats(next).filter(({ message }) => !known.has(message))
  if (repeats.length > 0) return new ConfigError(repeats)
  const left = await leftBehind(before, next, log)
  return left.length > 0 ? new EventsLeftBehind(left) : undefined
}
