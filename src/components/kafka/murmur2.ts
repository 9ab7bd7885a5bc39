const SEED = 0x9747b28c
const M = 0x5bd1e995
const R = 24

/** Returns the hash by which Kafka's clients choose the partition of a key, as a signed number of 32 bits. */
export function murmur2(b: Buffer, start: number, end: number): number {
  let h = SEED ^ (end - start)
  let p = start
  for (; p + 4 <= end; p += 4) {
    let k = Math.imul(b.readInt32LE(p), M)
    k = Math.imul(k ^ (k >>> R), M)
    h = Math.imul(h, M) ^ k
  }
  if (p < end) {
    for (let shift = 0; p < end; p++, shift += 8) h ^= b[p]! << shift
    h = Math.imul(h, M)
  }
  h = Math.imul(h ^ (h >>> 13), M)
  return h ^ (h >>> 15)
}
