import t, { type Test } from 'tap'
import { FieldReader } from '../../../src/core/event/field-reader.js'
import { theKernel } from '../../../src/kernel/kernel.js'
import { deciderOptions } from '../../../src/processors/throttle/options.js'
import { throttle } from '../../../src/processors/throttle.js'
import { Decider } from '../../../src/throttle/decider.js'
import { DISCARD, PASS } from '../../../src/throttle/limiter.js'
import { originOf } from '../../support/batches.js'
import { pooledLines } from '../../support/pooled-batch.js'
import { throttleDifferences } from '../../support/throttle-differences.js'

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
  const { wrong, events } = throttleDifferences(20_260_101, 6000)
  t.same(wrong, [])
  t.ok(events > 100_000, `${events} events`)
  t.ok(called.narrow > 300 && called.hash > 300, `${called.narrow} comparisons and ${called.hash} hashes of batches`)
})

/** The decisions about batches of events with these keys, as JSON, of which all but the first are decided on at once. */
function decisionsAbout(t: Test, batches: readonly string[][], config: object = {}): number[][] {
  const origin = originOf('json')
  const options = throttle.options.parse({ limit: 2, window: '1 Hours', key_field: '.k', ...config })
  const field = (path: ConstructorParameters<typeof FieldReader>[0]) => new FieldReader(path, origin.wanted)
  const decider = new Decider(deciderOptions(options, { field }, 7))
  return batches.map((keys, n) => {
    const batch = pooledLines(keys.map(key => `{"k":${key}}`).join('\n'), origin)
    batch.scan()
    decider.decide(batch, 0)
    t.equal(decider.keys?.aloneCount, n === 0 ? undefined : 0)
    batch.ack.settle('delivered')
    return [...decider.decisions.subarray(0, keys.length)]
  })
}

const RULES = [{}, { limits: [{ key: 'other', limit: 9 }] }]

t.test('keys with the same hash have buckets of their own', async t => {
  const pairs = [
    ['"k-2cx9"', '"k-3y4e"'],
    ['"a-key-of-more-than-sixteen-14mh"', '"a-key-of-more-than-sixteen-23wp"'],
  ] as const
  for (const [a, b] of pairs) {
    for (const rules of RULES) {
      const [, ...decisions] = decisionsAbout(
        t,
        [
          [a, b, a],
          [a, b],
          [b, a],
        ],
        rules,
      )
      t.same(decisions, [
        [DISCARD, PASS],
        [DISCARD, DISCARD],
      ])
    }
  }
})

t.test('an integer and the string with its digits have one bucket', async t => {
  for (const rules of RULES) {
    const [, ...decisions] = decisionsAbout(
      t,
      [
        ['7', '"-5"'],
        ['"7"', '-5'],
        ['7', '"7"', '-5', '"-5"'],
      ],
      rules,
    )
    t.same(decisions, [
      [PASS, PASS],
      [DISCARD, DISCARD, DISCARD, DISCARD],
    ])
  }
})
