import { beginning, displayWidth, padEnd, wrapBehind } from '../daemon/process/wrap.js'
import { formatDuration, formatSize } from '../lib/units.js'
import type { KeyResult, OtherKeys, SimulationResult, StatedFact, TrialResult } from './result.js'
import { count, keyName, limitText, number, percent, windowText } from './words.js'

const SHOWN_KEYS = 20
const NAME_WIDTH = 11

/** The result of a simulation for a terminal. */
export function summaryText(result: SimulationResult, style: SummaryStyle): string {
  const { results, settings, notes, events, excluded, yaml } = result
  const columns = style.columns || USUAL_COLUMNS
  const row = ({ name, text }: StatedFact) =>
    `${name.padEnd(NAME_WIDTH)}${wrapBehind(text, columns, ' '.repeat(NAME_WIDTH))}`
  const width = number(events).length
  const total = (name: string, value: number) =>
    row({ name, text: `${number(value).padStart(width)} ${percent(value, events).padStart(8)}` })
  const [only] = results.length === 1 ? results : []
  const lines = [
    ...settings.map(row),
    '',
    row({ name: 'events', text: number(events) }),
    ...(only ? [total('passed', only.passed), total('discarded', only.discarded)] : []),
    total('excluded', excluded),
    ...notes.map(row),
    ...results.flatMap(trial => searchFacts(trial, result)).map(row),
    ...(events === 0
      ? []
      : ['', ...(only ? keyTable({ ...only, ...firstKeys(only, SHOWN_KEYS) }, style) : trialTable(result, style))]),
    '',
    yaml.trimEnd(),
  ]
  return lines.map(line => `${line}\n`).join('')
}

/** The limit that the search found, the result with the next limit, and the share of events that pass. */
export function searchFacts(trial: TrialResult, { events, excluded }: SimulationResult): StatedFact[] {
  const { search, window_ms, key_field, passed } = trial
  if (!search) return []
  const { goal, kind, does, needed, next, figures } = search
  const by = key_field === null ? '' : ` by ${key_field}`
  const throttle = `limit ${limitText(trial)} in ${windowText(window_ms)}${by}`
  const text = needed
    ? `${throttle} is the ${kind} that ${goal}: ${does}`
    : `no limit is needed: without one it ${does}. ${throttle} is the lowest that discards nothing`
  const facts = [{ name: 'found', text }]
  if (next) facts.push({ name: 'next', text: `limit ${number(next.limit)} ${next.does}` })
  const { matching, kept } = figures
  if (matching === undefined || kept === undefined) return facts
  const all = passed + excluded
  const others = events - matching
  const ofOthers = others === 0 ? '' : `, and ${percent(all - kept, others)} of the ${number(others)} others`
  return [...facts, { name: 'costs', text: `${percent(all, events)} of all events pass${ofOthers}` }]
}

/** The first `most` keys, and the exact sum of all other keys. */
export function firstKeys({ by_key, others }: TrialResult, most: number): Pick<TrialResult, 'by_key' | 'others'> {
  const rest = by_key.slice(most)
  if (rest.length === 0) return { by_key, others }
  const sum = { keys: 0, passed: 0, discarded: 0, excluded: 0, passed_bytes: 0, discarded_bytes: 0, ...others }
  for (const key of rest) {
    sum.keys++
    sum.passed += key.passed
    sum.discarded += key.discarded
    sum.excluded += key.excluded
    sum.passed_bytes += key.passed_bytes
    sum.discarded_bytes += key.discarded_bytes
  }
  return { by_key: by_key.slice(0, most), others: sum }
}

function trialTable({ results, events }: SimulationResult, style: SummaryStyle): string[] {
  const rows = results.map(trial => [
    trial.key_field ?? '(none)',
    formatDuration(trial.window_ms),
    limitText(trial),
    number(trial.passed),
    number(trial.discarded),
    percent(trial.discarded, events),
    formatSize(trial.passed_bytes),
    number(trial.losing_keys),
  ])
  const titles = ['key', 'window', 'limit', 'passed', 'discarded', 'lost', 'passed bytes', 'keys that lose']
  return tableLines(titles, rows, style)
}

const USUAL_COLUMNS = 80
/** Minimum columns of a key, even if the terminal is very narrow. */
const SHORTEST_KEY = 12

export interface SummaryStyle {
  /** Undefined or 0: not known. */
  readonly columns: number | undefined
  readonly colour: boolean
}

interface KeyRows {
  readonly by_key: readonly KeyResult[]
  readonly others: OtherKeys | null
  readonly more_keys: boolean
}

/** A table with one line for each key of a trial, and one line for the sum of all other keys. */
export function keyTable({ by_key, others, more_keys }: KeyRows, style: SummaryStyle): string[] {
  const rows = by_key.map(key => {
    const { passed, discarded, excluded, busiest } = key
    return [keyName(key), ...[passed + discarded + excluded, passed, discarded, excluded, busiest].map(number)]
  })
  if (others) {
    const { passed, discarded, excluded } = others
    const sums = [passed + discarded + excluded, passed, discarded, excluded]
    rows.push([`other (${count(others.keys, 'key')}${more_keys ? ' and more' : ''})`, ...sums.map(number), ''])
  }
  return tableLines(['key', 'events', 'passed', 'discarded', 'excluded', 'busiest window'], rows, style)
}

/** The first column is text, and is shortened if the terminal is too narrow. The other columns are numbers. */
function tableLines(titles: readonly string[], rows: readonly string[][], style: SummaryStyle): string[] {
  const columns = style.columns || USUAL_COLUMNS
  const bold = (text: string) => (style.colour ? `\x1b[1m${text}\x1b[22m` : text)
  const [title, ...others] = titles
  const widths = others.map((title, i) => Math.max(title.length, ...rows.map(row => row[i + 1]!.length)))
  const room = columns - widths.reduce((sum, width) => sum + width + 2, 0)
  const longest = Math.max(title!.length, ...rows.map(row => displayWidth(row[0]!)))
  const keyWidth = Math.min(Math.max(room, SHORTEST_KEY), longest)
  const line = ([name, ...cells]: readonly string[]) =>
    [padded(name!, keyWidth), ...cells.map((cell, i) => cell.padStart(widths[i]!))].join('  ').trimEnd()
  return [bold(line(titles)), ...rows.map(line)]
}

/** Pads or cuts to exactly `width` columns. */
function padded(text: string, width: number): string {
  return padEnd(displayWidth(text) <= width ? text : `${beginning(text, width - 1)}…`, width)
}
