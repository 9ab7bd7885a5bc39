import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import type { BatchScope } from '../../../core/processor.js'
import type { BucketWait, WaitState } from '../../../core/status-document.js'
import type { Clock } from '../../../lib/time.js'
import { formatDuration } from '../../../lib/units.js'
import { EventKey } from '../../throttle/buckets/event-key.js'
import { randomSeed } from '../../throttle/buckets/key-table.js'
import { createClockDecider, type Decider } from '../../throttle/decider.js'
import type { DeciderOptions } from '../../throttle/decider-options.js'
import { DISCARD, EXCLUDED, PASS, WAITS } from '../../throttle/decisions.js'
import type { Limit } from '../../throttle/limit.js'
import type { Rule } from '../../throttle/rules/rule.js'
import { createWindows } from '../../throttle/windows/several.js'
import { WallTime } from '../../throttle/windows/wall-time.js'
import { longestWaits, type ThrottleConfig } from './options.js'

/**
 * With a limits file, waiting events ask for room again within this time, because new rules may give them room sooner.
 */
const FILE_MS = 500
/**
 * If backlog waits and a live event is decided this many milliseconds after its arrival, the event may have waited
 * behind the backlog.
 */
const LATE_MS = 5

/**
 * State with the effect of late events on the windows. Pacing passes this state to a successor with the same options.
 */
export interface LateState {
  readonly queues: BucketQueues
  readonly windows: unknown
}

type Limits = Pick<Decider, 'ruleOf' | 'costOf' | 'roomAt' | 'level'>

/** How long until a bucket has room for an event with this rule, cost and size. */
interface Room {
  readonly rule: Rule | undefined
  readonly cost: number
  readonly size: number
  readonly inMs: number
}

/**
 * Decides which events over the limit wait for room. Backlog that has waited takes room from live events. As a result,
 * some live events wait, and later take room from other live events. Both the backlog and these live events are called
 * late events. A bucket has caught up when its windows do not contain late events. Until then, a live event that is
 * over the limit only because of backlog also waits. So an app within its limit does not lose events, and the throttle
 * discards the excess of other apps as usual.
 */
export class Pacing {
  readonly #limits: Limits
  readonly #isShared: boolean
  readonly #clock: Clock
  readonly #key: EventKey
  readonly #queues: BucketQueues
  readonly #isInherited: boolean
  readonly #liveMs: number
  readonly #backlogMs: number
  /** Whether backlog may wait longer than live events. */
  readonly #paces: boolean
  readonly #without: WithoutBacklog
  /** The throttle's limits, which apply to events without a rule. */
  readonly #ownLimits: readonly Limit[]
  /** False if no limit can be a gcra limit. The level of a gcra limit does not sink to 0 at a fixed time. */
  readonly #hasGcra: boolean
  /** For each list of limits: the longest window, in milliseconds. */
  readonly #spans = new WeakMap<readonly Limit[], number>()
  /** For each bucket: the last answer in the current batch. */
  readonly #rooms = new Map<number, Room>()
  readonly #dependsOnSize: boolean
  /** Maximum time until a waiting event asks for room again. */
  readonly #askEveryMs: number
  /** Whether the current batch may have waited behind backlog (LATE_MS). */
  #isLate = false

  constructor(options: ThrottleConfig, of: Limits, compiled: DeciderOptions, clock: Clock, before?: LateState) {
    const { live, backlog } = longestWaits(options)
    const { keyFields, limits, rules } = compiled
    this.#askEveryMs = options.limits_file === undefined ? Number.POSITIVE_INFINITY : FILE_MS
    this.#limits = of
    this.#isShared = options.scope === 'cluster'
    this.#queues = before?.queues ?? new BucketQueues()
    this.#isInherited = before !== undefined
    this.#key = new EventKey(keyFields, this.#queues.seed)
    this.#without = new WithoutBacklog(compiled, clock, backlog, before?.windows)
    this.#ownLimits = limits
    this.#hasGcra = rules !== undefined || limits.some(isGcra)
    this.#dependsOnSize = rules !== undefined || limits.some(({ unit }) => unit === 'bytes')
    this.#clock = clock
    this.#liveMs = live
    this.#backlogMs = backlog
    this.#paces = backlog > live
  }

  setRules(rules: readonly Rule[]): void {
    this.#without.setRules(rules)
  }

  get state(): LateState {
    return { queues: this.#queues, windows: this.#without.windows }
  }

  /**
   * For refused events that may wait, sets the decision to WAITS. Returns the number of waiting events. Call this for
   * each batch. `refused`: number of refused events in the batch.
   */
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
      const wouldPassAlone = isQueueBehind && this.#wouldPassAlone(batch, i, queue, hasWaited)
      const leftMs = (batch.isBacklog || wouldPassAlone ? this.#backlogMs : this.#liveMs) - scope.keptMs
      const waits = isOver && scope.mayWait && this.#waits(batch, i, bucket, leftMs, now, scope)
      if (this.#paces) {
        if (waits && !hasWaited) this.#queues.join(this.#queues.open(bucket, now), batch.isBacklog, wouldPassAlone)
        if (!waits && hasWaited && queue) this.#queues.leave(queue, batch.isBacklog)
        // If its bucket is not behind, a live event has waited only because of the limit.
        const isLate = batch.isBacklog || this.#isLate || (hasWaited && isQueueBehind)
        if (decisions[i] === PASS) this.#notePass(batch, i, bucket, isLate, now)
      }
      if (!waits) continue
      decisions[i] = WAITS
      waiting++
    }
    return waiting
  }

  /** Adds the events of a batch to the queues, because the batch has waited in a predecessor with other options. */
  #join(batch: EventBatch): void {
    if (!this.#paces) return
    const now = this.#clock.now()
    // If live events do not wait for the limit, the live events of this batch have waited only because of backlog.
    const wouldPassAlone = !batch.isBacklog && this.#liveMs === 0
    for (let i = 0; i < batch.length; i++) {
      this.#key.load(batch, i)
      this.#queues.join(this.#queues.open(queueOf(this.#key), now), batch.isBacklog, wouldPassAlone)
    }
  }

  #begin(batch: EventBatch, now: number): void {
    this.#queues.sweep(now)
    if (this.#queues.isEmpty) this.#without.clear()
    this.#isLate = this.#without.begin(batch) >= LATE_MS && this.#queues.behind > 0
  }

  /**
   * Whether an event would have passed without backlog. Its bucket must be behind. Call once for each arriving event.
   */
  #wouldPassAlone(batch: EventBatch, i: number, queue: Queue, hasWaited: boolean): boolean {
    if (batch.isBacklog) return false
    return hasWaited ? queue.events - queue.backlog <= queue.displaced : this.#without.lets(batch, i)
  }

  /** Records the time until which an event takes room from other events. */
  #notePass(batch: EventBatch, i: number, bucket: number, isLate: boolean, now: number): void {
    const queue = isLate ? this.#queues.open(bucket, now) : this.#hasGcra ? this.#queues.get(bucket, now) : undefined
    if (!queue || !(isLate || isBehind(queue, now))) return
    const limits = this.#limits.ruleOf(batch, i)?.limits ?? this.#ownLimits
    if (isLate) queue.until = Math.max(queue.until, now + this.#spanOf(limits))
    // With gcra, each event that passes extends the time during which late events matter.
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
    // If daemons share the limit, the bucket may have room sooner. If not, the event waits in vain.
    if (inMs > leftMs && !this.#isShared) return false
    scope.later(Math.min(Math.max(0, inMs), leftMs, this.#askEveryMs))
    return true
  }

  /** Milliseconds until the bucket has room for event `i`. Infinity if it never has room. */
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

/** Maximum number of queues. If buckets share a queue, their events wait together, but are not lost. */
const MOST_QUEUES = 65_536
/** How often to forget queues of buckets that have caught up, in milliseconds. */
const FORGET_MS = 1000

/** The events that wait for room in a bucket, or have taken room from later events. */
export interface Queue {
  events: number
  /** Number of these events that are backlog. */
  backlog: number
  /** Number of these events that are live, and would have passed on arrival if there had been no backlog. */
  displaced: number
  /** Until this time, late events (backlog, or events that have waited) take the room of other events. */
  until: number
}

export const queueOf = ({ hash }: EventKey): number => (hash ^ (hash >>> 16)) & (MOST_QUEUES - 1)

/** The queues of buckets that have not caught up, by number. */
export class BucketQueues {
  /** Seed of the key hashes. It is random, so that senders cannot choose keys that share a queue. */
  readonly seed = randomSeed()
  /** Number of waiting events that are backlog, or wait because of it. */
  behind = 0
  readonly #queues = new Map<number, Queue>()
  #forgetAt = Number.NEGATIVE_INFINITY

  get isEmpty(): boolean {
    return this.#queues.size === 0
  }

  get(id: number, now: number): Queue | undefined {
    const queue = this.#queues.get(id)
    return queue && hasCaughtUp(queue, now) ? undefined : queue
  }

  open(id: number, now: number): Queue {
    let queue = this.get(id, now)
    if (!queue) this.#queues.set(id, (queue = { events: 0, backlog: 0, displaced: 0, until: Number.NEGATIVE_INFINITY }))
    return queue
  }

  join(queue: Queue, isBacklog: boolean, wouldPassAlone: boolean): void {
    if (isBacklog || wouldPassAlone) this.behind++
    queue.events++
    if (isBacklog) queue.backlog++
    if (wouldPassAlone) queue.displaced++
  }

  /** Call when an event no longer waits. Assumes that the displaced events of the queue leave last. */
  leave(queue: Queue, isBacklog: boolean): void {
    // Events that waited before a reload are unknown to the queue.
    if (queue.events === 0) return
    const before = queue.backlog + queue.displaced
    queue.events--
    if (isBacklog) queue.backlog = Math.max(0, queue.backlog - 1)
    queue.displaced = Math.min(queue.displaced, queue.events - queue.backlog)
    this.behind += queue.backlog + queue.displaced - before
  }

  sweep(now: number): void {
    if (now < this.#forgetAt) return
    this.#forgetAt = now + FORGET_MS
    for (const [id, queue] of this.#queues) if (hasCaughtUp(queue, now)) this.#queues.delete(id)
  }
}

const hasCaughtUp = ({ events, until }: Queue, now: number) => events === 0 && now >= until

/** Whether events of the bucket wait because of late events, or late events still take the room of other events. */
export const isBehind = ({ backlog, displaced, until }: Queue, now: number) => backlog + displaced > 0 || now < until

/**
 * Converts a limit to a gcra limit with the same rate and room for twice the events. The extra room is needed because a
 * daemon that catches up reads events in bursts, although an app wrote them steadily. Quotas are not converted. Limits
 * of bytes or costs are not converted either, because gcra passes an event of any cost.
 */
function tolerant(limit: Limit): Limit {
  const { mode, unit, burst = limit.limit - 1 } = limit
  if (mode === 'quota' || (mode !== 'gcra' && unit !== 'events')) return limit
  return { ...limit, mode: 'gcra', burst: burst + limit.limit }
}

const tolerantRule = (rule: Rule): Rule => ({ ...rule, limits: rule.limits.map(tolerant) })

/**
 * Decides on live events at their arrival times, as if no backlog had arrived. Uses separate windows, which are empty
 * at first. If an event passes here, the app of the event did not exceed the app's limit.
 */
export class WithoutBacklog {
  readonly #clock: Clock
  readonly #options: DeciderOptions
  /** The arrival of a batch is assumed to be at most this many milliseconds ago. */
  readonly #mostMs: number
  #before: unknown
  #decider: Decider | undefined
  #rules: readonly Rule[] | undefined
  #at = 0
  #wall = 0

  constructor(options: DeciderOptions, clock: Clock, mostMs: number, before: unknown) {
    // If max_keys leaves no room for the bucket of an event, the event passes here. At worst, it then waits.
    const limits = options.limits.map(tolerant)
    this.#options = {
      ...options,
      limits,
      exclude: undefined,
      onMaxKeys: 'pass',
      persists: false,
      maxCreditMs: undefined,
    }
    this.#clock = clock
    this.#mostMs = mostMs
    this.#rules = options.rules?.map(tolerantRule)
    this.#before = before
  }

  /** The windows, which are passed to a successor with the same options. */
  get windows(): unknown {
    return this.#decider?.limiter ?? this.#before
  }

  setRules(rules: readonly Rule[]): void {
    this.#rules = rules.map(tolerantRule)
    this.#decider?.setRules(this.#rules)
  }

  /** Begins a batch. Returns how long ago the batch arrived, in milliseconds. */
  begin(batch: EventBatch): number {
    const wall = this.#clock.wall()
    const agoMs = Math.min(Math.max(0, wall - batch.receivedAt), this.#mostMs)
    this.#at = this.#clock.now() - agoMs
    this.#wall = wall - agoMs
    this.#decider?.limiter.advance(this.#at)
    return agoMs
  }

  /** Whether event `i` of the batch is within its limits. */
  lets(batch: EventBatch, i: number): boolean {
    this.#decider ??= createClockDecider(
      { ...this.#options, rules: this.#rules },
      { now: () => this.#at, wall: () => this.#wall },
      this.#before,
    )
    return this.#decider.lets(batch, i)
  }

  clear(): void {
    this.#before = undefined
    this.#decider = undefined
  }
}

/** Limits of the work for one request. If a limit is exceeded, the answer is incomplete. */
const MOST_EVENTS = 200_000
const MOST_BUCKETS = 10_000
const SHOWN_BUCKETS = 100

export function waitingBuckets(
  options: ThrottleConfig,
  keyFields: readonly FieldReader[],
  events: Iterable<EventBatch>,
): WaitState {
  const key = new EventKey(keyFields)
  const found = new Map<string | null, { events: number; since: number }>()
  const why = new Set<string>()
  let left = MOST_EVENTS
  for (const batch of events) {
    if (left <= 0) break
    why.add(reasonFor(options, batch.isBacklog))
    for (let i = 0; i < batch.length && left > 0; i++, left--) {
      key.load(batch, i)
      const name = key.name()
      const bucket = found.get(name) ?? { events: 0, since: batch.receivedAt }
      if (bucket.events === 0 && found.size >= MOST_BUCKETS) continue
      bucket.events++
      bucket.since = Math.min(bucket.since, batch.receivedAt)
      found.set(name, bucket)
    }
  }
  const buckets = [...found].sort(([, a], [, b]) => b.events - a.events).slice(0, SHOWN_BUCKETS)
  return { options: [...why], buckets: buckets.map(([name, wait]) => shown(name, wait)) }
}

const shown = (key: string | null, { events, since }: { events: number; since: number }): BucketWait => ({
  key,
  events,
  since: new Date(since).toISOString(),
})

/** The option that makes an event wait. With `on_backlog: pace`, live events also wait behind backlog. */
function reasonFor(options: ThrottleConfig, isBacklog: boolean): string {
  const { live, backlog } = longestWaits(options)
  const isPaced = options.on_backlog === 'pace' && (isBacklog || live === 0)
  return isPaced
    ? `on_backlog: pace, for ${formatDuration(backlog)} at most`
    : `over_limit: wait, for ${formatDuration(live)} at most`
}
