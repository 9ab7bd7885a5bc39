import type { Plan } from '../../core/processor.js'
import type { ThrottleOptions } from './options.js'

/** Why it discards events. */
export const THROTTLE_REASONS = {
  throttled: 'Beyond `limit`.',
  throttled_backlog: 'Beyond `limit`, of what a source sent while it was catching up, without a `time_field`.',
  max_keys: 'A new bucket while `max_keys` others are in use, with `on_max_keys: discard`.',
  late: 'Later than `allowed_lateness`, with `on_late: discard`.',
} as const

export const throttlePlan = ({ on_max_keys, on_late, time_field }: ThrottleOptions) =>
  ({
    reasons: [
      'throttled',
      ...(time_field ? [] : (['throttled_backlog'] as const)),
      ...(on_max_keys === 'discard' ? (['max_keys'] as const) : []),
      ...(on_late === 'discard' ? (['late'] as const) : []),
    ],
  }) satisfies Plan & { reasons: (keyof typeof THROTTLE_REASONS)[] }
