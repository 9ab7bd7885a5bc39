import { crc32 } from 'node:zlib'

/**
 * The header before each record in a segment. Numbers are little-endian:
 *
 *     0 mark (4 bytes), 4 checksum of the header from 8 on, 8 checksum of the record, 12 bytes of the record,
 *    16 events, 20 bytes of their lines, 24 and 32 the place: events and bytes ever put in before (64-bit floats)
 *
 * Places reveal gaps: a record whose place lies ahead shows exactly how much is missing before it; one whose place lies
 * behind is a repetition.
 */

export const HEAD_SIZE = 40
/** These bytes do not occur in text: 0xf5 and 0xff are never part of UTF-8. */
export const MARK = Buffer.from([0xf5, 0x52, 0x45, 0xff])

/** A position in the history of a buffer: how many events and bytes were ever put in before it. */
export interface Place {
  readonly event: number
  readonly byte: number
}

export interface Head {
  readonly place: Place
  readonly events: number
  readonly bytes: number
  /** Size of the record after the header. */
  readonly size: number
  readonly checksum: number
}

/** The place after the record. */
export function placeBehind({ place, events, bytes }: Pick<Head, 'place' | 'events' | 'bytes'>): Place {
  return { event: place.event + events, byte: place.byte + bytes }
}

/** Writes the header into the first bytes of `framed`, which contains the record after them. */
export function seal(framed: Buffer, place: Place, events: number, bytes: number): void {
  const record = framed.subarray(HEAD_SIZE)
  MARK.copy(framed)
  framed.writeUInt32LE(crc32(record), 8)
  framed.writeUInt32LE(record.length, 12)
  framed.writeUInt32LE(events, 16)
  framed.writeUInt32LE(bytes, 20)
  framed.writeDoubleLE(place.event, 24)
  framed.writeDoubleLE(place.byte, 32)
  framed.writeUInt32LE(crc32(framed.subarray(8, HEAD_SIZE)), 4)
}

/** Reads the header at `at`; undefined if there is none or it is damaged. */
export function readHead(bytes: Buffer, at: number): Head | undefined {
  if (at + HEAD_SIZE > bytes.length || bytes.compare(MARK, 0, MARK.length, at, at + MARK.length) !== 0) return undefined
  if (bytes.readUInt32LE(at + 4) !== crc32(bytes.subarray(at + 8, at + HEAD_SIZE))) return undefined
  return {
    checksum: bytes.readUInt32LE(at + 8),
    size: bytes.readUInt32LE(at + 12),
    events: bytes.readUInt32LE(at + 16),
    bytes: bytes.readUInt32LE(at + 20),
    place: { event: bytes.readDoubleLE(at + 24), byte: bytes.readDoubleLE(at + 32) },
  }
}

/** Whether `record` is intact, according to its header. */
export function isWhole({ size, checksum }: Head, record: Buffer): boolean {
  return record.length === size && crc32(record) === checksum
}
