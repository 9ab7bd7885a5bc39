// The rows about throttles in the Grafana dashboard.
import { BY, bounds, C, EACH, lines, quantile, rate } from './dashboard-panels.mjs'

export const THROTTLE_ROWS = {
  Throttles: [
    lines(
      'Decisions',
      'Passed, excluded and discarded events. fail_open: passed uncounted because max_keys was reached or the server was away.',
      'eps',
      [[`sum by (component_id, decision) (${rate('sluice_throttle_events_total')})`, '{{component_id}} {{decision}}']],
      { stacked: true },
    ),
    lines(
      'Discarded, by reason',
      'throttled: over a limit. throttled_backlog: over a limit while the source caught up. For the others, see the reference.',
      'eps',
      [
        [
          `sum by (component_id, reason) (${rate('sluice_component_discarded_events_total', `${C}, reason=~"throttled|throttled_backlog|max_keys|late|no_backend"`)})`,
          '{{component_id}} {{reason}}',
        ],
      ],
      { stacked: true },
    ),
    lines(
      'Share discarded',
      'Discarded share of the events that reached a throttle. If it is high: is one app noisy, or is the limit too low?',
      'percentunit',
      [
        [
          `sum ${BY} (${rate('sluice_throttle_events_total', `${C}, decision="discarded"`)}) / sum ${BY} (${rate('sluice_throttle_events_total')})`,
          EACH,
        ],
      ],
      { thresholds: bounds(0.5, 0.9) },
    ),
    lines(
      'Shadow and live',
      'Events that throttles in shadow mode would discard, and events that others discard.',
      'eps',
      [
        [
          `sum ${BY} (${rate('sluice_throttle_events_total', `${C}, decision="would_discard"`)})`,
          `${EACH} would discard`,
        ],
        [`sum ${BY} (${rate('sluice_throttle_events_total', `${C}, decision="discarded"`)})`, `${EACH} discards`],
      ],
    ),
    lines(
      'Heaviest keys',
      'Keys with the most discarded events (needs per_key_metrics). __other__: all other keys. __default__: events without a key.',
      'eps',
      [
        [
          `topk(20, sum by (component_id, key) (${rate('sluice_throttle_key_discarded_events_total', `${C}, key!="__other__"`)}))`,
          '{{component_id}} {{key}}',
        ],
        [
          `sum by (component_id, key) (${rate('sluice_throttle_key_discarded_events_total', `${C}, key="__other__"`)})`,
          '{{component_id}} {{key}}',
        ],
      ],
      { stacked: true },
    ),
    lines(
      'Error of the keys',
      'Maximum number of discarded events that the series of a key can miss. The sum of all series is exact.',
      'short',
      [[`max ${BY} (sluice_throttle_key_error_events{${C}})`, EACH]],
    ),
    lines(
      'Backlog discarded',
      'Discarded events of sources that were catching up. Their buckets were over the limit, also counted over all windows since the source fell behind.',
      'short',
      [
        [
          `sum ${BY} (increase(sluice_component_discarded_events_total{${C}, reason="throttled_backlog"}[$__rate_interval]))`,
          EACH,
        ],
      ],
      { thresholds: bounds(undefined, 1) },
    ),
    lines(
      'Buckets',
      'Buckets in memory, idle buckets that were removed, and events as long as no event had the key.',
      'short',
      [
        [`sum ${BY} (sluice_throttle_buckets{${C}})`, EACH],
        [`sum ${BY} (${rate('sluice_throttle_dropped_buckets_total')})`, `${EACH} removed per second`],
        [`sum ${BY} (sluice_throttle_keyless_events{${C}})`, `${EACH} without the key`],
      ],
    ),
    lines(
      'Room for keys',
      'Used share of max_keys. When all are in use, on_max_keys decides about events with new keys.',
      'percentunit',
      [[`sum ${BY} (sluice_throttle_buckets{${C}}) / sum ${BY} (sluice_throttle_max_buckets{${C}})`, EACH]],
      { thresholds: bounds(0.8, 0.9) },
    ),
    lines(
      'Age of the limits file',
      'Time since the rules in use were read. Sluice reads the file again when it changes.',
      's',
      [[`time() - max ${BY} (sluice_throttle_limits_file_read_timestamp_seconds{${C}})`, EACH]],
    ),
    lines('Limits file', 'Rules in use, and 1 while the file is broken and earlier rules stay in use.', 'short', [
      [`sum ${BY} (sluice_throttle_limits_file_rules{${C}})`, `${EACH} rules`],
      [`max ${BY} (1 - sluice_throttle_limits_file_valid{${C}})`, `${EACH} cannot be used`],
    ]),
    lines(
      'Quota ahead of the clock',
      'After the clock was set back: time for which a quota still counts in a later period. A restart of the daemon ends it.',
      's',
      [[`clamp_min(sluice_throttle_quota_ahead_timestamp_seconds{${C}} - time(), 0)`, EACH]],
    ),
    lines(
      'Waiting events',
      'Events over the limit that wait (on_backlog: pace, over_limit: wait), and sources that are paused because of them.',
      'short',
      [
        [`sum ${BY} (sluice_component_waiting_events{${C}})`, `${EACH} events`],
        [`sum ${BY} (sluice_component_waiting_full_sources{${C}})`, `${EACH} sources`],
      ],
    ),
    lines(
      'Event time',
      'Windows kept for late events, and windows removed too early because memory was full.',
      'short',
      [
        [`sum ${BY} (sluice_throttle_kept_windows{${C}})`, `${EACH} windows`],
        [`sum ${BY} (${rate('sluice_throttle_forgotten_windows_total')})`, `${EACH} forgotten per second`],
        [`max ${BY} (sluice_throttle_late_keys{${C}})`, `${EACH} keys mostly late`],
      ],
    ),
    lines(
      'Late, or without a time',
      'Events that are too late for their window, and events without a usable time.',
      'eps',
      [
        [`sum ${BY} (${rate('sluice_throttle_events_total', `${C}, decision="late"`)})`, `${EACH} late`],
        [
          `sum by (component_id, reason) (${rate('sluice_throttle_untimed_events_total')})`,
          '{{component_id}} {{reason}}',
        ],
      ],
    ),
    lines('Saved buckets', 'With persist: true: time since buckets were saved, and 1 while saving fails.', 's', [
      [`max ${BY} (sluice_throttle_state_age_seconds{${C}})`, EACH],
      [`max ${BY} (sluice_throttle_state_unsaved{${C}})`, `${EACH} cannot be saved`],
    ]),
    lines('Size of saved buckets', 'With persist: true: size of the saved buckets in data_dir.', 'bytes', [
      [`sum ${BY} (sluice_throttle_state_bytes{${C}})`, EACH],
    ]),
    lines(
      'Not named in summaries',
      'Discarded events that summaries report as __other__, because more than max_per_interval buckets had discards.',
      'eps',
      [[`sum ${BY} (${rate('sluice_throttle_summarized_other_events_total')})`, EACH]],
    ),
  ],
  'Throttles across a cluster': [
    lines(
      'Server of the group',
      '1 while the server that keeps the buckets replies in time. Otherwise on_backend_failure decides.',
      'short',
      [[`min ${BY} (sluice_throttle_backend_up{${C}})`, EACH]],
    ),
    lines('Decided without the server', 'Events that on_backend_failure decided.', 'eps', [
      [`sum ${BY} (${rate('sluice_throttle_alone_events_total')})`, EACH],
    ]),
    lines(
      'Failures of the server',
      'Failures of the server or the connection, by reason. The log has details.',
      'short',
      [
        [
          `sum by (component_id, reason) (increase(sluice_throttle_backend_failures_total{${C}}[$__rate_interval]))`,
          '{{component_id}}: {{reason}}',
        ],
      ],
    ),
    lines('Response time', 'Time from a request to the reply of the server.', 's', [
      quantile(0.5, 'sluice_throttle_backend_duration_seconds'),
      quantile(0.99, 'sluice_throttle_backend_duration_seconds'),
    ]),
    lines('Requests to the server', 'Round trips to the server. Leases avoid most of them.', 'reqps', [
      [`sum ${BY} (${rate('sluice_throttle_backend_requests_total')})`, EACH],
    ]),
    lines('Leases and waiting batches', 'Buckets with units taken ahead, and batches that wait for a reply.', 'short', [
      [`sum ${BY} (sluice_throttle_leased_buckets{${C}})`, `${EACH} leases`],
      [`sum ${BY} (sluice_throttle_backend_waiting_batches{${C}})`, `${EACH} waiting batches`],
    ]),
  ],
}
