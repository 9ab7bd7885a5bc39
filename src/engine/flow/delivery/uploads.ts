import type { Spool, SpooledObject } from '../../../core/component.js'
import { DeliveryError, errorText } from '../../../core/errors.js'
import type { Attempts } from './attempts.js'

const AT_ONCE = 2

/**
 * Delivers the objects of a spool, each in one or more requests. Never gives up an object. If a retry cannot fix an
 * error, all objects wait on disk until an operator corrects the cause.
 */
export class Uploads {
  readonly spool: Spool
  readonly attempts: Attempts
  readonly #ended: () => void
  readonly #running = new Set<Promise<void>>()
  #hasEnded = false

  constructor(spool: Spool, attempts: Attempts, ended: () => void) {
    this.spool = spool
    this.attempts = attempts
    this.#ended = ended
  }

  get idle(): boolean {
    return this.#running.size === 0
  }

  /** Starts uploads that are due. `all`: every object is due, because no more events arrive. */
  advance(all: boolean): void {
    while (!this.#hasEnded && this.#running.size < AT_ONCE) {
      const object = this.spool.next(all)
      if (!object) return
      const carried = this.#carry(object).finally(() => {
        this.#running.delete(carried)
        this.#ended()
      })
      this.#running.add(carried)
    }
  }

  async #carry(object: SpooledObject): Promise<void> {
    let isDelivered = false
    const attempt = async (signal: AbortSignal) => {
      isDelivered = await object.send(signal)
    }
    do await this.attempts.persist({ attempt, classify, kind: 'events' })
    while (!isDelivered && !this.#hasEnded)
    if (isDelivered) await object.delivered()
    else object.release()
  }

  /** Starts no more uploads. Requests in progress complete. */
  leave(): void {
    this.#hasEnded = true
    this.attempts.leave()
  }

  /** Aborts requests in progress. */
  close(): void {
    this.#hasEnded = true
    this.attempts.close()
  }

  /** Resolves after `leave` or `close` when no object is being sent. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#running)
  }
}

/**
 * An object cannot be moved to the dead-letter queue as an event can. If the receiver rejects an object, an operator
 * has to correct the cause.
 */
function classify(error: unknown): DeliveryError {
  if (!(error instanceof DeliveryError))
    return new DeliveryError(errorText(error), { failure: 'retry', reason: 'unknown', cause: error })
  if (error.failure === 'retry' || error.failure === 'hold') return error
  const { message, reason, status, requestId, cause } = error
  return new DeliveryError(message, { failure: 'hold', reason, status, requestId, cause })
}
