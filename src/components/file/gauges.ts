import type { SourceContext } from '../../core/component.js'
import { above0 } from '../../core/fact.js'
import { counted, short } from '../../lib/units.js'
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
  const silent = 'Remote file systems that do not respond now; reading of their files waits.'
  const silence = above0(
    'unread',
    count => `${counted(count, 'file system')} ${count === 1 ? 'does' : 'do'} not answer`,
    'Files there wait; other files are read. The log names each file system (SLUICE_FILE_SYSTEM_SILENT): check the file server and the network.',
  )
  metrics.fact({ name: 'sluice_file_systems_silent', help: silent, read: () => remote.silent, problem: silence })
  metrics.fact({
    name: 'sluice_files_watched',
    help: 'Files being followed.',
    read: () => openFiles.size,
    shown: (count = 0) => counted(count, 'file'),
    problem: (count, { id }) =>
      count + remote.silent + problems.unread === 0 && {
        gravity: 'unread',
        what: `${id}: did not find any file to read`,
        todo: 'Compare its include and exclude with the names of the files. A file that appears later is read from its beginning.',
      },
  })
  metrics.gauge('sluice_files_open', 'Open files.', () => open.size)
  metrics.fact({
    name: 'sluice_file_unread_bytes',
    help: `Unread bytes of a file, for the ${MAX_SERIES} files with the most; all others together are "other".`,
    read: () => unread(openFiles, grown),
    shown: (bytes = 0) => `${short(bytes)}B unread`,
    backlog: 'file',
  })
  metrics.fact({
    name: 'sluice_file_deleted_undelivered_bytes',
    help: 'Undelivered bytes of deleted files, which exist only while the daemon has them open. A restart loses them.',
    read: () => undeliveredOfDeleted(openFiles.tailers),
    problem: above0(
      'unsafe',
      bytes => `${short(bytes)}B of deleted files are not delivered, and only exist while the daemon has them open`,
      'A restart loses them, unless their folder has a compressed copy. Before you restart, correct the cause that blocks the delivery.',
    ),
  })
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
  const shown: [string, number][] = []
  let others = 0
  for (const one of byName) {
    others += one[1]
    if (one[1] <= (shown[MAX_SERIES - 1]?.[1] ?? 0)) continue
    shown.splice(shown.findLastIndex(([, more]) => more >= one[1]) + 1, 0, one)
    shown.splice(MAX_SERIES)
  }
  for (const [, bytes] of shown) others -= bytes
  for (const name of lineages.keys()) {
    if (shown.length >= MAX_SERIES) break
    if (!byName.has(name)) shown.push([name, 0])
  }
  if (lineages.size > MAX_SERIES) shown.push(['other', others])
  return shown.map(([file, value]) => ({ labels: { file }, value }))
}
