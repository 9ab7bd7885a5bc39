import { DISCARDED, type Plan } from '../../../core/processor.js'
import { everWaits, type ThrottleConfig } from './options.js'

export const THROTTLE_REASONS = {
  throttled: 'Beyond `limit`.',
  throttled_backlog: 'Beyond `limit`, from a source that was catching up, without a `time_field`.',
  max_keys: 'A new bucket while `max_keys` others are in use, with `on_max_keys: discard`.',
  late: 'Later than `allowed_lateness`, with `on_late: discard`.',
  no_backend: 'The server of a cluster limit did not reply, with `on_backend_failure: discard`.',
} as const

/** Maximum number of batches that may wait for the server's reply at the same time. */
const CLUSTER_CONCURRENCY = 4

const ANNOTATED = { option: 'annotate', output: DISCARDED, what: 'annotated events' }
const SUMMED_UP = { option: 'summary', output: DISCARDED, what: 'summaries' }

export const throttlePlan = (options: ThrottleConfig) =>
  ({
    waits: everWaits(options),
    reasons: [
      'throttled',
      ...(options.time_field ? [] : (['throttled_backlog'] as const)),
      ...(options.on_max_keys === 'discard' ? (['max_keys'] as const) : []),
      ...(options.on_late === 'discard' ? (['late'] as const) : []),
      ...(options.on_backend_failure === 'discard' ? (['no_backend'] as const) : []),
    ],
    ...(options.scope === 'cluster' && { concurrency: CLUSTER_CONCURRENCY }),
    observes: options.mode === 'shadow',
    expects: [
      ...(options.annotate && options.mode === 'enforce' && options.over_limit !== 'mark' ? [ANNOTATED] : []),
      ...(options.summary && options.summary.to !== 'passed' ? [SUMMED_UP] : []),
    ],
    ...(options.summary && { every: options.summary.every }),
  }) satisfies Plan & { reasons: (keyof typeof THROTTLE_REASONS)[] }
