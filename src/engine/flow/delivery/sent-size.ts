import type { EncodedRequest } from '../../../core/component.js'
import type { Amount } from '../counters.js'

/**
 * After a request, the ratio is at least this share of its previous value. The effect of a few large requests is thus
 * lasting.
 */
const FALL = 0.9
/** After this many accepted requests, twice the accepted size is tried. */
const REQUESTS_BEFORE_GROWTH = 1000

/** The outcome of a request with all its parts. Sizes are as sent. */
export interface SizeOutcome {
  /** Whether several events together were refused as too large. */
  readonly refused: boolean
  /** Whether a single event was refused as too large. The request may then have been small enough without it. */
  readonly oneRefused: boolean
  /** The size of the largest accepted part, or 0. */
  readonly accepted: number
}

/** The learned sizes. A reload passes them to the successor. */
export interface LearnedSize {
  readonly ratio: number
  /** Missing while the receiver accepts requests of the configured size. */
  readonly maxBytes: number | undefined
}

/**
 * Estimates and limits the size of requests as sent. A request may be many times larger than the bytes that were read,
 * since an encoding adds fields and escapes, and processors modify events.
 */
export class SentSize {
  /** Bytes sent per byte read; at least 1. */
  ratio: number
  /** Size limit of requests with several events. Lower than configured if the receiver refused larger requests. */
  maxBytes: number
  readonly #configured: number
  /** Requests that were accepted since `maxBytes` changed. */
  #accepted = 0

  /**
   * `before`: the state of the predecessor. If it is given, the same events are divided into the same requests as
   * before.
   */
  constructor(configured: number, before?: LearnedSize) {
    this.#configured = configured
    this.ratio = before?.ratio ?? 1
    this.maxBytes = Math.min(before?.maxBytes ?? configured, configured)
  }

  get learned(): LearnedSize {
    const { ratio, maxBytes } = this
    return { ratio, maxBytes: maxBytes < this.#configured ? maxBytes : undefined }
  }

  /** The size of a request as sent if the destination encodes it; else the size as read. */
  of({ bytes, encoded }: Readonly<Amount> & { readonly encoded?: EncodedRequest | undefined }): number {
    if (!encoded || bytes === 0) return bytes
    this.ratio = Math.max(1, encoded.size / bytes, this.ratio * FALL)
    return encoded.size
  }

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
