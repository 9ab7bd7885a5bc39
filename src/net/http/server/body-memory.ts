/**
 * Reuses the memory of bodies. New memory for each body would cost a garbage collection every few dozen bodies. The
 * garbage collector frees buffers that are not given back.
 */

/** Smaller buffers are not kept. */
const LEAST_BYTES = 16 * 1024
/** Maximum total bytes of unused buffers. */
const MOST_KEPT_BYTES = 8 * 1024 * 1024

/** Unused buffers by size. */
const kept = new Map<number, Buffer[]>()
let keptBytes = 0

/** Rounds `bytes` up by at most a quarter. There are only few resulting sizes, so that buffers can be reused. */
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

/** Takes back a whole buffer from `takeBody`. Call it once, when the buffer is no longer read or written. */
export function freeBody(buffer: Buffer): void {
  const { length } = buffer
  if (length < LEAST_BYTES || length !== bodyRoom(length) || keptBytes + length > MOST_KEPT_BYTES) return
  keptBytes += length
  const same = kept.get(length)
  if (same) same.push(buffer)
  else kept.set(length, [buffer])
}
