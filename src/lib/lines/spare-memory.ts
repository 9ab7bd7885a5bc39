/** Memory that is free, by its size: what lives longer than young objects do is freed late by the garbage collector. */

/** So many bytes are kept. */
const MOST_BYTES = 4 * 1024 * 1024

const spare = new Map<number, ArrayBuffer[]>()
let bytes = 0

/** At least so many bytes, with any content; at most a fourth more, but not in steps of less than 256 bytes. */
export function takeMemory(least: number): ArrayBuffer {
  const step = 2 ** Math.max(8, Math.floor(Math.log2(least)) - 2)
  const size = Math.ceil(least / step) * step
  const memory = spare.get(size)?.pop()
  if (!memory) return new ArrayBuffer(size)
  bytes -= size
  return memory
}

/** Nobody uses it any more. */
export function giveMemory(memory: ArrayBuffer): void {
  const { byteLength: size } = memory
  if (bytes + size > MOST_BYTES) return
  bytes += size
  const others = spare.get(size)
  if (others) others.push(memory)
  else spare.set(size, [memory])
}
