import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { casesOf } from '../support/cases.js'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { callSimulate } from '../support/simulate.js'
import { sluice } from '../support/sluice.js'
import { linesOf, vectorFiles, vectorsOf } from '../support/vectors.js'

function yaml(throttle: Record<string, unknown>): string {
  const options = Object.entries(throttle).map(([name, value]) => `    ${name}: ${JSON.stringify(value)}\n`)
  return `sources:
  in: { type: stdin, decode: json }
processors:
  limit_app:
    type: throttle
    inputs: [in]
${options.join('')}  other: { type: filter, inputs: [in], condition: if (.a exists) }
destinations:
  out: { type: blackhole, inputs: [limit_app, other] }
`
}

const WORKED = { limit: 1, window: '1 Seconds', key_field: '.app', exclude: "if (.host equal 'edge-1')" }

/** Simulates the throttle limit_app. */
async function simulate(config: string, args: readonly string[], input = '', time = '.t') {
  const called = await callSimulate(['--config', config, '--component', 'limit_app', '--time', time, ...args], input)
  const decisions = () => called.stdout.split('\n').flatMap(line => (line ? [JSON.parse(line)] : []))
  return { ...called, decisions }
}

function folder(t: Test, throttle: Record<string, unknown> = WORKED, files: Record<string, string> = {}): string {
  return testFolder(t, { 'sluice.yaml': yaml(throttle), ...files })
}

t.test('the vectors hold', async t => {
  const dir = testFolder(t)
  const config = join(dir, 'sluice.yaml')
  for (const vector of vectorFiles.flatMap(vectorsOf)) {
    writeFileSync(config, yaml(vector.config))
    const { code, decisions, stderr } = await simulate(config, ['--decisions'], linesOf(vector))
    t.equal(code, 0, stderr)
    t.same(
      decisions().map(({ n, decision }) => [n, decision]),
      vector.events.map(({ decision }, n) => [n, decision]),
      vector.name,
    )
  }
})

t.test('the program: one decision a line, in order, with its bucket; the summary is beside it', async t => {
  const dir = folder(t)
  const lines = [
    { t: 0, app: 'a', host: 'h1' },
    { t: 10, app: 'b', host: 'h2' },
    { t: 20, app: 'a', host: 'h1' },
    { t: 30, app: 'a', host: 'edge-1' },
    { t: 40, app: 7 },
    { t: 50 },
    { t: 60, app: 'é"\n' },
    { t: 1000, app: 'a' },
  ]
  const run = sluice(
    ['simulate', '--config', 'sluice.yaml', '--component', 'limit_app', '--time', '.t', '--decisions'],
    { cwd: dir },
  )
  run.child.stdin!.end(`${lines.map(line => JSON.stringify(line)).join('\n')}\nnot json`)
  t.equal(await run.exit, 0, run.stderr)
  const expected = `{"n":0,"decision":"pass","bucket":"a"}
{"n":1,"decision":"pass","bucket":"b"}
{"n":2,"decision":"discard","bucket":"a"}
{"n":3,"decision":"excluded","bucket":"a"}
{"n":4,"decision":"pass","bucket":"7"}
{"n":5,"decision":"pass","bucket":null}
{"n":6,"decision":"pass","bucket":"é\\"\\n"}
{"n":7,"decision":"pass","bucket":"a"}
{"n":8,"decision":"discard","bucket":null}
`
  t.equal(run.stdout, expected)
  t.match(run.stderr, /^simulated {2}limit_app of sluice\.yaml\n/)
  t.match(run.stderr, /^passed +6 +66\.7 %$/m)
})

t.test('with several fields as key the bucket is shown as the JSON array of their texts', async t => {
  const config = join(folder(t, { limit: 1, window: '1s', key_field: ['.app', '.host'] }), 'sluice.yaml')
  const events = [
    { app: 'a', host: 'h' },
    { app: 'a' },
    { host: 'h' },
    { app: 'a', host: 'h' },
    {},
    { app: 1, host: '"' },
  ]
  const input = events.map(event => `${JSON.stringify({ ...event, t: 0 })}\n`).join('')
  const { decisions } = await simulate(config, ['--decisions'], input)
  t.same(
    decisions().map(({ decision, bucket }) => [decision, bucket]),
    [
      ['pass', '["a","h"]'],
      ['pass', '["a",null]'],
      ['pass', '[null,"h"]'],
      ['discard', '["a","h"]'],
      ['pass', null],
      ['pass', '["1","\\""]'],
    ],
  )
})

t.test('times: numbers and ISO 8601; without one, that of the event before', async t => {
  const config = join(folder(t, { limit: 1, window: '1s' }), 'sluice.yaml')
  const lines = [
    '{"t":"no time yet: 0"}',
    '{"t":999}',
    '{"t":1000}',
    '{"t":"1970-01-01T00:00:01.999Z"}',
    '{"t":"1970-01-01T02:00:02+02:00"}',
    '{"t":null}',
    '{}',
    '[2999]',
    'x',
    '',
    '{"t":"1970-01-01T00:00:03.\\u0030Z"}',
    '{"t":"4000"}',
    '{"t":true}',
    '{"t":1e400}',
    '{"t":4000.0}',
    '{"t":{}}',
    '{"t":5e3}',
  ]
  const { decisions, stderr } = await simulate(config, ['--decisions'], lines.map(line => `${line}\n`).join(''))
  const passes = decisions().flatMap(({ n, decision }) => (decision === 'pass' ? [n] : []))
  t.same(passes, [0, 2, 4, 10, 11, 16])
  t.equal(decisions().length, lines.length, 'each line has its decision')
  t.match(stderr, /^undecoded {2}3 lines not a JSON object: read as text$/m)
  t.match(stderr, /^no time {4}9 events without a readable \.t/m)
  t.match(stderr, /^time {7}1970-01-01T00:00:00.999Z to 1970-01-01T00:00:05.000Z \(4s\)$/m)
  const back = await simulate(config, [], '{"t":5000}\n{"t":2000}\n{"t":4500}\n{"t":3000}\n')
  t.match(back.stdout, /^order {6}2 events earlier than the previous event, by up to 3s$/m)
  t.match(back.stdout, /^discarded {2}3 /m)
  const seconds = await simulate(config, [], '{"t":1760000000}\n{"t":1760000060.5}\n')
  t.match(seconds.stdout, /look like seconds/)
})

t.test('a line of text has no time, though it has a field of that name; its other fields are read', async t => {
  const config = join(folder(t, { limit: 1, window: '1s', key_field: '.message' }), 'sluice.yaml')
  const { decisions, stderr } = await simulate(config, ['--decisions'], 'a\nb\na\n{"timestamp":1}\n', '.timestamp')
  t.same(
    decisions().map(({ decision, bucket }) => [decision, bucket]),
    [
      ['pass', 'a'],
      ['pass', 'b'],
      ['discard', 'a'],
      ['pass', null],
    ],
  )
  t.match(stderr, /^no time {4}3 events without a readable/m)
})

t.test('beyond max_keys: the bucket that counted, and how many there were', async t => {
  const input = ['a', 'b', 'c', 'd', 'a'].map((k, n) => `{"t":${n},"k":"${k}"}\n`).join('')
  for (const [on_max_keys, expected, remark] of [
    [
      'pass',
      ['pass a', 'pass b', 'pass c', 'pass d', 'discard a'],
      /^fail_open {2}2 events of keys beyond max_keys passed/m,
    ],
    ['discard', ['pass a', 'pass b', 'discard c', 'discard d', 'discard a'], /^refused {4}2 events of keys beyond/m],
    ['default_bucket', ['pass a', 'pass b', 'pass null', 'discard null', 'discard a'], /^\(default bucket\) +2 /m],
  ] as const) {
    const config = join(folder(t, { limit: 1, window: '1s', key_field: '.k', max_keys: 2, on_max_keys }), 'sluice.yaml')
    const { decisions, stderr } = await simulate(config, ['--decisions'], input)
    t.same(
      decisions().map(({ decision, bucket }) => `${decision} ${bucket}`),
      expected,
    )
    t.match(stderr, remark)
  }
})

t.test('several inputs are one sequence; a line ends with its file', async t => {
  const dir = folder(
    t,
    { limit: 2, window: '1s', key_field: '.k' },
    {
      'a.ndjson': '{"t":0,"k":"a"}\r\n{"t":1,"k":"a"}',
      'b.ndjson': '{"t":3,"k":"a"}\n',
      'empty.ndjson': '',
    },
  )
  const [config, a, b, empty] = ['sluice.yaml', 'a.ndjson', 'b.ndjson', 'empty.ndjson'].map(name => join(dir, name))
  const { decisions } = await simulate(config!, ['--decisions', a!, '-', empty!, b!], '{"t":2,"k":"a"}')
  t.same(
    decisions().map(({ n, decision }) => [n, decision]),
    [
      [0, 'pass'],
      [1, 'pass'],
      [2, 'discard'],
      [3, 'discard'],
    ],
  )
})

t.test('options of the command line stand in for the configured ones', async t => {
  const config = join(folder(t), 'sluice.yaml')
  const input = Array.from({ length: 40 }, (_, n) => `{"t":${n * 100},"app":"a","host":"h${n % 2}"}\n`).join('')
  const passed = async (...args: string[]) => {
    const { stdout, stderr } = await simulate(config, args, input)
    return [/^passed +(\d+)/m, /^excluded +(\d+)/m].map(pattern => Number(pattern.exec(stdout)?.[1] ?? stderr))
  }
  t.same(await passed(), [4, 0])
  t.same(await passed('--limit', '3'), [12, 0])
  t.same(await passed('--window', '500ms'), [8, 0])
  t.same(await passed('--key', '.host'), [8, 0])
  t.same(await passed('--exclude', 'if (.host equal h1)'.replace('h1', "'h1'")), [4, 20])
  t.same(await passed('--limit=2', '--window=2 Seconds', '--key=.host'), [8, 0])
})

t.test('what is wrong is told, with what was probably meant', async t => {
  const dir = folder(t)
  const config = join(dir, 'sluice.yaml')
  writeFileSync(join(dir, 'wrong.yaml'), yaml({ limit: 0, window: '1s' }))
  const cases: [number, string, string[]][] = casesOf(import.meta.url, 'wrong')
  for (const [code, message, args] of cases) {
    const given = new Map([
      ['--component', 'limit_app'],
      ['--time', '.t'],
    ])
    const rest = args
      .map(arg => arg.replace('DIR', dir))
      .filter(arg => {
        const [name = '', value = ''] = arg.split(/=(.*)/s)
        return !given.has(name) || !given.set(name, value)
      })
    const required = [...given].map(([name, value]) => `${name}=${value}`)
    const { code: got, ...text } = await callSimulate(['-c', config, ...required, ...rest])
    const expected = `sluice: ${message.replaceAll('CONFIG', config).replace('DIR', dir)}\n${code === 2 ? 'Try: sluice simulate --help\n' : ''}`
    t.same({ got, ...text }, { got: code, stdout: '', stderr: expected }, args.join(' '))
  }
  const wrong = await simulate(join(dir, 'wrong.yaml'), [])
  t.equal(wrong.code, 78)
  t.match(wrong.stderr, /wrong\.yaml:7:12: processors\.limit_app\.limit: must be at least 1/)
})

t.test('the summary: totals and a table by key that fits a terminal', async t => {
  const exclude = "if (.x equal 'y' OR NOT (.n less 5))"
  const dir = folder(t, { limit: 9, window: '1 Minutes', key_field: '.k', exclude })
  const events = [
    ...Array.from({ length: 1200 }, (_, n) => ({ t: n * 100, k: 'busy' })),
    ...Array.from({ length: 3 }, (_, n) => ({
      t: 120_000 + n,
      k: 'a key that is longer than the column of keys can be, by far',
    })),
    ...Array.from({ length: 2 }, (_, n) => ({ t: 130_000 + n, k: '日本語', n })),
    { t: 130_010, k: 'a\u001b[31m' },
    { t: 130_010 },
    ...Array.from({ length: 30 }, (_, n) => ({ t: 140_000, k: `k${String(n).padStart(2, '0')}`, n: 9 })),
  ]
  const args = ['simulate', '-c', 'sluice.yaml', '--component=limit_app', '--time=.t', '--limit', '2']
  const stdin = events.map(event => `${JSON.stringify({ n: 0, ...event })}\n`).join('')
  const run = await command(args, { cwd: dir, stdin })
  t.equal(run.code, 0)
  t.equal(run.stderr, '')
  const first15 = Array.from({ length: 15 }, (_, n) => `k${String(n).padStart(2, '0')}`)
  const [head, ...lines] = run.stdout.split('\n\n')
  const expected = `simulated  limit_app of sluice.yaml, with --limit 2
throttle   limit 2 in 1 minute by .k, fixed windows
exclude    if (.x equal 'y' OR NOT .n less '5')
max_keys   100,000, beyond it pass
input      standard input`
  t.equal(head, expected)
  t.equal(
    lines.join('\n\n'),
    `events     1,237
passed        10    0.8 %
discarded  1,197   96.8 %
excluded      30    2.4 %
time       1970-01-01T00:00:00.000Z to 1970-01-01T00:02:20.000Z (2m 20s)

key                          events  passed  discarded  excluded  busiest window
busy                          1,200       4      1,196         0             600
a key that is longer than …       3       2          1         0               3
日本語                            2       2          0         0               2
(default bucket)                  1       1          0         0               1
a\\u{1b}[31m                       1       1          0         0               1
${first15.map(name => `${name}                               1       0          0         1               0\n`).join('')}other (15 keys)                  15       0          0        15

processors:
  limit_app:
    type: throttle
    inputs: [in]
    limit: 2
    window: 1 Minutes
    key_field: .k
    exclude: "if (.x equal 'y' OR NOT (.n less 5))"
`,
  )
})

t.test('the report is one page that needs nothing else', async t => {
  const dir = folder(t)
  const report = join(dir, 'out.html')
  const events = Array.from({ length: 500 }, (_, n) => ({
    t: 1_760_000_000_000 + n * 60_000,
    app: n % 5 ? '<script>alert(1)</script>' : `k&${n}`,
  }))
  const input = events.flatMap(event => [event, event]).map(event => `${JSON.stringify(event)}\n`)
  const { code, stderr } = await simulate(join(dir, 'sluice.yaml'), ['--report', report, '--limit=1'], input.join(''))
  t.equal(code, 0, stderr)
  const page = readFileSync(report, 'utf8')
  t.match(page, /^<!doctype html>/)
  t.notMatch(page, /<link|<img|src=|href="[^#]|@import|url\([^#]|https?:/, 'nothing comes from elsewhere')
  t.match(page, '&#60;script&#62;alert(1)&#60;/script&#62;')
  t.match(page, 'k&#38;0')
  t.match(page, /All events over time: .* In all, passed: 500; discarded: 500\./, 'the bars are all events')
  t.match(page, 'with --limit 1')
  const open: string[] = []
  for (const [, close, name] of page.matchAll(/<(\/?)([a-z0-9]+)(?:\s[^>]*[^/])?>/g)) {
    if (name === 'meta') continue
    if (!close) open.push(name!)
    else if (open.pop() !== name) t.fail(`</${name}> closes another element`)
  }
  t.same(open, [], 'all elements are closed')
})

t.test('a long input is streamed, and a reader that leaves early is no failure', async t => {
  const dir = folder(t, { limit: 10, window: '1s', key_field: '.k' })
  const args = ['simulate', '-c', 'sluice.yaml', '--component=limit_app', '--time=.t', '--decisions']
  const run = sluice(args, { cwd: dir, env: { NODE_OPTIONS: '--max-old-space-size=64' } })
  const filler = 'x'.repeat(150)
  let n = 0
  const lines = Readable.from(
    (function* () {
      while (n < 400_000) {
        let piece = ''
        for (let i = 0; i < 1000; i++, n++) piece += `{"t":${n},"k":"k${n % 100}","m":"${filler}"}\n`
        yield piece
      }
    })(),
  )
  lines.pipe(run.child.stdin!)
  t.equal(await run.exit, 0, run.stderr)
  t.match(run.stderr, /^events +400,000$/m)
  t.match(run.stdout.slice(-60), /\n\{"n":399999,"decision":"pass","bucket":"k99"\}\n$/)

  const early = sluice(args, { cwd: dir })
  early.child.stdin!.on('error', () => {})
  early.child.stdin!.write(`{"t":1,"k":1}\n`.repeat(100_000))
  await early.until(() => early.stdout.length > 0)
  early.child.stdout!.destroy()
  early.child.stdin!.end(`{"t":1,"k":1}\n`.repeat(100_000))
  t.equal(await early.exit, 0)
})

/** A configuration with `processors` in the place of the only throttle, and what `args` and `input` give in it. */
async function before(t: Test, yaml: string, args: readonly string[], input = '', time = '.t') {
  mkdirSync(t.testdirName, { recursive: true })
  const config = join(t.testdirName, 'sluice.yaml')
  writeFileSync(config, `${yaml}\ndestinations: { out: { type: blackhole, inputs: [limit_app] } }\n`)
  const { code, decisions, stderr, stdout } = await simulate(config, ['--decisions', ...args], input, time)
  const all = stdout.startsWith('{') ? decisions().map(({ n, decision, bucket }) => `${n} ${decision} ${bucket}`) : []
  return { code, all, stdout, stderr: stderr.replace(/\s+/g, ' ') }
}

t.test('sliding and gcra do not have event time: validate says it, and simulate tries them on the times', async t => {
  const timed = { limit: 2, window: '1s', time_field: '.t', on_late: 'discard' }
  const of = (throttle: Record<string, unknown>) =>
    join(testFolder(t, { 'sluice.yaml': yaml(throttle) }), 'sluice.yaml')
  const text = (mode: string) =>
    `${mode} cannot be combined with time_field: the windows of event time are fixed, aligned or calendar periods; set window_mode: fixed or aligned, set quota instead of window, or remove time_field`
  for (const [more, place] of [
    [{ window_mode: 'sliding' }, '11:18: processors.limit_app.window_mode: sliding'],
    [{ window_mode: 'gcra' }, '11:18: processors.limit_app.window_mode: gcra'],
    [
      { also: [{ limit: 9, window: '1m', window_mode: 'gcra' }] },
      '11:51: processors.limit_app.also[0].window_mode: gcra',
    ],
    [
      { limits: [{ when: 'if (.a exists)', window_mode: 'sliding' }] },
      '11:53: processors.limit_app.limits[0].window_mode: sliding',
    ],
  ] as const) {
    const path = of({ ...timed, ...more })
    const { code, stderr } = await command(['validate', path])
    const [where, mode] = [place.slice(0, place.lastIndexOf(' ')), place.slice(place.lastIndexOf(' ') + 1)]
    t.equal(code, 78, place)
    t.match(stderr.replace(/\s+/g, ' '), `${path}:${where} ${text(mode)}`)
  }
  const input = [0, 0, 600, 900, 1000, 1400, 1600, 2000].map(at => `{"t":${at}}\n`).join('')
  for (const mode of ['fixed', 'aligned', 'sliding', 'gcra']) {
    const { on_late, time_field, ...clock } = timed
    const alone = await simulate(of({ ...clock, window_mode: mode }), ['--decisions'], input)
    const tried = await callSimulate([of(timed), `--window-mode=${mode}`, '--limit=2', '--decisions'], input)
    t.equal(tried.code, 0, tried.stderr)
    t.equal(tried.stdout, alone.stdout, mode)
    t.match(tried.stdout, '"discard"')
    const isOnClock = mode === 'sliding' || mode === 'gcra'
    t.equal(/^time_field not with this window mode: a daemon/m.test(tried.stderr), isOnClock, tried.stderr)
    t.equal(/^ {4}time_field: \.t$/m.test(tried.stderr), !isOnClock, 'the configuration to paste is valid')
  }
})

t.test('processors before the throttle are applied, on all ways to it', async t => {
  const input = '{"t":1,"b":1}\n{"t":2,"a":1}\n{"t":3,"a":2,"b":1}\n{"t":1004,"a":3}\n{"t":1005,"a":3}\n'
  const decided = (inputs: string) =>
    before(
      t,
      `sources: { in: { type: stdin, decode: json } }
processors:
  wanted: { type: filter, inputs: [in], condition: if (.a exists) }
  first: { type: throttle, inputs: [wanted], limit: 1, window: 1s }
  in_time: { type: throttle, inputs: [wanted], limit: 1, window: 1s, time_field: .t }
  both: { type: filter, inputs: [wanted.discarded, first.discarded], condition: if (.b exists) }
  limit_app: { type: throttle, inputs: [${inputs}], limit: 2, window: 1h }`,
      [],
      input,
    )
  const filtered = await decided('wanted')
  t.same(filtered.all, ['1 pass null', '2 pass null', '3 discard null', '4 discard null'])
  t.match(filtered.stderr, /applied wanted \(filter\) events 4 /)
  t.match(filtered.stderr, /before 1 event discarded before limit_app, not counted above: 1 by wanted/)
  t.same((await decided('wanted.discarded')).all, ['0 pass null'])
  const throttled = await decided('first')
  t.same(throttled.all, ['1 pass null', '3 pass null'], 'a throttle before it has the time of the events')
  t.match(throttled.stderr, /not counted above: 1 by wanted, 2 by first/)
  t.same((await decided('in_time')).all, ['1 pass null', '3 pass null'])
  t.same((await decided('first.discarded')).all, ['2 pass null', '4 pass null'])
  t.same((await decided('both')).all, ['0 pass null', '2 pass null'], 'several inputs')
  const twice = await decided('in, wanted')
  t.same(twice.all.slice(0, 4), ['0 pass null', '1 pass null', '1 discard null', '2 discard null'], 'it comes twice')
  const none = await before(
    t,
    `sources: { in: { type: stdin, decode: json } }
processors:
  none: { type: filter, inputs: [in], condition: if (.x exists) }
  limit_app: { type: throttle, inputs: [none], limit: 1, window: 1h }`,
    [],
    input,
  )
  t.equal(none.code, 0)
  t.match(none.stderr, /events 0 .*before 5 events discarded before limit_app, not counted above: 5 by none/)
})

t.test('lines are decoded as the source of the throttle does', async t => {
  const yaml = (source: string, key: string) => `sources: { in: { ${source} } }
processors: { limit_app: { type: throttle, inputs: [in], limit: 1, window: 1h, key_field: ${key} } }`
  const syslog = [
    '<13>1 2026-01-01T00:00:00Z web app 7 - - one',
    '<13>1 2026-01-01T00:00:01Z web cron - - - two',
    'no syslog',
    '<13>1 - web app - - - without a time',
  ]
  const lines = (texts: readonly string[]) => texts.map(text => `${text}\n`).join('')
  const decoded = await before(t, yaml('type: stdin, decode: syslog', '.app'), [], lines(syslog), '.timestamp')
  t.same(decoded.all, ['0 pass app', '1 pass cron', '2 pass null', '3 discard app'])
  t.match(decoded.stderr, /undecoded 1 line not a syslog message: read as text no time 2 events without/)
  t.match(decoded.stderr, /applied decode: syslog of in/)
  const columns = yaml('type: stdin, decode: { codec: csv, columns: [time, app] }', '.app')
  const csv = ['2026-01-01T00:00:00Z,web', 'none', '2026-01-01T00:00:01Z,"web"', '2026-01-01T00:00:02Z,cron']
  const named = await before(t, columns, [], lines(csv), '.time')
  t.same(named.all, ['0 pass web', '1 pass null', '2 discard web', '3 pass cron'])
  t.match(named.stderr, /undecoded 1 line not CSV: read as text/)
  t.match(named.stderr, /applied decode: csv \{"columns":\["time","app"\]\} of in/)
  const timeless = await before(t, columns, [], lines(csv), '.timestamp')
  t.match(timeless.stderr, /no event has a time in \.timestamp.*the fields of the events are \.time, \.app, \.host/)
  const dir = testFolder(t, { 'a.log': 'one\n  more\ntwo\none\n  more\n' })
  const file = `${dir}/a.log`
  const several = yaml('type: file, include: [/none], multiline: { continue: "^ " }', '.message')
  const text = await before(t, several, [file], '', '.message')
  t.equal(text.code, 1)
  t.match(text.stderr, 'the fields of the events are .message, .file, .host')
  const tapped = ['one', 'two', 'one'].map((message, n) =>
    JSON.stringify({ message, file: '/var/log/a.log', host: 'h', timestamp: `2026-01-01T00:00:0${n}.000Z` }),
  )
  const recorded = await before(t, several, [], lines(tapped), '.timestamp')
  t.same(recorded.all, ['0 pass one', '1 pass two', '2 discard one'], 'as sluice tap shows them')
  const entries = ['nginx', 'cron', 'nginx'].map((name, n) =>
    JSON.stringify({
      __CURSOR: `s=${n}`,
      __REALTIME_TIMESTAMP: `${1_760_000_000 + n}000000`,
      SYSLOG_IDENTIFIER: name,
      MESSAGE: 'x',
    }),
  )
  const journal = await before(t, yaml('type: journald', '.app'), [], lines(entries), '.timestamp')
  t.same(journal.all, ['0 pass nginx', '1 pass cron', '2 discard nginx'], 'as journalctl --output=json writes them')
})

t.test('several sources: an input says whose events it has where that makes a difference', async t => {
  const dir = testFolder(t, { 'app.log': '{"t":1}\n{"t":2,"debug":1}\n', 'sys.log': 'x\ny\n' })
  const yaml = (decode: string, inputs: string) => `sources:
  app: { type: file, include: [/none/app], decode: json }
  sys: { type: file, include: [/none/sys], decode: ${decode} }
processors:
  quiet: { type: filter, inputs: [${inputs}], condition: if (NOT .debug exists) }
  limit_app: { type: throttle, inputs: [quiet, sys], limit: 2, window: 1h }`
  const args = [`app=${dir}/app.log`, `sys=${dir}/sys.log`]
  const named = await before(t, yaml('text', 'app'), args)
  t.same(named.all, ['0 pass null', '2 pass null', '3 discard null'])
  const unnamed = await before(t, yaml('text', 'app'), [`${dir}/app.log`])
  t.equal(unnamed.code, 2)
  t.match(
    unnamed.stderr,
    'app and sys reach limit_app in different ways; name the source in front of each input, as in app=FILE',
  )
  const alike = (await before(t, yaml('json', 'app, sys').replace('[quiet, sys]', '[quiet]'), [`${dir}/app.log`])).all
  t.same(alike, ['0 pass null'])
})

t.test('without the time or the key in any event: an error with the fields that there are, and no numbers', async t => {
  const dir = folder(t)
  const config = join(dir, 'sluice.yaml')
  const report = join(dir, 'report.html')
  const refused = async (input: string, args: readonly string[] = []) => {
    const { code, stdout, stderr } = await simulate(config, ['--report', report, ...args], input)
    t.same({ code, stdout }, { code: 1, stdout: '' })
    t.throws(() => readFileSync(report))
    return stderr
  }
  t.equal(
    await refused('{"app":"a","time":1,"x y":2}\n', ['--decisions']),
    'sluice: no event has a time in .t: name the field that holds it with --time; the fields of the events are .app, .time, ."x y"\n',
  )
  t.equal(
    await refused('{"t":1}\n{"t":2,"host":"h"}\n'),
    'sluice: no event has the key .app: correct key_field, or name another field with --key; the fields of the events are .t, .host\n',
  )
  t.match(
    await refused('a\nb\n'),
    /no event has a time .*no event has the key .*; 2 lines not a JSON object; the fields/,
  )
  const sound = await simulate(config, ['--report', report], '{"t":1}\n{"t":2,"app":"a"}\n')
  t.equal(sound.code, 0)
})

t.test('a processor before the throttle that cannot be simulated leads to what can', async t => {
  const folder = testFolder(t, {
    'sluice.yaml': `sources: { in: { type: stdin } }
processors:
  merged: { type: reduce, inputs: [in], key_field: .client, timeout: 5s }
  limit_app: { type: throttle, inputs: [merged], limit: 1, window: 1s, key_field: .client }
destinations: { out: { type: stdout, inputs: [limit_app] } }
`,
  })
  const { code, stderr } = await simulate(join(folder, 'sluice.yaml'), [], 'x\n')
  t.equal(code, 2)
  t.match(stderr, /merged is before the throttle.*--tap limit_app .*sluice tap merged > FILE/)
})
