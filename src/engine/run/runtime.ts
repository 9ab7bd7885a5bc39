import type { Readable, Writable } from 'node:stream'
import type { Logger } from 'pino'
import type { TimerClock } from '../../lib/time.js'
import type { Config } from '../config/load.js'
import type { CounterSet } from '../flow/counters.js'
import type { RequestPool } from '../flow/delivery/request-slots.js'
import type { DiskAllowance } from '../flow/disk-allowance.js'

export type EngineConfig = Pick<Config, 'dataDir' | 'shutdownTimeoutMs' | 'sources' | 'processors' | 'destinations'>

export interface Runtime {
  readonly log: Logger
  readonly clock: TimerClock
  /** The clock of processors and their stages, if it differs from `clock`. */
  readonly processorClock?: TimerClock
  readonly random: () => number
  readonly metrics: CounterSet
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

export interface DestinationState {
  readonly id: string
  readonly state: string
  readonly reason: string | undefined
  /** The reason in words of Sluice alone: `reason` may quote the receiver, and thereby events. */
  readonly ownReason?: string | undefined
  /** With `max_in_flight: auto`: the requests in flight, and how many are allowed. */
  readonly requests?: { readonly in_flight: number; readonly allowed: number }
  /** Only with a spool. `open` counts objects that still grow, and `closed` counts objects that wait to be sent. */
  readonly spool?: {
    readonly events: number
    readonly bytes: number
    readonly open: number
    readonly closed: number
    /** Size on disk, and its maximum. */
    readonly used_bytes: number
    readonly max_bytes: number
  }
  /** Only with a disk buffer. */
  readonly buffer?: { readonly events: number; readonly used_bytes: number; readonly max_bytes: number }
  /**
   * Only while attempts fail: when the failures began, how many there were, and the times of the last and next attempt,
   * as ISO 8601.
   */
  readonly since?: string
  readonly failures?: number
  readonly last_failure?: string
  readonly next_attempt?: string
  /** The last finished outage since this component started. */
  readonly last_outage?: {
    readonly since: string
    readonly until: string
    readonly failures: number
    readonly error?: string
  }
  readonly oldest_event?: string
}
