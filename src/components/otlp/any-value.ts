import { CLOSE_ARRAY, CLOSE_OBJECT, COMMA, LF, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { addUnique, repeatsName } from '../../lib/formats/json-members.js'
import { plainInteger } from '../../lib/formats/json-numbers.js'
import { sawEscape, skipSpace, stringEnd, valueEnd } from '../../lib/formats/json-scan.js'
import { unescapeInto } from '../../lib/formats/json-string.js'
import { integerOf, tokenText } from '../../lib/formats/json-token.js'
import type { RecordWriter } from './records.js'

/** Converts valid JSON to values of the OpenTelemetry protocol. */

/** Deeper JSON is written as text, because protobuf readers accept 100 nested messages, and a JSON level can take 3. */
const MOST_LEVELS = 24
const [T, F, N] = [0x74, 0x66, 0x6e]
const [LEAST, MOST] = [-(2n ** 63n), 2n ** 63n - 1n]

/**
 * Called for each member of an object. The name is the UTF-8 text [nameStart, nameEnd) of `name`, and the value begins
 * at `start` of `b`. `hash`: the hash of the name. Returns where the value ends.
 */
type EachMember = (name: Buffer, nameStart: number, nameEnd: number, hash: number, b: Buffer, start: number) => number

export const HASHES = 4096
/** By hash: the last object that had a name with this hash. `object`: the current object's number. */
const seenIn = new Int32Array(HASHES)
let object = 0
let repeats = false

/** Whether an object that `eachMember` read since the last call has a name twice. Write it again with `withUniqueNames`. */
export function hasRepeatedNames(): boolean {
  const before = repeats
  repeats = false
  return before
}

/** Returns the JSON object [start, end) and a line end. Each object that becomes a map has each name once. */
export function withUniqueNames(b: Buffer, start: number, end: number): GrowingBytes {
  const unique = new GrowingBytes()
  addUnique(unique, b, start, end, undefined, MOST_LEVELS)
  // Scans may read one byte beyond the object.
  unique.addByte(LF)
  return unique
}

/** Calls `each` for every member of the object that begins at `start`. Returns where it ends, which is not behind `end`. */
export function eachMember(b: Buffer, start: number, end: number, each: EachMember): number {
  object = (object + 1) | 0
  const inThis = object
  let isChecked = false
  let p = skipSpace(b, start + 1, end)
  while (b[p] !== CLOSE_OBJECT) {
    const nameStart = p + 1
    const nameEnd = stringEnd(b, nameStart)
    const name = sawEscape ? Buffer.from(tokenText(b, p, nameEnd)) : undefined
    const hash = name ? hashOf(name, 0, name.length) : hashOf(b, nameStart, nameEnd)
    if (!isChecked) {
      // Another name may have the same hash. An object in this one has a later number, and may have replaced the mark.
      isChecked = ((seenIn[hash]! - inThis) | 0) >= 0
      seenIn[hash] = inThis
      if (isChecked && !repeats) repeats = repeatsName(b, start, end)
    }
    const from = skipSpace(b, skipSpace(b, nameEnd + 1, end) + 1, end)
    p = name ? each(name, 0, name.length, hash, b, from) : each(b, nameStart, nameEnd, hash, b, from)
    p = skipSpace(b, p, end)
    if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
  }
  return p + 1
}

/** Hashes the length and at most four bytes of a name to a number below HASHES. */
export function hashOf(b: Buffer, start: number, end: number): number {
  const length = end - start
  if (length === 0) return 0
  const quarter = length >> 2
  const sum = Math.imul(length, 0x9e3779b1) ^ Math.imul(b[start]!, 0x85ebca6b) ^ Math.imul(b[end - 1]!, 0xc2b2ae35)
  return (sum ^ Math.imul((b[start + quarter]! << 8) | b[end - 1 - quarter]!, 0x27d4eb2f)) >>> 20
}

/** Adds the value that begins at `start`. Returns where it ends, which is not behind `end`. */
export function addValue(to: RecordWriter, b: Buffer, start: number, end: number, level = 0): number {
  const first = b[start]
  if (first === QUOTE) return addString(to, b, start)
  if (level < MOST_LEVELS) {
    if (first === OPEN_OBJECT) return addMap(to, b, start, end, level)
    if (first === OPEN_ARRAY) return addList(to, b, start, end, level)
  }
  const stop = valueEnd(b, start, end)
  if (first === T || first === F) to.bool(first === T)
  else if (first === OPEN_OBJECT || first === OPEN_ARRAY) to.text(b, start, stop)
  else if (first !== N) addNumber(to, b, start, stop)
  return stop
}

const unescaped = new GrowingBytes()

function addString(to: RecordWriter, b: Buffer, start: number): number {
  const end = stringEnd(b, start + 1)
  if (!sawEscape) to.text(b, start + 1, end)
  else to.text(unescapedText(b, start, end + 1), 0, unescapedLength)
  return end + 1
}

/** The length of the last result of `unescapedText`. */
export let unescapedLength = 0

/** Returns the text of a JSON string with escapes, valid until the next call. [start, end) includes the quotes. */
export function unescapedText(b: Buffer, start: number, end: number): Buffer {
  unescaped.clear()
  unescaped.reserve(end - start)
  unescapedLength = unescapeInto(unescaped.bytes, 0, b, start + 1, end - 1)
  return unescaped.bytes
}

export function addText(to: RecordWriter, text: string): void {
  const bytes = Buffer.from(text)
  to.text(bytes, 0, bytes.length)
}

/** A number that fits neither a double nor a 64-bit integer becomes text with all of its digits. */
function addNumber(to: RecordWriter, b: Buffer, start: number, end: number): void {
  const plain = plainInteger(b, start, end)
  if (!Number.isNaN(plain)) {
    to.integer(plain)
    return
  }
  const text = b.toString('latin1', start, end)
  const isInteger = /^-?\d+$/.test(text)
  const value = isInteger ? integerOf(text) : Number(text)
  if (!isInteger && Number.isFinite(value)) to.double(Number(value))
  else if (!isInteger || value === undefined || value < LEAST || value > MOST) to.text(b, start, end)
  else to.integer(value)
}

function addMap(to: RecordWriter, b: Buffer, start: number, end: number, level: number): number {
  to.openMap()
  const stop = eachMember(b, start, end, (name, nameStart, nameEnd, _hash, json, from) => {
    to.openMember(name, nameStart, nameEnd)
    const until = addValue(to, json, from, end, level + 1)
    to.close()
    return until
  })
  to.close()
  return stop
}

function addList(to: RecordWriter, b: Buffer, start: number, end: number, level: number): number {
  to.openList()
  let p = skipSpace(b, start + 1, end)
  while (b[p] !== CLOSE_ARRAY) {
    to.openItem()
    p = skipSpace(b, addValue(to, b, p, end, level + 1), end)
    to.close()
    if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
  }
  to.close()
  return p + 1
}
