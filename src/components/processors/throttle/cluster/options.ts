import { z } from 'zod'
import type { OptionProblem } from '../../../../core/component.js'
import { refuseAt } from '../../../../core/options/options.js'
import { reaches } from '../../../../core/options/reach.js'
import { redisOptions } from '../../../../net/redis/options.js'

/** The options with which several daemons share a limit. */
export const clusterOptions = {
  scope: z
    .enum(['local', 'cluster'])
    .prefault('local')
    .describe('local: the limit is that of this daemon. cluster: all daemons of the `group` share it.'),
  group: reaches(
    'nothing',
    z.string().regex(/^[\w.-]{1,100}$/, { error: 'must be 1 to 100 letters, digits, dots, dashes or underscores' }),
  )
    .optional()
    .describe('With scope: cluster: whose limit it is. Default: the id of the component.'),
  redis: redisOptions
    .optional()
    .describe('With scope: cluster, required: the Redis or Valkey server that keeps the buckets.'),
  accuracy: z
    .enum(['exact', 'leased'])
    .optional()
    .describe(
      'With scope: cluster. exact: the server is asked for each batch. leased: up to a tenth of the limit is taken ahead. Default: `leased`.',
    ),
  on_backend_failure: z
    .enum(['local_share', 'pass', 'discard', 'wait'])
    .optional()
    .describe(
      'With scope: cluster: what happens to events while the server cannot be asked. local_share: each daemon applies its share of the limits. wait: no event is taken. Default: `local_share`.',
    ),
  expected_members: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .describe(
      'With local_share: the number of daemons of the group. The share is each limit divided by it, at least 1. Default: 1.',
    ),
}

/** The names of all of them. */
export const CLUSTER_OPTIONS = {
  scope: true,
  group: true,
  redis: true,
  accuracy: true,
  on_backend_failure: true,
  expected_members: true,
} as const

const schema = z.object(clusterOptions)
export type ClusterFields = z.output<typeof schema>

/** Options of a throttle that cannot be had in a group, and why. */
const LOCAL_ONLY = {
  time_field:
    'cannot be combined with scope: cluster, whose windows follow the clock of the server; leave it out, or limit in each daemon',
  persist: 'has no effect with scope: cluster, where the server keeps the buckets; leave it out',
} as const

export function checkCluster(options: ClusterFields, context: z.RefinementCtx): void {
  const { scope, redis, on_backend_failure, expected_members } = options
  if (scope === 'local') {
    for (const name of Object.keys(CLUSTER_OPTIONS) as (keyof typeof CLUSTER_OPTIONS)[])
      if (name !== 'scope' && options[name] !== undefined)
        refuseAt(context, [name], 'has no effect without scope: cluster')
    return
  }
  if (redis === undefined)
    refuseAt(context, ['redis'], 'is required with scope: cluster: the server that keeps the buckets')
  if (expected_members !== undefined && (on_backend_failure ?? 'local_share') !== 'local_share')
    refuseAt(context, ['expected_members'], 'has no effect without on_backend_failure: local_share')
  for (const [name, message] of Object.entries(LOCAL_ONLY)) {
    const value = (options as Readonly<Record<string, unknown>>)[name]
    if (value !== undefined && value !== false) refuseAt(context, [name], message)
  }
}

/** Settings of a cluster limit that are valid and rarely intended. */
export function clusterWarnings({ scope, on_backend_failure, expected_members }: ClusterFields): OptionProblem[] {
  if (scope === 'local' || (on_backend_failure ?? 'local_share') !== 'local_share' || expected_members !== undefined)
    return []
  const message =
    'expected_members is missing: while the server cannot be asked, each daemon lets through the whole limit; give the number of daemons'
  return [{ path: ['scope'], message }]
}
