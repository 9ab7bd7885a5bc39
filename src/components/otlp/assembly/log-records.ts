import { Byte, byteAt, isDigitByte } from '../../../lib/kernel/assembly/bytes'
import { dayNumber, twoDigits } from '../../../lib/kernel/assembly/dates'
import { isIsoTime } from '../../../lib/kernel/assembly/iso-time'
import { ALSE, escaped, NULL, stringEndAt, TRUE } from '../../../lib/kernel/assembly/json-scalars'
import { forgetBlock } from '../../../lib/kernel/assembly/special-characters'
import { copyBytes, putHead, putGroups, sizeOfGroups } from '../../../lib/kernel/assembly/numbers'

/**
 * Writes valid JSON objects as log records of OTLP in protobuf, with the same results as components/otlp/log-record.ts.
 * Leaves rare objects to that file. Rare objects contain objects or arrays, repeated names, names with escapes, escapes
 * of code points, white space other than a space, long numbers, or unusual bodies, times and so on.
 */

/**
 * The uses of fields, as in ../log-records.ts. Other fields are attributes. Objects that have a LEFT field are left to
 * JavaScript.
 */
const LEFT: u32 = 1
const BODY: u32 = 2
const TIME: u32 = 3
const SEVERITY: u32 = 4
const TRACE_ID: u32 = 5
const SPAN_ID: u32 = 6

/** Tags of protobuf: each contains the number of a field and the type of its value. Tags of LogRecord: */
const RECORD_TAG: u8 = 0x12
const TIME_TAG: u8 = 0x09
const SEVERITY_NUMBER_TAG: u8 = 0x10
const SEVERITY_TEXT_TAG: u8 = 0x1a
const BODY_TAG: u8 = 0x2a
const ATTRIBUTE_TAG: u8 = 0x32
const TRACE_ID_TAG: u8 = 0x4a
const SPAN_ID_TAG: u8 = 0x52
const OBSERVED_TAG: u8 = 0x59
/** Of KeyValueList, KeyValue and AnyValue: */
const MEMBER_TAG: u8 = 0x0a
const KEY_TAG: u8 = 0x0a
const VALUE_TAG: u8 = 0x12
const TEXT_TAG: u8 = 0x0a
const BOOL_TAG: u8 = 0x10
const INTEGER_TAG: u8 = 0x18
const DOUBLE_TAG: u8 = 0x21
const MAP_TAG: u8 = 0x32

const MINUS: u32 = 0x2d
const POINT: u32 = 0x2e
/** Maximum digits of an integer (read as 64 bits), and of a number with a point (a quotient of two exact doubles). */
const MOST_DIGITS: usize = 18
const MOST_OF_FRACTION: usize = 15
const DAYS_TO_1970: u32 = 719_468
const MOST_MEMBERS: u32 = 128
/** Maximum bytes of all tags and lengths of an attribute, plus the 16 bytes that `copy` requires. */
const HEADS: usize = 32
/** Maximum bytes of a record per byte of its object; bytes that may be written beyond the record. */
const MOST_PER_BYTE: usize = 4
const MARGIN: usize = 256

/** An entry of a table: a text's length, its number and, from byte 16 on, the text (at most 16 bytes). */
const ENTRY: usize = 32
const LONGEST: u32 = 16
let fields: usize = 0
let fieldCount: u32 = 0
let words: usize = 0
let wordCount: u32 = 0

/**
 * Sets the table of known names, and the table of severities in lower case. The lower 8 bits of a name's number are the
 * use of its field, or 0. If the field's value decides the group of an event, the higher bits contain a number from 1
 * to `grouped`.
 */
export function setLogFields(table: usize, count: u32, grouped: u32, severities: usize, severityCount: u32): void {
  fields = table
  fieldCount = count
  words = severities
  wordCount = severityCount
  lastGrouped = values + (<usize>grouped << 3)
}

/** Returns the number of a text in a table; 0 if it is not there. */
function numberIn(table: usize, count: u32, text: v128, length: u32): u32 {
  if (length > LONGEST) return 0
  const others = ~0 << length
  for (const end = table + <usize>count * ENTRY; table < end; table += ENTRY) {
    if (load<u32>(table) != length) continue
    if ((i8x16.bitmask(i8x16.eq(text, v128.load(table, 16))) | others) == -1) return load<u32>(table, 4)
  }
  return 0
}

/**
 * The names read so far in this object: address, length and use of each (3 u32). While they equal the first names of
 * the previous object, the other names of that object follow them, up to `known`. Each name read so far sets a bit in
 * `lengths`: its length modulo 32.
 */
const NAME: usize = 16
const names: usize = memory.data(<i32>(16 * MOST_MEMBERS), 16)
let nameCount: u32 = 0
let known: u32 = 0
let lengths: u32 = 0
let nameEnd: usize = 0

/** Reads the name at `p`. Returns its number (see `setLogFields`); LEFT if the name is rare or occurred before. */
@inline
function useOfName(p: usize): u32 {
  const name = names + <usize>nameCount * NAME
  if (nameCount < known) {
    const length = load<u32>(name, 4)
    // Also compares the quote after the name.
    const others = ~1 << length
    if (length < 16 && (i8x16.bitmask(i8x16.eq(v128.load(p), v128.load(<usize>load<u32>(name)))) | others) == -1) {
      nameCount++
      lengths |= 1 << (length & 31)
      store<u32>(name, <u32>p)
      nameEnd = p + <usize>length
      return load<u32>(name, 8)
    }
    known = 0
  }
  return useOfOther(p, name)
}

function useOfOther(p: usize, name: usize): u32 {
  nameEnd = stringEndAt(p)
  if (escaped || nameCount == MOST_MEMBERS) return LEFT
  const length = <u32>(nameEnd - p)
  const bit: u32 = 1 << (length & 31)
  if (lengths & bit) {
    for (let before = names; before < name; before += NAME) {
      if (load<u32>(before, 4) != length) continue
      if (memory.compare(<usize>load<u32>(before), p, <usize>length) == 0) return LEFT
    }
  }
  lengths |= bit
  nameCount++
  store<u32>(name, <u32>p)
  store<u32>(name, length, 4)
  const use = numberIn(fields, fieldCount, v128.load(p), length)
  store<u32>(name, use, 8)
  return use
}

/** Decodes the string content [p, end) to `to`. Returns the end of the text; 0 for an escape of a code point. */
function unescape(p: usize, end: usize, to: usize): usize {
  while (p < end) {
    const bytes = v128.load(p)
    v128.store(to, bytes)
    const plain = <usize>ctz(i8x16.bitmask(i8x16.eq(bytes, i8x16.splat(<i8>Byte.BACKSLASH))) | 0x10000)
    if (plain >= end - p) return to + (end - p)
    p += plain
    to += plain
    if (plain == 16) continue
    let byte = byteAt(p + 1)
    if (byte == 0x75) return 0
    if (byte == 0x6e) byte = 0x0a
    else if (byte == 0x74) byte = 0x09
    else if (byte == 0x72) byte = 0x0d
    else if (byte == 0x62) byte = 0x08
    else if (byte == 0x66) byte = 0x0c
    store<u8>(to++, <u8>byte)
    p += 2
  }
  return to
}

function putBytes(to: usize, tag: u8, p: usize, size: usize): usize {
  to = putHead(to, tag, size)
  copyBytes(p, size, to)
  return to + size
}

function put64(to: usize, tag: u8, value: u64): usize {
  store<u8>(to, tag)
  store<u64>(to, value, 1)
  return to + 9
}

/**
 * Whether all fields together become the body, because the object has no body field. For each object, the value of the
 * previous object is tried first.
 */
let isMap = false

/** Writes an attribute or a member of the body, up to its value. The caller then writes the value, of `size` bytes. */
function putName(to: usize, name: usize, length: usize, size: usize): usize {
  to = putHead(to, isMap ? MEMBER_TAG : ATTRIBUTE_TAG, 2 + sizeOfGroups(length) + length + sizeOfGroups(size) + size)
  to = putBytes(to, KEY_TAG, name, length)
  return putHead(to, VALUE_TAG, size)
}

let text: usize = 0
let textSize: usize = 0

/**
 * Finds the text of the string content [p, end): in place or, with escapes, at `to`. Returns false for a rare escape.
 */
function findText(p: usize, end: usize, hasEscapes: u32, to: usize): bool {
  text = p
  textSize = end - p
  if (hasEscapes) {
    const stop = unescape(p, end, to)
    if (!stop) return false
    text = to
    textSize = stop - to
  }
  return true
}

/** The end of the last value that `putText` or `putScalar` read. */
let behind: usize = 0

/** Writes an attribute with the string at `p`. Returns its end; 0: the string has a rare escape. */
function putText(to: usize, name: usize, length: usize, p: usize): usize {
  const end = stringEndAt(p)
  behind = end + 1
  if (!findText(p, end, escaped, to + HEADS + length)) return 0
  to = putName(to, name, length, 1 + sizeOfGroups(textSize) + textSize)
  return putBytes(to, TEXT_TAG, text, textSize)
}

/**
 * Writes an attribute with the number or literal at `p`. Returns the end of the output; 0 for a container or a rare
 * number.
 */
function putScalar(to: usize, name: usize, length: usize, p: usize): usize {
  const word = load<u32>(p)
  if (word == NULL) {
    behind = p + 4
    return putName(to, name, length, 0)
  }
  if (word == TRUE || load<u32>(p, 1) == ALSE) {
    behind = word == TRUE ? p + 4 : p + 5
    to = putName(to, name, length, 2)
    store<u16>(to, <u16>BOOL_TAG | (word == TRUE ? 0x100 : 0))
    return to + 2
  }
  const isNegative = byteAt(p) == MINUS
  if (isNegative) p++
  const first = p
  let number: i64 = 0
  while (isDigitByte(byteAt(p))) number = number * 10 + (byteAt(p++) - 0x30)
  let digits = p - first
  let power: f64 = 1
  if (byteAt(p) == POINT) {
    for (p++; isDigitByte(byteAt(p)); digits++, power *= 10) number = number * 10 + (byteAt(p++) - 0x30)
  }
  // A container has no digits.
  if (digits == 0 || (byteAt(p) | 0x20) == 0x65 || digits > (power > 1 ? MOST_OF_FRACTION : MOST_DIGITS)) return 0
  behind = p
  if (power > 1) {
    const value = <f64>number / power
    to = putName(to, name, length, 9)
    return put64(to, DOUBLE_TAG, reinterpret<u64>(isNegative ? -value : value))
  }
  if (isNegative && number == 0) return 0
  const value = <u64>(isNegative ? -number : number)
  // Writes the value here only to learn its size. The following writes overwrite it.
  const size = putGroups(to, value) - to + 1
  to = putName(to, name, length, size)
  store<u8>(to, INTEGER_TAG)
  return putGroups(to + 1, value)
}

/** Returns the ISO time [p, end) in nanoseconds since 1970; 0 if it is not a time in the years 1971 to 2500. */
function nanosOf(p: usize, end: usize): u64 {
  if (!isIsoTime(p, end)) return 0
  const year = twoDigits(p) * 100 + twoDigits(p + 2)
  if (year < 1971 || year > 2500) return 0
  const days = dayNumber(year, twoDigits(p + 5), twoDigits(p + 8)) - DAYS_TO_1970
  let seconds = <i64>days * 86_400 + <i64>(twoDigits(p + 11) * 3600 + twoDigits(p + 14) * 60 + twoDigits(p + 17))
  let nanos: u32 = 0
  p += 19
  if (byteAt(p) == POINT) {
    p++
    for (let unit: u32 = 100_000_000; isDigitByte(byteAt(p)); p++, unit /= 10) nanos += (byteAt(p) - 0x30) * unit
  }
  if (p + 1 < end) {
    const offset = <i64>(twoDigits(p + 1) * 3600 + twoDigits(p + 4) * 60)
    seconds += byteAt(p) == MINUS ? offset : -offset
  }
  return <u64>(seconds * 1_000_000_000 + nanos)
}

@inline
function hexDigit(byte: u32): u32 {
  return isDigitByte(byte) ? byte - 0x30 : (byte | 0x20) - 0x61 < 6 ? (byte | 0x20) - 0x57 : 16
}

/** Writes an id of `size` bytes. Returns its end; 0 if the hexadecimal digits at `p` are invalid or all 0. */
function putId(to: usize, tag: u8, p: usize, size: usize): usize {
  to = putHead(to, tag, size)
  let all: u32 = 0
  for (const end = to + size; to < end; p += 2) {
    const high = hexDigit(byteAt(p))
    const low = hexDigit(byteAt(p + 1))
    if ((high | low) > 15) return 0
    all |= high | low
    store<u8>(to++, <u8>((high << 4) | low))
  }
  return all == 0 ? 0 : to
}

/**
 * The values that decide the group (address and size, 2 u32): those of this object and, from GROUPED on, those of the
 * previous object.
 */
const GROUPED: usize = 8 * 16
const values: usize = memory.data(2 * 8 * 16, 8)
let lastGrouped: usize = 0

/** Whether the values that decide the group equal those of the previous object. Keeps them for the next object. */
function isSameGroup(): bool {
  let isSame = true
  for (let value = values + 8; value <= lastGrouped; value += 8) {
    const size = load<u32>(value, 4)
    if (size != load<u32>(value, GROUPED + 4)) isSame = false
    else if (memory.compare(<usize>load<u32>(value), <usize>load<u32>(value, GROUPED), <usize>size) != 0) isSame = false
    store<u64>(value, load<u64>(value), GROUPED)
  }
  return isSame
}

/** The start and end (2 u32) of the text of each field that is not an attribute. The index is the use of the field. */
const found: usize = memory.data(8 * 8, 8)

@inline
function startOf(what: u32): usize {
  return <usize>load<u32>(found + (<usize>what << 3))
}

@inline
function endOf(what: u32): usize {
  return <usize>load<u32>(found + (<usize>what << 3), 4)
}

/** Writes the body. Returns its end; 0: it has a rare escape. */
function putBody(to: usize, hasEscapes: u32): usize {
  if (!findText(startOf(BODY), endOf(BODY), hasEscapes, to + HEADS)) return 0
  to = putHead(to, BODY_TAG, 1 + sizeOfGroups(textSize) + textSize)
  return putBytes(to, TEXT_TAG, text, textSize)
}

/** Writes a body's heads at `to`. Moves its members, now at `to` + HEADS, behind the heads. Returns the body's end. */
function endMap(to: usize, size: usize): usize {
  const members = to + HEADS
  to = putHead(to, BODY_TAG, 1 + sizeOfGroups(size) + size)
  to = putHead(to, MAP_TAG, size)
  memory.copy(to, members, size)
  return to + size
}

/** Writes the fields that follow the body. Returns their end; 0: one of them is invalid or rare. */
function putOthers(to: usize): usize {
  if (startOf(TIME)) {
    const nanos = nanosOf(startOf(TIME), endOf(TIME))
    if (nanos == 0) return 0
    to = put64(to, TIME_TAG, nanos)
  }
  if (startOf(SEVERITY)) {
    const word = startOf(SEVERITY)
    const size = endOf(SEVERITY) - word
    // A severity that begins with a digit would also be an attribute.
    if (isDigitByte(byteAt(word))) return 0
    const number = numberIn(words, wordCount, v128.or(v128.load(word), i8x16.splat(0x20)), <u32>size)
    if (number != 0) to = putHead(to, SEVERITY_NUMBER_TAG, number)
    to = putBytes(to, SEVERITY_TEXT_TAG, word, size)
  }
  if (startOf(TRACE_ID)) {
    if (endOf(TRACE_ID) - startOf(TRACE_ID) != 32) return 0
    to = putId(to, TRACE_ID_TAG, startOf(TRACE_ID), 16)
    if (!to) return 0
  }
  if (startOf(SPAN_ID)) {
    if (endOf(SPAN_ID) - startOf(SPAN_ID) != 16) return 0
    to = putId(to, SPAN_ID_TAG, startOf(SPAN_ID), 8)
  }
  return to
}

/** The result of `putRecord` if the value of `isMap` is wrong. */
const WRONG: usize = 1

/** Writes the record of the object at `p`. Returns its end; 0 if the object is left to JavaScript; or WRONG. */
function putRecord(p: usize, to: usize, observed: u64): usize {
  const head = to
  // Most lengths take two bytes.
  const record = to + 3
  const body = put64(record, OBSERVED_TAG, observed)
  to = isMap ? body + HEADS : body
  memory.fill(found, 0, 64)
  memory.fill(values, 0, GROUPED)
  known = nameCount
  nameCount = 0
  lengths = 0
  let hasEscapes: u32 = 0
  if (byteAt(p) != Byte.OPEN_OBJECT) return 0
  do {
    p++
    if (byteAt(p) == Byte.SPACE) p++
    if (byteAt(p) != Byte.QUOTE) return 0
    const name = p + 1
    const use = useOfName(name)
    const length = nameEnd - name
    p = nameEnd + 2
    if (byteAt(nameEnd + 1) != Byte.COLON) return 0
    if (byteAt(p) == Byte.SPACE) p++
    const isString = byteAt(p) == Byte.QUOTE
    const value = p
    const what = use & 0xff
    if (what != 0) {
      if (what < BODY || !isString || startOf(what)) return 0
      const end = stringEndAt(p + 1)
      if (what == BODY) hasEscapes = escaped
      else if (escaped) return 0
      store<u32>(found + (<usize>what << 3), <u32>p + 1)
      store<u32>(found + (<usize>what << 3), <u32>end, 4)
      p = end + 1
    }
    if (what == 0 || isMap) {
      to = isString ? putText(to, name, length, value + 1) : putScalar(to, name, length, value)
      if (!to) return 0
      p = behind
    }
    if (use > 0xff) {
      store<u32>(values + (<usize>(use >> 8) << 3), <u32>value)
      store<u32>(values + (<usize>(use >> 8) << 3), <u32>(p - value), 4)
    }
    if (byteAt(p) == Byte.SPACE) p++
  } while (byteAt(p) == Byte.COMMA)
  if (byteAt(p) != Byte.CLOSE_OBJECT) return 0
  if ((startOf(BODY) == 0) != isMap) return WRONG
  to = isMap ? endMap(body, to - body - HEADS) : putBody(to, hasEscapes)
  if (to) to = putOthers(to)
  if (!to) return 0
  const size = to - record
  const start = head + 1 + sizeOfGroups(size)
  if (start != record) memory.copy(start, record, size)
  putHead(head, RECORD_TAG, size)
  return start + size
}

/**
 * Writes the records of `length` objects in order at `to`, as many as fit before `toEnd`. Object i is at [starts[i],
 * ends[i]) minus `shift`, and a control character follows it. Then `starts[i]` and `ends[i]` get the place of its
 * record, relative to `to`. Both get 0 if the object is left to JavaScript. `same` gets a u8 for each object: 1 if it
 * has the same group as the previous object. `observed`: nanoseconds since 1970. Returns the number of objects
 * processed.
 */
export function writeRecords(
  length: u32,
  starts: usize,
  ends: usize,
  shift: i32,
  observed: u64,
  same: usize,
  to: usize,
  toEnd: usize,
): u32 {
  const first = to
  let hasLast = false
  nameCount = 0
  forgetBlock()
  for (let i: usize = 0; i < <usize>length; i++, starts += 4, ends += 4) {
    const start = <usize>(load<i32>(starts) - shift)
    const size = <usize>(load<i32>(ends) - shift) - start
    const fits = to + size * MOST_PER_BYTE + MARGIN <= toEnd
    if (!fits && to > first) return <u32>i
    store<i32>(starts, 0)
    store<i32>(ends, 0)
    let stop = fits ? putRecord(start, to, observed) : 0
    if (stop == WRONG) {
      isMap = !isMap
      stop = putRecord(start, to, observed)
    }
    const isSame = isSameGroup()
    store<u8>(same + i, <u8>(hasLast && isSame))
    hasLast = stop != 0
    if (!stop) continue
    store<i32>(starts, <i32>(to - first))
    store<i32>(ends, <i32>(stop - first))
    to = stop
  }
  return length
}
