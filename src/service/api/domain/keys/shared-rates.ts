import type { RedisBackend } from '../../../../components/processors/throttle/cluster/redis-backend.js'
import { hashedKey, type Key, randomSeed } from '../../../../components/throttle/buckets/key-table.js'
import { LeaseLimiter } from '../../../../components/throttle/cluster/lease-limiter.js'
import { LEASED_PART, type LeaseGrant } from '../../../../components/throttle/cluster/script-calls.js'
import { ASK, FULL, PASS } from '../../../../components/throttle/decisions.js'
import { BoundedMap } from '../../../../lib/bounded-map.js'
import { everyOf, type TimerClock } from '../../../../lib/time.js'
import type { Nodes } from '../../nodes.js'
import { MOST_KEYS, type RateLimiter, type RateLimits, type RateState } from './rate-limiter.js'

type Backend = Pick<RedisBackend, 'ask' | 'isUp' | 'start' | 'close'>

const SWEEP_MS = 1000
const MOST_ENCODED = 10_000
const MOST_WAITS = 10_000
/** Buffer.from would put keys into a shared pool. Each key would then keep its whole pool in memory. */
const ENCODER = new TextEncoder()

/**
 * Rate limits that hold across nodes. Redis counts the uses in fixed windows, and nodes lease them in advance, as
 * throttles with `scope: cluster` do. While Redis does not reply, each node allows its share.
 */
export class SharedRates {
  readonly backend: Backend
  readonly clock: TimerClock
  readonly #nodes: Pick<Nodes, 'live'>
  readonly #all: LeaseLimiter[] = []
  readonly #stop: () => void

  constructor(backend: Backend, nodes: Pick<Nodes, 'live'>, clock: TimerClock) {
    this.backend = backend
    this.clock = clock
    this.#nodes = nodes
    this.#stop = everyOf(clock, SWEEP_MS, () => void this.#giveBack())
    void backend.start()
  }

  /** Whether to ask Redis. This makes sense only if Redis replies and other nodes run. */
  get areShared(): boolean {
    return this.#nodes.live > 1 && this.backend.isUp
  }

  /** Maximum units of a limit that the other nodes may have leased without having used them. */
  leasedElsewhere(limit: number): number {
    return Math.floor(limit * LEASED_PART) * (this.#nodes.live - 1)
  }

  /**
   * `name`: identifies the limit in Redis. `local`: decides while limits are not shared. `waits`: whether a refused use
   * waits, so that the other nodes can first give back their unused leased units.
   */
  limiter(name: string, local: RateLimiter, waits = false): RateLimits {
    const limits = [{ mode: 'fixed', ...local.rate, unit: 'events' }] as const
    const leases = new LeaseLimiter({ limits, part: LEASED_PART, members: 1, maxKeys: MOST_KEYS, seed: randomSeed() })
    this.#all.push(leases)
    return new SharedLimiter(name, local, leases, this, waits)
  }

  async close(): Promise<void> {
    this.#stop()
    await this.#giveBack(0)
    this.backend.close()
  }

  /** Gives leases back to Redis if unused for `idleMs`. */
  async #giveBack(idleMs?: number): Promise<void> {
    const now = this.clock.now()
    const demands = this.#all.flatMap(leases => leases.giveBack(now, idleMs ?? leases.idleMs))
    if (demands.length > 0) await this.backend.ask(demands)
  }
}

/** Refused uses of a key. They wait because other nodes may give units back. */
interface Wait {
  /** Of the first refused use. */
  readonly state: RateState
  /** How many more uses may wait. */
  left: number
  /** Resolves after the other nodes had time to give back unused units. Undefined after it has resolved. */
  over: Promise<void> | undefined
  /** The end of the window. Before this time, uses that would be refused even after the wait do not wait. */
  readonly until: number
}

class SharedLimiter implements RateLimits {
  readonly #prefix: string
  readonly #local: RateLimiter
  readonly #leases: LeaseLimiter
  readonly #rates: SharedRates
  /** Encoded keys, since encoding costs more than the rest of a check. */
  readonly #buckets = new BoundedMap<string, Key>(MOST_ENCODED)
  #asking: Promise<readonly LeaseGrant[] | undefined> | undefined
  readonly #waits: BoundedMap<string, Wait> | undefined

  constructor(name: string, local: RateLimiter, leases: LeaseLimiter, rates: SharedRates, waits: boolean) {
    this.#prefix = `${name}:`
    this.#local = local
    this.#leases = leases
    this.#rates = rates
    if (waits) this.#waits = new BoundedMap(MOST_WAITS)
    leases.asking.begin()
  }

  take(key: string): RateState | Promise<RateState> {
    if (!this.#waits || !this.#rates.areShared) return this.#takeNow(key)
    const wait = this.#waits.get(key)
    if (wait?.over) return this.#wait(key, wait)
    const state = this.#takeNow(key)
    return state instanceof Promise ? state.then(state => this.#settle(key, state)) : this.#settle(key, state)
  }

  #settle(key: string, state: RateState): RateState | Promise<RateState> {
    if (state.allowed) return state
    const known = this.#waits!.get(key)
    if (known?.over) return this.#wait(key, known)
    return known && this.#rates.clock.now() < known.until ? state : this.#wait(key, this.#addWait(key, state))
  }

  #addWait(key: string, state: RateState): Wait {
    const { clock } = this.#rates
    const { limit, resetMs } = state
    const over = new Promise<void>(resolve => clock.after(Math.min(resetMs, this.#leases.idleMs + SWEEP_MS), resolve))
    const wait: Wait = { state, left: this.#rates.leasedElsewhere(limit), over, until: clock.now() + resetMs }
    void over.then(() => (wait.over = undefined))
    this.#waits!.set(key, wait)
    return wait
  }

  async #wait(key: string, wait: Wait): Promise<RateState> {
    if (wait.left === 0) {
      const resetMs = Math.max(0, wait.until - this.#rates.clock.now())
      return { ...wait.state, resetMs, waitMs: resetMs }
    }
    wait.left--
    await wait.over
    const state = await this.#takeNow(key)
    // Other nodes may give back more units. So if the next use is refused, it also waits.
    if (state.allowed && this.#waits!.get(key) === wait) this.#waits!.delete(key)
    return state
  }

  #takeNow(key: string): RateState | Promise<RateState> {
    if (!this.#rates.areShared) return this.#local.take(key)
    const leases = this.#leases
    const now = this.#rates.clock.now()
    const bucket = this.#buckets.get(key) ?? this.#add(key)
    leases.advance(now)
    const decided = leases.take(bucket, now, 1, 0)
    if (decided === FULL) return this.#local.take(key)
    if (decided !== ASK) return this.#state(bucket, now, decided === PASS)
    const { last, demands } = leases.asking
    const place = demands[last]!.events
    this.#asking ??= this.#ask()
    return this.#asking.then(grants => {
      if (!grants) return this.#local.take(key)
      return this.#state(bucket, this.#rates.clock.now(), place <= (grants[last]!.passed as number))
    })
  }

  #add(key: string): Key {
    const bucket = hashedKey(ENCODER.encode(this.#prefix + key), this.#leases.seed)
    this.#buckets.set(key, bucket)
    return bucket
  }

  /** Asks Redis about all keys of this turn with one request. Resolves with undefined if Redis did not reply. */
  async #ask(): Promise<readonly LeaseGrant[] | undefined> {
    await undefined
    this.#asking = undefined
    const { backend, clock } = this.#rates
    const { asking } = this.#leases
    const { demands } = asking
    asking.begin()
    const sentAt = clock.now()
    const grants = await backend.ask(demands)
    const now = clock.now()
    for (const [i, grant] of grants?.entries() ?? []) this.#leases.keep(demands[i]!, grant, sentAt, now)
    return grants
  }

  #state(bucket: Key, now: number, allowed: boolean): RateState {
    const { left, until } = this.#leases.left(bucket, now)
    const remaining = allowed ? left : 0
    const resetMs = Math.max(0, until - now)
    const { limit, windowMs } = this.#local.rate
    return { limit, windowMs, allowed, remaining, resetMs, waitMs: remaining > 0 ? 0 : resetMs }
  }
}
