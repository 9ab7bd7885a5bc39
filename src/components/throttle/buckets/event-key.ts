import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { addEscaped } from '../../../lib/formats/json-string.js'
import { BucketKey } from './bucket-key.js'
import { bucketName } from './bucket-name.js'
import { dataViewOf, type Key, randomSeed } from './key-table.js'

const QUOTE = 0x22
const UNDERSCORE = 0x5f
/**
 * UTF-8 text never begins with this byte or a higher byte. If a key begins with such a byte, the key is not the text of
 * its bucket.
 */
export const FIRST_NON_TEXT = 0xfe

/** The key of an event, which identifies the bucket of the event. To avoid allocation, one object serves all events. */
export class EventKey implements Key {
  /** Whether the event has a key. If not, the event belongs to the default bucket, and `start` equals `end`. */
  isThere = false
  /** The key is [start, end) of these bytes. */
  bytes: DataView = dataViewOf(Buffer.alloc(0))
  start = 0
  end = 0
  hash = 0
  readonly #key: BucketKey
  #buffer = Buffer.alloc(0)

  constructor(fields: readonly FieldReader[], seed = randomSeed()) {
    this.#key = new BucketKey(fields, seed)
  }

  load(batch: EventBatch, i: number): void {
    const key = this.#key
    this.isThere = key.hasFields && key.load(batch, i)
    this.bytes = key.bytes
    this.start = this.isThere ? key.start : 0
    this.end = this.isThere ? key.end : 0
    this.hash = this.isThere ? key.hash : 0
  }

  /** Whether the bytes of the key are the text of its bucket. */
  get isText(): boolean {
    return this.isThere && this.bytes.getUint8(this.start) < FIRST_NON_TEXT
  }

  /** The name of the bucket; null for the default bucket. */
  name(): string | null {
    return this.isThere ? bucketName(this.#key.text()) : null
  }

  writeName(to: GrowingBytes): void {
    if (!this.isText || this.bytes.getUint8(this.start) === UNDERSCORE) {
      to.addText(JSON.stringify(this.name()))
      return
    }
    const { buffer, byteOffset, byteLength } = this.bytes
    const known = this.#buffer
    if (known.buffer !== buffer || known.byteOffset !== byteOffset || known.length !== byteLength) {
      this.#buffer = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
    }
    to.addByte(QUOTE)
    addEscaped(to, this.#buffer, this.start, this.end)
    to.addByte(QUOTE)
  }
}
