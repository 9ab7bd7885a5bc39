import { defineProcessor } from '../../core/component.js'
import { dedupeOptions } from './dedupe/options.js'

/** Bounds of the interval between searches for ended windows, in milliseconds. */
const MOST_EVERY_MS = 1000
const LEAST_EVERY_MS = 50

export const dedupe = defineProcessor({
  type: 'dedupe',
  summary: 'Passes the first of several events with the same values, and discards the others for a while.',
  notes:
    'The first event passes and begins a window. Later events in the window with the same values in `fields` are duplicates, even if other fields differ. After the end of the window, the next of these events passes and begins another window. ' +
    'An event passes if all of the fields are missing. The window uses arrival times, so events that a source reads while it catches up are close together.\n\n' +
    'Beyond `max_keys`, the processor forgets the event that passed longest ago. `sluice_dedupe_forgotten_keys_total` counts forgotten events with an open window, and `sluice_dedupe_keys` counts the remembered events. ' +
    'Remembered events survive a reload that does not change the options, but not a restart.\n\n' +
    'A summary: `{"message":"duplicates","timestamp":…,"dedupe":{"component","key","duplicates","first","window_ms"}}`. `key` is the value, or the JSON array of the values of several fields; a long key is shortened and ends with its digest. `first` is the time when the event passed. A reload emits summaries early. If more than `max_keys` summaries are due at once, the summary with `"key":"__other__"` adds up the rest.',
  options: dedupeOptions,
  plan: ({ report, window }) => ({
    reasons: ['duplicate'],
    ...(report === 'summary' && { every: Math.min(MOST_EVERY_MS, Math.max(LEAST_EVERY_MS, window / 4)) }),
  }),
  reasons: { duplicate: 'An event with the same values has passed in the window.' },
  fields: ({ report, count_field }) => ({
    names: report === 'next' ? [count_field?.segments[0] ?? 'duplicates'] : report === 'summary' ? ['dedupe'] : [],
  }),
  examples: [
    {
      title: 'The same message of an app once in ten seconds',
      yaml: 'fields: [.app, .message]\nwindow: 10 Seconds\n',
      input: [
        '{"app":"a","message":"disk full","n":1}',
        '{"app":"a","message":"disk full","n":2}',
        '{"app":"b","message":"disk full","n":3}',
        '{"n":4}',
        '{"app":"a","message":"disk full","n":5}',
      ],
      output: ['{"app":"a","message":"disk full","n":1}', '{"app":"b","message":"disk full","n":3}', '{"n":4}'],
    },
  ],
  copiesLines: ({ report }) => report !== 'next',
  usesFields: ({ fields }) => fields.map(path => ({ option: 'fields', path })),
  create: async (options, context) => new (await import('./dedupe/dedupe-processor.js')).Dedupe(options, context),
  explains: async () => {
    const { BucketKey } = await import('../throttle/buckets/bucket-key.js')
    return {
      findings({ fields }, context) {
        const key = new BucketKey(fields.map(path => context.field(path)))
        const names = fields.map(({ text }) => text).join(', ')
        return batch => {
          if (!key.load(batch, 0)) return [{ text: `fields: the event has no value in ${names}, so it passes` }]
          const value = `${names} is ${JSON.stringify(key.text())}`
          return [{ text: 'fields: the first event with these values passes', value }]
        }
      },
    }
  },
})
