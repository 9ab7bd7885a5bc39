import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sluiceMain } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { sluice } from '../support/sluice.js'

/** The command `sluice throttle`: a pipe without a configuration. */

const line = (n: number) => `{"app":"a${n % 2}","level":"${n % 10 === 0 ? 'error' : 'info'}","n":${n}}\n`
const LINES = Array.from({ length: 100 }, (_, n) => line(n)).join('')

t.test('passed lines are written as they came, discarded ones to the named file; the summary adds up', async t => {
  const folder = testFolder(t)
  const args = ['throttle', '--limit', '3', '--window', '1h', '--key', '.app', '--discarded', 'held-back']
  const running = sluice([...args, '--exclude', "if (.level equal 'error')"], { cwd: folder })
  running.child.stdin!.end(`${LINES}not JSON, no line end`)
  t.equal(await running.exit, 0)
  const passed = running.stdout.trimEnd().split('\n')
  const numbers = passed.filter(text => text.startsWith('{')).map(text => JSON.parse(text).n)
  t.same(numbers, [0, 1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60, 70, 80, 90])
  t.equal(passed.at(-1), 'not JSON, no line end')
  const discarded = readFileSync(join(folder, 'held-back'), 'utf8').trimEnd().split('\n')
  t.equal(discarded.length + passed.length, 101)
  t.same(
    [...discarded, ...passed.slice(0, -1)].sort(),
    LINES.trimEnd().split('\n').sort(),
    'every byte is in one of both',
  )
  const totals =
    /^sluice throttle: 101 events\n {2}passed +7 +6.9 %\n {2}discarded +84 +83.2 %\n {2}excluded +10 +9.9 %\n/
  t.match(running.stderr, totals)
  t.match(running.stderr, /^a1 +50 +3 +47 +0/m)
  for (const text of running.stderr.split('\n')) t.ok(text.length <= 80, text)
})

t.test('lines pass while the input is still open, and Ctrl-C prints the summary', async t => {
  const running = sluice(['throttle', '--limit', '2', '--window', '1h'])
  running.child.stdin!.write('one\ntwo\nthree\n')
  await running.until(() => running.stdout === 'one\ntwo\n')
  running.child.kill('SIGINT')
  t.equal(await running.exit, 0)
  t.equal(running.stderr, 'sluice throttle: 3 events\n  passed     2   66.7 %\n  discarded  1   33.3 %\n')
})

t.test('--time makes windows in the time of the events, --quiet leaves the summary out', async t => {
  const running = sluice(['throttle', '--limit', '1', '--window', '1s', '--time', '.ts', '--quiet'])
  running.child.stdin!.end([0, 500, 1000].map(ts => `{"ts":${ts + 1e12}}\n`).join(''))
  t.equal(await running.exit, 0)
  t.equal(running.stdout, '{"ts":1000000000000}\n{"ts":1000000001000}\n')
  t.equal(running.stderr, '')
})

t.test('the busiest window is one in which events count: with --time by their own times', async t => {
  const running = sluice(['throttle', '--limit', '2', '--window', '1s', '--key', '.app', '--time', '.ts'])
  const times = [0, 100, 200, 1000, 1100, 2000]
  running.child.stdin!.end(times.map(ts => `{"app":"a","ts":${ts + 1e12}}\n`).join(''))
  t.equal(await running.exit, 0)
  t.match(running.stderr, /^a +6 +5 +1 +0 +3$/m)
})

t.test('the events of a file count at their own times, with the decisions of simulate', async t => {
  const folder = testFolder(t)
  const time = (n: number) => new Date(1.7e12 + n * 130 - (n % 7 === 0 ? 900 : 0)).toISOString()
  const event = (n: number) => ({ app: `a${n % 3}`, ...(n % 11 !== 10 && { time: time(n) }), n })
  writeFileSync(
    join(folder, 'app.log'),
    Array.from({ length: 500 }, (_, n) => `${JSON.stringify(event(n))}\n`).join(''),
  )
  for (const mode of ['fixed', 'aligned', 'sliding', 'gcra']) {
    const flags = ['--limit', '2', '--window', '1s', '--key', '.app', '--window-mode', mode]
    const simulated = await command(['simulate', ...flags, '--decisions', 'app.log'], { cwd: folder })
    const expected = simulated.stdout.match(/"n":\d+,"decision":"pass"/g)!.map(text => Number(/\d+/.exec(text)))
    t.ok(expected.length > 100 && expected.length < 450, String(expected.length))
    const stdin = openSync(join(folder, 'app.log'), 'r')
    const { stdout, stderr, status } = spawnSync(process.execPath, [sluiceMain, 'throttle', ...flags], {
      stdio: [stdin],
    })
    closeSync(stdin)
    t.same(
      stdout
        .toString()
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line).n),
      expected,
      mode,
    )
    t.match(stderr.toString(), /^sluice: 45 events without a time: each counts at the time of the previous event\n/)
    t.equal(status, 0)
  }
})

t.test('a key that no line has is told at once, and is no success', async t => {
  const running = sluice(['throttle', '--limit', '5', '--window', '1h', '--key', '.ap', '--quiet'])
  running.child.stdin!.write(LINES)
  const warning =
    'sluice: not one of the first 100 lines has the key .ap, so all share one bucket: correct --key; the first line has the fields .app, .level, .n\n'
  await running.until(() => running.stderr === warning)
  running.child.stdin!.end(LINES)
  t.equal(await running.exit, 1)
  t.equal(running.stdout, `${LINES.split('\n').slice(0, 5).join('\n')}\n`)
  t.equal(running.stderr, warning, 'once')
})

const noFullDevice = existsSync('/dev/full') ? false : 'there is no /dev/full'
t.test('discarded lines that cannot be written are no success', { skip: noFullDevice }, async t => {
  const running = sluice(['throttle', '--limit', '1', '--window', '1h', '--discarded', '/dev/full'])
  running.child.stdin!.end('one\ntwo\n')
  t.equal(await running.exit, 1)
  t.match(running.stderr, /ENOSPC/)
  t.notMatch(running.stderr, /2 events/)
})

t.test('wrong flags are named, and the exit code is 2', async t => {
  for (const [flags, message] of [
    [['--limit', '0', '--window', '1s'], '--limit must be a whole number of at least 1'],
    [['--limit', '1', '--window', 'soon'], '--window: must be a duration'],
    [['--limit', '1', '--window', '1s', '--key', 'app'], '--key: '],
    [['--limit', '1', '--window', '1s', '--window-mode', 'round'], '--window-mode: '],
    [['--window', '1s'], '--limit N is missing'],
  ] as const) {
    const { code, stderr } = await command(['throttle', ...flags])
    t.equal(code, 2)
    t.match(stderr, message)
  }
  const folder = testFolder(t)
  const running = sluice(['throttle', '--limit', '1', '--window', '1s', '--discarded', 'no/such/folder'], {
    cwd: folder,
  })
  running.child.stdin!.end('a\nb\n')
  t.equal(await running.exit, 1)
  t.match(running.stderr, 'no/such/folder')
  t.equal(running.stdout, '', 'nothing is read before the file is open')
})

/** `sluice test` with throttles in which events wait. Nothing takes as long as it would in the daemon. */

const configOf = (throttle: string, tests: string) => `
data_dir: ./state
sources:
  app: { type: file, include: [./app.log], decode: json }
processors:
  limit_app: { type: throttle, inputs: [app], limit: 2, ${throttle} }
destinations:
  out: { type: blackhole, inputs: [limit_app, limit_app.discarded] }
tests:
  - name: waits
${tests}`

async function passes(t: Test, config: string) {
  const folder = testFolder(t, { 'sluice.yaml': config })
  const { code, stdout, stderr } = await command(['test', 'sluice.yaml'], { cwd: folder })
  t.equal(code, 0, stdout + stderr)
}

t.test('an event over the limit waits for room, or is discarded if there will be none in time', async t => {
  const tests = `
    steps:
      - { into: app, events: [{ app: a, n: 1 }, { app: a, n: 2 }, { app: a, n: 3 }, { app: b, n: 4 }, { app: a, n: 5 }] }
      - { into: app, events: [{ app: a, n: 6 }] }
      - { into: app, at: 25 Seconds, events: [{ app: a, n: 7 }] }
    expect:
      limit_app: [{ n: 1 }, { n: 2 }, { n: 4 }, { n: 3 }, { n: 5 }, { n: 7 }]
      limit_app.discarded: [{ n: 6 }]
`
  await passes(t, configOf('window: 10 Seconds, key_field: .app, over_limit: { wait: 12 Seconds }', tests))
})

t.test('a step in the meantime comes before what waits, if it is of another bucket', async t => {
  const tests = `
    steps:
      - { into: app, events: [{ app: a, n: 1 }, { app: a, n: 2 }, { app: a, n: 3 }] }
      - { into: app, at: 9 Seconds, events: [{ app: b, n: 4 }] }
      - { into: app, at: 11 Seconds, events: [{ app: b, n: 5 }] }
    expect: { limit_app: [{ n: 1 }, { n: 2 }, { n: 4 }, { n: 3 }, { n: 5 }] }
`
  await passes(t, configOf('window: 10 Seconds, key_field: .app, over_limit: { wait: 12 Seconds }', tests))
})

t.test('a step may be backlog, which is paced', async t => {
  const tests = `
    steps:
      - { into: app, backlog: true, events: [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }, { n: 5 }] }
      - { into: app, at: 3 Hours, events: [{ n: 6 }, { n: 7 }, { n: 8 }] }
    expect:
      limit_app: [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }, { n: 5 }, { n: 6 }, { n: 7 }]
      limit_app.discarded: [{ n: 8 }]
`
  await passes(t, configOf('window: 1 Hours, max_delay: 1 Days, on_backlog: pace', tests))
})

t.test('summaries come when their interval is over in the time of the test', async t => {
  const tests = `
    steps:
      - { into: app, events: [{ n: 1 }, { n: 2 }, { n: 3 }] }
      - { into: app, at: 15 Seconds, events: [{ n: 4 }] }
    expect: { limit_app.discarded: [{ n: 3 }, { message: throttled }, { n: 4 }, { message: throttled }] }
`
  await passes(t, configOf('window: 1 Minutes, summary: { every: 10 Seconds, to: discarded }', tests))
})
