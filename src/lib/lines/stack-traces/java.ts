import { COLON, DOT, isAt, isDigit } from '../../formats/ascii.js'
import { BEGINS, BELONGS, JOINS } from '../record-splitter.js'
import { endsWithAny, INDENTED, isUpper, isWord, marginOf, startsWithAny, TEXT } from './lines.js'

/**
 * Stack traces of the JVM. A line at the margin that begins with the name of an exception joins the line before it,
 * because logging libraries print the exception after the message. Frames, causes and all other indented lines also
 * join that line.
 */

const IDLE = 0
const TRACE = 1

const LINKS = ['Caused by: ', 'Suppressed: ', 'Wrapped by: '].map(text => Buffer.from(text))
const UNCAUGHT = Buffer.from('Exception in thread "')
const MORE = Buffer.from('... ')
const KINDS = ['Exception', 'Error', 'Throwable', 'Failure'].map(text => Buffer.from(text))

export function judgeJava(state: number, b: Uint8Array, start: number, end: number): number {
  const margin = marginOf(b, start, end)
  if (margin === INDENTED) return BELONGS | (TRACE << 2)
  // A message may contain empty lines.
  if (margin !== TEXT) return state === TRACE ? JOINS | (TRACE << 2) : BEGINS | (IDLE << 2)
  if (startsWithAny(b, start, end, LINKS)) return BELONGS | (TRACE << 2)
  if (isAt(b, start, end, MORE) && isDigit(b[start + MORE.length])) return BELONGS | (TRACE << 2)
  if (isThrowable(b, start, end)) return JOINS | (TRACE << 2)
  return BEGINS | ((isAt(b, start, end, UNCAUGHT) ? TRACE : IDLE) << 2)
}

/** Whether the line is like `java.lang.IllegalStateException: message`: a qualified name, alone or before a colon. */
function isThrowable(b: Uint8Array, start: number, end: number): boolean {
  if (isDigit(b[start])) return false
  let p = start
  let last = start
  for (; p < end && (isWord(b[p]) || b[p] === DOT); p++) if (b[p] === DOT) last = p + 1
  if (last === start || (p < end && b[p] !== COLON)) return false
  return isUpper(b[last]) && endsWithAny(b, last, p, KINDS)
}
