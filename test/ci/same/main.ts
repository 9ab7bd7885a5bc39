import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { EXIT } from '../../../src/daemon/process/dispatch.js'
import { checkout } from '../../support/checkout.js'
import { inTurns } from '../../support/in-turns.js'
import { programOptions } from '../../support/program-options.js'
import { Seeded } from '../../support/seeded.js'
import { compare, compareTexts, type Difference, repeats } from './compare.js'
import { broken, caseOf, corpusOf, findConfigs, hasTests } from './configs.js'
import { call, play, Receiver, write } from './play.js'
import { builtProduct, type Product, presentProduct } from './product.js'
import { makeWorld, type World } from './worlds.js'

/** `npm run same BASE`: runs two builds of the program on the same inputs and shows their differences. */

/** Some programs only wait. */
const JOBS = availableParallelism() + 1

const USAGE = `Usage: npm run same -- [options] BASE [COMMIT]

Compares BASE with COMMIT, or with this checkout as it is. BASE is a commit, or "base" for the commit that all later ones
are compared with. Both run the configurations of config/examples and of the pages, and random ones, on the same inputs.
The output, the exit code, the last line of the log and texts are compared.

  --worlds N   number of random configurations (default: 300)
  --from N     seed of the first one (default: 1)
  --every N    one in N configurations of examples and pages, others each day (default: all)
  --mistakes N number of mistakes that \`validate\` is to find in each of them, one at a time (default: 20)
  --jobs N     number of programs at the same time (default: ${JOBS})

test/ci/same/decided.json lists intended differences. The exit code is 1 if there are others. Ctrl-C ends the comparison
and shows the differences found so far.
`

/** An intended difference. */
interface Decided {
  /** Beginning of its cause. */
  readonly cause: string
  /** Parts of the names of cases; all cases if left out. */
  readonly in?: readonly string[]
  readonly decision: string
}

const { options, operands } = programOptions({ worlds: 300, from: 1, every: 1, mistakes: 20, jobs: JOBS }, USAGE, true)
const MISTAKE = '-mistake-'
/** Per call of `validate`. */
const FILES = 100
const MOST_NAMES = 5
const PROGRESS = 50
const DAY_MS = 86_400_000
const MOST_CHARACTERS = 300

const say = (text: string) => process.stdout.write(`${text}\n`)
const began = performance.now()
const seconds = () => `${((performance.now() - began) / 1000).toFixed(0)} s`

const found = new Map<string, { difference: Difference; names: string[] }>()
function note(name: string, differences: readonly Difference[]): void {
  for (const difference of differences) {
    const { names } = found.get(difference.cause) ?? { names: [] }
    found.set(difference.cause, { difference, names: [...names, name] })
  }
}

/** Runs both in turn, because they use the same paths. */
async function both<T>(products: readonly [Product, Product], run: (product: Product) => Promise<T>): Promise<[T, T]> {
  return [await run(products[0]), await run(products[1])]
}

/** Ctrl-C leaves out the others. */
const unlessStopping = <T>(all: Iterable<T>, run: (one: T, slot: string) => Promise<void>) =>
  inTurns(all, options.jobs, async (one, slot) => {
    if (!isStopping) await run(one, `slot-${slot}`)
  })

/** Returns the output of `validate` by the name of the file. */
async function validated(product: Product, folder: string, files: readonly string[]): Promise<Map<string, string[]>> {
  const { stdout, stderr } = await call(product, ['validate', ...files], folder).ended
  const said = new Map<string, string[]>()
  for (const line of `${stdout}\n${stderr}`.split('\n').filter(Boolean)) {
    // The sum of all files, which are compared one by one.
    if (/^\d+ errors?, \d+ warnings?$/.test(line)) continue
    const name = files.find(file => line.startsWith(`${file}:`)) ?? ''
    said.set(name, [...(said.get(name) ?? []), line.slice(name.length)])
  }
  return said
}

const verdict = (said: readonly string[]) => (said.every(line => line.includes(': warning: ')) ? 'valid' : 'refused')

const slug = (name: string) => name.replaceAll(/\W+/g, '-')

async function compareAll(products: readonly [Product, Product], scratch: string): Promise<void> {
  const receiver = await new Receiver().listen()
  const configs = findConfigs()
  const corpus = corpusOf(configs)
  const today = Math.floor(Date.now() / DAY_MS)
  const some = configs.filter((_, i) => (i + today) % options.every === 0)

  const texts = new Map(some.map(config => [`${slug(config.name)}.yaml`, config.text]))
  for (const [n, config] of some.entries())
    for (let i = 0; i < options.mistakes; i++)
      texts.set(`${slug(config.name)}${MISTAKE}${i}.yaml`, broken(config, new Seeded(n * 1000 + i)))
  const folder = join(scratch, 'validate')
  mkdirSync(folder)
  write(folder, Object.fromEntries(texts))
  const names = [...texts.keys()]
  const parts = Array.from({ length: Math.ceil(names.length / FILES) }, (_, i) =>
    names.slice(i * FILES, (i + 1) * FILES),
  )
  await unlessStopping(parts, async part => {
    const [before, after] = await both(products, product => validated(product, folder, part))
    for (const name of [...part, '']) {
      const [one, other] = [before, after].map(said => said.get(name) ?? [])
      // With a mistake, each version has words of its own.
      const isBroken = name.includes(MISTAKE)
      note(name, compareTexts('validate', isBroken ? [verdict(one!)] : one!, isBroken ? [verdict(other!)] : other!))
    }
  })
  say(`${names.length} configurations validated, ${names.length - some.length} of them with a mistake (${seconds()})`)

  const tested = some.filter(hasTests)
  await unlessStopping(tested, async ({ name, text, files }, slot) => {
    const folder = join(scratch, slot)
    write(folder, { ...files, 'sluice.yaml': text })
    const said = await both(products, product => call(product, ['test', 'sluice.yaml'], folder).ended)
    rmSync(folder, { recursive: true })
    const [one, other] = said.map(({ exit, stdout, stderr }) => `${stdout}${stderr}exit code ${exit}`.split('\n'))
    // A failed test prints many lines, which have one cause.
    note(name, compareTexts('test', one!, other!).slice(0, 1))
  })
  say(`the tests of ${tested.length} configurations run (${seconds()})`)

  const cases = some.flatMap(config => caseOf(config, corpus) ?? [])
  const worlds = Array.from({ length: options.worlds }, (_, i) => makeWorld(options.from + i, corpus))
  let done = 0
  let arrivals = 0
  const repeated = [0, 0]
  await unlessStopping([...cases, ...worlds], async (one, slot) => {
    const rules = { isKilled: false, ...(one as Partial<World>), isUnordered: one.isUnordered }
    const playOn = (product: Product) => play(product, one, join(scratch, slot), receiver)
    const before = await playOn(products[0])
    // `validate` compares what is refused.
    if (before.exits.includes(EXIT.config)) return
    const outcomes = [before, await playOn(products[1])] as const
    // A signal of the terminal reaches the programs, too.
    if (isStopping) return
    if (outcomes[0].outputs.size > 0) arrivals++
    if (rules.isKilled) for (const [i, outcome] of outcomes.entries()) repeated[i]! += repeats(outcome)
    note(one.name, compare(...outcomes, rules))
    if (++done % PROGRESS === 0) process.stderr.write(`${done} of ${cases.length + worlds.length} run (${seconds()})\n`)
  })
  say(`${done} runs of ${cases.length} configurations and ${worlds.length} worlds; ${arrivals} had output`)
  say(`lines repeated after kills: ${repeated[0]} and ${repeated[1]} (${seconds()})`)
}

/** Returns the part of the text around the first difference. */
function shown(text: string, other: string): string {
  const at = [...text].findIndex((character, i) => character !== other[i])
  const from = at < MOST_CHARACTERS / 2 ? 0 : at - MOST_CHARACTERS / 4
  return `${from > 0 ? '…' : ''}${text.slice(from, from + MOST_CHARACTERS)}`
}

/** Prints all differences and returns the number of unintended ones. */
function report(decided: readonly Decided[]): number {
  const titles = { output: 'Output', end: 'Exit code and last line of the log', text: 'Texts' }
  const decisionOf = ({ cause }: Difference) => {
    const own = decided.filter(one => cause.startsWith(one.cause))
    const isCovered = (name: string) => own.some(one => one.in?.some(part => name.includes(part)) ?? true)
    return found.get(cause)!.names.every(isCovered) ? own.map(({ decision }) => decision).join('; ') : undefined
  }
  for (const [kind, title] of Object.entries(titles)) {
    const groups = [...found.values()].filter(({ difference }) => difference.kind === kind)
    say(`\n${title}: ${groups.length === 0 ? 'no difference' : `${groups.length} differences`}`)
    for (const { difference, names } of groups.sort((a, b) => b.names.length - a.names.length)) {
      const decision = decisionOf(difference)
      say(`\n  ${difference.cause}`)
      say(`    - ${shown(difference.base, difference.now)}\n    + ${shown(difference.now, difference.base)}`)
      say(`    ${names.length} times: ${[...new Set(names)].slice(0, MOST_NAMES).join(', ')}`)
      if (decision !== undefined) say(`    intended: ${decision}`)
    }
  }
  return [...found.values()].filter(({ difference }) => decisionOf(difference) === undefined).length
}

async function main(): Promise<number> {
  const [base, commit] = operands
  if (base === undefined) {
    say(USAGE.trimEnd())
    return 2
  }
  const scratch = mkdtempSync(join(tmpdir(), 'sluice-same-'))
  process.once('exit', () => rmSync(scratch, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 }))
  const present = join(scratch, 'present')
  mkdirSync(present)
  const products = [builtProduct(base), commit === undefined ? presentProduct(present) : builtProduct(commit)] as const
  say(`${products[0].name} and ${products[1].name}`)
  await compareAll(products, scratch)
  const decided = JSON.parse(readFileSync(join(checkout, 'test/ci/same/decided.json'), 'utf8')) as Decided[]
  const open = report(decided)
  say(`\n${found.size} differences, ${open} of them not intended (${seconds()})`)
  return open > 0 ? 1 : 0
}

let isStopping = false
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    if (isStopping) process.exit(130)
    isStopping = true
  })
process.setMaxListeners(0)
process.exitCode = await main()
