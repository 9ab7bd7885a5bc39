import { randomUUID } from 'node:crypto'
import { MINUS, QUOTE, ZERO } from './ascii.js'
import { stringEnd, valueEnd } from './json-scan.js'
import { deepText, jsonText, parseJson } from './json-text.js'

/** Integers with 16 or more digits. Shorter integers are always exact as doubles. */
const LONG_INTEGER = /^-?\d{16,}$/
const MANY_DIGITS = /\d{16}/
/** The time to convert a bigint grows faster than its length. */
const BOUNDED_INTEGER = /^-?\d{16,1000}$/

/** Stands before a number that replaces a number in JSON. It is random, so the input cannot contain it. */
const MARK = randomUUID()
const MARKED = new RegExp(`"${MARK}([^"]+)"`, 'g')

/**
 * Writes the valid JSON value [start, end) with JSON.parse and `jsonText`. Numbers stay as written if they are out of
 * the range of a double, or if a double would lose digits of an integer.
 */
export function normalJson(b: Buffer, start: number, end: number): string {
  const text = b.toString('utf8', start, end)
  const normal = jsonText(JSON.parse(text))
  // In `normal`, numbers beyond the range of a double have become null.
  if (!normal.includes('null') && !MANY_DIGITS.test(text)) return normal
  const marked = withMarks(b, start, end, number => !isKept(number))
  return marked === undefined ? normal : jsonText(JSON.parse(marked)).replace(MARKED, '$1')
}

/** Replaces the chosen numbers of a valid JSON value by strings with a mark. Returns undefined if it chooses none. */
function withMarks(b: Buffer, start: number, end: number, isChosen: (number: string) => boolean): string | undefined {
  let marked = ''
  let copied = start
  for (let p = start; p < end; p++) {
    if (b[p] === QUOTE) p = stringEnd(b, p + 1)
    else if (b[p] === MINUS || (b[p]! >= ZERO && b[p]! <= ZERO + 9)) {
      const from = p
      p = valueEnd(b, p, end)
      const number = b.toString('latin1', from, p)
      if (isChosen(number)) {
        marked += `${b.toString('utf8', copied, from)}"${MARK}${number}"`
        copied = p
      }
      p--
    }
  }
  return copied === start ? undefined : marked + b.toString('utf8', copied, end)
}

/** Like `parseJson`, but an integer that a double would change becomes a bigint, except in very deep JSON. */
export function parseExact(text: string): unknown {
  const value = parseJson(text)
  if (!MANY_DIGITS.test(text)) return value
  const bytes = Buffer.from(`${text}\n`)
  const marked = withMarks(bytes, 0, bytes.length - 1, number => BOUNDED_INTEGER.test(number) && !isKept(number))
  try {
    return marked === undefined ? value : JSON.parse(marked, (_, item) => unmarked(item))
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return value
  }
}

const unmarked = (item: unknown) =>
  typeof item === 'string' && item.startsWith(MARK) ? BigInt(item.slice(MARK.length)) : item

/** Like `jsonText`, but writes the bigints of `parseExact` as integers. */
export function exactJson(value: unknown): string {
  try {
    return jsonText(value)
  } catch (error) {
    if (!(error instanceof TypeError && error.message.includes('BigInt'))) throw error
    return deepText(value)
  }
}

/** Whether a JSON number can become a double: it is in range and, if it is a long integer, keeps its digits. */
function isKept(number: string): boolean {
  const value = Number(number)
  return Number.isFinite(value) && (!LONG_INTEGER.test(number) || String(value) === number)
}
