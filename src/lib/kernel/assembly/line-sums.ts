/** CRC of 32 bits, 16 bytes at a time by 16 tables ("slicing", Kounavis and Berry, 2005). */

const TABLE_BYTES: usize = 1024
/** IEEE 802.3. */
const POLYNOMIAL: u32 = 0xedb88320
let lineTables: usize = 0

/** Fills 16 KiB of memory with the tables for `sumOf` and `sumLines`. */
export function setLineTables(tables: usize): void {
  lineTables = tables
  setSumTables(tables, POLYNOMIAL)
}

/** Fills 16 KiB of memory with the tables of a polynomial. */
export function setSumTables(tables: usize, polynomial: u32): void {
  for (let n: u32 = 0; n < 256; n++) {
    let sum = n
    for (let bit = 0; bit < 8; bit++) sum = (sum & 1) != 0 ? (sum >> 1) ^ polynomial : sum >> 1
    store<u32>(tables + (<usize>n << 2), sum)
  }
  for (let at = tables + TABLE_BYTES; at < tables + 16 * TABLE_BYTES; at += 4) {
    const sum = load<u32>(at - TABLE_BYTES)
    store<u32>(at, load<u32>(tables + <usize>((sum & 0xff) << 2)) ^ (sum >> 8))
  }
}

@inline
function entry(tables: usize, table: usize, byte: u32): u32 {
  return load<u32>(tables + table * TABLE_BYTES + <usize>((byte & 0xff) << 2))
}

@inline
function ofFour(tables: usize, table: usize, bytes: u32): u32 {
  const first = entry(tables, table + 3, bytes) ^ entry(tables, table + 2, bytes >> 8)
  return first ^ entry(tables, table + 1, bytes >> 16) ^ entry(tables, table, bytes >> 24)
}

/** Returns the checksum of bytes before [p, end), whose checksum is `before`, and of [p, end). */
export function sumBytes(tables: usize, p: usize, end: usize, before: u32): u32 {
  let sum = ~before
  for (; p + 16 <= end; p += 16) {
    const first = ofFour(tables, 12, load<u32>(p) ^ sum) ^ ofFour(tables, 8, load<u32>(p, 4))
    sum = first ^ ofFour(tables, 4, load<u32>(p, 8)) ^ ofFour(tables, 0, load<u32>(p, 12))
  }
  for (; p < end; p++) sum = entry(tables, 0, sum ^ <u32>load<u8>(p)) ^ (sum >> 8)
  return ~sum
}

/** Returns CRC-32. */
export function sumOf(p: usize, end: usize): u32 {
  return sumBytes(lineTables, p, end, 0)
}

/** Writes the checksum of each line to `sums`, as u32. Line i is [starts[i], ends[i]) minus `shift`. */
export function sumLines(length: u32, starts: usize, ends: usize, shift: i32, sums: usize): void {
  for (let i: usize = 0; i < <usize>length << 2; i += 4)
    store<u32>(sums + i, sumOf(<usize>(load<i32>(starts + i) - shift), <usize>(load<i32>(ends + i) - shift)))
}
