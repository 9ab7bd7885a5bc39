import { svg, svgText } from '../svg.js'
import { JOBS, type JobId } from './peer.js'
import type { Row } from './report.js'

/** Draws the table: for each job the lines per second on the left and the CPU time on the right, a bar a program. */

const WIDTH = 900
const NAME_WIDTH = 190
const PANEL_WIDTH = 275
/** Beside a bar, for its number. */
const NUMBER_WIDTH = 60
const LEFT_PANEL = NAME_WIDTH
const RIGHT_PANEL = NAME_WIDTH + PANEL_WIDTH + NUMBER_WIDTH + 20
const BAR = 16
const ROW = 24
const TOP = 56
const TITLE = 34

const STYLE = `
  .number { font-variant-numeric: tabular-nums }
  .sluice { fill: #0969da }
  .peer { fill: #8c959f }
  .loop { fill: none; stroke: #59636e; stroke-dasharray: 4 3 }
  .limit { stroke: #59636e; stroke-dasharray: 4 3 }`
const DARK = `
    .sluice { fill: #4493f8 }
    .peer { fill: #656c76 }
    .loop, .limit { stroke: #9198a1 }`

export function drawPicture(rows: readonly Row[]): string {
  const groups = (Object.keys(JOBS) as JobId[])
    .map(job => rows.filter(row => row.job === job))
    .filter(group => group.length > 0)
  const parts: string[] = []
  let top = TOP
  for (const group of groups) {
    parts.push(drawGroup(group, top))
    top += TITLE + group.length * ROW + 14
  }
  return svg({
    width: WIDTH,
    height: top,
    title: 'Lines per second and CPU time of Sluice and other log shippers',
    style: STYLE,
    dark: DARK,
    content: [
      svgText(LEFT_PANEL, 24, 'lines per second, in millions', 'title'),
      svgText(LEFT_PANEL, 42, 'longer is better', 'note'),
      svgText(RIGHT_PANEL, 24, 'CPU seconds per million lines', 'title'),
      svgText(RIGHT_PANEL, 42, 'shorter is better', 'note'),
      ...parts,
    ],
  })
}

function drawGroup(rows: readonly Row[], top: number): string {
  const { job } = rows[0]!
  const speeds = rows.map(row => row.linesPerSecond / 1e6)
  const costs = rows.map(row => row.cpuSeconds)
  const parts = [svgText(16, top + 20, `${job}, ${JOBS[job]}`, 'title')]
  for (const [panel, values] of [[LEFT_PANEL, speeds] as const, [RIGHT_PANEL, costs] as const]) {
    const most = Math.max(Number.MIN_VALUE, ...values)
    const bottom = top + TITLE + rows.length * ROW
    for (const [i, { peer }] of rows.entries()) {
      const y = top + TITLE + i * ROW
      const width = (PANEL_WIDTH * values[i]!) / most
      const shape = peer.id === 'loop' || peer.id === 'sluice' ? peer.id : 'peer'
      if (panel === LEFT_PANEL) parts.push(svgText(panel - 10, y + BAR - 3, peer.title, '', 'end'))
      parts.push(
        `<rect class="${shape}" x="${panel}" y="${y}" width="${width.toFixed(1)}" height="${BAR}"/>`,
        svgText(panel + width + 6, y + BAR - 3, values[i]!.toFixed(2), 'number'),
      )
      if (peer.id === 'loop')
        parts.push(
          `<line class="limit" x1="${(panel + width).toFixed(1)}" x2="${(panel + width).toFixed(1)}" y1="${top + TITLE - 4}" y2="${bottom - ROW + BAR + 4}"/>`,
        )
    }
  }
  return parts.join('\n')
}
