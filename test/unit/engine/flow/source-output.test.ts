import { Writable } from 'node:stream'
import t from 'tap'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { eventId } from '../../../../src/core/event/event-id.js'
import { parseFieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { silentLog } from '../../../../src/core/silent-log.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { FanOut, Input } from '../../../../src/engine/flow/fan-out.js'
import { SourceOutput } from '../../../../src/engine/flow/source-output.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { LineSplitter } from '../../../../src/lib/lines/line-splitter.js'
import { originOf } from '../../../support/batches.js'
import { until } from '../../../support/until.js'

function fanOutTo(taken: EventBatch[]): FanOut {
  const stream = new Writable({
    objectMode: true,
    highWaterMark: 1_000_000,
    write(batch: EventBatch, _encoding, done) {
      taken.push(batch)
      done()
    },
  })
  const fanOut = new FanOut()
  fanOut.connect(new Input(stream, new ComponentCounters('out', 'destination', 'fake')))
  return fanOut
}

/** Takes any number of batches and settles none. */
function setUp(maxBytes: number, keeps = false) {
  const taken: EventBatch[] = []
  const fanOut = fanOutTo(taken)
  const counters = new ComponentCounters('in', 'source', 'fake')
  const output = new SourceOutput(fanOut, counters, maxBytes, silentLog, keeps ? { once: true } : {})
  const batchOf = (text: string) =>
    new EventBatch(
      new LineSplitter(1 << 20).push(Buffer.from(text))!,
      originOf('text'),
      0,
      output.ack(() => {}),
    )
  const send = async (text: string) => {
    let done = false
    void output.send(batchOf(text)).then(() => {
      done = true
    })
    await new Promise(resolve => setImmediate(resolve))
    return () => done
  }
  return { taken, output, send }
}

t.test('no more than the budget is under way, plus one batch', async t => {
  const { taken, send } = setUp(1_000_000)
  const line = `${'x'.repeat(99_999)}\n`
  const sent = []
  do sent.push(await send(line))
  while (sent.at(-1)!() && sent.length < 100)
  t.equal(taken.length, 10, 'ten batches of 100 kB fill a budget of 1 MB')
  const waits = sent.at(-1)!
  taken[3]!.ack.settle('delivered')
  await new Promise(resolve => setImmediate(resolve))
  t.ok(waits(), 'a settled one makes room')
})

t.test('many tiny batches count for what they cost', async t => {
  const { taken, send } = setUp(1_000_000)
  let done = await send('x\n')
  while (done() && taken.length < 5000) done = await send('x\n')
  t.ok(taken.length < 1100, `${taken.length} batches of one byte`)
})

t.test('a batch that lets go of its chunk frees the budget', async t => {
  const { taken, send } = setUp(1_000_000)
  const waits = await send(`short\n${'x'.repeat(1_000_000)}\n`)
  t.notOk(waits())
  taken[0]!.retain(i => i === 0)
  taken[0]!.compact()
  await new Promise(resolve => setImmediate(resolve))
  t.ok(waits())
  taken[0]!.ack.settle('delivered')
  t.notOk((await send(`${'x'.repeat(1_000_000)}\n`))(), 'once')
})

t.test('what is held again in the turn in which it is resumed sends nothing', async t => {
  for (let turns = 0; turns < 5; turns++) {
    const { taken, output, send } = setUp(1_000_000)
    output.hold()
    await send('a line\n')
    const next: EventBatch[] = []
    output.attach(fanOutTo(next), 1_000_000)
    for (let i = 0; i < turns; i++) await Promise.resolve()
    const sent = next.length
    output.hold()
    await new Promise(resolve => setImmediate(resolve))
    t.equal(next.length, sent, `after ${turns} turns`)
    output.attach(fanOutTo(next), 1_000_000)
    await new Promise(resolve => setImmediate(resolve))
    t.same([taken.length, next.length], [0, 1])
  }
})

t.test('what comes to a stream that was destroyed is given back', async t => {
  const stream = new Writable({ objectMode: true })
  stream.destroy()
  const fanOut = new FanOut()
  const counters = new ComponentCounters('out', 'destination', 'fake')
  fanOut.connect(new Input(stream, counters))
  const output = new SourceOutput(fanOut, new ComponentCounters('in', 'source', 'fake'), 1_000_000, silentLog)
  const settled: AckStatus[] = []
  const ack = output.ack(status => settled.push(status))
  const frame = new LineSplitter(1 << 20).push(Buffer.from('a line\n'))!
  await output.send(new EventBatch(frame, originOf('text'), 0, ack))
  t.same(settled, ['errored'])
  t.equal(output.unsettled, 0)
})

t.test('closed: nobody waits any more', async t => {
  const { output, send } = setUp(10)
  const waits = await send('a line that is longer than that\n')
  t.notOk(waits())
  output.close()
  await new Promise(resolve => setImmediate(resolve))
  t.ok(waits())
})

t.test('with other components behind it: what was made before is read as they want it', async t => {
  const wanted = new WantedNames()
  wanted.slot('before')
  const { taken, output } = setUp(1_000_000)
  const batchOf = (text: string) =>
    new EventBatch(
      new LineSplitter(1 << 20).push(Buffer.from(text))!,
      { source: 'in', host: 'here', codec: JSON_OBJECTS, wanted },
      0,
      output.ack(() => {}),
    )
  const [early, gated] = [batchOf('{"b":"one","a":"two"}\n'), batchOf('{"b":"three","a":"four"}\n')]
  output.hold()
  const sent = output.send(gated)
  wanted.clear()
  const readers = ['.a', '.b'].map(path => new FieldReader(parseFieldPath(path), wanted))
  output.attach(fanOutTo(taken), 1_000_000)
  await sent
  await output.send(early)
  const read = taken.map(batch =>
    readers.map(reader => {
      reader.load(batch, 0)
      return reader.text()
    }),
  )
  t.same(read, [
    ['four', 'three'],
    ['two', 'one'],
  ])
})

t.test(
  'who waits for room in a stream that is ended meanwhile goes on, whether that closes by itself or not',
  async t => {
    for (const autoDestroy of [true, false]) {
      let finishWrite = () => {}
      const stream = new Writable({
        objectMode: true,
        highWaterMark: 1,
        autoDestroy,
        write(_batch, _encoding, done) {
          finishWrite = done
        },
      })
      const fanOut = new FanOut()
      fanOut.connect(new Input(stream, new ComponentCounters('out', 'destination', 'fake')))
      const counters = new ComponentCounters('in', 'source', 'fake')
      const output = new SourceOutput(fanOut, counters, 1_000_000, silentLog)
      const frame = new LineSplitter(1 << 20).push(Buffer.from('a\n'))!
      const ack = output.ack(() => {})
      let sent = false
      void output.send(new EventBatch(frame, originOf('text'), 0, ack)).then(() => {
        sent = true
      })
      output.hold()
      fanOut.end()
      await new Promise(resolve => setImmediate(resolve))
      t.notOk(sent, 'it waits')
      finishWrite()
      t.ok(await until(() => sent), autoDestroy ? 'closes by itself' : 'stays open')
      ack.settle('delivered')
    }
  },
)

t.test('what waits to be sent does not overtake events that were given back', async t => {
  const { taken, output, send } = setUp(1_000_000)
  await send('first\n')
  output.hold()
  await send('second\n')
  output.giveUp(false)
  t.equal(output.unsettled, 2, 'nothing was given back')
  taken[0]!.ack.settle('errored')
  output.giveUp(false)
  t.equal(output.unsettled, 0)
  const later: EventBatch[] = []
  output.attach(fanOutTo(later), 1_000_000)
  await new Promise(resolve => setImmediate(resolve))
  t.same(later, [], 'both are read again')
})

t.test('what waits to be sent and is given up releases its memory, and is given back once', async t => {
  const { taken, output } = setUp(1_000_000)
  const said: string[] = []
  const frame = new LineSplitter(1 << 20).push(Buffer.from('a line\n'))!
  const ack = output.ack(status => said.push(status))
  const batch = new EventBatch({ ...frame, release: () => said.push('released') }, originOf('text'), 0, ack)
  output.hold()
  const sent = output.send(batch)
  output.giveUp()
  t.same(said, ['errored'])
  output.attach(fanOutTo(taken), 1_000_000)
  await sent
  t.same(said, ['errored', 'released'])
  t.same(taken, [])
})

t.test('what waits to be sent while components are replaced is given back when the run ends', async t => {
  const { taken, output, send } = setUp(1_000_000)
  output.hold()
  const done = await send('first\n')
  output.close()
  await new Promise(resolve => setImmediate(resolve))
  t.same(taken, [], 'the components behind it have ended')
  t.ok(done())
  t.equal(output.unsettled, 0)
})

t.test(
  'what waits to be sent while components are replaced is given back when its source ends right after',
  async t => {
    const { output, send } = setUp(1_000_000)
    output.hold()
    const done = await send('first\n')
    const later: EventBatch[] = []
    output.attach(fanOutTo(later), 1_000_000)
    output.end()
    await new Promise(resolve => setImmediate(resolve))
    t.same(later, [], 'the input of the components has ended')
    t.ok(done())
    t.equal(output.unsettled, 0)
  },
)

for (const keeps of [false, true]) {
  const how = keeps ? 'that cannot read again' : 'that reads again'
  t.test(`batches of a source ${how} stay with their holders, unless others were given back`, async t => {
    const { taken, output, send } = setUp(1_000_000, keeps)
    await send('first\n')
    await send('second\n')
    const [, second] = taken.map(({ ack }) => ack)
    output.hold()
    second!.settle('delivered')
    t.notOk(output.repeats)
    output.giveUp(false)
    const later: EventBatch[] = []
    output.attach(fanOutTo(later), 1_000_000)
    t.same(later, [], 'it is not sent again')
    t.equal(output.unsettled, 1)
    await send('third\n')
    output.hold()
    later[0]!.ack.settle('errored')
    t.ok(output.repeats)
  })
}

t.test('what was settled behind a batch that was given back counts as received again, once', async t => {
  const taken: EventBatch[] = []
  const counters = new ComponentCounters('in', 'source', 'fake')
  const output = new SourceOutput(fanOutTo(taken), counters, 1_000_000, silentLog)
  const origins = [originOf('text'), originOf('text')] as const
  const send = async (n: 0 | 1, lines: number) => {
    const frame = new LineSplitter(1 << 20).push(Buffer.from('x\n'.repeat(lines)))!
    const batch = new EventBatch(
      frame,
      origins[n],
      0,
      output.ack(() => {}),
    )
    await output.send(batch)
    return batch.ack
  }
  const first = await send(0, 1)
  const errored = await send(0, 2)
  const other = await send(1, 4)
  const behind = await send(0, 8)
  const open = await send(0, 16)
  const last = await send(0, 32)
  const otherBehind = await send(1, 64)
  for (const ack of [behind, otherBehind, other]) ack.settle('delivered')
  output.hold()
  output.replace()
  errored.settle('errored')
  for (const ack of [last, first, open]) ack.settle('delivered')
  t.equal(counters.received.events, 127)
  t.same([counters.toRead.events, counters.toRepeat], [2, 8 + 16 + 32], 'not what was before it, or of another origin')
  output.attach(fanOutTo(taken), 1_000_000)
  for (const lines of [2, 8, 16, 32, 1]) (await send(0, lines)).settle('delivered')
  t.equal(counters.received.events, 127 + 8 + 16 + 32 + 1)
  t.same([counters.toRead.events, counters.toRepeat, counters.receivedAgain], [0, 0, 8 + 16 + 32])
})

t.test('what was settled while batches before it were open does not count when these are settled', async t => {
  const taken: EventBatch[] = []
  const counters = new ComponentCounters('in', 'source', 'fake')
  const output = new SourceOutput(fanOutTo(taken), counters, 1_000_000, silentLog)
  const origin = originOf('text')
  for (let i = 0; i < 4; i++) {
    const frame = new LineSplitter(1 << 20).push(Buffer.from('x\n'))!
    const ack = output.ack(() => {})
    await output.send(new EventBatch(frame, origin, 0, ack))
  }
  for (const i of [1, 2, 0]) taken[i]!.ack.settle('delivered')
  output.hold()
  output.replace()
  taken[3]!.ack.settle('errored')
  t.equal(counters.toRepeat, 0)
})

t.test(
  'of a source whose server gives events again, only what came back counts, and only that is given back',
  async t => {
    const taken: EventBatch[] = []
    const counters = new ComponentCounters('in', 'source', 'fake')
    const output = new SourceOutput(fanOutTo(taken), counters, 1_000_000, silentLog, { redelivers: true })
    const settled: string[] = []
    const origin = originOf('text')
    for (let i = 0; i < 4; i++) {
      const frame = new LineSplitter(1 << 20).push(Buffer.from('x\n'))!
      const ack = output.ack(status => settled.push(`${i} ${status}`))
      await output.send(new EventBatch(frame, origin, 0, ack))
    }
    output.hold()
    for (const [i, status] of [
      [2, 'delivered'],
      [0, 'errored'],
    ] as const)
      taken[i]!.ack.settle(status)
    t.same([counters.toRead.events, counters.toRepeat], [1, 0], 'it does not read again what was behind')
    output.giveUp(false)
    t.same(settled, ['2 delivered', '0 errored'], 'none can be overtaken')
    output.giveUp()
    t.same(settled, ['2 delivered', '0 errored', '1 errored', '3 errored'])
  },
)

t.test('what is sent again while somebody holds it keeps its bytes until both have settled it', async t => {
  const taken: EventBatch[] = []
  const output = new SourceOutput(
    fanOutTo(taken),
    new ComponentCounters('in', 'source', 'fake'),
    1_000_000,
    silentLog,
    {
      once: true,
    },
  )
  let released = 0
  const ack = output.ack(() => {})
  const frame = new LineSplitter(1 << 20).push(Buffer.from('a line\n'))!
  await output.send(new EventBatch({ ...frame, release: () => void released++ }, originOf('text'), 0, ack))
  ack.fork()
  output.hold()
  ack.settle('errored')
  output.giveUp(false)
  output.attach(fanOutTo(taken), 1_000_000)
  t.equal(taken.length, 2)
  taken[1]!.ack.settle('delivered')
  t.equal(released, 0)
  ack.settle('delivered')
  t.equal(released, 1)
})

t.test('each event has an id, which it keeps when its batch is sent again', async t => {
  const { taken, output, send } = setUp(1_000_000, true)
  const ids = () => taken.flatMap(batch => Array.from({ length: batch.length }, (_, i) => eventId(batch, i)))
  await send('the same\nthe same\n')
  await send('the same\n')
  t.equal(new Set(ids()).size, 3)
  output.hold()
  output.giveUp()
  const later: EventBatch[] = []
  output.attach(fanOutTo(later), 1_000_000)
  await until('they are sent again', () => later.length === 2)
  const before = ids()
  taken.splice(0, taken.length, ...later)
  t.same(ids(), before)
})

t.test('a batch of which a part was given back does not stay', async t => {
  const { taken, output, send } = setUp(1_000_000)
  await send('first\n')
  const [{ ack }] = taken as [EventBatch]
  ack.fork()
  output.hold()
  ack.settle('errored')
  t.ok(output.repeats)
  ack.settle('errored')
  t.ok(output.repeats)
})
