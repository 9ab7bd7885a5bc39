import { closeSync, openSync, readSync } from 'node:fs'

const BLOCK = 4 * 1024 * 1024
const LF = 0x0a

function* blocks(path: string): Generator<Buffer> {
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

/** How many lines a file has, and in how many of them `text` occurs. `text` must not occur twice in a line. */
export function countLines(path: string, text: string): { lines: number; matching: number } {
  let lines = 0
  let matching = 0
  let rest: Buffer = Buffer.alloc(0)
  for (const block of blocks(path)) {
    for (let at = block.indexOf(LF); at >= 0; at = block.indexOf(LF, at + 1)) lines++
    const whole = Buffer.concat([rest, block])
    for (let at = whole.indexOf(text); at >= 0; at = whole.indexOf(text, at + text.length)) matching++
    // Too short to hold another whole one: it is only looked at for one that goes on in the next block.
    rest = Buffer.from(whole.subarray(Math.max(0, whole.length - Buffer.byteLength(text) + 1)))
  }
  return { lines, matching }
}
