import type { Logger } from 'pino'
import type { AnyDefinition } from '../../core/component.js'
import type { StoreOptions } from '../../engine/config/store-options.js'
import type { Clock } from '../../lib/time.js'
import { Service } from './domain/service.js'
import { ALONE, SharedNodes } from './nodes.js'
import { openState, type ServiceState } from './store/state.js'

export interface OpenOptions {
  readonly dataDir: string
  readonly store: StoreOptions
  readonly limits: { readonly failed_tries: number; readonly requests: number }
  readonly log: Logger
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  readonly components: readonly AnyDefinition[]
  /** Whether to open the store even if a service is using it. This process then does not run periodic tasks. */
  readonly beside?: boolean
}

export interface OpenService {
  readonly service: Service
  readonly state: ServiceState
  /** Undefined if the store is embedded, or opened `beside` a running service. */
  readonly nodes: SharedNodes | undefined
  /** Writes data that is only in memory, and closes the store. */
  close(): Promise<void>
}

const MINUTE_MS = 60_000

/**
 * Opens the store in `dataDir` and the service. Throws StoreError SLUICE_STORE_IN_USE if another service has it open.
 */
export async function openService(options: OpenOptions): Promise<OpenService> {
  const { dataDir, store, limits, random, beside = false, ...rest } = options
  const state = await openState(dataDir, random, { log: options.log, beside, store })
  let nodes: SharedNodes | undefined
  try {
    if (store.type === 'postgresql' && !beside)
      nodes = await SharedNodes.open({ ...rest, store: state.store, dataDir, random })
    const service = await Service.open({
      ...rest,
      random,
      store: state.store,
      secret: state.secret,
      background: !beside,
      nodes: nodes ?? ALONE,
      limits: {
        requestsPerKey: { limit: limits.requests, windowMs: MINUTE_MS },
        failedTries: { limit: limits.failed_tries, windowMs: MINUTE_MS },
      },
    })
    const close = async () => {
      await service.close()
      await nodes?.close()
      await state.close()
    }
    return { service, state, nodes, close }
  } catch (error) {
    await nodes?.close()
    await state.close()
    throw error
  }
}
