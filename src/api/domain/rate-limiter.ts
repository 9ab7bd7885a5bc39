import type { Clock } from '../../lib/time.js'

/** `limit` in any `windowMs`, all of them at once if need be. */
export interface Rate {
  readonly limit: number
  readonly windowMs: number
}

export interface RateState extends Rate {
  readonly allowed: boolean
  readonly remaining: number
  /** Until all of `limit` is there again. */
  readonly resetMs: number
  /** Until one more is allowed; 0 while one is. */
  readonly waitMs: number
}

/** How many are remembered at most; beyond them who came first is forgotten, and begins anew. */
const MOST_KEYS = 100_000

/** When the allowance of a key will be full again. */
interface Allowance {
  fullAt: number
}

/** Counts by key; a whole allowance at first, filled up steadily. One number a key, no timers. */
export class RateLimiter {
  readonly rate: Rate
  readonly #clock: Clock
  readonly #most: number
  readonly #known = new Map<string, Allowance>()

  constructor(rate: Rate, clock: Clock, most = MOST_KEYS) {
    this.rate = rate
    this.#clock = clock
    this.#most = most
  }

  /** Takes one, if there is one left. */
  take(key: string): RateState {
    const now = this.#clock.now()
    const { limit, windowMs } = this.rate
    const step = windowMs / limit
    let allowance = this.#known.get(key)
    const fullAt = Math.max(allowance?.fullAt ?? 0, now) + step
    if (fullAt - now > windowMs + step / 1000) return this.#state(fullAt - step - now, false)
    if (allowance) allowance.fullAt = fullAt
    else {
      if (this.#known.size >= this.#most) this.#known.delete(this.#known.keys().next().value!)
      allowance = { fullAt }
      this.#known.set(key, allowance)
    }
    return this.#state(fullAt - now, true)
  }

  #state(resetMs: number, allowed: boolean): RateState {
    const { limit, windowMs } = this.rate
    const step = windowMs / limit
    const remaining = Math.max(0, Math.floor((windowMs - resetMs) / step + 0.001))
    const waitMs = remaining > 0 ? 0 : Math.max(0, resetMs + step - windowMs)
    return { limit, windowMs, allowed, remaining, resetMs, waitMs }
  }
}

const seconds = (ms: number) => String(Math.max(1, Math.ceil(ms / 1000)))

/** The headers that tell a client how much it may still ask. */
export function rateHeaders(state: RateState): Record<string, string> {
  return {
    'ratelimit-limit': String(state.limit),
    'ratelimit-remaining': String(state.remaining),
    'ratelimit-reset': String(Math.ceil(state.resetMs / 1000)),
    'ratelimit-policy': `${state.limit};w=${seconds(state.windowMs)}`,
    ...(state.allowed ? {} : { 'retry-after': seconds(state.waitMs) }),
  }
}
