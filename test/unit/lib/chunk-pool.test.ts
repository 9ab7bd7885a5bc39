import t from 'tap'
import { Ack } from '../../../src/core/event/ack.js'
import { EventBatch } from '../../../src/core/event/batch.js'
import { findLinesInKernel } from '../../../src/lib/kernel/find-lines.js'
import { CHUNK_BYTES, isInChunkMemory } from '../../../src/lib/lines/chunk-memory.js'
import { freeChunk, holdChunk, numbersFor, takeChunk } from '../../../src/lib/lines/chunk-pool.js'
import { LineSplitter } from '../../../src/lib/lines/line-splitter.js'
import { originOf } from '../../support/batches.js'
import { rounds } from '../../support/long-test.js'
import { seeded } from '../../support/seeded.js'

const READ = 512 * 1024
const random = seeded(3)

/** A portion of numbered lines that ends wherever it ends, and what it is. */
function* portions(count: number): Generator<Buffer> {
  let n = 0
  let rest = ''
  for (let i = 0; i < count; i++) {
    while (rest.length < READ) rest += `${n++} ${'some text '.repeat(1 + Math.floor(random() * 20))}\n`
    yield Buffer.from(rest.slice(0, READ))
    rest = rest.slice(READ)
  }
}

function read(splitter: LineSplitter, bytes: Buffer, ack: Ack): EventBatch {
  bytes.copy(splitter.reserve(READ).subarray(0, READ))
  return new EventBatch(splitter.commit(READ)!, originOf('text'), 0, ack)
}

const textOf = (batch: EventBatch) => {
  const lines: string[] = []
  for (let i = 0; i < batch.length; i++)
    lines.push((batch.texts?.has(i) ? batch.texts.text(i) : batch.line(i)).toString('latin1'))
  return lines.join('\n')
}

t.test('a chunk, its columns and its texts are used again, and never while somebody needs them', async t => {
  const COUNT = rounds(400, 100)
  const splitter = new LineSplitter(1 << 20, false, findLinesInKernel)
  const chunks = new Set<Buffer>()
  const columns = new Set<ArrayBufferLike>()
  let inAreas = 0
  const held: { batch: EventBatch; text: string }[] = []
  let overwritten = 0
  const settleOne = () => {
    const { batch, text } = held.splice(Math.floor(random() * held.length), 1)[0]!
    if (textOf(batch) !== text) overwritten++
    batch.ack.settle(random() < 0.05 ? 'errored' : random() < 0.1 ? 'rejected' : 'delivered')
  }
  for (const bytes of portions(COUNT)) {
    const batch = read(splitter, bytes, new Ack(() => {}))
    chunks.add(batch.chunk)
    columns.add(batch.starts.buffer)
    if (random() < 0.5) {
      for (let i = 0; i < 60; i++) batch.changeTo(i, Buffer.from(`{"n":${random()}${' '.repeat(12_000)}}`), 1 << 20)
      if (isInChunkMemory(batch.texts!.bytes)) inAreas++
    }
    if (random() < 0.3) {
      const copy = batch.fork(10, 20)
      held.push({ batch: copy, text: textOf(copy) })
    }
    if (random() < 0.3) {
      batch.retain(i => i < 50)
      batch.compact()
    }
    held.push({ batch, text: textOf(batch) })
    while (held.length > 12) settleOne()
    if (random() < 0.02) splitter.release()
  }
  while (held.length > 0) settleOne()
  t.equal(overwritten, 0)
  t.ok(chunks.size < COUNT / 5, `${chunks.size} chunks for ${COUNT} reads`)
  t.ok(inAreas > COUNT / 10, `the texts of ${inAreas} reads were in areas`)
  t.ok(columns.size < COUNT / 5, `${columns.size} columns for ${COUNT} reads`)
})

t.test('who lets go when', async t => {
  const splitter = new LineSplitter(1 << 20)
  const [bytes] = [...portions(1)]
  const next = () => read(splitter, bytes!, new Ack(() => {}))
  const after = (end: (batch: EventBatch) => void) => {
    const batch = next()
    const { chunk } = batch
    next() // The splitter has gone on to another chunk.
    end(batch)
    const taken = Array.from({ length: 40 }, () => next().chunk)
    return { taken: taken.includes(chunk), size: chunk.length }
  }
  const free = { taken: true, size: CHUNK_BYTES }
  const busy = { taken: false, size: CHUNK_BYTES }
  t.same(
    after(batch => batch.ack.settle('delivered')),
    free,
    'delivered',
  )
  t.same(
    after(batch => batch.ack.settle('rejected')),
    free,
    'rejected',
  )
  t.same(
    after(batch => batch.ack.settle('errored')),
    free,
    'errored',
  )
  t.same(
    after(() => {}),
    busy,
    'not settled',
  )
  t.same(
    after(batch => {
      batch.fork()
      batch.ack.settle('delivered')
    }),
    busy,
    'a copy is not settled',
  )
  t.same(
    after(batch => {
      batch.retain(i => i === 0)
      batch.compact()
    }),
    free,
    'not settled, and its bytes moved elsewhere',
  )
})

t.test('numbers about the lines of a chunk are reused when nobody holds the chunk any more', t => {
  const chunk = takeChunk(CHUNK_BYTES)
  const first = numbersFor(chunk, 2000)
  t.equal(first.length, 2000)
  first.fill(7)
  const release = holdChunk(chunk)!
  freeChunk(chunk)
  const others = takeChunk(CHUNK_BYTES)
  t.not(numbersFor(others, 2000).buffer, first.buffer, 'the chunk is still held')
  release()
  const again = numbersFor(others, 1950)
  t.equal(again.buffer, first.buffer)
  t.not(numbersFor(others, 1950).buffer, again.buffer, 'not twice')
  freeChunk(others)
  t.equal(numbersFor(Buffer.alloc(10), 3000).length, 3000, 'of memory that is not reused')
  t.end()
})
