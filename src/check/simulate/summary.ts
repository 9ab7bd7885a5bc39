import { JSON_OBJECTS } from '../../codecs/json.js'
import type { Condition } from '../../condition/parse.js'
import type { Codec } from '../../core/codec.js'
import type { FieldPath } from '../../core/event/field-path.js'
import { formatDuration, formatSize } from '../../lib/units.js'
import { limitsOf } from '../../processors/throttle/limit-options.js'
import { LATENESS, type ThrottleOptions } from '../../processors/throttle/options.js'
import { looksLikeSeconds } from '../../throttle/event-decider.js'
import type { Limit } from '../../throttle/limit.js'
import type { Way } from './before.js'
import type { Simulation } from './simulate.js'
import { DISCARDED, EXCLUDED, type KeyCounts, type KeyTally, PASSED } from './tally.js'

/** Formats the result of a simulation for a terminal. */

const SHOWN_KEYS = 20
const NAME_WIDTH = 11
const USUAL_COLUMNS = 80
/** A key is never shortened below this, however narrow the terminal is. */
const SHORTEST_KEY = 12

export interface SummaryStyle {
  readonly columns: number | undefined
  readonly colour: boolean
}

export const DEFAULT_BUCKET_NAME = '(default bucket)'

const number = (value: number) => value.toLocaleString('en-US')

/** `2 keys`, `1 key`. */
export const count = (value: number, noun: string) => `${number(value)} ${noun}${value === 1 ? '' : 's'}`

export const percent = (part: number, whole: number) => `${whole === 0 ? '0.0' : ((part / whole) * 100).toFixed(1)} %`

export const timeText = (ms: number) => new Date(ms).toISOString()

/** The paths of the key as in a configuration; undefined if there is none. */
export function keyText(paths: readonly FieldPath[]): string | undefined {
  const texts = paths.map(({ text }) => text)
  return texts.length > 1 ? `[${texts.join(', ')}]` : texts[0]
}

/** The throttle as pairs of a name and a text. */
export function describeThrottle(options: ThrottleOptions): (readonly [string, string])[] {
  const { key_field, exclude, max_keys, on_max_keys } = options
  const { time_field, allowed_lateness = LATENESS.allowed_lateness, on_late = LATENESS.on_late } = options
  const key = keyText(key_field)
  const by = key === undefined ? ', one bucket for all' : ` by ${key}`
  return [
    ['throttle', limitsText(limitsOf(options), by)],
    ...(exclude ? [['exclude', `if (${conditionText(exclude)})`] as const] : []),
    ...(key !== undefined ? [['max_keys', `${number(max_keys)}, beyond it ${on_max_keys}`] as const] : []),
    ...(time_field ? [['lateness', `${windowText(allowed_lateness)}, beyond it ${on_late}`] as const] : []),
  ]
}

/** `limit 5 in 1 second by .app, fixed windows`; modes that differ follow their limit. */
function limitsText(limits: readonly Limit[], by: string): string {
  const [first, ...others] = limits
  const same = others.every(({ mode }) => mode === first!.mode)
  const texts = limits.map(({ limit, unit, windowMs, mode }) => {
    const amount = unit === 'events' ? number(limit) : unit === 'bytes' ? formatSize(limit) : `cost ${number(limit)}`
    return `limit ${amount} in ${windowText(windowMs)}${same ? '' : ` (${mode})`}`
  })
  return `${texts.join(' and ')}${by}${same ? `, ${first!.mode} windows` : ''}`
}

const UNITS = [
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
] as const

/** The exact length of a window: `90 seconds`. */
function windowText(ms: number): string {
  const [unit, size] = UNITS.find(([, size]) => ms % size === 0) ?? (['millisecond', 1] as const)
  return `${ms / size} ${unit}${ms === size ? '' : 's'}`
}

function conditionText(condition: Condition): string {
  const inner = (term: Condition) =>
    term.kind === 'and' || term.kind === 'or' ? `(${conditionText(term)})` : conditionText(term)
  switch (condition.kind) {
    case 'not':
      return `NOT ${inner(condition.term)}`
    case 'and':
    case 'or':
      return condition.terms.map(inner).join(condition.kind === 'and' ? ' AND ' : ' OR ')
    case 'comparison': {
      const { path, operator, value } = condition
      const quoted = value === undefined ? '' : ` '${value.replace(/[\\']/g, '\\$&')}'`
      return `${path.text} ${operator}${quoted}`
    }
  }
}

/** Counts and notes, as pairs of a name and a text. */
export function remarks({ replay, time, way }: Simulation): (readonly [string, string])[] {
  const { before, undecoded, times, timeless, backwards, furthestBackMs, failedOpen, refused, late } = replay
  const { span } = times
  const rows: (readonly [string, string])[] = []
  if (span)
    rows.push(['time', `${timeText(span.from)} to ${timeText(span.to)} (${formatDuration(span.to - span.from)})`])
  if (before && before.held > 0) {
    const by = [...before.heldBy].map(([id, events]) => `${number(events)} by ${id}`).join(', ')
    rows.push(['before', `${count(before.held, 'event')} discarded before ${way.throttle}, not counted above: ${by}`])
  }
  if (undecoded > 0) rows.push(['undecoded', `${undecodedText(undecoded, way)}: read as text`])
  if (timeless > 0)
    rows.push(['no time', `${count(timeless, 'event')} without a readable ${time}: took the time of the one before`])
  if (backwards > 0) {
    rows.push([
      'order',
      `${count(backwards, 'event')} earlier than the one before, by up to ${formatDuration(furthestBackMs)}`,
    ])
  }
  if (failedOpen > 0) rows.push(['fail_open', `${count(failedOpen, 'event')} of keys beyond max_keys passed uncounted`])
  if (refused > 0) rows.push(['refused', `${count(refused, 'event')} of keys beyond max_keys discarded`])
  if (late > 0)
    rows.push(['late', `${count(late, 'event')} later than allowed_lateness, in a window that is forgotten`])
  if (span && looksLikeSeconds(span.from) && looksLikeSeconds(span.to)) {
    rows.push(['note', `numbers in ${time} are milliseconds; these look like seconds`])
  }
  return rows
}

function undecodedText(undecoded: number, { sources }: Way): string {
  const expected = new Set(sources.map(({ options }) => decodingOf(options)?.definition ?? JSON_OBJECTS.definition))
  const names = [...expected].flatMap(({ form, expects }) => (form === 'message' ? [] : [expects]))
  return `${count(undecoded, 'line')} not ${names.join(' or ')}`
}

/** How a source reads lines; undefined if it has no such option. */
function decodingOf(options: unknown): Codec | undefined {
  return (options as { decode?: Codec }).decode
}

/** Why the numbers are meaningless for the throttle. */
export function problems({ replay, time, key, way }: Simulation): string[] {
  const { events, timeless, outcomes, keys, undecoded, fields } = replay
  if (events === 0) return []
  const found: string[] = []
  if (timeless === events) found.push(`no event has a time in ${time}: name the field that holds it with --time`)
  if (key !== undefined && keys.size === 0 && outcomes[EXCLUDED] < events)
    found.push(`no event has the key ${key}: correct key_field, or name another field with --key`)
  if (found.length === 0) return []
  const lines = undecoded > 0 ? `${undecodedText(undecoded, way)}` : ''
  const have = `the fields of the events are ${[...fields].join(', ')}`
  return [...found, ...(lines ? [lines] : []), have]
}

/** The input of the simulation, as pairs of a name and a text. */
export function subject({
  component,
  config,
  changed,
  throttle,
  inputs,
  way,
}: Simulation): (readonly [string, string])[] {
  const source = `${component} of ${config}${changed.length > 0 ? `, with ${changed.join(' ')}` : ''}`
  const before = wayText(way)
  return [
    ['simulated', source],
    ...throttle,
    ['input', inputs.map(inputName).join(', ')],
    ...(before ? [['applied', before] as const] : []),
  ]
}

/** What was applied before the throttle: decoding other than JSON, and processors. */
function wayText({ sources, processors }: Way): string {
  const decoding = sources.flatMap(({ id, options }) => {
    const codec = decodingOf(options)
    return codec === undefined || codec.form === 'object' ? [] : [`decode: ${codec} of ${id}`]
  })
  return [...decoding, ...processors.map(({ id, type }) => `${id} (${type})`)].join(', ')
}

/** The summary including line ends. */
export function summaryText(simulation: Simulation, style: SummaryStyle): string {
  const { events, outcomes } = simulation.replay
  const columns = style.columns ?? USUAL_COLUMNS
  const row = ([name, text]: readonly [string, string]) => `${name.padEnd(NAME_WIDTH)}${wrapped(text, columns)}`
  const width = number(events).length
  const total = (name: string, outcome: 0 | 1 | 2) => {
    const value = outcomes[outcome]
    return row([name, `${number(value).padStart(width)} ${percent(value, events).padStart(8)}`])
  }
  return [
    ...subject(simulation).map(row),
    '',
    row(['events', number(events)]),
    total('passed', PASSED),
    total('discarded', DISCARDED),
    total('excluded', EXCLUDED),
    ...remarks(simulation).map(row),
    ...(events > 0 ? ['', ...keyTable(simulation.replay.keys, style)] : []),
  ]
    .map(line => `${line}\n`)
    .join('')
}

/** Wraps a text that follows a name at spaces. */
function wrapped(text: string, columns: number): string {
  const lines = ['']
  for (const word of text.split(/(?<=\S) (?=\S)/)) {
    const line = lines.at(-1)!
    if (line === '') lines[lines.length - 1] = word
    else if (NAME_WIDTH + line.length + 1 + word.length <= columns) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(word)
  }
  return lines.join(`\n${' '.repeat(NAME_WIDTH)}`)
}

export function inputName(input: string): string {
  return input === '-' ? 'standard input' : input
}

/** The keys with the most discarded events, one line each. */
export function keyTable(tally: KeyTally, style: SummaryStyle): string[] {
  const columns = style.columns ?? USUAL_COLUMNS
  const bold = (text: string) => (style.colour ? `\x1b[1m${text}\x1b[22m` : text)
  const { keys, others } = tally.top(SHOWN_KEYS)
  const titles = ['events', 'passed', 'discarded', 'excluded', 'busiest window']
  const rows = keys.map(key => [keyName(key), ...numbers(key).map(number)])
  if (others) {
    const more = tally.overflowed ? ' and more' : ''
    const { events, passed, discarded, excluded } = others
    rows.push([`other (${count(others.keys, 'key')}${more})`, ...[events, passed, discarded, excluded].map(number), ''])
  }
  const widths = titles.map((title, i) => Math.max(title.length, ...rows.map(row => row[i + 1]!.length)))
  const room = columns - widths.reduce((sum, width) => sum + width + 2, 0)
  const keyWidth = Math.min(Math.max(room, SHORTEST_KEY), Math.max(3, ...rows.map(row => displayWidth(row[0]!))))
  const line = ([name, ...cells]: string[]) =>
    [padded(name!, keyWidth), ...cells.map((cell, i) => cell.padStart(widths[i]!))].join('  ').trimEnd()
  return [bold(line(['key', ...titles])), ...rows.map(line)]
}

export const numbers = (key: KeyCounts) => [key.events, key.passed, key.discarded, key.excluded, key.busiest]

/** The key on one line, with invisible characters escaped. */
export function keyName({ key }: Pick<KeyCounts, 'key'>): string {
  if (key === undefined) return DEFAULT_BUCKET_NAME
  const visible = key
    .toWellFormed()
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, char => `\\u{${char.codePointAt(0)!.toString(16)}}`)
  return visible.trim() === visible && visible !== DEFAULT_BUCKET_NAME ? visible : JSON.stringify(visible)
}

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u
const NO_WIDTH = /\p{M}/u

/** Columns that `text` takes on a terminal, as far as that can be determined. */
function displayWidth(text: string): number {
  let width = 0
  for (const char of text) width += char < '\u0300' ? 1 : WIDE.test(char) ? 2 : NO_WIDTH.test(char) ? 0 : 1
  return width
}

/** Pads or cuts to exactly `width` columns. */
function padded(text: string, width: number): string {
  const own = displayWidth(text)
  if (own <= width) return text + ' '.repeat(width - own)
  let cut = ''
  let used = 0
  for (const char of text) {
    const next = displayWidth(char)
    if (used + next > width - 1) break
    cut += char
    used += next
  }
  return `${cut}…${' '.repeat(width - 1 - used)}`
}
