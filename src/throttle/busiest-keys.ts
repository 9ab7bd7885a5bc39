import type { KeyCount, KeyCounts } from '../core/component.js'
import type { EventBatch } from '../core/event/batch.js'
import { type FieldReader, MISSING, NULL } from '../core/event/field-reader.js'
import type { Clock } from '../lib/time.js'
import { DISCARD, EXCLUDED, FULL, TOO_LATE } from './decider.js'

/** Events looked at in a second; of more a sample stands for all. */
const LOOKS_PER_SECOND = 20_000
/** Keys in memory: of more, those of which least came are forgotten. */
const MOST_KEYS = 4096
const KEPT_KEYS = 1024
const LONGEST_KEY = 256

interface Count {
  passed: number
  discarded: number
}

/** What a throttle decides, by key, while somebody looks. Its work and its memory are bounded, whatever comes. */
export class BusiestKeys {
  readonly #field: FieldReader | undefined
  readonly #clock: Clock
  #counts = new Map<string | undefined, Count>()
  #secondAt: number
  #looks = 0
  /** Each event that is looked at stands for so many. */
  #stands: number
  #sampled: boolean
  /** Events to pass over before the next is looked at. */
  #skip = 0
  #chance = 1

  /** `field`: what the key is read from; undefined: all events are of one bucket. `stands`: of the count before it. */
  constructor(field: FieldReader | undefined, clock: Clock, stands = 1) {
    this.#field = field
    this.#stands = stands
    this.#sampled = stands > 1
    this.#clock = clock
    this.#secondAt = clock.now()
  }

  /** How many events each that is looked at should stand for, as things are. */
  get stands(): number {
    return this.#looks < LOOKS_PER_SECOND / 4 ? Math.max(1, this.#stands / 2) : this.#stands
  }

  /** What was decided of each event of the batch, before any of them goes. */
  see(batch: EventBatch, decisions: Uint8Array): void {
    const now = this.#clock.now()
    if (now - this.#secondAt >= 1000) {
      this.#secondAt = now
      this.#stands = this.stands
      this.#looks = 0
    }
    let i = this.#skip
    for (; i < batch.length; i += this.#step()) {
      if (++this.#looks > LOOKS_PER_SECOND) {
        this.#looks = 0
        this.#stands *= 2
        this.#sampled = true
      }
      const decision = decisions[i]
      if (decision !== EXCLUDED)
        this.#count(batch, i, decision === DISCARD || decision === FULL || decision === TOO_LATE)
    }
    this.#skip = i - batch.length
  }

  /** How far it is to the next event: at random, so that keys that come in turns are all seen. */
  #step(): number {
    if (this.#stands === 1) return 1
    this.#chance = (Math.imul(this.#chance, 1_103_515_245) + 12_345) & 0x7fffffff
    return 1 + ((this.#chance >>> 8) % (this.#stands * 2 - 1))
  }

  #count(batch: EventBatch, i: number, discarded: boolean): void {
    const key = this.#keyOf(batch, i)
    let count = this.#counts.get(key)
    if (!count) {
      if (this.#counts.size >= MOST_KEYS) this.#forget()
      count = { passed: 0, discarded: 0 }
      this.#counts.set(key, count)
    }
    if (discarded) count.discarded += this.#stands
    else count.passed += this.#stands
  }

  #keyOf(batch: EventBatch, i: number): string | undefined {
    const field = this.#field
    if (!field) return undefined
    const kind = field.load(batch, i)
    if (kind === MISSING || kind === NULL) return undefined
    const text = field.text()
    // A part of a text keeps the whole of it in memory.
    return (text.length > LONGEST_KEY ? copyOf(text.slice(0, LONGEST_KEY)) : text) || undefined
  }

  #forget(): void {
    this.#sampled = true
    this.#counts = new Map(this.#sorted().slice(0, KEPT_KEYS))
  }

  #sorted(): [string | undefined, Count][] {
    return [...this.#counts].sort(([, a], [, b]) => b.passed + b.discarded - a.passed - a.discarded)
  }

  /** The `most` busiest so far. */
  busiest(most: number): KeyCounts {
    const keys = this.#sorted().slice(0, most)
    return {
      exact: !this.#sampled,
      keys: keys.map(([key, { passed, discarded }]): KeyCount => ({ key: key ?? null, passed, discarded })),
    }
  }
}

const copyOf = (text: string) => Buffer.from(text, 'utf16le').toString('utf16le')
