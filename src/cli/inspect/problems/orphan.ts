import { adviceFor, type OrphanKind } from '../../../engine/run/state/orphans.js'
import { counted, type DaemonView, short } from '../daemon-view.js'
import type { Problem } from './daemon.js'

/** Describes the data of a component that is not configured any more. */
const LEFT: Readonly<Record<OrphanKind, (events: number) => string>> = {
  checkpoint: () => 'saved positions',
  buckets: () => 'saved buckets',
  buffer: events => (events > 0 ? `a buffer with ${counted(events, 'event')}` : 'a buffer that cannot be read now'),
  dead_letters: events => counted(events, 'dead letter'),
}

const COSTS_NOTHING: ReadonlySet<string> = new Set<OrphanKind>(['checkpoint', 'buckets'])

/** Events that no destination delivers. */
export const orphanProblems = (view: DaemonView): Problem[] => orphansIn(view, kind => !COSTS_NOTHING.has(kind))

/** Data whose removal costs no events: that of sources and throttles that may have been removed on purpose. */
export const noticesOf = (view: DaemonView): Problem[] => orphansIn(view, kind => COSTS_NOTHING.has(kind))

function orphansIn({ scrape }: DaemonView, isWanted: (kind: string) => boolean): Problem[] {
  return scrape.all('sluice_orphaned_bytes').flatMap(({ labels, value }) => {
    const { component_id: id = '', kind = '', path = '' } = labels
    if (!isWanted(kind)) return []
    const what = LEFT[kind as OrphanKind]?.(scrape.sum('sluice_orphaned_events', labels)) ?? kind
    return [
      {
        what: `${id} is not configured any more and left ${what} (${short(value)}B) in ${path}`,
        todo: adviceFor({ kind: kind as OrphanKind, id, path }),
      },
    ]
  })
}
