import { Byte, byteAt } from './bytes'

/**
 * Programs write the same members in the same order, line after line. This module remembers the heads of members, and
 * which heads followed each of them. A head is the bytes from the comma or brace before a member to the first byte of
 * its value. It includes an opening quote, brace or bracket. The comma or brace is not stored, so the caller compares
 * it.
 *
 * If the bytes of a line equal a remembered head, they are valid and their name is known, so they are not checked
 * again. A head may come from any earlier line. It contains no control characters, so bytes that equal it never reach
 * past the end of their line.
 */

/**
 * An entry takes 64 bytes. It contains, in order:
 * - 32 bytes for the head,
 * - a mask for the first 16 of these bytes (u32, all higher bits set), and a mask for the others (u16), both with a bit
 *   for each byte that is not part of the head,
 * - the number of bytes before the value, and a kind (2 u8),
 * - the slot of the name, or -1 (i32),
 * - two entries that followed this entry, the newer one first (2 u32),
 * - two entries that followed its value, if the value is a container (2 u32).
 */
const ENTRY: usize = 64
const NOT_FIRST: usize = 32
const NOT_SECOND: usize = 36
export const BEFORE_VALUE: usize = 38
export const KIND: usize = 39
export const HEAD_SLOT: usize = 40
export const NEWER: usize = 44
export const OLDER: usize = 48
/** If it is added to an entry's address, NEWER and OLDER find the entries that followed the entry's value. */
export const BEHIND: usize = 8

/** Bits of a kind. STRING, OBJECT and ARRAY: the type of the value. LONG: the head has more than 16 bytes. */
export const STRING: u32 = 1
export const LONG: u32 = 2
export const OBJECT: u32 = 4
export const ARRAY: u32 = 8

const LONGEST: u32 = 32
const ENTRIES: u32 = 128
/** Maximum probes per lookup. */
const PROBES: u32 = 4

/** Stands for the previous head if there is none (before a line's first member), or if it is not remembered. */
export const OUTSIDE: usize = memory.data(<i32>(ENTRY * <usize>(ENTRIES + 1)), 16)

/**
 * Elements of arrays have no names. Their heads have two entries of their own: ELEMENTS for the quote of a string, and
 * OBJECTS for the brace of an object. Only these two come after an element. They never come after the head of a member.
 * An array therefore never expects a name, and an object never expects a value without a name. The previous head of
 * every element is ELEMENTS, whatever precedes the element.
 */
export const ELEMENTS: usize = memory.data(<i32>(ENTRY * 2), 16)
export const OBJECTS: usize = ELEMENTS + ENTRY
setElement(ELEMENTS, Byte.QUOTE, STRING)
setElement(OBJECTS, Byte.OPEN_OBJECT, OBJECT)

function setElement(entry: usize, byte: u32, kind: u32): void {
  store<u8>(entry, <u8>byte)
  store<u32>(entry, ~1, NOT_FIRST)
  store<u8>(entry, <u8>kind, KIND)
  store<i32>(entry, -1, HEAD_SLOT)
  store<u32>(entry, <u32>ELEMENTS, NEWER)
  store<u32>(entry, <u32>OBJECTS, OLDER)
}

/** How many heads of the line follow a head that they did not follow recently. */
let surprises: u32 = 0
/** Number of consecutive lines in which `surprises` reached SURPRISES. */
let surprised: u32 = 0
const SURPRISES: u32 = 3
/** When `surprised` reaches this number, the lookup is suspended for FORGONE lines. */
const MOST_SURPRISED: u32 = 8
const FORGONE: u32 = 2048
let forgone: u32 = 0

@inline
function entryAt(i: u32): usize {
  return OUTSIDE + ENTRY * <usize>(1 + i % ENTRIES)
}

/** Forgets all heads, since their slots have changed. */
export function forgetHeads(): void {
  memory.fill(OUTSIDE, 0, ENTRY * <usize>(ENTRIES + 1))
  forgone = 0
  surprised = 0
  for (let i: usize = 0; i <= <usize>ENTRIES; i++) {
    const entry = OUTSIDE + i * ENTRY
    // Text never contains this byte, so no text matches a free entry.
    store<u8>(entry, 0xff)
    store<u32>(entry, 0xffff0000, NOT_FIRST)
    for (let to = entry; to <= entry + BEHIND; to += BEHIND) {
      store<u32>(to, <u32>OUTSIDE, NEWER)
      store<u32>(to, <u32>OUTSIDE, OLDER)
    }
  }
}

/** Whether to look up heads in this line. The lookup is suspended while lines have nothing in common. */
@inline
export function isWorthLooking(): bool {
  if (forgone > 0) {
    forgone--
    return false
  }
  surprised = surprises >= SURPRISES ? surprised + 1 : 0
  surprises = 0
  if (surprised < MOST_SURPRISED) return true
  forgone = FORGONE
  return false
}

/** Whether the bytes at `p` equal the first 16 bytes of the head, or the whole head if it is shorter. */
@inline
export function beginsWith(p: usize, entry: usize): bool {
  return (i8x16.bitmask(i8x16.eq(v128.load(p), v128.load(entry))) | load<i32>(entry, NOT_FIRST)) == -1
}

/** For a head of more than 16 bytes: whether the bytes after the first 16 are at `p + 16`. */
@inline
export function goesOnWith(p: usize, entry: usize): bool {
  return (i8x16.bitmask(i8x16.eq(v128.load(p, 16), v128.load(entry, 16))) | <i32>load<u16>(entry, NOT_SECOND)) == 0xffff
}

@inline
function controlsOf16(p: usize): u32 {
  const bytes = v128.load(p)
  return <u32>i8x16.bitmask(i8x16.eq(bytes, i8x16.min_u(bytes, i8x16.splat(0x1f))))
}

/**
 * Remembers the head at `p`, and that it followed the head `before`. `value`: where the member's value begins. Returns
 * the entry of the head; OUTSIDE: it cannot be remembered.
 */
export function rememberHead(p: usize, value: usize, slot: i32, before: usize): usize {
  const byte = byteAt(value)
  const kind = byte == Byte.QUOTE ? STRING : byte == Byte.OPEN_OBJECT ? OBJECT : byte == Byte.OPEN_ARRAY ? ARRAY : 0
  const length = <u32>(value - p) + <u32>(kind != 0)
  if (length > LONGEST) return OUTSIDE
  const others = length == LONGEST ? 0 : ~0 << length
  if ((controlsOf16(p) | (controlsOf16(p + 16) << 16)) & ~others) return OUTSIDE
  const entry = entryFor(p, length, others)
  v128.store(entry, v128.load(p))
  v128.store(entry, v128.load(p, 16), 16)
  store<u32>(entry, others | 0xffff0000, NOT_FIRST)
  store<u16>(entry, <u16>(others >> 16), NOT_SECOND)
  store<u8>(entry, <u8>(value - p), BEFORE_VALUE)
  store<u8>(entry, <u8>(kind | (length > 16 ? LONG : 0)), KIND)
  store<i32>(entry, slot, HEAD_SLOT)
  if (load<u32>(before, NEWER) != <u32>entry) {
    if (load<u32>(before, OLDER) != <u32>entry) surprises++
    store<u32>(before, load<u32>(before, NEWER), OLDER)
    store<u32>(before, <u32>entry, NEWER)
  }
  return entry
}

/**
 * Returns the entry for the head of `length` bytes at `p`. If there is no entry, returns a free entry or one to
 * replace.
 */
function entryFor(p: usize, length: u32, others: u32): usize {
  const first = load<u64>(p)
  const some = length < 8 ? first << <u64>(64 - 8 * length) : first + 3 * load<u64>(p + <usize>length - 8)
  const hash = <u32>((some * 0x9e3779b97f4a7c15) >> 32)
  for (let i: u32 = 0; i < PROBES; i++) {
    const entry = entryAt(hash + i)
    if (!load<u8>(entry, BEFORE_VALUE)) return entry
    const isSame = load<u32>(entry, NOT_FIRST) == (others | 0xffff0000) && <u32>load<u16>(entry, NOT_SECOND) == others >> 16
    if (isSame && beginsWith(p, entry) && goesOnWith(p, entry)) return entry
  }
  return entryAt(hash)
}
