import { GIVEN_BACK } from '../engine/counters.js'
import { adviceFor, type OrphanKind } from '../engine/orphans.js'
import { counted, type DaemonView, short } from './daemon-view.js'
import { managedTroublesOf } from './managed-troubles.js'
import { tlsTroublesOf } from './tls-troubles.js'

/** Something that wants somebody's attention, and what to do about it. */
export interface Trouble {
  readonly what: string
  readonly todo: string
}

/** A position that was not saved for this long, with something to save, is stuck. */
const OLD_CHECKPOINT_S = 60
const FULL_SHARE = 0.8
/** Reasons of discards that lose nothing which is wanted. */
const NOT_LOST = new Set(['throttled', 'filtered', GIVEN_BACK])
/** What is no dead letter either. */
const LOST_FROM_BUFFER: Readonly<Record<string, string>> = {
  buffer_full: 'They are lost, as when_full: drop_newest says; block would make the sources wait.',
  buffer_corrupt: 'They are lost: the files of the buffer were damaged. The log tells more.',
}

/** What a component left that is not configured any more. */
const ORPHANS: Readonly<Record<OrphanKind, (events: number) => string>> = {
  checkpoint: () => 'saved positions',
  buffer: events => `a buffer with ${counted(events, 'event')}`,
  dead_letters: events => counted(events, 'dead letter'),
}

const OF_OPTIONS = 'See its options in the configuration.'
const DISCARDED = 'sluice_component_discarded_events_total'

function refused(kept: boolean): string {
  if (!kept) return 'They were refused for good, and are lost, as on_reject: discard says.'
  return 'They were refused for good, and kept: in data_dir/dead-letter (`sluice resend --dry-run` tells what is still there), or where `.rejected` leads.'
}

/** What is wrong with the daemon, the worst first. */
export function troublesOf(view: DaemonView): Trouble[] {
  const { scrape, destinations, failing } = view
  const troubles: Trouble[] = []
  for (const { id, state, reason = '' } of destinations) {
    if (state === 'ready' || state === 'stopped') continue
    const full = scrape.sum(DISCARDED, { component_id: id, reason: 'buffer_full' }) > 0
    const todo = full
      ? 'Its buffer is full, or was: what has no room in it is dropped. Look after what the reason names.'
      : state === 'refusing'
        ? 'Most requests are refused for good; their events go where on_reject says. The receiver or the events have to be corrected.'
        : state === 'retrying' || state === 'failing'
          ? 'Nothing is lost: it is tried again until it works. Look after what the reason names: the receiver, the way there, or the disk.'
          : 'Nothing is lost: events wait. It goes on by itself once that is put right.'
    troubles.push({ what: `${id} is ${state}: ${reason}`, todo })
  }
  for (const { id, state, reason } of failing) {
    const holds = state === 'holding'
    troubles.push({
      what: `${id} ${holds ? 'is holding' : 'fails'}: ${reason}`,
      todo: holds
        ? 'It reads nothing until that is put right, and then continues by itself. No events are lost.'
        : 'It is started again and again until it works, where it left off. It goes on by itself once that is put right.',
    })
  }
  if (scrape.all('sluice_config_last_reload_successful').some(({ value }) => value === 0))
    troubles.push({
      what: 'the configuration was not taken at the last reload: the one before it runs',
      todo: 'The log says where it is wrong, and so does `sluice validate`. Nothing is lost.',
    })
  for (const [id, errors] of scrape.by('component_id', 'sluice_conservation_errors_total')) {
    if (errors > 0)
      troubles.push({
        what: `${id}: events are not all accounted for`,
        todo: 'This is a bug of Sluice: please report it with the log and the metrics.',
      })
  }
  for (const { labels, value } of scrape.all('sluice_buffer_unwritable')) {
    if (value > 0)
      troubles.push({
        what: `${labels.component_id}: its buffer cannot be written`,
        todo: 'Nothing is lost: its sources wait, and it is tried again until it works. Is the disk of data_dir full, or not writable? The log says why (SLUICE_BUFFER_NOT_WRITTEN).',
      })
  }
  for (const { labels, value } of scrape.all('sluice_buffer_bytes')) {
    const id = labels.component_id!
    const most = scrape.sum('sluice_buffer_max_bytes', { component_id: id })
    if (most > 0 && value >= most * FULL_SHARE)
      troubles.push({
        what: `${id}: its buffer is ${Math.round((value / most) * 100)} % full (${short(value)}B of ${short(most)}B)`,
        todo: 'Full, it makes its sources wait (or drops, with when_full: drop_newest). Raise buffer.max_bytes or help the receiver.',
      })
  }
  for (const { labels, value } of scrape.all('sluice_files_unreadable')) {
    if (value > 0)
      troubles.push({
        what: `${labels.component_id}: ${counted(value, 'file')} cannot be read`,
        todo: 'The log names each of them and says why (SLUICE_FILE_UNREADABLE). It is read from where it was left, or from its beginning, once that works.',
      })
  }
  for (const { labels, value } of scrape.all('sluice_files_watched')) {
    if (value === 0 && scrape.sum('sluice_files_unreadable', labels) === 0)
      troubles.push({
        what: `${labels.component_id}: there is no file that it could read`,
        todo: 'Compare its include and exclude with the names of the files. One that comes is read from its beginning.',
      })
  }
  for (const { labels, value } of scrape.all('sluice_orphaned_bytes')) {
    const { component_id: id = '', kind = '', path = '' } = labels
    const events = scrape.sum('sluice_orphaned_events', labels)
    const what = ORPHANS[kind as OrphanKind]?.(events) ?? kind
    troubles.push({
      what: `${id} is not configured any more and left ${what} (${short(value)}B) in ${path}`,
      todo: adviceFor({ kind: kind as OrphanKind, id, path }),
    })
  }
  for (const { labels, value } of scrape.all('sluice_checkpoint_age_seconds')) {
    if (value > OLD_CHECKPOINT_S)
      troubles.push({
        what: `${labels.component_id}: its positions were not saved for ${Math.round(value)} s`,
        todo: 'After a kill, what was sent since then would be sent again. Is the disk of data_dir full, or not writable?',
      })
  }
  for (const { labels, value } of scrape.all(DISCARDED)) {
    const { component_id, component_kind, reason = '' } = labels
    if (value === 0 || NOT_LOST.has(reason)) continue
    const kept = scrape.sum('sluice_dead_letter_events_total', { component_id: component_id!, reason })
    troubles.push({
      what: `${component_id} has discarded ${counted(value, 'event')}: ${reason}`,
      todo: LOST_FROM_BUFFER[reason] ?? (component_kind === 'destination' ? refused(kept > 0) : OF_OPTIONS),
    })
  }
  return [...troubles, ...managedTroublesOf(view), ...tlsTroublesOf(view)]
}
