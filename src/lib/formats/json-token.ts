import { QUOTE } from './ascii.js'
import { sawEscape, stringEnd } from './json-scan.js'

/** Returns the text of the JSON string at `p`. If another scalar is at `p`, returns its JSON, which ends at `end`. */
export function tokenText(b: Buffer, p: number, end: number): string {
  if (b[p] !== QUOTE) return b.toString('latin1', p, end)
  const stop = stringEnd(b, p + 1)
  return sawEscape ? (JSON.parse(b.toString('utf8', p, stop + 1)) as string) : b.toString('utf8', p + 1, stop)
}

/** Returns the integer in a text, with all its digits; undefined if it is not one. */
export function integerOf(text: string): number | bigint | undefined {
  if (/^-?\d{1,15}$/.test(text)) return Number(text)
  if (/^-?\d{1,40}$/.test(text)) return BigInt(text)
  const value = text.trim() === '' ? Number.NaN : Number(text)
  return Number.isSafeInteger(value) ? value : undefined
}
