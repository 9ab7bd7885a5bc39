import { escapedHtml } from '../../lib/formats/html-text.js'
import { formatDuration } from '../../lib/units.js'
import type { SimulationResult, SlotRows, TimeResult, TrialResult } from '../result.js'
import { amountText, count, keyName, number, percent, timeText, windowText } from '../words.js'
import { cut, KEY_LENGTH, LABEL_LENGTH } from './html.js'

/**
 * The charts: bars over time, and curves of loss against limit. Pictures have a fixed height in pixels. They are as
 * wide as the page, so horizontal positions are in percent. Each picture has a legend, and a text for readers who
 * cannot see the picture.
 */
const HEIGHT = 240
/** Three decimals are enough for a position in a picture. */
const round = (value: number) => Math.round(value * 1000) / 1000

interface Chart {
  readonly id: string
  readonly title: string
  /** Describes the picture for readers who cannot see it. */
  readonly alternative: string
  /** One string of HTML for each item. */
  readonly legend: readonly string[]
  /** The vertical axis: values with a label, the text of a value, and the value's distance from the top in pixels. */
  readonly values: readonly number[]
  readonly valueText: (value: number) => string
  readonly y: (value: number) => number
  readonly ticks: readonly Tick[]
  readonly shapes: readonly string[]
  readonly note: string
  readonly data?: string
}

function figure({
  id,
  title,
  alternative,
  legend,
  values,
  valueText,
  y,
  ticks,
  shapes,
  note,
  data = '',
}: Chart): string {
  return `<figure>
<figcaption><h3>${title}</h3></figcaption>
<ul class="legend">${legend.map(item => `<li>${item}</li>`).join('')}</ul>
<div class="frame"><svg class="plot" role="img" aria-labelledby="${id}-text">
<title id="${id}-text">${escapedHtml(alternative)}</title>
${valueAxis(values, y, valueText).join('\n')}
${shapes.join('\n')}
${bottomAxis(ticks).join('\n')}
</svg></div>
<p class="note">${note}</p>${data}
</figure>`
}

// Axes.

const VALUE_TICKS = 4

/** Values from 0 to at least `most`. The step between them is 1, 2 or 5 times a power of ten, and at least `least`. */
export function valueTicks(most: number, least: number): number[] {
  const rough = Math.max(most / VALUE_TICKS, least)
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * ([1, 2, 5].find(factor => factor * power >= rough * 0.999_999) ?? 10)
  const count = Math.max(1, Math.ceil(most / step - 1e-9))
  return Array.from({ length: count + 1 }, (_, i) => i * step)
}

/** Horizontal lines across the picture, with a label each. */
function valueAxis(values: readonly number[], y: (value: number) => number, text: (value: number) => string): string[] {
  return values.map(
    value =>
      `<line x1="0" x2="100%" y1="${y(value)}" y2="${y(value)}"/>` +
      `<text x="-8" y="${y(value) + 4}" text-anchor="end">${text(value)}</text>`,
  )
}

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const TIME_STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map(n => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map(n => n * MINUTE),
  ...[1, 2, 3, 6, 12].map(n => n * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365, 3650, 36_500].map(n => n * DAY),
]
const TIME_TICKS = 6
/** The latest time that a Date can represent. The earliest time is the negative of this number. */
const LAST_DATE = 8.64e15

interface Tick {
  /** Position, from 0 at the left to 1 at the right. */
  readonly at: number
  readonly label: string
}

/** Returns ticks at round times in UTC, such as full minutes. */
export function timeTicks(startMs: number, lengthMs: number): Tick[] {
  const step = TIME_STEPS.find(step => lengthMs / step <= TIME_TICKS) ?? lengthMs
  const ticks: Tick[] = []
  const endMs = Math.min(startMs + lengthMs, LAST_DATE)
  for (let time = Math.ceil(Math.max(startMs, -LAST_DATE) / step) * step; time <= endMs; time += step) {
    const iso = timeText(time)
    const [date = '', clock = ''] = iso.split('T')
    const label = step >= DAY || time % DAY === 0 ? date : clock.slice(0, step < SECOND ? -1 : step < MINUTE ? -5 : -8)
    ticks.push({ at: (time - startMs) / lengthMs, label })
  }
  return ticks
}

/** The start of a slot as text. The first slot may begin earlier than a Date can represent. */
export function startText({ start, slot_ms }: SlotRows, slot: number): string {
  return timeText(Math.max(start + slot * slot_ms, -LAST_DATE))
}

/** Minimum distance between two labels on a wide screen, as a fraction of the width. APART_ON_PHONE: on a phone. */
const APART = 0.1
const APART_ON_PHONE = 0.24
/** If a label is closer than this to an end of the axis, it is not centered, so that it stays within the picture. */
const NEAR_END = 0.08

/** The marks and labels below the picture, without labels that would touch. */
function bottomAxis(ticks: readonly Tick[]): string[] {
  let last = Number.NEGATIVE_INFINITY
  let lastOnPhone = Number.NEGATIVE_INFINITY
  return ticks.map(({ at, label }) => {
    const x = `${round(at * 100)}%`
    const mark = `<line x1="${x}" x2="${x}" y1="${HEIGHT}" y2="${HEIGHT + 5}"/>`
    if (at - last < APART) return mark
    last = at
    const isOnPhone = at - lastOnPhone >= APART_ON_PHONE
    if (isOnPhone) lastOnPhone = at
    const anchor = at > 1 - NEAR_END ? 'end' : at < NEAR_END ? 'start' : 'middle'
    const screenOnly = isOnPhone ? '' : ' class="wide"'
    return `${mark}<text${screenOnly} x="${x}" y="${HEIGHT + 20}" text-anchor="${anchor}">${label}</text>`
  })
}

// Bars over time, stacked.

/** The width of a bar, as a fraction of the slot. The remaining width is a gap. */
const BAR = 0.86
/** Maximum number of bars. More bars would enlarge the page without visible detail. */
const MOST_BARS = 120
const MOST_IN_TOOLTIP = 3
/** Number of keys that have their own colour. One more series shows the sum of all other keys. */
const KEY_SERIES = 7

interface Series {
  readonly name: string
  readonly style: string
  readonly counts: readonly number[]
}

interface Bars {
  readonly id: string
  readonly title: string
  readonly slots: SlotRows
  readonly series: readonly Series[]
}

export function outcomesOverTime(id: string, slots: SlotRows, times: TimeResult): string {
  const outcomes = ['passed', 'discarded', 'excluded'] as const
  const series = outcomes
    .map(name => ({ name, style: name, counts: times[name] }))
    .filter(({ name, counts }) => name !== 'excluded' || counts.some(value => value > 0))
  return barChart(coarser({ id, title: 'All events over time', slots, series }))
}

export function discardsOverTime(id: string, slots: SlotRows, { discarded, by_key }: TimeResult): string {
  const title = 'Discards over time, by key'
  if (discarded.every(value => value === 0)) return `<h3>${title}</h3><p>Nothing is discarded.</p>`
  const named = by_key.slice(0, KEY_SERIES)
  const series = named.map(({ key, discarded }, i) => ({
    name: keyName({ key }),
    style: `s${i}`,
    counts: discarded,
  }))
  const rest = discarded.map((all, slot) => named.reduce((left, { discarded }) => left - discarded[slot]!, all))
  if (rest.some(value => value > 0)) series.push({ name: 'all other keys', style: 'rest', counts: rest })
  return barChart(coarser({ id, title, slots, series }))
}

/** Joins neighbouring slots until at most MOST_BARS are left. */
function coarser({ slots: { start, slot_ms, count }, series, ...rest }: Bars): Bars {
  const join = Math.ceil(count / MOST_BARS)
  const slots = { start, slot_ms: slot_ms * join, count: Math.ceil(count / join) }
  const joined = (counts: readonly number[]) =>
    Array.from({ length: slots.count }, (_, i) =>
      counts.slice(i * join, (i + 1) * join).reduce((sum, value) => sum + value, 0),
    )
  return { ...rest, slots, series: series.map(one => ({ ...one, counts: joined(one.counts) })) }
}

function barChart(bars: Bars): string {
  const { id, title, slots, series } = bars
  const sums = Array.from({ length: slots.count }, (_, slot) =>
    series.reduce((sum, { counts }) => sum + counts[slot]!, 0),
  )
  const values = valueTicks(Math.max(...sums), 1)
  const y = (value: number) => round(HEIGHT * (1 - value / values.at(-1)!))
  const legend = series.map(
    ({ name, style }) =>
      `<svg class="swatch" aria-hidden="true"><rect class="${style}" width="100%" height="100%"/></svg>` +
      `<bdi>${escapedHtml(cut(name, LABEL_LENGTH))}</bdi>`,
  )
  return figure({
    ...{ id, title, legend, values, y },
    alternative: barsInWords(bars, sums),
    valueText: number,
    ticks: timeTicks(slots.start, slots.count * slots.slot_ms),
    shapes: sums.map((_, slot) => bar(bars, slot, y)),
    note: `Each bar is ${formatDuration(slots.slot_ms)}. Times are in UTC.`,
    data: `\n${barTable(bars, sums)}`,
  })
}

/** Draws the stacked bar of one slot, from the bottom up. */
function bar({ slots, series }: Bars, slot: number, y: (value: number) => number): string {
  const shown = series.filter(({ counts }) => counts[slot]! > 0)
  if (shown.length === 0) return ''
  let below = 0
  const [x, width] = [round((100 * (slot + (1 - BAR) / 2)) / slots.count), round((100 * BAR) / slots.count)]
  const rects = shown.map(({ style, counts }) => {
    const bottom = y(below)
    below += counts[slot]!
    const place = `x="${x}%" y="${y(below)}" width="${width}%" height="${round(bottom - y(below))}"`
    return `<rect class="${style}" ${place}/>`
  })
  const most = shown.sort((a, b) => b.counts[slot]! - a.counts[slot]!).slice(0, MOST_IN_TOOLTIP)
  const parts = most.map(({ name, counts }) => `${number(counts[slot]!)} ${cut(name, LABEL_LENGTH)}`)
  return `<g><title>${escapedHtml(`${startText(slots, slot)}: ${parts.join(', ')}`)}</title>${rects.join('')}</g>`
}

function barsInWords({ title, slots, series }: Bars, sums: readonly number[]): string {
  const most = Math.max(...sums)
  const total = (counts: readonly number[]) => counts.reduce((sum, value) => sum + value, 0)
  const parts = series.map(({ name, counts }) => `${cut(name, LABEL_LENGTH)}: ${number(total(counts))}`)
  const span = `${count(slots.count, 'bar')} of ${formatDuration(slots.slot_ms)} from ${startText(slots, 0)} on`
  const peak = `The highest bar has ${count(most, 'event')}, at ${startText(slots, sums.indexOf(most))}.`
  return `${title}: ${span}. ${peak} In all, ${parts.join('; ')}.`
}

function barTable({ id, title, slots, series }: Bars, sums: readonly number[]): string {
  const rows = sums.flatMap((sum, slot) => {
    if (sum === 0) return []
    const cells = series.map(({ counts }) => `<td>${number(counts[slot]!)}</td>`).join('')
    return [`<tr><th scope="row">${startText(slots, slot)}</th>${cells}</tr>`]
  })
  const names = series
    .map(({ name }) => `<th scope="col"><bdi>${escapedHtml(cut(name, LABEL_LENGTH))}</bdi></th>`)
    .join('')
  return `<details><summary>As a table: ${title}</summary>
<div class="scroll" role="region" tabindex="0" aria-labelledby="${id}-data"><table>
<caption id="${id}-data">${title}: events in each ${formatDuration(slots.slot_ms)}; times without any are left out</caption>
<thead><tr><th scope="col">from</th>${names}</tr></thead>
<tbody>${rows.join('\n')}</tbody>
</table></div></details>`
}

// Loss against limit: a curve for each window and key.

/** Smallest step of the axis, in percent. */
const LEAST_STEP = 0.001
/**
 * The SVG paths of marks, centred on the origin. Each curve in the picture has its own mark. If there are more curves
 * than marks, the other curves are only in the table.
 */
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

/** `loss`: the share of all events that is discarded, from 0 to 1. */
interface Trial {
  readonly result: TrialResult
  readonly loss: number
}

/** Returns one curve for each combination of window and key. */
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

/** The picture of all curves with several limits. Empty if no curve has several limits. */
export function lossCurves(all: readonly Curve[]): string {
  const drawable = all.filter(({ trials }) => trials.length > 1)
  const curves = drawable.slice(0, MARKS.length)
  if (curves.length === 0) return ''
  const trials = curves.flatMap(curve => curve.trials)
  const limits = new Map(trials.map(({ result }) => [result.limit, amountText(result)]))
  const [lowest, highest] = [Math.min(...limits.keys()), Math.max(...limits.keys())]
  const across = (limit: number) => Math.log(limit / lowest) / Math.log(highest / lowest)
  const values = valueTicks(Math.max(...trials.map(({ loss }) => loss)) * 100, LEAST_STEP)
  const y = (value: number) => round(HEIGHT * (1 - value / values.at(-1)!))
  const left = drawable.length - curves.length
  return figure({
    ...{ id: 'loss', title: 'Discarded events, in percent, by limit', values, y },
    alternative: curvesInWords(curves),
    legend: curves.map(
      ({ name }, i) =>
        `<svg class="swatch long" aria-hidden="true"><line class="curve s${i}" x1="0" x2="100%" y1="50%" y2="50%"/>` +
        `<svg x="50%" y="50%"><path class="s${i}" d="${MARKS[i]}"/></svg></svg>${escapedHtml(cut(name, KEY_LENGTH))}`,
    ),
    valueText: value => `${Number(value.toFixed(3))} %`,
    ticks: [...limits].sort(([a], [b]) => a - b).map(([limit, label]) => ({ at: across(limit), label })),
    shapes: curves.map((curve, i) =>
      drawn(curve, i, ({ result, loss }) => ({ x: round(across(result.limit) * 100), y: y(loss * 100) })),
    ),
    note: `Limits are on a logarithmic scale.${left > 0 ? ` Further curves (${left}) are in the table only.` : ''}`,
  })
}

function drawn({ name, trials, knee }: Curve, i: number, place: (trial: Trial) => { x: number; y: number }): string {
  const points = trials.map(place)
  const lines = points.slice(1).map((to, n) => {
    const from = points[n]!
    return `<line class="curve s${i}" x1="${from.x}%" y1="${from.y}" x2="${to.x}%" y2="${to.y}"/>`
  })
  const marks = trials.map((trial, n) => {
    const { x, y } = points[n]!
    const title = `${name}, limit ${amountText(trial.result)}: ${percent(trial.loss, 1)} discarded`
    const ring = trial === knee ? '<circle class="knee" r="10"/><text class="knee" x="14" y="-8">knee</text>' : ''
    return `<svg x="${x}%" y="${y}"><title>${escapedHtml(title)}</title><path class="s${i}" d="${MARKS[i]}"/>${ring}</svg>`
  })
  return `<g>${lines.join('')}${marks.join('')}</g>`
}

function curvesInWords(curves: readonly Curve[]): string {
  const texts = curves.map(({ name, trials, knee }) => {
    const points = trials.map(({ result, loss }) => `${percent(loss, 1)} at ${amountText(result)}`)
    return `${name}: ${points.join(', ')}${knee ? `; the knee is at ${amountText(knee.result)}` : ''}`
  })
  return `Discarded share of the events by limit. ${texts.join('. ')}.`
}

/** A limit, and the share of events that this limit discards, from 0 to 1. */
interface LossPoint {
  readonly limit: number
  readonly loss: number
}

/**
 * A knee must be at least this far below the line between the ends of the curve, as a fraction of the curve's height. A
 * smaller bend is not visible.
 */
const LEAST_BEND = 0.05

/**
 * Finds the knee of a curve of loss against limit. Beyond the knee, a higher limit saves little more. Returns the index
 * of the knee; undefined if there are fewer than three limits, if the loss does not fall, or if the curve does not bend
 * towards the origin. `points` are in the order of their limits, and no two limits are equal.
 *
 * Uses the curve as drawn: over the logarithm of the limit, and scaled to lead from (0, 1) at the lowest limit to
 * (1, 0) at the highest. The knee is the point farthest below the straight line between these two points. The knee lies
 * on the lower convex hull, so points that noise lifts above their neighbours do not matter.
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
