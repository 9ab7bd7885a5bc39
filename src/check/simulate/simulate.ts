import { accessSync, constants, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { systemClock } from '../../lib/time.js'
import { type Io, UsageError } from '../../terminal/command-line.js'
import { EXIT } from '../../terminal/dispatch.js'
import { Progress } from '../../terminal/progress.js'
import { parsePathFlag } from '../throttle-flags.js'
import { inputsOf, replayed } from './input.js'
import { totalSize } from './input-bytes.js'
import { problems } from './notes.js'
import { Replay } from './replay.js'
import { reportPage } from './report/page.js'
import { resultOf, type Simulation } from './result-of.js'
import { subjectOf } from './subject.js'
import { summaryText } from './summary.js'
import { Trials } from './trials.js'
import { type ChangedOptions, typedOptions, variantsOf } from './variants.js'

export interface SimulateOptions extends ChangedOptions {
  readonly config: string | undefined
  readonly component: string | undefined
  readonly time: string | undefined
  readonly decisions: boolean
  readonly json: boolean
  readonly report: string | undefined
}

/** Decisions are written in pieces of about this many characters. */
const WRITE_LENGTH = 64 * 1024
/** Characters of decisions held back until an event has the time and the key. If none has, nothing is written. */
const HELD_LENGTH = 64 * 1024 * 1024
/** As a shell reports a program that SIGINT has ended. */
const INTERRUPTED = 130

/** Replays recorded events through throttles. Resolves with the exit code. */
export async function simulate(given: SimulateOptions, operands: readonly string[], io: Io): Promise<number> {
  const [options, files] = withConfig(given, operands)
  const subject = await subjectOf(options.config, options.component, io)
  const time = timeOf(options, subject.given)
  const path = parsePathFlag(time, 'time', 'simulate')
  const variants = variantsOf(subject.given, options, io)
  if (options.decisions && variants.length > 1)
    throw new UsageError('--decisions is for one throttle: give one --limit, one --window and one --key', 'simulate')
  const inputs = inputsOf(files, subject.way)
  // Report unusable files before the work begins.
  for (const { path } of inputs) if (path !== '-') checkReadable(path)
  if (options.report !== undefined) checkWritable(options.report)

  const throttles = variants.map(variant => variant.options)
  const replay = new Replay(
    path,
    subject.way,
    (context, slots) => new Trials(throttles, context, slots, options.decisions),
  )
  const trials = replay.visitor
  const writeDecisions = async (least: number) => {
    if (trials.decisions.length <= least) return
    const text = trials.decisions
    trials.decisions = ''
    await write(io.stdout, text)
  }
  const complete = await untilInterrupted(async signal => {
    const progress = new Progress(io.stderr, totalSize(inputs.map(({ path }) => path)), () => systemClock.now())
    try {
      for (const input of inputs) {
        for await (const _ of replayed(replay, input, { io, progress, signal }))
          await writeDecisions(replay.hasTime && trials.foundKeys ? WRITE_LENGTH : HELD_LENGTH)
      }
    } finally {
      progress.end()
    }
  })
  const simulation: Simulation = {
    subject,
    time,
    way: subject.way,
    replay,
    typed: typedOptions(options),
    variants: variants as [(typeof variants)[number]],
    inputs,
    complete,
  }
  const wrong = problems(simulation)
  if (wrong.length > 0) throw new Error(wrong.join('\n'))
  await writeDecisions(0)
  const result = resultOf(simulation)
  const out = options.decisions ? io.stderr : io.stdout
  if (options.json) await write(out, `${JSON.stringify(result)}\n`)
  else await write(out, summaryText(result, { columns: out.columns, colour: Boolean(out.isTTY) && !io.env.NO_COLOR }))
  if (options.report !== undefined) await writeFile(options.report, reportPage(result, systemClock.wall()))
  return complete ? EXIT.done : INTERRUPTED
}

/** Takes the configuration from the operands if it is the first of them: a YAML file or a folder. */
function withConfig<O extends SimulateOptions>(options: O, operands: readonly string[]): [O, readonly string[]] {
  const [first, ...files] = operands
  if (options.config !== undefined || first === undefined || !/\.ya?ml$/.test(first)) return [options, operands]
  return [{ ...options, config: first }, files]
}

/** The path of the field with the time. */
function timeOf({ time }: SimulateOptions, { time_field }: Readonly<Record<string, unknown>>): string {
  if (time !== undefined) return time
  if (typeof time_field === 'string') return time_field
  throw new UsageError('--time PATH is missing: the field that holds the time of an event', 'simulate')
}

/** Calls `work` with a signal that SIGINT and SIGTERM abort. Returns whether it ended without one. */
async function untilInterrupted(work: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
  const controller = new AbortController()
  const stop = () => controller.abort()
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const name of signals) process.once(name, stop)
  try {
    await work(controller.signal)
  } finally {
    for (const name of signals) process.off(name, stop)
  }
  return !controller.signal.aborted
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
