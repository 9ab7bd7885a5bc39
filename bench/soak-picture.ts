import type { Sample } from './soak.js'

const WIDTH = 900
const PANEL = 130
const LEFT = 90
const RIGHT = 20

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
  const ticks = minutes.map(
    s => `<text x="${x(s).toFixed(1)}" y="${height - 8}" text-anchor="middle">${(s / 60).toFixed(1)} min</text>`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
${panels.join('\n')}
${ticks.join('\n')}
</svg>
`
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
    `<text x="${LEFT - 8}" y="${(y(value) + 4).toFixed(1)}" text-anchor="end">${value >= 10 ? Math.round(value) : value.toFixed(1)} ${unit}</text>`
  return `<text x="${LEFT}" y="${top + 18}" font-weight="bold">${title}</text>
<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${bottom}" y2="${bottom}" stroke="#999"/>
<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(most).toFixed(1)}" y2="${y(most).toFixed(1)}" stroke="#ddd"/>
${label(most)}${label(0)}
<polyline points="${points}" fill="none" stroke="#1662a5" stroke-width="1.5"/>`
}
