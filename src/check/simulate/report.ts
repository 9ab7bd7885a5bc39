import { formatDuration } from '../../lib/units.js'
import type { SimulationResult } from './result.js'
import { count, keyName, numbers, percent, timeText } from './table.js'

/** Renders the result of a simulation as a self-contained page: no scripts, no other files. */

const SHOWN_KEYS = 100
const WIDTH = 960
const HEIGHT = 280
const LEFT = 64
const RIGHT = 12
const TOP = 12
const BOTTOM = 32
const Y_TICKS = 4
const X_TICKS = 6

const SERIES = ['passed', 'discarded', 'excluded'] as const

const STYLE = `
:root { color-scheme: light dark; --text: #1b1f24; --faint: #59636e; --line: #d5dae0; --back: #ffffff; --passed: #2368c4; --discarded: #d9660a; --excluded: #8b949e }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ed; --faint: #9aa4af; --line: #363d45; --back: #14171b; --passed: #6aa5f5; --discarded: #f59a4c; --excluded: #7d8792 } }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.4rem; margin: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p.throttle { margin: .25rem 0 1.5rem; color: var(--faint) }
.totals { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 0; padding: 0; list-style: none }
.totals b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums } .totals i { font-style: normal; color: var(--faint) }
.totals .passed, .totals .discarded, .totals .excluded { border-left: .35rem solid; padding-left: .6rem }
.totals .passed { border-color: var(--passed) } .totals .discarded { border-color: var(--discarded) } .totals .excluded { border-color: var(--excluded) }
svg { display: block; width: 100%; height: auto } svg text { fill: var(--faint); font-size: 12px }
svg line { stroke: var(--line) } rect.passed { fill: var(--passed) } rect.discarded { fill: var(--discarded) } rect.excluded { fill: var(--excluded) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: .9rem } th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere } thead th { color: var(--faint); font-weight: 600 } tbody th { font-weight: 400 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.5rem; margin: 0 } dt { color: var(--faint) } dd { margin: 0; overflow-wrap: anywhere }
`

const number = (value: number) => value.toLocaleString('en-US')

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, char => `&#${char.charCodeAt(0)};`)
}

/** The page; `madeAt` is the current time in milliseconds since the epoch. */
export function reportPage(result: SimulationResult, madeAt: number): string {
  const { component, settings, events } = result
  const title = escaped(`What ${component ?? 'the throttle'} would have passed`)
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${STYLE}</style>
<h1>${title}</h1>
<p class="throttle">${escaped(settings.find(({ name }) => name === 'throttle')!.text)}</p>
${totals(result)}
<h2>Over time</h2>
${chart(result)}
<h2>By key</h2>
${events > 0 ? table(result) : '<p>There were no events.</p>'}
<h2>What was simulated</h2>
${facts(result, madeAt)}
</html>
`
}

function totals({ results, events, excluded }: SimulationResult): string {
  const [{ passed, discarded }] = results as [SimulationResult['results'][number]]
  const items = SERIES.map(name => {
    const value = { passed, discarded, excluded }[name]
    return `<li class="${name}"><i>${name}</i> <b>${number(value)}</b> <i>${percent(value, events)}</i></li>`
  })
  return `<ul class="totals"><li><i>events</i> <b>${number(events)}</b></li>${items.join('')}</ul>`
}

/** A step of 1, 2 or 5 times a power of ten, so that about `ticks` steps reach `most`. */
function niceStep(most: number, ticks: number): number {
  const rough = Math.max(most / ticks, 1)
  const power = 10 ** Math.floor(Math.log10(rough))
  return power * ([1, 2, 5].find(factor => factor * power >= rough) ?? 10)
}

function chart({ slots, results }: SimulationResult): string {
  if (!slots) return '<p>No event had a time of its own.</p>'
  const { slot_ms: binMs } = slots
  const times = results[0]!.over_time
  const bins = times.passed.map((_, i) => ({
    start: slots.start + i * binMs,
    counts: SERIES.map(name => times[name][i]!),
  }))
  const sums = bins.map(({ counts }) => counts.reduce((sum, value) => sum + value, 0))
  const step = niceStep(Math.max(...sums), Y_TICKS)
  const top = Math.ceil(Math.max(...sums) / step) * step
  const [plotWidth, plotHeight] = [WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM]
  const barWidth = plotWidth / bins.length
  const y = (value: number) => round(TOP + plotHeight * (1 - value / top))
  const parts: string[] = []
  for (let value = 0; value <= top; value += step) {
    parts.push(`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}"/>`)
    parts.push(`<text x="${LEFT - 8}" y="${y(value) + 4}" text-anchor="end">${number(value)}</text>`)
  }
  for (const [i, { start, counts }] of bins.entries()) {
    if (sums[i] === 0) continue
    const tooltip = SERIES.map((name, n) => `${number(counts[n]!)} ${name}`).join(', ')
    let below = 0
    const bars = SERIES.map((name, n) => {
      const value = counts[n]!
      below += value
      const height = round((plotHeight * value) / top)
      if (value === 0) return ''
      const place = `x="${round(LEFT + i * barWidth)}" y="${y(below)}" width="${round(barWidth * 0.9)}" height="${height}"`
      return `<rect class="${name}" ${place}/>`
    })
    parts.push(`<g><title>${timeText(start)}: ${tooltip}</title>${bars.join('')}</g>`)
  }
  parts.push(...timeAxis(bins[0]!.start, bins.length * binMs, plotWidth))
  const label = `Events over time, ${formatDuration(binMs)} to a bar: passed, discarded, excluded`
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">${parts.join('\n')}</svg>
<p class="throttle">Each bar is ${formatDuration(binMs)} of the time in the events (UTC).</p>`
}

const round = (value: number) => Math.round(value * 100) / 100

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

function timeAxis(start: number, length: number, plotWidth: number): string[] {
  const step = TIME_STEPS.find(step => length / step <= X_TICKS) ?? length
  const parts: string[] = []
  for (let time = Math.ceil(start / step) * step; time <= start + length; time += step) {
    const x = round(LEFT + ((time - start) / length) * plotWidth)
    const anchor = x > WIDTH - 60 ? 'end' : x < LEFT + 30 ? 'start' : 'middle'
    const iso = timeText(time)
    const date = iso.slice(0, iso.indexOf('T'))
    const clock = iso.slice(iso.indexOf('T') + 1, step < SECOND ? -1 : -5)
    const text = step >= DAY ? date : time % DAY === 0 ? date : clock
    parts.push(`<line x1="${x}" x2="${x}" y1="${HEIGHT - BOTTOM}" y2="${HEIGHT - BOTTOM + 5}"/>`)
    parts.push(`<text x="${x}" y="${HEIGHT - BOTTOM + 20}" text-anchor="${anchor}">${text}</text>`)
  }
  return parts
}

function table({ results }: SimulationResult): string {
  const { by_key, others, more_keys } = results[0]!
  const keys = by_key.slice(0, SHOWN_KEYS)
  const cells = (values: readonly (number | string)[]) =>
    values.map(value => `<td>${typeof value === 'number' ? number(value) : value}</td>`).join('')
  const rows = keys.map(key => {
    const opened = key.busiest_at === null ? '' : timeText(key.busiest_at)
    return `<tr><th scope="row">${escaped(keyName(key))}</th>${cells([...numbers(key), opened])}</tr>`
  })
  if (others) {
    const { passed, discarded, excluded } = others
    const events = passed + discarded + excluded
    const more = more_keys ? ' and more' : ''
    const name = `other (${count(others.keys, 'key')}${more})`
    rows.push(`<tr><th scope="row">${name}</th>${cells([events, passed, discarded, excluded, '', ''])}</tr>`)
  }
  const titles = ['key', 'events', 'passed', 'discarded', 'excluded', 'busiest window', 'which opened']
  return `<div class="scroll"><table>
<thead><tr>${titles.map(title => `<th scope="col">${title}</th>`).join('')}</tr></thead>
<tbody>
${rows.join('\n')}
</tbody>
</table></div>`
}

function facts({ settings, time, notes }: SimulationResult, madeAt: number): string {
  const rows = [...settings, { name: 'time field', text: time }, ...notes, { name: 'made', text: timeText(madeAt) }]
  return `<dl>${rows.map(({ name, text }) => `<dt>${name}</dt><dd>${escaped(text)}</dd>`).join('')}</dl>`
}
