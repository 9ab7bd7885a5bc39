import type { Clock } from './time.js'

/** Messages of the same kind are logged this far apart at least. */
const EVERY_MS = 60_000

/** Keeps messages that come again and again out of the log, by kind, and knows how many were left out. */
export class LogLimit {
  readonly #clock: Clock
  readonly #kinds = new Map<string, { at: number; suppressed: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Undefined: not now. Otherwise the fields that say how many messages of this kind were left out since the last one. */
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

  /** 0: not now. Otherwise how many messages of this kind there were since the last one, with this. */
  count(kind: string): number {
    const next = this.next(kind)
    return next ? (next.suppressed ?? 0) + 1 : 0
  }

  /** How many messages were left out and not reported yet, by kind. */
  rest(): Record<string, number> {
    return Object.fromEntries(
      [...this.#kinds].flatMap(([kind, { suppressed }]) => (suppressed > 0 ? [[kind, suppressed]] : [])),
    )
  }
}
