import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type ApiResult, formatApi, measureApi } from './api.js'
import { formatCluster, measureCluster } from './cluster.js'
import { formatEvidence, measureEvidence } from './evidence.js'
import { measureWatching } from './idle.js'
import { formatIngest, type IngestResult } from './ingest.js'
import { type Input, makeInput } from './input.js'
import { type Job, jobs, obvious } from './jobs.js'
import { built, type Measured } from './measure.js'
import type { ProcessorRow } from './processors.js'
import { formatScrape, measureScrape, type ScrapeResult } from './scrape.js'
import { formatSimulate, measureSimulate } from './simulate.js'
import { formatStart, measureStart, type StartResult } from './start.js'
import {
  type BufferResult,
  formatBuffer,
  formatProcessors,
  formatTable,
  formatThrottle,
  formatWatching,
  type Row,
  summarize,
  type ThrottleResult,
} from './table.js'
import { showOnTerminal } from './work.js'

/** `npm run bench`: how fast and how large the daemon is, beside the obvious program for the same work. */

/** What watching is measured with: the job, files, files that get a line every second. */
const WATCHING = [
  ['idle-100', 100, 0, 90],
  ['idle', 2000, 0, 90],
  ['many', 10_000, 100, 30],
] as const

const USAGE = `Usage: npm run bench -- [options]

  --jobs LIST    of ${[...jobs.map(job => job.id), 'throttle', 'processors', 'evidence', 'cluster', 'simulate', 'buffer', 'ingest', 'api', 'scrape', 'start', ...WATCHING.map(([id]) => id)].join(',')} (default: all)
  --lines N      lines of the input (default: 4000000)
  --runs N       runs of each job after a warm-up (default: 3)
  --folder DIR   where the input and the output go (default: ${tmpdir()})
  --keep         leaves the input there for the next time
  --json         one JSON document instead of tables
`

const { values: options } = parseArgs({
  options: {
    jobs: { type: 'string' },
    lines: { type: 'string', default: '4000000' },
    runs: { type: 'string', default: '3' },
    folder: { type: 'string', default: tmpdir() },
    keep: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

const folder = resolve(options.folder)
const wanted = options.jobs?.split(',').map(id => id.trim().toLowerCase())

function wants(id: string): boolean {
  return wanted === undefined || wanted.includes(id.toLowerCase())
}

async function runJobs(selected: readonly Job[], input: Input, work: string, runs: number): Promise<Row[]> {
  const measured = new Map<Job, Measured[]>(selected.map(job => [job, []]))
  // Round by round, so that a slow moment of the machine hits all of them.
  for (let round = 0; round <= runs; round++) {
    for (const job of selected) {
      showOnTerminal(round === 0 ? `warming up: ${job.title}` : `run ${round} of ${runs}: ${job.title}`)
      const result = await job.run(input, work, round === 0)
      if (round > 0) measured.get(job)!.push(result)
    }
  }
  showOnTerminal('')
  return selected.map(job => summarize(job, measured.get(job)!, input.lines))
}

/** Runs the program of a bench, which prints its result as JSON. */
function apart<T>(id: string, args: string[], format: (result: T) => string, report: Record<string, unknown>): void {
  if (!wants(id)) return
  showOnTerminal(id)
  const child = spawnSync(process.execPath, [built(`./${id}.js`), ...args], { encoding: 'utf8' })
  showOnTerminal('')
  if (child.status !== 0) throw new Error(`the bench of ${id} failed:\n${child.stderr}`)
  const result = JSON.parse(child.stdout) as T
  if (options.json) report[id] = result
  else process.stdout.write(`\n${format(result)}`)
}

async function main(): Promise<void> {
  if (options.help) {
    process.stdout.write(USAGE)
    return
  }
  const lines = positive('lines')
  const runs = positive('runs')
  const report: Record<string, unknown> = {
    node: process.version,
    cpu: cpus()[0]?.model,
    cores: availableParallelism(),
  }
  const selected = jobs.filter(job => wants(job.id))
  if (selected.length > 0) {
    mkdirSync(folder, { recursive: true })
    const input = makeInput(folder, lines, showOnTerminal)
    const work = mkdtempSync(join(folder, 'sluice-bench-'))
    try {
      const rows = await runJobs([obvious, ...selected], input, work, runs)
      Object.assign(report, { lines, bytes: input.bytes, runs, jobs: rows })
      if (!options.json) process.stdout.write(formatTable(rows, report))
    } finally {
      rmSync(work, { recursive: true, force: true })
      if (!options.keep) for (const path of [input.path, `${input.path}.json`]) rmSync(path, { force: true })
    }
  }
  apart<ThrottleResult[]>('throttle', ['--json'], formatThrottle, report)
  apart<ProcessorRow[]>('processors', ['--folder', folder], formatProcessors, report)
  if (wants('evidence')) {
    mkdirSync(folder, { recursive: true })
    const result = await measureEvidence(folder, lines, runs, showOnTerminal)
    showOnTerminal('')
    if (options.json) report.evidence = result
    else process.stdout.write(`\n${formatEvidence(result)}`)
  }
  if (wants('cluster')) {
    mkdirSync(folder, { recursive: true })
    const result = await measureCluster(folder, lines, runs, showOnTerminal)
    showOnTerminal('')
    if (options.json) report.cluster = result
    else process.stdout.write(`\n${formatCluster(result)}`)
  }
  if (wants('simulate')) {
    const result = await measureSimulate(folder, lines, runs, showOnTerminal)
    showOnTerminal('')
    if (options.json) report.simulate = result
    else process.stdout.write(`\n${formatSimulate(result)}`)
  }
  apart<BufferResult[]>('buffer', ['--json', '--folder', folder], formatBuffer, report)
  if (wants('api')) {
    const results: ApiResult[] = await measureApi(showOnTerminal)
    if (options.json) report.api = results
    else process.stdout.write(`\n${formatApi(results)}`)
  }
  apart<IngestResult>('ingest', ['--folder', folder], formatIngest, report)
  if (wants('scrape')) {
    showOnTerminal('scrapes of many series')
    const result: ScrapeResult = await measureScrape(folder)
    showOnTerminal('')
    if (options.json) report.scrape = result
    else process.stdout.write(`\n${formatScrape(result)}`)
  }
  if (wants('start')) {
    showOnTerminal('starts')
    const result: StartResult = await measureStart(folder)
    showOnTerminal('')
    if (options.json) report.start = result
    else process.stdout.write(`\n${formatStart(result)}`)
  }
  for (const [id, files, active, seconds] of WATCHING) {
    if (!wants(id)) continue
    showOnTerminal(`watching ${files} files`)
    const watching = await measureWatching(files, active, seconds)
    showOnTerminal('')
    report[id] = watching
    if (!options.json) process.stdout.write(formatWatching(watching))
  }
  if (options.json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
}

function positive(name: 'lines' | 'runs'): number {
  const value = Number(options[name])
  if (Number.isInteger(value) && value > 0) return value
  throw new Error(`--${name} must be a whole number above 0`)
}

await main()
