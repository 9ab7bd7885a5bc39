import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { SimulationResult } from '../../src/simulate/result.js'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { callSimulate } from '../support/simulate.js'
import { sluice } from '../support/sluice.js'

t.test('--tap tries throttles on what a throttle of a running daemon gets', async t => {
  // The path of a socket has to be short.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const log = join(folder, 'app.log')
  const config = join(folder, 'sluice.yaml')
  writeFileSync(log, '')
  const text = `data_dir: ${folder}/state
metrics: false
shutdown_timeout: 1s
sources: { app: { type: file, include: [${log}], decode: json } }
processors:
  wanted: { type: filter, inputs: [app], condition: "if (NOT .app equal 'noise')" }
  lim: { type: throttle, inputs: [wanted], limit: 2, window: 1h, key_field: .app }
destinations: { out: { type: blackhole, inputs: [lim] } }
`
  writeFileSync(config, text)
  const daemon = sluice(['run', '--config', config], { cwd: folder })
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  let n = 0
  const writing = setInterval(() => {
    for (const app of ['a', 'b', 'noise', 'a']) appendFileSync(log, `{"app":"${app}","n":${n++},"m":"# x"}\n`)
  }, 10)
  t.teardown(() => clearInterval(writing))

  const tap = await command(['simulate', '--tap=lim', '--for=3s', '-c', config, '--limit=2,5,100000', '--json'])
  t.equal(tap.code, 0, tap.stderr)
  const result = JSON.parse(tap.stdout) as SimulationResult
  t.equal(result.complete, true)
  t.ok(result.events > 12, `${result.events} events`)
  const [a, b] = ['a', 'b'].map(key => result.results[2]!.by_key.find(row => row.key === key)!.passed)
  t.equal(a! + b!, result.events, 'the daemon applies what is before the throttle')
  t.ok(Math.abs(a! - 2 * b!) <= 3, `${a} and ${b}`)
  t.same(
    result.results.map(({ limit, passed, window_ms }) => [limit, passed, window_ms]),
    [
      [2, 4, 3_600_000],
      [5, 10, 3_600_000],
      [100_000, result.events, 3_600_000],
    ],
  )
  t.match(result.notes, [{ name: 'time' }, { name: 'tap', text: 'no event was skipped' }])
  t.equal(result.time, null)

  const interrupted = sluice(['simulate', '--tap', 'lim', '--for=1h', '-c', config, '--limit=3'])
  await interrupted.until(() => interrupted.stderr.includes('tapping wanted for 1h 0m'))
  const seen = n
  await interrupted.until(() => n > seen + 1200)
  interrupted.child.kill('SIGINT')
  t.equal(await interrupted.exit, 0, interrupted.stderr)
  t.match(interrupted.stdout, /^passed +6 /m, 'Ctrl-C ends it')

  for (const [args, code, message] of [
    [['--tap=lim'], 2, '--tap needs --for DURATION'],
    [['--tap=other', '--for=1s'], 2, '--tap: there is no component other'],
    [['--tap=lim', '--for=1s', '--suggest=keep 9%'], 2, '--tap sees each event once'],
    [['--tap=lim', '--for=1s', 'x.log'], 2, '--tap reads from a daemon'],
    [['--tap=lim', '--for=1s', '--key=.none'], 1, 'no event has the key .none'],
    [['--tap=lim', '--for=1s', '--socket=/none'], 1, 'there is no daemon at /none'],
  ] as const) {
    const got = await callSimulate(['-c', config, ...args])
    t.equal(got.code, code, got.stderr)
    t.match(got.stderr, message)
  }

  const left = sluice(['simulate', '--tap=lim', '--for=1h', '-c', config])
  await left.until(() => left.stderr.includes('tapping'))
  daemon.child.kill('SIGKILL')
  t.equal(await left.exit, 1)
  t.match(left.stderr, 'the daemon has ended')
})

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
  t.match(stdout, /^no time +2 events without a readable time: got the time of the previous event$/m)
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
  t.match(
    text.stderr,
    /: lines of text do not have a time; set another decode in their source, or try .* live events with --tap/,
  )
})
