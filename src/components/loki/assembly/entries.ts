import { copyBytes, putHead, sizeOfGroups } from '../../../lib/kernel/assembly/numbers'

/**
 * Writes lines as entries of a push request in protobuf, with the same results as ../push-request.ts. Line i is [starts[i],
 * ends[i]) minus `shift`. Its time is `seconds[i]` (u32, of 10 digits) and `nanos[i]` (u32).
 */

const ENTRY_TAG: u8 = 0x12
const TIME_TAG: u8 = 0x0a
const SECONDS_TAG: u8 = 0x08
const NANOS_TAG: u8 = 0x10
const LINE_TAG: u8 = 0x12
/** Bytes of a time in protobuf, without its nanoseconds. Seconds of 10 digits take 5 bytes. */
const TIME_BYTES: usize = 7

/** Returns the end of the entries. */
export function writeEntries(
  length: u32,
  starts: usize,
  ends: usize,
  shift: i32,
  seconds: usize,
  nanos: usize,
  to: usize,
): usize {
  for (let i: usize = 0; i < <usize>length; i++) {
    const start = load<i32>(starts + (i << 2))
    const size = <usize>(load<i32>(ends + (i << 2)) - start)
    const nano = load<u32>(nanos + (i << 2))
    const time = TIME_BYTES + (nano < 0x80 ? 1 : nano < 0x4000 ? 2 : nano < 0x20_0000 ? 3 : nano < 0x1000_0000 ? 4 : 5)
    to = putHead(to, ENTRY_TAG, 2 + time + 1 + sizeOfGroups(size) + size)
    to = putHead(to, TIME_TAG, time)
    to = putHead(to, SECONDS_TAG, load<u32>(seconds + (i << 2)))
    to = putHead(to, NANOS_TAG, nano)
    to = putHead(to, LINE_TAG, size)
    copyBytes(<usize>(start - shift), size, to)
    to += size
  }
  return to
}
