import type { EventBatch } from '../../core/event/batch.js'
import type { Clock } from '../../lib/time.js'
import { BucketKey } from '../bucket-key.js'
import { type DeciderOptions, DISCARD, EXCLUDED, FAIL_OPEN, FULL, KeyedLimiter, PASS } from '../decider.js'
import { viewOf } from '../key-table.js'
import type { Limit } from '../limit.js'
import { ASK, type Asked, LeaseLimiter } from './lease-limiter.js'
import type { Demand, Grant } from './script.js'
import { CLOCK_MARGIN, type SharedLimit } from './shared-limit.js'

/** The server could not be asked, with `on_backend_failure: discard`. */
export const NO_BACKEND = 9
/** One more than the largest decision. */
const DECISIONS = NO_BACKEND + 1

export type OnFailure = 'local_share' | 'pass' | 'discard' | 'wait'

/** The server that keeps the buckets of all members. */
export interface Backend {
  /** Asks once. Undefined: it did not reply in time, or is known not to. */
  ask(demands: readonly Demand[]): Promise<readonly Grant[] | undefined>
  /** Resolves when it is worthwhile to ask again, or the signal aborts. */
  untilReachable(signal: AbortSignal): Promise<void>
}

export interface ClusterOptions
  extends Pick<DeciderOptions, 'exclude' | 'keyFields' | 'maxKeys' | 'onMaxKeys' | 'seed'> {
  readonly shared: SharedLimit
  readonly onFailure: OnFailure
  /** The limit while the server cannot be asked, with `local_share`. */
  readonly localLimit: number
}

/** The decisions about a batch. */
export interface Decided {
  readonly decisions: Uint8Array
  /** Number of events per decision. */
  readonly counts: Uint32Array
  /** Number of events decided without the server because it could not be asked. */
  readonly alone: number
}

/** What a decider passes to its successor. */
export class ClusterBuckets {
  readonly leases: LeaseLimiter
  readonly local: KeyedLimiter

  constructor({ shared, maxKeys, seed, localLimit }: ClusterOptions) {
    this.leases = new LeaseLimiter(shared, maxKeys, seed)
    // Fixed windows that are no shorter than those of the server: any window there meets at most two of them.
    const windowMs = shared.windowMs * (1 + CLOCK_MARGIN)
    const share: Limit = { mode: 'fixed', limit: localLimit, windowMs, unit: 'events' }
    this.local = new KeyedLimiter({ limits: [share], maxKeys, seed })
  }
}

/**
 * Decides in agreement with the other members of a group. What cannot be decided from leases is asked of the server, for
 * all buckets of a batch at once.
 */
export class ClusterDecider {
  readonly buckets: ClusterBuckets
  readonly #options: ClusterOptions
  readonly #key: BucketKey | undefined
  readonly #clock: Clock
  readonly #backend: Backend

  constructor(options: ClusterOptions, clock: Clock, backend: Backend, buckets?: ClusterBuckets) {
    this.buckets = buckets ?? new ClusterBuckets(options)
    this.#options = options
    this.#key = options.keyFields.length > 0 ? new BucketKey(options.keyFields) : undefined
    this.#clock = clock
    this.#backend = backend
  }

  /** Decides on all events of a batch; a promise if the server has to be asked. */
  decide(batch: EventBatch, signal: AbortSignal): Decided | Promise<Decided> {
    const now = this.#clock.now()
    const { leases } = this.buckets
    leases.advance(now)
    leases.begin()
    const decisions = new Uint8Array(batch.length)
    const counts = new Uint32Array(DECISIONS)
    /** The events that wait for the server, each followed by its demand. */
    const asking: number[] = []
    for (let i = 0; i < batch.length; i++) {
      const decision = this.#decideOne(batch, i, now)
      decisions[i] = decision
      counts[decision]!++
      if (decision === ASK) asking.push(i, leases.demand)
    }
    const decided = { decisions, counts, alone: 0 }
    return asking.length === 0 ? decided : this.#ask(leases.demands, asking, decided, signal)
  }

  /** Gives back the leases that were not used for so long. */
  async giveBack(idleMs: number): Promise<void> {
    const demands = this.buckets.leases.giveBack(this.#clock.now(), idleMs)
    // Without a reply they expire with their window.
    if (demands.length > 0) await this.#backend.ask(demands)
  }

  #decideOne(batch: EventBatch, i: number, now: number): Asked | typeof EXCLUDED | typeof FAIL_OPEN {
    const { exclude, onMaxKeys } = this.#options
    const { leases } = this.buckets
    if (exclude?.(batch, i)) return EXCLUDED
    const key = this.#key
    if (key === undefined || !key.load(batch, i)) return leases.takeDefault(now)
    const taken = leases.take(key.bytes, key.start, key.end, now)
    if (taken !== FULL || onMaxKeys === 'discard') return taken
    return onMaxKeys === 'pass' ? FAIL_OPEN : leases.takeDefault(now)
  }

  async #ask(demands: Demand[], asking: number[], decided: Decided, signal: AbortSignal): Promise<Decided> {
    const wait = this.#options.onFailure === 'wait'
    let sentAt = this.#clock.now()
    let grants = await this.#backend.ask(demands)
    while (!grants && wait && !signal.aborted) {
      await this.#backend.untilReachable(signal)
      sentAt = this.#clock.now()
      grants = await this.#backend.ask(demands)
    }
    const left = grants ? this.#granted(demands, grants, sentAt) : this.#alone(demands)
    const refused = grants || this.#options.onFailure !== 'discard' ? DISCARD : NO_BACKEND
    const passed = grants || this.#options.onFailure !== 'pass' ? PASS : FAIL_OPEN
    const { decisions, counts } = decided
    for (let at = 0; at < asking.length; at += 2) {
      const decision = left[asking[at + 1]!]!-- > 0 ? passed : refused
      decisions[asking[at]!] = decision
      counts[decision]!++
    }
    counts[ASK] = 0
    return grants ? decided : { ...decided, alone: asking.length / 2 }
  }

  /** The number of events that pass, by demand. */
  #granted(demands: Demand[], grants: readonly Grant[], sentAt: number): number[] {
    const now = this.#clock.now()
    return demands.map((demand, i) => {
      const grant = grants[i]!
      this.buckets.leases.keep(demand, grant, sentAt, now)
      return Math.min(demand.need, grant.granted)
    })
  }

  /** The number of events that pass without the server, by demand. */
  #alone(demands: Demand[]): number[] {
    const { onFailure } = this.#options
    if (onFailure === 'pass') return demands.map(({ need }) => need)
    if (onFailure !== 'local_share') return demands.map(() => 0)
    const { local } = this.buckets
    const now = this.#clock.now()
    local.advance(now)
    return demands.map(({ key, need }) => {
      if (key.length === 0) return local.takeDefaults(need, now)
      const view = viewOf(key)
      let passed = 0
      while (passed < need && local.take(view, 0, key.length, now) === PASS) passed++
      return passed
    })
  }
}
