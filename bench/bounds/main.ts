import { tmpdir } from 'node:os'
import { programOptions, runProgram } from '../../test/support/program-options.js'
import { makeInput } from '../input.js'
import { describeMachine, formatMachine } from '../machine.js'
import { built, measure } from '../measure.js'
import { loop, sluice } from '../peers/own.js'
import { JOBS, type JobId, type Peer } from '../peers/peer.js'
import { type Figures, runJob } from '../peers/run.js'
import { survey } from '../peers/survey.js'
import { show, showOnTerminal, workFolder } from '../work.js'

/** `npm run bench bounds`: what any program in Node.js takes for a job, and what Sluice adds, for ever longer inputs. */

const USAGE = `Usage: npm run bench bounds -- [options]

Measures loops that do the least for a job, and Sluice. Needs Linux.

  --lines LIST   lines of the inputs (default: 1000,2000000,8000000)
  --runs N       runs of each program (default: 6)
  --folder DIR   where inputs and outputs go (default: ${tmpdir()})
  --json         one JSON document instead of tables
`

const { options } = programOptions({ lines: '1000,2000000,8000000', runs: 6, folder: tmpdir(), json: false }, USAGE)

/** Loops of least.ts, by the job that they do. */
const least = (modes: Readonly<Partial<Record<JobId, string>>>, title: string): Peer => ({
  ...loop,
  id: `loop-${Object.values(modes)[0]}`,
  title,
  tasks: Object.fromEntries(Object.keys(modes).map(job => [job, { output: 'raw' }])),
  command: ({ job, input, out, port }) => ({
    file: process.execPath,
    args: [built('./bounds/least.js'), modes[job]!, input, out, String(port)],
  }),
})

const programs: readonly Peer[] = [
  loop,
  least({ J1: 'plain' }, 'the same, with a block from Buffer.allocUnsafe'),
  least({ J1: 'lines' }, 'bare loop that finds lines'),
  least({ J1: 'streams' }, 'the same, through three streams of Node.js'),
  least({ J1: 'deliver', J3: 'post' }, 'bare loop that finds lines, reads ahead and saves its position'),
  sluice,
]
const jobs: readonly JobId[] = ['J1', 'J3']

/** What is first in one round is last in the next, so that none always runs after the same other. */
const inTurn = (round: number) => (round % 2 === 1 ? programs : [...programs].reverse())

interface Result extends Figures {
  readonly job: JobId
  readonly lines: number
  readonly title: string
}

async function results(counts: readonly number[], runs: number): Promise<Result[]> {
  const work = workFolder(options.folder, 'bounds')
  const all: Result[] = []
  for (const lines of counts) {
    const input = survey(makeInput(work, lines, showOnTerminal))
    for (const job of jobs) {
      const measured = new Map<Peer, Figures[]>()
      for (let round = 1; round <= runs; round++)
        for (const peer of inTurn(round).filter(({ tasks }) => tasks[job])) {
          show(`${job}, ${lines} lines, run ${round} of ${runs}: ${peer.title}`)
          measured.set(peer, [...(measured.get(peer) ?? []), await runJob(peer, job, input, work)])
        }
      for (const peer of programs) {
        const figures = measured.get(peer)
        if (!figures) continue
        const { title } = peer
        const of = (field: keyof Figures) => Math.min(...figures.map(figure => figure[field]))
        all.push({ job, lines, title, seconds: of('seconds'), cpuSeconds: of('cpuSeconds'), rssBytes: of('rssBytes') })
      }
    }
  }
  show('')
  return all
}

/** The kernel counts CPU time in hundredths of a second: ratios to less than this say nothing. */
const LEAST_CPU_SECONDS = 0.05
const HEAD = `| lines | program | seconds | CPU s | peak RSS | lines/s to those of the loop | CPU to that of the loop |
|---:|:---|---:|---:|---:|---:|---:|
`

function table(job: JobId, all: readonly Result[]): string {
  const rows = all.map(({ lines, title, seconds, cpuSeconds, rssBytes }) => {
    const bare = all.find(other => other.lines === lines && other.title === loop.title)!
    const isShort = bare.cpuSeconds < LEAST_CPU_SECONDS
    const ratios = isShort ? ['', ''] : [(bare.seconds / seconds).toFixed(2), (cpuSeconds / bare.cpuSeconds).toFixed(2)]
    const used = [seconds.toFixed(2), cpuSeconds.toFixed(2), `${Math.round(rssBytes / 1e6)} MB`]
    return `| ${[lines.toLocaleString('en'), title, ...used, ...ratios].join(' | ')} |\n`
  })
  return `**${job}, ${JOBS[job]}**\n\n${HEAD}${rows.join('')}`
}

/** What each further million lines take, by the two longest inputs: a start, and code that is not compiled yet, count in none. */
function growth(job: JobId, all: readonly Result[]): string {
  const [less, lines] = [...new Set(all.map(one => one.lines))].slice(-2)
  if (lines === undefined) return ''
  const of = (title: string) => {
    const [long, short] = [lines, less].map(count => all.find(one => one.lines === count && one.title === title)!)
    return { seconds: long!.seconds - short!.seconds, cpuSeconds: long!.cpuSeconds - short!.cpuSeconds }
  }
  const bare = of(loop.title)
  const rows = programs
    .filter(({ tasks }) => tasks[job])
    .map(({ title }) => {
      const own = of(title)
      return `| ${title} | ${(bare.seconds / own.seconds).toFixed(2)} | ${(own.cpuSeconds / bare.cpuSeconds).toFixed(2)} |\n`
    })
  return `
From ${less!.toLocaleString('en')} lines to ${lines.toLocaleString('en')}, without what comes once:

| program | lines/s to those of the loop | CPU to that of the loop |
|:---|---:|---:|
${rows.join('')}`
}

async function main(): Promise<void> {
  const counts = options.lines.split(',').map(Number)
  if (counts.some(lines => !(lines >= 1000))) throw new Error('--lines must be numbers of at least 1000')
  const machine = describeMachine()
  const empty = await measure(['-e', '0'])
  const all = await results(counts, options.runs)
  const tables = jobs.map(job => {
    const own = all.filter(result => result.job === job)
    return `${table(job, own)}${growth(job, own)}`
  })
  const text = `The least of ${options.runs} runs each, since whatever else the machine does only adds to it.
${formatMachine(machine)}
\`node -e 0\`, which every one of these programs begins with, takes ${empty.cpuSeconds.toFixed(2)} s of CPU time and ${Math.round(empty.rssBytes / 1e6)} MB.

${tables.join('\n')}`
  process.stdout.write(options.json ? `${JSON.stringify({ machine, empty, results: all })}\n` : text)
}

await runProgram('bench bounds', main)
