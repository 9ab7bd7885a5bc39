import { limitsOf, type ThrottleConfig } from '../components/processors/throttle/options.js'
import type { Limit } from '../components/throttle/limit.js'
import type { SimulationInput } from './input.js'
import { notesOn, type Replayed, routeText } from './notes.js'
import type { SimulatedThrottle } from './subject.js'
import type { Trial } from './trials.js'
import type { Variant } from './variants.js'
import { describeThrottles, inputName, keyText } from './words.js'

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
  /** The throttle with the options of the first trial, to paste into a configuration. */
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

export interface Simulation extends Replayed {
  readonly subject: SimulatedThrottle
  /** The command-line options that change the throttle, as a user would type them. */
  readonly typed: readonly string[]
  readonly variants: readonly Variant[]
  readonly inputs: readonly SimulationInput[]
  readonly complete: boolean
  readonly notes?: readonly StatedFact[]
  /** How the search found the limit of each trial. Empty if the limits were given. */
  readonly searches: readonly SearchResult[]
  readonly unanswered?: readonly Unanswered[]
}

const MOST_KEYS = 1000

export function resultOf(simulation: Simulation): SimulationResult {
  const { subject, typed, variants, inputs, complete, searches, unanswered = [], replay, time } = simulation
  const { all } = replay.visitor
  const { excluded } = all[0]!.tally
  const { span, used } = replay.slots
  return {
    ...(searches.length > 0 ? { ...limitOf(all[0]!.options), unanswered } : {}),
    component: subject.config === undefined ? null : subject.component,
    config: subject.config ?? null,
    changed: typed,
    settings: settingsOf(simulation),
    inputs: inputs.map(({ path }) => path),
    time: time ?? null,
    complete,
    events: replay.events,
    bytes: replay.bytes,
    excluded: excluded.events,
    excluded_bytes: excluded.bytes,
    from: span?.from ?? null,
    to: span?.to ?? null,
    slots: used ?? null,
    notes: [
      ...notesOn(simulation),
      ...(simulation.notes ?? []),
      ...unanswered.map(({ reason }) => ({ name: 'no answer', text: reason })),
    ],
    results: all.map((trial, n) => trialResult(trial, searches[n])),
    yaml: `${choiceText(all.length)}${throttleYaml(subject.component, subject.inputs, variants[0]!.given)}`,
  }
}

/** If the YAML describes only the first of several throttles, returns a YAML comment that says this. */
function choiceText(throttles: number): string {
  return throttles > 1 ? `# The first of the ${throttles} throttles above: change it to the one that you choose.\n` : ''
}

function limitOf({ limit, limit_bytes }: ThrottleConfig): Pick<SimulationResult, 'limit' | 'limit_bytes'> {
  return limit === undefined ? { limit_bytes: limit_bytes! } : { limit }
}

function trialResult({ options, ids, tally }: Trial, search: SearchResult | undefined): TrialResult {
  const { limit, unit, windowMs, mode } = limitsOf(options)[0]!
  const { passed, discarded, passed_bytes, discarded_bytes } = tally.totals
  return {
    key_field: keyText(options.key_field) ?? null,
    limit,
    unit,
    window_ms: windowMs,
    window_mode: mode,
    ...(search ? { search } : {}),
    passed,
    discarded,
    passed_bytes,
    discarded_bytes,
    keys: ids.size,
    more_keys: ids.overflowed,
    ...tally.byKey(MOST_KEYS),
    over_time: tally.overTime,
  }
}

function settingsOf({ subject, typed, variants, inputs, route, isBacklog = false }: Simulation): StatedFact[] {
  const { component, config } = subject
  const changes = typed.length > 0 ? `with ${typed.join(' ')}` : ''
  const source =
    config === undefined ? `a throttle ${changes}` : [`${component} of ${config}`, changes].filter(Boolean).join(', ')
  const before = routeText(route)
  return [
    { name: 'simulated', text: source },
    ...describeThrottles(
      variants.map(({ options }) => options),
      isBacklog,
    ),
    ...(subject.given.time_field !== undefined && !variants[0]!.options.time_field
      ? [{ name: 'time_field', text: 'not with this window mode: a daemon counts each event when it arrives' }]
      : []),
    { name: 'input', text: inputs.map(({ path }) => inputName(path)).join(', ') },
    ...(before ? [{ name: 'applied', text: before }] : []),
  ]
}

/** Options that may hold a secret. */
const NOT_SHOWN = new Set(['redis'])

/** A throttle as a part of a configuration file, to paste. */
function throttleYaml(
  id: string,
  inputs: readonly string[] | undefined,
  options: Readonly<Record<string, unknown>>,
): string {
  const lines = Object.entries(options).flatMap(([name, value]) => {
    if (value === undefined) return []
    return NOT_SHOWN.has(name) ? `    # ${name}: as before` : `    ${name}: ${scalar(value)}`
  })
  const from = inputs ? `[${inputs.join(', ')}]` : '[]  # the ids of the components whose events it limits'
  return [
    'processors:',
    `  ${id}:`,
    '    type: throttle',
    `    inputs: ${from}`,
    ...lines.filter(line => !/^ {4}(type|inputs):/.test(line)),
  ]
    .map(line => `${line}\n`)
    .join('')
}

/** A value in the flow style of YAML. */
function scalar(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(scalar).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, member]) => member !== undefined)
    return `{ ${entries.map(([name, member]) => `${scalar(name)}: ${scalar(member)}`).join(', ')} }`
  }
  return typeof value === 'string' && !isPlain(value) ? JSON.stringify(value) : String(value)
}

/** Whether YAML reads the text as the same string if the text is written without quotes. */
function isPlain(text: string): boolean {
  if (!/^[\w./][\w ./-]*$/.test(text) || text.endsWith(' ')) return false
  return Number.isNaN(Number(text)) && !/^(true|false|null|yes|no|on|off|\.inf|\.nan)$/i.test(text)
}
