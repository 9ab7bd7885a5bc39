import t from 'tap'
import { DeliveryError } from '../../../../src/core/errors.js'
import { Ack } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { batchesOf } from '../../../support/batches.js'
import {
  balanced,
  deadline,
  fail,
  failing,
  never,
  numbers,
  origin,
  type SetUp,
  setUp,
  upTo,
  type Write,
} from '../../../support/delivery.js'
import { rounds } from '../../../support/long-test.js'
import { settle } from '../../../support/manual-time.js'
import { pooledBatch } from '../../../support/pooled-batch.js'
import { seeded } from '../../../support/seeded.js'
import { valuesOf } from '../../../support/values-of.js'

t.test('requests by count, bytes and age; acknowledged when taken', async t => {
  const it = setUp({ options: { batch: { max_events: 10, max_bytes: 1000, max_wait: '2s' } } })
  it.put(4)
  t.equal(it.delivery.state, 'starting')
  await it.time.advance(60_000)
  t.same(it.attempts, [], 'nothing before the start')
  await it.delivery.start()
  await settle()
  t.equal(it.delivery.state, 'ready')
  t.same(it.attempts, [{ events: upTo(4), at: 60_000 }], 'by age')
  it.put(8)
  it.put(8)
  await it.time.advance(0)
  t.same(it.attempts[1], { events: upTo(14, 4), at: 60_000 }, 'by count, at once')
  t.same(it.settled, [['delivered'], ['delivered'], []])
  t.same(it.delivery.inFlight(), { events: 6, bytes: 30 })
  it.put(2, 490)
  await it.time.advance(0)
  t.equal(it.attempts[2]!.events.length, 7, 'by bytes')
  await it.time.advance(1999)
  t.equal(it.attempts.length, 3)
  it.put(1)
  await it.time.advance(1)
  t.same(it.attempts[3]!.events, [21, 22], 'by the age of the oldest')
  it.put(3)
  it.input.end()
  await it.delivery.stop(never)
  t.same(it.attempts[4], { events: [23, 24, 25], at: 62_000 }, 'the end waits for nobody')
  t.equal(it.delivery.state, 'stopped')
  t.same(it.settled, Array(6).fill(['delivered']))
  t.same(it.counters.passed, { events: 26, bytes: 24 * 5 + 2 * 490 })
  t.same(it.counters.imbalance(), balanced)
  t.equal(it.time.timers, 0)
  t.equal(it.counters.histograms.get('sluice_delivery_attempt_seconds')!.counts[0], 5)
})

t.test('the latency is that of answers: a connection that was refused says nothing about it', async t => {
  const failures = [
    new DeliveryError('refused', { failure: 'retry', reason: 'refused', cause: new Error('ECONNREFUSED') }),
    new Error('of a plugin'),
    new DeliveryError('503', { failure: 'retry', reason: 'status_503', status: 503 }),
    new DeliveryError('in time', { failure: 'retry', reason: 'timeout' }),
  ]
  const it = setUp({
    options: { batch: { max_events: 1 } },
    write: async () => {
      const failure = failures.shift()
      if (failure) throw failure
    },
  })
  await it.delivery.start()
  it.put(1)
  while (it.counters.passed.events === 0) await it.time.advance(60_000)
  t.same(it.attempts.length, 5)
  t.equal(it.counters.histograms.get('sluice_delivery_attempt_seconds')!.counts[0], 3)
  it.input.end()
  await it.delivery.stop(never)
})

t.test('takes no more than it can have on its way, and one request', async t => {
  const answers: (() => void)[] = []
  const it = setUp({
    options: { batch: { max_events: 10 }, max_in_flight: 2 },
    write: () => new Promise<void>(resolve => answers.push(resolve)),
  })
  await it.delivery.start()
  for (let i = 0; i < 12; i++) it.put(5)
  await settle()
  t.equal(answers.length, 2)
  t.same(it.delivery.inFlight(), { events: 30, bytes: 150 })
  t.equal(it.delivery.writableLength, 7, 'the one whose callback is kept, and those behind it')
  t.equal(it.gauge('sluice_delivery_requests_in_flight'), 2)
  t.same(it.counters.imbalance(), balanced)
  answers[1]!()
  await settle()
  t.same(it.attempts.at(-1)!.events, upTo(30, 20), 'a place that is free is used')
  it.input.end()
  const over = it.delivery.stop(never)
  for (let i = 0; answers.length < 6 || i < 6; i++) {
    answers[i]?.()
    await settle()
  }
  t.same(await over, balanced)
  t.same(it.settled, Array(12).fill(['delivered']))
  t.equal(it.time.timers, 0)
})

t.test('what is too large goes in halves, down to single events', async t => {
  const accepted: number[] = []
  const it = setUp({
    options: { batch: { max_events: 20 }, max_in_flight: 1 },
    write: events => {
      if (events.length > 3 || events.includes(7)) fail('too_large', { status: 413, reason: 'status_413' })
      accepted.push(...events)
    },
  })
  await it.delivery.start()
  it.put(13)
  it.put(14)
  it.input.end()
  await it.delivery.stop(never)
  t.same(
    accepted,
    upTo(27).filter(n => n !== 7),
    'in order',
  )
  t.same(it.letters, [{ events: [7], reason: 'status_413' }])
  t.same(it.settled, [['rejected'], ['delivered']])
  t.same(Object.fromEntries(it.counters.discards), { status_413: { events: 1, bytes: 5 } })
  t.equal(it.told().filter(line => /halves/.test(line)).length, 1)
  t.same(it.counters.imbalance(), balanced)
})

t.test(
  'requests become as large as the parts of a refused one that were accepted, and twice that is tried later',
  async t => {
    let most = 3
    const sizes: number[] = []
    const refusals: number[] = []
    const it = setUp({
      options: { batch: { max_events: 100, max_bytes: '80' }, max_in_flight: 1 },
      write: events => {
        if (events.length <= most) return sizes.push(...events.map(() => events.length))
        refusals.push(events.length)
        return fail('too_large', { status: 413, reason: 'status_413' })
      },
    })
    await it.delivery.start()
    /** Sends so many events of 10 bytes, and returns the sizes of the requests that were refused. */
    const send = async (count: number) => {
      it.put(count, 10)
      await it.time.advance(2000)
      return refusals.splice(0)
    }
    t.same(await send(8), [8, 4, 4])
    t.same(sizes, Array(8).fill(2), 'in quarters')
    t.same(await send(1998), [], 'half as large as the one that was refused')
    t.same(await send(10), [4], 'after 1,000 requests twice as many, and no more of them')
    most = 100
    t.same(await send(10_000), [])
    t.equal(Math.max(...sizes), 8, 'up to the configured size')
    t.same(
      it.attempts.flatMap(({ events }) => (events.length > 8 ? [events.length] : [])),
      [],
    )
    it.input.end()
    await it.delivery.stop(never)
    t.same(it.counters.imbalance(), balanced)
  },
)

t.test('one event that is too large by itself makes no request smaller', async t => {
  const it = setUp({
    options: { batch: { max_events: 100, max_bytes: '80' }, max_in_flight: 1 },
    write: events => events.includes(5) && fail('too_large', { status: 413, reason: 'status_413' }),
  })
  await it.delivery.start()
  it.put(8, 10)
  await it.time.advance(2000)
  t.same(it.letters, [{ events: [5], reason: 'status_413' }])
  it.put(8, 10)
  await it.time.advance(2000)
  t.same(it.attempts.at(-1)!.events, upTo(16, 8))
  it.input.end()
  await it.delivery.stop(never)
})

t.test('what a request is as sent decides how large the next ones are', async t => {
  const it = setUp({
    options: { batch: { max_events: 100, max_bytes: '80' }, max_in_flight: 1 },
    destination: { encode: request => ({ size: 3 * request.reduce((sum, { bytes }) => sum + bytes, 0) }) },
    write: events => events.length > 3 && fail('too_large', { status: 413, reason: 'status_413' }),
  })
  await it.delivery.start()
  for (let i = 0; i < 6; i++) {
    it.put(4, 5)
    await it.time.advance(2000)
  }
  it.input.end()
  await it.delivery.stop(never)
  const sizes = it.attempts.map(({ events }) => events.length)
  t.equal(sizes.filter(size => size > 3).length, 1, `one was refused: ${sizes}`)
  t.same([...new Set(it.attempts.flatMap(({ events }) => events))], upTo(24), 'in order')
})

t.test('a request that is too large as sent is divided again and again, in order', async t => {
  const it = setUp({
    options: { batch: { max_events: 100, max_bytes: '80' }, max_in_flight: 1 },
    // The first half is large.
    destination: { encode: request => ({ size: numbers(request).reduce((sum, n) => sum + (n < 8 ? 20 : 5), 0) }) },
  })
  await it.delivery.start()
  it.put(16, 5)
  it.input.end()
  await it.delivery.stop(never)
  t.same(valuesOf(it.attempts, 'events'), [upTo(4), upTo(8, 4), upTo(16, 8)])
})

t.test('a request is encoded once for all its attempts; parts of it are requests of their own', async t => {
  const encoded: number[][] = []
  const written: unknown[] = []
  const it = setUp({
    options: { batch: { max_events: 4 }, retry: { initial: '1s', max: '1s' } },
    destination: {
      encode: request => {
        encoded.push(numbers(request))
        return { size: 1 }
      },
      write: async (request, _signal, _partition, body) => {
        written.push(body)
        if (written.length < 3) fail('retry')
        if (request[0]!.length === 4) fail('too_large')
      },
    },
  })
  await it.delivery.start()
  it.put(4)
  await it.time.advance(10_000)
  t.same(encoded, [upTo(4), upTo(2), upTo(4, 2)])
  t.equal(written.length, 5)
  t.equal(new Set(written.slice(0, 3)).size, 1)
  t.equal(new Set(written).size, 3)
})

t.test('what is refused is kept or dropped, and counted', async t => {
  const write: Write = events => events[0] === 1 && fail('reject', { status: 422, reason: 'status_422' })
  const it = setUp({ options: { batch: { max_events: 1 }, max_in_flight: 1 }, write })
  let full = 3
  it.hooks.letter = () => {
    if (full-- > 0) throw new Error('no space left')
  }
  await it.delivery.start()
  for (let i = 0; i < 3; i++) it.put(1)
  await it.time.advance(6000)
  t.equal(it.delivery.state, 'retrying')
  t.equal(it.delivery.reason, 'cannot write to the dead-letter queue: no space left')
  t.same(it.settled, [['delivered'], [], []], 'not settled before it is safe')
  await it.time.advance(6000)
  t.same(it.letters, [{ events: [1], reason: 'status_422' }])
  t.same(it.settled, [['delivered'], ['rejected'], ['delivered']])
  t.equal(it.counters.counter('sluice_dead_letter_events_total', '', { reason: 'status_422' }).value, 1)
  t.equal(it.counters.failures.get('dead_letter'), 3)
  it.input.end()
  await it.delivery.stop(never)

  const dropping = setUp({ options: { batch: { max_events: 1 }, on_reject: 'discard' }, write })
  await dropping.delivery.start()
  for (let i = 0; i < 3; i++) dropping.put(1)
  dropping.input.end()
  await dropping.delivery.stop(never)
  t.same(dropping.letters, [])
  t.same(Object.fromEntries(dropping.counters.discards), { status_422: { events: 1, bytes: 5 } })
  t.same(dropping.settled, [['delivered'], ['rejected'], ['delivered']])
})

t.test('an answer that refuses one of several groups: each is sent again alone, and none of them twice', async t => {
  const bad = (events: readonly number[]) => events.some(n => n === 3)
  const it = setUp({
    options: { batch: { max_events: 10 }, max_in_flight: 1 },
    write: events => {
      if (!bad(events)) return
      if (events.length > 5) fail('reject', { groups: events.map(n => n % 3) })
      else if (events.length > 1) fail('reject', { groups: events.map((_, i) => (i < events.length / 2 ? 0 : 1)) })
      else fail('reject', { groups: [0] })
    },
  })
  await it.delivery.start()
  it.put(10)
  await it.time.advance(1000)
  t.same(valuesOf(it.attempts, 'events'), [upTo(10), [0, 3, 6, 9], [0, 3], [0], [3], [6, 9], [1, 4, 7], [2, 5, 8]])
  t.same(it.letters, [{ events: [3], reason: 'on_reject' }])
  t.same(it.settled, [['rejected']])
  t.equal(it.counters.passed.events, 9)
  it.input.end()
  t.same(await it.delivery.stop(never), balanced)
  t.same(it.counters.imbalance(), balanced)
})

t.test('an answer that tells events apart: some taken, some refused, some sent again', async t => {
  const answers: Parameters<typeof failing>[] = [
    // Nothing was taken: all but the refused go again at once.
    ['reject', { rejected: [2, 9], again: [0, 1, 3, 4, 5, 6, 7, 8] }],
    // Of 0 1 3 4 5 6 7 8: taken, but for one that never will be and two that may be later.
    ['retry', { rejected: [1], again: [0, 7], retryAfterMs: 3000 }],
    ['hold', { rejected: [], again: [1] }],
    ['reject', { rejected: [0], again: [] }],
  ]
  const it = setUp({
    options: { batch: { max_events: 10 }, max_in_flight: 1 },
    write: (_, attempt) => attempt <= answers.length && fail(...answers[attempt - 1]!),
  })
  await it.delivery.start()
  for (const count of [4, 3, 3, 10]) it.put(count)
  await it.time.advance(0)
  t.same(it.letters, [{ events: [2, 9], reason: 'on_reject' }])
  t.same(it.settled, [[], ['delivered'], [], []], 'others have an event that waits')
  t.equal(it.delivery.state, 'retrying')
  t.equal(it.counters.passed.events, 5)
  t.same(it.delivery.inFlight(), { events: 13, bytes: 65 }, 'with the refused one that is not a dead letter yet')
  t.same(it.counters.imbalance(), balanced)
  await it.time.advance(60_000)
  t.same(valuesOf(it.attempts, 'events'), [upTo(10), [0, 1, 3, 4, 5, 6, 7, 8], [0, 8], [8], upTo(20, 10)])
  t.ok(it.attempts[2]!.at >= 3000, 'after the pause that it asked for')
  t.same(valuesOf(it.letters, 'events'), [[2, 9], [1], [8]])
  t.same(it.settled, [['rejected'], ['delivered'], ['rejected'], ['delivered']])
  t.equal(it.counters.passed.events, 16)
  it.input.end()
  t.same(await it.delivery.stop(never), balanced)
  t.same(it.counters.imbalance(), balanced)

  const whole = setUp({ write: (_, attempt) => attempt === 1 && fail('reject', { rejected: [7], again: [0, 1] }) })
  await whole.delivery.start()
  whole.put(2)
  whole.input.end()
  await whole.delivery.stop(never)
  t.same(whole.letters, [{ events: [0, 1], reason: 'on_reject' }], 'one that is not there: the request as a whole')

  const ended = setUp({ write: () => fail('retry', { rejected: [0], again: [1] }) })
  await ended.delivery.start()
  ended.put(3)
  await ended.time.advance(10)
  const over = ended.delivery.stop(deadline(1000, ended.time))
  ended.input.end()
  await ended.time.advance(1000)
  t.same(await over, { events: 2, bytes: 10 }, 'given back in the middle of it')
  t.same([ended.settled, ended.letters], [[['errored']], []])
})

t.test('an attempt has a time limit', async t => {
  const it = setUp({
    options: { batch: { max_events: 1 }, timeout: '5s' },
    write: (_, attempt, signal) =>
      attempt === 1 && new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted')))),
  })
  await it.delivery.start()
  it.put(1)
  await it.time.advance(5000)
  t.equal(it.delivery.reason, 'no answer within 5s')
  t.equal(it.counters.failures.get('timeout'), 1)
  await it.time.advance(1000)
  t.same(it.settled, [['delivered']])
  it.input.end()
  await it.delivery.stop(never)
  t.equal(it.time.timers, 0)
})

t.test('at the deadline everything is given back, whatever it was doing', async t => {
  const cases: { name: string; write?: Write; start?: () => Promise<void>; end?: boolean }[] = [
    { name: 'under way, deaf to the signal', write: () => new Promise(() => {}) },
    { name: 'between attempts', write: () => fail('retry') },
    { name: 'on hold', write: () => fail('hold') },
    { name: 'not started', start: async () => fail('hold') },
    { name: 'ending', write: () => fail('retry'), end: true },
    { name: 'dead letter not safe', write: () => fail('reject') },
  ]
  for (const { name, write, start, end } of cases) {
    const it = setUp({
      options: { batch: { max_events: 10 }, max_in_flight: 2 },
      ...(write && { write }),
      destination: start ? { start } : {},
    })
    it.hooks.letter = () => {
      throw new Error('no space left')
    }
    const started = it.delivery.start()
    for (let i = 0; i < 9; i++) it.put(5)
    await it.time.advance(100)
    if (end) it.input.end()
    const over = it.delivery.stop(deadline(5000, it.time))
    await it.time.advance(4999)
    t.same(it.settled, Array(9).fill([]), name)
    await it.time.advance(1)
    t.same(await over, { events: 45, bytes: 225 }, name)
    t.same(it.settled, Array(9).fill(['errored']), name)
    t.same(it.counters.imbalance(), balanced, name)
    it.put(2)
    await settle()
    t.same(it.settled[9], ['errored'], name)
    t.equal(it.delivery.state, 'stopped', name)
    await started
    if (!end) it.input.end()
    await settle()
    t.ok(it.delivery.writableFinished, name)
    t.equal(it.time.timers, 0, name)
  }
  const gone = setUp({ options: { batch: { max_events: 1 } }, write: () => fail('retry') })
  await gone.delivery.start()
  gone.put(1)
  await settle()
  gone.delivery.destroy()
  await settle()
  t.same(gone.settled, [['errored']], 'destroyed')
  t.equal(gone.time.timers, 0)
})

t.test('bytes stay where they are until a write has ended, also after its events were given back', async t => {
  let end = () => {}
  const it = setUp({ options: { batch: { max_events: 1 } }, write: () => new Promise<void>(done => (end = done)) })
  await it.delivery.start()
  const settled: string[] = []
  const { batch, isFree } = pooledBatch('0'.padEnd(200_000, '.'), origin, status => settled.push(status))
  void it.input.write(batch)
  await settle()
  await it.delivery.stop(AbortSignal.abort())
  t.same(settled, ['errored'], 'given back')
  t.notOk(isFree())
  end()
  await settle()
  t.ok(isFree())
  it.input.end()
})

t.test('whatever happens: each event ends once, in order where asked', async t => {
  for (let seed = 1; seed <= rounds(60, 15); seed++) {
    const random = seeded(seed)
    const chance = (p: number) => random() < p
    const inFlight = seed % 2 ? 1 : 3
    const divides = seed % 3 === 0
    const accepted: number[] = []
    const it = setUp({
      random,
      options: { batch: { max_events: 1 + Math.floor(random() * 9), max_wait: '100ms' }, max_in_flight: inFlight },
      write: async (events, _, signal) => {
        await new Promise<void>((resolve, reject) => {
          const cancel = it.time.after(random() * 50, resolve)
          if (chance(0.05)) cancel()
          signal.addEventListener('abort', () => reject(new Error('aborted')))
        })
        if (chance(0.15)) fail('retry', chance(0.3) ? { retryAfterMs: random() * 5000 } : {})
        if (chance(0.05)) throw new Error('unknown')
        if (chance(0.1)) fail('hold')
        if (events.length > 2 && chance(0.2)) fail('too_large')
        if (chance(0.05)) fail('reject')
        if (divides && chance(0.2)) {
          const taken = chance(0.5)
          const kinds = events.map(() => (chance(0.3) ? 'rejected' : taken && chance(0.6) ? 'taken' : 'again'))
          const indexes = (kind: string) => events.flatMap((_, i) => (kinds[i] === kind ? [i] : []))
          const rejected = indexes('rejected')
          if (inFlight > 1 || !kinds.includes('taken')) {
            accepted.push(...events.filter((_, i) => kinds[i] === 'taken'))
            fail(rejected.length > 0 && chance(0.5) ? 'reject' : 'retry', { rejected, again: indexes('again') })
          }
        }
        accepted.push(...events)
        if (chance(0.05)) fail('retry')
      },
    })
    it.hooks.letter = () => {
      if (chance(0.3)) throw new Error('no space left')
    }
    const started = it.delivery.start()
    let total = 0
    for (let i = 0; i < 30; i++) {
      const count = 1 + Math.floor(random() * 12)
      total += count
      it.put(count)
      await it.time.advance(random() * 300)
      if (it.counters.imbalance().events !== 0) t.fail(`seed ${seed}: not all accounted for`)
    }
    it.input.end()
    const over = it.delivery.stop(deadline(3_600_000, it.time))
    while (!it.delivery.writableFinished) await it.time.advance(1000)
    await started
    t.same(await over, balanced, `seed ${seed}`)
    const refused = it.letters.flatMap(({ events }) => events)
    const ended = [...new Set([...accepted, ...refused])].sort((a, b) => a - b)
    if (ended.join() !== upTo(total).join()) t.same(ended, upTo(total), `seed ${seed}: lost`)
    if (inFlight === 1) {
      const first = [...new Set(accepted)]
      if (first.some((n, i) => n < (first[i - 1] ?? -1))) t.fail(`seed ${seed}: out of order`)
      if (!divides && refused.some((n, i) => n < (refused[i - 1] ?? -1))) t.fail(`seed ${seed}: refused out of order`)
    }
    if (it.settled.some(statuses => statuses.length !== 1 || statuses[0] === 'errored')) t.same(it.settled, [])
    const { passed, discards } = it.counters
    const counted = [...discards.values()].reduce((sum, { events }) => sum + events, passed.events)
    if (counted !== total) t.fail(`seed ${seed}: ${counted}`)
    t.equal(it.time.timers, 1, 'the deadline of the test itself')
  }
})

t.test('what is given back at the end begins with the first event that was not delivered', async t => {
  const it = setUp({
    options: { batch: { max_events: 3 }, max_in_flight: 1 },
    write: (_, attempt) => attempt > 2 && fail('retry'),
  })
  await it.delivery.start()
  const settled: unknown[] = []
  const batch = (lines: number) => {
    const ack = new Ack((status, before) => settled.push([status, before]))
    const made = new EventBatch(batchesOf('1234\n'.repeat(lines), origin)[0]!, origin, 0, ack)
    made.sentOffsets = new SentOffsets(made.starts[0]!)
    return made
  }
  void it.input.write(batch(10))
  void it.input.write(batch(1))
  await it.time.advance(1000)
  it.delivery.destroy()
  await settle()
  t.same(settled, [
    ['errored', 6 * 5],
    ['errored', 0],
  ])
})

t.test('one that leaves gives its events in order, also of a request that was divided', async t => {
  const it = setUp({
    options: { batch: { max_events: 8, max_wait: '1h' }, max_in_flight: 1 },
    write(events, attempt) {
      if (attempt === 1) fail('too_large')
      if (attempt === 2) fail('retry', { rejected: [], again: [1, 2, 3] })
      if (attempt > 2) t.same(events, [1, 2, 3])
      fail('retry')
    },
  })
  await it.delivery.start()
  it.put(11)
  await settle()
  it.delivery.leave()
  it.input.end()
  await settle()
  t.same(numbers(it.delivery.takeLeft()), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
})

t.test('what was confirmed before an attempt was aborted is delivered, also if there is no other attempt', async t => {
  const confirmed = () =>
    setUp({
      options: { batch: { max_events: 4 }, timeout: '5s', retry: { max_attempts: 1 } },
      write: (_, __, signal) =>
        new Promise((_, reject) => {
          const error = failing('retry', { reason: 'timeout', rejected: [], again: [1, 2] })
          signal.addEventListener('abort', () => reject(error))
        }),
    })
  const late = confirmed()
  await late.delivery.start()
  late.put(4)
  await late.time.advance(5000)
  t.same(late.letters, [{ events: [1, 2], reason: 'retries_exhausted' }])
  t.equal(late.counters.passed.events, 2)
  t.same(late.counters.imbalance(), balanced)

  const replaced = confirmed()
  await replaced.delivery.start()
  replaced.put(4)
  replaced.put(1)
  await settle()
  replaced.delivery.leave()
  replaced.input.end()
  t.ok(replaced.delivery.cut())
  await settle()
  t.same(numbers(replaced.delivery.takeLeft()), [1, 2, 4])
  t.equal(replaced.counters.passed.events, 2)
  t.same(replaced.counters.imbalance(), balanced)

  for (const leaves of [false, true]) {
    const stopped = confirmed()
    await stopped.delivery.start()
    stopped.put(4)
    await settle()
    if (leaves) stopped.delivery.leave()
    t.same(await stopped.delivery.stop(AbortSignal.abort()), { events: 4, bytes: 20 })
    await settle()
    t.same(stopped.settled, [['errored']], 'its source reads all of it again')
    t.same(stopped.counters.imbalance(), balanced)
    t.same(stopped.told(), [])
  }
})

t.test('a successor makes the same requests of the same events: it knows their size as sent', async t => {
  const more = {
    options: { batch: { max_bytes: 100, max_wait: '1h' }, max_in_flight: 1 },
    destination: { encode: (request: readonly EventBatch[]) => ({ size: numbers(request).length * 15 }) },
  }
  const sizeOfFirst = async (outage?: SetUp['outage']) => {
    const it = setUp({ ...more, outage })
    await it.delivery.start()
    it.put(60)
    await settle()
    return [it.attempts[0]!.events.length, it.delivery.outage.state] as const
  }
  const [halved, state] = await sizeOfFirst()
  t.equal(halved, 5)
  t.equal((await sizeOfFirst(state))[0], 6)
})

/** Waits for an answer of the receiver, which takes a turn of the event loop. */
const answer = () => new Promise(resolve => setImmediate(() => setImmediate(resolve)))

t.test('an event for which the program fails alone five times is rejected; its neighbors are delivered', async t => {
  for (const where of ['write', 'encode']) {
    let tried = 0
    const encode = (events: number[]) => {
      if (events.join() === '5') tried++
      if (events.includes(5)) throw new RangeError('too deep')
      return events.length
    }
    const it = setUp({
      options: { batch: { max_events: 8 } },
      write: encode,
      ...(where === 'encode' && { destination: { encode: request => ({ size: encode(numbers(request)) }) } }),
    })
    await it.delivery.start()
    it.put(8)
    await settle()
    t.same(it.letters, [], 'not at the first failure')
    await it.time.advance(15_000)
    t.same(it.letters, [{ events: [5], reason: 'internal_error' }], where)
    t.equal(tried, where === 'write' ? 5 : 6, 'a request is encoded before its first attempt, too')
    t.match(it.logs.at(-1), {
      msg: 'the destination rejected events',
      reason: 'internal_error',
      error: 'the destination failed 5 times to send this event: too deep',
    })
    t.equal(it.counters.passed.events, 7)
    t.same(it.settled, [['rejected']])
    t.same(it.counters.imbalance(), balanced)
  }
})

t.test('no other error rejects events: it may come from the receiver, or pass', async t => {
  let n = 0
  const errors: [string, () => unknown][] = [
    ['an error of the system', () => fail('retry', { reason: 'refused' })],
    ['an error without a class', () => Promise.reject(new Error('not connected'))],
    ['an answer that the code does not expect', () => answer().then(() => Promise.reject(new TypeError('no items')))],
    ['different errors', () => Promise.reject(new TypeError(`number ${n++}`))],
  ]
  for (const [what, write] of errors) {
    let works = false
    const it = setUp({ options: { batch: { max_events: 1 } }, write: () => (works ? undefined : write()) })
    await it.delivery.start()
    it.put(1)
    for (let i = 0; i < 20; i++) {
      await answer()
      await it.time.advance(30_000)
    }
    t.same(it.letters, [], what)
    works = true
    await answer()
    await it.time.advance(30_000)
    t.same(it.settled, [['delivered']], what)
  }
})
