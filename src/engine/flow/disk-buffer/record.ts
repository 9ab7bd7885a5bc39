import type { Codec } from '../../../core/codec.js'
import { codecOf } from '../../../core/codecs/loaded.js'
import type { Ack } from '../../../core/event/ack.js'
import { EventBatch } from '../../../core/event/batch.js'
import { MODIFIED } from '../../../core/event/flags.js'
import type { Origin } from '../../../core/event/origin.js'
import { SentOffsets } from '../../../core/event/sent-offsets.js'
import type { WantedNames } from '../../../lib/formats/json-scan.js'
import { CHUNK_BYTES } from '../../../lib/lines/chunk-memory.js'
import { freeChunk, holdChunk, takeChunk } from '../../../lib/lines/chunk-pool.js'
import { LINE_END } from '../../../lib/lines/line-splitter.js'
import { type Amount, add } from '../counters.js'
import type { Outgoing } from './log.js'
import { HEAD_SIZE } from './segments.js'

/**
 * Encodes and decodes batches: each event's line, line end and flags, and its fields if they were modified. Numbers are
 * little-endian:
 *
 *     0 version (1 byte), 1 codec by number, 2 size of a length, 3 flags (1: backlog, 2: places),
 *     4 size of the origin, 8 event count, 12 size of the lines, 16 receivedAt (64-bit float)
 *    24 origin as JSON; for each event, the length of its line (2 or 4 bytes); for each event, its flags (1 byte);
 *       the lines with their ends; for each modified event, the length of its fields (4 bytes) and the fields as JSON;
 *       with places: the reading (8 bytes), and for each event its place in the reading (64-bit float)
 *
 * The line of a modified event is replaced by spaces. Nobody reads the line again, and it may contain data that was
 * removed or redacted.
 */

const VERSION = 1
const HEAD = 24
/** Records name these codecs by number. For other codecs, the record's origin has the name and the options. */
const NUMBERED: readonly string[] = ['text', 'json', 'syslog']
const NAMED = 255
/** Maximum number of cached origins. Batches of the same file share one. */
const MAX_ORIGINS = 1000
const NOTHING = Buffer.alloc(0)
const [BACKLOG, PLACES] = [1, 2]
const READING_SIZE = 8

export class BatchRecordError extends Error {
  readonly code = 'SLUICE_BATCH_RECORD'
}

/**
 * Encodes a batch into memory from `allocate`, after `headroom` free bytes. Does not change the batch. `keepsIds`:
 * after decoding, the events have the same ids as before.
 */
export function encodeBatch(
  batch: EventBatch,
  headroom = 0,
  allocate: (size: number) => Buffer = Buffer.allocUnsafeSlow,
  keepsIds = false,
): Buffer {
  const { length, bytes, chunk, starts, ends, flags } = batch
  const origin = originBytes(batch.origin)
  const changes = changedFields(batch)
  const width = longestLine(batch) < 65_536 ? 2 : 4
  const places = keepsIds ? placesOf(batch) : NOTHING
  const size = headroom + HEAD + origin.length + (width + 1) * length + bytes + changes.length + places.length
  const record = allocate(size)
  record.writeUInt32LE(VERSION | (numberOf(batch.origin.codec) << 8) | (width << 16), headroom)
  record[headroom + 3] = (batch.isBacklog ? BACKLOG : 0) | (keepsIds ? PLACES : 0)
  record.writeUInt32LE(origin.length, headroom + 4)
  record.writeUInt32LE(length, headroom + 8)
  record.writeUInt32LE(bytes, headroom + 12)
  record.writeDoubleLE(batch.receivedAt, headroom + 16)
  origin.copy(record, headroom + HEAD)
  let column = headroom + HEAD + origin.length
  let to = column + (width + 1) * length
  // Copies adjacent lines of the chunk at once.
  let from = 0
  let end = 0
  const lines = column + (width + 1) * length
  for (let i = 0; i < length; i++, column += width) {
    if (width === 2) record.writeUInt16LE(ends[i]! - starts[i]!, column)
    else record.writeUInt32LE(ends[i]! - starts[i]!, column)
    if (starts[i] !== end) {
      to += chunk.copy(record, to, from, end)
      from = starts[i]!
    }
    end = ends[i]! + (flags[i]! & LINE_END)
  }
  to += chunk.copy(record, to, from, end)
  if (changes.length > 0) blankModified(batch, record, lines)
  record.set(flags.subarray(0, length), column)
  to += changes.copy(record, to)
  to += places.copy(record, to)
  if (to !== size) throw new BatchRecordError('the sizes in a batch do not add up')
  return record.length === size ? record : record.subarray(0, size)
}

function placesOf(batch: EventBatch): Buffer {
  const bytes = Buffer.alloc(READING_SIZE + 8 * batch.length)
  bytes.write(batch.reading, 'hex')
  for (let i = 0; i < batch.length; i++) bytes.writeDoubleLE(batch.place(i), READING_SIZE + 8 * i)
  return bytes
}

/** `at`: where the lines begin in the record. */
function blankModified({ length, starts, ends, flags }: EventBatch, record: Buffer, at: number): void {
  for (let i = 0; i < length; i++) {
    const end = at + ends[i]! - starts[i]!
    if (flags[i]! & MODIFIED) record.fill(0x20, at, end)
    at = end + (flags[i]! & LINE_END)
  }
}

function longestLine({ length, starts, ends }: EventBatch): number {
  let longest = 0
  for (let i = 0; i < length; i++) longest = Math.max(longest, ends[i]! - starts[i]!)
  return longest
}

function numberOf({ name, options, framing }: Codec): number {
  // Lines of a codec with framing are JSON, and can be read without that codec.
  if (framing) return NUMBERED.indexOf('json')
  const number = NUMBERED.indexOf(name)
  return number < 0 || Object.keys(options).length > 0 ? NAMED : number
}

const knownOrigins = new WeakMap<Origin, Buffer>()

function originBytes(origin: Origin): Buffer {
  let bytes = knownOrigins.get(origin)
  if (!bytes) {
    const { source, path, peer, host, codec } = origin
    const named = numberOf(codec) === NAMED ? { codec } : {}
    bytes = Buffer.from(JSON.stringify({ source, path, peer, host, ...named }))
    knownOrigins.set(origin, bytes)
  }
  return bytes
}

function changedFields(batch: EventBatch): Buffer {
  const parts: Buffer[] = []
  for (let i = 0; i < batch.length; i++) {
    if ((batch.flags[i]! & MODIFIED) === 0) continue
    const fields = batch.texts!.text(i)
    const size = Buffer.alloc(4)
    size.writeUInt32LE(fields.length)
    parts.push(size, fields)
  }
  return parts.length === 0 ? NOTHING : Buffer.concat(parts)
}

/** Decodes records to batches. Batches with equal origins share one origin object. At most MAX_ORIGINS are cached. */
export class BatchDecoder {
  readonly #wanted: WantedNames
  readonly #origins = new Map<string, Origin>()

  constructor(wanted: WantedNames) {
    this.#wanted = wanted
  }

  /** Decodes a record, whose memory becomes the batch's chunk. Calls `release` when the record is no longer needed. */
  decode(record: Buffer, ack: Ack, release?: () => void): EventBatch {
    if (record.length < HEAD || record[0] !== VERSION) throw new BatchRecordError('a record of an unknown version')
    const number = record[1]!
    const width = record[2]!
    const originSize = record.readUInt32LE(4)
    const length = record.readUInt32LE(8)
    const bytes = record.readUInt32LE(12)
    const columns = HEAD + originSize
    const lines = columns + (width + 1) * length
    if (width !== 2 && width !== 4) throw new BatchRecordError('a record whose length fields have an unknown width')
    if (lines + bytes > record.length) throw new BatchRecordError('a record that is too short')
    const starts = new Int32Array(length)
    const ends = new Int32Array(length)
    const flags = new Uint8Array(length)
    flags.set(record.subarray(columns + width * length, lines))
    let at = lines
    for (let i = 0; i < length; i++) {
      starts[i] = at
      at += width === 2 ? record.readUInt16LE(columns + 2 * i) : record.readUInt32LE(columns + 4 * i)
      ends[i] = at
      at += flags[i]! & LINE_END
    }
    if (at !== lines + bytes) throw new BatchRecordError('a record whose line lengths do not add up to its size')
    const origin = this.#origin(record.toString('utf8', HEAD, columns), number)
    const frame = { chunk: record, length, starts, ends, flags, bytes, release }
    const batch = new EventBatch(frame, origin, record.readDoubleLE(16), ack, (record[3]! & BACKLOG) !== 0)
    const end = record.length - (record[3]! & PLACES ? READING_SIZE + 8 * length : 0)
    change(batch, record, at, end)
    if (end < record.length) {
      const reading = record.toString('hex', end, end + READING_SIZE)
      const places = Float64Array.from({ length }, (_, i) => record.readDoubleLE(end + READING_SIZE + 8 * i))
      batch.places = new SentOffsets(0, { reading, at: 0 }, places)
    }
    return batch
  }

  #origin(text: string, number: number): Origin {
    const key = number + text
    let origin = this.#origins.get(key)
    if (!origin) {
      const { codec: named, ...from } = parse(text) as Omit<Origin, 'codec' | 'wanted'> & { codec?: { codec: string } }
      const { codec: name, ...options } = number === NAMED && named ? named : { codec: NUMBERED[number] ?? '' }
      const codec = codecOf(name, options)
      if (!codec) throw new BatchRecordError(`a record of lines with an unknown codec: ${JSON.stringify(name)}`)
      origin = { ...from, codec, wanted: this.#wanted }
      if (this.#origins.size >= MAX_ORIGINS) this.#origins.clear()
      this.#origins.set(key, origin)
    }
    return origin
  }
}

/** Sets the JSON of modified events, stored in `record` from `at` to `end`. */
function change(batch: EventBatch, record: Buffer, at: number, end: number): void {
  for (let i = 0; i < batch.length; i++) {
    if ((batch.flags[i]! & MODIFIED) === 0) continue
    const start = at + 4
    if (start > end) throw new BatchRecordError('the changed fields of a record are missing')
    const size = record.readUInt32LE(at)
    at = start + size
    if (at > end) throw new BatchRecordError('the changed fields of a record are missing')
    batch.changeTo(i, record.subarray(start, at), end - at)
    if (!batch.texts!.scan(i)) throw new BatchRecordError('a record with damaged JSON')
  }
  if (at !== end) throw new BatchRecordError('a record with data after its events')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new BatchRecordError('a record with damaged JSON', { cause })
  }
}

/** A batch, or a part of one, and its record. */
export interface Arrival extends Outgoing {
  readonly batch: EventBatch
  /** Whether this is the first of the parts into which an arrived batch was divided. */
  readonly isFirst: boolean
}

/** A part that could not be encoded, and the error. The part must still be settled. */
export interface NotEncoded {
  readonly batch: EventBatch
  readonly error: unknown
}

type Part = Pick<Arrival, 'batch' | 'isFirst'>

/** Maximum bytes of lines in a record of several events. */
const RECORD_BYTES = 128 * 1024

/**
 * Divides arriving batches into parts, one for each record, in order. A record of several events is never larger than a
 * segment, so that a small buffer can fill up without exceeding its size by much. If data is damaged, whole records are
 * lost. Therefore a record has far fewer events than a batch from a source.
 */
export class RecordDivider {
  readonly #mostBytes: number
  readonly #keepsIds: boolean
  readonly #parts: Part[] = []
  /** The chunk for the next records. `#used`: how many of its bytes are in use. */
  #chunk: Buffer = NOTHING
  #used = 0

  /** `mostBytes`: the size of a segment. */
  constructor(mostBytes: number, keepsIds: boolean) {
    this.#mostBytes = mostBytes
    this.#keepsIds = keepsIds
  }

  /** Adds a non-empty batch. From now on, the encoding holds the batch's ack. */
  add(batch: EventBatch): void {
    this.#parts.push({ batch, isFirst: true })
  }

  /** Encodes the next part. The caller then holds the part's ack. Undefined if no part is left. */
  next(): Arrival | NotEncoded | undefined {
    for (let part = this.#parts.shift(); part; part = this.#parts.shift()) {
      const { batch } = part
      if (this.#divides(part, batch.bytes, Math.min(RECORD_BYTES, this.#mostBytes))) continue
      try {
        const arrival = this.#encoded(part)
        const { framed } = arrival
        // Columns and changed events may take much more space than the lines.
        if (!this.#divides(part, framed.length, this.#mostBytes)) return arrival
        arrival.release()
      } catch (error) {
        return { batch, error }
      }
    }
    return undefined
  }

  /** Divides a part of several events if its size `bytes` exceeds `most`. Returns whether the part was divided. */
  #divides({ batch, isFirst }: Part, bytes: number, most: number): boolean {
    const { length } = batch
    if (bytes <= most || length === 1) return false
    const count = Math.min(length, Math.ceil(bytes / most))
    const parts: Part[] = []
    for (let n = 0; n < count; n++) {
      const [from, to] = [n, n + 1].map(at => Math.floor((at * length) / count)) as [number, number]
      parts.push({ batch: batch.fork(from, to), isFirst: isFirst && n === 0 })
    }
    batch.ack.settle('delivered')
    this.#parts.unshift(...parts)
    return true
  }

  amount(): Amount {
    const amount = { events: 0, bytes: 0 }
    for (const { batch } of this.#parts) add(amount, batch.length, batch.bytes)
    return amount
  }

  #encoded({ batch, isFirst }: Part): Arrival {
    let release: (() => void) | undefined
    try {
      const allocate = (size: number) => {
        const memory = this.#memory(size)
        release = holdChunk(this.#chunk)
        return memory
      }
      const framed = encodeBatch(batch, HEAD_SIZE, allocate, this.#keepsIds)
      const releaseOnce = () => {
        release?.()
        release = undefined
      }
      return { batch, isFirst, framed, events: batch.length, bytes: batch.bytes, release: releaseOnce }
    } catch (error) {
      release?.()
      throw error
    } finally {
      if (this.#parts.length === 0) this.#forget()
    }
  }

  /** Memory for a record. Records of consecutive parts share chunks. */
  #memory(size: number): Buffer {
    if (this.#used + size > this.#chunk.length) {
      this.#forget()
      this.#chunk = takeChunk(this.#parts.length > 0 ? Math.max(size, CHUNK_BYTES) : size)
    }
    const from = this.#used
    this.#used += size
    return this.#chunk.subarray(from, this.#used)
  }

  #forget(): void {
    freeChunk(this.#chunk)
    this.#chunk = NOTHING
    this.#used = 0
  }
}
