import { z } from 'zod'
import { refuseAt } from '../../../core/options/options.js'
import { reaches } from '../../../core/options/reach.js'

export const flattenOptions = z
  .strictObject({
    mode: z
      .enum(['flatten', 'nest'])
      .default('flatten')
      .describe('`flatten` turns nested fields into fields of one level; `nest` does the opposite.'),
    separator: reaches('nothing', z.string().min(1).max(16))
      .default('.')
      .describe('Separator of the names: `.` turns `{"a":{"b":1}}` into `a.b`.'),
    arrays: z
      .enum(['keep', 'index'])
      .optional()
      .describe(
        'With `mode: flatten`: whether to keep arrays, or to flatten them with the item positions (from 0) as names. Default: keep.',
      ),
    max_depth: z
      .int()
      .min(1)
      .max(100)
      .default(32)
      .describe(
        'Maximum number of levels to join into one name, or to make from one name. Deeper levels stay unchanged.',
      ),
  })
  .superRefine(({ mode, arrays }, context) => {
    if (mode === 'nest' && arrays !== undefined) refuseAt(context, ['arrays'], 'has no effect without mode: flatten')
  })
export type FlattenOptions = z.output<typeof flattenOptions>
