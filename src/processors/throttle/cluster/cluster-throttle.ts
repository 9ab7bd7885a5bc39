import type { ComponentContext, HandoverState } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { everyOf } from '../../../lib/time.js'
import { RedisConnector } from '../../../redis/connector.js'
import type { RedisOptions } from '../../../redis/options.js'
import {
  type ClusterBuckets,
  ClusterDecider,
  type Decided,
  type OnFailure,
} from '../../../throttle/cluster/cluster-decider.js'
import { LEASED_PART, type SharedLimit } from '../../../throttle/cluster/shared-limit.js'
import type { DeciderOptions } from '../../../throttle/decider.js'
import type { Limit } from '../../../throttle/limit.js'
import type { ClusterFields } from './options.js'
import { RedisBackend } from './redis-backend.js'

const SHORTEST_SWEEP_MS = 50

/** What a cluster throttle passes to a successor with the same options. */
class ClusterState {
  readonly buckets: ClusterBuckets
  readonly backend: RedisBackend

  constructor(buckets: ClusterBuckets, backend: RedisBackend) {
    this.buckets = buckets
    this.backend = backend
  }
}

/** The part of a throttle that shares its limit with other daemons. */
export class ClusterThrottle {
  readonly #backend: RedisBackend
  readonly #decider: ClusterDecider
  readonly #context: ComponentContext
  readonly #alone: { value: number }
  #cancel: (() => void) | undefined
  #waiting = 0
  #isHandedOver = false

  /** `inherited`: what a predecessor with the same options handed over. */
  constructor(fields: ClusterFields, options: DeciderOptions, context: ComponentContext, inherited: unknown) {
    const { id, metrics, clock } = context
    const { redis, group = id, accuracy = 'leased', on_backend_failure = 'local_share', expected_members = 1 } = fields
    const shared = sharedLimit(options.limits[0]!, accuracy)
    const connector = new RedisConnector(redis as RedisOptions, context)
    const settings = { limit: shared, group, timeoutMs: redis!.timeout, onFailure: on_backend_failure }
    this.#backend = new RedisBackend((lost, signal) => connector.connect(lost, signal), settings, context)
    const localLimit = Math.max(1, Math.floor(shared.limit / expected_members))
    const onFailure: OnFailure = on_backend_failure
    const before = inherited instanceof ClusterState ? inherited : undefined
    before?.backend.close()
    this.#decider = new ClusterDecider(
      { ...options, shared, localLimit, onFailure },
      clock,
      this.#backend,
      before?.buckets,
    )
    this.#context = context
    this.#alone = metrics.counter(
      'sluice_throttle_alone_events_total',
      'Events decided by on_backend_failure, because the server that keeps the buckets could not be asked.',
    )
  }

  get buckets(): number {
    return this.#decider.buckets.leases.keys
  }

  get limiter(): { readonly dropped: number } {
    return this.#decider.buckets.leases
  }

  /** Whether it waits for the server, as `on_backend_failure: wait` says. */
  get isWaiting(): boolean {
    return this.#waiting > 0 && !this.#backend.isUp
  }

  async start(): Promise<void> {
    await this.#backend.start()
    const { idleMs } = this.#decider.buckets.leases
    this.#cancel = everyOf(
      this.#context.clock,
      Math.max(SHORTEST_SWEEP_MS, idleMs),
      () => void this.#decider.giveBack(idleMs),
    )
  }

  async stop(): Promise<void> {
    this.#cancel?.()
    if (this.#isHandedOver) return
    await this.#decider.giveBack(0)
    this.#backend.close()
  }

  handOver(): HandoverState {
    this.#isHandedOver = true
    const [decider, backend] = [this.#decider, this.#backend]
    const release = async () => {
      await decider.giveBack(0)
      backend.close()
    }
    return { value: new ClusterState(decider.buckets, backend), release }
  }

  decide(batch: EventBatch, signal: AbortSignal): Decided | Promise<Decided> {
    const decided = this.#decider.decide(batch, signal)
    return decided instanceof Promise ? this.#decided(decided) : decided
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

function sharedLimit({ limit, windowMs, mode, burst }: Limit, accuracy: 'exact' | 'leased'): SharedLimit {
  if (mode === 'sliding' || mode === 'quota') throw new Error(`${mode} limits cannot be shared`)
  return { mode, limit, windowMs, burst: burst ?? limit - 1, part: accuracy === 'leased' ? LEASED_PART : 0 }
}
