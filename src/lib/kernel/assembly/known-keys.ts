/** Numbers of short keys: an open-addressing table from (owner, key) to a number. When it is full, it is cleared. */

const PLACES: u32 = 8192
/**
 * An entry contains the owner (0: the entry is free), the number and, from byte 8 on, the key, padded with 0. Keys do
 * not contain 0.
 */
const ENTRY: u32 = 32
const LONGEST: u32 = 16
const MOST: u32 = PLACES / 2

/** `PLACES` entries, all 0 at first. */
let table: usize = 0
let used: u32 = 0

export function setKnown(address: usize): void {
  table = address
}

/** Keeps the first `count` bytes of a u64, and sets the others to 0. `count` is at least 1. */
@inline
function kept(bytes: u64, count: u32): u64 {
  return count >= 8 ? bytes : bytes & (u64.MAX_VALUE >> ((8 - count) << 3))
}

/** Returns the entry of a key of 1 to LONGEST bytes, or the free entry for it. */
@inline
function entryOf(owner: u32, first: u64, second: u64, hash: u32): usize {
  let place = hash
  while (true) {
    const entry = table + (place & (PLACES - 1)) * ENTRY
    const its = load<u32>(entry)
    if (its == 0) return entry
    // Nested conditions, because && would first convert the result of each comparison to a number.
    if (its == owner) {
      if (load<u64>(entry, 8) == first) if (load<u64>(entry, 16) == second) return entry
    }
    place++
  }
}

@inline
function secondOf(p: usize, size: u32): u64 {
  return size > 8 ? kept(load<u64>(p, 8), size - 8) : 0
}

/** Returns the number of the key of `size` bytes at `p`; `other` if it is not known. */
@inline
export function numberOf(owner: u32, p: usize, size: u32, hash: u32, other: i32): i32 {
  if (size > LONGEST) return other
  const entry = entryOf(owner, kept(load<u64>(p), size), secondOf(p, size), hash)
  return load<u32>(entry) == 0 ? other : load<i32>(entry, 4)
}

/** Stores the number of a non-empty key. `owner` is not 0. If a number changes, the caller must use a new owner. */
export function learnKey(owner: u32, p: usize, size: u32, hash: u32, number: i32): void {
  if (size > LONGEST) return
  if (used == MOST) {
    memory.fill(table, 0, PLACES * ENTRY)
    used = 0
  }
  const first = kept(load<u64>(p), size)
  const second = secondOf(p, size)
  const entry = entryOf(owner, first, second, hash)
  if (load<u32>(entry) != 0) return
  used++
  store<u32>(entry, owner)
  store<i32>(entry, number, 4)
  store<u64>(entry, first, 8)
  store<u64>(entry, second, 16)
}
