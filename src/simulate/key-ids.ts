import type { BucketKey } from '../components/throttle/buckets/bucket-key.js'
import { KeyTable } from '../components/throttle/buckets/key-table.js'
import type { EventBatch } from '../core/event/batch.js'

/**
 * DEFAULT_BUCKET: the id of the bucket for events without a key. OTHERS: the id that all keys beyond `most` share.
 * Other keys have the ids from FIRST_KEY on.
 */
export const DEFAULT_BUCKET = 0
export const OTHERS = 1
const FIRST_KEY = 2

/** Very long keys, and keys that are not valid UTF-8, are cut to this many characters. */
const SHOWN_LENGTH = 100

/** Assigns ids to the bucket keys of events, for at most `most` keys. */
export class KeyIds {
  readonly #key: BucketKey
  readonly #most: number
  readonly #keys = new KeyTable()
  /** By id: the texts of the keys that `#keys` stores in another form, such as a digest. */
  readonly #texts = new Map<number, string>()
  /** Whether there were more than `most` keys. */
  overflowed = false

  constructor(key: BucketKey, most: number) {
    this.#key = key
    this.#most = most
  }

  id(batch: EventBatch, i: number): number {
    const key = this.#key
    if (!key.load(batch, i)) return DEFAULT_BUCKET
    const known = this.#keys.find(key)
    if (known >= 0) return known + FIRST_KEY
    if (this.#keys.size >= this.#most) {
      this.overflowed = true
      return OTHERS
    }
    const id = this.#keys.add(key) + FIRST_KEY
    if (key.bytes.getUint8(key.start) >= 0xfe) this.#texts.set(id, shortened(key.text()))
    return id
  }

  /** Number of keys, not counting the default bucket. */
  get size(): number {
    return this.#keys.size
  }

  /** Whether there is a key field, but no event has it. */
  get hasNone(): boolean {
    return this.#key.hasFields && this.#keys.size === 0
  }

  /** The key with this id, shortened if it is very long. Null for the default bucket. */
  text(id: number): string | null {
    return id === DEFAULT_BUCKET ? null : (this.#texts.get(id) ?? this.#keys.key(id - FIRST_KEY))
  }
}

function shortened(text: string): string {
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text
}
