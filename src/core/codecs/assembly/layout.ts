import { byteAt, Byte } from '../../../lib/kernel/assembly/bytes'
import { putEscaped } from '../../../lib/kernel/assembly/escapes'
import { sumOf } from '../../../lib/kernel/assembly/line-sums'
import { copyBytes } from '../../../lib/kernel/assembly/numbers'

/**
 * Writes lines as records, with the same results as ../layout.ts. Line i is [starts[i], ends[i]) minus `shift`. The
 * parts of a record are a table of three u32: kind, a, b. `a` and `b` are columns of u32, or the range of a constant.
 */

const PART_BYTES: usize = 12
const CONSTANT: u32 = 0
const TEXT: u32 = 1
const NANOS: u32 = 2
const ID: u32 = 3
const ESCAPED: u32 = 5
const MEMBERS: u32 = 6

/** Bytes that are written beyond a part, or by a part of fixed size. */
const MARGIN: usize = 64
const MOST_ESCAPED: usize = 6
const SECOND_DIGITS: usize = 10
const NANO_DIGITS: usize = 9
/** Sizes of the parts of an id. */
const READING: usize = 8
const ID_BYTES: usize = 18

/** The reading of the lines (8 bytes), and after it the digits of base64. */
let ids: usize = 0
const id: usize = memory.data(32)

export function setIds(at: usize): void {
  ids = at
}

/** Writes a number with this many digits. Returns their end. */
@inline
function putDigits(to: usize, value: u32, digits: usize): usize {
  for (let at = to + digits; at > to; value /= 10) store<u8>(--at, <u8>(0x30 + (value % 10)))
  return to + digits
}

@inline
function digitOf(bits: u32): u8 {
  return load<u8>(ids + READING + <usize>(bits & 63))
}

@inline
function putId(to: usize, high: u32, low: u32, sum: u32): usize {
  store<u64>(id, load<u64>(ids))
  store<u16>(id, bswap<u16>(<u16>high), 8)
  store<u32>(id, bswap<u32>(low), 10)
  store<u32>(id, bswap<u32>(sum), 14)
  for (let p = id; p < id + ID_BYTES; p += 3, to += 4) {
    const bits = bswap<u32>(load<u32>(p)) >> 8
    store<u8>(to, digitOf(bits >> 18))
    store<u8>(to, digitOf(bits >> 12), 1)
    store<u8>(to, digitOf(bits >> 6), 2)
    store<u8>(to, digitOf(bits), 3)
  }
  return to
}

@inline
function skipSpace(p: usize, end: usize): usize {
  for (; p < end; p++) {
    const byte = byteAt(p)
    if (byte != 0x20 && byte != 0x09 && byte != 0x0d && byte != 0x0a) break
  }
  return p
}

/** Writes as many records as fit before `toEnd`. Returns their number, and stores their end at `endAt`. */
export function writeLayout(
  length: u32,
  starts: usize,
  ends: usize,
  shift: i32,
  parts: usize,
  partCount: u32,
  to: usize,
  toEnd: usize,
  endAt: usize,
): u32 {
  const partsEnd = parts + <usize>partCount * PART_BYTES
  for (let i: u32 = 0; i < length; i++) {
    const at = <usize>i << 2
    const start = <usize>(load<i32>(starts + at) - shift)
    const end = <usize>(load<i32>(ends + at) - shift)
    store<u32>(endAt, <u32>to)
    for (let part = parts; part < partsEnd; part += PART_BYTES) {
      const kind = load<u32>(part)
      let a = <usize>load<u32>(part, 4)
      let b = <usize>load<u32>(part, 8)
      if (kind >= TEXT && kind <= ID) {
        a = <usize>load<u32>(a + at)
        b = <usize>load<u32>(b + at)
        if (to + MARGIN > toEnd) return i
        if (kind == NANOS) {
          to = putDigits(putDigits(to, <u32>a, SECOND_DIGITS), <u32>b, NANO_DIGITS)
          continue
        }
        if (kind == ID) {
          to = putId(to, <u32>a, <u32>b, sumOf(start, end))
          continue
        }
      } else if (kind != CONSTANT) {
        a = start
        b = end
        if (kind == ESCAPED) {
          if (to + (b - a) * MOST_ESCAPED + MARGIN > toEnd) return i
          to = putEscaped(a, b, to)
          continue
        }
        if (kind == MEMBERS) {
          a = skipSpace(skipSpace(a, b) + 1, b)
          if (byteAt(a) != Byte.CLOSE_OBJECT && to + MARGIN <= toEnd) store<u8>(to++, Byte.COMMA)
        }
      }
      if (to + (b - a) + MARGIN > toEnd) return i
      copyBytes(a, b - a, to)
      to += b - a
    }
  }
  store<u32>(endAt, <u32>to)
  return length
}
