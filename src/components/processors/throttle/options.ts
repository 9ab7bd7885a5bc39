import { z } from 'zod'
import { compileBatchTest, compileCondition, condition } from '../../../core/condition/condition.js'
import type { FieldPath } from '../../../core/event/field-path.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { duration, fieldPaths, refuseAt, timeField } from '../../../core/options/options.js'
import { AutoTime } from '../../throttle/auto-time.js'
import type { DeciderOptions } from '../../throttle/decider.js'
import { NamedTime } from '../../throttle/event-time.js'
import { randomSeed } from '../../throttle/key-table.js'
import { backlogOptions, checkBacklog } from './backlog.js'
import { CLUSTER_OPTIONS, checkCluster, clusterOptions } from './cluster/options.js'
import {
  annotateOptions,
  checkOverLimit,
  keyMetricsOptions,
  overLimitOptions,
  summaryOptions,
} from './evidence-options.js'
import { checkLimits, limitOptions, limitsOf } from './limit-options.js'
import { checkRules, type RuledOptions, type RuleOptions, ruleOptions, rulesOf } from './rule-options.js'

/** Defaults with `time_field`. */
export const LATENESS = { allowed_lateness: 60_000, on_late: 'pass' } as const

const persistOptions = {
  persist: z
    .boolean()
    .default(false)
    .describe(
      'Whether buckets are saved in data_dir, about once a second and at the end, so that a restart or a kill does not give every bucket a new window. Not with `scope: cluster`.',
    ),
}

const fields = z.strictObject({
  ...limitOptions,
  key_field: fieldPaths().describe(
    'Field whose value groups events into buckets, or a list of fields: `[.app, .host]` gives each combination of values a bucket. Events without a value share the default bucket; if the option is blank, all events do.',
  ),
  exclude: condition().optional().describe('Matching events pass and are not counted.'),
  max_keys: z.int().min(1).max(10_000_000).default(100_000).describe('Maximum number of buckets in memory.'),
  on_max_keys: z
    .enum(['default_bucket', 'pass', 'discard'])
    .default('pass')
    .describe('What happens to events of a new key beyond max_keys. An open window is never dropped to make room.'),
  time_field: timeField()
    .optional()
    .describe(
      'Field with the time of an event, in milliseconds since the epoch or as ISO 8601. Windows then use this time instead of the clock, so a backlog passes as it would have when it was written. auto: the time that the source or codec knows (the journal, syslog), or else the first of `.timestamp`, `.@timestamp`, `.time`, `.ts`, `.@t`, `.t`, `.datetime`, `.date` and `.eventTime` that has one; seconds, micro- and nanoseconds are converted. Events without a time count when they arrive.',
    ),
  allowed_lateness: duration(0)
    .optional()
    .describe(
      'With time_field only: how much older than the newest event an event may be and still count in its own window. Default: `1 Minutes`.',
    ),
  on_late: z
    .enum(['pass', 'discard'])
    .optional()
    .describe(
      'With time_field only: what happens to an event that is later than that and cannot be counted. Default: `pass`.',
    ),
  ...backlogOptions,
  ...overLimitOptions,
  ...annotateOptions,
  ...persistOptions,
  ...clusterOptions,
  ...summaryOptions,
  ...keyMetricsOptions,
  ...ruleOptions,
})

type CheckedOptions = RuledOptions &
  Pick<z.output<typeof fields>, 'time_field' | 'allowed_lateness' | 'on_late'> &
  Partial<Pick<z.output<typeof fields>, 'on_backlog' | 'max_delay' | 'over_limit'>>

function check(options: CheckedOptions, context: z.RefinementCtx): void {
  checkLimits(options, context)
  checkBacklog(options, context)
  checkOverLimit(options, context)
  checkRules(options, context)
  const { time_field, allowed_lateness, on_late } = options
  if (time_field) return
  for (const [name, value] of Object.entries({ allowed_lateness, on_late })) {
    if (value !== undefined) refuseAt(context, [name], 'has no effect without time_field')
  }
}

export const throttleOptions = fields.superRefine(check).superRefine(checkCluster)
export type ThrottleOptions = z.output<typeof throttleOptions>

/** The options of a throttle that only decides, in a program. What needs a daemon around it is left out. */
export const streamThrottleOptions = fields
  .omit({ mode: true, over_limit: true, annotate: true, summary: true, per_key_metrics: true })
  .omit({ on_backlog: true, max_delay: true, limits_file: true, persist: true, ...CLUSTER_OPTIONS })
  .superRefine(check)

/** Converts the component's options to those of a decider. `ofFile`: the rules of its `limits_file`, if it has one. */
export function deciderOptions(
  options: Omit<ThrottleOptions, 'limits_file' | 'persist'>,
  context: { field(path: FieldPath): FieldReader },
  ofFile?: readonly RuleOptions[],
): DeciderOptions {
  const field = (path: FieldPath) => context.field(path)
  const { exclude } = options
  const hasRules = options.limits !== undefined || ofFile !== undefined
  return {
    limits: limitsOf(options),
    maxKeys: options.max_keys,
    onMaxKeys: options.on_max_keys,
    exclude: exclude && Object.assign(compileCondition(exclude, field), { all: compileBatchTest(exclude, field) }),
    keyFields: options.key_field.map(field),
    costField: options.cost && field(options.cost),
    eventTime: options.time_field && {
      time: options.time_field === 'auto' ? new AutoTime(context) : new NamedTime(field(options.time_field)),
      latenessMs: options.allowed_lateness ?? LATENESS.allowed_lateness,
      onLate: options.on_late ?? LATENESS.on_late,
    },
    seed: randomSeed(),
    rules: hasRules ? rulesOf(options, ofFile ?? [], field) : undefined,
  }
}
