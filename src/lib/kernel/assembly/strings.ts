import { Byte, byteAt } from './bytes'
import { digitsFrom } from './json-scalars'
import { numberOf } from './known-keys'

/**
 * Reads the values of one name in many lines. Reads only integers, and strings without escapes. Line i has flags (u8),
 * and the slot of the name (two i32 at `slots` + i * `stride`). The scan of the line has written both. A value is read
 * only if the flags under `mask` equal `plain`. An address is a position minus `shift`.
 */

/** The result for a value that the caller must check. */
const UNKNOWN: u8 = 2
/** The first bytes of values that have no text. */
const OBJECT: u32 = 0x7b
const ARRAY: u32 = 0x5b
const NULL: u32 = 0x6e
const MINUS: u32 = 0x2d
const ZERO: u32 = 0x30
/** Integers with more digits are not read here, because a program might write them in another way. */
const MOST_DIGITS: u32 = 15
/** Constants instead of a number in `ids`, as in src/components/throttle/buckets/key-table.ts. */
const NONE: i32 = -1
const TO_FIND: i32 = -2
const ALONE: i32 = -3

@inline
function isText(p: usize, text: usize, length: usize): bool {
  // Compares from the end, where most values differ.
  while (length >= 8) {
    length -= 8
    if (load<u64>(p + length) != load<u64>(text + length)) return false
  }
  while (length > 0) {
    length--
    if (byteAt(p + length) != byteAt(text + length)) return false
  }
  return true
}

/**
 * For lines with a 1 in `among`: compares the value with a text. Changes the 1 to 0 if the value has no text or an
 * unwanted one, and to UNKNOWN if the caller must check. `same`: 1 if this text is wanted, 0 if all other texts are.
 * `isString`: only a string can equal the text. Returns the number of lines with UNKNOWN.
 */
export function narrowStrings(
  length: u32,
  flags: usize,
  slots: usize,
  stride: usize,
  shift: i32,
  mask: u32,
  plain: u32,
  text: usize,
  textLength: i32,
  same: u8,
  isString: bool,
  among: usize,
): u32 {
  let unknown: u32 = 0
  for (let i: usize = 0; i < <usize>length; i++, slots += stride) {
    if (byteAt(among + i) != 1) continue
    const start = load<i32>(slots)
    const end = load<i32>(slots, 4)
    let result: u8 = 0
    if ((byteAt(flags + i) & mask) != plain) result = UNKNOWN
    else if (start != 0) {
      const p = <usize>(start - shift)
      const first = byteAt(p)
      if (first == Byte.QUOTE) {
        result = 1 - same
        if ((end & 1) != 0) result = UNKNOWN
        else if ((end >> 1) - start - 2 == textLength) {
          if (isText(p + 1, text, <usize>textLength)) result = same
        }
      } else if (first != OBJECT && first != ARRAY && first != NULL) result = isString ? 1 - same : UNKNOWN
    }
    if (result == UNKNOWN) unknown++
    store<u8>(among + i, result)
  }
  return unknown
}

@inline
function mixed(hash: u32, bytes: u32): u32 {
  return ((hash ^ bytes) * 0x01000193) ^ (hash >> 15)
}

/** Like `hashBytes` of src/components/throttle/buckets/key-table.ts. */
@inline
function hashOf(p: usize, end: usize, seed: u32): u32 {
  let hash = seed
  for (; p + 8 <= end; p += 8) {
    const bytes = load<u64>(p)
    hash = mixed(hash, <u32>bytes & 0xffff)
    hash = mixed(hash, <u32>bytes >> 16)
    hash = mixed(hash, <u32>(bytes >> 32) & 0xffff)
    hash = mixed(hash, <u32>(bytes >> 48))
  }
  for (; p + 2 <= end; p += 2) hash = mixed(hash, <u32>load<u16>(p))
  if (p < end) hash = mixed(hash, byteAt(p) ^ 0x10000)
  hash = (hash ^ (hash >> 16)) * 0x7feb352d
  return hash ^ (hash >> 15)
}

/** Whether a JSON value is an integer as a program would write it, like `plainInteger` of json-numbers.ts. */
@inline
function isPlainInteger(p: usize, end: usize): bool {
  const first = p + <usize>(byteAt(p) == MINUS)
  const digits = digitsFrom(first)
  return <usize>digits == end - first && digits <= MOST_DIGITS && (first == p || byteAt(first) != ZERO)
}

/**
 * Writes the start, end and hash of the text of each value, as i32. `ids` gets for each line:
 * - the known number of the value, or TO_FIND,
 * - NONE if the line has a 1 in `skipped` (an address, or 0 to skip no lines),
 * - ALONE if the value is missing, empty, longer than `longest`, a string with escapes, or neither a string nor an
 *   integer.
 * Returns how many lines got TO_FIND or ALONE.
 */
export function hashStrings(
  length: u32,
  flags: usize,
  slots: usize,
  stride: usize,
  shift: i32,
  mask: u32,
  plain: u32,
  seed: u32,
  longest: u32,
  owner: u32,
  starts: usize,
  ends: usize,
  hashes: usize,
  skipped: usize,
  ids: usize,
): u32 {
  let left: u32 = 0
  for (let i: usize = 0; i < <usize>length; i++, slots += stride) {
    const start = load<i32>(slots)
    const end = load<i32>(slots, 4)
    const at = i << 2
    let id = ALONE
    if (skipped != 0 && byteAt(skipped + i) == 1) id = NONE
    else if ((((byteAt(flags + i) & mask) ^ plain) | (<u32>end & 1)) == 0) {
      const quote = <i32>(byteAt(<usize>(start - shift)) == Byte.QUOTE)
      const from = start + quote
      const to = (end >> 1) - quote
      const p = <usize>(from - shift)
      const size = <u32>(to - from)
      // A missing value has a size of 0 or less, so that the unsigned `size - 1` is a very large number.
      if (size - 1 < longest) {
        if (quote || isPlainInteger(p, p + <usize>size)) {
          const hash = hashOf(p, p + <usize>size, seed)
          store<i32>(starts + at, from)
          store<i32>(ends + at, to)
          store<i32>(hashes + at, <i32>hash)
          id = numberOf(owner, p, size, hash, TO_FIND)
        }
      }
    }
    if (id < NONE) left++
    store<i32>(ids + at, id)
  }
  return left
}
