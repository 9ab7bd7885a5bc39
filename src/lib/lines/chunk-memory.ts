/**
 * A memory of fixed size in which WebAssembly code reads chunks in place. It never grows, so views of it stay valid.
 * Its first part is for the WebAssembly code itself. Parts that were never written take no physical memory.
 */

/** The size of a chunk: room for an unfinished line of the previous read, and for a read of 512 KiB. */
export const CHUNK_BYTES = 528 * 1024
export const MOST_CHUNKS = 64
/** Bytes before the first chunk. */
export const OWN_BYTES = 7.25 * 1024 * 1024
const PAGE = 64 * 1024
/** `scripts/build-kernel.mjs` compiles the kernel for this number of pages. */
const PAGES = Math.ceil((OWN_BYTES + MOST_CHUNKS * CHUNK_BYTES) / PAGE) + 1

export interface FixedMemory {
  readonly buffer: ArrayBuffer
}

declare const WebAssembly: { readonly Memory: new (limits: object) => FixedMemory }

let memory: FixedMemory | undefined
let isMade = false

/** Returns the memory; undefined without WebAssembly, for example with `node --jitless`. */
export function chunkMemory(): FixedMemory | undefined {
  if (isMade) return memory
  isMade = true
  try {
    memory = new WebAssembly.Memory({ initial: PAGES, maximum: PAGES })
  } catch {
    memory = undefined
  }
  return memory
}

/** Returns `count` chunks in a row, from number `n` on, as one Buffer; undefined without WebAssembly. */
export function chunkAt(n: number, count = 1): Buffer | undefined {
  const buffer = chunkMemory()?.buffer
  return buffer && Buffer.from(buffer, OWN_BYTES + n * CHUNK_BYTES, count * CHUNK_BYTES)
}

export function isInChunkMemory(bytes: Uint8Array): boolean {
  return memory !== undefined && bytes.buffer === memory.buffer
}
