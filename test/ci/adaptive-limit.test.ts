import t from 'tap'
import { DeliveryError } from '../../src/core/errors.js'
import { AdaptiveLimit, type AttemptOutcome } from '../../src/engine/flow/delivery/adaptive-limit.js'
import { fail, never, numbers, setUp } from '../support/delivery.js'
import { settle } from '../support/manual-time.js'
import { seeded } from '../support/seeded.js'

/** Uses up the limit for so many answers. A receiver refuses what is above its `capacity`; returns how often it did. */
function use(
  limit: AdaptiveLimit,
  answers: number,
  { ms = 50, capacity = 1000, most = 1000, pauseMs = 0 } = {},
): number {
  const sent: ((ms: number, outcome: AttemptOutcome) => void)[] = []
  let refused = 0
  for (let i = 0; i < answers; i++) {
    while (limit.inFlight < Math.min(limit.allowed, most)) {
      const end = limit.sent()
      if (limit.inFlight <= capacity) sent.push(end)
      else {
        refused++
        end(1, 'overload', pauseMs)
      }
    }
    sent.shift()!(ms, 'ok')
  }
  for (const end of sent) end(ms, 'other')
  return refused
}

/** Sends so many requests at once, which get the same answer. */
function send(limit: AdaptiveLimit, count: number, outcome: AttemptOutcome): void {
  const sent = Array.from({ length: count }, () => limit.sent())
  for (const end of sent) end(50, outcome)
}

t.test('grows only while it is used up, and answers do not take longer', async t => {
  const limit = new AdaptiveLimit(64)
  t.equal(limit.allowed, 4)
  use(limit, 1000, { most: 3 })
  t.equal(limit.allowed, 4, 'without demand')
  for (let i = 0; i < 1000; i++) send(limit, 4, 'other')
  t.equal(limit.allowed, 4, 'answers that say nothing')
  use(limit, 12)
  t.equal(limit.allowed, 6, 'by its square root')
  use(limit, 2000)
  t.equal(limit.allowed, 64, 'up to its maximum')
  use(limit, 500, { ms: 500 })
  t.ok(limit.allowed < 10, `answers that take ten times as long: ${limit.allowed}`)
  use(limit, 2000, { ms: 500 })
  t.equal(limit.allowed, 64, 'they take as long with fewer requests')
  const quick = new AdaptiveLimit(64)
  send(quick, 4, 'overload')
  use(quick, 2000, { ms: 0 })
  t.equal(quick.allowed, 64, 'answers that take no time')
  const small = new AdaptiveLimit(3)
  use(small, 1000)
  t.equal(small.allowed, 3)
})

t.test('a refusal halves it, once for all requests that were sent before', async t => {
  const limit = new AdaptiveLimit(64)
  use(limit, 2000)
  send(limit, 64, 'overload')
  t.equal(limit.allowed, 32)
  const late = limit.sent()
  send(limit, 9, 'overload')
  t.equal(limit.allowed, 5, 'of those that were in flight')
  late(50, 'overload')
  t.equal(limit.allowed, 5)
  t.equal(limit.inFlight, 0)
  for (let i = 0; i < 5; i++) send(limit, 1, 'overload')
  t.equal(limit.allowed, 1, 'never 0')
  use(limit, 2000)
  t.equal(limit.allowed, 64, 'an outage is no reason to stay low')
})

t.test('the number that was refused is tried again after a while', async t => {
  const limit = new AdaptiveLimit(64)
  use(limit, 1000, { capacity: 10 })
  t.equal(limit.allowed, 10)
  const often = use(limit, 10_000, { capacity: 10 })
  t.ok(often > 15 && often < 32, `${often} times in 1,000 round trips`)
  use(limit, 1000, { capacity: 10, pauseMs: 1000 })
  const seldom = use(limit, 10_000, { capacity: 10, pauseMs: 1000 })
  t.ok(seldom > 2 && seldom < 6, `${seldom} times if each costs a pause of 20 round trips`)
  use(limit, 5000)
  t.equal(limit.allowed, 64, 'it takes more now')
})

/** A receiver that works on `capacity` requests at a time. It refuses more with 429, or lets them wait. */
interface World {
  readonly refuses: boolean
  /** The pause that it requests when it refuses. */
  readonly retryAfterMs?: number
  readonly phases: readonly { readonly capacity: number; readonly workMs: number }[]
  readonly phaseMs: number
}

/** What the receiver takes in each phase while there are always more events. */
async function run(
  { refuses, retryAfterMs, phases, phaseMs }: World,
  max: number | 'auto',
  seed: number,
): Promise<number[]> {
  const random = seeded(seed)
  const waiting: (() => void)[] = []
  let [capacity, workMs, busy, accepted] = [0, 0, 0, 0]
  const it = setUp({
    options: { batch: { max_events: 1 }, max_in_flight: max },
    random,
    write: async events => {
      if (events[0]! % 500 === 0) it.put(500)
      if (busy >= capacity && refuses) {
        await new Promise<void>(resolve => it.time.after(2, resolve))
        fail('retry', { status: 429, retryAfterMs })
      }
      if (busy < capacity) busy++
      else await new Promise<void>(resolve => waiting.push(resolve))
      await new Promise<void>(resolve => it.time.after(workMs * (0.5 + random()), resolve))
      accepted++
      busy--
      for (; busy < capacity && waiting.length > 0; busy++) waiting.shift()!()
    },
  })
  await it.delivery.start()
  it.put(1001)
  const taken: number[] = []
  for (const phase of phases) {
    ;({ capacity, workMs } = phase)
    const before = accepted
    await it.time.advance(phaseMs)
    taken.push(accepted - before)
  }
  it.delivery.destroy()
  return taken
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0)

const changing = (workMs: number) => [4, 20, 2, 12].map(capacity => ({ capacity, workMs }))

for (const [title, world] of [
  ['refuses', { refuses: true, phaseMs: 30_000, phases: changing(50) }],
  ['refuses with Retry-After', { refuses: true, retryAfterMs: 1000, phaseMs: 30_000, phases: changing(50) }],
  ['lets them wait', { refuses: false, phaseMs: 15_000, phases: changing(100) }],
  [
    'becomes slower and faster',
    { refuses: false, phaseMs: 30_000, phases: [50, 400, 50].map(workMs => ({ capacity: 8, workMs })) },
  ],
] as const satisfies [string, World][])
  t.test(`at least 0.9 of the best number, at a receiver whose capacity changes: ${title}`, async t => {
    const best: number[] = []
    for (const phase of world.phases) best.push(...(await run({ ...world, phases: [phase] }, phase.capacity, 1)))
    for (const seed of world.refuses ? [1] : [1, 2]) {
      const taken = await run(world, 'auto', seed)
      const shares = taken.map((count, i) => (count / best[i]!).toFixed(2)).join(', ')
      t.ok(sum(taken) >= 0.9 * sum(best), `${(sum(taken) / sum(best)).toFixed(3)} with seed ${seed} (${shares})`)
    }
  })

t.test('requests that wait after a refusal leave their places to others, and come before new ones', async t => {
  const answers: ((refused?: boolean) => void)[] = []
  const it = setUp({
    options: { batch: { max_events: 1 } },
    write: async () => {
      const refused = await new Promise<boolean | undefined>(resolve => answers.push(resolve))
      if (refused) fail('retry', { status: 503 })
    },
  })
  await it.delivery.start()
  it.put(20)
  await settle()
  t.equal(it.attempts.length, 4)
  t.match(it.delivery.limit, { inFlight: 4, allowed: 4 })
  answers[3]!(true)
  await settle()
  t.equal(it.gauge('sluice_delivery_max_in_flight'), 2)
  t.equal(it.delivery.state, 'ready', 'a first refusal shows how many requests it takes')
  t.same(it.logs, [])
  answers[0]!()
  answers[1]!()
  await settle()
  t.same(
    it.attempts.slice(4).map(({ events }) => events[0]),
    [4],
    'as many as are allowed, beside the one that waits',
  )
  await it.time.advance(1000)
  t.equal(it.attempts.length, 5, 'there is no room for it yet')
  answers[2]!()
  await settle()
  t.same(it.attempts[5]!.events, [3])
  answers[5]!(true)
  await settle()
  t.equal(it.delivery.state, 'retrying', 'the second refusal of one request')
  t.equal(it.gauge('sluice_delivery_max_in_flight'), 1)
  t.same(it.counters.imbalance(), { events: 0, bytes: 0 })
  it.input.end()
  const over = it.delivery.stop(never)
  for (let i = 0; i < 40; i++) {
    for (const answer of answers) answer()
    await it.time.advance(1000)
  }
  await over
  t.equal(it.counters.passed.events, 20)
})

t.test('partitions that are limited alone leave it as it is, and keep no other one waiting', async t => {
  const taken: number[] = []
  let isLimited = true
  const it = setUp({
    options: { batch: { max_events: 1 } },
    destination: {
      partitionOf: (batch, i) => String(Number.parseInt(batch.line(i).toString(), 10) % 8),
      async write(request) {
        const [n] = numbers(request) as [number]
        if (isLimited && n % 8 !== 7)
          throw new DeliveryError('limited', { failure: 'retry', reason: 'stream', status: 429, ofPartition: true })
        taken.push(n)
      },
    },
  })
  await it.delivery.start()
  it.put(16)
  await settle()
  t.same(taken, [7, 15])
  t.match(it.delivery.limit, { inFlight: 0, allowed: 4 })
  isLimited = false
  it.input.end()
  const over = it.delivery.stop(never)
  for (let i = 0; i < 10; i++) await it.time.advance(1000)
  await over
  t.equal(taken.length, 16)
  t.same(it.counters.imbalance(), { events: 0, bytes: 0 })
})

t.test('a refusal with a short pause is that of the request alone, and a second one that of all', async t => {
  const answers: ((status: number) => void)[] = []
  const it = setUp({
    options: { batch: { max_events: 1 } },
    write: async () => {
      const status = await new Promise<number>(resolve => answers.push(resolve))
      if (status !== 200) fail('retry', { status, retryAfterMs: 1000 })
    },
  })
  await it.delivery.start()
  it.put(20)
  await it.time.advance(10)
  answers[3]!(429)
  await it.time.advance(10)
  answers[2]!(429)
  answers[0]!(200)
  await settle()
  t.equal(it.delivery.outage.pausedMs, 0, 'it was sent before the first refusal')
  t.equal(it.delivery.state, 'ready')
  t.equal(it.attempts.length, 5, 'the others go on')
  answers[4]!(429)
  await settle()
  answers[1]!(200)
  await settle()
  t.equal(it.delivery.state, 'retrying')
  t.equal(it.delivery.outage.pausedMs, 1000)
  t.equal(it.attempts.length, 5)
  it.delivery.destroy()
})

t.test('refusals beside other requests do not use up max_attempts', async t => {
  let capacity = 3
  let busy = 0
  const it = setUp({
    options: { batch: { max_events: 1 }, retry: { initial: '100ms', max: '100ms', max_attempts: 1 } },
    write: async () => {
      if (busy >= capacity) fail('retry', { status: 429 })
      busy++
      await new Promise<void>(resolve => it.time.after(1000, resolve))
      busy--
    },
  })
  await it.delivery.start()
  it.put(200)
  await it.time.advance(150_000)
  t.equal(it.counters.passed.events, 200)
  t.same(it.letters, [])
  capacity = 0
  it.put(1)
  await it.time.advance(150_000)
  t.same(it.letters, [{ events: [200], reason: 'retries_exhausted' }], 'one that is alone')
  it.delivery.destroy()
})

t.test('a successor begins with what was found out', t => {
  const limit = new AdaptiveLimit(64)
  use(limit, 1000, { capacity: 10 })
  const successor = new AdaptiveLimit(64, limit.state)
  t.equal(successor.allowed, 10)
  use(successor, 100, { capacity: 10 })
  t.equal(successor.allowed, 10)
  t.equal(new AdaptiveLimit(4, limit.state).allowed, 4)
  const { state } = setUp().delivery.outage
  const before = setUp({ outage: { ...state, limit: limit.state } }).delivery
  t.equal(before.limit?.allowed, 10)
  t.equal(setUp({ outage: before.outage.state }).delivery.limit?.allowed, 10, 'and its successor')
  t.end()
})
