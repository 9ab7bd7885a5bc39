import type { SourceContext } from '../../core/component.js'
import type { Descriptors } from './descriptors.js'
import type { Remote } from './discovery/remote.js'
import type { OpenFiles } from './open-files.js'
import type { PathProblems } from './path-problems.js'
import type { Tailer } from './reading/tailer.js'
import { undeliveredOfDeleted } from './rotation/losses.js'

/** Maximum number of files with their own series. These are the files with the largest backlog. */
const MAX_SERIES = 50

interface Series {
  readonly labels: Record<string, string>
  readonly value: number
}

export function registerGauges(
  { metrics, checkpoints, clock }: SourceContext,
  openFiles: OpenFiles,
  grown: Set<Tailer>,
  open: Descriptors,
  { problems, remote }: { readonly problems: PathProblems; readonly remote: Remote },
): void {
  metrics.gauge('sluice_files_watched', 'Files being followed.', () => openFiles.size)
  metrics.gauge('sluice_files_open', 'Open files.', () => open.size)
  metrics.gauge('sluice_files_unreadable', 'Files and folders that cannot be read now.', () => problems.unread)
  const silent = 'Remote file systems that do not respond now; reading of their files waits.'
  metrics.gauge('sluice_file_systems_silent', silent, () => remote.silent)
  metrics.gauges(
    'sluice_file_unread_bytes',
    `Unread bytes of a file, for the ${MAX_SERIES} files with the most; all others together are "other".`,
    () => unread(openFiles, grown),
  )
  const deleted =
    'Undelivered bytes of deleted files, which exist only while the daemon has them open. A restart loses them.'
  metrics.gauge('sluice_file_deleted_undelivered_bytes', deleted, () => undeliveredOfDeleted(openFiles.tailers))
  const created = clock.wall()
  metrics.gauge('sluice_checkpoint_age_seconds', 'Age of the saved positions; 0 while they are up to date.', () => {
    return Math.max(0, clock.wall() - (checkpoints.savedAt || created)) / 1000
  })
}

/** Looks only at files that have grown, because there may be many files. Removes those that were read to their end. */
function unread(openFiles: OpenFiles, grown: Set<Tailer>): Series[] {
  const { lineages } = openFiles
  const byName = new Map<string, number>()
  for (const tailer of grown) {
    const { unread, origin, path } = tailer
    const name = origin.path ?? path
    if (unread > 0 && openFiles.reads(tailer)) byName.set(name, (byName.get(name) ?? 0) + unread)
    else grown.delete(tailer)
  }
  const behind = [...byName].sort(([, a], [, b]) => b - a)
  const shown = behind.slice(0, MAX_SERIES)
  for (const name of lineages.keys()) {
    if (shown.length >= MAX_SERIES) break
    if (!byName.has(name)) shown.push([name, 0])
  }
  if (lineages.size > MAX_SERIES)
    shown.push(['other', behind.slice(MAX_SERIES).reduce((sum, [, value]) => sum + value, 0)])
  return shown.map(([file, value]) => ({ labels: { file }, value }))
}
