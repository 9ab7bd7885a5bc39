import { formatSize } from '../../../../lib/units.js'
import type { SimulationResult, TrialResult } from '../result.js'
import { amountText, windowText } from '../settings.js'
import { limitText } from '../summary.js'
import { number, percent } from '../table.js'
import { bottomAxis, valueAxis, valueTicks } from './axis.js'
import { cut, escaped, KEY_LENGTH, round } from './markup.js'
import { type Column, sortableTable } from './sortable-table.js'

/** What is lost at which limit: a curve for each window and key, its knee, and all results in a table. */

const HEIGHT = 240
/** Of the axis, in percent. */
const LEAST_STEP = 0.001
/** Curves that differ in colour, dashes and marks. Those beyond are in the table only. */
export const MOST_CURVES = 6
/** Around the origin, so that a curve can be told by its marks alone. */
export const MARKS = [
  'M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0',
  'M-4-4h8v8h-8z',
  'M0-5L5 4H-5z',
  'M0-5.5L5.5 0L0 5.5L-5.5 0z',
  'M0 5L5-4H-5z',
  'M-5-2h3v-3h4v3h3v4h-3v3h-4v-3h-3z',
]

export interface Curve {
  readonly name: string
  /** In the order of their limits. */
  readonly trials: readonly Trial[]
  readonly knee: Trial | undefined
}

/** A result and its loss: the share of all events that it discards, from 0 to 1. */
interface Trial {
  readonly result: TrialResult
  readonly loss: number
}

/** The results by window and key. */
export function curvesOf({ events, results }: SimulationResult): Curve[] {
  const groups = new Map<string, Trial[]>()
  const hasKeys = new Set(results.map(({ key_field }) => key_field)).size > 1
  for (const result of results) {
    const by = hasKeys ? ` by ${result.key_field ?? 'nothing, one bucket for all'}` : ''
    const name = `window of ${windowText(result.window_ms)}${by}`
    const trial = { result, loss: events === 0 ? 0 : result.discarded / events }
    const group = groups.get(name)
    if (group) group.push(trial)
    else groups.set(name, [trial])
  }
  return [...groups].map(([name, group]) => {
    const trials = group.sort((a, b) => a.result.limit - b.result.limit)
    const knee = kneeOf(trials.map(({ result: { limit }, loss }) => ({ limit, loss })))
    return { name, trials, knee: knee === undefined ? undefined : trials[knee] }
  })
}

/** The section; `link` gives the address of what the page has about a result, if it has more. */
export function lossSection(
  curves: readonly Curve[],
  excluded: number,
  link: (result: TrialResult) => string | undefined,
) {
  return `<section aria-labelledby="loss">
<h2 id="loss">Loss against limit</h2>
${picture(curves)}
${knees(curves)}
${lossTable(curves, excluded, link)}
</section>`
}

function knees(curves: readonly Curve[]): string {
  if (curves.every(({ trials }) => trials.length === 1))
    return '<p>There is one limit, so there is no curve and no knee. Simulate several, as in <code>--limit 10,20,50,100</code>.</p>'
  const items = curves.map(({ name, trials, knee }) => {
    const text = knee
      ? `the knee is at <strong>limit ${amountText(knee.result)}</strong>, which discards ${percent(knee.loss, 1)}`
      : trials.length < 3
        ? 'no knee, since it takes at least three limits'
        : 'no knee: the curve does not bend'
    return `<li>${escaped(name)}: ${text}</li>`
  })
  return `<ul class="knees">${items.join('')}</ul>
<p class="note">At the knee, the curve is farthest below the straight line between its ends: below that limit the loss
rises fast, above it a higher limit saves little.</p>`
}

function picture(all: readonly Curve[]): string {
  const drawable = all.filter(({ trials }) => trials.length > 1)
  const curves = drawable.slice(0, MOST_CURVES)
  if (curves.length === 0) return ''
  const trials = curves.flatMap(curve => curve.trials)
  const limits = new Map(trials.map(({ result }) => [result.limit, amountText(result)]))
  const [lowest, highest] = [Math.min(...limits.keys()), Math.max(...limits.keys())]
  const across = (limit: number) => Math.log(limit / lowest) / Math.log(highest / lowest)
  const values = valueTicks(Math.max(...trials.map(({ loss }) => loss)) * 100, LEAST_STEP)
  const y = (value: number) => round(HEIGHT * (1 - value / values.at(-1)!))
  const place = ({ result, loss }: Trial) => ({ x: round(across(result.limit) * 100), y: y(loss * 100) })
  const ticks = [...limits].sort(([a], [b]) => a - b).map(([limit, label]) => ({ at: across(limit), label }))
  const left = drawable.length - curves.length
  return `<figure>
<figcaption><h3>Discarded events, in percent, by limit</h3></figcaption>
<ul class="legend">${curves.map(legendItem).join('')}</ul>
<div class="frame"><svg class="plot" role="img" aria-labelledby="loss-text">
<title id="loss-text">${escaped(alternative(curves))}</title>
${valueAxis(values, y, value => `${Number(value.toFixed(3))} %`).join('\n')}
${bottomAxis(ticks, HEIGHT).join('\n')}
${curves.map((curve, i) => drawn(curve, i, place)).join('\n')}
</svg></div>
<p class="note">Limits are on a logarithmic scale.${left > 0 ? ` Further curves (${left}) are in the table only.` : ''}</p>
</figure>`
}

function legendItem({ name }: Curve, i: number): string {
  return (
    `<li><svg class="swatch long" aria-hidden="true"><line class="c${i}" x1="0" x2="100%" y1="50%" y2="50%"/>` +
    `<svg x="50%" y="50%"><path class="m${i}" d="${MARKS[i]}"/></svg></svg>${escaped(cut(name, KEY_LENGTH))}</li>`
  )
}

function drawn({ name, trials, knee }: Curve, i: number, place: (trial: Trial) => { x: number; y: number }): string {
  const points = trials.map(place)
  const lines = points.slice(1).map((to, n) => {
    const from = points[n]!
    return `<line class="c${i}" x1="${from.x}%" y1="${from.y}" x2="${to.x}%" y2="${to.y}"/>`
  })
  const marks = trials.map((trial, n) => {
    const { x, y } = points[n]!
    const title = `${name}, limit ${amountText(trial.result)}: ${percent(trial.loss, 1)} discarded`
    const ring = trial === knee ? '<circle class="knee" r="10"/><text class="knee" x="14" y="-8">knee</text>' : ''
    return `<svg x="${x}%" y="${y}"><title>${escaped(title)}</title><path class="m${i}" d="${MARKS[i]}"/>${ring}</svg>`
  })
  return `<g>${lines.join('')}${marks.join('')}</g>`
}

function alternative(curves: readonly Curve[]): string {
  const texts = curves.map(({ name, trials, knee }) => {
    const points = trials.map(({ result, loss }) => `${percent(loss, 1)} at ${amountText(result)}`)
    return `${name}: ${points.join(', ')}${knee ? `; the knee is at ${amountText(knee.result)}` : ''}`
  })
  return `Discarded share of the events by limit. ${texts.join('. ')}.`
}

export const GRID_COLUMNS: readonly Column[] = [
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

function lossTable(
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
        escaped(key_field ?? ''),
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
  return sortableTable({ style: 'grid', caption: 'All results', columns: GRID_COLUMNS, sorted, rows })
}

/** One limit, and the share of events that it discards, from 0 to 1. */
interface LossPoint {
  readonly limit: number
  readonly loss: number
}

/** How far below the chord a knee has to be, as a part of the height of the curve. Less is no bend that one could see. */
const LEAST_BEND = 0.05

/**
 * The knee of a curve of loss against limit: the limit beyond which a higher one saves little more.
 *
 * The curve is taken as it is drawn: over the logarithm of the limit, and scaled so that it leads from (0, 1) at the
 * lowest limit to (1, 0) at the highest. The knee is the point farthest below the straight line between these two. That
 * point lies on the lower convex hull, so points that noise lifts above their neighbours do not matter. Returns its
 * index; undefined if there are fewer than three limits, if the loss does not fall, or if the curve does not bend
 * towards the origin.
 *
 * `points` are in the order of their limits, and no two limits are equal.
 */
export function kneeOf(points: readonly LossPoint[]): number | undefined {
  const [first, last] = [points[0], points.at(-1)]
  if (!first || !last || points.length < 3 || first.loss <= last.loss) return undefined
  const width = Math.log(last.limit / first.limit)
  const height = first.loss - last.loss
  let knee: number | undefined
  let most = LEAST_BEND
  for (const [i, { limit, loss }] of points.entries()) {
    const below = 1 - Math.log(limit / first.limit) / width - (loss - last.loss) / height
    if (below <= most) continue
    most = below
    knee = i
  }
  return knee
}
