import { Byte, byteAt } from './bytes'
import { BEHIND, ELEMENTS } from './json-heads'

/**
 * The open containers (objects and arrays) of a line of JSON. An empty container closes at once and is not one of them.
 */

/** Maximum number of nested containers inside the outermost object. The kernel does not check deeper lines. */
export const MOST_NESTED: u32 = 1024

/** Two u32 for each open container, the outermost first: its closing bracket, and the head of its member. */
const open: usize = __heap_base
export const OPEN_BYTES: usize = 8 * (<usize>MOST_NESTED + 1)
const HEAD: usize = 4
/** Number of open containers inside the outermost. */
export let depth: u32 = 0
/** The address of the slot of the wanted member whose value is open; 0 if no such value is open. */
let openSlot: usize = 0

/** Whether the line has containers inside the outermost. */
let entered = false

// The outermost container of every line is an object.
store<u32>(open, Byte.CLOSE_OBJECT)

/** Begins a line, in its outermost object. Returns whether the previous line had other containers. */
@inline
export function enterLine(): bool {
  if (!entered) return false
  entered = false
  depth = 0
  openSlot = 0
  return true
}

/** Returns the closing bracket of the open container at nesting level `level`. */
@inline
export function closerAt(level: u32): u32 {
  return load<u32>(open + (<usize>level << 3))
}

/** Returns the head of the innermost open member. Its value is the innermost open container, or contains it. */
@inline
export function openHead(): usize {
  return <usize>load<u32>(open + (<usize>depth << 3), HEAD)
}

/**
 * Opens a container that ends with the byte `closer`; there must be room for it. `head`: the entry of its member.
 * `slot`: the address of the member's slot in the line's results, where `start` is stored; 0: none. Returns the entry
 * before the container's first member or element.
 */
@inline
export function enter(closer: u32, head: usize, slot: usize, start: i32): usize {
  if (slot) {
    store<i32>(slot, load<i32>(slot) != 0 ? 1 : 0, 4)
    store<i32>(slot, start)
    openSlot = slot
  }
  depth++
  entered = true
  const at = open + (<usize>depth << 3)
  store<u32>(at, closer)
  store<u32>(at, <u32>head, HEAD)
  return closer == Byte.CLOSE_OBJECT ? head : ELEMENTS
}

/** Closes containers deeper than `level`; their outermost one ends at `end`. Returns the entry before the next head. */
@inline
export function leave(level: u32, end: i32): usize {
  const head = <usize>load<u32>(open + (<usize>(level + 1) << 3), HEAD)
  depth = level
  if (level == 0 && openSlot) {
    store<i32>(openSlot, (end << 1) | load<i32>(openSlot, 4), 4)
    openSlot = 0
  }
  return closerAt(level) == Byte.CLOSE_OBJECT ? head + BEHIND : ELEMENTS
}

/** Skips the white space of JSON. Checks for `end`, because the line end after the text is also white space. */
export function skipJsonSpace(p: usize, end: usize): usize {
  while (p < end) {
    const byte = byteAt(p)
    if (byte != 0x20 && byte != 0x09 && byte != 0x0d && byte != 0x0a) break
    p++
  }
  return p
}
