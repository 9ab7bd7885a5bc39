import type { EventBatch } from '../../../core/event/batch.js'
import type { Clock } from '../../../lib/time.js'
import { hashedKey } from '../buckets/key-table.js'
import { KeyedDecider } from '../decider.js'
import type { DeciderOptions } from '../decider-options.js'
import { ASK, DECISIONS, DISCARD, EXCLUDED, FAIL_OPEN, FULL, NO_BACKEND, PASS } from '../decisions.js'
import { LeaseLimiter, type LeaseOptions, type LimiterDemand } from './lease-limiter.js'
import type { LeaseDemand, LeaseGrant } from './script-calls.js'

export type OnFailure = 'local_share' | 'pass' | 'discard' | 'wait'

/** The server that keeps the buckets of all members. */
export interface Backend {
  /** Asks once. Resolves with undefined if the server does not reply in time, or is known to be down. */
  ask(demands: readonly LeaseDemand[]): Promise<readonly LeaseGrant[] | undefined>
  /** Resolves when another request is worthwhile, or when the signal aborts. */
  untilReachable(signal: AbortSignal): Promise<void>
}

export interface ClusterDeciderOptions extends DeciderOptions, LeaseOptions {
  readonly onFailure: OnFailure
}

export interface Decided {
  readonly decisions: Uint8Array
  readonly counts: Uint32Array
  /** Number of events on which this daemon decided alone, because it could not ask the server. */
  readonly alone: number
}

/**
 * Makes decisions that agree with those of the other members of a group. Decides from leases, or asks the server about
 * all buckets of a batch together.
 */
export class ClusterDecider extends KeyedDecider<LeaseLimiter> {
  readonly #onFailure: OnFailure
  readonly #clock: Clock
  readonly #backend: Backend

  constructor(options: ClusterDeciderOptions, clock: Clock, backend: Backend, limiter = new LeaseLimiter(options)) {
    super(options, limiter)
    this.#onFailure = options.onFailure
    this.#clock = clock
    this.#backend = backend
  }

  /**
   * Decides on all events of a batch. Returns a promise if the server has to be asked. The promise rejects if the
   * signal aborts while events wait for a server that does not reply.
   */
  decide(batch: EventBatch, signal: AbortSignal): Decided | Promise<Decided> {
    const now = this.#clock.now()
    const { limiter } = this
    const { asking } = limiter
    limiter.advance(now)
    asking.begin()
    const decisions = new Uint8Array(batch.length)
    const counts = new Uint32Array(DECISIONS)
    /** For each event that waits for the server: its index, followed by the index of its demand. */
    const waiting: number[] = []
    for (let i = 0; i < batch.length; i++) {
      const decision = this.isExcluded(batch, i) ? EXCLUDED : this.take(batch, i, now)
      decisions[i] = decision
      counts[decision]!++
      if (decision === ASK) waiting.push(i, asking.last)
    }
    const decided = { decisions, counts, alone: 0 }
    return waiting.length === 0 ? decided : this.#ask(asking.demands, waiting, decided, signal)
  }

  get buckets(): number {
    return this.limiter.keys
  }

  /** Gives back leases that were not used for `idleMs`. */
  async giveBack(idleMs: number): Promise<void> {
    const demands = this.limiter.giveBack(this.#clock.now(), idleMs)
    // If the server does not reply, the leases expire when their window ends.
    if (demands.length > 0) await this.#backend.ask(demands)
  }

  /** The current time, because the server's replies are stored in local time. */
  protected decidedAt(): number {
    return this.#clock.now()
  }

  async #ask(demands: LimiterDemand[], waiting: number[], decided: Decided, signal: AbortSignal): Promise<Decided> {
    const wait = this.#onFailure === 'wait'
    let sentAt = this.#clock.now()
    let grants = await this.#backend.ask(demands)
    // Gives back the units only once, because the server may have received them although its reply was lost.
    if (!grants) for (const demand of demands) demand.backCost = demand.backBytes = 0
    while (!grants && wait && !signal.aborted) {
      await this.#backend.untilReachable(signal)
      sentAt = this.#clock.now()
      grants = await this.#backend.ask(demands)
    }
    // The waiting events stay undecided, and the caller gives these events back.
    if (!grants && wait) signal.throwIfAborted()
    const passed = grants ? this.#granted(demands, grants, sentAt) : this.#alone(demands)
    const refusal = grants || this.#onFailure !== 'discard' ? DISCARD : NO_BACKEND
    const pass = grants || this.#onFailure !== 'pass' ? PASS : FAIL_OPEN
    const { decisions, counts } = decided
    const next = new Uint32Array(demands.length)
    for (let at = 0; at < waiting.length; at += 2) {
      const demand = waiting[at + 1]!
      const decision = isPassed(passed[demand]!, next[demand]!++) ? pass : refusal
      decisions[waiting[at]!] = decision
      counts[decision]!++
    }
    counts[ASK] = 0
    return grants ? decided : { ...decided, alone: waiting.length / 2 }
  }

  #granted(demands: LimiterDemand[], grants: readonly LeaseGrant[], sentAt: number): LeaseGrant['passed'][] {
    const now = this.#clock.now()
    return demands.map((demand, i) => {
      const grant = grants[i]!
      demand.by.keep(demand, grant, sentAt, now)
      return grant.passed
    })
  }

  /** Returns, for each demand, which of its events pass while the server cannot be asked. */
  #alone(demands: LimiterDemand[]): LeaseGrant['passed'][] {
    if (this.#onFailure === 'pass') return demands.map(({ events }) => events)
    if (this.#onFailure !== 'local_share') return demands.map(() => 0)
    const now = this.#clock.now()
    const { localOfAll } = this.limiter
    localOfAll.timing.wall.offsetMs = this.#clock.wall() - now
    localOfAll.advance(now)
    return demands.map(demand => this.#aloneOf(demand, now))
  }

  #aloneOf({ by: { local, isReleased }, key, events, list }: LimiterDemand, now: number): LeaseGrant['passed'] {
    // If the rule was removed meanwhile, uses its default bucket, because new buckets would count for ever.
    const bucket = key.length === 0 || isReleased ? undefined : hashedKey(key, local.seed)
    return Uint8Array.from({ length: events }, (_, n) => {
      const [cost, size] = list ? [list[n * 2]!, list[n * 2 + 1]!] : [1, 0]
      const taken = local.take(bucket, now, cost, size)
      const decision = taken === FULL ? this.takeFull(local, now, cost, size) : taken
      return decision === PASS || decision === FAIL_OPEN ? 1 : 0
    })
  }
}

function isPassed(passed: LeaseGrant['passed'], n: number): boolean {
  return typeof passed === 'number' ? n < passed : passed[n] === 1
}
