import type { EventBatch } from '../../core/event/batch.js'
import type { BatchScope } from '../../core/processor.js'
import type { Clock } from '../../lib/time.js'
import { type DeciderOptions, WAITS } from '../../throttle/decider.js'
import { EventKey } from '../../throttle/event-key.js'
import { DISCARD } from '../../throttle/limiter.js'
import { LiveDecider } from '../../throttle/live-decider.js'
import type { Rule } from '../../throttle/rules.js'
import { everWaits, longestWaits } from './longest-waits.js'
import type { ThrottleOptions } from './options.js'

/** When to ask again where nobody knows when there is room: the limit is shared with other daemons. */
const GUESS_MS = 100
/** How long the rules of a limits file are relied on: other ones may give room sooner. */
const FILE_MS = 500
/** For how long after its time a bucket is still taken to be one that backlog waits for. */
const SLACK_MS = 1000
/** Number of such buckets from which on those that are no longer so are forgotten. */
const MANY_BUCKETS = 10_000

/** In how many milliseconds a bucket has room for an event like this. */
interface Room {
  readonly rule: Rule | undefined
  readonly cost: number
  readonly size: number
  readonly inMs: number
}

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
  /** The last answer about each bucket, for the current batch. */
  readonly #rooms = new Map<number, Room>()
  readonly #dependsOnSize: boolean
  /** When to ask again at the latest. */
  readonly #askEveryMs: number

  /** Undefined if no event ever waits. */
  static for(
    options: ThrottleOptions,
    decider: unknown,
    compiled: DeciderOptions,
    clock: Clock,
  ): WaitingRule | undefined {
    if (!everWaits(options)) return undefined
    const known = decider instanceof LiveDecider ? decider : undefined
    const askEveryMs = options.limits_file === undefined ? Number.POSITIVE_INFINITY : FILE_MS
    return new WaitingRule(known, compiled, clock, longestWaits(options), askEveryMs)
  }

  private constructor(
    decider: LiveDecider | undefined,
    { keyFields, limits, rules }: DeciderOptions,
    clock: Clock,
    { live, backlog }: ReturnType<typeof longestWaits>,
    askEveryMs: number,
  ) {
    this.#askEveryMs = askEveryMs
    this.#decider = decider
    this.#key = new EventKey(keyFields)
    this.#dependsOnSize = rules !== undefined || limits.some(({ unit }) => unit === 'bytes')
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
    this.#rooms.clear()
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
    const inMs = this.#decider ? this.#roomIn(this.#decider, batch, i, bucket, now) : GUESS_MS
    // It would wait in vain.
    if (inMs > leftMs) return false
    scope.later(Math.min(Math.max(0, inMs), this.#askEveryMs))
    if (batch.isBacklog && this.#backlogMs > this.#liveMs) this.#pace(bucket, now, now + inMs + SLACK_MS)
    return true
  }

  /** In how many milliseconds there is room for event `i`; Infinity: never. */
  #roomIn(decider: LiveDecider, batch: EventBatch, i: number, bucket: number, now: number): number {
    const rule = decider.ruleOf(batch, i)
    const cost = decider.costOf(batch, i)
    const size = this.#dependsOnSize ? batch.size(i) : 0
    const last = this.#rooms.get(bucket)
    if (last && last.rule === rule && last.cost === cost && last.size === size) return last.inMs
    const inMs = decider.roomAt(batch, i) - now
    this.#rooms.set(bucket, { rule, cost, size, inMs })
    return inMs
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
    // Rules have buckets of their own for the same key.
    paced.set(bucket, Math.max(paced.get(bucket) ?? until, until))
    this.#lastPaced = Math.max(this.#lastPaced, until)
    if (paced.size % MANY_BUCKETS !== 0) return
    for (const [other, end] of paced) if (end < now) paced.delete(other)
  }
}
