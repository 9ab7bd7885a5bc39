import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { checkout } from '../test/support/checkout.js'
import { inTurns, median, SLUICE } from './measure.js'
import { workFolder } from './work.js'

type Times = Readonly<Record<string, { readonly median: number; readonly least: number }>>

/** What reads the configuration, checks it, and writes the log. */
const PACKAGES = ['pino', 'yaml', 'zod']
/** About as many as a start loads, those of packages included. */
const MODULES = 450
const RUNS = 20
const POLL_MS = 1
const LONGEST_MS = 20_000

/** Starts a process once; resolves with the milliseconds until it has done what it is started for. */
type Start = () => Promise<number>

/**
 * How long it takes from the start of a process to the first line that it ships, by what was started, and parts of that,
 * to the end of a process that does nothing else.
 */
export async function measureStart(folder: string) {
  const work = workFolder(folder, 'start')
  const parts: Record<string, Start> = {
    'node -e 0': () => untilEnd('-e', '0'),
    [`node with ${PACKAGES.join(', ')}`]: () => untilEnd('--input-type=module', '-e', importsOf(PACKAGES)),
    [`node with ${MODULES} empty modules`]: emptyModules(work),
  }
  const starts: Record<string, Start> = {
    'standard input to standard output': pipes(work),
    'file to file': files(work),
  }
  const measured = await inTurns(Object.values({ ...parts, ...starts }), RUNS, start => start())
  const timesOf = (some: Record<string, Start>): Times =>
    Object.fromEntries(
      Object.entries(some).map(([name, start]) => {
        const ms = measured.get(start)!
        return [name, { median: Math.round(median(ms)), least: Math.round(Math.min(...ms)) }]
      }),
    )
  return { runs: RUNS, ms: timesOf(starts), parts: timesOf(parts) }
}

async function untilEnd(...args: string[]): Promise<number> {
  const began = performance.now()
  checkEnd(await once(spawn(process.execPath, args, { stdio: 'ignore', cwd: checkout }), 'exit'))
  return performance.now() - began
}

function importsOf(names: readonly string[]): string {
  return names.map(name => `import ${JSON.stringify(name)}\n`).join('')
}

function emptyModules(work: string): Start {
  const names = Array.from({ length: MODULES }, (_, i) => `./${i}.mjs`)
  for (const name of names) writeFileSync(join(work, name), '')
  const all = join(work, 'all.mjs')
  writeFileSync(all, importsOf(names))
  return () => untilEnd(all)
}

function configured(work: string, name: string, components: string): string {
  const path = join(work, `${name}.yaml`)
  const dataDir = JSON.stringify(join(work, `${name}-state`))
  writeFileSync(path, `data_dir: ${dataDir}\nmetrics: { listen: 127.0.0.1:0 }\n${components}`)
  return path
}

function run(config: string, pipes: boolean): ChildProcess {
  return spawn(process.execPath, [SLUICE, 'run', config], {
    stdio: [pipes ? 'pipe' : 'ignore', pipes ? 'pipe' : 'ignore', 'ignore'],
    timeout: LONGEST_MS,
  })
}

function pipes(work: string): Start {
  const yaml = `sources: { in: { type: stdin } }
destinations: { out: { type: stdout, inputs: [in] } }
`
  const config = configured(work, 'pipes', yaml)
  return async () => {
    const began = performance.now()
    const child = run(config, true)
    const ended = once(child, 'exit')
    child.stdin!.end('the first line\n')
    const shipped = once(child.stdout!, 'data').then(() => performance.now() - began)
    checkEnd(await ended)
    return await shipped
  }
}

/** From the second run on, with a saved position and an output that exists, as after a restart. */
function files(work: string): Start {
  const [input, output] = [join(work, 'in.log'), join(work, 'out.log')]
  const yaml = `sources: { in: { type: file, include: [${JSON.stringify(input)}] } }
destinations: { out: { type: file, inputs: [in], path: ${JSON.stringify(output)} } }
`
  const config = configured(work, 'files', yaml)
  const size = () => statSync(output, { throwIfNoEntry: false })?.size ?? 0
  return async () => {
    appendFileSync(input, 'one more line\n')
    const before = size()
    const began = performance.now()
    const child = run(config, false)
    const ended = once(child, 'exit')
    while (size() === before && child.exitCode === null && child.signalCode === null) await wait(POLL_MS)
    const ms = performance.now() - began
    child.kill('SIGTERM')
    checkEnd(await ended)
    return ms
  }
}

function checkEnd([code, signal]: unknown[]): void {
  if (code !== 0) throw new Error(`a process ended with ${code ?? signal}`)
}
