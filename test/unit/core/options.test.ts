import { inspect } from 'node:util'
import t from 'tap'
import type { z } from 'zod'
import {
  byteSize,
  duration,
  fieldPath,
  listenAddress,
  regex,
  Secret,
  secret,
} from '../../../src/core/options/options.js'
import { formatDuration, formatSize, parseDuration, parseSize } from '../../../src/lib/units.js'

/** The value, or the messages. */
function parse(schema: z.ZodType, input: unknown): unknown {
  const result = schema.safeParse(input)
  return result.success ? result.data : result.error.issues.map(issue => issue.message)
}

const DURATION = ['must be a duration such as "10 Seconds", "500ms" or {value: 10, unit: Seconds}']
const SIZE = ['must be a size such as "1MB", "64KiB" or a number of bytes']
const ADDRESS = ['must be HOST:PORT, as in 127.0.0.1:9598 or [::1]:9598, or systemd:NAME']

t.test('durations', async t => {
  const cases: [unknown, unknown][] = [
    ['10 Seconds', 10_000],
    ['500 Milliseconds', 500],
    ['1 Minutes', 60_000],
    ['2 Hours', 7_200_000],
    ['1 Second', 1000],
    ['3 minute', 180_000],
    ['2 HOURS', 7_200_000],
    ['10s', 10_000],
    ['500ms', 500],
    ['1m', 60_000],
    ['2h', 7_200_000],
    ['1.5 Seconds', 1500],
    [{ value: 10, unit: 'Seconds' }, 10_000],
    [{ value: 2, unit: 'hour' }, 7_200_000],
    ['0s', ['must be at least 1 ms']],
    ['0', ['must be at least 1 ms']],
    [' 0.0 ', ['must be at least 1 ms']],
    [0, ['must be at least 1 ms']],
    ['0.5ms', ['must be at least 1 ms']],
    ['1 sec', 1000],
    ['2secs', 2000],
    ['5 min', 300_000],
    ['5 mins', 300_000],
    ['1 hr', 3_600_000],
    ['2 hrs', 7_200_000],
    ['10 msec', 10],
    ['1 day', 86_400_000],
    ['2d', 172_800_000],
    ['10', ['has no unit; write 10s for seconds, or 10ms']],
    ['-1s', DURATION],
    ['10 Weeks', DURATION],
    ['ss', DURATION],
    ['', DURATION],
    [10, ['has no unit; write 10s for seconds, or 10ms']],
    [-10, DURATION],
    [null, DURATION],
    [`${'9'.repeat(30)}h`, ['must be shorter']],
  ]
  for (const [input, expected] of cases) t.same(parse(duration(), input), expected, JSON.stringify(input))
  t.same(parse(duration(100), '99ms'), ['must be at least 100 ms'])
  for (const zero of [0, '0', '0s', '0 Seconds', { value: 0, unit: 'Seconds' }]) {
    t.equal(parse(duration(0), zero), 0, `${JSON.stringify(zero)} where it may be 0`)
    if (typeof zero === 'object') t.ok(Array.isArray(parse(duration(), zero)), 'a mapping')
    else
      t.same(
        [1, 100].map(min => parse(duration(min), zero)),
        [['must be at least 1 ms'], ['must be at least 100 ms']],
      )
  }
  t.notSame(parse(duration(), { value: 10, unit: 'Weeks' }), 10, 'an unknown unit')
  t.equal(parse(duration().prefault('2s'), undefined), 2000)
})

t.test('sizes', async t => {
  const cases: [unknown, unknown][] = [
    ['1MB', 1_000_000],
    ['64KiB', 65_536],
    ['64 kib', 65_536],
    ['1.5 kB', 1500],
    ['7 b', 7],
    ['4096', 4096],
    [4096, 4096],
    ['1 XB', SIZE],
    ['MB', SIZE],
    [1.5, SIZE],
    [true, SIZE],
    [0, ['must be at least 1 bytes']],
  ]
  for (const [input, expected] of cases) t.same(parse(byteSize(), input), expected, JSON.stringify(input))
  t.same(parse(byteSize(10, 20), '1kB'), ['must be at most 20 bytes'])
  t.same(parse(byteSize(0), -1), ['must not be negative'], 'a burst is a number of events, too')
})

t.test('addresses', async t => {
  const withoutHost = ['has no host; write 127.0.0.1:9598 for programs on this machine only, or 0.0.0.0:9598 for all']
  const cases: [string | number, unknown][] = [
    ['127.0.0.1:9598', { host: '127.0.0.1', port: 9598 }],
    ['localhost:0', { host: 'localhost', port: 0 }],
    ['[::1]:80', { host: '::1', port: 80 }],
    ['::1:80', ADDRESS],
    ['9598', withoutHost],
    [':9598', withoutHost],
    [9598, withoutHost],
    ['host:65536', ADDRESS],
    ['http://host:80', ADDRESS],
  ]
  for (const [input, expected] of cases) t.same(parse(listenAddress(), input), expected, String(input))
})

t.test('field paths and regular expressions', async t => {
  t.match(parse(fieldPath(), '.a."x-y"[0]'), { segments: ['a', 'x-y', 0] })
  t.same(parse(fieldPath(), '.a]'), ['unexpected "]" in a field path (column 3 of the path)'])
  t.match(parse(regex(), '^a+$'), { source: '^a+$', flags: 'u' })
  t.match(parse(regex(), '('), [/not a regular expression/])
})

t.test('a secret is not printed', async t => {
  const value = parse(secret(), 'hunter2-hunter2')
  if (!(value instanceof Secret)) throw new Error('no secret')
  t.equal(value.reveal(), 'hunter2-hunter2')
  const error = new Error('with', { cause: value })
  const prints = [
    String(value),
    `${value}`,
    JSON.stringify({ value }),
    inspect({ value }),
    inspect(error),
    inspect([value]),
  ]
  for (const print of prints) {
    t.notMatch(print, 'hunter')
    t.match(print, /\[secret\]|with/)
  }
  t.same(Object.keys(value), [])
  t.match(parse(secret(), ''), [/./], 'empty')
})

t.test('units', async t => {
  t.equal(parseDuration('nonsense'), undefined)
  t.equal(parseSize('10 Seconds'), undefined)
  t.equal(formatSize(999), '999 B')
  t.equal(formatSize(1_234_567), '1.2 MB')
  for (const [ms, text] of [
    [12, '12ms'],
    [1500, '1.5s'],
    [90_500, '1m 30s'],
    [3_660_000, '1h 1m'],
  ] as const) {
    t.equal(formatDuration(ms), text)
  }
})
