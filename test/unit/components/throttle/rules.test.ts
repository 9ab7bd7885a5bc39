import t from 'tap'
import { deciderOptions } from '../../../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { keyBytes } from '../../../../src/components/throttle/buckets/bucket-key.js'
import { hashedKey } from '../../../../src/components/throttle/buckets/key-table.js'
import { createDecider } from '../../../../src/components/throttle/create-decider.js'
import { createClockDecider } from '../../../../src/components/throttle/decider.js'
import { DISCARD, FULL, PASS } from '../../../../src/components/throttle/decisions.js'
import { KeyPattern } from '../../../../src/components/throttle/rules/key-pattern.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { casesOf } from '../../../support/cases.js'
import { longTest } from '../../../support/long-test.js'
import { STOPPED_CLOCK } from '../../../support/manual-time.js'
import { seeded } from '../../../support/seeded.js'

function compiled(options: object) {
  const origin = originOf('json')
  return {
    origin,
    options: deciderOptions(throttle.options.parse(options), { field: path => new FieldReader(path, origin.wanted) }),
  }
}

/** A decider with these options, asked about one event at a time. */
function deciderOf(given: object) {
  const { origin, options } = compiled(given)
  const decider = createClockDecider(options, STOPPED_CLOCK)
  return {
    decider,
    batch: (event: object) => batchesOf(`${JSON.stringify(event)}\n`, origin)[0]!,
    decide(event: object, now: number): number {
      const [batch] = batchesOf(`${JSON.stringify(event)}\n`, origin)
      decider.decideAt(batch!, now)
      return decider.decisions[0]!
    },
  }
}

t.test('a rule replaces the options that it names, and has its own cost, bytes and further limits', async t => {
  const { decide } = deciderOf({
    limit: 1,
    window: '1s',
    key_field: '.app',
    limits: [
      { key: 'cost', limit: 10, cost: '.n' },
      { key: 'bytes', limit_bytes: 60, limit: 100 },
      { key: 'also', limit: 2, also: [{ limit: 3, window: '1h' }] },
    ],
  })
  const of = (app: string, n: number, now = 0) => decide({ app, n }, now)
  t.same([of('cost', 9), of('cost', 2), of('cost', 1)], [PASS, DISCARD, PASS])
  t.same([of('bytes', 1), of('bytes', 1), of('bytes', 1)], [PASS, PASS, DISCARD], 'events of 22 bytes')
  t.same([of('also', 1), of('also', 1), of('also', 1)], [PASS, PASS, DISCARD])
  t.same([of('also', 1, 1000), of('also', 1, 1000)], [PASS, DISCARD], 'three in an hour')
  t.same([of('other', 1), of('other', 1)], [PASS, DISCARD])
})

t.test('a refusal names the rule', async t => {
  const { decider, batch } = deciderOf({
    limit: 1,
    window: '1s',
    key_field: '.app',
    limits: [
      { key: 'x', limit: 1 },
      { key: 'a*', when: 'if (.n greater 1)', limit: 2, window: '1m' },
    ],
  })
  const refusal = (event: object) => {
    const asked = batch(event)
    for (let n = 0; n < 3; n++) decider.decideAt(asked, 0)
    return decider.refusal(asked, 0)
  }
  t.same(refusal({ app: 'ab', n: 5 }), {
    limit: 2,
    unit: 'events',
    windowMs: 60_000,
    count: 2,
    rule: { list: 'limits', place: 2, text: "key a* and if (.n greater '1')" },
  })
  t.match(refusal({ app: 'ab', n: 0 }), { limit: 1, rule: undefined })
})

t.test('max_keys bounds the buckets of all rules together, and idle ones of any rule make room', async t => {
  const { decider, decide } = deciderOf({
    limit: 1,
    window: '1s',
    key_field: '.app',
    max_keys: 4,
    on_max_keys: 'discard',
    limits: [
      { key: 'a*', window: '10s' },
      { key: 'b*', window: '10s' },
    ],
  })
  t.same(
    ['a1', 'a2', 'b1', 'c1', 'b2', 'c2', 'a1'].map(app => decide({ app }, 0)),
    [PASS, PASS, PASS, PASS, FULL, FULL, DISCARD],
  )
  t.equal(decider.limiter.keys, 4)
  t.equal(decide({ app: 'b2' }, 1000), PASS, 'c1 is idle')
  t.equal(decide({ app: 'b3' }, 1001), FULL)
  const later = ['b3', 'a3', 'c3', 'c4'].map(app => decide({ app }, 20_000))
  t.same(later, [PASS, PASS, PASS, PASS])
  t.equal(decider.limiter.keys, 4)
})

t.test('without room for its bucket, an event of a rule waits for the default bucket of the rule', async t => {
  for (const key of ['b', 'b*']) {
    const limits = [{ key, limit: 2, window: '5s' }]
    const { origin, options } = compiled({
      limit: 1,
      window: '1s',
      key_field: '.app',
      max_keys: 1,
      on_max_keys: 'default_bucket',
      limits,
    })
    const time = { now: 0 }
    const decider = createDecider(options, { now: () => time.now, wall: () => time.now })
    const decide = (app: string | undefined, now: number) => {
      time.now = now
      const [batch] = batchesOf(`${JSON.stringify({ app })}\n`, origin)
      const decision = decider.decide(batch!).decisions[0]!
      return [decision, decider.roomAt(batch!, 0)]
    }
    t.same(decide('a', 0), [PASS, 1000])
    t.same(
      [decide('b', 100), decide('b', 300)],
      [
        [PASS, 100],
        [PASS, 5100],
      ],
    )
    t.same(decide('b', 500), [DISCARD, 5100], 'the default bucket of the rule opened at 100')
    t.same(decide(undefined, 600), [PASS, 1600], 'that of the throttle is another one')
    t.same(decide('c', 700), [DISCARD, 1600])
    t.same(decide('b', 2000), [PASS, 2000], 'the bucket of a is idle: now there is room for one of b')
  }
})

t.test('the windows of rules survive a reload, and those of rules that stay a change of the rules', async t => {
  for (const [time, rest] of [
    [{}, '*'],
    [{}, ''],
    [{ time_field: '.t' }, '*'],
    [{ time_field: '.t' }, ''],
  ] as const) {
    const given = (limits: object[]) => ({ limit: 1, window: '1h', key_field: '.app', ...time, limits })
    const [a, b, c] = [
      { key: `a${rest}`, limit: 2 },
      { key: `b${rest}`, limit: 2 },
      { key: `c${rest}`, limit: 2 },
    ]
    const { origin, options } = compiled(given([a, b]))
    const clock = { now: () => 0, wall: () => 1_700_000_000_000 }
    const first = createDecider(options, clock)
    const decide = (decider: typeof first, app: string) => {
      const [batch] = batchesOf(`{"app":"${app}","t":1700000000000}\n`, origin)
      return decider.decide(batch!).decisions[0]!
    }
    t.same([decide(first, 'a'), decide(first, 'b'), decide(first, 'b')], [PASS, PASS, PASS])
    const second = createDecider(options, clock, first.limiter)
    t.same([decide(second, 'a'), decide(second, 'a'), decide(second, 'b')], [PASS, DISCARD, DISCARD])
    const changed = deciderOptions(throttle.options.parse(given([c, { ...b, limit: 3 }, a])), {
      field: path => new FieldReader(path, origin.wanted),
    })
    second.setRules(changed.rules!)
    t.same([decide(second, 'a'), decide(second, 'b'), decide(second, 'c')], [DISCARD, PASS, PASS])
    second.setRules([])
    t.same([decide(second, 'a'), decide(second, 'a')], [PASS, DISCARD], 'without rules, the limit above')
    t.equal(second.buckets, 1, 'the buckets of rules that are gone are dropped')
  }
})

const MODES = ['fixed', 'aligned', 'sliding', 'gcra'].flatMap(window_mode => [
  { window_mode },
  { window_mode, cost: '.n' },
  { window_mode, also: [{ limit_bytes: 90, window: '70ms' }] },
])

longTest('rules for one key each decide as a throttle alone would for it', async t => {
  const apps = Array.from({ length: 30 }, (_, n) => `app-${n}`)
  for (const [round, options] of MODES.entries()) {
    const random = seeded(round)
    const config = (limit: number) => ({ limit, window: '40ms', key_field: '.app', ...options })
    const limits = apps.map((key, n) => ({ key, limit: 1 + (n % 4) }))
    const all = deciderOf({ ...config(9), limits })
    const alone = new Map(limits.map(({ key, limit }) => [key, deciderOf(config(limit))]))
    let now = 0
    for (let step = 0; step < 2000; step++) {
      now += random() < 0.02 ? 50 : random() < 0.3 ? 1 : 0
      const event = { app: apps[Math.floor(random() ** 2 * apps.length)]!, n: 1 + Math.floor(random() * 3) }
      const one = alone.get(event.app)!
      const [got, expected] = [all.decide(event, now), one.decide(event, now)]
      const [levels, expectedLevels] = [all, one].map(({ decider, batch }) => decider.level(batch(event), 0))
      if (got === expected && JSON.stringify(levels) === JSON.stringify(expectedLevels)) continue
      t.same(
        { got, levels },
        { got: expected, levels: expectedLevels },
        `${JSON.stringify(options)}, step ${step}: ${JSON.stringify(event)}`,
      )
      return
    }
    t.ok(all.decider.limiter.dropped > 0, 'idle buckets are dropped')
  }
})

t.test('without room for its key, a rule counts in a default bucket of its own', async t => {
  const { decide } = deciderOf({
    limit: 1,
    window: '1h',
    key_field: '.app',
    max_keys: 1,
    on_max_keys: 'default_bucket',
    limits: [
      { key: 'a', limit: 1 },
      { key: 'b', limit: 2 },
    ],
  })
  const apps = ['z', 'a', 'a', 'b', 'b', 'b', 'c', 'c']
  t.same(
    apps.map(app => decide({ app }, 0)),
    [PASS, PASS, DISCARD, PASS, PASS, DISCARD, PASS, DISCARD],
  )
})

t.test('a rule for one key has no bucket with another one', async t => {
  const { decider, batch, decide } = deciderOf({
    limit: 1,
    window: '1h',
    key_field: '.app',
    limits: [
      { key: 'a', limit: 2 },
      { key: 'b', limit: 3 },
    ],
  })
  decide({ app: 'a' }, 0)
  const b = decider.ruleOf(batch({ app: 'b' }), 0)!
  const keyOfA = hashedKey(keyBytes('a'), decider.limiter.seed)
  t.match(decider.limiter.ofRule(b).level(keyOfA, 0, 1, 1), { used: 0, limit: { limit: 3 } })
})

t.test('a bucket of a rule is found again after others were dropped, and after a reload', async t => {
  const given = { limit: 1, window: '1h', key_field: '.app', limits: [{ key: 'b*', limit: 2, window: '1s' }] }
  const { origin, options } = compiled(given)
  const clock = { now: 0, wall: 1_700_000_000_000 }
  const first = createDecider(options, { now: () => clock.now, wall: () => clock.wall })
  const apps = Array.from({ length: 40 }, (_, n) => `b${n}`)
  const decide = (decider: typeof first, app: string, now: number) => {
    clock.now = now
    return decider.decide(batchesOf(`{"app":"${app}"}\n`, origin)[0]!).decisions[0]!
  }
  for (const app of apps) decide(first, app, 0)
  for (const app of apps.slice(20)) decide(first, app, 1500)
  t.equal(first.buckets, 20, 'the others are idle')
  for (const app of apps.slice(20)) t.equal(decide(first, app, 1700), PASS, app)
  for (const app of apps.slice(20)) t.equal(decide(first, app, 1800), DISCARD, app)
  for (const app of apps.slice(0, 20)) t.equal(decide(first, app, 1800), PASS, app)
  const second = createDecider({ ...options, seed: 99 }, { now: () => clock.now, wall: () => 0 }, first.limiter)
  for (const app of apps.slice(20)) t.equal(decide(second, app, 1900), DISCARD, app)
})

t.test('aligned windows of a rule follow the wall clock', async t => {
  for (const key of ['*', 'a']) {
    const time = { now: 0, wall: 1_700_000_000_500 }
    const { origin, options } = compiled({
      limit: 5,
      window: '1h',
      key_field: '.app',
      limits: [{ key, limit: 1, window: '1s', window_mode: 'aligned' }],
    })
    const decider = createClockDecider(options, { now: () => time.now, wall: () => time.wall })
    const decide = (now: number) => {
      time.wall += now - time.now
      time.now = now
      return decider.decide(batchesOf('{"app":"a"}\n', origin)[0]!).decisions[0]
    }
    t.same([decide(0), decide(499), decide(500), decide(999)], [PASS, DISCARD, PASS, DISCARD])
    time.wall -= 60_000
    t.same([decide(999), decide(999)], [PASS, DISCARD], 'a clock that was set back')
  }
})

t.test('invalid rules are refused with their place', async t => {
  const refused = (limits: unknown, more = {}) => {
    const result = throttle.options.safeParse({ limit: 1, window: '1s', key_field: '.app', limits, ...more })
    return result.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? []
  }
  t.same(refused([{ key: 'a', limit: 5 }]), [])
  t.same(refused([{ limit: 5 }]), ['limits.0: needs when or key, or both'])
  t.match(refused([{ key: 'a' }, { key: 'a[', limit: 5 }]), [/^limits\.1\.key: has a \[ without/])
  t.same(refused([{ key: 'a', limit: 5 }], { key_field: undefined }), ['limits.0.key: has no effect without key_field'])
  t.same(refused([{ key: 'a', limit: 'unlimited', window: '5s' }]), [
    'limits.0.window: has no effect with limit: unlimited',
  ])
  t.match(refused([{ key: 'a', limit: 'many' }]), [/^limits\.0\.limit: must be a whole number .* or unlimited$/])
  t.match(refused([{ key: 'a', limit: 0 }]), [/^limits\.0\.limit: /])
  t.match(refused([{ key: 'a', lmit: 5 }]), [/^limits\.0: /])
  t.match(refused([{ when: 'if (.a equals 5)', limit: 5 }]), [/^limits\.0\.when: /])
  t.same(refused([{ key: 'a', window_mode: 'fixed' }], { window_mode: 'gcra', burst: 5 }), [], 'burst goes with gcra')
  t.match(refused([{ key: 'a', also: [{ window: '1s' }] }]), [/^limits\.0\.also\.0\.limit: is missing/])
  t.ok(refused([]).length > 0)
})

t.test('what patterns match', async t => {
  const patterns: [string, string[], string[]][] = [
    ...casesOf<[string, string[], string[]][]>(import.meta.url, 'patterns'),
    ['*', ['', 'a', '\n', '\ud800'], []],
  ]
  for (const [source, matching, others] of patterns) {
    const pattern = new KeyPattern(source)
    for (const text of matching) t.ok(pattern.test(text), `${source} matches ${JSON.stringify(text)}`)
    for (const text of others) t.notOk(pattern.test(text), `${source} does not match ${JSON.stringify(text)}`)
  }
})

t.test('alternatives that may be empty cost no more than others', async t => {
  const pattern = new KeyPattern(`${'{,}'.repeat(100)}z`)
  t.same([pattern.test('z'), pattern.test('zz')], [true, false])
})

t.test('a pattern of a single text is known as such, and the others by their prefix', async t => {
  t.match(new KeyPattern('web\\*1'), { text: 'web*1', prefix: 'web*1' })
  t.match(new KeyPattern('web-*'), { text: undefined, prefix: 'web-' })
  t.match(new KeyPattern('{a,b}'), { text: undefined, prefix: '' })
})

t.test('with several fields a bracket at the beginning is that of the JSON array', async t => {
  const pattern = new KeyPattern('["checkout",*]', true)
  t.ok(pattern.test('["checkout","eu-1"]'))
  t.ok(pattern.test('["checkout",null]'))
  t.notOk(pattern.test('["cart","eu-1"]'))
  t.equal(new KeyPattern('["a",null]', true).text, '["a",null]')
})

t.test('a pattern that cannot be used says why', async t => {
  for (const [source, message] of [
    ['', /must not be empty/],
    ['a'.repeat(1025), /longer than 1024/],
    ['a[bc', /a \[ without a \]; write \\\[/],
    ['a{b', /a \{ without a \}/],
    ['a\\', /ends with a \\; write/],
    ['[b-a]', /cannot be used: .*out of order/],
  ] as const) {
    t.throws(() => new KeyPattern(source), message, source.slice(0, 20))
  }
})

t.test('patterns with stars and question marks agree with a simple matcher', async t => {
  const matches = (pattern: string, text: string): boolean => {
    if (pattern === '') return text === ''
    if (pattern[0] === '*') return matches(pattern.slice(1), text) || (text !== '' && matches(pattern, text.slice(1)))
    return text !== '' && (pattern[0] === '?' || pattern[0] === text[0]) && matches(pattern.slice(1), text.slice(1))
  }
  const random = seeded(3)
  const word = (letters: string, longest: number) =>
    Array.from({ length: Math.floor(random() * longest) }, () => letters[Math.floor(random() * letters.length)]).join(
      '',
    )
  let matched = 0
  for (let n = 0; n < 5000; n++) {
    const source = `${word('ab*?', 6)}${'ab*?'[n % 4]}`
    const text = word('ab', 9)
    const expected = matches(source, text)
    if (expected) matched++
    if (new KeyPattern(source).test(text) !== expected) t.fail(`${source} on ${text}`)
  }
  t.ok(matched > 500)
})

t.test('many patterns that differ in their end take little time, whatever the text', async t => {
  const patterns = Array.from({ length: 5000 }, (_, n) => new KeyPattern(`*a*-${n}`))
  const { user } = process.cpuUsage()
  for (const length of [10, 1000, 100_000])
    t.equal(patterns.filter(pattern => pattern.test(`${'a'.repeat(length)}-7`)).length, 1)
  t.ok(process.cpuUsage().user - user < 1e6)
})

t.test('no text takes long', async t => {
  const pattern = new KeyPattern(`${'*a'.repeat(200)}b`)
  const { user } = process.cpuUsage()
  t.notOk(pattern.test('a'.repeat(100_000)))
  t.ok(process.cpuUsage().user - user < 20e6)
})
