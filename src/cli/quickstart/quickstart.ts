import { randomBytes } from 'node:crypto'
import { createReadStream, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { keyedOf } from '../../components/throttle/keyed-processor.js'
import type { Io } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import type { Running } from '../../daemon/run/run.js'
import type { Totals } from '../../engine/run/measure/totals.js'
import { DataDirError, type DataDirLock, lockDataDir } from '../../engine/run/state/data-dir.js'
import { printable } from '../../lib/printable.js'
import { after, systemClock } from '../../lib/time.js'
import { Machine } from '../init/machine.js'
import { announce, continueText, type Reader, readerOf, runningText, shown } from './announce.js'
import { chooseLog, EXAMPLE, type OwnLog, planYaml, type Receiver } from './plan.js'
import { type OwnService, startOwnService } from './service.js'
import { LiveView } from './view.js'

const FOLDER = '.sluice-quickstart'
/** Files left in the quickstart's folder by a run of this or an earlier version. */
const LEFT =
  /^(sluice\.yaml|service\.(yaml|json)|service(-\d+)?|state|received\.ndjson|access-key(-of-\w+)?|page-token|apps\.log(\.1)?|passed\.log)$/
/** Lines are printed this many milliseconds after each full second, because the apps then do not create events. */
const LATE_MS = 5
/** The first line comes after this time, not at a full second. */
const FIRST_MS = 250

export interface QuickstartOptions {
  readonly log: string | undefined
  readonly pipeline: string | undefined
}

/** Throttles demo apps, and delivers the passed events to a service. After Ctrl-C, resolves with the exit code. */
export async function quickstart(options: QuickstartOptions, io: Io): Promise<number> {
  const reader = readerOf(io.env, process.argv[1] ?? '')
  const folder = join(process.cwd(), FOLDER)
  const configPath = join(folder, 'sluice.yaml')
  const isGiven = Boolean(io.env.SLUICE_URL)
  // Sends a log of this machine to another service only if the user asks for that log.
  const log = isGiven && options.log === undefined ? undefined : chooseLog(options.log, new Machine(), reader.folder)
  const given = isGiven ? await (await import('./given-service.js')).givenService(options.pipeline, io) : undefined
  let lock: DataDirLock
  try {
    lock = await lockDataDir(folder)
  } catch (error) {
    if (!(error instanceof DataDirError) || error.pid === undefined) throw error
    io.stderr.write(runningText(error.pid, configPath, reader))
    return EXIT.failed
  }
  try {
    // Removes the files of earlier runs, so all numbers are about this run.
    for (const name of readdirSync(folder)) if (LEFT.test(name)) rmSync(join(folder, name), { recursive: true })
    // The daemon is loaded while the service starts.
    import('../../daemon/run/run.js').catch(() => {})
    const own = given ? undefined : await startOwnService(folder, io)
    return await new Run({ configPath, log, receiver: given ?? own!, own, reader }, io).run(join(folder, 'state'))
  } finally {
    lock.release()
  }
}

interface RunParts {
  readonly configPath: string
  readonly log: OwnLog | undefined
  readonly receiver: Receiver
  readonly own: OwnService | undefined
  readonly reader: Reader
}

class Run {
  readonly #parts: RunParts
  readonly #io: Io
  /** The token of the daemon's page. */
  readonly #token = randomBytes(32).toString('base64url')
  #began = 0
  #view: LiveView | undefined
  #totals: (() => Totals) | undefined

  constructor(parts: RunParts, io: Io) {
    this.#parts = parts
    this.#io = io
  }

  async run(dataDir: string): Promise<number> {
    const { configPath, log, receiver, own, reader } = this.#parts
    let code: number
    try {
      const tokenFile = join(dirname(configPath), 'page-token')
      writeFileSync(tokenFile, `${this.#token}\n`, { mode: 0o600 })
      writeFileSync(configPath, planYaml(dataDir, log, receiver, tokenFile))
      const { run } = await import('../../daemon/run/run.js')
      const follow = (running: Running) => this.#follow(running)
      code = await run({ configPath, follow, log: { format: 'text', level: 'warn' } }, this.#io)
    } finally {
      await own?.stop()
    }
    if (!this.#view || !this.#totals) return code
    const { received: read, emitted, delivered, undelivered } = this.#totals()
    const file = receiver.received
    const summary = this.#view.summary({
      ms: systemClock.now() - this.#began,
      read,
      emitted: emitted?.limit_apps ?? 0,
      delivered: delivered.upstream ?? 0,
      undelivered,
      receiver: `the service at ${receiver.url}`,
      received: file === undefined ? undefined : { lines: await linesIn(file), file: shown(file, reader.folder) },
    })
    this.#io.stdout.write(summary + continueText(EXAMPLE, reader))
    return code
  }

  /** Shows the run until it ends. */
  #follow({ pipeline, metrics, totals, metricsUrl, pageUrl }: Running): () => Promise<void> {
    const { configPath, log, receiver, own, reader } = this.#parts
    const { stdout } = this.#io
    const options = (id: string) => {
      const { sources, processors } = pipeline.config
      return [...sources, ...processors].find(component => component.id === id)!.options as Record<string, unknown>
    }
    const { apps, rate } = options('apps') as { apps: string[]; rate: number }
    const { limit } = options('limit_apps') as { limit: number }
    const isLogKept = own === undefined
    const page = `${pageUrl}#token=${this.#token}`
    stdout.write(announce({ page, configPath, apps, rate, limit, log, isLogKept, receiver, metricsUrl }, reader))
    const read = () => metrics.components.get('log')?.received.events ?? 0
    const name = log && printable(basename(log.path))
    const view = new LiveView(
      { apps, limit, log: name },
      { watch: () => keyedOf(pipeline.taps.processor('limit_apps'))?.watchKeys(), read },
    )
    this.#began = systemClock.now()
    this.#view = view
    this.#totals = totals
    const cancel = eachSecond(() => stdout.write(view.next(timeText())))
    return async () => {
      cancel()
      stdout.write(view.last(timeText()))
    }
  }
}

/** Local time of day as in 14:03:12. */
const timeText = () => new Date(systemClock.wall()).toTimeString().slice(0, 8)

/** Calls `fn` after FIRST_MS, and then after each full second of the clock. The returned function stops the calls. */
function eachSecond(fn: () => void): () => void {
  const next = () => after(1000 - (systemClock.wall() % 1000) + LATE_MS, run)
  const run = () => {
    cancel = next()
    fn()
  }
  let cancel = after(FIRST_MS, run)
  return () => cancel()
}

async function linesIn(path: string): Promise<number> {
  let lines = 0
  for await (const chunk of createReadStream(path)) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
  return lines
}
