import { accessSync, constants, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Config } from '../../config/load.js'
import { NearestName } from '../../lib/nearest.js'
import { systemClock } from '../../lib/time.js'
import type { ThrottleOptions } from '../../processors/throttle/options.js'
import { throttle } from '../../processors/throttle.js'
import { type Io, UsageError } from '../../terminal/command-line.js'
import { EXIT } from '../../terminal/dispatch.js'
import { loadDaemonConfig } from '../../terminal/local-part.js'
import { changesOfFlags, parsePathFlag } from '../throttle-flags.js'
import { type Way, wayTo } from './before.js'
import { inputsOf, replayed } from './input.js'
import { Replay } from './replay.js'
import { reportPage } from './report.js'
import { describeThrottle, keyText, problems, summaryText } from './summary.js'

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

/** Decisions are written in pieces of about this many characters. */
const WRITE_LENGTH = 64 * 1024
/** Characters of decisions held back until an event has the time and the key. If none has, nothing is written. */
const HELD_LENGTH = 64 * 1024 * 1024

/** The data that the summary and the report show. */
export interface Simulation {
  readonly component: string
  readonly config: string
  /** The throttle as pairs of a name and a text, and the options that the command line changed. */
  readonly throttle: readonly (readonly [string, string])[]
  readonly changed: readonly string[]
  readonly inputs: readonly string[]
  readonly time: string
  /** Undefined if the throttle has a single bucket. */
  readonly key: string | undefined
  readonly way: Way
  readonly replay: Replay
}

/** Replays recorded events through one throttle of a configuration. Resolves with the exit code. */
export async function simulate(options: SimulateOptions, io: Io): Promise<number> {
  const config = await loadDaemonConfig(options.config, io.env)
  const configured = throttleOf(config, options)
  const time = parsePathFlag(options.time, 'time', 'simulate')
  const { limit, window, key, exclude } = options
  const changes = changesOfFlags({ limit, window, key, exclude }, 'simulate', io)
  const way = wayTo(config, options.component)
  const inputs = inputsOf(options.inputs, way)
  // Report unusable files before the work begins.
  for (const { path } of inputs) if (path !== '-') checkReadable(path)
  if (options.report !== undefined) checkWritable(options.report)

  const chosen: ThrottleOptions = { ...configured, ...changes.options }
  const replay = new Replay(chosen, time, { way, wantsDecisions: options.decisions })
  let decisions = ''
  for (const input of inputs) {
    for await (const piece of replayed(replay, input, io)) {
      decisions += piece
      if (decisions.length < (replay.isSound ? WRITE_LENGTH : HELD_LENGTH)) continue
      await write(io.stdout, decisions)
      decisions = ''
    }
  }
  const simulation: Simulation = {
    component: options.component,
    config: options.config,
    throttle: describeThrottle(chosen),
    changed: changes.typed,
    inputs: inputs.map(({ path }) => path),
    time: options.time,
    key: keyText(chosen.key_field),
    way,
    replay,
  }
  const wrong = problems(simulation)
  if (wrong.length > 0) throw new Error(wrong.join('\n'))
  if (decisions) await write(io.stdout, decisions)
  const out = options.decisions ? io.stderr : io.stdout
  out.write(summaryText(simulation, { columns: out.columns, colour: Boolean(out.isTTY) && !io.env.NO_COLOR }))
  if (options.report !== undefined) await writeFile(options.report, reportPage(simulation, systemClock.wall()))
  return EXIT.done
}

/** The options of the selected throttle. */
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

/** Throws if a file cannot be written there. */
function checkWritable(path: string): void {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat?.isDirectory()) throw new UsageError(`--report: ${path} is a folder; give the name of a file`, 'simulate')
  accessSync(stat ? path : dirname(path), constants.W_OK)
}

/** Resolves when there is room for more. */
async function write(stream: NodeJS.WritableStream, text: string): Promise<void> {
  if (!stream.write(text)) await new Promise(resolve => stream.once('drain', resolve))
}
