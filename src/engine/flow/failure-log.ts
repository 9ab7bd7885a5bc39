import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { OnError } from '../../core/processor.js'
import type { LogLimit } from '../../lib/log-limit.js'
import type { BatchWork } from './batch-work.js'
import type { StageMetrics } from './decided.js'

const WHAT_BECOMES = {
  pass: 'they are passed on with the field processing_error',
  discard: 'they are discarded',
  dead_letter: 'they are kept as dead letters',
} as const

export interface FailureLogContext {
  readonly log: Logger
  readonly metrics: StageMetrics
  readonly onError: OnError
}

/** Logs what a processor could not process. */
export class FailureLog {
  readonly #context: FailureLogContext
  readonly #limit: LogLimit

  constructor(context: FailureLogContext, limit: LogLimit) {
    this.#context = context
    this.#limit = limit
  }

  events({ batch, errors, hasBug }: BatchWork, events: number): void {
    const limited = this.#limit.next(hasBug ? 'bug' : 'failed')
    if (!limited) return
    const { source, path: file, peer } = batch.origin
    const [error] = errors?.values() ?? []
    const fields = { code: 'SLUICE_PROCESSOR_FAILED', source, file, peer, events, error, ...limited }
    const text = `processor failed on some events; ${WHAT_BECOMES[this.#context.onError]}`
    if (hasBug) this.#context.log.error(fields, text)
    else this.#context.log.warn(fields, text)
  }

  /** A failure that no single event reproduces. */
  batch({ origin, length: events }: EventBatch, cause: unknown): void {
    this.#context.metrics.failed('bug')
    const limited = this.#limit.next('batch')
    if (!limited) return
    const { source, path: file, peer } = origin
    const fields = { code: 'SLUICE_PROCESSOR_FAILED', source, file, peer, events, error: errorText(cause), ...limited }
    this.#context.log.warn(fields, 'processor failed on a batch, but on none of its events alone; all were processed')
  }
}
