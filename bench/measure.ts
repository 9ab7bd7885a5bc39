import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Usage } from './usage.js'

export interface Measured extends Usage {
  /** From the start of the process to its end. */
  readonly seconds: number
  readonly stderr: string
}

const USAGE = new URL('./usage.js', import.meta.url).href

/** The compiled file beside this one, or in the build that this one is in. */
export function built(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url))
}

/** The command that is measured: of this build, unless SLUICE_BENCH_COMMAND names that of another one. */
export const SLUICE = process.env.SLUICE_BENCH_COMMAND ?? built('../src/cli/main.js')
/** For Node.js: what runs the daemon, with the options that systemd/sluice.service sets. */
export const RUN: readonly string[] = ['--max-semi-space-size=1', SLUICE, 'run', '--config']

/** Without certificates for Node.js to read at each start, which takes as long as the rest of an empty program. */
export const ENV: NodeJS.ProcessEnv = { ...process.env, NODE_EXTRA_CA_CERTS: undefined }

let nodeOptions: readonly string[] = []

/** While `work` runs, `measure` gives Node.js these options, too. */
export async function withNodeOptions(options: readonly string[], work: () => Promise<unknown>): Promise<void> {
  nodeOptions = options
  try {
    await work()
  } finally {
    nodeOptions = []
  }
}

/**
 * Runs Node.js with these arguments as a process of its own, to its end; throws when it fails. `during` gets the process,
 * and ends it if it does not end by itself. `counter`: a command that runs the one that follows it.
 */
export async function measure(
  args: readonly string[],
  during?: (child: ChildProcess) => Promise<void>,
  counter: readonly string[] = [],
): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-usage-'))
  const usagePath = join(folder, 'usage.json')
  try {
    const began = performance.now()
    const [file, ...all] = [...counter, process.execPath, ...nodeOptions, '--import', USAGE, ...args]
    const child = spawn(file!, all, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...ENV, SLUICE_BENCH_USAGE: usagePath },
    })
    const kill = () => child.kill('SIGKILL')
    process.once('exit', kill)
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', text => (stderr += text))
    const ended = new Promise<number | string | null>((resolve, reject) => {
      child.on('error', reject)
      child.on('close', (code, signal) => resolve(code ?? signal))
    })
    const [code] = await Promise.all([ended, during?.(child)])
    const seconds = (performance.now() - began) / 1000
    process.removeListener('exit', kill)
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}:\n${stderr}`)
    return { ...(JSON.parse(readFileSync(usagePath, 'utf8')) as Usage), seconds, stderr }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A port of the loopback interface that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** Does all of them in turn, so that a slow moment of the machine hits all; what comes of the first round does not count. */
export async function inTurns<K, T>(
  all: Iterable<K>,
  rounds: number,
  run: (one: K, round: number) => Promise<T>,
): Promise<Map<K, T[]>> {
  const results = new Map<K, T[]>(Array.from(all, one => [one, []]))
  for (let round = 0; round <= rounds; round++)
    for (const [one, own] of results) {
      const result = await run(one, round)
      if (round > 0) own.push(result)
    }
  return results
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** A process and its descendants that are alive, from /proc; the process alone elsewhere. */
export function withChildren(pid: number): number[] {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`)
    const children = tasks.flatMap(task => {
      const pids = readFileSync(`/proc/${pid}/task/${task}/children`, 'latin1').trim()
      return pids === '' ? [] : pids.split(' ').map(Number)
    })
    return [pid, ...children.flatMap(withChildren)]
  } catch {
    return [pid]
  }
}

/** CPU time of a process so far, from /proc; NaN elsewhere. */
export function cpuSeconds(pid: number): number {
  return cpuTicks(pid, 11, 12)
}

/** CPU time so far of a process, its descendants, and those of them that have ended; NaN where there is no /proc. */
export function cpuSecondsOfTree(pid: number): number {
  return withChildren(pid).reduce((sum, one) => sum + cpuTicks(one, 11, 12, 13, 14), 0)
}

/** The most memory that a process and its descendants had, each at its own peak; NaN where there is no /proc. */
export function peakRssOfTree(pid: number): number {
  return withChildren(pid).reduce((sum, one) => {
    try {
      return sum + Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${one}/status`, 'latin1'))![1]) * 1024
    } catch {
      return Number.NaN
    }
  }, 0)
}

/** The sum of fields of /proc/PID/stat that count clock ticks, numbered from the one after the name. */
function cpuTicks(pid: number, ...fields: readonly number[]): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const values = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields.reduce((sum, field) => sum + Number(values[field]), 0) / 100
  } catch {
    return Number.NaN
  }
}
