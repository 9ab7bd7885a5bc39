import type { ProcessorContext, StateFolder } from '../../../../core/component.js'
import type { SavedLimiter } from '../../../throttle/persist/saved-buckets.js'
import type { Rule } from '../../../throttle/rules/rule.js'
import { limitsOf, type ThrottleConfig } from '../options.js'
import { StateSaver } from './state-saver.js'

export interface Persisted {
  readonly limiter: SavedLimiter
  readonly rules: readonly Rule[]
  /** Whether the buckets come from a predecessor. If so, saved buckets are not read, because they are not newer. */
  readonly isInherited: boolean
}

/** Restores the buckets that an earlier run has saved, and saves the buckets from now on. */
export async function openSaver(
  options: ThrottleConfig,
  { clock, log, metrics }: Pick<ProcessorContext, 'clock' | 'log' | 'metrics'>,
  state: StateFolder,
  { limiter, rules, isInherited }: Persisted,
): Promise<StateSaver> {
  const inEventTime = options.time_field !== undefined
  const saver = new StateSaver({ state, means: meaningOf(options), limiter, rules, inEventTime, clock, log, metrics })
  if (!isInherited) await saver.restore()
  return saver
}

/**
 * The options that saved buckets depend on. If only the value of a limit changes, saved counts stay valid, but the
 * times that gcra saves do not stay valid.
 */
function meaningOf(options: ThrottleConfig): Record<string, unknown> {
  const { key_field, time_field, cost } = options
  return {
    key_field: key_field.map(({ text }) => text),
    time_field: time_field === 'auto' ? time_field : time_field?.text,
    cost: cost?.text,
    windows: limitsOf(options).map(limit => {
      const { mode, windowMs, unit } = limit
      const zone = limit.mode === 'quota' ? [limit.per, limit.timeZone] : []
      return [mode, windowMs, unit, ...zone, ...(mode === 'gcra' ? [limit.limit] : [])]
    }),
  }
}
