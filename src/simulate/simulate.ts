import { accessSync, constants, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type Io, UsageError } from '../daemon/process/command-line.js'
import { EXIT } from '../daemon/process/dispatch.js'
import { untilInterrupted } from '../daemon/process/interrupted.js'
import { systemClock } from '../lib/time.js'
import { type Arrivals, arrivalsOf } from './arrivals.js'
import { type Goal, type GoalOptions, goalOf } from './goal.js'
import { InputReader, inputsOf } from './input.js'
import { problems } from './notes.js'
import { Replay, Twice, type Visitor } from './replay.js'
import { reportPage } from './report/page.js'
import { findLimits, type LimitTrials, type SearchPass } from './search.js'
import { resultOf, type Simulation } from './simulation.js'
import type { TimeSlots } from './slots.js'
import { subjectOf } from './subject.js'
import { summaryText } from './summary.js'
import { type ReplayTapOptions, simulateTap } from './tap.js'
import { parsePathFlag } from './throttle-flags.js'
import type { FieldContext, SimulatedLag } from './trial.js'
import { Trials } from './trials.js'
import { type ChangedOptions, typedOptions, type Variant, variantsOf } from './variants.js'

export interface SimulateOptions extends ReplayTapOptions, GoalOptions {
  readonly component: string | undefined
  readonly decisions: boolean
  /** Whether all events are read at once, by a source that was behind. */
  readonly backlog: boolean
  readonly json: boolean
  readonly report: string | undefined
}

const LIVE: Arrivals = { isBacklog: false, wantsOther: false }
/** Decisions are written in pieces of about this many characters. */
const WRITE_LENGTH = 64 * 1024
/**
 * Decisions are not written until an event has the fields of the time and the key. Until then, at most this many
 * characters of decisions are kept.
 */
const HELD_LENGTH = 64 * 1024 * 1024
/** The exit code that a shell reports for a program that SIGINT ended. */
const INTERRUPTED = 130

/** Replays recorded events through throttles. Resolves with the exit code. */
export async function simulate(given: SimulateOptions, operands: readonly string[], io: Io): Promise<number> {
  const [options, files] = withConfig(given, operands)
  const goal = goalOf(options)
  if (options.report !== undefined) checkWritable(options.report)
  if (options.tap !== undefined) return simulateLive(options, files, io)
  for (const name of ['for', 'socket'] as const)
    if (options[name] !== undefined) throw new UsageError(`--${name} has no effect without --tap`, 'simulate')
  const subject = await subjectOf(options.config, options.component, io)
  const time = timeOf(options, subject.given)
  const path = time === 'auto' ? ('auto' as const) : parsePathFlag(time, 'time', 'simulate')
  const asked = variantsOf(goal ? anyLimit(subject.given, options) : subject.given, options)
  if (options.decisions && (goal || asked.length > 1))
    throw new UsageError('--decisions is for one throttle: give one --limit, one --window and one --key', 'simulate')
  if (options.backlog && goal)
    throw new UsageError('--backlog is for given limits: leave out --suggest and --budget', 'simulate')
  const inputs = inputsOf(files, subject.route)
  // Report unusable files before the work begins.
  for (const { path } of inputs) if (path !== '-') checkReadable(path)

  return untilInterrupted(async signal => {
    const reader = new InputReader(inputs, io, signal, path)
    const typed = typedOptions(options)
    try {
      const goals =
        goal && (await search(asked, goal, reader, visitor => new Replay(path, subject.route, visitor), signal))
      const variants = goals?.found.map(({ variant }) => variant) ?? asked
      const throttles = variants.map(variant => variant.options)
      const lag = options.backlog ? await lagOf(reader, () => new Replay(path, subject.route, () => NOBODY)) : undefined
      const { isBacklog, wantsOther } = lag
        ? { isBacklog: true, wantsOther: false }
        : throttles.length > 1 || goal
          ? LIVE
          : arrivalsOf(throttles[0]!, subject.route, inputs, typed.length > 0)
      const replayOf = (isBacklog: boolean, wantsDecisions: boolean) => {
        const create = (context: FieldContext, slots: TimeSlots) =>
          new Trials(throttles, context, slots, { wantsDecisions, isBacklog, lag })
        return new Replay(path, subject.route, create, isBacklog, lag)
      }
      const replay = replayOf(isBacklog, options.decisions)
      const other = wantsOther ? replayOf(!isBacklog, false) : undefined
      await reader.read(other ? new Twice(replay, other) : replay, async () => {
        const least = replay.hasTime && replay.visitor.foundKeys ? WRITE_LENGTH : HELD_LENGTH
        if (replay.visitor.decisions.length > least) await write(io.stdout, replay.visitor.takeDecisions())
      })
      const simulation = {
        ...{ subject, time, route: subject.route, replay, variants, inputs, typed, isBacklog, other },
        searches: goals?.found.map(({ search }) => search) ?? [],
        unanswered: goals?.unanswered ?? [],
        complete: !signal.aborted,
      }
      await show(simulation, options, io)
    } finally {
      reader.close()
    }
    return signal.aborted ? INTERRUPTED : EXIT.done
  })
}

async function simulateLive(options: SimulateOptions, files: readonly string[], io: Io): Promise<number> {
  const { suggest, budget, decisions, component, backlog } = options
  if (files.length > 0) throw new UsageError('--tap reads from a daemon: give no INPUT', 'simulate')
  if (backlog || decisions || [suggest, budget, component].some(option => option !== undefined)) {
    const others = '--component, --suggest, --budget, --backlog and --decisions'
    throw new UsageError(`--tap sees each event once: leave out ${others}`, 'simulate')
  }
  return untilInterrupted(async signal => {
    await show(await simulateTap(options, signal, io), options, io)
    return EXIT.done
  })
}

const NOBODY: Visitor = { enter() {}, visit() {} }

/** Reads all inputs once to find the times of the first and the last event. Undefined: no event has a time. */
async function lagOf(reader: InputReader, replayOf: () => Replay<Visitor>): Promise<SimulatedLag | undefined> {
  await reader.copyStdin()
  const replay = replayOf()
  await reader.read(replay)
  const { span } = replay.slots
  return span && { since: span.from, isOver: false, until: span.to }
}

/** Finds the limits of the variants, which takes several passes over the input. */
async function search(
  variants: readonly Variant[],
  goal: Goal,
  reader: InputReader,
  createReplay: (createVisitor: (context: FieldContext) => SearchPass) => Replay<SearchPass>,
  signal: AbortSignal,
): Promise<LimitTrials> {
  await reader.copyStdin()
  return findLimits(variants, goal, async createVisitor => {
    const replay = createReplay(createVisitor)
    await reader.read(replay)
    if (signal.aborted) throw new Error('interrupted before the limit was found')
    return replay
  })
}

/** Writes the last decisions and the result. Throws if the result is meaningless. */
async function show(simulation: Simulation, options: SimulateOptions, io: Io): Promise<void> {
  const wrong = problems(simulation)
  if (wrong.length > 0) throw new Error(wrong.join('\n'))
  if (options.decisions) await write(io.stdout, simulation.replay.visitor.takeDecisions())
  const result = resultOf(simulation)
  const out = options.decisions ? io.stderr : io.stdout
  if (options.json) await write(out, `${JSON.stringify(result)}\n`)
  else await write(out, summaryText(result, { columns: out.columns, colour: Boolean(out.isTTY) && !io.env.NO_COLOR }))
  if (options.report !== undefined) await writeFile(options.report, reportPage(result, systemClock.wall()))
}

/** Takes the first operand as the configuration if it is a YAML file or a folder, because neither can hold events. */
function withConfig<O extends SimulateOptions>(options: O, operands: readonly string[]): [O, readonly string[]] {
  const [first, ...files] = operands
  if (options.config !== undefined || first === undefined) return [options, operands]
  const isConfig = /\.ya?ml$/.test(first) || statSync(first, { throwIfNoEntry: false })?.isDirectory()
  if (!isConfig) return [options, operands]
  return [{ ...options, config: first }, files]
}

/** If the options have no limit, adds a limit as a placeholder, because the search finds the limit later. */
function anyLimit(given: Readonly<Record<string, unknown>>, options: ChangedOptions) {
  const hasBytes = given.limit_bytes !== undefined || options['limit-bytes'].length > 0
  return hasBytes ? given : { limit: 1, ...given }
}

/** The path of the field with the event time. `auto` means the first of the usual fields that contains a time. */
function timeOf({ time }: SimulateOptions, { time_field }: Readonly<Record<string, unknown>>): string {
  return time ?? (typeof time_field === 'string' ? time_field : 'auto')
}

function checkReadable(path: string): void {
  accessSync(path, constants.R_OK)
  if (statSync(path).isDirectory()) throw new Error(`cannot read ${path}: it is a folder`)
}

/** Throws if a file cannot be written at `path`. */
function checkWritable(path: string): void {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat?.isDirectory()) throw new UsageError(`--report: ${path} is a folder; give the name of a file`, 'simulate')
  accessSync(stat ? path : dirname(path), constants.W_OK)
}

/** Writes the text. Resolves when the stream can take more. */
async function write(stream: NodeJS.WritableStream, text: string): Promise<void> {
  if (!stream.write(text)) await new Promise(resolve => stream.once('drain', resolve))
}
