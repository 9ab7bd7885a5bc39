import t from 'tap'
import { BufferRun } from '../../../support/buffer-run.js'
import { freeChunks } from '../../../support/free-chunks.js'
import { SimulatedDisk } from '../../../support/simulated-disk.js'

const BATCHES = 8
/** Of each batch, which is stored as two records. */
const EVENTS = 3000

/** A disk with records that a kill left, large enough for memory that is used again. */
async function left(withLedger: boolean, delivers = (n: number): boolean => n < EVENTS): Promise<SimulatedDisk> {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), fate: ([n]) => (delivers(n!) ? 'delivered' : undefined) })
  for (let b = 0; b < BATCHES; b++) {
    void run.put(
      Array.from({ length: EVENTS }, (_, i) => b * EVENTS + i),
      60,
    )
  }
  await run.pass(1100)
  const copy = new SimulatedDisk()
  for (const name of disk.names()) if (withLedger || name !== 'ledger') copy.put(name, disk.content(name))
  run.buffer.destroy()
  await run.buffer.close()
  for (const batch of run.batches) if (!batch.ack.isHeldBy(0)) batch.ack.settle('errored')
  await run.pass()
  return copy
}

for (const withLedger of [true, false]) {
  t.test(
    `memory of records that are read at a start ${withLedger ? 'with' : 'without'} a ledger is used again`,
    async t => {
      const disk = await left(withLedger)
      const before = freeChunks()
      const run = await BufferRun.open({ folder: disk.folder() })
      await run.drain()
      t.equal(run.out.length, EVENTS * (withLedger ? BATCHES - 1 : BATCHES))
      t.equal(freeChunks(), before)
    },
  )
}

t.test('memory for reads that fail is used again', async t => {
  const disk = await left(true)
  const before = freeChunks()
  const run = await BufferRun.open({ folder: disk.folder() })
  disk.fault = ({ kind, index }) => (kind === 'read' && index % 2 === 0 ? { error: 'EMFILE' } : undefined)
  await run.pass(6000)
  t.ok(run.counters.failures.get('buffer_read')! > 0)
  disk.fault = () => undefined
  await run.drain()
  t.equal(run.out.length, EVENTS * (BATCHES - 1))
  t.equal(freeChunks(), before)
})

t.test('memory of a delivered record that was read in place of a damaged one is used again', async t => {
  const disk = await left(true, n => n >= EVENTS / 2)
  const [segment = ''] = disk.names().filter(name => name !== 'ledger')
  const content = disk.content(segment)
  content.write('?', content.indexOf('{"n":0}'))
  disk.put(segment, content)
  const before = freeChunks()
  const run = await BufferRun.open({ folder: disk.folder() })
  await run.drain()
  t.equal(run.discarded('buffer_corrupt'), EVENTS / 2)
  t.equal(freeChunks(), before)
})

t.test('memory of a record that was read when the buffer closed is used again', async t => {
  const disk = await left(true)
  const before = freeChunks()
  const run = await BufferRun.open({ folder: disk.folder() })
  run.buffer.destroy()
  await run.buffer.close()
  t.same(run.out, [])
  t.equal(freeChunks(), before)
})
