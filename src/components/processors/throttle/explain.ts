import type { ComponentContext } from '../../../core/component.js'
import { explainCondition } from '../../../core/condition/explain.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldPath } from '../../../core/event/field-path.js'
import { type Finding, type FindingsOf, shownValue } from '../../../core/explain.js'
import { formatDuration, formatSize } from '../../../lib/units.js'
import { BucketKey } from '../../throttle/buckets/bucket-key.js'
import { createDecider } from '../../throttle/create-decider.js'
import type { DeciderOptions } from '../../throttle/decider-options.js'
import { EXCLUDED } from '../../throttle/decisions.js'
import { AutoTime } from '../../throttle/event/auto-time.js'
import { latestTime, type NamedTime } from '../../throttle/event/time.js'
import type { Limit } from '../../throttle/limit.js'
import type { RuleName } from '../../throttle/rules/rule.js'
import { ruleTitle } from '../../throttle/rules/rules.js'
import { periodsOf } from '../../throttle/windows/several.js'
import { deciderOptions } from './decider-options.js'
import { LimitsFile } from './limits-file.js'
import { creditMs, longestWaits, type ThrottleConfig } from './options.js'

const FULL_TEXT = {
  default_bucket: 'counts in the default bucket',
  pass: 'passes without being counted',
  discard: 'is discarded',
} as const

/** Explains the decision about an event as if no event had reached the throttle before. */
export async function explainThrottle(options: ThrottleConfig, context: ComponentContext): Promise<FindingsOf> {
  const { limits_file: path } = options
  const file = path === undefined ? undefined : await LimitsFile.open(path, options, context)
  const decider = deciderOptions(options, context, file?.rules)
  const exclude = options.exclude && explainCondition(options.exclude, path => context.field(path))
  return batch => {
    const findings: Finding[] = []
    const excluded = exclude?.(batch, 0)
    if (excluded) findings.push({ text: 'exclude', holds: excluded.holds, parts: [excluded] })
    const trial = createDecider(decider, context.clock)
    const { decisions } = trial.decide(batch)
    if (decisions[0] === EXCLUDED) {
      findings.push({ text: 'it is excluded: it passes without being counted' })
      return findings
    }
    const bucket = bucketOf(options, decider, batch)
    findings.push(bucket)
    if (options.time_field) findings.push(timeOf(options, decider, batch, context))
    const rule = trial.ruleOf(batch, 0)
    if (decider.rules) findings.push(ruleText(rule?.name))
    if (rule?.limits.length === 0) return [...findings, { text: 'limit: unlimited, it passes' }]
    for (const limit of rule?.limits ?? decider.limits) {
      findings.push({ text: windowText(limit, startText(limit, decider, batch, context)) })
    }
    const instead = insteadText(options)
    if (instead) findings.push({ text: instead })
    const caughtUp = backlogText(options)
    if (caughtUp) findings.push({ text: caughtUp })
    if (bucket.holds) {
      const full = FULL_TEXT[options.on_max_keys]
      findings.push({
        text: `max_keys: while ${options.max_keys} other buckets are in use, an event of a new bucket ${full}`,
      })
    }
    return findings
  }
}

/** What happens to events over the limit. Undefined if these events are discarded. */
function insteadText({ mode, over_limit: over }: ThrottleConfig): string | undefined {
  if (mode === 'shadow') return 'mode: shadow, all events pass; events over the limit are only counted as discarded'
  if (over === 'mark') return 'over_limit: events over the limit pass, with the field .throttle'
  if (typeof over !== 'object') return undefined
  if ('wait' in over) return `over_limit: events over the limit wait for room, for at most ${formatDuration(over.wait)}`
  return `over_limit: one in ${over.pass_one_in} events over the limit passes`
}

/** What happens to events over the limit while their source catches up. Undefined if they are treated as usual. */
function backlogText(options: ThrottleConfig): string | undefined {
  const { mode, on_backlog, time_field } = options
  if (mode === 'shadow' || time_field) return undefined
  if (on_backlog === 'pass') return 'on_backlog: while its source catches up, it passes without being counted'
  const creditFor = creditMs(options)
  if (creditFor !== undefined)
    return `on_backlog: while its source catches up, the first of its bucket pass that the limit allows for all windows since the source fell behind (at most ${formatDuration(creditFor)}), and one more`
  if (on_backlog !== 'pace') return undefined
  const longest = formatDuration(longestWaits(options).backlog)
  return `on_backlog: while its source catches up, events over the limit wait for room, for at most ${longest}`
}

function ruleText(rule: RuleName | undefined): Finding {
  if (!rule) {
    return { text: 'limits: no rule holds for it, so the limit of the throttle applies', holds: false, rule: null }
  }
  const text = `limits: ${rule.list}[${rule.place - 1}] is the first rule that holds (${rule.text})`
  return { text, holds: true, rule: ruleTitle(rule) }
}

/** The bucket of an event. `holds`: whether the bucket is not the default bucket. */
function bucketOf({ key_field: paths }: ThrottleConfig, { keyFields }: DeciderOptions, batch: EventBatch): Finding {
  if (paths.length === 0) return { text: 'key_field: not set, so all events count in the default bucket', bucket: null }
  const key = new BucketKey(keyFields)
  const holds = key.load(batch, 0)
  const bucket = holds ? key.text() : null
  const shown = keyFields.map((field, k) => {
    field.load(batch, 0)
    return `${paths[k]!.text} is ${shownValue(field)}`
  })
  const value = shown.join(', ')
  if (!holds) return { text: 'key_field: without a value it counts in the default bucket', holds, value, bucket }
  return { text: `key_field: it counts in the bucket of its value${paths.length > 1 ? 's' : ''}`, holds, value, bucket }
}

/** The time at which an event counts. `own`: whether it is the event's own time, not arrival or now. */
function timeAt(decider: DeciderOptions, batch: EventBatch, { clock }: ComponentContext): [ms: number, own: boolean] {
  const { eventTime: by } = decider
  if (!by) return [clock.wall(), false]
  const time = by.time.of(batch, 0)
  return time <= latestTime(batch.receivedAt, by.latenessMs) ? [time, true] : [batch.receivedAt, false]
}

function timeOf(
  { time_field }: ThrottleConfig,
  decider: DeciderOptions,
  batch: EventBatch,
  context: ComponentContext,
): Finding {
  const [ms, own] = timeAt(decider, batch, context)
  const { time, latenessMs, onLate } = decider.eventTime!
  const read = Number.isNaN(time.of(batch, 0))
  const named = { path: time_field as FieldPath, field: (time as NamedTime).field }
  const { path, field } = time instanceof AutoTime ? time.fieldOf(batch, 0) : named
  const value = `${path.text} is ${shownValue(field)}`
  if (own) {
    const late = onLate === 'pass' ? 'passes' : 'is discarded'
    const text = `time_field: the event counts at its own time; an event that is too late to be counted (more than ${formatDuration(latenessMs)} behind the newest one) ${late}`
    return { text, holds: true, value, time: ms }
  }
  const why = read ? 'its time cannot be read' : 'its time is ahead of the clock by more than allowed_lateness'
  return { text: `time_field: ${why}, so it counts at its arrival`, holds: false, value }
}

function startText(limit: Limit, decider: DeciderOptions, batch: EventBatch, context: ComponentContext): string {
  const [ms, own] = timeAt(decider, batch, context)
  const periods = periodsOf(limit)
  if (!periods) return own ? `, here from ${new Date(ms).toISOString()}` : ''
  return `, here from ${new Date(periods.startOf(ms)).toISOString()} to ${new Date(periods.endOf(ms)).toISOString()}`
}

function windowText(of: Limit, start: string): string {
  const { limit, unit, windowMs, mode } = of
  const amount = unit === 'bytes' ? formatSize(limit) : unit === 'cost' ? `a cost of ${limit}` : `${limit}`
  const one = limit === 1 && unit === 'events'
  const first = one ? 'the first of its bucket passes' : `the first ${amount} of its bucket pass`
  const length = formatDuration(windowMs)
  switch (mode) {
    case 'sliding':
      return `window: it passes if ${unit === 'events' ? 'fewer' : 'less'} than ${amount} of its bucket passed in the ${length} before it, and is discarded otherwise; the first passes${start}`
    case 'aligned':
      return `window: windows of ${length} begin at multiples of this length since the epoch${start}; in each window, ${first}; later ones are discarded`
    case 'gcra': {
      const burst = of.burst ?? limit - 1
      return `window: ${unit === 'events' ? 'one of its bucket passes' : 'they pass at a rate of 1'} every ${formatDuration(windowMs / limit)}, and up to ${burst} more at once${start}; others are discarded`
    }
    case 'quota':
      return `quota: each ${of.per} in ${of.timeZone}${start}, ${first}; later ones are discarded`
    case 'fixed':
      return `window: it opens with the first event and lasts ${length}${start}; ${first}, later ones are discarded until it ends`
  }
}
