import { isAt, isDigit, SPACE, TAB } from '../../formats/ascii.js'

/** Predicates on a line [start, end), for recognizing stack traces. */

export const BLANK = 0
export const INDENTED = 1
export const TEXT = 2

/** Whether the line is blank, indented, or begins at the margin. */
export function marginOf(b: Uint8Array, start: number, end: number): 0 | 1 | 2 {
  const p = skipBlanks(b, start, end)
  return p === end ? BLANK : p > start ? INDENTED : TEXT
}

export function skipBlanks(b: Uint8Array, start: number, end: number): number {
  while (start < end && (b[start] === SPACE || b[start] === TAB)) start++
  return start
}

export function startsWithAny(b: Uint8Array, start: number, end: number, texts: readonly Uint8Array[]): boolean {
  for (let i = 0; i < texts.length; i++) if (isAt(b, start, end, texts[i]!)) return true
  return false
}

export function endsWithAny(b: Uint8Array, start: number, end: number, texts: readonly Uint8Array[]): boolean {
  for (let i = 0; i < texts.length; i++) {
    const { length } = texts[i]!
    if (end - start >= length && isAt(b, end - length, end, texts[i]!)) return true
  }
  return false
}

export function isUpper(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x41 && byte <= 0x5a
}

/** Whether the byte can be part of an identifier. Bytes outside ASCII count as letters. */
export function isWord(byte: number | undefined): boolean {
  if (byte === undefined) return false
  const letter = byte | 0x20
  return (letter >= 0x61 && letter <= 0x7a) || isDigit(byte) || byte === 0x5f || byte === 0x24 || byte > 0x7f
}
