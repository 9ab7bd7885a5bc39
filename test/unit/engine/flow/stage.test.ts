import { once } from 'node:events'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pino } from 'pino'
import t from 'tap'
import { defineProcessor, type Processor } from '../../../../src/core/component.js'
import type { DeliveryError } from '../../../../src/core/errors.js'
import type { AckStatus, Share } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { CONSUMED, discard, FAILED, output, type Plan } from '../../../../src/core/processor.js'
import type { Stage } from '../../../../src/engine/flow/stage.js'
import { nextTurn } from '../../../../src/lib/time.js'
import { batchOf, collectLines, linesOf, originOf } from '../../../support/batches.js'
import { madeUp } from '../../../support/made-up.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import { pooledBatch } from '../../../support/pooled-batch.js'
import { type StageOptions, stageOf } from '../../../support/stage.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

/** A stage around a processor that is made here. */
function stageWith(processor: Processor, plan: Plan = {}, more: StageOptions = {}) {
  const definition = defineProcessor({
    type: 'made_here',
    ...madeUp(),
    plan: () => plan,
    create: () => processor,
  })
  const settled: AckStatus[] = []
  const made = stageOf(definition, {}, more)
  const batch = (...lines: (string | object)[]) => {
    const made1 = batchOf(lines, { wanted: made.wanted, onSettled: status => settled.push(status) })
    made.counters.arrived(made1.length, made1.bytes)
    return made1
  }
  return { ...made, batch, settled }
}

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => ({ n: from + i }))
const n = (batch: EventBatch, i: number) => batch.fields(i).n as number

async function run(stage: Stage, batches: EventBatch[]): Promise<Record<string, string[]>> {
  const lines: Record<string, string[]> = { main: [] }
  const sides = [...stage.outputs].map(([name, side]) => {
    side.connected = true
    lines[name] = []
    return pipeline(side, collectLines(lines[name]))
  })
  await Promise.all([pipeline(Readable.from(batches), stage, collectLines(lines.main!)), ...sides])
  return lines
}

const balanced = (counters: ReturnType<typeof stageOf>['counters']) => counters.imbalance().events === 0

t.test('each event goes where the column says, and is counted there', async t => {
  const plan = { outputs: ['odd', 'tens'], reasons: ['large', 'zero'] }
  const decide = (n: number) =>
    n === 0 ? discard(1) : n > 25 ? discard(0) : n % 10 === 0 ? output(1) : n % 2 ? output(0) : 0
  const processor: Processor = {
    process(batch, to) {
      for (let i = 0; i < batch.length; i++) to[i] = decide(n(batch, i))
    },
  }
  const log = pino({}, { write: line => t.fail(`logged ${line}`) })
  const { stage, counters, batch, settled } = stageWith(processor, plan, { log })
  t.same([...stage.outputs.keys()], ['odd', 'tens', 'discarded'])
  const lines = await run(stage, [batch(...numbers(0, 7)), batch(...numbers(7, 30)), batch(), batch({ n: 10 })])
  const read = (name: string) => lines[name]!.map(line => JSON.parse(line).n)
  t.same(read('main'), [2, 4, 6, 8, 12, 14, 16, 18, 22, 24])
  t.same(read('odd'), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25])
  t.same(read('tens'), [10, 20, 10])
  t.same(read('discarded'), [0, 26, 27, 28, 29])
  t.same(settled, ['delivered', 'delivered', 'delivered', 'delivered'])
  t.equal(counters.passed.events, 10)
  t.same(
    [...counters.aside].map(([name, { events }]) => [name, events]),
    [
      ['odd', 13],
      ['tens', 3],
    ],
  )
  t.same(
    [...counters.discards].map(([name, { events }]) => [name, events]),
    [
      ['zero', 1],
      ['large', 4],
    ],
  )
  t.ok(balanced(counters))

  const unread = stageWith(processor, plan)
  const main: string[] = []
  await pipeline(Readable.from([unread.batch(...numbers(0, 30))]), unread.stage, collectLines(main))
  t.equal(main.length, 10, 'what nobody reads is counted, too')
  t.equal(unread.counters.discards.get('large')!.events, 4)
  t.ok(balanced(unread.counters))
  t.same(unread.settled, ['delivered'])
})

t.test('an event goes to each output that has a copy of it, in order, and each may be changed alone', async t => {
  const plan = { outputs: ['even', 'all'], main: 'rest', copies: true }
  const processor: Processor = {
    process(batch, to, scope) {
      for (let i = 0; i < batch.length; i++) {
        const number = n(batch, i)
        if (number % 5 === 0) batch.modify(i, { n: number, five: true })
        if (number % 2 === 0) to[i] = output(0)
        if (number % 3 === 0 && to[i] !== 0) scope.copy(i, 1)
        else if (number % 3 === 0) to[i] = output(1)
        // The event goes there already.
        scope.copy(i, 0)
        if (number % 2 !== 0) scope.copy(i, 1)
      }
    },
  }
  const { stage, counters, batch, settled } = stageWith(processor, plan)
  t.same([...stage.outputs.keys()], ['even', 'all', 'rest'])
  const seen: EventBatch[] = []
  stage.outputs.get('even')!.on('data', batch => {
    for (let i = 0; i < batch.length; i++) batch.modify(i, { changed: true })
    seen.push(batch)
  })
  const lines = await run(stage, [batch(...numbers(0, 9)), batch({ n: 7 })])
  const read = (name: string) => lines[name]!.map(line => JSON.parse(line).n)
  t.same(read('main'), [], 'there is no main output')
  t.same(read('rest'), [1, 5, 7, 7])
  t.same(read('all'), [0, 1, 3, 5, 6, 7, 7])
  t.same([lines.all![0], lines.all![3]], ['{"n":0,"five":true}', '{"n":5,"five":true}'])
  t.same(valuesOf(seen, 'length'), [9, 1])
  t.same(settled, ['delivered', 'delivered'])
  t.same(Object.fromEntries([...counters.aside].map(([name, { events }]) => [name, events])), {
    even: 10,
    all: 7,
    rest: 4,
  })
  t.equal(counters.emittedEvents.events, 11)
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
})

t.test('what fails, waits or is replaced has no copy', async t => {
  const failing: Processor = {
    process(batch, to, scope) {
      for (let i = 0; i < batch.length; i++) {
        scope.copy(i, 0)
        if (n(batch, i) === 1) to[i] = FAILED
        if (n(batch, i) === 2) scope.replace(i, [{ made: 1 }])
        if (n(batch, i) === 3) throw new Error('thrown on purpose')
      }
    },
  }
  const { stage, counters, batch } = stageWith(failing, { outputs: ['side'], copies: true })
  const { main, side } = await run(stage, [batch(...numbers(0, 5))])
  t.same(side, ['{"n":0}', '{"n":4}'])
  t.equal(main!.length, 5)
  t.equal(main![2], '{"made":1}')
  t.ok(balanced(counters))

  const unplanned = stageWith({ process: (_batch, _to, scope) => scope.copy(0, 0) }, { outputs: ['side'] })
  t.same((await run(unplanned.stage, [unplanned.batch({ n: 1 })])).side, [])
  t.equal(unplanned.counters.failures.get('bug'), 1)
})

t.test('events of an output that nobody reads are discarded, also while it is tapped', async t => {
  const processor: Processor = {
    process(batch, to, scope) {
      for (let i = 0; i < batch.length; i++) {
        if (n(batch, i) === 1) to[i] = output(0)
        else if (n(batch, i) > 1) scope.copy(i, 0)
      }
    },
  }
  const { stage, counters, batch, settled } = stageWith(processor, { outputs: ['side'], main: 'rest', copies: true })
  const tapped: string[] = []
  const side = stage.outputs.get('side')!
  side.tapped = true
  const all = [batch(...numbers(0, 4)), batch({ n: 0 })]
  await Promise.all([pipeline(Readable.from(all), stage, collectLines([])), pipeline(side, collectLines(tapped))])
  t.same(tapped, ['{"n":1}', '{"n":2}', '{"n":3}'])
  t.equal(counters.discards.get('unrouted')?.events, 7)
  t.equal(counters.emittedEvents.events, 2)
  t.same(settled, ['delivered', 'delivered'])
  t.ok(balanced(counters))
})

t.test('an observer sees every event that is not passed on, with its reason, before it leaves', async t => {
  for (const onError of ['discard', 'dead_letter', 'pass'] as const) {
    const processor: Processor = {
      process(batch, to, scope) {
        for (let i = 0; i < batch.length; i++) {
          const kind = n(batch, i) % 5
          if (kind === 1) to[i] = discard(0)
          if (kind === 2) to[i] = output(0)
          if (kind === 3) scope.because(i, `not ${n(batch, i)}`)
          if (kind === 3) to[i] = FAILED
          if (kind === 4) scope.replace(i, [{ n: 100 }])
        }
      },
    }
    const plan = { outputs: ['side'], reasons: ['over'], main: 'rest' }
    const letters: string[] = []
    const write = async (request: readonly EventBatch[]) => void letters.push(...request.flatMap(linesOf))
    const { stage, counters, batch } = stageWith(processor, plan, { onError, deadLetters: { write } })
    const seen: Record<string, string[]> = {}
    const unexpected = () => t.fail('it is no destination')
    stage.observer = {
      wants: () => true,
      discarded({ batch, reason, events, to, value, areKept, error }) {
        const indices = [...batch.flags.subarray(0, batch.length).keys()].filter(i => !to || to[i] === value)
        t.equal(indices.length, events)
        t.equal(areKept ?? false, reason === 'processing_failed' && onError === 'dead_letter')
        const lines = indices.map(i => linesOf(batch)[i]!)
        for (const [k, i] of indices.entries())
          if (reason === 'processing_failed') t.equal(error?.(i), `not ${JSON.parse(lines[k]!).n}`)
        ;(seen[reason] ??= []).push(...lines)
      },
      rejected: unexpected,
      delivered: unexpected,
    }
    await pipeline(Readable.from([batch(...numbers(0, 20)), batch({ n: 0 })]), stage, collectLines([]))
    const counted = Object.fromEntries([...counters.discards].map(([reason, { events }]) => [reason, events]))
    t.same(Object.fromEntries(Object.entries(seen).map(([reason, lines]) => [reason, lines.length])), counted)
    t.same(seen.over, ['{"n":1}', '{"n":6}', '{"n":11}', '{"n":16}'])
    if (onError === 'dead_letter') t.same(seen.processing_failed, letters)
    t.equal(seen.processing_failed?.length, onError === 'pass' ? undefined : 4)
  }
})

t.test('a processor never sees a batch without events', async t => {
  const lengths: number[] = []
  const { stage, batch, settled } = stageWith({ process: ({ length }) => void lengths.push(length) }, {})
  await run(stage, [batch(), batch({ n: 1 }), batch()])
  t.same([lengths, settled], [[1], ['delivered', 'delivered', 'delivered']])
})

t.test('a processor that waits has as many batches as it wants, and they leave in order', async t => {
  let most = 0
  const open: (() => void)[] = []
  const processor: Processor = {
    async process(batch, to) {
      const first = n(batch, 0)
      await new Promise<void>(resolve => open.push(resolve))
      if (first === 3) to[0] = discard(0)
    },
  }
  const { stage, counters, batch, settled } = stageWith(processor, { concurrency: 3, reasons: ['three'] })
  const lines: string[] = []
  const batches = numbers(0, 20).map(event => batch(event))
  const running = pipeline(Readable.from(batches), stage, collectLines(lines))
  for (let done = 0; done < 20; ) {
    await settle()
    most = Math.max(most, open.length)
    t.equal(stage.holds().events, Math.min(3, 20 - done), 'what it has is in flight')
    t.notOk(stage.owes, 'it rightly waits')
    t.ok(balanced(counters))
    // The last of them first.
    for (const go of open.splice(0).reverse()) {
      go()
      done++
      await settle()
    }
  }
  await running
  t.equal(most, 3)
  t.same(
    lines.map(line => JSON.parse(line).n),
    numbers(0, 20)
      .map(({ n }) => n)
      .filter(n => n !== 3),
  )
  t.same(
    settled,
    batches.map(() => 'delivered'),
  )
  t.ok(balanced(counters))
})

t.test('what waits takes no more while nobody reads what it has done', async t => {
  let taken = 0
  const processor: Processor = {
    async process() {
      taken++
      await nextTurn()
    },
  }
  const { stage, batch } = stageWith(processor, { concurrency: 2 })
  const source = Readable.from(numbers(0, 1000).map(event => batch(event)))
  source.pipe(stage)
  for (let i = 0; i < 20; i++) await settle()
  t.ok(taken < 20, `${taken} batches were taken`)
  const lines: string[] = []
  await pipeline(stage, collectLines(lines))
  t.equal(lines.length, 1000)
})

t.test('a failure costs no other event, and on_error says what becomes of the event', async t => {
  for (const [waits, onError] of [
    [false, 'pass'],
    [true, 'pass'],
    [true, 'discard'],
    [false, 'dead_letter'],
  ] as const) {
    let calls = 0
    const processor: Processor = {
      process(batch) {
        calls++
        const decide = () => {
          for (let i = 0; i < batch.length; i++) {
            if (n(batch, i) % 100 === 50) throw new Error(`cannot process ${n(batch, i)}`)
            batch.modify(i, { ...batch.fields(i), times: ((batch.fields(i).times as number) ?? 0) + 1 })
          }
        }
        if (waits) return nextTurn().then(decide)
        decide()
        return undefined
      },
    }
    let failing = 2
    let attempts = 0
    const letters: string[] = []
    const deadLetters = {
      async write([events]: readonly EventBatch[], error: DeliveryError) {
        attempts++
        if (failing-- > 0) throw new Error('the disk is full')
        letters.push(...linesOf(events!), error.message)
      },
    }
    const { stage, counters, batch, settled } = stageWith(processor, {}, { onError, deadLetters })
    const batches = [batch(...numbers(0, 120)), batch(...numbers(120, 140)), batch({ n: 150 })]
    const { main, discarded } = await run(stage, batches)
    const events = main!.map(line => JSON.parse(line))
    const rest = numbers(0, 140).filter(({ n }) => n !== 50)
    t.same(
      events.filter(({ times }) => times !== undefined),
      rest.map(({ n }) => ({ n, times: 1 })),
      onError,
    )
    const failed = events.filter(({ times }) => times === undefined)
    if (onError === 'pass') {
      t.same(failed[0], { n: 50, processing_error: { component: 'p', message: 'cannot process 50' } })
      t.equal(events[50].n, 50, 'in its place')
      t.equal(failed.length, 2)
    } else t.same(failed, [])
    if (onError === 'discard') t.same(discarded, ['{"n":50}', '{"n":150}'])
    if (onError === 'dead_letter') t.same(letters, ['{"n":50}', 'cannot process 50', '{"n":150}', 'cannot process 150'])
    const lost = counters.discards.get('processing_failed')?.events ?? 0
    t.equal(lost, onError === 'pass' ? 0 : 2)
    const kept = counters.counter('sluice_dead_letter_events_total', '', { reason: 'processing_failed' }).value
    t.equal(kept, onError === 'dead_letter' ? 2 : 0)
    t.equal(attempts, onError === 'dead_letter' ? 4 : 0)
    t.equal(counters.failures.get('bug'), 2)
    t.same(
      settled.sort(),
      onError === 'dead_letter' ? ['delivered', 'rejected', 'rejected'] : Array(3).fill('delivered'),
    )
    t.ok(balanced(counters))
    t.equal(calls, 3 + 120 + 1)
  }
})

t.test('a failure that no event causes by itself is counted', async t => {
  const processor: Processor = {
    process(batch) {
      if (batch.length > 1) throw new Error('too many')
    },
  }
  const { stage, counters, batch, settled } = stageWith(processor)
  const { main } = await run(stage, [batch(...numbers(0, 3)), batch({ n: 3 })])
  t.same(main, ['{"n":0}', '{"n":1}', '{"n":2}', '{"n":3}'])
  t.equal(counters.failures.get('bug'), 1)
  t.same(settled, ['delivered', 'delivered'])
})

t.test('a processor may say itself that an event failed, and why', async t => {
  const processor: Processor = {
    process(batch, to, scope) {
      for (let i = 0; i < batch.length; i++) {
        if (n(batch, i) === 1) {
          to[i] = FAILED
          scope.because(i, new Error('no such row'))
        }
      }
    },
  }
  const { stage, counters, batch } = stageWith(processor)
  const { main } = await run(stage, [batch(...numbers(0, 3))])
  t.same(JSON.parse(main![1]!).processing_error, { component: 'p', message: 'no such row' })
  t.equal(counters.failures.get('processing'), 1)
})

t.test('an event may become several or none, in its place', async t => {
  const processor: Processor = {
    process(batch, to, scope) {
      for (let i = 0; i < batch.length; i++) {
        const value = n(batch, i)
        if (value % 3 === 0)
          scope.replace(
            i,
            Array.from({ length: value / 3 }, (_, part) => ({ of: value, part })),
          )
        else if (value === 4) to[i] = discard(0)
        else if (value === 5) throw new Error('five')
      }
    },
  }
  const { stage, counters, batch, settled } = stageWith(processor, { reasons: ['four'] }, { onError: 'discard' })
  const { main, discarded } = await run(stage, [batch(...numbers(0, 8)), batch({ n: 6 }), batch({ n: 0 })])
  t.same(
    main!.map(line => JSON.parse(line)),
    [
      { n: 1 },
      { n: 2 },
      { of: 3, part: 0 },
      { of: 6, part: 0 },
      { of: 6, part: 1 },
      { n: 7 },
      { of: 6, part: 0 },
      { of: 6, part: 1 },
    ],
  )
  t.same(discarded, ['{"n":4}', '{"n":5}'])
  t.same(settled, ['delivered', 'delivered', 'delivered'])
  t.equal(counters.consumedEvents.events, 5)
  t.equal(counters.emittedEvents.events, 5)
  t.ok(balanced(counters))
})

/** Sums up what comes, and holds its acknowledgement until the sum is emitted. */
class Sum implements Processor {
  #sum = 0
  #shares: Share[] = []
  process(...[batch, to, scope]: Parameters<Processor['process']>): void {
    for (let i = 0; i < batch.length; i++) this.#sum += n(batch, i)
    to.fill(CONSUMED, 0, batch.length)
    this.#shares.push(scope.share())
  }
  emit(why: string) {
    const emitted = this.#shares.length > 0 ? [{ fields: { sum: this.#sum, why }, shares: this.#shares }] : []
    this.#sum = 0
    this.#shares = []
    return emitted
  }
}

t.test(
  'events of its own come at an interval and at the end, and what they are made of is settled with them',
  async t => {
    const time = new ManualTime()
    const { stage, counters, batch, settled } = stageWith(new Sum(), { every: 1000 }, { clock: time })
    await stage.start(new AbortController().signal)
    const left: EventBatch[] = []
    stage.on('data', batch => left.push(batch))
    stage.write(batch(...numbers(0, 4)))
    stage.write(batch({ n: 10 }))
    await settle()
    t.same(left, [])
    t.ok(balanced(counters))
    t.same(settled, [], 'their source waits')
    await time.advance(1000)
    t.same(linesOf(left[0]!), ['{"sum":16,"why":"time"}'])
    t.same(settled, [])
    left[0]!.ack.settle('rejected')
    t.same(settled, ['rejected', 'rejected'])
    await time.advance(5000)
    t.equal(left.length, 1, 'nothing to emit')
    stage.write(batch({ n: 1 }))
    stage.end()
    await settle()
    t.same(linesOf(left[1]!), ['{"sum":1,"why":"drain"}'])
    left[1]!.ack.settle('delivered')
    t.same(settled, ['rejected', 'rejected', 'delivered'])
    t.equal(time.timers, 0)
    t.ok(balanced(counters))
    t.equal(counters.emittedEvents.events, 2)
    t.equal(counters.consumedEvents.events, 6)
  },
)

t.test('a processor that keeps events takes no more while it cannot emit', async t => {
  for (const keeps of [false, true]) {
    for (const isReplaced of [false, true]) {
      for (const endsEarly of [false, true]) {
        const time = new ManualTime()
        const { stage, counters, batch, settled } = stageWith(new Sum(), { every: 1000, keeps }, { clock: time })
        await stage.start(new AbortController().signal)
        const write = async (...values: number[]) => {
          for (const n of values) stage.write(batch({ n }))
          await settle()
        }
        for (let i = 0; i < stage.readableHighWaterMark; i++) {
          await write(1)
          await time.advance(1000)
        }
        await write(10)
        t.equal(counters.consumedEvents.events, 3, 'a full output alone does not hold it back')
        await time.advance(1000)
        await write(100, 1000, 10_000)
        stage.isReplaced = isReplaced
        if (endsEarly) stage.end()
        await time.advance(10_000)
        // When the emission became due, the stage had already asked for one more batch.
        t.equal(counters.consumedEvents.events, keeps ? 4 : 6)
        const left: string[] = []
        stage.on('data', (batch: EventBatch) => {
          left.push(...linesOf(batch))
          batch.ack.settle('delivered')
        })
        await settle()
        if (!endsEarly) stage.end()
        await settle()
        t.ok(stage.readableEnded)
        const sums = left.map(line => JSON.parse(line).sum)
        t.equal(
          sums.reduce((a, b) => a + b),
          11_112,
        )
        if (keeps) t.same(sums, [1, 1, 110, 11_000])
        t.same(settled, Array(6).fill('delivered'))
        t.equal(time.timers, 0)
        t.ok(balanced(counters))
      }
    }
  }
})

t.test('a processor that keeps events goes on when a full side output has room for what it emits', async t => {
  const time = new ManualTime()
  const plan = { every: 1000, keeps: true, main: 'rest' }
  const emitted: string[] = []
  let taken = 0
  const processor: Processor = {
    process(_batch, to) {
      taken++
      to[0] = CONSUMED
    },
    emit: why => [{ fields: { taken, why } }],
  }
  const { stage, batch } = stageWith(processor, plan, { clock: time })
  const side = stage.outputs.get('rest')!
  side.connected = true
  await stage.start(new AbortController().signal)
  stage.resume()
  const send = async (count: number) => {
    for (const { n } of numbers(0, count)) stage.write(batch({ n }))
    await settle()
  }
  for (let i = 0; i < 20 && !side.writableNeedDrain; i++) await time.advance(1000)
  await time.advance(1000)
  await send(5)
  const before = taken
  t.ok(before < 3, `${before} batches were taken`)
  side.on('data', (batch: EventBatch) => emitted.push(...linesOf(batch)))
  await settle()
  t.equal(taken, 5)
  stage.end()
  await settle()
  t.same(JSON.parse(emitted.at(-1)!), { taken: 5, why: 'drain' })
})

t.test('before another one takes over it emits for that reason; what is given up is settled errored', async t => {
  const { stage, batch, settled } = stageWith(new Sum())
  const left: EventBatch[] = []
  stage.on('data', batch => left.push(batch))
  stage.isReplaced = true
  stage.end(batch({ n: 1 }))
  await settle()
  t.same(linesOf(left[0]!), ['{"sum":1,"why":"reload"}'])
  for (const keeps of [false, true]) {
    const aborted = stageWith(new Sum(), { keeps })
    aborted.stage.write(aborted.batch({ n: 1 }))
    await settle()
    aborted.stage.destroy()
    await settle()
    t.same(aborted.settled, ['errored'], 'also if a successor would have it')
  }
  t.same(settled, [])
})

t.test('an abort while it waits: its signal aborts, its events are given back, and nothing comes any more', async t => {
  let signal: AbortSignal | undefined
  let go = () => {}
  const processor: Processor = {
    process(_batch, _to, scope) {
      signal = scope.signal
      return new Promise<void>(resolve => (go = resolve))
    },
  }
  const time = new ManualTime()
  const { stage, counters, batch, settled } = stageWith(processor, {}, { clock: time })
  const left: unknown[] = []
  stage.on('data', batch => left.push(batch))
  stage.write(batch(...numbers(0, 3)))
  await settle()
  stage.destroy()
  await settle()
  t.ok(signal!.aborted)
  t.equal(time.timers, 0, 'nothing keeps the process from ending')
  t.same(settled, ['errored'])
  go()
  await settle()
  t.same([left, settled], [[], ['errored']])
  t.ok(balanced(counters), 'it stays in flight')
})

t.test('bytes stay where they are until a processor has ended, also after its events were given back', async t => {
  let go = () => {}
  const { stage, counters } = stageWith({ process: () => new Promise<void>(resolve => (go = resolve)) })
  const { batch, isFree } = pooledBatch('{}', originOf('json'))
  counters.arrived(batch.length, batch.bytes)
  stage.write(batch)
  await settle()
  stage.destroy()
  await settle()
  t.notOk(isFree())
  go()
  await settle()
  t.ok(isFree())
})

t.test('one that never comes back is found out after a minute', async t => {
  const time = new ManualTime()
  const { stage, batch } = stageWith({ process: () => new Promise<void>(() => {}) }, {}, { clock: time })
  stage.resume()
  stage.write(batch({ n: 1 }))
  stage.write(batch({ n: 2 }))
  await settle()
  t.notOk(stage.owes)
  await time.advance(61_000)
  t.ok(stage.owes)
  stage.destroy()
})

t.test('a decision that the plan does not have is a failure, and costs no event', async t => {
  for (const onError of ['pass', 'discard', 'dead_letter'] as const) {
    const letters: string[] = []
    const deadLetters = { write: async ([events]: readonly EventBatch[]) => void letters.push(...linesOf(events!)) }
    const processor: Processor = {
      process(batch, to) {
        for (let i = 0; i < batch.length; i++) to[i] = [0, output(0), output(1), discard(1), FAILED, 253][n(batch, i)]!
      },
    }
    const plan = { outputs: ['own'], reasons: ['one'] }
    const { stage, counters, batch, settled } = stageWith(processor, plan, { onError, deadLetters })
    const { main, own, discarded } = await run(stage, [batch(...numbers(0, 6)), batch(...numbers(2, 6))])
    const failed = ['{"n":2}', '{"n":3}', '{"n":4}', '{"n":5}', '{"n":2}', '{"n":3}', '{"n":4}', '{"n":5}']
    t.same(own, ['{"n":1}'])
    t.equal(main!.length, onError === 'pass' ? 9 : 1, onError)
    t.same(discarded, onError === 'discard' ? failed : [])
    t.same(letters, onError === 'dead_letter' ? failed : [])
    t.equal(counters.failures.get('bug'), 8)
    t.equal(settled.length, 2)
    t.ok(balanced(counters))
  }
})

const UNWRITABLE = {
  toJSON() {
    throw new TypeError('it has no JSON')
  },
}

t.test('what cannot be written as an event fails the event that it was to replace', async t => {
  const circle: Record<string, unknown> = {}
  circle.circle = circle
  const wrong: unknown[] = [{ n: UNWRITABLE }, circle, undefined, 'text', [1], { toJSON: () => undefined }]
  for (const waits of [false, true]) {
    const processor: Processor = {
      process(batch, _to, scope) {
        const decide = () => {
          for (let i = 0; i < batch.length; i++)
            scope.replace(i, [(wrong[n(batch, i)] ?? { made: n(batch, i) }) as never])
          if (batch.length > 0 && n(batch, 0) === 2) scope.replace(0, [undefined as never])
        }
        return waits ? nextTurn().then(decide) : decide()
      },
    }
    const { stage, counters, batch, settled } = stageWith(processor)
    const { main } = await run(stage, [batch(...numbers(0, 8)), batch({ n: 9 })])
    const events = main!.map(line => JSON.parse(line))
    t.same(
      events.map(({ n, made }) => n ?? made),
      [0, 1, 2, 3, 4, 5, 6, 7, 9],
    )
    t.equal(events.filter(({ processing_error }) => processing_error).length, wrong.length)
    t.same(settled, ['delivered', 'delivered'])
    t.ok(balanced(counters))
  }
})

t.test('what replaces an event is of the same source, so that it keeps its place behind events that wait', async t => {
  const processor: Processor = {
    process: (_batch, _to, scope) => scope.replace(1, [{ made: true }]),
  }
  const { stage, batch } = stageWith(processor)
  const sent = batch(...numbers(0, 3))
  const sources: string[] = []
  stage.on('data', (left: EventBatch) => sources.push(...linesOf(left).map(() => left.origin.source)))
  stage.end(sent)
  await once(stage, 'end')
  t.same(sources, Array(3).fill(sent.origin.source))
})

t.test('an event that failed is not replaced as well', async t => {
  const letters: string[] = []
  const deadLetters = { write: async ([events]: readonly EventBatch[]) => void letters.push(...linesOf(events!)) }
  const processor: Processor = {
    process(_batch, to, scope) {
      scope.replace(0, [{ made: true }])
      to[0] = FAILED
    },
  }
  const { stage, counters, batch } = stageWith(processor, {}, { onError: 'dead_letter', deadLetters })
  const { main } = await run(stage, [batch(...numbers(0, 2))])
  t.same([main, letters], [['{"n":1}'], ['{"n":0}']])
  t.ok(balanced(counters))
})

t.test('an event of its own that cannot be written costs no other, and holds nobody', async t => {
  const time = new ManualTime()
  const shares: Share[] = []
  const processor: Processor = {
    process(_batch, to, scope) {
      shares.push(scope.share())
      to[0] = CONSUMED
    },
    emit() {
      return shares.splice(0).map((share, i) => ({ fields: i === 0 ? { n: UNWRITABLE } : { i }, shares: [share] }))
    },
  }
  const { stage, counters, batch, settled } = stageWith(processor, { every: 1000 }, { clock: time })
  await stage.start(new AbortController().signal)
  const left: EventBatch[] = []
  stage.on('data', batch => left.push(batch))
  for (const { n } of numbers(0, 3)) stage.write(batch({ n }))
  await settle()
  await time.advance(1000)
  t.same(linesOf(left[0]!), ['{"i":1}', '{"i":2}'])
  t.same(settled, ['rejected'], 'it is not read again: the same would come of it')
  left[0]!.ack.settle('delivered')
  t.same(settled, ['rejected', 'delivered', 'delivered'])
  t.equal(counters.failures.get('bug'), 1)
  t.ok(balanced(counters))
  stage.destroy()
})

t.test('what an event was modified to and cannot be written fails that event alone, as it was', async t => {
  const circle: Record<string, unknown> = {}
  circle.circle = [circle]
  const wrong: unknown[] = [
    { n: UNWRITABLE },
    circle,
    'text',
    [1],
    { toJSON: () => undefined },
    { a: [{ b: UNWRITABLE }] },
  ]
  for (const onError of ['pass', 'discard'] as const) {
    for (const waits of [false, true]) {
      const processor: Processor = {
        process(batch) {
          const decide = () => {
            for (let i = 0; i < batch.length; i++) {
              const value = n(batch, i)
              if (value < 6) batch.modify(i, wrong[value] as never)
              else if (value === 6) batch.modify(i, { made: [value], at: new Date(0) })
            }
          }
          return waits ? nextTurn().then(decide) : decide()
        },
      }
      const { stage, counters, batch, settled } = stageWith(processor, {}, { onError })
      const { main, discarded } = await run(stage, [batch(...numbers(0, 8)), batch({ n: 9 })])
      const events = main!.map(line => JSON.parse(line))
      const rest = [{ made: [6], at: '1970-01-01T00:00:00.000Z' }, { n: 7 }, { n: 9 }]
      t.same(events.slice(-3), rest)
      if (onError === 'pass')
        t.same(
          events.slice(0, 6).map(({ n, processing_error }) => [n, typeof processing_error]),
          numbers(0, 6).map(({ n }) => [n, 'object']),
        )
      else
        t.same(
          discarded,
          numbers(0, 6).map(event => JSON.stringify(event)),
        )
      t.equal(counters.failures.get('bug'), 6)
      t.equal(settled.length, 2)
      t.ok(balanced(counters))
    }
  }
})

t.test('a share that is asked for too late is an error that says so, and costs the events of that call', async t => {
  let late: (() => Share) | undefined
  const processor: Processor = {
    process(batch, _to, scope) {
      if (n(batch, 0) === 1) late!()
      late = () => scope.share()
      return n(batch, 0) === 0 ? nextTurn() : undefined
    },
  }
  const { stage, counters, batch, settled } = stageWith(processor)
  const { main } = await run(stage, [batch({ n: 0 }), batch({ n: 1 }), batch({ n: 2 })])
  const events = main!.map(line => JSON.parse(line))
  t.match(events, [
    { n: 0 },
    {
      n: 1,
      processing_error: {
        message: /^scope\.share\(\) was called after process\(\) had ended for its batch; call it before/,
      },
    },
    { n: 2 },
  ])
  t.same(settled, ['delivered', 'delivered', 'delivered'])
  t.equal(counters.failures.get('bug'), 1)
})

t.test('a share that was taken before the processor threw holds nobody', async t => {
  for (const waits of [false, true]) {
    const processor: Processor = {
      process(batch, _to, scope) {
        scope.share()
        const decide = () => {
          if (n(batch, 0) === 0) throw Object.create(null)
        }
        return waits ? nextTurn().then(decide) : decide()
      },
    }
    const { stage, batch, settled } = stageWith(processor)
    const left: EventBatch[] = []
    stage.on('data', batch => left.push(batch))
    stage.write(batch({ n: 0 }))
    ;(await until(() => left[0])).ack.settle('delivered')
    t.same(settled, ['delivered'])
    stage.destroy()
  }
})

t.test('what a processor throws because it was aborted is no failure', async t => {
  const processor: Processor = {
    process: (_batch, _to, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      }),
  }
  const { stage, counters, batch, settled } = stageWith(processor)
  stage.write(batch({ n: 0 }))
  await settle()
  stage.destroy()
  await settle()
  t.same([[...counters.failures], settled], [[], ['errored']])
})

t.test('nothing goes on while dead letters cannot be written', async t => {
  let written = () => {}
  const deadLetters = { write: () => new Promise<void>(resolve => (written = resolve)) }
  const processor: Processor = {
    process(batch, to) {
      if (n(batch, 0) === 0) to[0] = FAILED
    },
  }
  const { stage, counters, batch } = stageWith(processor, {}, { onError: 'dead_letter', deadLetters })
  const left: string[] = []
  stage.on('data', batch => left.push(...linesOf(batch)))
  for (const { n } of numbers(0, 3)) stage.write(batch({ n }))
  await settle()
  t.same(left, [])
  t.equal(stage.holds().events, 2, 'the failed one, and the next')
  written()
  stage.end()
  await settle()
  t.same(left, ['{"n":1}', '{"n":2}'])
  t.ok(balanced(counters))
})

t.test('a processor that fails to stop, or never does, keeps nobody from it', async t => {
  const time = new ManualTime()
  const deadline = new AbortController()
  const never = () => new Promise<void>(() => {})
  const hanging = stageWith({ process() {}, start: never, stop: never }, {}, { clock: time }).stage
  let done = 0
  void hanging.start(deadline.signal).then(() => done++)
  void hanging.stop(deadline.signal).then(() => done++)
  await time.advance(60_000)
  t.equal(done, 0, 'it has as long as there is')
  deadline.abort()
  await settle()
  t.equal(done, 1)
  await time.advance(1000)
  t.equal(done, 2)
  const thrown = () => {
    throw new Error('no')
  }
  for (const stop of [thrown, async () => thrown()]) {
    await stageWith({ process() {}, stop }).stage.stop(new AbortController().signal)
  }
})

t.test('batches that were decided while the output was full leave when it is read', async t => {
  const decided: (() => void)[] = []
  const processor: Processor = { process: () => new Promise<void>(resolve => decided.push(resolve)) }
  const { stage, batch } = stageWith(processor, { concurrency: 6 })
  for (const { n } of numbers(0, 6)) stage.write(batch({ n }))
  await settle()
  for (const resolve of decided) resolve()
  await settle()
  t.equal(stage.readableLength, stage.readableHighWaterMark, 'the output is full, and no more than that')
  const left: number[] = []
  stage.on('data', (out: EventBatch) => left.push(n(out, 0)))
  await settle()
  t.same(left, [0, 1, 2, 3, 4, 5])
})

t.test('dead letters that are written while the stage is destroyed are given back, and not counted', async t => {
  let written = () => {}
  const deadLetters = { write: () => new Promise<void>(resolve => (written = resolve)) }
  const processor: Processor = {
    process(_batch, to) {
      to[0] = FAILED
    },
  }
  const { stage, counters, batch, settled } = stageWith(processor, {}, { onError: 'dead_letter', deadLetters })
  stage.write(batch({ n: 1 }))
  await settle()
  stage.destroy()
  written()
  await settle()
  t.same(settled, ['errored'])
  t.equal(counters.discards.size, 0)
  t.ok(balanced(counters))
})
