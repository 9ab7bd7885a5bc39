import { BucketKey } from '../../../components/throttle/buckets/bucket-key.js'
import { bucketName } from '../../../components/throttle/buckets/bucket-name.js'
import { FIRST_NON_TEXT } from '../../../components/throttle/buckets/event-key.js'
import { type Key, KeyTable, randomSeed } from '../../../components/throttle/buckets/key-table.js'
import { DISCARD, isCounted, isLost, WAITS } from '../../../components/throttle/decisions.js'
import type { SeeDecisions } from '../../../components/throttle/keyed-processor.js'
import type { Level } from '../../../components/throttle/limit.js'
import type { EventTest } from '../../../core/condition/condition.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { resized } from '../../../lib/columns.js'
import type { Clock } from '../../../lib/time.js'
import { CountRing, MOST_AT_ONCE, ROW_BYTES } from './count-ring.js'

export const KEPT_MS = 600_000
/** Maximum number of keys with counts of their own. If there are more keys, the busiest keys get these counts. */
const MOST_KEYS = 1000
/** Assumed bytes of a key and its entries in all tables. Most keys are much shorter. */
const KEY_BYTES = 580
/**
 * Places for buckets, per key. With fewer places, more buckets would share a place, and keys would have to be read more
 * often.
 */
const PLACES_PER_KEY = 4
/** Keys use at most 1/KEYS_PART of the memory. */
const KEYS_PART = 4
/** An odd number near the golden ratio times 2 ** 32. Multiplying by it spreads similar numbers over all places. */
const GOLDEN = 0x9e3779b1
/**
 * In a busy second: about how many events of a batch are inspected. They are spread over the batch and represent it, so
 * that a batch of one key counts for this key alone. Only smaller batches are skipped in pauses.
 */
const LOOKED = 200
/** `reads`: maximum number of keys read per batch. Applies only if the throttle knows the buckets of the events. */
interface Pace {
  readonly pauseMs: number
  readonly reads: number
}
const EVERY_BATCH: Pace = { pauseMs: 0, reads: Number.POSITIVE_INFINITY }
const BUSY: Pace = { pauseMs: 50, reads: 80 }
/** Applies if a second has more than MANY * `busy` events, or a large backlog. */
const VERY_BUSY: Pace = { pauseMs: 100, reads: 10 }
const MANY = 10
/**
 * If more than this number of backlog events arrive in a second, the source is catching up and will send more events,
 * as fast as it can read.
 */
const LARGE_BACKLOG = 2000
/** How often to choose the keys with counts of their own, in milliseconds. */
const CHOICE_MS = 60_000
/** Lengths of the steps of time, in milliseconds. In place of the shortest step, each batch has its own time. */
const STEPS = [1, 100, 200, 1000] as const
const BUSY_STEP = 1

/** Numbers in place of a key: REST for keys without counts of their own, DEFAULT for events without a key. */
export const REST = 0
export const DEFAULT = 1
const FIRST = 2

export interface KeyCountsOptions {
  readonly bytes: number
  /** If more events than this come in a second, only some of them are counted, and the steps are longer. */
  readonly busy: number
  /** Returns how many events the throttle had decided on before the batch that `see` gets. */
  readonly decided: () => number
  readonly clock: Clock
  /** Returns how full a bucket is. See KeyedProcessor. */
  readonly level?: (key: Uint8Array | undefined, at: number) => Level | undefined
  /** Counts by these fields instead of the throttle's fields. */
  readonly key?: readonly FieldReader[]
  /** Excludes the events that pass this test, instead of the events that the throttle excludes. */
  readonly exclude?: EventTest
  /** Seeds the hashes of keys. Default: random. */
  readonly seed?: number
}

/** A point of the record at which the state of the throttle's buckets is known. */
export interface Start {
  /** Number of rows before this point, including dropped rows. */
  readonly row: number
  readonly at: number
  /** For each key, `since` and `used` of its bucket. Undefined: the throttle began, with empty buckets. */
  readonly levels?: Float64Array
}

export interface Counted {
  /** By the clock of the decisions, in milliseconds. */
  readonly from: number
  readonly stepMs: number
  /** One in this many events was counted. */
  readonly oneIn: number
  /** Whether some events are counted under REST. */
  readonly hasRest: boolean
  /** Whether the limit alone decided on all events. */
  readonly byLimit: boolean
  readonly keys: number
  readonly mostKeys: number
}

/**
 * Tracks a number that is usually 1. `until`: the last time at which the number was above 1. `most`: the maximum of the
 * number in the last ten minutes.
 */
interface Recent {
  until: number
  readonly most: number
}

function since({ until, most }: Recent, at: number, number: number): Recent {
  return { until: at, most: Math.max(number, until < at - KEPT_MS ? 1 : most) }
}

/**
 * Counts the events that reached and passed a throttle in the last ten minutes, by key and time. Memory is bounded. If
 * the counts do not fit, first the steps become longer, then the oldest counts are dropped.
 */
export class RecentKeyCounts {
  readonly #options: KeyCountsOptions
  readonly #ring: CountRing
  readonly #seed: number
  #bytes: number
  #fields: readonly FieldReader[] | undefined
  #key: BucketKey
  #table = new KeyTable()
  /** The names of keys whose bytes differ from their text, by key number. */
  readonly #names = new Map<number, string>()
  /** For each key: its number of events, where older events weigh less, and the time of its last events. */
  #weights = new Float64Array(0)
  #lastAt = new Float64Array(0)
  /**
   * A cache. For each place: the bucket that used the place last, and the key number of that bucket. Valid until
   * `#owner` changes.
   */
  #buckets = new Int32Array(0)
  #ids = new Uint16Array(0)
  /** Number of lower bits that are cut off from a hash to get the place. */
  #shift = 0
  #owner = 0
  /**
   * For each key without counts of its own: its hash and its approximate number of events. The index consists of the
   * upper bits of the product of hash and `#spread`.
   */
  #candidates = { hashes: new Int32Array(0), counts: new Float64Array(0) }
  #spread = GOLDEN
  /** Hashes of candidates. When a key with such a hash occurs again, it gets counts of its own. */
  readonly #wanted = new Set<number>()
  #choiceAt = Number.NEGATIVE_INFINITY
  /**
   * For the step that began at `#at` and is `#stepMs` long. `#offered`: number of events of each key. `#lost`: how many
   * of these events did not pass. `#counted`: the keys that have events.
   */
  #offered = new Float64Array(0)
  #lost = new Float64Array(0)
  readonly #counted: number[] = []
  #at = 0
  #stepMs = 1
  /**
   * In the current step: events inspected, events that they represent in their batches, and other events, such as those
   * of skipped batches.
   */
  #inspected = 0
  #represented = 0
  #others = 0
  /** Events decided after the last batch that was seen, and before the current second. */
  #decided: number
  #beforeSecond: number
  #secondAt: number
  #pace = EVERY_BATCH
  /** Whether the last batch was large. */
  #isLarge = false
  /** When counting began. */
  readonly #from: number
  /** The wall clock minus the clock of the decisions, as the throttle knows it. */
  offsetMs: number
  /** When the throttle began with its limits. */
  #began: Start
  #starts: Start[] = []
  /** When something else than the limit, such as a credit, last decided on events. */
  #otherUntil = Number.NEGATIVE_INFINITY
  #step = 0
  /**
   * `#coarse`: when steps were last longer than 1 ms, and how long they were. `#sampled`: when events were last
   * sampled, and how much. `#restUntil`: when counts were last added to REST.
   */
  #coarse: Recent = { until: Number.NEGATIVE_INFINITY, most: 1 }
  #sampled: Recent = { until: Number.NEGATIVE_INFINITY, most: 1 }
  #restUntil = Number.NEGATIVE_INFINITY
  /** For each minute, the newest first: the number of rows that steps of 1 ms would have needed at most. */
  readonly #fineRows: number[] = [0]

  constructor(options: KeyCountsOptions) {
    const { clock, bytes, decided } = options
    this.#options = options
    this.#bytes = bytes
    this.#seed = options.seed ?? randomSeed()
    this.#key = new BucketKey([], this.#seed)
    this.offsetMs = clock.wall() - clock.now()
    this.#from = this.#secondAt = clock.now()
    this.#began = { row: 0, at: Number.NEGATIVE_INFINITY }
    this.#decided = this.#beforeSecond = decided()
    this.#ring = new CountRing(this.#rows)
    this.#resize()
  }

  get #mostKeys(): number {
    return Math.max(1, Math.min(MOST_KEYS, Math.floor(this.#bytes / KEYS_PART / KEY_BYTES)))
  }

  get #rows(): number {
    return Math.max(16, Math.floor((this.#bytes - this.#mostKeys * KEY_BYTES) / ROW_BYTES))
  }

  #resize(): void {
    const size = this.#mostKeys + FIRST
    this.#weights = resized(this.#weights, size)
    this.#lastAt = resized(this.#lastAt, size)
    this.#offered = new Float64Array(size)
    this.#lost = new Float64Array(size)
    const bits = Math.ceil(Math.log2(size))
    this.#candidates = { hashes: new Int32Array(2 ** bits), counts: new Float64Array(2 ** bits) }
    const places = PLACES_PER_KEY * 2 ** bits
    this.#shift = 32 - Math.log2(places)
    this.#ids = new Uint16Array(places)
    this.#buckets = new Int32Array(places).fill(-1)
  }

  set bytes(bytes: number) {
    if (bytes === this.#bytes) return
    this.flush()
    this.#bytes = bytes
    const order = this.#byWeight()
    if (order.length > this.#mostKeys) this.#drop(new Set(order.slice(0, order.length - this.#mostKeys)))
    this.#resize()
    this.#ring.most = this.#rows
  }

  get used(): number {
    const table = this.#table.keyBytes + this.#table.capacity * 24
    return (
      this.#ring.used +
      table +
      this.#weights.length * 4 * 8 +
      this.#ids.length * 6 +
      this.#candidates.hashes.length * 12 +
      this.#starts.reduce((sum, { levels }) => sum + levels!.byteLength, 0)
    )
  }

  /** How long the caller may skip batches, in milliseconds. */
  get pauseMs(): number {
    return this.#isLarge ? 0 : this.#pace.pauseMs
  }

  /** Counts the decisions about a batch. Must be called for each batch, except during pauses of `pauseMs`. */
  readonly see: SeeDecisions = (batch, decisions, key, buckets, decider) => {
    const { clock, decided } = this.#options
    const fields = this.#options.key ?? key
    if (fields !== this.#fields) {
      this.#fields = fields
      this.#key = new BucketKey(fields, this.#seed)
    }
    const decidedAt = decider?.decidedByClockAt
    const now = decidedAt ?? clock.now()
    if (decidedAt === undefined) this.#otherUntil = now
    if (decider?.wall) this.offsetMs = decider.wall.offsetMs
    const before = decided()
    const { length } = batch
    if (this.#pace !== EVERY_BATCH) this.#others += before - this.#decided
    this.#pace = this.#paceAt(now, before, batch)
    this.#isLarge = length >= LOOKED
    const isBusy = this.#pace !== EVERY_BATCH
    const stepMs = STEPS[isBusy ? Math.max(BUSY_STEP, this.#step) : this.#step]!
    // If the step has become longer, the rounded time may be before `#at`.
    const at = Math.max(this.#at, stepMs > 1 ? now - (now % stepMs) : now)
    if (at !== this.#at || stepMs !== this.#stepMs) this.flush()
    this.#at = at
    this.#stepMs = stepMs
    const isChoice = now - this.#choiceAt >= CHOICE_MS
    if (isChoice) this.#choose(now)
    if (!isBusy) this.#others = 0
    this.#fineRows[0]! += Math.min(length, this.size)
    const stride = isBusy ? Math.ceil(length / LOOKED) : 1
    const known = this.#options.key ? undefined : buckets
    if (known && known.owner !== this.#owner) {
      this.#owner = known.owner
      this.#buckets.fill(-1)
    }
    const represented = this.#count(batch, decisions, known?.ids, stride, known ? this.#pace.reads : length)
    this.#represented += represented
    this.#decided = before + represented
    if (isChoice && !isBusy && decidedAt !== undefined) this.#noteLevels(now)
  }

  /** `before`: number of events decided before the batch. */
  #paceAt(now: number, before: number, { length, isBacklog }: EventBatch): Pace {
    const since = now - this.#secondAt
    const events = before - this.#beforeSecond
    const rate = since < 1000 ? events + length : Math.max((events * 1000) / since, length)
    const pace = isBacklog && rate > LARGE_BACKLOG ? VERY_BUSY : this.#paceOf(rate)
    if (since < 1000) return pace.pauseMs > this.#pace.pauseMs ? pace : this.#pace
    this.#secondAt = now
    this.#beforeSecond = before
    return pace
  }

  #paceOf(eventsPerSecond: number): Pace {
    const { busy } = this.#options
    if (eventsPerSecond <= busy) return EVERY_BATCH
    return eventsPerSecond > MANY * busy ? VERY_BUSY : BUSY
  }

  /**
   * Counts one event of each `stride`, but stops when `reads` keys have been read. `bucketOf`: the bucket of each event.
   * The bucket is unknown if its number is negative or `bucketOf` is undefined. Returns how many decisions the counts
   * represent.
   */
  #count(
    batch: EventBatch,
    decisions: Uint8Array,
    bucketOf: Int32Array | undefined,
    stride: number,
    reads: number,
  ): number {
    const { exclude } = this.#options
    const { length } = batch
    let inspected = 0
    // The middle of each stride, so that neither end of the batch counts more.
    for (let i = stride >> 1; i < length; i += stride) {
      const decision = decisions[i]!
      if (decision === WAITS) continue
      if (exclude ? !exclude(batch, i) : isCounted(decision)) {
        const bucket = bucketOf ? bucketOf[i]! : -1
        // Spreads bucket numbers. With rules, these numbers are multiples of a power of two.
        const place = Math.imul(bucket, GOLDEN) >>> this.#shift
        let id = this.#ids[place]!
        if (bucket < 0 || this.#buckets[place] !== bucket) {
          if (reads-- === 0) break
          id = this.#idOf(batch, i)
          if (bucket >= 0 && id !== REST) {
            this.#buckets[place] = bucket
            this.#ids[place] = id
          }
        }
        if (this.#offered[id] === 0) this.#counted.push(id)
        this.#offered[id]! += stride
        if (decision > DISCARD) this.#otherUntil = this.#at
        if (isLost(decision)) this.#lost[id]! += stride
      }
      inspected++
    }
    this.#inspected += inspected
    return inspected * stride
  }

  #idOf(batch: EventBatch, i: number): number {
    const key = this.#key
    if (!key.load(batch, i)) return DEFAULT
    const known = this.#table.find(key)
    if (known >= 0) return known + FIRST
    const hasRoom = this.#table.size < this.#mostKeys
    if (!hasRoom || (this.#wanted.size > 0 && !this.#wanted.delete(key.hash))) {
      this.#nominate(key)
      return REST
    }
    const id = this.#table.add(key) + FIRST
    if (key.bytes.getUint8(key.start) >= FIRST_NON_TEXT) this.#names.set(id, bucketName(key.text()))
    this.#weights[id] = 0
    return id
  }

  /** Counts a key as a candidate. At each place, the most frequent key tends to stay. */
  #nominate({ hash }: Key): void {
    const { hashes, counts } = this.#candidates
    const place = Math.imul(hash, this.#spread) >>> (Math.clz32(counts.length) + 1)
    if (hashes[place] === hash) counts[place]!++
    else if (--counts[place]! <= 0) {
      hashes[place] = hash
      counts[place] = 1
    }
  }

  /** Chooses the keys that get their own counts. Returns to short steps if the rows for short steps fit again. */
  #choose(now: number): void {
    this.flush()
    this.#choiceAt = now
    this.#wanted.clear()
    if (this.#table.size >= this.#mostKeys) this.#replaceLightest(now)
    this.#candidates.counts.fill(0)
    // Busy keys at the same place keep each other from becoming candidates. So a new spread moves the keys to other
    // places.
    this.#spread = Math.imul(this.#spread, GOLDEN)
    for (let id = 0; id < this.#weights.length; id++) this.#weights[id]! /= 2
    const rows = this.#fineRows.reduce((sum, n) => sum + n, 0)
    if (this.#step > 0 && rows < this.#rows / 2) this.#step = 0
    this.#fineRows.unshift(0)
    this.#fineRows.length = Math.min(this.#fineRows.length, KEPT_MS / CHOICE_MS)
  }

  #replaceLightest(now: number): void {
    const { hashes, counts } = this.#candidates
    const candidates = Array.from(counts.keys()).filter(place => counts[place]! > 0)
    candidates.sort((a, b) => counts[b]! - counts[a]!)
    const dropped = new Set<number>()
    for (const id of this.#byWeight()) {
      const next = candidates[dropped.size]
      const isUnused = this.#lastAt[id]! < now - KEPT_MS
      if (!isUnused && !(next !== undefined && counts[next]! > this.#weights[id]!)) break
      dropped.add(id)
      if (next !== undefined) this.#wanted.add(hashes[next]!)
    }
    if (dropped.size > 0) this.#drop(dropped)
  }

  /** The numbers of the keys that have counts of their own, the key with the lowest weight first. */
  #byWeight(): number[] {
    const order = Array.from({ length: this.#table.size }, (_, id) => id + FIRST)
    return order.sort((a, b) => this.#weights[a]! - this.#weights[b]!)
  }

  /** Adds the counts of these keys, also past counts, to REST. */
  #drop(dropped: ReadonlySet<number>): void {
    const to = new Uint16Array(this.#weights.length)
    to[DEFAULT] = DEFAULT
    const names = new Map(this.#names)
    this.#names.clear()
    this.#table.keep((old, next) => {
      const [from, id] = [old + FIRST, next + FIRST]
      if (dropped.has(from)) return false
      to[from] = id
      this.#weights[id] = this.#weights[from]!
      this.#lastAt[id] = this.#lastAt[from]!
      const name = names.get(from)
      if (name !== undefined) this.#names.set(id, name)
      return true
    })
    this.#ring.rename(to)
    this.#starts = []
    this.#buckets.fill(-1)
    this.#restUntil = this.#at
  }

  /** Moves the counts to the ring. Scales the counts of the inspected events up to all events. */
  flush(): void {
    this.#ring.dropBefore(this.#at - KEPT_MS)
    if (this.#inspected === 0) return
    const all = Math.max(this.#inspected, this.#represented + this.#others)
    const part = all / this.#represented
    if (all > this.#inspected) this.#sampled = since(this.#sampled, this.#at, Math.ceil(all / this.#inspected))
    if (this.#stepMs > 1) this.#coarse = since(this.#coarse, this.#at, this.#stepMs)
    for (const id of this.#counted) {
      const [offered, lost] = [this.#offered[id]!, this.#lost[id]!]
      this.#offered[id] = this.#lost[id] = 0
      this.#weights[id]! += offered
      this.#lastAt[id] = this.#at
      if (id === REST) this.#restUntil = this.#at
      this.#add(id, Math.round((offered - lost) * part), Math.round(lost * part))
    }
    this.#counted.length = 0
    this.#inspected = this.#represented = this.#others = 0
  }

  #add(id: number, passed: number, others: number): void {
    for (let offered = passed + others; offered > 0; offered -= MOST_AT_ONCE, passed -= MOST_AT_ONCE) {
      if (this.#ring.isFull) this.#makeRoom()
      const [some, ofThem] = [Math.min(offered, MOST_AT_ONCE), Math.max(0, Math.min(passed, MOST_AT_ONCE))]
      this.#ring.add(this.#at, id, some, ofThem)
    }
  }

  #makeRoom(): void {
    this.#ring.dropBefore(this.#at - KEPT_MS)
    while (this.#ring.isFull && this.#step < STEPS.length - 1) {
      this.#ring.merge(STEPS[++this.#step]!, this.#weights.length)
      this.#starts = []
      this.#began = { ...this.#began, row: Math.min(this.#began.row, this.#ring.dropped) }
      this.#coarse = since(this.#coarse, this.#at, STEPS[this.#step]!)
    }
    // Drops 1/64 of the rows in one step, so that dropping is rarely necessary.
    if (this.#ring.isFull) this.#ring.dropFirst(Math.max(1, this.#rows >> 6))
  }

  /** The throttle has begun with other limits, and with empty buckets. */
  begin(): void {
    this.#began = { row: this.#rowsUntilNow, at: this.#options.clock.now() }
    this.#starts = []
  }

  /** Call after a batch was counted: it has changed the levels. */
  #noteLevels(at: number): void {
    const { level } = this.#options
    if (!level) return
    const row = this.#rowsUntilNow
    const levels = new Float64Array(this.size * 2)
    for (let id = DEFAULT; id < this.size; id++) {
      const { since = at, used = 0 } = level(id === DEFAULT ? undefined : this.#table.bytesOf(id - FIRST), at) ?? {}
      levels.set([since, used], id * 2)
    }
    this.#starts = [...this.#starts.filter(({ row }) => row >= this.#ring.dropped), { row, at, levels }]
  }

  get #rowsUntilNow(): number {
    this.flush()
    return this.#ring.dropped + this.#ring.length
  }

  /** The earliest point at which a replay can begin that also needs the `leadMs` before. */
  start(leadMs: number): Start {
    const row = this.ring.dropped
    if (this.#began.row >= row) return this.#began
    const at = Math.max(this.counted().from, this.#began.at)
    const start = this.#starts.find(start => start.row >= row && start.at - leadMs >= at)
    // The levels of the first minutes may be missing, for example after steps became longer. Events count more.
    if (start && start.at - leadMs < at + 2 * CHOICE_MS) return start
    return { row, at, levels: new Float64Array(0) }
  }

  /** The rows, including the counts of the current step. */
  get ring(): CountRing {
    this.flush()
    this.#ring.dropBefore(this.#options.clock.now() - KEPT_MS)
    return this.#ring
  }

  get wallOffsetMs(): number {
    const { clock } = this.#options
    return clock.wall() - clock.now()
  }

  /** One more than the largest key number. */
  get size(): number {
    return this.#table.size + FIRST
  }

  /**
   * The key with this number; undefined for REST. A `key` of null stands for events without a key. `isName`: whether
   * `key` is from `#names`.
   */
  keyOf(id: number): { readonly key: string | null; readonly isName: boolean } | undefined {
    if (id === REST) return undefined
    if (id === DEFAULT) return { key: null, isName: false }
    const name = this.#names.get(id)
    return name === undefined ? { key: this.#table.key(id - FIRST), isName: false } : { key: name, isName: true }
  }

  counted(): Counted {
    this.flush()
    const now = this.#options.clock.now()
    const from = Math.max(this.#from, now - KEPT_MS, this.#ring.droppedUntil)
    return {
      from,
      stepMs: this.#coarse.until >= from ? this.#coarse.most : STEPS[this.#step]!,
      oneIn: this.#sampled.until >= from ? this.#sampled.most : 1,
      hasRest: this.#restUntil >= from,
      byLimit: this.#otherUntil < from,
      keys: this.#table.size,
      mostKeys: this.#mostKeys,
    }
  }
}
