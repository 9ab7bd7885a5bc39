import { z } from 'zod'
import { duration, fieldPath, fieldPaths, refuseAt } from '../../../core/options/options.js'

export const dedupeOptions = z
  .strictObject({
    fields: fieldPaths().describe('Field, or list of fields, whose values identify duplicates.'),
    window: duration().describe('How long duplicates are discarded after an event has passed.'),
    max_keys: z
      .int()
      .min(1)
      .max(10_000_000)
      .default(10_000)
      .describe(
        'Maximum number of different events remembered. Beyond it, the processor forgets the event that passed longest ago, and the next duplicate of this event passes.',
      ),
    report: z
      .enum(['next', 'summary', 'none'])
      .default('next')
      .describe(
        'Where to report the number of duplicates: in the `next` passing event with the same values, or in a `summary` event at the end of the window.',
      ),
    count_field: fieldPath()
      .optional()
      .describe(
        'With `report: next`: field for the number of duplicates discarded before the event. Default: .duplicates.',
      ),
  })
  .superRefine(({ fields, report, count_field }, context) => {
    if (fields.length === 0) refuseAt(context, ['fields'], 'is missing: a field path such as .message, or a list')
    if (count_field && report !== 'next') refuseAt(context, ['count_field'], 'has no effect without report: next')
  })
export type DedupeOptions = z.output<typeof dedupeOptions>
