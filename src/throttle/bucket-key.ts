import { createHash } from 'node:crypto'
import type { FieldReader } from '../core/field-reader.js'
import { MISSING, NULL } from '../core/field-reader.js'

/** Keys above this many bytes are kept as their digest, so that they cannot fill the memory. */
const LONGEST_KEY = 256

/**
 * The bytes that name an event's bucket: the UTF-8 of the value's text. Two texts have the same bytes only when they
 * are the same: what UTF-8 cannot say, and digests of long keys, start with a byte that UTF-8 never has.
 */
export class BucketKey {
  bytes: Uint8Array = Buffer.alloc(0)
  start = 0
  end = 0

  /** False: the event has no value in the field (missing, null, the empty string) and belongs to the default bucket. */
  read(reader: FieldReader): boolean {
    if (reader.kind === MISSING || reader.kind === NULL) return false
    if (reader.plain) {
      this.bytes = reader.bytes
      this.start = reader.start
      this.end = reader.end
    } else {
      const text = reader.text()
      this.bytes = text.isWellFormed() ? Buffer.from(text) : marked(0xff, Buffer.from(text, 'utf16le'))
      this.start = 0
      this.end = this.bytes.length
    }
    if (this.end - this.start > LONGEST_KEY) {
      this.bytes = marked(0xfe, createHash('sha256').update(this.bytes.subarray(this.start, this.end)).digest())
      this.start = 0
      this.end = this.bytes.length
    }
    return this.end > this.start
  }
}

function marked(mark: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([mark]), bytes])
}
