import { defineProcessor } from '../../core/component.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import { sampleOptions } from './sample/options.js'

export const sample = defineProcessor({
  type: 'sample',
  summary: 'Passes one event in N, and discards the others.',
  notes:
    'Without `key_field`, events are counted: with `one_in: 10`, the first of each ten passes. ' +
    'With `key_field`, the hash of the value decides. This hash is the same in every run and every daemon: samplers with the same rate keep the same traces, and a sampler with a higher `one_in` keeps a part of them. ' +
    'The number of events that pass then depends on how many events have the same key. Events without a key are counted.',
  options: sampleOptions,
  plan: () => ({ reasons: ['sampled'] }),
  reasons: { sampled: 'Another event stands for it.' },
  fields: ({ rate_field }) => ({ names: rate_field === false ? [] : [rate_field.segments[0]] }),
  examples: [
    {
      title: 'A third, and all errors',
      yaml: "one_in: 3\nkeep: if (.level equal 'error')\n",
      input: [
        '{"level":"info","n":1}',
        '{"level":"info","n":2}',
        '{"level":"error","n":3}',
        '{"level":"info","n":4}',
        '{"level":"info","n":5}',
      ],
      output: [
        '{"level":"info","n":1,"sample_rate":3}',
        '{"level":"error","n":3}',
        '{"level":"info","n":5,"sample_rate":3}',
      ],
    },
    {
      title: 'Half of the traces; the events of a trace stay together',
      yaml: 'ratio: 0.5\nkey_field: .trace\nrate_field: false\n',
      input: ['{"trace":"a","n":1}', '{"trace":"b","n":2}', '{"trace":"c","n":3}', '{"trace":"b","n":4}'],
      output: ['{"trace":"b","n":2}', '{"trace":"b","n":4}'],
    },
  ],
  copiesLines: ({ rate_field }) => rate_field === false,
  usesFields: ({ key_field, keep }) => fieldsIn({ key_field, keep }, { key_field: 'events are counted' }),
  create: async (options, context) =>
    new (await import('./sample/sample-processor.js')).SampleProcessor(options, context),
  explains: async () => ({ findings: (await import('./sample/sample-processor.js')).explainSample }),
})
