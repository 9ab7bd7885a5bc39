import { formatDuration } from '../../../../lib/units.js'
import type { Slots, TimeResult } from '../result.js'
import { count, keyName, number } from '../table.js'
import { bottomAxis, startText, timeTicks, valueAxis, valueTicks } from './axis.js'
import { cut, escaped, LABEL_LENGTH, round } from './markup.js'

/** Bars over time, stacked, with a legend, a text alternative and a table of their data. */

const HEIGHT = 240
/** Of the width of a slot; the rest is a gap. */
const BAR = 0.86
/** Pictures of more slots would be larger than what anybody can see. */
const MOST_SLOTS = 120
const MOST_IN_TOOLTIP = 3
/** Series of keys that have a pattern of their own; what is discarded of all others is one more. */
export const KEY_SERIES = 7

interface Series {
  readonly name: string
  /** The class that gives it colour and pattern. */
  readonly style: string
  readonly counts: readonly number[]
}

interface Chart {
  readonly id: string
  readonly title: string
  readonly slots: Slots
  readonly series: readonly Series[]
}

/** All events by what becomes of them. */
export function outcomesOverTime(id: string, slots: Slots, times: TimeResult): string {
  const outcomes = ['passed', 'discarded', 'excluded'] as const
  const series = outcomes
    .map(name => ({ name, style: name, counts: times[name] }))
    .filter(({ name, counts }) => name !== 'excluded' || counts.some(value => value > 0))
  return chart(coarser({ id, title: 'All events over time', slots, series }))
}

/** The discarded events by key. */
export function discardsOverTime(id: string, slots: Slots, { discarded, by_key }: TimeResult): string {
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
  return chart(coarser({ id, title, slots, series }))
}

/** Joins neighbouring slots until there are at most as many as a picture has. */
function coarser({ slots: { start, slot_ms, count }, series, ...rest }: Chart): Chart {
  const join = Math.ceil(count / MOST_SLOTS)
  const slots = { start, slot_ms: slot_ms * join, count: Math.ceil(count / join) }
  const joined = (counts: readonly number[]) =>
    Array.from({ length: slots.count }, (_, i) =>
      counts.slice(i * join, (i + 1) * join).reduce((sum, value) => sum + value, 0),
    )
  return { ...rest, slots, series: series.map(one => ({ ...one, counts: joined(one.counts) })) }
}

function chart(drawn: Chart): string {
  const { id, title, slots, series } = drawn
  const sums = Array.from({ length: slots.count }, (_, slot) =>
    series.reduce((sum, { counts }) => sum + counts[slot]!, 0),
  )
  const ticks = valueTicks(Math.max(...sums), 1)
  const y = (value: number) => round(HEIGHT * (1 - value / ticks.at(-1)!))
  const bars = sums.map((_, slot) => bar(drawn, slot, y))
  const legend = series.map(
    ({ name, style }) =>
      `<li><svg class="swatch" aria-hidden="true"><rect class="${style}" width="100%" height="100%"/></svg>` +
      `<bdi>${escaped(cut(name, LABEL_LENGTH))}</bdi></li>`,
  )
  return `<figure>
<figcaption><h3>${title}</h3></figcaption>
<ul class="legend">${legend.join('')}</ul>
<div class="frame"><svg class="plot" role="img" aria-labelledby="${id}-text">
<title id="${id}-text">${escaped(alternative(drawn, sums))}</title>
${valueAxis(ticks, y, number).join('\n')}
${bars.join('\n')}
${bottomAxis(timeTicks(slots.start, slots.count * slots.slot_ms), HEIGHT).join('\n')}
</svg></div>
<p class="note">Each bar is ${formatDuration(slots.slot_ms)}. Times are in UTC.</p>
${data(drawn, sums)}
</figure>`
}

/** The stack of one slot, from the bottom up. */
function bar({ slots, series }: Chart, slot: number, y: (value: number) => number): string {
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
  return `<g><title>${escaped(`${startText(slots, slot)}: ${parts.join(', ')}`)}</title>${rects.join('')}</g>`
}

/** What the picture says, for those who do not see it. */
function alternative({ title, slots, series }: Chart, sums: readonly number[]): string {
  const most = Math.max(...sums)
  const total = (counts: readonly number[]) => counts.reduce((sum, value) => sum + value, 0)
  const parts = series.map(({ name, counts }) => `${cut(name, LABEL_LENGTH)}: ${number(total(counts))}`)
  const span = `${count(slots.count, 'bar')} of ${formatDuration(slots.slot_ms)} from ${startText(slots, 0)} on`
  const peak = `The highest bar has ${count(most, 'event')}, at ${startText(slots, sums.indexOf(most))}.`
  return `${title}: ${span}. ${peak} In all, ${parts.join('; ')}.`
}

function data({ id, title, slots, series }: Chart, sums: readonly number[]): string {
  const rows = sums.flatMap((sum, slot) => {
    if (sum === 0) return []
    const cells = series.map(({ counts }) => `<td>${number(counts[slot]!)}</td>`).join('')
    return [`<tr><th scope="row">${startText(slots, slot)}</th>${cells}</tr>`]
  })
  const names = series.map(({ name }) => `<th scope="col"><bdi>${escaped(cut(name, LABEL_LENGTH))}</bdi></th>`).join('')
  return `<details><summary>As a table: ${title}</summary>
<div class="scroll" role="region" tabindex="0" aria-labelledby="${id}-data"><table>
<caption id="${id}-data">${title}: events in each ${formatDuration(slots.slot_ms)}; times without any are left out</caption>
<thead><tr><th scope="col">from</th>${names}</tr></thead>
<tbody>${rows.join('\n')}</tbody>
</table></div></details>`
}
