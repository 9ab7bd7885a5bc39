import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { parseLimits } from '../../../../src/components/processors/throttle/limits-file.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { ConfigError } from '../../../../src/core/errors.js'
import { batchOf, linesOf } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { longTest } from '../../../support/long-test.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import { loadedStageOf } from '../../../support/stage.js'
import { until } from '../../../support/until.js'

const OPTIONS = throttle.options.parse({ limit: 1, window: '1h', key_field: '.app' })

const read = (file: string, text: string) => parseLimits(file, Buffer.from(text), OPTIONS)
const problems = (file: string, text: string) => {
  const result = read(file, text)
  return 'problems' in result
    ? result.problems.map(({ line, path, message }) => `${line} ${path.join('.')}: ${message}`)
    : []
}

t.test('the same rules in YAML and in CSV', async t => {
  const yaml = `- { key: 'a-*', limit: 10, window: 1 Minutes }
- when: if (.level equal 'error, "x"')
  limit: unlimited
- key: b
  limit_bytes: 1MB
  window_mode: sliding
`
  const csv = `key,when,limit,limit_bytes,window,window_mode\r
a-*,,10,,1 Minutes,\r
,"if (.level equal 'error, ""x""')",unlimited,,,
\r
b,,,1MB,,sliding
`
  const plain = (file: string, text: string) => JSON.parse(JSON.stringify(read(file, text)))
  t.equal(plain('l.yaml', yaml).rules.length, 3)
  t.same(plain('l.csv', csv), plain('l.yaml', yaml))
  t.same(read('l.yaml', '[]'), { rules: [], warnings: [] }, 'a file may be without rules')
})

longTest('aliases may be used by all rules, and stand for no more than a file could hold', async t => {
  const timeOf = (text: string) => {
    const { user } = process.cpuUsage()
    const many = read('l.yaml', text)
    t.ok('rules' in many && many.rules.length === 10_000)
    return process.cpuUsage().user - user
  }
  const written = timeOf('- { key: a, limit: 1 }\n'.repeat(10_000))
  const aliased = timeOf(`- &a { key: a, limit: 1 }\n${'- *a\n'.repeat(9_999)}`)
  t.ok(aliased < 6 * written, 'the time is not that of looking for the anchor of each rule', { aliased, written })
  const laughs = Array.from({ length: 9 }, (_, n) => `- &x${n + 1} [${`*x${n},`.repeat(9)}]\n`).join('')
  t.match(problems('l.yaml', `- &x0 { key: a }\n${laughs}`), [/Excessive alias count/])
})

t.test('what is wrong is told with its line', async t => {
  t.same(problems('l.yaml', `- { key: a, limit: 1 }\n- key: b\n  limt: 5\n`), [
    '3 1.limt: unknown option; did you mean "limit"?',
  ])
  t.match(problems('l.yaml', `- key: a\n  limit: 0\n- key: 'b['\n`), [/^2 0\.limit: must be/, /^3 1\.key: has a \[/])
  t.match(problems('l.yaml', `- key: a\n  also:\n    - limit: 5\n`), [/^3 0\.also\.0\.window: /])
  t.match(problems('l.yaml', `- key: a\n  limit: 5\n - key: b`), [/^\d : /], 'syntax')
  t.match(problems('l.yaml', `\n${'- '.repeat(50_000)}`), [/^2 : must not be nested this deeply$/])
  t.match(problems('l.yaml', ''), [/^1 : must be a list of rules/], 'an empty file, as one that is being written')
  t.match(problems('l.yaml', 'limits: []'), [/must be a list/])
  t.match(problems('l.yaml', '- 5'), [/^1 0: must be a rule/])
  t.same(problems('l.yaml', '- { limit: 5 }'), ['1 0: needs when or key, or both'])
  t.match(problems('l.csv', 'key,limit\na,5\nb,x\n'), [/^3 1\.limit: must be a whole number/])
  t.match(problems('l.csv', 'key,limit\na,5\nb\n'), ['3 1: has 1 values; the header has 2'])
  t.match(problems('l.csv', 'key,limt\na,5\n'), [/^2 0\.limt: unknown option; did you mean "limit"/])
  t.match(problems('l.csv', ''), [/^1 : is empty/])
  t.match(problems('l.csv', 'key,limit\na,5\n"b,6\n'), [/^3 : has a quote that is never closed/])
  t.match(problems('l.csv', 'key,limit,limit\na,5,6\n'), [/^1 : names the column "limit" twice/])
  t.match(problems('l.csv', 'key;limit\na;5\n'), [/^1 : separate the columns by commas/])
  t.match(problems('l.yaml', `- { key: a, limit: 1 }\n`.repeat(10_001)), [/at most 10000/])
  t.match(read('l.yaml', ' '.repeat(9_000_000)), { problems: [{ message: /larger than 8 MiB/ }] })
  t.match(parseLimits('l.yaml', Buffer.from([0xff]), OPTIONS), { problems: [{ message: /UTF-8/ }] })
})

t.test('rules that never hold are told with their line, and not all of very many', async t => {
  const warnings = (file: string, text: string, limits?: object[]) => {
    const options = throttle.options.parse({ limit: 1, window: '1h', key_field: '.app', limits })
    const result = parseLimits(file, Buffer.from(text), options)
    return 'warnings' in result ? result.warnings.map(({ line, path, message }) => `${line} ${path}: ${message}`) : []
  }
  const yaml = `# one for each app
- { key: a, when: if (.b exists), limit: 3 }
- { key: a, limit: 1 }
- key: a
  limit: 5
- { key: '*', limit: 2 }
- { when: if (.c exists), limit: 4 }
- { key: b, limit: 5 }
`
  const why = 'comes before it and holds for all of its events'
  const order = 'change their order, or remove one of the two'
  t.same(warnings('l.yaml', yaml), [
    `4 2: never holds: [1] in line 3 ${why}; ${order}`,
    `8 5: never holds: [3] in line 6 ${why}; ${order}`,
  ])
  t.same(warnings('l.csv', 'key,limit\na,1\nb,1\na,2\n'), [`4 2: never holds: [0] in line 2 ${why}; ${order}`])
  const limits = [
    { key: 'c', limit: 1 },
    { key: 'c', limit: 2 },
  ]
  t.same(warnings('l.csv', 'key,limit\nd,1\nc,3\n', limits), [
    `3 1: never holds: limits[0] of the throttle ${why}; remove one of the two`,
  ])
  t.equal(warnings('l.yaml', '- { key: a, limit: 1 }\n'.repeat(10_000)).length, 20)
})

/** A throttle with a limits file, in a time that stands still. */
async function throttleWith(t: Test, text: string, name = 'limits.yaml', options: object = {}) {
  const path = join(testFolder(t), name)
  writeFileSync(path, text)
  const time = new ManualTime()
  const logged: { msg: string; error?: string }[] = []
  const log = pino({ base: null }, { write: line => void logged.push(JSON.parse(line)) })
  const { stage, processor, counters, wanted } = await loadedStageOf(
    throttle,
    { limit: 1, window: '1h', key_field: '.app', limits_file: path, ...options },
    { clock: time, log },
  )
  await processor.start?.(new AbortController().signal)
  t.teardown(() => processor.stop?.(new AbortController().signal))
  const through = async (...events: object[]) => {
    const batch = batchOf(events, { wanted })
    counters.arrived(batch.length, batch.bytes)
    stage.write(batch)
    await settle()
    const left = stage.read()
    left?.ack.settle('delivered')
    return left ? linesOf(left).length : 0
  }
  /** Lets the file be looked at once. The timer of the next look is set when this one is over. */
  const look = async () => {
    const { timers } = time
    await time.advance(1000)
    await until(() => time.timers === timers)
  }
  /** Lets the file be looked at until the log has `count` messages about it. */
  const lookUntil = async (count: number) => {
    for (let n = 0; n < 20 && logged.length < count; n++) await look()
    t.equal(logged.length, count, 'the log says what was read')
    return logged.at(-1)!
  }
  const gauge = (name: string) => [...counters.series.get(`sluice_throttle_limits_file_${name}`)![0]!.read()][0]!.value
  const valid = () => gauge('valid')
  return { path, time, logged, through, look, lookUntil, valid, gauge, counters }
}
type Test = Parameters<typeof testFolder>[0]

const times = (n: number, event: object) => Array.from({ length: n }, () => event)

t.test('a changed file is read again, and rules that did not change keep their windows', async t => {
  const made = await throttleWith(t, '- { key: a, limit: 2 }\n- { key: b, limit: 2 }\n- { key: d, limit: 2 }\n')
  const { path, time, through, lookUntil, valid, gauge } = made
  const readAt = time.wall() / 1000
  t.same([gauge('rules'), gauge('read_timestamp_seconds')], [3, readAt])
  t.equal(await through(...times(3, { app: 'a' })), 2)
  t.equal(await through(...times(3, { app: 'b' })), 2)
  t.equal(await through(...times(3, { app: 'c' })), 1)
  writeFileSync(path, '- { key: b, limit: 3 }\n- { key: a, limit: 2 }\n')
  t.match(await lookUntil(1), { msg: 'limits file read again', rules: 2 })
  t.equal(await through(...times(3, { app: 'a' })), 0, 'its window goes on')
  t.equal(await through(...times(4, { app: 'b' })), 3, 'a changed rule begins')
  t.equal(await through(...times(2, { app: 'c' })), 0)
  t.equal(valid(), 1)
  t.equal(gauge('rules'), 2)
  t.ok(gauge('read_timestamp_seconds') > readAt)
})

t.test('a condition on a field that no rule named before is tested as well', async t => {
  const { path, through, lookUntil } = await throttleWith(t, '- { key: a, limit: 2 }\n')
  writeFileSync(path, `- { when: "if (.deep.level equal 'error')", limit: unlimited }\n`)
  await lookUntil(1)
  t.equal(await through(...times(5, { app: 'a', deep: { level: 'error' } })), 5)
  t.equal(await through(...times(5, { app: 'a', deep: { level: 'info' } })), 1)
})

t.test('a broken file keeps the rules that were read last, and says so with file and line', async t => {
  const made = await throttleWith(t, '- { key: a, limit: 2 }\n')
  const { path, through, lookUntil, valid, logged } = made
  const good = '- { key: a, limit: 3 }\n'
  const broken: [string, () => void, RegExp][] = [
    ['syntax', () => writeFileSync(path, '- { key: a\n  limit: }\n'), /limits\.yaml:\d+:1: /],
    [
      'an unknown option',
      () => writeFileSync(path, '- key: a\n  limt: 5\n'),
      /limits\.yaml:2:1: \[0\]\.limt: unknown option/,
    ],
    ['emptied', () => writeFileSync(path, ''), /limits\.yaml:1:1: must be a list/],
    ['too large', () => writeFileSync(path, `#${' '.repeat(9_000_000)}`), /larger than 8 MiB/],
    ['removed', () => rmSync(path), /cannot be read: .*no such file/],
    ['a folder', () => mkdirSync(path), /is a folder/],
  ]
  for (const [what, breakIt, message] of broken) {
    const before = logged.length
    breakIt()
    const { msg, error } = await lookUntil(before + 1)
    t.equal(msg, 'the limits file cannot be used; keeping the rules that were read last', what)
    t.match(error, message, what)
    t.equal(valid(), 0, what)
    t.equal(await through({ app: `${what}` }), 1)
  }
  t.equal(await through(...times(3, { app: 'a' })), 2, 'the old rule')
  rmSync(path, { recursive: true })
  writeFileSync(`${path}.new`, good)
  renameSync(`${path}.new`, path)
  t.match(await lookUntil(logged.length + 1), { msg: 'limits file read again' })
  t.equal(valid(), 1)
  t.equal(await through(...times(4, { app: 'a' })), 3)
})

t.test('a file that is being written is not read before it rests', async t => {
  const { path, logged, through, look } = await throttleWith(t, '- { key: a, limit: 2 }\n')
  for (let n = 1; n <= 5; n++) {
    // Each time of another size: two writes may have the same time.
    writeFileSync(path, `- { key: b, limit: ${'1'.repeat(n)}`)
    await look()
  }
  t.same(logged, [], 'half of a rule was there five times')
  t.equal(await through(...times(3, { app: 'a' })), 2)
})

t.test('a file that is broken at the start is an error with its place', async t => {
  const error: ConfigError = await throttleWith(t, '- key: a\n  limit: x\n').then(
    () => t.fail('it started'),
    error => error,
  )
  t.ok(error instanceof ConfigError)
  t.match(error.problems, [{ file: /limits\.yaml$/, line: 2, path: '[0].limit', message: /must be a whole number/ }])
})
