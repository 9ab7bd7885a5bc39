import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import { LineSums } from '../../lib/kernel/line-sums.js'
import type { EventBatch } from './batch.js'
import { SentOffsets } from './sent-offsets.js'

/** Sizes in bytes of an id's parts: reading (an id of the input), place in the input, and checksum of the event. */
export const [READING, PLACE, SUM] = [8, 6, 4]
const BASE64 = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_')
const id = Buffer.alloc(READING + PLACE + SUM)
let readingOfId = ''

/** Random bytes for the next readings, because each call for some takes several microseconds. */
let random = Buffer.alloc(0)

/** Returns a random id for a new input, such as a file after a truncation: 16 hexadecimal digits. */
export function newReading(): string {
  if (random.length === 0) random = randomBytes(128 * READING)
  const reading = random.toString('hex', 0, READING)
  random = random.subarray(READING)
  return reading
}

/**
 * Returns the places of events from an input that has a name for each event, such as a journal cursor. `reading`: the
 * name of the input.
 */
export function namedPlaces(reading: string, names: readonly string[]): SentOffsets {
  const digest = (text: string, bytes: number) =>
    createHash('sha256')
      .update(text)
      .digest('hex')
      .slice(0, 2 * bytes)
  const places = Float64Array.from(names, name => Number.parseInt(digest(name, PLACE), 16))
  return new SentOffsets(0, { reading: digest(reading, READING), at: 0 }, places)
}

/**
 * Returns the id of event `i`, 24 characters. The id is unique. If the same bytes are read again from the same place,
 * the event gets the same id.
 */
export function eventId(batch: EventBatch, i: number): string {
  return eventIdBytes(batch, i).toString('base64url')
}

/** `sum`: the checksum of the event. */
export function appendEventId(batch: EventBatch, i: number, sum: number, to: GrowingBytes): void {
  eventIdBytes(batch, i, sum)
  to.reserve(id.length * 2)
  const { bytes } = to
  for (let p = 0; p < id.length; p += 3, to.length += 4) {
    const bits = (id[p]! << 16) | (id[p + 1]! << 8) | id[p + 2]!
    bytes[to.length] = BASE64[bits >> 18]!
    bytes[to.length + 1] = BASE64[(bits >> 12) & 63]!
    bytes[to.length + 2] = BASE64[(bits >> 6) & 63]!
    bytes[to.length + 3] = BASE64[bits & 63]!
  }
}

/** Returns the bytes of the id, valid until the next call. */
export function eventIdBytes(batch: EventBatch, i: number, sum = eventSum(batch, i)): Buffer {
  const { reading } = batch
  if (reading !== readingOfId) {
    id.fill(0, 0, READING)
    id.write(reading, 'hex')
    readingOfId = reading
  }
  id.writeUIntBE(batch.place(i), READING, PLACE)
  id.writeUInt32BE(sum, READING + PLACE)
  return id
}

/** Returns a checksum of event `i` as it is now. */
export function eventSum(batch: EventBatch, i: number): number {
  return crc32(batch.texts?.has(i) ? batch.texts.text(i) : batch.line(i))
}

let sums = new Uint32Array(1024)

/** Returns the checksums of all events, valid until the next call. */
export function eventSums(batch: EventBatch): Uint32Array {
  const { length, texts } = batch
  if (sums.length < length) sums = new Uint32Array(length * 2)
  const kernel = texts ? undefined : theKernel()?.part(LineSums)
  if (kernel) kernel.sum(batch, sums)
  else for (let i = 0; i < length; i++) sums[i] = eventSum(batch, i)
  return sums
}

let lastReading = ''
let ofReading = 0

/** Returns a number that grows with the place in the reading. Each reading's numbers start at a different value. */
export function eventNumber(batch: EventBatch, i: number): number {
  const { reading } = batch
  if (reading !== lastReading) {
    lastReading = reading
    ofReading = Number.parseInt(reading.slice(0, 10), 16) || 0
  }
  return ofReading + batch.place(i)
}
