import { z } from 'zod'
import { condition } from '../../../core/condition/condition.js'
import { byteSize, duration, fieldPath, fieldPaths, refuseAt, timeField } from '../../../core/options/options.js'
import { filePath, reaches } from '../../../core/options/reach.js'
import { timeZone } from '../../../core/options/time-zone.js'
import { redisOptions } from '../../../net/redis/options.js'
import type { Limit, WindowMode } from '../../throttle/limit.js'
import { KeyPattern, KeyPatternError } from '../../throttle/rules/key-pattern.js'
import { nominalMs } from '../../throttle/windows/periods.js'

/** The options of a throttle in the order of the reference, their checks, and values derived from the options. */

/** Largest limit of events, and largest limit of bytes (one petabyte). */
const LARGEST_LIMIT = 0xffffffff
const LARGEST_BYTES = 1e15

const limit = () => z.int().min(1).max(LARGEST_LIMIT)
const limitBytes = () => byteSize(1, LARGEST_BYTES)
const windowMode = z.enum(['fixed', 'aligned', 'sliding', 'gcra'])
const burst = () => byteSize(0, LARGEST_BYTES)

const further = z.strictObject({
  limit: limit().optional().describe('Number of events, or sum of their costs.'),
  limit_bytes: limitBytes().optional().describe('Size of the events.'),
  window: duration().describe('Length of the window.'),
  window_mode: windowMode.optional().describe('Default: the `window_mode` of the throttle.'),
  burst: burst().optional().describe('With `window_mode: gcra`, as for the throttle. Default: the limit minus 1.'),
})

const quota = z.strictObject({
  limit: limit().optional().describe('Number of events, or sum of their costs.'),
  limit_bytes: limitBytes().optional().describe('Size of the events.'),
  per: z
    .enum(['hour', 'day', 'week', 'month'])
    .describe('The period. Weeks begin on Monday. A day on which clocks change has 23 or 25 hours.'),
  time_zone: timeZone.default('UTC').describe('Time zone in which periods begin and end. Default: `UTC`.'),
})

const limitOptions = {
  limit: limit()
    .optional()
    .describe('Number of events of one bucket that pass in one window; with `cost`, the sum of their costs.'),
  limit_bytes: limitBytes()
    .optional()
    .describe(
      'Size of the events of one bucket that pass in one window, including line ends. An event that does not fit is discarded; smaller events after it may pass. With `limit`, both limits apply.',
    ),
  window: duration().optional().describe('Length of the window.'),
  window_mode: windowMode
    .default('fixed')
    .describe(
      'How windows begin. fixed: with the first event counted in the bucket. aligned: at multiples of their length since the epoch. sliding: the window ends with the current event. gcra: no windows; one event passes every `window` / `limit`, and up to `burst` more pass at once.',
    ),
  burst: burst()
    .optional()
    .describe(
      'With `window_mode: gcra` only: number of events that pass at once above the smooth rate. With `cost`, it is a sum of costs; with `limit_bytes` alone, it is a size. Default: the limit minus 1.',
    ),
  cost: fieldPath()
    .optional()
    .describe(
      'Field with the number that is counted for the event instead of 1. Missing and negative values, and texts such as `"5"`, count as 1. Fractions are counted to the millionth.',
    ),
  also: z
    .array(further)
    .min(1)
    .max(16)
    .optional()
    .describe(
      'Further limits of each bucket. An event passes if all limits let it pass; otherwise it is not counted in any of them.',
    ),
  quota: quota
    .optional()
    .describe(
      'A limit of each bucket in calendar periods, alone or with the other limits. It follows the wall clock, or `time_field`; setting the clock back does not grant a quota twice.',
    ),
}

const clusterOptions = {
  scope: z
    .enum(['local', 'cluster'])
    .prefault('local')
    .describe('local: the limit applies to this daemon. cluster: all daemons of the `group` share it.'),
  group: reaches(
    'nothing',
    z.string().regex(/^[\w.-]{1,100}$/, { error: 'must be 1 to 100 letters, digits, dots, dashes or underscores' }),
  )
    .optional()
    .describe('With scope: cluster: group of throttles that share the limit. Default: the id of the component.'),
  redis: redisOptions
    .optional()
    .describe('The Redis or Valkey server that keeps the buckets. Required with scope: cluster.'),
  accuracy: z
    .enum(['exact', 'leased'])
    .optional()
    .describe(
      'With scope: cluster. exact: the throttle asks the server for each batch. leased: the throttle reserves up to a tenth of the limit in advance. Default: `leased`.',
    ),
  on_backend_failure: z
    .enum(['local_share', 'pass', 'discard', 'wait'])
    .optional()
    .describe(
      'With scope: cluster: what happens to events while the server is unavailable. local_share: each daemon applies its share of the limits. wait: events wait. Default: `local_share`.',
    ),
  expected_members: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .describe(
      'With local_share: number of daemons in the group. Each share is the limit divided by this number, at least 1. Default: 1.',
    ),
}

const { limit: ofLimit, window_mode: ofMode, ...others } = limitOptions
const RULE_LIMIT = 'must be a whole number from 1 to 4294967295, or unlimited'

export const ruleSchema = z.strictObject({
  when: condition().optional().describe('Events that the rule applies to.'),
  key: reaches('nothing', z.string())
    .optional()
    .describe(
      'Pattern of the buckets that the rule applies to: `*`, `?`, `[a-z]`, `{a,b}`; `\\` escapes a character. With several fields in `key_field`, the name of a bucket is a JSON array, so a `[` at the beginning of the pattern is a plain `[`. Events without a key do not match any pattern.',
    ),
  limit: z
    .union([ofLimit.unwrap(), z.literal('unlimited')], { error: RULE_LIMIT })
    .optional()
    .describe('As above; `unlimited` lets all events pass.'),
  window_mode: ofMode.unwrap().optional().describe('As above.'),
  ...others,
})

export const MOST_RULES = 10_000
const OVER_LIMIT = 'must be discard, mark, {pass_one_in: N} with a whole number N, or {wait: DURATION}'

const fields = z.strictObject({
  ...limitOptions,
  key_field: fieldPaths().describe(
    'Field whose value groups events into buckets, or a list of fields: `[.app, .host]` gives each combination of values a bucket. Events without a value share the default bucket; if the option is blank, all events share it.',
  ),
  exclude: condition().optional().describe('Matching events pass and are not counted.'),
  max_keys: z.int().min(1).max(10_000_000).default(100_000).describe('Maximum number of buckets in memory.'),
  on_max_keys: z
    .enum(['default_bucket', 'pass', 'discard'])
    .default('pass')
    .describe('What happens to events with a new key beyond `max_keys`. Open windows are never removed to make room.'),
  time_field: timeField()
    .optional()
    .describe(
      'Field with the time of an event, in milliseconds since the epoch or as ISO 8601. Windows use it instead of the clock; they must be fixed, aligned, or of a quota. auto: the time from the source, codec or a usual field. An event without a time counts when it arrives.',
    ),
  allowed_lateness: duration(0)
    .optional()
    .describe(
      'With time_field only: how far an event may be behind the newest event of its source or bucket, and still count in its own window. Default: `1 Minutes`.',
    ),
  on_late: z
    .enum(['pass', 'discard'])
    .optional()
    .describe('With time_field only: what happens to an event later than `allowed_lateness`. Default: `pass`.'),
  on_backlog: z
    .enum(['credit', 'as_live', 'pace', 'pass'])
    .optional()
    .describe(
      'Only without a time_field: what happens to events read while a source catches up. credit: a bucket passes at once what its limit allows for all windows since the source fell behind, and one more. as_live: the running window decides. With both, events over the limit are discarded as `throttled_backlog`. pace: they wait, and the source is read more slowly. pass: all pass uncounted. Default: `credit`; with `scope: cluster`, `as_live`.',
    ),
  max_credit: duration()
    .optional()
    .describe('With `on_backlog: credit` only: the longest time for which windows are counted. Default: `24 Hours`.'),
  max_delay: duration()
    .optional()
    .describe(
      'With `on_backlog: pace` only: how long an event may wait. After that, `over_limit` applies. Default: `1 Hours`.',
    ),
  mode: z
    .enum(['enforce', 'shadow'])
    .default('enforce')
    .describe(
      'shadow: decides, counts and summarizes as usual, but passes every event unchanged. Its metrics have the label `mode="shadow"`, and the decision `would_discard` instead of `discarded`.',
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
            .describe('The number N: one of N events over the limit passes. Each bucket counts separately.'),
        }),
        z.strictObject({
          wait: duration().describe('How long an event over the limit may wait for room. Then it is discarded.'),
        }),
      ],
      { error: OVER_LIMIT },
    )
    .default('discard')
    .describe(
      'What happens to an event over the limit. discard: it is discarded. mark: it passes with the field `.throttle`. pass_one_in: one in N per bucket passes. wait: it waits for room, and is discarded if it waits too long; its source is read more slowly.',
    ),
  annotate: z
    .boolean()
    .default(false)
    .describe(
      'Adds the field `.throttle` to events of the side output `discarded`: `component`, `bucket`, `limit`, `window_ms`, `count`, `unit`, `rule` and `reason`. `over_limit: mark` always adds this field.',
    ),
  persist: z
    .boolean()
    .default(false)
    .describe(
      'Saves buckets in data_dir, about once a second and on shutdown. After a restart or a kill, buckets then continue their windows. Not with `scope: cluster`.',
    ),
  ...clusterOptions,
  summary: z
    .strictObject({
      every: duration(100).prefault('10 Seconds').describe('Length of an interval.'),
      to: z
        .enum(['passed', 'discarded', 'both'])
        .default('passed')
        .describe('Where the summary events go: to the main output, to the side output `discarded`, or to both.'),
      max_per_interval: z
        .int()
        .min(1)
        .max(10_000)
        .default(1000)
        .describe(
          'Number of buckets with a summary event of their own. One event sums up the others, with `"bucket":"__other__"`.',
        ),
    })
    .optional()
    .describe(
      'At the end of each interval, and when the throttle stops, emits an event for each bucket with discarded events: `{"message":"throttled","timestamp":…,"throttle":{"component","bucket","discarded_events","discarded_bytes","first","last","interval_ms","sample"}}`. The throttle does not throttle these events. In shadow mode, the message is `would be throttled`, with `"mode":"shadow"`.',
    ),
  per_key_metrics: z
    .strictObject({
      top: z.int().min(1).max(1000).default(20).describe('Number of keys with a series of their own.'),
      every: duration()
        .prefault('10 Seconds')
        .describe('Minimum time that a key keeps its series, even if other keys have more discarded events.'),
    })
    .optional()
    .describe(
      'For the keys that lose the most events, counts their discarded events in `sluice_throttle_key_discarded_events_total{key}`. All other keys are counted together as `key="__other__"`, events without a key as `key="__default__"`.',
    ),
  limits: z
    .array(ruleSchema)
    .min(1)
    .max(MOST_RULES)
    .optional()
    .describe(
      'Rules for some of the events, by condition (`when`), bucket (`key`) or both. The options of the first matching rule replace the same options of the throttle. Each rule has its own buckets.',
    ),
  limits_file: filePath()
    .optional()
    .describe(
      'File with more rules, which apply after the rules in `limits`: a YAML list, or CSV (`.csv`) with a header of option names. It is read again when it changes; a broken file leaves the previous rules in use.',
    ),
})

type Fields = z.output<typeof fields>
export type RuleOptions = z.output<typeof ruleSchema>
export type SummaryOptions = NonNullable<Fields['summary']>
export type KeyMetricsOptions = NonNullable<Fields['per_key_metrics']>
export type ClusterOptions = Pick<Fields, keyof typeof clusterOptions>

export type LimitOptions = Pick<Fields, keyof typeof limitOptions>
type ScopedLimits = LimitOptions & { readonly scope?: 'local' | 'cluster'; readonly time_field?: Fields['time_field'] }
export type RuledOptions = ScopedLimits & Pick<Fields, 'key_field' | 'limits'>

// Checks.

type CheckedOptions = RuledOptions &
  Pick<Fields, 'time_field' | 'allowed_lateness' | 'on_late'> &
  Partial<Pick<Fields, 'on_backlog' | 'max_credit' | 'max_delay' | 'over_limit'>>

function check(options: CheckedOptions, context: z.RefinementCtx): void {
  const { on_backlog, max_credit, max_delay, over_limit, time_field, allowed_lateness, on_late } = options
  checkLimits(options, context)
  if (max_delay !== undefined && on_backlog !== 'pace')
    refuseAt(context, ['max_delay'], 'has no effect without on_backlog: pace')
  if (max_credit !== undefined && (on_backlog ?? 'credit') !== 'credit')
    refuseAt(context, ['max_credit'], `has no effect with on_backlog: ${on_backlog}`)
  if (time_field && typeof over_limit === 'object' && 'wait' in over_limit)
    refuseAt(
      context,
      ['over_limit'],
      'cannot wait with time_field: windows follow the time of the events, so waiting does not make room',
    )
  checkRules(options, context)
  if (time_field) return
  for (const [name, value] of Object.entries({ allowed_lateness, on_late })) {
    if (value !== undefined) refuseAt(context, [name], 'has no effect without time_field')
  }
}

const hasLimit = ({ limit, limit_bytes }: Pick<LimitOptions, 'limit' | 'limit_bytes'>) =>
  limit !== undefined || limit_bytes !== undefined

const MISSING_LIMIT = 'is missing; it must be a whole number, or set limit_bytes to a size'
const MISSING_WINDOW = 'is missing; it must be a duration such as "10 Seconds"'

const NOT_SHARED =
  'cannot be combined with scope: cluster, where the server would have to keep the time of each event; use gcra, which is smooth as well'
/** Window modes that event time does not have. */
export const CLOCK_MODES: readonly unknown[] = ['sliding', 'gcra']
const CLOCK_ONLY =
  'cannot be combined with time_field: the windows of event time are fixed, aligned or calendar periods; set window_mode: fixed or aligned, set quota instead of window, or remove time_field'

function checkLimits(options: ScopedLimits, context: z.RefinementCtx): void {
  const { window, cost, quota, also = [] } = options
  if (!hasLimit(options) && quota === undefined) refuseAt(context, ['limit'], MISSING_LIMIT)
  if (window === undefined && (hasLimit(options) || quota === undefined)) refuseAt(context, ['window'], MISSING_WINDOW)
  if (quota && !hasLimit(quota)) refuseAt(context, ['quota', 'limit'], MISSING_LIMIT)
  if (cost !== undefined && ![options, ...also, ...(quota ? [quota] : [])].some(({ limit }) => limit !== undefined))
    refuseAt(context, ['cost'], 'has no effect without limit; limit_bytes counts the size of an event')
  checkBurst(options, [], context)
  if (options.scope === 'cluster') refuseModes(options, ['sliding'], NOT_SHARED, context)
  if (options.time_field) refuseModes(options, CLOCK_MODES, CLOCK_ONLY, context)
  for (const [n, more] of also.entries()) {
    if (!hasLimit(more)) refuseAt(context, ['also', n, 'limit'], MISSING_LIMIT)
    checkBurst({ ...more, window_mode: more.window_mode ?? options.window_mode }, ['also', n], context)
  }
}

/** Adds an issue for each limit whose window mode is one of `modes`. */
function refuseModes(
  { window_mode, also = [] }: LimitOptions,
  modes: readonly unknown[],
  why: string,
  context: z.RefinementCtx,
): void {
  const refuse = (mode: WindowMode | undefined, path: (string | number)[]) =>
    mode !== undefined && modes.includes(mode) && refuseAt(context, [...path, 'window_mode'], `${mode} ${why}`)
  refuse(window_mode, [])
  for (const [n, more] of also.entries()) refuse(more.window_mode, ['also', n])
}

function checkBurst(
  { burst, window_mode }: { burst?: number | undefined; window_mode?: WindowMode | undefined },
  at: (string | number)[],
  context: z.RefinementCtx,
): void {
  if (burst !== undefined && window_mode !== 'gcra')
    refuseAt(context, [...at, 'burst'], 'has no effect without window_mode: gcra')
}

/**
 * Adds an issue for each rule that cannot be used. Does nothing if the throttle's own limits are invalid, because each
 * rule would repeat the problems of these limits.
 */
function checkRules(options: RuledOptions, context: z.RefinementCtx): void {
  if (problemsOf(options).length > 0) return
  for (const [n, rule] of (options.limits ?? []).entries()) {
    for (const { path, message } of ruleProblems(rule, options)) {
      refuseAt(context, ['limits', n, ...path] as string[], message)
    }
  }
}

interface RuleProblem {
  /** The path within the rule. Empty if the whole rule has the problem. */
  readonly path: readonly (string | number)[]
  readonly message: string
}

/** The problems of a rule. Call it only if the throttle's own limits are valid. */
export function ruleProblems(rule: RuleOptions, options: RuledOptions): readonly RuleProblem[] {
  const { when, key, limit, ...named } = rule
  const problems: RuleProblem[] = []
  if (when === undefined && key === undefined) problems.push({ path: [], message: 'needs when or key, or both' })
  if (key !== undefined) {
    const message = options.key_field.length === 0 ? 'has no effect without key_field' : patternProblem(key, options)
    if (message) problems.push({ path: ['key'], message })
  }
  if (limit !== 'unlimited') return [...problems, ...problemsOf(merged(options, rule))]
  const useless = Object.entries(named).filter(([, value]) => value !== undefined)
  return [...problems, ...useless.map(([name]) => ({ path: [name], message: 'has no effect with limit: unlimited' }))]
}

function problemsOf(options: ScopedLimits): RuleProblem[] {
  const problems: RuleProblem[] = []
  const addIssue = ({ path, message }: { path?: (string | number)[]; message: string }) =>
    problems.push({ path: path ?? [], message })
  checkLimits(options, { addIssue } as unknown as z.RefinementCtx)
  return problems
}

function patternProblem(key: string, options: RuledOptions): string | undefined {
  try {
    patternOf(key, options)
    return undefined
  } catch (error) {
    if (!(error instanceof KeyPatternError)) throw error
    return error.message
  }
}

export const patternOf = (key: string, { key_field }: RuledOptions) => new KeyPattern(key, key_field.length > 1)

/** The options of a throttle after a rule's options have replaced some of them. */
export function merged<O extends LimitOptions>(options: O, { when, key, ...named }: RuleOptions): O {
  const given = Object.entries(named).filter(([, value]) => value !== undefined && value !== 'unlimited')
  // A burst is only valid with gcra.
  const burst = named.window_mode === undefined || named.window_mode === 'gcra' ? options.burst : undefined
  return { ...options, burst, ...Object.fromEntries(given) }
}

/** Options that cannot be combined with `scope: cluster`, and why. */
const LOCAL_ONLY = {
  time_field:
    'cannot be combined with scope: cluster, whose windows follow the clock of the server; leave it out, or use scope: local',
  persist: 'has no effect with scope: cluster, where the server keeps the buckets; leave it out',
} as const

function checkCluster(options: ClusterOptions, context: z.RefinementCtx): void {
  const { scope, redis, on_backend_failure, expected_members } = options
  if (scope === 'local') {
    for (const name of Object.keys(clusterOptions) as (keyof ClusterOptions)[])
      if (name !== 'scope' && options[name] !== undefined)
        refuseAt(context, [name], 'has no effect without scope: cluster')
    return
  }
  if (redis === undefined)
    refuseAt(context, ['redis'], 'is required with scope: cluster; it names the server that keeps the buckets')
  if (expected_members !== undefined && (on_backend_failure ?? 'local_share') !== 'local_share')
    refuseAt(context, ['expected_members'], 'has no effect without on_backend_failure: local_share')
  for (const [name, message] of Object.entries(LOCAL_ONLY)) {
    const value = (options as Readonly<Record<string, unknown>>)[name]
    if (value !== undefined && value !== false) refuseAt(context, [name], message)
  }
}

export const throttleOptions = fields.superRefine(check).superRefine(checkCluster)
export type ThrottleConfig = z.output<typeof throttleOptions>

/**
 * The options of a throttle that a program creates. Such a throttle only decides, so options that need a daemon are
 * omitted.
 */
export const streamThrottleOptions = fields
  .omit({ mode: true, over_limit: true, annotate: true, summary: true, per_key_metrics: true })
  .omit({ on_backlog: true, max_credit: true, max_delay: true, limits_file: true, persist: true })
  .omit({ scope: true, group: true, redis: true, accuracy: true, on_backend_failure: true, expected_members: true })
  .superRefine(check)

// Derived values.

export function limitsOf(options: LimitOptions): Limit[] {
  const { window_mode, cost, quota, also = [] } = options
  const ofEvents = cost ? 'cost' : 'events'
  const limits: Limit[] = []
  for (const { limit, limit_bytes, window, window_mode: mode = window_mode, burst } of [options, ...also]) {
    const windowMs = window!
    if (limit !== undefined) limits.push({ mode, limit, windowMs, burst, unit: ofEvents })
    // If both limits are set, `burst` applies to the limit of events.
    const bytesBurst = limit === undefined ? burst : undefined
    if (limit_bytes !== undefined) limits.push({ mode, limit: limit_bytes, windowMs, burst: bytesBurst, unit: 'bytes' })
  }
  if (quota) {
    const { limit, limit_bytes, per, time_zone: timeZone } = quota
    const shared = { mode: 'quota' as const, windowMs: nominalMs(per), per, timeZone }
    if (limit !== undefined) limits.push({ ...shared, limit, unit: ofEvents })
    if (limit_bytes !== undefined) limits.push({ ...shared, limit: limit_bytes, unit: 'bytes' })
  }
  return limits
}

/** Defaults that apply if `time_field` is set. */
export const LATENESS = { allowed_lateness: 60_000, on_late: 'pass' } as const

/** Default maximum wait in milliseconds if `on_backlog` is `pace`. */
const MAX_DELAY_MS = 3_600_000

/** Default of `max_credit` in milliseconds. */
const MAX_CREDIT_MS = 24 * 3_600_000

/** What happens to backlog. Undefined if it counts in event time. */
export function backlogMode({ on_backlog = 'credit', scope, time_field }: BacklogOptions): BacklogMode | undefined {
  if (time_field) return undefined
  // Other members may have used the limit meanwhile.
  return on_backlog === 'credit' && scope === 'cluster' ? 'as_live' : on_backlog
}

type BacklogOptions = Pick<ThrottleConfig, 'on_backlog' | 'scope' | 'time_field'>
type BacklogMode = NonNullable<ThrottleConfig['on_backlog']>

/** The longest time for which a bucket has credit while a source catches up. Undefined: it has none. */
export function creditMs(options: BacklogOptions & Pick<ThrottleConfig, 'max_credit'>): number | undefined {
  return backlogMode(options) === 'credit' ? (options.max_credit ?? MAX_CREDIT_MS) : undefined
}

type Timing = Pick<ThrottleConfig, 'mode' | 'over_limit' | 'on_backlog' | 'max_delay' | 'time_field'>

/** How long events may wait for room, in milliseconds. With 0, events do not wait. */
export function longestWaits({ mode, over_limit, on_backlog, max_delay, time_field }: Timing) {
  if (mode === 'shadow' || time_field) return { live: 0, backlog: 0 }
  const live = typeof over_limit === 'object' && 'wait' in over_limit ? over_limit.wait : 0
  return { live, backlog: on_backlog === 'pace' ? (max_delay ?? MAX_DELAY_MS) : live }
}

export function everWaits(timing: Timing): boolean {
  const { live, backlog } = longestWaits(timing)
  return live + backlog > 0
}
