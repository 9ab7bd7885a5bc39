import type { Logger } from 'pino'
import type { Processor } from '../../core/component.js'
import { DeliveryError, errorText } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { OnError } from '../../core/processor.js'
import type { ProcessorOutage } from '../../core/status-document.js'
import { LogLimit } from '../../lib/log-limit.js'
import { sleep, type TimerClock } from '../../lib/time.js'
import { countDeadLetters, type DeadLetters } from './dead-letters.js'
import { PROCESSING_FAILED, type StageMetrics } from './dispatch.js'
import type { Work } from './work.js'

/** Time between attempts to write to the dead-letter queue. */
const RETRY_MS = 1000

const WHAT_BECOMES = {
  pass: 'they are passed on with the field processing_error',
  discard: 'they are discarded',
  dead_letter: 'they are kept in the dead-letter queue',
} as const

export interface FailuresContext {
  readonly log: Logger
  readonly clock: TimerClock
  readonly metrics: StageMetrics
  readonly onError: OnError
  /** Receives events that could not be processed. Set if `onError` is `dead_letter`. */
  readonly deadLetters?: DeadLetters | undefined
}

const aboutBatch = ({ origin: { source, path: file, peer }, length: events }: EventBatch) => ({
  source,
  file,
  peer,
  events,
})

/** Logs a processor's failures. If the processor could not process an event, writes it to the dead-letter queue. */
export class Failures {
  readonly #context: FailuresContext
  readonly #limit: LogLimit
  readonly #ended: AbortSignal
  /** The events being written to the dead-letter queue. */
  held: EventBatch | undefined

  /** `ended` aborts when the stage is destroyed. */
  constructor(context: FailuresContext, ended: AbortSignal) {
    this.#context = context
    this.#limit = new LogLimit(context.clock)
    this.#ended = ended
  }

  events({ batch, errors, hasBug }: Work, events: number): void {
    const [error] = errors?.values() ?? []
    const text = `processor failed on some events; ${WHAT_BECOMES[this.#context.onError]}`
    const fields = { ...aboutBatch(batch), events, error }
    if (hasBug) this.#log('error', 'bug', text, fields)
    else this.#log('warn', 'failed', text, fields)
  }

  /** Logs that the processor failed on a batch, but then processed each of its events alone. */
  batch(batch: EventBatch, cause: unknown): void {
    this.#context.metrics.failed('bug')
    const text = 'processor failed on a batch, but processed each of its events alone'
    this.#log('warn', 'batch', text, { ...aboutBatch(batch), error: errorText(cause) })
  }

  emission(cause: unknown): void {
    this.#context.metrics.failed('bug')
    this.#log('error', 'emit', 'processor failed to emit events', { error: errorText(cause) })
  }

  #log(level: 'warn' | 'error', kind: string, text: string, fields: object): void {
    const limited = this.#limit.next(kind)
    if (limited) this.#context.log[level]({ code: 'SLUICE_PROCESSOR_FAILED', ...fields, ...limited }, text)
  }

  /**
   * Writes events to the dead-letter queue, each with its message. Retries until the events are stored. If the stage
   * ends before they are stored, gives them back, so that they are processed again.
   */
  async keep(letters: EventBatch, messages: readonly string[]): Promise<void> {
    const { log, metrics, deadLetters } = this.#context
    const error = new DeliveryError(messages[0]!, { failure: 'reject', reason: PROCESSING_FAILED, messages })
    this.held = letters
    while (!this.#ended.aborted) {
      try {
        await deadLetters?.write([letters], error)
      } catch (error) {
        metrics.failed('dead_letter')
        const limited = this.#limit.next('dead_letter')
        const text =
          'cannot write to the dead-letter queue; retrying. The processor does not pass events until a write succeeds'
        if (limited) log.error({ code: 'SLUICE_DEAD_LETTER', error: errorText(error), ...limited }, text)
        await sleep(RETRY_MS, this.#ended)
        continue
      }
      // If the stage ended during the write, the events are given back. They are counted when they arrive again.
      if (this.#ended.aborted) break
      this.held = undefined
      countDeadLetters(metrics, PROCESSING_FAILED, letters.length)
      metrics.discarded(PROCESSING_FAILED, letters.length, letters.bytes)
      letters.ack.settle('rejected')
      return
    }
    letters.ack.settle('errored')
  }
}

/** If a processor works on a batch for longer than this, it is stuck. Time spent waiting on purpose does not count. */
export const LONGEST_WORK_MS = 60_000

interface Running {
  readonly batch: EventBatch
  readonly since: number
  readonly cancel: () => void
}

/**
 * Logs that a processor has not finished a batch in time. Events then wait, because nothing interrupts the processor.
 */
export class SlowWork {
  readonly #processor: Pick<Processor, 'isWaiting'>
  readonly #clock: TimerClock
  readonly #log: Logger
  /** The batches on which the processor works, oldest first. */
  readonly #all = new Set<Running>()

  constructor(processor: Pick<Processor, 'isWaiting'>, { clock, log }: { clock: TimerClock; log: Logger }) {
    this.#processor = processor
    this.#clock = clock
    this.#log = log
  }

  /**
   * Registers a batch. Call the returned function when the processor has finished, or when the stage no longer waits.
   */
  begin(batch: EventBatch): () => void {
    const about = { code: 'SLUICE_PROCESSOR_STUCK', ...aboutBatch(batch) }
    let isLogged = false
    const cancel = this.#clock.after(LONGEST_WORK_MS, () => {
      if (this.#processor.isWaiting) return
      isLogged = true
      this.#log.warn(about, 'processor has not finished with a batch for a minute; its events wait')
    })
    const work = { batch, since: this.#clock.now(), cancel }
    this.#all.add(work)
    return () => {
      cancel()
      this.#all.delete(work)
      if (isLogged) this.#log.info(about, 'processor has finished with the batch')
    }
  }

  /** Stops observing, since the stage no longer waits. */
  stop(): void {
    for (const { cancel } of this.#all) cancel()
    this.#all.clear()
  }

  /** Milliseconds since the processor got its oldest batch, also if it waits on purpose. Undefined: no batch. */
  get heldMs(): number | undefined {
    const [first] = this.#all
    return first && this.#clock.now() - first.since
  }

  get outage(): ProcessorOutage | undefined {
    const [first] = this.#all
    const { heldMs = 0 } = this
    if (!first || this.#processor.isWaiting || heldMs <= LONGEST_WORK_MS) return undefined
    const reason = `it has not finished with ${first.batch.length} events of ${first.batch.origin.source}`
    return {
      isStuck: true,
      reason,
      ownReason: reason,
      since: new Date(this.#clock.wall() - heldMs).toISOString(),
      attempts: 1,
      meanwhile: 'these events and later ones wait; no events are lost',
    }
  }
}
