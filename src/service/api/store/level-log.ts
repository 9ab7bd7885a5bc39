/**
 * The format of LevelDB's write-ahead log: records of one or more fragments, which do not cross the boundaries of 32
 * KiB blocks. A fragment has a header of 7 bytes: masked CRC-32C of type and payload (4), length of the payload (2),
 * type (1). The rest of a block without room for a header is zero.
 */

const BLOCK = 32 * 1024
const HEADER = 7
const [FULL, FIRST, MIDDLE, LAST] = [1, 2, 3, 4]
/** Each batch begins with a sequence number and a count. */
const SMALLEST_BATCH = 12

/** A range of bytes between valid records that contains no valid record. */
export interface Damage {
  readonly offset: number
  readonly bytes: number
  /**
   * Whether these are the first bytes of a record that was never written completely, and whose write was answered with
   * an error. Anything else was a complete record once.
   */
  readonly incomplete: boolean
}

export interface LogContents {
  readonly records: readonly Buffer[]
  /** Ranges before the last valid record. Bytes after it are an interrupted write, which LevelDB ignores. */
  readonly damages: readonly Damage[]
}

/**
 * Reads all valid records, wherever they begin: a writer that continues after an incomplete record loses track of the
 * block boundaries, and LevelDB's own recovery then silently drops valid records.
 */
export function readLog(log: Buffer): LogContents {
  const records: Buffer[] = []
  const damages: Damage[] = []
  /** The start of the bytes that belong to no valid record, and the end of the last valid record. */
  let unread = 0
  let validTo = 0
  let fragments: Buffer[] = []
  let at = 0
  const endRecord = (end: number) => {
    records.push(fragments.length === 1 ? fragments[0]! : Buffer.concat(fragments))
    fragments = []
    unread = validTo = end
  }
  while (at + HEADER <= log.length) {
    const padded = isValid(log, at) ? 0 : paddingAt(log, at)
    const start = padded === undefined ? nextRecord(log, at + 1) : at + padded
    if (start === undefined) break
    const type = log[start + 6]!
    const continues = fragments.length > 0 && padded !== undefined && (type === MIDDLE || type === LAST)
    const end = start + HEADER + log.readUInt16LE(start + 4)
    at = end
    if (!continues) {
      // The end of a record whose beginning is damaged belongs to that damage.
      if (type === MIDDLE || type === LAST) {
        fragments = []
        continue
      }
      const from = unread + (paddingAt(log, unread) ?? 0)
      if (from < start) damages.push({ offset: from, bytes: start - from, incomplete: isIncomplete(log, from, start) })
      fragments = []
      unread = start
    }
    fragments.push(log.subarray(start + HEADER, end))
    if (type === FULL || type === LAST) endRecord(end)
  }
  return { records, damages: damages.filter(({ offset }) => offset < validTo) }
}

export function writeLog(records: readonly Buffer[]): Buffer {
  const parts: Buffer[] = []
  let used = 0
  for (const record of records) {
    for (let from = 0, first = true; first || from < record.length; first = false) {
      if (BLOCK - used < HEADER) {
        parts.push(Buffer.alloc(BLOCK - used))
        used = 0
      }
      const payload = record.subarray(from, from + BLOCK - used - HEADER)
      from += payload.length
      const last = from === record.length
      parts.push(fragment(first ? (last ? FULL : FIRST) : last ? LAST : MIDDLE, payload))
      used += HEADER + payload.length
    }
  }
  return Buffer.concat(parts)
}

function fragment(type: number, payload: Buffer): Buffer {
  const bytes = Buffer.concat([Buffer.alloc(HEADER), payload])
  bytes.writeUInt16LE(payload.length, 4)
  bytes[6] = type
  bytes.writeUInt32LE(masked(crc32c(bytes, 6, bytes.length)), 0)
  return bytes
}

/** Whether a valid fragment begins here. */
function isValid(log: Buffer, at: number): boolean {
  if (at + HEADER > log.length) return false
  const type = log[at + 6]!
  const size = log.readUInt16LE(at + 4)
  if (type < FULL || type > LAST || at + HEADER + size > log.length) return false
  if (type === FULL && size < SMALLEST_BATCH) return false
  return log.readUInt32LE(at) === masked(crc32c(log, at + 6, at + HEADER + size))
}

/** The length of the zeros at the end of a block that are followed by a valid fragment; undefined if there are none. */
function paddingAt(log: Buffer, at: number): number | undefined {
  for (let length = 1; length < HEADER && log[at + length - 1] === 0; length++)
    if (isValid(log, at + length)) return length
  return undefined
}

/** The start of the next record after damage. */
function nextRecord(log: Buffer, from: number): number | undefined {
  for (let at = from; at + HEADER <= log.length; at++) {
    const type = log[at + 6]
    if ((type === FULL || type === FIRST) && isValid(log, at)) return at
  }
  return undefined
}

/**
 * Whether a range contains only beginnings of records: complete fragments, then a fragment that is longer than the
 * rest. Several failed writes in a row leave several of them.
 */
function isIncomplete(log: Buffer, from: number, end: number): boolean {
  let at = from
  while (at < end && isValid(log, at)) at += HEADER + log.readUInt16LE(at + 4)
  at += paddingAt(log, at) ?? 0
  if (at + HEADER > end || at + HEADER + log.readUInt16LE(at + 4) > end) return true
  const next = nextBeginning(log, at, end)
  return next !== undefined && isIncomplete(log, next, end)
}

/** Most failed writes assumed between two beginnings, in sequence numbers. */
const MOST_FAILED = 100_000n
const SEQUENCE = 8

/** Finds the beginning of a later record, which may be incomplete, by its sequence number. */
function nextBeginning(log: Buffer, from: number, end: number): number | undefined {
  if (from + HEADER + SEQUENCE > end) return undefined
  const sequence = log.readBigUInt64LE(from + HEADER)
  for (let at = from + HEADER + SEQUENCE; at + HEADER + SEQUENCE <= end; at++) {
    const type = log[at + 6]
    if (type !== FULL && type !== FIRST) continue
    const later = log.readBigUInt64LE(at + HEADER) - sequence
    if (later > 0n && later < MOST_FAILED) return at
  }
  return undefined
}

const MASK_DELTA = 0xa282ead8

function masked(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  return value
})

/** CRC-32C (Castagnoli) of a range. Node.js only has the CRC-32 of zlib. */
function crc32c(bytes: Buffer, from: number, to: number): number {
  let crc = 0xffffffff
  for (let i = from; i < to; i++) crc = TABLE[(crc ^ bytes[i]!) & 0xff]! ^ (crc >>> 8)
  return ~crc >>> 0
}
