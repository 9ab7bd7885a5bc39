import { defineProcessor } from '../../core/component.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import { aggregateOptions, RESERVED } from './aggregate/options.js'

export const aggregate = defineProcessor({
  type: 'aggregate',
  summary:
    'Counts events, sums fields and builds histograms. Emits an event for each key and interval, and writes Prometheus series.',
  notes:
    'The events themselves do not pass. They are consumed, and acknowledged when the event of their interval is delivered. To keep them, let another component read the same input. ' +
    'The event of an interval is `{key, interval_ms, <counter>: n, <histogram>: {count, sum, buckets}}`. `key` is the value of `key_field`, the JSON array of several values, or null without a value; each number in `buckets` counts the values up to its bound, as in Prometheus. ' +
    'At the end of the run, or when a reload changes the options, the open interval ends early. ' +
    '`/metrics` shows the same numbers as `sluice_aggregate_<counter>_total`, and `sluice_aggregate_<histogram>_bucket`, `_sum` and `_count`, with the labels `component_id` and `key`. ' +
    'Prometheus counters must not fall, so negative numbers count in the sums of emitted events, but not in the series; `sluice_negative_values_total` counts them. ' +
    'Beyond `max_keys`, Sluice drops a key without an event in the interval to make room for a new key. The count of the dropped key moves to `__other__`, so sums stay exact.\n\n' +
    'A reload that does not change the options keeps the counts. After a kill, sources read the events of the open interval again if they can; all series start at 0.',
  options: aggregateOptions,
  plan: ({ every }) => ({ every, keeps: true }),
  fields: ({ counters, histograms, time_field }) => ({
    names: [
      ...RESERVED,
      ...Object.keys(counters),
      ...Object.keys(histograms),
      ...(time_field ? [time_field.segments[0]] : []),
    ],
  }),
  usesFields: ({ key_field, counters, histograms }) =>
    fieldsIn({ key_field, counters, histograms }, { key_field: 'all events count together' }),
  examples: [
    {
      title: 'Requests, bytes and durations of each app',
      yaml: `every: 10 Seconds
key_field: .app
counters:
  requests: {}
  errors: { when: if (.status greater 499) }
  bytes: { sum: .bytes }
histograms:
  took: { field: .took_ms, buckets: [10, 100] }
`,
      input: [
        '{"app":"cart","status":200,"bytes":100,"took_ms":7}',
        '{"app":"cart","status":503,"bytes":20,"took_ms":250}',
        '{"app":"shop","status":200,"bytes":5,"took_ms":10}',
      ],
      output: [
        '{"key":"cart","interval_ms":0,"requests":2,"errors":1,"bytes":120,"took":{"count":2,"sum":257,"buckets":{"10":1,"100":1,"+Inf":2}}}',
        '{"key":"shop","interval_ms":0,"requests":1,"errors":0,"bytes":5,"took":{"count":1,"sum":10,"buckets":{"10":1,"100":1,"+Inf":1}}}',
      ],
    },
  ],
  create: async (options, context) =>
    new (await import('./aggregate/aggregate-processor.js')).Aggregate(options, context),
})
