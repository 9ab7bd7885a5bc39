import { Ack, type AckStatus } from '../../src/core/event/ack.js'
import { EventBatch } from '../../src/core/event/batch.js'
import type { Origin } from '../../src/core/event/origin.js'
import { CHUNK_BYTES } from '../../src/lib/lines/chunk-memory.js'
import { freeChunk, takeChunk } from '../../src/lib/lines/chunk-pool.js'
import { LineSplitter } from '../../src/lib/lines/line-splitter.js'

/** A batch of one line in a chunk of the pool, and whether somebody else could get that chunk. */
export function pooledBatch(line: string, origin: Origin, onSettled: (status: AckStatus) => void = () => {}) {
  const splitter = new LineSplitter(1 << 20)
  const length = splitter.reserve(CHUNK_BYTES).write(`${line}\n`)
  const batch = new EventBatch(splitter.commit(length)!, origin, 0, new Ack(onSettled))
  splitter.release()
  const { chunk } = batch
  const isFree = () => {
    const taken = Array.from({ length: 60 }, () => takeChunk(CHUNK_BYTES))
    for (const other of taken) freeChunk(other)
    return taken.includes(chunk)
  }
  return { batch, isFree }
}

/** A batch of lines in a chunk of the pool. */
export function pooledLines(text: string, origin: Origin): EventBatch {
  const splitter = new LineSplitter(1 << 20)
  const bytes = Buffer.from(`${text}\n`)
  bytes.copy(splitter.reserve(CHUNK_BYTES))
  const batch = new EventBatch(splitter.commit(bytes.length)!, origin, 0, new Ack(() => {}))
  splitter.release()
  return batch
}
