import { BACKSLASH } from '../../../lib/formats/ascii.js'

/** Whether the name [start, end), as within the quotes of a JSON string, has the separator, or an escape that may be it. */
export function mayHold(b: Buffer, start: number, end: number, separator: Buffer): boolean {
  const first = separator[0]
  for (let p = start; p < end; p++) {
    if (b[p] === BACKSLASH) return true
    if (b[p] === first && isAt(b, p, end, separator)) return true
  }
  return false
}

function isAt(b: Buffer, at: number, end: number, bytes: Buffer): boolean {
  if (end - at < bytes.length) return false
  for (let i = 1; i < bytes.length; i++) if (b[at + i] !== bytes[i]) return false
  return true
}
