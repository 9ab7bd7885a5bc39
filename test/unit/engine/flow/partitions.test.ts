import t from 'tap'
import { DeliveryError } from '../../../../src/core/errors.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { MOST_APART, MOST_OPEN } from '../../../../src/engine/flow/delivery/partitions.js'
import { settle } from '../../../../src/engine/testing/manual-time.js'
import { balanced, fail, numbers, type SetUp, setUp, upTo } from '../../../support/delivery.js'
import { valuesOf } from '../../../support/values-of.js'

/** A delivery whose events are in the partition that `nameOf` returns for their number. */
function partitioned(nameOf: (n: number) => string, { destination, write, ...more }: SetUp = {}) {
  const requests: { name: string | undefined; events: number[] }[] = []
  const it = setUp({
    ...more,
    destination: {
      partitionOf: (batch, i) => nameOf(Number.parseInt(batch.line(i).toString(), 10)),
      async write(request: readonly EventBatch[], signal, name) {
        const events = numbers(request)
        requests.push({ name, events })
        await write?.(events, requests.length, signal)
      },
      ...destination,
    },
  })
  return { ...it, requests }
}

const parity = (n: number) => (n % 2 ? 'odd' : 'even')

t.test('a request has the events of one partition, in order, and says which', async t => {
  const it = partitioned(parity, { options: { batch: { max_events: 3, max_wait: '1s' } } })
  await it.delivery.start()
  it.put(4)
  it.put(1)
  await settle()
  t.same(it.requests, [{ name: 'even', events: [0, 2, 4] }], 'what is complete')
  t.same(it.settled, [[], ['delivered']], 'a batch is settled when all of its partitions are')
  await it.time.advance(1000)
  t.same(it.requests[1], { name: 'odd', events: [1, 3] })
  t.same(it.settled, [['delivered'], ['delivered']])
  it.put(7)
  it.input.end()
  await settle()
  const after = it.requests.slice(2)
  const of = (name: string) => after.filter(request => request.name === name).map(({ events }) => events)
  t.same([of('odd'), of('even')], [[[5, 7, 9], [11]], [[6, 8, 10]]])
  t.same(it.counters.imbalance(), balanced)
})

t.test('a partition has one request at a time; others do not wait for it, nor for its pause', async t => {
  let works = false
  const refuses = (events: number[]) => {
    if (events[0]! % 2 && !works) fail('retry', { retryAfterMs: 5000 })
  }
  const options = { batch: { max_events: 2, max_wait: '10ms' }, max_in_flight: 2 }
  const it = partitioned(parity, { options, write: refuses })
  await it.delivery.start()
  it.put(4)
  await it.time.advance(10)
  it.put(3)
  await it.time.advance(10)
  t.same(
    it.requests.map(({ events }) => events),
    [
      [0, 2],
      [1, 3],
      [4, 6],
    ],
  )
  t.same(it.settled, [[], []], 'each batch has an event that is not delivered')
  works = true
  await it.time.advance(6000)
  t.same(valuesOf(it.requests.slice(3), 'events'), [[1, 3], [5]], 'in order')
  t.same(it.settled, [['delivered'], ['delivered']])
  t.same(it.counters.imbalance(), balanced)
})

t.test('partitions that fail leave requests to the others, whatever `max_in_flight` is', async t => {
  for (const [status, max] of [
    [500, 'auto'],
    [503, 'auto'],
    [503, 1],
  ] as const) {
    const it = partitioned(n => String(Math.min(n, 9)), {
      options: { batch: { max_events: 1 }, max_in_flight: max },
      write: events => {
        if (events[0]! < 9) fail('retry', { status })
      },
    })
    await it.delivery.start()
    it.put(9)
    await it.time.advance(60_000)
    const before = it.requests.length
    it.put(3)
    await settle()
    t.same(
      it.requests.slice(before),
      [9, 10, 11].map(n => ({ name: '9', events: [n] })),
      `${status}, ${max}`,
    )
    it.delivery.destroy()
  }
})

t.test('a part of a request that is refused', async t => {
  const it = partitioned(parity, {
    options: { batch: { max_events: 10, max_wait: '10ms' } },
    write: events => {
      if (events.includes(3)) fail('reject', { rejected: [1], status: 400 })
    },
  })
  await it.delivery.start()
  it.put(6)
  await it.time.advance(10)
  t.same(it.letters, [{ events: [3], reason: 'on_reject' }])
  t.same(it.settled, [['rejected']])
  t.same(valuesOf(it.requests, 'name'), ['even', 'odd'], 'the others of the partition were accepted')
})

t.test('open partitions are bounded: the least recently used one is sent early', async t => {
  const options = { batch: { max_events: 1000, max_wait: '1h' }, max_in_flight: 2 }
  const it = partitioned(n => String(n % 250), { options })
  await it.delivery.start()
  it.put(MOST_OPEN)
  await settle()
  t.same(it.requests, [], 'there is room')
  it.put(150)
  await settle()
  t.same(
    it.requests.slice(0, 150).map(({ events }) => events),
    upTo(150).map(n => [n]),
  )
  t.same(it.settled[0], ['delivered'])
  t.ok(it.requests.length <= 152, `${it.requests.length} requests: no more are early than there is need for`)
  it.input.end()
  await settle()
  t.same(
    it.requests.flatMap(({ events }) => events).sort((a, b) => a - b),
    upTo(250),
  )
  t.same(it.settled, [['delivered'], ['delivered']])
  t.same(it.counters.imbalance(), balanced)
})

t.test('a destination may have another bound of open partitions', async t => {
  const options = { batch: { max_events: 1000, max_wait: '1h' } }
  const it = partitioned(n => String(n), { options, destination: { mostPartitions: MOST_OPEN + 1 } })
  await it.delivery.start()
  it.put(MOST_OPEN + 1)
  await settle()
  t.same(it.requests, [], 'there is room')
  it.put(1)
  await settle()
  t.same(it.requests[0], { name: '0', events: [0] })
  it.input.end()
  await settle()
})

t.test('an event without a partition is rejected, and holds nothing up', async t => {
  const nameOf = (n: number) => {
    if (n % 3 === 0) throw new DeliveryError(`no value for .tenant`, { failure: 'reject', reason: 'partition' })
    if (n === 4) throw new TypeError('a bug')
    return 'one'
  }
  const options = { batch: { max_events: 100, max_wait: '10ms' }, hold_after_refusals: 1 }
  const it = partitioned(nameOf, { options })
  await it.delivery.start()
  it.put(7)
  await it.time.advance(10)
  t.same(it.requests, [{ name: 'one', events: [1, 2, 5] }])
  t.same(it.letters, [
    { events: [4], reason: 'partition' },
    { events: [0, 3, 6], reason: 'partition' },
  ])
  t.same(it.settled, [['rejected']])
  t.equal(it.delivery.state, 'ready')
  t.same(it.counters.imbalance(), balanced)
})

t.test('the end: what is not delivered is given back, of every partition', async t => {
  const never = () => new Promise(() => {})
  const options = { batch: { max_events: 2, max_wait: '1h' }, max_in_flight: 1 }
  const it = partitioned(n => String(n % 150), { options, write: never })
  await it.delivery.start()
  it.put(200)
  await settle()
  t.same(await it.delivery.stop(AbortSignal.abort()), { events: 200, bytes: 1000 })
  t.same(it.settled, [['errored']])
})

t.test('one that leaves gives its events to its successor, each partition in order', async t => {
  const it = partitioned(parity, { options: { batch: { max_events: 2, max_wait: '1h' } }, write: () => fail('retry') })
  await it.delivery.start()
  it.put(7)
  await settle()
  it.delivery.leave()
  it.input.end()
  await settle()
  const left = numbers(it.delivery.takeLeft())
  t.same(
    left.filter(n => n % 2),
    [1, 3, 5],
  )
  t.same(
    left.filter(n => n % 2 === 0),
    [0, 2, 4, 6],
  )
})

t.test('others do not wait for a failing partition until the limit is reached', async t => {
  let works = false
  const delivered: number[] = []
  const it = partitioned(parity, {
    options: { batch: { max_events: 10_000, max_wait: '10ms' }, max_in_flight: 1 },
    write: events => {
      if (events[0]! % 2 && !works) fail('retry', { status: 503 })
      delivered.push(...events)
    },
  })
  await it.delivery.start()
  it.put(2000)
  await it.time.advance(100)
  it.put(2000)
  await it.time.advance(100)
  t.equal(delivered.length, 2000, 'all others')
  t.equal(it.delivery.reason, 'it says retry; only the events that go there wait')
  let events = 4000
  for (; !it.delivery.reason!.includes('which is the most'); events += 20_000) {
    if (events > 4 * MOST_APART.events) return t.fail('there is no limit')
    it.put(20_000)
    await it.time.advance(100)
  }
  const before = delivered.length
  it.put(20_000)
  it.put(20_000)
  await it.time.advance(100)
  t.equal(delivered.length, before, 'nothing passes any more')
  t.match(it.delivery.reason, /; 1\d{5} events that go there wait, which is the most, so all others wait, too$/)
  works = true
  await it.time.advance(60_000)
  const inOrder = upTo(events + 40_000)
  t.same(
    [...delivered].sort((a, b) => a - b),
    inOrder,
  )
  const odd = delivered.filter(n => n % 2)
  t.ok(odd.every((n, i) => i === 0 || n > odd[i - 1]!))
  t.same(it.counters.imbalance(), balanced)
})

/** A delivery whose requests have events for several targets, by their number. `failing`: the targets that fail. */
function targeted(failing: Set<string>, { options, destination }: SetUp = {}, targetOf = (n: number) => `t${n % 3}`) {
  return setUp({
    options: { batch: { max_events: 6, max_wait: '10ms' }, ...options },
    destination: {
      targetOf: (batch, i) => targetOf(Number.parseInt(batch.line(i).toString(), 10)),
      ...destination,
    },
    write: events => {
      const again = events.flatMap((n, i) => (failing.has(targetOf(n)) ? [i] : []))
      if (again.length > 0) fail('retry', { status: 429, rejected: [], again })
    },
  })
}

t.test('a target that fails has its own requests, in order, until it works', async t => {
  for (const max of ['auto', 1]) {
    const failing = new Set(['t1'])
    const it = targeted(failing, { options: { max_in_flight: max } })
    await it.delivery.start()
    it.put(6)
    await it.time.advance(10)
    it.put(12)
    await it.time.advance(10)
    t.same(
      valuesOf(it.attempts, 'events'),
      [
        [0, 1, 2, 3, 4, 5],
        [1, 4],
        [6, 8, 9, 11, 12, 14],
        [15, 17],
      ],
      String(max),
    )
    t.equal(it.counters.passed.events, 12)
    t.equal(it.delivery.state, 'retrying')
    const { length } = it.attempts
    failing.clear()
    await it.time.advance(2000)
    t.same(valuesOf(it.attempts.slice(length), 'events'), [
      [1, 4],
      [7, 10, 13, 16],
    ])
    t.same(it.settled, [['delivered'], ['delivered']])
    t.equal(it.delivery.state, 'ready')
    it.put(3)
    await it.time.advance(10)
    t.same(it.attempts.at(-1)!.events, [18, 19, 20], 'its events are in requests with others again')
    t.same(it.counters.imbalance(), balanced)
  }
})

t.test('if all targets of a request fail, the request is retried', async t => {
  const failing = new Set(['t0', 't1', 't2'])
  const it = targeted(failing)
  await it.delivery.start()
  it.put(6)
  await it.time.advance(60_000)
  t.same(new Set(it.attempts.map(({ events }) => events.join())), new Set(['0,1,2,3,4,5']))
  failing.clear()
  await it.time.advance(60_000)
  t.same(it.settled, [['delivered']])
})

t.test('a request of a single target that fails keeps no other request waiting', async t => {
  const failing = new Set(['first'])
  const it = targeted(failing, { options: { max_in_flight: 1 } }, n => (n < 6 ? 'first' : 'second'))
  await it.delivery.start()
  it.put(6)
  await it.time.advance(10)
  it.put(6)
  await settle()
  t.same(it.settled, [[], ['delivered']])
  t.same(await it.delivery.stop(AbortSignal.abort()), { events: 6, bytes: 30 })
  t.same(it.settled, [['errored'], ['delivered']])
  t.same(it.counters.imbalance(), balanced)
})

t.test('the rest of a divided request, and a successor, get the events of a failing target in order', async t => {
  const encode = (request: readonly EventBatch[]) => ({ size: numbers(request).length * 10 })
  const options = { batch: { max_events: 12, max_bytes: 60, max_wait: '10ms' }, max_in_flight: 1 }
  for (const leaves of [false, true]) {
    const failing = new Set(['t1'])
    const it = targeted(failing, { options, destination: { encode } })
    await it.delivery.start()
    it.put(12)
    it.put(12)
    await it.time.advance(100)
    const bad = upTo(24).filter(n => n % 3 === 1)
    t.equal(it.counters.passed.events, 16)
    if (leaves) {
      it.delivery.leave()
      it.input.end()
      await settle()
      t.same(numbers(it.delivery.takeLeft()), bad)
      continue
    }
    const { length } = it.attempts
    failing.clear()
    await it.time.advance(2000)
    t.same(
      it.attempts.slice(length).flatMap(({ events }) => events),
      bad,
    )
    t.same(it.settled, [['delivered'], ['delivered']])
    t.same(it.counters.imbalance(), balanced)
  }
})
