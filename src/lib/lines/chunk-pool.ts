import { CHUNK_BYTES, chunkAt, isInChunkMemory, MOST_CHUNKS } from './chunk-memory.js'

const REUSED_BYTES = CHUNK_BYTES / 4
/** Maximum number of chunks outside the shared memory that are kept for reuse. */
const MOST_KEPT = 24

const free: Buffer[] = []
const kept: Buffer[] = []
const holders = new WeakMap<Buffer, number>()
/** For each chunk in use: the memory that `numbersFor` returned for this chunk. */
const numbersOf = new WeakMap<Buffer, ArrayBuffer[]>()
/** Number of chunks of the shared memory that were taken at least once. */
let used = 0

/** An area has the size of this many chunks, because events with fields as JSON are longer than their lines. */
const AREA_CHUNKS = 4
/** Areas take at most half of the shared memory. */
const MOST_AREAS = MOST_CHUNKS / 2 / AREA_CHUNKS
const freeAreas: Buffer[] = []
const areasOf = new WeakMap<Buffer, Buffer[]>()
/** Number of areas that were taken at least once. Areas are taken from the end of the shared memory. */
let usedAreas = 0

/** Returns a chunk of at least `size` bytes, with the caller as holder. Only large chunks are reused. */
export function takeChunk(size: number): Buffer {
  if (size > CHUNK_BYTES || size < REUSED_BYTES) return Buffer.allocUnsafeSlow(size)
  const chunk = free.pop() ?? unused() ?? kept.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES)
  holders.set(chunk, 1)
  return chunk
}

function unused(): Buffer | undefined {
  return used + usedAreas * AREA_CHUNKS < MOST_CHUNKS ? chunkAt(used++) : undefined
}

/**
 * Returns an area of at least `size` bytes in the shared memory, for texts about lines of the chunk. The area is reused
 * when the chunk is free. Returns undefined if `size` is too small or too large, if the chunk is not reused, or if all
 * areas are in use.
 */
export function areaFor(chunk: Buffer, size: number): Buffer | undefined {
  if (size < REUSED_BYTES || size > AREA_CHUNKS * CHUNK_BYTES || !holders.has(chunk)) return undefined
  const area = freeAreas.pop() ?? unusedArea()
  if (area) areasOf.set(chunk, [...(areasOf.get(chunk) ?? []), area])
  return area
}

function unusedArea(): Buffer | undefined {
  if (usedAreas === MOST_AREAS || used + (usedAreas + 1) * AREA_CHUNKS > MOST_CHUNKS) return undefined
  return chunkAt(MOST_CHUNKS - ++usedAreas * AREA_CHUNKS, AREA_CHUNKS)
}

/** Smaller portions of a stream get memory of their own size. */
const LARGE_PORTION_BYTES = 16 * 1024

/** Returns the room to take for a portion of a stream. A large portion gets memory that is reused. */
export function roomForPortion(bytes: number): number {
  return bytes < LARGE_PORTION_BYTES ? bytes : Math.max(bytes, REUSED_BYTES)
}

/** Size of the pages of memory and the file cache. */
export const PAGE_BYTES = 4096

/** Returns how many new bytes, at most `bytes`, to add to `pending`. If possible, the sum fits into a reused chunk. */
export function portionAfter(pending: number, bytes: number): number {
  const most = CHUNK_BYTES - PAGE_BYTES
  return pending < most / 2 ? Math.min(bytes, most - pending) : bytes
}

/**
 * Whether `pending` bytes take so little of their chunk that they should move to memory of their own size. False if the
 * next small portion would bring these bytes back to a reused chunk, so that every small portion would cost a copy.
 */
export function isMostlyFree(chunk: Buffer, pending: number): boolean {
  return pending * 4 < chunk.length && (pending * 2 < REUSED_BYTES || !holders.has(chunk))
}

/** Adds a chunk holder. Returns a function to call once for the release; undefined if the chunk is not reused. */
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
  freeNumbers(chunk)
  freeAreas.push(...(areasOf.get(chunk) ?? []))
  areasOf.delete(chunk)
  if (isInChunkMemory(chunk)) free.push(chunk)
  else if (kept.length < MOST_KEPT) kept.push(chunk)
}

/** Memory for fewer numbers is not reused. */
const REUSED_NUMBERS = 256

/** Returns room for `length` numbers about lines of the chunk, with any content. Reused once the chunk is free. */
export function numbersFor(chunk: Buffer, length: number): Int32Array {
  if (length < REUSED_NUMBERS || !holders.has(chunk)) return new Int32Array(length)
  const memory = takeMemory(length * Int32Array.BYTES_PER_ELEMENT)
  const others = numbersOf.get(chunk)
  if (others) others.push(memory)
  else numbersOf.set(chunk, [memory])
  return new Int32Array(memory, 0, length)
}

function freeNumbers(chunk: Buffer): void {
  for (const memory of numbersOf.get(chunk) ?? []) giveMemory(memory)
  numbersOf.delete(chunk)
}

/** Returns how many bytes of memory cannot be used for anything else while `chunk` is needed. */
export function memoryOf(chunk: Buffer): number {
  return isInChunkMemory(chunk) ? CHUNK_BYTES : chunk.buffer.byteLength
}

const MOST_SPARE = 4 * 1024 * 1024

/** Unused memory by size, kept for reuse, because the garbage collector frees the memory of older objects only late. */
const spare = new Map<number, ArrayBuffer[]>()
let spareBytes = 0

/** Returns memory with any content. It exceeds `least` by at most a quarter or 255 bytes, whichever is more. */
function takeMemory(least: number): ArrayBuffer {
  const step = 2 ** Math.max(8, Math.floor(Math.log2(least)) - 2)
  const size = Math.ceil(least / step) * step
  const memory = spare.get(size)?.pop()
  if (!memory) return new ArrayBuffer(size)
  spareBytes -= size
  return memory
}

function giveMemory(memory: ArrayBuffer): void {
  const { byteLength: size } = memory
  if (spareBytes + size > MOST_SPARE) return
  spareBytes += size
  const others = spare.get(size)
  if (others) others.push(memory)
  else spare.set(size, [memory])
}
