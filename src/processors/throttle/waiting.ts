import type { EventBatch } from '../../core/event/batch.js'
import type { BatchScope } from '../../core/processor.js'
import type { Clock } from '../../lib/time.js'
import { type DeciderOptions, DISCARD, WAITS } from '../../throttle/decider.js'
import { EventKey } from '../../throttle/event-key.js'
import { LiveDecider } from '../../throttle/live-decider.js'
import { everWaits, longestWaits } from './longest-waits.js'
import type { ThrottleOptions } from './options.js'

/** When to ask again where nobody knows when there is room: the limit is shared with other daemons. */
const GUESS_MS = 100
/** For how long after its time a bucket is still taken to be one that backlog waits for. */
const SLACK_MS = 1000
/** Number of such buckets from which on those that are no longer so are forgotten. */
const MANY_BUCKETS = 10_000

/**
 * Decides which events over the limit wait for room. While backlog waits for a bucket, what is live waits for it as
 * well, because backlog has taken its room.
 */
export class WaitingRule {
  /** Tells when there is room; undefined: nobody knows. */
  readonly #decider: LiveDecider | undefined
  readonly #clock: Clock
  readonly #key: EventKey
  readonly #liveMs: number
  readonly #backlogMs: number
  /** Until when backlog waits for a bucket, by the hash of its key. A wrong one only lets events wait. */
  readonly #pacedUntil = new Map<number, number>()
  #lastPaced = Number.NEGATIVE_INFINITY
  /** In how many milliseconds buckets have room, for the current batch. */
  readonly #roomIn = new Map<number, number>()

  /** Undefined if no event ever waits. */
  static for(
    options: ThrottleOptions,
    decider: unknown,
    { keyFields }: DeciderOptions,
    clock: Clock,
  ): WaitingRule | undefined {
    if (!everWaits(options)) return undefined
    const known = decider instanceof LiveDecider ? decider : undefined
    return new WaitingRule(known, new EventKey(keyFields), clock, longestWaits(options))
  }

  private constructor(
    decider: LiveDecider | undefined,
    key: EventKey,
    clock: Clock,
    { live, backlog }: ReturnType<typeof longestWaits>,
  ) {
    this.#decider = decider
    this.#key = key
    this.#clock = clock
    this.#liveMs = live
    this.#backlogMs = backlog
  }

  /** Turns the refusals of events that may wait into WAITS. Returns how many. */
  apply(batch: EventBatch, decisions: Uint8Array, scope: BatchScope): number {
    if (!scope.mayWait) return 0
    const now = this.#clock.now()
    if (now > this.#lastPaced) this.#pacedUntil.clear()
    if (!batch.isBacklog && this.#liveMs === 0 && this.#pacedUntil.size === 0) return 0
    this.#roomIn.clear()
    let waiting = 0
    for (let i = 0; i < batch.length; i++) {
      if (decisions[i] !== DISCARD || !this.#waits(batch, i, now, scope)) continue
      decisions[i] = WAITS
      waiting++
    }
    return waiting
  }

  #waits(batch: EventBatch, i: number, now: number, scope: BatchScope): boolean {
    const bucket = this.#bucketOf(batch, i)
    const isPaced = batch.isBacklog || this.#pacedUntil.get(bucket)! >= now
    const leftMs = (isPaced ? this.#backlogMs : this.#liveMs) - scope.keptMs
    if (leftMs <= 0) return false
    let inMs = this.#roomIn.get(bucket)
    if (inMs === undefined) {
      inMs = this.#decider ? this.#decider.roomAt(batch, i) - now : GUESS_MS
      this.#roomIn.set(bucket, inMs)
    }
    // It would wait in vain.
    if (inMs > leftMs) return false
    scope.later(Math.max(0, inMs))
    if (batch.isBacklog && this.#backlogMs > this.#liveMs) this.#pace(bucket, now, now + inMs + SLACK_MS)
    return true
  }

  #bucketOf(batch: EventBatch, i: number): number {
    const key = this.#key
    key.load(batch, i)
    let hash = 0
    for (let at = key.start; at < key.end; at++) hash = Math.imul(hash ^ key.bytes.getUint8(at), 0x0100_0193)
    return hash
  }

  #pace(bucket: number, now: number, until: number): void {
    const paced = this.#pacedUntil
    paced.set(bucket, until)
    this.#lastPaced = Math.max(this.#lastPaced, until)
    if (paced.size % MANY_BUCKETS !== 0) return
    for (const [other, end] of paced) if (end < now) paced.delete(other)
  }
}
