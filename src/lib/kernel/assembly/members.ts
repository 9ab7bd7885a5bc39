import { Byte, byteAt, isDigitByte } from './bytes'

/** Receives the fields of a line, and either writes them as JSON members or records where they are in the line. */

/** An entry of the table of fields: the length of `,"name":`, the slot or -1, and these bytes. */
const ENTRY: usize = 40
/** A text with more digits is not written as a number. */
const MOST_DIGITS: usize = 15

let table: usize = 0
let writes = false
/** Where the next member is written. */
let at: usize = 0
/** The address of the line's slots, and the number to add to an address to get its position. */
let slots: usize = 0
let by: i32 = 0
let line: usize = 0
let lineEnd: usize = 0

export function setFields(entries: usize): void {
  table = entries
}

/** Begins the line [p, end). Its fields will be put into the slots at `out`, not written as JSON. */
export function beginSlots(p: usize, end: usize, out: usize, shift: i32): void {
  writes = false
  line = p
  lineEnd = end
  slots = out
  by = shift
}

export function beginMembers(to: usize, out: usize, shift: i32): void {
  writes = true
  at = to
  slots = out
  by = shift
}

export function membersEnd(): usize {
  return at
}

@inline
export function putFieldSlot(slot: i32, start: i32, end: i32, special: bool): void {
  if (slot < 0) return
  const out = slots + (<usize>slot << 3)
  store<i32>(out, start)
  store<i32>(out, (end << 1) | <i32>special, 4)
}

@inline
function entryOf(field: u32): usize {
  return table + <usize>field * ENTRY
}

@inline
function slotOf(field: u32): i32 {
  return load<i32>(entryOf(field), 4)
}

@inline
function putName(field: u32): void {
  const entry = entryOf(field)
  v128.store(at, v128.load(entry, 8))
  v128.store(at, v128.load(entry, 24), 16)
  at += <usize>load<u32>(entry)
}

@inline
function digit(value: u32): u8 {
  return <u8>(value + (value < 10 ? 0x30 : 0x57))
}

/** Writes the escape of a quote, a backslash or a control character at `to`. Returns its end. */
function escapeInto(byte: u32, to: usize): usize {
  let letter = byte
  if (byte < 0x20) {
    if (byte == 0x09) letter = 0x74
    else if (byte == 0x0a) letter = 0x6e
    else if (byte == 0x0d) letter = 0x72
    else if (byte == 0x08) letter = 0x62
    else if (byte == 0x0c) letter = 0x66
    else {
      store<u32>(to, 0x3030755c) // \u00
      store<u8>(to, digit(byte >> 4), 4)
      store<u8>(to, digit(byte & 15), 5)
      return to + 6
    }
  }
  store<u8>(to, <u8>Byte.BACKSLASH)
  store<u8>(to, <u8>letter, 1)
  return to + 2
}

/** Writes the text [p, end) at `to` as the content of a JSON string. Returns its end. */
export function copyEscaped(p: usize, end: usize, to: usize): usize {
  while (p < end) {
    const bytes = v128.load(p)
    v128.store(to, bytes)
    const left = end - p
    const quotes = i8x16.eq(bytes, i8x16.splat(0x22))
    const others = v128.or(i8x16.eq(bytes, i8x16.min_u(bytes, i8x16.splat(0x1f))), i8x16.eq(bytes, i8x16.splat(0x5c)))
    // Bit 16 is found if all 16 bytes can be copied without escapes.
    const plain = <usize>ctz(i8x16.bitmask(v128.or(quotes, others)) | 0x10000)
    if (plain >= left) return to + left
    p += plain
    to += plain
    if (plain < 16) to = escapeInto(byteAt(p++), to)
  }
  return to
}

export function putText(field: u32, p: usize, end: usize): void {
  const slot = slotOf(field)
  if (!writes) {
    putFieldSlot(slot, <i32>p + by + 1, <i32>end + by, false)
    return
  }
  putName(field)
  const start = at
  store<u8>(start, <u8>Byte.QUOTE)
  const stop = copyEscaped(p, end, start + 1)
  store<u8>(stop, <u8>Byte.QUOTE)
  at = stop + 1
  putFieldSlot(slot, <i32>start + by, <i32>at + by, stop - start - 1 != end - p)
}

/** Puts the text of the string content [p, end), which has escapes. */
export function putString(field: u32, p: usize, end: usize): void {
  const slot = slotOf(field)
  if (!writes) {
    putFieldSlot(slot, <i32>p + by, <i32>end + by, true)
    return
  }
  putName(field)
  const start = at
  const size = end - p
  store<u8>(start, <u8>Byte.QUOTE)
  for (let copied: usize = 0; copied < size; copied += 16) v128.store(start + 1 + copied, v128.load(p + copied))
  at = start + size + 2
  store<u8>(at - 1, <u8>Byte.QUOTE)
  putFieldSlot(slot, <i32>start + by, <i32>at + by, true)
}

/**
 * Puts the text of `length` bytes that begins at `p`. It has at most 32 bytes, is outside the line, and contains no
 * quotes.
 */
export function putOther(field: u32, p: usize, length: usize): void {
  const slot = slotOf(field)
  if (!writes) {
    putFieldSlot(slot, <i32>line + by + 1, <i32>lineEnd + by, true)
    return
  }
  putName(field)
  const start = at
  store<u8>(start, <u8>Byte.QUOTE)
  v128.store(start, v128.load(p), 1)
  v128.store(start, v128.load(p, 16), 17)
  at = start + length + 2
  store<u8>(at - 1, <u8>Byte.QUOTE)
  putFieldSlot(slot, <i32>start + by, <i32>at + by, false)
}

/** Puts the number [p, end). Returns false if it is not a number, is very long, or has leading zeros. */
export function putNumber(field: u32, p: usize, end: usize): bool {
  if (p >= end || end - p > MOST_DIGITS) return false
  if (byteAt(p) == 0x30 && end - p > 1) return false
  for (let digit = p; digit < end; digit++) if (!isDigitByte(byteAt(digit))) return false
  const slot = slotOf(field)
  if (!writes) {
    putFieldSlot(slot, <i32>line + by + 1, <i32>lineEnd + by, true)
    return true
  }
  putName(field)
  v128.store(at, v128.load(p))
  const start = at
  at += end - p
  putFieldSlot(slot, <i32>start + by, <i32>at + by, false)
  return true
}
