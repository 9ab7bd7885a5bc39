import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programOptions } from '../support/program-options.js'
import { fuzz } from './run.js'

/** `npm run fuzz api`: requests made of the API's own description. Exit code 1 on a problem. */

const USAGE = 'Usage: npm run fuzz api -- [--seed N] [--count N]\n'
const { seed, count } = programOptions({ seed: Math.floor(Math.random() * 2 ** 31), count: 10_000 }, USAGE).options
const folder = mkdtempSync(join(tmpdir(), 'sluice-fuzz-'))
try {
  const begin = performance.now()
  const { statuses, problems } = await fuzz(join(folder, 'state'), seed, count)
  const seconds = ((performance.now() - begin) / 1000).toFixed(1)
  console.log(`seed ${seed}: ${count} requests in ${seconds} s, answered with`, statuses)
  for (const problem of problems.slice(0, 20)) console.error(JSON.stringify(problem))
  console.log(`${problems.length} problems`)
  if (problems.length > 0) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
