import type { Logger } from 'pino'
import type { ComponentMetrics } from '../../../core/component.js'
import type { Random } from '../../../lib/backoff.js'
import type { WantedNames } from '../../../lib/formats/json-scan.js'
import type { TimerClock } from '../../../lib/time.js'
import type { DiskAllowance } from '../disk-allowance.js'
import type { BufferFolder } from './files.js'

export type BufferMetrics = Pick<
  ComponentMetrics,
  'counter' | 'fact' | 'gauge' | 'histogram' | 'describeLoss' | 'discarded' | 'failed'
>

export interface DiskBufferContext {
  readonly folder: BufferFolder
  readonly log: Logger
  readonly clock: TimerClock
  readonly random: Random
  readonly wanted: WantedNames
  readonly maxBytes: number
  readonly whenFull: 'block' | 'drop_newest'
  /** Shared space: it limits all buffers and queues together, in addition to `maxBytes`. */
  readonly disk?: DiskAllowance | undefined
  readonly counters: BufferMetrics & {
    arrived(events: number, bytes: number): void
    took(events: number, bytes: number): void
  }
  readonly memory?: BufferMemory | undefined
  /** Whether the destination uses the ids of events. */
  readonly keepsIds?: boolean | undefined
}

/** Limits of records in memory, in bytes. */
export interface BufferMemory {
  /** Records waiting to be written. Beyond this, the sources wait. */
  readonly waiting: number
  /** Written records kept in memory to avoid disk reads. Records that were passed on also count toward this limit. */
  readonly ahead: number
  /** Records that were passed on but not settled. Beyond this limit, no more records are passed on. */
  readonly held: number
}
