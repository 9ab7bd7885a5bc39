/**
 * Reuses the memory of bodies: fresh memory for each would cost a garbage collection every few dozen bodies. Buffers
 * that are not returned are collected as usual.
 */

/** Smaller buffers are not kept. */
const LEAST_BYTES = 16 * 1024
/** Maximum bytes of unused buffers. */
const MOST_KEPT_BYTES = 8 * 1024 * 1024

/** By size. */
const kept = new Map<number, Buffer[]>()
let keptBytes = 0

/** The size of a buffer for at least `bytes`: at most a quarter more. There are few sizes, which helps reuse. */
export function bodyRoom(bytes: number): number {
  if (bytes < LEAST_BYTES) return bytes
  const step = 2 ** Math.floor(Math.log2(bytes)) / 4
  return Math.ceil(bytes / step) * step
}

/** Returns a buffer of `room` bytes, see `bodyRoom`. */
export function takeBody(room: number): Buffer {
  const buffer = kept.get(room)?.pop()
  if (!buffer) return Buffer.allocUnsafeSlow(room)
  keptBytes -= room
  return buffer
}

/** Returns a whole buffer of `takeBody`. Call it once, when nobody will read or write the buffer any more. */
export function freeBody(buffer: Buffer): void {
  const { length } = buffer
  if (length < LEAST_BYTES || length !== bodyRoom(length) || keptBytes + length > MOST_KEPT_BYTES) return
  keptBytes += length
  const same = kept.get(length)
  if (same) same.push(buffer)
  else kept.set(length, [buffer])
}
