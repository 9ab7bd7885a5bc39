import type { DeliveryError } from '../../core/errors.js'
import { Backoff, type Random } from '../../lib/backoff.js'
import type { Clock } from '../../lib/time.js'

const LOOK_EVERY_MS = 1000
const LONGEST_WAIT_MS = 60_000

export interface HoldContext {
  readonly clock: Clock
  readonly random: Random
  readonly sleep: (ms: number) => Promise<void>
  /** Whether a new attempt makes sense at once. */
  readonly changed: () => Promise<boolean>
}

/**
 * The wait for an operator, shared by all requests of a destination. Invariants: while it holds, one of those who
 * asked to pass is the probe, and nobody but the probe makes attempts; the probe remains it until it ends the hold.
 */
export class Hold {
  readonly #context: HoldContext
  readonly #backoff: Backoff
  readonly #waiting: (() => void)[] = []
  #error: DeliveryError | undefined
  #probe: object | undefined
  #lookedAt = Number.NEGATIVE_INFINITY
  #ended = 0
  #nextAt: number | undefined
  #closed = false

  constructor(context: HoldContext) {
    this.#context = context
    this.#backoff = new Backoff(2 * LOOK_EVERY_MS, LONGEST_WAIT_MS, context.random)
  }

  /** Why it holds; undefined: it does not. */
  get error(): DeliveryError | undefined {
    return this.#error
  }

  /** How often a hold has ended so far: what was begun before that says nothing of now. */
  get ended(): number {
    return this.#ended
  }

  /** When the probe makes its next attempt, at the latest; undefined: it is making one. */
  get nextAt(): number | undefined {
    return this.#nextAt
  }

  isProbe(who: object): boolean {
    return this.#probe === who
  }

  /** `who` was refused. Returns whether the hold begins with that. */
  begin(error: DeliveryError): boolean {
    const begins = this.#error === undefined
    this.#error = error
    return begins
  }

  /** Resolves when `who` may make an attempt: at once while nothing holds. */
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
      if (clock.now() - this.#lookedAt >= LOOK_EVERY_MS) {
        this.#lookedAt = clock.now()
        if (await changed()) return
      }
      const leftMs = until - clock.now()
      if (leftMs <= 0) return
      await sleep(Math.min(leftMs, LOOK_EVERY_MS))
    }
  }

  /** The probe came through: everybody may go on. */
  end(): void {
    this.#ended++
    this.#error = undefined
    this.#probe = undefined
    this.#backoff.reset()
    this.#wake()
  }

  /** Nobody waits here any more. */
  close(): void {
    this.#closed = true
    this.#wake()
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
