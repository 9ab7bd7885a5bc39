import type { Plan } from '../../core/processor.js'
import type { ThrottleOptions } from './options.js'

/** Why it discards events. */
export const THROTTLE_REASONS = {
  throttled: 'Beyond `limit`.',
  max_keys: 'A new bucket while `max_keys` others are in use, with `on_max_keys: discard`.',
  late: 'Later than `allowed_lateness`, with `on_late: discard`.',
} as const

export const throttlePlan = ({ on_max_keys, on_late }: ThrottleOptions) =>
  ({
    reasons: [
      'throttled',
      ...(on_max_keys === 'discard' ? (['max_keys'] as const) : []),
      ...(on_late === 'discard' ? (['late'] as const) : []),
    ],
  }) satisfies Plan & { reasons: (keyof typeof THROTTLE_REASONS)[] }
