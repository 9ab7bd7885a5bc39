import { defineProcessor } from '../../core/component.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import type { DeciderOptions } from '../throttle/decider-options.js'
import { TIME_FIELDS } from '../throttle/event/auto-time.js'
import { throttleOptions } from './throttle/options.js'
import { THROTTLE_REASONS, throttlePlan } from './throttle/plan.js'

const withoutKey = (fields: number) =>
  fields === 1 ? 'all events share one bucket' : 'this field does not divide events into buckets'

export const throttle = defineProcessor({
  type: 'throttle',
  summary: 'Passes at most `limit` events of each bucket in each window, and discards the rest.',
  notes:
    'Without a `time_field`, time is the monotonic clock, read once per batch. `time_field: auto` uses the time from the source or codec (the journal, syslog), otherwise the first of `.timestamp`, `.@timestamp`, `.time`, `.ts`, `.@t`, `.t`, `.datetime`, `.date` and `.eventTime` that has a time; seconds, microseconds and nanoseconds are converted. A source catches up while it reads lines that existed before it started, or lines that waited because the source was blocked for a second or longer. The field `.throttle` has `bucket`, which is null for the default bucket. `limit` and `window_ms` describe the exceeded limit, and `count` is the number that had passed in the window (missing for a cluster limit). `unit` is present for `bytes` and `cost`, `rule` is present for the limit of a rule, and `reason` is present if it is not `throttled`. ' +
    'An event counts at its arrival if its time cannot be read, or is ahead of the clock by more than `allowed_lateness`. `docs/throttling.md` explains how to choose a window mode.',
  options: throttleOptions,
  usualOptions: ['limit', 'limit_bytes', 'window', 'window_mode', 'key_field', 'exclude', 'over_limit', 'mode'],
  plan: throttlePlan,
  reasons: THROTTLE_REASONS,
  examples: [
    {
      title: 'One event per second and app; one host is exempt',
      yaml: `limit: 1\nwindow: 1 Seconds\nkey_field: .app\nexclude: if (.host equal 'edge-1')\n`,
      input: [
        '{"app":"a","host":"h1"}',
        '{"app":"b","host":"h2"}',
        '{"app":"a","host":"h1"}',
        '{"app":"a","host":"edge-1"}',
        '{"app":"b","host":"h1"}',
        '{"app":"a","host":"h2"}',
      ],
      output: ['{"app":"a","host":"h1"}', '{"app":"b","host":"h2"}', '{"app":"a","host":"edge-1"}'],
    },
    {
      title: 'One event per second, in event time: events pass as they would have when they were written',
      yaml: 'limit: 1\nwindow: 1 Seconds\ntime_field: .ts\n',
      input: [
        '{"ts":"2021-06-01T12:00:00.000Z","n":1}',
        '{"ts":"2021-06-01T12:00:00.900Z","n":2}',
        '{"ts":"2021-06-01T12:00:01.000Z","n":3}',
        '{"ts":"2021-06-01T12:00:00.950Z","n":4}',
        '{"ts":"2021-06-01T12:00:02.500Z","n":5}',
      ],
      output: [
        '{"ts":"2021-06-01T12:00:00.000Z","n":1}',
        '{"ts":"2021-06-01T12:00:01.000Z","n":3}',
        '{"ts":"2021-06-01T12:00:02.500Z","n":5}',
      ],
    },
  ],
  // A limits file may name any field.
  copiesLines: ({ over_limit, annotate, limits_file }) =>
    over_limit !== 'mark' && !annotate && limits_file === undefined,
  usesFields: ({ key_field, time_field, exclude, cost, limits }) =>
    fieldsIn(
      { key_field, time_field, exclude, cost, limits },
      {
        key_field: withoutKey(key_field.length),
        time_field: 'each event counts when it arrives',
        cost: 'each event costs 1',
      },
    ),
  findsTime: ({ time_field }) =>
    time_field === 'auto' ? { option: 'time_field', names: TIME_FIELDS.map(({ segments }) => segments[0]) } : undefined,
  create: async (options, context) => {
    const { ThrottleProcessor } = await import('./throttle/throttle-processor.js')
    const { limits_file: path } = options
    const limits = path === undefined ? undefined : await import('./throttle/limits-file.js')
    const file = await limits?.LimitsFile.open(path!, options, context)
    if (options.scope === 'local') {
      const inEventTime = options.time_field && (await import('./throttle/in-event-time.js')).inEventTime
      const processor = new ThrottleProcessor(options, context, { file, inEventTime })
      const { state } = context
      if (!options.persist || !state) return processor
      const { openSaver } = await import('./throttle/persist/open-saver.js')
      await processor.persist(persisted => openSaver(options, context, state, persisted))
      return processor
    }
    const { ClusterThrottle } = await import('./throttle/cluster/cluster-throttle.js')
    const share = (compiled: DeciderOptions, before: unknown) => new ClusterThrottle(options, compiled, context, before)
    return new ThrottleProcessor(options, context, { share, file })
  },
  checks: async () => ({
    warnings: (await import('./throttle/warnings.js')).optionWarnings,
    checkFiles: (await import('./throttle/limits-file.js')).fileProblems,
  }),
  explains: async () => ({ findings: (await import('./throttle/explain.js')).explainThrottle }),
  inspects: async () => ({ check: (await import('./throttle/cluster/cluster-throttle.js')).checkCluster }),
})
