import { fuzzCodecs } from '../support/codec-fuzz.js'
import { numberOf, programOptions } from '../support/program-options.js'

/** `npm run fuzz:codecs -- [--seed N] [--rounds N]`: damaged lines, and lines of 10 MB of bad shapes. Exit code 1 if one is too much for a codec. */

const { values } = programOptions({ options: { seed: { type: 'string' }, rounds: { type: 'string' } } })
const seed = numberOf('--seed', values.seed, Math.floor(Math.random() * 2 ** 31))
const begin = performance.now()
const { problems, lines } = fuzzCodecs({
  seed,
  rounds: numberOf('--rounds', values.rounds, 200),
  longBytes: 10_000_000,
})
console.log(`seed ${seed}: ${lines} lines in ${((performance.now() - begin) / 1000).toFixed(1)} s`)
for (const problem of problems.slice(0, 20)) console.error(problem)
console.log(`${problems.length} problems`)
if (problems.length > 0) process.exitCode = 1
