import type { Logger } from 'pino'
import type { AnyDefinition } from '../../core/component.js'
import type { Clock } from '../../lib/time.js'
import type { Store } from '../store/store.js'
import type { Rate } from './rate-limiter.js'

export interface ServiceLimits {
  /** Requests of one key. */
  readonly requestsPerKey: Rate
  /** Tries with a key that does not exist, from one address. Who has a right key is not held up. */
  readonly failedTries: Rate
  readonly accounts: number
  /** Of one account, as are the next ones. */
  readonly users: number
  readonly serviceAccounts: number
  readonly pipelines: number
  readonly daemons: number
  readonly keysPerUser: number
  /** Kept for each pipeline; the published one always is. */
  readonly revisions: number
  readonly configBytes: number
  readonly auditDays: number
}

export const DEFAULT_LIMITS: ServiceLimits = {
  requestsPerKey: { limit: 10_000, windowMs: 10_000 },
  failedTries: { limit: 60, windowMs: 60_000 },
  accounts: 10_000,
  users: 1000,
  serviceAccounts: 1000,
  pipelines: 200,
  daemons: 5000,
  keysPerUser: 50,
  revisions: 100,
  configBytes: 128 * 1024,
  auditDays: 400,
}

export interface ServiceOptions {
  readonly store: Store
  /** Of the keyed hash that keys are stored as. */
  readonly secret: Buffer
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  readonly log: Logger
  /** What pipelines may be made of. */
  readonly components: readonly AnyDefinition[]
  readonly limits?: Partial<ServiceLimits>
}
