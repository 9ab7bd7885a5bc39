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
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .back { fill: #fff }
  .title { font-weight: 600 }
  .note { fill: #59636e }
  .number { font-variant-numeric: tabular-nums }
  .sluice { fill: #0969da }
  .peer { fill: #8c959f }
  .loop { fill: none; stroke: #59636e; stroke-dasharray: 4 3 }
  .limit { stroke: #59636e; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .back { fill: #0d1117 }
    .note { fill: #9198a1 }
    .sluice { fill: #4493f8 }
    .peer { fill: #656c76 }
    .loop, .limit { stroke: #9198a1 }
  }
`

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
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${top}" viewBox="0 0 ${WIDTH} ${top}" role="img" aria-labelledby="name">
<title id="name">Lines per second and CPU time of Sluice and other log shippers</title>
<style>${STYLE}</style>
<rect class="back" width="${WIDTH}" height="${top}"/>
${text(LEFT_PANEL, 24, 'lines per second, in millions', 'title')}
${text(LEFT_PANEL, 42, 'longer is better', 'note')}
${text(RIGHT_PANEL, 24, 'CPU seconds per million lines', 'title')}
${text(RIGHT_PANEL, 42, 'shorter is better', 'note')}
${parts.join('\n')}
</svg>
`
}

function drawGroup(rows: readonly Row[], top: number): string {
  const { job } = rows[0]!
  const speeds = rows.map(row => row.linesPerSecond / 1e6)
  const costs = rows.map(row => row.cpuSeconds)
  const parts = [text(16, top + 20, `${job}: ${JOBS[job]}`, 'title')]
  for (const [panel, values] of [[LEFT_PANEL, speeds] as const, [RIGHT_PANEL, costs] as const]) {
    const most = Math.max(Number.MIN_VALUE, ...values)
    const bottom = top + TITLE + rows.length * ROW
    for (const [i, { peer }] of rows.entries()) {
      const y = top + TITLE + i * ROW
      const width = (PANEL_WIDTH * values[i]!) / most
      const shape = peer.id === 'loop' || peer.id === 'sluice' ? peer.id : 'peer'
      if (panel === LEFT_PANEL) parts.push(text(panel - 10, y + BAR - 3, peer.title, '', 'end'))
      parts.push(
        `<rect class="${shape}" x="${panel}" y="${y}" width="${width.toFixed(1)}" height="${BAR}"/>`,
        text(panel + width + 6, y + BAR - 3, values[i]!.toFixed(2), 'number'),
      )
      if (peer.id === 'loop')
        parts.push(
          `<line class="limit" x1="${(panel + width).toFixed(1)}" x2="${(panel + width).toFixed(1)}" y1="${top + TITLE - 4}" y2="${bottom - ROW + BAR + 4}"/>`,
        )
    }
  }
  return parts.join('\n')
}

function text(x: number, y: number, content: string, style: string, anchor = 'start'): string {
  const escaped = content.replace(/&/g, '&amp;').replace(/</g, '&lt;')
  return `<text x="${x.toFixed(1)}" y="${y}" class="${style}" text-anchor="${anchor}">${escaped}</text>`
}
