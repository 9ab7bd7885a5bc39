import { pino } from 'pino'
import t from 'tap'
import { DeliveryError } from '../../../../src/core/errors.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { Attempts, type OutageState } from '../../../../src/engine/flow/delivery/attempts.js'
import { type RequestPool, RequestSlots } from '../../../../src/engine/flow/delivery/request-slots.js'
import { ManualTime, settle } from '../../../support/manual-time.js'

function setUp(outage?: OutageState, afterTimers = () => {}, forgetsSignals = false, random = () => 0) {
  const time = new ManualTime()
  const logs: Record<string, unknown>[] = []
  const attempts = new Attempts({
    log: pino({ base: null }, { write: line => void logs.push(JSON.parse(line)) }),
    clock: time,
    random,
    timeout: 1000,
    retry: { initial: 1000, max: 60_000 },
    changed: async () => false,
    failed: () => {},
    retried: () => {},
    after: (ms, fn) =>
      time.after(ms, () => {
        fn()
        queueMicrotask(afterTimers)
      }),
    outage,
    forgetsSignals,
  })
  return { time, logs, attempts }
}

t.test('a long pause that the receiver asks for is logged once and shown, and delivery counts as failing', async t => {
  const { time, logs, attempts } = setUp()
  const counters = new ComponentCounters('out', 'destination', 'fake')
  attempts.show(counters)
  const gauge = (name: string) => [...counters.series.get(name)![0]!.read()][0]!.value
  const waits = [undefined, 30_000, 9_999_999_000, 9_999_999_000]
  const task = {
    async attempt() {
      if (waits.length === 0) return
      throw new DeliveryError('503', { failure: 'retry', reason: 'status_503', retryAfterMs: waits.shift() })
    },
    classify: (error: unknown) => error as DeliveryError,
    kind: 'events' as const,
  }
  const pauses = () => logs.filter(({ msg }) => /requested a long pause/.test(String(msg)))
  const done = attempts.persist(task)
  await time.advance(30_000)
  t.match(pauses(), [{ reason: 'status_503', asked: '2777h 46m', waits: '1h 0m', until: '2023-11-14T23:13:50.000Z' }])
  t.equal(attempts.pausedUntil, '2023-11-14T23:13:50.000Z')
  await time.advance(1_800_000)
  t.equal(gauge('sluice_delivery_failing_seconds'), 1830)
  t.equal(gauge('sluice_delivery_paused_seconds'), 1800)
  await time.advance(1_800_000)
  t.equal(pauses().length, 2, 'each of them by itself')
  await time.advance(3_600_000)
  t.equal(await done, undefined)
  await settle()
  for (const name of ['failing', 'paused']) t.equal(gauge(`sluice_delivery_${name}_seconds`), 0)
  const over = logs.find(({ msg }) => msg === 'delivery works again')
  t.match(over, { since: '2023-11-14T22:13:20.000Z', lasted: '2h 0m', failures: 4 })
  t.equal(attempts.pausedUntil, undefined)
  attempts.close()
  t.equal(time.timers, 0)
})

t.test('the log counts the failures of all requests, as the status does', async t => {
  const { time, logs, attempts } = setUp()
  const error = new DeliveryError('503', { failure: 'retry', reason: 'status_503', retryAfterMs: 10_000 })
  const task = () => ({ attempt: () => Promise.reject(error), classify: () => error, kind: 'events' as const })
  for (let n = 0; n < 5; n++) void attempts.persist(task())
  await time.advance(70_000)
  const failed = logs.filter(({ msg }) => /^delivery failed/.test(String(msg)))
  t.ok(Number(failed.at(-1)?.failures) > 10, 'more than one request alone')
  t.ok(failed.length > 1)
  t.ok(Number(failed.at(-1)!.failures) <= attempts.outage.failures!.count)
  attempts.close()
  await settle()
})

t.test(
  'an outage of events before a reload ends when an event is delivered, not when the destination starts',
  async t => {
    const failures = { since: -5000, lastAt: -1000, count: 3 }
    const before = {
      failures,
      error: '503',
      of: 'events',
      hasDelivered: false,
      isLogged: true,
      past: undefined,
    } as const
    const { logs, attempts } = setUp(before)
    const works = { attempt: async () => {}, classify: (error: unknown) => error as DeliveryError }
    for (const kind of ['start', 'dead_letter'] as const) await attempts.persist({ ...works, kind })
    t.same(attempts.outage.failures, failures)
    t.same(logs, [])
    t.notOk(attempts.failing, 'the new options may be better')
    await attempts.persist({ ...works, kind: 'events' })
    t.equal(attempts.outage.failures, undefined)
    t.match(attempts.outage.past, { since: -5000, failures: 3, error: '503' })
    t.match(logs, [{ msg: 'delivery works again' }])
  },
)

t.test('an answer that arrived while the process was stopped is read, although the timeout is over', async t => {
  let answer = () => {}
  const { time, logs, attempts } = setUp(undefined, () => answer())
  let made = 0
  const task = {
    attempt(signal: AbortSignal) {
      made++
      return new Promise<void>((resolve, reject) => {
        if (made === 1) answer = resolve
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    },
    classify: (error: unknown) => error as DeliveryError,
    limited: false,
    kind: 'events' as const,
  }
  let isDone = false
  void attempts.persist(task).then(() => {
    isDone = true
  })
  await time.advance(1000)
  t.ok(isDone)
  t.equal(made, 1)
  t.same(logs, [])

  void attempts.persist(task)
  await time.advance(999)
  t.same(logs, [])
  await time.advance(1)
  t.match(logs, [{ reason: 'timeout', error: 'no answer within 1s' }])
  attempts.close()
  await settle()
})

t.test('an outage, and the time without an answer, begin with the first attempt that failed', async t => {
  const { time, logs, attempts } = setUp(undefined, undefined, undefined, () => 0.5)
  const counters = new ComponentCounters('out', 'destination', 'fake')
  attempts.show(counters)
  const unanswered = () => [...counters.series.get('sluice_delivery_unanswered_seconds')![0]!.read()][0]!.value
  let answers = true
  const task = () => ({
    attempt: (signal: AbortSignal) =>
      answers
        ? Promise.resolve()
        : new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    classify: (error: unknown) => error as DeliveryError,
    kind: 'events' as const,
  })
  await time.advance(500)
  const began = time.now()
  answers = false
  void attempts.persist(task())
  await time.advance(700)
  answers = true
  await attempts.persist(task())
  answers = false
  await time.advance(300)
  t.equal(attempts.outage.failures?.since, began + 700, 'not before another attempt succeeded')
  t.equal(unanswered(), 0.3)
  answers = true
  await time.advance(1000)
  t.equal(unanswered(), 0)
  t.match(logs.at(-1), { msg: 'delivery works again', lasted: '800ms', failures: 1 })
  answers = false
  const again = time.now()
  const done = attempts.persist(task())
  await time.advance(1250)
  t.equal(attempts.outage.failures?.since, again)
  t.equal(unanswered(), 1.25, 'also between two attempts')
  await time.advance(750)
  t.equal(unanswered(), 2, 'and during the next one')
  answers = true
  await time.advance(2500)
  await done
  t.equal(unanswered(), 0)
  t.match(attempts.outage.past, { since: again, until: again + 3500, failures: 2 })
  attempts.close()
  await settle()
})

/** Attempts that a test ends. `made` has the signal of each, and a function that ends it. */
function slowTask() {
  const made: { signal: AbortSignal; end: () => void }[] = []
  const task = {
    attempt: (signal: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        made.push({ signal, end: resolve })
        signal.addEventListener('abort', () => reject(signal.reason))
      }),
    classify: (error: unknown) => error as DeliveryError,
    kind: 'events' as const,
  }
  return { made, task }
}

t.test('one timer serves all attempts, and each attempt has the whole timeout', async t => {
  const { time, logs, attempts } = setUp()
  const { made, task } = slowTask()
  const begin = async (after: number) => {
    await time.advance(after)
    void attempts.persist({ ...task })
    await settle()
  }
  await begin(0)
  await begin(600)
  await begin(300)
  t.equal(time.timers, 1)
  made[0]!.end()
  await time.advance(699)
  t.same(logs, [])
  t.notOk(made[1]!.signal.aborted)
  await time.advance(1)
  t.ok(made[1]!.signal.aborted, 'a second after its beginning')
  t.notOk(made[2]!.signal.aborted)
  await time.advance(299)
  t.notOk(made[2]!.signal.aborted)
  await time.advance(1)
  t.ok(made[2]!.signal.aborted)
  attempts.close()
  await settle()
  t.equal(time.timers, 0)
})

t.test('the timer ends with the last attempt after the successor has begun', async t => {
  for (const isIdle of [true, false]) {
    const { time, attempts } = setUp()
    const { made, task } = slowTask()
    void attempts.persist(task)
    await settle()
    if (isIdle) {
      made[0]!.end()
      await settle()
    }
    attempts.leave()
    t.equal(time.timers, isIdle ? 0 : 1)
    made[0]!.end()
    await settle()
    t.equal(time.timers, 0)
  }
})

t.test('a signal serves again if the destination forgets it and it has not aborted', async t => {
  for (const forgetsSignals of [true, false]) {
    const { time, attempts } = setUp(undefined, undefined, forgetsSignals)
    const { made, task } = slowTask()
    for (let n = 0; n < 3; n++) {
      void attempts.persist({ ...task })
      await settle()
      if (n !== 1) made[n]!.end()
      else await time.advance(1000)
      await settle()
    }
    t.equal(made[0]!.signal === made[1]!.signal, forgetsSignals)
    t.ok(made[1]!.signal.aborted)
    t.notOk(made[2]!.signal.aborted)
    attempts.close()
    await settle()
  }
})

t.test('a destination without a request waits for room in the pool, as often as there is none', async t => {
  let room = false
  const waiting: (() => void)[] = []
  const requests: RequestPool = {
    hasRoom: () => room,
    begin: () => {},
    end: () => {},
    wait: again => waiting.push(again),
  }
  let woken = 0
  const metrics = new ComponentCounters('out', 'destination', 'fake')
  const slots = new RequestSlots(
    () => 1,
    { requests, metrics },
    () => woken++,
  )
  for (let round = 1; round <= 3; round++) {
    t.notOk(slots.freeOrWait())
    t.notOk(slots.freeOrWait())
    t.equal(waiting.length, 1, 'it waits once')
    waiting.shift()!()
    t.equal(woken, round)
  }
  room = true
  t.ok(slots.freeOrWait())
  const end = slots.begin(1)
  t.notOk(slots.freeOrWait(), 'its only slot is taken')
  t.equal(waiting.length, 0, 'the end of its request wakes it')
  end()
  t.ok(slots.idle)
})
