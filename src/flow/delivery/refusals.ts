import { DeliveryError } from '../../core/errors.js'
import type { Clock } from '../../lib/time.js'

/** What the address is to blame for, and no event can be: not found, method not allowed, gone, misdirected. */
const OF_THE_ADDRESS = new Set([404, 405, 410, 421])

/** What happened within the last one or two of these counts as lately. */
const SPAN_MS = 5 * 60_000
/** So many refused requests say nothing yet. */
const FEW = 10

interface Span {
  accepted: number
  refused: number
}

/**
 * Tells a destination that refuses everything from one that refuses an event now and then. What refuses everything is
 * mistyped or misconfigured: sending on would bring all events to the dead letters.
 */
export class Refusals {
  readonly #limit: number
  readonly #clock: Clock
  /** Requests of this span of time and of the one before. */
  #spans: Span[] = [
    { accepted: 0, refused: 0 },
    { accepted: 0, refused: 0 },
  ]
  #spanBegan: number
  #last: DeliveryError | undefined
  #row = 0
  #reason: string | undefined
  #accepted = false

  /** `limit`: how many requests in a row; 0 stands for no limit. */
  constructor(limit: number, clock: Clock) {
    this.#limit = limit
    this.#clock = clock
    this.#spanBegan = clock.now()
  }

  /** The last refusal, while more requests were refused lately than accepted, and more than a few. */
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

  /** A request was accepted, or its events were distinguished: the receiver knows what it gets. */
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

  /** What the refusal of a whole request means: itself, or a hold. */
  classify(error: DeliveryError): DeliveryError {
    if (error.failure !== 'reject' || error.status === undefined) return error
    this.#row = error.reason === this.#reason ? this.#row + 1 : 1
    this.#reason = error.reason
    const { reason, status, requestId } = error
    const ofAddress = OF_THE_ADDRESS.has(status)
    if (this.#limit === 0 || this.#row < this.#limit || (this.#accepted && !ofAddress)) return this.#refused(error)
    const advice = ofAddress
      ? 'correct the address'
      : 'correct the destination, or set hold_after_refusals: 0 if the events are at fault'
    const message = `${error.message}; ${this.#limit} requests in a row were refused like this, so the others wait: ${advice}`
    return new DeliveryError(message, { failure: 'hold', reason, status, requestId, cause: error })
  }
}

/** Whether the answer distinguishes events: the next attempt is then for fewer of them, or waits. */
export function isDivided({ failure, rejected, again }: DeliveryError, events: number): boolean {
  if (rejected === undefined || failure === 'too_large') return false
  return failure === 'reject' ? rejected.some(index => index < events) : again.length > 0
}
