import { Byte, byteAt } from './bytes'
import { closerAt, depth, enter, enterLine, leave, MOST_NESTED, OPEN_BYTES, openHead, skipJsonSpace } from './json-containers'
import { forgetHeads, isWorthLooking, OUTSIDE, rememberHead } from './json-heads'
import { passed, passFlat, passNested, setSlot } from './json-known'
import { escapedStringEnd, scalarEnd } from './json-scalars'
import { block, forgetBlock, marksBeyond, marksFrom } from './special-characters'

/**
 * In one strict pass over a line, checks that the line is a complete, valid JSON object, and finds the values of wanted
 * top-level names. Agrees with `scanObject` in lib/formats/json-scan.ts, which tests compare to JSON.parse.
 *
 * Written in AssemblyScript. Addresses are offsets in the kernel's memory. A control character must follow the line. It
 * stops every inner loop, so the loops do not check for the end. At least 16 more bytes of memory must follow the
 * control character.
 */

const NAME_SIZE: usize = 24
/** Results for a line. UNDECIDED is rare; the caller then scans the line in another way. */
const NO_OBJECT: u32 = 0
const OBJECT: u32 = 1
const UNDECIDED: u32 = 2

/** The first address that the caller may use. */
export const base: usize = __heap_base + OPEN_BYTES

/** The wanted names: how many, a bit for each length modulo 32, and their table. */
let wanted: u32 = 0
let lengths: u32 = 0
let names: usize = 0
/** A line without a line end is copied to this memory, because the scan writes a byte after the line. */
let copy: usize = 0
let copyBytes: usize = 0

/** Sets the memory for copies of lines without a line end. The memory has `bytes` bytes, and 64 more. */
export function setCopy(address: usize, bytes: usize): void {
  copy = address
  copyBytes = bytes
}

/**
 * Sets the names to look for. `table` has an entry of 24 bytes per name: the length (u32), the address (u32), the first
 * 8 bytes (u64; 0 beyond the end), and a mask (u64) that keeps as many bytes of a u64 as the name has.
 */
export function setNames(table: usize, count: u32, bits: u32): void {
  names = table
  wanted = count
  lengths = bits
  forgetHeads()
}

/** The `length` bytes at `p` are a name without escapes. Returns its slot, or -1 if the name is not wanted. */
function slotOf(p: usize, length: u32): i32 {
  const first = load<u64>(p)
  for (let slot: u32 = 0; slot < wanted; slot++) {
    const name = names + <usize>slot * NAME_SIZE
    if (load<u32>(name) != length || (first & load<u64>(name, 16)) != load<u64>(name, 8)) continue
    if (length <= 8 || memory.compare(p, <usize>load<u32>(name, 4), <usize>length) == 0) return slot
  }
  return -1
}

/**
 * Scans the line [p, end). If the result is OBJECT, `out` contains for each wanted name the start of its value, and the
 * end of its value shifted left by one. The lowest bit of the end is set for a string with escapes, or if the name
 * occurs twice. `shift` is added to both start and end.
 */
function scanLine(p: usize, end: usize, out: usize, shift: i32): u32 {
  p = skipJsonSpace(p, end)
  if (byteAt(p) != Byte.OPEN_OBJECT) return NO_OBJECT
  p++
  if (byteAt(p) != Byte.QUOTE) {
    const first = skipJsonSpace(p, end)
    if (byteAt(first) == Byte.CLOSE_OBJECT) return skipJsonSpace(first + 1, end) == end ? OBJECT : NO_OBJECT
  }
  let nests = enterLine()
  const bits = lengths
  const looks = isWorthLooking()
  let before = OUTSIDE
  let inObject = true
  // One bit for each special character of the current block from `p` on. If `p` is a quote in this block, the lowest
  // set bit is the bit of that quote.
  let marks: u64 = 0
  while (true) {
    // `p` is after a comma, or after the opening bracket of a container that is not empty.
    if (looks) {
      // In an array, only heads of strings and objects are remembered.
      if (inObject || byteAt(p) == Byte.QUOTE || byteAt(p) == Byte.OPEN_OBJECT) {
        p = nests ? passNested(p, end, before, out, shift) : passFlat(p, end, before, out, shift)
        if (!p) return OBJECT
        before = passed
        inObject = closerAt(depth) == Byte.CLOSE_OBJECT
        marks = marksFrom(p)
      }
    }
    const head = p
    if (byteAt(p) == Byte.SPACE) p++
    let slot: i32 = -1
    let hasEscapes = false
    if (inObject) {
      if (byteAt(p) != Byte.QUOTE) {
        p = skipJsonSpace(p, end)
        if (byteAt(p) != Byte.QUOTE) return NO_OBJECT
        marks = marksFrom(p)
      }
      const name = p + 1
      if (marks == 0) marks = marksFrom(p)
      marks &= marks - 1
      if (marks == 0) marks = marksBeyond()
      p = block + <usize>ctz(marks)
      marks &= marks - 1
      if (byteAt(p) != Byte.QUOTE) {
        p = escapedStringEnd(p)
        if (!p) return NO_OBJECT
        // The name has escapes. Only decoding shows whether it is wanted.
        if (wanted > 0 && depth == 0) return UNDECIDED
        hasEscapes = true
        marks = marksFrom(p + 1)
      } else if ((bits >> (<u32>(p - name) & 31)) & 1) slot = slotOf(name, <u32>(p - name))
      p++
      if (byteAt(p) != Byte.COLON) {
        p = skipJsonSpace(p, end)
        if (byteAt(p) != Byte.COLON) return NO_OBJECT
        marks = marksFrom(p)
      }
      p++
      if (byteAt(p) == Byte.SPACE) p++
    }
    let byte = byteAt(p)
    if (byte <= 0x20) {
      p = skipJsonSpace(p, end)
      byte = byteAt(p)
      marks = marksFrom(p)
    }
    const value = p
    if (looks && inObject) before = hasEscapes ? OUTSIDE : rememberHead(head, value, slot, before)
    if (depth > 0) slot = -1
    let special: u32 = 0
    if (byte == Byte.QUOTE) {
      if (marks == 0) marks = marksFrom(p)
      marks &= marks - 1
      if (marks == 0) marks = marksBeyond()
      p = block + <usize>ctz(marks)
      marks &= marks - 1
      if (byteAt(p) != Byte.QUOTE) {
        p = escapedStringEnd(p)
        if (!p) return NO_OBJECT
        special = 1
        marks = marksFrom(p + 1)
      }
      p++
    } else if (byte == Byte.OPEN_OBJECT || byte == Byte.OPEN_ARRAY) {
      // The code of an opening bracket is that of the closing bracket minus 2.
      const closer = byte + 2
      p = skipJsonSpace(p + 1, end)
      if (byteAt(p) != closer) {
        if (depth == MOST_NESTED) return UNDECIDED
        p = value + 1
        const at = slot >= 0 ? out + (<usize>slot << 3) : 0
        before = enter(closer, inObject ? before : openHead(), at, <i32>value + shift)
        inObject = byte == Byte.OPEN_OBJECT
        nests = true
        continue
      }
      p++
      marks = marksFrom(p)
    } else {
      p = scalarEnd(p)
      if (!p) return NO_OBJECT
    }
    if (slot >= 0) setSlot(out, slot, <i32>value + shift, <i32>p + shift, special)
    while (byteAt(p) != Byte.COMMA) {
      const behind = skipJsonSpace(p, end)
      if (behind != p) {
        p = behind
        marks = marksFrom(p)
        continue
      }
      if (byteAt(p) != closerAt(depth)) return NO_OBJECT
      p++
      if (depth == 0) return skipJsonSpace(p, end) == end ? OBJECT : NO_OBJECT
      before = leave(depth - 1, <i32>p + shift)
      inObject = closerAt(depth) == Byte.CLOSE_OBJECT
    }
    p++
  }
}

/** Like `scanLine`, after a byte order mark. */
@inline
function scanText(p: usize, end: usize, out: usize, shift: i32): u32 {
  const isMarked = byteAt(p) == 0xef && (load<u32>(p) & 0xffffff) == 0xbfbbef
  return scanLine(isMarked ? p + 3 : p, end, out, shift)
}

/** Like `scanText`, for a line of `length` bytes at `p` without a control character after it. */
function scanCopy(p: usize, length: usize, out: usize, shift: i32): u32 {
  if (length > copyBytes) return UNDECIDED
  memory.copy(copy, p, length)
  store<u8>(copy + length, 0)
  // The current block may be from the line that was in this memory before.
  forgetBlock()
  return scanText(copy, copy + length, out, shift + <i32>(p - copy))
}

/**
 * Scans `length` lines. Line i is [starts[i], ends[i]) minus `shift`. `starts` and `ends` contain i32, `flags` contains
 * u8. Sets `scanned` in the flags of each line, and `decoded` if the line is an object. Skips lines that have a flag of
 * `skipped`. Lines that have a flag of `ended` have a line end. `out` gets two i32 for each wanted name of each line;
 * both are 0 for a missing name. Clears `scanned` for undecided lines, and returns their number.
 */
export function scanLines(
  length: u32,
  starts: usize,
  ends: usize,
  flags: usize,
  out: usize,
  shift: i32,
  skipped: u32,
  ended: u32,
  scanned: u32,
  decoded: u32,
): u32 {
  const stride = <usize>wanted << 3
  let undecided: u32 = 0
  forgetBlock()
  memory.fill(out, 0, <usize>length * stride)
  for (let i: usize = 0; i < <usize>length; i++) {
    const flag = byteAt(flags + i)
    if (flag & skipped) {
      store<u8>(flags + i, <u8>(flag | scanned))
      continue
    }
    const start = <usize>(load<i32>(starts + (i << 2)) - shift)
    const end = <usize>(load<i32>(ends + (i << 2)) - shift)
    const isEnded = (flag & ended) != 0 && byteAt(end) < 0x20
    const result = isEnded
      ? scanText(start, end, out + i * stride, shift)
      : scanCopy(start, end - start, out + i * stride, shift)
    if (result == UNDECIDED) {
      undecided++
      memory.fill(out + i * stride, 0, stride)
      store<u8>(flags + i, <u8>(flag & ~scanned))
    } else store<u8>(flags + i, <u8>(flag | scanned | (result == OBJECT ? decoded : 0)))
  }
  return undecided
}
