import { z } from 'zod'
import { condition } from '../../../core/condition/condition.js'
import { fieldPath, fieldPaths, refuseAt } from '../../../core/options/options.js'

export const sampleOptions = z
  .strictObject({
    one_in: z.int().min(1).max(1_000_000_000).optional().describe('Passes one in this many events: 10 keeps a tenth.'),
    ratio: z.number().gt(0).max(1).optional().describe('Instead of `one_in`: share of the events to pass, as in 0.25.'),
    key_field: fieldPaths().describe(
      'Field, or list of fields. Events with the same value, such as the events of one trace, either all pass or are all discarded. Default: all events are counted together, whatever their values.',
    ),
    keep: condition().optional().describe('Matching events always pass, and are not counted.'),
    rate_field: z
      .union([z.literal(false), fieldPath()])
      .prefault('.sample_rate')
      .describe(
        'Field for the number of events (such as 10) that a sampled event stands for. If the field already has a number, the two numbers are multiplied. `false`: the field is not written.',
      ),
  })
  .superRefine(({ one_in, ratio }, context) => {
    if (one_in === undefined && ratio === undefined) refuseAt(context, ['one_in'], 'is missing; give one_in or ratio')
    if (one_in !== undefined && ratio !== undefined) refuseAt(context, ['ratio'], 'cannot be used with one_in')
  })
export type SampleOptions = z.output<typeof sampleOptions>
