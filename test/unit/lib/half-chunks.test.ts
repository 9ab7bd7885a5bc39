import t from 'tap'
import { CHUNK_BYTES, isInChunkMemory, MOST_CHUNKS } from '../../../src/lib/lines/chunk-memory.js'
import { freeChunk, holdChunk, memoryOf, takeChunk } from '../../../src/lib/lines/chunk-pool.js'
import { seeded } from '../../support/seeded.js'

t.test('small portions take half a chunk, which becomes whole again', t => {
  const half = CHUNK_BYTES / 2
  const [first, second] = [takeChunk(half), takeChunk(half - 1000)]
  t.same([first.length, second.length, memoryOf(first)], [half, half, half])
  t.ok(isInChunkMemory(first))
  const overlap = first.byteOffset < second.byteOffset + half && second.byteOffset < first.byteOffset + half
  t.notOk(overlap, 'they share nothing')
  const chunk = [first, second].reduce((a, b) => (a.byteOffset < b.byteOffset ? a : b)).byteOffset
  const release = holdChunk(first)!
  freeChunk(first)
  freeChunk(second)
  const whole = takeChunk(half + 1)
  t.not(whole.byteOffset, chunk, 'one half is still held')
  release()
  t.equal(takeChunk(CHUNK_BYTES).byteOffset, chunk)
  freeChunk(whole)
  t.end()
})

t.test('any order of portions of any size: what is held is never given out, and all of it comes back', t => {
  const random = seeded(7)
  const held: Buffer[] = []
  const before = wholeChunks()
  for (let i = 0; i < 20_000; i++) {
    if (random() < 0.5 && held.length < 60) {
      const chunk = takeChunk(Math.ceil(CHUNK_BYTES * (0.2 + 0.8 * random())))
      if (isInChunkMemory(chunk)) {
        const end = chunk.byteOffset + chunk.length
        const overlaps = held.some(
          other => other.byteOffset < end && chunk.byteOffset < other.byteOffset + other.length,
        )
        if (overlaps) t.fail('given out twice')
        held.push(chunk)
      } else freeChunk(chunk)
    } else if (held.length > 0) freeChunk(held.splice(Math.floor(random() * held.length), 1)[0]!)
  }
  for (const chunk of held) freeChunk(chunk)
  t.equal(wholeChunks(), before)
  t.end()
})

/** How many chunks of the memory are free. */
function wholeChunks(): number {
  const chunks = Array.from({ length: MOST_CHUNKS }, () => takeChunk(CHUNK_BYTES))
  for (const chunk of chunks) freeChunk(chunk)
  return chunks.filter(isInChunkMemory).length
}
