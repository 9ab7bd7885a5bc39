import type { Logger } from 'pino'
import type { ComponentMetrics } from '../../core/component.js'
import { DeliveryError, errorText } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { LogLimit } from '../../lib/log-limit.js'
import { sleep } from '../../lib/time.js'
import { countDeadLetters, type DeadLetters } from './dead-letters.js'
import { PROCESSING_FAILED } from './decided.js'

/** Time between attempts to write dead letters. */
const RETRY_MS = 1000

export interface FailedEventsContext {
  readonly log: Logger
  readonly metrics: Pick<ComponentMetrics, 'counter' | 'discarded' | 'failed'>
  readonly deadLetters?: DeadLetters | undefined
}

/** Writes the events that a processor could not process to the dead-letter queue. */
export class FailedEvents {
  readonly #context: FailedEventsContext
  readonly #limit: LogLimit
  readonly #ended: AbortSignal
  #held: EventBatch | undefined

  /** `ended` aborts when the stage is destroyed. */
  constructor(context: FailedEventsContext, limit: LogLimit, ended: AbortSignal) {
    this.#context = context
    this.#limit = limit
    this.#ended = ended
  }

  /** The events being written. */
  get held(): EventBatch | undefined {
    return this.#held
  }

  /**
   * Writes dead letters, each with its message, until they are safe. If the stage ends first, they are given back, to be
   * processed again.
   */
  async keep(letters: EventBatch, messages: readonly string[]): Promise<void> {
    const { log, metrics, deadLetters } = this.#context
    const error = new DeliveryError(messages[0]!, { failure: 'reject', reason: PROCESSING_FAILED, messages })
    this.#held = letters
    while (!this.#ended.aborted) {
      try {
        await deadLetters?.write([letters], error)
      } catch (error) {
        metrics.failed('dead_letter')
        const limited = this.#limit.next('dead_letter')
        const text = 'cannot write dead letters; retrying, and no event passes the processor until then'
        if (limited) log.error({ code: 'SLUICE_DEAD_LETTER', error: errorText(error), ...limited }, text)
        await sleep(RETRY_MS, this.#ended)
        continue
      }
      // Events given back during the write arrive again, and are counted then.
      if (this.#ended.aborted) break
      this.#held = undefined
      countDeadLetters(metrics, PROCESSING_FAILED, letters.length)
      metrics.discarded(PROCESSING_FAILED, letters.length, letters.bytes)
      letters.ack.settle('rejected')
      return
    }
    letters.ack.settle('errored')
  }
}
