// The panels of the dashboard for Grafana, row by row; dashboard.mjs makes it of them.
import { BY, bounds, C, EACH, kind, lines, perComponent, quantile, rate, S, stat, table } from './dashboard-panels.mjs'
import { THROTTLE_ROWS } from './dashboard-throttles.mjs'

/** The metrics of all codecs, as one with a label `codec`. */
const UNDECODED = `label_replace({__name__=~"sluice_not_.+_lines_total", ${C}}, "codec", "$1", "__name__", "sluice_not_(.+)_lines_total")`

export const ROWS = {
  'What is wrong': [
    stat(
      'Destinations that hold',
      'They wait for a person: the key was refused, or an address is wrong. Nothing is lost. `sluice status` says what to do.',
      'short',
      `sum(sluice_delivery_holding{${C}})`,
      bounds(undefined, 1),
    ),
    stat(
      'Not ready',
      'Daemons of which a destination or a source is not ready; /readyz says which and why.',
      'short',
      `sum(1 - sluice_ready{${S}})`,
      bounds(1, 5),
    ),
    stat(
      'Unread',
      'Bytes of files that were not read yet.',
      'bytes',
      `sum(sluice_file_unread_bytes{${C}})`,
      bounds(1e8, 1e10),
    ),
    stat(
      'Fullest buffer',
      'Full, it makes its sources wait, or drops what comes (when_full: drop_newest).',
      'percentunit',
      `max(sluice_buffer_bytes{${C}} / sluice_buffer_max_bytes{${C}})`,
      bounds(0.5, 0.8),
    ),
    stat(
      'Oldest positions',
      'How long ago positions were saved. After a crash, what was sent since then is sent again.',
      's',
      `max(sluice_checkpoint_age_seconds{${C}})`,
      bounds(30, 120),
    ),
    stat(
      'Not accounted for',
      'Checks that found received, sent, discarded and in flight not to add up: a bug, please report it.',
      'short',
      `sum(sluice_conservation_errors_total{${C}})`,
      bounds(undefined, 1),
    ),
    table(
      'Alerts',
      'Alerts of config/prometheus that fire, or are about to.',
      `sum by (alertname, alertstate, severity, instance, component_id) (ALERTS{alertname=~"Sluice.+", ${S}})`,
      ['Time', 'Value'],
    ),
    table(
      'Configurations',
      'Which configuration runs where, by a hash of its files, since when, and which version of Sluice.',
      `sluice_config_last_reload_success_timestamp_seconds{${S}} * 1000 * on (job, instance) group_left (hash) sluice_config_info * on (job, instance) group_left (version) sluice_build_info`,
      ['Time'],
    ),
  ],
  Overview: [
    lines(
      'Read',
      'Events that sources have read.',
      'eps',
      [perComponent('sluice_component_received_events_total', kind('source'))],
      { stacked: true },
    ),
    lines(
      'Delivered',
      'Events that receivers have accepted.',
      'eps',
      [perComponent('sluice_component_sent_events_total', kind('destination'))],
      { stacked: true },
    ),
    lines(
      'Discarded',
      'Events that were not passed on, by component and reason: throttled, filtered, refused.',
      'eps',
      [
        [
          `sum by (component_id, reason) (${rate('sluice_component_discarded_events_total')})`,
          '{{component_id}}: {{reason}}',
        ],
      ],
      { stacked: true },
    ),
    lines('Read, in bytes', 'Size of the lines as they were read.', 'Bps', [
      perComponent('sluice_component_received_bytes_total', kind('source')),
    ]),
    lines('Delivered, in bytes', 'Size of the lines as they were read, whatever was sent.', 'Bps', [
      perComponent('sluice_component_sent_bytes_total', kind('destination')),
    ]),
    lines('Inside', 'Events that are under way in a component.', 'short', [
      [`sum ${BY} (sluice_component_in_flight_events{${C}})`, EACH],
    ]),
  ],
  'Sources and backlog': [
    lines(
      'Unread',
      'What is written and not read yet. It grows while a destination is slower than what is written.',
      'bytes',
      [[`sum ${BY} (sluice_file_unread_bytes{${C}})`, EACH]],
      { stacked: true },
    ),
    lines('Unread, by file', 'The files that are furthest behind.', 'bytes', [
      [`topk(10, sum by (component_id, file) (sluice_file_unread_bytes{${C}}))`, '{{component_id}} {{file}}'],
    ]),
    lines(
      'Behind in the journal',
      'How old the entry that was read last was when it was read; while more wait to be read, how old it is now.',
      's',
      [[`max ${BY} (sluice_journal_lag_seconds{${C}})`, EACH]],
    ),
    lines('Under way', 'Memory of what was read and is not settled; sources wait when theirs is used up.', 'bytes', [
      [`sum ${BY} (sluice_source_unacknowledged_bytes{${C}})`, EACH],
    ]),
    lines('Files', 'Files that are followed, those of them that are open, and what cannot be read.', 'short', [
      [`sum ${BY} (sluice_files_watched{${C}})`, `${EACH} followed`],
      [`sum ${BY} (sluice_files_open{${C}})`, `${EACH} open`],
      [`sum ${BY} (sluice_files_unreadable{${C}})`, `${EACH} unreadable`],
      [`sum ${BY} (sluice_file_systems_silent{${C}})`, `${EACH} file systems silent`],
    ]),
    lines(
      'Rotations and truncations',
      'New files under a name that was read before; files that were emptied.',
      'short',
      [
        [`sum ${BY} (increase(sluice_file_rotations_total{${C}}[$__rate_interval]))`, `${EACH} rotated`],
        [`sum ${BY} (increase(sluice_file_truncations_total{${C}}[$__rate_interval]))`, `${EACH} truncated`],
      ],
    ),
    lines(
      'Bytes of files lost',
      'Seen in files that were removed or truncated before they were read, with no copy left. The log names the files.',
      'bytes',
      [[`sum ${BY} (increase(sluice_file_lost_bytes_total{${C}}[$__rate_interval]))`, EACH]],
      { thresholds: bounds(undefined, 1) },
    ),
    lines(
      'Age of positions',
      'How long ago positions were saved.',
      's',
      [[`max ${BY} (sluice_checkpoint_age_seconds{${C}})`, EACH]],
      { thresholds: bounds(30, 120) },
    ),
    lines(
      'Positions that cannot be saved',
      '1 while they cannot. After a restart, what was sent since the last save is sent again.',
      'short',
      [
        [`max ${BY} (sluice_checkpoint_unsaved{${C}})`, EACH],
        [`max ${BY} (sluice_buffer_progress_unsaved{${C}})`, `${EACH} (buffer)`],
      ],
      { thresholds: bounds(undefined, 1) },
    ),
    lines(
      'Lines that are not what they should be',
      'Kept as text, since the codec of their source cannot read them; and pieces of lines that are too long.',
      'eps',
      [
        [`sum by (instance, component_id, codec) (rate(${UNDECODED}[$__rate_interval:]))`, `${EACH} not {{codec}}`],
        [`sum ${BY} (${rate('sluice_line_pieces_total')})`, `${EACH} pieces`],
      ],
    ),
    lines('Connections', 'Open connections of listening sources, and requests that wait for their answer.', 'short', [
      [`sum ${BY} (sluice_source_connections{${C}})`, `${EACH} connections`],
      [`sum ${BY} (sluice_http_unanswered_requests{${C}})`, `${EACH} requests`],
    ]),
    lines('Answers of http sources', 'By status: 429 and 503 tell senders to wait.', 'reqps', [
      [`sum by (component_id, status) (${rate('sluice_http_answers_total')})`, '{{component_id}} {{status}}'],
    ]),
    lines('Trouble', 'Things that went wrong in components, by kind; the log tells what.', 'short', [
      [
        `sum by (component_id, kind) (increase(sluice_component_errors_total{${C}}[$__rate_interval]))`,
        '{{component_id}}: {{kind}}',
      ],
    ]),
  ],
  ...THROTTLE_ROWS,
  'Destinations and delivery': [
    lines(
      'Time of an attempt',
      'From the beginning of a request to its answer. The points are exemplars: requests with the id that the receiver gave them.',
      's',
      [0.5, 0.95, 0.99].map(q => quantile(q, 'sluice_delivery_attempt_seconds')),
      { exemplars: true },
    ),
    {
      type: 'heatmap',
      w: 8,
      h: 8,
      title: 'Attempts by their time',
      description: 'How many attempts took how long.',
      unit: 's',
      queries: [[`sum by (le) (increase(sluice_delivery_attempt_seconds_bucket{${C}}[$__rate_interval]))`, '{{le}}']],
    },
    lines(
      'Requests by answer',
      'By status, or by why there was no answer.',
      'reqps',
      [[`sum by (component_id, status) (${rate('sluice_http_requests_total')})`, '{{component_id}} {{status}}']],
      { exemplars: true },
    ),
    lines('Repeated attempts', 'Attempts that failed and are made again, by reason. Nothing is lost by it.', 'short', [
      [
        `sum by (component_id, reason) (increase(sluice_delivery_retries_total{${C}}[$__rate_interval]))`,
        '{{component_id}}: {{reason}}',
      ],
    ]),
    lines('Requests under way', 'Those that are not settled, and how many max_in_flight allows.', 'short', [
      [`sum ${BY} (sluice_delivery_requests_in_flight{${C}})`, EACH],
      [`sum ${BY} (sluice_delivery_max_in_flight{${C}})`, `${EACH} allowed`],
    ]),
    lines(
      'Holding',
      '1 while a destination waits for a person.',
      'short',
      [[`max ${BY} (sluice_delivery_holding{${C}})`, EACH]],
      { thresholds: bounds(undefined, 1) },
    ),
    lines(
      'Failing for',
      'How long delivery has been failing, and how long the receiver asked to wait (Retry-After). Events wait; none are lost.',
      's',
      [
        [`max ${BY} (sluice_delivery_failing_seconds{${C}})`, `${EACH} failing`],
        [`max ${BY} (sluice_delivery_paused_seconds{${C}})`, `${EACH} until the next attempt`],
      ],
      { thresholds: bounds(60, 600) },
    ),
    lines(
      'Refused for good',
      'Events that a receiver will never take, by reason; `sluice resend` sends dead letters again.',
      'short',
      [
        [
          `sum by (component_id, reason) (increase(sluice_component_discarded_events_total{${C}${kind('destination')}}[$__rate_interval]))`,
          '{{component_id}}: {{reason}}',
        ],
        [
          `sum by (component_id, reason) (increase(sluice_dead_letter_events_total{${C}}[$__rate_interval]))`,
          '{{component_id}}: {{reason}}, kept as dead letters',
        ],
      ],
    ),
    lines(
      'Dead letters',
      'Events in the dead-letter queue now. They stay there until `sluice resend` sends them again or somebody deletes them.',
      'short',
      [[`max ${BY} (sluice_dead_letters{${C}})`, EACH]],
      { thresholds: bounds(undefined, 1) },
    ),
    lines('Oldest dead letter', 'Age of the oldest event in the dead-letter queue.', 's', [
      [`max ${BY} (sluice_dead_letters_age_seconds{${C}})`, EACH],
    ]),
  ],
  Buffers: [
    lines('Events on the disk', 'Safe, and not delivered.', 'short', [
      [`sum ${BY} (sluice_buffer_events{${C}})`, EACH],
    ]),
    lines(
      'How full',
      'Of what a buffer may take on the disk.',
      'percentunit',
      [[`sluice_buffer_bytes{${C}} / sluice_buffer_max_bytes{${C}}`, EACH]],
      { thresholds: bounds(0.5, 0.8) },
    ),
    lines('Cannot be written', '1 while a buffer cannot be written, and its sources wait.', 'short', [
      [`max ${BY} (sluice_buffer_unwritable{${C}})`, EACH],
    ]),
    lines('Time to write', 'To write a group of records and sync it: what an event waits for at least.', 's', [
      quantile(0.5, 'sluice_buffer_write_seconds'),
      quantile(0.99, 'sluice_buffer_write_seconds'),
    ]),
    lines('After a start', 'Events that were found in buffers, and bytes of unfinished or damaged records.', 'short', [
      [`sum ${BY} (sluice_buffer_replayed_events_total{${C}})`, `${EACH} events`],
      [`sum ${BY} (sluice_buffer_torn_bytes_total{${C}})`, `${EACH} bytes unfinished`],
      [`sum ${BY} (sluice_buffer_corrupt_bytes_total{${C}})`, `${EACH} bytes damaged`],
    ]),
  ],
  Process: [
    lines('CPU', 'Cores in use.', 'percentunit', [
      [`rate(process_cpu_seconds_total{${S}}[$__rate_interval])`, '{{instance}}'],
    ]),
    lines('Memory', 'Resident, and of it the heap.', 'bytes', [
      [`process_resident_memory_bytes{${S}}`, '{{instance}} resident'],
      [`nodejs_heap_size_used_bytes{${S}}`, '{{instance}} heap'],
    ]),
    lines(
      'Delay of the event loop',
      'The 99th percentile.',
      's',
      [[`nodejs_eventloop_lag_p99_seconds{${S}}`, '{{instance}}']],
      { thresholds: bounds(0.1, 1) },
    ),
    lines(
      'Descriptors',
      'Open ones, as a share of those allowed.',
      'percentunit',
      [[`process_open_fds{${S}} / process_max_fds{${S}}`, '{{instance}}']],
      { thresholds: bounds(0.5, 0.8) },
    ),
    lines('Collecting garbage', 'Share of the time.', 'percentunit', [
      [
        `sum by (instance, kind) (rate(nodejs_gc_duration_seconds_sum{${S}}[$__rate_interval]))`,
        '{{instance}} {{kind}}',
      ],
    ]),
    lines('Reloads', 'Reloads of the configuration by result.', 'short', [
      [
        `sum by (instance, result) (increase(sluice_config_reloads_total{${S}}[$__rate_interval]))`,
        '{{instance}} {{result}}',
      ],
    ]),
  ],
  'The service (sluice serve)': [
    lines(
      'Requests',
      'By status.',
      'reqps',
      [[`sum by (status) (${rate('sluice_api_requests_total', S)})`, '{{status}}']],
      { stacked: true },
    ),
    lines('Time of a request', 'The mean, by route.', 's', [
      [
        `sum by (method, route) (${rate('sluice_api_request_seconds_total', S)}) / sum by (method, route) (${rate('sluice_api_requests_total', S)})`,
        '{{method}} {{route}}',
      ],
    ]),
    lines('Keys', 'Requests with a valid key; with a refused one, by what is wrong with it; above a limit.', 'reqps', [
      [`sum(${rate('sluice_api_authenticated_total', S)})`, 'valid'],
      [`sum by (problem) (${rate('sluice_api_refused_keys_total', S)})`, 'refused: {{problem}}'],
      [`sum(${rate('sluice_api_rate_limited_total', S)})`, 'above the limit'],
    ]),
    stat(
      'Keys that expire soon',
      'Rotate them before; the log names them.',
      'short',
      `sum(sluice_api_keys_expiring_soon{${S}})`,
      bounds(1, 10),
    ),
    stat('Read-only stores', 'The log says why.', 'short', `sum(1 - sluice_store_writable{${S}})`, bounds(1, 1)),
    stat('Expired keys', 'Still there, and refused.', 'short', `sum(sluice_api_keys_expired{${S}})`, bounds(1, 100)),
  ],
}
