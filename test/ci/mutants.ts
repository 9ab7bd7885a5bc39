import { spawn } from 'node:child_process'
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { built, checkout } from '../support/checkout.js'
import { NONE, numberOf, programOptions } from '../support/program-options.js'
import { Seeded } from '../support/seeded.js'
import { drawn } from './drawn-mutants.js'

/** `npm run mutants`: makes the small changes of the source that mutants.yaml lists, and runs the test that must fail. */

const USAGE = `Usage: npm run mutants -- [options]

  --check         only check that every mutant still applies
  --only NAME     the mutants of this group, or the one with this id; can be repeated
  --some N        N of those that must be killed, chosen by the seed
  --seed TEXT     the seed of --some and --draw (default: the date)
  --draw N FILES  print N new mutants at places of these files that the seed draws
`

/** How many times as long as without a mutant a test may take before it counts as hanging. */
const SLOWER = 5
const LEAST_LIMIT_MS = 15_000
const JOBS = 2

/** The head of the list describes it. Paths are relative to the checkout. */
interface Mutant {
  readonly id: string
  readonly file: string
  readonly text: string
  readonly by?: string
  readonly test: string
  readonly from?: string
  readonly survives?: string
}

/** By group and promise. */
type List = Record<string, Record<string, readonly Mutant[]>>

interface Listed extends Mutant {
  readonly group: string
  readonly promise: string
}

type Outcome = { readonly killed: boolean; readonly hung: boolean; readonly ms: number }

const say = (text: string) => process.stdout.write(`${text}\n`)
const read = (path: string) => readFileSync(join(checkout, path), 'utf8')
const isWeb = (path: string) => path.startsWith('src/page/web/')
const compiled = (path: string) => (isWeb(path) ? 'src/page/web/bundle/page.js' : path.replace(/ts$/, 'js'))
const { transformSync } = createRequire(import.meta.url)('@swc/wasm-typescript')

/** The code with the change, as it is built. */
async function mutated({ file, text, by = '' }: Mutant): Promise<string> {
  const source = read(file)
  const occurs = source.split(text).length - 1
  if (occurs !== 1) throw new Error(`the text occurs ${occurs} times in ${file}, not once`)
  // Not a pattern: a `$` has no meaning.
  const changed = source.replace(text, () => by)
  if (isWeb(file)) return bundled(file, changed)
  return transformSync(changed, { mode: 'strip-only', module: true, filename: file }).code
}

/** The script of the page with another source in the place of one. */
async function bundled(file: string, source: string): Promise<string> {
  const { build } = await import('esbuild')
  const { outputFiles } = await build({
    entryPoints: { page: join(checkout, 'src/page/web/page/main.tsx') },
    outdir: 'bundle',
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'silent',
    plugins: [
      {
        name: 'mutant',
        setup: ({ onLoad }) =>
          onLoad({ filter: /\.tsx?$/ }, ({ path }) =>
            path === join(checkout, file) ? { contents: source, loader: 'tsx' } : undefined,
          ),
      },
    ],
  })
  return outputFiles.find(({ path }) => path.endsWith('.js'))!.text
}

/** What is wrong with the list. */
async function problems(list: readonly Listed[]): Promise<string[]> {
  const ids = new Set<string>()
  const all: string[] = []
  for (const mutant of list) {
    const found: string[] = []
    if (ids.has(mutant.id)) found.push('another mutant has this id')
    ids.add(mutant.id)
    if (!existsSync(join(checkout, mutant.test))) found.push(`there is no ${mutant.test}`)
    if (mutant.text === mutant.by) found.push('it changes nothing')
    try {
      await mutated(mutant)
    } catch (error) {
      found.push((error as Error).message ?? String(error))
    }
    all.push(...found.map(problem => `${mutant.id}: ${problem}`))
  }
  return all
}

/** A copy of the checkout in which one built file can differ. Tests may write there. */
class Copy {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-mutants-'))

  constructor() {
    for (const name of readdirSync(checkout)) {
      if (name !== 'dist' && name !== '.git' && name !== '.tap')
        symlinkSync(join(checkout, name), join(this.folder, name))
    }
    this.#link(built, join(this.folder, 'dist'))
  }

  #link(from: string, to: string): void {
    mkdirSync(to)
    for (const entry of readdirSync(from, { withFileTypes: true })) {
      const paths = [join(from, entry.name), join(to, entry.name)] as const
      if (entry.isDirectory()) this.#link(...paths)
      else linkSync(...paths)
    }
  }

  /** Runs a test with other code in the place of a source. */
  async run(test: string, limit: number, file?: string, code?: string): Promise<Outcome> {
    const path = file && join(this.folder, 'dist', compiled(file))
    if (path) {
      unlinkSync(path)
      writeFileSync(path, code!)
    }
    try {
      return await this.#run(join('dist', compiled(test)), limit)
    } finally {
      if (path) {
        unlinkSync(path)
        linkSync(join(built, compiled(file)), path)
      }
    }
  }

  #run(path: string, limit: number): Promise<Outcome> {
    const began = performance.now()
    // A group of its own, with the programs that it starts.
    // CI: with the tests that take long.
    const env = { ...process.env, CI: 'true', TAP_TIMEOUT: '600', TAP_BAIL: '1' }
    const child = spawn(process.execPath, [path], { cwd: this.folder, env, stdio: 'ignore', detached: true })
    let hung = false
    const end = () => {
      try {
        process.kill(-child.pid!, 'SIGKILL')
      } catch {
        // All of it has ended.
      }
    }
    const timer = setTimeout(() => {
      hung = true
      end()
    }, limit)
    process.prependOnceListener('exit', end)
    return new Promise((resolve, reject) => {
      child.on('error', reject).on('exit', code => {
        clearTimeout(timer)
        end()
        process.removeListener('exit', end)
        resolve({ killed: code !== 0, hung, ms: performance.now() - began })
      })
    })
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 })
  }
}

/** Runs the mutants. Returns how many live that should not, or could not be judged. */
async function run(list: readonly Listed[]): Promise<number> {
  const copies: Copy[] = []
  const remove = () => {
    for (const copy of copies) copy.remove()
  }
  process.once('exit', remove)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  /** The test as it is: a red one kills nothing. */
  const unchanged = new Map<string, Promise<Outcome>>()
  const left = [...list]
  const sums = { killed: 0, hung: 0, survived: 0, wrong: 0 }
  const judge = async (mutant: Listed, copy: Copy) => {
    const { id, test, file, survives, promise } = mutant
    let first = unchanged.get(test)
    if (!first) unchanged.set(test, (first = copy.run(test, 600_000)))
    const { killed: red, ms } = await first
    if (red) {
      sums.wrong++
      return say(`RED       ${id}: ${test} fails without a mutant`)
    }
    const outcome = await copy.run(test, Math.max(LEAST_LIMIT_MS, SLOWER * ms), file, await mutated(mutant))
    const seconds = `${(outcome.ms / 1000).toFixed(1)} s`
    if (outcome.killed) {
      sums.killed++
      if (outcome.hung) sums.hung++
      const how = outcome.hung ? `, by a hang of ${test}` : ''
      say(`killed    ${id}, ${seconds}${how}${survives ? `; but it is listed as surviving: ${survives}` : ''}`)
    } else if (survives) {
      sums.survived++
      say(`survives  ${id}, ${seconds}: ${survives}`)
    } else {
      sums.wrong++
      say(`SURVIVES  ${id}, ${seconds}: ${file}, ${test}\n          ${promise}`)
    }
  }
  const work = async () => {
    const copy = new Copy()
    copies.push(copy)
    for (let next = left.shift(); next; next = left.shift()) await judge(next, copy)
  }
  await Promise.all(Array.from({ length: Math.min(JOBS, list.length) }, work))
  process.removeListener('exit', remove)
  remove()
  const { killed, hung, survived, wrong } = sums
  say(`${list.length} mutants: ${killed} killed (${hung} by a hang), ${survived} survive as listed, ${wrong} wrongly`)
  return wrong
}

/** How many mutants each group has. */
function summary(list: readonly Listed[]): void {
  for (const group of new Set(list.map(({ group }) => group))) {
    const own = list.filter(mutant => mutant.group === group)
    const count = (is: (mutant: Listed) => unknown) => own.filter(is).length
    const promises = new Set(own.map(({ promise }) => promise)).size
    const parts = [`${count(({ from }) => from === undefined)} by hand`, `${promises} promises`]
    say(`${group}: ${own.length} mutants (${parts.join(', ')}), ${count(({ survives }) => survives)} survive`)
  }
}

async function main(): Promise<number> {
  const defaults = {
    check: false,
    only: [] as string[],
    some: NONE,
    draw: NONE,
    seed: new Date().toISOString().slice(0, 10),
  }
  const { options, operands } = programOptions(defaults, USAGE, true)
  const { only, some, draw, seed } = options
  const seeded = new Seeded([...seed].reduce((sum, char) => Math.imul(sum, 31) + char.charCodeAt(0), 7))
  if (draw !== undefined) {
    const places = drawn(operands, numberOf('--draw', draw), seeded)
    say(
      stringify(
        places.map(place => ({ id: '', ...place, test: '', from: `seed ${seed}` })),
        { lineWidth: 0 },
      ),
    )
    return 0
  }
  const groups = parse(read('test/ci/mutants.yaml')) as List
  const all = Object.entries(groups).flatMap(([group, promises]) =>
    Object.entries(promises).flatMap(([promise, mutants]) => mutants.map(mutant => ({ ...mutant, group, promise }))),
  )
  const isWanted = ({ id, group }: Listed) => only.length === 0 || only.includes(id) || only.includes(group)
  let list: readonly Listed[] = all.filter(isWanted)
  const wrong = await problems(list)
  for (const problem of wrong) say(problem)
  if (wrong.length > 0 || list.length === 0) return 1
  if (some !== undefined) {
    say(`--some ${some} --seed ${seed}`)
    const rest = list.filter(({ survives }) => !survives)
    list = Array.from(
      { length: Math.min(Number(some), rest.length) },
      () => rest.splice(seeded.below(rest.length), 1)[0]!,
    )
  }
  if (options.check) {
    summary(list)
    return 0
  }
  return (await run(list)) > 0 ? 1 : 0
}

process.exitCode = await main()
