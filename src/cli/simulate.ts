import { accessSync, constants, statSync } from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import type { Config } from '../config/load.js'
import { NearestName } from '../lib/nearest.js'
import { systemClock } from '../lib/time.js'
import type { ThrottleOptions } from '../processors/throttle/options.js'
import { throttle } from '../processors/throttle.js'
import { type Io, UsageError } from './command-line.js'
import { EXIT } from './dispatch.js'
import { loadDaemonConfig } from './local-part.js'
import { beforeThrottle } from './simulate-before.js'
import { Replay } from './simulate-replay.js'
import { reportPage } from './simulate-report.js'
import { describeThrottle, summaryText, warnings } from './simulate-summary.js'
import { changesOfFlags, parsePathFlag } from './throttle-flags.js'

export interface SimulateOptions {
  readonly config: string
  readonly component: string
  readonly time: string
  readonly limit: string | undefined
  readonly window: string | undefined
  readonly key: string | undefined
  readonly exclude: string | undefined
  readonly decisions: boolean
  readonly report: string | undefined
  readonly inputs: readonly string[]
}

const READ_BYTES = 256 * 1024
/** Decisions go out in pieces of about this many characters. */
const WRITE_LENGTH = 64 * 1024

/** What was simulated, for those who show the result. */
export interface Simulation {
  readonly component: string
  readonly config: string
  /** The throttle in words: pairs of a name and a text; and the options that the command line changed. */
  readonly throttle: readonly (readonly [string, string])[]
  readonly changed: readonly string[]
  readonly inputs: readonly string[]
  readonly time: string
  /** Undefined: the throttle has one bucket for all. */
  readonly key: string | undefined
  /** What stands before the throttle in the configuration and is not applied, in words. */
  readonly skipped: readonly string[]
  readonly replay: Replay
}

/** Replays recorded events through one throttle of a configuration. Resolves with the exit code. */
export async function simulate(options: SimulateOptions, io: Io): Promise<number> {
  const config = await loadDaemonConfig(options.config, io.env)
  const configured = throttleOf(config, options)
  const time = parsePathFlag(options.time, 'time', 'simulate')
  const { limit, window, key, exclude } = options
  const changes = changesOfFlags({ limit, window, key, exclude }, 'simulate', io)
  const inputs = options.inputs.length > 0 ? options.inputs : ['-']
  // Whatever cannot work is told before the work begins.
  for (const input of inputs) if (input !== '-') checkReadable(input)
  if (options.report !== undefined) checkWritable(options.report)

  const chosen: ThrottleOptions = { ...configured, ...changes.options }
  const before = beforeThrottle(config, options.component)
  const origin = { id: options.component, host: hostname() }
  const replay = new Replay(chosen, time, { origin, filters: before.filters, wantsDecisions: options.decisions })
  for (const input of inputs) {
    const frames = input === '-' ? streamed(replay, io.stdin) : readFrom(replay, input)
    let decisions = ''
    for await (const piece of frames) {
      decisions += piece
      if (decisions.length < WRITE_LENGTH) continue
      await write(io.stdout, decisions)
      decisions = ''
    }
    if (decisions) await write(io.stdout, decisions)
  }
  const simulation: Simulation = {
    component: options.component,
    config: options.config,
    throttle: describeThrottle(chosen),
    changed: changes.typed,
    inputs,
    time: options.time,
    key: chosen.key_field?.text,
    skipped: before.skipped,
    replay,
  }
  const out = options.decisions ? io.stderr : io.stdout
  out.write(summaryText(simulation, { columns: out.columns, colour: Boolean(out.isTTY) && !io.env.NO_COLOR }))
  if (options.report !== undefined) await writeFile(options.report, reportPage(simulation, systemClock.wall()))
  return warnings(simulation).length === 0 ? EXIT.done : EXIT.failed
}

/** The options of the throttle that is meant. */
function throttleOf(config: Config, { component: id, config: path }: SimulateOptions): ThrottleOptions {
  const found = config.processors.find(processor => processor.id === id)
  if (found?.type === throttle.type) return found.options as ThrottleOptions
  const ids = config.processors.filter(({ type }) => type === throttle.type).map(processor => processor.id)
  const other = found ?? [...config.sources, ...config.destinations].find(component => component.id === id)
  const wrong = other
    ? `${id} is a ${other.kind} of type ${other.type}, not a throttle`
    : `there is no component ${id} in ${path}`
  const near = other ? undefined : new NearestName().find(id, ids)
  const known = ids.length === 0 ? `${path} has no throttle` : `the throttles of ${path} are ${ids.join(', ')}`
  throw new UsageError(`--component: ${wrong}; ${near ? `did you mean ${near}?` : known}`, 'simulate')
}

function checkReadable(path: string): void {
  accessSync(path, constants.R_OK)
  if (statSync(path).isDirectory()) throw new Error(`cannot read ${path}: it is a folder`)
}

/** Throws when a file cannot be written there. */
function checkWritable(path: string): void {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat?.isDirectory()) throw new UsageError(`--report: ${path} is a folder; give the name of a file`, 'simulate')
  accessSync(stat ? path : dirname(path), constants.W_OK)
}

/** The decisions on the lines of a file, piece by piece. */
async function* readFrom(replay: Replay, path: string): AsyncGenerator<string> {
  const splitter = replay.splitter()
  const file = await open(path)
  try {
    for (;;) {
      const { bytesRead } = await file.read(splitter.reserve(READ_BYTES), 0, READ_BYTES)
      if (bytesRead === 0) break
      yield replay.replay(splitter.commit(bytesRead))
    }
  } finally {
    await file.close()
  }
  yield replay.replay(splitter.flush())
}

async function* streamed(replay: Replay, stream: NodeJS.ReadableStream): AsyncGenerator<string> {
  const splitter = replay.splitter()
  for await (const chunk of stream) yield replay.replay(splitter.push(Buffer.from(chunk as Buffer)))
  yield replay.replay(splitter.flush())
}

/** Resolves when there is room for more. */
async function write(stream: NodeJS.WritableStream, text: string): Promise<void> {
  if (!stream.write(text)) await new Promise(resolve => stream.once('drain', resolve))
}
