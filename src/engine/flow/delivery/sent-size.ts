import type { Destination } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Amount } from '../counters.js'

/** Factor by which the ratio may fall per request: a few large requests must have a lasting effect. */
const FALL = 0.9
/** Number of accepted requests after which twice the accepted size is tried. */
const REQUESTS_BEFORE_GROWTH = 1000

/** The outcome of a request and of the parts into which it was divided. Sizes are as sent. */
export interface SizeOutcome {
  /** Whether several events were refused as too large together. */
  readonly refused: boolean
  /** Whether a single event was refused, in which case the others may not have been too large. */
  readonly oneRefused: boolean
  /** The size of the largest part that was accepted, or 0. */
  readonly accepted: number
}

/** The state that a reload passes to the successor. */
export interface LearnedSize {
  readonly ratio: number
  /** Missing if the receiver accepts requests of the configured size. */
  readonly maxBytes: number | undefined
}

/**
 * Estimates the size of requests as sent, and limits it. An encoding adds fields and escapes, and processors modify
 * events, so a request may be many times larger than the bytes that were read.
 */
export class SentSize {
  /** Bytes sent per byte read in the requests so far; at least 1. */
  ratio: number
  /** Size limit of requests with several events: the configured one, or less after the receiver refused it. */
  maxBytes: number
  readonly #destination: Destination
  readonly #configured: number
  /** Requests that were accepted since `maxBytes` changed. */
  #accepted = 0

  /** `before`: the state of the predecessor, with which the same events make the same requests. */
  constructor(destination: Destination, configured: number, before?: LearnedSize) {
    this.#destination = destination
    this.#configured = configured
    this.ratio = before?.ratio ?? 1
    this.maxBytes = Math.min(before?.maxBytes ?? configured, configured)
  }

  get learned(): LearnedSize {
    const { ratio, maxBytes } = this
    return { ratio, maxBytes: maxBytes < this.#configured ? maxBytes : undefined }
  }

  /** The size of a request as sent, or as read if the destination does not report it. */
  of({ parts, events, bytes }: Readonly<Amount> & { readonly parts: readonly EventBatch[] }): number {
    const sent = this.#destination.sizeOf?.(parts, events > 1 ? this.maxBytes : Number.POSITIVE_INFINITY)
    if (sent === undefined || bytes === 0) return bytes
    this.ratio = Math.max(1, sent / bytes, this.ratio * FALL)
    return sent
  }

  /** Adapts the limit to the sizes that the receiver accepts. */
  learn({ refused, oneRefused, accepted }: SizeOutcome): void {
    if (accepted === 0 || oneRefused) return
    if (refused) this.#limit(accepted)
    else if (this.maxBytes < this.#configured && ++this.#accepted === REQUESTS_BEFORE_GROWTH) {
      this.#limit(2 * this.maxBytes)
    }
  }

  #limit(bytes: number): void {
    this.maxBytes = Math.min(bytes, this.#configured)
    this.#accepted = 0
  }
}
