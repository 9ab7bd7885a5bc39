import type { Pattern } from '../pattern.js'
import { BEGINS, BELONGS, type Joiner, JUDGED_BYTES } from './record-splitter.js'

/** Joiners that go by a regular expression. Of a line of more than JUDGED_BYTES it sees a part only. */

/** A line that matches begins an event; the others belong to the one before. */
export function startsWith(pattern: Pattern): Joiner {
  const matches = matcher(pattern)
  return { judge: (_state, bytes, start, end) => (matches(bytes, start, end) ? BEGINS : BELONGS) }
}

/** A line that matches belongs to the event before; the others begin one. */
export function continuesWith(pattern: Pattern): Joiner {
  const matches = matcher(pattern)
  return { judge: (_state, bytes, start, end) => (matches(bytes, start, end) ? BELONGS : BEGINS) }
}

/** An event ends with the line that matches. Of a long line the end is looked at. */
export function endsWith(pattern: Pattern): Joiner {
  const matches = matcher(pattern)
  return {
    judge: () => BELONGS,
    ends: (bytes, start, end) => matches(bytes, Math.max(start, end - JUDGED_BYTES), end),
  }
}

function matcher(pattern: Pattern): (bytes: Buffer, start: number, end: number) => boolean {
  const first = firstBytes(pattern)
  if (!first) return (bytes, start, end) => pattern.test(bytes.toString('utf8', start, end))
  // The first byte decides for most lines, without making a string of them.
  return (bytes, start, end) =>
    start < end && first[bytes[start]!] === 1 && pattern.test(bytes.toString('utf8', start, end))
}

/** `^`, one character or class of characters that must be there, and no alternatives. */
const ANCHORED = /^\^(\\[dDwWsStnr\][.^$*+?(){}|/\\-]|\[(?:[^\\[\]]|\\.)+\]|[^\\[\].^$*+?(){}|])(?![?*]|\{0)([^|]*)$/u

/** Which bytes a matching line can begin with, by byte; undefined where any can, or where that is not easy to find out. */
export function firstBytes(pattern: Pattern): Uint8Array | undefined {
  const atom = pattern.flags === 'u' ? ANCHORED.exec(pattern.source)?.[1] : undefined
  if (atom === undefined) return undefined
  const alone = new RegExp(`^${atom}`, 'u')
  return Uint8Array.from({ length: 256 }, (_, byte) => (byte > 0x7f || alone.test(String.fromCharCode(byte)) ? 1 : 0))
}
