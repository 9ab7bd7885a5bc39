import type { Logger } from 'pino'
import type { Observer } from '../../../core/component.js'
import { errorCode, errorText } from '../../../core/errors.js'
import { above0, CHECK_DISK } from '../../../core/fact.js'
import { LogLimit } from '../../../lib/log-limit.js'
import { formatSize } from '../../../lib/units.js'
import type { Amount } from '../counters.js'
import type { BufferMetrics, DiskBufferContext } from './context.js'
import type { BufferFolder } from './files.js'
import type { Recovered } from './ledger.js'
import type { Segment } from './segments.js'

const GROUP_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]

/** Reports what happens in a buffer, in its metrics and, without repetition, in the log. */
export class BufferReport {
  readonly #log: Logger
  readonly #folder: BufferFolder
  readonly #metrics: BufferMetrics
  readonly #limit: LogLimit
  readonly #corruptBytes: { value: number }
  readonly #groupTime: Observer
  /** Whether it was logged that the buffer cannot be written. */
  #isReported = false
  /** Whether writing the last group failed. */
  #fails = false
  #full = false
  /** Whether the rest of the disk is reserved. */
  #isReserved = false

  constructor({ log, clock, folder, counters: metrics }: DiskBufferContext) {
    this.#log = log
    this.#folder = folder
    this.#metrics = metrics
    this.#limit = new LogLimit(clock)
    const help = 'Damaged bytes in buffer files, which were skipped.'
    this.#corruptBytes = metrics.counter('sluice_buffer_corrupt_bytes_total', help)
    const text = 'Time to write and sync a group of records.'
    this.#groupTime = metrics.histogram('sluice_buffer_write_seconds', text, GROUP_SECONDS)
    const fails = '1 if the buffer cannot be written now. The sources wait until it can be written.'
    const todo = `No events are lost: its sources wait, and the daemon tries again until the write succeeds. ${CHECK_DISK} (SLUICE_BUFFER_NOT_WRITTEN).`
    const problem = above0('blocked', 'its buffer cannot be written', todo)
    const read = () => (this.#fails || this.#isReserved ? 1 : 0)
    metrics.fact({ name: 'sluice_buffer_unwritable', help: fails, read, problem })
    metrics.describeLoss(
      'buffer_full',
      'They are lost, because when_full is drop_newest. With block the sources would wait.',
    )
    metrics.describeLoss('buffer_corrupt', 'They are lost: the files of the buffer were damaged. The log names them.')
  }

  found({ tornBytes }: Recovered, { events, bytes }: Amount): void {
    const torn = 'Bytes of unfinished records that were removed from the end of the buffer at a start.'
    this.#metrics.counter('sluice_buffer_torn_bytes_total', torn).value += tornBytes
    const replayed = 'Events in the buffer at a start. They count as received again.'
    this.#metrics.counter('sluice_buffer_replayed_events_total', replayed).value += events
    if (events > 0) this.#log.info({ events, bytes }, 'the buffer holds events from the previous run; delivering them')
  }

  /** Reports that a group of records was written. `all`: no more records wait. */
  written(seconds: number, all: boolean): void {
    this.#groupTime.observe(seconds)
    this.#fails = false
    if (!this.#isReported || !all) return
    this.#isReported = false
    this.#worksAgain()
  }

  notWritten(error: unknown): void {
    this.#metrics.failed('buffer_write')
    this.#fails = true
    const cause = errorCode(error) ?? errorText(error)
    const fields = { code: 'SLUICE_BUFFER_NOT_WRITTEN', folder: this.#folder.path, cause, error: errorText(error) }
    const text = 'cannot write to the buffer; retrying, and the sources wait'
    if (this.#problem(`written ${cause}`, 'error', fields, text)) this.#isReported = true
  }

  /**
   * Reports that a batch has no room. `shared`: the shared space is full, rather than the buffer. `discarded`: the
   * events that were discarded for this reason.
   */
  full(maxBytes: number | undefined, shared: boolean, discarded: Amount | undefined): void {
    if (discarded) this.#metrics.discarded('buffer_full', discarded.events, discarded.bytes)
    if (this.#full) return
    this.#isReserved = maxBytes === undefined
    const code = this.#isReserved ? 'SLUICE_BUFFER_NOT_WRITTEN' : undefined
    const fields = { code, max_bytes: maxBytes && formatSize(maxBytes), shared }
    const what = maxBytes ? 'the buffer is full' : 'the disk is almost full, and the rest is reserved for positions'
    const text = `${what}; ${discarded ? 'new events are discarded' : 'sources wait'}`
    if (!this.#problem('full', 'warn', fields, text)) return
    this.#full = true
    if (shared) this.#metrics.failed(maxBytes ? 'account_disk_full' : 'disk_full')
  }

  notFull(): void {
    if (this.#isReserved) this.#worksAgain()
    this.#full = this.#isReserved = false
  }

  #worksAgain(): void {
    this.#log.info({ folder: this.#folder.path }, 'writes to the buffer work again')
  }

  /** Reports events in the buffer that cannot be read. */
  missing({ events, bytes }: Amount): void {
    if (events === 0) return
    this.#metrics.discarded('buffer_corrupt', events, bytes)
    const fields = { code: 'SLUICE_BUFFER_EVENTS_LOST', folder: this.#folder.path, events, bytes }
    this.#log.error(fields, 'events are missing from the buffer; they are counted as discarded')
  }

  damaged({ name }: Segment, offset: number, bytes: number): void {
    this.#corruptBytes.value += bytes
    const fields = { code: 'SLUICE_BUFFER_DAMAGED', file: `${this.#folder.path}/${name}`, offset, bytes }
    this.#problem('damaged', 'error', fields, 'skipped damaged data in the buffer')
  }

  notRead({ name }: Segment, error: unknown): void {
    this.#metrics.failed('buffer_read')
    const fields = { file: `${this.#folder.path}/${name}`, error: errorText(error) }
    this.#problem('read', 'warn', fields, 'cannot read a file of the buffer; retrying')
  }

  /** Reports a record that has a correct checksum but cannot be decoded. */
  notUnderstood(error: unknown): void {
    const fields = { code: 'SLUICE_BUFFER_RECORD_UNKNOWN', folder: this.#folder.path, error: errorText(error) }
    this.#problem('unknown', 'error', fields, 'cannot decode a record of the buffer')
  }

  /** Reports a batch that could not be encoded, which is a bug. */
  notEncoded(error: unknown): void {
    this.#metrics.failed('bug')
    const fields = { code: 'SLUICE_BUFFER_BATCH_FAILED', error: errorText(error) }
    this.#problem('encode', 'error', fields, 'cannot encode a batch for the buffer; its events are read again')
  }

  /** Reports an unexpected error that stopped the buffer from passing on events. */
  broken(error: unknown): void {
    this.#metrics.failed('bug')
    const fields = { code: 'SLUICE_BUFFER_FAILED', error: errorText(error) }
    this.#log.error(fields, 'the buffer stopped; its events are delivered after a restart')
  }

  /** Logs a problem, unless a problem of the same kind was logged recently. Returns whether it was logged. */
  #problem(kind: string, level: 'error' | 'warn', fields: object, text: string): boolean {
    const limited = this.#limit.next(kind)
    if (limited) this.#log[level]({ ...fields, ...limited }, text)
    return limited !== undefined
  }
}
