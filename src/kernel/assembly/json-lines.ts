import { BACKSLASH, byteAt, isDigit, QUOTE, SPACE } from './bytes'
import { block, forgetBlock, marksBeyond, marksFrom, plainEnd } from './special-characters'

/**
 * Checks in one strict pass over the bytes of a line whether it is a complete, valid JSON object, and finds the values of
 * the wanted top-level names. It agrees with `scanObject` in lib/formats/json-scan.ts, which is tested against JSON.parse.
 *
 * Written in AssemblyScript. Addresses are offsets in the memory of the kernel. Invariant: a control character follows
 * the line, and at least 16 more bytes of memory. It stops every inner loop, so they need no check for the end.
 */

/** The name of a value, as it is looked for. */
const NAME_SIZE: usize = 24
/** The deepest nesting, in containers, that is checked here. */
const MOST_NESTED: u32 = 1024

const COMMA: u32 = 0x2c
const COLON: u32 = 0x3a
const OPEN_OBJECT: u32 = 0x7b
const CLOSE_OBJECT: u32 = 0x7d
const OPEN_ARRAY: u32 = 0x5b
const CLOSE_ARRAY: u32 = 0x5d

/** The results for a line. With UNDECIDED, which is rare, the caller scans it in another way. */
const NO_OBJECT: u32 = 0
const OBJECT: u32 = 1
const UNDECIDED: u32 = 2

/** The first address that is free for the caller. */
export const base: usize = __heap_base
/** For each open container below the outermost, 1 if it is an object. */
const nesting: usize = memory.data(<i32>MOST_NESTED)

/** The wanted names: their number, a bit for each of their lengths modulo 32, and where their table is. */
let wanted: u32 = 0
let lengths: u32 = 0
let names: usize = 0
/** Memory to which a line without a line end is copied, since nothing may be written to the byte behind it. */
let copy: usize = 0
let copyBytes: usize = 0
/** Whether the string that was scanned last has an escape. */
export let escaped: u32 = 0
/** Whether a line was too deep for `nesting`. */
let tooDeep: bool = false

/** Sets the memory to which lines without a line end are copied. It has 64 more bytes than `bytes`. */
export function setCopy(address: usize, bytes: usize): void {
  copy = address
  copyBytes = bytes
}

/**
 * Sets the names to look for. `table` has an entry of 24 bytes for each: the length (u32), the address (u32), the first
 * 8 bytes (u64; 0 beyond its end), and the mask that keeps as many bytes of a u64 (u64).
 */
export function setNames(table: usize, count: u32, bits: u32): void {
  names = table
  wanted = count
  lengths = bits
}

@inline
function isHex(byte: u32): bool {
  return byte - 0x30 < 10 || (byte | 0x20) - 0x61 < 6
}

/** The address of the closing quote of a string that has an escape at `p`, or 0. */
function escapedStringEnd(p: usize): usize {
  escaped = 1
  while (byteAt(p) == BACKSLASH) {
    const letter = byteAt(p + 1)
    if (letter == 0x75) {
      for (let i: usize = 2; i < 6; i++) if (!isHex(byteAt(p + i))) return 0
      p = plainEnd(p + 6)
    } else if (
      letter == QUOTE ||
      letter == BACKSLASH ||
      letter == 0x2f ||
      letter == 0x62 ||
      letter == 0x66 ||
      letter == 0x6e ||
      letter == 0x72 ||
      letter == 0x74
    )
      p = plainEnd(p + 2)
    else return 0
  }
  return byteAt(p) == QUOTE ? p : 0
}

/** The address of the closing quote of the string whose first byte is at `p`, or 0. */
@inline
export function stringEnd(p: usize): usize {
  const end = plainEnd(p)
  if (byteAt(end) == QUOTE) {
    escaped = 0
    return end
  }
  return escapedStringEnd(end)
}

/** The end of the number at `p`, or 0. */
function numberEnd(p: usize): usize {
  if (byteAt(p) == 0x2d) p++
  let digits = p
  if (byteAt(p) == 0x30) p++
  else {
    while (isDigit(byteAt(p))) p++
    if (p == digits) return 0
  }
  if (byteAt(p) == 0x2e) {
    digits = ++p
    while (isDigit(byteAt(p))) p++
    if (p == digits) return 0
  }
  if ((byteAt(p) | 0x20) == 0x65) {
    p++
    if (byteAt(p) == 0x2b || byteAt(p) == 0x2d) p++
    digits = p
    while (isDigit(byteAt(p))) p++
    if (p == digits) return 0
  }
  return p
}

/** The end of the string, number or literal at `p`, or 0. */
function scalarEnd(p: usize): usize {
  switch (byteAt(p)) {
    case QUOTE: {
      const end = stringEnd(p + 1)
      return end ? end + 1 : 0
    }
    case 0x74:
      return load<u32>(p) == 0x65757274 ? p + 4 : 0 // true
    case 0x66:
      return load<u32>(p + 1) == 0x65736c61 ? p + 5 : 0 // false
    case 0x6e:
      return load<u32>(p) == 0x6c6c756e ? p + 4 : 0 // null
    default:
      return numberEnd(p)
  }
}

/** Skips the white space of JSON, up to `end`, since a line end counts as white space. */
function skipSpace(p: usize, end: usize): usize {
  while (p < end) {
    const byte = byteAt(p)
    if (byte != 0x20 && byte != 0x09 && byte != 0x0d && byte != 0x0a) break
    p++
  }
  return p
}

/** The end of the object or array that opens at `p`, or 0. */
function containerEnd(p: usize, end: usize): usize {
  let inObject = byteAt(p) == OPEN_OBJECT
  let depth: u32 = 0
  let isFirst = true
  p++
  while (true) {
    p = skipSpace(p, end)
    if (!(isFirst && byteAt(p) == (inObject ? CLOSE_OBJECT : CLOSE_ARRAY))) {
      if (inObject) {
        if (byteAt(p) != QUOTE) return 0
        p = stringEnd(p + 1)
        if (!p) return 0
        p = skipSpace(p + 1, end)
        if (byteAt(p) != COLON) return 0
        p = skipSpace(p + 1, end)
      }
      const byte = byteAt(p)
      if (byte == OPEN_OBJECT || byte == OPEN_ARRAY) {
        if (depth == MOST_NESTED) {
          tooDeep = true
          return 0
        }
        store<u8>(nesting + depth, inObject ? 1 : 0)
        depth++
        inObject = byte == OPEN_OBJECT
        isFirst = true
        p++
        continue
      }
      p = scalarEnd(p)
      if (!p) return 0
      p = skipSpace(p, end)
    }
    // After a value or at the end of an empty container: close all containers that end here, or continue after a comma.
    while (byteAt(p) == (inObject ? CLOSE_OBJECT : CLOSE_ARRAY)) {
      p++
      if (depth == 0) return p
      depth--
      inObject = load<u8>(nesting + depth) == 1
      p = skipSpace(p, end)
    }
    if (byteAt(p) != COMMA) return 0
    p++
    isFirst = false
  }
}

/** The slot of the name of `length` bytes at `p`, which has no escapes, or -1 if it is not wanted. */
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
 * Scans the line [p, end). OBJECT: for each wanted name, `out` holds the start of its value, and its end shifted left by
 * one; the lowest bit is set if it is a string with escapes, or if the name occurs twice. Both are moved by `shift`.
 */
function scanLine(p: usize, end: usize, out: usize, shift: i32): u32 {
  p = skipSpace(p, end)
  if (byteAt(p) != OPEN_OBJECT) return NO_OBJECT
  p++
  if (byteAt(p) != QUOTE) {
    p = skipSpace(p, end)
    if (byteAt(p) == CLOSE_OBJECT) return skipSpace(p + 1, end) == end ? OBJECT : NO_OBJECT
  }
  // Those not yet passed, of which a quote at `p` is the first, unless it is in a later block.
  let marks = marksFrom(p)
  const bits = lengths
  while (true) {
    if (byteAt(p) != QUOTE) return NO_OBJECT
    const name = p + 1
    if (marks == 0) marks = marksFrom(p)
    marks &= marks - 1
    if (marks == 0) marks = marksBeyond()
    p = block + <usize>ctz(marks)
    marks &= marks - 1
    let slot: i32 = -1
    if (byteAt(p) != QUOTE) {
      p = escapedStringEnd(p)
      if (!p) return NO_OBJECT
      // Whether it is wanted shows only when it is decoded.
      if (wanted > 0) return UNDECIDED
      marks = marksFrom(p + 1)
    } else if ((bits >> (<u32>(p - name) & 31)) & 1) slot = slotOf(name, <u32>(p - name))
    p++
    if (byteAt(p) != COLON) {
      p = skipSpace(p, end)
      if (byteAt(p) != COLON) return NO_OBJECT
      marks = marksFrom(p)
    }
    let byte = byteAt(++p)
    if (byte == SPACE) byte = byteAt(++p)
    if (byte <= 0x20) {
      p = skipSpace(p, end)
      byte = byteAt(p)
      marks = marksFrom(p)
    }
    const value = p
    escaped = 0
    if (byte == QUOTE) {
      if (marks == 0) marks = marksFrom(p)
      marks &= marks - 1
      if (marks == 0) marks = marksBeyond()
      p = block + <usize>ctz(marks)
      marks &= marks - 1
      if (byteAt(p) != QUOTE) {
        p = escapedStringEnd(p)
        if (!p) return NO_OBJECT
        marks = marksFrom(p + 1)
      }
      p++
    } else if (byte == OPEN_OBJECT || byte == OPEN_ARRAY) {
      p = containerEnd(p, end)
      if (!p) return tooDeep ? UNDECIDED : NO_OBJECT
      marks = marksFrom(p)
    } else {
      p = scalarEnd(p)
      if (!p) return NO_OBJECT
    }
    if (slot >= 0) {
      const to = out + (<usize>slot << 3)
      const isSpecial = escaped || load<i32>(to) != 0
      store<i32>(to, <i32>value + shift)
      store<i32>(to, ((<i32>p + shift) << 1) | <i32>isSpecial, 4)
    }
    byte = byteAt(p)
    if (byte != COMMA) {
      p = skipSpace(p, end)
      byte = byteAt(p)
      if (byte == CLOSE_OBJECT) return skipSpace(p + 1, end) == end ? OBJECT : NO_OBJECT
      if (byte != COMMA) return NO_OBJECT
      marks = marksFrom(p)
    }
    p++
    if (byteAt(p) == SPACE) p++
    if (byteAt(p) != QUOTE) {
      p = skipSpace(p, end)
      marks = marksFrom(p)
    }
  }
}

/** As `scanLine`, behind a byte order mark. */
@inline
function scanText(p: usize, end: usize, out: usize, shift: i32): u32 {
  const isMarked = byteAt(p) == 0xef && (load<u32>(p) & 0xffffff) == 0xbfbbef
  return scanLine(isMarked ? p + 3 : p, end, out, shift)
}

/** As `scanText`, for a line of `length` bytes at `p` that no control character follows. */
function scanCopy(p: usize, length: usize, out: usize, shift: i32): u32 {
  if (length > copyBytes) return UNDECIDED
  memory.copy(copy, p, length)
  store<u8>(copy + length, 0)
  // What is known of this memory is about the line before.
  forgetBlock()
  return scanText(copy, copy + length, out, shift + <i32>(p - copy))
}

/**
 * Scans `length` lines. Line i is [starts[i], ends[i]) minus `shift`; `starts` and `ends` hold i32, `flags` holds u8. Sets
 * `scanned` in the flags of each line, and `decoded` if it is an object. Lines with a flag of `skipped` are not
 * scanned; those with one of `ended` have a line end. `out` has room for two i32 for each wanted name of each line, and is filled with 0 for a name that is missing.
 * Returns the number of lines from whose flags `scanned` was removed, because they are undecided.
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
      tooDeep = false
      memory.fill(out + i * stride, 0, stride)
      store<u8>(flags + i, <u8>(flag & ~scanned))
    } else store<u8>(flags + i, <u8>(flag | scanned | (result == OBJECT ? decoded : 0)))
  }
  return undecided
}
