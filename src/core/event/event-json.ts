import { CLOSE_OBJECT, LF } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { skipSpace } from '../../lib/formats/json-scan.js'
import { behindMark } from '../codec.js'
import type { EventBatch } from './batch.js'
import { DECODED, INVALID } from './flags.js'

/**
 * The JSON of one event as bytes. If the event's line or changed text already is this JSON, its bytes are not copied.
 */
export class EventJson {
  bytes: Buffer = Buffer.alloc(0)
  /** The range of the object with its braces. */
  start = 0
  end = 0
  readonly #made = new GrowingBytes()
  #isMade = false

  /** Finds the JSON of event `i` or, if it does not exist yet, writes it. The result is valid until the next call. */
  read(batch: EventBatch, i: number): void {
    const { texts } = batch
    const { codec } = batch.origin
    this.#isMade = false
    if (texts?.has(i)) this.use(texts.bytes, texts.starts[i]!, texts.ends[i]!)
    else if (codec.form === 'object' && (batch.look(i) & (DECODED | INVALID)) === DECODED) {
      this.use(batch.chunk, behindMark(batch.chunk, batch.starts[i]!, batch.ends[i]!), batch.ends[i]!)
    } else {
      this.#isMade = true
      this.#made.clear()
      codec.writeEvent(batch, i, this.#made)
      // A scan needs a control character after the text.
      this.#made.addByte(LF)
      this.use(this.#made.bytes, 0, this.#made.length - 1)
    }
  }

  /** Copies the slots of event `i`, which was read last, to `to`. Returns false if the numbers of slots differ. */
  copySlots(batch: EventBatch, i: number, to: Int32Array): boolean {
    if (this.#isMade) return false
    if (batch.texts?.has(i)) return batch.texts.copySlots(i, to)
    const { slots, stride } = batch
    if (to.length !== stride) return false
    for (let n = 0, first = i * stride; n < stride; n++) to[n] = slots[first + n]!
    return true
  }

  /** Uses the object in bytes[start, end), without the white space around the object. */
  use(bytes: Buffer, start: number, end: number): void {
    this.bytes = bytes
    this.start = skipSpace(bytes, start, end)
    while (bytes[end - 1] !== CLOSE_OBJECT) end--
    this.end = end
  }
}
