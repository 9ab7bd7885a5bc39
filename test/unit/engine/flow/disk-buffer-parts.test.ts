import { mkdirSync, readlinkSync, rmSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { DiskAllowance } from '../../../../src/engine/flow/disk-allowance.js'
import { folderOnDisk } from '../../../../src/engine/flow/disk-buffer/files.js'
import { Ledger, readLedger } from '../../../../src/engine/flow/disk-buffer/ledger.js'
import { type Outgoing, RecordLog } from '../../../../src/engine/flow/disk-buffer/log.js'
import { HEAD_SIZE, Segments, TITLE } from '../../../../src/engine/flow/disk-buffer/segments.js'
import { BufferRun } from '../../../support/buffer-run.js'
import { testFolder } from '../../../support/folder.js'
import { SimulatedDisk } from '../../../support/simulated-disk.js'

const START = { event: 0, byte: 0 }
const upTo = (end: number) => Array.from({ length: end }, (_, n) => n)
const record = (): Outgoing => ({
  framed: Buffer.alloc(HEAD_SIZE + 10, 'x'),
  events: 1,
  bytes: 10,
  release: () => {},
})

/** The log of an empty folder. */
function emptyLog(disk: SimulatedDisk): RecordLog {
  const found = { settled: { segment: 0, offset: 0, ...START }, ahead: [], end: START, tornBytes: 0 }
  const ledger = { state: undefined, turn: 0, damaged: false }
  const unexpected = () => Promise.reject(new Error('nothing is read'))
  const problems = { damaged: () => {}, unreadable: unexpected, failed: unexpected }
  return new RecordLog(disk.folder(), { ...found, ledger, segments: new Segments([], 0) }, 1000, problems)
}

t.test('what was written is there after a power failure, with the name of its file', async t => {
  for (const count of [1, 2]) {
    const disk = new SimulatedDisk()
    const log = emptyLog(disk)
    for (let n = 0; n < count; n++) {
      const waiting = [record(), record()]
      t.equal((await log.append(waiting, 1, () => 0)).length, 1)
      t.equal(waiting.length, 1)
    }
    // It leaves as little as it may: of what was not synced, neither names nor bytes.
    const chances = [0]
    disk.powerFailed(() => chances.pop() ?? 0.99)
    t.same(
      disk.names().map(name => disk.content(name).length),
      [TITLE.length + count * (HEAD_SIZE + 10)],
    )
  }
})

t.test('a file that is put aside while it is written does not count, and the next one is another', async t => {
  const disk = new SimulatedDisk()
  const log = emptyLog(disk)
  const waiting = [record()]
  const written = log.append(waiting, 1, () => 0)
  while (!log.current) await new Promise(resolve => setImmediate(resolve))
  await log.finish()
  await t.rejects(written, { message: 'the segment was renamed while it was being written' })
  t.same(log.end, START)
  t.equal((await log.append(waiting, 1, () => 0)).length, 1)
  const { first, last } = log.segments
  t.same([first, first?.number, waiting], [last, 2, []])
})

t.test(
  'a write of the ledger that ends anywhere leaves the state before; a whole one survives a power failure',
  async t => {
    const state = (event: number) => ({
      ahead: [],
      settled: { segment: 1, offset: 0, event, byte: 0 },
      end: START,
      highest: 1,
    })
    for (const done of [0, 1, 10, 50]) {
      const disk = new SimulatedDisk()
      const ledger = new Ledger(disk.folder(), 0)
      for (const event of [1, 2, 3]) await ledger.write(state(event))
      disk.fault = ({ kind }) => (kind === 'write' ? { error: 'EIO', done } : undefined)
      await t.rejects(ledger.write(state(4)), { code: 'EIO' })
      disk.fault = () => undefined
      t.match(await readLedger(disk.folder()), { state: state(3), turn: 3, damaged: false }, `${done} bytes`)
      await ledger.write(state(5))
      disk.powerFailed(() => 0.99)
      t.match(await readLedger(disk.folder()), { state: state(5), damaged: false })
    }
  },
)

t.test('progress that cannot be saved is tried again after a while, and not with each delivery', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), maxBytes: 8 * 300 })
  disk.fault = ({ name, kind }) => (name === 'ledger' && kind === 'open' ? { error: 'EROFS' } : undefined)
  for (const n of upTo(40)) {
    void run.put([n], 100)
    await run.pass(0, 3)
  }
  t.equal(run.settled.delivered.length, 40)
  t.ok(disk.log.filter(({ kind, name }) => kind === 'open' && name === 'ledger').length <= 2)
  disk.fault = () => undefined
  await run.drain()
})

t.test('no more is given out than may be held, from memory and from the disk', async t => {
  for (const ahead of [0, 100_000]) {
    const memory = { waiting: 100_000, ahead, held: 3000 }
    const run = await BufferRun.open({ folder: new SimulatedDisk().folder(), memory, fate: () => undefined })
    for (const n of upTo(50)) void run.put([n], 300)
    await run.pass(0, 40)
    t.ok(run.out.length > 0 && run.out.length < 5, `${run.out.length} are out, each of 1,300 bytes and more`)
    run.fate = () => 'delivered'
    for (const batch of run.batches) batch.ack.settle('delivered')
    await run.drain()
    t.same(run.out, upTo(50))
  }
})

t.test('a destination that keeps up is given records from memory alone', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), memory: { waiting: 1000, ahead: 1000, held: 10_000 } })
  for (const n of upTo(50)) {
    void run.put([n], 100)
    await run.pass(0, 3)
  }
  t.same(run.out, upTo(50))
  t.equal(disk.log.filter(({ kind }) => kind === 'read').length, 0)
  await run.drain()
})

t.test('a file that cannot be read now is a reason not to start, and is left as it is', async t => {
  const disk = new SimulatedDisk()
  const first = await BufferRun.open({ folder: disk.folder(), maxBytes: 8 * 500_000, fate: () => undefined })
  for (const n of upTo(8)) {
    void first.put([n], 200_000)
    await first.pass(0, 20)
  }
  await first.buffer.close()
  const files = disk.names()
  const [oldest = '', newest = ''] = [files[0], files.at(-2)]
  t.not(oldest, newest)
  for (const [broken, error, remedy] of [
    [newest, 'EIO', 'check the disk'],
    [newest, 'EMFILE', 'raise the limit'],
    [oldest, 'EIO', 'check the disk'],
  ] as const) {
    // Without a ledger, the oldest file is read, too. Measuring a file takes one read.
    if (broken === oldest) await disk.folder().remove('ledger')
    let reads = 0
    disk.fault = ({ kind, name }) => (kind === 'read' && name === broken && ++reads > 1 ? { error } : undefined)
    const message = new RegExp(`${broken}: .*${error}.*; ${remedy}`)
    await t.rejects(BufferRun.open({ folder: disk.folder() }), { code: 'SLUICE_STATE_UNREADABLE', message })
    disk.fault = () => undefined
  }
  t.same(
    disk.names(),
    files.filter(name => name !== 'ledger'),
  )
  const run = await BufferRun.open({ folder: disk.folder() })
  await run.drain()
  t.same(run.out, upTo(8))
})

t.test('the folder of a buffer is made for good, with those above it', async t => {
  const root = testFolder(t)
  const handle = await open(root)
  const prototype = Object.getPrototypeOf(handle) as FileHandle
  const { sync } = prototype
  const synced: string[] = []
  prototype.sync = function (this: FileHandle) {
    synced.push(readlinkSync(`/proc/self/fd/${this.fd}`))
    return sync.call(this)
  }
  t.teardown(async () => {
    prototype.sync = sync
    await handle.close()
  })
  // The names may not be safe although the folders are there: an earlier sync may have failed.
  for (let time = 1; time <= 2; time++) {
    synced.length = 0
    await folderOnDisk(join(root, 'buffer', 'out')).make()
    t.ok(synced.includes(join(root, 'buffer')) && synced.includes(root), synced.join())
  }
})

t.test('a file on disk: parts in sequence, no more than is there, and no sync of what was removed', async t => {
  const root = testFolder(t)
  mkdirSync(join(root, 'out'))
  const folder = folderOnDisk(join(root, 'out'))
  const file = await folder.create('one')
  await file.write([Buffer.from('abc'), Buffer.alloc(0), Buffer.from('def')], 2)
  await file.sync()
  const into = Buffer.alloc(20, '.')
  t.equal(await file.read(into, 1), 7)
  t.equal(into.toString(), `\0abcdef${'.'.repeat(13)}`)
  await file.truncate(4)
  t.equal(await file.size(), 4)
  await t.rejects(folder.create('one'), { code: 'EEXIST' })
  rmSync(join(root, 'out', 'one'))
  await t.rejects(file.sync(), { code: 'ENOENT' }, 'its content is out of reach')
  await file.close()
  t.same(await folder.list(), [])
  t.same(await folderOnDisk(join(root, 'none')).list(), [])
})

t.test('space that is shared: without room it looks again until others have freed some', async t => {
  let free = 0
  const counted: (() => number)[] = []
  const shared: DiskAllowance = { max: 100, hasRoom: bytes => bytes <= free, count: (_, bytes) => counted.push(bytes) }
  const run = await BufferRun.open({ folder: new SimulatedDisk().folder(), shared, fate: () => undefined })
  void run.put([1])
  void run.put([2])
  await run.pass(5000)
  t.ok(run.buffer.isFull)
  t.same(run.out, [])
  free = 1000
  await run.pass(999)
  t.same(run.out, [], 'it looks again once in a second')
  await run.pass(1)
  t.same(run.out, [1, 2])
  const size = counted[0]!()
  t.ok(size > 60)
  await run.buffer.close()
  t.same([counted.length, counted[1]!()], [2, size])
})
