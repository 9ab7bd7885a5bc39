import { type Io, UsageError } from '../../../daemon/process/command-line.js'
import { formatDuration, parseDuration } from '../../../lib/units.js'
import { findSocket } from '../../inspect/daemon-socket.js'
import { statusAt } from '../../inspect/daemon-view.js'
import { parsePathFlag } from '../throttle-flags.js'
import { Replay } from './replay.js'
import type { Fact } from './result.js'
import type { Simulation } from './result-of.js'
import { subjectOf, wayFrom } from './subject.js'
import { number, percent } from './table.js'
import { replayTaps, TAP_SOURCE, TAPPED_PER_SECOND } from './tap-input.js'
import { Trials } from './trials.js'
import { type ChangedOptions, typedOptions, variantsOf } from './variants.js'

export interface TapOptions extends ChangedOptions {
  readonly config: string | undefined
  readonly time: string | undefined
  /** The id of the throttle. */
  readonly tap: string | undefined
  readonly for: string | undefined
  readonly socket: string | undefined
}

const LONGEST_MS = 2 ** 31 - 1

/** Tries throttles on what a throttle of a running daemon gets, until the time is over or the signal aborts. */
export async function simulateTap(options: TapOptions, signal: AbortSignal, io: Io): Promise<Simulation> {
  const forMs = durationOf(options.for)
  const socket = findSocket(options, io.env)
  const config = options.config ?? (await statusAt(socket)).config
  if (config === undefined)
    throw new UsageError('the daemon has no configuration file: give the configuration with --config', 'simulate')
  const subject = await subjectOf(config, options.tap, io, 'tap')
  const { time_field } = subject.given
  const time = options.time ?? (typeof time_field === 'string' ? time_field : undefined)
  const path = time === undefined || time === 'auto' ? time : parsePathFlag(time, 'time', 'simulate')
  const variants = variantsOf(subject.given, options, io)
  const throttles = variants.map(variant => variant.options)
  // The daemon itself applies what is before the throttle.
  const way = wayFrom(TAP_SOURCE, subject.component)
  const replay = new Replay(path, way, (context, slots) => new Trials(throttles, context, slots))
  const outputs = [...new Set(subject.inputs)]
  const text = `tapping ${outputs.join(', ')} for ${formatDuration(forMs)}; Ctrl-C ends this earlier`
  const begun = () => io.stderr.write(`sluice simulate: ${text}\n`)
  const skipped = await replayTaps(replay, { socket, outputs, forMs, signal, begun })
  return {
    ...{ subject, time, way, replay, variants },
    inputs: outputs.map(output => ({ path: `${output} of the running daemon`, source: way.sources[0]! })),
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

/** How many events the tap did not show. */
function tapNotes(shown: number, skipped: number): Fact[] {
  if (skipped === 0) return [{ name: 'tap', text: 'no event was skipped' }]
  const part = `${number(skipped)} events (${percent(skipped, shown + skipped)})`
  const text = `${part} were skipped, so the throttle would discard more: a tap shows at most ${number(TAPPED_PER_SECOND)} per second`
  return [{ name: 'tap', text }]
}
