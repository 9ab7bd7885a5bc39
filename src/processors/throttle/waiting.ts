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
/** For how long at least a bucket has not caught up after nothing waits for it any more. */
const SLACK_MS = 1000
/** How often queues of buckets that have caught up are forgotten. */
const FORGET_MS = 1000

/** In how many milliseconds a bucket has room for an event like this. */
interface Room {
  readonly rule: Rule | undefined
  readonly cost: number
  readonly size: number
  readonly inMs: number
}

/** The events that wait for a bucket. */
interface Queue {
  events: number
  /** Those of them that are backlog. */
  backlog: number
  /** The most events that waited while some were backlog. */
  most: number
  /** If none waits: until when what waited takes the room of others; then the bucket has caught up. */
  until: number
}

/**
 * Decides which events over the limit wait for room. While backlog waits for a bucket, what is live waits for it as
 * well, because backlog has taken its room. What came meanwhile takes the room of what comes next, and so on, until
 * the bucket has caught up. An app that writes more than its limit never does: therefore, when no backlog waits any
 * more, the queue does not grow, and what is over is discarded again.
 */
export class WaitingRule {
  /** Tells when there is room; undefined: nobody knows. */
  readonly #decider: LiveDecider | undefined
  readonly #clock: Clock
  readonly #key: EventKey
  readonly #liveMs: number
  readonly #backlogMs: number
  /** Whether backlog may wait for longer than what is live. */
  readonly #paces: boolean
  /** By the hash of the key of a bucket, if `#paces`. A wrong one only lets events wait. */
  readonly #queues = new Map<number, Queue>()
  #forgetAt = 0
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
    this.#paces = backlog > live
  }

  /** Turns the refusals of events that may wait into WAITS. Returns how many. Call for all events that have waited. */
  apply(batch: EventBatch, decisions: Uint8Array, scope: BatchScope): number {
    if (!scope.mayWait) return 0
    const hasWaited = this.#paces && scope.keptMs > 0
    if (!hasWaited && !batch.isBacklog && this.#liveMs === 0 && this.#queues.size === 0) return 0
    const now = this.#clock.now()
    if (now >= this.#forgetAt) this.#forget(now)
    this.#rooms.clear()
    let waiting = 0
    for (let i = 0; i < batch.length; i++) {
      const isOver = decisions[i] === DISCARD
      if (!isOver && !hasWaited) continue
      const bucket = this.#bucketOf(batch, i)
      const waits = isOver && this.#waits(batch, i, bucket, now, scope)
      if (this.#paces && waits !== hasWaited) {
        const queue = this.#count(bucket, batch.isBacklog, waits ? 1 : -1, now)
        if (queue.events === 0) queue.until = Math.max(now + SLACK_MS, this.#decider?.level(batch, i)?.until ?? now)
      }
      if (!waits) continue
      decisions[i] = WAITS
      waiting++
    }
    return waiting
  }

  #waits(batch: EventBatch, i: number, bucket: number, now: number, scope: BatchScope): boolean {
    const isPaced = batch.isBacklog || this.#isBehind(bucket, scope.keptMs > 0, now)
    const leftMs = (isPaced ? this.#backlogMs : this.#liveMs) - scope.keptMs
    if (leftMs <= 0) return false
    const inMs = this.#decider ? this.#roomIn(this.#decider, batch, i, bucket, now) : GUESS_MS
    // It would wait in vain.
    if (inMs > leftMs) return false
    scope.later(Math.min(Math.max(0, inMs), this.#askEveryMs))
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

  /** Whether a live event is behind backlog; `hasWaited`: whether it is in the queue. */
  #isBehind(bucket: number, hasWaited: boolean, now: number): boolean {
    const queue = this.#queues.get(bucket)
    if (queue === undefined || hasCaughtUp(queue, now)) return false
    return queue.backlog > 0 || queue.events - Number(hasWaited) < queue.most
  }

  #count(bucket: number, isBacklog: boolean, change: 1 | -1, now: number): Queue {
    let queue = this.#queues.get(bucket)
    if (!queue || hasCaughtUp(queue, now))
      this.#queues.set(bucket, (queue = { events: 0, backlog: 0, most: 0, until: 0 }))
    queue.events += change
    if (isBacklog) queue.backlog += change
    if (queue.backlog > 0) queue.most = Math.max(queue.most, queue.events)
    return queue
  }

  #forget(now: number): void {
    this.#forgetAt = now + FORGET_MS
    for (const [bucket, queue] of this.#queues) if (hasCaughtUp(queue, now)) this.#queues.delete(bucket)
  }
}

const hasCaughtUp = ({ events, until }: Queue, now: number) => events === 0 && now >= until
