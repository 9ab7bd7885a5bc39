import type { Seeded } from '../support/seeded.js'
import type { Ending } from './life.js'

/**
 * How much happens in a world. Most bugs show with few events, components and restarts, and such a world takes a fraction
 * of the CPU time of a large one. The large worlds find what needs more of them.
 */
export interface Size {
  /** How likely a second source is. */
  readonly secondSource: number
  readonly processors: number
  readonly destinations: number
  readonly leastEvents: number
  /** Events of a topic beyond these. */
  readonly events: readonly number[]
  /** Milliseconds between two events. */
  readonly everyMs: readonly number[]
  /** Events of a batch. */
  readonly batch: number
  /** Processes before the last one. */
  readonly lives: readonly number[]
  readonly lifeMs: readonly number[]
  /** Milliseconds between two things that happen to a process. */
  readonly calamityMs: readonly number[]
  /** How likely the mood of a receiver changes then. */
  readonly moods: number
  readonly endings: readonly Ending[]
  /** How likely a process is reloaded now and then. */
  readonly reloads: number
  /** How likely something is wrong already when a process starts. */
  readonly startsInTrouble: number
  /** Calls of the disk before a process is killed in one. */
  readonly calls: readonly number[]
  /** How likely a process is killed in the middle of a write. */
  readonly killsInWrite: number
}

const SMALL: Size = {
  secondSource: 0.25,
  processors: 3,
  destinations: 2,
  leastEvents: 2,
  events: [2, 6, 12],
  everyMs: [1, 5, 30],
  batch: 4,
  lives: [1, 1, 1, 2],
  lifeMs: [120, 500, 1500],
  calamityMs: [40, 200],
  moods: 0.8,
  endings: ['kill', 'power', 'power', 'stop', 'abort'],
  reloads: 0.25,
  startsInTrouble: 0.5,
  calls: [12, 50],
  killsInWrite: 0.1,
}

const LARGE: Size = {
  secondSource: 0.5,
  processors: 4,
  destinations: 3,
  leastEvents: 5,
  events: [15, 40, 100],
  everyMs: [1, 20, 100],
  batch: 12,
  lives: [1, 2, 3],
  lifeMs: [300, 2000, 8000],
  calamityMs: [200, 1500],
  moods: 0.4,
  endings: ['kill', 'kill', 'power', 'stop', 'abort'],
  reloads: 0.4,
  startsInTrouble: 0,
  calls: [50, 500],
  killsInWrite: 0,
}

/** One world in so many is large. */
const LARGE_EVERY = 40

export const sizeOf = (random: Seeded): Size => (random.below(LARGE_EVERY) === 0 ? LARGE : SMALL)
