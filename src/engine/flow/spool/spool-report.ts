import type { ComponentContext } from '../../../core/component.js'
import { errorText } from '../../../core/errors.js'
import { LogLimit } from '../../../lib/log-limit.js'
import { formatSize } from '../../../lib/units.js'
import type { Amount } from '../counters.js'

export class SpoolReport {
  readonly #context: Pick<ComponentContext, 'log' | 'metrics' | 'clock'>
  readonly #path: string
  readonly #limit: LogLimit
  readonly #uploads: { value: number }
  #isFull = false
  #isFailing = false

  constructor(context: Pick<ComponentContext, 'log' | 'metrics' | 'clock'>, path: string) {
    this.#context = context
    this.#path = path
    this.#limit = new LogLimit(context.clock)
    const help = 'Objects that the receiver has accepted.'
    context.metrics.describeLoss('spool_corrupt', 'They are lost: files of the spool were damaged. The log names them.')
    this.#uploads = context.metrics.counter('sluice_spool_uploaded_objects_total', help)
  }

  found({ events, bytes }: Amount, objects: number): void {
    if (objects > 0)
      this.#context.log.info({ events, bytes, objects }, 'the spool holds objects from the previous run; resuming them')
  }

  written(): void {
    if (this.#isFailing) this.#context.log.info({ folder: this.#path }, 'the spool can be written again')
    this.#isFailing = false
  }

  notWritten(error: unknown): void {
    this.#isFailing = true
    this.#context.metrics.failed('spool_write')
    const fields = { code: 'SLUICE_SPOOL_NOT_WRITTEN', folder: this.#path, error: errorText(error) }
    this.#problem('written', 'error', fields, 'cannot write to the spool')
  }

  /** Reports that an object was closed because `most` objects were open and another object was needed. */
  crowded(most: number): void {
    const text =
      'too many objects are open; the least recently written objects are sent early, and are small. For larger objects, use fields with fewer values in "key"'
    this.#problem('crowded', 'warn', { most }, text)
  }

  /** Reports a full spool. `isShared`: the space that destinations share is full. */
  full(maxBytes: number, isShared: boolean): void {
    if (!this.#isFull)
      this.#problem('full', 'warn', { max_bytes: formatSize(maxBytes), shared: isShared }, 'the spool is full')
    this.#isFull = true
  }

  notFull(): void {
    this.#isFull = false
  }

  /** Reports damaged events of an object. */
  missing({ events, bytes }: Amount, name: string): void {
    if (events === 0) return
    const { metrics, log } = this.#context
    metrics.discarded('spool_corrupt', events, bytes)
    const fields = { code: 'SLUICE_SPOOL_EVENTS_LOST', file: `${this.#path}/${name}`, events, bytes }
    log.error(fields, 'events of an object in the spool are damaged; they are counted as discarded')
  }

  /**
   * Reports data cut off after the last whole record of an open object. `events`: how many events the cut data claims
   * to contain.
   */
  cut(name: string, bytes: number, events: number): void {
    const fields = { file: `${this.#path}/${name}`, bytes, events }
    const text = 'removed an unfinished write at the end of an object in the spool, probably left by a crash'
    this.#context.log.warn(fields, text)
  }

  /** Reports an object whose name is damaged. */
  unusable(name: string, events: number): void {
    const fields = { code: 'SLUICE_SPOOL_DAMAGED', file: `${this.#path}/${name}.damaged`, events }
    this.#context.log.error(
      fields,
      'cannot read the name of an object in the spool; the object is not sent, and its file is kept',
    )
  }

  delivered({ events, bytes }: Amount): void {
    // Nothing of an object without events was sent.
    if (events > 0) this.#uploads.value++
    this.#context.metrics.sent(events, bytes)
  }

  notRemoved(name: string, error: unknown): void {
    const fields = { file: `${this.#path}/${name}`, error: errorText(error) }
    this.#problem('remove', 'warn', fields, 'cannot remove an object that was delivered; the next start sends it again')
  }

  #problem(kind: string, level: 'error' | 'warn', fields: object, text: string): void {
    const limited = this.#limit.next(kind)
    if (limited) this.#context.log[level]({ ...fields, ...limited }, text)
  }
}
