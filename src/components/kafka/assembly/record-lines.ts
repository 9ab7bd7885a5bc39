import { copyBytes, putGroups } from '../../../lib/kernel/assembly/numbers'

/**
 * Writes lines as the values of records without keys, with the same results as ../records.ts. Line i is [starts[i],
 * ends[i]) minus `shift`; its time is `deltas[i]` (i32) milliseconds after the first record.
 */

/** The length of a key that is missing: -1. */
const NO_KEY: u8 = 1

@inline
function sizeOf(value: u32): u32 {
  return (38 - clz(value | 1)) / 7
}

/** `offset`: the number of the first record. `headers`: what follows each value. Returns the end of the records. */
export function writeKafkaRecords(
  length: u32,
  starts: usize,
  ends: usize,
  shift: i32,
  deltas: usize,
  offset: u32,
  headers: usize,
  headersSize: u32,
  to: usize,
): usize {
  for (let i: u32 = 0; i < length; i++) {
    const at = <usize>i << 2
    const start = load<i32>(starts + at)
    const size = <u32>(load<i32>(ends + at) - start)
    const delta = load<i32>(deltas + at)
    const time = <u32>((delta << 1) ^ (delta >> 31))
    const number = (offset + i) << 1
    to = putGroups(to, (2 + sizeOf(time) + sizeOf(number) + sizeOf(size << 1) + size + headersSize) << 1)
    store<u8>(to, 0)
    to = putGroups(putGroups(to + 1, time), number)
    store<u8>(to, NO_KEY)
    to = putGroups(to + 1, size << 1)
    copyBytes(<usize>(start - shift), size, to)
    copyBytes(headers, headersSize, to + size)
    to += size + headersSize
  }
  return to
}
