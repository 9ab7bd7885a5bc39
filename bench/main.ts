import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { stringify } from 'yaml'
import { NONE, programOptions } from '../test/support/program-options.js'
import { measureApi } from './api.js'
import { measureCluster } from './cluster.js'
import { measureEvidence } from './evidence.js'
import { measureWatching } from './idle.js'
import { type Input, makeInput } from './input.js'
import { type Job, jobs, obvious } from './jobs.js'
import { built, inTurns } from './measure.js'
import { measureScrape } from './scrape.js'
import { measureSimulate } from './simulate.js'
import { measureStart } from './start.js'
import { formatTable, type Row, summarize } from './table.js'
import { showOnTerminal, workFolder } from './work.js'

/** `npm run bench`: how fast and how large the daemon is, beside the obvious program for the same work. */

interface Part {
  /** What the figures should be. */
  readonly wanted: string
  measure(folder: string, lines: number, runs: number): Promise<unknown>
}

const watching = (files: number, active: number, seconds: number, wanted: string): Part => ({
  wanted,
  measure: () => measureWatching(files, active, seconds),
})

/** Everything but the jobs. */
const PARTS: Readonly<Record<string, Part>> = {
  throttle: {
    wanted: '10 M decisions/s with 1,000 keys, at most 150 bytes a bucket and 50 ms a batch with 1,000,000',
    measure: () => apart('throttle'),
  },
  processors: { wanted: 'none', measure: folder => apart('processors', '--folder', folder) },
  evidence: {
    wanted: 'at most 1.15 with metrics, summaries and two limits, 1.2 with rules, and 1.02 with persist',
    measure: (folder, lines, runs) => measureEvidence(folder, lines, runs, showOnTerminal),
  },
  cluster: {
    wanted: '500,000 decisions/s when leased',
    measure: (folder, lines, runs) => measureCluster(folder, lines, runs, showOnTerminal),
  },
  simulate: {
    wanted: '1.5 M lines/s, and 20 limits in at most 5 times the time of one',
    measure: (folder, lines, runs) => measureSimulate(folder, lines, runs, showOnTerminal),
  },
  buffer: { wanted: '0.3 M events/s', measure: folder => apart('buffer', '--folder', folder) },
  ingest: { wanted: '0.4 M events/s', measure: folder => apart('ingest', '--folder', folder) },
  api: {
    wanted: '0.7 of the constant, with 10,000 keys in 1,000 accounts',
    measure: () => measureApi(showOnTerminal),
  },
  scrape: { wanted: 'the event loop is held up for at most 50 ms', measure: measureScrape },
  start: { wanted: 'the first line within 300 ms', measure: measureStart },
  'idle-100': watching(100, 0, 90, 'at most 0.2 % of a core'),
  idle: watching(2000, 0, 90, 'at most 0.5 % of a core'),
  many: watching(10_000, 100, 30, 'none'),
}

const USAGE = `Usage: npm run bench -- [options]

  --jobs LIST    of ${[...jobs.map(job => job.id), ...Object.keys(PARTS)].join(',')} (default: all)
  --lines N      lines of the input (default: 4000000)
  --runs N       runs of each job after a warm-up (default: 3)
  --folder DIR   where the input and the output go (default: ${tmpdir()})
  --keep         leaves the input there for the next time
  --json         one JSON document instead of tables
`

const { options } = programOptions(
  { jobs: NONE, lines: 4_000_000, runs: 3, folder: tmpdir(), keep: false, json: false },
  USAGE,
)

const folder = resolve(options.folder)
const wanted = options.jobs?.split(',').map(id => id.trim().toLowerCase())

function wants(id: string): boolean {
  return wanted === undefined || wanted.includes(id.toLowerCase())
}

async function runJobs(selected: readonly Job[], input: Input, work: string, runs: number): Promise<Row[]> {
  const measured = await inTurns(selected, runs, (job, round) => {
    showOnTerminal(round === 0 ? `warming up: ${job.title}` : `run ${round} of ${runs}: ${job.title}`)
    return job.run(input, work, round === 0)
  })
  showOnTerminal('')
  return selected.map(job => summarize(job, measured.get(job)!, input.lines))
}

/** Runs the program of a bench, which prints its result as JSON. */
async function apart(id: string, ...args: string[]): Promise<unknown> {
  const child = spawnSync(process.execPath, [built(`./${id}.js`), ...args], { encoding: 'utf8' })
  if (child.status !== 0) throw new Error(`the bench of ${id} failed:\n${child.stderr}`)
  return JSON.parse(child.stdout)
}

async function main(): Promise<void> {
  const { lines, runs } = options
  const report: Record<string, unknown> = {
    node: process.version,
    cpu: cpus()[0]?.model,
    cores: availableParallelism(),
  }
  mkdirSync(folder, { recursive: true })
  const selected = jobs.filter(job => wants(job.id))
  if (selected.length > 0) {
    const input = makeInput(folder, lines, showOnTerminal)
    try {
      const rows = await runJobs([obvious, ...selected], input, workFolder(folder, 'bench'), runs)
      Object.assign(report, { lines, bytes: input.bytes, runs, jobs: rows })
      if (!options.json) process.stdout.write(formatTable(rows, report))
    } finally {
      if (!options.keep) for (const path of [input.path, `${input.path}.json`]) rmSync(path, { force: true })
    }
  }
  for (const [id, { wanted, measure }] of Object.entries(PARTS)) {
    if (!wants(id)) continue
    showOnTerminal(id)
    report[id] = await measure(folder, lines, runs)
    showOnTerminal('')
    if (options.json) continue
    if (Array.isArray(report[id])) console.table(report[id])
    process.stdout.write(`\n${stringify(Array.isArray(report[id]) ? { wanted } : { [id]: report[id], wanted })}`)
  }
  if (options.json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
}

await main()
