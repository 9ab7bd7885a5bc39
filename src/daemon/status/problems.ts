import type { ProcessorOutage } from '../../core/component.js'
import { UNROUTED } from '../../core/processor.js'
import { dataDirOf } from '../../engine/config/load.js'
import { stateOfFiles } from '../../engine/config/yaml/files.js'
import { GIVEN_BACK } from '../../engine/flow/counters.js'
import { PROCESSING_FAILED } from '../../engine/flow/dispatch.js'
import type { DestinationState } from '../../engine/run/engine.js'
import type { Wait } from '../../engine/run/measure/waits.js'
import type { SourceFailure } from '../../engine/run/source-run.js'
import { adviceFor, type DataKind, pathOf } from '../../engine/run/state/inventory.js'
import { shellWord } from '../../lib/shell-word.js'
import { clockTime, counted, formatDuration, short } from '../../lib/units.js'
import type { ManagedReport } from '../run/gauges.js'
import type { Series } from './series.js'

export interface Problem {
  /** The affected component; missing if no component is affected, or if it is no longer configured. */
  readonly component?: string
  readonly what: string
  /** Facts, such as when the problem began and how often it occurred. */
  readonly detail?: string
  readonly todo: string
  /** Commands that `todo` mentions, each ready to be typed. */
  readonly commands?: readonly string[]
}

export interface Named {
  readonly id: string
  readonly kind: string
  readonly type: string
  /** The outputs that the component reads, as in the configuration. */
  readonly inputs?: readonly string[]
}

export interface Observed {
  /** Wall-clock time in milliseconds. */
  readonly wall: number
  readonly series: Series
  readonly components: readonly Named[]
  readonly destinations: readonly DestinationState[]
  /** Sources that wait for an operator, or that fail and are restarted. */
  readonly sources: readonly SourceFailure[]
  /** Processors that wait for a server which does not reply, or that do not finish processing their events. */
  readonly processors: readonly (ProcessorOutage & { readonly id: string })[]
  readonly waits?: readonly Wait[]
  readonly managed?: ManagedReport | undefined
  /** The path of the daemon's configuration, if it is a file, and the data_dir. Missing while the daemon starts. */
  readonly about?: { readonly config?: string | undefined; readonly data_dir: string } | undefined
}

/** The problems of a daemon, worst first. */
export function problemsOf(seen: Observed): Problem[] {
  return [
    ...destinationProblems(seen),
    ...waitProblems(seen),
    ...positive(seen, [DELETED]),
    ...sourceProblems(seen),
    ...processorProblems(seen),
    ...reloadProblems(seen),
    ...balanceProblems(seen),
    ...positive(seen, [BUFFER_UNWRITABLE]),
    ...fullBufferProblems(seen),
    ...unreadableProblems(seen),
    ...lostBytesProblems(seen),
    ...positive(seen, [FILE_SYSTEM_SILENT]),
    ...nothingToRead(seen),
    ...undecodedProblems(seen),
    ...unprocessedProblems(seen),
    ...orphansIn(seen, kind => !COSTS_NOTHING.has(kind)),
    ...positionProblems(seen),
    ...positive(seen, [PROGRESS_UNSAVED]),
    ...discardProblems(seen),
    ...throttleProblems(seen),
    ...positive(seen, [DEAD_LETTERS_UNWRITABLE]),
    ...deadLetterProblems(seen),
    ...managedProblems(seen),
    ...tlsProblems(seen),
  ]
}

/** Data of sources and throttles that may have been removed on purpose. Deleting this data loses no events. */
export function noticesOf(seen: Observed): Problem[] {
  return orphansIn(seen, kind => COSTS_NOTHING.has(kind))
}

/** A metric that is above 0 if a component has a problem. */
interface Positive {
  readonly metric: string
  readonly what: (id: string, value: number, wall: number) => string
  readonly todo: string
}

const ON_DISK = 'Is the disk of data_dir full, or not writable? The log says why'

const DELETED: Positive = {
  metric: 'sluice_file_deleted_undelivered_bytes',
  what: (id, value) =>
    `${id}: ${short(value)}B of deleted files are not delivered, and only exist while the daemon has them open`,
  todo: 'A restart loses them, unless their folder has a compressed copy. Before you restart, correct the cause that blocks the delivery.',
}

const BUFFER_UNWRITABLE: Positive = {
  metric: 'sluice_buffer_unwritable',
  what: id => `${id}: its buffer cannot be written`,
  todo: `No events are lost: its sources wait, and the daemon tries again until the write succeeds. ${ON_DISK} (SLUICE_BUFFER_NOT_WRITTEN).`,
}

const PROGRESS_UNSAVED: Positive = {
  metric: 'sluice_buffer_progress_unsaved',
  what: id => `${id}: its buffer cannot save which events were delivered`,
  todo: `After a restart, the receiver would get these events again. ${ON_DISK} (SLUICE_BUFFER_LEDGER_NOT_WRITTEN).`,
}

const DEAD_LETTERS_UNWRITABLE: Positive = {
  metric: 'sluice_dead_letters_unwritable',
  what: id => `${id}: its dead-letter queue cannot be written`,
  todo: `No events are lost: they wait, and the daemon tries again until the write succeeds. ${ON_DISK} (SLUICE_DEAD_LETTER, or the reason dead_letter of a destination).`,
}

const SILENT = 'sluice_file_systems_silent'
const UNREADABLE = 'sluice_files_unreadable'

const FILES_UNREADABLE: Positive = {
  metric: UNREADABLE,
  what: (id, value) => `${id}: ${counted(value, 'file')} cannot be read`,
  todo: 'The log names each file and the reason (SLUICE_FILE_UNREADABLE, SLUICE_COPY_DAMAGED). When a file can be read again, reading continues at its last position, or at its beginning.',
}

/** What to do, by the reason why a file cannot be read. */
const UNREADABLE_ADVICE: readonly (readonly [cause: RegExp, todo: string])[] = [
  [
    /^(EACCES|EPERM)$/,
    'Let the user of the daemon read the file (permission r) and enter its folders (x), for example with SupplementaryGroups= in the unit.',
  ],
  [/^UTF-16$/, 'Write the file in UTF-8, or convert it: iconv -f UTF-16 -t UTF-8.'],
  [/^UTF-32$/, 'Write the file in UTF-8, or convert it: iconv -f UTF-32 -t UTF-8.'],
  [/^byte /, 'Set decode to the format of the file, write the file again, or remove it from include.'],
]

function unreadableProblems(seen: Observed): Problem[] {
  return positive(seen, [FILES_UNREADABLE]).map(problem => {
    const labels = { component_id: problem.component ?? '' }
    const files = seen.series.all('sluice_file_unreadable', labels).map(one => one.labels)
    if (files.length === 0) return problem
    const more = seen.series.sum(UNREADABLE, labels) - files.length
    const named = files.map(({ file, cause }) => `${file} (${cause})`).join(', ')
    const advice = UNREADABLE_ADVICE.filter(([of]) => files.some(({ cause = '' }) => of.test(cause)))
    return {
      ...problem,
      detail: `${named}${more > 0 ? ` and ${counted(more, 'other file')}` : ''}.`,
      todo: [...advice.map(([, todo]) => todo), problem.todo].join(' '),
    }
  })
}

const FILE_SYSTEM_SILENT: Positive = {
  metric: SILENT,
  what: (id, value) => `${id}: ${counted(value, 'file system')} ${value === 1 ? 'does' : 'do'} not answer`,
  todo: 'Files there wait; other files are read. The log names each file system (SLUICE_FILE_SYSTEM_SILENT): check the file server and the network.',
}

const LOST_BYTES: Positive = {
  metric: 'sluice_file_lost_bytes_total',
  what: (id, value) => `${id} has lost ${short(value)}B of its files since the daemon started`,
  todo: 'The files were removed or truncated before they were read to their end, and no copy was found. The log names the files (SLUICE_FILE_VANISHED, SLUICE_FILE_TRUNCATED).',
}
/** At most this many files are named: those that lost the most bytes. */
const NAMED_LOSSES = 3

function lostBytesProblems(seen: Observed): Problem[] {
  const { series, wall } = seen
  return positive(seen, [LOST_BYTES]).map(problem => {
    const of = { component_id: problem.component ?? '' }
    const files = series.all('sluice_file_lost_bytes', of).toSorted((a, b) => b.value - a.value)
    const named = files.slice(0, NAMED_LOSSES).map(({ labels: { file = '' }, value }) => {
      const at = series.sum('sluice_file_lost_timestamp_seconds', { ...of, file })
      return `${short(value)}B of ${file} (last at ${atSeconds(at, wall)})`
    })
    const more = files.length - named.length
    if (named.length === 0) return problem
    return { ...problem, detail: `${named.join(', ')}${more > 0 ? ` and ${counted(more, 'other file')}` : ''}.` }
  })
}

const OF_THROTTLES: readonly Positive[] = [
  {
    metric: 'sluice_throttle_keyless_events',
    what: (id, value) =>
      `${id}: not one of ${counted(value, 'event')} had the key, so all share one bucket and its limit`,
    todo: 'Correct key_field, or decode of the source; `sluice tap` shows the fields of the events.',
  },
  {
    metric: 'sluice_throttle_late_keys',
    what: (id, value) => `${id}: most events of ${counted(value, 'key')} are late`,
    todo: 'With on_late: pass, no limit holds for late events; with discard, they are discarded. Their times went back, for example because a clock was set back or summer time ended; the log names a bucket (SLUICE_EVENTS_LATE). Write times in UTC or with their offset. Otherwise, raise allowed_lateness above the step, or remove time_field to count events when they arrive.',
  },
  {
    metric: 'sluice_throttle_state_unsaved',
    what: id => `${id}: its buckets cannot be saved`,
    todo: `After a restart, the throttle uses the buckets that were saved last, so more events than the limits allow may pass. ${ON_DISK} (SLUICE_BUCKETS_NOT_SAVED).`,
  },
  {
    metric: 'sluice_throttle_quota_ahead_timestamp_seconds',
    what: (id, value, wall) =>
      `${id}: its events count in the quota of a later period until ${atSeconds(value, wall)}, because the clock was set back`,
    todo: 'Until then, a bucket that has used up its quota in that period passes nothing. If the clock is correct now, restart the daemon: systemctl restart sluice. With persist, the amount used in that period then counts in the current period.',
  },
  {
    metric: 'sluice_component_waiting_full_sources',
    what: (id, value) => `${id} has paused ${counted(value, 'source')}: too many of its events wait for room`,
    todo: 'Events that the source reads next are delayed, also events of other buckets. If the source keeps sending more than the limit, it never catches up: raise the limit, shorten max_delay or the wait of over_limit, or replace on_backlog: pace with time_field.',
  },
]

function positive({ series, wall }: Observed, all: readonly Positive[]): Problem[] {
  return all.flatMap(({ metric, what, todo }) =>
    series
      .all(metric)
      .filter(({ value }) => value > 0)
      .map(({ labels: { component_id: id = '' }, value }) => ({ component: id, what: what(id, value, wall), todo })),
  )
}

const NAMED_WAITS = 5

const SAFE = 'No events are lost.'
/** Types of sources that lose events at a stop, because their senders do not send these events again. */
const ONCE: readonly string[] = ['tcp', 'stdin']

/** Destinations that do not deliver, with details of the outage. */
function destinationProblems({ series, components, destinations, waits = [], wall }: Observed): Problem[] {
  const isDeleted = series.sum(DELETED.metric) > 0
  const isOnce = components.some(({ kind, type }) => kind === 'source' && ONCE.includes(type))
  return destinations
    .filter(({ state }) => state !== 'ready' && state !== 'stopped')
    .map(destination => {
      const { id, state, reason } = destination
      const drops = series.sum(DISCARDED, { component_id: id, reason: 'buffer_full' }) > 0
      const isSafe = !isDeleted && (!isOnce || series.all(BUFFERED, { component_id: id }).length > 0)
      const kept = waits.some(one => one.for.includes(id)) ? ', as long as their sources keep them' : ''
      const safe = `No events are lost${isSafe ? '' : ' while the daemon runs'}${kept}.`
      const isNew = state === 'failing' && series.sum(SENT, { component_id: id }) === 0
      const never = isNew ? 'It has delivered nothing since the daemon started.' : ''
      const detail = [outageDetail(destination, wall), never].filter(text => text !== '').join(' ')
      return {
        component: id,
        what: reason === undefined ? `${id} is ${state}` : `${id} is ${state}: ${reason}`,
        ...(detail !== '' && { detail }),
        todo: deliveryAdvice(state, drops).replace(SAFE, safe),
      }
    })
}

/** Components that others wait for, and what lets the others continue. */
function waitProblems({ series, components, waits = [], wall }: Observed): Problem[] {
  return [...new Set(waits.flatMap(one => one.for))].map(id => {
    const waiting = waits.filter(one => one.for.includes(id))
    const since = waiting.map(one => one.since).sort()[0]!
    const ids = waiting.map(one => one.id)
    const named = ids.length > NAMED_WAITS ? [...ids.slice(0, NAMED_WAITS), `${ids.length - NAMED_WAITS} more`] : ids
    const sum = (metric: string) => series.sum(`sluice_${metric}`, { component_id: id })
    const [full] = ['buffer', 'spool'].filter(kind => sum(`${kind}_bytes`) > FULL_SHARE * sum(`${kind}_max_bytes`))
    const drops = full === 'buffer' ? `, or set \`buffer.when_full: drop_newest\` to discard new events instead` : ''
    const isDestination = components.some(one => one.id === id && one.kind === 'destination')
    const advice = full
      ? `, or raise \`${full}.max_bytes\` of ${id}${drops}`
      : isDestination && sum('buffer_max_bytes') === 0
        ? `, or give ${id} a disk buffer: \`buffer: { type: disk }\`. With \`buffer: { type: disk, when_full: drop_newest }\`, a full buffer discards new events`
        : ''
    return {
      component: id,
      what: `${new Intl.ListFormat('en').format(named)} ${ids.length === 1 ? 'waits' : 'wait'} for ${id}`,
      detail: `Since ${clockTime(since, wall)} (${lasting((wall - Date.parse(since)) / 1000)}).`,
      todo: `Correct the cause${advice}. Until then, sources do not read on: events that are removed before they are read, for example by log rotation, are lost.`,
    }
  })
}

function deliveryAdvice(state: string, drops: boolean): string {
  if (drops) return 'Its buffer is full or was full, and events that did not fit were discarded. Correct the cause.'
  switch (state) {
    case 'refusing':
      return 'The receiver rejects most requests; on_reject decides where their events go. Correct the receiver or the events.'
    case 'retrying':
    case 'failing':
      return `${SAFE} Check what the error names: the receiver, the network or the disk.`
    case 'starting':
      return `${SAFE} Delivery begins when the destination has been checked.`
    default:
      return `${SAFE} Delivery resumes by itself when the cause is corrected.`
  }
}

/** Text such as `Since 14:01:07 (2m 5s), 12 failed attempts, the last at 14:03:12, the next in 8s.` */
function outageDetail(destination: DestinationState, wall: number): string {
  const { since, failures = 0, last_failure, next_attempt, oldest_event } = destination
  const sentences: string[] = []
  const ago = (time: string) => lasting((wall - Date.parse(time)) / 1000)
  if (since !== undefined) {
    const parts = [`Since ${clockTime(since, wall)} (${ago(since)}), ${failed(failures)}`]
    if (last_failure !== undefined && failures > 1) parts.push(`the last at ${clockTime(last_failure, wall)}`)
    if (next_attempt !== undefined) {
      const inMs = Date.parse(next_attempt) - wall
      parts.push(inMs < 1000 ? 'the next one now' : `the next in ${lasting(inMs / 1000)}`)
    }
    sentences.push(`${parts.join(', ')}.`)
  }
  if (oldest_event !== undefined) sentences.push(`The oldest waiting event is ${ago(oldest_event)} old.`)
  return sentences.join(' ')
}

/** `1 failed attempt`, `2 failed attempts`. */
export const failed = (attempts: number) => `${attempts} failed attempt${attempts === 1 ? '' : 's'}`

/** Formats a number of seconds. Formats less than one second as one second. */
export const lasting = (seconds: number) => formatDuration(Math.max(1, Math.round(seconds)) * 1000)

const atSeconds = (seconds: number, wall: number) => clockTime(new Date(seconds * 1000).toISOString(), wall)

function sourceProblems({ sources }: Observed): Problem[] {
  return sources.map(({ id, state, reason }) => {
    const holds = state === 'holding'
    return {
      component: id,
      what: `${id} ${holds ? 'is holding' : 'fails'}: ${reason}`,
      todo: holds
        ? 'It reads nothing until the cause is corrected, and then resumes by itself. No events are lost.'
        : 'It is restarted at its last position until it works. It resumes by itself when the cause is corrected.',
    }
  })
}

function processorProblems({ processors, wall }: Observed): Problem[] {
  return processors.map(({ id, isStuck, reason, since, attempts, next_attempt, meanwhile }) => {
    if (isStuck)
      return {
        component: id,
        what: `${id} is stuck: ${reason}`,
        detail: `Since ${clockTime(since, wall)}. Meanwhile ${meanwhile}.`,
        todo: 'Correct the plugin: each call of process must end. Then reload, or restart the daemon.',
      }
    const next = next_attempt === undefined ? 'trying now' : `next attempt at ${clockTime(next_attempt, wall)}`
    return {
      component: id,
      what: `${id} cannot ask the server of its cluster limit: ${reason}`,
      detail: `Since ${clockTime(since, wall)}, ${counted(attempts, 'failure')}, ${next}. Meanwhile ${meanwhile}.`,
      todo: 'Check the server, the network and the options of redis. The throttle asks the server again by itself.',
    }
  })
}

function reloadProblems({ series }: Observed): Problem[] {
  if (!series.all('sluice_config_last_reload_successful').some(({ value }) => value === 0)) return []
  const todo = 'The log and `sluice validate` show what is wrong in the new configuration. Nothing is lost.'
  return [{ what: 'the last reload failed: the previous configuration is still running', todo }]
}

function balanceProblems({ series }: Observed): Problem[] {
  return [...series.by('component_id', 'sluice_conservation_errors_total')]
    .filter(([, errors]) => errors > 0)
    .map(([id]) => ({
      component: id,
      what: `${id}: event counts do not add up`,
      todo: 'This is a bug of Sluice: please report it with the log and the metrics.',
    }))
}

const FULL_SHARE = 0.8

function fullBufferProblems({ series }: Observed): Problem[] {
  const drops = { buffer: ' (or it discards events, with when_full: drop_newest)', spool: '' }
  return (['buffer', 'spool'] as const).flatMap(kind =>
    series.all(`sluice_${kind}_bytes`).flatMap(({ labels, value }) => {
      const id = labels.component_id!
      const most = series.sum(`sluice_${kind}_max_bytes`, { component_id: id })
      if (!(most > 0 && value >= most * FULL_SHARE)) return []
      return {
        component: id,
        what: `${id}: its ${kind} is ${Math.round((value / most) * 100)} % full (${short(value)}B of ${short(most)}B)`,
        todo: `When it is full, its sources wait${drops[kind]}. Raise ${kind}.max_bytes, or make the receiver faster.`,
      }
    }),
  )
}

function nothingToRead({ series }: Observed): Problem[] {
  return series.all('sluice_files_watched').flatMap(({ labels, value }) => {
    if (value !== 0 || series.sum(SILENT, labels) > 0 || series.sum(UNREADABLE, labels) > 0) return []
    return {
      component: labels.component_id!,
      what: `${labels.component_id}: did not find any file to read`,
      todo: 'Compare its include and exclude with the names of the files. A file that appears later is read from its beginning.',
    }
  })
}

/** Sources that could not decode at least half of their lines. */
function undecodedProblems({ series }: Observed): Problem[] {
  return [...series.matching(/^sluice_not_(.+)_lines_total$/)].flatMap(([codec, samples]) =>
    samples.flatMap(({ labels: { component_id = '' }, value }) => {
      const lines = series.sum('sluice_component_received_events_total', { component_id })
      if (value === 0 || value * 2 < lines) return []
      return {
        component: component_id,
        what: `${component_id}: ${short(value)} of its ${counted(lines, 'line')} could not be read as ${codec}`,
        todo: 'They are kept as text: keys and conditions find only their field .message. Correct the option decode.',
      }
    }),
  )
}

/** Processors that could not process most of their events and passed them on unchanged. */
function unprocessedProblems({ series }: Observed): Problem[] {
  const reason = PROCESSING_FAILED
  return series
    .all('sluice_component_errors_total', { component_kind: 'processor', kind: 'processing' })
    .flatMap(({ labels: { component_id = '' }, value }) => {
      const events = series.sum('sluice_component_received_events_total', { component_id })
      // If such events are discarded or in the dead-letter queue, another problem reports that.
      if (value === 0 || value * 2 < events || series.sum(DISCARDED, { component_id, reason }) > 0) return []
      return {
        component: component_id,
        what: `${component_id} could not process ${short(value)} of its ${counted(events, 'event')}`,
        todo: 'They pass unchanged, with the reason in .processing_error and in the log (SLUICE_PROCESSOR_FAILED). Correct the processor, or decode of the source.',
      }
    })
}

/** Describes the data of a component that is not configured any more. */
const LEFT: Readonly<Record<DataKind, (events: number) => string>> = {
  checkpoint: () => 'saved positions',
  buckets: () => 'saved buckets',
  buffer: events => (events > 0 ? `a buffer with ${counted(events, 'event')}` : 'a buffer that cannot be read now'),
  spool: events => (events > 0 ? `a spool with ${counted(events, 'event')}` : 'a spool that cannot be read now'),
  dead_letters: events => counted(events, 'rejected event'),
}

const COSTS_NOTHING: ReadonlySet<string> = new Set<DataKind>(['checkpoint', 'buckets'])

function orphansIn({ series }: Observed, isWanted: (kind: string) => boolean): Problem[] {
  return series.all('sluice_orphaned_bytes').flatMap(({ labels, value }) => {
    const { component_id: id = '', kind = '', path = '' } = labels
    if (!isWanted(kind)) return []
    const what = LEFT[kind as DataKind]?.(series.sum('sluice_orphaned_events', labels)) ?? kind
    return {
      what: `${id} is not configured any more and left ${what} (${short(value)}B) in ${path}`,
      todo: adviceFor({ kind: kind as DataKind, id, path }),
    }
  })
}

/** If a position must be saved, but no position was saved for this many seconds, saving is stuck. */
const OLD_S = 60

/** Sources whose positions cannot be saved, or were not saved for a long time. */
function positionProblems({ series }: Observed): Problem[] {
  const ages = series.by('component_id', 'sluice_checkpoint_age_seconds')
  const unsaved = series.by('component_id', 'sluice_checkpoint_unsaved')
  return [...new Set([...ages.keys(), ...unsaved.keys()])].flatMap(id => {
    const age = ages.get(id) ?? 0
    const failed = (unsaved.get(id) ?? 0) > 0
    if (!failed && age <= OLD_S) return []
    const since = `have not been saved for ${Math.round(age)} s`
    return {
      component: id,
      what: failed ? `${id}: its positions cannot be saved` : `${id}: its positions ${since}`,
      ...(failed && age >= 1 && { detail: `They ${since}.` }),
      todo: `After a restart, events sent since then would be sent again. ${ON_DISK} (SLUICE_CHECKPOINT_NOT_SAVED).`,
    }
  })
}

const SENT = 'sluice_component_sent_events_total'
const BUFFERED = 'sluice_buffer_max_bytes'
const DISCARDED = 'sluice_component_discarded_events_total'

/** Advice by reason, for events that are lost. With any other reason, processors discard on purpose. */
const LOST_FOR: Readonly<Record<string, string>> = {
  buffer_full: 'They are lost, because when_full is drop_newest. With block the sources would wait.',
  throttled_backlog:
    'Its source was catching up, and their buckets were over the limit. To keep such events, raise the limit, or delay them with `on_backlog: pace`. If it is `pace` already, set a longer max_delay. If it is `credit`, without `scope: cluster`, raise max_credit if the source was behind for longer. At a first start, this time is unknown, and credit has no effect.',
  max_keys:
    'Their keys were new, and max_keys other keys were in use. Raise max_keys, or choose a key_field with fewer values; `sluice top` shows the busiest keys.',
  late: 'They were later than allowed_lateness. Raise it, or set on_late to pass.',
  no_backend: 'The server of the cluster limit did not reply, and on_backend_failure is discard.',
  buffer_corrupt: 'They are lost: the files of the buffer were damaged. The log names them.',
  spool_corrupt: 'They are lost: files of the spool were damaged. The log names them.',
  [UNROUTED]:
    'They are lost: no component reads the output that they went to. `sluice validate` names it. If this is intended, let a blackhole read it.',
  [PROCESSING_FAILED]: 'They are lost: they could not be processed, and on_error is discard. The log says why.',
}

const LOST_BY: Readonly<Record<string, string>> = {
  source: 'See its options in the configuration.',
  destination: 'They are lost: the destination rejected them, and on_reject is discard.',
}

function discardProblems({ series }: Observed): Problem[] {
  return series.all(DISCARDED).flatMap(({ labels, value }) => {
    const { component_id = '', component_kind = '', reason = '' } = labels
    const todo = LOST_FOR[reason] ?? LOST_BY[component_kind]
    if (value === 0 || reason === GIVEN_BACK || todo === undefined) return []
    // Events in the dead-letter queue, and events that the readers of `.rejected` got, are not lost.
    if (series.sum('sluice_dead_letter_events_total', { component_id, reason }) > 0) return []
    return {
      component: component_id,
      what: `${component_id} has discarded ${counted(value, 'event')} since the daemon started: ${reason}`,
      todo,
    }
  })
}

function throttleProblems(seen: Observed): Problem[] {
  const { series, wall } = seen
  const limits = series.all('sluice_throttle_limits_file_valid').flatMap(({ labels, value }) => {
    if (value !== 0) return []
    const [readAt] = series.all('sluice_throttle_limits_file_read_timestamp_seconds', labels)
    return {
      component: labels.component_id!,
      what: `${labels.component_id}: its limits file cannot be used; the rules that were read last stay in use`,
      ...(readAt && { detail: `They were read at ${atSeconds(readAt.value, wall)}.` }),
      todo: 'Correct the file; the log names the line. The throttle reads a changed file by itself.',
    }
  })
  const open = series.all('sluice_throttle_events_total', { decision: 'fail_open' }).flatMap(({ labels, value }) => {
    const { component_id = '', mode } = labels
    const sum = (name: string) => series.sum(`sluice_throttle_${name}`, { component_id })
    // In shadow mode, nothing is limited. With a cluster limit, events also pass while its server does not reply.
    const isCluster = series.all('sluice_throttle_backend_up', { component_id }).length > 0
    if (value === 0 || sum('buckets') < sum('max_buckets') || isCluster || mode !== undefined) return []
    return {
      component: component_id,
      what: `${component_id} has passed ${counted(value, 'event')} without a limit since the daemon started`,
      todo: 'The limit of max_keys is reached, and events of further keys pass uncounted. Raise max_keys, or choose a key_field with fewer values; `sluice top` shows the busiest keys.',
    }
  })
  const ahead = series.all('sluice_throttle_untimed_events_total', { reason: 'ahead' }).flatMap(({ labels, value }) => {
    const { component_id = '' } = labels
    const events = series.sum('sluice_component_received_events_total', { component_id })
    if (value === 0 || value * 2 < events) return []
    return {
      component: component_id,
      what: `${component_id}: the times of ${short(value)} of its ${counted(events, 'event')} are ahead of the clock`,
      todo: 'They count when they arrive. Correct the clock of the machine that writes them, or write times in UTC or with their offset. If they are right, raise allowed_lateness.',
    }
  })
  return [...limits, ...positive(seen, OF_THROTTLES), ...open, ...ahead]
}

/** Events in the dead-letter queues, with the commands that resend them. */
function deadLetterProblems({ series, components, about }: Observed): Problem[] {
  return series.all('sluice_dead_letters').flatMap(({ labels, value }) => {
    if (value === 0) return []
    const id = labels.component_id!
    const [age] = series.all('sluice_dead_letters_age_seconds', { component_id: id })
    const isProcessor = components.some(one => one.id === id && one.kind === 'processor')
    const command = resendCommand(id, about)
    return {
      component: id,
      what: `${id}: ${counted(value, 'event')} in the dead-letter queue${age ? `, the oldest for ${lasting(age.value)}` : ''}`,
      todo: `${isProcessor ? 'They could not be processed' : 'The destination rejected them'}. The first command lists the reasons. When the cause is corrected, the second command sends them again.`,
      commands: [`${command} --dry-run`, command],
    }
  })
}

/** A command line that works from any folder. */
export function resendCommand(id: string, about: Observed['about']): string {
  const words = ['sluice', 'resend', '--config', about?.config ?? 'FILE', '--destination', id]
  // In another folder or environment, the configuration may name another data_dir.
  if (about && dataDirElsewhere(about.config) !== about.data_dir) words.push(pathOf(about.data_dir, 'dead_letters', id))
  return words.map(shellWord).join(' ')
}

/** The data_dir is cached until the configuration's files change, since the page asks for it every few seconds. */
let known = { config: '', state: '', folder: undefined as string | undefined }

function dataDirElsewhere(config: string | undefined): string | undefined {
  if (config === undefined) return undefined
  const state = stateOfFiles(config)
  if (config !== known.config || state !== known.state) known = { config, state, folder: folderElsewhere(config) }
  return known.folder
}

function folderElsewhere(config: string): string | undefined {
  try {
    const folder = dataDirOf(config, {})
    return folder.startsWith(`${process.cwd()}/`) ? undefined : folder
  } catch {
    return undefined
  }
}

/** Outages of fewer seconds are not reported, because the service may just be restarting or being updated. */
const AWAY_S = 60

/** A revision that cannot run, and a service that cannot be reached. */
function managedProblems({ managed }: Observed): Problem[] {
  if (!managed) return []
  const { service, revision, refused, refusal, unreachable_seconds = 0, unreachable, report_problem } = managed
  const current = revision === undefined ? 'No revision is running.' : `Revision ${revision} keeps running.`
  const problems: Problem[] = []
  if (refused !== undefined && revision !== undefined) {
    const todo = `${current} Correct the pipeline, or correct the local configuration and reload the daemon.`
    problems.push({ what: `revision ${refused} of the pipeline cannot run here: ${refusal}`, todo })
  }
  if (unreachable_seconds >= AWAY_S) {
    const what = `the service ${service} has not answered for ${lasting(unreachable_seconds)}: ${unreachable}`
    problems.push({ what, todo: `${current} Check the network, the address of the pipeline and the access key.` })
  } else if (report_problem !== undefined && unreachable === undefined) {
    const what = `the service does not accept the reports of this daemon: ${report_problem}`
    problems.push({ what, todo: `${current} \`sluice fleet\` shows old data, or nothing.` })
  }
  return problems
}

/** Older refusals are not reported. */
const RECENT_S = 3600
const SOON_S = 7 * 86_400

/** Certificates that expire, and clients that are refused in the TLS handshake. */
function tlsProblems({ series, wall }: Observed): Problem[] {
  const expiring = series.all('sluice_tls_certificate_expiry_timestamp_seconds').flatMap(({ labels, value }) => {
    const left = value - wall / 1000
    const { component_id, option, file } = labels
    if (left >= SOON_S) return []
    const when = `${left <= 0 ? 'expired' : 'expires'} on ${new Date(value * 1000).toISOString().slice(0, 10)}`
    const todo = 'Renew the certificate in that file. The new one is used without a restart.'
    return { what: `${component_id}: the certificate in tls.${option} (${file}) ${when}`, todo }
  })
  const refused = series.all('sluice_tls_last_refusal_age_seconds').flatMap(({ labels, value }) => {
    const { component_id, reason } = labels
    if (value > RECENT_S || reason === 'closed') return []
    const total = counted(series.sum('sluice_tls_refused_connections_total', labels), 'TLS connection')
    return {
      what: `${component_id} refused ${total} (${reason}), the last one ${lasting(value)} ago`,
      todo: 'The log names the address of the client and the cause (SLUICE_TLS_REFUSED).',
    }
  })
  return [...expiring, ...refused]
}
