import t from 'tap'
import { deciderOptions } from '../../../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { createDecider } from '../../../../src/components/throttle/create-decider.js'
import { DISCARD, LATE, PASS, TOO_LATE } from '../../../../src/components/throttle/decisions.js'
import type { parseFieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { STOPPED_CLOCK } from '../../../support/manual-time.js'

/** Decides on events one after the other, each at its time `t`: on the clock, or in event time. */
function decisionsOf(
  config: Record<string, unknown>,
  events: readonly Record<string, unknown>[],
  inEventTime: boolean,
) {
  const origin = originOf('json')
  const field = (path: ReturnType<typeof parseFieldPath>) => new FieldReader(path, origin.wanted)
  const time = { now: 0 }
  const all = inEventTime ? { ...config, time_field: '.t' } : config
  const options = deciderOptions(throttle.options.parse(all), { field })
  const decider = createDecider(options, { now: () => time.now, wall: () => time.now })
  const refusals: unknown[] = []
  const decisions = events.map(event => {
    time.now = event.t as number
    const [batch] = batchesOf(`${JSON.stringify(event)}\n`, origin)
    Object.assign(batch!, { receivedAt: time.now })
    const passes = decider.decide(batch!).decisions[0] === PASS
    if (!passes) refusals.push(decider.refusal(batch!, 0))
    return passes ? 'P' : 'D'
  })
  return { decisions: decisions.join(''), refusals }
}

const at = (time: number, more: Record<string, unknown> = {}) => ({ t: time, ...more })
const costs = (...values: unknown[]) => values.map(c => at(0, { c }))

for (const inEventTime of [false, true]) {
  const where = inEventTime ? 'in event time' : 'on the clock'
  const decide = (config: Record<string, unknown>, events: Record<string, unknown>[]) =>
    decisionsOf({ window: '1s', ...config }, events, inEventTime)

  t.test(`${where}, an event counts as its cost, and a smaller one may pass after a larger one`, async t => {
    for (const window_mode of ['fixed', 'aligned', ...(inEventTime ? [] : ['sliding'])]) {
      const config = { limit: 10, cost: '.c', window_mode }
      t.equal(decide(config, costs(6, 5, 4, 0, 0.5)).decisions, 'PDPPD', window_mode)
      t.equal(decide(config, costs(11, 10)).decisions, 'DP', `${window_mode}: more than the limit never passes`)
    }
  })

  t.test(`${where}, an event costs 1 where the field has no number that is not negative`, async t => {
    const events = [{}, { c: -2 }, { c: '7' }, { c: null }, { c: true }, { c: [] }].map(event => at(0, event))
    t.equal(decide({ limit: 5, cost: '.c' }, events).decisions, 'PPPPPD')
  })

  t.test(`${where}, fractions add up exactly`, async t => {
    t.equal(decide({ limit: 1, cost: '.c' }, costs(0.1, 0.7, 0.2, 0.000001)).decisions, 'PPPD')
    t.equal(decide({ limit: 1, cost: '.c' }, costs(0.999999, 0.000001, 0.1)).decisions, 'PPD')
  })

  t.test(`${where}, what is discarded opens no window`, async t => {
    const events = [at(0, { c: 3 }), at(900, { c: 2 }), at(1000, { c: 1 }), at(1899, { c: 1 }), at(1900, { c: 2 })]
    t.equal(decide({ limit: 2, cost: '.c' }, events).decisions, 'DPDDP')
  })

  t.test(`${where}, limit_bytes counts lines with their ends`, async t => {
    // {"t":0} is 7 bytes.
    t.equal(decide({ limit_bytes: 16 }, [at(0), at(0), at(0)]).decisions, 'PPD')
    t.equal(decide({ limit_bytes: 15 }, [at(0), at(0)]).decisions, 'PD')
  })

  t.test(`${where}, an event that one limit refuses costs none of the others`, async t => {
    const config = { limit: 2, also: [{ limit: 3, window: '10s' }] }
    const { decisions, refusals } = decide(
      config,
      [0, 1, 2, 1000, 1001, 10_000].map(time => at(time)),
    )
    t.equal(decisions, 'PPDPDP')
    t.same(refusals, [
      { limit: 2, unit: 'events', windowMs: 1000, count: 2 },
      { limit: 3, unit: 'events', windowMs: 10_000, count: 3 },
    ])
    t.equal(decide({ limit: 3, limit_bytes: 16 }, [at(0), at(0, { x: 'long' }), at(0), at(0)]).decisions, 'PDPD')
  })
}

const gcra = (config: Record<string, unknown>, events: Record<string, unknown>[]) =>
  decisionsOf({ window: '1s', window_mode: 'gcra', ...config }, events, false).decisions

t.test('gcra lets burst + 1 events pass at once, then one every window / limit', async t => {
  const times = [0, 0, 0, 0, 99, 100, 199, 200, 200, 1000, 1000, 1000, 1000]
  const events = times.map(time => at(time))
  t.equal(gcra({ limit: 10, burst: 2 }, events), 'PPPDDPDPDPPPD')
  t.equal(
    gcra(
      { limit: 2 },
      [0, 0, 0, 499, 500, 999, 1000].map(time => at(time)),
    ),
    'PPDDPDP',
    'burst: limit - 1',
  )
  t.equal(
    gcra(
      { limit: 10, burst: 0 },
      [0, 99, 100, 150, 200].map(time => at(time)),
    ),
    'PDPDP',
  )
})

t.test('gcra is exact where T is no whole number, also today', async t => {
  for (const start of [0, 1_700_000_000_000]) {
    // The event at 1,000 is at the edge: thirds of a second have to add up to a whole one.
    const times = [0, 0, 333, 334, 666, 667, 999, 1000, 1333, 1334].map(time => at(start + time))
    t.equal(gcra({ limit: 3, burst: 1 }, times), 'PPDPDPDPDP')
  }
})

t.test('gcra delays what comes after an event by its cost', async t => {
  const events = [at(0, { c: 5 }), at(0, { c: 1 }), at(499), at(500, { c: 0.5 }), at(549), at(550)]
  t.equal(gcra({ limit: 10, burst: 0, cost: '.c' }, events), 'PDDPDP')
})

for (const inEventTime of [false, true]) {
  t.test(
    `${inEventTime ? 'in event time' : 'on the clock'}, a quota lasts as long as its day, whatever clocks do`,
    async t => {
      const time = (text: string) => at(Date.parse(text))
      const quota = { limit: 1, per: 'day', time_zone: 'Europe/Berlin' }
      const decide = (...texts: string[]) =>
        decisionsOf({ quota, on_late: inEventTime ? 'pass' : undefined }, texts.map(time), inEventTime).decisions
      t.equal(
        decide('2026-03-28T23:00Z', '2026-03-29T21:59:59.999Z', '2026-03-29T22:00Z', '2026-03-30T21:59Z'),
        'PDPD',
        'a day of 23 hours',
      )
      t.equal(decide('2026-10-24T22:00Z', '2026-10-25T22:59:59.999Z', '2026-10-25T23:00Z'), 'PDP', 'a day of 25 hours')
    },
  )
}

t.test('a quota is not given twice when the clock is set back, and beside other limits each counts', async t => {
  const origin = originOf('json')
  const field = (path: ReturnType<typeof parseFieldPath>) => new FieldReader(path, origin.wanted)
  const time = { monotonic: 0, epoch: Date.parse('2026-06-01T23:59:00Z') }
  const clock = { now: () => time.monotonic, wall: () => time.monotonic + time.epoch }
  const config = { limit: 1, window: '1s', window_mode: 'aligned', quota: { limit: 3, per: 'day' } }
  const decider = createDecider(deciderOptions(throttle.options.parse(config), { field }), clock)
  const passes = (elapsed: number, set = 0) => {
    time.monotonic += elapsed
    time.epoch += set
    const [batch] = batchesOf('{}\n', origin)
    return decider.decide(batch!).decisions[0] === PASS
  }
  t.ok(passes(0))
  t.notOk(passes(999), 'the window is full')
  t.ok(passes(1))
  t.ok(passes(58_000, -7_200_000), 'set back: aligned windows begin again')
  t.notOk(passes(1000), 'the quota does not')
  t.ok(passes(0, 7_200_000 + 60_000), 'the next day')
  t.ok(passes(1000, -3_600_000), 'set back into the day before: counted in the newest day')
  t.ok(passes(1000))
  t.notOk(passes(1000))
})

t.test('a bucket whose gcra waits longer than dates reach can still be described', async t => {
  const origin = originOf('json')
  const field = (path: ReturnType<typeof parseFieldPath>) => new FieldReader(path, origin.wanted)
  const config = { limit: 1, window: '1h', window_mode: 'gcra', cost: '.c' }
  const decider = createDecider(deciderOptions(throttle.options.parse(config), { field }), STOPPED_CLOCK)
  const [batch] = batchesOf('{"t":0,"c":1e400}\n{"t":0,"c":1}\n', origin)
  t.same([...decider.decide(batch!).decisions.subarray(0, 2)], [PASS, DISCARD])
  const { used, until } = decider.level(batch!, 1)!
  t.ok(used > 1e9)
  t.match(new Date(until + 1.8e12).toISOString(), /^\+/)
})

t.test('an event that is late in one limit counts in the others if it passes', async t => {
  const config = { limit: 1, window: '1s', allowed_lateness: '1s', time_field: '.t', quota: { limit: 3, per: 'day' } }
  const times = [10_000, 5000, 6000, 20_000].map(time => at(time))
  const decide = (on_late: string) => {
    const origin = originOf('json')
    const field = (path: ReturnType<typeof parseFieldPath>) => new FieldReader(path, origin.wanted)
    const options = deciderOptions(throttle.options.parse({ ...config, on_late }), { field })
    const [batch] = batchesOf(times.map(event => `${JSON.stringify(event)}\n`).join(''), origin)
    const { decisions } = createDecider(options, { now: () => 0, wall: () => 1e6 }).decide(batch!)
    return [...decisions.subarray(0, times.length)]
  }
  t.same(decide('pass'), [PASS, LATE, LATE, DISCARD])
  t.same(decide('discard'), [PASS, TOO_LATE, TOO_LATE, PASS], 'what is discarded costs nothing')
})

t.test('limits that cannot be, or do nothing, are refused with their place', async t => {
  const issues = (config: Record<string, unknown>) =>
    throttle.options
      .safeParse({ window: '1s', ...config })
      .error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  t.same(issues({}), ['limit: is missing; it must be a whole number, or set limit_bytes to a size'])
  t.same(issues({ limit: 1, also: [{ window: '1h' }] }), [
    'also.0.limit: is missing; it must be a whole number, or set limit_bytes to a size',
  ])
  t.match(issues({ limit_bytes: '1MB', cost: '.c' })?.[0], /^cost: has no effect without limit/)
  t.match(issues({ limit: 1, also: [] })?.[0], /^also/)
  t.same(issues({ limit: 1, burst: 1 }), ['burst: has no effect without window_mode: gcra'])
  t.same(issues({ limit: 1, also: [{ limit: 1, window: '1h', burst: 1 }] }), [
    'also.0.burst: has no effect without window_mode: gcra',
  ])
  t.same(issues({ quota: { per: 'day' } }), [
    `quota.limit: is missing; it must be a whole number, or set limit_bytes to a size`,
  ])
  t.same(issues({ quota: { per: 'day', limit: 1, time_zone: 'Europe/Brelin' } }), [
    'quota.time_zone: is not a time zone of this system; did you mean "Europe/Berlin"?',
  ])
  t.same(issues({ limit: 1, window_mode: 'gcra', burst: 0 }), undefined)
  t.same(throttle.options.safeParse({ quota: { per: 'day', limit: 1 } }).success, true, 'a quota alone has no window')
  t.match(issues({ limit: 1, also: [{ limit: 1 }] })?.[0], /^also.0.window/)
})
