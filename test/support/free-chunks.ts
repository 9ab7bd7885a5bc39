import { isInChunkMemory, MOST_CHUNKS } from '../../src/lib/lines/chunk-memory.js'
import { freeChunk, takeChunk } from '../../src/lib/lines/chunk-pool.js'

/** How many chunks of the memory that the kernel can read are free. */
export function freeChunks(): number {
  const chunks: Buffer[] = []
  for (let n = 0; n < MOST_CHUNKS; n++) chunks.push(takeChunk(512 * 1024))
  for (const chunk of chunks) freeChunk(chunk)
  return chunks.filter(isInChunkMemory).length
}
