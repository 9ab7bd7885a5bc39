import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { formatDuration } from '../../src/lib/units.js'
import type { SimulationResult, TrialResult } from '../../src/simulate/result.js'
import { summaryText } from '../../src/simulate/summary.js'
import { testFolder } from '../support/folder.js'
import { Seeded } from '../support/seeded.js'
import { callSimulate } from '../support/simulate.js'
import { sluice } from '../support/sluice.js'
import { valuesOf } from '../support/values-of.js'

interface Event {
  readonly t: number
  readonly app?: string
  readonly host: string
  readonly level: string
  readonly pad: string
}

const START = Date.UTC(2026, 0, 5)

/** Bursts of some apps, over `hours`. */
function events(count: number, hours: number, seed = 1): Event[] {
  const random = new Seeded(seed)
  let t = START
  return Array.from({ length: count }, () => {
    if (random.chance(0.3)) t += random.below(Math.max(1, Math.round((hours * 3_600_000 * 2) / (count * 0.3))))
    return {
      t,
      ...(random.chance(0.05) ? {} : { app: `app-${Math.floor(random.next() ** 3 * 9)}` }),
      host: random.pick(['a', 'b', 'c']),
      level: random.chance(0.1) ? 'error' : 'info',
      pad: 'x'.repeat(random.below(40)),
    }
  })
}

const linesOf = (all: readonly object[]) => all.map(event => `${JSON.stringify(event)}\n`).join('')
const sizeOf = (event: object) => Buffer.byteLength(JSON.stringify(event)) + 1

/** Whether each event passes, decided the simple way. */
function model(all: readonly Event[], key: 'app' | 'host', limit: number, windowMs: number, mode: string): boolean[] {
  const passed = new Map<string | undefined, number[]>()
  return all.map(event => {
    const before = passed.get(event[key]) ?? []
    passed.set(event[key], before)
    // The windows of the bucket so far begin with the first event that is not in the one before.
    let from = Number.NEGATIVE_INFINITY
    for (const time of before) if (time - from >= windowMs) from = time
    if (mode === 'aligned') from = Math.floor(event.t / windowMs) * windowMs
    if (mode === 'sliding') from = event.t - windowMs + 1
    const counted = event.t - from >= windowMs ? 0 : before.filter(time => time >= from).length
    if (counted >= limit) return false
    before.push(event.t)
    return true
  })
}

async function json(args: readonly string[], input: string | Buffer = ''): Promise<SimulationResult> {
  const { code, stdout, stderr } = await callSimulate([...args, '--json', '--time', '.t'], input)
  if (code !== 0) throw new Error(`${code}: ${stderr}`)
  return JSON.parse(stdout) as SimulationResult
}

const sum = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0)

t.test('every combination of limits, windows and keys agrees with a simple model', async t => {
  const all = events(1200, 0.08)
  for (const mode of ['fixed', 'aligned', 'sliding']) {
    const args = ['--limit=3,50,1', '--limit=10', '--window=1s,1m', '--key=.app', '--key=.host']
    const result = await json([...args, `--window-mode=${mode}`], linesOf(all))
    t.equal(result.events, all.length)
    t.equal(result.bytes, sum(all.map(sizeOf)))
    const order = result.results.map(({ key_field, window_ms, limit }) => `${key_field} ${window_ms} ${limit}`)
    t.same(order.slice(0, 5), ['.app 1000 3', '.app 1000 50', '.app 1000 1', '.app 1000 10', '.app 60000 3'])
    t.equal(order.length, 16)
    for (const trial of result.results) {
      const key = trial.key_field === '.app' ? 'app' : 'host'
      const passes = model(all, key, trial.limit!, trial.window_ms, mode)
      checkTrial(t, trial, result, all, passes, key)
    }
  }
})

function checkTrial(
  t: Test,
  trial: TrialResult,
  result: SimulationResult,
  all: readonly Event[],
  passes: readonly boolean[],
  key: 'app' | 'host',
): void {
  const name = `${trial.window_mode} ${trial.key_field} ${trial.window_ms} ${trial.limit}`
  const expected = new Map<string | null, { passed: number; discarded: number; passed_bytes: number }>()
  for (const [i, event] of all.entries()) {
    const id = event[key] ?? null
    const row = expected.get(id) ?? { passed: 0, discarded: 0, passed_bytes: 0 }
    expected.set(id, row)
    row[passes[i] ? 'passed' : 'discarded']++
    if (passes[i]) row.passed_bytes += sizeOf(event)
  }
  t.equal(trial.passed, passes.filter(Boolean).length, name)
  t.equal(trial.passed + trial.discarded, all.length)
  t.equal(trial.passed_bytes + trial.discarded_bytes, result.bytes)
  const got = trial.by_key.map(({ key, passed, discarded, passed_bytes }) => [key, { passed, discarded, passed_bytes }])
  t.same(new Map(got as [string | null, object][]), expected, `${name} by key`)
  t.equal(trial.others, null)
  const { over_time } = trial
  t.equal(over_time.passed.length, result.slots!.count)
  t.equal(sum(over_time.passed), trial.passed)
  t.equal(sum(over_time.discarded), trial.discarded)
  for (const [slot, discarded] of over_time.discarded.entries()) {
    const parts = sum(over_time.by_key.map(row => row.discarded[slot]!)) + over_time.others[slot]!
    if (parts !== discarded) t.fail(`${name}: the keys of slot ${slot} are ${parts} of ${discarded}`)
    const from = result.slots!.start + slot * result.slots!.slot_ms
    const inside = all.filter((event, i) => !passes[i] && event.t >= from && event.t < from + result.slots!.slot_ms)
    if (inside.length !== discarded) t.fail(`${name}: slot ${slot} has ${inside.length}, not ${discarded}`)
  }
  const heaviest = over_time.by_key[0]
  if (heaviest) t.equal(sum(heaviest.discarded), trial.by_key[0]!.discarded, `${name}: the heaviest key over time`)
}

t.test('a grid says of each limit what a simulation of that limit alone says, whatever the throttle', async t => {
  const config = join(testFolder(t), 'sluice.yaml')
  const inOrder = events(600, 0.04, 2)
  const swapped = inOrder.map((_, i) => inOrder[i % 5 === 4 ? i - 1 : i % 5 === 3 ? i + 1 : i]!)
  for (const throttle of [
    'max_keys: 3, on_max_keys: pass',
    'max_keys: 3, on_max_keys: discard',
    'max_keys: 3, on_max_keys: default_bucket, window_mode: sliding',
    'window_mode: aligned, time_field: .t, allowed_lateness: 1s, on_late: discard',
    'window_mode: gcra, over_limit: { pass_one_in: 3 }',
    'over_limit: { wait: 1s }, limits: [{ key: app-0, limit: 2 }]',
  ]) {
    const text = `sources: { in: { type: stdin, decode: json } }
processors: { it: { type: throttle, inputs: [in], limit: 1, window: 2s, key_field: .app, ${throttle}, exclude: "if (.level equal 'error')" } }
destinations: { out: { type: blackhole, inputs: [it] } }
`
    writeFileSync(config, text)
    const input = linesOf(swapped)
    const grid = await json([config, '--limit=1,8,2', '--window=700ms,4s'], input)
    t.equal(grid.excluded, swapped.filter(({ level }) => level === 'error').length)
    t.equal(grid.results.length, 6)
    for (const trial of grid.results) {
      const single = await json([config, `--limit=${trial.limit}`, `--window=${trial.window_ms}ms`], input)
      t.strictSame(trial, single.results[0], `${throttle}, limit ${trial.limit}, window ${trial.window_ms}`)
      t.equal(trial.passed + trial.discarded + grid.excluded, swapped.length)
    }
  }
})

t.test(
  'over_limit: one in N of the discarded events passes, and an event passes that finds room while it waits',
  async t => {
    const all = events(1200, 0.08, 9)
    const config = join(testFolder(t), 'sluice.yaml')
    const simulated = async (options: string) => {
      const text = `sources: { in: { type: stdin, decode: json } }
processors: { it: { type: throttle, inputs: [in], limit: 3, window: 2s, key_field: .app, ${options} } }
destinations: { out: { type: blackhole, inputs: [it] } }
`
      writeFileSync(config, text)
      const { code, stdout, stderr } = await callSimulate([config, '--decisions', '--time=.t'], linesOf(all))
      t.equal(code, 0, stderr)
      return { summary: stderr, passes: stdout.split('\n').flatMap(line => (line ? [line.includes('"pass"')] : [])) }
    }
    const over = new Map<string | undefined, number>()
    const oneIn = model(all, 'app', 3, 2000, 'fixed').map((passes, i) => {
      if (passes) return true
      const count = (over.get(all[i]!.app) ?? 0) + 1
      over.set(all[i]!.app, count)
      return count % 4 === 0
    })
    t.ok(oneIn.includes(false))
    t.strictSame((await simulated('over_limit: { pass_one_in: 4 }')).passes, oneIn)

    // The queue of a bucket: each event passes at the first moment from the one before on at which the window has room.
    const passed = new Map<string | undefined, number[]>()
    let waited = 0
    let longest = 0
    const waits = all.map(({ app, t: now }) => {
      const before = passed.get(app) ?? []
      passed.set(app, before)
      let from = Math.max(now, before.at(-1) ?? 0)
      while (before.filter(time => time > from - 2000).length >= 3) from++
      if (from - now > 1500) return false
      before.push(from)
      if (from > now) waited++
      longest = Math.max(longest, from - now)
      return true
    })
    t.ok(waits.includes(false))
    t.ok(waited > 10)
    const { passes, summary } = await simulated('window_mode: sliding, over_limit: { wait: 1500ms }')
    t.strictSame(passes, waits)
    t.match(summary, /^over_limit wait: events that find room within 1.5s are shown as passed, as if$/m)
    t.match(
      summary,
      new RegExp(`^waited +${waited} events passed after a wait of up to ${formatDuration(longest)}$`, 'm'),
    )
    t.match(
      (await simulated('on_backlog: pace')).summary,
      /^on_backlog pace: nothing is backlog here, all events count/m,
    )
  },
)

t.test(
  'an event whose cost is no number counts as 1, and so does one in a text; how many there are is told',
  async t => {
    const config = join(
      testFolder(t, {
        'sluice.yaml': `sources: { in: { type: stdin, decode: json } }
processors: { it: { type: throttle, inputs: [in], limit: 6, window: 1s, cost: .n } }
destinations: { out: { type: blackhole, inputs: [it] } }
`,
      }),
      'sluice.yaml',
    )
    const costs = [2, '2', null, undefined, -2, true, 0, 5]
    const input = linesOf(costs.map(n => ({ t: START, n })))
    const { stdout, stderr } = await callSimulate([config, '--time=.t', '--decisions'], input)
    // 2 + 1 + 1 + 1 + 1 = 6: only what costs nothing passes after that.
    t.equal(stdout.replaceAll(/.*"decision":"(.).*\n/g, '$1'), 'pppppdpd')
    t.match(stderr, /^cost +5 events without a number of 0 or more at \.n: counted as 1$/m)
    const numbers = await callSimulate([config, '--time=.t'], linesOf([{ t: START, n: 1 }]))
    t.notMatch(numbers.stdout, /^cost /m)
  },
)

t.test('a throttle before the simulated one passes what it would pass in the daemon', async t => {
  const config = join(testFolder(t), 'sluice.yaml')
  const all = Array.from({ length: 12 }, (_, n) => ({ t: START + n }))
  for (const [options, reach] of [
    ['mode: shadow', 12],
    ['over_limit: mark', 12],
    ['over_limit: { pass_one_in: 5 }', 4],
    ['over_limit: { wait: 1s }', 4],
    ['over_limit: discard', 2],
    ['over_limit: mark, key_field: .t, max_keys: 1, on_max_keys: discard', 1],
  ] as const) {
    const text = `sources: { in: { type: stdin, decode: json } }
processors:
  first: { type: throttle, inputs: [in], limit: 2, window: 1s, ${options} }
  second: { type: throttle, inputs: [first], limit: 100, window: 1s }
destinations: { out: { type: blackhole, inputs: [second] } }
`
    writeFileSync(config, text)
    t.equal((await json([config, '--component=second'], linesOf(all))).events, reach, options)
  }
})

t.test('keys beyond those that are listed: the others are their exact sum', async t => {
  const all = Array.from({ length: 3000 }, (_, n) => ({ t: START, k: `k${n % 1500}`, pad: 'x'.repeat(n % 7) }))
  const [trial] = (await json(['--limit=1', '--window=1s', '--key=.k'], linesOf(all))).results as [TrialResult]
  t.equal(trial.by_key.length, 1000)
  t.equal(trial.keys, 1500)
  t.equal(trial.losing_keys, 1500)
  t.match(trial.others, { keys: 500, passed: 500, discarded: 500 })
  const bytes = sum(trial.by_key.map(key => key.passed_bytes + key.discarded_bytes))
  t.equal(bytes + trial.others!.passed_bytes + trial.others!.discarded_bytes, sum(all.map(sizeOf)))
})

t.test('--suggest finds the lowest limit that keeps a share of the matching events', async t => {
  const all = events(600, 0.01, 3)
  const kept = (limit: number, mode: string, level: string | undefined) => {
    const passes = model(all, 'app', limit, 10_000, mode)
    const matching = all.map(event => level === undefined || event.level === level)
    return matching.filter((matches, i) => matches && passes[i]).length / matching.filter(Boolean).length
  }
  for (const [goal, share, level] of [
    [`keep 90% where .level equal 'error'`, 0.9, 'error'],
    [`keep 99.5 % where if (.level equal 'error')`, 0.995, 'error'],
    ['keep 30%', 0.3, undefined],
    [`keep 100% where .level equal 'info'`, 1, 'info'],
  ] as const) {
    for (const mode of ['fixed', 'sliding']) {
      const args = ['--window=10s', '--key=.app', `--window-mode=${mode}`, '--suggest', goal]
      const { limit, results } = await json(args, linesOf(all))
      let expected = 1
      while (kept(expected, mode, level) < share) expected++
      t.equal(limit, expected, `${mode}: ${goal}`)
      t.equal(results[0]!.limit, expected)
      t.equal(results[0]!.passed, model(all, 'app', expected, 10_000, mode).filter(Boolean).length)
    }
  }
  const { stdout } = await callSimulate(
    ['--window=10s', '--key=.app', '--time=.t', '--suggest', `keep 90% where .level equal 'error'`],
    linesOf(all),
  )
  const { limit } = await json(
    ['--window=10s', '--key=.app', `--suggest=keep 90% where .level equal 'error'`],
    linesOf(all),
  )
  t.match(stdout.replace(/\s+/g, ' '), `found limit ${limit} in 10 seconds by .app is the lowest that keeps 90% of the`)
  t.match(stdout, new RegExp(`^next +limit ${limit! - 1} keeps [\\d.]+ % of them`, 'm'))
  t.match(stdout, /^costs +[\d.]+ % of all events pass, and [\d.]+ % of the [\d,]+ others$/m)
  t.match(stdout, `\n    limit: ${limit}\n`)
})

t.test('--budget finds the highest limit within a size per calendar period, or its share', async t => {
  const all = events(1500, 72, 4)
  const budget = 30_000
  const fits = (limit: number) => {
    const passes = model(all, 'app', limit, 3_600_000, 'fixed')
    const days = new Map<number, number>()
    for (const [i, event] of all.entries()) {
      if (!passes[i]) continue
      const day = Math.floor(event.t / 86_400_000)
      days.set(day, (days.get(day) ?? 0) + sizeOf(event))
    }
    return Math.max(...days.values()) <= budget
  }
  let expected = 1
  while (fits(expected + 1)) expected++
  const args = ['--window=1h', '--key=.app']
  const result = await json([...args, '--budget=30kB per day'], linesOf(all))
  t.equal(result.limit, expected)
  t.ok(expected > 1)
  const free = await json([...args, '--budget=5GB per day'], linesOf(all))
  t.equal(free.results[0]!.discarded, 0)
  t.match(free.results[0]!.search, { needed: false })
  const lower = await json([...args, `--limit=${free.limit! - 1}`], linesOf(all))
  t.ok(lower.results[0]!.discarded > 0, 'the lowest limit that discards nothing')

  const steady = Array.from({ length: 600 }, (_, n) => ({ t: START + n * 100, n: 1000 + n }))
  const bytes = sizeOf(steady[0]!)
  // 60 windows of a second in the minute: 5 events in each are 3600 * 5 in an hour.
  const share = await json(['--window=1s', `--budget=${3600 * 5 * bytes}B per hour`], linesOf(steady))
  t.equal(share.limit, 5)

  const quota = '{ per: day, limit_bytes: 1kB }'
  const throttle = `{ type: throttle, inputs: [in], limit: 1, window: 1s, quota: ${quota} }`
  const config = `sources: { in: { type: stdin, decode: json } }
processors: { lim: ${throttle} }
destinations: { out: { type: blackhole, inputs: [lim] } }
`
  const path = join(testFolder(t, { 'sluice.yaml': config }), 'sluice.yaml')
  const other = await callSimulate(['--config', path, '--time=.t', '--budget=5GB per day'], linesOf(steady))
  t.match(other, { code: 1, stderr: /keeps 100% of the events: .* discarded for another reason/ })
})

t.test('--budget counts days of a time zone, also on those on which clocks are changed', async t => {
  // An event every 10 minutes, from two days before the change of clocks to two days after.
  const day = new Intl.DateTimeFormat('en-CA', { timeZone: 'Europe/Berlin', dateStyle: 'short' })
  for (const [from, hours] of [
    [Date.UTC(2026, 2, 27, 23), 23],
    [Date.UTC(2026, 9, 23, 22), 25],
  ] as const) {
    const all = Array.from({ length: 4 * 144 }, (_, n) => ({ t: from + n * 600_000, app: `a${n % 10}` }))
    // One byte more than the events of a day: all of them, if the day of the change is as long as it is.
    const counted = new Map<string, number>()
    for (const event of all) {
      const date = day.format(event.t)
      counted.set(date, (counted.get(date) ?? 0) + sizeOf(event))
    }
    t.ok([...counted.values()].includes(hours * 6 * sizeOf(all[0]!)), `one day has ${hours} hours`)
    const most = Math.max(...counted.values())
    const zoned = ['--window=10m', `--budget=${most}B per day`, '--time-zone=Europe/Berlin']
    const exact = await json(zoned, linesOf(all))
    t.match(exact.results[0]!.search, { needed: false, figures: { bytes_per_period: most } })
    t.match(exact.results[0]!.search!.goal, / per day in Europe\/Berlin$/)
    const less = await callSimulate(
      ['--time=.t', '--window=10m', `--budget=${most - 1}B per day`, '--time-zone=Europe/Berlin'],
      linesOf(all),
    )
    t.match(less, { code: 1, stderr: /no limit in 10 minutes passes at most .* per day in Europe\/Berlin: limit 1/ })
  }
  for (const [args, message] of [
    [
      ['--budget=5GB per day', '--time-zone=Europe/Berln'],
      '--time-zone: is not a time zone of this system; did you mean "Europe/Berlin"?',
    ],
    [['--limit=1', '--time-zone=UTC'], '--time-zone needs --budget, whose time zone it sets'],
  ] as const)
    t.match(await callSimulate(['--window=1s', ...args], ''), { code: 2, stderr: message })
})

t.test('a goal that some windows and keys achieve is answered for these, and the others are named', async t => {
  // Of app a, 5 events a second; app b has another value of .host in each event.
  const all = Array.from({ length: 400 }, (_, n) => ({ t: START + n * 200, app: 'a', host: `h${n}` }))
  const budget = `--budget=${sizeOf(all[399]!) * 2 * 3600}B per hour`
  const args = ['--window=1s,100ms', '--key=.app', '--key=.host', budget]
  const result = await json(args, linesOf(all))
  t.same(
    result.results.map(({ key_field, window_ms, limit }) => [key_field, window_ms, limit]),
    [['.app', 1000, 2]],
  )
  t.equal(result.limit, 2)
  t.match(result.unanswered, [
    { key_field: '.app', window_ms: 100, reason: /^no limit in 100 milliseconds by \.app passes at most/ },
    { key_field: '.host', window_ms: 1000, reason: /^no limit in 1 second by \.host/ },
    { key_field: '.host', window_ms: 100 },
  ])
  const { code, stdout } = await callSimulate([...args, '--time=.t'], linesOf(all))
  t.equal(code, 0)
  t.match(stdout, /^found +limit 2 in 1 second by \.app is the highest/m)
  t.equal(stdout.match(/^no answer +no limit in /gm)?.length, 3)
})

t.test('goals that no limit achieves are refused, with the reason', async t => {
  const input = linesOf(events(500, 0.1, 5))
  for (const [args, message] of [
    [[`--suggest=keep 90% where .level equal 'none'`], `there are no events where .level equal 'none'`],
    [
      ['--budget=1kB per day'],
      /^no limit in 1 second by .app passes at most 1.0 kB per day: limit 1 passes .* per day, extra/,
    ],
  ] as const) {
    const { code, stdout, stderr } = await callSimulate(['--window=1s', '--key=.app', '--time=.t', ...args], input)
    t.same({ code, stdout }, { code: 1, stdout: '' })
    t.match(stderr.replace(/^sluice: /, ''), message)
  }
  for (const [args, message] of [
    [['--suggest=keep most'], `--suggest must be like "keep 99% where .level equal 'error'"`],
    [['--suggest=keep 101%'], 'more than 0 and at most 100 percent'],
    [['--suggest=keep 9% where .level is'], '--suggest: '],
    [['--budget=5GB'], `--budget must be like '5GB per day'`],
    [['--budget=5GB per year'], `--budget must be like '5GB per day'`],
    [['--budget=5GB per day', '--suggest=keep 9%'], 'give --suggest or --budget, not both'],
    [['--budget=5GB per day', '--limit=5'], '--budget finds the limit: leave out --limit'],
    [['--budget=5GB per day', '--decisions'], '--decisions is for one throttle'],
    [['--limit=1,2', '--decisions'], '--decisions is for one throttle'],
    [['--limit=1', '--for=5s'], '--for has no effect without --tap'],
    [['--limit=1', '--socket=x'], '--socket has no effect without --tap'],
    [['--limit=1,x'], '--limit must be a whole number of at least 1 in digits, as in 100, not "x"\n'],
    [['--limit=0x2'], '--limit must be a whole number of at least 1 in digits, as in 100, not "0x2"\n'],
    [['--limit=4294967296'], '--limit: must be at most 4294967295'],
    [['--limit-bytes=0x2'], '--limit-bytes: must be a size such as'],
    [['--limit=1', '--window='], '--window needs a value'],
    [[], '--limit: is missing'],
    [['--limit=1', '--time='], '--time needs a value'],
  ] as const) {
    const { code, stderr } = await callSimulate(
      ['--window=1s', '--key=.app', '--time=.t', ...args].slice(
        args.some(arg => arg.startsWith('--time')) ? 3 : args.some(arg => arg.startsWith('--window=')) ? 1 : 0,
      ),
      input,
    )
    t.equal(code, 2, stderr)
    t.match(stderr, message)
  }
})

t.test('gzip files, of several members, beside others; the first operand may be the configuration', async t => {
  const all = events(600, 0.1, 6)
  const dir = testFolder(t)
  const path = (name: string) => join(dir, name)
  const text = `sources: { in: { type: file, include: [/none], decode: json } }
processors: { it: { type: throttle, inputs: [in], limit: 2, window: 1s, key_field: .app, time_field: .t } }
destinations: { out: { type: blackhole, inputs: [it] } }
`
  writeFileSync(path('sluice.yaml'), text)
  const members = [all.slice(0, 200), all.slice(200, 400)].map(part => gzipSync(linesOf(part)))
  writeFileSync(path('a.gz'), Buffer.concat(members))
  writeFileSync(path('b'), linesOf(all.slice(400)))
  const run = async (args: readonly string[], input: string | Buffer = '') => {
    const { code, stdout, stderr } = await callSimulate([path('sluice.yaml'), '--json', ...args], input)
    t.equal(code, 0, stderr)
    return (JSON.parse(stdout) as SimulationResult).results
  }
  const expected = await run([], linesOf(all))
  t.equal(expected[0]!.passed, model(all, 'app', 2, 1000, 'fixed').filter(Boolean).length, 'time_field is the time')
  t.same(await run([path('a.gz'), path('b')]), expected)
  t.same(await run([], gzipSync(linesOf(all))), expected, 'standard input, too')

  writeFileSync(path('cut.gz'), members[0]!.subarray(0, -9))
  writeFileSync(path('bad.gz'), Buffer.concat([members[0]!.subarray(0, 20), Buffer.alloc(200, 7)]))
  for (const [name, message] of [
    ['cut.gz', 'its gzip data ends early: the file is not complete'],
    ['bad.gz', 'it begins like gzip data, but is damaged'],
  ]) {
    const { code, stdout, stderr } = await callSimulate([path('sluice.yaml'), path(name!)])
    t.same(
      { code, stdout, stderr },
      { code: 1, stdout: '', stderr: `sluice: cannot read ${path(name!)}: ${message}\n` },
    )
  }
})

t.test('what a daemon does beyond deciding is named; rules and limits of bytes decide as in the daemon', async t => {
  const dir = testFolder(t)
  const config = join(dir, 'sluice.yaml')
  const all = events(900, 0.05, 8)
  const simulated = async (options: string, args: readonly string[] = []) => {
    const yaml = `sources: { in: { type: stdin, decode: json } }
processors: { it: { type: throttle, inputs: [in], window: 1m, key_field: .app, time_field: .t, ${options} } }
destinations: { out: { type: blackhole, inputs: [it] } }
`
    writeFileSync(config, yaml)
    const { code, stdout, stderr } = await callSimulate([config, ...args], linesOf(all))
    t.equal(code, 0, stderr)
    return stdout
  }
  const shadow = await simulated('limit: 5, mode: shadow')
  t.match(shadow, /^mode +shadow: the daemon passes the events that are shown as discarded$/m)
  t.match(shadow, '\n    mode: shadow\n')
  t.notMatch(shadow, '# For the configuration')
  const two = await simulated('limit: 5', ['--limit=5,6'])
  t.match(two, /^# For the configuration of one of these throttles, give its limit, window and key alone\.\n$/m)
  t.notMatch(two, /^processors:/m, 'none of them is offered as the best')
  t.match(
    await simulated('limit: 5, over_limit: { pass_one_in: 10 }'),
    /^over_limit pass_one_in 10: the events that pass/m,
  )
  t.match(await simulated('limit: 5, over_limit: mark'), /^over_limit mark: the daemon marks and passes/m)

  const ruled =
    'limit: 5, limits: [{ key: "app-[01]", limit: 1 }, { when: "if (.level equal \'error\')", limit: unlimited }]'
  t.match(await simulated(ruled), /^limits +2 rules, the first that matches decides$/m)
  const { results } = JSON.parse(await simulated(ruled, ['--limit=5,100000', '--json'])) as SimulationResult
  const [five, most] = results as [TrialResult, TrialResult]
  const ofRule = (trial: TrialResult) => trial.by_key.filter(({ key }) => key === 'app-0' || key === 'app-1')
  t.same(valuesOf(ofRule(five), 'passed'), valuesOf(ofRule(most), 'passed'), 'rules keep their limits')
  t.equal(most.discarded, sum(ofRule(most).map(({ discarded }) => discarded)))
  t.ok(five.discarded > most.discarded)

  const bytes = JSON.parse(await simulated('limit_bytes: 500', ['--limit-bytes=1kB,1MB', '--json'])) as SimulationResult
  t.same(
    bytes.results.map(({ limit, unit }) => [limit, unit]),
    [
      [1000, 'bytes'],
      [1_000_000, 'bytes'],
    ],
  )
  t.ok(bytes.results[0]!.discarded > 0)
  t.equal(bytes.results[1]!.discarded, 0)
  const found = JSON.parse(await simulated('limit_bytes: 500', ['--suggest=keep 80%', '--json'])) as SimulationResult
  const passedWith = async (limit: number) => {
    const text = await simulated('limit_bytes: 500', [`--limit-bytes=${limit}`, '--json'])
    return (JSON.parse(text) as SimulationResult).results[0]!.passed / all.length
  }
  t.ok((await passedWith(found.limit_bytes!)) >= 0.8)
  t.ok((await passedWith(found.limit_bytes! - 1)) < 0.8)
})

t.test('an empty input, binary data and a line without an end', async t => {
  const args = ['--limit=1', '--window=1s', '--time=.t']
  const empty = await callSimulate(args)
  t.equal(empty.code, 0)
  t.match(empty.stdout, /^events +0$/m)
  const binary = await callSimulate(args, Buffer.from(Array.from({ length: 4000 }, (_, n) => (n * 7) % 256)))
  t.equal(binary.code, 1)
  t.match(binary.stderr, /no event has a time in \.t.*lines not a JSON object/)
  const huge = await callSimulate(args, `{"t":1}\n{"t":2,"x":"${'y'.repeat(5_000_000)}`)
  t.equal(huge.code, 0)
  t.match(huge.stdout, /^events +2$/m)
})

t.test('a terminal that does not know its width gets the usual one', async t => {
  const result = await json(['--limit=1', '--window=1s'], linesOf(events(20, 0.1)))
  const text = (columns: number | undefined) => summaryText(result, { columns, colour: false })
  t.equal(text(0), text(80))
  t.equal(text(undefined), text(80))
})

t.test('Ctrl-C prints the result so far', async t => {
  const run = sluice(['simulate', '--limit=1', '--window=1s', '--time=.t', '--json', '--decisions'])
  run.child.stdin!.write(`${linesOf(Array.from({ length: 5000 }, (_, n) => ({ t: n })))}{"t":`)
  await run.until(() => run.stdout.includes('\n'))
  run.child.kill('SIGINT')
  t.equal(await run.exit, 130, run.stderr)
  const result = JSON.parse(run.stderr) as SimulationResult
  t.equal(result.complete, false)
  t.ok(result.events > 0)
  t.notMatch(result.notes, [{ name: 'undecoded' }], 'a line that is cut by it is none')
  t.equal(run.stdout.trimEnd().split('\n').length, result.events)
})
