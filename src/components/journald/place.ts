import { refuseNewer } from '../../core/unreadable.js'

/**
 * A position in the journal: after the entry at `cursor`, or before that entry if `at` is true. Without a cursor: the
 * beginning.
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
