import type { Readable, Writable } from 'node:stream'
import type { Logger } from 'pino'
import type { TimerClock } from '../../lib/time.js'
import type { Config } from '../config/load.js'
import type { CounterSet } from '../flow/counters.js'
import type { RequestPool } from '../flow/delivery/request-slots.js'
import type { DiskAllowance } from '../flow/disk-allowance.js'
import type { WaitWatch } from './measure/waits.js'

export type EngineConfig = Pick<Config, 'dataDir' | 'shutdownTimeoutMs' | 'sources' | 'processors' | 'destinations'>

export interface Runtime {
  readonly log: Logger
  readonly clock: TimerClock
  /** The clock of processors and their stages, if it differs from `clock`. */
  readonly processorClock?: TimerClock
  readonly random: () => number
  readonly metrics: CounterSet
  /** Finds components that wait for others. */
  readonly waits?: Pick<WaitWatch, 'all'>
  readonly stdin: Readable
  readonly stdout: Writable
  /** Limits the total size of all buffers and dead-letter files, in addition to the limits in their own options. */
  readonly disk?: DiskAllowance | undefined
  /** Limits the requests of all destinations in total, in addition to their own options. */
  readonly requests?: RequestPool | undefined
  /** Called if a component cannot start and waiting would not help. If missing, the run ends. */
  readonly failed?: (error: Error) => void
  readonly started?: () => void
}
