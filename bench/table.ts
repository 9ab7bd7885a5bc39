import { type Job, obvious } from './jobs.js'
import { type Measured, median } from './measure.js'

const MOST_RSS_BYTES = 160e6

export interface Row {
  readonly id: string
  readonly title: string
  readonly target: number | undefined
  readonly linesPerSecond: number
  /** For a million lines. */
  readonly cpuSeconds: number
  /** The most of all runs. */
  readonly rssBytes: number
}

/** The medians of a job's runs. */
export function summarize({ id, title, target }: Job, runs: readonly Measured[], lines: number): Row {
  return {
    id,
    title,
    target,
    linesPerSecond: Math.round(lines / median(runs.map(run => run.seconds))),
    cpuSeconds: median(runs.map(run => run.cpuSeconds)) / (lines / 1e6),
    rssBytes: Math.max(...runs.map(run => run.rssBytes)),
  }
}

/** The rows as a Markdown table; what misses its target is marked. */
export function formatTable(rows: readonly Row[], about: Record<string, unknown>): string {
  const base = rows.find(row => row.id === obvious.id)!
  const cells = rows.map(row => {
    const faster = row.linesPerSecond / base.linesPerSecond
    const leaner = base.cpuSeconds / row.cpuSeconds
    const wanted = row.target ?? 0
    return [
      row.id === obvious.id ? row.title : `${row.id} ${row.title}`,
      `${(row.linesPerSecond / 1e6).toFixed(2)} M`,
      row.cpuSeconds.toFixed(2),
      mark(`${Math.round(row.rssBytes / 1e6)} MB`, row.target === undefined || row.rssBytes <= MOST_RSS_BYTES),
      mark(`${faster.toFixed(1)} ×`, faster >= wanted),
      mark(`${leaner.toFixed(1)} ×`, leaner >= wanted),
      row.target === undefined ? '' : `${row.target} ×`,
    ]
  })
  const head = ['job', 'lines/s', 'CPU s per M lines', 'peak RSS', 'lines/s, ratio', 'CPU, ratio', 'wanted']
  const widths = head.map((title, i) => Math.max(title.length, ...cells.map(row => row[i]!.length)))
  const line = (texts: readonly string[]) =>
    `| ${texts.map((text, i) => (i === 0 ? text.padEnd(widths[i]!) : text.padStart(widths[i]!))).join(' | ')} |\n`
  const rule = `|${widths.map((width, i) => '-'.repeat(width + 1) + (i === 0 ? '-' : ':')).join('|')}|\n`
  const { lines, bytes, runs, node, cpu, cores } = about
  const size = (Number(bytes) / 1e6).toFixed(0)
  return `${lines} lines (${size} MB), medians of ${runs} runs, Node ${node}, ${cores} cores of ${cpu}

${line(head)}${rule}${cells.map(line).join('')}`
}

function mark(text: string, reached: boolean): string {
  return reached ? text : `${text} (missed)`
}
