// The rows about throttles in the dashboard for Grafana.
import { BY, bounds, C, EACH, lines, quantile, rate } from './dashboard-panels.mjs'

export const THROTTLE_ROWS = {
  Throttles: [
    lines(
      'Decisions',
      'Events that passed, were excluded from the limit, or were discarded; fail_open: passed for want of room for their key.',
      'eps',
      [[`sum by (component_id, decision) (${rate('sluice_throttle_events_total')})`, '{{component_id}} {{decision}}']],
      { stacked: true },
    ),
    lines(
      'Discarded, by reason',
      'throttled: beyond a limit. throttled_backlog: of a source that was catching up. max_keys, late, no_backend: see the reference.',
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
      'Of what reached a throttle. High: one noisy application, or a limit that is too low?',
      'percentunit',
      [
        [
          `sum ${BY} (${rate('sluice_throttle_events_total', `${C}, decision="discarded"`)}) / sum ${BY} (${rate('sluice_throttle_events_total')})`,
          EACH,
        ],
      ],
      { thresholds: bounds(0.5, 0.9) },
    ),
    lines('Shadow and live', 'What throttles in shadow mode would discard, beside what the others discard.', 'eps', [
      [
        `sum ${BY} (${rate('sluice_throttle_events_total', `${C}, decision="would_discard"`)})`,
        `${EACH} would discard`,
      ],
      [`sum ${BY} (${rate('sluice_throttle_events_total', `${C}, decision="discarded"`)})`, `${EACH} discards`],
    ]),
    lines(
      'Heaviest keys',
      'Discarded events of the keys that lose most, with per_key_metrics. __other__ is all others, __default__ events without a key.',
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
      'The most that the series of a key can miss of what was discarded before it began. The sum of all series is exact.',
      'short',
      [[`max ${BY} (sluice_throttle_key_error_events{${C}})`, EACH]],
    ),
    lines(
      'Backlog discarded',
      'Events of sources that were catching up. on_backlog or time_field keep them.',
      'short',
      [
        [
          `sum ${BY} (increase(sluice_component_discarded_events_total{${C}, reason="throttled_backlog"}[$__rate_interval]))`,
          EACH,
        ],
      ],
      { thresholds: bounds(undefined, 1) },
    ),
    lines('Buckets', 'Keys in memory, idle ones that were dropped, and events while none had the key.', 'short', [
      [`sum ${BY} (sluice_throttle_buckets{${C}})`, EACH],
      [`sum ${BY} (${rate('sluice_throttle_dropped_buckets_total')})`, `${EACH} dropped per second`],
      [`sum ${BY} (sluice_throttle_keyless_events{${C}})`, `${EACH} without the key`],
    ]),
    lines(
      'Room for keys',
      'Share of max_keys that is in use. When all are, on_max_keys decides about further keys.',
      'percentunit',
      [[`sum ${BY} (sluice_throttle_buckets{${C}}) / sum ${BY} (sluice_throttle_max_buckets{${C}})`, EACH]],
      { thresholds: bounds(0.8, 0.9) },
    ),
    lines(
      'Age of the limits file',
      'How long ago the rules in use were read. The file is read again when it changes.',
      's',
      [[`time() - max ${BY} (sluice_throttle_limits_file_read_timestamp_seconds{${C}})`, EACH]],
    ),
    lines('Limits file', 'Rules in use, and 1 while the file cannot be used and earlier rules are.', 'short', [
      [`sum ${BY} (sluice_throttle_limits_file_rules{${C}})`, `${EACH} rules`],
      [`max ${BY} (1 - sluice_throttle_limits_file_valid{${C}})`, `${EACH} cannot be used`],
    ]),
    lines(
      'Quota ahead of the clock',
      'The clock was set back: how long a quota still counts in a later period. A restart of the daemon ends it.',
      's',
      [[`clamp_min(sluice_throttle_quota_ahead_timestamp_seconds{${C}} - time(), 0)`, EACH]],
    ),
    lines(
      'Waiting for room',
      'Events that wait for room in their limit (on_backlog: pace, over_limit: wait), and sources that are not read meanwhile.',
      'short',
      [
        [`sum ${BY} (sluice_component_waiting_events{${C}})`, `${EACH} events`],
        [`sum ${BY} (sluice_component_waiting_full_sources{${C}})`, `${EACH} sources`],
      ],
    ),
    lines(
      'In the time of events',
      'Windows that are kept for late events, and those that were dropped too early for want of memory.',
      'short',
      [
        [`sum ${BY} (sluice_throttle_kept_windows{${C}})`, `${EACH} windows`],
        [`sum ${BY} (${rate('sluice_throttle_forgotten_windows_total')})`, `${EACH} forgotten per second`],
      ],
    ),
    lines(
      'Late, or without a time',
      'Events that are too late for their window, or whose own time could not be used.',
      'eps',
      [
        [`sum ${BY} (${rate('sluice_throttle_events_total', `${C}, decision="late"`)})`, `${EACH} late`],
        [
          `sum by (component_id, reason) (${rate('sluice_throttle_untimed_events_total')})`,
          '{{component_id}} {{reason}}',
        ],
      ],
    ),
    lines('Saved buckets', 'With persist: true: how long ago they were saved, and 1 while they cannot be.', 's', [
      [`max ${BY} (sluice_throttle_state_age_seconds{${C}})`, EACH],
      [`max ${BY} (sluice_throttle_state_unsaved{${C}})`, `${EACH} cannot be saved`],
    ]),
    lines('Size of saved buckets', 'With persist: true, in data_dir.', 'bytes', [
      [`sum ${BY} (sluice_throttle_state_bytes{${C}})`, EACH],
    ]),
    lines(
      'Not named in summaries',
      'Discarded events that summaries report as __other__, because more buckets than max_per_interval had some.',
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
    lines('Decided without the server', 'Events that were decided by on_backend_failure.', 'eps', [
      [`sum ${BY} (${rate('sluice_throttle_alone_events_total')})`, EACH],
    ]),
    lines('Failures of the server', 'Of the server or of the way to it, by reason; the log tells more.', 'short', [
      [
        `sum by (component_id, reason) (increase(sluice_throttle_backend_failures_total{${C}}[$__rate_interval]))`,
        '{{component_id}}: {{reason}}',
      ],
    ]),
    lines('Time of a reply', 'From a question to the reply of the server.', 's', [
      quantile(0.5, 'sluice_throttle_backend_duration_seconds'),
      quantile(0.99, 'sluice_throttle_backend_duration_seconds'),
    ]),
    lines('Questions to the server', 'Round trips; leases save most of them.', 'reqps', [
      [`sum ${BY} (${rate('sluice_throttle_backend_requests_total')})`, EACH],
    ]),
    lines(
      'Leases, and what waits',
      'Buckets of which a part of the limit was taken ahead, and batches that wait for a reply.',
      'short',
      [
        [`sum ${BY} (sluice_throttle_leased_buckets{${C}})`, `${EACH} leases`],
        [`sum ${BY} (sluice_throttle_backend_waiting_batches{${C}})`, `${EACH} waiting batches`],
      ],
    ),
  ],
}
