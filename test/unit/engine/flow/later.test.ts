import t from 'tap'
import { defineProcessor, type Processor } from '../../../../src/core/component.js'
import type { AckStatus, OnSettled } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { type BatchScope, discard, LATER, MAIN } from '../../../../src/core/processor.js'
import { isReady } from '../../../../src/daemon/status/ready.js'
import { SlowWork } from '../../../../src/engine/flow/failures.js'
import { SteadyClock } from '../../../../src/engine/flow/steady-clock.js'
import type { WaitedEvents } from '../../../../src/engine/flow/waiting.js'
import { type Logged, recordingLog } from '../../../../src/engine/testing/recording-log.js'
import { nextTurn } from '../../../../src/lib/time.js'
import { batchOf, linesOf } from '../../../support/batches.js'
import { madeUp } from '../../../support/made-up.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import { stageOf } from '../../../support/stage.js'

type Decide = (event: { n: number; at?: number }, scope: BatchScope, now: number) => number

/** By default an event passes when its time `at` has come. */
const inTime: Decide = ({ at = 0 }, scope, now) => {
  if (at <= now) return MAIN
  scope.later(at - now)
  return LATER
}

/** A stage around a processor that decides by `decide`, in a time that stands still. */
function stageWith(decide: Decide = inTime, isAsync = false, rereads = ['again'], given?: SteadyClock) {
  const clock = new ManualTime()
  const asked: number[][] = []
  const processor: Processor = {
    process(batch, to, scope) {
      const run = () => {
        asked.push(Array.from({ length: batch.length }, (_, i) => batch.fields(i).n as number))
        for (let i = 0; i < batch.length; i++)
          to[i] = decide(batch.fields(i) as { n: number }, scope, (given ?? clock).now())
      }
      if (!isAsync) return run()
      return nextTurn().then(run)
    },
  }
  const definition = defineProcessor({
    type: 'made_here',
    ...madeUp(),
    plan: () => ({ waits: true, reasons: ['refused'] }),
    create: () => processor,
  })
  const readsAgain = (source: string) => rereads.includes(source)
  const { stage, counters, wanted } = stageOf(definition, {}, { clock: given ?? clock, readsAgain })
  const settled: [source: string, status: AckStatus][] = []
  const batch = (source: string, events: object[], also: OnSettled = () => {}) => {
    const onSettled: OnSettled = (status, before) => {
      settled.push([source, status])
      also(status, before)
    }
    const made = batchOf(events, { wanted, source, onSettled })
    counters.arrived(made.length, made.bytes)
    return made
  }
  const left: number[] = []
  stage.on('data', (batch: EventBatch) => {
    left.push(...linesOf(batch).map(line => JSON.parse(line).n as number))
    batch.ack.settle('delivered')
  })
  const send = async (source: string, ...events: object[]) => {
    stage.write(batch(source, events))
    await settle()
  }
  const balanced = () => counters.imbalance().events === 0 && counters.imbalance().bytes === 0
  /** Passes on what waits in a predecessor. */
  const inherit = (all: readonly WaitedEvents[]) => {
    for (const left of all) {
      counters.arrived(left.batch.length, left.batch.bytes)
      stage.inherit(left)
    }
  }
  return { stage, counters, wanted, clock, send, batch, left, settled, asked, balanced, inherit }
}

t.test(
  'of events that are due at the same moment, the first is asked about first, however their times are rounded',
  async t => {
    const opensAt = 0.3
    let isTaken = false
    const takeOne = ({ waits = 50 }: { n: number; waits?: number }, scope: BatchScope, now: number) => {
      if (now >= opensAt && !isTaken) {
        isTaken = true
        return MAIN
      }
      scope.later(isTaken ? 50 : waits)
      return LATER
    }
    const { stage, send, left, clock } = stageWith(takeOne)
    await clock.advance(0.1)
    t.ok(clock.now() + 0.2 > opensAt, 'by its last digit')
    await send('a', { n: 1, waits: 0.2 })
    await clock.advance(0.05)
    await send('a', { n: 2, waits: opensAt - clock.now() })
    await clock.advance(0.15)
    await settle()
    t.same(left, [1])
    stage.destroy()
  },
)

for (const isAsync of [false, true]) {
  const how = isAsync ? ', by a processor that takes time' : ''

  t.test(`events that are LATER wait in the stage while others pass${how}`, async t => {
    const { stage, send, left, clock, settled, counters, balanced } = stageWith(inTime, isAsync)
    await send('a', { n: 1 }, { n: 2, at: 100 }, { n: 3 }, { n: 4, at: 50 })
    t.same(left, [1, 3])
    t.same(settled, [], 'the batch is not settled while some of it waits')
    t.equal(counters.held().events, 2)
    t.ok(balanced())
    await clock.advance(49)
    t.same(left, [1, 3])
    await clock.advance(1)
    await settle()
    t.same(left, [1, 3, 4])
    await clock.advance(50)
    await settle()
    t.same(left, [1, 3, 4, 2])
    t.same(settled, [['a', 'delivered']])
    t.equal(counters.held().events, 0)
    t.ok(balanced())
    t.notOk(stage.owes)
  })

  t.test(`the end of the input waits for them${how}`, async t => {
    const { stage, send, left, clock, counters } = stageWith(inTime, isAsync)
    await send('a', { n: 1, at: 100 })
    let ended = false
    stage.on('end', () => {
      ended = true
    })
    stage.end()
    await settle()
    t.notOk(ended)
    await clock.advance(100)
    await settle()
    t.same(left, [1])
    t.ok(ended)
    t.equal(counters.held().events, 0)
  })

  t.test(`at the end they go back to sources that read again, and are decided for others${how}`, async t => {
    const decide: Decide = (event, scope, now) => (scope.mayWait ? inTime(event, scope, now) : discard(0))
    const { stage, send, left, settled, counters, balanced } = stageWith(decide, isAsync)
    await send('again', { n: 1 }, { n: 2, at: 100 })
    await send('once', { n: 3, at: 100 })
    stage.endWaiting(() => false)
    await settle()
    await send('again', { n: 4, at: 100 })
    await send('once', { n: 5, at: 100 })
    stage.end()
    await settle()
    t.same(left, [1])
    t.same(settled.toSorted(), [
      ['again', 'errored'],
      ['again', 'errored'],
      ['once', 'delivered'],
      ['once', 'delivered'],
    ])
    t.equal(counters.discards.get('refused')?.events, 2)
    t.equal(counters.held().events, 2, 'what was given back is in flight until it comes again')
    t.ok(balanced())
    t.ok(stage.writableFinished)
  })

  t.test(`a stage that is destroyed gives back what waits${how}`, async t => {
    const { stage, send, settled, balanced } = stageWith(inTime, isAsync)
    await send('once', { n: 1, at: 100 })
    await send('again', { n: 2, at: 100 })
    stage.destroy()
    await settle()
    t.same(settled, [
      ['once', 'errored'],
      ['again', 'errored'],
    ])
    t.ok(balanced())
  })
}

t.test('at a reload the successor goes on with what waits, in order, and without receiving it again', async t => {
  const kept: [n: number, keptMs: number, isInherited: boolean][] = []
  const decide: Decide = (event, scope, now) => {
    kept.push([event.n, scope.keptMs, scope.isInherited])
    return inTime(event, scope, now)
  }
  const one = stageWith(inTime, false, ['stays', 'again'])
  await one.send('stays', { n: 1 }, { n: 2, at: 100 }, { n: 3, at: 60 })
  await one.send('again', { n: 4, at: 100 })
  await one.clock.advance(50)
  one.stage.endWaiting(source => source === 'stays')
  await one.clock.advance(50)
  await one.send('stays', { n: 5 })
  one.stage.end()
  await settle()
  t.same(one.left, [1], 'it asks about nothing any more, and about nothing behind it')
  t.same(one.settled, [['again', 'errored']], 'what waits of others goes back')
  t.ok(one.balanced())
  const two = stageWith(decide)
  two.inherit(one.stage.leftToSuccessor.map(left => ({ ...left, dueAt: 0 })))
  await two.send('stays', { n: 6 })
  t.same(two.left, [5, 6])
  t.same(kept.slice(0, 4), [
    [2, 100, true],
    [3, 100, true],
    [5, 0, false],
    [6, 0, false],
  ])
  await two.clock.advance(60)
  t.same(kept.slice(4), [
    [2, 160, false],
    [3, 160, false],
  ])
  t.same(two.left, [5, 6, 3])
  t.equal(two.counters.held().events, 1)
  t.ok(two.balanced())
  two.stage.destroy()
  await settle()
  t.same(one.settled.at(-1), ['stays', 'errored'], 'the source reads again what was not decided')
})

t.test('a successor asks about what is due although nothing arrives, also if something is behind it', async t => {
  const one = stageWith()
  await one.send('a', { n: 1, at: 100 })
  one.stage.endWaiting(() => true)
  await one.send('a', { n: 2 })
  one.stage.end()
  await settle()
  const two = stageWith()
  // Nothing but the clock makes it look at what it has.
  await settle()
  two.inherit(one.stage.leftToSuccessor)
  await two.clock.advance(100)
  await settle()
  t.same(two.left, [2, 1])
})

for (const ends of ['the first', 'the last']) {
  t.test(
    `two stages give back events of the same batch, ${ends} one at first: it is read again from the first event`,
    async t => {
      const stages = [stageWith(), stageWith()] as const
      let told: unknown[] = []
      const events = [{ n: 1 }, { n: 2 }, { n: 3, at: 100 }, { n: 4, at: 100 }]
      const batch = batchOf(events, { source: 'again', onSettled: (status, before) => (told = [status, before]) })
      batch.sentOffsets = new SentOffsets(batch.starts[0]!)
      // The second stage has the second event, the first stage those after it.
      const later = batch.pick(i => i === 1)!
      later.changeTo(0, Buffer.from('{"n":2,"at":100}'))
      stages[0].stage.write(batch.pick(i => i !== 1)!)
      stages[1].stage.write(later)
      batch.ack.settle('delivered')
      await settle()
      t.same(stages[0].left, [1])
      for (const { stage } of ends === 'the first' ? stages : stages.toReversed()) stage.endWaiting(() => false)
      await settle()
      t.same(told, ['errored', Buffer.byteLength('{"n":1}\n')])
    },
  )
}

t.test('a successor that ends at once gives back what it takes', async t => {
  const one = stageWith(inTime, false, ['again'])
  let before: number | undefined
  const batch = one.batch('again', [{ n: 0 }, { n: 1, at: 100 }], (_, bytes) => (before = bytes))
  batch.sentOffsets = new SentOffsets(batch.starts[0]!)
  one.stage.write(batch)
  await settle()
  one.stage.endWaiting(() => true)
  one.stage.end()
  await settle()
  const two = stageWith()
  two.stage.endWaiting(() => false)
  two.inherit(one.stage.leftToSuccessor)
  await settle()
  t.same(one.settled, [['again', 'errored']])
  t.equal(before, Buffer.byteLength('{"n":0}\n'), 'what passed before it is not read again')
  t.ok(two.balanced())
})

t.test('what is LATER when the end has come while the processor was asked is given back', async t => {
  let go = () => {}
  const { stage, batch, settled, balanced } = stageWith(() => LATER, true)
  stage.processor.process = (_, to) => {
    to.fill(LATER)
    return new Promise<void>(resolve => (go = resolve))
  }
  stage.write(batch('again', [{ n: 1 }]))
  await settle()
  stage.endWaiting(() => false)
  go()
  await settle()
  t.same(settled, [['again', 'errored']])
  t.ok(balanced())
})

t.test('events that are asked about again and again keep their order', async t => {
  // The first one is asked about every 10 ms, the others when they are due.
  const decide: Decide = ({ n }, scope, now) => {
    if (now >= 100) return MAIN
    scope.later(n === 1 ? 10 : 100)
    return LATER
  }
  const { send, left, clock } = stageWith(decide)
  for (const n of [1, 2, 3]) await send('a', { n })
  await clock.advance(50)
  t.same(left, [])
  await clock.advance(70)
  t.same(left, [1, 2, 3])
})

t.test('events of a source that are due go before those that arrive', async t => {
  // Two pass at a time, of each source.
  const room = new Map<number, number>()
  const decide: Decide = (_, scope, now) => {
    const window = Math.floor(now / 100)
    const taken = room.get(window) ?? 0
    if (taken === 2) {
      scope.later((window + 1) * 100 - now)
      return LATER
    }
    room.set(window, taken + 1)
    return MAIN
  }
  const { send, left, clock } = stageWith(decide)
  await send('a', ...[1, 2, 3, 4, 5].map(n => ({ n })))
  await clock.advance(100)
  await send('a', { n: 6 })
  t.same(left, [1, 2, 3, 4])
  await clock.advance(99)
  // The timer is about to ring.
  await send('a', { n: 7 })
  await clock.advance(101)
  t.same(left, [1, 2, 3, 4, 5, 6, 7])
})

t.test('what is kept of a source is bounded, and no other source waits for that', async t => {
  const { send, left, clock, asked, counters, balanced } = stageWith()
  const waiting = () =>
    ['events', 'full_sources'].map(
      name => [...counters.series.get(`sluice_component_waiting_${name}`)![0]!.read()][0]!.value,
    )
  const many = Array.from({ length: 10_000 }, (_, n) => ({ n, at: 100 }))
  t.same(waiting(), [0, 0])
  await send('a', ...many.slice(1))
  t.same(waiting(), [9999, 0])
  await send('a', many[0]!)
  t.same(waiting(), [10_000, 1])
  asked.length = 0
  await send('a', { n: -1 })
  t.same(asked, [], 'it waits without being asked about')
  await send('b', { n: -2 })
  t.same(left, [-2])
  t.equal(counters.held().events, 10_001)
  await clock.advance(100)
  await settle()
  t.equal(left.length, 10_002)
  t.equal(left.at(-1), -1)
  t.same(waiting(), [0, 0])
  t.ok(balanced())
})

t.test('they leave only when there is room', async t => {
  const { stage, send, left, clock } = stageWith()
  for (let n = 0; n < 20; n++) await send('a', { n, at: 100 + n })
  stage.pause()
  await clock.advance(1000)
  await settle()
  t.ok(stage.readableLength <= stage.readableHighWaterMark, `${stage.readableLength} are before the readers`)
  stage.resume()
  await settle()
  await clock.advance(1000)
  await settle()
  t.same(
    left,
    Array.from({ length: 20 }, (_, n) => n),
  )
})

t.test('what arrives goes behind what waits without having been asked about', async t => {
  const { stage, send, left, clock } = stageWith()
  await send('a', ...Array.from({ length: 10_000 }, (_, n) => ({ n, at: 100 })))
  await send('a', { n: -1 })
  stage.pause()
  while (stage.readableLength < stage.readableHighWaterMark - 1) await send('b', { n: -9 })
  // There is room for the events that are due, and no more.
  await clock.advance(100)
  t.equal(stage.readableLength, stage.readableHighWaterMark)
  await send('a', { n: -2 })
  stage.resume()
  await settle()
  await clock.advance(100)
  t.same(left.slice(-3), [9999, -1, -2])
})

t.test('what is behind others comes as soon as there is room again', async t => {
  const { stage, send, left, clock } = stageWith()
  await send('a', { n: 1, at: 8 })
  await send('a', { n: 2, at: 10 })
  stage.pause()
  await clock.advance(8)
  await send('b', { n: 3 })
  await send('b', { n: 4 })
  // The next round is at 13.
  await clock.advance(3)
  await send('a', { n: 5 })
  await clock.advance(2)
  t.ok(stage.readableLength >= stage.readableHighWaterMark, 'no room')
  stage.resume()
  await settle()
  await clock.advance(100)
  t.same(left, [1, 3, 4, 2, 5])
})

t.test('at the end, what a source sent after what it gets back goes back as well', async t => {
  const { stage, send, left, settled, balanced } = stageWith()
  await send('again', { n: 1, at: 100 })
  stage.endWaiting(() => false)
  await send('again', { n: 2 })
  await send('once', { n: 3 })
  t.same(left, [3])
  t.same(
    settled.filter(([source]) => source === 'again'),
    [
      ['again', 'errored'],
      ['again', 'errored'],
    ],
  )
  t.ok(balanced())
})

t.test('all that is asked about in a round is decided at one moment', async t => {
  const time = new ManualTime()
  let calls = 0
  const clock = new SteadyClock({ now: () => time.now() + calls++, wall: () => time.wall(), after: time.after })
  const first = clock.now()
  t.ok(clock.now() > first)
  const { send, left } = stageWith(
    ({ at = 0 }, scope, now) => {
      t.equal(clock.now(), now)
      if (at <= now) return MAIN
      scope.later(at - now)
      return LATER
    },
    false,
    [],
    clock,
  )
  await send('a', { n: 1, at: 50 }, { n: 2, at: 50 })
  await send('a', { n: 3, at: 20 })
  for (let i = 0; i < 20 && left.length < 3; i++) await time.advance(10)
  t.same(left.toSorted(), [1, 2, 3])
})

t.test('the process does not run for a moment while it asks: the next round does not come later for it', async t => {
  const time = new ManualTime()
  let stoppedMs = 0
  const now = () => time.now() + stoppedMs
  const clock = new SteadyClock({ now, wall: now, after: time.after })
  const decide: Decide = (event, scope, now) => {
    if (event.n === 1 && now >= 10 && stoppedMs === 0) stoppedMs = 5000
    return inTime(event, scope, now)
  }
  const { send, left } = stageWith(decide, false, [], clock)
  await send('a', { n: 1, at: 10 }, { n: 2, at: 5020 })
  await time.advance(10)
  t.same(left, [1])
  t.equal(clock.now(), 5010)
  await time.advance(2000)
  t.same(left, [1, 2])
})

t.test('nothing is asked about twice at one moment', async t => {
  const { asked, send, left, clock } = stageWith((_, scope, now) => {
    if (now >= 20) return MAIN
    scope.later(0)
    return LATER
  })
  await send('a', { n: 1 })
  await send('a', { n: 2 })
  t.ok(asked.length <= 4, `asked ${asked.length} times`)
  await clock.advance(30)
  t.same(left, [1, 2])
})

t.test('while a side output is full, no timer rings for what waits, and no listeners pile up', async t => {
  const { stage, send, batch, left, clock } = stageWith((event, scope, now) =>
    event.n < 0 ? discard(0) : inTime(event, scope, now),
  )
  const discarded = stage.outputs.get('discarded')!
  discarded.connected = true
  await send('a', { n: 1, at: 10 }, { n: 2, at: 20 })
  for (let n = 0; n < 40; n++) stage.write(batch('b', [{ n: -1 }]))
  await settle()
  t.ok(discarded.writableNeedDrain)
  const before = discarded.listenerCount('drain')
  await clock.advance(100_000)
  t.equal(clock.timers, 0)
  t.ok(before <= 1 && discarded.listenerCount('drain') <= 1)
  t.same(left, [])
  discarded.resume()
  await settle()
  await clock.advance(100)
  await settle()
  t.same(left, [1, 2])
})

t.test('LATER fails the event where the plan knows nothing of it', async t => {
  const processor: Processor = {
    process(_, to) {
      to[0] = LATER
    },
  }
  const definition = defineProcessor({
    type: 'made_here',
    ...madeUp(),
    create: () => processor,
  })
  const { stage, wanted } = stageOf(definition, {})
  stage.write(batchOf([{ n: 1 }], { wanted }))
  await settle()
  t.match((stage.read() as EventBatch).fields(0), { processing_error: { component: 'p' } })
})

function slowWork(processor: { readonly isWaiting?: boolean } = {}) {
  const clock = new ManualTime()
  const logged: Logged[] = []
  return { clock, logged, slow: new SlowWork(processor, { clock, log: recordingLog(logged) }) }
}

t.test(
  'a batch that is not finished within a minute is logged, and makes the daemon not ready until it is',
  async t => {
    const { clock, logged, slow } = slowWork()
    const end = slow.begin(batchOf(['{}', '{}']))
    await clock.advance(59_000)
    t.equal(slow.outage, undefined)
    t.same(logged, [])
    await clock.advance(2000)
    t.match(slow.outage, { isStuck: true, reason: /2 events of/, since: new Date(1_700_000_000_000).toISOString() })
    t.notOk(isReady([{ state: 'ready' }], [], [slow.outage!]))
    t.match(logged, [{ level: 'warn', fields: { code: 'SLUICE_PROCESSOR_STUCK', events: 2 } }])
    end()
    t.equal(slow.outage, undefined)
    t.match(logged[1], { level: 'info', text: 'processor has finished with the batch' })
  },
)

t.test('who waits for a server, and who is gone, is not stuck', async t => {
  const { clock, logged, slow } = slowWork({ isWaiting: true })
  slow.begin(batchOf(['{}']))
  await clock.advance(61_000)
  t.equal(slow.outage, undefined)
  const gone = slowWork()
  gone.slow.begin(batchOf(['{}']))
  gone.slow.stop()
  t.equal(gone.clock.timers, 0)
  await gone.clock.advance(61_000)
  t.equal(gone.slow.outage, undefined)
  t.same([...logged, ...gone.logged], [])
})
