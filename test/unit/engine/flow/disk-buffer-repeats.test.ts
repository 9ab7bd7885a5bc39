import t from 'tap'
import { Ack } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { Ledger, MOST_RANGES, readLedger } from '../../../../src/engine/flow/disk-buffer/ledger.js'
import { batchOf } from '../../../support/batches.js'
import { BufferRun, numbersOf } from '../../../support/buffer-run.js'
import { SimulatedDisk } from '../../../support/simulated-disk.js'

/** What a kill at this moment leaves. */
function killed(disk: SimulatedDisk): SimulatedDisk {
  const copy = new SimulatedDisk()
  for (const name of disk.names()) copy.put(name, disk.content(name))
  return copy
}

const upTo = (end: number) => Array.from({ length: end }, (_, n) => n)

/** A disk after a run that delivered ten events, but not those that wait for a retry. */
async function delivered(except: readonly number[], count = 10): Promise<SimulatedDisk> {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({
    folder: disk.folder(),
    fate: ([n]) => (except.includes(n!) ? undefined : 'delivered'),
  })
  for (const n of upTo(count)) void run.put([n])
  await run.pass(1100)
  return killed(disk)
}

t.test('what was delivered behind requests that are retried does not come again after a kill', async t => {
  const run = await BufferRun.open({ folder: (await delivered([0, 5])).folder() })
  t.equal(run.counters.received.events, 2, 'only the others count as received again')
  await run.pass()
  t.same(run.out, [0, 5])
  t.ok(run.balanced)
  void run.put([10])
  await run.drain()
  t.same(run.out, [0, 5, 10])
  t.equal(run.discarded('buffer_corrupt'), 0)
  t.ok(run.balanced)
})

t.test('what was delivered is still known after a kill before a run came to it', async t => {
  const disk = await delivered([0, 3, 5])
  const run = await BufferRun.open({
    folder: disk.folder(),
    memory: { waiting: 10_000, ahead: 10_000, held: 1 },
    fate: () => undefined,
  })
  void run.put([10])
  await run.pass(1100)
  t.same(run.out, [0])
  const next = await BufferRun.open({ folder: killed(disk).folder() })
  await next.drain()
  t.same(next.out, [0, 3, 5, 10])
  t.ok(next.balanced)
})

t.test('a ledger and segments whose events have other sizes: nothing is left, not even a byte', async t => {
  const written = async (size: number, fate: 'delivered' | undefined) => {
    const disk = new SimulatedDisk()
    const run = await BufferRun.open({ folder: disk.folder(), fate: () => fate })
    for (const n of upTo(10)) void run.put([n], size)
    await run.pass(1100)
    return killed(disk)
  }
  for (const [size, other] of [
    [30, 31],
    [31, 30],
  ] as const) {
    const disk = await written(size, 'delivered')
    const segments = await written(other, undefined)
    for (const name of segments.names()) if (name.endsWith('.segment')) disk.put(name, segments.content(name))
    const run = await BufferRun.open({ folder: disk.folder() })
    t.same(run.counters.received, { events: 0, bytes: 0 })
    void run.put([20])
    await run.drain()
    t.same(run.out, [20])
    t.ok(run.balanced)
  }
})

/** Settles these events of a batch that came out; the others are given back, each by itself. */
function partly({ batches }: BufferRun, accepted: readonly number[]): void {
  for (const batch of batches.splice(0)) {
    const parts = numbersOf(batch).map((n, i) => [n, batch.fork(i, i + 1)] as const)
    batch.ack.settle('delivered')
    for (const [n, part] of parts.reverse())
      if (accepted.includes(n)) part.ack.settle('delivered')
      else part.giveBack()
  }
}

t.test('what was delivered of a batch does not come again, though the rest of it was given back', async t => {
  const disk = new SimulatedDisk()
  const open = () => BufferRun.open({ folder: disk.folder(), fate: () => undefined })
  const first = await open()
  for (const numbers of [upTo(10), [10, 11, 12]]) void first.put(numbers)
  await first.pass()
  partly(first, [0, 1, 2, 5, 6, 10, 12])
  await first.buffer.close()
  const second = await open()
  t.equal(second.counters.received.events, 6, 'only the others count as received again')
  await second.pass()
  t.same(second.batches.map(numbersOf), [[3, 4], [7, 8, 9], [11]])
  t.ok(second.balanced)
  partly(second, [4, 8])
  await second.buffer.close()
  const third = await open()
  await third.pass()
  t.same(third.out, [3, 7, 9, 11])
  partly(third, [3, 7, 9])
  await third.buffer.close()
  const segment = disk.names().find(name => name !== 'ledger')!
  const damaged = killed(disk)
  damaged.put(segment, Buffer.from(disk.content(segment)).fill(0, 40))
  for (const [on, out, missing] of [
    [disk, [11, 13], 0],
    [damaged, [13], 1],
  ] as const) {
    const last = await BufferRun.open({ folder: on.folder() })
    void last.put([13])
    await last.drain()
    t.same(last.out, out)
    t.equal(last.discarded('buffer_corrupt'), missing)
    t.ok(last.balanced)
    t.same(on.names(), ['ledger'])
  }
})

t.test('an event without bytes comes again, whatever was delivered beside it', async t => {
  const disk = new SimulatedDisk()
  const first = await BufferRun.open({ folder: disk.folder(), fate: () => undefined })
  const columns = { starts: new Int32Array(4), ends: new Int32Array(4), flags: new Uint8Array(4) }
  const frame = { chunk: Buffer.alloc(0), length: 4, bytes: 0, ...columns }
  void first.input.write(new EventBatch(frame, batchOf([]).origin, 0, new Ack(() => {})))
  await first.pass()
  const [batch] = first.batches
  batch!.fork(2, 3).giveBack()
  batch!.ack.settle('delivered')
  await first.buffer.close()
  const second = await BufferRun.open({ folder: disk.folder() })
  await second.pass()
  t.equal(second.batches[0]!.length, 4)
})

t.test('records before and behind delivered ones are damaged: they are counted, and no others', async t => {
  for (const [except, damaged] of [
    [[4], 4],
    [[0, 1, 5], 1],
    [[0, 9], 9],
  ] as const) {
    const disk = await delivered(except)
    const [segment = ''] = disk.names().filter(name => name !== 'ledger')
    const content = disk.content(segment)
    content.write('?', content.indexOf(`{"n":${damaged}}`))
    disk.put(segment, content)
    const run = await BufferRun.open({ folder: disk.folder() })
    void run.put([10])
    await run.drain()
    t.same(run.out, [...except.filter(n => n !== damaged), 10])
    t.equal(run.discarded('buffer_corrupt'), 1)
    t.ok(run.balanced)
  }
})

t.test('all files are gone: what was not delivered is counted as missing, and no more', async t => {
  const disk = await delivered([0, 5])
  const left = new SimulatedDisk()
  left.put('ledger', disk.content('ledger'))
  const run = await BufferRun.open({ folder: left.folder() })
  void run.put([10])
  await run.drain()
  t.same(run.out, [10])
  t.equal(run.discarded('buffer_corrupt'), 2)
  t.ok(run.balanced)
})

t.test('more gaps than the ledger can record: what is in the others comes again', async t => {
  const run = await BufferRun.open({
    folder: (
      await delivered(
        upTo(100).filter(n => n % 2 === 0),
        100,
      )
    ).folder(),
  })
  await run.drain()
  t.same(
    run.out,
    upTo(100).filter(n => n % 2 === 0 || n > 2 * MOST_RANGES),
  )
  t.ok(run.balanced)
})

t.test('a removed file stays in the ledger, however many gaps come before it later', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), maxBytes: 8 * 5000, fate: () => undefined })
  const count = 2 * MOST_RANGES + 10
  for (const n of upTo(count)) void run.put([n])
  for (const n of upTo(4)) {
    await run.pass()
    void run.put([count + n], 5000)
  }
  await run.pass()
  const files = disk.names()
  const settle = (which: (n: number) => boolean) => {
    for (const batch of run.batches) if (which(numbersOf(batch)[0]!)) batch.ack.settle('delivered')
  }
  settle(n => n >= count)
  await run.pass(1100)
  t.ok(disk.names().length < files.length, 'a file was removed')
  settle(n => n < count && n % 2 === 1)
  await run.pass(1100)
  const next = await BufferRun.open({ folder: killed(disk).folder() })
  await next.drain()
  t.same(
    next.out.filter(n => n >= count || n % 2 === 0),
    upTo(count).filter(n => n % 2 === 0),
  )
  t.equal(next.discarded('buffer_corrupt'), 0)
  t.ok(next.balanced)
})

t.test('a ledger can record the largest numbers in every range', async t => {
  const n = Number.MAX_SAFE_INTEGER
  const place = { event: n, byte: n }
  const range = { place, events: n, bytes: n, cursor: { segment: n, offset: n } }
  const settled = { segment: n, offset: n, ...place }
  const state = { settled, ahead: Array(MOST_RANGES).fill(range), end: place, highest: n }
  const disk = new SimulatedDisk()
  const ledger = new Ledger(disk.folder(), n - 2)
  for (let i = 0; i < 2; i++) {
    await ledger.write(state)
    t.match(await readLedger(disk.folder()), { state, damaged: false })
  }
})

t.test('progress is saved when much was delivered, before its time has come', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder() })
  for (let n = 0; n < 20; n++) void run.put([n], 250_000)
  await run.pass(0, 200)
  t.same(run.out, upTo(20))
  const next = await BufferRun.open({ folder: killed(disk).folder() })
  await next.drain()
  t.ok(next.out.length < 18, `${next.out.length} come again`)
})
