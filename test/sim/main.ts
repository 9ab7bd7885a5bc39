import './globals.js'
import './patched-fs.js'
import { NONE, numberOf, programOptions } from '../support/program-options.js'
import type { Outcome } from './simulation.js'

/** `npm run sim`: runs the engine, or the file source, on a simulated machine, from seeds, and says which seeds break an invariant. */

const USAGE = `Usage: npm run sim -- [options]

  --seeds N     how many seeds (default: 5000; with --files 2000)
  --from N      the first one (default: 1)
  --seconds N   as many seeds as fit in this time
  --seed N      one seed, with a trace of all that happened; N,N… several without
  --fingerprints  says of each seed what is the same whenever it runs
  --files       the file source alone, on logs that are written and rotated
  --errors      with --files: single calls fail
  --trace       what happened in each seed that fails
`

const { options } = programOptions(
  { seeds: NONE, from: 1, seconds: 0, seed: NONE, fingerprints: false, files: false, errors: false, trace: false },
  USAGE,
)
const REPORT_EVERY_MS = 10_000
const MOST_FAILED = 50
const MOST_VIOLATIONS = 4

const say = (text: string) => process.stdout.write(`${text}\n`)
const real = performance.now.bind(performance)

const named = ({ seed, kind }: Outcome) => `seed ${seed}${kind === undefined ? '' : ` (${kind})`}`
const lastLine = (result: Outcome) =>
  `${named(result)}: ${result.violations.length > 0 ? 'FAILED' : 'ok'}; ${result.fingerprint}`

async function main(): Promise<number> {
  const { seed, from, seconds, files, errors, trace, fingerprints } = options
  const simulation = files ? (await import('./files/files.js')).files(errors) : (await import('./engine.js')).engine()
  if (seed !== undefined) {
    const seeds = seed.split(',')
    let code = 0
    for (const one of seeds) {
      const result = await simulation.run(numberOf('--seed', one), seeds.length === 1)
      for (const line of result.trace) say(line)
      for (const text of result.violations) say(`VIOLATION ${text}`)
      say(lastLine(result))
      if (result.violations.length > 0) code = 1
    }
    return code
  }
  const seeds = numberOf('--seeds', options.seeds, seconds > 0 ? Number.POSITIVE_INFINITY : simulation.seeds)
  const began = real()
  const until = seconds > 0 ? began + seconds * 1000 : Number.POSITIVE_INFINITY
  let [done, failed, reported] = [0, 0, began]
  const total = () => {
    const rate = (done / (real() - began)) * 1000
    return `${done} seeds, ${failed} failed, ${rate.toFixed(1)} a second; ${simulation.total()}`
  }
  for (; done < seeds && real() < until && failed < MOST_FAILED; done++) {
    const result = await simulation.run(from + done)
    if (fingerprints) say(lastLine(result))
    if (result.violations.length > 0) {
      failed++
      sayFailed(result)
      if (trace) for (const line of (await simulation.run(result.seed, true)).trace) say(line)
    }
    if (real() - reported > REPORT_EVERY_MS) {
      reported = real()
      say(total())
    }
  }
  for (const line of simulation.lines()) say(line)
  say(total())
  return failed > 0 ? 1 : 0
}

function sayFailed(result: Outcome): void {
  say(`${named(result)}:`)
  for (const text of result.violations.slice(0, MOST_VIOLATIONS)) say(`  ${text.split('\n').slice(0, 6).join('\n')}`)
  const kind = `${options.files ? '--files ' : ''}${options.errors ? '--errors ' : ''}`
  say(`  npm run sim -- ${kind}--seed ${result.seed}`)
}

process.exitCode = await main()
