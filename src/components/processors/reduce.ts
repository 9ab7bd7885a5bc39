import { defineProcessor } from '../../core/component.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import { parseFieldPath } from '../../core/event/field-path.js'
import { reduceOptions } from './reduce/options.js'

/** Longest and shortest time between two searches for groups that have ended, in milliseconds. */
const MOST_EVERY_MS = 200
const LEAST_EVERY_MS = 20

export const reduce = defineProcessor({
  type: 'reduce',
  summary: 'Merges the events of a group, such as the events of a request or a transaction, into one.',
  notes:
    'Events with the same `key_field` are a group, until one of `ends_when`, `starts_when`, `timeout`, `max_duration` or `max_events` ends it. Then the group passes one merged event, which has the fields of all events: each with its first value, or merged as set by `merge`. ' +
    'The events themselves are consumed, and acknowledged when the merged event is delivered. Events without the key pass unchanged. ' +
    'A reload keeps groups open if it does not change the options. Otherwise, and at the end of the run, all groups end. ' +
    'Numbers of more than 15 digits may lose digits in the merged event. After a kill, sources read the events of open groups again if they can.',
  options: reduceOptions,
  plan: ({ timeout, max_duration = timeout }) => ({
    every: Math.min(MOST_EVERY_MS, Math.max(LEAST_EVERY_MS, Math.min(timeout, max_duration) / 4)),
    keeps: true,
  }),
  fields: ({ merge }) => ({ names: Object.keys(merge).map(path => parseFieldPath(path).segments[0]) }),
  usesFields: ({ key_field, starts_when, ends_when }) =>
    fieldsIn({ key_field, starts_when, ends_when }, { key_field: 'no event is merged' }),
  examples: [
    {
      title: 'The lines of a request become one event',
      yaml: `key_field: .id
ends_when: if (.last equal 'true')
timeout: 5 Seconds
merge: { .took_ms: sum, .message: array, .level: unique }
`,
      input: [
        '{"id":1,"message":"begin","took_ms":1,"level":"info"}',
        '{"id":2,"message":"begin","took_ms":5,"level":"info"}',
        '{"id":1,"message":"query","took_ms":20,"level":"info"}',
        '{"message":"no request"}',
        '{"id":1,"message":"end","took_ms":2,"level":"warn","last":true}',
      ],
      output: [
        '{"message":"no request"}',
        '{"id":1,"message":["begin","query","end"],"took_ms":23,"level":["info","warn"],"last":true}',
        '{"id":2,"message":["begin"],"took_ms":5,"level":["info"]}',
      ],
    },
  ],
  create: async (options, context) => new (await import('./reduce/reduce-processor.js')).Reduce(options, context),
})
