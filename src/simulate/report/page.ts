import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { escapedHtml } from '../../lib/formats/html-text.js'
import { formatSize } from '../../lib/units.js'
import type { KeyResult, SimulationResult, TrialResult } from '../result.js'
import { firstKeys, searchFacts } from '../summary.js'
import { amountText, count, inputName, keyName, limitText, number, percent, timeText, windowText } from '../words.js'
import { type Curve, curvesOf, discardsOverTime, lossCurves, outcomesOverTime } from './charts.js'
import { type Cell, cut, factsSection, KEY_LENGTH, type ReportColumn, sortableTable } from './html.js'

/**
 * Renders a simulation's result as one self-contained page. The page's security policy allows only the page's own
 * script and style, and forbids loading files. This policy protects readers even if untrusted text gets into the page.
 */

/** How many results may have charts and key tables. */
const MOST_DETAILED = 12
/** Maximum keys that are shown by name in all results together. MOST_KEYS_OF_ONE: in one result. */
const MOST_KEYS = 2000
const MOST_KEYS_OF_ONE = 1000
const MOST_INPUTS = 3

const read = (file: URL) => readFileSync(file, 'utf8')
const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** `madeAt`: the current time, in milliseconds since the epoch. */
export function reportPage(simulation: SimulationResult, madeAt: number): string {
  const style = read(new URL('./report.css', import.meta.url))
  const script = read(new URL('./report.js', import.meta.url))
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ')
  const { component, results, excluded, settings, notes, yaml } = simulation
  const title = escapedHtml(component === null ? 'What the throttle would pass' : `What ${component} would pass`)
  const curves = curvesOf(simulation)
  const { detailed, first } = detailedTrials(results, curves)
  const addresses = new Map(detailed.map((trial, i) => [trial, `result-${i}`]))
  const link = (trial: TrialResult) => {
    const id = addresses.get(trial)
    return results.length > 1 && id ? `#${id}` : undefined
  }
  const keys = Math.min(MOST_KEYS_OF_ONE, Math.floor(MOST_KEYS / detailed.length))
  const details = detailed.map(trial =>
    trialSection(simulation, trial, { id: addresses.get(trial)!, isFirst: trial === first, keys }),
  )
  if (detailed.length < results.length)
    details.unshift(
      `<p>Details follow for ${detailed.length} of the ${results.length} results. Simulate one of the others alone to see its details.</p>`,
    )
  const loss = lossSection(curves, excluded, link)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<header><h1>${title}</h1>
<p>${subtitle(simulation)}</p></header>
<main>
${factsSection(
  'found',
  'The limit that was searched for',
  results.flatMap(trial => searchFacts(trial, simulation)),
)}
${(results.length > 1 ? [loss, ...details] : [...details, loss]).join('\n')}
${factsSection('settings', 'What was simulated', [...settings, ...notes, { name: 'made', text: timeText(madeAt) }])}
<section aria-labelledby="yaml"><h2 id="yaml">Configuration</h2>
<pre>${escapedHtml(yaml)}</pre></section>
</main>
<script>${script}</script>
</body>
</html>
`
}

/** Chooses the results to show in detail. Prefers results at a knee. `first`: the result that is shown first. */
function detailedTrials(results: readonly TrialResult[], curves: readonly Curve[]) {
  const knees = curves.flatMap(({ knee }) => (knee ? [knee.result] : []))
  const chosen = new Set([...new Set([...knees, ...results])].slice(0, MOST_DETAILED))
  return { detailed: results.filter(trial => chosen.has(trial)), first: knees[0] ?? results[0] }
}

function subtitle({ inputs, from, to, complete }: SimulationResult): string {
  const named = inputs.slice(0, MOST_INPUTS).map(input => cut(inputName(input), KEY_LENGTH))
  const more = inputs.length > named.length ? ` and ${count(inputs.length - named.length, 'other input')}` : ''
  const span = from === null || to === null ? '' : `, from ${timeText(from)} to ${timeText(to)}`
  const rest = complete ? '' : '. The simulation was interrupted before the end of the input'
  return escapedHtml(`Events of ${named.join(', ')}${more}${span}${rest}.`)
}

/** The loss of each limit. `link` returns the address of the page's section about a result; undefined: no section. */
function lossSection(curves: readonly Curve[], excluded: number, link: (result: TrialResult) => string | undefined) {
  return `<section aria-labelledby="loss">
<h2 id="loss">Loss against limit</h2>
${lossCurves(curves)}
${knees(curves)}
${resultTable(curves, excluded, link)}
</section>`
}

function knees(curves: readonly Curve[]): string {
  if (curves.every(({ trials }) => trials.length === 1))
    return '<p>There is one limit, so there is no curve and no knee. Simulate several, as in <code>--limit 10,20,50,100</code>.</p>'
  const items = curves.map(({ name, trials, knee }) => {
    const text = knee
      ? `the knee is at <strong>limit ${amountText(knee.result)}</strong>, which discards ${percent(knee.loss, 1)}`
      : trials.length < 3
        ? 'no knee: a knee needs at least three limits'
        : 'no knee: the curve does not bend'
    return `<li>${escapedHtml(name)}: ${text}</li>`
  })
  return `<ul class="knees">${items.join('')}</ul>
<p class="note">At the knee, the curve is farthest below the straight line between its ends. Below that limit, the loss
rises fast; above it, a higher limit saves little.</p>`
}

const RESULT_COLUMNS: readonly ReportColumn[] = [
  { title: 'limit', kind: 'number' },
  { title: 'window', kind: 'text' },
  { title: 'key', kind: 'text' },
  { title: 'passed', kind: 'number' },
  { title: 'discarded', kind: 'number' },
  { title: 'excluded', kind: 'number' },
  { title: 'lost', kind: 'number' },
  { title: 'lost bytes', kind: 'number' },
  { title: 'remark', kind: 'text' },
]

function resultTable(
  curves: readonly Curve[],
  excluded: number,
  link: (result: TrialResult) => string | undefined,
): string {
  const rows = curves.flatMap(({ trials, knee }) =>
    trials.map(trial => {
      const { limit, window_ms, key_field, passed, discarded, discarded_bytes } = trial.result
      const address = link(trial.result)
      const text = limitText(trial.result)
      return [
        { html: address ? `<a href="${address}">${text}</a>` : text, value: limit },
        { html: windowText(window_ms), value: window_ms },
        escapedHtml(key_field ?? ''),
        number(passed),
        number(discarded),
        number(excluded),
        percent(trial.loss, 1),
        { html: formatSize(discarded_bytes), value: discarded_bytes },
        trial === knee ? 'knee' : '',
      ]
    }),
  )
  const sorted = curves.length === 1 ? ({ title: 'limit', order: 'ascending' } as const) : undefined
  return sortableTable({ name: 'grid', caption: 'All results', columns: RESULT_COLUMNS, sorted, rows })
}

interface Shown {
  readonly id: string
  /** Whether this result is shown first if a script shows one result at a time. */
  readonly isFirst: boolean
  /** Number of keys to show by name. */
  readonly keys: number
}

function trialSection(simulation: SimulationResult, trial: TrialResult, shown: Shown): string {
  const { slots } = simulation
  const { id } = shown
  const by = trial.key_field === null ? ', one bucket for all' : ` by ${trial.key_field}`
  const heading = `Limit ${amountText(trial)} in ${windowText(trial.window_ms)}${by}`
  const times = slots
    ? `${discardsOverTime(`${id}-discards`, slots, trial.over_time)}
${outcomesOverTime(`${id}-outcomes`, slots, trial.over_time)}`
    : '<p>No event had a time of its own.</p>'
  return `<section class="result" id="${id}" aria-labelledby="${id}-heading"${shown.isFirst ? ' data-first' : ''}>
<h2 id="${id}-heading">${escapedHtml(heading)}</h2>
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

const KEY_COLUMNS: readonly ReportColumn[] = [
  { title: 'key', kind: 'text' },
  { title: 'events', kind: 'number' },
  { title: 'passed', kind: 'number' },
  { title: 'discarded', kind: 'number' },
  { title: 'excluded', kind: 'number' },
  { title: 'lost', kind: 'number' },
  { title: 'busiest window', kind: 'number' },
  { title: 'which opened', kind: 'time' },
]

type KeyCounts = Pick<KeyResult, 'passed' | 'discarded' | 'excluded'>

function keyTable(trial: TrialResult, most: number): string {
  const { by_key: shown, others } = firstKeys(trial, most)
  const rows = shown.map(({ key, busiest, busiest_at, ...counts }) => {
    const name = `<bdi>${escapedHtml(cut(keyName({ key }), KEY_LENGTH))}</bdi>`
    return keyRow(name, counts, [number(busiest), busiest_at === null ? '' : timeText(busiest_at)])
  })
  const more = trial.more_keys ? ' and more' : ''
  const foot = others ? [keyRow(`other (${count(others.keys, 'key')}${more})`, others, ['', ''])] : []
  const caption = others
    ? `The ${count(shown.length, 'key')} with the most discarded events, and the sum of all others`
    : 'All keys'
  const sorted = { title: 'discarded', order: 'descending' } as const
  return `<h3>Keys</h3>\n${sortableTable({ name: 'keys', caption, columns: KEY_COLUMNS, sorted, rows, foot })}`
}

function keyRow(name: string, { passed, discarded, excluded }: KeyCounts, window: readonly string[]): Cell[] {
  const events = passed + discarded + excluded
  return [name, ...[events, passed, discarded, excluded].map(number), percent(discarded, events), ...window]
}
