import { refuseNewer } from '../../core/unreadable.js'

/**
 * A position in the journal. The position is after the entry at `cursor` or, if `at` is true, before that entry.
 * Without a cursor, it is the beginning of the journal.
 */
export interface JournalPlace {
  readonly cursor: string | undefined
  readonly at: boolean
}

export const PLACE_VERSION = 1

export function placeIn(saved: unknown): JournalPlace {
  const { version, cursor, at } = (saved ?? {}) as { version?: unknown; cursor?: unknown; at?: unknown }
  refuseNewer(version, PLACE_VERSION)
  return { cursor: typeof cursor === 'string' ? cursor : undefined, at: at === true }
}
