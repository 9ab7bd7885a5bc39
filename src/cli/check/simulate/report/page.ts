import { createHash } from 'node:crypto'
import type { Fact, SimulationResult, TrialResult } from '../result.js'
import { searchFacts } from '../summary.js'
import { count, inputName, timeText } from '../table.js'
import { type Curve, curvesOf, GRID_COLUMNS, lossSection } from './loss.js'
import { cut, escaped, KEY_LENGTH } from './markup.js'
import { SCRIPT } from './script.js'
import { cardStyle, columnStyle } from './sortable-table.js'
import { PATTERN_DEFINITIONS, styleSheet } from './style.js'
import { KEY_COLUMNS, trialSection } from './trial.js'

/**
 * Renders what a simulation found as one page that needs nothing else. Its security policy lets only its own script and
 * style run, whatever gets into it, and lets nothing be loaded.
 */

/** Results with pictures and a table of keys; a grid may have more. */
const MOST_DETAILED = 12
/** Keys that are shown by name: of all results together, and of one. */
const MOST_KEYS = 2000
const MOST_KEYS_OF_ONE = 1000
/** Inputs that are named below the title, and the longest text about them and the settings. */
const MOST_INPUTS = 3
const LONGEST_TEXT = 2000

const STYLE = styleSheet(
  `${columnStyle('keys', KEY_COLUMNS)}, ${columnStyle('grid', GRID_COLUMNS)}`,
  `${cardStyle('keys', KEY_COLUMNS)}\n${cardStyle('grid', GRID_COLUMNS)}`,
)

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

const POLICY = [
  "default-src 'none'",
  `script-src ${hashOf(SCRIPT)}`,
  `style-src ${hashOf(STYLE)}`,
  "base-uri 'none'",
  "form-action 'none'",
].join('; ')

/** The page; `madeAt` is the current time in milliseconds since the epoch. */
export function reportPage(simulation: SimulationResult, madeAt: number): string {
  const { component, results, excluded, settings, notes, yaml } = simulation
  const title = escaped(component === null ? 'What the throttle would pass' : `What ${component} would pass`)
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
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
${PATTERN_DEFINITIONS}
<header><h1>${title}</h1>
<p>${subtitle(simulation)}</p></header>
<main>
${facts(
  'found',
  'The limit that was searched for',
  results.flatMap(trial => searchFacts(trial, simulation)),
)}
${(results.length > 1 ? [loss, ...details] : [...details, loss]).join('\n')}
${facts('settings', 'What was simulated', [...settings, ...notes, { name: 'made', text: timeText(madeAt) }])}
<section aria-labelledby="yaml"><h2 id="yaml">Configuration</h2>
<pre>${escaped(yaml)}</pre></section>
</main>
<script>${SCRIPT}</script>
</body>
</html>
`
}

/** The results with details, in their order: first of all those at a knee. `first` is the one to begin with. */
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
  return escaped(`Events of ${named.join(', ')}${more}${span}${rest}.`)
}

/** A section of names and texts; none if there are none. */
function facts(id: string, heading: string, rows: readonly Fact[]): string {
  if (rows.length === 0) return ''
  const items = rows.map(({ name, text }) => `<dt>${escaped(name)}</dt><dd>${escaped(cut(text, LONGEST_TEXT))}</dd>`)
  return `<section aria-labelledby="${id}"><h2 id="${id}">${heading}</h2>\n<dl>${items.join('')}</dl></section>`
}
