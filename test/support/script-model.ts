import type { Demand, Grant } from '../../src/throttle/cluster/script.js'
import type { SharedLimit } from '../../src/throttle/cluster/shared-limit.js'

/** What the script does, written independently of it: a server with a clock that the caller sets, in microseconds. */
export class ScriptModel {
  readonly #limit: SharedLimit
  readonly #states = new Map<string, { start: number; used: number }>()

  constructor(limit: SharedLimit) {
    this.#limit = limit
  }

  get size(): number {
    return this.#states.size
  }

  /** As a server that was restarted empty. */
  clear(): void {
    this.#states.clear()
  }

  execute(demands: readonly Demand[], now: number): Grant[] {
    return demands.map(demand =>
      this.#limit.mode === 'gcra' ? this.#smooth(demand, now) : this.#windowed(demand, now),
    )
  }

  #windowed({ key, need, ahead, ticket }: Demand, now: number): Grant {
    const { limit, mode, part } = this.#limit
    const length = Math.round(this.#limit.windowMs * 1000)
    const opens = mode === 'aligned' ? now - (now % length) : now
    const name = key.toString('latin1')
    let window = this.#states.get(name)
    if (!window || now >= window.start + length) window = { start: opens, used: 0 }
    else if (now < window.start) window = { start: opens, used: window.used }
    const room = limit - window.used
    let granted = 0
    if (need < 0) {
      if (ticket === window.start) window.used = Math.max(0, window.used + need)
    } else if (need <= room) granted = need + Math.min(ahead, Math.floor((room - need) * part))
    else granted = Math.max(0, room)
    window.used += granted
    if (granted > 0 || need < 0) this.#states.set(name, window)
    return { granted, waitMs: (window.start + length - now) / 1000, ticket: window.start }
  }

  #smooth({ key, need, ahead, ticket }: Demand, now: number): Grant {
    const { limit, windowMs, burst, part } = this.#limit
    const interval = Math.round(windowMs * 1000) / limit
    const name = key.toString('latin1')
    const before = this.#states.get(name) ?? { start: now, used: 0 }
    let level = Math.max(0, before.used - Math.max(0, now - before.start) / interval)
    const room = Math.floor(burst - level + 1e-9) + 1
    const waitMs = Math.ceil(Math.max(0, (level - burst) * interval)) / 1000
    let granted = 0
    if (need < 0) level = Math.max(0, level - Math.max(0, -need - (now - ticket) / interval))
    else if (need <= room) granted = need + Math.min(ahead, Math.floor((room - need) * part))
    else granted = Math.max(0, room)
    level += granted
    if (granted > 0 || need < 0) this.#states.set(name, { start: now, used: level })
    return { granted, waitMs, ticket: now }
  }
}
