import './globals.js'
import './patched-fs.js'
import { NONE, numberOf, programOptions } from '../support/program-options.js'
import type { Result } from './run.js'

/** `npm run sim`: runs the engine on a simulated machine, from seeds, and says which seeds break an invariant. */

const USAGE = `Usage: npm run sim -- [options]

  --seeds N     how many seeds (default: 5000)
  --from N      the first one (default: 1)
  --seconds N   as many seeds as fit in this time
  --seed N      one seed, with a trace of all that happened
  --fingerprints  says of each seed what is the same whenever it runs
  --files       the file source alone, on logs that are written and rotated
  --trace       with --files: what happened in each seed that fails
`

const { options } = programOptions(
  { seeds: NONE, from: 1, seconds: 0, seed: NONE, fingerprints: false, files: false, trace: false },
  USAGE,
)
const REPORT_EVERY_MS = 10_000
const MOST_FAILED = 50

const say = (text: string) => process.stdout.write(`${text}\n`)
const real = performance.now.bind(performance)

const lastLine = ({ seed, violations, fingerprint }: Result) =>
  `seed ${seed}: ${violations.length > 0 ? 'FAILED' : 'ok'}; ${fingerprint}`

async function main(): Promise<number> {
  return options.files ? await files() : await engine()
}

async function files(): Promise<number> {
  const { runFiles, traceFiles } = await import('./files/main.js')
  const { seed, from, seconds, trace, fingerprints } = options
  if (seed !== undefined) return await traceFiles(numberOf('--seed', seed))
  const seeds = numberOf('--seeds', options.seeds, seconds > 0 ? Number.POSITIVE_INFINITY : 2000)
  const until = seconds > 0 ? real() + seconds * 1000 : Number.POSITIVE_INFINITY
  return await runFiles({ from, seeds, until, traces: trace, fingerprints })
}

async function engine(): Promise<number> {
  const { runSeed } = await import('./run.js')
  if (options.seed !== undefined) {
    const result = await runSeed(numberOf('--seed', options.seed), true)
    for (const line of result.trace) say(line)
    for (const text of result.violations) say(`VIOLATION ${text}`)
    say(lastLine(result))
    return result.violations.length > 0 ? 1 : 0
  }
  const { from, seconds } = options
  const limit = numberOf('--seeds', options.seeds, seconds > 0 ? Number.POSITIVE_INFINITY : 5000)
  const until = seconds > 0 ? real() + seconds * 1000 : Number.POSITIVE_INFINITY
  const began = real()
  let reported = began
  let failed = 0
  let seeds = 0
  let tasks = 0
  const faults = new Map<string, number>()
  const rate = () => Math.round((seeds / (real() - began)) * 60_000)
  for (; seeds < limit && real() < until && failed < MOST_FAILED; seeds++) {
    const result = await runSeed(from + seeds)
    tasks += result.tasks
    for (const [kind, count] of result.faults) faults.set(kind, (faults.get(kind) ?? 0) + count)
    if (options.fingerprints) say(lastLine(result))
    if (result.violations.length > 0) {
      failed++
      say(
        `seed ${result.seed}: ${result.violations[0]!.split('\n').slice(0, 6).join('\n')}\n  npm run sim -- --seed ${result.seed}`,
      )
    }
    if (real() - reported > REPORT_EVERY_MS) {
      reported = real()
      say(`${seeds} seeds, ${failed} failed, ${rate()} a minute`)
    }
  }
  const counts = [...faults].sort(([, a], [, b]) => b - a).map(([kind, count]) => `${count} × ${kind}`)
  say(`faults: ${counts.join(', ')}`)
  const heap = Math.round(process.memoryUsage().rss / 1024 / 1024)
  say(`${seeds} seeds, ${failed} failed, ${rate()} a minute; ${Math.round(tasks / seeds)} steps a seed; ${heap} MB`)
  return failed > 0 ? 1 : 0
}

process.exitCode = await main()
