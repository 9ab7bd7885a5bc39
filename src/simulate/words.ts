import {
  backlogMode,
  LATENESS,
  limitsOf,
  longestWaits,
  type ThrottleConfig,
} from '../components/processors/throttle/options.js'
import type { Limit } from '../components/throttle/limit.js'
import { conditionText } from '../core/condition/condition-text.js'
import type { FieldPath } from '../core/event/field-path.js'
import { formatDuration, formatSize } from '../lib/units.js'
import type { StatedFact, TrialResult } from './result.js'

const DEFAULT_BUCKET_NAME = '(default bucket)'

export const number = (value: number) => value.toLocaleString('en-US')

/** `2 keys`, `1 key`. */
export const count = (value: number, noun: string) => `${number(value)} ${noun}${value === 1 ? '' : 's'}`

export const percent = (part: number, whole: number) => `${whole === 0 ? '0.0' : ((part / whole) * 100).toFixed(1)} %`

export const timeText = (ms: number) => new Date(ms).toISOString()

/** The key on one line, with invisible characters escaped. */
export function keyName({ key }: { readonly key: string | null }): string {
  if (key === null) return DEFAULT_BUCKET_NAME
  const visible = key
    .toWellFormed()
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, char => `\\u{${char.codePointAt(0)!.toString(16)}}`)
  return visible.trim() === visible && visible !== DEFAULT_BUCKET_NAME ? visible : JSON.stringify(visible)
}

export function inputName(input: string): string {
  return input === '-' ? 'standard input' : input
}

export function limitText({ limit, unit }: TrialResult): string {
  return unit === 'bytes' ? `${number(limit)} B` : number(limit)
}

/** The paths of the key as in a configuration; undefined if there is no key. */
export function keyText(paths: readonly FieldPath[]): string | undefined {
  const texts = paths.map(({ text }) => text)
  return texts.length > 1 ? `[${texts.join(', ')}]` : texts[0]
}

/** Describes throttles that differ only in limit, window or key. `isBacklog`: the simulated events are backlog. */
export function describeThrottles(all: readonly ThrottleConfig[], isBacklog: boolean): StatedFact[] {
  const [first] = all as [ThrottleConfig]
  const { exclude, max_keys, on_max_keys } = first
  const { time_field, allowed_lateness = LATENESS.allowed_lateness, on_late = LATENESS.on_late } = first
  const keys = alternatives(all.map(({ key_field }) => keyText(key_field) ?? ''))
  const by = keys === '' ? ', one bucket for all' : ` by ${keys}`
  return [
    { name: 'throttle', text: limitsText(all.map(limitsOf), by) },
    ...(exclude ? [{ name: 'exclude', text: `if (${conditionText(exclude)})` }] : []),
    ...(keys === '' ? [] : [{ name: 'max_keys', text: `${number(max_keys)}, beyond it ${on_max_keys}` }]),
    ...(time_field ? [{ name: 'lateness', text: `${windowText(allowed_lateness)}, beyond it ${on_late}` }] : []),
    ...beyondDeciding(first, isBacklog),
  ]
}

/** Describes options that make the daemon differ from the simulation, or do more than pass and discard events. */
function beyondDeciding(options: ThrottleConfig, isBacklog: boolean): StatedFact[] {
  const { mode, over_limit, limits, scope } = options
  const facts: StatedFact[] = []
  const add = (name: string, text: string) => facts.push({ name, text })
  if (limits) add('limits', `${count(limits.length, 'rule')}, the first that matches decides`)
  if (mode === 'shadow') add('mode', 'shadow: the daemon passes the events that are shown as discarded')
  if (over_limit === 'mark')
    add('over_limit', 'mark: the daemon marks and passes the events that are shown as discarded')
  if (typeof over_limit === 'object' && 'pass_one_in' in over_limit)
    add('over_limit', `pass_one_in ${number(over_limit.pass_one_in)}: the events that pass are shown as passed`)
  const { live, backlog } = longestWaits(options)
  if (live > 0 && !isBacklog) {
    const room = `events that find room within ${formatDuration(live)} are shown as passed`
    add('over_limit', `wait: ${room}, as if the source could continue meanwhile`)
  }
  const how = backlogMode(options)
  if (isBacklog && how === 'pass') add('on_backlog', 'pass: all events are backlog here, and pass uncounted')
  else if (isBacklog && how === 'credit')
    add(
      'on_backlog',
      'credit: all events are backlog here; a bucket passes what its limit allows for all windows from the first event to the last, and one more',
    )
  else if (isBacklog && how === 'as_live') add('on_backlog', 'as_live: all events are backlog here, and count at once')
  else if (isBacklog && how)
    add(
      'on_backlog',
      `pace: all events are backlog here; events that find room within ${formatDuration(backlog)} are shown as passed`,
    )
  else if (how === 'pace' || how === 'pass')
    add('on_backlog', `${how}: nothing is backlog here, all events count as live`)
  if (scope === 'cluster')
    add('scope', 'cluster: simulated as a single daemon that has the whole limit and gets all of these events')
  return facts
}

/** Text such as `limit 5 or 10 in 1 second by .app, fixed windows`. If modes differ, a mode is after each limit. */
function limitsText(all: readonly (readonly Limit[])[], by: string): string {
  const [own, ...others] = all[0] as [Limit, ...Limit[]]
  const same = others.every(({ mode }) => mode === own.mode || mode === 'quota')
  const text = (amount: string, window: string, { mode }: Limit) =>
    `limit ${amount} ${window}${same || mode === 'quota' ? '' : ` (${mode})`}`
  const amounts = alternatives(all.map(([first]) => amountText(first!)))
  const windows = `in ${alternatives(all.map(([first]) => windowText(first!.windowMs)))}`
  const further = others.map(limit => text(amountText(limit), periodText(limit), limit))
  const texts = [text(amounts, own.mode === 'quota' ? periodText(own) : windows, own), ...further]
  return `${texts.join(' and ')}${by}${same && own.mode !== 'quota' ? `, ${own.mode} windows` : ''}`
}

/** `in 1 second`, `per day in Europe/Berlin`. */
function periodText(limit: Limit): string {
  return limit.mode === 'quota' ? `per ${limit.per} in ${limit.timeZone}` : `in ${windowText(limit.windowMs)}`
}

/** `1,000`, `5.0 MB` or `cost 1,000`. */
export function amountText({ limit, unit }: Pick<Limit, 'limit' | 'unit'>): string {
  return unit === 'events' ? number(limit) : unit === 'bytes' ? formatSize(limit) : `cost ${number(limit)}`
}

/** `10, 50 or 100`. */
function alternatives(texts: readonly string[]): string {
  const distinct = [...new Set(texts)]
  const last = distinct.pop()!
  return distinct.length === 0 ? last : `${distinct.join(', ')} or ${last}`
}

const UNITS = [
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
] as const

/** The exact length of a window: `90 seconds`. */
export function windowText(ms: number): string {
  const [unit, size] = UNITS.find(([, size]) => ms % size === 0) ?? (['millisecond', 1] as const)
  return `${ms / size} ${unit}${ms === size ? '' : 's'}`
}
