/**
 * The memory of bodies, used again: fresh memory for each would cost a garbage collection every few dozen bodies. What
 * is never given back does no harm: it is collected as usual.
 */

/** Smaller buffers are not kept. */
const LEAST_BYTES = 16 * 1024
/** Of buffers that nobody uses. */
const MOST_KEPT_BYTES = 8 * 1024 * 1024

/** By size. */
const kept = new Map<number, Buffer[]>()
let keptBytes = 0

/** The size of a buffer for at least `bytes`: a quarter more at most, so that there are few sizes, and it fits others. */
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

/** Gives back a whole buffer of `takeBody` that nobody will read or write any more. To be called once. */
export function freeBody(buffer: Buffer): void {
  const { length } = buffer
  if (length < LEAST_BYTES || length !== bodyRoom(length) || keptBytes + length > MOST_KEPT_BYTES) return
  keptBytes += length
  const same = kept.get(length)
  if (same) same.push(buffer)
  else kept.set(length, [buffer])
}
