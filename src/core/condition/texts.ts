import { BOOLEAN, type FieldReader, STRING_VALUE, type ValueKind } from '../event/field-reader.js'

/** Functions that compare the texts of values, as bytes if the reader has the bytes. */

/** Minimum length of a text for a native search. In a shorter text, the call costs more than the search. */
const SEARCH_NATIVE_FROM = 256

/** Whether a value has text to compare, as strings, numbers and booleans do. */
export function hasText(kind: ValueKind): boolean {
  return kind >= STRING_VALUE && kind <= BOOLEAN
}

/** Whether the bytes from `at` on begin with `other`. */
export function standsAt(bytes: Uint8Array, at: number, other: Uint8Array): boolean {
  for (let i = 0; i < other.length; i++) if (bytes[at + i] !== other[i]) return false
  return true
}

export function isIn(reader: FieldReader, part: Buffer): boolean {
  const { bytes, start, end } = reader
  if (part.length === 0) return true
  if (end - start > SEARCH_NATIVE_FROM) return bytes.subarray(start, end).includes(part)
  const first = part[0]
  for (let p = start; p <= end - part.length; p++) if (bytes[p] === first && standsAt(bytes, p, part)) return true
  return false
}

/** Compares the reader's text with bytes[start, end). The result is 0 if equal, below 0 if the text comes first. */
export function compareText(reader: FieldReader, bytes: Buffer, start = 0, end = bytes.length): number {
  if (!reader.plain) return Buffer.compare(Buffer.from(reader.text()), bytes.subarray(start, end))
  const length = reader.end - reader.start
  const shorter = Math.min(length, end - start)
  for (let i = 0; i < shorter; i++) {
    const difference = reader.bytes[reader.start + i]! - bytes[start + i]!
    if (difference !== 0) return difference
  }
  return length - (end - start)
}
