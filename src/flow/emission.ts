import type { Logger } from 'pino'
import { errorText } from '../core/errors.js'
import { Ack } from '../core/event/ack.js'
import type { EventBatch } from '../core/event/batch.js'
import type { Share } from '../core/event/share.js'
import type { Decides, EmitReason } from '../core/processor.js'
import type { LogLimit } from '../lib/log-limit.js'
import type { TimerClock } from '../lib/time.js'
import type { DecidedContext } from './decided.js'
import { lineBatch, madeLine } from './made-batch.js'

export interface EmissionContext extends DecidedContext {
  readonly log: Logger
  readonly clock: TimerClock
}

/** Makes batches of the events that a processor emits. */
export class Emission {
  readonly #processor: Decides
  readonly #context: EmissionContext
  readonly #shares: Set<Share>
  readonly #limit: LogLimit

  /** `shares`: those that the processor holds. */
  constructor(processor: Decides, context: EmissionContext, shares: Set<Share>, limit: LogLimit) {
    this.#processor = processor
    this.#context = context
    this.#shares = shares
    this.#limit = limit
  }

  /** The events that are due, already counted as sent; undefined if there are none. */
  emitted(why: EmitReason): EventBatch | undefined {
    const { metrics, origin, clock } = this.#context
    if (!this.#processor.emit) return undefined
    const lines: string[] = []
    const shares = new Set<Share>()
    const unwritten: Share[] = []
    try {
      for (const { fields, shares: own = [] } of this.#processor.emit(why)) {
        try {
          lines.push(madeLine(fields))
          for (const share of own) shares.add(share)
        } catch (error) {
          unwritten.push(...own)
          this.#logFailure(error)
        }
      }
    } catch (error) {
      this.#logFailure(error)
    }
    // The source would read the same events again, with the same result.
    for (const share of unwritten) if (!shares.has(share)) share.settle('rejected')
    if (lines.length === 0) return undefined
    for (const share of shares) this.#shares.delete(share)
    const ack = new Ack(status => {
      for (const share of shares) share.settle(status)
    })
    const batch = lineBatch(Buffer.from(lines.join('')), origin, clock.wall(), ack)
    metrics.emitted(batch.length, batch.bytes)
    metrics.sent(batch.length, batch.bytes)
    return batch
  }

  #logFailure(cause: unknown): void {
    this.#context.metrics.failed('bug')
    const limited = this.#limit.next('emit')
    if (!limited) return
    const fields = { code: 'SLUICE_PROCESSOR_FAILED', error: errorText(cause), ...limited }
    this.#context.log.error(fields, 'processor failed to emit events')
  }
}
