import { isAt } from '../../formats/ascii.js'
import { BEGINS, BELONGS, JOINS } from '../record-splitter.js'
import { INDENTED, marginOf, skipBlanks, startsWithAny, TEXT } from './lines.js'

/**
 * Tracebacks of Python. The head joins the line before it, because `logging.exception` prints its message before the
 * traceback. After the frames, a line at the margin names the exception. Chained tracebacks are one event.
 */

const IDLE = 0
/** Between the head and the exception. */
const FRAMES = 1
/** After the exception. */
const NAMED = 2
/** An empty line after the exception: another traceback may follow. */
const GAP = 3
/** The sentence that joins two tracebacks. */
const LINK = 4

const HEAD = Buffer.from('Traceback (most recent call last)')
const GROUP_HEAD = Buffer.from('+ Exception Group Traceback (most recent call last)')
const LINKS = [
  'During handling of the above exception, another exception occurred:',
  'The above exception was the direct cause of the following exception:',
].map(text => Buffer.from(text))

export function judgePython(state: number, b: Uint8Array, start: number, end: number): number {
  const margin = marginOf(b, start, end)
  if (margin === INDENTED) {
    if (!isAt(b, skipBlanks(b, start, end), end, GROUP_HEAD)) return BELONGS | (state << 2)
    return headVerdict(state) | (NAMED << 2)
  }
  if (margin !== TEXT) {
    if (state === LINK) return BELONGS | (LINK << 2)
    return state >= NAMED ? JOINS | (GAP << 2) : BEGINS | (IDLE << 2)
  }
  if (isAt(b, start, end, HEAD)) return headVerdict(state) | (FRAMES << 2)
  if (state === FRAMES) return BELONGS | (NAMED << 2)
  if (startsWithAny(b, start, end, LINKS)) return (state === IDLE ? JOINS : BELONGS) | (LINK << 2)
  return BEGINS | (IDLE << 2)
}

function headVerdict(state: number): number {
  return state === LINK ? BELONGS : state === IDLE ? JOINS : BEGINS
}
