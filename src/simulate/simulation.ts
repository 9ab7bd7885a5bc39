import { limitsOf, type ThrottleConfig } from '../components/processors/throttle/options.js'
import type { SimulationInput } from './input.js'
import { notesOn, type Replayed, routeText } from './notes.js'
import type { SearchResult, SimulationResult, StatedFact, TrialResult, Unanswered } from './result.js'
import type { SimulatedThrottle } from './subject.js'
import type { Trial } from './trials.js'
import type { Variant } from './variants.js'
import { describeThrottles, inputName, keyText } from './words.js'

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
    yaml: all.length > 1 ? CHOOSE : throttleYaml(subject.component, subject.inputs, variants[0]!.given),
  }
}

/** In the place of a configuration. Several throttles are offered for a choice, and none of them is the best. */
const CHOOSE = '# For the configuration of one of these throttles, give its limit, window and key alone.\n'

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
