import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { ThrottleConfig } from '../../../../src/components/processors/throttle/options.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import type { Asked } from '../../../../src/page/server/watch/question.js'
import { QuestionError } from '../../../../src/page/server/watch/question-error.js'
import { ThrottleWatch, type WhatIf } from '../../../../src/page/server/watch/throttle-watch.js'
import { testFolder } from '../../../support/folder.js'
import { longTest } from '../../../support/long-test.js'
import { ManualTime } from '../../../support/manual-time.js'
import { Seeded } from '../../../support/seeded.js'
import { callSimulate } from '../../../support/simulate.js'
import { throttleStage } from '../../../support/throttle-stage.js'

const MEMORY = 32 * 1024 * 1024

/** A throttle that is watched, and what it was given. */
async function watchedThrottle(given: object, bytes = MEMORY, time = new ManualTime()) {
  const options = throttle.options.parse({ limit: 5, window: '1s', key_field: '.app', ...given }) as ThrottleConfig
  const stage = await throttleStage({ limit: 5, window: '1s', key_field: '.app', ...given }, { time })
  const watch = new ThrottleWatch(options, stage.processor, bytes, time)
  const lines: object[] = []
  return {
    ...stage,
    options,
    watch,
    lines,
    /** Events that come now. Returns how many pass. */
    async take(events: readonly object[]): Promise<number> {
      const timed = events.map(event => ({ ...event, t: time.wall() }))
      lines.push(...timed)
      return (await stage.through(timed)).passed.length
    },
  }
}

type Watched = Awaited<ReturnType<typeof watchedThrottle>>

/** Batches of events of some keys, some of them without a key, at random times. */
async function randomStream({ take, time }: Watched, random: Seeded, batches: number, keys = 8): Promise<number> {
  let passed = 0
  for (let n = 0; n < batches; n++) {
    await time.advance(random.chance(0.3) ? 0 : random.below(random.chance(0.1) ? 2500 : 90))
    const events = Array.from({ length: 1 + random.below(20) }, () =>
      random.chance(0.1)
        ? { host: 'h' }
        : { app: `app-${random.below(1 + random.below(keys))}`, host: `h${random.below(3)}` },
    )
    passed += await take(events)
  }
  return passed
}

interface Simulated {
  readonly limit: number
  readonly window_ms: number
  readonly passed: number
  readonly discarded: number
  readonly by_key: readonly { readonly key: string | null; readonly passed: number; readonly discarded: number }[]
}

/** What `sluice simulate` says of the same events. */
async function simulated(t: Test, lines: readonly object[], args: readonly string[]): Promise<Simulated[]> {
  const options = '{ type: throttle, inputs: [in], limit: 5, window: 1s, key_field: .app }'
  const yaml = `sources: { in: { type: stdin, decode: json } }
processors: { lim: ${options} }
destinations: { out: { type: blackhole, inputs: [lim] } }
`
  const config = join(testFolder(t, { 'sluice.yaml': yaml }), 'sluice.yaml')
  const input = lines.map(line => `${JSON.stringify(line)}\n`).join('')
  const { code, stdout, stderr } = await callSimulate(['-c', config, '--time', '.t', '--json', ...args], input)
  if (code !== 0) throw new Error(stderr)
  return (JSON.parse(stdout) as { results: Simulated[] }).results
}

const LIMITS = ['1', '3', '5', '40', '1000']
const WINDOWS = ['100ms', '1s', '7s']
const MODES = ['fixed', 'aligned', 'sliding', 'gcra']

t.test('what if says what simulate says of the same events', async t => {
  for (const mode of MODES) {
    for (const seed of mode === 'fixed' ? [1, 2] : [3]) {
      const throttle = await watchedThrottle({})
      const passed = await randomStream(throttle, new Seeded(seed), 400)
      const { lines, watch } = throttle
      const args = [`--limit=${LIMITS}`, `--window=${WINDOWS}`, `--window-mode=${mode}`]
      const results = await simulated(t, lines, args)
      t.equal(results.length, LIMITS.length * WINDOWS.length)
      for (const { limit, window_ms, by_key, ...one } of results) {
        const answer = await watch.whatIf({ limit: `${limit}`, window: `${window_ms}ms`, mode }, () => undefined)
        const { would, was, exact, keys, events, curve } = answer
        const about = `${mode} ${seed}: ${limit} in ${window_ms} ms`
        t.same(would, { passed: one.passed, discarded: one.discarded }, about)
        t.same([exact, answer.why_not_exact], [true, undefined], about)
        t.same([was.passed, events], [passed, lines.length], about)
        const ofKey = new Map(by_key.map(one => [one.key, one]))
        for (const { key, offered, would } of keys)
          t.same([would, offered - would], [ofKey.get(key)!.passed, ofKey.get(key)!.discarded], `${about}, ${key}`)
        const sum = (of: readonly number[]) => of.reduce((all, n) => all + n, 0)
        t.same([sum(curve.offered), sum(curve.was), sum(curve.would)], [events, was.passed, would.passed], about)
      }
    }
  }
})

/** That the limit itself gives what happened, and a higher limit never less than a lower one. Returns the first answer. */
async function consistent(t: Test, { watch }: Watched, about: string, own: number): Promise<WhatIf> {
  const answer = await watch.whatIf({}, () => undefined)
  const { was, would, keys } = answer
  t.same(would, was, `${about}: the limit itself gives what happened`)
  for (const one of keys) t.equal(one.would, one.was, `${about}: ${one.key}`)
  let lower = 0
  for (const limit of [1, 2, own - 1, own, own + 1, own * 2, 1000]) {
    const { was, would, events, curve } = await watch.whatIf({ limit: `${limit}` }, () => undefined)
    t.ok(would.passed >= lower, `${about}: limit ${limit} passes ${would.passed}, a lower one ${lower}`)
    t.ok(limit < own || would.passed >= was.passed, `${about}: ${limit} loses nothing`)
    t.ok(would.passed <= events && Math.min(...curve.would) >= 0, `${about}: ${limit}`)
    lower = would.passed
  }
  return answer
}

/** Time between milliseconds, as it is. */
class FineTime extends ManualTime {
  override advance = (ms: number) => super.advance(ms === 0 ? 0 : ms + ((this.now() * 7919) % 997) / 997 + 0.0371)
}

t.test('the limit itself gives what happened, in all modes, also when the record begins in a window', async t => {
  for (const window_mode of MODES) {
    const throttle = await watchedThrottle({ window_mode, window: '7s' }, MEMORY, new FineTime())
    const random = new Seeded(11)
    const stream = async (minutes: number) => {
      for (const end = throttle.time.now() + minutes * 60_000; throttle.time.now() < end; ) {
        await throttle.time.advance(random.below(3000))
        await throttle.take(
          Array.from({ length: 1 + random.below(8) }, () => ({ app: `app-${random.below(1 + random.below(5))}` })),
        )
      }
    }
    await stream(4)
    t.match(await consistent(t, throttle, window_mode, 5), { exact: true }, window_mode)
    await stream(11)
    const answer = await consistent(t, throttle, `${window_mode}, later`, 5)
    t.match(answer, { exact: true }, `${window_mode}: ${answer.why_not_exact}`)
    t.ok(Date.parse(answer.to) - Date.parse(answer.from) > 8 * 60_000)
    const other = await throttle.watch.whatIf({ window: '30s' }, () => undefined)
    t.match(other, { exact: false, why_not_exact: 'events before this time are not known' })
  }
})

t.test('what the record does not know is said, and does not make a higher limit lose', async t => {
  const random = new Seeded(5)
  const cases = {
    'events of a source that caught up': [{}, /^something else than the limit/],
    'several limits': [{ also: [{ limit: 9, window: '5s' }] }, /limits of `also` begin empty/],
    rules: [{ limits: [{ key: 'app-1', limit: 2 }] }, /rules are not applied/],
    'keys beyond max_keys': [{ max_keys: 2 }, /keys beyond max_keys/],
    'buckets that were in use': [
      { window: '60s' },
      /^computed for the present limit, .* off by \d+ events; these may be, too$/,
    ],
    'steps longer than the windows': [{ window: '100ms' }, /times are rounded to/],
  } as const
  for (const [about, [options, why]] of Object.entries(cases)) {
    const isSmall = about.startsWith('steps')
    const time = new FineTime()
    const throttle = await watchedThrottle(options, isSmall ? 8000 : MEMORY, time)
    const behind = { since: time.now(), isOver: false }
    const events = () => Array.from({ length: 1 + random.below(9) }, () => ({ app: `app-${random.below(4)}` }))
    if (about.startsWith('buckets')) {
      throttle.watch.stop()
      for (let n = 0; n < 20; n++) await throttle.take([{ app: 'app-1' }])
      await time.advance(30_000)
      throttle.watch = new ThrottleWatch(throttle.options, throttle.processor, MEMORY, time)
    }
    for (let n = 0; n < 300; n++) {
      await time.advance(random.below(600))
      if (about.startsWith('events') && n > 100 && n < 150)
        await throttle.through(events(), { behind, isBacklog: true })
      else await throttle.take(events())
    }
    t.match(await consistent(t, throttle, about, 5), { exact: false, why_not_exact: why }, about)
  }
})

t.test('after the limit was changed, only the events since then count', async t => {
  const throttle = await watchedThrottle({}, MEMORY, new FineTime())
  const events = () => Array.from({ length: 20 }, () => ({ app: 'a' }))
  for (let n = 0; n < 50; n++) {
    await throttle.take(events())
    await throttle.time.advance(300)
  }
  const next = await watchedThrottle({ limit: 9 }, MEMORY, throttle.time)
  next.watch.stop()
  const at = throttle.time.wall()
  throttle.watch.follow(next.options, next.processor, MEMORY)
  await throttle.time.advance(1)
  for (let n = 0; n < 50; n++) {
    await next.take(events())
    await throttle.time.advance(300)
  }
  const answer = await consistent(t, throttle, 'changed', 9)
  t.match(answer, { exact: true, events: 1000 })
  t.ok(Math.abs(Date.parse(answer.from) - at) <= 1)
})

/** Within 2 % of all events. */
function within(t: Test, { would }: WhatIf, passed: number, events: number, about: string): void {
  t.ok(Math.abs(would.passed - passed) <= 0.02 * events, `${about}: ${would.passed} instead of ${passed}`)
}

longTest('with long steps of time it is near', async t => {
  const small = await watchedThrottle({}, 60_000)
  await randomStream(small, new Seeded(3), 6000)
  const { from, step_ms, exact } = (await small.watch.view({ most: 1 }, () => undefined)).counted
  t.ok(step_ms > 1, 'steps of 1 ms do not fit')
  t.notOk(exact)
  const lines = small.lines.filter(line => (line as { t: number }).t >= Date.parse(from))
  for (const { limit, window_ms, passed } of await simulated(t, lines, ['--limit=3,20,60', '--window=10s,60s'])) {
    const answer = await small.watch.whatIf({ limit: `${limit}`, window: `${window_ms}ms` }, () => undefined)
    t.match(answer.why_not_exact, `times are rounded to ${step_ms} ms`)
    within(t, answer, passed, lines.length, `${limit} in ${window_ms} ms, by ${step_ms} ms`)
  }
})

longTest('beyond 20,000 events per second a sample is counted, which is near', async t => {
  const busy = await watchedThrottle({ limit: 1000 })
  const random = new Seeded(5)
  for (let n = 0; n < 600; n++) {
    await busy.time.advance(10)
    await busy.take(Array.from({ length: 400 }, () => ({ app: `app-${random.below(1 + random.below(6))}` })))
  }
  for (const { limit, passed } of await simulated(t, busy.lines, ['--limit=500,2000,5000'])) {
    const answer = await busy.watch.whatIf({ limit: `${limit}` }, () => undefined)
    t.match(answer, { exact: false, why_not_exact: /^one event in \d+ was counted/ })
    within(t, answer, passed, busy.lines.length, `${limit}`)
    t.ok(Math.abs(answer.events - busy.lines.length) < 200, `${answer.events} events, rounded by key and step`)
  }
  t.match((await busy.watch.view({ most: 1 }, () => undefined)).counted, {
    exact: false,
    of: /^one event in \d+, in steps of 100 ms$/,
  })
})

t.test('the events of one key in the last minute and the last ten are counted exactly', async t => {
  const { watch, take, time } = await watchedThrottle({ limit: 3, window: '1s' })
  const of = (app: string, n: number) => Array.from({ length: n }, () => ({ app }))
  await take([...of('cart', 5), ...of('Carthage', 2), ...of('mail', 1)])
  const one = async () => (await watch.view({ most: 9, keys: ['cart'] }, () => undefined)).keys
  t.match(await one(), [{ passed: 3, discarded: 2 }], 'rates: a second at least')
  await time.advance(10_000)
  t.match(await one(), [{ passed: 0.3, discarded: 0.2 }], 'over the time that has been counted')
  await time.advance(49_000)
  await take(of('cart', 2))
  t.match(await one(), [
    { key: 'cart', last_minute: { passed: 5, discarded: 2 }, ten_minutes: { passed: 5, discarded: 2 } },
  ])
  await time.advance(1001)
  t.match(await one(), [{ passed: 2 / 60, discarded: 0 }], 'over a minute at most')
  t.match(await one(), [{ last_minute: { passed: 2, discarded: 0 }, ten_minutes: { passed: 5, discarded: 2 } }])
  const found = await watch.view({ most: 1, words: 'art c' }, () => undefined)
  t.match(found, { searched: 3, found: 2, keys: [{ key: 'cart' }] }, 'all keys are searched, before some are shown')
  t.equal(found.keys.length, 1)
  await take([{}])
  t.match((await watch.view({ most: 9, keys: [null] }, () => undefined)).keys, [
    { key: null, last_minute: { passed: 1 } },
  ])
  t.same((await watch.view({ most: 9, words: 'default' }, () => undefined)).found, 1)
})

t.test('a key that is not counted: the state of its bucket, if something is known', async t => {
  const { watch, take } = await watchedThrottle({ limit: 3, window: '1h' })
  await take(Array.from({ length: 5 }, () => ({ app: 'cart' })))
  const about = async (wanted: object) => (await watch.view({ most: 9, ...wanted }, () => undefined)).uncounted
  const none = { used: 0, limit: 3, discarded_last_hour: 0 }
  t.match(await about({ words: ' mail ' }), { key: 'mail', ...none })
  t.match(await about({ keys: ['mail'] }), { key: 'mail', ...none })
  for (const wanted of [{}, { words: 'cart' }, { words: 'car' }, { keys: ['cart'] }, { keys: [null] }, { words: ' ' }])
    t.equal(await about(wanted), undefined, JSON.stringify(wanted))
  t.equal(
    (await (await watchedThrottle({ key_field: undefined })).watch.view({ most: 9, words: 'a' }, () => undefined))
      .uncounted,
    undefined,
  )
})

t.test('pressure: a short time of many events is not taken for a whole window of them', async t => {
  const pressure = async (window: string) => {
    const { watch, take } = await watchedThrottle({ limit: 3, window })
    await take(Array.from({ length: 6 }, () => ({ app: 'a' })))
    return (await watch.view({ most: 1 }, () => undefined)).keys[0]!.pressure
  }
  t.equal(await pressure('1h'), 2)
  t.equal(await pressure('60s'), 2)
  t.equal(await pressure('10s'), 1, 'its window is used up')
})

t.test('the options to copy are those that differ', async t => {
  const { watch } = await watchedThrottle({ exclude: "if (.level equal 'error')" })
  for (const [asked, yaml] of [
    [{}, ''],
    [{ limit: '5', window: '1 Seconds' }, ''],
    [{ limit: '20' }, 'limit: 20\n'],
    [{ limit: '20', window: '10s', mode: 'gcra' }, 'limit: 20\nwindow: 10s\nwindow_mode: gcra\n'],
    [{ limit: '9', window: '1h', mode: 'quota' }, 'quota: { limit: 9, per: hour }\n'],
    [{ key_field: '.host', limit: '6' }, 'limit: 6\nkey_field: .host\n'],
    [{ key_field: '[.app, .host]' }, 'key_field: [ .app, .host ]\n'],
    [{ exclude: "if (.level equal 'a: b')" }, 'exclude: "if (.level equal \'a: b\')"\n'],
  ] as [Asked, string][])
    t.equal((await watch.whatIf(asked, () => undefined)).yaml, yaml)
})

t.test('what cannot be asked is said in words', async t => {
  const { watch } = await watchedThrottle({})
  for (const [asked, message] of [
    [{ limit: 'many' }, /^limit: must be a whole number/],
    [{ limit: '0' }, /^limit: must be at least 1/],
    [{ window: 'soon' }, /^window: must be a duration/],
    [{ mode: 'best' }, /^mode: must be /],
    [{ mode: 'quota', window: '7s' }, /^mode=quota needs a window of 1h, 1d, 7d or 30d$/],
    [{ key_field: 'app' }, /^key_field: /],
    [{ exclude: 'if (' }, /^exclude: /],
  ] as [Asked, RegExp][])
    await t.rejects(
      watch.whatIf(asked, () => undefined),
      { constructor: QuestionError, message },
      JSON.stringify(asked),
    )
  const bytes = await watchedThrottle({ limit: undefined, limit_bytes: '1MB' })
  await t.rejects(
    bytes.watch.whatIf({}, () => undefined),
    { message: /has only a limit in bytes/ },
  )
})

t.test('what is not taken into account is said', async t => {
  for (const [options, why] of [
    [{ limit_bytes: '1MB' }, 'limits of bytes are not applied'],
    [{ limits: [{ key: 'a*', limit: 3 }] }, 'rules are not applied: all keys have this limit'],
    [{ time_field: '.t' }, 'events count at their arrival instead of at their own time'],
    [{ over_limit: { wait: '1s' } }, 'no event waits for room'],
    [{ cost: '.n' }, 'each event counts as 1 instead of its cost'],
    [{ max_keys: 1 }, 'keys beyond max_keys have the limit, too'],
  ] as const) {
    const { watch, take } = await watchedThrottle(options)
    await take([{ app: 'a' }])
    t.match(await watch.whatIf({ limit: '2' }, () => undefined), { exact: false, why_not_exact: why })
  }
  const { watch, take } = await watchedThrottle({ time_field: '.t' })
  await take([{ app: 'a' }])
  const { why_not_exact } = await watch.whatIf({ limit: '2', mode: 'gcra' }, () => undefined)
  t.match(String(why_not_exact), 'sliding and gcra cannot be combined with time_field')
})

t.test('another key is counted from the first question on, for a minute after the last one', async t => {
  const { watch, take, time } = await watchedThrottle({ exclude: "if (.level equal 'error')" })
  const events = [
    { app: 'a', host: 'h' },
    { app: 'b', host: 'h' },
    { app: 'c', host: 'h', level: 'error' },
  ]
  await take(events)
  const asked = { key_field: '.host', limit: '1' }
  t.match(await watch.whatIf(asked, () => undefined), {
    events: 0,
    since: new Date(time.wall()).toISOString(),
    exact: false,
  })
  await time.advance(1000)
  await take(events)
  t.match(await watch.whatIf(asked, () => undefined), {
    events: 2,
    was: { passed: 2 },
    would: { passed: 1, discarded: 1 },
  })
  t.match(await watch.whatIf({ exclude: 'if (.host exists)' }, () => undefined), { events: 0 })
  await take(events)
  t.match(
    await watch.whatIf({ exclude: 'if (.host exists)' }, () => undefined),
    { events: 0 },
    'it excludes all of them',
  )
  for (const key_field of ['.a', '.b']) await watch.whatIf({ key_field }, () => undefined)
  await t.rejects(
    watch.whatIf({ key_field: '.c' }, () => undefined),
    { message: /^4 other keys are being counted already/ },
  )
  const used = watch.used
  await time.advance(60_001)
  await take(events)
  t.ok(watch.used < used, 'counting has ended')
  t.match(await watch.whatIf(asked, () => undefined), { events: 0 }, 'counting begins again')
})

t.test('after a reload the throttle of the same id goes on; with another key counting restarts', async t => {
  const first = await watchedThrottle({})
  await first.take([{ app: 'a' }, { app: 'a' }])
  const second = await throttleStage({ limit: 5, window: '1s', key_field: '.app' }, { time: first.time })
  const options = throttle.options.parse({ limit: 5, window: '1s', key_field: '.app' }) as ThrottleConfig
  first.watch.follow(options, second.processor, MEMORY)
  await second.through([{ app: 'a' }])
  await first.through([{ app: 'a' }])
  t.match(await first.watch.whatIf({}, () => undefined), { events: 3, keys_count: 1, yaml: '' })
  const other = throttle.options.parse({ limit: 9, window: '1s', key_field: '.host' }) as ThrottleConfig
  first.watch.follow(other, second.processor, MEMORY)
  t.match(await first.watch.whatIf({}, () => undefined), { events: 0 })
})
