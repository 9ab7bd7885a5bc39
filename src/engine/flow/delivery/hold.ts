import type { DeliveryError } from '../../../core/errors.js'
import { Backoff, type Random } from '../../../lib/backoff.js'
import type { Clock } from '../../../lib/time.js'

const CHECK_EVERY_MS = 1000
const LONGEST_WAIT_MS = 60_000

export interface HoldContext {
  readonly clock: Clock
  readonly random: Random
  readonly sleep: (ms: number) => Promise<void>
  /** Whether an immediate attempt makes sense. */
  readonly changed: () => Promise<boolean>
}

/**
 * The pause of a destination until an operator intervenes, shared by all of its requests. Invariants: during a hold,
 * one of the waiting requests is the probe, and only the probe makes attempts. It remains the probe until it ends the
 * hold.
 */
export class Hold {
  readonly #context: HoldContext
  readonly #backoff: Backoff
  readonly #waiting: (() => void)[] = []
  #error: DeliveryError | undefined
  #probe: object | undefined
  #checkedAt = Number.NEGATIVE_INFINITY
  #ended = 0
  #nextAt: number | undefined
  #closed = false

  constructor(context: HoldContext) {
    this.#context = context
    this.#backoff = new Backoff(2 * CHECK_EVERY_MS, LONGEST_WAIT_MS, context.random)
  }

  /** The cause of the hold; undefined if there is none. */
  get error(): DeliveryError | undefined {
    return this.#error
  }

  /** Number of holds that have ended. The result of an attempt that started before the last one does not count. */
  get ended(): number {
    return this.#ended
  }

  /** When the probe makes its next attempt, at the latest; undefined while it makes one. */
  get nextAt(): number | undefined {
    return this.#nextAt
  }

  isProbe(who: object): boolean {
    return this.#probe === who
  }

  /** Starts a hold, or updates its cause. Returns whether it has started. */
  begin(error: DeliveryError): boolean {
    const begins = this.#error === undefined
    this.#error = error
    return begins
  }

  /** Resolves when `who` may make an attempt: immediately unless there is a hold. */
  async pass(who: object): Promise<void> {
    while (this.#error && !this.#closed) {
      this.#probe ??= who
      if (this.#probe === who) {
        await this.#untilWorthwhile()
        this.#nextAt = undefined
        return
      }
      await new Promise<void>(resolve => this.#waiting.push(resolve))
    }
  }

  async #untilWorthwhile(): Promise<void> {
    const { clock, sleep, changed } = this.#context
    const until = clock.now() + this.#backoff.next()
    this.#nextAt = until
    while (!this.#closed) {
      if (clock.now() - this.#checkedAt >= CHECK_EVERY_MS) {
        this.#checkedAt = clock.now()
        if (await changed()) return
      }
      const leftMs = until - clock.now()
      if (leftMs <= 0) return
      await sleep(Math.min(leftMs, CHECK_EVERY_MS))
    }
  }

  /** Ends the hold after the probe succeeded. */
  end(): void {
    this.#ended++
    this.#error = undefined
    this.#probe = undefined
    this.#backoff.reset()
    this.#wake()
  }

  /** Releases all waiting requests. */
  close(): void {
    this.#closed = true
    this.#wake()
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
