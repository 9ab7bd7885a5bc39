import type { Limit } from '../../../components/throttle/limit.js'

/**
 * The result of a simulation as plain data: what the summary and the report show, and what `--json` prints. Times are
 * in milliseconds since the epoch. In every trial, events = passed + discarded + excluded.
 */
export interface SimulationResult {
  /** With `--suggest` and `--budget`: the limit that was found, of the first trial. */
  readonly limit?: number
  /** The same, if the throttle has a limit of bytes alone. */
  readonly limit_bytes?: number
  /** With these: the combinations of key and window for which no limit achieves the goal. They are not in `results`. */
  readonly unanswered?: readonly Unanswered[]
  /** The id of the throttle, and the path of its configuration; null without a configuration. */
  readonly component: string | null
  readonly config: string | null
  /** The options of the command line that change the throttle, as one would type them. */
  readonly changed: readonly string[]
  /** The throttle and the input, as pairs of a name and a text. */
  readonly settings: readonly Fact[]
  /** `-` means standard input. */
  readonly inputs: readonly string[]
  /** The field with the time of the events; null: the time at which a daemon had them. */
  readonly time: string | null
  /** False if it was interrupted before the end of the input. */
  readonly complete: boolean
  /** Events that reached the throttle, and their size including line ends. */
  readonly events: number
  readonly bytes: number
  readonly excluded: number
  readonly excluded_bytes: number
  /** Time of the first and of the last event; null if no event has a time. */
  readonly from: number | null
  readonly to: number | null
  /** Slots of equal length that all `over_time` refer to; null if no event has a time. */
  readonly slots: Slots | null
  /** What to know about the numbers, such as events without a time. */
  readonly notes: readonly Fact[]
  /** One entry for each combination of key, window and limit, in this order. */
  readonly results: readonly TrialResult[]
  /** The throttle with the options of the first trial, to paste into a configuration. */
  readonly yaml: string
}

export interface Fact {
  readonly name: string
  readonly text: string
}

export interface Slots {
  /** When the first slot begins. */
  readonly start: number
  readonly slot_ms: number
  /** At most 240. */
  readonly count: number
}

/** What one throttle would have done. */
export interface TrialResult {
  /** The field whose value names the bucket; null: all events share one bucket. */
  readonly key_field: string | null
  /** The first limit, if there are several. */
  readonly limit: number
  readonly unit: Limit['unit']
  readonly window_ms: number
  readonly window_mode: string
  /** How the limit was found, if it was searched for. */
  readonly search?: SearchResult
  readonly passed: number
  readonly discarded: number
  readonly passed_bytes: number
  readonly discarded_bytes: number
  /** Number of keys; if `more_keys`, there were more than could be distinguished. */
  readonly keys: number
  readonly more_keys: boolean
  /** Number of keys with discarded events, the default bucket included. */
  readonly losing_keys: number
  /** The keys with the most discarded events, most first; at most 1,000. */
  readonly by_key: readonly KeyResult[]
  /** The exact sum of all keys that are not in `by_key`; null if there are none. */
  readonly others: OtherKeys | null
  readonly over_time: TimeResult
}

export interface KeyResult {
  /** Null: the bucket of the events without a key. */
  readonly key: string | null
  readonly passed: number
  readonly discarded: number
  readonly excluded: number
  readonly passed_bytes: number
  readonly discarded_bytes: number
  /** Most events in one window, not counting excluded ones. With a limit this high, none is discarded. */
  readonly busiest: number
  /** When that window opened; null if there was none. */
  readonly busiest_at: number | null
}

export interface OtherKeys {
  /** Number of keys. */
  keys: number
  passed: number
  discarded: number
  excluded: number
  passed_bytes: number
  discarded_bytes: number
}

/** Events in each slot of `slots`. Events before the first one with a time are in none. */
export interface TimeResult {
  readonly passed: readonly number[]
  readonly discarded: readonly number[]
  readonly excluded: readonly number[]
  /**
   * Discarded events of the heaviest keys, most first; at most 12. A key that became heavy late has its earlier discards
   * in `others`. In each slot, `discarded` = the sum of `by_key` + `others`.
   */
  readonly by_key: readonly { readonly key: string | null; readonly discarded: readonly number[] }[]
  readonly others: readonly number[]
}

/** A throttle for which no limit achieves a goal. */
export interface Unanswered {
  readonly key_field: string | null
  readonly window_ms: number
  /** In words. */
  readonly reason: string
}

/** A limit that achieves a goal. */
export interface SearchResult {
  /** In words, after `a limit that`. */
  readonly goal: string
  /** Whether it is the lowest limit or the highest one that achieves the goal. */
  readonly kind: 'lowest' | 'highest'
  /** What the limit does for the goal, in words. */
  readonly does: string
  /** For `--suggest` the `matching` and the `kept` events, for `--budget` the `bytes_per_period`. */
  readonly figures: Readonly<Record<string, number>>
  /** False: the goal is achieved without a limit, and this is the lowest one that discards nothing. */
  readonly needed: boolean
  /** The next limit, which does not achieve it; null if there is none. */
  readonly next: { readonly limit: number; readonly does: string } | null
}
