import { fieldDifferences } from '../support/field-differences.js'
import { lineDifferences } from '../support/line-differences.js'
import { programOptions } from '../support/program-options.js'
import { scanDifferences } from '../support/scan-differences.js'

/** `npm run fuzz kernel`: lines that the kernel and JavaScript read. Exit code 1 on a difference. */

const USAGE = 'Usage: npm run fuzz kernel -- [--seed N] [--count N]\n'
const { seed, count } = programOptions({ seed: Math.floor(Math.random() * 2 ** 31), count: 1_000_000 }, USAGE).options

async function compare(what: string, run: () => { wrong: readonly string[] } | Promise<{ wrong: readonly string[] }>) {
  const begin = performance.now()
  const { wrong, ...counts } = await run()
  const seconds = ((performance.now() - begin) / 1000).toFixed(1)
  console.log(`${what}, seed ${seed}: ${count} lines in ${seconds} s, ${JSON.stringify(counts)}`)
  for (const text of wrong) console.error(text)
  console.log(`${wrong.length} differences`)
  if (wrong.length > 0) process.exitCode = 1
}

await compare('line ends', () => lineDifferences(seed, count / 1000))
await compare('JSON', () => scanDifferences(seed, count))
await compare('access logs', () => fieldDifferences(['nginx', 'apache'], seed, count))
await compare('container logs', () => fieldDifferences(['cri', 'docker_json'], seed, count))
