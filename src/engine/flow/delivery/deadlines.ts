import { DeliveryError } from '../../../core/errors.js'
import { type Linked, LinkedList } from '../../../lib/linked-list.js'
import { after } from '../../../lib/time.js'
import { formatDuration } from '../../../lib/units.js'

/** A running attempt. */
export interface Running extends Linked<Running> {
  readonly controller: AbortController
  /** Cancels its timeout; undefined until that is set. */
  cancel: (() => void) | undefined
}

/**
 * The timeouts of attempts. Most attempts at a file end in the turn of the event loop in which they began, so a timer is
 * set at the end of the turn.
 */
export class Deadlines {
  readonly #timeout: number
  readonly #reuses: boolean
  readonly #after: typeof after | undefined
  readonly #running = new LinkedList<Running>()
  #spare: AbortController | undefined
  #isSetting = false

  /**
   * `timeout` of one attempt, in milliseconds. `reuses`: whether a signal serves the next attempt, because nothing that
   * was made of it is left. `timer`: timers that are set at once, of another clock.
   */
  constructor(timeout: number, reuses: boolean, timer?: typeof after) {
    this.#timeout = timeout
    this.#reuses = reuses
    this.#after = timer
  }

  get size(): number {
    return this.#running.size
  }

  begin(): Running {
    const running: Running = { controller: this.#spare ?? new AbortController(), cancel: undefined }
    this.#spare = undefined
    this.#running.add(running)
    if (this.#after) this.#set(running, this.#after)
    else if (!this.#isSetting) {
      this.#isSetting = true
      setImmediate(this.#setAll)
    }
    return running
  }

  end(running: Running): void {
    running.cancel?.()
    this.#running.delete(running)
    if (this.#reuses && !running.controller.signal.aborted) this.#spare = running.controller
  }

  /** Aborts all attempts for this reason. */
  abort(reason: Error): void {
    for (const { controller, cancel } of this.#running) {
      cancel?.()
      controller.abort(reason)
    }
  }

  readonly #setAll = (): void => {
    this.#isSetting = false
    for (const running of this.#running)
      if (!running.cancel && !running.controller.signal.aborted) this.#set(running, after)
  }

  #set(running: Running, timer: typeof after): void {
    running.cancel = timer(this.#timeout, () => {
      const message = `no answer within ${formatDuration(this.#timeout)}`
      running.controller.abort(new DeliveryError(message, { failure: 'retry', reason: 'timeout' }))
    })
  }
}
