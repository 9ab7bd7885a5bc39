import { BoundedMap } from '../../../lib/bounded-map.js'
import type { Clock } from '../../../lib/time.js'

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

/** Most keys in memory. Beyond that, the key that was added first is forgotten. */
const MOST_KEYS = 100_000

/** Uses that follow each other within this part of a window are counted together, and expire with the last of them. */
const PARTS = 20

interface Uses {
  readonly firstAt: number
  expiresAt: number
  count: number
}

/** The uses of a key that lie within a window before now, oldest first. */
interface Used {
  readonly uses: Uses[]
  count: number
}

/**
 * Counts by key, without timers. The limit holds for every window wherever it begins: an allowance that refills steadily
 * would let nearly twice as many pass within the first one.
 */
export class RateLimiter {
  readonly rate: Rate
  readonly #clock: Clock
  readonly #known: BoundedMap<string, Used>

  constructor(rate: Rate, clock: Clock, most = MOST_KEYS) {
    this.rate = rate
    this.#clock = clock
    this.#known = new BoundedMap(most)
  }

  /** Takes one, if there is one left. */
  take(key: string): RateState {
    const now = this.#clock.now()
    const { limit, windowMs } = this.rate
    const used = this.#known.get(key) ?? this.#add(key)
    while (used.uses[0] && used.uses[0].expiresAt <= now) used.count -= used.uses.shift()!.count
    const allowed = used.count < limit
    if (allowed) {
      const last = used.uses.at(-1)
      const expiresAt = now + windowMs
      if (last && now - last.firstAt < windowMs / PARTS) {
        last.count++
        last.expiresAt = expiresAt
      } else used.uses.push({ firstAt: now, expiresAt, count: 1 })
      used.count++
    }
    const remaining = limit - used.count
    const resetMs = used.uses.at(-1)!.expiresAt - now
    const waitMs = remaining > 0 ? 0 : used.uses[0]!.expiresAt - now
    return { limit, windowMs, allowed, remaining, resetMs, waitMs }
  }

  #add(key: string): Used {
    const used = { uses: [], count: 0 }
    this.#known.set(key, used)
    return used
  }
}

const seconds = (ms: number) => String(Math.max(1, Math.ceil(ms / 1000)))

/** The headers that say how many requests a client has left. */
export function rateHeaders(state: RateState): Record<string, string> {
  return {
    'ratelimit-limit': String(state.limit),
    'ratelimit-remaining': String(state.remaining),
    'ratelimit-reset': String(Math.ceil(state.resetMs / 1000)),
    'ratelimit-policy': `${state.limit};w=${seconds(state.windowMs)}`,
    ...(state.allowed ? {} : { 'retry-after': seconds(state.waitMs) }),
  }
}
