import { refuseNewer } from '../../core/unreadable.js'

/**
 * A position in the journal. The position is after the entry at `cursor` or, if `at` is true, before that entry.
 * Without a cursor, it is the beginning of the journal.
 */
export interface Place {
  readonly cursor: string | undefined
  readonly at: boolean
}

export const VERSION = 1

export function placeIn(saved: unknown): Place {
  const { version, cursor, at } = (saved ?? {}) as { version?: unknown; cursor?: unknown; at?: unknown }
  refuseNewer(version, VERSION)
  return { cursor: typeof cursor === 'string' ? cursor : undefined, at: at === true }
}
