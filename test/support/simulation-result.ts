import type { KeyResult, SimulationResult, TrialResult } from '../../src/cli/check/simulate/result.js'
import { seeded } from './seeded.js'

export interface MadeTrial {
  readonly limit: number
  readonly windowMs?: number
  readonly keyField?: string | null
}

const SLOTS = { start: 1_760_000_000_000, slot_ms: 65_536, count: 240 }
const EVENT_BYTES = 200
const MOST_KEYS = 1000
const MOST_KEYS_OVER_TIME = 12

/** The result of a simulation of made-up events, whose numbers add up: those of the first keys are the largest. */
export function madeResult(keys: readonly (string | null)[], trials: readonly MadeTrial[]): SimulationResult {
  const results = trials.map(trial => madeTrial(keys, trial))
  const { passed, discarded, by_key, others } = results[0]!
  const excluded = by_key.reduce((sum, key) => sum + key.excluded, others?.excluded ?? 0)
  const events = passed + discarded + excluded
  return {
    component: 'limit_app',
    config: 'sluice.yaml',
    changed: [],
    settings: [{ name: 'simulated', text: 'limit_app of sluice.yaml' }],
    inputs: ['app.log'],
    time: '.timestamp',
    complete: true,
    events,
    bytes: events * EVENT_BYTES,
    excluded,
    excluded_bytes: excluded * EVENT_BYTES,
    from: SLOTS.start,
    to: SLOTS.start + SLOTS.count * SLOTS.slot_ms - 1,
    slots: SLOTS,
    notes: [],
    results,
    yaml: 'limit_app:\n  type: throttle\n',
  }
}

function madeTrial(keys: readonly (string | null)[], made: MadeTrial): TrialResult {
  const { limit, windowMs = 1000, keyField = '.app' } = made
  const random = seeded(limit)
  const zeros = () => Array.from({ length: SLOTS.count }, () => 0)
  const over_time = { passed: zeros(), discarded: zeros(), excluded: zeros(), others: zeros() }
  const spread = (slots: number[], events: number, peak: number) => {
    for (let left = events; left > 0; left -= 10) {
      const slot = Math.floor(peak + (random() + random() - 1) * 60)
      slots[Math.min(SLOTS.count - 1, Math.max(0, slot))]! += Math.min(10, left)
    }
  }
  const counts = keys.map((key, k): KeyResult & { discardedOverTime: number[] } => {
    const events = 10 + Math.round(20_000 / (k + 1))
    const discarded = Math.round((events - 10) / (1 + (limit * (k + 1)) / 50))
    const excluded = k % 3
    const passed = events - discarded - excluded
    const discardedOverTime = zeros()
    spread(over_time.passed, passed, SLOTS.count / 2)
    spread(over_time.excluded, excluded, SLOTS.count / 2)
    spread(discardedOverTime, discarded, (k * 67) % SLOTS.count)
    for (const [slot, value] of discardedOverTime.entries()) {
      over_time.discarded[slot]! += value
      if (k >= MOST_KEYS_OVER_TIME) over_time.others[slot]! += value
    }
    const bytes = { passed_bytes: passed * EVENT_BYTES, discarded_bytes: discarded * EVENT_BYTES }
    const window = { busiest: Math.ceil(events / 40), busiest_at: SLOTS.start + k * 1000 }
    return { key, passed, discarded, excluded, ...bytes, ...window, discardedOverTime }
  })
  const sum = (from: number, name: 'passed' | 'discarded' | 'excluded' | 'passed_bytes' | 'discarded_bytes') =>
    counts.slice(from).reduce((sum, key) => sum + key[name], 0)
  const rest = (name: Parameters<typeof sum>[1]) => sum(MOST_KEYS, name)
  return {
    key_field: keyField,
    limit,
    unit: 'events',
    window_ms: windowMs,
    window_mode: 'fixed',
    passed: sum(0, 'passed'),
    discarded: sum(0, 'discarded'),
    passed_bytes: sum(0, 'passed_bytes'),
    discarded_bytes: sum(0, 'discarded_bytes'),
    keys: keys.length,
    more_keys: false,
    losing_keys: keys.length,
    by_key: counts.slice(0, MOST_KEYS).map(({ discardedOverTime: _, ...key }) => key),
    others:
      keys.length <= MOST_KEYS
        ? null
        : {
            keys: keys.length - MOST_KEYS,
            passed: rest('passed'),
            discarded: rest('discarded'),
            excluded: rest('excluded'),
            passed_bytes: rest('passed_bytes'),
            discarded_bytes: rest('discarded_bytes'),
          },
    over_time: {
      ...over_time,
      by_key: counts
        .slice(0, MOST_KEYS_OVER_TIME)
        .map(({ key, discardedOverTime }) => ({ key, discarded: discardedOverTime })),
    },
  }
}
