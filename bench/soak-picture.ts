import type { Sample } from './soak.js'
import { svg, svgText } from './svg.js'

const WIDTH = 900
const PANEL = 130
const LEFT = 90
const RIGHT = 20

const STYLE = `
  text { font-size: 12px }
  .axis { stroke: #999 }
  .most { stroke: #ddd }
  .curve { fill: none; stroke: #0969da; stroke-width: 1.5 }`
const DARK = `
    .axis { stroke: #656c76 }
    .most { stroke: #3d444d }
    .curve { stroke: #4493f8 }`

interface Panel {
  readonly title: string
  readonly of: (sample: Sample) => number
  readonly unit: string
}

const PANELS: readonly Panel[] = [
  { title: 'Resident memory', of: s => s.rssBytes / 1e6, unit: 'MB' },
  { title: 'Open descriptors', of: s => s.descriptors, unit: '' },
  { title: 'Event-loop delay, p99 between scrapes', of: s => s.loopDelayMs, unit: 'ms' },
  { title: 'Unread bytes (the receiver is away at the peaks)', of: s => s.unreadBytes / 1e6, unit: 'MB' },
]

/** The samples as an SVG of one panel a figure, over the same time. */
export function drawPicture(samples: readonly Sample[]): string {
  const height = PANELS.length * PANEL + 30
  const end = Math.max(1, samples.at(-1)?.seconds ?? 1)
  const x = (seconds: number) => LEFT + ((WIDTH - LEFT - RIGHT) * seconds) / end
  const panels = PANELS.map((panel, i) => drawPanel(panel, samples, x, i * PANEL))
  const minutes = Array.from({ length: 7 }, (_, i) => (end * i) / 6)
  const ticks = minutes.map(s => svgText(x(s), height - 8, `${(s / 60).toFixed(1)} min`, '', 'middle'))
  const title = 'What the daemon took in a long run'
  return svg({ width: WIDTH, height, title, style: STYLE, dark: DARK, content: [...panels, ...ticks] })
}

function drawPanel(
  { title, of, unit }: Panel,
  samples: readonly Sample[],
  x: (s: number) => number,
  top: number,
): string {
  const values = samples.map(of)
  const most = Math.max(1e-9, ...values)
  const bottom = top + PANEL - 10
  const y = (value: number) => bottom - ((PANEL - 40) * value) / most
  const points = samples.map((s, i) => `${x(s.seconds).toFixed(1)},${y(values[i]!).toFixed(1)}`).join(' ')
  const label = (value: number) =>
    svgText(LEFT - 8, y(value) + 4, `${value >= 10 ? Math.round(value) : value.toFixed(1)} ${unit}`, '', 'end')
  const across = (style: string, at: number) =>
    `<line class="${style}" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at.toFixed(1)}" y2="${at.toFixed(1)}"/>`
  return [
    svgText(LEFT, top + 18, title, 'title'),
    across('axis', bottom),
    across('most', y(most)),
    label(most),
    label(0),
    `<polyline class="curve" points="${points}"/>`,
  ].join('\n')
}
