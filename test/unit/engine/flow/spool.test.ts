import { pino } from 'pino'
import t from 'tap'
import { DeliveryError } from '../../../../src/core/errors.js'
import { newReading } from '../../../../src/core/event/event-id.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { StateUnreadable } from '../../../../src/core/unreadable.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { encodeIds } from '../../../../src/engine/flow/spool/ids.js'
import { framed, type ObjectFile } from '../../../../src/engine/flow/spool/object-file.js'
import { ObjectSpool } from '../../../../src/engine/flow/spool/spool.js'
import { SpoolReport } from '../../../../src/engine/flow/spool/spool-report.js'
import { batchOf } from '../../../support/batches.js'
import { failure } from '../../../support/destination.js'
import { longTest } from '../../../support/long-test.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import { Seeded } from '../../../support/seeded.js'
import { type Fault, type Operation, SimulatedDisk } from '../../../support/simulated-disk.js'

/** Objects that reached the receiver: the bytes of each time, by name. */
type Uploaded = Map<string, string[]>

interface Options {
  readonly maxObjectBytes?: number
  readonly maxObjectAgeMs?: number
  readonly maxBytes?: number
  readonly format?: string
  readonly hasRoom?: () => boolean
  /** Whether an attempt to send is answered. */
  readonly answers?: () => boolean
}

const signal = new AbortController().signal

/** A spool, and a receiver that takes each object in two requests. */
function opened(disk: SimulatedDisk, uploaded: Uploaded, time = new ManualTime(), options: Options = {}) {
  const counters = new ComponentCounters('out', 'destination', 's3')
  const logs: Record<string, unknown>[] = []
  const log = pino({ base: null }, { write: line => void logs.push(JSON.parse(line)) })
  const context = { log, metrics: counters, clock: time }
  const { format = 'json', hasRoom = () => true, answers = () => true } = options
  const spool = new ObjectSpool({
    maxObjectBytes: 100,
    maxObjectAgeMs: 10_000,
    maxBytes: 100_000,
    ...options,
    folder: disk.folder(),
    state: { hasRoom, count: () => {} },
    clock: time,
    report: new SpoolReport(context, '/simulated'),
    format,
    async send(object: ObjectFile) {
      const half = Math.floor(object.size / 2)
      const parts = [...(await object.read(0, half)), ...(await object.read(half, object.size))]
      const content = parts.join('')
      const isFirst = object.progress === undefined
      object.progress = true
      if (isFirst) return false
      uploaded.set(object.facts.key, [...(uploaded.get(object.facts.key) ?? []), content])
      if (!answers()) throw new DeliveryError('silence', { failure: 'retry', reason: 'timeout' })
      return true
    },
  })
  const put = (partition: string, numbers: readonly number[], given?: Buffer) => {
    const content = Buffer.from(numbers.map(n => `{"n":${n}}\n`).join(''))
    const factsOf = (id: string) => ({
      key: `${partition}-${id}`,
      partition,
      format,
      contentType: '',
      openedAt: time.wall(),
    })
    const ids = Buffer.alloc(8)
    ids.writeDoubleLE(time.wall())
    const record = framed(given ?? ids, [content])
    return spool.append(partition, factsOf, record, { events: numbers.length, bytes: content.length })
  }
  /** Sends what is due; an attempt that fails is not made again. */
  const sendDue = async (all = false) => {
    for (let object = spool.next(all); object; object = spool.next(all)) {
      try {
        while (!(await object.send(signal))) {}
        await object.delivered()
      } catch {
        object.release()
        return
      }
    }
  }
  return { spool, put, sendDue, counters, logs }
}

const numbersIn = (content: string) =>
  content
    .split('\n')
    .slice(0, -1)
    .map(line => (JSON.parse(line) as { n: number }).n)

/** The numbers in all objects. Each has the same bytes however often it was sent. */
function numbersOf(uploaded: Uploaded): number[] {
  return [...uploaded.values()].flatMap(([first = '', ...more]) => {
    if (more.some(content => content !== first)) throw new Error('an object came with other bytes')
    return numbersIn(first)
  })
}

t.test('objects are closed by size and by age, one is open for each partition', async t => {
  const [disk, uploaded, time] = [new SimulatedDisk(), new Map() as Uploaded, new ManualTime()]
  const { spool, put, sendDue, counters } = opened(disk, uploaded, time)
  await spool.recover()
  let due = 0
  spool.changed = () => due++
  for (let n = 0; n < 30; n++) await put(n % 3 === 0 ? 'a' : 'b', [n])
  t.same(spool.objects, { open: 2, closed: 1 }, 'b has reached 100 bytes after 12 events')
  await sendDue()
  t.equal(uploaded.size, 1)
  t.equal(spool.held.events, 18)
  t.equal(counters.passed.events, 12)
  due = 0
  await time.advance(10_000)
  t.ok(due > 0, 'it reports that an object is old enough')
  await sendDue()
  t.same(
    numbersOf(uploaded).sort((a, b) => a - b),
    Array.from({ length: 30 }, (_, n) => n),
  )
  t.same(spool.held, { events: 0, bytes: 0 })
  t.match(disk.names(), [/\.sent$/, /\.sent$/, /\.sent$/])
  t.equal(spool.oldestAt, undefined)
  await time.advance(60_000)
  spool.next(false)
  await settle()
  t.same(disk.names(), [], 'ids are kept for a minute')
})

t.test('an object that is old enough is reported once, also while nothing is sent', async t => {
  const time = new ManualTime()
  const { spool, put } = opened(new SimulatedDisk(), new Map(), time)
  await spool.recover()
  let due = 0
  await put('a', [0])
  await time.advance(5000)
  await put('b', [1])
  spool.changed = () => due++
  await time.advance(60_000)
  t.equal(due, 2, 'once for each object')
  t.same(spool.objects, { open: 0, closed: 2 })
})

t.test('the next run appends to open objects of the same format, and their age goes on', async t => {
  const [disk, uploaded, time] = [new SimulatedDisk(), new Map() as Uploaded, new ManualTime()]
  const first = opened(disk, uploaded, time)
  await first.spool.recover()
  await first.put('a', [0, 1])
  await first.put('b', [2])
  await first.spool.close()
  t.same(first.spool.held, { events: 3, bytes: 24 })
  await time.advance(6000)
  disk.killed()

  const second = opened(disk, uploaded, time)
  await second.spool.recover()
  t.same(second.spool.objects, { open: 2, closed: 0 })
  t.same(second.spool.held, { events: 3, bytes: 24 })
  await second.put('a', [3])
  await time.advance(4000)
  await second.sendDue()
  t.equal(uploaded.size, 2)
  t.same(numbersOf(uploaded).sort(), [0, 1, 2, 3])
  await second.put('a', [4])
  await second.spool.close()
  disk.killed()

  const third = opened(disk, uploaded, time, { format: 'gzip' })
  await third.spool.recover()
  t.same(third.spool.objects, { open: 0, closed: 1 }, 'nothing of another format may follow')
  await third.sendDue()
  t.same(numbersOf(uploaded).sort(), [0, 1, 2, 3, 4])
})

t.test('nothing is appended to an object that may have been sent, also by the next run', async t => {
  const [disk, uploaded] = [new SimulatedDisk(), new Map() as Uploaded]
  const first = opened(disk, uploaded, undefined, { answers: () => false })
  await first.spool.recover()
  await first.put('a', [0])
  await first.sendDue(true)
  t.same(numbersOf(uploaded), [0])
  await first.spool.close()
  disk.powerFailed(() => 0)

  const second = opened(disk, uploaded)
  await second.spool.recover()
  await second.put('a', [1])
  await second.sendDue(true)
  t.same(numbersOf(uploaded).sort(), [0, 1])
  t.equal(uploaded.size, 2)
})

t.test('events are known after the clock was set back', async t => {
  const [disk, uploaded, time] = [new SimulatedDisk(), new Map() as Uploaded, new ManualTime()]
  const batch = batchOf(['one', 'two', 'three'])
  batch.places = new SentOffsets(0, { reading: newReading(), at: 0 }, Float64Array.from([0, 1, 2]))
  const first = opened(disk, uploaded, time)
  await first.spool.recover()
  await time.advance(120_000)
  const of = (i: number, at: number) => encodeIds([batch.select([i])], time.wall() + at)
  await first.put('a', [0], of(0, 3_600_000))
  await first.put('a', [1], of(1, -1000))
  await first.put('a', [2], of(2, -90_000))
  await first.spool.close()
  disk.killed()
  const { spool } = opened(disk, uploaded, time)
  await spool.recover()
  t.same(
    [0, 1, 2].map(i => spool.isKnown(batch, i)),
    [true, true, false],
  )
})

t.test('a full spool closes its largest objects, and takes nothing until there is room', async t => {
  const [disk, uploaded] = [new SimulatedDisk(), new Map() as Uploaded]
  let hasRoom = true
  // Each file takes whole blocks.
  const options = { maxObjectBytes: 1e6, maxBytes: 16 * 4096, hasRoom: () => hasRoom }
  const { spool, put, sendDue } = opened(disk, uploaded, new ManualTime(), options)
  await spool.recover()
  const many = Array.from({ length: 1100 }, (_, n) => n)
  await put('small', [0])
  t.equal(spool.bytes, 4096)
  await put('large', many)
  await put('large', many)
  await put('large', many)
  await put('small', [1])
  t.same(spool.objects, { open: 1, closed: 1 })
  const full = async () => await put('other', many)
  await put('other', many)
  await put('other', many)
  t.match(await failure(full()), { reason: 'spool_full', failure: 'retry', message: /in 3 objects/ })
  await sendDue()
  t.equal(spool.held.events, 0, 'open objects make room, too')
  await full()
  hasRoom = false
  t.match(await failure(full()), { reason: 'spool_full' })
})

t.test('of 500 open objects, the least recently written one makes room for another, which is logged', async t => {
  const { spool, put, logs } = opened(new SimulatedDisk(), new Map(), undefined, { maxBytes: 1e7 })
  await spool.recover()
  for (let n = 0; n < 500; n++) await put(`p${n}`, [n])
  t.same(logs, [])
  await put('p0', [500])
  await put('more', [501])
  await put('p0', [502])
  t.same(spool.objects, { open: 500, closed: 1 })
  t.match(logs, [{ level: 40, most: 500 }])
})

t.test('a full disk costs nothing, and leaves no part of a record', async t => {
  const [disk, uploaded] = [new SimulatedDisk(), new Map() as Uploaded]
  const { spool, put, sendDue } = opened(disk, uploaded)
  await spool.recover()
  await put('a', [0])
  disk.fault = ({ kind, size }) => (kind === 'write' ? { error: 'ENOSPC', done: size >> 1 } : undefined)
  t.match(await failure(put('a', [1])), { reason: 'spool_enospc', failure: 'retry' })
  t.match(await failure(put('b', [2])), { reason: 'spool_enospc' })
  disk.fault = () => undefined
  await put('a', [1])
  await put('b', [2])
  disk.capacity = 0
  await sendDue(true)
  t.same(numbersOf(uploaded).sort(), [0, 1, 2])
  t.same(
    disk.names().filter(name => !name.endsWith('.sent')),
    [],
    'what is sent makes room',
  )
})

t.test('a file that somebody removes costs its events, which are counted, and no others', async t => {
  const [disk, uploaded] = [new SimulatedDisk(), new Map() as Uploaded]
  const { spool, put, sendDue, counters } = opened(disk, uploaded)
  await spool.recover()
  await put('a', [0, 1])
  for (const name of disk.names()) await disk.folder().remove(name)
  t.match(await failure(put('a', [2])), { reason: 'spool_enoent', failure: 'retry' })
  await put('a', [2])
  await sendDue(true)
  t.same(numbersOf(uploaded), [2])
  t.same(counters.discards.get('spool_corrupt'), { events: 2, bytes: 16 })
  t.same(spool.held, { events: 0, bytes: 0 })
})

t.test('a file that somebody removes between two attempts costs its events, which are counted', async t => {
  const [disk, uploaded] = [new SimulatedDisk(), new Map() as Uploaded]
  let answers = false
  const { spool, put, sendDue, counters } = opened(disk, uploaded, undefined, { answers: () => answers })
  await spool.recover()
  await put('a', [0, 1])
  await sendDue(true)
  for (const name of disk.names()) await disk.folder().remove(name)
  uploaded.clear()
  answers = true
  await put('b', [2])
  await sendDue(true)
  t.same(numbersOf(uploaded), [2])
  t.same(counters.discards.get('spool_corrupt'), { events: 2, bytes: 16 })
  t.same(spool.held, { events: 0, bytes: 0 })
  t.equal(counters.counter('sluice_spool_uploaded_objects_total', '').value, 1)
})

t.test('an object that cannot be read does not stop the others', async t => {
  const [disk, uploaded] = [new SimulatedDisk(), new Map() as Uploaded]
  const { spool, put, sendDue } = opened(disk, uploaded)
  await spool.recover()
  await put('a', [0])
  await put('b', [1])
  const object = spool.next(true)!
  t.notOk(await object.send(signal), 'one request of two')
  const [unreadable] = disk.names().filter(name => name.endsWith('.closed'))
  disk.fault = ({ kind, name }) => (kind === 'read' && name === unreadable ? { error: 'EIO' } : undefined)
  t.match(await failure(object.send(signal)), { reason: 'spool_read', failure: 'retry', message: /cannot read .*EIO/ })
  while (!(await object.send(signal))) {}
  await object.delivered()
  t.same(numbersOf(uploaded), [1])
  disk.fault = () => undefined
  await sendDue()
  t.same(numbersOf(uploaded), [1, 0])
})

t.test('damage costs the events of its records, which are counted', async t => {
  const [disk, uploaded] = [new SimulatedDisk(), new Map() as Uploaded]
  const first = opened(disk, uploaded)
  await first.spool.recover()
  for (const n of [0, 1, 2, 3]) await first.put('a', [n])
  await first.put('b', [4])
  await first.put('c', [5, 6])
  for (const n of [7, 8, 9]) await first.put('d', [n])
  await first.spool.close()
  disk.killed()
  for (const name of disk.names()) {
    const content = Buffer.from(disk.content(name))
    const at = content.indexOf('{"n":1}')
    if (at >= 0) content[at] = 0x20
    // The name of b.
    if (content.includes('{"n":4}')) content[content.indexOf('partition')] = 0x20
    const head = content.indexOf('{"n":5}') - 1
    if (head > 0) content[head] = ~content[head]!
    for (const n of [8, 9]) {
      const at = content.indexOf(`{"n":${n}}`)
      if (at >= 0) content[at] = 0x20
    }
    disk.put(name, content)
  }
  const next = opened(disk, uploaded)
  await next.spool.recover()
  t.equal(next.spool.held.events, 7, 'the last records of c and d may be unfinished writes')
  const cut = next.logs.filter(({ level, msg }) => level === 40 && /removed an unfinished write/.test(String(msg)))
  t.same(cut.map(({ events }) => events).sort(), [1, 2])
  await next.put('d', [10])
  await next.sendDue(true)
  t.same(numbersOf(uploaded).sort(), [0, 10, 2, 3, 7])
  t.same(next.counters.discards.get('spool_corrupt'), { events: 3, bytes: 24 })
  t.equal(next.spool.held.events, 0)
  t.match(
    disk.names().filter(name => !name.endsWith('.sent')),
    [/\.object\.damaged$/],
  )
})

t.test('what is damaged in a closed object is counted, also at its end', async t => {
  const [disk, uploaded] = [new SimulatedDisk(), new Map() as Uploaded]
  const first = opened(disk, uploaded, undefined, { answers: () => false })
  await first.spool.recover()
  await first.put('a', [0])
  await first.put('a', [1, 2])
  await first.sendDue(true)
  await first.spool.close()
  disk.killed()
  const [name = ''] = disk.names()
  t.match(name, /\.closed$/)
  const content = Buffer.from(disk.content(name))
  content[content.length - 3] = 0x20
  disk.put(name, content)
  // A kill before it is sent changes nothing.
  for (let starts = 0; starts < 2; starts++) {
    const next = opened(disk, new Map())
    await next.spool.recover()
    t.equal(next.spool.held.events, 3)
    await next.spool.close()
    disk.killed()
  }
  const last = opened(disk, uploaded)
  await last.spool.recover()
  uploaded.clear()
  await last.sendDue(true)
  t.same(numbersOf(uploaded), [0])
  t.same(last.counters.discards.get('spool_corrupt'), { events: 2, bytes: 16 })
})

/** Two runs with appends to two partitions, sends, and answers that do not come. */
async function play(disk: SimulatedDisk, seed: number, taken: Set<number>, uploaded: Uploaded): Promise<void> {
  const random = new Seeded(seed)
  const time = new ManualTime()
  let n = 0
  for (let session = 0; session < 2; session++) {
    const { spool, put, sendDue } = opened(disk, uploaded, time, { answers: () => random.chance(0.7) })
    for (let isOpen = false; !isOpen; ) {
      isOpen = await spool.recover().then(
        () => true,
        error => {
          if (!(error instanceof StateUnreadable)) throw error
          return false
        },
      )
    }
    for (let step = 0; step < 3; step++) {
      const writes = ['a', 'b'].map(async partition => {
        const numbers = Array.from({ length: 1 + random.below(4) }, () => n++)
        // A destination tries again until it works.
        for (let isTaken = false; !isTaken; )
          isTaken = await put(partition, numbers).then(
            () => true,
            () => false,
          )
        for (const number of numbers) taken.add(number)
      })
      await Promise.all(writes)
      if (random.chance(0.5)) await sendDue(random.chance(0.3))
    }
    await spool.close()
  }
}

/** What holds after a start behind it all; undefined: nothing is wrong. */
async function fault(disk: SimulatedDisk, taken: Set<number>, uploaded: Uploaded): Promise<string | undefined> {
  const { spool, sendDue, counters } = opened(disk, uploaded)
  await spool.recover()
  await sendDue(true)
  const all = numbersOf(uploaded)
  const seen = new Set(all)
  const lost = [...taken].filter(number => !seen.has(number))
  if (lost.length > 0) return `lost ${lost}`
  const twice = all.filter((number, i) => taken.has(number) && all.indexOf(number) !== i)
  if (twice.length > 0) return `twice ${twice}`
  return counters.discards.size > 0 ? 'told that events are missing' : undefined
}

/** Plays until the end, or until the disk stops answering. */
async function playOn(disk: SimulatedDisk, seed: number, taken = new Set<number>(), uploaded: Uploaded = new Map()) {
  const end = play(disk, seed, taken, uploaded).then(() => true)
  while (!disk.stopped && !(await Promise.race([end, new Promise(resolve => setImmediate(resolve, false))]))) {}
  return { taken, uploaded }
}

const SEED = 11

longTest('a kill and a power failure at every operation: no event is lost or twice, no object changes', async t => {
  const clean = new SimulatedDisk()
  const { taken, uploaded } = await playOn(clean, SEED)
  t.equal(await fault(clean, taken, uploaded), undefined)
  const kinds = new Set(clean.log.map(({ kind }) => kind))
  for (const kind of ['create', 'open', 'write', 'read', 'sync', 'folder_sync', 'remove'] as const)
    t.ok(kinds.has(kind), `the play has ${kind}`)
  for (const { index, size, kind } of clean.log) {
    for (const done of kind === 'write' ? [0, size >> 1, size] : [0]) {
      for (const power of [false, true]) {
        const disk = new SimulatedDisk()
        disk.fault = now => (now.index === index ? { stop: true, done } : undefined)
        const { taken, uploaded } = await playOn(disk, SEED)
        const random = new Seeded(index)
        if (power) disk.powerFailed(() => random.below(1000) / 1000)
        else disk.killed()
        const wrong = await fault(disk, taken, uploaded)
        if (wrong) t.fail(`operation ${index}, ${kind}, ${power ? 'power' : 'kill'}, ${done} bytes: ${wrong}`)
      }
    }
  }
})

longTest('every operation of the disk fails: no event is lost, no object changes', async t => {
  const clean = new SimulatedDisk()
  await playOn(clean, SEED)
  const faultsOf = ({ kind, size }: Operation): Fault[] => {
    if (kind === 'sync') return [{ error: 'EIO' }, { error: 'EIO', loses: true }]
    return kind === 'write' ? [0, size >> 1, size].map(done => ({ error: 'ENOSPC', done })) : [{ error: 'EIO' }]
  }
  for (const operation of clean.log.filter(({ kind }) => kind !== 'list'))
    for (const planned of faultsOf(operation))
      for (const times of [1, 4]) {
        const { index, kind, name } = operation
        const disk = new SimulatedDisk()
        let left = times
        disk.fault = now => (now.index >= index && now.kind === kind && left-- > 0 ? planned : undefined)
        const { taken, uploaded } = await playOn(disk, SEED)
        disk.killed()
        const wrong = await fault(disk, taken, uploaded)
        if (wrong) t.fail(`operation ${index}, ${kind} ${name}, ${times} times, ${JSON.stringify(planned)}: ${wrong}`)
      }
})
