import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { median, SLUICE } from './measure.js'

/** How long it takes from the start of a process to the first line that it ships. */
export interface StartResult {
  readonly runs: number
  /** Milliseconds by what was started; `node` is `node -e 0` to its end. */
  readonly ms: Readonly<Record<string, { readonly median: number; readonly least: number }>>
  readonly wanted_ms: number
}

const RUNS = 20
const WANTED_MS = 300
const POLL_MS = 1
const LONGEST_MS = 20_000

/** Starts a process once; resolves with the milliseconds until it has done what it is started for. */
type Start = () => Promise<number>

export async function measureStart(folder: string): Promise<StartResult> {
  mkdirSync(folder, { recursive: true })
  const work = mkdtempSync(join(folder, 'sluice-start-'))
  try {
    const starts: Record<string, Start> = {
      node: untilEnd,
      'standard input to standard output': pipes(work),
      'file to file': files(work),
    }
    const measured = new Map<string, number[]>(Object.keys(starts).map(name => [name, []]))
    // In turn, so that a slow moment of the machine hits all of them. The first round fills the page cache.
    for (let round = 0; round <= RUNS; round++) {
      for (const [name, start] of Object.entries(starts)) {
        const ms = await start()
        if (round > 0) measured.get(name)!.push(ms)
      }
    }
    const rounded = (ms: number) => Math.round(ms)
    const ms = [...measured].map(([name, all]) => [
      name,
      { median: rounded(median(all)), least: rounded(Math.min(...all)) },
    ])
    return { runs: RUNS, ms: Object.fromEntries(ms), wanted_ms: WANTED_MS }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

async function untilEnd(): Promise<number> {
  const began = performance.now()
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit')
  return performance.now() - began
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
  const config = configured(
    work,
    'pipes',
    `sources: { in: { type: stdin } }
destinations: { out: { type: stdout, inputs: [in] } }
`,
  )
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
  const config = configured(
    work,
    'files',
    `sources: { in: { type: file, include: [${JSON.stringify(input)}] } }
destinations: { out: { type: file, inputs: [in], path: ${JSON.stringify(output)} } }
`,
  )
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
  if (code !== 0) throw new Error(`the daemon ended with ${code ?? signal}`)
}

export function formatStart({ runs, ms, wanted_ms: wanted }: StartResult): string {
  const lines = Object.entries(ms).map(([name, { median, least }]) => {
    if (name === 'node') return `node -e 0: ${median} ms, at least ${least} ms\n`
    const missed = median > wanted ? ' (missed)' : ''
    return `from start to the first line, ${name}: ${median} ms${missed}, at least ${least} ms\n`
  })
  return `${lines.join('')}wanted: under ${wanted} ms; medians of ${runs} runs\n`
}
