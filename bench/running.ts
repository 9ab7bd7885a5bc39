import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { SLUICE } from './measure.js'

const POLL_MS = 200

/** A daemon that runs while something is done to it, seen from outside. */
export class RunningDaemon {
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  #stderr = ''

  /** Starts it with this configuration (without `data_dir` and `metrics`) in `folder`. */
  constructor(folder: string, config: string) {
    const path = join(folder, 'sluice.yaml')
    const head = `data_dir: ${JSON.stringify(join(folder, 'state'))}\nmetrics: { listen: 127.0.0.1:0 }\n`
    writeFileSync(path, head + config)
    this.#child = spawn(process.execPath, [SLUICE, 'run', '--config', path], { stdio: ['ignore', 'ignore', 'pipe'] })
    const kill = () => this.#child.kill('SIGKILL')
    process.once('exit', kill)
    this.#ended = new Promise(resolve => this.#child.on('close', resolve)).finally(() =>
      process.removeListener('exit', kill),
    )
    this.#child.stderr!.setEncoding('utf8').on('data', text => (this.#stderr = (this.#stderr + text).slice(-100_000)))
  }

  /** The sum of a metric over its series, those with these labels where given; 0 as long as it cannot be asked. */
  async metric(name: string, labels = ''): Promise<number> {
    const url = /"url":"([^"]+)"/.exec(this.#stderr)?.[1]
    if (!url) return 0
    const text = await (await fetch(url)).text()
    let sum = 0
    for (const [, found, value] of text.matchAll(new RegExp(`^${name}(?:\\{([^}]*)\\})? (\\S+)$`, 'gm'))) {
      if ((found ?? '').includes(labels)) sum += Number(value)
    }
    return sum
  }

  /** Resolves when the metric is that much. */
  async until(name: string, labels: string, value: number, ms: number): Promise<void> {
    for (const end = performance.now() + ms; performance.now() < end; await wait(POLL_MS)) {
      if ((await this.metric(name, labels)) >= value) return
      if (this.#child.exitCode !== null) break
    }
    throw new Error(`${name}{${labels}} was not ${value} within ${ms / 1000} s; the daemon said:\n${this.#stderr}`)
  }

  /** CPU time so far, in steps of the kernel's clock tick, 10 ms. */
  cpuSeconds(): number {
    const fields = this.#proc('stat')
      .replace(/^.*\) /, '')
      .split(' ')
    return (Number(fields[11]) + Number(fields[12])) / 100
  }

  /** Memory now, and the most so far. */
  rssBytes(): { now: number; peak: number } {
    const status = this.#proc('status')
    const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)![1]) * 1024
    return { now: of('VmRSS'), peak: of('VmHWM') }
  }

  #proc(name: string): string {
    return readFileSync(`/proc/${this.#child.pid}/${name}`, 'utf8')
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM')
    await this.#ended
  }
}
