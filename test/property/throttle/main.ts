import { NONE, numberOf, programOptions } from '../../support/program-options.js'
import { run } from './run.js'
import { ALL_RUNS, scenarioOf } from './scenario.js'
import { shrunken } from './shrink.js'

/** `npm run fuzz throttle`: compares throttles of random options with a simple model. */

const USAGE = `Usage: npm run fuzz throttle -- [options]

  --runs N   how many (default: 10000; ${ALL_RUNS} try every mode with every two options)
  --from N   the first seed (default: 0)
  --seed N   one seed; if it fails, the smallest history that does
`
const MOST_FAILED = 10

const { options } = programOptions({ runs: 10_000, from: 0, seed: NONE }, USAGE)
const say = (text: string) => process.stdout.write(`${text}\n`)

async function explain(seed: number): Promise<boolean> {
  const scenario = scenarioOf(seed)
  const { problems } = await run(scenario)
  if (problems.length === 0) return true
  const smallest = await shrunken(scenario)
  say(JSON.stringify({ ...smallest, steps: undefined }))
  for (const step of smallest.steps) say(`  ${JSON.stringify(step)}`)
  for (const problem of (await run(smallest)).problems) say(`  ${problem}`)
  return false
}

async function main(): Promise<number> {
  if (options.seed !== undefined) {
    const isFine = await explain(numberOf('--seed', options.seed))
    say(`seed ${options.seed}: ${isFine ? 'ok' : 'FAILED'}`)
    return isFine ? 0 : 1
  }
  const { from, runs } = options
  const failed: number[] = []
  let events = 0
  let refused = 0
  for (let seed = from; seed < from + runs && failed.length < MOST_FAILED; seed++) {
    const result = await run(scenarioOf(seed))
    events += result.events
    if (result.refused !== undefined) refused++
    if (result.problems.length === 0) continue
    failed.push(seed)
    say(`seed ${seed} FAILED: ${result.problems[0]}`)
  }
  say(`${runs} runs from seed ${from}, ${events} events, ${refused} refused: ${failed.length} failed`)
  if (failed.length > 0) say(`smallest history of one: npm run fuzz throttle -- --seed ${failed[0]}`)
  return failed.length > 0 ? 1 : 0
}

process.exitCode = await main()
