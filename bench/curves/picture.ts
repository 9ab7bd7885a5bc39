import { svg, svgText } from '../svg.js'
import type { Curve } from './curves.js'
import type { Cost } from './run.js'

/** Draws the curves: for each a panel with the cost over x, both in logarithmic steps. */

const PANEL = { width: 280, height: 150 }
const COLUMNS = 3
const MARGIN = { left: 52, top: 62, right: 18, bottom: 44 }

const STYLE = `
  text { font-size: 12px }
  .curve { fill: none; stroke: #0969da; stroke-width: 2 }
  .point { fill: #0969da }
  .axis { stroke: #d1d9e0 }`
const DARK = `
    .curve { stroke: #4493f8 }
    .point { fill: #4493f8 }
    .axis { stroke: #3d444d }`

export function drawCurves(all: readonly { readonly curve: Curve; readonly costs: readonly Cost[] }[]): string {
  const cell = {
    width: PANEL.width + MARGIN.left + MARGIN.right,
    height: PANEL.height + MARGIN.top + MARGIN.bottom,
  }
  const width = cell.width * Math.min(COLUMNS, all.length)
  const height = cell.height * Math.ceil(all.length / COLUMNS)
  const panels = all.map(({ curve, costs }, i) => {
    const x = (i % COLUMNS) * cell.width + MARGIN.left
    const y = Math.floor(i / COLUMNS) * cell.height + MARGIN.top
    return `<g transform="translate(${x} ${y})">${panel(curve, costs)}</g>`
  })
  return svg({ width, height, title: 'How the CPU time of Sluice grows', style: STYLE, dark: DARK, content: panels })
}

function panel(curve: Curve, costs: readonly Cost[]): string {
  const most = Math.max(...costs.map(cost => cost.cpuSecondsPerMillion)) * 1.1
  const x = (i: number) => (costs.length === 1 ? 0 : (i / (costs.length - 1)) * PANEL.width)
  const y = (cost: number) => PANEL.height - (Math.max(0, cost) / most) * PANEL.height
  const at = costs.map((cost, i) => `${x(i).toFixed(1)},${y(cost.cpuSecondsPerMillion).toFixed(1)}`)
  const unit = curve.per === 'line' ? 'CPU s per million lines' : 'CPU s per 220 MB'
  return [
    svgText(10 - MARGIN.left, -38, curve.title, 'title'),
    svgText(10 - MARGIN.left, -20, `${unit}, by ${curve.x}`, 'note'),
    `<line class="axis" x1="0" x2="${PANEL.width}" y1="${PANEL.height}" y2="${PANEL.height}"/>`,
    `<line class="axis" x1="0" x2="0" y1="0" y2="${PANEL.height}"/>`,
    svgText(-6, 4, most.toFixed(2), '', 'end'),
    svgText(-6, PANEL.height, '0', '', 'end'),
    `<polyline class="curve" points="${at.join(' ')}"/>`,
    ...costs.map(({ value, cpuSecondsPerMillion }, i) => {
      const label = value.toLocaleString('en')
      const point = `<circle class="point" cx="${x(i).toFixed(1)}" cy="${y(cpuSecondsPerMillion).toFixed(1)}" r="3.5"/>`
      return point + svgText(x(i), PANEL.height + 18, label, '', 'middle')
    }),
  ].join('\n')
}
