import { BoundedMap } from '../../../../lib/bounded-map.js'
import type { Clock } from '../../../../lib/time.js'
import { type Nodes, SINGLE_NODE } from '../../nodes.js'

/** Allows `limit` uses in any window of `windowMs`. All of these uses may come at the same moment. */
export interface RateLimit {
  readonly limit: number
  readonly windowMs: number
}

export interface RateState extends RateLimit {
  readonly allowed: boolean
  readonly remaining: number
  /** Time until all of `limit` is available again. */
  readonly resetMs: number
  /** Time until another use is allowed; 0 if a use is allowed now. */
  readonly waitMs: number
}

/** Limits uses by key. */
export interface RateLimits {
  /** Takes one use if any is left. Synchronous if possible. */
  take(key: string): RateState | Promise<RateState>
}

/** Maximum keys in memory. When there are more, the key that was added first is dropped. */
export const MOST_KEYS = 100_000

/**
 * Number of parts of a window. The uses in one part are counted together, and all expire when the last of them expires.
 */
const PARTS = 20

interface Uses {
  readonly firstAt: number
  expiresAt: number
  count: number
}

/** The uses of a key within the last window, oldest first. */
interface Used {
  readonly uses: Uses[]
  count: number
}

/**
 * Counts uses by key, without timers. The limit holds for every window, wherever the window begins. A token bucket that
 * refills steadily would allow nearly twice `limit` in its first window. Each node of the service allows its share of
 * the limit.
 */
export class RateLimiter implements RateLimits {
  readonly rate: RateLimit
  readonly #clock: Clock
  readonly #nodes: Pick<Nodes, 'live'>
  readonly #known: BoundedMap<string, Used>

  constructor(rate: RateLimit, clock: Clock, nodes: Pick<Nodes, 'live'> = SINGLE_NODE, most = MOST_KEYS) {
    this.rate = rate
    this.#clock = clock
    this.#nodes = nodes
    this.#known = new BoundedMap(most)
  }

  take(key: string): RateState {
    const now = this.#clock.now()
    const { windowMs } = this.rate
    const limit = Math.max(1, Math.floor(this.rate.limit / this.#nodes.live))
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
    const remaining = Math.max(0, limit - used.count)
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

export function rateHeaders(state: RateState): Record<string, string> {
  return {
    'ratelimit-limit': String(state.limit),
    'ratelimit-remaining': String(state.remaining),
    'ratelimit-reset': String(Math.ceil(state.resetMs / 1000)),
    'ratelimit-policy': `${state.limit};w=${seconds(state.windowMs)}`,
    ...(state.allowed ? {} : { 'retry-after': seconds(state.waitMs) }),
  }
}
