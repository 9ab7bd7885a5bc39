import t from 'tap'
import type { Failure } from '../../../../src/core/errors.js'
import { isReady } from '../../../../src/daemon/status/ready.js'
import {
  balanced,
  fail,
  HOLD,
  HOLD_OVER,
  never,
  RETRY,
  RETRY_OVER,
  setUp,
  upTo,
  type Write,
} from '../../../support/delivery.js'
import { settle } from '../../../support/manual-time.js'
import { valuesOf } from '../../../support/values-of.js'

t.test('tries again, with full jitter', async t => {
  let works = false
  const it = setUp({
    options: { batch: { max_events: 1 }, max_in_flight: 1 },
    write: (_, attempt) => works || (attempt % 2 ? fail('retry', { status: 503 }) : Promise.reject(new Error('odd'))),
  })
  await it.delivery.start()
  it.put(1)
  it.put(1)
  await it.time.advance(91_500)
  const at = it.attempts.map(attempt => Math.round(attempt.at / 100) / 10)
  t.same(at, [0, 1, 3, 7, 15, 31, 61, 91], 'the longest waits')
  t.ok(it.attempts.every(({ events }) => events[0] === 0))
  t.equal(it.delivery.state, 'failing')
  t.equal(it.delivery.reason, 'odd')
  t.same(Object.fromEntries(it.counters.failures), { on_retry: 4, unknown: 4 })
  const retries = [...it.counters.series.get('sluice_delivery_retries_total')!].flatMap(s => [...s.read()])
  t.match(retries, [
    { labels: { reason: 'on_retry' }, value: 4 },
    { labels: { reason: 'unknown' }, value: 4 },
  ])
  works = true
  await it.time.advance(30_000)
  t.equal(it.delivery.state, 'ready')
  t.same(it.attempts.at(-1)!.events, [1])
  t.same(it.told(), [RETRY, RETRY, RETRY, RETRY, RETRY_OVER], 'once a minute for each reason')
  t.match(it.logs[0], { reason: 'on_retry', status: 503, error: 'it says retry', failures: 1, again_in: '1s' })
  it.input.end()
  await it.delivery.stop(never)
  t.equal(it.time.timers, 0)

  const half = setUp({ options: { batch: { max_events: 1 } }, write: () => fail('retry'), random: () => 0.5 })
  await half.delivery.start()
  half.put(1)
  await half.time.advance(4000)
  t.same(valuesOf(half.attempts, 'at'), [0, 500, 1500, 3500], 'a random part of it')
  await half.delivery.stop(AbortSignal.abort())
})

t.test('Retry-After speaks for all requests, an hour at most', async t => {
  for (const { asked, until } of [
    { asked: 20_000, until: 20_000 },
    { asked: 1e9, until: 3_600_000 },
  ]) {
    const it = setUp({
      options: { batch: { max_events: 1 }, max_in_flight: 2 },
      write: (_, attempt) => attempt === 1 && fail('retry', { retryAfterMs: asked }),
    })
    await it.delivery.start()
    it.put(1)
    await settle()
    it.put(1)
    await it.time.advance(until - 1)
    t.equal(it.attempts.length, 1)
    await it.time.advance(1001)
    t.same(
      it.attempts.map(({ events }) => events[0]),
      [0, 1, 0],
      `${asked} ms`,
    )
    it.input.end()
    await it.delivery.stop(never)
    t.equal(it.time.timers, 0)
  }
})

t.test('a shorter pause does not end a longer one', async t => {
  const it = setUp({
    options: { batch: { max_events: 1 }, max_in_flight: 2 },
    write: (_, attempt) => attempt <= 2 && fail('retry', { retryAfterMs: attempt === 1 ? 100_000 : 5000 }),
  })
  await it.delivery.start()
  it.put(1)
  it.put(1)
  await it.time.advance(99_999)
  t.equal(it.attempts.length, 2)
  await it.time.advance(1001)
  t.equal(it.attempts.length, 4)
  it.input.end()
  await it.delivery.stop(never)
})

t.test('on hold everything waits for one probe; a changed key is tried at once', async t => {
  let refused = true
  let changed = false
  const it = setUp({
    options: { batch: { max_events: 1 }, max_in_flight: 3 },
    write: () => refused && fail('hold', { status: 401, requestId: 'r' }),
    destination: {
      async changed() {
        if (!changed) throw new Error('cannot tell')
        changed = false
        return true
      },
    },
  })
  await it.delivery.start()
  for (let i = 0; i < 5; i++) it.put(1)
  await it.time.advance(0)
  t.equal(it.delivery.state, 'holding')
  t.equal(it.delivery.reason, 'it says hold')
  t.equal(it.gauge('sluice_delivery_holding'), 1)
  t.same(
    it.attempts.map(({ events }) => events[0]),
    [0, 1, 2],
    'those under way were refused',
  )
  await it.time.advance(600_000)
  const probes = it.attempts.slice(3)
  t.ok(
    probes.every(({ events }) => events[0] === 0),
    'then one',
  )
  const gaps = probes.map(({ at }, i) => Math.round((at - (probes[i - 1]?.at ?? 0)) / 1000))
  t.same(gaps.slice(0, 8), [2, 4, 8, 16, 32, 60, 60, 60])
  t.same(it.told(), [HOLD], 'told once')
  t.match(it.logs[0], { status: 401, request_id: 'r', error: 'it says hold' })
  changed = true
  const before = it.attempts.length
  await it.time.advance(1000)
  t.equal(it.attempts.length, before + 1, 'within a second')
  t.same(it.settled, Array(5).fill([]), 'nothing is dropped')
  refused = false
  changed = true
  await it.time.advance(1000)
  t.equal(it.delivery.state, 'ready')
  t.equal(it.delivery.reason, undefined)
  t.same(
    it.attempts.slice(before + 1).map(({ events }) => events[0]),
    upTo(5),
  )
  t.same(it.told(), [HOLD, HOLD_OVER])
  t.equal(it.gauge('sluice_delivery_holding'), 0)
  t.same(it.settled, Array(5).fill(['delivered']))
  it.input.end()
  await it.delivery.stop(never)
  t.equal(it.time.timers, 0)
})

t.test('a late refusal with a key that was replaced meanwhile begins no second hold', async t => {
  let key = 'old'
  const it = setUp({
    options: { batch: { max_events: 1 }, max_in_flight: 2 },
    write: async events => {
      const sent = key
      if (events[0] === 1) await new Promise<void>(resolve => it.time.after(1500, resolve))
      if (sent === 'old') fail('hold')
    },
    destination: { changed: async () => key === 'new' },
  })
  await it.delivery.start()
  it.put(1)
  it.put(1)
  await settle()
  key = 'new'
  await it.time.advance(4000)
  t.same(
    it.attempts.map(({ events, at }) => [events[0], at]),
    [
      [0, 0],
      [1, 0],
      [0, 1000],
      [1, 1500],
    ],
  )
  t.same(it.told(), [HOLD, HOLD_OVER])
  t.same(it.settled, [['delivered'], ['delivered']])
  it.input.end()
  await it.delivery.stop(never)

  const odd = setUp({
    options: { batch: { max_events: 1 } },
    write: () => fail('hold'),
    destination: { changed: async () => true },
  })
  await odd.delivery.start()
  odd.put(1)
  await odd.time.advance(60_000)
  t.ok(odd.attempts.length <= 62, 'once a second at most, also when it always says that something changed')
  await odd.delivery.stop(AbortSignal.abort())
})

t.test('a probe that fails for another reason keeps the hold; a refused event ends it', async t => {
  const outcomes: Failure[] = ['hold', 'retry', 'retry', 'reject']
  const it = setUp({
    options: { batch: { max_events: 1 }, max_in_flight: 1, retry: { max_attempts: 1 } },
    write: () => outcomes.length > 0 && fail(outcomes.shift()!),
  })
  await it.delivery.start()
  it.put(1)
  it.put(1)
  await it.time.advance(7000)
  t.equal(it.attempts.length, 3)
  t.equal(it.delivery.state, 'holding', 'and is not given up')
  await it.time.advance(10_000)
  t.same(
    it.attempts.map(({ events }) => events[0]),
    [0, 0, 0, 0, 1],
  )
  t.same(it.told(), [HOLD, HOLD_OVER, '40 the destination rejected events'])
  t.same(it.settled, [['rejected'], ['delivered']])
  it.input.end()
  await it.delivery.stop(never)
})

t.test('the start is tried and held in the same way', async t => {
  const outcomes: Failure[] = ['retry', 'retry', 'hold', 'hold', 'reject']
  let changed = false
  let stops = 0
  const it = setUp({
    options: { batch: { max_events: 1 }, retry: { max_attempts: 1 } },
    destination: {
      start: async () => {
        if (outcomes.length > 0) fail(outcomes.shift()!)
      },
      changed: async () => changed,
      stop: async () => void stops++,
    },
  })
  const started = it.delivery.start(never)
  it.put(1)
  await it.time.advance(1500)
  t.equal(it.delivery.state, 'starting')
  t.equal(it.delivery.reason, 'it says retry', 'not given up after max_attempts')
  await it.time.advance(1500)
  t.equal(it.delivery.state, 'holding')
  t.equal(outcomes.length, 2)
  changed = true
  await it.time.advance(3000)
  await started
  await settle()
  t.equal(it.delivery.state, 'ready')
  t.same(
    it.told(),
    [RETRY, HOLD, RETRY_OVER, HOLD_OVER].filter(line => it.told().includes(line)),
  )
  t.equal(it.told().filter(line => line === HOLD).length, 1, 'what it refuses at the start holds too')
  t.same(it.settled, [['delivered']])
  it.input.end()
  await it.delivery.stop(never)
  await it.delivery.stop(never)
  t.equal(stops, 1)

  const broken = setUp({ destination: { start: () => Promise.reject(new TypeError('a bug')) } })
  await t.rejects(broken.delivery.start(), { message: 'a bug' })
  t.same(await broken.delivery.stop(AbortSignal.abort()), balanced)

  const controller = new AbortController()
  const aborted = setUp({ destination: { start: async () => fail('hold') } })
  const starting = aborted.delivery.start(controller.signal)
  aborted.put(3)
  await aborted.time.advance(0)
  controller.abort()
  await starting
  t.same(aborted.settled, [['errored']])
  t.equal(aborted.delivery.state, 'stopped')
  t.equal(aborted.time.timers, 0)
})

t.test('a destination that refuses everything holds, and nothing more is given up', async t => {
  let status = 404
  let tries = 0
  const write: Write = () => {
    tries++
    if (status !== 200) fail('reject', { status, reason: `status_${status}`, message: `${status} from there` })
  }
  const options = { batch: { max_events: 1 }, max_in_flight: 2 }
  const it = setUp({ options, write })
  await it.delivery.start()
  for (let i = 0; i < 20; i++) it.put(1)
  await it.time.advance(60_000)
  t.equal(it.delivery.state, 'holding')
  t.match(
    it.delivery.reason,
    /; 5 consecutive requests were rejected like this, so the destination is paused: correct the address$/,
  )
  t.same(
    it.letters,
    upTo(4).map(n => ({ events: [n], reason: 'status_404' })),
    'those before the row was long enough',
  )
  t.ok(tries > 6 && tries < 40, 'one is tried again after a while')
  t.equal(it.told().filter(line => line === HOLD).length, 1)
  status = 200
  await it.time.advance(61_000)
  t.equal(it.delivery.state, 'ready')
  t.equal(it.settled.filter(([status]) => status === 'delivered').length, 16)
  // What accepted something once is wrong in its address all the same, and otherwise the events are.
  status = 400
  for (let i = 0; i < 8; i++) it.put(1)
  await it.time.advance(60_000)
  t.equal(it.delivery.state, 'ready')
  t.equal(it.letters.length, 12)
  status = 405
  for (let i = 0; i < 8; i++) it.put(1)
  await it.time.advance(60_000)
  t.same([it.delivery.state, it.letters.length], ['holding', 16])
  status = 200
  await it.time.advance(61_000)
  t.same(it.counters.imbalance(), balanced)
  it.input.end()
  await it.delivery.stop(never)

  for (const limit of [5, 0]) {
    const fresh = setUp({
      options: { ...options, hold_after_refusals: limit },
      write: () => fail('reject', { status: 400, reason: 'status_400' }),
    })
    await fresh.delivery.start()
    for (let i = 0; i < 9; i++) fresh.put(1)
    await fresh.time.advance(10_000)
    t.same([fresh.delivery.state, fresh.letters.length], limit === 0 ? ['ready', 9] : ['holding', 4])
    if (limit > 0) t.match(fresh.delivery.reason, /set hold_after_refusals: 0 if the events are at fault/)
    await fresh.delivery.stop(AbortSignal.abort())
    t.same(fresh.counters.imbalance(), balanced)
  }
})

const ready = (it: ReturnType<typeof setUp>) => isReady([{ state: it.delivery.state }])

t.test('what has tried and never delivered is not ready, whatever becomes of its events', async t => {
  for (const retry of [{}, { max_attempts: 2 }]) {
    let works = false
    const options = { retry, batch: { max_events: 1 }, max_in_flight: 1 }
    const it = setUp({ options, write: () => works || fail('retry', { status: 503 }) })
    await it.delivery.start()
    t.same([it.delivery.state, ready(it)], ['ready', true], 'it had nothing to deliver')
    it.put(1)
    await it.time.advance(2000)
    t.same([it.delivery.state, it.delivery.reason, ready(it)], ['failing', 'it says retry', false])
    t.equal(it.letters.length, 'max_attempts' in retry ? 1 : 0)
    t.notOk(it.told().includes(RETRY_OVER), 'a dead letter is not a delivery')
    works = true
    it.put(1)
    await it.time.advance(2000)
    t.same([it.delivery.state, ready(it)], ['ready', true])
    t.ok(it.told().includes(RETRY_OVER))
    works = false
    it.put(1)
    await it.time.advance(500)
    t.same([it.delivery.state, ready(it)], ['retrying', true], 'it is down for a moment')
    await it.delivery.stop(AbortSignal.abort())
  }
})

t.test('what fails for long, or refuses most, is not ready', async t => {
  let works = true
  const down = setUp({ options: { max_in_flight: 1 }, write: () => works || fail('retry', { status: 503 }) })
  await down.delivery.start()
  down.put(1)
  await down.time.advance(1000)
  works = false
  down.put(1)
  await down.time.advance(60_000)
  t.same([down.delivery.state, ready(down)], ['retrying', true])
  await down.time.advance(5 * 60_000)
  t.same([down.delivery.state, ready(down)], ['failing', false])
  works = true
  await down.time.advance(60_000)
  t.same([down.delivery.state, ready(down)], ['ready', true])
  await down.delivery.stop(AbortSignal.abort())

  const options = { batch: { max_events: 1 }, max_in_flight: 1 }
  const write: Write = ([n]) => n! % 3 > 0 && fail('reject', { status: 422, reason: 'status_422' })
  const picky = setUp({ options, write })
  await picky.delivery.start()
  for (let i = 0; i < 12; i++) picky.put(1)
  await picky.time.advance(1000)
  t.same([picky.delivery.state, ready(picky)], ['ready', true], 'a few refused requests say nothing')
  for (let i = 0; i < 9; i++) picky.put(1)
  await picky.time.advance(1000)
  t.same([picky.delivery.state, picky.delivery.reason, ready(picky)], ['refusing', 'it says reject', false])
  await picky.time.advance(11 * 60_000)
  t.same([picky.delivery.state, ready(picky)], ['ready', true], 'that was long ago')
  await picky.delivery.stop(AbortSignal.abort())
})

t.test('the log is limited by kind, and says what it left out', async t => {
  let reason = 'status_503'
  let failing = true
  const write: Write = () => {
    if (failing) fail('retry', { reason })
  }
  const it = setUp({ options: { max_in_flight: 1 }, write })
  await it.delivery.start()
  it.put(1)
  await it.time.advance(10_000)
  reason = 'timeout'
  await it.time.advance(20_000)
  failing = false
  await it.time.advance(30_000)
  const lines = it.logs.filter(({ level }) => level === 40)
  t.same(valuesOf(lines, 'reason'), ['status_503', 'timeout'], 'another kind is not left out')
  reason = 'status_503'
  failing = true
  it.put(1)
  await it.time.advance(30_000)
  const [, , third] = it.logs.filter(({ level }) => level === 40)
  t.match(third, { reason: 'status_503', suppressed: 3 })
  await it.delivery.stop(AbortSignal.abort())
  t.match(it.logs.at(-1), {
    msg: 'messages were suppressed',
    suppressed: { 'retry status_503': Number },
  })
})

t.test('gives up only where that was asked for', async t => {
  for (const [retry, attempts] of [
    [{ max_attempts: 3 }, 3],
    [{ max_elapsed: '10s' }, 5],
  ] as const) {
    const it = setUp({ options: { batch: { max_events: 1 }, retry }, write: () => fail('retry', { status: 503 }) })
    await it.delivery.start()
    it.put(1)
    await it.time.advance(60_000)
    t.equal(it.attempts.length, attempts)
    t.same(it.letters, [{ events: [0], reason: 'retries_exhausted' }])
    t.same(it.settled, [['rejected']])
    it.input.end()
    await it.delivery.stop(never)
  }
})
