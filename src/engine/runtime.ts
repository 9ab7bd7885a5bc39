import type { Readable, Writable } from 'node:stream'
import type { Logger } from 'pino'
import type { CounterSet } from '../flow/counters.js'
import type { RequestPool } from '../flow/delivery/request-slots.js'
import type { DiskAllowance } from '../flow/disk-allowance.js'
import type { WantedNames } from '../lib/formats/json-scan.js'
import type { TimerClock } from '../lib/time.js'
import type { HandoverStates } from './handover-states.js'
import type { Outages } from './measure/outages.js'
import type { OwnOutputs } from './own-outputs.js'
import type { SourceRun } from './source-run.js'
import type { CheckpointStore } from './state/checkpoints.js'

/** What the engine needs from outside. */
export interface Runtime {
  readonly log: Logger
  readonly clock: TimerClock
  readonly random: () => number
  readonly metrics: CounterSet
  readonly stdin: Readable
  readonly stdout: Writable
  readonly env: NodeJS.ProcessEnv
  /** Bounds buffers and dead letters beyond their own options. */
  readonly disk?: DiskAllowance | undefined
  /** Bounds the requests of all destinations together, beyond their own options. */
  readonly requests?: RequestPool | undefined
  /** A destination cannot start, whatever is waited for. Without this the run ends. */
  readonly failed?: (error: Error) => void
  /** Every destination has started. */
  readonly started?: () => void
}

export interface DestinationState {
  readonly id: string
  readonly state: string
  readonly reason: string | undefined
  /** While attempts fail: when that began, how many there were, and when the last one and the next one are; ISO 8601. */
  readonly since?: string
  readonly failures?: number
  readonly last_failure?: string
  readonly next_attempt?: string
  /** The last one that is over, since this component started. */
  readonly last_outage?: {
    readonly since: string
    readonly until: string
    readonly failures: number
    readonly error: string
  }
  /** When the oldest event came that waits here. */
  readonly oldest_event?: string
}

/** What an engine leaves to the one that takes its place. */
export interface EngineHandover {
  readonly checkpoints: CheckpointStore
  readonly wanted: WantedNames
  readonly outputs: OwnOutputs
  /** Sources that go on, by id. */
  readonly sources: ReadonlyMap<string, SourceRun>
  readonly handoverStates: HandoverStates
  readonly outages: Outages
}
