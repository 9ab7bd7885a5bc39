/** The log of LevelDB as LevelDB itself writes and reads it, with what it does wrong after a write that failed. */

const BLOCK = 32 * 1024
const HEADER = 7
const [FULL, FIRST, MIDDLE, LAST] = [1, 2, 3, 4] as const
const MASK_DELTA = 0xa282ead8

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  return value
})

/** Masked CRC-32C of a range. */
function checksum(bytes: Buffer, from: number, to: number): number {
  let crc = 0xffffffff
  for (let i = from; i < to; i++) crc = TABLE[(crc ^ bytes[i]!) & 0xff]! ^ (crc >>> 8)
  crc = ~crc >>> 0
  return (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0
}

/** The bytes of one record behind `offset` bytes of the log: in fragments that do not cross the borders of blocks. */
export function framed(record: Buffer, offset: number): Buffer {
  const parts: Buffer[] = []
  let left = BLOCK - (offset % BLOCK)
  for (let from = 0, isFirst = true; isFirst || from < record.length; isFirst = false) {
    if (left < HEADER) {
      parts.push(Buffer.alloc(left))
      left = BLOCK
    }
    const payload = record.subarray(from, from + left - HEADER)
    from += payload.length
    const isLast = from === record.length
    parts.push(fragment(isFirst ? (isLast ? FULL : FIRST) : isLast ? LAST : MIDDLE, payload))
    left -= HEADER + payload.length
  }
  return Buffer.concat(parts)
}

function fragment(type: number, payload: Buffer): Buffer {
  const bytes = Buffer.concat([Buffer.alloc(HEADER), payload])
  bytes.writeUInt16LE(payload.length, 4)
  bytes[6] = type
  bytes.writeUInt32LE(checksum(bytes, 6, bytes.length), 0)
  return bytes
}

/** What LevelDB finds in a log: behind damage it leaves out the rest of the block, and says nothing. */
export function recovered(log: Buffer): Buffer[] {
  const records: Buffer[] = []
  let open: Buffer[] = []
  for (let block = 0; block < log.length; block += BLOCK) {
    const end = Math.min(log.length, block + BLOCK)
    for (let at = block; at + HEADER <= end; ) {
      const type = log[at + 6]!
      const next = at + HEADER + log.readUInt16LE(at + 4)
      if (type < FULL || type > LAST || next > end || log.readUInt32LE(at) !== checksum(log, at + 6, next)) {
        open = []
        break
      }
      if (type === FULL || type === FIRST) open = []
      const continues = type === FULL || type === FIRST || open.length > 0
      if (continues) open.push(log.subarray(at + HEADER, next))
      if (continues && (type === FULL || type === LAST)) records.push(Buffer.concat(open.splice(0)))
      at = next
    }
  }
  return records
}
