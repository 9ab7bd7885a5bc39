import { DeliveryError } from '../../core/errors.js'

/** Collects what happened to the events of a request. Events that are not added count as delivered. */
export class ProduceOutcome {
  readonly #events: number
  readonly #refused: { readonly index: number; readonly error: DeliveryError }[] = []
  readonly #again: number[] = []
  /** Errors of the events that are sent again. */
  readonly #errors: DeliveryError[] = []

  constructor(events: number) {
    this.#events = events
  }

  refused(indices: readonly number[], error: DeliveryError): void {
    for (const index of indices) this.#refused.push({ index, error })
  }

  /**
   * Adds events that must be sent again. Without `error`, these events are valid: other events of their batch were
   * refused, or must be stored first.
   */
  again(indices: readonly number[], error?: DeliveryError): void {
    this.#again.push(...indices)
    if (error) this.#errors.push(error)
  }

  /**
   * Handles a batch that is too large. Several events are sent again, in smaller requests. A single event is rejected
   * with an error that has no status, so the event is the cause: rejections with a status may pause the destination.
   */
  tooLarge(indices: readonly number[], error: DeliveryError): void {
    const { message, reason } = error
    if (indices.length > 1) this.again(indices, error)
    else this.refused(indices, new DeliveryError(message, { failure: 'reject', reason, cause: error }))
  }

  /** Whether events must be sent again. If `error` is undefined, they are sent again immediately. */
  get isPart(): boolean {
    return this.#again.length > 0
  }

  /** The error to throw; undefined: success. */
  get error(): DeliveryError | undefined {
    const refused = this.#refused.sort((a, b) => a.index - b.index)
    const again = this.#again.sort((a, b) => a - b)
    if (refused.length === 0 && this.#errors.length === 0) return undefined
    const held = this.#errors.find(({ failure }) => failure === 'hold')
    const waiting = held ?? this.#errors.find(({ failure }) => failure === 'retry')
    const first = waiting ?? this.#errors[0] ?? refused[0]!.error
    if (again.length === this.#events) return first
    const failure = waiting ? waiting.failure : this.#errors.length > 0 ? 'retry' : 'reject'
    return new DeliveryError(first.message, {
      failure,
      reason: first.reason,
      status: first.status,
      rejected: refused.map(({ index }) => index),
      reasons: refused.map(({ error }) => error.reason),
      messages: refused.map(({ error }) => error.message),
      again,
      cause: first,
    })
  }
}
