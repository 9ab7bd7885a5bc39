import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { SimulationResult } from '../../src/cli/check/simulate/result.js'
import { testFolder } from '../support/folder.js'
import { callSimulate } from '../support/simulate.js'

/** Where the time comes from if nobody names a field. */

const START = Date.UTC(2026, 0, 5)
/** Two events within the first second, and one in the next one. */
const TIMES = [START, START + 900, START + 1100]

/** A configuration whose source is of this type. */
function configOf(t: Test, type: string, throttle = 'limit: 1, window: 1s'): string {
  return join(
    testFolder(t, {
      'sluice.yaml': `sources: { in: { ${type} } }
processors: { it: { type: throttle, inputs: [in], ${throttle} } }
destinations: { out: { type: blackhole, inputs: [it] } }
`,
    }),
    'sluice.yaml',
  )
}

const iso = (time: number) => new Date(time).toISOString()
const bsd = (time: number) => `Jan  5 ${iso(time).slice(11, 19)}`
const lines = (line: (time: number) => string) => TIMES.map(time => `${line(time)}\n`).join('')

t.test('the time is found by itself in the lines of the usual sources', async t => {
  const stdin = 'type: stdin, decode'
  for (const [source, line] of [
    [`${stdin}: json`, (time: number) => JSON.stringify({ msg: 'x', timestamp: iso(time) })],
    [`${stdin}: json`, (time: number) => JSON.stringify({ level: 30, time, pid: 1 })],
    [`${stdin}: json`, (time: number) => JSON.stringify({ ts: time / 1000, msg: 'seconds, as zap writes them' })],
    [`${stdin}: json`, (time: number) => JSON.stringify({ '@timestamp': iso(time), message: 'x' })],
    // What the docker daemon writes to its files.
    [
      `${stdin}: json`,
      (time: number) => JSON.stringify({ log: 'x\n', stream: 'stdout', time: iso(time).replace('Z', '000000Z') }),
    ],
    [`${stdin}: logfmt`, (time: number) => `time=${iso(time)} level=info msg=x`],
    [`${stdin}: syslog`, (time: number) => `<13>1 ${iso(time)} host app - - - x`],
    [
      'type: journald',
      (time: number) => JSON.stringify({ MESSAGE: 'x', __REALTIME_TIMESTAMP: String(time * 1000), PRIORITY: '6' }),
    ],
  ] as const) {
    const { code, stdout, stderr } = await callSimulate([configOf(t, source), '--json'], lines(line))
    t.equal(code, 0, stderr)
    const { time, from, to, results } = JSON.parse(stdout) as SimulationResult
    t.match({ time, from, to }, { time: 'auto', from: START, to: START + 1100 }, line(START))
    t.match(results, [{ passed: 2, discarded: 1 }])
  }
})

t.test('lines of classic syslog have a time to the second', async t => {
  const { stdout } = await callSimulate(
    [configOf(t, 'type: stdin, decode: syslog'), '--json'],
    lines(time => `<13>${bsd(time)} host app: x`),
  )
  t.match(JSON.parse(stdout).results, [{ passed: 2, discarded: 1 }])
})

t.test('a time_field of the throttle, or --time, stands before the usual fields', async t => {
  const line = (time: number) => JSON.stringify({ timestamp: iso(START), at: time })
  for (const [throttle, args] of [
    ['limit: 1, window: 1s, time_field: .at', []],
    ['limit: 1, window: 1s', ['--time=.at']],
  ] as const) {
    const config = configOf(t, 'type: stdin, decode: json', throttle)
    const { stdout } = await callSimulate([config, '--json', ...args], lines(line))
    t.match(JSON.parse(stdout), { time: '.at', to: START + 1100, results: [{ passed: 2 }] })
  }
})

t.test('some events without a time have that of the one before', async t => {
  const input = [{ time: START }, { msg: 'x' }, { time: 'soon' }, { time: START + 1000 }]
  const config = configOf(t, 'type: stdin, decode: json')
  const { stdout } = await callSimulate([config], input.map(event => `${JSON.stringify(event)}\n`).join(''))
  t.match(stdout, /^passed +2 /m)
  t.match(stdout, /^no time +2 events without a readable time: took the time of the one before$/m)
})

t.test('where no event has a time, it says where it looked, and what to do', async t => {
  const json = configOf(t, 'type: stdin, decode: json')
  const none = await callSimulate(
    [json],
    lines(time => JSON.stringify({ when: iso(time), n: 1 })),
  )
  t.equal(none.code, 1)
  t.equal(
    none.stderr.replace(/\s+/g, ' '),
    'sluice: no event has a time in .timestamp, .@timestamp, .time, .ts, .@t, .t, .datetime, .date, .eventTime: name the field that holds it with --time; the fields of the events are .when, .n ',
  )
  // Lines of a container runtime are text to a source that does not decode them.
  const text = await callSimulate(
    [configOf(t, 'type: stdin, decode: text')],
    lines(time => `${iso(time)} stdout F x`),
  )
  t.equal(text.code, 1)
  t.match(text.stderr, /: lines of text have none; their source needs another decode, or try .* live events with --tap/)
})
