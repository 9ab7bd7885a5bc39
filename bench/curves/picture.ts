import type { Curve } from './curves.js'
import type { Cost } from './run.js'

/** Draws the curves: for each a panel with the cost over x, both in logarithmic steps. */

const PANEL = { width: 280, height: 150 }
const COLUMNS = 3
const MARGIN = { left: 52, top: 62, right: 18, bottom: 44 }

const STYLE = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .back { fill: #fff }
  .title { font-weight: 600 }
  .note { fill: #59636e }
  .curve { fill: none; stroke: #0969da; stroke-width: 2 }
  .point { fill: #0969da }
  .axis { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .back { fill: #0d1117 }
    .note { fill: #9198a1 }
    .curve { stroke: #4493f8 }
    .point { fill: #4493f8 }
    .axis { stroke: #3d444d }
  }
`

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
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="name">
<title id="name">How the CPU time of Sluice grows</title>
<style>${STYLE}</style>
<rect class="back" width="${width}" height="${height}"/>
${panels.join('\n')}
</svg>
`
}

function panel(curve: Curve, costs: readonly Cost[]): string {
  const most = Math.max(...costs.map(cost => cost.cpuSecondsPerMillion)) * 1.1
  const x = (i: number) => (costs.length === 1 ? 0 : (i / (costs.length - 1)) * PANEL.width)
  const y = (cost: number) => PANEL.height - (Math.max(0, cost) / most) * PANEL.height
  const at = costs.map((cost, i) => `${x(i).toFixed(1)},${y(cost.cpuSecondsPerMillion).toFixed(1)}`)
  const unit = curve.per === 'line' ? 'CPU s per million lines' : 'CPU s per 220 MB'
  return [
    `<text class="title" x="${10 - MARGIN.left}" y="-38">${curve.title}</text>`,
    `<text class="note" x="${10 - MARGIN.left}" y="-20">${unit}, by ${curve.x}</text>`,
    `<line class="axis" x1="0" x2="${PANEL.width}" y1="${PANEL.height}" y2="${PANEL.height}"/>`,
    `<line class="axis" x1="0" x2="0" y1="0" y2="${PANEL.height}"/>`,
    `<text x="-6" y="4" text-anchor="end">${most.toFixed(2)}</text>`,
    `<text x="-6" y="${PANEL.height}" text-anchor="end">0</text>`,
    `<polyline class="curve" points="${at.join(' ')}"/>`,
    ...costs.map(({ value, cpuSecondsPerMillion }, i) => {
      const label = value.toLocaleString('en')
      return `<circle class="point" cx="${x(i).toFixed(1)}" cy="${y(cpuSecondsPerMillion).toFixed(1)}" r="3.5"/><text x="${x(i).toFixed(1)}" y="${PANEL.height + 18}" text-anchor="middle">${label}</text>`
    }),
  ].join('\n')
}
