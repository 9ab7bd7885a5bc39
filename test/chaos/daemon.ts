import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { bound } from '../support/bound.js'
import { sluiceMain } from '../support/checkout.js'

type LogLine = Readonly<Record<string, unknown>> & { readonly level: number; readonly msg: string }

/** Adds to the components of the program. */
const PROCESSORS = fileURLToPath(new URL('./processors.js', import.meta.url))

/** One start of the real program, watched from outside. */
export class Daemon {
  readonly pid: number
  readonly logs: LogLine[] = []
  /** What it wrote that is no log line: a crash. */
  noise = ''
  /** Exit code, or the name of the signal it died of; undefined while it runs. */
  code: number | string | undefined
  /** Resolves with the code. */
  readonly exit: Promise<number | string>
  frozenAt: number | undefined
  /** It was told to end, and how. */
  told: NodeJS.Signals | undefined
  readonly #child: ChildProcess
  #rest = ''

  constructor(configPath: string, folder: string) {
    const child = spawn(
      ...bound(process.execPath, ['--require', PROCESSORS, sluiceMain, 'run', '--config', configPath]),
      {
        cwd: folder,
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    )
    this.#child = child
    this.pid = child.pid!
    child.stderr.setEncoding('utf8').on('data', (text: string) => this.#read(text))
    const kill = () => child.kill('SIGKILL')
    process.once('exit', kill)
    this.exit = once(child, 'close').then(([code, signal]) => {
      process.removeListener('exit', kill)
      this.noise += this.#rest
      this.code = (code ?? signal) as number | string
      return this.code
    })
  }

  #read(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop()!
    for (const line of lines) {
      try {
        this.logs.push(JSON.parse(line) as LogLine)
      } catch {
        this.noise += `${line}\n`
      }
    }
  }

  get running(): boolean {
    return this.code === undefined
  }

  /** Reads, and would do what a signal tells it. */
  get awake(): boolean {
    return this.running && this.frozenAt === undefined && this.told === undefined
  }

  logged(message: string): LogLine | undefined {
    return this.logs.find(({ msg }) => msg === message)
  }

  get started(): boolean {
    return this.logged('started') !== undefined
  }

  get metricsUrl(): string | undefined {
    return this.logged('metrics are served')?.url as string | undefined
  }

  /** Whether it has the file with this device and inode open. */
  holds(key: string): boolean {
    if (!this.running) return false
    const folder = `/proc/${this.pid}/fd`
    try {
      return readdirSync(folder).some(fd => {
        const stat = statSync(`${folder}/${fd}`, { bigint: true, throwIfNoEntry: false })
        return stat !== undefined && `${stat.dev}:${stat.ino}` === key
      })
    } catch {
      return false
    }
  }

  signal(signal: NodeJS.Signals): void {
    if (signal === 'SIGKILL' || signal === 'SIGTERM') this.told = signal
    this.#child.kill(signal)
  }
}
