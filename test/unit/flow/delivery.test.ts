import { pino } from 'pino'
import t from 'tap'
import { isReady } from '../../../src/admin/server.js'
import type { AckStatus } from '../../../src/core/ack.js'
import type { EventBatch } from '../../../src/core/batch.js'
import type { Destination } from '../../../src/core/component.js'
import { type DeliveryOptions, deliveryOptions } from '../../../src/core/delivery-options.js'
import { DeliveryError, type Failure } from '../../../src/core/errors.js'
import { ComponentCounters } from '../../../src/flow/counters.js'
import { Delivery } from '../../../src/flow/delivery/delivery.js'
import { Input } from '../../../src/flow/fan-out.js'
import { batchesOf, originOf } from '../../support/batches.js'
import { ManualTime, settle } from '../../support/manual-time.js'
import { seeded } from '../../support/seeded.js'

const origin = originOf('text')

/** One attempt to write the events with these numbers; what it throws is what the destination throws. */
type Write = (events: number[], attempt: number, signal: AbortSignal) => unknown

interface SetUp {
  options?: Record<string, unknown>
  write?: Write
  destination?: Partial<Destination>
  random?: () => number
}

/** A delivery on a clock that stands still, with all that it does recorded. */
function setUp({ options = {}, write = () => {}, destination = {}, random = () => 1 }: SetUp = {}) {
  const time = new ManualTime()
  const logs: { level: number; msg: string; error?: string; reason?: string }[] = []
  const counters = new ComponentCounters('out', 'destination', 'fake')
  const letters: { events: number[]; reason: string }[] = []
  const attempts: { events: number[]; at: number }[] = []
  const settled: AckStatus[][] = []
  const hooks = { letter: () => {} }
  const delivery = new Delivery(
    {
      async write(request, signal) {
        const events = numbers(request)
        attempts.push({ events, at: time.now() })
        await write(events, attempts.length, signal)
      },
      ...destination,
    },
    deliveryOptions.parse(options) as DeliveryOptions,
    {
      id: 'out',
      log: pino({ base: null }, { write: line => void logs.push(JSON.parse(line)) }),
      clock: time,
      random,
      after: time.after,
      deadLetter: {
        async write(request, error) {
          hooks.letter()
          letters.push({ events: numbers(request), reason: error.reason })
        },
      },
      counters: {
        received: (events, bytes) => counters.took(events, bytes),
        sent: (events, bytes) => counters.sent(events, bytes),
        discarded: (reason, events, bytes) => counters.discarded(reason, events, bytes),
        failed: kind => counters.failed(kind),
      },
      metrics: counters,
    },
  )
  counters.holds = () => delivery.inFlight()
  const input = new Input(delivery, counters)
  input.feed()
  let n = 0
  const put = (count: number, size = 5) => {
    let text = ''
    for (let i = 0; i < count; i++) text += `${String(n++).padEnd(size - 1, '.')}\n`
    const statuses: AckStatus[] = []
    settled.push(statuses)
    void input.write(batchesOf(text, origin, status => statuses.push(status))[0]!)
  }
  const gauge = (name: string) => [...counters.series.get(name)![0]!.read()][0]!.value
  const told = () => logs.map(({ level, msg }) => `${level} ${msg}`)
  return { delivery, time, logs, told, counters, letters, attempts, settled, input, put, hooks, gauge }
}

function numbers(request: readonly EventBatch[]): number[] {
  return request.flatMap(batch =>
    Array.from({ length: batch.length }, (_, i) => Number.parseInt(batch.event(i).line.toString(), 10)),
  )
}

const upTo = (n: number, from = 0) => Array.from({ length: n - from }, (_, i) => i + from)
const failing = (failure: Failure, more: Partial<DeliveryError> = {}) =>
  new DeliveryError(`it says ${failure}`, { failure, reason: `on_${failure}`, ...more })
const fail = (failure: Failure, more?: Partial<DeliveryError>): never => {
  throw failing(failure, more)
}
const deadline = (ms: number, time: ManualTime) => {
  const controller = new AbortController()
  time.after(ms, () => controller.abort())
  return controller.signal
}
const never = new AbortController().signal
const balanced = { events: 0, bytes: 0 }
const HOLD = '50 delivery is on hold until the cause is corrected; events wait, nothing is dropped'
const HOLD_OVER = '30 delivery is no longer on hold'
const RETRY = '40 delivery fails and is tried again; events wait'
const RETRY_OVER = '30 delivery works again'

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
  t.equal(it.delivery.state, 'retrying')
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
  t.same(
    half.attempts.map(({ at }) => at),
    [0, 500, 1500, 3500],
    'a random part of it',
  )
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

t.test('a probe that meets other trouble keeps the hold; a refused event ends it', async t => {
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
  t.same(it.told(), [HOLD, HOLD_OVER, '40 the destination refused events'])
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
  t.equal(it.delivery.reason, 'the dead letter cannot be written: no space left')
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
  t.match(it.delivery.reason, /; 5 requests in a row were refused like this, so the others wait: correct the address$/)
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

t.test('what fails for long, or refuses most, is not ready', async t => {
  const ready = (it: ReturnType<typeof setUp>) => isReady([{ state: it.delivery.state }])
  let works = false
  const down = setUp({ options: { max_in_flight: 1 }, write: () => works || fail('retry', { status: 503 }) })
  await down.delivery.start()
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
  t.same(
    lines.map(({ reason }) => reason),
    ['status_503', 'timeout'],
    'another kind is not left out',
  )
  reason = 'status_503'
  failing = true
  it.put(1)
  await it.time.advance(30_000)
  const [, , third] = it.logs.filter(({ level }) => level === 40)
  t.match(third, { reason: 'status_503', suppressed: 3 })
  await it.delivery.stop(AbortSignal.abort())
  t.match(it.logs.at(-1), {
    msg: 'messages that were left out of the log, by kind',
    suppressed: { 'retry status_503': Number },
  })
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
  t.same(
    it.attempts.map(({ events }) => events),
    [upTo(10), [0, 1, 3, 4, 5, 6, 7, 8], [0, 8], [8], upTo(20, 10)],
  )
  t.ok(it.attempts[2]!.at >= 3000, 'after the pause that it asked for')
  t.same(
    it.letters.map(({ events }) => events),
    [[2, 9], [1], [8]],
  )
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

t.test('whatever happens: each event ends once, in order where asked', async t => {
  for (let seed = 1; seed <= 60; seed++) {
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
