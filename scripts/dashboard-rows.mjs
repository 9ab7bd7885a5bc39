// The panels of the Grafana dashboard, row by row. dashboard.mjs builds the dashboard from them.
import { BY, bounds, C, EACH, kind, lines, perComponent, quantile, rate, S, stat, table } from './dashboard-panels.mjs'
import { THROTTLE_ROWS } from './dashboard-throttles.mjs'

/** The metrics of all codecs, as one with a label `codec`. */
const UNDECODED = `label_replace({__name__=~"sluice_not_.+_lines_total", ${C}}, "codec", "$1", "__name__", "sluice_not_(.+)_lines_total")`

export const ROWS = {
  'What is wrong': [
    stat(
      'Paused destinations',
      'They wait until you correct the cause, such as a wrong key or address. No events are lost. `sluice status` shows what to do.',
      'short',
      `sum(sluice_delivery_holding{${C}})`,
      bounds(undefined, 1),
    ),
    stat(
      'Not ready',
      'Daemons with a destination or source that is not ready. /readyz shows which one, and why.',
      'short',
      `sum(1 - sluice_ready{${S}})`,
      bounds(1, 5),
    ),
    stat(
      'Unread',
      'Bytes in files that are not read yet.',
      'bytes',
      `sum(sluice_file_unread_bytes{${C}})`,
      bounds(1e8, 1e10),
    ),
    stat(
      'Fullest buffer',
      'When a buffer is full, its sources wait, or it discards new events (when_full: drop_newest).',
      'percentunit',
      `max(sluice_buffer_bytes{${C}} / sluice_buffer_max_bytes{${C}})`,
      bounds(0.5, 0.8),
    ),
    stat(
      'Oldest positions',
      'Time since positions were saved. After a crash, Sluice sends again what it sent since then.',
      's',
      `max(sluice_checkpoint_age_seconds{${C}})`,
      bounds(30, 120),
    ),
    stat(
      'Miscounted events',
      'Checks in which received, sent, discarded and in-flight events did not add up. This is a bug, please report it.',
      'short',
      `sum(sluice_conservation_errors_total{${C}})`,
      bounds(undefined, 1),
    ),
    table(
      'Alerts',
      'Alerts from config/prometheus that fire or are pending.',
      `sum by (alertname, alertstate, severity, instance, component_id) (ALERTS{alertname=~"Sluice.+", ${S}})`,
      ['Time', 'Value'],
    ),
    table(
      'Configurations',
      'The configuration of each daemon (a hash of its files), when it was loaded, and the version of Sluice.',
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
      'Discarded events by component and reason, such as throttled, filtered or rejected.',
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
    lines('Delivered, in bytes', 'Size of the delivered lines as they were read, not as they were sent.', 'Bps', [
      perComponent('sluice_component_sent_bytes_total', kind('destination')),
    ]),
    lines('In flight', 'Events inside a component.', 'short', [
      [`sum ${BY} (sluice_component_in_flight_events{${C}})`, EACH],
    ]),
  ],
  'Sources and backlog': [
    lines(
      'Unread',
      'Bytes that are written and not read yet. They grow while a destination is slower than the writers.',
      'bytes',
      [[`sum ${BY} (sluice_file_unread_bytes{${C}})`, EACH]],
      { stacked: true },
    ),
    lines('Unread, by file', 'The ten files with the most unread bytes.', 'bytes', [
      [`topk(10, sum by (component_id, file) (sluice_file_unread_bytes{${C}}))`, '{{component_id}} {{file}}'],
    ]),
    lines(
      'Behind in the journal',
      'Age of the last entry when it was read; while more entries wait, its age now.',
      's',
      [[`max ${BY} (sluice_journal_lag_seconds{${C}})`, EACH]],
    ),
    lines(
      'Unacknowledged',
      'Memory for events that are read and not delivered. A source waits when its memory is full.',
      'bytes',
      [[`sum ${BY} (sluice_source_unacknowledged_bytes{${C}})`, EACH]],
    ),
    lines('Files', 'Followed files, open files, unreadable files, and file systems that do not respond.', 'short', [
      [`sum ${BY} (sluice_files_watched{${C}})`, `${EACH} followed`],
      [`sum ${BY} (sluice_files_open{${C}})`, `${EACH} open`],
      [`sum ${BY} (sluice_files_unreadable{${C}})`, `${EACH} unreadable`],
      [`sum ${BY} (sluice_file_systems_silent{${C}})`, `${EACH} file systems silent`],
    ]),
    lines(
      'Rotations and truncations',
      'Files that were replaced by a new file with the same name, and truncated files.',
      'short',
      [
        [`sum ${BY} (increase(sluice_file_rotations_total{${C}}[$__rate_interval]))`, `${EACH} rotated`],
        [`sum ${BY} (increase(sluice_file_truncations_total{${C}}[$__rate_interval]))`, `${EACH} truncated`],
      ],
    ),
    lines(
      'Bytes of files lost',
      'Unread bytes of files that were removed or truncated without a copy. The log names the files.',
      'bytes',
      [[`sum ${BY} (increase(sluice_file_lost_bytes_total{${C}}[$__rate_interval]))`, EACH]],
      { thresholds: bounds(undefined, 1) },
    ),
    lines(
      'Age of positions',
      'Time since positions were saved.',
      's',
      [[`max ${BY} (sluice_checkpoint_age_seconds{${C}})`, EACH]],
      { thresholds: bounds(30, 120) },
    ),
    lines(
      'Positions that cannot be saved',
      '1 while saving fails. After a restart, Sluice sends again what it sent since the last save.',
      'short',
      [
        [`max ${BY} (sluice_checkpoint_unsaved{${C}})`, EACH],
        [`max ${BY} (sluice_buffer_progress_unsaved{${C}})`, `${EACH} (buffer)`],
      ],
      { thresholds: bounds(undefined, 1) },
    ),
    lines(
      'Undecodable and split lines',
      'Lines that the codec of their source cannot decode (they are kept as text), and pieces of too long lines.',
      'eps',
      [
        [`sum by (instance, component_id, codec) (rate(${UNDECODED}[$__rate_interval:]))`, `${EACH} not {{codec}}`],
        [`sum ${BY} (${rate('sluice_line_pieces_total')})`, `${EACH} pieces`],
      ],
    ),
    lines('Connections', 'Open connections of listening sources, and requests without a response yet.', 'short', [
      [`sum ${BY} (sluice_source_connections{${C}})`, `${EACH} connections`],
      [`sum ${BY} (sluice_http_unanswered_requests{${C}})`, `${EACH} requests`],
    ]),
    lines('Responses of http sources', 'By status. After 429 and 503, senders wait.', 'reqps', [
      [`sum by (component_id, status) (${rate('sluice_http_answers_total')})`, '{{component_id}} {{status}}'],
    ]),
    lines('Component errors', 'Errors in components, by kind. The log has details.', 'short', [
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
      'From the start of a request to its response. The points are exemplars: requests with their id from the receiver.',
      's',
      [0.5, 0.95, 0.99].map(q => quantile(q, 'sluice_delivery_attempt_seconds')),
      { exemplars: true },
    ),
    {
      type: 'heatmap',
      w: 8,
      h: 8,
      title: 'Attempts by duration',
      description: 'Number of attempts by duration.',
      unit: 's',
      queries: [[`sum by (le) (increase(sluice_delivery_attempt_seconds_bucket{${C}}[$__rate_interval]))`, '{{le}}']],
    },
    lines(
      'Requests by response',
      'By status, or by the reason for a missing response.',
      'reqps',
      [[`sum by (component_id, status) (${rate('sluice_http_requests_total')})`, '{{component_id}} {{status}}']],
      { exemplars: true },
    ),
    lines('Retries', 'Failed attempts that are repeated, by reason. No events are lost.', 'short', [
      [
        `sum by (component_id, reason) (increase(sluice_delivery_retries_total{${C}}[$__rate_interval]))`,
        '{{component_id}}: {{reason}}',
      ],
    ]),
    lines('Requests in flight', 'Open requests, and the number that max_in_flight allows.', 'short', [
      [`sum ${BY} (sluice_delivery_requests_in_flight{${C}})`, EACH],
      [`sum ${BY} (sluice_delivery_max_in_flight{${C}})`, `${EACH} allowed`],
    ]),
    lines(
      'Paused',
      '1 while a destination waits until you correct the cause.',
      'short',
      [[`max ${BY} (sluice_delivery_holding{${C}})`, EACH]],
      { thresholds: bounds(undefined, 1) },
    ),
    lines(
      'Failing for',
      'Time since delivery began to fail, and the wait that the receiver asked for (Retry-After). No events are lost.',
      's',
      [
        [`max ${BY} (sluice_delivery_failing_seconds{${C}})`, `${EACH} failing`],
        [`max ${BY} (sluice_delivery_paused_seconds{${C}})`, `${EACH} until the next attempt`],
      ],
      { thresholds: bounds(60, 600) },
    ),
    lines(
      'Rejected events',
      'Events that a receiver rejected permanently, by reason. `sluice resend` sends those in the dead-letter queue again.',
      'short',
      [
        [
          `sum by (component_id, reason) (increase(sluice_component_discarded_events_total{${C}${kind('destination')}}[$__rate_interval]))`,
          '{{component_id}}: {{reason}}',
        ],
        [
          `sum by (component_id, reason) (increase(sluice_dead_letter_events_total{${C}}[$__rate_interval]))`,
          '{{component_id}}: {{reason}}, in the dead-letter queue',
        ],
      ],
    ),
    lines(
      'Dead-letter queue',
      'Events in the dead-letter queue now. They stay until `sluice resend` delivers them or somebody deletes them.',
      'short',
      [[`max ${BY} (sluice_dead_letters{${C}})`, EACH]],
      { thresholds: bounds(undefined, 1) },
    ),
    lines('Oldest rejected event', 'Age of the oldest event in the dead-letter queue.', 's', [
      [`max ${BY} (sluice_dead_letters_age_seconds{${C}})`, EACH],
    ]),
  ],
  Buffers: [
    lines('Events on disk', 'Buffered events that are not delivered yet.', 'short', [
      [`sum ${BY} (sluice_buffer_events{${C}})`, EACH],
    ]),
    lines(
      'How full',
      'Used share of the maximum size of a buffer.',
      'percentunit',
      [[`sluice_buffer_bytes{${C}} / sluice_buffer_max_bytes{${C}}`, EACH]],
      { thresholds: bounds(0.5, 0.8) },
    ),
    lines('Write errors', '1 while a buffer cannot be written. Its sources wait.', 'short', [
      [`max ${BY} (sluice_buffer_unwritable{${C}})`, EACH],
    ]),
    lines('Time to write', 'Time to write and sync a group of records. Each event waits at least this long.', 's', [
      quantile(0.5, 'sluice_buffer_write_seconds'),
      quantile(0.99, 'sluice_buffer_write_seconds'),
    ]),
    lines('After a start', 'Events found in buffers, and bytes of unfinished or damaged records.', 'short', [
      [`sum ${BY} (sluice_buffer_replayed_events_total{${C}})`, `${EACH} events`],
      [`sum ${BY} (sluice_buffer_torn_bytes_total{${C}})`, `${EACH} bytes unfinished`],
      [`sum ${BY} (sluice_buffer_corrupt_bytes_total{${C}})`, `${EACH} bytes damaged`],
    ]),
  ],
  Process: [
    lines('CPU', 'Cores in use.', 'percentunit', [
      [`rate(process_cpu_seconds_total{${S}}[$__rate_interval])`, '{{instance}}'],
    ]),
    lines('Memory', 'Resident memory, and the heap as a part of it.', 'bytes', [
      [`process_resident_memory_bytes{${S}}`, '{{instance}} resident'],
      [`nodejs_heap_size_used_bytes{${S}}`, '{{instance}} heap'],
    ]),
    lines(
      'Delay of the event loop',
      '99th percentile of the delay.',
      's',
      [[`nodejs_eventloop_lag_p99_seconds{${S}}`, '{{instance}}']],
      { thresholds: bounds(0.1, 1) },
    ),
    lines(
      'File descriptors',
      'Open file descriptors as a share of the allowed number.',
      'percentunit',
      [[`process_open_fds{${S}} / process_max_fds{${S}}`, '{{instance}}']],
      { thresholds: bounds(0.5, 0.8) },
    ),
    lines('Garbage collection', 'Share of time spent in garbage collection.', 'percentunit', [
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
      'API requests by status.',
      'reqps',
      [[`sum by (status) (${rate('sluice_api_requests_total', S)})`, '{{status}}']],
      { stacked: true },
    ),
    lines('Duration of a request', 'Mean duration by route.', 's', [
      [
        `sum by (method, route) (${rate('sluice_api_request_seconds_total', S)}) / sum by (method, route) (${rate('sluice_api_requests_total', S)})`,
        '{{method}} {{route}}',
      ],
    ]),
    lines('Keys', 'Requests with a valid key, with a rejected key (by problem), and above the rate limit.', 'reqps', [
      [`sum(${rate('sluice_api_authenticated_total', S)})`, 'valid'],
      [`sum by (problem) (${rate('sluice_api_refused_keys_total', S)})`, 'refused: {{problem}}'],
      [`sum(${rate('sluice_api_rate_limited_total', S)})`, 'above the limit'],
    ]),
    stat(
      'Keys that expire soon',
      'Rotate these keys before they expire. The log names them.',
      'short',
      `sum(sluice_api_keys_expiring_soon{${S}})`,
      bounds(1, 10),
    ),
    stat(
      'Read-only stores',
      'Services that cannot write their store. The log shows the reason.',
      'short',
      `sum(1 - sluice_store_writable{${S}})`,
      bounds(1, 1),
    ),
    stat(
      'Expired keys',
      'Keys that still exist; the service rejects them.',
      'short',
      `sum(sluice_api_keys_expired{${S}})`,
      bounds(1, 100),
    ),
  ],
}
