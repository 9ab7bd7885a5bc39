import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { checkout } from '../../support/checkout.js'
import { Seeded } from '../../support/seeded.js'
import { compare, compareTexts, type Difference, repeats } from './compare.js'
import { broken, caseOf, corpusOf, findConfigs, hasTests } from './configs.js'
import { call, play, Receiver, write } from './play.js'
import { builtProduct, type Product, presentProduct } from './product.js'
import { makeWorld, type World } from './worlds.js'

/** `npm run same BASE`: runs two products on the same inputs, and says what differs. */

/** Some of them wait. */
const JOBS = availableParallelism() + 1

const USAGE = `Usage: npm run same -- [options] BASE [COMMIT]

Compares BASE with COMMIT; without COMMIT, with this checkout as it is. BASE is a commit, or "base": the commit that all
later ones are compared with. Both run the same configurations on the same inputs: those of config/examples and of the
pages, and random ones. Compared are what arrives, the exit code, the last line of the log, and texts.

  --worlds N   how many random worlds (default: 300)
  --from N     the first of them (default: 1)
  --configs N  at most so many configurations of examples and pages
  --jobs N     how many at the same time (default: ${JOBS})

Differences that were decided are in test/ci/same/decided.json; any other one makes the exit code 1. After Ctrl-C the
differences that were found until then are shown.
`

/** A difference that is meant: the beginning of its cause, where it is (everywhere if that is left out), and why. */
interface Decided {
  readonly cause: string
  readonly in?: readonly string[]
  readonly decision: string
}

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    worlds: { type: 'string', default: '300' },
    from: { type: 'string', default: '1' },
    configs: { type: 'string', default: 'Infinity' },
    jobs: { type: 'string', default: String(JOBS) },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
/** For each configuration. */
const MISTAKES = 20
const MOST_NAMES = 5
const PROGRESS = 50
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

/** Both, one after the other in the same place. */
async function both<T>(products: readonly [Product, Product], run: (product: Product) => Promise<T>): Promise<[T, T]> {
  return [await run(products[0]), await run(products[1])]
}

async function inTurns<T>(all: Iterable<T>, run: (one: T, slot: string) => Promise<void>): Promise<void> {
  const rest = all[Symbol.iterator]()
  const worker = async (_: unknown, slot: number) => {
    for (let next = rest.next(); !next.done && !isStopping; next = rest.next()) await run(next.value, `slot-${slot}`)
  }
  await Promise.all(Array.from({ length: Number(options.jobs) }, worker))
}

/** What `validate` says of all of them, by the name of the file. */
async function validated(product: Product, folder: string, files: readonly string[]): Promise<Map<string, string[]>> {
  const { stdout, stderr } = await call(product, ['validate', ...files], folder).ended
  const said = new Map<string, string[]>()
  for (const line of `${stdout}\n${stderr}`.split('\n').filter(Boolean)) {
    const name = files.find(file => line.startsWith(`${file}:`)) ?? ''
    said.set(name, [...(said.get(name) ?? []), line.slice(name.length)])
  }
  return said
}

const slug = (name: string) => name.replaceAll(/\W+/g, '-')

async function compareAll(products: readonly [Product, Product], scratch: string): Promise<void> {
  const receiver = await new Receiver().listen()
  const configs = findConfigs()
  const corpus = corpusOf(configs)
  const some = configs.slice(0, Number(options.configs))

  const texts = new Map(some.map(config => [`${slug(config.name)}.yaml`, config.text]))
  for (const [n, config] of some.entries())
    for (let i = 0; i < MISTAKES; i++)
      texts.set(`${slug(config.name)}-mistake-${i}.yaml`, broken(config, new Seeded(n * 1000 + i)))
  const folder = join(scratch, 'validate')
  mkdirSync(folder)
  write(folder, Object.fromEntries(texts))
  const names = [...texts.keys()]
  const [before, after] = await both(products, product => validated(product, folder, names))
  for (const name of [...names, '']) note(name, compareTexts('validate', before.get(name) ?? [], after.get(name) ?? []))
  say(`${names.length} configurations validated, ${names.length - some.length} of them with a mistake (${seconds()})`)

  const tested = some.filter(hasTests)
  await inTurns(tested, async ({ name, text, files }, slot) => {
    const folder = join(scratch, slot)
    write(folder, { ...files, 'sluice.yaml': text })
    const said = await both(products, product => call(product, ['test', 'sluice.yaml'], folder).ended)
    rmSync(folder, { recursive: true })
    const [one, other] = said.map(({ exit, stdout, stderr }) => `${stdout}${stderr}exit code ${exit}`.split('\n'))
    // One line leads to others.
    note(name, compareTexts('test', one!, other!).slice(0, 1))
  })
  say(`the tests of ${tested.length} configurations run (${seconds()})`)

  const cases = some.flatMap(config => caseOf(config, corpus) ?? [])
  const worlds = Array.from({ length: Number(options.worlds) }, (_, i) => makeWorld(Number(options.from) + i, corpus))
  let done = 0
  let arrivals = 0
  const repeated = [0, 0]
  await inTurns([...cases, ...worlds], async (one, slot) => {
    const rules = { isKilled: false, isUnordered: false, ...(one as Partial<World>) }
    const outcomes = await both(products, product => play(product, one, join(scratch, slot), receiver))
    if (outcomes[0].outputs.size > 0) arrivals++
    if (rules.isKilled) for (const [i, outcome] of outcomes.entries()) repeated[i]! += repeats(outcome)
    note(one.name, compare(...outcomes, rules))
    if (++done % PROGRESS === 0) process.stderr.write(`${done} of ${cases.length + worlds.length} run (${seconds()})\n`)
  })
  say(`${done} of ${cases.length} configurations and ${worlds.length} worlds run, in ${arrivals} something arrived`)
  say(`lines that were repeated after kills: ${repeated[0]} and ${repeated[1]} (${seconds()})`)
}

/** What is about the first character that is another one. */
function shown(text: string, other: string): string {
  const at = [...text].findIndex((character, i) => character !== other[i])
  const from = at < MOST_CHARACTERS / 2 ? 0 : at - MOST_CHARACTERS / 4
  return `${from > 0 ? '…' : ''}${text.slice(from, from + MOST_CHARACTERS)}`
}

/** Returns how many differences nobody has decided. */
function report(decided: readonly Decided[]): number {
  const titles = { output: 'What arrives', end: 'Exit code and last line of the log', text: 'Texts' }
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
      if (decision !== undefined) say(`    decided: ${decision}`)
    }
  }
  return [...found.values()].filter(({ difference }) => decisionOf(difference) === undefined).length
}

async function main(): Promise<number> {
  const [base, commit] = positionals
  if (options.help || base === undefined) {
    say(USAGE.trimEnd())
    return options.help ? 0 : 2
  }
  const scratch = mkdtempSync(join(tmpdir(), 'sluice-same-'))
  try {
    const present = join(scratch, 'present')
    mkdirSync(present)
    const products = [
      builtProduct(base),
      commit === undefined ? presentProduct(present) : builtProduct(commit),
    ] as const
    say(`${products[0].name} and ${products[1].name}`)
    await compareAll(products, scratch)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
  const decided = JSON.parse(readFileSync(join(checkout, 'test/ci/same/decided.json'), 'utf8')) as Decided[]
  const open = report(decided)
  say(`\n${found.size} differences, ${open} of them not decided (${seconds()})`)
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
