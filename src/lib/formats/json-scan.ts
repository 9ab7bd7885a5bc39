import { resized } from '../columns.js'
import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './ascii.js'

/**
 * In one strict pass over a line, checks that the line is a complete, valid JSON object, and finds the values of wanted
 * top-level names. Decodes nothing. Agrees with JSON.parse on every line of valid UTF-8: it checks the whole grammar,
 * names may be escaped, the last of duplicate names counts, and nesting is unlimited.
 *
 * A control character, usually a line end, must follow the scanned bytes. It stops every inner loop, so the loops do
 * not check for the end. Nothing after that character is read. A single read past the end of a buffer would make the
 * loops several times slower for the lifetime of the process.
 */

/**
 * The top-level names to look for. The index of a name is its slot. Names can only be added, or all be removed by
 * `clear`. If a batch was scanned before a name was added, it has no slot for that name (EventBatch.renew).
 */
export class WantedNames {
  readonly names: string[] = []
  readonly bytes: Buffer[] = []
  /** Bit n is set if the length of a name in bytes, modulo 32, is n. */
  lengths = 0
  /** Changes when the names do. */
  version = 0
  /** Whether components use only whole lines. Lines are then not scanned in advance. */
  isUnused = false
  /** Whether components use event ids. If so, sources save the id of an input before its first event leaves. */
  areIdsUsed = false

  /** Returns the slot of `name`. Adds the name if it is new. */
  slot(name: string): number {
    const known = this.names.indexOf(name)
    if (known >= 0) return known
    // Half a surrogate pair has no UTF-8 encoding and can only be written as an escape. The byte 0 matches nothing,
    // because no name contains it.
    const bytes = name.isWellFormed() ? Buffer.from(name) : Buffer.from([0])
    this.bytes.push(bytes)
    this.lengths |= 1 << bytes.length
    this.version++
    return this.names.push(name) - 1
  }

  /** Removes all names. Do not use earlier readers and batches any more. */
  clear(): void {
    this.names.length = 0
    this.bytes.length = 0
    this.lengths = 0
    this.version++
  }
}

/**
 * How many numbers a slot has in the output of a scan: the start of the value (0 if the name is missing), and (end << 1
 * | special). The last bit is set for repeated names and for strings with escapes. It may also be set in other cases.
 */
export const SLOT = 2

/** 1 for each byte that ends the plain part of a string: the quote, the backslash and control characters. */
const ENDS_PLAIN = new Uint8Array(256)
for (let byte = 0; byte < 0x20; byte++) ENDS_PLAIN[byte] = 1
ENDS_PLAIN[QUOTE] = 1
ENDS_PLAIN[BACKSLASH] = 1

const HEX = new Uint8Array(256)
for (const digit of '0123456789abcdefABCDEF') HEX[digit.charCodeAt(0)] = 1
const DIGIT = new Uint8Array(256)
for (const digit of '0123456789') DIGIT[digit.charCodeAt(0)] = 1
const ESCAPED = new Uint8Array(256)
for (const letter of '"\\/bfnrt') ESCAPED[letter.charCodeAt(0)] = 1

/** Whether the last string that `stringEnd` scanned has an escape. */
export let sawEscape = false
/** The index of the first escape in that string. */
export let firstEscape = 0

/**
 * Returns the index of the quote that closes a string; -1: the string is invalid. `p`: the byte after the opening
 * quote.
 */
export function stringEnd(b: Uint8Array, p: number): number {
  for (;;) {
    if (ENDS_PLAIN[b[p]!] !== 0) break
    if (ENDS_PLAIN[b[p + 1]!] !== 0) {
      p += 1
      break
    }
    if (ENDS_PLAIN[b[p + 2]!] !== 0) {
      p += 2
      break
    }
    if (ENDS_PLAIN[b[p + 3]!] !== 0) {
      p += 3
      break
    }
    p += 4
  }
  if (b[p] === QUOTE) {
    sawEscape = false
    return p
  }
  return escapedStringEnd(b, p)
}

function escapedStringEnd(b: Uint8Array, p: number): number {
  sawEscape = true
  firstEscape = p
  while (b[p] === BACKSLASH) {
    const letter = b[p + 1]!
    if (ESCAPED[letter] === 1) p += 2
    else if (letter === 0x75 && HEX[b[p + 2]!] && HEX[b[p + 3]!] && HEX[b[p + 4]!] && HEX[b[p + 5]!]) p += 6
    else return -1
    while (ENDS_PLAIN[b[p]!] === 0) p++
  }
  return b[p] === QUOTE ? p : -1
}

function digitsEnd(b: Uint8Array, p: number): number {
  while (DIGIT[b[p]!] === 1) p++
  return p
}

/** Returns where the number at `p` ends; -1: it is invalid. */
function numberEnd(b: Uint8Array, p: number): number {
  if (b[p] === 0x2d) p++
  let digits = p
  if (b[p] === 0x30) p++
  else {
    p = digitsEnd(b, p)
    if (p === digits) return -1
  }
  if (b[p] === COMMA) return p
  if (b[p] === 0x2e) {
    digits = ++p
    p = digitsEnd(b, p)
    if (p === digits) return -1
  }
  if (b[p] === 0x65 || b[p] === 0x45) {
    p++
    if (b[p] === 0x2b || b[p] === 0x2d) p++
    digits = p
    p = digitsEnd(b, p)
    if (p === digits) return -1
  }
  return p
}

/** Returns where the string, number or literal at `p` ends; -1: it is invalid. */
function scalarEnd(b: Uint8Array, p: number): number {
  switch (b[p]) {
    case QUOTE: {
      const end = stringEnd(b, p + 1)
      return end < 0 ? -1 : end + 1
    }
    case 0x74: // true
      return b[p + 1] === 0x72 && b[p + 2] === 0x75 && b[p + 3] === 0x65 ? p + 4 : -1
    case 0x66: // false
      return b[p + 1] === 0x61 && b[p + 2] === 0x6c && b[p + 3] === 0x73 && b[p + 4] === 0x65 ? p + 5 : -1
    case 0x6e: // null
      return b[p + 1] === 0x75 && b[p + 2] === 0x6c && b[p + 3] === 0x6c ? p + 4 : -1
    default:
      return numberEnd(b, p)
  }
}

/** Skips the white space of JSON. Stops at `end`, because a line end counts as white space. */
export function skipSpace(b: Uint8Array, p: number, end: number): number {
  while (p < end && (b[p] === 0x20 || b[p] === 0x09 || b[p] === 0x0d || b[p] === 0x0a)) p++
  return p
}

/** For each container around the current one: 1 if it is an object. Reused in later calls, and grown on demand. */
let nesting = new Uint8Array(64)

/**
 * Returns where the object or array that opens at `p` ends; -1 if it is invalid. Uses no recursion, so that each level
 * takes one byte and no stack.
 */
function containerEnd(b: Uint8Array, p: number, end: number): number {
  let inObject = b[p] === OPEN_OBJECT
  let depth = 0
  let first = true
  p++
  for (;;) {
    p = skipSpace(b, p, end)
    if (!(first && b[p] === (inObject ? CLOSE_OBJECT : CLOSE_ARRAY))) {
      if (inObject) {
        if (b[p] !== QUOTE) return -1
        p = stringEnd(b, p + 1)
        if (p < 0) return -1
        p = skipSpace(b, p + 1, end)
        if (b[p] !== COLON) return -1
        p = skipSpace(b, p + 1, end)
      }
      if (b[p] === OPEN_OBJECT || b[p] === OPEN_ARRAY) {
        if (depth === nesting.length) nesting = resized(nesting, nesting.length * 2)
        nesting[depth++] = inObject ? 1 : 0
        inObject = b[p] === OPEN_OBJECT
        first = true
        p++
        continue
      }
      p = scalarEnd(b, p)
      if (p < 0) return -1
      p = skipSpace(b, p, end)
    }
    // Here a value or an empty container ends. Closes all containers that end here, or moves past the comma.
    while (b[p] === (inObject ? CLOSE_OBJECT : CLOSE_ARRAY)) {
      p++
      if (depth === 0) return p
      inObject = nesting[--depth] === 1
      p = skipSpace(b, p, end)
    }
    if (b[p] !== COMMA) return -1
    p++
    first = false
  }
}

/** Returns where the value at `p` ends; -1: it is invalid. */
export function valueEnd(b: Uint8Array, p: number, end: number): number {
  return b[p] === OPEN_OBJECT || b[p] === OPEN_ARRAY ? containerEnd(b, p, end) : scalarEnd(b, p)
}

/** Returns the slot of the name with the bytes [start, end), which have no escapes; -1 if it is not wanted. */
export function slotOf(b: Uint8Array, start: number, end: number, wanted: WantedNames): number {
  return (wanted.lengths >> (end - start)) & 1 ? wantedSlot(b, start, end, false, wanted) : -1
}

function wantedSlot(b: Uint8Array, start: number, end: number, escaped: boolean, wanted: WantedNames): number {
  if (escaped) return wanted.names.indexOf(JSON.parse(`"${Buffer.from(b.subarray(start, end)).toString()}"`))
  const length = end - start
  next: for (let slot = 0; slot < wanted.bytes.length; slot++) {
    const name = wanted.bytes[slot]!
    if (name.length !== length) continue
    for (let i = 0; i < length; i++) if (b[start + i] !== name[i]) continue next
    return slot
  }
  return -1
}

/**
 * Scans the line [start, end) of `b`. Returns whether it is one complete JSON object. If so, writes SLOT numbers for
 * each wanted name to `out`, from index `at` on. Before the call, that part of `out` must contain only 0.
 */
export function scanObject(
  b: Uint8Array,
  start: number,
  end: number,
  wanted: WantedNames,
  out: Int32Array,
  at: number,
): boolean {
  if (end < b.length && b[end]! < 0x20) return scanValue(b, start, end, wanted, out, at)
  // A line without a line end is copied, to add the control character.
  const copy = Buffer.allocUnsafe(end - start + 1)
  copy.set(b.subarray(start, end))
  copy[end - start] = 0
  if (!scanValue(copy, 0, end - start, wanted, out, at)) return false
  for (let slot = at; slot < at + wanted.names.length * SLOT; slot += SLOT) {
    if (out[slot] === 0) continue
    out[slot]! += start
    out[slot + 1]! += start << 1
  }
  return true
}

/**
 * Returns where the JSON object that opens at `start` ends; -1: it is invalid. A control character must be at `end`.
 */
export function objectEnd(b: Uint8Array, start: number, end: number): number {
  return b[start] === OPEN_OBJECT ? containerEnd(b, start, end) : -1
}

/** Like `scanObject`, but never copies. A control character must be at `end` unless the bytes begin with valid JSON. */
export function scanValue(
  b: Uint8Array,
  start: number,
  end: number,
  wanted: WantedNames,
  out: Int32Array,
  at: number,
): boolean {
  let p = skipSpace(b, start, end)
  if (b[p] !== OPEN_OBJECT) return false
  p = skipSpace(b, p + 1, end)
  if (b[p] === CLOSE_OBJECT) return skipSpace(b, p + 1, end) === end
  for (;;) {
    if (b[p] !== QUOTE) return false
    const nameStart = p + 1
    p = stringEnd(b, nameStart)
    if (p < 0) return false
    const slot =
      sawEscape || (wanted.lengths >> (p - nameStart)) & 1 ? wantedSlot(b, nameStart, p, sawEscape, wanted) : -1
    p++
    if (b[p] !== COLON) {
      p = skipSpace(b, p, end)
      if (b[p] !== COLON) return false
    }
    p++
    let byte = b[p]
    if (byte! <= 0x20) {
      p = skipSpace(b, p, end)
      byte = b[p]
    }
    const valueStart = p
    if (byte === QUOTE) {
      p = stringEnd(b, p + 1)
      if (p < 0) return false
      p++
    } else {
      p = byte === OPEN_OBJECT || byte === OPEN_ARRAY ? containerEnd(b, p, end) : scalarEnd(b, p)
      if (p < 0) return false
    }
    if (slot >= 0) {
      const isSpecial = sawEscape || out[at + slot * SLOT] !== 0
      out[at + slot * SLOT] = valueStart
      out[at + slot * SLOT + 1] = (p << 1) | (isSpecial ? 1 : 0)
    }
    if (b[p] !== COMMA) {
      p = skipSpace(b, p, end)
      if (b[p] === CLOSE_OBJECT) return skipSpace(b, p + 1, end) === end
      if (b[p] !== COMMA) return false
    }
    p++
    if (b[p] !== QUOTE) p = skipSpace(b, p, end)
  }
}
