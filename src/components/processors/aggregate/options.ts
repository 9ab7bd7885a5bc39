import { z } from 'zod'
import { condition } from '../../../core/condition/condition.js'
import { duration, fieldPath, fieldPaths, refuseAt } from '../../../core/options/options.js'

const LEAST_EVERY_MS = 100
const MOST_MEASURES = 64
const MOST_BUCKETS = 100
/** Members of emitted events besides the measures. */
export const RESERVED = new Set(['key', 'interval_ms'])

const measures = <S extends z.ZodType>(schema: S) =>
  z
    .record(
      z.string().regex(/^[a-zA-Z_][a-zA-Z0-9_]{0,99}$/, { error: 'must have letters, digits and _ only' }),
      schema,
    )
    .refine(given => Object.keys(given).length <= MOST_MEASURES, { error: `must be at most ${MOST_MEASURES}` })
    .default({})

export const when = condition().optional().describe('Counts only matching events.')

export const aggregateOptions = z
  .strictObject({
    every: duration(LEAST_EVERY_MS)
      .prefault('10 Seconds')
      .describe('Length of an interval. Each emitted event covers one interval.'),
    key_field: fieldPaths()
      .prefault('')
      .describe('Field, or list of fields, to group by. Default: all events are counted together.'),
    counters: measures(
      z.strictObject({
        sum: fieldPath().optional().describe('Field whose numbers are summed. Default: each event counts 1.'),
        when,
      }),
    ).describe('Counters by name. `{}` counts events.'),
    histograms: measures(
      z.strictObject({
        field: fieldPath().describe('The field with the number.'),
        buckets: z
          .array(z.number())
          .min(1)
          .max(MOST_BUCKETS)
          .refine(all => all.every((bound, n) => n === 0 || all[n - 1]! < bound), { error: 'must be ascending' })
          .describe('Upper bounds of the buckets, in ascending order. Sluice adds a last bucket without a bound.'),
        when,
      }),
    ).describe('Histograms by name.'),
    max_keys: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(1000)
      .describe('Maximum number of keys counted separately. All other keys are counted together as `__other__`.'),
    time_field: fieldPath()
      .optional()
      .describe('In each emitted event, the field that holds the time at which its interval ends.'),
  })
  .superRefine(({ counters, histograms, time_field }, context) => {
    if (time_field && time_field.segments.length > 1)
      refuseAt(context, ['time_field'], 'must be a top-level field of the event')
    const names = Object.keys(counters)
    if (names.length + Object.keys(histograms).length === 0)
      refuseAt(context, ['counters'], 'is missing; give counters or histograms')
    for (const name of [...names, ...Object.keys(histograms)])
      if (RESERVED.has(name)) refuseAt(context, [names.includes(name) ? 'counters' : 'histograms', name], 'is reserved')
    for (const name of names) if (name in histograms) refuseAt(context, ['histograms', name], 'is also a counter')
  })
export type AggregateOptions = z.output<typeof aggregateOptions>
