import { randomBytes } from 'node:crypto'
import { createReadStream, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { keyedOf } from '../../components/throttle/keyed-processor.js'
import type { Io } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import type { Running } from '../../daemon/run/run.js'
import { DataDirError, type DataDirLock, lockDataDir } from '../../engine/run/state/data-dir.js'
import { printable } from '../../lib/printable.js'
import { after, systemClock } from '../../lib/time.js'
import { Machine } from '../init/machine.js'
import { announce, continueText, readerOf, runningText, type ScreenReader, shown } from './announce.js'
import { chooseLog, exampleYaml, type OwnLog, planYaml, type Receiver } from './plan.js'
import { startOwnService } from './service.js'
import { LiveView, type RunSummary } from './view.js'

const FOLDER = '.sluice-quickstart'
/** Files left in the quickstart's folder by a run of this or an earlier version. */
const LEFT =
  /^((sluice|example)\.yaml|service\.(yaml|json)|service(-\d+)?|state|received\.ndjson|access-key(-of-\w+)?|page-token|apps\.log(\.1)?|passed\.log)$/
/** Lines are printed this many milliseconds after each full second, because the apps then do not create events. */
const LATE_MS = 5

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
    const receiver = given ?? (await startOwnService(folder, io))
    return await deliver({ folder, configPath, log, receiver, reader }, io)
  } finally {
    lock.release()
  }
}

interface Parts {
  readonly folder: string
  readonly configPath: string
  readonly log: OwnLog | undefined
  readonly receiver: Receiver
  readonly reader: ScreenReader
}

/** Runs the daemon, shows the run until it ends, and then prints the summary. */
async function deliver(parts: Parts, io: Io): Promise<number> {
  const { folder, configPath, log, receiver, reader } = parts
  const token = randomBytes(32).toString('base64url')
  const tokenFile = join(folder, 'page-token')
  let summary: ((arrived: RunSummary['arrived']) => string) | undefined
  let code: number
  try {
    writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 })
    writeFileSync(configPath, planYaml(join(folder, 'state'), log, receiver, tokenFile))
    const { run } = await import('../../daemon/run/run.js')
    const follow = (running: Running) => {
      const view = begin(running, `${running.pageUrl}#token=${token}`, parts, io)
      const began = systemClock.now()
      summary = arrived =>
        view.summary({ ...running.totals(), ms: systemClock.now() - began, url: receiver.url, arrived })
      const cancel = eachSecond(() => io.stdout.write(view.next(timeText(1000))))
      return async () => {
        cancel()
        io.stdout.write(view.next(timeText(), true))
      }
    }
    code = await run({ configPath, follow, log: { format: 'text', level: 'warn' } }, io)
  } finally {
    await receiver.stop?.()
  }
  // The daemon did not start, and has logged the reason.
  if (!summary) return code
  const example = join(folder, 'example.yaml')
  writeFileSync(example, exampleYaml(log))
  const file = receiver.received
  const arrived = file === undefined ? undefined : { lines: await linesIn(file), file: shown(file, reader.folder) }
  io.stdout.write(summary(arrived) + continueText(example, reader))
  return code
}

/** Announces the run. `page`: the address of the daemon's page, with its token. */
function begin({ pipeline, metrics, metricsUrl }: Running, page: string, parts: Parts, { stdout }: Io): LiveView {
  const { configPath, log, receiver, reader } = parts
  const options = (id: string) => {
    const { sources, processors } = pipeline.config
    return [...sources, ...processors].find(component => component.id === id)!.options as Record<string, unknown>
  }
  const { apps, rate } = options('apps') as { apps: string[]; rate: number }
  const { limit } = options('limit_apps') as { limit: number }
  stdout.write(announce({ page, configPath, apps, rate, limit, log, receiver, metricsUrl }, reader))
  const read = () => metrics.components.get('log')?.received.events ?? 0
  const watch = () => keyedOf(pipeline.taps.processor('limit_apps'))?.watchKeys()
  const name = log && printable(basename(log.path))
  return new LiveView({ apps, limit, log: name, isCut: stdout.isTTY === true }, { watch, read })
}

/** Local time of day as in 14:03:12, `agoMs` milliseconds ago. */
const timeText = (agoMs = 0) => new Date(systemClock.wall() - agoMs).toTimeString().slice(0, 8)

/** Calls `fn` after each full second of the clock. The returned function stops the calls. */
function eachSecond(fn: () => void): () => void {
  const next = () => after(1000 - (systemClock.wall() % 1000) + LATE_MS, run)
  const run = () => {
    cancel = next()
    fn()
  }
  let cancel = next()
  return () => cancel()
}

async function linesIn(path: string): Promise<number> {
  let lines = 0
  for await (const chunk of createReadStream(path)) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
  return lines
}
