import { crc32 } from 'node:zlib'
import { sizeOfAll } from '../../../lib/formats/parts.js'
import { type Amount, add } from '../counters.js'

/**
 * The header before each record in a segment. Numbers are little-endian:
 *
 *     0 mark (4 bytes), 4 checksum of the header from 8 on, 8 checksum of the record, 12 bytes of the record,
 *    16 events, 20 bytes of their lines, 24 and 32 the place: events and bytes ever put in before (64-bit floats)
 *
 * Places reveal gaps. If the place of a record is after the expected place, the events between the two places are
 * missing. If it is before the expected place, the record is a repetition.
 */

export const HEAD_SIZE = 40
/** Bytes that do not occur in text, because UTF-8 never contains 0xf5 or 0xff. */
export const RECORD_MARK = Buffer.from([0xf5, 0x52, 0x45, 0xff])

/** A place in the history of a buffer: how many events and bytes were ever put in before it. */
export interface LogPosition {
  readonly event: number
  readonly byte: number
}

export interface RecordHead {
  readonly place: LogPosition
  readonly events: number
  readonly bytes: number
  /** Size of the record without the header. */
  readonly size: number
  readonly checksum: number
}

export function placeAfter({ place, events, bytes }: Pick<RecordHead, 'place' | 'events' | 'bytes'>): LogPosition {
  return { event: place.event + events, byte: place.byte + bytes }
}

/** Counts the events from `from` to `to`, except for the settled ranges in between. */
export function unsettled(from: LogPosition, to: LogPosition, settled: readonly Amount[] = []): Amount {
  const amount = { events: to.event - from.event, bytes: to.byte - from.byte }
  for (const { events, bytes } of settled) add(amount, -events, -bytes)
  return amount
}

/**
 * Writes the header into the first bytes of `framed`. The record is already in `framed`, after those bytes. `rest`: the
 * other parts of the record.
 */
export function seal(
  framed: Buffer,
  place: LogPosition,
  events: number,
  bytes: number,
  rest: readonly Buffer[] = [],
): void {
  const parts = [framed.subarray(HEAD_SIZE), ...rest]
  RECORD_MARK.copy(framed)
  framed.writeUInt32LE(
    parts.reduce((sum, part) => crc32(part, sum), 0),
    8,
  )
  framed.writeUInt32LE(sizeOfAll(parts), 12)
  framed.writeUInt32LE(events, 16)
  framed.writeUInt32LE(bytes, 20)
  framed.writeDoubleLE(place.event, 24)
  framed.writeDoubleLE(place.byte, 32)
  framed.writeUInt32LE(crc32(framed.subarray(8, HEAD_SIZE)), 4)
}

/** The header at `at`; undefined if it is missing or damaged. */
export function readRecordHead(bytes: Buffer, at: number): RecordHead | undefined {
  if (
    at + HEAD_SIZE > bytes.length ||
    bytes.compare(RECORD_MARK, 0, RECORD_MARK.length, at, at + RECORD_MARK.length) !== 0
  )
    return undefined
  if (bytes.readUInt32LE(at + 4) !== crc32(bytes.subarray(at + 8, at + HEAD_SIZE))) return undefined
  return {
    checksum: bytes.readUInt32LE(at + 8),
    size: bytes.readUInt32LE(at + 12),
    events: bytes.readUInt32LE(at + 16),
    bytes: bytes.readUInt32LE(at + 20),
    place: { event: bytes.readDoubleLE(at + 24), byte: bytes.readDoubleLE(at + 32) },
  }
}

export function isWhole({ size, checksum }: RecordHead, record: Buffer): boolean {
  return record.length === size && crc32(record) === checksum
}

/** The segment files of a buffer. Bytes after `end` in a file are ignored. */

export interface Segment {
  readonly number: number
  readonly name: string
  /** Number of bytes that are safe on disk. */
  end: number
  /** The place of the segment's first record, if the record was already there when this run started. */
  first?: LogPosition | undefined
}

export const FORMAT = 1
/** The first bytes of every segment. */
export const TITLE = Buffer.from(`sluice buffer ${FORMAT}\n`)

/** The format version in a segment's title; undefined if the file is not a segment. */
export function segmentFormat(title: Buffer): number | undefined {
  const digit = /^sluice buffer (\d)\n$/.exec(title.toString('latin1'))?.[1]
  return digit === undefined ? undefined : Number(digit)
}

export function segmentName(number: number): string {
  return `${String(number).padStart(16, '0')}.segment`
}

/** The number in a segment's file name; undefined for another file. */
export function segmentNumber(name: string): number | undefined {
  const digits = /^(\d{16})\.segment$/.exec(name)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/** The segments in the order in which they were written. */
export class Segments {
  #list: Segment[]
  #highest: number

  constructor(list: readonly Segment[], highest: number) {
    this.#list = [...list]
    this.#highest = Math.max(highest, list.at(-1)?.number ?? 0)
  }

  get bytes(): number {
    let bytes = 0
    for (const { end } of this.#list) bytes += end
    return bytes
  }

  /** The highest segment number ever used. */
  get highest(): number {
    return this.#highest
  }

  get first(): Segment | undefined {
    return this.#list[0]
  }

  get last(): Segment | undefined {
    return this.#list.at(-1)
  }

  next(): Segment {
    const number = ++this.#highest
    return { number, name: segmentName(number), end: 0 }
  }

  add(segment: Segment): void {
    this.#list.push(segment)
  }

  /** The segment with this number or, if it does not exist, the next one. */
  from(number: number): Segment | undefined {
    return this.#list.find(segment => segment.number >= number)
  }

  /**
   * The first event of the next segments; Infinity if unknown. If this segment has records of that event or later
   * events, these records do not count. They come from a failed write that was cut off. New records then took the same
   * places, but a power failure undid the cut.
   */
  limitOf({ number }: Segment): number {
    const next = this.#list.find(segment => segment.number > number && segment.first)
    return next?.first?.event ?? Number.POSITIVE_INFINITY
  }

  remove(segment: Segment): void {
    this.#list = this.#list.filter(other => other !== segment)
  }

  get all(): readonly Segment[] {
    return this.#list
  }

  before(number: number): Segment[] {
    return this.#list.filter(segment => segment.number < number)
  }
}
