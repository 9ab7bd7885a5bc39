import { Byte, byteAt } from './bytes'
import { closerAt, depth, enter, leave, MOST_NESTED, openHead } from './json-containers'
import {
  ARRAY,
  BEFORE_VALUE,
  beginsWith,
  goesOnWith,
  KIND,
  LONG,
  NEWER,
  OBJECT,
  OBJECTS,
  OLDER,
  HEAD_SLOT,
  STRING,
} from './json-heads'
import { ALSE, NULL, TRUE } from './json-scalars'

const POINT: u32 = 0x2e
const MINUS: u32 = 0x2d
const ZERO: u32 = 0x30

/** Constants for finding the ends of strings and numbers, 16 bytes each: 2, a space, a backslash, 0 and 9. */
const CONSTANTS: usize = memory.data(5 * 16, 16)
for (let i: usize = 0; i < 16; i++) {
  store<u8>(CONSTANTS + i, 2)
  store<u8>(CONSTANTS + i, 0x20, 16)
  store<u8>(CONSTANTS + i, 0x5c, 32)
  store<u8>(CONSTANTS + i, 0x30, 48)
  store<u8>(CONSTANTS + i, 9, 64)
}

/** For each byte: 1 if it completes an escape after a backslash. */
const ESCAPES: usize = memory.data(256)
store<u8>(ESCAPES + 0x22, 1)
store<u8>(ESCAPES + 0x2f, 1)
store<u8>(ESCAPES + 0x5c, 1)
store<u8>(ESCAPES + 0x62, 1)
store<u8>(ESCAPES + 0x66, 1)
store<u8>(ESCAPES + 0x6e, 1)
store<u8>(ESCAPES + 0x72, 1)
store<u8>(ESCAPES + 0x74, 1)

/** The entry of the last member that `pass` passed. If it passed no member, the entry before the first member. */
export let passed: usize = 0

/**
 * Returns a bit for each quote, backslash and control character in the 16 bytes at `p`. After XOR with 2, quotes and
 * control characters are at most 0x20 (a space), and all other characters are greater.
 */
@inline
function marksOf16(p: usize, twos: v128, spaces: v128, backslashes: v128): u64 {
  const bytes = v128.load(p)
  const turned = v128.xor(bytes, twos)
  const isSmall = i8x16.eq(turned, i8x16.min_u(turned, spaces))
  return <u64>(<u32>i8x16.bitmask(v128.or(isSmall, i8x16.eq(bytes, backslashes))))
}

@inline
function marksOf64(p: usize, twos: v128, spaces: v128, backslashes: v128): u64 {
  return (
    marksOf16(p, twos, spaces, backslashes) |
    (marksOf16(p + 16, twos, spaces, backslashes) << 16) |
    (marksOf16(p + 32, twos, spaces, backslashes) << 32) |
    (marksOf16(p + 48, twos, spaces, backslashes) << 48)
  )
}

/**
 * Passes members from `p` on, each after a brace or comma. In an earlier line, the head of each member must have
 * followed the head before it. The first head must have followed the head `before`. Each value must be a string, a
 * short number without an exponent, or a literal. With `nests`, values may also be objects and arrays up to
 * MOST_NESTED, and elements of arrays may be strings and objects. Puts the values of wanted names into `out`, like
 * `scanLine`. Returns 0 if the object and its line ended. Otherwise returns where it stopped, before a member or
 * element.
 *
 * `nests` is constant for each caller, because separate code for lines without containers is a tenth faster. Without
 * `nests`, the function stops at the heads of containers, and must not be called inside containers.
 *
 * The function compares with variables and makes no calls, so everything stays in registers. Only the marks, of 64
 * bytes at a time, decide where a value ends. The CPU can therefore begin the next member while it still checks the
 * current one.
 */
@inline
function pass(p: usize, end: usize, before: usize, out: usize, shift: i32, nests: bool): usize {
  const twos = v128.load(CONSTANTS)
  const spaces = v128.load(CONSTANTS, 16)
  const backslashes = v128.load(CONSTANTS, 32)
  const zeros = v128.load(CONSTANTS, 48)
  const nines = v128.load(CONSTANTS, 64)
  let block = p
  let marks = marksOf64(p, twos, spaces, backslashes)
  while (true) {
    passed = before
    let entry = <usize>load<u32>(before, NEWER)
    if (!beginsWith(p, entry)) {
      entry = <usize>load<u32>(before, OLDER)
      if (!beginsWith(p, entry)) return p
    }
    const kind = <u32>load<u8>(entry, KIND)
    if (kind & LONG) if (!goesOnWith(p, entry)) return p
    const value = p + <usize>load<u8>(entry, BEFORE_VALUE)
    let to = value + <usize>(kind & STRING)
    let special: u32 = 0
    if (nests && (kind & (OBJECT | ARRAY)) != 0) {
      const closer = kind & OBJECT ? Byte.CLOSE_OBJECT : Byte.CLOSE_ARRAY
      to++
      // An empty container ends here.
      if (byteAt(to) != closer) {
        if (byteAt(to) <= <u32>Byte.SPACE || depth == MOST_NESTED) return p
        const slot = depth == 0 ? load<i32>(entry, HEAD_SLOT) : -1
        const at = slot >= 0 ? out + (<usize>slot << 3) : 0
        before = enter(closer, entry == OBJECTS ? openHead() : entry, at, <i32>value + shift)
        p = to
        continue
      }
      to++
    } else {
      // Finds the first mark from `to` on (see `marksOf16`) that does not belong to an escape.
      while (!nests || (kind & STRING) != 0) {
        const at = to - block
        if (at < 64) {
          marks = (marks >> <u64>at) << <u64>at
          if (marks != 0) {
            to = block + <usize>ctz(marks)
            if (byteAt(to) != Byte.BACKSLASH) break
            if (load<u8>(ESCAPES + <usize>byteAt(to + 1)) == 0) return p
            special = 1
            to += 2
            continue
          }
        }
        block += 64
        marks = marksOf64(block, twos, spaces, backslashes)
        if (to < block) to = block
      }
      if (kind & STRING) {
        if (byteAt(to) != Byte.QUOTE) return p
        to++
      } else {
        // A number or literal has no marks, so this mark is the next opening quote or comes after the line.
        to--
        if (byteAt(to) == Byte.SPACE) to--
        // Braces and brackets may come between the value and the mark.
        if (nests) to = stopFrom(value)
        const first = value + <usize>(byteAt(value) == MINUS)
        const length = <u32>(to - first)
        if (length - 1 >= 16) return p
        const digits = i8x16.sub(v128.load(first), zeros)
        const others = ~i8x16.bitmask(i8x16.eq(digits, i8x16.min_u(digits, nines))) & ((1 << length) - 1)
        if (others == 0) {
          if (byteAt(first) == ZERO) if (length != 1) return p
        } else if ((others & 1) == 0) {
          // A point with digits before and after it is allowed.
          const point = <u32>ctz(others)
          if (others & (others - 1)) return p
          if (byteAt(first + <usize>point) != POINT) return p
          if (point + 1 == length) return p
          if (byteAt(first) == ZERO) if (point != 1) return p
        } else if (!isLiteral(value, to)) return p
      }
    }
    const next = byteAt(to)
    if (nests && next != Byte.COMMA && depth > 0) {
      // The containers around the value may end after it.
      let level = depth
      while (level > 0 && byteAt(to) == closerAt(level)) {
        level--
        to++
      }
      const byte = byteAt(to)
      if (byte != Byte.COMMA) if (level > 0 || byte != Byte.CLOSE_OBJECT || to + 1 != end) return p
      before = leave(level, <i32>to + shift)
      if (byte != Byte.COMMA) return 0
      p = to + 1
      continue
    }
    if (next != Byte.COMMA) {
      if (next != Byte.CLOSE_OBJECT) return p
      if (to + 1 != end) return p
    }
    const slot = load<i32>(entry, HEAD_SLOT)
    if (slot >= 0) if (!nests || depth == 0) setSlot(out, slot, <i32>value + shift, <i32>to + shift, special)
    if (next != Byte.COMMA) return 0
    before = entry
    p = to + 1
  }
  return 0
}

/** Passes members of the outermost object whose values are not containers. */
export function passFlat(p: usize, end: usize, before: usize, out: usize, shift: i32): usize {
  return pass(p, end, before, out, shift, false)
}

/** Passes members and elements, nested or not. */
export function passNested(p: usize, end: usize, before: usize, out: usize, shift: i32): usize {
  return pass(p, end, before, out, shift, true)
}

/** Puts the value [start, end) for the name of `slot` into `out`. */
@inline
export function setSlot(out: usize, slot: i32, start: i32, end: i32, special: u32): void {
  const at = out + (<usize>slot << 3)
  if (load<i32>(at) != 0) special = 1
  store<i32>(at, start)
  store<i32>(at, (end << 1) | special, 4)
}

/**
 * Searches 16 bytes from `p` on for a byte that may follow a number or literal. Returns the address of the first such
 * byte, or `p` + 16 if it is not found.
 */
@inline
function stopFrom(p: usize): usize {
  // Turns brackets into braces.
  const bytes = v128.or(v128.load(p), i8x16.splat(0x20))
  const stops = v128.or(i8x16.eq(bytes, i8x16.splat(0x2c)), i8x16.eq(bytes, i8x16.splat(0x7d)))
  return p + <usize>ctz(i8x16.bitmask(stops) | 0x10000)
}

@inline
function isLiteral(p: usize, end: usize): bool {
  const word = load<u32>(p)
  return end == p + 4 ? word == TRUE || word == NULL : end == p + 5 && byteAt(p) == 0x66 && load<u32>(p, 1) == ALSE
}
