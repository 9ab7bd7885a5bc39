/**
 * Memory for large reads, used again: fresh memory for each would cost page faults, and a garbage collection every few
 * dozen reads. Invariants: a chunk is given out again only when everyone who held it has let go of it, each once.
 * Who never lets go does no harm: the chunk is collected like any other, and another one is made.
 */

/** A read of 256 KiB, behind the beginning of a line that the read before left unfinished. */
export const POOLED_BYTES = 272 * 1024
/** Chunks kept for later. */
const MOST_KEPT = 24

const kept: Buffer[] = []
const holders = new WeakMap<Buffer, number>()

/** A chunk of at least `size` bytes; the caller holds it. Only a large one is ever used again. */
export function takeChunk(size: number): Buffer {
  if (size > POOLED_BYTES || size < POOLED_BYTES / 2) return Buffer.allocUnsafeSlow(size)
  const chunk = kept.pop() ?? Buffer.allocUnsafeSlow(POOLED_BYTES)
  holders.set(chunk, 1)
  return chunk
}

/** One more holds the chunk. Returns what lets go of it again, to be called once; undefined: it is not used again. */
export function holdChunk(chunk: Buffer): (() => void) | undefined {
  const count = holders.get(chunk)
  if (count === undefined) return undefined
  holders.set(chunk, count + 1)
  return () => freeChunk(chunk)
}

/** The holder lets go. */
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
