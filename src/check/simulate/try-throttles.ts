import type { ThrottleOptions } from '../../processors/throttle/options.js'
import type { Io } from '../../terminal/command-line.js'
import type { InputReader } from './input-reader.js'
import type { Replay } from './replay.js'
import type { TimeSlots } from './slots.js'
import { type FieldContext, Trials } from './trials.js'
import { write } from './write.js'

export interface Trying {
  readonly throttles: readonly ThrottleOptions[]
  readonly reader: InputReader
  readonly createReplay: (createVisitor: (context: FieldContext, slots: TimeSlots) => Trials) => Replay<Trials>
  readonly wantsDecisions: boolean
  readonly signal: AbortSignal
  readonly io: Io
}

/**
 * How throttles are tried. in_order: those in event time as if they were on the clock, which decides the same while
 * events are in order, and keeps less. together: with common buckets. alone: each with its own.
 */
type Way = 'in_order' | 'together' | 'alone'

/** Decisions are written in pieces of about this many characters. */
const WRITE_LENGTH = 64 * 1024
/** Characters of decisions held back until an event has the time and the key. If none has, nothing is written. */
const HELD_LENGTH = 64 * 1024 * 1024

/** Tries throttles in the cheapest way that is exact for the input, which is read again if that turns out to be another. */
export async function tryThrottles(trying: Trying): Promise<Replay<Trials>> {
  const { throttles, reader, signal } = trying
  const maySwitch = throttles.length > 1 && reader.canReadAgain
  if (maySwitch && throttles[0]!.time_field) {
    const replay = await tryBy('in_order', trying)
    if (isExact('in_order', replay) || signal.aborted) return replay
  }
  const replay = await tryBy('together', trying)
  if (isExact('together', replay) || !maySwitch || signal.aborted) return replay
  return tryBy('alone', trying)
}

function isExact(way: Way, { backwards, visitor }: Replay<Trials>): boolean {
  if (way === 'together') return !visitor.lackedRoom
  return way === 'alone' || (backwards === 0 && visitor.all.every(({ ids, options }) => ids.size <= options.max_keys))
}

/** Replays the input, and writes the decisions if they are wanted. Ends early if this way is not exact. */
async function tryBy(
  way: Way,
  { throttles, reader, createReplay, wantsDecisions, io }: Trying,
): Promise<Replay<Trials>> {
  const tried = way === 'in_order' ? throttles.map(onTheClock) : throttles
  const how = { wantsDecisions, sharesBuckets: way !== 'alone' }
  const replay = createReplay((context, slots) => new Trials(tried, context, slots, how))
  const { visitor } = replay
  await reader.read(replay, async () => {
    const least = replay.hasTime && visitor.foundKeys ? WRITE_LENGTH : HELD_LENGTH
    if (visitor.decisions.length > least) await write(io.stdout, visitor.takeDecisions())
    return way !== 'in_order' || isExact(way, replay)
  })
  return replay
}

function onTheClock(options: ThrottleOptions): ThrottleOptions {
  return { ...options, time_field: undefined, allowed_lateness: undefined, on_late: undefined }
}
