import { z } from 'zod'
import { condition } from '../../../core/condition/condition.js'
import { PathError, parseFieldPath } from '../../../core/event/field-path.js'
import { byteSize, duration, fieldPaths, refuseAt } from '../../../core/options/options.js'
import { reaches } from '../../../core/options/reach.js'
import { RULES } from './merge-rules.js'

const MOST_RULES = 1000
export const reduceOptions = z
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
export type ReduceOptions = z.output<typeof reduceOptions>
