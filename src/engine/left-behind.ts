import type { Logger } from 'pino'
import type { Config } from '../config/load.js'
import { findOrphans } from './orphans.js'
import { renamesOf } from './renames.js'

/** A configuration has no destination for events that wait in disk buffers: nobody would deliver them. */
export class EventsLeftBehind extends Error {
  readonly code = 'SLUICE_EVENTS_LEFT_BEHIND'

  constructor(destinations: readonly string[]) {
    const ids = destinations.join(', ')
    super(
      `the disk buffer of ${ids} holds events, and nobody would deliver them: set "renamed_from: ${destinations[0]}" on the destination that replaces it, keep ${ids} until it has delivered them, or list it in discard_orphans to delete them; it is tried again`,
    )
  }
}

/** Destinations of `before` whose disk buffers hold events that `next` has no destination for. */
export async function leftBehind(before: Config, next: Config, log: Logger): Promise<string[]> {
  const taken = new Set(renamesOf(next).flatMap(({ from, buffered }) => (buffered ? [from] : [])))
  const buffered = before.destinations.filter(({ delivery }) => delivery?.buffer.type === 'disk')
  const ids = buffered.map(({ id }) => id).filter(id => !taken.has(id) && !next.discardOrphans.includes(id))
  if (ids.every(id => next.destinations.some(other => other.id === id && other.delivery?.buffer.type === 'disk')))
    return []
  const orphans = await findOrphans(next, log)
  return ids.filter(id => orphans.some(orphan => orphan.kind === 'buffer' && orphan.id === id))
}
