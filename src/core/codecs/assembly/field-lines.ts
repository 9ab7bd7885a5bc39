import { readAccessLine } from '../web-log/assembly/access-log'
import { byteAt } from '../../../lib/kernel/assembly/bytes'
import { readCriLine } from '../cri/assembly/cri'
import { readDockerLine } from '../docker_json/assembly/docker-json'
import { beginMembers, beginSlots, copyEscaped, membersEnd, putFieldSlot } from '../../../lib/kernel/assembly/members'
import { forgetBlock } from '../../../lib/kernel/assembly/special-characters'

/**
 * Reads the fields of lines in a format, as slots or as events in JSON. Leaves rare lines to JavaScript. Line i is
 * [starts[i], ends[i]) minus `shift`; `starts` and `ends` contain i32, `flags` contains u8.
 */

const ACCESS: u32 = 0
const ACCESS_WITH_HOSTS: u32 = 1
const CRI: u32 = 2
const DOCKER_JSON: u32 = 3

const OPEN_OBJECT: u32 = 0x7b
/** Additional output bytes for each line: for field names, and for copying beyond ends. */
const MARGIN: usize = 1024
/** Maximum output per byte of a line: the line is written at most twice, and an escape takes up to six bytes. */
const MOST_PER_BYTE: usize = 12

/** The parts of events besides fields (see `setFrame`). */
let frame: usize = 0
let headBytes: usize = 0
let middleBytes: usize = 0
let endBytes: usize = 0
let hasLine = false
let lineSlot: i32 = -1
let middleSlots: usize = 0
let middleSlotCount: u32 = 0

/**
 * Sets the parts of an event that surround its fields. `bytes` holds three parts in order: the beginning, the part
 * before the fields, and the part after them. With `withLine`, the line follows the beginning, as the content of a
 * string. `slot` is the slot of that string, or -1. `slots` has three i32 for each wanted value in the part before the
 * fields: its slot, its start in that part, and its end shifted left by one. The lowest bit of the end marks a special
 * value.
 */
export function setFrame(
  bytes: usize,
  head: usize,
  middle: usize,
  end: usize,
  withLine: bool,
  slot: i32,
  slots: usize,
  slotCount: u32,
): void {
  frame = bytes
  headBytes = head
  middleBytes = middle
  endBytes = end
  hasLine = withLine
  lineSlot = slot
  middleSlots = slots
  middleSlotCount = slotCount
}

@inline
function readLine(format: u32, p: usize, end: usize): bool {
  switch (format) {
    case ACCESS:
      return readAccessLine(p, end, false)
    case ACCESS_WITH_HOSTS:
      return readAccessLine(p, end, true)
    case CRI:
      return readCriLine(p, end)
    case DOCKER_JSON:
      return readDockerLine(p, end)
    default:
      return false
  }
}

/**
 * Puts the slots of `length` lines at `out` (`stride` bytes per line), and sets `scanned` and `decoded` in their flags.
 * Clears `scanned` for lines that are rare or have a flag of `skipped`, and returns the number of these lines.
 */
export function scanFields(
  format: u32,
  length: u32,
  starts: usize,
  ends: usize,
  flags: usize,
  out: usize,
  stride: usize,
  shift: i32,
  skipped: u32,
  scanned: u32,
  decoded: u32,
): u32 {
  let left: u32 = 0
  forgetBlock()
  memory.fill(out, 0, <usize>length * stride)
  for (let i: usize = 0; i < <usize>length; i++, out += stride) {
    const flag = byteAt(flags + i)
    const start = <usize>(load<i32>(starts + (i << 2)) - shift)
    const end = <usize>(load<i32>(ends + (i << 2)) - shift)
    beginSlots(start, end, out, shift)
    if ((flag & skipped) == 0 && readLine(format, start, end)) {
      store<u8>(flags + i, <u8>(flag | scanned | decoded))
      continue
    }
    left++
    memory.fill(out, 0, stride)
    store<u8>(flags + i, <u8>(flag & ~scanned))
  }
  return left
}

/** Writes the part of an event before its fields. Returns the end of that part. */
@inline
function putBefore(p: usize, end: usize, to: usize, slots: usize, by: i32): usize {
  memory.copy(to, frame, headBytes)
  to += headBytes
  beginMembers(to, slots, by)
  if (hasLine) {
    const stop = copyEscaped(p, end, to)
    putFieldSlot(lineSlot, <i32>to - 1 + by, <i32>stop + 1 + by, stop - to != end - p)
    to = stop
  }
  memory.copy(to, frame + headBytes, middleBytes)
  for (let n: u32 = 0, slot = middleSlots; n < middleSlotCount; n++, slot += 12) {
    const special = load<i32>(slot, 8)
    putFieldSlot(load<i32>(slot), load<i32>(slot, 4) + <i32>to + by, (special >> 1) + <i32>to + by, (special & 1) != 0)
  }
  return to + middleBytes
}

/**
 * Writes the events of `length` lines in order at `to`, as many as fit before `toEnd`. `starts` and `ends` get the
 * place of each event, relative to `to`. Both are 0 for a rare line, and for a line whose `flags & asked` is not
 * `taken`. Slots are positions relative to `to`. Returns the number of lines processed.
 */
export function writeFields(
  format: u32,
  length: u32,
  starts: usize,
  ends: usize,
  flags: usize,
  asked: u32,
  taken: u32,
  slots: usize,
  stride: usize,
  shift: i32,
  to: usize,
  toEnd: usize,
): u32 {
  const first = to
  const by = -(<i32>to)
  const around = headBytes + middleBytes + endBytes + MARGIN
  forgetBlock()
  memory.fill(slots, 0, <usize>length * stride)
  for (let i: usize = 0; i < <usize>length; i++, slots += stride, starts += 4, ends += 4) {
    const start = <usize>(load<i32>(starts) - shift)
    const end = <usize>(load<i32>(ends) - shift)
    const fits = to + (end - start) * MOST_PER_BYTE + around <= toEnd
    if (!fits && to > first) return <u32>i
    store<i32>(starts, 0)
    store<i32>(ends, 0)
    if (!fits || (byteAt(flags + i) & asked) != taken) continue
    let members = putBefore(start, end, to, slots, by)
    // Each member begins with a comma. After an opening brace, the comma replaces the brace, which is restored below.
    const isFirst = byteAt(members - 1) == OPEN_OBJECT
    if (isFirst) members--
    beginMembers(members, slots, by)
    if (!readLine(format, start, end)) {
      memory.fill(slots, 0, stride)
      continue
    }
    if (isFirst) store<u8>(members, <u8>OPEN_OBJECT)
    const stop = membersEnd()
    memory.copy(stop, frame + headBytes + middleBytes, endBytes)
    store<i32>(starts, <i32>to + by)
    to = stop + endBytes
    store<i32>(ends, <i32>to + by)
  }
  return length
}
