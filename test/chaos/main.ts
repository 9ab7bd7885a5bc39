import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { checkout } from '../support/checkout.js'
import { inTurns } from '../support/in-turns.js'
import { mayMount } from '../support/mounts.js'
import { NONE, numberOf, programOptions } from '../support/program-options.js'
import { makeCertificates } from './certificates.js'
import { addCounts, formatCounts } from './counts.js'
import { makeScenario } from './generate.js'
import { emptyCounts, type Outcome, run } from './run.js'
import { readScenario, type Scenario } from './scenario.js'
import { shrink } from './shrink.js'
import type { Failure } from './written.js'

/** `npm run chaos`: tries to make the daemon lose, damage, repeat or reorder lines, and tells how far it got. */

const USAGE = `Usage: npm run chaos -- [options]

  --seed N        the first seed (default: 1, or by chance with --minutes)
  --seeds COUNT   how many seeds, one after the other (default: 1)
  --minutes M     as many seeds as fit in this time
  --steps N       steps of each (default: 60)
  --jobs N        how many at the same time (default: 2)
  --replay FILE   one scenario from a file, such as those in test/chaos/cases; with --times N again and again
  --ci            the seeds of continuous integration: a fixed set, nothing is shrunk
  --no-shrink     leaves failing scenarios as they are
  --keep DIR      where failing scenarios are written to (default: test/chaos/cases)
  --folder DIR    where runs have their files (default: ${tmpdir()})

A failing seed is cut down to few steps and kept as a file; the tests run every file in test/chaos/cases.
`
/** Together they have each kind of step, fault and setup of 36 in a row. */
const CI_SEEDS = [1000, 1001, 1004, 1007, 1012, 1020, 1021, 1024, 1025, 1029, 1030, 1032, 1033, 1034]
const CI_STEPS = 60
const PATIENCE_MS = 20_000
/** While a scenario is cut down: how long nothing may happen, and how long that may take. */
const SHRINKING_PATIENCE_MS = 6000
const SHRINKING_MS = 15 * 60_000
/** A failure that depends on the moment is looked for so many times. */
const TRIES = 3

const { options } = programOptions(
  {
    ...{ seed: NONE, seeds: NONE, minutes: 0, steps: 60, jobs: Math.min(2, availableParallelism()) },
    ...{ replay: NONE, times: 1, ci: false, 'no-shrink': false },
    ...{ keep: join(checkout, 'test/chaos/cases'), folder: tmpdir() },
  },
  USAGE,
)

interface Failed {
  readonly scenario: Scenario
  readonly failure: Failure
}

const began = performance.now()
const total = emptyCounts()
const failed: Failed[] = []
let runs = 0
let base = ''

async function perform(scenario: Scenario, patienceMs = PATIENCE_MS): Promise<Outcome & { folder: string }> {
  const folder = join(base, `run-${++runs}`)
  return { ...(await run(scenario, { folder, certificates, patienceMs })), folder }
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

async function runOne(scenario: Scenario): Promise<void> {
  const { failure, counts, ms, folder } = await perform(scenario)
  addCounts(total, counts)
  const { lines, repeated, kills } = counts
  const result = failure ? `FAILED ${failure.kind}: ${failure.message} (${folder})` : 'ok'
  const seconds = (ms / 1000).toFixed(1)
  say(`${scenario.note}: ${result}; ${lines} lines, ${repeated} repeated, ${kills} kills, ${seconds} s`)
  if (failure) failed.push({ scenario, failure })
}

/** All of these, so many at a time. */
function* scenarios(): Generator<Scenario> {
  if (options.replay !== undefined) {
    const scenario = readScenario(options.replay)
    for (let i = 0; i < options.times; i++) yield scenario
    return
  }
  if (options.ci) {
    for (const seed of CI_SEEDS) yield makeScenario(seed, CI_STEPS)
    return
  }
  const { minutes, steps } = options
  const first = numberOf('--seed', options.seed, minutes > 0 ? Date.now() % 1_000_000 : 1)
  const count = numberOf('--seeds', options.seeds, minutes > 0 ? Number.POSITIVE_INFINITY : 1)
  for (let i = 0; i < count; i++) {
    if (minutes > 0 && performance.now() - began > minutes * 60_000) return
    yield makeScenario(first + i, steps)
  }
}

async function cutDown({ scenario, failure }: Failed): Promise<void> {
  const until = performance.now() + SHRINKING_MS
  const fails = async (candidate: Scenario) => {
    for (let i = 0; i < TRIES; i++) {
      const { failure: found, folder } = await perform(candidate, SHRINKING_PATIENCE_MS)
      rmSync(folder, { recursive: true, force: true })
      if (found?.kind === failure.kind) return true
    }
    return false
  }
  say(`cutting down ${scenario.note} (${failure.kind}) ...`)
  const small = await shrink(scenario, fails, () => performance.now() > until)
  const kept = { ...small, note: `${scenario.note}: ${failure.kind}: ${failure.message}` }
  const path = join(resolve(options.keep), `${scenario.note.replace(/\W+/g, '-')}-${failure.kind}.json`)
  mkdirSync(resolve(options.keep), { recursive: true })
  writeFileSync(path, formatScenario(kept))
  say(`${small.steps.length} steps are left of ${scenario.steps.length}: npm run chaos -- --replay ${path}`)
}

/** A step a line. */
function formatScenario({ note, setup, steps }: Scenario): string {
  const lines = steps.map(step => `    ${JSON.stringify(step)}`).join(',\n')
  return `{\n  "note": ${JSON.stringify(note)},\n  "setup": ${JSON.stringify(setup)},\n  "steps": [\n${lines}\n  ]\n}\n`
}

async function main(): Promise<number> {
  if (!certificates) say('left out: TLS (there is no openssl)')
  if (!mayMount()) say('left out: full disks (only root can make small file systems)')
  await inTurns(scenarios(), options.jobs, runOne)
  say(
    `\n${formatCounts(total)}\n${total.runs} runs in ${((performance.now() - began) / 1000).toFixed(0)} s, ${failed.length} failed`,
  )
  for (const { scenario, failure } of failed) say(`  ${scenario.note}: ${failure.kind}: ${failure.message}`)
  if (!options['no-shrink'] && !options.ci && options.replay === undefined) {
    for (const one of failed.slice(0, 5)) await cutDown(one)
  }
  return failed.length > 0 ? 1 : 0
}

// Daemons and small file systems end with this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
process.setMaxListeners(0)
process.stdout.on('error', () => process.exit(1))
base = mkdtempSync(join(resolve(options.folder), 'sluice-chaos-'))
const certificates = makeCertificates(base)
process.exitCode = await main()
// What failed is left there to be looked at.
if (failed.length === 0) rmSync(base, { recursive: true, force: true })
