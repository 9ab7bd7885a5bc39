import { clockTime, counted, type DaemonView } from '../daemon-view.js'
import type { Problem } from './daemon.js'

/** What to do about events that throttles discard for other reasons than their limit. */
export const LOST_BY_THROTTLES: Readonly<Record<string, string>> = {
  throttled_backlog:
    'Its source sent them all at once while it was catching up. To keep them, set on_backlog or time_field, or a longer max_delay.',
  max_keys:
    'They were of new keys while max_keys others were in use. Raise max_keys, or choose a key_field with fewer values; `sluice top` shows the busiest keys.',
  late: 'They were later than allowed_lateness. Raise it, or set on_late to pass.',
  no_backend: 'The server of the cluster limit could not be asked; on_backend_failure says what to do then.',
}

/** Throttles that do not apply the limits that they should. */
export function throttleProblems({ scrape, wall }: DaemonView): Problem[] {
  const problems: Problem[] = []
  for (const { labels, value } of scrape.all('sluice_throttle_limits_file_valid')) {
    if (value !== 0) continue
    const [readAt] = scrape.all('sluice_throttle_limits_file_read_timestamp_seconds', labels)
    problems.push({
      what: `${labels.component_id}: its limits file cannot be used; the rules that were read last stay in use`,
      ...(readAt && {
        detail: `They were read at ${clockTime(new Date(readAt.value * 1000).toISOString(), wall)}.`,
      }),
      todo: 'Correct the file; the log names the line. It is read again by itself.',
    })
  }
  for (const { labels, value } of scrape.all('sluice_throttle_state_unsaved')) {
    if (value === 0) continue
    problems.push({
      what: `${labels.component_id}: its buckets cannot be saved`,
      todo: 'After a restart it begins with those that were saved last, so more than its limits may pass. Is the disk of data_dir full, or not writable? The log says why (SLUICE_BUCKETS_NOT_SAVED).',
    })
  }
  for (const { labels, value } of scrape.all('sluice_throttle_quota_ahead_timestamp_seconds')) {
    if (value === 0) continue
    const until = clockTime(new Date(value * 1000).toISOString(), wall)
    problems.push({
      what: `${labels.component_id}: its quota counts in a later period until ${until}, since the clock was set back`,
      todo: 'A bucket whose quota that period has used up passes nothing until then. If the clock is right now, restart the daemon: systemctl restart sluice. With persist, what was used then counts for the present period.',
    })
  }
  for (const { labels, value } of scrape.all('sluice_component_waiting_full_sources')) {
    if (value === 0) continue
    problems.push({
      what: `${labels.component_id} holds back ${counted(value, 'source')}: as many events wait for room as may`,
      todo: 'What such a source reads next comes later, also that of other buckets. One that goes on writing more than its limit never catches up: raise the limit, or set a short max_delay, or time_field.',
    })
  }
  for (const { labels, value } of scrape.all('sluice_throttle_events_total', { decision: 'fail_open' })) {
    const { component_id = '', mode } = labels
    const isFull =
      scrape.sum('sluice_throttle_buckets', { component_id }) >=
      scrape.sum('sluice_throttle_max_buckets', { component_id })
    // In shadow mode nothing is limited. A cluster limit also passes events while its server is away.
    const isCluster = scrape.all('sluice_throttle_backend_up', { component_id }).length > 0
    if (value === 0 || !isFull || isCluster || mode !== undefined) continue
    problems.push({
      what: `${component_id} has passed ${counted(value, 'event')} without a limit since the daemon started`,
      todo: 'As many keys are in use as max_keys allows, and events of others pass uncounted. Raise max_keys, or choose a key_field with fewer values; `sluice top` shows the busiest keys.',
    })
  }
  return problems
}
