import { createHash } from 'node:crypto'
import type { EventBatch } from '../../../core/event/batch.js'
import { type FieldReader, MISSING, NULL_VALUE } from '../../../core/event/field-reader.js'
import { COMMA, QUOTE } from '../../../lib/formats/ascii.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { addEscaped } from '../../../lib/formats/json-string.js'
import type { Places } from './bucket-part.js'
import { dataViewOf, hashBytes, type Key, randomSeed } from './key-table.js'

/** Maximum bytes of a stored key. To limit memory, the digest of a longer key is stored instead. */
export const LONGEST_KEY = 256
/** A buffer with more bytes than this is released after the first key that does not need them. */
const KEPT_BYTES = 64 * 1024

const NULL_TEXT = Buffer.from('null')
const OPENING = 0x5b
const CLOSING = 0x5d

/**
 * The bytes that identify an event's bucket: the text of the bucket in UTF-8. With one field, the text is the field's
 * value. With several fields, the text is the JSON array of their values. Text that UTF-8 cannot represent, and the
 * digest of a long key, begin with a byte that does not occur in UTF-8. So different texts have different bytes.
 */
export class BucketKey implements Key {
  /** The bytes that contain the key, as a view that can read several bytes at a time. */
  bytes = dataViewOf(Buffer.alloc(0))
  start = 0
  end = 0
  hash = 0
  /** Where the bucket of the key was last found; undefined if that is not recorded. */
  places: Places | undefined
  place = 0
  /** False: all events belong to the default bucket. */
  readonly hasFields: boolean
  readonly #fields: readonly FieldReader[]
  /** The field, if there is exactly one. */
  readonly #field: FieldReader | undefined
  readonly #seed: number
  #list = new GrowingBytes()
  #loaded: Uint8Array | undefined

  constructor(fields: readonly FieldReader[], seed = randomSeed()) {
    this.#seed = seed
    this.hasFields = fields.length > 0
    this.#fields = fields
    this.#field = fields.length === 1 ? fields[0] : undefined
  }

  /** Makes `bytes` the current key. */
  setBytes(bytes: Uint8Array): void {
    this.#setAll(bytes)
    this.#finish()
  }

  /**
   * Loads the key of event `i`. If all fields are missing, null or empty, returns false, because the event belongs to
   * the default bucket.
   */
  load(batch: EventBatch, i: number): boolean {
    const field = this.#field
    if (field === undefined) return this.#loadList(batch, i)
    const kind = field.load(batch, i)
    if (kind === MISSING || kind === NULL_VALUE) return false
    if (field.plain) this.#set(field.bytes, field.start, field.end)
    else this.#setAll(textBytes(field.text()))
    return this.#finish()
  }

  /** The text of the bucket whose key was loaded last. Valid until the readers of the fields load another event. */
  text(): string {
    return this.#field ? this.#field.text() : this.#list.bytes.toString('utf8', 0, this.#list.length)
  }

  #loadList(batch: EventBatch, i: number): boolean {
    const last = this.#list
    if (last.bytes.length > KEPT_BYTES && last.length <= KEPT_BYTES) this.#list = new GrowingBytes()
    const list = this.#list
    list.clear()
    let found = false
    for (const field of this.#fields) {
      list.addByte(list.length === 0 ? OPENING : COMMA)
      if (this.#addText(list, field, field.load(batch, i))) found = true
    }
    if (!found) return false
    list.addByte(CLOSING)
    this.#set(list.bytes, 0, list.length)
    return this.#finish()
  }

  /** Adds the text of a field as a JSON string. If the field has no value, adds null and returns false. */
  #addText(list: GrowingBytes, field: FieldReader, kind: number): boolean {
    const plain = field.plain
    const text = plain ? '' : field.text()
    if (kind === MISSING || kind === NULL_VALUE || (plain ? field.start === field.end : text === '')) {
      list.add(NULL_TEXT, 0, NULL_TEXT.length)
      return false
    }
    if (!plain) list.addText(JSON.stringify(text))
    else {
      list.addByte(QUOTE)
      addEscaped(list, field.bytes, field.start, field.end)
      list.addByte(QUOTE)
    }
    return true
  }

  /** Replaces a long key by its digest, and computes the hash. Returns false if the key is empty. */
  #finish(): boolean {
    if (this.end - this.start > LONGEST_KEY) this.#setAll(digest(this.#loaded!.subarray(this.start, this.end)))
    this.hash = hashBytes(this.bytes, this.start, this.end, this.#seed)
    this.places = undefined
    return this.end > this.start
  }

  #setAll(bytes: Uint8Array): void {
    this.#set(bytes, 0, bytes.length)
  }

  #set(bytes: Uint8Array, start: number, end: number): void {
    // Most keys are in the same chunk as the previous key.
    if (bytes !== this.#loaded) {
      this.#loaded = bytes
      this.bytes = dataViewOf(bytes)
    }
    this.start = start
    this.end = end
  }
}

/** Turns the text of a bucket into the bytes of its key, in the format of `BucketKey`. */
export function keyBytes(text: string): Uint8Array {
  const bytes = textBytes(text)
  return bytes.length > LONGEST_KEY ? digest(bytes) : bytes
}

function textBytes(text: string): Buffer {
  return text.isWellFormed() ? Buffer.from(text) : marked(0xff, Buffer.from(text, 'utf16le'))
}

function digest(key: Uint8Array): Buffer {
  return marked(0xfe, createHash('sha256').update(key).digest())
}

function marked(mark: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([mark]), bytes])
}
