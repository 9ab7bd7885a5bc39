import type { EventBatch } from '../../core/event/batch.js'
import type { BatchScope } from '../../core/processor.js'
import type { Clock } from '../../lib/time.js'
import { type DeciderOptions, EXCLUDED, WAITS } from '../../throttle/decider.js'
import { EventKey } from '../../throttle/event-key.js'
import type { Limit } from '../../throttle/limit.js'
import { DISCARD, PASS } from '../../throttle/limiter.js'
import { LiveDecider } from '../../throttle/live-decider.js'
import type { Rule } from '../../throttle/rules.js'
import { createWindows } from '../../throttle/several-windows.js'
import { WallTime } from '../../throttle/wall-time.js'
import { BucketQueues, isBehind, type Queue, queueOf } from './bucket-queues.js'
import { LiveAlone } from './live-alone.js'
import { everWaits, longestWaits } from './longest-waits.js'
import type { ThrottleOptions } from './options.js'

/** When to ask again where nobody knows when there is room: the limit is shared with other daemons. */
const GUESS_MS = 100
/** How long the rules of a limits file are relied on: other ones may give room sooner. */
const FILE_MS = 500
/** A live event that is decided so long after its arrival, while others wait, may have come behind them. */
const LATE_MS = 5

/** What WaitingRule passes to a successor with the same options: what late events have taken of the windows. */
export interface LateState {
  readonly queues: BucketQueues
  /** Those of live events alone. */
  readonly windows: unknown
}

/** In how many milliseconds a bucket has room for an event like this. */
interface Room {
  readonly rule: Rule | undefined
  readonly cost: number
  readonly size: number
  readonly inMs: number
}

/**
 * Decides which events over the limit wait for room. Backlog does. It takes the room of events that come live, and these
 * the room of later ones when they have waited, until nothing of the kind is in the windows of the bucket any more: then
 * it has caught up. Until then a live event waits as well if it would have passed without all that. So an app that stays
 * within its limit loses nothing, and of one that does not, what is over is discarded as ever.
 */
export class WaitingRule {
  /** Tells when there is room; undefined: nobody knows. */
  readonly #decider: LiveDecider | undefined
  readonly #clock: Clock
  readonly #key: EventKey
  readonly #queues: BucketQueues
  readonly #liveMs: number
  readonly #backlogMs: number
  /** Whether backlog may wait for longer than what is live. */
  readonly #paces: boolean
  readonly #alone: LiveAlone
  /** Limits of the throttle, for events without a rule. */
  readonly #limits: readonly Limit[]
  /** The longest windows of limits. */
  readonly #spans = new WeakMap<readonly Limit[], number>()
  /** The last answer about each bucket, for the current batch. */
  readonly #rooms = new Map<number, Room>()
  readonly #dependsOnSize: boolean
  /** When to ask again at the latest. */
  readonly #askEveryMs: number
  /** Whether the current batch arrived some time ago. */
  #isLate = false

  /** Undefined if no event ever waits. */
  static for(
    options: ThrottleOptions,
    decider: unknown,
    compiled: DeciderOptions,
    clock: Clock,
    before?: LateState,
  ): WaitingRule | undefined {
    if (!everWaits(options)) return undefined
    const known = decider instanceof LiveDecider ? decider : undefined
    const askEveryMs = options.limits_file === undefined ? Number.POSITIVE_INFINITY : FILE_MS
    return new WaitingRule(known, compiled, clock, longestWaits(options), askEveryMs, before)
  }

  private constructor(
    decider: LiveDecider | undefined,
    compiled: DeciderOptions,
    clock: Clock,
    { live, backlog }: ReturnType<typeof longestWaits>,
    askEveryMs: number,
    before: LateState | undefined,
  ) {
    const { keyFields, limits, rules } = compiled
    this.#askEveryMs = askEveryMs
    this.#decider = decider
    this.#queues = before?.queues ?? new BucketQueues()
    this.#key = new EventKey(keyFields)
    this.#alone = new LiveAlone(compiled, clock, backlog, before?.windows)
    this.#limits = limits
    this.#dependsOnSize = rules !== undefined || limits.some(({ unit }) => unit === 'bytes')
    this.#clock = clock
    this.#liveMs = live
    this.#backlogMs = backlog
    this.#paces = backlog > live
  }

  /** The rules, in the place of those before. */
  setRules(rules: readonly Rule[]): void {
    this.#alone.setRules(rules)
  }

  get state(): LateState {
    this.#queues.empty()
    return { queues: this.#queues, windows: this.#alone.windows }
  }

  /** Turns the refusals of events that may wait into WAITS. Returns how many. Call for each batch; `refused` of it were. */
  apply(batch: EventBatch, decisions: Uint8Array, refused: number, scope: BatchScope): number {
    const hasWaited = scope.keptMs > 0
    const isPaced = this.#paces && (hasWaited || batch.isBacklog || !this.#queues.isEmpty)
    if (!scope.mayWait || (!isPaced && (refused === 0 || this.#liveMs === 0))) return 0
    const now = this.#clock.now()
    this.#rooms.clear()
    if (this.#paces) this.#begin(batch, now)
    let waiting = 0
    for (let i = 0; i < batch.length; i++) {
      const isOver = decisions[i] === DISCARD
      if (!isOver && (!isPaced || decisions[i] === EXCLUDED)) continue
      this.#key.load(batch, i)
      const bucket = queueOf(this.#key)
      const queue = this.#queues.get(bucket, now)
      const isDisplaced = this.#isDisplaced(batch, i, queue, hasWaited, now)
      const leftMs = (batch.isBacklog || isDisplaced ? this.#backlogMs : this.#liveMs) - scope.keptMs
      const waits = isOver && this.#waits(batch, i, bucket, leftMs, now, scope)
      if (this.#paces) {
        if (waits && !hasWaited) this.#queues.join(this.#queues.open(bucket, now), batch.isBacklog, isDisplaced)
        if (!waits && hasWaited && queue) this.#queues.leave(queue, batch.isBacklog)
        if (decisions[i] === PASS && (batch.isBacklog || hasWaited || this.#isLate))
          this.#takesRoom(batch, i, bucket, now)
      }
      if (!waits) continue
      decisions[i] = WAITS
      waiting++
    }
    return waiting
  }

  #begin(batch: EventBatch, now: number): void {
    this.#queues.sweep(now)
    if (this.#queues.isEmpty) this.#alone.clear()
    this.#isLate = this.#alone.begin(batch) >= LATE_MS && this.#queues.waiting > 0
  }

  /** Whether a live event would have passed if nothing had been late in its bucket. Call once for each that arrives. */
  #isDisplaced(batch: EventBatch, i: number, queue: Queue | undefined, hasWaited: boolean, now: number): boolean {
    if (batch.isBacklog || !queue || !isBehind(queue, now)) return false
    return hasWaited ? queue.events - queue.backlog <= queue.displaced : this.#alone.lets(batch, i)
  }

  /** Notes that a late event has passed. */
  #takesRoom(batch: EventBatch, i: number, bucket: number, now: number): void {
    const queue = this.#queues.open(bucket, now)
    const limits = this.#decider?.ruleOf(batch, i)?.limits ?? this.#limits
    // The TAT of gcra can be any time ahead.
    const until = limits.some(isOpen) ? (this.#decider?.level(batch, i)?.until ?? now) : now
    queue.until = Math.max(queue.until, until, now + this.#spanOf(limits))
  }

  #spanOf(limits: readonly Limit[]): number {
    let span = this.#spans.get(limits)
    if (span === undefined)
      this.#spans.set(limits, (span = limits.length === 0 ? 0 : createWindows(limits, new WallTime()).spanMs))
    return span
  }

  #waits(batch: EventBatch, i: number, bucket: number, leftMs: number, now: number, scope: BatchScope): boolean {
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
}

/** Whether one event can fill the limit for longer than its window. */
const isOpen = ({ mode, unit }: Limit) => mode === 'gcra' && unit !== 'events'
