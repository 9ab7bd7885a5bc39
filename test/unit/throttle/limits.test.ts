import t from 'tap'
import type { parseFieldPath } from '../../../src/core/event/field-path.js'
import { FieldReader } from '../../../src/core/event/field-reader.js'
import { deciderOptions } from '../../../src/processors/throttle/options.js'
import { throttle } from '../../../src/processors/throttle.js'
import { PASS } from '../../../src/throttle/decider.js'
import { createDecider } from '../../../src/throttle/live-decider.js'
import { batchesOf, originOf } from '../../support/batches.js'

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
  const options = deciderOptions(throttle.options.parse(all), { field }, 1)
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
    for (const window_mode of ['fixed', 'aligned', 'sliding']) {
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

t.test('limits that cannot be, or do nothing, are refused with their place', async t => {
  const issues = (config: Record<string, unknown>) =>
    throttle.options
      .safeParse({ window: '1s', ...config })
      .error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  t.same(issues({}), ['limit: is missing; it must be a whole number, or limit_bytes a size'])
  t.same(issues({ limit: 1, also: [{ window: '1h' }] }), [
    'also.0.limit: is missing; it must be a whole number, or limit_bytes a size',
  ])
  t.match(issues({ limit_bytes: '1MB', cost: '.c' })?.[0], /^cost: has no effect without limit/)
  t.match(issues({ limit: 1, also: [] })?.[0], /^also/)
  t.match(issues({ limit: 1, also: [{ limit: 1 }] })?.[0], /^also.0.window/)
})
