import type { Logger } from 'pino'
import type { ComponentMetrics } from '../core/component.js'
import { DeliveryError, errorText } from '../core/errors.js'
import type { EventBatch } from '../core/event/batch.js'
import type { LogLimit } from '../lib/log-limit.js'
import { sleep } from '../lib/time.js'
import { countDeadLetters, type DeadLetters } from './dead-letters.js'
import { PROCESSING_FAILED } from './decided.js'

/** Between tries to write dead letters. */
const RETRY_MS = 1000

export interface FailedEventsContext {
  readonly log: Logger
  readonly metrics: Pick<ComponentMetrics, 'counter' | 'discarded' | 'failed'>
  readonly deadLetters?: DeadLetters | undefined
}

/** Keeps the events that a processor could not process as dead letters. */
export class FailedEvents {
  readonly #context: FailedEventsContext
  readonly #limit: LogLimit
  readonly #ended: AbortSignal
  #held: EventBatch | undefined
  #isUnwritable = false

  /** `ended` aborts when the stage is destroyed. */
  constructor(context: FailedEventsContext, limit: LogLimit, ended: AbortSignal) {
    this.#context = context
    this.#limit = limit
    this.#ended = ended
  }

  /** What is being written. */
  get held(): EventBatch | undefined {
    return this.#held
  }

  /** Whether the last try to write failed. */
  get isUnwritable(): boolean {
    return this.#isUnwritable
  }

  /** Writes dead letters until they are safe. At the end of the stage they are given back, to be processed again. */
  async keep(letters: EventBatch, [message = 'the event could not be processed']: readonly string[]): Promise<void> {
    const { log, metrics, deadLetters } = this.#context
    const error = new DeliveryError(message, { failure: 'reject', reason: PROCESSING_FAILED })
    this.#held = letters
    while (!this.#ended.aborted) {
      try {
        await deadLetters?.write([letters], error)
      } catch (error) {
        this.#isUnwritable = true
        metrics.failed('dead_letter')
        const limited = this.#limit.next('dead_letter')
        const text = 'dead letters cannot be written; it is tried again, and nothing goes on until then'
        if (limited) log.error({ code: 'SLUICE_DEAD_LETTER', error: errorText(error), ...limited }, text)
        await sleep(RETRY_MS, this.#ended)
        continue
      }
      // What was given back during the write comes again, and is counted then.
      if (this.#ended.aborted) break
      this.#held = undefined
      this.#isUnwritable = false
      countDeadLetters(metrics, PROCESSING_FAILED, letters.length)
      metrics.discarded(PROCESSING_FAILED, letters.length, letters.bytes)
      letters.ack.settle('rejected')
      return
    }
    letters.ack.settle('errored')
  }
}
