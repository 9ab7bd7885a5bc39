import type { EventBatch } from '../../../core/event/batch.js'
import type { BatchScope } from '../../../core/processor.js'
import type { Clock } from '../../../lib/time.js'
import { EventKey } from '../../throttle/buckets/event-key.js'
import type { Decider, DeciderOptions } from '../../throttle/decider.js'
import { DISCARD, EXCLUDED, PASS, WAITS } from '../../throttle/decisions.js'
import type { Limit } from '../../throttle/limit.js'
import type { Rule } from '../../throttle/rules/rules.js'
import { createWindows } from '../../throttle/windows/several.js'
import { WallTime } from '../../throttle/windows/wall-time.js'
import { BucketQueues, isBehind, type Queue, queueOf } from './bucket-queues.js'
import { LiveAlone } from './live-alone.js'
import { everWaits, longestWaits, type ThrottleOptions } from './options.js'

/** How long the rules of a limits file are relied on: other ones may give room sooner. */
const FILE_MS = 500
/** A live event that is decided so long after its arrival, while backlog waits, may have come behind it. */
const LATE_MS = 5

/** What WaitingRule passes to a successor with the same options: what late events have taken of the windows. */
export interface LateState {
  readonly queues: BucketQueues
  /** Those of live events alone. */
  readonly windows: unknown
}

/** The limits that events wait for. */
type Limits = Pick<Decider, 'ruleOf' | 'costOf' | 'roomAt' | 'level'>

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
  readonly #limits: Limits
  /** Whether other daemons share them. */
  readonly #isShared: boolean
  readonly #clock: Clock
  readonly #key: EventKey
  readonly #queues: BucketQueues
  /** Whether the queues are those of the predecessor. */
  readonly #isInherited: boolean
  readonly #liveMs: number
  readonly #backlogMs: number
  /** Whether backlog may wait for longer than what is live. */
  readonly #paces: boolean
  readonly #alone: LiveAlone
  /** Limits of the throttle, for events without a rule. */
  readonly #ownLimits: readonly Limit[]
  /** Whether there may be limits with gcra, whose levels sink to nothing at no certain time. */
  readonly #hasGcra: boolean
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
    limits: Limits,
    compiled: DeciderOptions,
    clock: Clock,
    before?: LateState,
  ): WaitingRule | undefined {
    if (!everWaits(options)) return undefined
    const isShared = options.scope === 'cluster'
    const askEveryMs = options.limits_file === undefined ? Number.POSITIVE_INFINITY : FILE_MS
    return new WaitingRule(limits, isShared, compiled, clock, longestWaits(options), askEveryMs, before)
  }

  private constructor(
    of: Limits,
    isShared: boolean,
    compiled: DeciderOptions,
    clock: Clock,
    { live, backlog }: ReturnType<typeof longestWaits>,
    askEveryMs: number,
    before: LateState | undefined,
  ) {
    const { keyFields, limits, rules } = compiled
    this.#askEveryMs = askEveryMs
    this.#limits = of
    this.#isShared = isShared
    this.#queues = before?.queues ?? new BucketQueues()
    this.#isInherited = before !== undefined
    this.#key = new EventKey(keyFields, this.#queues.seed)
    this.#alone = new LiveAlone(compiled, clock, backlog, before?.windows)
    this.#ownLimits = limits
    this.#hasGcra = rules !== undefined || limits.some(isGcra)
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
    return { queues: this.#queues, windows: this.#alone.windows }
  }

  /** Turns the refusals of events that may wait into WAITS. Returns how many. Call for each batch; `refused` of it were. */
  apply(batch: EventBatch, decisions: Uint8Array, refused: number, scope: BatchScope): number {
    const hasWaited = scope.keptMs > 0
    if (hasWaited && scope.isInherited && !this.#isInherited) this.#join(batch)
    const isPaced = this.#paces && (hasWaited || batch.isBacklog || !this.#queues.isEmpty)
    if (!isPaced && (refused === 0 || this.#liveMs === 0)) return 0
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
      const isQueueBehind = queue !== undefined && isBehind(queue, now)
      const isDisplaced = isQueueBehind && this.#isDisplaced(batch, i, queue, hasWaited)
      const leftMs = (batch.isBacklog || isDisplaced ? this.#backlogMs : this.#liveMs) - scope.keptMs
      const waits = isOver && scope.mayWait && this.#waits(batch, i, bucket, leftMs, now, scope)
      if (this.#paces) {
        if (waits && !hasWaited) this.#queues.join(this.#queues.open(bucket, now), batch.isBacklog, isDisplaced)
        if (!waits && hasWaited && queue) this.#queues.leave(queue, batch.isBacklog)
        // In a bucket that is not behind, an event has waited only because of the limit.
        const isLate = batch.isBacklog || this.#isLate || (hasWaited && isQueueBehind)
        if (decisions[i] === PASS) this.#notePass(batch, i, bucket, isLate, now)
      }
      if (!waits) continue
      decisions[i] = WAITS
      waiting++
    }
    return waiting
  }

  /** Counts what has waited in a predecessor with other options. */
  #join(batch: EventBatch): void {
    if (!this.#paces) return
    const now = this.#clock.now()
    // What is live has waited there because of backlog, or else it would not wait here.
    const isDisplaced = !batch.isBacklog && this.#liveMs === 0
    for (let i = 0; i < batch.length; i++) {
      this.#key.load(batch, i)
      this.#queues.join(this.#queues.open(queueOf(this.#key), now), batch.isBacklog, isDisplaced)
    }
  }

  #begin(batch: EventBatch, now: number): void {
    this.#queues.sweep(now)
    if (this.#queues.isEmpty) this.#alone.clear()
    this.#isLate = this.#alone.begin(batch) >= LATE_MS && this.#queues.behind > 0
  }

  /** Whether an event of a bucket that is behind would have passed otherwise. Call once for each that arrives. */
  #isDisplaced(batch: EventBatch, i: number, queue: Queue, hasWaited: boolean): boolean {
    if (batch.isBacklog) return false
    return hasWaited ? queue.events - queue.backlog <= queue.displaced : this.#alone.lets(batch, i)
  }

  /** Notes until when an event takes the room of others. */
  #notePass(batch: EventBatch, i: number, bucket: number, isLate: boolean, now: number): void {
    const queue = isLate ? this.#queues.open(bucket, now) : this.#hasGcra ? this.#queues.get(bucket, now) : undefined
    if (!queue || !(isLate || isBehind(queue, now))) return
    const limits = this.#limits.ruleOf(batch, i)?.limits ?? this.#ownLimits
    if (isLate) queue.until = Math.max(queue.until, now + this.#spanOf(limits))
    // Whatever passes puts off the time from which what was late no longer matters.
    if (this.#hasGcra && limits.some(isGcra))
      queue.until = Math.max(queue.until, this.#limits.level(batch, i)?.until ?? now)
  }

  #spanOf(limits: readonly Limit[]): number {
    let span = this.#spans.get(limits)
    if (span === undefined)
      this.#spans.set(limits, (span = limits.length === 0 ? 0 : createWindows(limits, new WallTime()).spanMs))
    return span
  }

  #waits(batch: EventBatch, i: number, bucket: number, leftMs: number, now: number, scope: BatchScope): boolean {
    if (leftMs <= 0) return false
    const inMs = this.#roomIn(batch, i, bucket, now)
    // It would wait in vain, unless other daemons may leave room sooner.
    if (inMs > leftMs && !this.#isShared) return false
    scope.later(Math.min(Math.max(0, inMs), leftMs, this.#askEveryMs))
    return true
  }

  /** In how many milliseconds there is room for event `i`; Infinity: never. */
  #roomIn(batch: EventBatch, i: number, bucket: number, now: number): number {
    const rule = this.#limits.ruleOf(batch, i)
    const cost = this.#limits.costOf(batch, i)
    const size = this.#dependsOnSize ? batch.size(i) : 0
    const last = this.#rooms.get(bucket)
    if (last && last.rule === rule && last.cost === cost && last.size === size) return last.inMs
    const inMs = this.#limits.roomAt(batch, i) - now
    this.#rooms.set(bucket, { rule, cost, size, inMs })
    return inMs
  }
}

const isGcra = ({ mode }: Limit) => mode === 'gcra'
