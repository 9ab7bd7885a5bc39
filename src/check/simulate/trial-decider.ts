import type { EventBatch } from '../../core/event/batch.js'
import { Decider } from '../../throttle/decider.js'
import type { Decision } from '../../throttle/decisions.js'
import { EventDecider } from '../../throttle/event-decider.js'
import type { Outcome } from './grid-windows.js'

/** The time is that of the events. */
export const STOPPED_CLOCK = { now: () => 0, wall: () => 0 }

/** Decides for trials that differ in their limits alone. */
export interface TrialDecider {
  /** Events of keys beyond `max_keys`: passed uncounted, and discarded. */
  readonly failedOpen: number
  readonly refused: number
  /** Whether the last event was counted in the default bucket. */
  readonly byDefault: boolean
  /** What each trial did with the last event; undefined if those that discard are always the first ones. */
  readonly outcome: Outcome | undefined
  /** Events that passed after they had waited for room, and the longest wait; undefined if none ever waits. */
  readonly waits?: { readonly events: number; readonly longestMs: number }
  /** Events that are later than a trial allows, if the throttle has windows in event time. */
  late(trial: number): number
  /** Called before the events of a batch. */
  enter(batch: EventBatch): void
  /** How many of the first trials discard an event, before the first one that does not; EXEMPT if it is excluded. */
  lost(batch: EventBatch, i: number, now: number): number
}

/** What trials have in common. They have no event time, and one outcome for all, unless they say so. */
export abstract class CountingTrial implements TrialDecider {
  failedOpen = 0
  refused = 0
  readonly outcome: Outcome | undefined = undefined
  abstract readonly byDefault: boolean
  abstract lost(batch: EventBatch, i: number, now: number): number

  late(_trial: number): number {
    return 0
  }

  enter(_batch: EventBatch): void {}
}

/** Starts a batch, before the decisions about it. */
export function enterBatch(decider: Decider | EventDecider, batch: EventBatch): void {
  if (decider instanceof EventDecider) decider.enter(batch, 0, Number.NEGATIVE_INFINITY)
}

/** Decides on one event at the time that is its own in this simulation. */
export function decideOne(decider: Decider | EventDecider, batch: EventBatch, i: number, now: number): Decision {
  if (decider instanceof Decider) decider.limiter.advance(now)
  return decider.decideOne(batch, i, now)
}
