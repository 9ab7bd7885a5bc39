import { byteAt } from './bytes'

const LF: u8 = 0x0a
const CR: u32 = 0x0d

/** Returns which of the 16 bytes at `p` are LF. */
@inline
function newlines(p: usize): v128 {
  return i8x16.eq(v128.load(p), i8x16.splat(LF))
}

/**
 * Finds the lines of [start, end) that end with an LF; the first LF is at `from` or later. `columns` consists of three
 * columns in sequence: starts (i32) and ends (i32), moved by `shift`, and lengths of line ends (u8). Each has room for
 * `most` lines, which must suffice. Returns the number of lines; -1 if one is longer than `longest`. At least 64 more
 * bytes of memory must follow.
 */
export function findLines(
  start: usize,
  from: usize,
  end: usize,
  columns: usize,
  most: usize,
  longest: usize,
  shift: i32,
): i32 {
  const ends = columns + (most << 2)
  const lineEnds = ends + (most << 2)
  let line = start
  let n: usize = 0
  for (let p = from; p < end; p += 64) {
    const a = newlines(p)
    const b = newlines(p + 16)
    const c = newlines(p + 32)
    const d = newlines(p + 48)
    if (i8x16.bitmask(v128.or(v128.or(a, b), v128.or(c, d))) == 0) continue
    const low = i8x16.bitmask(a) | (i8x16.bitmask(b) << 16)
    const high = i8x16.bitmask(c) | (i8x16.bitmask(d) << 16)
    let marks = <u64>(<u32>low) | (<u64>high << 32)
    if (end - p < 64) marks &= (<u64>1 << <u64>(end - p)) - 1
    while (marks != 0) {
      const newline = p + <usize>ctz(marks)
      marks &= marks - 1
      const hasCr = <usize>(newline > line) & <usize>(byteAt(newline - 1) == CR)
      const to = newline - hasCr
      if (to - line > longest) return -1
      store<i32>(columns + (n << 2), <i32>line + shift)
      store<i32>(ends + (n << 2), <i32>to + shift)
      store<u8>(lineEnds + n, <u8>(1 + hasCr))
      n++
      line = newline + 1
    }
  }
  memory.copy(columns + (n << 2), ends, n << 2)
  memory.copy(columns + (n << 3), lineEnds, n)
  return <i32>n
}
