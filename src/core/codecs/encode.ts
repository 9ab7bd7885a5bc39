import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { type ByteSink, writeBytes } from '../../lib/formats/json-string.js'
import { exactJson } from '../../lib/formats/normal-json.js'
import type { Lines } from '../../lib/kernel/line-memory.js'
import { CONTINUES, LINE_END } from '../../lib/lines/line-splitter.js'
import { BYTE_ORDER_MARK, behindMark, type Codec, NEWLINE } from '../codec.js'
import { InternalError } from '../errors.js'
import type { EventBatch } from '../event/batch.js'
import { INVALID, MODIFIED } from '../event/flags.js'
import { type Encoded, SharedEncodings } from '../event/shared-encodings.js'
import { JSON_OBJECTS } from './json.js'

export type { Encoded }

/** Runs of unchanged events with at least this many bytes are sent as slices. Shorter runs are copied together. */
const SLICE_FROM = 16 * 1024
const COPY_SIZE = 64 * 1024

/** Buffers for copies, which are kept for reuse, and the maximum number of kept buffers. */
const spare: Buffer[] = []
const MOST_SPARE = 16

/** Collects byte ranges. Copies short ranges into shared buffers. */
class Parts implements Encoded, ByteSink {
  readonly parts: Buffer[] = []
  bytes = 0
  #copy: Buffer | undefined
  #copied = 0
  readonly #copies: Buffer[] = []

  add(source: Buffer, start: number, end: number): void {
    const size = end - start
    this.bytes += size
    if (size >= SLICE_FROM) {
      this.#seal()
      this.parts.push(source.subarray(start, end))
      return
    }
    if (this.#copy && this.#copied + size > this.#copy.length) this.#seal()
    this.#copy ??= this.#memory()
    this.#copied = writeBytes(source, start, end, this.#copy, this.#copied)
  }

  #memory(): Buffer {
    const memory = spare.pop() ?? Buffer.allocUnsafeSlow(COPY_SIZE)
    this.#copies.push(memory)
    return memory
  }

  #seal(): void {
    if (this.#copied > 0) this.parts.push(this.#copy!.subarray(0, this.#copied))
    this.#copy = undefined
    this.#copied = 0
  }

  finish(): Encoded {
    this.#seal()
    return this
  }

  release(): void {
    for (const memory of this.#copies.splice(0)) if (spare.length < MOST_SPARE) spare.push(memory)
  }
}

/** Encodes each event as the line that was read, with its line end. A modified event becomes a line of JSON. */
export class RawEncoder {
  /** `#isOpen`: whether the output ends with an unfinished line. `#open`: the origin of this line, if known. */
  #open: object | undefined
  #isOpen: boolean

  /** `open`: whether the previous output ends with an unfinished line. `source`: the origin of this line, if known. */
  constructor(open = false, source?: object) {
    this.#isOpen = open
    this.#open = source
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  copy(): RawEncoder {
    return new RawEncoder(this.#isOpen, this.#open)
  }

  encode(batches: readonly EventBatch[]): Encoded {
    const parts = new Parts()
    for (const batch of batches) this.#batch(batch, parts)
    return parts.finish()
  }

  #batch(batch: EventBatch, parts: Parts): void {
    const { chunk, starts, ends, flags, length, texts } = batch
    if (batch.isRun) {
      if (this.#isOpen) this.#close(batch, 0, parts)
      parts.add(chunk, starts[0]!, starts[0]! + batch.bytes)
      return
    }
    for (let i = 0; i < length; ) {
      if (this.#isOpen) this.#close(batch, i, parts)
      if (texts?.has(i)) {
        i = texts.addLines(i, length, parts)
        continue
      }
      const start = starts[i]!
      let end = start
      while (i < length && starts[i] === end) {
        const flag = flags[i]!
        if ((flag & MODIFIED) !== 0) break
        const lineEnd = flag & LINE_END
        end = ends[i++]! + lineEnd
        if (lineEnd === 0) {
          this.#isOpen = true
          this.#open = batch.origin
          break
        }
      }
      parts.add(chunk, start, end)
    }
  }

  /** Ends the unfinished line, unless event `i` continues this line. */
  #close({ flags, origin }: EventBatch, i: number, parts: Parts): void {
    const continued = flags[i]! & CONTINUES && (this.#open === undefined || this.#open === origin)
    if (!continued) parts.add(NEWLINE, 0, 1)
    this.#isOpen = false
  }
}

/** How a destination encodes events: with a codec, or as the lines that were read. */
export type Encoding = Codec | 'raw'

/**
 * Encodes every event as a line of `codec`, even if another codec decoded the event. Destinations with the same codec
 * share the bytes. Throws only InternalErrors.
 */
export function encodeLines(codec: Codec, batches: readonly EventBatch[]): Encoded {
  // A codec that counts what it leaves out counts for each destination. One with a file may have another content.
  if (codec.onLeftOut || codec.load) return linesOf(codec, batches)
  return SharedEncodings.of(batches, codec, () => linesOf(codec, batches))
}

function linesOf(codec: Codec, batches: readonly EventBatch[]): Encoded {
  const parts = new Parts()
  try {
    for (const batch of batches) codec.write(batch, parts)
  } catch (error) {
    throw new InternalError(error)
  }
  return parts.finish()
}

/** Encodes a request that does not continue earlier output. */
export function encodeAlone(encoding: Encoding, batches: readonly EventBatch[]): Encoded {
  return encoding === 'raw' ? new RawEncoder().encode(batches) : encodeLines(encoding, batches)
}

/** Returns event `i` encoded, without a line end, for request bodies that contain each event separately. */
export function eventText(encoding: Encoding, batch: EventBatch, i: number): string {
  const { bytes, start, end } = encodedEvent(encoding, batch, i)
  return bytes.toString('utf8', start, end)
}

/** Returns the size of a request in bytes, with `more` bytes added for each event. */
export function roomFor(request: readonly EventBatch[], more: number): number {
  return request.reduce((sum, { bytes, length }) => sum + bytes + more * length, 0)
}

/** The last event encoded by `encodedEvent`. */
const made = new GrowingBytes()

/** Returns the encoded bytes of event `i`, valid until the next call. */
export function encodedEvent(encoding: Encoding, batch: EventBatch, i: number): Bytes {
  const found = writtenAt(encoding, batch, i)
  if (found) return found
  if (isJson(encoding)) {
    made.clear()
    batch.origin.codec.writeEvent(batch, i, made)
    return { bytes: made.bytes, start: 0, end: made.length }
  }
  return whole(Buffer.from(encoding === 'raw' ? exactJson(batch.fields(i, true)) : encoding.encodeEvent(batch, i)))
}

export interface Bytes {
  readonly bytes: Buffer
  readonly start: number
  readonly end: number
}

const whole = (bytes: Buffer): Bytes => ({ bytes, start: 0, end: bytes.length })

const isJson = (encoding: Encoding) => encoding !== 'raw' && encoding.definition === JSON_OBJECTS.definition

/** Returns the encoded bytes of event `i` if they already exist, otherwise undefined. */
function writtenAt(encoding: Encoding, batch: EventBatch, i: number): Bytes | undefined {
  if (isInChunk(encoding, batch, i)) {
    const [start, end] = [batch.starts[i]!, batch.ends[i]!]
    return { bytes: batch.chunk, start: encoding === 'raw' ? start : behindMark(batch.chunk, start, end), end }
  }
  const { texts } = batch
  if (!texts?.has(i) || !(encoding === 'raw' || isJson(encoding))) return undefined
  return { bytes: texts.bytes, start: texts.starts[i]!, end: texts.ends[i]! }
}

/** Whether the encoded bytes of event `i` are its line as it was read, without a byte order mark to leave out. */
const isLine = (encoding: Encoding, batch: EventBatch, i: number) =>
  isInChunk(encoding, batch, i) && (encoding === 'raw' || batch.chunk[batch.starts[i]!] !== BYTE_ORDER_MARK)

function isInChunk(encoding: Encoding, batch: EventBatch, i: number): boolean {
  const isChanged = (batch.look(i) & (MODIFIED | INVALID)) !== 0
  return !isChanged && (encoding === 'raw' || (isJson(encoding) && batch.isObject(i)))
}

/**
 * Returns the encoded events from `first` on that follow each other in one buffer, up to `length`, which is at most
 * `until`. Undefined if the bytes of event `first` do not exist yet.
 */
export function writtenFrom(
  encoding: Encoding,
  batch: EventBatch,
  first: number,
  until = batch.length,
): Lines | undefined {
  const found = writtenAt(encoding, batch, first)
  if (!found) return undefined
  const { texts, flags, chunk } = batch
  const inChunk = found.bytes === chunk
  const { starts, ends } = inChunk ? batch : texts!
  if (starts[first] !== found.start) return undefined
  let length = first + 1
  for (; length < until && starts[length]! >= ends[length - 1]!; length++)
    if (!(inChunk ? isLine(encoding, batch, length) : texts!.has(length))) break
  return { chunk: found.bytes, starts, ends, flags, length }
}
