import type { Clock } from './time.js'

/** Minimum time between messages of the same kind. */
const EVERY_MS = 60_000

/** Limits the rate of repeated log messages of each kind, and counts suppressed ones. */
export class LogLimit {
  readonly #clock: Clock
  readonly #kinds = new Map<string, { at: number; suppressed: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Returns undefined if the message should not be logged now. Otherwise returns a field: the number of suppressed
   * messages of this kind since the last one.
   */
  next(kind: string): { suppressed?: number } | undefined {
    const now = this.#clock.now()
    const last = this.#kinds.get(kind)
    if (last && now - last.at < EVERY_MS) {
      last.suppressed++
      return undefined
    }
    this.#kinds.set(kind, { at: now, suppressed: 0 })
    return last && last.suppressed > 0 ? { suppressed: last.suppressed } : {}
  }

  /**
   * Returns 0 if the message should not be logged now; otherwise the number of messages since the last logged one,
   * including this one.
   */
  count(kind: string): number {
    const next = this.next(kind)
    return next ? (next.suppressed ?? 0) + 1 : 0
  }

  /** Returns the number of suppressed messages that were not reported so far, for each kind. */
  rest(): Record<string, number> {
    return Object.fromEntries(
      [...this.#kinds].flatMap(([kind, { suppressed }]) => (suppressed > 0 ? [[kind, suppressed]] : [])),
    )
  }
}
