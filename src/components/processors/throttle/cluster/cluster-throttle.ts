import type { ComponentContext, HandoverState } from '../../../../core/component.js'
import type { EventBatch } from '../../../../core/event/batch.js'
import type { ProcessorOutage } from '../../../../core/status-document.js'
import { everyOf } from '../../../../lib/time.js'
import { RedisConnector } from '../../../../net/redis/connector.js'
import type { RedisOptions } from '../../../../net/redis/options.js'
import { ClusterDecider, type Decided } from '../../../throttle/cluster/cluster-decider.js'
import type { LeaseLimiter } from '../../../throttle/cluster/lease-limiter.js'
import { LEASED_PART } from '../../../throttle/cluster/script-calls.js'
import type { DeciderOptions } from '../../../throttle/decider-options.js'
import type { Rule } from '../../../throttle/rules/rule.js'
import { deciderOptions } from '../decider-options.js'
import type { ClusterOptions, ThrottleConfig } from '../options.js'
import { RedisBackend } from './redis-backend.js'

const SHORTEST_SWEEP_MS = 50

/** State that a cluster throttle passes to a successor with the same options. */
class ClusterState {
  readonly limiter: LeaseLimiter
  readonly backend: RedisBackend

  constructor(limiter: LeaseLimiter, backend: RedisBackend) {
    this.limiter = limiter
    this.backend = backend
  }
}

/** Connects to the server of the cluster limit. Undefined: the limit is local. */
export async function checkCluster(options: ThrottleConfig, context: ComponentContext): Promise<string | undefined> {
  if (options.scope === 'local') return undefined
  const throttle = new ClusterThrottle(options, deciderOptions(options, context), context, undefined)
  await throttle.start()
  const reason = throttle.outage?.reason
  await throttle.stop()
  if (reason !== undefined) throw new Error(`redis: ${reason}`)
  return 'the server of the cluster limit replies'
}

/** The part of a throttle that shares its limit with other daemons. */
export class ClusterThrottle {
  readonly #backend: RedisBackend
  readonly decider: ClusterDecider
  readonly #context: ComponentContext
  readonly #alone: { value: number }
  #cancel: (() => void) | undefined
  #waiting = 0
  #isHandedOver = false

  constructor(fields: ClusterOptions, options: DeciderOptions, context: ComponentContext, inherited: unknown) {
    const { id, log, metrics, clock, reach } = context
    const { redis, group = id, accuracy = 'leased', on_backend_failure: onFailure = 'local_share' } = fields
    const connector = new RedisConnector(redis as RedisOptions, { log, clock, reach })
    const settings = { group, timeoutMs: redis!.timeout, onFailure, passwords: () => connector.passwords }
    this.#backend = new RedisBackend((lost, signal) => connector.connect(lost, signal), settings, context)
    const before = inherited instanceof ClusterState ? inherited : undefined
    before?.backend.close()
    const part = accuracy === 'leased' ? LEASED_PART : 0
    const shared = { ...options, part, members: fields.expected_members ?? 1, onFailure }
    this.decider = new ClusterDecider(shared, clock, this.#backend, before?.limiter)
    this.#context = context
    this.#alone = metrics.counter(
      'sluice_throttle_alone_events_total',
      'Events decided by on_backend_failure, because the server that keeps the buckets did not reply.',
    )
    const leased = 'Buckets that may hold a lease: a part of the limit that this daemon has reserved in advance.'
    metrics.gauge('sluice_throttle_leased_buckets', leased, () => this.limiter.leased)
    const waiting = 'Batches that wait for a reply of the server.'
    metrics.gauge('sluice_throttle_backend_waiting_batches', waiting, () => this.#waiting)
  }

  get limiter(): LeaseLimiter {
    return this.decider.limiter
  }

  /** Whether batches wait for the server now, because `on_backend_failure` is `wait`. */
  get isWaiting(): boolean {
    return this.#waiting > 0 && !this.#backend.isUp
  }

  get outage(): ProcessorOutage | undefined {
    return this.#backend.outage
  }

  async start(): Promise<void> {
    const { idleMs } = this.decider.limiter
    this.#cancel = everyOf(
      this.#context.clock,
      Math.max(SHORTEST_SWEEP_MS, idleMs),
      () => void this.decider.giveBack(idleMs),
    )
    // `stop` may be called before this has ended.
    await this.#backend.start()
  }

  async stop(): Promise<void> {
    this.#cancel?.()
    if (this.#isHandedOver) return
    await this.decider.giveBack(0)
    this.#backend.close()
  }

  handOver(): HandoverState {
    this.#isHandedOver = true
    const [decider, backend] = [this.decider, this.#backend]
    const release = async () => {
      await decider.giveBack(0)
      backend.close()
    }
    return { value: new ClusterState(decider.limiter, backend), release }
  }

  decide(batch: EventBatch, signal: AbortSignal): Decided | Promise<Decided> {
    const decided = this.decider.decide(batch, signal)
    return decided instanceof Promise ? this.#decided(decided) : decided
  }

  setRules(rules: readonly Rule[]): void {
    this.decider.setRules(rules)
    // Gives back the leases of the old rules before the new rules ask the server.
    void this.decider.giveBack(this.limiter.idleMs)
  }

  async #decided(deciding: Promise<Decided>): Promise<Decided> {
    this.#waiting++
    try {
      const decided = await deciding
      this.#alone.value += decided.alone
      return decided
    } finally {
      this.#waiting--
    }
  }
}
