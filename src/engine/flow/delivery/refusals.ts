import { DeliveryError } from '../../../core/errors.js'
import type { Clock } from '../../../lib/time.js'

/** Length of a span in milliseconds. The current span and the previous one count as recent. */
const SPAN_MS = 5 * 60_000
/** With fewer rejected requests, `most` stays undefined. */
const FEW = 10

interface Span {
  accepted: number
  refused: number
}

/**
 * Distinguishes a destination that rejects every request from one that rejects single events. If every request is
 * rejected, the address or configuration is wrong. Further requests would move all events to the dead-letter queue.
 */
export class Refusals {
  readonly #limit: number
  readonly #clock: Clock
  #spans: Span[] = [
    { accepted: 0, refused: 0 },
    { accepted: 0, refused: 0 },
  ]
  #spanBegan: number
  #last: DeliveryError | undefined
  #row = 0
  #reason: string | undefined
  #accepted = false

  /** `limit`: number of consecutive rejected requests; 0: no limit. */
  constructor(limit: number, clock: Clock) {
    this.#limit = limit
    this.#clock = clock
    this.#spanBegan = clock.now()
  }

  /** The last rejection, if over half of recent requests, and at least FEW, were rejected. */
  get most(): DeliveryError | undefined {
    this.#move()
    const [now, before] = this.#spans as [Span, Span]
    const refused = now.refused + before.refused
    return refused >= FEW && refused > now.accepted + before.accepted ? this.#last : undefined
  }

  #move(): void {
    const passed = this.#clock.now() - this.#spanBegan
    if (passed < SPAN_MS) return
    this.#spans = [{ accepted: 0, refused: 0 }, passed < 2 * SPAN_MS ? this.#spans[0]! : { accepted: 0, refused: 0 }]
    this.#spanBegan = this.#clock.now()
  }

  /** Counts a request that was accepted, or whose response has results for single events. */
  accepted(): void {
    this.#move()
    this.#spans[0]!.accepted++
    this.#accepted = true
    this.#row = 0
  }

  #refused(error: DeliveryError): DeliveryError {
    this.#move()
    this.#spans[0]!.refused++
    this.#last = error
    return error
  }

  /**
   * Decides whether a request stays rejected or causes a hold. `ofAddress`: only the address can cause the rejection.
   */
  classify(error: DeliveryError, ofAddress = error.causedBy === 'address'): DeliveryError {
    if (error.failure !== 'reject' || error.causedBy === 'event') return error
    this.#row = error.reason === this.#reason ? this.#row + 1 : 1
    this.#reason = error.reason
    const { reason, status, requestId } = error
    if (this.#limit === 0 || this.#row < this.#limit || (this.#accepted && !ofAddress)) return this.#refused(error)
    const advice = ofAddress
      ? 'correct the address'
      : 'correct the configuration of the destination, or set hold_after_refusals: 0 if the events are at fault'
    const message = `${error.message}; ${this.#limit} consecutive requests were rejected like this, so the destination is paused: ${advice}`
    return new DeliveryError(message, { failure: 'hold', reason, status, requestId, cause: error })
  }
}

/** Whether the response rejects each event of a request individually. */
export function rejectsAll({ rejected = [], failure }: DeliveryError, events: number): boolean {
  return failure === 'reject' && new Set(rejected.filter(index => index < events)).size === events
}

/** Whether the response has results for single events. If so, the next attempt has fewer events, or waits. */
export function isDivided({ failure, rejected, again }: DeliveryError, events: number): boolean {
  if (rejected === undefined || failure === 'too_large') return false
  return failure === 'reject' ? rejected.some(index => index < events) : again.length > 0
}
