import { UNROUTED } from '../../../core/processor.js'
import { GIVEN_BACK } from '../../../engine/flow/counters.js'
import { PROCESSING_FAILED } from '../../../engine/flow/decided.js'
import { counted, type DaemonView, short } from '../daemon-view.js'
import { deadLetterProblems } from './dead-letter.js'
import { destinationProblems } from './destination.js'
import { managedProblemsOf } from './managed.js'
import { orphanProblems } from './orphan.js'
import { outageProblems } from './outage.js'
import { positionProblems } from './position.js'
import { LOST_BY_THROTTLES, throttleProblems } from './throttle.js'
import { tlsProblemsOf } from './tls.js'

/** A problem, and what to do about it. */
export interface Problem {
  readonly what: string
  /** Since when, how often and similar facts. */
  readonly detail?: string
  readonly todo: string
  /** Commands that `todo` mentions, each ready to be typed. */
  readonly commands?: readonly string[]
}

const FULL_SHARE = 0.8
/** What to say about reasons that leave no rejected event. Others of a processor are what it is there for. */
const LOST_FOR: Readonly<Record<string, string>> = {
  buffer_full: 'They are lost, because when_full is drop_newest. With block the sources would wait.',
  ...LOST_BY_THROTTLES,
  buffer_corrupt: 'They are lost: the files of the buffer were damaged. The log names them.',
  [UNROUTED]:
    'They are lost: nothing reads the output that they went to. `sluice validate` names it; a blackhole that reads it says that this is intended.',
  [PROCESSING_FAILED]: 'They are lost: they could not be processed, and on_error is discard. The log says why.',
}

const DELETED = 'sluice_file_deleted_undelivered_bytes'
const DISCARDED = 'sluice_component_discarded_events_total'

const BY_KIND: Readonly<Record<string, string>> = {
  source: 'See its options in the configuration.',
  destination: 'They are lost: the destination rejected them, and on_reject is discard.',
}

/** The problems of the daemon, worst first. */
export function problemsOf(view: DaemonView): Problem[] {
  const { scrape, failing } = view
  const problems: Problem[] = []
  problems.push(...destinationProblems(view))
  for (const { labels, value } of scrape.all(DELETED)) {
    if (value > 0)
      problems.push({
        what: `${labels.component_id}: ${short(value)}B of deleted files are not delivered, and only exist while the daemon has them open`,
        todo: 'A restart loses them, unless a compressed copy is left in their folder. Correct what holds up the delivery before you restart.',
      })
  }
  for (const { id, state, reason } of failing) {
    const holds = state === 'holding'
    problems.push({
      what: `${id} ${holds ? 'is holding' : 'fails'}: ${reason}`,
      todo: holds
        ? 'It reads nothing until that is corrected, and then resumes by itself. No events are lost.'
        : 'It is restarted at its last position until it works. It resumes by itself when the cause is corrected.',
    })
  }
  problems.push(...outageProblems(view))
  if (scrape.all('sluice_config_last_reload_successful').some(({ value }) => value === 0))
    problems.push({
      what: 'the last reload failed: the previous configuration is still running',
      todo: 'The log says where it is wrong, and so does `sluice validate`. Nothing is lost.',
    })
  for (const [id, errors] of scrape.by('component_id', 'sluice_conservation_errors_total')) {
    if (errors > 0)
      problems.push({
        what: `${id}: event counts do not add up`,
        todo: 'This is a bug of Sluice: please report it with the log and the metrics.',
      })
  }
  for (const { labels, value } of scrape.all('sluice_buffer_unwritable')) {
    if (value > 0)
      problems.push({
        what: `${labels.component_id}: its buffer cannot be written`,
        todo: 'Nothing is lost: its sources wait, and it is tried again until it works. Is the disk of data_dir full, or not writable? The log says why (SLUICE_BUFFER_NOT_WRITTEN).',
      })
  }
  for (const { labels, value } of scrape.all('sluice_buffer_bytes')) {
    const id = labels.component_id!
    const most = scrape.sum('sluice_buffer_max_bytes', { component_id: id })
    if (most > 0 && value >= most * FULL_SHARE)
      problems.push({
        what: `${id}: its buffer is ${Math.round((value / most) * 100)} % full (${short(value)}B of ${short(most)}B)`,
        todo: 'Full, it makes its sources wait (or drops, with when_full: drop_newest). Raise buffer.max_bytes or help the receiver.',
      })
  }
  for (const { labels, value } of scrape.all('sluice_files_unreadable')) {
    if (value > 0)
      problems.push({
        what: `${labels.component_id}: ${counted(value, 'file')} cannot be read`,
        todo: 'The log names each of them and says why (SLUICE_FILE_UNREADABLE). It is read from where it was left, or from its beginning, once that works. One with a byte that no record begins with ("byte 4: …") is read on once decode is what it was written with, or it is written anew; or leave it out of include.',
      })
  }
  for (const { labels, value } of scrape.all('sluice_file_lost_bytes_total')) {
    if (value > 0)
      problems.push({
        what: `${labels.component_id} has lost ${short(value)}B of its files since the daemon started`,
        todo: 'They were removed or truncated before they were read, and no copy was found. The log names them (SLUICE_FILE_VANISHED, SLUICE_FILE_TRUNCATED).',
      })
  }
  for (const { labels, value } of scrape.all('sluice_file_systems_silent')) {
    if (value > 0)
      problems.push({
        what: `${labels.component_id}: ${counted(value, 'file system')} ${value === 1 ? 'does' : 'do'} not answer`,
        todo: 'Its files wait, and nothing else does. The log names it (SLUICE_FILE_SYSTEM_SILENT): check the file server and the network.',
      })
  }
  for (const { labels, value } of scrape.all('sluice_files_watched')) {
    if (scrape.sum('sluice_file_systems_silent', labels) > 0) continue
    if (value === 0 && scrape.sum('sluice_files_unreadable', labels) === 0)
      problems.push({
        what: `${labels.component_id}: there is no file that it could read`,
        todo: 'Compare its include and exclude with the names of the files. One that comes is read from its beginning.',
      })
  }
  problems.push(...orphanProblems(view))
  problems.push(...positionProblems(view))
  for (const { labels, value } of scrape.all(DISCARDED)) {
    const { component_id, component_kind, reason = '' } = labels
    const todo = LOST_FOR[reason] ?? BY_KIND[component_kind!]
    if (value === 0 || reason === GIVEN_BACK || todo === undefined) continue
    // These are in the dead-letter queue, or went to the readers of `.rejected`.
    if (scrape.sum('sluice_dead_letter_events_total', { component_id: component_id!, reason }) > 0) continue
    problems.push({
      what: `${component_id} has discarded ${counted(value, 'event')} since the daemon started: ${reason}`,
      todo,
    })
  }
  return [
    ...problems,
    ...throttleProblems(view),
    ...deadLetterProblems(view),
    ...managedProblemsOf(view),
    ...tlsProblemsOf(view),
  ]
}
