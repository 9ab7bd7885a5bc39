import { createHmac } from 'node:crypto'
import type { Logger } from 'pino'
import { RedisBackend } from '../../components/processors/throttle/cluster/redis-backend.js'
import type { AnyDefinition, ComponentMetrics } from '../../core/component.js'
import type { ServiceOptions } from '../../engine/config/service-options.js'
import type { StoreOptions } from '../../engine/config/store-options.js'
import type { TimerClock } from '../../lib/time.js'
import { RedisConnector } from '../../net/redis/connector.js'
import { SharedRates } from './domain/keys/shared-rates.js'
import { Service } from './domain/service.js'
import { SharedNodes, SINGLE_NODE } from './nodes.js'
import { openState, type StoredState } from './store/state.js'

export interface OpenOptions {
  readonly dataDir: string
  readonly store: StoreOptions
  readonly limits: ServiceOptions['limits']
  readonly log: Logger
  readonly clock: TimerClock
  readonly random: (bytes: number) => Buffer
  readonly components: readonly AnyDefinition[]
  /** Whether to open the store even if a service is using it. This process then does not run periodic tasks. */
  readonly beside?: boolean
  /**
   * Metrics of the Redis in `limits`. If they are undefined, that Redis is not used, and each node allows its share of
   * a limit.
   */
  readonly metrics?: ComponentMetrics | undefined
}

export interface OpenService {
  readonly service: Service
  readonly state: StoredState
  /** Undefined if the store is embedded, or if it was opened with `beside`. */
  readonly nodes: SharedNodes | undefined
  /** Writes data that is only in memory, and closes the store. */
  close(): Promise<void>
}

/** The component name of the shared rate limits in metrics and log lines. */
export const LIMITS = 'service.limits'
const MINUTE_MS = 60_000

/**
 * Opens the service and its store in `dataDir`. Throws StoreError SLUICE_STORE_IN_USE if another service has it open.
 */
export async function openService(options: OpenOptions): Promise<OpenService> {
  const { dataDir, store, limits, random, beside = false, metrics, ...rest } = options
  const state = await openState(dataDir, random, { log: options.log, beside, store })
  let nodes: SharedNodes | undefined
  let rates: SharedRates | undefined
  try {
    if (store.type === 'postgresql' && !beside)
      nodes = await SharedNodes.open({ ...rest, store: state.store, dataDir, random })
    if (nodes && limits.redis && metrics) rates = sharedRates(limits.redis, state.secret, nodes, { ...rest, metrics })
    const service = await Service.open({
      ...rest,
      random,
      store: state.store,
      secret: state.secret,
      background: !beside,
      nodes: nodes ?? SINGLE_NODE,
      rates,
      limits: {
        requestsPerKey: { limit: limits.requests, windowMs: MINUTE_MS },
        failedTries: { limit: limits.failed_tries, windowMs: MINUTE_MS },
      },
    })
    const close = async () => {
      await service.close()
      await rates?.close()
      await nodes?.close()
      await state.close()
    }
    return { service, state, nodes, close }
  } catch (error) {
    await rates?.close()
    await nodes?.close()
    await state.close()
    throw error
  }
}

type Redis = NonNullable<ServiceOptions['limits']['redis']>
type RedisContext = Pick<OpenOptions, 'log' | 'clock'> & { readonly metrics: ComponentMetrics }

function sharedRates(redis: Redis, secret: Buffer, nodes: SharedNodes, context: RedisContext): SharedRates {
  // All nodes derive this group from the secret, so throttles of published pipelines cannot guess and use the group.
  const group = createHmac('sha256', secret).update('the group of the rate limits').digest('hex').slice(0, 16)
  const log = context.log.child({ component: LIMITS })
  return new SharedRates(ratesBackend(redis, group, { ...context, log }), nodes, context.clock)
}

function ratesBackend(redis: Redis, group: string, context: RedisContext): RedisBackend {
  const connector = new RedisConnector(redis, context)
  const settings = { group, timeoutMs: redis.timeout, passwords: () => connector.passwords }
  return new RedisBackend((lost, signal) => connector.connect(lost, signal), settings, context)
}

/** Checks that a service can use the server of the shared rate limits. Changes no data. Throws if the check fails. */
export async function checkRatesBackend(redis: Redis, context: RedisContext): Promise<string> {
  const backend = ratesBackend(redis, 'check', context)
  await backend.start()
  const reason = backend.outage?.reason
  backend.close()
  if (reason !== undefined) throw new Error(reason)
  return 'the server of the rate limits replies'
}
