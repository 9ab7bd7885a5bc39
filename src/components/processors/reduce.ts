import { z } from 'zod'
import { defineProcessor } from '../../core/component.js'
import { condition } from '../../core/condition/condition.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import { PathError, parseFieldPath } from '../../core/event/field-path.js'
import { byteSize, duration, fieldPaths, refuseAt } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { RULES } from './reduce/merge-rules.js'

const MOST_RULES = 1000
/** Longest and shortest time between two searches for groups that have ended, in milliseconds. */
const MOST_EVERY_MS = 200
const LEAST_EVERY_MS = 20

const options = z
  .strictObject({
    key_field: fieldPaths()
      .prefault('')
      .describe('Field, or list of fields, to group by. Default: all events form one group.'),
    starts_when: condition().optional().describe('A matching event begins a group; the previous group ends.'),
    ends_when: condition().optional().describe('A matching event is the last one of its group.'),
    timeout: duration(1).prefault('10 Seconds').describe('Ends a group that received no event for this long.'),
    max_duration: duration(1)
      .optional()
      .describe("Time from a group's first event until the group ends. Default: unlimited."),
    max_events: z.int().min(1).max(1_000_000).default(1000).describe('Ends a group when it has this many events.'),
    merge: z
      .record(reaches('nothing', z.string().min(2)), z.enum(RULES))
      .refine(rules => Object.keys(rules).length <= MOST_RULES, { error: `must have at most ${MOST_RULES} fields` })
      .default({})
      .describe(
        'How to merge values, by field path: first (default), last, sum, min, max, concat (texts, separated by a space), array, unique (array of distinct values), count (events that have the field). Values that do not fit the rule are omitted.',
      ),
    max_groups: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(10_000)
      .describe('Maximum number of open groups. Beyond it, the oldest group ends.'),
    max_bytes: byteSize(1024)
      .prefault('16MiB')
      .describe(
        'Approximate maximum memory for the merged values of all open groups. Beyond it, the oldest group ends. Small values take several times the bytes of their text.',
      ),
  })
  .superRefine(({ merge }, context) => {
    for (const path of Object.keys(merge)) {
      try {
        parseFieldPath(path)
      } catch (error) {
        if (!(error instanceof PathError)) throw error
        refuseAt(context, ['merge', path], `is not a field path: ${error.message}`)
      }
    }
  })
export type ReduceOptions = z.output<typeof options>

export const reduce = defineProcessor({
  type: 'reduce',
  summary: 'Merges the events of a group, such as the events of a request or a transaction, into one.',
  notes:
    'Events with the same `key_field` are a group, until one of `ends_when`, `starts_when`, `timeout`, `max_duration` or `max_events` ends it. Then the group passes one merged event, which has the fields of all events: each with its first value, or merged as set by `merge`. ' +
    'The events themselves are consumed, and acknowledged when the merged event is delivered. Events without the key pass unchanged. ' +
    'A reload keeps groups open if it does not change the options. Otherwise, and at the end of the run, all groups end. ' +
    'Numbers of more than 15 digits may lose digits in the merged event. After a kill, sources read the events of open groups again if they can.',
  options,
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
