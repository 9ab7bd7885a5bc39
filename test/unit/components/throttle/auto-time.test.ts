import t from 'tap'
import { AutoTime } from '../../../../src/components/throttle/auto-time.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../../support/batches.js'

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
