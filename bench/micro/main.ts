import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkout } from '../../test/support/checkout.js'
import { NONE, programOptions } from '../../test/support/program-options.js'
import { LINES, microBenches, reference } from './stages.js'

/** `npm run bench micro`: what a line costs in each stage, as a ratio to a fixed program that runs in between. */

const BASELINE = join(checkout, 'bench/micro/baseline.json')
/** A ratio that grew by more than this is shown as slower. */
const TOLERANCE = 0.05

const USAGE = `Usage: npm run bench micro -- [options]

  --rounds N     rounds of every stage (default: 200)
  --only LIST    stages, by their ids
  --json         one JSON document instead of a table
  --check        ends with 1 if a stage is slower than in bench/micro/baseline.json by more than ${TOLERANCE * 100} %
  --save         writes the ratios into that file
`

const { options } = programOptions({ rounds: 200, only: NONE, json: false, check: false, save: false }, USAGE)

interface Baseline {
  /** Major version of Node.js. Ratios of other versions cannot be compared. */
  readonly node: string
  readonly ratios: Readonly<Record<string, number>>
}

const major = process.versions.node.split('.')[0]!
const WARM_UP = 30
/** Runs that are timed together, so that the clock does not matter. */
const AT_ONCE = 5

/** Nanoseconds of a run; the least of all rounds, since nothing makes a run faster than it is. */
function timed(run: () => unknown): number {
  const began = process.hrtime.bigint()
  for (let i = 0; i < AT_ONCE; i++) run()
  return Number(process.hrtime.bigint() - began) / AT_ONCE
}

function main(): void {
  const only = options.only?.split(',')
  const benches = microBenches().filter(({ id }) => !only || only.includes(id))
  const least = new Map(benches.map(({ id }) => [id, Number.POSITIVE_INFINITY]))
  let base = Number.POSITIVE_INFINITY
  for (let round = -WARM_UP; round < options.rounds; round++) {
    const now = timed(reference)
    if (round >= 0) base = Math.min(base, now)
    for (const { id, run } of benches) {
      const ns = timed(run)
      if (round >= 0) least.set(id, Math.min(least.get(id)!, ns))
    }
  }
  const known = readBaseline()
  const rows = benches.map(({ id, title }) => {
    const ratio = least.get(id)! / base
    const before = known?.node === major ? known.ratios[id] : undefined
    return { id, title, nsPerLine: least.get(id)! / LINES, ratio, change: before && ratio / before - 1 }
  })
  if (options.json) process.stdout.write(`${JSON.stringify({ node: major, rows }, null, 2)}\n`)
  else {
    process.stdout.write('ns per line   ratio   change since the baseline\n')
    for (const { title, nsPerLine, ratio, change } of rows) {
      const shown = change === undefined ? '' : `${change > 0 ? '+' : ''}${(change * 100).toFixed(1)} %`
      process.stdout.write(
        `${nsPerLine.toFixed(1).padStart(11)} ${ratio.toFixed(4).padStart(7)} ${shown.padStart(8)}   ${title}\n`,
      )
    }
  }
  const ratios = Object.fromEntries(rows.map(({ id, ratio }) => [id, Number(ratio.toPrecision(4))]))
  if (options.save) writeFileSync(BASELINE, `${JSON.stringify({ node: major, ratios } satisfies Baseline, null, 2)}\n`)
  const slower = rows.filter(({ change }) => change !== undefined && change > TOLERANCE)
  if (!options.check || slower.length === 0) return
  process.stderr.write(`slower than the baseline: ${slower.map(({ id }) => id).join(', ')}\n`)
  process.exitCode = 1
}

function readBaseline(): Baseline | undefined {
  try {
    return JSON.parse(readFileSync(BASELINE, 'utf8'))
  } catch {
    return undefined
  }
}

main()
