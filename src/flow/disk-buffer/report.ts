import type { Logger } from 'pino'
import type { ComponentMetrics, Observer } from '../../core/component.js'
import { errorCode, errorText } from '../../core/errors.js'
import type { Clock } from '../../lib/time.js'
import { formatSize } from '../../lib/units.js'
import type { Amount } from '../counters.js'
import type { BufferFolder } from './files.js'
import type { Recovered } from './recovery.js'
import type { Segment } from './segments.js'

const GROUP_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
/** The shortest time between two messages about the same problem. */
const TELL_EVERY_MS = 60_000

export type BufferMetrics = Pick<ComponentMetrics, 'counter' | 'gauge' | 'histogram' | 'discarded' | 'failed'>

/** Reports what happens to a buffer: in the log without repetitions, and in its metrics. */
export class BufferReport {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #folder: BufferFolder
  readonly #metrics: BufferMetrics
  readonly #corruptBytes: { value: number }
  readonly #groupTime: Observer
  readonly #toldAt = new Map<string, number>()
  /** Whether it was logged that the buffer cannot be written. */
  #trouble = false
  /** Whether the last group was not written. */
  #fails = false
  #full = false

  constructor(options: { log: Logger; clock: Clock; folder: BufferFolder; metrics: BufferMetrics }) {
    const { metrics } = options
    this.#log = options.log
    this.#clock = options.clock
    this.#folder = options.folder
    this.#metrics = metrics
    const help = 'Bytes in buffer files that are no record: damage that was stepped over.'
    this.#corruptBytes = metrics.counter('sluice_buffer_corrupt_bytes_total', help)
    const text = 'Time to write a group of records and sync it.'
    this.#groupTime = metrics.histogram('sluice_buffer_write_seconds', text, GROUP_SECONDS)
    const fails = 'Whether the buffer cannot be written for now, and sources wait.'
    metrics.gauge('sluice_buffer_unwritable', fails, () => (this.#fails ? 1 : 0))
  }

  found({ tornBytes }: Recovered, { events, bytes }: Amount): void {
    const torn = 'Bytes of unfinished records that were cut off the end of the buffer at a start.'
    this.#metrics.counter('sluice_buffer_torn_bytes_total', torn).value += tornBytes
    const replayed = 'Events that were in the buffer at a start: they count as received again.'
    this.#metrics.counter('sluice_buffer_replayed_events_total', replayed).value += events
    if (events > 0) this.#log.info({ events, bytes }, 'the buffer holds events of the run before; they are delivered')
  }

  /** A group was written; `all`: nothing waits any more. */
  written(seconds: number, all: boolean): void {
    this.#groupTime.observe(seconds)
    this.#fails = false
    if (!this.#trouble || !all) return
    this.#trouble = false
    this.#log.info({ folder: this.#folder.path }, 'the buffer can be written again')
  }

  notWritten(error: unknown): void {
    this.#metrics.failed('buffer_write')
    this.#fails = true
    const cause = errorCode(error) ?? errorText(error)
    if (!this.#mayTell(`written ${cause}`)) return
    this.#trouble = true
    const fields = { code: 'SLUICE_BUFFER_NOT_WRITTEN', folder: this.#folder.path, cause, error: errorText(error) }
    this.#log.error(fields, 'the buffer cannot be written; it is tried again, and sources wait')
  }

  /** There is no room for a batch; `shared`: others take it. `discarded`: so it was dropped. */
  full(maxBytes: number, shared: boolean, discarded: Amount | undefined): void {
    if (discarded) this.#metrics.discarded('buffer_full', discarded.events, discarded.bytes)
    if (this.#full || !this.#mayTell('full')) return
    this.#full = true
    if (shared) this.#metrics.failed('account_disk_full')
    const fields = { max_bytes: formatSize(maxBytes), shared }
    if (discarded) this.#log.warn(fields, 'the buffer is full; new events are discarded')
    else this.#log.warn(fields, 'the buffer is full; sources wait')
  }

  notFull(): void {
    this.#full = false
  }

  /** Events that were in the buffer cannot be read. */
  missing({ events, bytes }: Amount): void {
    if (events === 0) return
    this.#metrics.discarded('buffer_corrupt', events, bytes)
    const fields = { code: 'SLUICE_BUFFER_EVENTS_LOST', folder: this.#folder.path, events, bytes }
    this.#log.error(fields, 'events are missing in the buffer; they are counted as discarded')
  }

  damaged({ name }: Segment, offset: number, bytes: number): void {
    this.#corruptBytes.value += bytes
    if (!this.#mayTell('damaged')) return
    const fields = { code: 'SLUICE_BUFFER_DAMAGED', file: `${this.#folder.path}/${name}`, offset, bytes }
    this.#log.error(fields, 'damage in the buffer was stepped over')
  }

  notRead({ name }: Segment, error: unknown): void {
    this.#metrics.failed('buffer_read')
    const fields = { file: `${this.#folder.path}/${name}`, error: errorText(error) }
    if (this.#mayTell('read')) this.#log.warn(fields, 'a file of the buffer cannot be read; it is tried again')
  }

  /** A record whose checksum is right cannot be understood. */
  notUnderstood(error: unknown): void {
    const fields = { code: 'SLUICE_BUFFER_RECORD_UNKNOWN', folder: this.#folder.path, error: errorText(error) }
    if (this.#mayTell('unknown')) this.#log.error(fields, 'a record of the buffer cannot be understood')
  }

  /** A batch could not be made a record: a bug. */
  notEncoded(error: unknown): void {
    this.#metrics.failed('bug')
    const fields = { code: 'SLUICE_BUFFER_BATCH_FAILED', error: errorText(error) }
    if (this.#mayTell('encode')) this.#log.error(fields, 'a batch cannot be put in the buffer; it is read again')
  }

  /** What was never expected has happened: nothing is given out any more. */
  broken(error: unknown): void {
    this.#metrics.failed('bug')
    const fields = { code: 'SLUICE_BUFFER_FAILED', error: errorText(error) }
    this.#log.error(fields, 'the buffer cannot go on; what is in it is delivered after a restart')
  }

  #mayTell(what: string): boolean {
    const now = this.#clock.now()
    if (now - (this.#toldAt.get(what) ?? Number.NEGATIVE_INFINITY) < TELL_EVERY_MS) return false
    this.#toldAt.set(what, now)
    return true
  }
}
