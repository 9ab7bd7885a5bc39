import type { Destination } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Amount } from '../counters.js'

/** How much lower than before the ratio may be with one request: a few large ones in between must not be forgotten. */
const FALL = 0.9

/**
 * How many bytes a destination sends. An encoding adds fields and escapes, and processors change events, so a request may have many
 * times the bytes that were read.
 */
export class SentSize {
  /** Bytes sent for each byte that was read, by the requests so far; at least 1. */
  ratio = 1
  readonly #destination: Destination
  readonly #maxBytes: number

  constructor(destination: Destination, maxBytes: number) {
    this.#destination = destination
    this.#maxBytes = maxBytes
  }

  /** Whether a request is larger than it may be, and has several events. */
  exceeds({ parts, events, bytes }: Readonly<Amount> & { readonly parts: readonly EventBatch[] }): boolean {
    const sent = this.#destination.sizeOf?.(parts, events > 1 ? this.#maxBytes : Number.POSITIVE_INFINITY)
    if (sent === undefined || bytes === 0) return false
    this.ratio = Math.max(1, sent / bytes, this.ratio * FALL)
    return events > 1 && sent > this.#maxBytes
  }
}
