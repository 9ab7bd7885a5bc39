/**
 * Finds the ends of JSON strings by their special characters: quotes, backslashes and control characters. Reads 64
 * bytes at a time, so 64 more bytes of memory must follow the text.
 */

/**
 * The address of the current block of 64 bytes, and a bit for each special character in the block (see `specialsOf16`).
 */
export let block: usize = 0
let specials: u64 = 0

/** Forgets the current block. Call it when bytes at these addresses have changed. */
@inline
export function forgetBlock(): void {
  block = 0
}

/** Returns a bit for each quote, backslash and control character of the 16 bytes at `p`. */
@inline
function specialsOf16(p: usize): u64 {
  const bytes = v128.load(p)
  const quotes = i8x16.eq(bytes, i8x16.splat(0x22))
  const backslashes = i8x16.eq(bytes, i8x16.splat(0x5c))
  const controls = i8x16.eq(bytes, i8x16.min_u(bytes, i8x16.splat(0x1f)))
  return <u64>(<u32>i8x16.bitmask(v128.or(v128.or(quotes, backslashes), controls)))
}

@inline
function specialsOf64(p: usize): u64 {
  return (
    specialsOf16(p) | (specialsOf16(p + 16) << 16) | (specialsOf16(p + 32) << 32) | (specialsOf16(p + 48) << 48)
  )
}

/** Returns the address of the first quote, backslash or control character from `p` on. */
@inline
export function plainEnd(p: usize): usize {
  const at = p - block
  if (at < 64) {
    const rest = specials >> <u64>at
    if (rest != 0) return p + <usize>ctz(rest)
  }
  return plainEndBeyond(p)
}

/** Continues `plainEnd` beyond the current block. The block of the result becomes the current one. */
function plainEndBeyond(p: usize): usize {
  let marks = p - block < 64 ? 0 : marksFrom(p)
  if (marks == 0) marks = marksBeyond()
  return block + <usize>ctz(marks)
}

/** Returns a bit for each special character in the current block from `p` on. If `p` is outside, begins a block. */
export function marksFrom(p: usize): u64 {
  const at = p - block
  if (at < 64) return (specials >> <u64>at) << <u64>at
  block = p
  specials = specialsOf64(p)
  return specials
}

/** Goes to the next block that has special characters, and returns the bits of these characters. */
export function marksBeyond(): u64 {
  let next = block + 64
  let found = specialsOf64(next)
  while (found == 0) {
    next += 64
    found = specialsOf64(next)
  }
  block = next
  specials = found
  return found
}
