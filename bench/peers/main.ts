import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { checkout } from '../../test/support/checkout.js'
import { runProgram } from '../../test/support/program-options.js'
import { PERFORMANCE_PAGE, writeBetweenMarkers } from '../docs.js'
import { type InputKind, makeInput } from '../input.js'
import { describeMachine, formatMachine } from '../machine.js'
import { show, showOnTerminal, workFolder } from '../work.js'
import { bringPeers } from './bring.js'
import { brokerProgram } from './broker.js'
import { type Options, readOptions } from './options.js'
import { sluice } from './own.js'
import type { JobId, Missing, Peer } from './peer.js'
import { drawPicture } from './picture.js'
import { formatSummary, formatTables, type Pair, rowsOf } from './report.js'
import { type Figures, runJob } from './run.js'
import { type Survey, survey } from './survey.js'

/** `npm run bench:peers`: Sluice beside other log shippers, in turn on one machine. */

interface Failure {
  readonly job: JobId
  readonly peer: Peer
  readonly reason: string
}

/** Where --write-docs puts the jobs. */
const SECTIONS = [
  { name: 'bench:peers', picture: 'peers.svg', rates: true, shows: (job: JobId) => job < 'J5' },
  {
    name: 'bench:peers, destinations',
    picture: 'peers-destinations.svg',
    rates: false,
    shows: (job: JobId) => job >= 'J5',
  },
]

async function main(options: Options): Promise<void> {
  if (process.platform !== 'linux') throw new Error('usage is read from /proc, which only Linux has')
  for (const folder of [options.cache, options.out, options.folder]) mkdirSync(folder, { recursive: true })
  const { peers, missing } = bringPeers(options.peers, options, show)
  const canRun = (job: JobId) => job !== 'J9' || !peers.some(({ tasks }) => tasks[job]) || brokerProgram() !== undefined
  const jobs = options.jobs.filter(canRun)
  if (jobs.length < options.jobs.length) missing.push({ id: 'J9', reason: 'run ".ci/servers bring kafka" first' })
  for (const { id, reason } of missing) process.stderr.write(`${id} is left out: ${reason}\n`)
  const made = (kind: InputKind) => makeInput(options.folder, options.lines, showOnTerminal, kind)
  const input = made('ndjson')
  const accessLog = jobs.includes('J5') ? made('nginx') : undefined
  const work = workFolder(options.folder, 'peers')
  process.once('exit', () => {
    if (options.keep) return
    const paths = [input.path, ...(accessLog ? [accessLog.path] : [])]
    for (const path of paths.flatMap(path => [path, `${path}.json`])) rmSync(path, { force: true })
  })
  const record = recorder(join(options.out, 'peers.jsonl'))
  const machine = describeMachine()
  record({ machine, lines: input.lines, bytes: input.bytes, runs: options.runs, missing })
  const failures: Failure[] = []
  const lines = survey(input)
  const access = accessLog && survey(accessLog)
  const inputOf = (job: JobId) => (job === 'J5' ? access! : lines)
  const pairs = await runPairs({ ...options, jobs }, peers, inputOf, work, record, failures)
  show('')
  const versions = [sluice, ...peers.filter(peer => peer.id !== 'loop')].map(peer => `${peer.title} ${peer.version}`)
  const about = `${input.lines} lines of ${Math.round(input.bytes / input.lines)} bytes; medians of ${options.runs} runs.
${formatMachine(machine)}
${versions.join(', ')}.
`
  const rows = rowsOf(pairs, sluice, input.lines)
  process.stdout.write(`${about}\n${formatTables(rows)}${formatMissing(missing, failures)}`)
  writeFileSync(join(options.out, 'peers.svg'), drawPicture(rows))
  if (options.writeDocs) {
    for (const { name, picture, rates, shows } of SECTIONS) {
      const own = rows.filter(({ job }) => shows(job))
      if (own.length === 0) continue
      const notes = formatMissing(
        missing,
        failures.filter(({ job }) => shows(job)),
      )
      const drawn = `![Lines per second and CPU time, as bars](${picture})`
      writeBetweenMarkers(PERFORMANCE_PAGE, name, `${drawn}\n\n${about}\n${formatSummary(own, { rates })}${notes}`)
      writeFileSync(join(checkout, 'docs', picture), drawPicture(own))
    }
  }
  if (failures.length > 0) process.exitCode = 1
}

async function runPairs(
  { jobs, runs }: Options,
  peers: readonly Peer[],
  inputOf: (job: JobId) => Survey,
  work: string,
  record: (line: object) => void,
  failures: Failure[],
): Promise<Pair[]> {
  const pairs: Pair[] = []
  const run = async (peer: Peer, job: JobId, round: number): Promise<Figures> => {
    show(`run ${round} of ${runs}: ${peer.title}, ${job}`)
    const [load] = loadavg()
    const input = inputOf(job)
    const figures = await runJob(peer, job, input, work)
    const { seconds, cpuSeconds, rssBytes } = figures
    record({
      ...{ job, peer: peer.id, version: peer.version, round, seconds, cpu_seconds: cpuSeconds, rss_bytes: rssBytes },
      ...{ lines_per_second: Math.round(input.lines / seconds), load },
    })
    return figures
  }
  const runPeer = async (peer: Peer, job: JobId, round: number): Promise<Figures | undefined> => {
    try {
      return await run(peer, job, round)
    } catch (error) {
      // Without the temporary folder, which is gone when somebody reads this.
      const reason = (error as Error).message.replaceAll(`${work}/`, '')
      process.stderr.write(`${peer.title} failed on ${job}: ${reason}\n`)
      failures.push({ job, peer, reason })
      record({ job, peer: peer.id, version: peer.version, round, failed: reason })
    }
  }
  for (let round = 1; round <= runs; round++) {
    for (const job of jobs) {
      for (const peer of peers) {
        if (!peer.tasks[job] || failures.some(failure => failure.peer === peer && failure.job === job)) continue
        // In turns, since the second of two may find the memory or the disk faster or slower than the first.
        const peerFirst = round % 2 === 0
        const before = peerFirst ? await runPeer(peer, job, round) : undefined
        const own = await run(sluice, job, round)
        const figures = peerFirst ? before : await runPeer(peer, job, round)
        if (figures) pairs.push({ job, peer, sluice: own, figures })
      }
    }
  }
  return pairs
}

/** Appends to a file of JSON lines, which begins empty. */
function recorder(path: string): (line: object) => void {
  writeFileSync(path, '')
  return line => appendFileSync(path, `${JSON.stringify(line)}\n`)
}

function formatMissing(missing: readonly Missing[], failures: readonly Failure[]): string {
  const lines = [
    ...missing.map(({ id, reason }) => `- ${id} was left out: ${reason.split('\n')[0]}\n`),
    ...failures.map(({ job, peer, reason }) => `- ${peer.title} failed on ${job}: ${reason.split('\n')[0]}\n`),
  ]
  return lines.length === 0 ? '' : `\n${lines.join('')}`
}

await runProgram('bench:peers', async () => main(readOptions()))
