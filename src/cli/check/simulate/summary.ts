import { wrap } from '../../../daemon/process/wrap.js'
import { formatDuration, formatSize } from '../../../lib/units.js'
import type { Fact, SimulationResult, TrialResult } from './result.js'
import { windowText } from './settings.js'
import { keyTable, number, percent, type SummaryStyle, tableLines, USUAL_COLUMNS } from './table.js'

/** Formats the result of a simulation for a terminal. */

const SHOWN_KEYS = 20
const NAME_WIDTH = 11

/** The summary including line ends. */
export function summaryText(result: SimulationResult, style: SummaryStyle): string {
  const { results, settings, notes, events, excluded, yaml } = result
  const columns = style.columns || USUAL_COLUMNS
  const row = ({ name, text }: Fact) => `${name.padEnd(NAME_WIDTH)}${wrapped(text, columns)}`
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
    ...(events === 0 ? [] : ['', ...(only ? keyTable({ ...only, ...shown(only) }, style) : trialTable(result, style))]),
    '',
    yaml.trimEnd(),
  ]
  return lines.map(line => `${line}\n`).join('')
}

/** The limit that was found, how close the next one is, and what it costs. */
export function searchFacts(trial: TrialResult, { events, excluded }: SimulationResult): Fact[] {
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

/** The exact limit. */
export function limitText({ limit, unit }: TrialResult): string {
  return unit === 'bytes' ? `${number(limit)} B` : number(limit)
}

/** The first keys, and the sum of all others. */
function shown({ by_key, others }: TrialResult): Pick<TrialResult, 'by_key' | 'others'> {
  const rest = by_key.slice(SHOWN_KEYS)
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
  return { by_key: by_key.slice(0, SHOWN_KEYS), others: sum }
}

/** One line for each trial. */
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

/** Wraps a text that follows a name at spaces. */
function wrapped(text: string, columns: number): string {
  const indent = ' '.repeat(NAME_WIDTH)
  return wrap(indent + text, columns, indent)
    .join('\n')
    .slice(NAME_WIDTH)
}
