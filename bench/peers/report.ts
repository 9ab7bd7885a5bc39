import { median } from '../measure.js'
import { JOBS, type JobId, type Peer } from './peer.js'
import type { Figures } from './run.js'

/** One run of a program on a job, with the run of Sluice right before it. */
export interface Pair {
  readonly job: JobId
  readonly peer: Peer
  readonly sluice: Figures
  readonly figures: Figures
}

/** A row of the table: medians over the runs. */
export interface Row {
  readonly job: JobId
  readonly peer: Peer
  readonly linesPerSecond: number
  /** For a million lines. */
  readonly cpuSeconds: number
  readonly rssBytes: number
  /** Lines/s of Sluice over those of the program, and CPU time of Sluice over its; of each pair. */
  readonly faster: readonly number[]
  readonly cpuShare: readonly number[]
}

export function rowsOf(pairs: readonly Pair[], sluice: Peer, lines: number): Row[] {
  const rows: Row[] = []
  for (const job of Object.keys(JOBS) as JobId[]) {
    const own = pairs.filter(pair => pair.job === job)
    if (own.length === 0) continue
    rows.push(
      row(
        job,
        sluice,
        own.map(pair => pair.sluice),
        lines,
      ),
    )
    for (const peer of new Set(own.map(pair => pair.peer))) {
      const runs = own.filter(pair => pair.peer === peer)
      const ratios = {
        faster: runs.map(pair => pair.figures.seconds / pair.sluice.seconds),
        cpuShare: runs.map(pair => pair.sluice.cpuSeconds / pair.figures.cpuSeconds),
      }
      const figures = runs.map(pair => pair.figures)
      rows.push({ ...row(job, peer, figures, lines), ...ratios })
    }
  }
  return rows
}

function row(job: JobId, peer: Peer, runs: readonly Figures[], lines: number): Row {
  return {
    job,
    peer,
    linesPerSecond: lines / median(runs.map(run => run.seconds)),
    cpuSeconds: median(runs.map(run => run.cpuSeconds)) / (lines / 1e6),
    rssBytes: Math.max(...runs.map(run => run.rssBytes)),
    faster: [],
    cpuShare: [],
  }
}

const HEAD = ['program', 'lines/s', 'CPU s per M lines', 'peak RSS', 'lines/s of Sluice to its', 'CPU of Sluice to its']

/** One table in Markdown for each job, and what is not equal. */
export function formatTables(rows: readonly Row[]): string {
  return (Object.keys(JOBS) as JobId[])
    .map(job => ({ job, own: rows.filter(row => row.job === job) }))
    .filter(({ own }) => own.length > 0)
    .map(({ job, own }) => `**${job}, ${JOBS[job]}**\n\n${formatTable(own)}${formatDifferences(own)}`)
    .join('\n')
}

type Figure = readonly [title: string, show: (row: Row) => string]
const RATE: Figure = ['Million lines per second', row => (row.linesPerSecond / 1e6).toFixed(2)]
const FIGURES: readonly Figure[] = [
  ['CPU seconds per million lines', row => row.cpuSeconds.toFixed(2)],
  RATE,
  ['Peak memory in MB', row => `${Math.round(row.rssBytes / 1e6)}`],
]

/** A table of CPU time, of rates unless only the picture has them, and of memory, with a row for each job. */
export function formatSummary(all: readonly Row[], { rates }: { rates: boolean }): string {
  const rows = all.filter(({ peer }) => peer.id !== 'loop')
  const jobs = [...new Set(rows.map(({ job }) => job))]
  const peers = [...new Set(rows.map(({ peer }) => peer))]
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`
  const figures = FIGURES.filter(figure => rates || figure !== RATE)
  const tables = figures.map(([title, show], i) => {
    const body = jobs.map(job => {
      const cells = peers.map(peer => {
        const found = rows.find(row => row.peer === peer && row.job === job)
        return found ? show(found) : '–'
      })
      return line([i === 0 ? `${job}, ${JOBS[job]}` : job, ...cells])
    })
    return `${line([title, ...peers.map(peer => peer.title)])}|---|${'--:|'.repeat(peers.length)}\n${body.join('')}`
  })
  const differences = rows.flatMap(({ job, peer }) => {
    const difference = peer.tasks[job]?.difference
    return difference === undefined ? [] : [`- ${job}, ${peer.title}: ${difference}\n`]
  })
  return `${tables.join('\n')}${differences.length === 0 ? '' : `\n${differences.join('')}`}`
}

function formatTable(rows: readonly Row[]): string {
  const cells = rows.map(({ peer, linesPerSecond, cpuSeconds, rssBytes, faster, cpuShare }) => [
    peer.title,
    `${(linesPerSecond / 1e6).toFixed(2)} M`,
    cpuSeconds.toFixed(2),
    `${Math.round(rssBytes / 1e6)} MB`,
    range(faster),
    range(cpuShare),
  ])
  const widths = HEAD.map((title, i) => Math.max(title.length, ...cells.map(texts => texts[i]!.length)))
  const line = (texts: readonly string[]) =>
    `| ${texts.map((text, i) => (i === 0 ? text.padEnd(widths[i]!) : text.padStart(widths[i]!))).join(' | ')} |\n`
  const rule = `|${widths.map((width, i) => '-'.repeat(width + 1) + (i === 0 ? '-' : ':')).join('|')}|\n`
  return `${line(HEAD)}${rule}${cells.map(line).join('')}`
}

/** The median, and from where to where it varied. */
function range(values: readonly number[]): string {
  if (values.length === 0) return ''
  const middle = `${median(values).toFixed(2)} ×`
  if (values.length === 1) return middle
  return `${middle} (${Math.min(...values).toFixed(2)}–${Math.max(...values).toFixed(2)})`
}

function formatDifferences(rows: readonly Row[]): string {
  const lines = rows.flatMap(({ job, peer }) => {
    const difference = peer.tasks[job]?.difference
    return difference === undefined ? [] : [`- ${peer.title}: ${difference}\n`]
  })
  return lines.length === 0 ? '' : `\n${lines.join('')}`
}
