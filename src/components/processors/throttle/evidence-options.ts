import { z } from 'zod'
import { duration, refuseAt } from '../../../core/options/options.js'

const OVER_LIMIT = 'must be discard, mark, {pass_one_in: N} with a whole number N, or {wait: DURATION}'

/** Options about what happens to events over the limit. */
export const overLimitOptions = {
  mode: z
    .enum(['enforce', 'shadow'])
    .default('enforce')
    .describe(
      'shadow: decides, counts and summarizes as if it discarded, but passes every event unchanged. Its metrics have the label `mode="shadow"`, and the decision `would_discard` instead of `discarded`.',
    ),
  over_limit: z
    .union(
      [
        z.enum(['discard', 'mark']),
        z.strictObject({
          pass_one_in: z
            .int()
            .min(2)
            .max(1_000_000_000)
            .describe('Of the events of each bucket that are over the limit, every one of this number passes.'),
        }),
        z.strictObject({
          wait: duration().describe('How long an event over the limit may wait for room. Then it is discarded.'),
        }),
      ],
      { error: OVER_LIMIT },
    )
    .default('discard')
    .describe(
      'What happens to an event over the limit. discard: it is discarded. mark: it passes with the field `.throttle` (see annotate). pass_one_in: every N-th of its bucket passes, the others are discarded. wait: it waits for room, at most so long, and is discarded then; its source is read more slowly.',
    ),
}

type OverLimit = z.output<typeof overLimitOptions.over_limit>

/** Refuses to wait for room in windows that do not move on with the clock. */
export function checkOverLimit(
  { over_limit, time_field }: { over_limit?: OverLimit; time_field?: unknown },
  context: z.RefinementCtx,
): void {
  if (time_field && typeof over_limit === 'object' && 'wait' in over_limit)
    refuseAt(context, ['over_limit'], 'cannot wait with time_field: in the time of the events, waiting makes no room')
}

export const annotateOptions = {
  annotate: z
    .boolean()
    .default(false)
    .describe(
      'Adds the field `.throttle` to discarded events, as readers of the side output `discarded` see them: `component`, `bucket` (null: the default one), `limit` and `window_ms` of the limit that was reached, `count`, what had passed of the bucket in its window (missing where that is not known, as of a limit that other daemons share), `unit` if the limit is one of `bytes` or `cost`, the `rule` that it is of, if any, and the `reason` if it is another than `throttled`. With `over_limit: mark`, marked events have it anyway.',
    ),
}

export const summaryOptions = {
  summary: z
    .strictObject({
      every: duration(100).prefault('10 Seconds').describe('Length of an interval.'),
      to: z
        .enum(['passed', 'discarded', 'both'])
        .default('passed')
        .describe('Where the events go: with those that pass, to the side output `discarded`, or to both.'),
      max_per_interval: z
        .int()
        .min(1)
        .max(10_000)
        .default(1000)
        .describe(
          'Number of buckets that get an event of their own. The others are summed up in one with `"bucket":"__other__"`.',
        ),
    })
    .optional()
    .describe(
      'At the end of each interval, and when the throttle ends or is replaced, emits an event for each bucket with discarded events: `{"message":"throttled","timestamp":…,"throttle":{"component","bucket","discarded_events","discarded_bytes","first","last","interval_ms","sample"}}`. These events are not throttled by the throttle that emits them. In shadow mode the message is `would be throttled`, and `throttle` has `"mode":"shadow"`.',
    ),
}
export type SummaryOptions = NonNullable<z.output<typeof summaryOptions.summary>>

export const keyMetricsOptions = {
  per_key_metrics: z
    .strictObject({
      top: z.int().min(1).max(1000).default(20).describe('Number of keys that have a series of their own.'),
      every: duration()
        .prefault('10 Seconds')
        .describe('How long a key keeps its series at least, even if others are discarded more often.'),
    })
    .optional()
    .describe(
      'Counts discarded events of the heaviest keys in `sluice_throttle_key_discarded_events_total{key}`, and those of all other keys together as `key="__other__"`. Events without a key are `key="__default__"`.',
    ),
}
export type KeyMetricsOptions = NonNullable<z.output<typeof keyMetricsOptions.per_key_metrics>>
