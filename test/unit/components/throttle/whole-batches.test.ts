import t from 'tap'
import { deciderOptions } from '../../../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { createClockDecider } from '../../../../src/components/throttle/decider.js'
import { DISCARD, PASS } from '../../../../src/components/throttle/decisions.js'
import { Limiter } from '../../../../src/components/throttle/limiter.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { theKernel } from '../../../../src/lib/kernel/kernel.js'
import { originOf } from '../../../support/batches.js'
import { rounds } from '../../../support/long-test.js'
import { STOPPED_CLOCK } from '../../../support/manual-time.js'
import { pooledLines } from '../../../support/pooled-batch.js'
import { changeAll, throttleDifferences } from '../../../support/throttle-differences.js'

const ROUNDS = rounds(4000, 1500)

t.test('decisions about whole batches are those about the same events one by one', async t => {
  const { strings } = theKernel()!
  const called = { narrow: 0, hash: 0 }
  const [narrow, hash] = [strings.narrow, strings.hash]
  t.teardown(() => Object.assign(strings, { narrow, hash }))
  strings.narrow = (...given) => {
    called.narrow++
    return narrow.apply(strings, given)
  }
  strings.hash = (...given) => {
    called.hash++
    return hash.apply(strings, given)
  }
  const { wrong, events } = throttleDifferences(20_260_101, ROUNDS)
  t.same(wrong, [])
  t.ok(events > 12.5 * ROUNDS, `${events} events`)
  t.ok(
    called.narrow > ROUNDS / 27 && called.hash > ROUNDS / 27,
    `${called.narrow} comparisons and ${called.hash} hashes of batches`,
  )
})

/** A decider, to which events with these keys come, as JSON. */
function deciderOf(config: object = {}, change = (_: EventBatch) => {}) {
  const origin = originOf('json')
  const options = throttle.options.parse({ limit: 2, window: '1 Hours', key_field: '.k', ...config })
  const field = (path: ConstructorParameters<typeof FieldReader>[0]) => new FieldReader(path, origin.wanted)
  const decider = createClockDecider(deciderOptions(options, { field }), STOPPED_CLOCK)
  const decide = (keys: readonly string[], now = 0) => {
    const batch = pooledLines(keys.map(key => `{"k":${key}}`).join('\n'), origin)
    batch.scan()
    change(batch)
    decider.decideAt(batch, now)
    batch.ack.settle('delivered')
    return [...decider.decisions.subarray(0, keys.length)]
  }
  /** How many events of so many batches were decided alone. */
  const alone = (batches: number, keys: readonly string[], now = 0) => {
    const { take } = Limiter.prototype
    let taken = 0
    Limiter.prototype.take = function (...given) {
      taken++
      return take.apply(this, given)
    }
    try {
      for (; batches > 0; batches--) decide(keys, now)
    } finally {
      Limiter.prototype.take = take
    }
    return taken
  }
  return { decider, decide, alone }
}

const names = (most: number, from = 0) => Array.from({ length: most }, (_, n) => `"app-${from + n}"`)
const exact = (most: number, more: (n: number) => object = () => ({ limit: 9 })) =>
  Array.from({ length: most }, (_, n) => ({ key: `app-${n}`, ...more(n) }))
const RULES = [{}, { limits: exact(5) }]

for (const rules of RULES) {
  const how = 'limits' in rules ? ', with rules' : ''

  t.test(`keys with the same hash have buckets of their own${how}`, async t => {
    const pairs = [
      ['"k-2cx9"', '"k-3y4e"'],
      ['"a-key-of-more-than-sixteen-14mh"', '"a-key-of-more-than-sixteen-23wp"'],
    ] as const
    for (const [a, b] of pairs) {
      const { decide, alone } = deciderOf(rules)
      decide([a, b, a])
      t.equal(alone(1, [b]), 0)
      t.same(decide([a, b, b, a]), [DISCARD, DISCARD, DISCARD, DISCARD])
    }
  })

  t.test(`an integer and the string with its digits have one bucket${how}`, async t => {
    const { decider, decide } = deciderOf(rules)
    decide(['7', '"-5"'])
    t.same(decide(['"7"', '-5']), [PASS, PASS])
    t.equal(decider.keys?.aloneCount, 0)
    t.same(decide(['7', '"7"', '-5', '"-5"']), [DISCARD, DISCARD, DISCARD, DISCARD])
    t.equal(decider.keys?.aloneCount, 0)
  })

  t.test(`an event is decided alone only until its bucket is there${how}`, async t => {
    const { alone } = deciderOf(rules)
    const [some, others] = [names(8), names(8, 4)]
    t.equal(alone(1, some), 8)
    t.equal(alone(9, some), 0)
    t.equal(alone(1, [...some, ...some, ...some, ...others]), 4)
  })

  t.test(`changed events are decided at once${how}`, async t => {
    const { alone } = deciderOf(rules, changeAll)
    t.equal(alone(1, names(8)), 8)
    t.equal(alone(1, names(8)), 0)
    const ofFew = deciderOf(rules, batch => batch.modify(0, batch.fields(0)))
    t.equal(ofFew.alone(1, names(8)), 8)
    t.equal(ofFew.alone(2, names(8)), 2, 'only the changed event of a batch is decided alone')
  })

  t.test(`when buckets were dropped, those that are left are found again${how}`, async t => {
    const { decider, decide, alone } = deciderOf(rules)
    decide(names(12))
    decide([...names(12), ...names(4, 100)], 2_000_000)
    t.equal(alone(1, names(4, 100), 3_700_000), 0)
    t.equal(decider.limiter.dropped, 12)
    t.equal(alone(9, names(4, 100), 3_700_000), 0)
  })

  t.test(`the kernel knows a key that was found once${how}`, async t => {
    const { strings } = theKernel()!
    const { learn } = strings
    t.teardown(() => Object.assign(strings, { learn }))
    let learned = 0
    strings.learn = (...given) => {
      learned++
      learn.apply(strings, given)
    }
    const { decide } = deciderOf(rules)
    for (let n = 0; n < 5; n++) decide(names(8))
    t.equal(learned, 8)
  })
}

t.test(
  'where most events have to be taken alone, the next 16 batches are left to the path for single events',
  async t => {
    for (const [most, config] of [
      [3, {}],
      [1, { limits: exact(5) }],
    ] as const) {
      const { decider, decide } = deciderOf(config)
      decide(names(8))
      decide([...names(4 - most), ...names(most, 100)])
      t.ok(decider.keys, 'no more than it may be')
      decide([...names(4 - most), ...names(most, 200), '"new"'])
      for (let n = 0; n <= 16; n++) {
        t.equal(decider.keys, undefined)
        decide(names(4))
      }
      t.ok(decider.keys)
    }
  },
)

t.test('with rules of more than eight groups of limits, all is left to the path for single events', async t => {
  for (const groups of [8, 9]) {
    const limits = exact(groups, n => ({ limit: 3 + n, window_mode: 'gcra' }))
    const { decider, decide } = deciderOf({ limits })
    for (let n = 0; n < 3; n++) decide(names(groups))
    t.equal(decider.keys === undefined, groups > 8, `${groups} groups`)
  }
})

t.test('other rules count from the next batch on', async t => {
  const { decider, decide } = deciderOf({ limits: [{ key: 'app-0', limit: 'unlimited' }] })
  const keys = ['"app-0"', '"app-0"', '"app-0"']
  decide(['"app-1"', '"app-0"'])
  for (let n = 0; n < 3; n++) t.same(decide(keys), [PASS, PASS, PASS])
  t.ok(decider.keys)
  decider.setRules([])
  t.same(decide(keys), [PASS, PASS, DISCARD])
})

t.test('events of a rule with sizes are decided alone, and the others of their batch at once', async t => {
  const { decider, decide } = deciderOf({ limit: 99, limits: [{ key: 'app-0', limit: 9, limit_bytes: 40 }] })
  const keys = names(8)
  // A line has 14 bytes.
  t.equal(decide(keys)[0], PASS)
  t.equal(decide(keys)[0], PASS)
  t.ok(decider.keys)
  t.equal(decide(keys)[0], DISCARD)
  t.ok(decider.keys)
})
