/** STRUCTURED-DATA of RFC 5424: one or more `[id name="value" ...]` without separators. */

import { BACKSLASH, EQUALS, QUOTE, SPACE } from '../../../lib/formats/ascii.js'

const OPEN = 0x5b
const CLOSE = 0x5d

/** Returns the index after the structured data at `p`; -1: there is none, or it is malformed. */
export function structuredDataEnd(b: Uint8Array, p: number, end: number): number {
  if (p >= end || b[p] !== OPEN) return -1
  while (p < end && b[p] === OPEN) {
    p = nameEnd(b, p + 1, end)
    if (p < 0) return -1
    while (p < end && b[p] === SPACE) {
      p++
      // Some senders write a space before the bracket.
      if (p < end && b[p] === CLOSE) break
      p = nameEnd(b, p, end)
      if (p < 0 || p + 1 >= end || b[p] !== EQUALS || b[p + 1] !== QUOTE) return -1
      p += 2
      while (p < end && b[p] !== QUOTE) p += b[p] === BACKSLASH ? 2 : 1
      if (p >= end) return -1
      p++
    }
    if (p >= end || b[p] !== CLOSE) return -1
    p++
  }
  return p
}

/** Returns where the name at `p` ends; -1: there is none. */
function nameEnd(b: Uint8Array, p: number, end: number): number {
  const start = p
  while (p < end && b[p]! > SPACE && b[p] !== EQUALS && b[p] !== CLOSE && b[p] !== QUOTE) p++
  return p === start ? -1 : p
}

/** Matches the beginning of an element, or a parameter of an element. */
const PART = /\[([^\x00-\x20=\]"]+)| ([^\x00-\x20=\]"]+)="((?:[^"\\]|\\[\s\S])*)"/g

/** Parses valid structured data to parameters, by element and name. A repeated name gets a list of its values. */
export function structuredData(text: string): Record<string, Record<string, string | string[]>> {
  const elements = new Map<string, Map<string, string | string[]>>()
  let element = new Map<string, string | string[]>()
  for (const [, id, name, written] of text.matchAll(PART)) {
    if (id !== undefined) {
      element = elements.get(id) ?? new Map()
      elements.set(id, element)
      continue
    }
    // Only `\"`, `\\` and `\]` are escapes; any other backslash is literal.
    const value = written!.includes('\\') ? written!.replace(/\\(["\\\]])/g, '$1') : written!
    const before = element.get(name!)
    // Extends the list in place, since a line may repeat a name a hundred thousand times.
    if (Array.isArray(before)) before.push(value)
    else element.set(name!, before === undefined ? value : [before, value])
  }
  // fromEntries creates own properties for all names, including `__proto__`.
  return Object.fromEntries([...elements].map(([id, element]) => [id, Object.fromEntries(element)]))
}
