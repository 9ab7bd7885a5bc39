import { formatSize } from '../../../../lib/units.js'
import type { KeyResult, OtherKeys, SimulationResult, TrialResult } from '../result.js'
import { amountText, windowText } from '../settings.js'
import { count, keyName, number, percent, timeText } from '../table.js'
import { cut, escaped, KEY_LENGTH } from './markup.js'
import { discardsOverTime, outcomesOverTime } from './over-time.js'
import { type Cell, type Column, sortableTable } from './sortable-table.js'

/** What the page has about one result: its totals, what happens over time, and its keys. */

export const KEY_COLUMNS: readonly Column[] = [
  { title: 'key', kind: 'text' },
  { title: 'events', kind: 'number' },
  { title: 'passed', kind: 'number' },
  { title: 'discarded', kind: 'number' },
  { title: 'excluded', kind: 'number' },
  { title: 'lost', kind: 'number' },
  { title: 'busiest window', kind: 'number' },
  { title: 'which opened', kind: 'time' },
]

interface Shown {
  /** Of the element. */
  readonly id: string
  /** Whether it is the one to begin with, where only one is shown at a time. */
  readonly isFirst: boolean
  /** Number of keys to show by name. */
  readonly keys: number
}

export function trialSection(simulation: SimulationResult, trial: TrialResult, shown: Shown): string {
  const { slots } = simulation
  const { id } = shown
  const by = trial.key_field === null ? ', one bucket for all' : ` by ${trial.key_field}`
  const heading = `Limit ${amountText(trial)} in ${windowText(trial.window_ms)}${by}`
  const times = slots
    ? `${discardsOverTime(`${id}-discards`, slots, trial.over_time)}
${outcomesOverTime(`${id}-outcomes`, slots, trial.over_time)}`
    : '<p>No event had a time of its own.</p>'
  return `<section class="result" id="${id}" aria-labelledby="${id}-heading"${shown.isFirst ? ' data-first' : ''}>
<h2 id="${id}-heading">${escaped(heading)}</h2>
${totals(simulation, trial)}
${times}
${simulation.events > 0 ? keyTable(trial, shown.keys) : ''}
</section>`
}

function totals({ events, bytes, excluded, excluded_bytes }: SimulationResult, trial: TrialResult): string {
  const item = (name: string, value: number, size: number) => {
    const share = name === 'events' ? '' : `${percent(value, events)}, `
    return `<li class="${name}"><span>${name}</span> <b>${number(value)}</b> <span>${share}${formatSize(size)}</span></li>`
  }
  return `<ul class="totals">${[
    item('events', events, bytes),
    item('passed', trial.passed, trial.passed_bytes),
    item('discarded', trial.discarded, trial.discarded_bytes),
    item('excluded', excluded, excluded_bytes),
  ].join('')}</ul>`
}

type KeyCounts = Pick<KeyResult, 'passed' | 'discarded' | 'excluded'>

function keyTable(trial: TrialResult, most: number): string {
  const shown = trial.by_key.slice(0, most)
  const others = othersOf(trial, most)
  const rows = shown.map(({ key, busiest, busiest_at, ...counts }) => {
    const name = `<bdi>${escaped(cut(keyName({ key }), KEY_LENGTH))}</bdi>`
    return keyRow(name, counts, [number(busiest), busiest_at === null ? '' : timeText(busiest_at)])
  })
  const more = trial.more_keys ? ' and more' : ''
  const foot = others ? [keyRow(`other (${count(others.keys, 'key')}${more})`, others, ['', ''])] : []
  const caption = others
    ? `The ${count(shown.length, 'key')} with the most discarded events, and the sum of all others`
    : 'All keys'
  const sorted = { title: 'discarded', order: 'descending' } as const
  return `<h3>Keys</h3>\n${sortableTable({ style: 'keys', caption, columns: KEY_COLUMNS, sorted, rows, foot })}`
}

function keyRow(name: string, { passed, discarded, excluded }: KeyCounts, window: readonly string[]): Cell[] {
  const events = passed + discarded + excluded
  return [name, ...[events, passed, discarded, excluded].map(number), percent(discarded, events), ...window]
}

/** The exact sum of the keys that are not shown by name. */
function othersOf({ by_key, others }: TrialResult, most: number): (KeyCounts & Pick<OtherKeys, 'keys'>) | undefined {
  const unshown = by_key.slice(most)
  if (unshown.length === 0) return others ?? undefined
  const sum = (name: keyof KeyCounts) => unshown.reduce((sum, key) => sum + key[name], others?.[name] ?? 0)
  return {
    keys: unshown.length + (others?.keys ?? 0),
    passed: sum('passed'),
    discarded: sum('discarded'),
    excluded: sum('excluded'),
  }
}
