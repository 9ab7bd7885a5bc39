import type { IncomingMessage } from 'node:http'
import { JSON_OBJECTS } from '../core/codecs/json.js'
import { textOf } from '../daemon/admin/ask-socket.js'
import { ask, findSocket } from '../daemon/admin/daemon-socket.js'
import { statusAt } from '../daemon/admin/daemon-view.js'
import { type Io, UsageError } from '../daemon/process/command-line.js'
import { LineSplitter } from '../lib/lines/line-splitter.js'
import { printableText } from '../lib/printable.js'
import { systemClock } from '../lib/time.js'
import { formatDuration, parseDuration } from '../lib/units.js'
import { type FramesReader, Replay } from './replay.js'
import type { StatedFact } from './result.js'
import type { Simulation } from './simulation.js'
import { routeFrom, subjectOf } from './subject.js'
import { parsePathFlag } from './throttle-flags.js'
import { Trials } from './trials.js'
import { type ChangedOptions, typedOptions, variantsOf } from './variants.js'
import { number, percent } from './words.js'

/** The id of the source to which tapped events belong. */
const TAP_SOURCE = 'tap'
/** Maximum events per second to request from the daemon, for each output. */
const TAPPED_PER_SECOND = 20_000
const MAX_LINE_BYTES = 64 * 1024 * 1024
/** A line with the number of events that were skipped. */
const SKIPPED = /^# (\d+) /

interface Tapping {
  readonly socket: string
  readonly outputs: readonly string[]
  /** Tapping ends after `forMs` milliseconds, or when the signal aborts. */
  readonly forMs: number
  readonly signal: AbortSignal
  /** Called when all taps have begun. */
  readonly begun: () => void
}

/** Replays the events that leave outputs of a running daemon. Resolves with the number of skipped events. */
async function replayTaps(frames: FramesReader, { socket, outputs, forMs, signal, begun }: Tapping): Promise<number> {
  const responses = await Promise.all(
    outputs.map(async output => {
      const query = new URLSearchParams({ component: output, rate: String(TAPPED_PER_SECOND), for: String(forMs) })
      const response = await ask(socket, `/tap?${query}`, signal)
      if (response.statusCode === 200) return response
      throw new Error(printableText((await textOf(response)).trim()))
    }),
  )
  begun()
  const skipped = await Promise.all(responses.map(response => replayTap(frames, response, signal)))
  return skipped.reduce((sum, events) => sum + events, 0)
}

async function replayTap(frames: FramesReader, response: IncomingMessage, signal: AbortSignal): Promise<number> {
  const splitter = new LineSplitter(MAX_LINE_BYTES)
  let skipped = 0
  let pending = ''
  try {
    for await (const text of response.setEncoding('utf8')) {
      const lines = (pending + text).split('\n')
      pending = lines.pop()!
      const events: string[] = []
      for (const line of lines) {
        const remark = SKIPPED.exec(line)
        if (remark) skipped += Number(remark[1])
        else events.push(line)
      }
      if (events.length === 0) continue
      const frame = splitter.push(Buffer.from(`${events.join('\n')}\n`))!
      frames.enter({ source: TAP_SOURCE, host: '', codec: JSON_OBJECTS }, systemClock.wall())
      await frames.replay(frame)
      frame.release?.()
    }
  } catch (error) {
    if (!signal.aborted) throw new Error('the daemon has ended, or runs another configuration', { cause: error })
  }
  return skipped
}

export interface ReplayTapOptions extends ChangedOptions {
  readonly config: string | undefined
  readonly time: string | undefined
  /** The id of the throttle. */
  readonly tap: string | undefined
  readonly for: string | undefined
  readonly socket: string | undefined
}

const LONGEST_MS = 2 ** 31 - 1

/**
 * Simulates throttles on the events that reach a throttle of a running daemon. Ends when the time of `--for` is over,
 * or when the signal aborts.
 */
export async function simulateTap(options: ReplayTapOptions, signal: AbortSignal, io: Io): Promise<Simulation> {
  const forMs = durationOf(options.for)
  const socket = await findSocket(options, io.env)
  const config = options.config ?? (await statusAt(socket)).config
  if (config === undefined)
    throw new UsageError('the daemon has no configuration file: give the configuration with --config', 'simulate')
  const subject = await subjectOf(config, options.tap, io, 'tap')
  const { time_field } = subject.given
  const time = options.time ?? (typeof time_field === 'string' ? time_field : undefined)
  const path = time === undefined || time === 'auto' ? time : parsePathFlag(time, 'time', 'simulate')
  const variants = variantsOf(subject.given, options)
  const throttles = variants.map(variant => variant.options)
  // This route has no processors, because the daemon already runs them.
  const route = routeFrom(TAP_SOURCE, subject.component)
  const replay = new Replay(path, route, (context, slots) => new Trials(throttles, context, slots))
  const outputs = [...new Set(subject.inputs)]
  const text = `tapping ${outputs.join(', ')} for ${formatDuration(forMs)}; Ctrl-C ends this earlier`
  const begun = () => io.stderr.write(`sluice simulate: ${text}\n`)
  const skipped = await replayTaps(replay, { socket, outputs, forMs, signal, begun })
  return {
    ...{ subject, time, route, replay, variants },
    inputs: outputs.map(output => ({ path: `${output} of the running daemon`, source: route.sources[0]! })),
    typed: typedOptions(options),
    searches: [],
    complete: !signal.aborted,
    notes: tapNotes(replay.read, skipped),
  }
}

function durationOf(text: string | undefined): number {
  const ms = text === undefined ? undefined : parseDuration(text)
  if (ms !== undefined && ms >= 1 && ms <= LONGEST_MS) return ms
  throw new UsageError('--tap needs --for DURATION, as in --for 5m; at most 24 days', 'simulate')
}

function tapNotes(shown: number, skipped: number): StatedFact[] {
  if (skipped === 0) return [{ name: 'tap', text: 'no event was skipped' }]
  const part = `${number(skipped)} events (${percent(skipped, shown + skipped)})`
  const text = `${part} were skipped (a tap shows at most ${number(TAPPED_PER_SECOND)} per second): with them, the throttle would discard more`
  return [{ name: 'tap', text }]
}
