import type { Watching } from './idle.js'
import { type Job, obvious } from './jobs.js'
import { type Measured, median } from './measure.js'
import type { ProcessorRow } from './processors.js'

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

/** One line of what bench/throttle.ts measures. */
export interface ThrottleResult {
  readonly bench: string
  readonly mode: string
  readonly keys: number
  readonly per_second?: number
  readonly bytes_per_bucket?: number
  readonly at_worst?: number
  readonly longest_step_ms?: number
  readonly longest_step_in_event_time_ms?: number
}

const RATES: Record<string, string> = {
  throttle_takes: 'decisions/s',
  throttle_decisions: 'decisions/s with the key found in a scanned line',
}

/** The core of the throttle, a line for each window mode. */
export function formatThrottle(results: readonly ThrottleResult[]): string {
  const lines = [...new Set(results.map(({ mode }) => mode))].map(mode => {
    const own = results.filter(result => result.mode === mode)
    const rates = own.filter(({ per_second: rate }) => rate !== undefined)
    const told = rates.map(({ bench, per_second: rate }) => `${(rate! / 1e6).toFixed(1)} M ${RATES[bench] ?? bench}`)
    const memory = own.find(({ bytes_per_bucket: bytes }) => bytes !== undefined)
    if (memory) {
      const { bytes_per_bucket: bytes, at_worst: worst, longest_step_ms: step, keys } = memory
      const { longest_step_in_event_time_ms: inEventTime } = memory
      told.push(
        `${bytes} bytes a bucket (at worst ${worst}) with ${keys} keys, ${step} ms for the longest batch, ${inEventTime} in event time`,
      )
    }
    return `throttle, ${mode} windows: ${told.join(', ')}\n`
  })
  return `${lines.join('')}wanted: 10 M decisions/s with 1,000 keys, at most 150 bytes a bucket and 50 ms a batch with 1,000,000\n`
}

/** What bench/buffer.ts says of itself. */
export interface BufferResult {
  readonly bench: string
  readonly per_second: number
  readonly cpu_seconds_per_million: number
  readonly rss_mb: number
}

const WAYS: Record<string, string> = {
  buffer_through: 'in and out at the same time',
  buffer_in: 'in, while nothing is delivered',
  buffer_out: 'out, after a restart',
}

/** The disk buffer by itself, a line for each way to use it. */
export function formatBuffer(results: readonly BufferResult[]): string {
  const lines = results.map(({ bench, per_second: rate, cpu_seconds_per_million: cpu, rss_mb: rss }) => {
    const told = `${(rate / 1e6).toFixed(2)} M events/s, ${cpu.toFixed(2)} CPU-s per million, ${rss} MB`
    return `disk buffer, ${WAYS[bench] ?? bench}: ${told}\n`
  })
  return `${lines.join('')}wanted: 0.3 M events/s\n`
}

function mark(text: string, reached: boolean): string {
  return reached ? text : `${text} (missed)`
}

export function formatWatching({ files, active, seconds, cpuShare, rssBytes, openFiles }: Watching): string {
  const what = active === 0 ? 'nothing written' : `${active} of them written to every second`
  const most = active === 0 ? ` (at most ${files > 100 ? 0.5 : 0.2} %)` : ''
  return `
${files} watched files, ${what}, for ${seconds} s: ${(cpuShare * 100).toFixed(2)} % of a core${most}, ${Math.round(rssBytes / 1e6)} MB, ${openFiles} files open
`
}

export function formatProcessors(rows: readonly ProcessorRow[]): string {
  const millions = (perSecond: number) => `${(perSecond / 1e6).toFixed(2)} M`.padStart(8)
  const lines = rows.map(
    ({ id, lines_per_second: own, pair_per_second: pair, ratio }) =>
      `${id.padEnd(24)} ${millions(own)} ${millions(pair)} ${ratio.toFixed(2).padStart(6)} ×\n`,
  )
  return `lines/s on one core, beside JSON.parse and JSON.stringify of the same lines\n${lines.join('')}`
}
