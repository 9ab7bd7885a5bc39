import type { BucketWait, WaitState } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import type { BatchScope } from '../../../core/processor.js'
import type { Clock } from '../../../lib/time.js'
import { formatDuration } from '../../../lib/units.js'
import { EventKey } from '../../throttle/buckets/event-key.js'
import { randomSeed } from '../../throttle/buckets/key-table.js'
import { createClockDecider, type Decider, type DeciderOptions } from '../../throttle/decider.js'
import { DISCARD, EXCLUDED, PASS, WAITS } from '../../throttle/decisions.js'
import type { Limit } from '../../throttle/limit.js'
import type { Rule } from '../../throttle/rules/rules.js'
import { createWindows } from '../../throttle/windows/several.js'
import { WallTime } from '../../throttle/windows/wall-time.js'
import { longestWaits, type ThrottleOptions } from './options.js'

/** How long the rules of a limits file are relied on: other ones may give room sooner. */
const FILE_MS = 500
/** A live event that is decided so long after its arrival, while backlog waits, may have come behind it. */
const LATE_MS = 5

/** What Pacing passes to a successor with the same options: what late events have taken of the windows. */
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
export class Pacing {
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
  readonly #without: WithoutBacklog
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

  /** For options with which events may wait. */
  constructor(options: ThrottleOptions, of: Limits, compiled: DeciderOptions, clock: Clock, before?: LateState) {
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

  /** The rules, in the place of those before. */
  setRules(rules: readonly Rule[]): void {
    this.#without.setRules(rules)
  }

  get state(): LateState {
    return { queues: this.#queues, windows: this.#without.windows }
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
      const wouldPassAlone = isQueueBehind && this.#wouldPassAlone(batch, i, queue, hasWaited)
      const leftMs = (batch.isBacklog || wouldPassAlone ? this.#backlogMs : this.#liveMs) - scope.keptMs
      const waits = isOver && scope.mayWait && this.#waits(batch, i, bucket, leftMs, now, scope)
      if (this.#paces) {
        if (waits && !hasWaited) this.#queues.join(this.#queues.open(bucket, now), batch.isBacklog, wouldPassAlone)
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

  /** Whether an event of a bucket that is behind would have passed otherwise. Call once for each that arrives. */
  #wouldPassAlone(batch: EventBatch, i: number, queue: Queue, hasWaited: boolean): boolean {
    if (batch.isBacklog) return false
    return hasWaited ? queue.events - queue.backlog <= queue.displaced : this.#without.lets(batch, i)
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

/** Number of queues at most. Buckets with the same one wait when one of them has to, which loses nothing. */
const MOST_QUEUES = 65_536
/** How often queues of buckets that have caught up are forgotten. */
const FORGET_MS = 1000

/** What waits for a bucket, or has taken room there of events that came later. */
export interface Queue {
  events: number
  /** Those of them that are backlog. */
  backlog: number
  /** How many of the others would have passed when they came, if there had been no backlog. */
  displaced: number
  /** Until when events that were late, as backlog or after a wait, take the room of others. */
  until: number
}

export const queueOf = ({ hash }: EventKey): number => (hash ^ (hash >>> 16)) & (MOST_QUEUES - 1)

/** The buckets that are behind, by the numbers of their queues. */
export class BucketQueues {
  /** Of the hashes of keys, so that nobody can choose keys which share a queue. */
  readonly seed = randomSeed()
  /** Number of all events that wait as backlog, or because of it. */
  behind = 0
  readonly #queues = new Map<number, Queue>()
  #forgetAt = Number.NEGATIVE_INFINITY

  get isEmpty(): boolean {
    return this.#queues.size === 0
  }

  /** A queue; undefined: the bucket has caught up. */
  get(id: number, now: number): Queue | undefined {
    const queue = this.#queues.get(id)
    return queue && hasCaughtUp(queue, now) ? undefined : queue
  }

  /** A queue, which is a new one if there is none. */
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

  /** Call for an event that has waited. Those that are not displaced are taken to leave first. */
  leave(queue: Queue, isBacklog: boolean): void {
    // After a reload, nobody knows of what waited before.
    if (queue.events === 0) return
    const before = queue.backlog + queue.displaced
    queue.events--
    if (isBacklog) queue.backlog = Math.max(0, queue.backlog - 1)
    queue.displaced = Math.min(queue.displaced, queue.events - queue.backlog)
    this.behind += queue.backlog + queue.displaced - before
  }

  /** Forgets the queues of buckets that have caught up, now and then. */
  sweep(now: number): void {
    if (now < this.#forgetAt) return
    this.#forgetAt = now + FORGET_MS
    for (const [id, queue] of this.#queues) if (hasCaughtUp(queue, now)) this.#queues.delete(id)
  }
}

const hasCaughtUp = ({ events, until }: Queue, now: number) => events === 0 && now >= until

/** Whether events of the bucket wait because others were late, or find room taken by such ones. */
export const isBehind = ({ backlog, displaced, until }: Queue, now: number) => backlog + displaced > 0 || now < until

/**
 * A limit of events that lets through as much in the long run, and once as much again: a daemon that catches up reads in
 * bursts what an app writes steadily. Others stay as they are: with gcra an event of any cost passes.
 */
function tolerant(limit: Limit): Limit {
  const { mode, unit, burst = limit.limit - 1 } = limit
  if (mode === 'quota' || (mode !== 'gcra' && unit !== 'events')) return limit
  return { ...limit, mode: 'gcra', burst: burst + limit.limit }
}

const tolerantRule = (rule: Rule): Rule => ({ ...rule, limits: rule.limits.map(tolerant) })

/**
 * Decides on live events as if there were nothing else, at the times at which they arrived: in windows of its own, which
 * begin empty. An event that would have passed so is not over the limit because of its app.
 */
export class WithoutBacklog {
  readonly #clock: Clock
  readonly #options: DeciderOptions
  /** The oldest arrival that is believed, in milliseconds ago. */
  readonly #mostMs: number
  #before: unknown
  #decider: Decider | undefined
  #rules: readonly Rule[] | undefined
  #at = 0
  #wall = 0

  /** `before`: the windows of a predecessor. */
  constructor(options: DeciderOptions, clock: Clock, mostMs: number, before: unknown) {
    // What finds no room here has to wait at most.
    const limits = options.limits.map(tolerant)
    this.#options = { ...options, limits, exclude: undefined, onMaxKeys: 'pass', persists: false }
    this.#clock = clock
    this.#mostMs = mostMs
    this.#rules = options.rules?.map(tolerantRule)
    this.#before = before
  }

  /** The windows, for a successor with the same options. */
  get windows(): unknown {
    return this.#decider?.limiter ?? this.#before
  }

  setRules(rules: readonly Rule[]): void {
    this.#rules = rules.map(tolerantRule)
    this.#decider?.setRules(this.#rules)
  }

  /** Begins a batch. Returns for how long it was on its way. */
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

  /** Forgets everything. */
  clear(): void {
    this.#before = undefined
    this.#decider = undefined
  }
}

/** Bounds of the work for one question. What is beyond them is not in the answer. */
const MOST_EVENTS = 200_000
const MOST_BUCKETS = 10_000
const SHOWN_BUCKETS = 100

/** Counts waiting events by bucket, when somebody asks. */
export function waitingBuckets(
  options: ThrottleOptions,
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

/** The option that lets an event wait. What is live waits behind backlog, too. */
function reasonFor(options: ThrottleOptions, isBacklog: boolean): string {
  const { live, backlog } = longestWaits(options)
  const isPaced = options.on_backlog === 'pace' && (isBacklog || live === 0)
  return isPaced
    ? `on_backlog: pace, for ${formatDuration(backlog)} at most`
    : `over_limit: wait, for ${formatDuration(live)} at most`
}
