import type { Destination } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Amount } from '../counters.js'

/** Factor by which the ratio may fall per request, so that a few large requests have a lasting effect. */
const FALL = 0.9

/**
 * Estimates the size of requests as sent. An encoding adds fields and escapes, and processors modify events, so a
 * request may be many times larger than the bytes that were read.
 */
export class SentSize {
  /** Bytes sent per byte read in the requests so far; at least 1. */
  ratio = 1
  readonly #destination: Destination
  readonly #maxBytes: number

  constructor(destination: Destination, maxBytes: number) {
    this.#destination = destination
    this.#maxBytes = maxBytes
  }

  /** Whether a request exceeds the maximum size and has several events. */
  exceeds({ parts, events, bytes }: Readonly<Amount> & { readonly parts: readonly EventBatch[] }): boolean {
    const sent = this.#destination.sizeOf?.(parts, events > 1 ? this.#maxBytes : Number.POSITIVE_INFINITY)
    if (sent === undefined || bytes === 0) return false
    this.ratio = Math.max(1, sent / bytes, this.ratio * FALL)
    return events > 1 && sent > this.#maxBytes
  }
}
