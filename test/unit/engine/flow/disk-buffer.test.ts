import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { pino } from 'pino'
import t from 'tap'
import type { Destination } from '../../../../src/core/component.js'
import { DeliveryError, type Failure } from '../../../../src/core/errors.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { type DeliveryOptions, deliveryOptions } from '../../../../src/core/options/delivery-options.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { Delivery } from '../../../../src/engine/flow/delivery/delivery.js'
import { DiskBuffer } from '../../../../src/engine/flow/disk-buffer/disk-buffer.js'
import { folderOnDisk } from '../../../../src/engine/flow/disk-buffer/files.js'
import { Input } from '../../../../src/engine/flow/fan-out.js'
import { findOrphans, type OrphanConfig } from '../../../../src/engine/run/state/inventory.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { systemClock } from '../../../../src/lib/time.js'
import { batchOf } from '../../../support/batches.js'
import { BufferRun, numbersOf } from '../../../support/buffer-run.js'
import { problemsFrom } from '../../../support/facts.js'
import { testFolder } from '../../../support/folder.js'
import { freeChunks } from '../../../support/free-chunks.js'
import { collectGarbage } from '../../../support/heap.js'
import { longTest, rounds } from '../../../support/long-test.js'
import { Seeded } from '../../../support/seeded.js'
import { SimulatedDisk } from '../../../support/simulated-disk.js'
import { until } from '../../../support/until.js'

const log = pino({ level: 'silent' })
type Write = (numbers: number[], signal: AbortSignal) => unknown

/** A delivery with a buffer of this kind before it, on the real clock and disk. */
async function stage(kind: 'memory' | 'disk', folder: string, write: Write, options: Record<string, unknown> = {}) {
  const counters = new ComponentCounters('out', 'destination', 'fake')
  const letters: number[] = []
  const settled: AckStatus[][] = []
  const shared = { log, clock: systemClock, random: () => 0.5 }
  const buffer =
    kind === 'disk'
      ? await DiskBuffer.open({
          ...shared,
          folder: folderOnDisk(join(folder, 'buffer', 'out')),
          wanted: new WantedNames(),
          maxBytes: 1e9,
          whenFull: 'block',
          counters,
        })
      : undefined
  const destination: Destination = {
    write: async (request, signal) => void (await write(request.flatMap(numbersOf), signal)),
  }
  const parsed = deliveryOptions.parse({
    retry: { initial: '2ms', max: '2ms' },
    batch: { max_wait: '1ms' },
    ...options,
  } as never)
  const delivery = new Delivery(destination, parsed as DeliveryOptions, {
    ...shared,
    id: 'out',
    deadLetter: { write: async request => void letters.push(...request.flatMap(numbersOf)) },
    counters: {
      received: (events, bytes) => (buffer ? buffer.takenUp(events, bytes) : counters.took(events, bytes)),
      sent: (events, bytes) => counters.sent(events, bytes),
      discarded: (reason, events, bytes) => counters.discarded(reason, events, bytes),
      failed: reason => counters.failed(reason),
    },
    metrics: counters,
  })
  counters.holds = () => {
    const [a, b] = [delivery.inFlight(), buffer?.inFlight() ?? { events: 0, bytes: 0 }]
    return { events: a.events + b.events, bytes: a.bytes + b.bytes }
  }
  const input = new Input(buffer ?? delivery, counters)
  input.feed()
  if (buffer) {
    const between = new Input(delivery, { arrived: () => {} })
    between.feed()
    buffer.connect(between)
  }
  void delivery.start()
  const balanced = () => {
    const { events, bytes } = counters.imbalance()
    return events === 0 && bytes === 0
  }
  const put = async (batch: (onSettled: (status: AckStatus) => void) => EventBatch) => {
    const statuses: AckStatus[] = []
    settled.push(statuses)
    await input.write(batch(status => statuses.push(status)))
  }
  const closed = new Promise<void>(resolve => delivery.once('close', () => resolve()))
  const end = async (deadline?: AbortSignal) => {
    input.end()
    deadline?.addEventListener('abort', () => {
      buffer?.destroy()
      delivery.destroy()
    })
    await closed
    await buffer?.close()
  }
  return { counters, letters, settled, balanced, put, end, buffer, delivery }
}

const numbered =
  (from: number, count: number, size = 30) =>
  (onSettled: (status: AckStatus) => void) =>
    batchOf(
      Array.from({ length: count }, (_, i) => `{"n":${from + i}}`.padEnd(size - 1, ' ')),
      { onSettled },
    )

for (const kind of ['memory', 'disk'] as const) {
  t.test(`${kind}: in order, each acknowledged once, to its end`, async t => {
    const written: number[] = []
    const { put, end, settled, balanced, counters } = await stage(kind, testFolder(t), n => written.push(...n), {
      max_in_flight: 1,
    })
    const random = new Seeded(1)
    let n = 0
    for (let i = 0; i < 400; i++) {
      const count = random.below(60)
      await put(numbered(n, count))
      n += count
      if (!balanced()) t.fail(`not accounted for after ${n}`)
    }
    await end()
    t.same(
      written,
      Array.from({ length: n }, (_, i) => i),
    )
    t.ok(settled.every(statuses => statuses.join() === 'delivered'))
    t.ok(balanced())
    t.same([counters.received.events, counters.passed.events, counters.inFlight().events], [n, n, 0])
  })

  t.test(`${kind}: retries, holds, halves and refusals lose nothing`, async t => {
    const random = new Seeded(2)
    const written: number[] = []
    const failures: Failure[] = ['retry', 'too_large', 'reject']
    const { put, end, settled, balanced, letters } = await stage(
      kind,
      testFolder(t),
      async numbers => {
        await new Promise(resolve => setImmediate(resolve))
        if (random.chance(0.3)) throw new DeliveryError('no', { failure: random.pick(failures), reason: 'some' })
        written.push(...numbers)
      },
      { batch: { max_events: 40, max_wait: '1ms' } },
    )
    let n = 0
    for (let i = 0; i < 150; i++) {
      const count = 1 + random.below(50)
      await put(numbered(n, count))
      n += count
      const done = written.length + letters.length
      if (done < n && random.chance(0.1)) await until(() => written.length + letters.length > done)
      if (!balanced()) t.fail(`not accounted for after ${n}`)
    }
    await end()
    const all = [...written, ...letters].sort((a, b) => a - b)
    t.same(
      all,
      Array.from({ length: n }, (_, i) => i),
      'each was taken or refused, once',
    )
    t.ok(letters.length > 0 && written.length > 0)
    t.ok(settled.every(statuses => statuses.length === 1))
    t.ok(balanced())
  })

  t.test(`${kind}: what is not delivered in time is there at the next start`, async t => {
    const folder = testFolder(t)
    let tries = 0
    const refuse = () => {
      tries++
      throw new DeliveryError('away', { failure: 'retry', reason: 'refused' })
    }
    const first = await stage(kind, folder, refuse)
    for (let i = 0; i < 20; i++) await first.put(numbered(i * 10, 10))
    await until(() => tries > 0 && (kind === 'memory' || first.settled.every(statuses => statuses.length > 0)))
    const deadline = new AbortController()
    const before = tries
    const ended = first.end(deadline.signal)
    await until(() => tries > before)
    deadline.abort()
    await ended
    t.ok(first.balanced())
    t.equal(first.counters.inFlight().events, 200, 'all of it is known to be undelivered')
    t.same(new Set(first.settled.flat()), new Set([kind === 'memory' ? 'errored' : 'delivered']), 'and by whom')
    const written: number[] = []
    const second = await stage(kind, folder, n => written.push(...n), { max_in_flight: 1 })
    await second.end()
    const kept = kind === 'memory' ? [] : Array.from({ length: 200 }, (_, i) => i)
    t.same(written, kept)
    t.equal(second.counters.received.events, kept.length, 'it counts as received again')
    t.ok(second.balanced())
  })
}

t.test(
  'disk: what was accepted before the end does not come again, whichever requests of a batch that were',
  async t => {
    const folder = testFolder(t)
    const random = new Seeded(3)
    const written: number[] = []
    let more = 0
    const write = async (numbers: number[], signal: AbortSignal) => {
      if (more <= 0 || signal.aborted || random.chance(0.6))
        throw new DeliveryError('no', { failure: 'retry', reason: 'some' })
      written.push(...numbers)
      more -= numbers.length
    }
    for (let run = 0; run < 10; run++) {
      const { put, end, balanced } = await stage('disk', folder, write, { batch: { max_events: 7, max_wait: '1ms' } })
      if (run === 0) for (let i = 0; i < 20; i++) await put(numbered(i * 50, 50))
      more = 70
      await until(() => more <= 0)
      const over = new AbortController()
      const ended = end(over.signal)
      over.abort()
      await ended
      t.ok(balanced())
    }
    const last = await stage('disk', folder, n => written.push(...n))
    await last.end()
    t.same(
      written.sort((a, b) => a - b),
      Array.from({ length: 1000 }, (_, i) => i),
    )
    t.ok(last.balanced())
  },
)

longTest('a destination that is away: everything is taken, memory stays where it is, and all comes out', async t => {
  let open = () => {}
  const gate = new Promise<void>(resolve => {
    open = resolve
  })
  let written = 0
  let inOrder = true
  const folder = testFolder(t)
  const write = async (numbers: number[]) => {
    await gate
    for (const n of numbers) inOrder &&= n === written++
  }
  const { put, end, counters, balanced, settled, buffer } = await stage('disk', folder, write, { max_in_flight: 1 })
  const memory = () => {
    collectGarbage()
    return process.memoryUsage().arrayBuffers / 1e6
  }
  const before = memory()
  let most = 0
  const EVENTS = 400_000
  for (let n = 0; n < EVENTS; n += 1000) {
    await put(numbered(n, 1000, 250))
    if (n % 20_000 === 0) most = Math.max(most, memory() - before)
    while (settled.filter(statuses => statuses.length === 0).length > 40) await new Promise(setImmediate)
  }
  while (settled.some(statuses => statuses.length === 0)) await new Promise(setImmediate)
  t.ok(balanced())
  t.equal(counters.inFlight().events, EVENTS)
  t.ok(buffer!.inFlight().events > EVENTS / 2, 'most of it is nowhere but on the disk')
  const onDisk = readdirSync(join(folder, 'buffer', 'out'))
  t.ok(onDisk.length >= 2, `${onDisk.length} files`)
  t.ok(most < 75, `at most ${most.toFixed()} MB of 100 were in memory`)
  open()
  await end()
  t.equal(written, EVENTS)
  t.ok(inOrder)
  t.ok(balanced())
  t.same(readdirSync(join(folder, 'buffer', 'out')), ['ledger'], 'files whose events are delivered are gone')
})

t.test('group commit: batches that come during a sync share the next one', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), fate: () => undefined })
  const syncs = () => disk.log.filter(({ kind, name }) => kind === 'sync' && name !== 'ledger').length
  for (let n = 0; n < 20; n++) void run.put([n])
  t.same(run.settled.delivered, [], 'not acknowledged before it is safe')
  await run.pass()
  t.equal(run.settled.delivered.length, 20)
  t.ok(syncs() <= 3, `${syncs()} syncs`)
  for (let n = 20; n < 40; n++) {
    void run.put([n])
    await run.pass(0, 3)
  }
  t.ok(syncs() >= 15, 'alone, each has its own')
  t.equal(
    [...run.counters.histograms.get('sluice_buffer_write_seconds')!.counts].reduce((a, b) => a + b),
    syncs(),
  )
  await run.buffer.close()
})

t.test('full, and block: the newest waits until there is room; one larger than everything goes alone', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), maxBytes: 4000, fate: () => undefined })
  let put = 0
  const gauge = (name: string) => run.counter(name)
  for (; put < 100; put++) {
    void run.put([put], 200)
    await run.pass(0, 2)
    if (gauge('sluice_buffer_bytes') > 4000) t.fail('more than allowed')
  }
  const taken = run.settled.delivered.length
  t.ok(taken > 5 && taken < 20, `${taken} were taken`)
  t.equal(gauge('sluice_buffer_events'), taken)
  t.equal(gauge('sluice_buffer_max_bytes'), 4000)
  t.same(run.settled.rejected, [])
  t.ok(run.balanced)
  t.equal(run.logs.filter(({ msg }) => msg === 'the buffer is full; sources wait').length, 1, 'told once')
  run.fate = () => 'delivered'
  for (const batch of run.batches.splice(0)) batch.ack.settle('delivered')
  for (let i = 0; i < 30; i++) await run.pass(1100, 2)
  t.equal(run.settled.delivered.length, 100, 'all of them went through')
  const large = Array.from({ length: 50 }, () => put++)
  void run.put(large, 200)
  for (let i = 0; i < 10; i++) await run.pass(1100, 2)
  t.same(run.settled.delivered.slice(-50), large, 'more than the buffer may hold')
  void run.put([put], 5000)
  await run.pass(1100)
  t.same(run.settled.delivered.at(-1), put++, 'one event, more than the buffer may hold')
  await run.drain()
  t.same(
    run.out,
    Array.from({ length: put }, (_, i) => i),
  )
})

t.test('full, and drop_newest: what comes is discarded, counted and accounted for', async t => {
  const disk = new SimulatedDisk()
  const options = { folder: disk.folder(), maxBytes: 4000, whenFull: 'drop_newest' } as const
  const run = await BufferRun.open({ ...options, fate: () => undefined })
  let observed = 0
  const discarded = ({ reason, events }: { reason: string; events: number }) => {
    t.equal(reason, 'buffer_full')
    observed += events
  }
  run.buffer.observer = { wants: () => true, discarded, rejected() {}, delivered() {} }
  for (let n = 0; n < 100; n++) {
    void run.put([n], 200)
    await run.pass(0, 2)
    if (!run.balanced) t.fail('not accounted for')
  }
  const { delivered, rejected } = run.settled
  t.equal(delivered.length + rejected.length, 100)
  t.same(
    delivered,
    Array.from({ length: delivered.length }, (_, i) => i),
    'the oldest are kept',
  )
  t.equal(observed, rejected.length)
  t.equal(run.discarded('buffer_full'), rejected.length)
  for (const batch of run.batches.splice(0)) batch.ack.settle('delivered')
  run.fate = () => 'delivered'
  await run.pass(1100)
  void run.put([100], 200)
  await run.pass()
  t.same(run.settled.delivered.at(-1), 100, 'room again')
  await run.drain()
  t.same(run.out, [...delivered])
})

t.test('full: as much of a large batch is kept as there is room for, and the rest is discarded or waits', async t => {
  for (const whenFull of ['drop_newest', 'block'] as const) {
    const folder = new SimulatedDisk().folder()
    const run = await BufferRun.open({ folder, maxBytes: 8000, whenFull, fate: () => undefined })
    const numbers = Array.from({ length: 120 }, (_, n) => n)
    void run.put(numbers.slice(0, 60), 80)
    void run.put(numbers.slice(60), 80)
    await run.pass()
    const kept = run.counter('sluice_buffer_events')
    t.ok(kept > 60 && kept < 110, `${kept} are kept`)
    const filled = run.counter('sluice_buffer_bytes')
    t.ok(filled > 0.8 * 8000 && filled <= 8000, `${filled} bytes of 8000`)
    t.same(run.settled.delivered, numbers.slice(0, 60), 'the second batch is not delivered as a whole')
    t.equal(run.discarded('buffer_full'), whenFull === 'block' ? 0 : 120 - kept)
    t.ok(run.balanced)
    for (const batch of run.batches.splice(0)) batch.ack.settle('delivered')
    run.fate = () => 'delivered'
    for (let i = 0; i < 5; i++) await run.pass(1100)
    await run.drain()
    t.same(run.out, whenFull === 'block' ? numbers : numbers.slice(0, kept), whenFull)
    t.same(run.settled[whenFull === 'block' ? 'delivered' : 'rejected'].slice(-60), numbers.slice(60))
    t.ok(run.balanced)
  }
})

t.test('ended while parts of a large batch wait for room: the rest of it is stored, others are given back', async t => {
  const folder = new SimulatedDisk().folder()
  const run = await BufferRun.open({ folder, maxBytes: 8000, fate: () => undefined })
  const numbers = Array.from({ length: 200 }, (_, n) => n)
  void run.put(numbers, 80)
  void run.put([200, 201], 80)
  await run.pass()
  t.ok(run.counter('sluice_buffer_events') > 60)
  t.same(run.settled.delivered, [])
  await run.buffer.close()
  for (const batch of run.batches.splice(0)) batch.ack.settle('errored')
  t.same(run.settled.delivered, numbers, 'nothing of it comes twice')
  t.same(run.settled.errored, [200, 201])
  t.ok(run.balanced)
  const next = await BufferRun.open({ folder, maxBytes: 8000, fate: () => 'delivered' })
  await next.drain()
  t.same(next.out, numbers)

  const full = await BufferRun.open({ folder, maxBytes: 8000, fate: () => undefined })
  void full.put(numbers.slice(0, 80), 80)
  await full.pass()
  void full.put(numbers.slice(80), 80)
  await full.pass()
  await full.buffer.close()
  t.same(full.settled.errored, numbers.slice(80), 'nothing of a batch that is not stored in part')
})

t.test('events that take much more than their lines are divided as well', async t => {
  const folder = new SimulatedDisk().folder()
  const run = await BufferRun.open({ folder, maxBytes: 8000, fate: () => undefined })
  void run.put(
    Array.from({ length: 2000 }, (_, n) => n),
    1,
  )
  await run.pass()
  const filled = run.counter('sluice_buffer_bytes')
  t.ok(filled > 0.8 * 8000 && filled <= 8000, `${filled} bytes of 8000`)
  await run.buffer.close()
})

t.test('full: the memory of what is discarded, or given back at the end, is used again', async t => {
  for (const whenFull of ['drop_newest', 'block'] as const) {
    const before = freeChunks()
    const run = await BufferRun.open({
      folder: new SimulatedDisk().folder(),
      maxBytes: 4000,
      whenFull,
      fate: () => undefined,
    })
    // Batches that are too small for memory that is used again, and records that are not.
    const numbers = Array.from({ length: 2200 }, (_, n) => n)
    for (let n = 0; n < 5; n++) {
      void run.put(numbers, 60)
      await run.pass(0, 2)
    }
    await run.buffer.close()
    for (const batch of run.batches.splice(0)) batch.ack.settle('errored')
    await run.pass()
    t.equal(freeChunks(), before, whenFull)
  }
})

t.test('a disk that is full or fails for long: everything waits, it is told once, and goes on by itself', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder() })
  void run.put([0])
  await run.pass()
  disk.fault = ({ kind }) => (kind === 'write' ? { error: 'ENOSPC', done: 7 } : undefined)
  for (let n = 1; n < 10; n++) void run.put([n])
  for (let i = 0; i < 9; i++) await run.pass(6000, 3)
  t.same(run.settled.delivered, [0])
  t.ok(run.balanced)
  t.ok(run.counters.failures.get('buffer_write')! > 5, 'tried again and again')
  t.equal(run.counter('sluice_buffer_unwritable'), 1)
  t.match(problemsFrom(run.counters), [{ what: /: its buffer cannot be written$/, todo: /SLUICE_BUFFER_NOT_WRITTEN/ }])
  disk.fault = ({ kind }) => (kind === 'sync' ? { error: 'EIO' } : undefined)
  for (let i = 0; i < 9; i++) await run.pass(6000, 3)
  t.same(run.settled.delivered, [0])
  disk.fault = () => undefined
  for (let i = 0; i < 4; i++) await run.pass(6000)
  t.equal(run.settled.delivered.length, 10)
  const told = run.logs.filter(({ code }) => code === 'SLUICE_BUFFER_NOT_WRITTEN').length
  t.equal(told, 2, 'once for each cause')
  t.equal(run.logs.at(-1)!.msg, 'writes to the buffer work again')
  t.equal(run.counter('sluice_buffer_unwritable'), 0)
  await run.drain()
  t.same(run.out, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
})

t.test('from memory and from the disk in turns: each once, in order', async t => {
  for (let seed = 1; seed <= rounds(100, 20); seed++) {
    const random = new Seeded(seed)
    const disk = new SimulatedDisk()
    // Answers that come within one turn: then anything can happen between any two steps.
    disk.delay = () => (random.chance(0.3) ? 'turn' : random.below(8))
    const memory = { waiting: 10_000, ahead: random.pick([200, 400, 800, 1e6]), held: 10_000 }
    const run = await BufferRun.open({ folder: disk.folder(), memory })
    run.settleSoon = random.chance(0.5)
    let n = 0
    for (let i = 0; i < 40; i++) {
      for (let k = random.below(5); k >= 0; k--) void run.put([n++], 50)
      for (let k = random.below(8); k > 0; k--) await new Promise(setImmediate)
    }
    await run.drain()
    const all = Array.from({ length: n }, (_, i) => i)
    if (run.out.join() !== all.join()) t.same(run.out, all, `seed ${seed}`)
  }
  t.pass()
})

t.test('a small disk: there is room again for what comes when what was there is delivered', async t => {
  const disk = new SimulatedDisk()
  disk.capacity = 8192 + 3000
  const fromDisk = { waiting: 10_000, ahead: 0, held: 10_000 }
  const run = await BufferRun.open({ folder: disk.folder(), memory: fromDisk, fate: () => undefined })
  for (let n = 0; n < 100; n++) {
    void run.put([n], 100)
    if (n % 10 === 0) await run.pass(1100, 2)
  }
  for (let i = 0; i < 5; i++) await run.pass(6000, 2)
  t.ok(run.settled.delivered.length < 20, 'it is full')
  t.ok(run.counters.failures.get('buffer_write')! > 2)
  run.fate = () => 'delivered'
  for (const batch of run.batches.splice(0)) batch.ack.settle('delivered')
  await run.drain()
  t.same(
    run.out,
    Array.from({ length: 100 }, (_, i) => i),
  )
  t.equal(run.settled.delivered.length, 100)
})

t.test('a file that is done takes no room any more, though it was read', async t => {
  const disk = new SimulatedDisk()
  disk.capacity = 8192 + 3000
  const fromDisk = { waiting: 10_000, ahead: 0, held: 10_000 }
  const run = await BufferRun.open({ folder: disk.folder(), memory: fromDisk })
  for (let n = 0; n < 60; n += 20) {
    void run.put(
      Array.from({ length: 20 }, (_, i) => n + i),
      100,
    )
    for (let i = 0; i < 5; i++) await run.pass(6000, 2)
    t.equal(run.settled.delivered.length, n + 20)
  }
  await run.drain()
  t.equal(run.out.length, 60)
})

t.test('an event that waits for its delivery does not keep the room of what was delivered behind it', async t => {
  let disk = new SimulatedDisk()
  const stuck = [5, 60, 61, 130]
  const open = () =>
    BufferRun.open({
      folder: disk.folder(),
      maxBytes: 8000,
      fate: ([n]) => (stuck.includes(n!) ? undefined : 'delivered'),
    })
  let run = await open()
  let put = 0
  for (let start = 0; start < 3; start++) {
    for (; put < 200 * (start + 1); put++) {
      void run.put([put], 200)
      await run.pass(put % 5 === 0 ? 1100 : 0, 2)
      if (run.counter('sluice_buffer_bytes') > 8000) t.fail('more than allowed')
    }
    await run.pass(1100)
    t.equal(run.counter('sluice_buffer_events'), stuck.length)
    t.ok(run.balanced)
    // A kill.
    const copy = new SimulatedDisk()
    for (const name of disk.names()) copy.put(name, disk.content(name))
    disk = copy
    run = await open()
    await run.pass(1100)
    t.same(run.out, stuck, 'the others do not come again')
  }
  t.same(run.discarded('buffer_corrupt'), 0, 'and are not called missing')
  run.fate = () => 'delivered'
  for (const batch of run.batches.splice(0)) batch.ack.settle('delivered')
  await run.drain()
  t.ok(run.balanced)
  t.equal(disk.names().filter(name => name.endsWith('.segment')).length, 0)
})

t.test('a file that cannot be read, or is taken away, is left out; the others come out', async t => {
  const small = { waiting: 300, ahead: 0, held: 10_000 }
  for (const code of ['EIO', 'ENOENT']) {
    const disk = new SimulatedDisk()
    const first = await BufferRun.open({ folder: disk.folder(), maxBytes: 8 * 500, fate: () => undefined })
    for (let n = 0; n < 12; n++) {
      void first.put([n], 100)
      await first.pass(0, 3)
    }
    await first.buffer.close()
    const [, second = ''] = disk.names()
    const fault: SimulatedDisk['fault'] = ({ kind, name }) =>
      kind === 'open' && name === second ? { error: code } : undefined
    if (code === 'ENOENT') disk.fault = fault
    const run = await BufferRun.open({ folder: disk.folder(), maxBytes: 8 * 500, memory: small })
    disk.fault = fault
    void run.put([12], 100)
    await run.drain()
    t.same([run.out[0], run.out.at(-1)], [0, 12], code)
    t.equal(run.out.length + run.discarded('buffer_corrupt'), 13, `${code}: what is missing is counted`)
    t.ok(run.discarded('buffer_corrupt') > 0 && run.discarded('buffer_corrupt') < 8)
    t.ok(run.balanced)
    if (code !== 'ENOENT') t.ok(disk.names().includes(`${second}.unreadable`), `${code}: set aside`)
  }
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), memory: small, fate: () => undefined })
  for (let n = 0; n < 5; n++) void run.put([n])
  for (const error of ['EMFILE', 'EACCES']) {
    disk.fault = ({ kind }) => (kind === 'open' ? { error } : undefined)
    for (let i = 0; i < 20; i++) await run.pass(6000, 2)
    t.same(run.out, [], `${error}: that passes`)
  }
  run.fate = () => 'delivered'
  disk.fault = ({ kind }) => (kind === 'read' ? { error: 'EIO' } : undefined)
  while (!disk.names().some(name => name.endsWith('.unreadable'))) await run.pass(6000, 2)
  disk.fault = () => undefined
  void run.put([5])
  await run.drain()
  t.same(run.out, [5], 'the file that was written to when it could not be read')
  t.equal(run.discarded('buffer_corrupt'), 5)
})

t.test('a disk that fails for a while costs no event, and a stop during that time leaves all files', async t => {
  const disk = new SimulatedDisk()
  const small = { waiting: 300, ahead: 0, held: 10_000 }
  const first = await BufferRun.open({ folder: disk.folder(), maxBytes: 8 * 500, fate: () => undefined })
  for (let n = 0; n < 12; n++) {
    void first.put([n], 100)
    await first.pass(0, 3)
  }
  await first.buffer.close()
  const files = disk.names()
  for (const stops of [true, false]) {
    const run = await BufferRun.open({ folder: disk.folder(), maxBytes: 8 * 500, memory: small })
    let renames = 0
    disk.fault = ({ kind }) => {
      if (kind === 'rename') renames++
      return kind === 'close' ? undefined : { error: 'EIO' }
    }
    while (renames < 2) await run.pass(6000, 2)
    if (stops) await run.buffer.close()
    else t.same(run.out, [])
    disk.fault = () => undefined
    t.same(disk.names(), files)
    if (stops) continue
    await run.drain()
    t.same(run.out, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    t.ok(run.balanced)
  }
})

t.test('the ledger: damaged, it costs repetition; not writable, files are removed all the same', async t => {
  const disk = new SimulatedDisk()
  const first = await BufferRun.open({ folder: disk.folder(), fate: ([n]) => (n! < 3 ? 'delivered' : undefined) })
  for (let n = 0; n < 6; n++) void first.put([n])
  await first.pass(1100)
  await first.buffer.close()
  const ledger = disk.content('ledger')
  const out = async (content: Buffer) => {
    const copy = new SimulatedDisk()
    for (const name of disk.names()) copy.put(name, name === 'ledger' ? content : disk.content(name))
    const run = await BufferRun.open({ folder: copy.folder() })
    await run.drain()
    return run
  }
  t.same((await out(ledger)).out, [3, 4, 5])
  for (const slot of [0, 4096]) {
    for (const at of [0, 8, 40]) {
      const torn = Buffer.from(ledger)
      torn[slot + at]! ^= 1
      t.match((await out(torn)).out.join(), /^(0,1,2,)?3,4,5$/, `damage at ${at} of the slot at ${slot}`)
    }
  }
  for (const content of [Buffer.alloc(8192), Buffer.from('{'), Buffer.alloc(0)]) {
    const run = await out(content)
    t.same(run.out, [0, 1, 2, 3, 4, 5], 'all of it is delivered again')
    t.equal(run.discarded('buffer_corrupt'), 0)
  }
  const text = JSON.stringify({ sluice_buffer: 3, turn: 9 })
  const newer = Buffer.from(`${crc32(text).toString(16).padStart(8, '0')} ${text}`.padEnd(8192))
  await t.rejects(out(newer), { code: 'SLUICE_STATE_UNREADABLE', message: /ledger: it has format 3/ })
  for (const unreadable of ['ledger', disk.names().find(name => name !== 'ledger')]) {
    for (const error of ['EACCES', 'EIO'] as const) {
      disk.fault = ({ name, kind }) => (name === unreadable && kind === 'open' ? { error } : undefined)
      await t.rejects(BufferRun.open({ folder: disk.folder() }), {
        code: 'SLUICE_STATE_UNREADABLE',
        message: new RegExp(`${unreadable}: .*${error}`),
      })
    }
  }
  disk.fault = () => undefined
  const segment = disk.names().find(name => name !== 'ledger')!
  const content = disk.content(segment)
  disk.put(segment, Buffer.from(content.toString('latin1').replace('buffer 1', 'buffer 2'), 'latin1'))
  const message = /segment: it has format 2/
  await t.rejects(BufferRun.open({ folder: disk.folder() }), { code: 'SLUICE_STATE_UNREADABLE', message })
  disk.put(segment, content)
  const again = await BufferRun.open({ folder: disk.folder() })
  await again.drain()
  t.same(again.out, [3, 4, 5], 'what could not be read was neither removed nor set aside')
  const full = new SimulatedDisk()
  const run = await BufferRun.open({ folder: full.folder(), maxBytes: 8 * 300 })
  const works = ['close', 'remove']
  full.fault = ({ name, kind }) => (name === 'ledger' && !works.includes(kind) ? { error: 'ENOSPC' } : undefined)
  for (let n = 0; n < 40; n++) {
    void run.put([n], 100)
    await run.pass(1100, 3)
  }
  t.equal(run.settled.delivered.length, 40)
  t.ok(full.names().length < 4, full.names().join())
  t.equal(run.logs.filter(({ code }) => code === 'SLUICE_BUFFER_LEDGER_NOT_WRITTEN').length, 1, 'told once')
  t.equal(run.counter('sluice_buffer_progress_unsaved'), 1)
  t.match(problemsFrom(run.counters), [
    {
      what: /: its buffer cannot save which events were delivered$/,
      todo: /would get these events again.*SLUICE_BUFFER_LEDGER_NOT_WRITTEN/,
    },
  ])
  full.fault = () => undefined
  await run.drain()
  t.equal(run.counter('sluice_buffer_progress_unsaved'), 0)
})

t.test('rest: after a while nothing more is given out, and what came out can be finished', async t => {
  const disk = new SimulatedDisk()
  const run = await BufferRun.open({ folder: disk.folder(), fate: () => undefined })
  for (let n = 0; n < 4; n++) void run.put([n])
  await run.pass()
  run.buffer.restAfter(1000)
  await run.pass(900)
  t.notOk(run.ended)
  await run.pass(200)
  t.ok(run.ended, 'what follows is told that it has all')
  void run.put([4])
  await run.pass()
  t.same(run.settled.delivered, [0, 1, 2, 3, 4], 'still taken')
  for (const batch of run.batches) batch.ack.settle('delivered')
  run.input.end()
  await run.pass()
  await run.buffer.close()
  const next = await BufferRun.open({ folder: disk.folder() })
  await next.drain()
  t.same(next.out, [4], 'nothing is repeated')
})

t.test('buffers without a destination are found and kept', async t => {
  const dataDir = testFolder(t)
  const { put, end, settled } = await stage('disk', dataDir, () => new Promise(() => {}))
  await put(numbered(0, 7))
  await until(() => settled.flat().length === 1)
  await end(AbortSignal.timeout(10))
  mkdirSync(join(dataDir, 'buffer', 'empty'))
  writeFileSync(join(dataDir, 'buffer', 'a file'), 'x')
  mkdirSync(join(dataDir, 'throttle', 'an empty folder'), { recursive: true })
  writeFileSync(join(dataDir, 'throttle', 'a file'), 'x')
  const before = readdirSync(join(dataDir, 'buffer', 'out')).map(name => statSync(join(dataDir, 'buffer', 'out', name)))
  const orphans = (dataDir: string, id: string) =>
    findOrphans(
      {
        dataDir,
        sources: [],
        processors: [],
        destinations: [
          { id, kind: 'destination', options: {}, definition: {}, delivery: { buffer: { type: 'disk' } } },
        ],
        discardOrphans: [],
      } as unknown as OrphanConfig,
      log,
    )
  const found = await orphans(dataDir, 'other')
  t.match(found, [{ kind: 'buffer', id: 'out', events: 7, bytes: 210 }])
  t.equal(found.length, 1)
  const after = readdirSync(join(dataDir, 'buffer', 'out')).map(name => statSync(join(dataDir, 'buffer', 'out', name)))
  t.same(
    after.map(({ mtimeMs, size }) => ({ mtimeMs, size })),
    before.map(({ mtimeMs, size }) => ({ mtimeMs, size })),
    'it is only looked at',
  )
  t.same(await orphans(dataDir, 'out'), [])
  t.same(await orphans(join(dataDir, 'nowhere'), 'out'), [])
  rmSync(join(dataDir, 'buffer', 'out', 'ledger'))
  symlinkSync('ledger', join(dataDir, 'buffer', 'out', 'ledger'))
  t.match(
    await orphans(dataDir, 'other'),
    [{ kind: 'buffer', id: 'out', events: undefined }],
    'unreadable is not empty',
  )
  rmSync(join(dataDir, 'buffer', 'out', 'ledger'))
  const again: number[] = []
  await (await stage('disk', dataDir, n => again.push(...n))).end()
  t.equal(again.length, 7)
})

t.test('a folder that cannot be read is a reason not to start', async t => {
  const disk = new SimulatedDisk()
  disk.fault = ({ kind }) => (kind === 'list' ? { error: 'EACCES' } : undefined)
  await t.rejects(BufferRun.open({ folder: disk.folder() }), { code: 'EACCES' })
  const folder = testFolder(t, { buffer: { out: 'a file' } })
  await t.rejects(stage('disk', folder, () => {}))
  t.equal(readFileSync(join(folder, 'buffer', 'out'), 'utf8'), 'a file')
})

t.test('a buffer that is given up before it is connected gives nothing out, and closes', async t => {
  const run = await BufferRun.open({ folder: new SimulatedDisk().folder() })
  void run.put([1, 2])
  await run.pass()
  const { buffer } = run
  buffer.destroy()
  const given: EventBatch[] = []
  let ended = false
  buffer.connect({ write: batch => void given.push(batch), end: () => void (ended = true) })
  await buffer.close()
  t.same(given, [])
  t.ok(ended)
})
