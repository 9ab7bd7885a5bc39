import { closeSync, openSync, readSync } from 'node:fs'
import { APPS, EXCLUDED_HOST, type Input } from './input.js'

const BLOCK = 4 * 1024 * 1024
const LF = 0x0a
const QUOTE = 0x22
export const EXCLUDED = `"host":"${EXCLUDED_HOST}"`
const APP = '"app":"'

/** The bytes of a file; each block is only valid until the next one is asked for. */
export function* blocks(path: string): Generator<Buffer> {
  const file = openSync(path, 'r')
  const block = Buffer.allocUnsafe(BLOCK)
  try {
    for (;;) {
      let length = 0
      for (let read; length < BLOCK && (read = readSync(file, block, length, BLOCK - length, null)) > 0; )
        length += read
      if (length === 0) return
      yield block.subarray(0, length)
    }
  } finally {
    closeSync(file)
  }
}

/** Whether two files have the same bytes. */
export function sameBytes(a: string, b: string): boolean {
  const others = blocks(b)
  for (const block of blocks(a)) {
    const other = others.next()
    if (other.done || !block.equals(other.value)) {
      others.return(undefined)
      return false
    }
  }
  return others.next().done === true
}

/** Calls `take` with each line of a file, without its line end; the bytes are only valid during the call. */
export function eachLine(path: string, take: (line: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0)
  for (const block of blocks(path)) {
    const whole = rest.length === 0 ? block : Buffer.concat([rest, block])
    let begin = 0
    for (let end = whole.indexOf(LF); end >= 0; end = whole.indexOf(LF, begin)) {
      take(whole.subarray(begin, end))
      begin = end + 1
    }
    rest = Buffer.from(whole.subarray(begin))
  }
  if (rest.length > 0) take(rest)
}

/** Throws unless `found` is between the bounds. */
export function expect(what: string, found: number, from: number, to = from): void {
  if (found >= from && found <= to) return
  throw new Error(`${what}: ${found}, not ${from === to ? from : `between ${from} and ${to}`}`)
}

/** Throws unless every excluded line passed, and of each app at most `limit` lines in each of so many windows. */
export function checkThrottled(path: string, input: Input, limit: number, windows: number): void {
  const passed = new Map<string, number>()
  let excluded = 0
  let limited = 0
  eachLine(path, line => {
    if (line.includes(EXCLUDED)) {
      excluded++
      return
    }
    limited++
    const app = textAfter(line, APP)
    passed.set(app, (passed.get(app) ?? 0) + 1)
  })
  expect('excluded lines', excluded, input.excluded)
  for (const [app, lines] of passed) expect(`lines of ${app}`, lines, 0, limit * windows)
  // The first window of every app lets its limit through, if there are that many.
  expect('limited lines', limited, Math.min(input.lines - input.excluded, APPS * limit) * 0.5, input.lines)
}

/** The text between `before` and the next quotation mark; empty when `before` is not in the line. */
export function textAfter(line: Buffer, before: string): string {
  const at = line.indexOf(before)
  if (at < 0) return ''
  const begin = at + before.length
  return line.toString('latin1', begin, line.indexOf(QUOTE, begin))
}
