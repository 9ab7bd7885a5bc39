import type { Limit } from '../components/throttle/limit.js'

/**
 * The result of a simulation as plain data, for the summary, the report and `--json`. Times are in milliseconds since
 * the epoch. In every trial, events = passed + discarded + excluded.
 */
export interface SimulationResult {
  /** With `--suggest` or `--budget`: the limit that was found for the first trial. */
  readonly limit?: number
  /** Like `limit`, but in bytes. Used if the throttle has only a limit of bytes. */
  readonly limit_bytes?: number
  /**
   * With `--suggest` or `--budget`: the combinations of key and window for which no limit achieves the goal. These
   * combinations are not in `results`.
   */
  readonly unanswered?: readonly Unanswered[]
  /** The id of the throttle. `config`: the path of its configuration. Both are null without a configuration. */
  readonly component: string | null
  readonly config: string | null
  /** The command-line options that change the throttle, as a user would type them. */
  readonly changed: readonly string[]
  readonly settings: readonly StatedFact[]
  /** `-` means standard input. */
  readonly inputs: readonly string[]
  /** The field with the event time. If null, the time at which a daemon received the event is used. */
  readonly time: string | null
  /** False: the simulation was interrupted before the end of the input. */
  readonly complete: boolean
  /** Number of events that reached the throttle. `bytes`: their size, including line ends. */
  readonly events: number
  readonly bytes: number
  readonly excluded: number
  readonly excluded_bytes: number
  /** The earliest and the latest time of an event; null if no event has a time. */
  readonly from: number | null
  readonly to: number | null
  /** The slots of equal length to which every `over_time` refers. Null if no event has a time. */
  readonly slots: SlotRows | null
  /** Notes about the numbers, for example about events without a time. */
  readonly notes: readonly StatedFact[]
  /** One entry for each combination of key, window and limit, in this order. */
  readonly results: readonly TrialResult[]
  /** The throttle, to paste into a configuration. With several trials, a comment on how to get it. */
  readonly yaml: string
}

export interface StatedFact {
  readonly name: string
  readonly text: string
}

export interface SlotRows {
  readonly start: number
  readonly slot_ms: number
  /** At most 240. */
  readonly count: number
}

export interface TrialResult {
  /** The field whose value names the bucket. Null if all events share one bucket. */
  readonly key_field: string | null
  /** The limit of the throttle, or the first of several limits. */
  readonly limit: number
  readonly unit: Limit['unit']
  readonly window_ms: number
  readonly window_mode: string
  /** How the search found the limit. Missing if the limit was given. */
  readonly search?: SearchResult
  readonly passed: number
  readonly discarded: number
  readonly passed_bytes: number
  readonly discarded_bytes: number
  /** Number of distinct keys. If `more_keys` is true, there were more keys than could be distinguished. */
  readonly keys: number
  readonly more_keys: boolean
  /** Number of keys with discarded events, the default bucket included. */
  readonly losing_keys: number
  /** The keys with the most discarded events: at most 1,000 keys, highest number first. */
  readonly by_key: readonly KeyResult[]
  /** The exact sum of all keys that are not in `by_key`. Null if `by_key` contains all keys. */
  readonly others: OtherKeys | null
  readonly over_time: TimeResult
}

export interface KeyResult extends Readonly<Omit<OtherKeys, 'keys'>> {
  /** Null for the bucket of the events without a key. */
  readonly key: string | null
  /**
   * The most events in one window, without excluded events. If the limit is at least this high, no event is discarded.
   */
  readonly busiest: number
  /** The time at which the window of `busiest` opened. Null if `busiest` is 0. */
  readonly busiest_at: number | null
}

export interface OtherKeys {
  keys: number
  passed: number
  discarded: number
  excluded: number
  passed_bytes: number
  discarded_bytes: number
}

/** Number of events in each slot. Omits events that came before the first event with a time. */
export interface TimeResult {
  readonly passed: readonly number[]
  readonly discarded: readonly number[]
  readonly excluded: readonly number[]
  /**
   * Discarded events of the keys with the most discards: at most 12 keys, highest number first. `others` may contain
   * the first few discards of such a key. In each slot, `discarded` = the sum of `by_key` + `others`.
   */
  readonly by_key: readonly { readonly key: string | null; readonly discarded: readonly number[] }[]
  readonly others: readonly number[]
}

/** A throttle for which no limit achieves a goal. */
export interface Unanswered {
  readonly key_field: string | null
  readonly window_ms: number
  readonly reason: string
}

export interface SearchResult {
  /** The goal as text that can follow the words `a limit that`. */
  readonly goal: string
  /** Whether the limit is the lowest or the highest that achieves the goal. */
  readonly kind: 'lowest' | 'highest'
  /** The effect of the limit on the goal, in words. */
  readonly does: string
  /** With `--suggest`: the numbers of `matching` and `kept` events. With `--budget`: `bytes_per_period`. */
  readonly figures: Readonly<Record<string, number>>
  /** False if the goal is achieved without a limit. The reported limit is then the lowest that discards nothing. */
  readonly needed: boolean
  /** The adjacent limit, which does not achieve the goal. Null if every limit achieves the goal. */
  readonly next: { readonly limit: number; readonly does: string } | null
}
