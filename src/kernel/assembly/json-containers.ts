import { byteAt, QUOTE } from './bytes'
import { scalarEnd, stringEnd } from './json-scalars'

/** Where objects and arrays of JSON end, with all that is in them. */

/** The deepest nesting, in containers, that is checked here. */
const MOST_NESTED: u32 = 1024

export const COMMA: u32 = 0x2c
export const COLON: u32 = 0x3a
export const OPEN_OBJECT: u32 = 0x7b
export const CLOSE_OBJECT: u32 = 0x7d
export const OPEN_ARRAY: u32 = 0x5b
const CLOSE_ARRAY: u32 = 0x5d

/** For each open container below the outermost, 1 if it is an object. */
const nesting: usize = memory.data(<i32>MOST_NESTED)
/** Whether a container was too deep for `nesting`, until the caller has seen it. */
let tooDeep: bool = false

/** Whether a container was too deep to be looked at since this was asked last. */
export function wasTooDeep(): bool {
  const was = tooDeep
  tooDeep = false
  return was
}

/** Skips the white space of JSON, up to `end`, since a line end counts as white space. */
export function skipSpace(p: usize, end: usize): usize {
  while (p < end) {
    const byte = byteAt(p)
    if (byte != 0x20 && byte != 0x09 && byte != 0x0d && byte != 0x0a) break
    p++
  }
  return p
}

/** The end of the object or array that opens at `p`, or 0. */
export function containerEnd(p: usize, end: usize): usize {
  let inObject = byteAt(p) == OPEN_OBJECT
  let depth: u32 = 0
  let isFirst = true
  p++
  while (true) {
    p = skipSpace(p, end)
    if (!(isFirst && byteAt(p) == (inObject ? CLOSE_OBJECT : CLOSE_ARRAY))) {
      if (inObject) {
        if (byteAt(p) != QUOTE) return 0
        p = stringEnd(p + 1)
        if (!p) return 0
        p = skipSpace(p + 1, end)
        if (byteAt(p) != COLON) return 0
        p = skipSpace(p + 1, end)
      }
      const byte = byteAt(p)
      if (byte == OPEN_OBJECT || byte == OPEN_ARRAY) {
        if (depth == MOST_NESTED) {
          tooDeep = true
          return 0
        }
        store<u8>(nesting + depth, inObject ? 1 : 0)
        depth++
        inObject = byte == OPEN_OBJECT
        isFirst = true
        p++
        continue
      }
      p = scalarEnd(p)
      if (!p) return 0
      p = skipSpace(p, end)
    }
    // After a value or at the end of an empty container: close all containers that end here, or continue after a comma.
    while (byteAt(p) == (inObject ? CLOSE_OBJECT : CLOSE_ARRAY)) {
      p++
      if (depth == 0) return p
      depth--
      inObject = load<u8>(nesting + depth) == 1
      p = skipSpace(p, end)
    }
    if (byteAt(p) != COMMA) return 0
    p++
    isFirst = false
  }
}
