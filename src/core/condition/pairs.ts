import { orderOfEqual } from '../../lib/formats/json-numbers.js'
import type { FieldReader } from '../event/field-reader.js'
import { compareText, hasText } from './texts.js'

/**
 * Comparisons of two fields. Both values need a text. If both texts are numbers, the values are ordered as numbers. If
 * neither text is a number, the texts are ordered by code points. If only one text is a number, the values have no
 * order.
 */

export type PairTest = (left: FieldReader, right: FieldReader) => boolean

const equal: PairTest = (left, right) => {
  if (!left.plain || !right.plain) return left.text() === right.text()
  return left.end - left.start === right.end - right.start && hasPartAt(left, left.start, right)
}

/** Whether the bytes of `left` from `at` on begin with the plain text of `right`. */
function hasPartAt(left: FieldReader, at: number, right: FieldReader): boolean {
  for (let p = right.start; p < right.end; p++) if (left.bytes[at++] !== right.bytes[p]) return false
  return true
}

const ordering =
  (holds: (order: number) => boolean): PairTest =>
  (left, right) => {
    const a = left.number()
    const b = right.number()
    if (a < b) return holds(-1)
    if (a > b) return holds(1)
    if (a === b) return holds(Number.isSafeInteger(a) ? 0 : orderOfEqual(left.text(), right.text(), a))
    if (!Number.isNaN(a) || !Number.isNaN(b)) return false
    if (right.plain) return holds(compareText(left, right.bytes, right.start, right.end))
    return holds(compareText(left, Buffer.from(right.text())))
  }

/** If a part has at most this many bytes, a simple search is fast even if it restarts often. */
const SHORT = 64

const contains: PairTest = (left, right) => {
  const length = right.end - right.start
  if (left.plain && right.plain && length <= SHORT) {
    for (let p = left.start; p <= left.end - length; p++) if (hasPartAt(left, p, right)) return true
    return false
  }
  return containsLong(Buffer.from(left.text()), Buffer.from(right.text()))
}

/** Finds a long part in linear time (Knuth, Morris and Pratt), so that untrusted texts cannot make the search slow. */
function containsLong(text: Uint8Array, part: Uint8Array): boolean {
  if (part.length > text.length) return false
  /** For the length of each partial match: the length of the next shorter partial match that ends at the same byte. */
  const shorter = new Int32Array(part.length + 1)
  for (let p = 1, length = 0; p < part.length; p++) {
    while (length > 0 && part[p] !== part[length]) length = shorter[length]!
    if (part[p] === part[length]) length++
    shorter[p + 1] = length
  }
  if (part.length === 0) return true
  for (let p = 0, length = 0; p < text.length; p++) {
    while (length > 0 && text[p] !== part[length]) length = shorter[length]!
    if (text[p] === part[length]) length++
    if (length === part.length) return true
  }
  return false
}

const startsWith: PairTest = (left, right) => {
  if (!left.plain || !right.plain) return left.text().startsWith(right.text())
  return left.end - left.start >= right.end - right.start && hasPartAt(left, left.start, right)
}

const endsWith: PairTest = (left, right) => {
  if (!left.plain || !right.plain) return left.text().endsWith(right.text())
  const at = left.end - (right.end - right.start)
  return at >= left.start && hasPartAt(left, at, right)
}

const ofTexts =
  (holds: PairTest): PairTest =>
  (left, right) =>
    hasText(left.kind) && hasText(right.kind) && holds(left, right)

/** The operators that can compare two fields, with their tests. */
export const PAIR_TESTS: ReadonlyMap<string, PairTest> = new Map(
  Object.entries({
    equal,
    not_equal: (left: FieldReader, right: FieldReader) => !equal(left, right),
    contains,
    starts_with: startsWith,
    ends_with: endsWith,
    greater: ordering(order => order > 0),
    greater_or_equal: ordering(order => order >= 0),
    less: ordering(order => order < 0),
    less_or_equal: ordering(order => order <= 0),
  }).map(([name, holds]) => [name, ofTexts(holds)]),
)
