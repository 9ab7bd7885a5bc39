import { parseArgs } from 'node:util'
import { scanDifferences } from '../support/scan-differences.js'

/** `npm run fuzz:kernel -- [--seed N] [--count N]`: lines that the kernel and the scan in JavaScript scan. Exit code 1 on a difference. */

const { values } = parseArgs({ options: { seed: { type: 'string' }, count: { type: 'string' } } })
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
const count = Number(values.count ?? 1_000_000)
const begin = performance.now()
const { wrong, objects, undecided } = scanDifferences(seed, count)
const seconds = ((performance.now() - begin) / 1000).toFixed(1)
console.log(`seed ${seed}: ${count} lines in ${seconds} s, ${objects} objects, ${undecided} left to JavaScript`)
for (const text of wrong) console.error(text)
console.log(`${wrong.length} differences`)
if (wrong.length > 0) process.exitCode = 1
