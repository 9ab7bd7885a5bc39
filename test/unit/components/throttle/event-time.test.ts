import t from 'tap'
import { deciderOptions } from '../../../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { createEventDecider } from '../../../../src/components/throttle/create-decider.js'
import {
  DISCARD,
  EXCLUDED,
  FAIL_OPEN,
  FULL,
  LATE,
  PASS,
  TOO_LATE,
} from '../../../../src/components/throttle/decisions.js'
import { AutoTime } from '../../../../src/components/throttle/event/auto-time.js'
import { eventTime } from '../../../../src/components/throttle/event/time.js'
import type { WindowMode } from '../../../../src/components/throttle/limit.js'
import { type FieldPath, parseFieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchesOf, batchOf, originOf } from '../../../support/batches.js'
import { casesOf } from '../../../support/cases.js'
import { seeded } from '../../../support/seeded.js'
import { vectorsOf } from '../../../support/vectors.js'

const MODES: readonly WindowMode[] = ['fixed', 'aligned']
const NAMES: Record<number, string> = {
  [PASS]: 'pass',
  [FAIL_OPEN]: 'pass',
  [EXCLUDED]: 'excluded',
  [DISCARD]: 'discard',
  [FULL]: 'discard',
  [LATE]: 'late',
  [TOO_LATE]: 'too late',
}
/** The wall clock. */
const NOW = 2_000_000_000_000

interface Timed {
  readonly t?: unknown
  /** The file that it is from. */
  readonly file?: string
  readonly [field: string]: unknown
}

/** A throttle in event time. Events go through it one after another, `size` of a file in a batch. */
function throttleOf(config: Record<string, unknown>) {
  const time = { now: 0 }
  const origins = new Map<string, ReturnType<typeof originOf>>()
  const { wanted } = originOf('json')
  const field = (path: FieldPath) => new FieldReader(path, wanted)
  const options = deciderOptions(throttle.options.parse({ window: '1s', time_field: '.t', ...config }), { field })
  const decider = createEventDecider(options, options.eventTime!, { now: () => time.now, wall: () => NOW + time.now })
  const untimed = { unreadable: 0, ahead: 0 }
  const originFor = (file: string) => {
    const origin = origins.get(file) ?? { ...originOf('json', file), wanted }
    origins.set(file, origin)
    return origin
  }
  const decide = (events: readonly Timed[], size = 1): string[] => {
    const names: string[] = []
    for (let from = 0; from < events.length; ) {
      const file = events[from]!.file ?? ''
      let to = from + 1
      while (to < events.length && to - from < size && (events[to]!.file ?? '') === file) to++
      const text = events.slice(from, to).map(event => `${JSON.stringify(event)}\n`)
      for (const batch of batchesOf(text.join(''), originFor(file))) {
        decider.decide(Object.assign(batch, { receivedAt: NOW + time.now }))
        for (let i = 0; i < batch.length; i++) names.push(NAMES[decider.decisions[i]!]!)
        untimed.unreadable += decider.inEventTime!.unreadable
        untimed.ahead += decider.inEventTime!.ahead
      }
      from = to
    }
    return names
  }
  const at = (...times: number[]) => decide(times.map(t => ({ t }))).map(name => name[0]!.toUpperCase())
  return { decider, decide, at: (...times: number[]) => at(...times).join(''), time, untimed }
}

const vectors = vectorsOf('throttle.json').filter(({ config }) => config.window_mode !== 'sliding')

t.test('the vectors hold in the time of the events, but for what that changes', async t => {
  /** On a clock that goes back an event counts in the window of the moment: here in its own. */
  const differently: Record<string, readonly string[]> = {
    'fixed: an event from before the window is counted in it': ['pass', 'pass', 'discard', 'pass', 'pass'],
    'aligned: an event from before the window is counted in it': ['pass', 'pass', 'pass', 'pass'],
  }
  let same = 0
  for (const { name, config, events } of vectors) {
    const timed = events.map(({ t, event }) => ({ ...event, t_: t }))
    const inOrder = events.every(({ t }, i) => i === 0 || t >= events[i - 1]!.t)
    const expected = inOrder ? events.map(({ decision }) => decision) : differently[name]
    if (inOrder) same++
    // Where max_keys is reached, a bucket is needed for as long as events may be late.
    const lateness = inOrder ? ['0s', ...('max_keys' in config ? [] : ['1m'])] : ['1m']
    for (const allowed_lateness of lateness) {
      for (const size of [1, 1000]) {
        const { decide } = throttleOf({ ...config, time_field: '.t_', allowed_lateness })
        t.same(decide(timed, size), expected, `${name}, ${allowed_lateness}, ${size} in a batch`)
      }
    }
  }
  t.equal(same, vectors.length - Object.keys(differently).length)
})

t.test('events out of order, by hand: P passes, D is discarded, L is late', async t => {
  const cases: [what: string, config: Record<string, unknown>, times: number[], decisions: string][] = casesOf(
    import.meta.url,
    'out_of_order',
  )
  for (const [what, config, times, decisions] of cases) t.equal(throttleOf(config).at(...times), decisions, what)
})

t.test('what it promises, in whatever order events come', async t => {
  for (const [seed, limit, spread] of [
    [11, 1, 500],
    [12, 4, 3000],
    [13, 10, 20_000],
  ] as const) {
    const random = seeded(seed)
    const { decide } = throttleOf({ limit, allowed_lateness: '1m' })
    const times = Array.from({ length: 1500 }, (_, n) => n * (300 / limit) + Math.floor(random() * spread))
    const decisions = decide(
      times.map(t => ({ t })),
      50,
    )
    const passed: number[] = []
    for (const [n, time] of times.entries()) {
      if (decisions[n] === 'pass') passed.push(time)
      else if (!isFullAround(passed, time, limit)) t.fail(`${time} is discarded within the limit`)
    }
    passed.sort((a, b) => a - b)
    // Two windows meet at an edge; three only where one that came out of order is between them.
    const most = limit * 3
    t.notOk(
      passed.some((first, i) => passed[i + most]! - first < 1000),
      `at most ${most} in a second`,
    )
    t.ok(passed.length > 1500 / 6 && passed.length < 1400, `${passed.length} passed`)
  }
  /** Whether `limit` passed in a span shorter than a second that `time` is in. */
  function isFullAround(passed: readonly number[], time: number, limit: number): boolean {
    const near = passed.filter(other => Math.abs(other - time) < 1000).sort((a, b) => a - b)
    return near.some((first, i) => {
      const last = near[i + limit - 1]
      return last !== undefined && Math.max(last, time) - Math.min(first, time) < 1000
    })
  }
})

t.test('one file catches up while another is live, both in one bucket: no event of either is late', async t => {
  for (const mode of MODES) {
    const { decide, decider, time } = throttleOf({ limit: 1, window_mode: mode, allowed_lateness: '10s' })
    const day = 86_400_000
    const start = 1_700_000_000_000
    const names: string[] = []
    for (let n = 0; n < 100; n++) {
      time.now += 100
      names.push(...decide([{ file: 'live', t: start + day + n * 1000 }]))
      names.push(...decide([0, 500, 1000].map(ms => ({ file: 'old', t: start + n * 2000 + ms }))))
    }
    t.same(new Set(names), new Set(['pass', 'discard']), mode)
    t.equal(names.filter(name => name === 'discard').length, 100, 'the limit holds in both')
    const kept = decider.inEventTime!.room.rows
    t.ok(kept >= 100, `what the old one has passed by is dropped, what it may reach is kept: ${kept}`)
    // The old one has nothing more: a minute later it is not waited for.
    for (let n = 100; n < 200; n++) {
      time.now += 1000
      decide([{ file: 'live', t: start + day + n * 1000 }])
    }
    t.ok(decider.inEventTime!.room.rows <= 12, `${decider.inEventTime!.room.rows} windows are kept for late events`)
    t.same(decide([{ file: 'live', t: start + day }]), ['late'])
    // Something more of it, much later.
    t.same(decide([0, 500, 1000].map(ms => ({ file: 'old', t: start + 900_000 + ms }))), ['pass', 'discard', 'pass'])
    time.now += 7_200_000
    t.same(
      decide([500, 2000].map(ms => ({ file: 'old', t: start + 901_000 + ms }))),
      ['discard', 'pass'],
      'after a pause',
    )
  }
})

t.test('one host is far behind the others in the same connection: in a bucket of its own it is not late', async t => {
  for (const mode of MODES) {
    const { decide } = throttleOf({ limit: 1, window_mode: mode, allowed_lateness: '10s', key_field: '.host' })
    const names = { ahead: [] as string[], behind: [] as string[] }
    for (let n = 0; n < 50; n++) {
      names.ahead.push(...decide([{ t: n * 1000 + 3_600_000, host: 'ahead' }]))
      // In order, and one of five seconds before.
      names.behind.push(...decide([n * 1000, n < 5 ? n * 1000 : (n - 5) * 1000].map(t => ({ t, host: 'behind' }))))
    }
    t.same(new Set(names.ahead), new Set(['pass']), mode)
    t.same(names.behind, Array.from({ length: 50 }, () => ['pass', 'discard']).flat())
  }
})

t.test('the time of an event', async t => {
  const cases: [value: unknown, time: number][] = [
    [1_700_000_000_000, 1_700_000_000_000],
    [0, 0],
    [-1.5, -1.5],
    [1.7e12, 1.7e12],
    [8.64e15, 8.64e15],
    [8.65e15, Number.NaN],
    ['1700000000000', 1_700_000_000_000],
    ['1700000000000.25', 1_700_000_000_000.25],
    ['17e11', 1.7e12],
    ['-1', -1],
    ['20260131', Date.UTC(2026, 0, 31)],
    ['20269999', 20_269_999],
    ['2026-01-31T12:00:00.250Z', Date.UTC(2026, 0, 31, 12, 0, 0, 250)],
    ['2026-01-31T12:00:00.25+02:00', Date.UTC(2026, 0, 31, 10, 0, 0, 250)],
    ['2026-01-31 12:00:00', Date.UTC(2026, 0, 31, 12)],
    ...['', ' ', 'now', '1e400', '123456789012345678901234567890', null, true, {}, [1], undefined].map(
      value => [value, Number.NaN] as [unknown, number],
    ),
  ]
  const origin = originOf('json')
  const field = new FieldReader(parseFieldPath('.a.t'), origin.wanted)
  for (const [value, time] of cases) {
    const line = JSON.stringify({ a: { t: value } })
    const escaped =
      typeof value === 'string' && value ? line.replace(value[0]!, `\\u00${value.charCodeAt(0).toString(16)}`) : line
    for (const text of [line, escaped]) t.same(eventTime(field, batchesOf(text, origin)[0]!, 0), time, text)
    const [batch] = batchesOf('{}', origin)
    batch!.modify(0, { a: { t: value } })
    t.same(eventTime(field, batch!, 0), time, `${line} as an object`)
  }
  const batch = batchOf(['{}'], { wanted: origin.wanted })
  for (const [value, time] of [
    [new Date(1234), 1234],
    [new Date('x'), Number.NaN],
  ]) {
    batch.modify(0, { a: { t: value } })
    t.same(eventTime(field, batch, 0), time)
  }
  const text = batchOf(['2026-01-31T12:00:00Z'], { decode: 'text', receivedAt: 99 })
  t.equal(
    eventTime(new FieldReader(parseFieldPath('.message'), text.origin.wanted), text, 0),
    Date.UTC(2026, 0, 31, 12),
  )
  t.equal(eventTime(new FieldReader(parseFieldPath('.timestamp'), text.origin.wanted), text, 0), 99)
})

t.test('without a time, or with one that cannot be, an event counts when it arrived, and makes none late', async t => {
  const { decide, untimed, time } = throttleOf({ limit: 1, allowed_lateness: '10s', on_late: 'discard' })
  const old = (n: number) => ({ t: NOW - 86_400_000 + n * 1000 })
  t.same(decide([old(0), {}, old(1), { t: 'soon' }, old(2), { t: null }, old(2)], 100), [
    ...['pass', 'pass', 'pass', 'discard', 'pass', 'discard', 'discard'],
  ])
  t.same(untimed, { unreadable: 3, ahead: 0 })
  time.now = 1000
  t.same(decide([{ t: '' }, old(3), { t: NOW + 11_001 }, old(4)], 2), ['pass', 'pass', 'discard', 'pass'])
  t.same(untimed, { unreadable: 4, ahead: 1 })
  t.same(decide([{ t: NOW + 11_000 }, { t: NOW + 1000 }], 2), ['pass', 'discard'], 'so far ahead is believed')
  t.same(untimed, { unreadable: 4, ahead: 1 })

  const strict = throttleOf({ limit: 9, allowed_lateness: '0s' })
  t.same(strict.decide([{ t: NOW + 1000 }, { t: NOW + 1001 }]), ['pass', 'late'], 'a second always is')
  t.same(strict.untimed, { unreadable: 0, ahead: 1 })
  const none = throttleOf({ limit: 1 })
  t.same(none.decide([{}, {}]), ['pass', 'discard'])
  none.time.now = 1000
  t.same(none.decide([{}, {}]), ['pass', 'discard'], 'no time in any event: as on the clock')
})

t.test('late: passed and not counted, or discarded', async t => {
  for (const [on_late, name] of [
    ['pass', 'late'],
    ['discard', 'too late'],
  ] as const) {
    const { decide } = throttleOf({ limit: 1, on_late, allowed_lateness: '1s', key_field: '.k', max_keys: 1 })
    t.same(decide([5000, 1, 2, 5000].map(t => ({ t, k: 'a' }))), ['pass', name, name, 'discard'])
    t.same(decide([{ t: 1, k: '' }]), ['pass'], 'nothing is late in a new bucket')
    t.same(decide([{ t: 1, k: 'b' }]), ['pass'], 'beyond max_keys nothing is')
  }
})

/** A reader of times, and a function that reads those of a batch. */
function autoTime() {
  const wanted = new WantedNames()
  const time = new AutoTime({ field: path => new FieldReader(path, wanted) })
  const timesOf = (lines: (string | object)[], options: object = {}) => {
    const batch = batchOf(lines, { wanted, ...options })
    return Array.from({ length: batch.length }, (_, i) => time.of(batch, i))
  }
  return { time, wanted, timesOf }
}

const MS = Date.UTC(2026, 0, 31, 12, 30, 45, 250)
const ISO = '2026-01-31T12:30:45.250Z'

t.test('what loggers write is read', async t => {
  const lines: [what: string, line: object][] = [
    ['pino', { level: 30, time: MS, pid: 1, hostname: 'h', msg: 'm' }],
    ['bunyan', { name: 'a', level: 30, msg: 'm', time: ISO, v: 0 }],
    ['winston', { level: 'info', message: 'm', timestamp: ISO }],
    ['zap', { level: 'info', ts: MS / 1000, caller: 'a.go:1', msg: 'm' }],
    ['klog', { ts: MS, caller: 'a.go:1', msg: 'm' }],
    ['logrus and docker', { level: 'info', msg: 'm', time: '2026-01-31T13:30:45.250000000+01:00' }],
    ['logstash and Elastic', { '@timestamp': ISO, message: 'm', 'log.level': 'info' }],
    ['Google Cloud', { severity: 'INFO', message: 'm', timestamp: '2026-01-31T12:30:45.250000000Z' }],
    ['Serilog', { '@t': ISO, '@m': 'm' }],
    ['microseconds', { t: MS * 1000 }],
    ['nanoseconds', { time: `${MS}000000` }],
    ['seconds as text', { ts: String(MS / 1000) }],
    ['with a space and a comma', { datetime: '2026-01-31 12:30:45,250' }],
    ['an escaped text', { time: '2026-01-31T12:30:45.250Z' }],
  ]
  for (const [what, line] of lines) {
    const [read] = autoTime().timesOf([line])
    t.ok(Math.abs(read! - MS) < 0.01, `${what}: ${read}`)
  }
})

t.test('what is no time is not taken for one', async t => {
  const { timesOf } = autoTime()
  const lines = [
    { time: 0.032 },
    { t: 5 },
    { time: '12:30:45' },
    { date: '2026-01-31' },
    { date: '20260131' },
    { ts: null },
    { time: true },
    { timestamp: { seconds: 1 } },
    { time: 'soon enough' },
    { n: 1 },
  ]
  for (const line of lines) t.same(timesOf([line]), [Number.NaN], JSON.stringify(line))
  t.same(timesOf([{ time: 0.032, '@timestamp': ISO }]), [MS], 'the next field is tried')
  t.same(timesOf([{ date: '2026-01-31', eventTime: ISO }]), [MS])
})

t.test('the time at which a line was read is not its time', async t => {
  const { timesOf } = autoTime()
  t.same(timesOf(['a line', '{"time":1769862645250}'], { decode: 'text', receivedAt: MS }), [Number.NaN, Number.NaN])
  t.same(timesOf(['not JSON', { n: 1 }], { receivedAt: MS }), [Number.NaN, Number.NaN])
  t.same(timesOf([{ timestamp: ISO }], { receivedAt: MS }), [MS], 'unless it says so itself')
  const { time, wanted } = autoTime()
  const changed = batchOf(['a line'], { wanted, decode: 'text', receivedAt: MS })
  changed.modify(0, { ...changed.fields(0), level: 'info' })
  t.ok(Number.isNaN(time.of(changed, 0)), 'also after the event was changed')
  changed.modify(0, { ...changed.fields(0), timestamp: '2026-01-31T12:00:00Z' })
  t.equal(time.of(changed, 0), Date.UTC(2026, 0, 31, 12), 'but a time that was found in it is')
})

t.test('the time that a codec knows is read', async t => {
  const { timesOf } = autoTime()
  const [syslog] = timesOf([`<34>1 ${ISO} host app - - - message`], { decode: 'syslog', receivedAt: MS + 5000 })
  t.equal(syslog, MS)
  const [logfmt] = timesOf([`ts=${ISO} level=info msg=m`], { decode: 'logfmt' })
  t.equal(logfmt, MS)
})

t.test('events of an origin stay with the field that had their time', async t => {
  const { timesOf } = autoTime()
  const first = '2026-01-31T12:00:00.000Z'
  t.same(timesOf([{ ts: ISO }, { time: first, ts: ISO }, { time: first }, { time: first, ts: ISO }]), [
    MS,
    MS,
    Date.parse(first),
    Date.parse(first),
  ])
})
