/** STRUCTURED-DATA of RFC 5424: one or more `[id name="value" ...]` without separators. */

import type { GrowingBytes } from './growing-bytes.js'

const SPACE = 0x20
const QUOTE = 0x22
const EQUALS = 0x3d
const OPEN = 0x5b
const BACKSLASH = 0x5c
const CLOSE = 0x5d
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** The index after the structured data that begins at `p`; -1 if there is none or it is malformed. */
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

/** The end of the name at `p`, or -1 if there is none. */
function nameEnd(b: Uint8Array, p: number, end: number): number {
  const start = p
  while (p < end && b[p]! > SPACE && b[p] !== EQUALS && b[p] !== CLOSE && b[p] !== QUOTE) p++
  return p === start ? -1 : p
}

/** Parameters that are compared with one another. */
const MOST_NAMES = 16
const nameStarts = new Int32Array(MOST_NAMES)
const nameEnds = new Int32Array(MOST_NAMES)

/**
 * Writes the structured data [start, end), which `structuredDataEnd` accepted, as the JSON of what `structuredData` makes
 * of it. Returns false if there is more than one element, a name comes twice, or something is escaped: then `to` has a
 * part of it.
 */
export function addStructuredData(to: GrowingBytes, b: Buffer, start: number, end: number): boolean {
  const id = start + 1
  let p = nameEnd(b, id, end)
  to.addByte(OPEN_OBJECT)
  addName(to, b, id, p)
  to.addByte(OPEN_OBJECT)
  for (let names = 0; b[p] === SPACE && b[p + 1] !== CLOSE; names++) {
    const name = p + 1
    p = nameEnd(b, name, end)
    // An object has members with a number as their name before all others.
    if (names === MOST_NAMES || isDigit(b[name]!) || isKnown(b, name, p, names)) return false
    nameStarts[names] = name
    nameEnds[names] = p
    if (names > 0) to.addByte(COMMA)
    addName(to, b, name, p)
    const value = p + 2
    for (p = value; b[p] !== QUOTE; p++) if (b[p] === BACKSLASH) return false
    to.addByte(QUOTE)
    to.addEscaped(b, value, p)
    to.addByte(QUOTE)
    p++
  }
  to.addByte(CLOSE_OBJECT)
  to.addByte(CLOSE_OBJECT)
  return p + (b[p] === SPACE ? 2 : 1) === end
}

function addName(to: GrowingBytes, b: Buffer, start: number, end: number): void {
  to.addByte(QUOTE)
  to.addEscaped(b, start, end)
  to.addByte(QUOTE)
  to.addByte(COLON)
}

function isKnown(b: Buffer, start: number, end: number, count: number): boolean {
  next: for (let n = 0; n < count; n++) {
    if (nameEnds[n]! - nameStarts[n]! !== end - start) continue
    for (let i = end - start - 1; i >= 0; i--) if (b[nameStarts[n]! + i] !== b[start + i]) continue next
    return true
  }
  return false
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}

const ELEMENT = /\[([^\x00-\x20=\]"]+)((?: [^\x00-\x20=\]"]+="(?:[^"\\]|\\[\s\S])*")*) ?\]/g
const PARAMETER = / ([^\x00-\x20=\]"]+)="((?:[^"\\]|\\[\s\S])*)"/g

/** Parses structured data to parameters by element and name. A repeated name has a list of its values. */
export function structuredData(text: string): Record<string, Record<string, string | string[]>> {
  const elements = new Map<string, Map<string, string | string[]>>()
  for (const [, id, parameters] of text.matchAll(ELEMENT)) {
    const element = elements.get(id!) ?? new Map<string, string | string[]>()
    elements.set(id!, element)
    for (const [, name, written] of parameters!.matchAll(PARAMETER)) {
      // Only these three are escapes; elsewhere a backslash stands for itself.
      const value = written!.replace(/\\(["\\\]])/g, '$1')
      const before = element.get(name!)
      // A line may repeat a name a hundred thousand times, so the list is extended in place.
      if (Array.isArray(before)) before.push(value)
      else element.set(name!, before === undefined ? value : [before, value])
    }
  }
  // fromEntries creates own properties for all names, including `__proto__`.
  return Object.fromEntries([...elements].map(([id, element]) => [id, Object.fromEntries(element)]))
}
