/** Numbers in groups of 7 bits, lowest first; the highest bit of a byte says that another follows. */

@inline
export function sizeOfGroups(value: usize): usize {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : 3
}

@inline
export function putGroups(to: usize, value: u64): usize {
  while (value >= 0x80) {
    store<u8>(to++, <u8>(value | 0x80))
    value >>= 7
  }
  store<u8>(to, <u8>value)
  return to + 1
}

@inline
export function putHead(to: usize, tag: u8, size: usize): usize {
  store<u8>(to, tag)
  return putGroups(to + 1, size)
}

/** Copies at least `length` bytes, 16 at a time. If `p` and `to` overlap, `to` must be at least 16 bytes before `p`. */
@inline
export function copyBytes(p: usize, length: usize, to: usize): void {
  for (let copied: usize = 0; copied < length; copied += 16) v128.store(to + copied, v128.load(p + copied))
}
