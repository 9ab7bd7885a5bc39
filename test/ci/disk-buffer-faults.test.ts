import t from 'tap'
import { StateUnreadable } from '../../src/core/unreadable.js'
import { BufferRun } from '../support/buffer-run.js'
import { Seeded } from '../support/seeded.js'
import { type Fault, type Operation, SimulatedDisk } from '../support/simulated-disk.js'
import { valuesOf } from '../support/values-of.js'

/** Segments of some four records; everything is read from the disk, or what is given out comes from memory. */
const MAX_BYTES = 8 * 600
const FROM_DISK = { waiting: 400, ahead: 0, held: 10_000 }
const FROM_MEMORY = { waiting: 10_000, ahead: 100_000, held: 10_000 }
const FROM_BOTH = { waiting: 10_000, ahead: 250, held: 2500 }

/** What was done, until it all ended in the middle or was ended in order. */
interface Story {
  readonly acknowledged: Set<number>
  /** What came out, for each run of the buffer. */
  readonly out: number[][]
  put: number
  /** Told to be missing. */
  missing: number
}

/** As a daemon does: while something cannot be read, it tries again. */
async function openAtLast(options: Parameters<typeof BufferRun.open>[0]): Promise<BufferRun> {
  for (;;) {
    try {
      return await BufferRun.open(options)
    } catch (error) {
      if (!(error instanceof StateUnreadable)) throw error
    }
  }
}

/** Three runs of the buffer: batches go in, in groups and alone; they are settled at once, late, or never. */
async function play(disk: SimulatedDisk, seed: number, story: Story): Promise<void> {
  const random = new Seeded(seed)
  for (let session = 0; session < 3; session++) {
    const memory = [FROM_DISK, FROM_MEMORY, FROM_BOTH][session]!
    const run = await openAtLast({ folder: disk.folder(), maxBytes: MAX_BYTES, memory, fate: () => undefined })
    story.out.push(run.out)
    for (let step = 0; step < 2; step++) {
      for (let k = 1 + random.below(3); k > 0; k--) {
        const numbers = Array.from({ length: 1 + random.below(4) }, () => story.put++)
        void run.put(numbers, 20 + random.below(40))
      }
      await run.pass(0, 1 + random.below(3))
      for (const batch of run.batches.splice(0)) {
        if (random.chance(0.7)) batch.ack.settle(random.chance(0.9) ? 'delivered' : 'rejected')
        else run.batches.push(batch)
      }
      await run.pass(random.pick([0, 300, 1100]), 2)
      for (const n of run.settled.delivered) story.acknowledged.add(n)
      if (!run.balanced) throw new Error(`not all accounted for: ${JSON.stringify(run.counters.imbalance())}`)
    }
    // The time is over: what is not settled is for the next run, also of batches that are settled in part.
    for (const batch of run.batches) {
      const first = random.below(batch.length)
      batch.fork(first, batch.length).giveBack()
      batch.ack.settle('delivered')
    }
    await run.buffer.close()
    for (const n of run.settled.delivered) story.acknowledged.add(n)
    story.missing += run.discarded('buffer_corrupt')
  }
}

/** Plays until the end, or until the disk stops answering. */
async function playOn(
  disk: SimulatedDisk,
  seed: number,
  story: Story = { acknowledged: new Set(), out: [], put: 0, missing: 0 },
): Promise<Story> {
  const end = play(disk, seed, story).then(() => true)
  while (!disk.stopped && !(await Promise.race([end, new Promise(resolve => setImmediate(resolve, false))]))) {}
  return story
}

/** A start after all that: everything comes out. */
async function aftermath(disk: SimulatedDisk): Promise<BufferRun> {
  const run = await openAtLast({ folder: disk.folder(), maxBytes: MAX_BYTES })
  await run.drain()
  return run
}

/** What is wrong with what came out; undefined: nothing. */
function fault(story: Story, last: BufferRun): string | undefined {
  const runs = [...story.out, last.out]
  const seen = new Set(runs.flat())
  const lost = [...story.acknowledged].filter(n => !seen.has(n))
  if (lost.length > 0) return `lost ${lost}`
  if ([...seen].some(n => !(n >= 0 && n < story.put))) return 'invented'
  const mixed = runs.find(out => out.some((n, i) => i > 0 && n <= out[i - 1]!))
  if (mixed) return `not in order, or twice: ${mixed}`
  return last.balanced ? undefined : `not accounted for: ${JSON.stringify(last.counters.imbalance())}`
}

const SEED = 7

t.test('every operation of the disk fails in every way: nothing is lost, nothing is twice in a run', async t => {
  const clean = new SimulatedDisk()
  await playOn(clean, SEED)
  const kinds = new Set(clean.log.map(({ kind }) => kind))
  for (const kind of ['make', 'create', 'open', 'write', 'read', 'sync', 'folder_sync', 'remove'] as const) {
    t.ok(kinds.has(kind), `the play has ${kind}`)
  }
  const faultsOf = ({ kind, size }: Operation): Fault[] => {
    if (kind === 'sync') return [{ error: 'EIO' }, { error: 'EIO', loses: true }]
    if (kind !== 'write') return [{ error: 'EIO' }, ...(kind === 'create' ? [{ error: 'ENOSPC' }] : [])]
    return [0, 1, size >> 1, size].map(done => ({ error: done === size ? 'EIO' : 'ENOSPC', done }))
  }
  let runs = 0
  for (const operation of clean.log) {
    const { index, kind, name } = operation
    for (const planned of kind === 'list' ? [] : faultsOf(operation)) {
      for (const times of [1, 5]) {
        const disk = new SimulatedDisk()
        let left = times
        disk.fault = now =>
          now.index >= index && now.kind === kind && now.name === name && left-- > 0 ? planned : undefined
        const story = await playOn(disk, SEED)
        const last = await aftermath(disk)
        runs++
        const where = `operation ${index}, ${kind} ${name}, ${times} times: ${JSON.stringify(planned)}`
        const missing = story.missing + last.discarded('buffer_corrupt')
        const wrong = fault(story, last)
        if (wrong) t.fail(`${where}: ${wrong}`)
        if (missing > 0) t.fail(`${where}: told that events are missing`)
        if (story.out.length !== 3) t.fail(`${where}: it was not played to the end`)
      }
    }
  }
  t.ok(runs > 200, `${runs} runs`)
})

t.test(
  'a ledger that can neither be written nor removed: what was delivered comes again, and is not missing',
  async t => {
    for (const kinds of [['write'], ['write', 'remove'], ['write', 'folder_sync']]) {
      const disk = new SimulatedDisk()
      const first = await BufferRun.open({ folder: disk.folder(), maxBytes: MAX_BYTES, fate: () => undefined })
      void first.put([0], 400)
      await first.pass(1100)
      const [batch] = first.batches.splice(0)
      // All of it stands in the ledger but the segments that come now.
      disk.fault = ({ kind, name }) =>
        kinds.includes(kind) && (name === 'ledger' || kind === 'folder_sync') ? { error: 'EIO' } : undefined
      batch?.ack.settle('delivered')
      first.fate = () => 'delivered'
      for (let n = 1; n < 6; n++) {
        void first.put([n], 400)
        await first.pass(1100)
      }
      await first.buffer.close()
      const acknowledged = [...first.settled.delivered]
      disk.killed()
      const last = await aftermath(disk)
      t.equal(last.discarded('buffer_corrupt'), 0, kinds.join())
      t.same([...new Set([...first.out, ...last.out])].sort(), acknowledged.sort())
    }
  },
)

t.test('the process ends in the middle of every operation', async t => {
  const clean = new SimulatedDisk()
  await playOn(clean, SEED)
  let runs = 0
  for (const { index, kind, name, size } of clean.log) {
    const dones = kind === 'write' ? [0, 60, size >> 1, size] : [0]
    for (const done of dones) {
      for (const power of [false, true]) {
        const disk = new SimulatedDisk()
        disk.fault = operation => (operation.index === index ? { stop: true, done } : undefined)
        const story = await playOn(disk, SEED)
        const random = new Seeded(index * 31 + done)
        if (power) disk.powerFailed(() => random.next())
        else disk.killed()
        const last = await aftermath(disk)
        runs++
        const where = `${power ? 'power failure' : 'kill'} at operation ${index}, ${kind} ${name}, ${done} bytes done`
        const wrong = fault(story, last)
        if (wrong) t.fail(`${where}: ${wrong}`)
        if (!power && last.discarded('buffer_corrupt') > 0) t.fail(`${where}: told that events are missing`)
        const once = await aftermath(disk)
        if (once.out.length > 0) t.fail(`${where}: once more ${once.out}`)
      }
    }
  }
  t.ok(runs > 150, `${runs} runs`)
})

t.test('killed at random again and again, and short of power now and then', async t => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Seeded(seed)
    const disk = new SimulatedDisk()
    const story: Story = { acknowledged: new Set(), out: [], put: 0, missing: 0 }
    for (let life = 0; life < 4; life++) {
      const from = disk.operations
      const stopAt = from + random.below(90)
      const done = random.below(400)
      disk.fault = ({ index }) => (index === stopAt ? { stop: true, done } : undefined)
      disk.delay = () => (random.chance(0.4) ? 'turn' : random.below(8))
      await playOn(disk, seed * 10 + life, story)
      if (random.chance(0.3)) disk.powerFailed(() => random.next())
      else disk.killed()
    }
    const last = await aftermath(disk)
    const wrong = fault(story, last)
    if (wrong) t.fail(`seed ${seed}: ${wrong}`)
  }
  t.pass('40 stories')
})

t.test('what a failed sync left behind, and could not be cut off, is not delivered twice', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), fate: () => undefined })
  void run.put([0])
  await run.pass()
  disk.fault = ({ kind }) => (kind === 'sync' || kind === 'truncate' ? { error: 'EIO' } : undefined)
  void run.put([1, 2])
  void run.put([3])
  await run.pass(100)
  disk.fault = () => undefined
  await run.pass(6000)
  t.same(run.settled.delivered, [0, 1, 2, 3])
  t.same(run.out, [0, 1, 2, 3])
  disk.killed()
  const last = await aftermath(disk)
  t.same(last.out, [0, 1, 2, 3])
  t.equal(last.discarded('buffer_corrupt'), 0)
})

t.test('a record that was cut off and came back after a power failure does not hide what took its place', async t => {
  const { content } = await left([[0], [1, 2]])
  const disk = new SimulatedDisk()
  for (const numbers of [[0], [3, 4]]) {
    const run = await BufferRun.open({ folder: disk.folder(), fate: () => undefined })
    void run.put(numbers)
    await run.pass(2000)
    await run.buffer.close()
  }
  const [first = '', second] = disk.names()
  t.ok(second)
  disk.put(first, content)
  const last = await aftermath(disk)
  t.same(last.out, [0, 3, 4])
  t.equal(last.discarded('buffer_corrupt'), 0)
  t.ok(last.balanced)
})

t.test('an unfinished record behind events that are all delivered is not one of theirs', async t => {
  const { content } = await left([[0, 1]])
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder() })
  void run.put([0])
  await run.drain()
  t.same(disk.names(), ['ledger'])
  disk.put('0000000000000002.segment', content.subarray(0, -1))
  const last = await aftermath(disk)
  t.match(valuesOf(last.logs, 'msg'), [/^removed an unfinished record/])
})

t.test('what was not written when the time was over is given back', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), maxBytes: 500 })
  disk.fault = ({ kind }) => (kind === 'write' ? { error: 'ENOSPC' } : undefined)
  for (let n = 0; n < 5; n++) void run.put([n], 100)
  await run.pass(10_000)
  run.buffer.destroy()
  await run.buffer.close()
  void run.put([5], 100)
  t.same(run.settled.delivered, [])
  t.same(
    [0, 1, 2, 5].filter(n => !run.settled.errored.includes(n)),
    [],
    'those that were taken; the others are still in the queue of the stream',
  )
  t.equal(run.counters.inFlight().events, 6)
})

t.test('a stop writes nothing when all progress is saved: a full disk does not matter to it then', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), fate: ([n]) => (n === 0 ? 'delivered' : undefined) })
  void run.put([0])
  await run.pass()
  void run.put([1])
  await run.pass(2000)
  t.same(run.out, [0, 1])
  disk.fault = ({ kind }) => (kind === 'write' ? { error: 'ENOSPC' } : undefined)
  await run.buffer.close()
  t.same(valuesOf(run.logs, 'msg'), [])
})

/** A folder that a run with these batches left, all of them acknowledged; nothing was delivered. */
async function left(
  batches: readonly (readonly number[])[],
): Promise<{ name: string; content: Buffer; ledger: Buffer }> {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), fate: () => undefined })
  for (const numbers of batches) {
    void run.put(numbers)
    await run.pass()
  }
  await run.pass(2000)
  const [name = ''] = disk.names()
  const [content, ledger] = [disk.content(name), disk.content('ledger')]
  await run.buffer.close()
  return { name, content, ledger }
}

const BATCHES = [[0], [1, 2, 3], [4, 5]]

t.test('a last segment that ends after any of its bytes', async t => {
  const { name, content, ledger } = await left(BATCHES)
  const ENDS = new Set(BATCHES.map((_, i) => endOf(content, i)))
  for (let size = 0; size <= content.length; size++) {
    for (const known of [true, false]) {
      const disk = new SimulatedDisk()
      disk.put(name, content.subarray(0, size))
      // Of the time before anything was written, or of afterwards: then it tells what should be there.
      if (known) disk.put('ledger', ledger)
      const run = await BufferRun.open({ folder: disk.folder() })
      if (disk.names().includes(name) && !ENDS.has(disk.content(name).length))
        t.fail('a part of a record was not cut off')
      void run.put([6])
      await run.drain()
      const whole = BATCHES.filter((_, i) => size >= endOf(content, i)).flat()
      const where = `${size} bytes of ${content.length}, ${known ? 'with' : 'without'} a ledger`
      if (run.out.join() !== [...whole, 6].join()) t.same(run.out, [...whole, 6], where)
      const missing = known ? 6 - whole.length : 0
      if (run.discarded('buffer_corrupt') !== missing) t.equal(run.discarded('buffer_corrupt'), missing, where)
      const torn =
        size -
        (whole.length > 0 ? endOf(content, BATCHES.flatMap((b, i) => (whole.includes(b[0]!) ? [i] : [])).at(-1)!) : 0)
      if (run.counter('sluice_buffer_torn_bytes_total') !== torn)
        t.equal(run.counter('sluice_buffer_torn_bytes_total'), torn, where)
      const said = torn === 0 ? '' : known ? 'SLUICE_BUFFER_CUT_SHORT' : 'unfinished'
      const logged = run.logs.flatMap(({ code = '', msg }) =>
        /cut short/.exec(msg) ? [code] : (/unfinished/.exec(msg) ?? []),
      )
      if (logged.join() !== said) t.equal(logged.join(), said, `${where}: said of what is cut off`)
      // What a crash left unfinished is no damage.
      if (run.counter('sluice_buffer_corrupt_bytes_total') !== 0) t.fail(`${where}: counted as damaged`)
      if (!run.balanced) t.fail(`${where}: not accounted for`)
      if (disk.names().join() !== 'ledger') t.same(disk.names(), ['ledger'], `${where}: nothing is left`)
    }
  }
  t.pass(`${content.length} sizes`)
})

/** Where the record of this index ends. */
function endOf(content: Buffer, index: number): number {
  let at = 16
  for (let i = 0; i <= index; i++) at += 40 + content.readUInt32LE(at + 12)
  return at
}

t.test('damage to a batch that was read at once costs a part of it', async t => {
  const disk = new SimulatedDisk()
  const first = await BufferRun.open({ folder: disk.folder(), fate: () => undefined })
  const numbers = Array.from({ length: 3000 }, (_, n) => n)
  void first.put(numbers, 170)
  await first.pass()
  const [name = ''] = disk.names()
  const content = Buffer.from(disk.content(name))
  content[content.indexOf('{"n":1500}')]! ^= 1
  disk.killed()
  disk.put(name, content)
  const run = await BufferRun.open({ folder: disk.folder() })
  await run.drain()
  const missing = numbers.filter(n => !run.out.includes(n))
  t.ok(missing.includes(1500))
  t.ok(missing.length < 800, `${missing.length} are missing`)
  t.equal(missing.at(-1)! - missing[0]! + 1, missing.length)
  t.equal(run.discarded('buffer_corrupt'), missing.length)
  t.ok(run.balanced)
})

t.test('any byte in the middle is another: the records around it come out, what is missing is counted', async t => {
  const { name, content } = await left(BATCHES)
  const [first, second] = [endOf(content, 0), endOf(content, 1)]
  for (let at = 0; at < second; at++) {
    for (const change of [0x01, 0xff]) {
      const disk = new SimulatedDisk()
      const damaged = Buffer.from(content)
      damaged[at]! ^= change
      disk.put(name, damaged)
      const run = await BufferRun.open({ folder: disk.folder() })
      await run.drain()
      const where = `byte ${at} changed by ${change}`
      const whole = at < 16 ? [0, 1, 2, 3, 4, 5] : at < first ? [1, 2, 3, 4, 5] : [0, 4, 5]
      if (run.out.join() !== whole.join()) t.same(run.out, whole, where)
      if (!run.balanced) t.fail(`${where}: not accounted for`)
      if (run.counter('sluice_buffer_corrupt_bytes_total') === 0) t.fail(`${where}: not counted`)
      // Without a ledger nothing tells that there was something before the first.
      const missing = at >= first ? 3 : 0
      if (run.discarded('buffer_corrupt') !== missing) t.equal(run.discarded('buffer_corrupt'), missing, where)
    }
  }
  t.pass(`${second} bytes`)
})
