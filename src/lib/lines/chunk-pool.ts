/**
 * Reuses memory for large reads: fresh memory for each would cost page faults, and a garbage collection every few dozen
 * reads. Invariants: a chunk is reused only after every holder has released it, each once. A chunk that is never
 * released does no harm: it is collected as usual, and another one is allocated.
 */

/** A read of 256 KiB after the unfinished line that the previous read left. */
export const POOLED_BYTES = 272 * 1024
/** Most chunks kept for reuse. */
const MOST_KEPT = 24

const kept: Buffer[] = []
const holders = new WeakMap<Buffer, number>()

/** Returns a chunk of at least `size` bytes, held by the caller. Only large chunks are reused. */
export function takeChunk(size: number): Buffer {
  if (size > POOLED_BYTES || size < POOLED_BYTES / 2) return Buffer.allocUnsafeSlow(size)
  const chunk = kept.pop() ?? Buffer.allocUnsafeSlow(POOLED_BYTES)
  holders.set(chunk, 1)
  return chunk
}

/** Adds a holder of the chunk. Returns its release function, to be called once; undefined if it is not reused. */
export function holdChunk(chunk: Buffer): (() => void) | undefined {
  const count = holders.get(chunk)
  if (count === undefined) return undefined
  holders.set(chunk, count + 1)
  return () => freeChunk(chunk)
}

/** Releases the chunk for one holder. */
export function freeChunk(chunk: Buffer): void {
  const count = holders.get(chunk)
  if (count === undefined) return
  if (count > 1) {
    holders.set(chunk, count - 1)
    return
  }
  holders.delete(chunk)
  if (kept.length < MOST_KEPT) kept.push(chunk)
}
