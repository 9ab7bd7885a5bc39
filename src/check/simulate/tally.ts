import type { EventBatch } from '../../core/event/batch.js'
import type { BucketKey } from '../../throttle/bucket-key.js'
import { hashBytes, KeyTable } from '../../throttle/key-table.js'

/** Counts of a simulation by key and over time, in bounded memory. */

export const PASSED = 0
export const DISCARDED = 1
export const EXCLUDED = 2
export type Outcome = typeof PASSED | typeof DISCARDED | typeof EXCLUDED

export interface Counts {
  readonly events: number
  readonly passed: number
  readonly discarded: number
  readonly excluded: number
}

export interface KeyCounts extends Counts {
  /** Undefined: the default bucket. */
  readonly key: string | undefined
  /** Most events of the key in one window, not counting excluded ones. With a limit this high, none is discarded. */
  readonly busiest: number
  /** When that window opened. */
  readonly busiestAt: number
}

/** Numbers for each key, in one array: events by outcome, then the open window and the busiest one. */
const OPENED = 3
const DEMAND = 4
const BUSIEST = 5
const BUSIEST_AT = 6
const STRIDE = 7

const MOST_KEYS = 250_000
/** Longer keys, and keys that are not valid UTF-8, are shown up to this length. */
const SHOWN_LENGTH = 100

export const DEFAULT_BUCKET = 0
const OTHERS = 1

/** Counts by key. Ids: 0 is the default bucket, 1 all keys beyond the first 250,000, then follow the keys. */
export class KeyTally {
  readonly #windowMs: number
  readonly #aligned: boolean
  readonly #keys = new KeyTable()
  /** Texts of keys whose bytes differ from their text. */
  readonly #texts = new Map<number, string>()
  #columns = new Float64Array(STRIDE * 64)
  /** Whether there were more keys than fit. */
  overflowed = false

  constructor(windowMs: number, aligned: boolean) {
    this.#windowMs = windowMs
    this.#aligned = aligned
  }

  /** The id of the key of an event. */
  id(batch: EventBatch, i: number, key: BucketKey): number {
    if (!key.load(batch, i)) return DEFAULT_BUCKET
    const { bytes, start, end } = key
    const hash = hashBytes(bytes, start, end, 0)
    const known = this.#keys.find(bytes, start, end, hash)
    if (known >= 0) return known + 2
    if (this.#keys.size >= MOST_KEYS) {
      this.overflowed = true
      return OTHERS
    }
    const id = this.#keys.add(bytes, start, end, hash) + 2
    if (bytes.getUint8(start) >= 0xfe) this.#texts.set(id, shortened(key.text()))
    return id
  }

  add(id: number, outcome: Outcome, time: number): void {
    const at = id * STRIDE
    if (at >= this.#columns.length) this.#grow()
    const columns = this.#columns
    columns[at + outcome]!++
    if (outcome === EXCLUDED) return
    if (columns[at + DEMAND] === 0 || time - columns[at + OPENED]! >= this.#windowMs) {
      columns[at + OPENED] = this.#aligned ? Math.floor(time / this.#windowMs) * this.#windowMs : time
      columns[at + DEMAND] = 0
    }
    const demand = ++columns[at + DEMAND]!
    if (demand <= columns[at + BUSIEST]!) return
    columns[at + BUSIEST] = demand
    columns[at + BUSIEST_AT] = columns[at + OPENED]!
  }

  #grow(): void {
    const larger = new Float64Array(this.#columns.length * 2)
    larger.set(this.#columns)
    this.#columns = larger
  }

  /** Number of keys, not counting the default bucket. */
  get size(): number {
    return this.#keys.size
  }

  #counts(id: number): KeyCounts {
    const [passed, discarded, excluded] = this.#columns.subarray(id * STRIDE, id * STRIDE + 3) as unknown as [
      number,
      number,
      number,
    ]
    return {
      key: id === DEFAULT_BUCKET ? undefined : (this.#texts.get(id) ?? this.#keys.key(id - 2)),
      events: passed + discarded + excluded,
      passed,
      discarded,
      excluded,
      busiest: this.#columns[id * STRIDE + BUSIEST]!,
      busiestAt: this.#columns[id * STRIDE + BUSIEST_AT]!,
    }
  }

  /** The `most` keys with the most discarded events (then with the most events), and the sum of all others. */
  top(most: number): {
    readonly keys: readonly KeyCounts[]
    readonly others: (Counts & { readonly keys: number }) | undefined
  } {
    const ids: number[] = []
    const columns = this.#columns
    const events = (id: number) => columns[id * STRIDE]! + columns[id * STRIDE + 1]! + columns[id * STRIDE + 2]!
    for (let id = 0; id < this.#keys.size + 2; id++)
      if (id !== OTHERS && id * STRIDE < columns.length && events(id) > 0) ids.push(id)
    ids.sort(
      (a, b) => columns[b * STRIDE + DISCARDED]! - columns[a * STRIDE + DISCARDED]! || events(b) - events(a) || a - b,
    )
    const rest = ids.slice(most)
    const keys = rest.length
    if (this.overflowed) rest.push(OTHERS)
    const others = { keys, events: 0, passed: 0, discarded: 0, excluded: 0 }
    for (const id of rest) {
      others.events += events(id)
      others.passed += columns[id * STRIDE + PASSED]!
      others.discarded += columns[id * STRIDE + DISCARDED]!
      others.excluded += columns[id * STRIDE + EXCLUDED]!
    }
    return { keys: ids.slice(0, most).map(id => this.#counts(id)), others: rest.length > 0 ? others : undefined }
  }
}

function shortened(text: string): string {
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text
}

/** Number of bins. Their width adapts so that they cover the whole time range. */
const BINS = 240

/** Events by outcome over time. The bins get wider as the time range grows. */
export class TimeTally {
  /** Width of a bin in milliseconds, a power of two. */
  binMs = 1
  /** Number of the first bin, counted from the epoch. */
  #first = 0
  #counts: Float64Array[] = [PASSED, DISCARDED, EXCLUDED].map(() => new Float64Array(BINS))
  #low = Number.POSITIVE_INFINITY
  #high = Number.NEGATIVE_INFINITY

  add(time: number, outcome: Outcome): void {
    const bin = Math.floor(time / this.binMs) - this.#first
    if (bin >= 0 && bin < BINS && this.#low <= this.#high) {
      this.#counts[outcome]![bin]!++
      if (time < this.#low) this.#low = time
      else if (time > this.#high) this.#high = time
      return
    }
    this.#makeRoom(time)
    this.add(time, outcome)
  }

  #makeRoom(time: number): void {
    const [low, high] = [Math.min(this.#low, time), Math.max(this.#high, time)]
    const { binMs: oldMs } = this
    const old = this.#counts
    const from = this.#first
    while (Math.floor(high / this.binMs) - Math.floor(low / this.binMs) >= BINS) this.binMs *= 2
    this.#first = Math.floor(low / this.binMs)
    this.#counts = old.map(() => new Float64Array(BINS))
    for (const [outcome, counts] of old.entries()) {
      for (let i = 0; i < BINS; i++) {
        if (counts[i]! > 0)
          this.#counts[outcome]![Math.floor(((from + i) * oldMs) / this.binMs) - this.#first]! += counts[i]!
      }
    }
    this.#low = low
    this.#high = high
  }

  /** The earliest and the latest time; undefined if there was none. */
  get span(): { readonly from: number; readonly to: number } | undefined {
    return this.#low <= this.#high ? { from: this.#low, to: this.#high } : undefined
  }

  /** The bins from the first used one to the last used one. */
  bins(): { readonly start: number; readonly counts: readonly number[] }[] {
    const { span, binMs } = this
    if (!span) return []
    const last = Math.floor(span.to / binMs) - this.#first
    return Array.from({ length: last + 1 }, (_, i) => ({
      start: (this.#first + i) * binMs,
      counts: this.#counts.map(counts => counts[i]!),
    }))
  }
}
