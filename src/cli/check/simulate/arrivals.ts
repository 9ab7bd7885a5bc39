import { everWaits, longestWaits, type ThrottleOptions } from '../../../components/processors/throttle/options.js'
import type { Origin } from '../../../core/event/origin.js'
import type { Frame } from '../../../lib/lines/line-splitter.js'
import type { Input } from './input.js'
import type { FrameReader, Replay } from './replay.js'
import { isThrottle, type Route } from './subject.js'
import type { Trials } from './trials.js'

/**
 * Events come when they were written, or as backlog, all at once: so a daemon reads at its start what was there before.
 */
export interface Arrivals {
  /** Whether the events of the simulation are backlog. */
  readonly isBacklog: boolean
  /** Whether to count what would be discarded if they came in the other way. */
  readonly wantsOther: boolean
}

/**
 * How the events of a throttle come. They are backlog if it keeps backlog, so that it decides as the daemon does about
 * the same lines. `isChanged`: another throttle than that of the configuration is tried, on what came live.
 */
export function arrivalsOf(
  options: ThrottleOptions,
  { processors }: Route,
  inputs: readonly Input[],
  isChanged: boolean,
): Arrivals {
  const isThere = inputs.every(({ source: { definition, options } }) => definition.catchesUp?.(options))
  if (!isThere || options.time_field) return { isBacklog: false, wantsOther: false }
  const keeps = keepsBacklog(options)
  // What another throttle lets wait comes neither when it was written nor at once.
  const isPaced = processors.some(one => isThrottle(one) && everWaits(one.options as ThrottleOptions))
  return { isBacklog: keeps && !isChanged, wantsOther: !isPaced && !(keeps && isChanged) }
}

/** Whether backlog over the limit passes, at once or later. */
function keepsBacklog(options: ThrottleOptions): boolean {
  const { on_backlog } = options
  return on_backlog === 'pass' || (on_backlog === 'pace' && longestWaits(options).backlog > 0)
}

/** Replays each frame twice. */
export class Twice implements FrameReader {
  readonly #one: Replay<Trials>
  readonly #other: Replay<Trials>

  constructor(one: Replay<Trials>, other: Replay<Trials>) {
    this.#one = one
    this.#other = other
  }

  async start(signal: AbortSignal): Promise<void> {
    for (const replay of [this.#one, this.#other]) await replay.start(signal)
  }

  async stop(): Promise<void> {
    for (const replay of [this.#one, this.#other]) await replay.stop()
  }

  enter(origin: Omit<Origin, 'wanted'>, receivedAt: number): void {
    for (const replay of [this.#one, this.#other]) replay.enter(origin, receivedAt)
  }

  async replay(frame: Frame): Promise<void> {
    // Each batch notes in the flags what it has scanned for its own fields.
    await this.#other.replay({ ...frame, flags: frame.flags.slice() })
    await this.#one.replay(frame)
  }
}
