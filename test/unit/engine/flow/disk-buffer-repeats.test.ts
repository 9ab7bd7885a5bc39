import t from 'tap'
import { Ledger, MOST_RANGES, readLedger } from '../../../../src/engine/flow/disk-buffer/ledger.js'
import { BufferRun } from '../../../support/buffer-run.js'
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
