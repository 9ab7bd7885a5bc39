import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import type { Series } from '../test/support/series.js'
import { seriesIn } from '../test/support/series.js'
import { cpuSeconds, RUN } from './measure.js'

const POLL_MS = 200
const START_MS = 20_000
/** Of what it says, the end. */
const KEPT_LOG = 100_000

export interface RunningOptions {
  /** Modules that are loaded into the daemon before its own; with these it can be sent messages. */
  readonly imports?: readonly string[]
  /** Whether something is written to its standard input. */
  readonly stdin?: boolean
}

/** A daemon that runs while something is done to it, seen from outside. */
export class RunningDaemon {
  readonly child: ChildProcess
  readonly configPath: string
  readonly #folder: string
  readonly #ended: Promise<number | null>
  #stderr = ''
  #url: string | undefined

  /**
   * Starts it with this configuration (without `data_dir` and `metrics`) in `folder`; undefined: the one that is there.
   */
  constructor(folder: string, config?: string, { imports = [], stdin = false }: RunningOptions = {}) {
    this.#folder = folder
    this.configPath = join(folder, 'sluice.yaml')
    if (config !== undefined) this.configure(config)
    const args = [...imports.flatMap(url => ['--import', url]), ...RUN, this.configPath]
    this.child = spawn(process.execPath, args, {
      stdio: [stdin ? 'pipe' : 'ignore', 'ignore', 'pipe', ...(imports.length > 0 ? (['ipc'] as const) : [])],
    })
    const kill = () => this.child.kill('SIGKILL')
    process.once('exit', kill)
    this.#ended = new Promise<number | null>(resolve => this.child.on('close', resolve)).finally(() =>
      process.removeListener('exit', kill),
    )
    this.child.stderr!.setEncoding('utf8').on('data', text => {
      this.#stderr = (this.#stderr + text).slice(-KEPT_LOG)
      this.#url ??= /"url":"([^"]+)","msg":"metrics are served"/.exec(this.#stderr)?.[1]
    })
  }

  /** Writes another configuration to its file; `data_dir` and `metrics` are as they were, unless it has its own. */
  configure(config: string): void {
    const usual = { data_dir: JSON.stringify(join(this.#folder, 'state')), metrics: '{ listen: 127.0.0.1:0 }' }
    const missing = Object.entries(usual).filter(([name]) => !new RegExp(`^${name}:`, 'm').test(config))
    writeFileSync(this.configPath, missing.map(([name, value]) => `${name}: ${value}\n`).join('') + config)
  }

  get stdin(): Writable {
    return this.child.stdin!
  }

  /** The end of its log. */
  get log(): string {
    return this.#stderr
  }

  /** Where its metrics are; waits until they are. */
  async url(): Promise<string> {
    for (const end = performance.now() + START_MS; performance.now() < end; await wait(20))
      if (this.#url) return this.#url
    throw new Error(`the daemon did not start:\n${this.#stderr}`)
  }

  /** What it tells of itself; nothing as long as it cannot be asked. */
  async scrape(): Promise<Series> {
    return seriesIn(this.#url ? await (await fetch(this.#url)).text() : '')
  }

  /** Resolves when the sum of the metric over its series with these labels is that much. */
  async until(name: string, labels: Readonly<Record<string, string>>, value: number, ms: number): Promise<void> {
    for (const end = performance.now() + ms; performance.now() < end; await wait(POLL_MS)) {
      if ((await this.scrape()).sum(name, labels) >= value) return
      if (this.child.exitCode !== null) break
    }
    const shown = `${name}${JSON.stringify(labels)}`
    throw new Error(`${shown} was not ${value} within ${ms / 1000} s; the daemon said:\n${this.#stderr}`)
  }

  /** CPU time so far, in steps of the kernel's clock tick, 10 ms. */
  cpuSeconds(): number {
    return cpuSeconds(this.child.pid!)
  }

  /** Memory now, and the most so far. */
  rssBytes(): { now: number; peak: number } {
    const status = readFileSync(`/proc/${this.child.pid}/status`, 'utf8')
    const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)![1]) * 1024
    return { now: of('VmRSS'), peak: of('VmHWM') }
  }

  /** How many descriptors it has open. */
  descriptors(): number {
    return readdirSync(`/proc/${this.child.pid}/fd`).length
  }

  /** Ends it; resolves with its exit code. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.child.kill(signal)
    return await this.#ended
  }
}
