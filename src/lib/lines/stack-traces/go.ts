import { DOT, isAt, isDigit, SLASH, SPACE, TAB } from '../../formats/ascii.js'
import { BEGINS, BELONGS, JOINS } from '../record-splitter.js'
import { BLANK, INDENTED, isWord, marginOf, skipBlanks, startsWithAny } from './lines.js'

/**
 * Panics and goroutine dumps of Go, with their empty lines. A stack that the program itself logged joins the line
 * before the stack. Such a stack begins with its goroutine, or has only function names.
 */

const IDLE = 0
/** The error was printed; goroutines follow. */
const HEAD = 1
/** In the calls of a goroutine. */
const CALLS = 2
/** Between goroutines. */
const GAP = 3

const bytes = (text: string) => Buffer.from(text)
const PANICS = ['panic: ', 'fatal error: ', 'runtime: ', 'unexpected fault address ', 'SIG'].map(bytes)
const MORE_HEAD = ['fatal error: ', 'runtime: ', '[signal ', 'PC='].map(bytes)
const STACKS = ['goroutine ', 'runtime stack:'].map(bytes)
const NOT_CALLS = ['created by ', '...', '[originating from goroutine '].map(bytes)
const EXIT = bytes('exit status ')
const REGISTER = bytes('0x')

const OPEN = 0x28
const CLOSE = 0x29
const LONGEST_REGISTER = 7

export function judgeGo(state: number, b: Uint8Array, start: number, end: number): number {
  const margin = marginOf(b, start, end)
  if (margin === INDENTED) return BELONGS | (state << 2)
  if (margin === BLANK) {
    if (state === HEAD) return BELONGS | (HEAD << 2)
    return state === IDLE ? BEGINS | (IDLE << 2) : JOINS | (GAP << 2)
  }
  if (isStack(b, start, end)) return (state === IDLE ? JOINS : BELONGS) | (CALLS << 2)
  if (state === HEAD && startsWithAny(b, start, end, MORE_HEAD)) return BELONGS | (HEAD << 2)
  if (state === CALLS && (startsWithAny(b, start, end, NOT_CALLS) || isCall(b, start, end)))
    return BELONGS | (CALLS << 2)
  if (state >= CALLS && isAt(b, start, end, EXIT)) return BELONGS | (IDLE << 2)
  if (state === GAP && isRegister(b, start, end)) return BELONGS | (GAP << 2)
  if (isFunction(b, start, end)) return JOINS | (IDLE << 2)
  return BEGINS | ((startsWithAny(b, start, end, PANICS) ? HEAD : IDLE) << 2)
}

/** Whether the line is like `goroutine 1 [running]:`. */
function isStack(b: Uint8Array, start: number, end: number): boolean {
  if (!startsWithAny(b, start, end, STACKS)) return false
  return b[start] !== STACKS[0]![0] || isDigit(b[start + STACKS[0]!.length])
}

/** Whether the line is like `main.(*Server).serve(0xc000010018, {0x0, 0x0})`, with no space before the bracket. */
function isCall(b: Uint8Array, start: number, end: number): boolean {
  if (b[end - 1] !== CLOSE) return false
  let p = start
  while (p < end && b[p] !== OPEN && b[p] !== SPACE && b[p] !== TAB) p++
  return b[p] === OPEN
}

/** Whether the line is like `rax    0x0`, which the runtime prints for some signals. */
function isRegister(b: Uint8Array, start: number, end: number): boolean {
  let p = start
  while (p < end && p - start <= LONGEST_REGISTER && isWord(b[p])) p++
  const value = skipBlanks(b, p, end)
  return p > start && value > p && isAt(b, value, end, REGISTER)
}

/** Whether the line is only a function like `github.com/acme/shop.(*Cart).Add`, as error packages and zap print it. */
function isFunction(b: Uint8Array, start: number, end: number): boolean {
  let dot = -1
  for (let p = start; p < end; p++) {
    const byte = b[p]!
    if (byte <= SPACE || byte === 0x22 || byte === 0x3a || byte === 0x3d) return false
    if (byte === SLASH) dot = -1
    else if (byte === DOT && dot < 0) dot = p
  }
  return dot > start && dot < end - 1 && !isDigit(b[start]) && (isWord(b[dot + 1]) || b[dot + 1] === OPEN)
}
