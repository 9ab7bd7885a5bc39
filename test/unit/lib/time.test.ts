import t from 'tap'
import { parseIsoTime } from '../../../src/lib/formats/iso-time.js'
import { aborted, after, deadline, every, sleep } from '../../../src/lib/time.js'
import { seeded } from '../../support/seeded.js'

/** Read from the middle of other bytes, as from a line. */
function parse(text: string): number {
  const bytes = Buffer.from(`9${text}9`)
  return parseIsoTime(bytes, 1, bytes.length - 1)
}

const NOON = Date.UTC(2026, 0, 31, 12)

t.test('times', async t => {
  const cases: [string, number][] = [
    ['2026-01-31T12:00:00Z', NOON],
    ['2026-01-31T12:00:00.000Z', NOON],
    ['2026-01-31t12:00:00z', NOON],
    ['2026-01-31 12:00:00Z', NOON],
    ['2026-01-31T12:00:00', NOON],
    ['2026-01-31T12:00', NOON],
    ['2026-01-31T12:00Z', NOON],
    ['20260131T120000Z', NOON],
    ['20260131T1200', NOON],
    ['2026-01-31T12:00:00.5Z', NOON + 500],
    ['2026-01-31T12:00:00,25Z', NOON + 250],
    ['2026-01-31T12:00:00.001Z', NOON + 1],
    ['2026-01-31T12:00:00.123456Z', NOON + 123.456],
    ['2026-01-31T12:00:00.999999999999999999Z', NOON + 999.999],
    ['2026-01-31T12:00:00+00:00', NOON],
    ['2026-01-31T14:30:00+02:30', NOON],
    ['2026-01-31T14:30:00+0230', NOON],
    ['2026-01-31T04:00:00-08', NOON],
    ['2026-02-01T00:00:00+12:00', NOON],
    ['2026-01-31T11:59:60Z', NOON],
    ['2026-01-31', NOON - 12 * 3_600_000],
    ['20260131', NOON - 12 * 3_600_000],
    ['2026-01-30T24:00:00Z', NOON - 12 * 3_600_000],
    ['1970-01-01T00:00:00Z', 0],
    ['1969-12-31T23:59:59.999Z', -1],
    ['2024-02-29T00:00:00Z', Date.UTC(2024, 1, 29)],
    ['2000-02-29T00:00:00Z', Date.UTC(2000, 1, 29)],
    ['0000-01-01T00:00:00Z', -62_167_219_200_000],
    ['9999-12-31T23:59:59.999Z', 253_402_300_799_999],
  ]
  for (const [text, expected] of cases) t.ok(Math.abs(parse(text) - expected) < 0.0001, `${text}: ${parse(text)}`)
})

t.test('what is no time', async t => {
  const texts = [
    ...['', ' ', 'yesterday', 'null', '0', '1700000000', '1700000000000', '2026', '2026-01', '2026-1-31', '26-01-31'],
    ...['2026-13-01', '2026-00-01', '2026-01-00', '2026-01-32', '2026-04-31', '2026-02-29', '1900-02-29', '2026-01-3'],
    ...'2026-0131 202601-31 2026/01/31 31-01-2026 2026-01-31T 2026-01-31T1 2026-01-31T12 2026-01-31T12:'.split(' '),
    ...['2026-01-31T12:0', '2026-01-31T12:60', '2026-01-31T25:00', '2026-01-31T24:01', '2026-01-31T24:00:00.1'],
    ...[
      '2026-01-31T12:00:',
      '2026-01-31T12:00:0',
      '2026-01-31T12:00:61',
      '2026-01-31T12:00:00.',
      '2026-01-31T12:00:00.Z',
    ],
    ...['2026-01-31T12:00:00Zulu', '2026-01-31T12:00:00 Z', '2026-01-31T12:00:00+', '2026-01-31T12:00:00+1'],
    ...[
      '2026-01-31T12:00:00+24:00',
      '2026-01-31T12:00:00+01:60',
      '2026-01-31T12:00:00+01:',
      '2026-01-31T12:00:00+01:000',
    ],
    ...['2026-01-31Z', '2026-01-31T12:00:00\u221201:00', ' 2026-01-31', '2026-01-31 ', '+2026-01-31', '-2026-01-31'],
  ]
  for (const text of texts) t.ok(Number.isNaN(parse(text)), `${JSON.stringify(text)}: ${parse(text)}`)
})

t.test('agrees with Date on all that Date writes', async t => {
  const random = seeded(31)
  let wrong = 0
  for (let n = 0; n < 50_000; n++) {
    const ms = Math.floor((random() - 0.2) * 3e14)
    const text = new Date(ms).toISOString()
    if (text.length === 24 && parse(text) !== ms && wrong++ < 3) t.fail(`${text} is ${ms}, not ${parse(text)}`)
  }
  t.equal(wrong, 0)
})

t.test('however it is written, the same time is the same number', async t => {
  const random = seeded(32)
  const wrong: string[] = []
  for (let n = 0; n < 20_000 && wrong.length < 3; n++) {
    const day = new Date(Math.floor(random() * 4e12)).toISOString().slice(0, 19)
    const digits = String(Math.floor(random() * 1e9)).slice(0, Math.floor(random() * 10))
    const fraction = digits && `.${digits}`
    const offset = `${random() < 0.5 ? '+' : '-'}${day.slice(11, 16)}`
    for (const end of ['Z', offset]) {
      const usual = parse(`${day}${fraction}${end}`)
      const others = [`${day.replace('T', ' ')}${fraction}${end}`, `${day}${fraction.replace('.', ',')}${end}`]
      if (Number.isNaN(usual) || others.some(text => parse(text) !== usual)) wrong.push(`${day}${fraction}${end}`)
    }
  }
  t.same(wrong, [])
})

/** Longer than a timer of the platform can wait. */
const LONG = 2 ** 40

t.test('a long time is not no time', async t => {
  const fired: string[] = []
  const stop = new AbortController()
  const { signal, clear } = deadline(LONG)
  const cancels = [after(LONG, () => fired.push('after')), every(LONG, () => fired.push('every')), clear]
  const slept = sleep(LONG, stop.signal).then(() => fired.push('sleep'))
  // Timers that are too long for the platform would ring after a millisecond, and before this one.
  await sleep(2)
  t.same(fired, [])
  t.notOk(signal.aborted)
  for (const cancel of cancels) cancel()
  stop.abort()
  await slept
  t.same(fired, ['sleep'], 'an abort ends the wait')
})

t.test('signals', async t => {
  const parent = new AbortController()
  const { signal, clear } = deadline(1000, parent.signal)
  parent.abort(new Error('over'))
  t.match(signal.reason, { message: 'over' })
  clear()
  const late = deadline(1000, parent.signal)
  t.ok(late.signal.aborted, 'aborted already')
  late.clear()
  await sleep(1000, parent.signal)
  const short = deadline(1)
  await aborted(short.signal)
  t.match(short.signal.reason, { message: 'no answer within 1 ms' })
})
