import type { Matcher } from '../pattern.js'
import { BEGINS, BELONGS, type Joiner, JUDGED_BYTES } from './record-splitter.js'

/** Joiners that use a regular expression. The expression sees at most JUDGED_BYTES of a line. */

/** A matching line begins an event. Any other line belongs to the event before it. */
export function startsEvent(pattern: Matcher): Joiner {
  const matches = matcher(pattern)
  return { judge: (_state, bytes, start, end) => (matches(bytes, start, end) ? BEGINS : BELONGS) }
}

/** A matching line belongs to the event before it. Any other line begins an event. */
export function continuesWith(pattern: Matcher): Joiner {
  const matches = matcher(pattern)
  return { judge: (_state, bytes, start, end) => (matches(bytes, start, end) ? BELONGS : BEGINS) }
}

/** A matching line ends an event. If the line is long, the expression sees only the end of the line. */
export function endsWith(pattern: Matcher): Joiner {
  const matches = matcher(pattern)
  return {
    judge: () => BELONGS,
    ends: (bytes, start, end) => matches(bytes, Math.max(start, end - JUDGED_BYTES), end),
  }
}

function matcher(pattern: Matcher): (bytes: Buffer, start: number, end: number) => boolean {
  const first = possibleFirstBytes(pattern)
  if (!first) return (bytes, start, end) => pattern.test(bytes.toString('utf8', start, end))
  // The first byte of most lines shows that they do not match, so that they need not be decoded.
  return (bytes, start, end) =>
    start < end && first[bytes[start]!] === 1 && pattern.test(bytes.toString('utf8', start, end))
}

/** Matches an expression that begins with `^` and one mandatory character or class, and has no alternatives. */
const ANCHORED = /^\^(\\[dDwWsStnr\][.^$*+?(){}|/\\-]|\[(?:[^\\[\]]|\\.)+\]|[^\\[\].^$*+?(){}|])(?![?*]|\{0)([^|]*)$/u

/** Returns a table of the bytes with which a matching line can begin; undefined if all bytes can, or if unclear. */
export function possibleFirstBytes(pattern: Matcher): Uint8Array | undefined {
  const atom = pattern.flags === 'u' ? ANCHORED.exec(pattern.source)?.[1] : undefined
  if (atom === undefined) return undefined
  const alone = new RegExp(`^${atom}`, 'u')
  return Uint8Array.from({ length: 256 }, (_, byte) => (byte > 0x7f || alone.test(String.fromCharCode(byte)) ? 1 : 0))
}
