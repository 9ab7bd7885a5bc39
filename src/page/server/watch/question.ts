import { isDeepStrictEqual } from 'node:util'
import {
  CLOCK_MODES,
  limitsOf,
  type ThrottleConfig,
  throttleOptions,
} from '../../../components/processors/throttle/options.js'
import type { Limit } from '../../../components/throttle/limit.js'
import type { Condition } from '../../../core/condition/parse.js'
import type { FieldPath } from '../../../core/event/field-path.js'
import { parseOptions } from '../../../engine/config/parse-options.js'
import { editYaml } from '../../../engine/config/yaml/plain-yaml.js'
import { counted } from '../../../lib/units.js'
import type { Counted } from './key-counts.js'
import { QuestionError } from './question-error.js'
import type { Tried, WhatIfOutcome } from './what-if.js'

/** The options that the user wants to try in place of the throttle's options, as typed. */
export interface Asked {
  readonly limit?: string | undefined
  readonly window?: string | undefined
  readonly mode?: string | undefined
  readonly key_field?: string | undefined
  readonly exclude?: string | undefined
}

export interface Question extends Tried {
  /** The key's fields; undefined: the throttle's fields. */
  readonly key: readonly FieldPath[] | undefined
  readonly exclude: Condition | undefined
  /** The options that differ from the throttle's, as YAML. */
  readonly yaml: string
}

const PERIODS: readonly (readonly [ms: number, per: string])[] = [
  [3_600_000, 'hour'],
  [86_400_000, 'day'],
  [7 * 86_400_000, 'week'],
  [30 * 86_400_000, 'month'],
]

/** The limit that a question changes: the first limit on events. */
const ownLimit = (options: ThrottleConfig): Limit | undefined => limitsOf(options).find(({ unit }) => unit !== 'bytes')

export function questionOf(options: ThrottleConfig, asked: Asked): Question {
  const own = ownLimit(options)
  if (!own && asked.limit === undefined)
    throw new QuestionError('the throttle has only a limit in bytes; to ask about a limit in events, add limit=N')
  const limit = asked.limit === undefined ? own!.limit : numberOf(asked.limit)
  const window = asked.window ?? (own ? `${own.windowMs}ms` : `${limitsOf(options)[0]!.windowMs}ms`)
  const mode = asked.mode ?? own?.mode ?? 'fixed'
  const parsed =
    mode === 'quota'
      ? parse(quotaOf(options, limit, window))
      : parse({ limit, window, window_mode: mode, ...burstOf(own, mode) })
  const keyed = asked.key_field === undefined ? undefined : listed(asked.key_field)
  const { key_field } = keyed === undefined ? options : parse({ limit: 1, window: '1s', key_field: keyed })
  const { exclude } = asked.exclude === undefined ? options : parse({ limit: 1, window: '1s', exclude: asked.exclude })
  const [changed] = limitsOf(parsed)
  const isOther = keyed !== undefined && pathsText(key_field) !== pathsText(options.key_field)
  const isExcluded = asked.exclude !== undefined
  const key = isOther ? key_field : isExcluded ? options.key_field : undefined
  // Other limits on events still apply. Limits on bytes do not, since only events are counted.
  const now = limitsOf(options).filter(({ unit }) => unit !== 'bytes')
  const others = now.filter(one => !(own && isDeepStrictEqual(one, own)))
  const changes = {
    ...(mode === 'quota' && quotaOf(options, limit, window)),
    ...(mode !== 'quota' && limit !== own?.limit && { limit }),
    ...(mode !== 'quota' && changed!.windowMs !== own?.windowMs && { window }),
    ...(mode !== 'quota' && mode !== own?.mode && { window_mode: mode }),
    ...(isOther && { key_field: keyed }),
    ...(isExcluded && { exclude: asked.exclude }),
  }
  const inEvents = (limits: readonly Limit[]) => limits.map(one => ({ ...one, unit: 'events' as const }))
  return {
    limits: inEvents([changed!, ...others]),
    own: key || !own ? undefined : inEvents(now),
    change: key || changed!.windowMs !== own?.windowMs || mode !== own.mode ? undefined : limit - own.limit,
    key,
    exclude: isOther || isExcluded ? exclude : undefined,
    yaml: Object.keys(changes).length === 0 ? '' : editYaml('', changes),
  }
}

function parse(given: object): ThrottleConfig {
  const parsed = parseOptions(throttleOptions, given)
  if ('value' in parsed) return parsed.value
  const { path, message } = parsed.faults[0]!
  throw new QuestionError(`${path === 'window_mode' ? 'mode' : path}: ${message}`)
}

/** Returns options with a quota in place of `limit` and `window`. */
function quotaOf({ quota }: ThrottleConfig, limit: number, window: string) {
  const { window: windowMs } = parse({ limit, window })
  const [, per] = PERIODS.find(([ms]) => ms === windowMs) ?? []
  if (per === undefined) throw new QuestionError('mode=quota needs a window of 1h, 1d, 7d or 30d')
  return { quota: { limit, per, ...(quota && { time_zone: quota.time_zone }) } }
}

const burstOf = (own: Limit | undefined, mode: string) =>
  own?.mode === 'gcra' && mode === 'gcra' && own.burst !== undefined ? { burst: own.burst } : {}

const numberOf = (text: string): number => (text.trim() === '' ? Number.NaN : Number(text))

/** One path, or several in brackets. */
const listed = (text: string): string | string[] =>
  /^\[.*\]$/.test(text)
    ? text
        .slice(1, -1)
        .split(',')
        .map(path => path.trim())
    : text

const pathsText = (paths: readonly FieldPath[]) => JSON.stringify(paths.map(({ text }) => text))

/** Returns the reasons why the answer is only an estimate; empty if the answer is exact. */
export function inexactness(
  options: ThrottleConfig,
  { limits, key, change }: Question,
  { stepMs, oneIn, hasRest, byLimit, mostKeys, keys }: Counted,
  { unexplained, isWhole }: WhatIfOutcome,
): string[] {
  const all = limitsOf(options)
  const { cost, also, time_field, scope, over_limit, on_backlog } = options
  const waits = (typeof over_limit === 'object' && 'wait' in over_limit) || on_backlog === 'pace'
  return [
    oneIn > 1 && `one event in ${oneIn} was counted`,
    stepMs > 1 && `times are rounded to ${stepMs} ms`,
    hasRest && `events of keys beyond the ${mostKeys} busiest stay as they were`,
    !(byLimit || time_field || scope === 'cluster') &&
      'something else than the limit decided on some events, such as the credit of a source that caught up',
    unexplained > 0 &&
      `computed for the present limit, the numbers are off by ${counted(unexplained, 'event')}; these may be, too`,
    change === undefined && !isWhole && 'events before this time are not known',
    key && 'a sample of at most 2,000 events per second is counted',
    (options.limits || options.limits_file) && 'rules are not applied: all keys have this limit',
    all.some(({ unit }) => unit === 'bytes') && 'limits of bytes are not applied',
    keys >= options.max_keys && 'keys beyond max_keys have the limit, too',
    cost && 'each event counts as 1 instead of its cost',
    limits.some(({ mode }) => mode === 'quota') && 'earlier events of the quota are not known',
    also?.some(({ limit }) => limit !== undefined) && 'limits of `also` begin empty',
    time_field && 'events count at their arrival instead of at their own time',
    time_field &&
      limits.some(({ mode }) => CLOCK_MODES.includes(mode)) &&
      'sliding and gcra cannot be combined with time_field',
    scope === 'cluster' && 'only the events of this daemon count',
    waits && 'no event waits for room',
  ].filter(text => typeof text === 'string')
}
