import { COLON, isAt, isDigit, SPACE } from '../../formats/ascii.js'
import { BEGINS, BELONGS, JOINS } from '../record-splitter.js'
import { BLANK, INDENTED, marginOf, skipBlanks, startsWithAny } from './lines.js'

/**
 * Errors of Node.js with their frames, properties and causes. The report of an uncaught error also has, in this order,
 * its place, the source line, the mark below that line, and an empty line before the error.
 */

const IDLE = 0
/** `/srv/app.js:10`: the source line follows. */
const PLACE = 1
const SOURCE = 2
/** The `^` below the source line. */
const MARK = 3
/** After the empty line that follows the mark. The next line is the error. */
const GAP = 4
const REPORT = 5
/** After an empty line that follows the report. The next line may be the version of Node.js. */
const END = 6

const bytes = (text: string) => Buffer.from(text)
const PLACES = ['/', 'file:///', 'node:', 'webpack:'].map(bytes)
const CAUSES = ['Caused by: ', 'From previous event:'].map(bytes)
const UNCAUGHT = bytes('Uncaught:')
const IN_REPORT = ['Emitted ', 'Thrown at:', '(Use `node --trace-'].map(bytes)
const VERSION = bytes('Node.js v')

const CARET = 0x5e
const BRACKETS = new Set(Buffer.from('}])'))
const BEHIND_BRACKETS = new Set(Buffer.from('}]),; {['))

export function judgeNode(state: number, b: Uint8Array, start: number, end: number): number {
  const margin = marginOf(b, start, end)
  if (margin === BLANK) return judgeBlank(state)
  if (state === PLACE) return BELONGS | (SOURCE << 2)
  if (state === SOURCE && isMark(b, start, end)) return BELONGS | (MARK << 2)
  if (margin === INDENTED) return BELONGS | ((state >= GAP ? REPORT : IDLE) << 2)
  if (state === MARK || state === GAP) return BELONGS | ((isAt(b, start, end, UNCAUGHT) ? GAP : REPORT) << 2)
  if (startsWithAny(b, start, end, CAUSES) || isClosing(b, start, end))
    return BELONGS | ((state === REPORT ? REPORT : IDLE) << 2)
  if (state >= REPORT) {
    if (startsWithAny(b, start, end, IN_REPORT)) return BELONGS | (REPORT << 2)
    if (isAt(b, start, end, VERSION)) return BELONGS | (IDLE << 2)
  }
  return BEGINS | ((isPlace(b, start, end) ? PLACE : IDLE) << 2)
}

function judgeBlank(state: number): number {
  if (state === MARK || state === GAP) return BELONGS | (GAP << 2)
  return state >= REPORT ? JOINS | (END << 2) : BEGINS | (IDLE << 2)
}

/** Whether the line is only `^` or `^^^^^`, at any column. */
function isMark(b: Uint8Array, start: number, end: number): boolean {
  const first = skipBlanks(b, start, end)
  let p = first
  while (p < end && b[p] === CARET) p++
  return p > first && skipBlanks(b, p, end) === end
}

/** Whether the line is only closing brackets: the end of properties that were printed over several lines. */
function isClosing(b: Uint8Array, start: number, end: number): boolean {
  if (!BRACKETS.has(b[start]!)) return false
  for (let p = start + 1; p < end; p++) if (!BEHIND_BRACKETS.has(b[p]!)) return false
  return true
}

/** Whether the line is a path or URL, a colon and a line number. */
function isPlace(b: Uint8Array, start: number, end: number): boolean {
  let p = end
  while (p > start && isDigit(b[p - 1])) p--
  if (p === end || b[p - 1] !== COLON) return false
  const windows = b[start + 1] === COLON && b[start + 2] === 0x5c
  if (!windows && !startsWithAny(b, start, end, PLACES)) return false
  while (p > start && b[p - 1] !== SPACE) p--
  return p === start
}
