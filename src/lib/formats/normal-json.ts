import { randomUUID } from 'node:crypto'
import { MINUS, QUOTE, ZERO } from './ascii.js'
import { stringEnd, valueEnd } from './json-scan.js'
import { jsonText } from './json-text.js'

/** Integers with 16 or more digits. Shorter integers are always exact as doubles. */
const LONG_INTEGER = /^-?\d{16,}$/
const MANY_DIGITS = /\d{16}/

/**
 * Writes the valid JSON value [start, end) with JSON.parse and `jsonText`. Numbers stay as written if they are out of
 * the range of a double, or if a double would lose digits of an integer.
 */
export function normalJson(b: Buffer, start: number, end: number): string {
  const text = b.toString('utf8', start, end)
  const normal = jsonText(JSON.parse(text))
  // In `normal`, numbers beyond the range of a double have become null.
  if (!normal.includes('null') && !MANY_DIGITS.test(text)) return normal
  const numbers: string[] = []
  // Replaces each kept number by a mark during JSON.parse and `jsonText`. The mark is random, so the input cannot
  // contain it.
  const mark = randomUUID()
  let marked = ''
  let copied = start
  for (let p = start; p < end; p++) {
    if (b[p] === QUOTE) p = stringEnd(b, p + 1)
    else if (b[p] === MINUS || (b[p]! >= ZERO && b[p]! <= ZERO + 9)) {
      const from = p
      p = valueEnd(b, p, end)
      const number = b.toString('latin1', from, p)
      if (isKept(number)) continue
      marked += `${b.toString('utf8', copied, from)}"${mark} ${numbers.push(number) - 1}"`
      copied = p--
    }
  }
  if (numbers.length === 0) return normal
  marked += b.toString('utf8', copied, end)
  const restored = new RegExp(`"${mark} (\\d+)"`, 'g')
  return jsonText(JSON.parse(marked)).replace(restored, (_, n) => numbers[n]!)
}

/** Whether a JSON number can become a double: it is in range and, if it is a long integer, keeps its digits. */
function isKept(number: string): boolean {
  const value = Number(number)
  return Number.isFinite(value) && (!LONG_INTEGER.test(number) || String(value) === number)
}
