import { fuzzCodecs } from '../support/codec-fuzz.js'
import { programOptions } from '../support/program-options.js'

/** `npm run fuzz codecs`: damaged lines, and lines of 10 MB of bad shapes. Exit code 1 if one is too much for a codec. */

const USAGE = 'Usage: npm run fuzz codecs -- [--seed N] [--rounds N]\n'
const { seed, rounds } = programOptions({ seed: Math.floor(Math.random() * 2 ** 31), rounds: 200 }, USAGE).options
const begin = performance.now()
const { problems, lines } = fuzzCodecs({ seed, rounds, longBytes: 10_000_000 })
console.log(`seed ${seed}: ${lines} lines in ${((performance.now() - begin) / 1000).toFixed(1)} s`)
for (const problem of problems.slice(0, 20)) console.error(problem)
console.log(`${problems.length} problems`)
if (problems.length > 0) process.exitCode = 1
