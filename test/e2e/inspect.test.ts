import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { ComponentStatus } from '../../src/core/status-document.js'
import { statusDocument } from '../../src/core/status-document.js'
import { askSocket, textOf } from '../../src/daemon/admin/ask-socket.js'
import { HOST, listening, ownPort } from '../support/address.js'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { parsedLines } from '../support/parsed-lines.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

const CONFIG = `
data_dir: ./state
sources:
  app_logs: { type: file, include: [/var/log/app/*.log], decode: json }
  sys: { type: file, include: [/var/log/sys.log], multiline: { start: '^\\d' } }
processors:
  limit_app: { type: throttle, inputs: [app_logs], limit: 1, window: 1s, key_field: .app, exclude: "if (.host equal 'web-07')" }
destinations:
  upstream: { type: http, inputs: [limit_app, sys], url: http://127.0.0.1/v3/ingest/abc, buffer: { type: disk, max_bytes: 1MB } }
  rest: { type: file, inputs: [limit_app.discarded], path: ./rest.log }
`

/** Runs a command in a process of its own: once each, for its exit code and its end. */
async function program(args: readonly string[], cwd: string) {
  const run = sluice(args, { cwd })
  const code = await run.exit
  return { code, stdout: run.stdout, stderr: run.stderr }
}

t.test('tests of a configuration: steps in time, side outputs, destinations, events of several lines', async t => {
  const folder = testFolder(t, {
    'good.yaml': `${CONFIG}
tests:
  - name: one of each app in a second
    steps:
      - into: app_logs
        events: [{ app: a, n: 1 }, { app: a, n: 2 }, { app: b, n: 3 }, { app: a, host: web-07, n: 4 }]
      - { at: 999ms, into: app_logs, events: ['{"app":"a","n":5}'] }
      - { at: 1s, into: app_logs, events: [{ app: a, n: 6 }, { app: a, n: 7 }] }
    expect:
      app_logs: 7
      limit_app: [{ n: 1 }, { n: 3, app: b }, { n: 4 }, '{"app":"a","n":6}']
      limit_app.discarded: 3
      upstream: [{ n: 1 }, { n: 3 }, { n: 4 }, { n: 6 }]
      rest: [{ n: 2 }, { n: 5 }, { n: 7 }]
  - name: a stack trace is one event
    steps: [{ into: sys, events: ['1 error', '  at x', '2 fine'] }]
    expect: { sys: ["1 error\\n  at x", '2 fine'], upstream: 2, rest: [] }
`,
    'bad.yaml': `${CONFIG}
tests:
  - name: wrong
    steps: [{ into: app_logs, events: [{ app: a, n: 1 }, { app: a, n: 2 }, { app: c, n: 3 }] }]
    expect: { limit_app: [{ n: 1 }, { n: 2 }], upstream: 3 }
  - name: right
    steps: [{ into: app_logs, events: [{ app: a }] }]
    expect: { limit_app: 1 }
`,
    'changed.yaml': `${CONFIG.replace('limit: 1', 'annotate: true, limit: 1')}
tests:
  - name: a difference within a field
    steps: [{ into: app_logs, events: [{ app: a, n: 1 }, { app: a, n: 2 }] }]
    expect: { limit_app.discarded: [{ throttle: { limit: 2 } }] }
`,
    'unknown.yaml': `${CONFIG}
tests:
  - name: names that are not there
    steps: [{ into: app_log, events: [x] }, { into: limit_app, events: [x] }]
    expect: { limit_ap: 1, limit_app.dropped: 1 }
`,
  })
  const good = await command(['test', 'good.yaml'], { cwd: folder })
  t.equal(good.stdout, 'ok     one of each app in a second\nok     a stack trace is one event\n2 passed, 0 failed\n')
  t.same([good.code, good.stderr], [0, ''])
  t.notOk(existsSync(join(folder, 'state')), 'nothing is written')
  t.notOk(existsSync(join(folder, 'rest.log')))

  const bad = await program(['test', 'bad.yaml'], folder)
  t.equal(bad.code, 1)
  const expected = `failed wrong
       limit_app: not the expected events ( - missing, + unexpected )
           {"app":"a","n":1}
         - {"n":2}
         + {"app":"c","n":3}
       upstream: 2 events, expected 3
           {"app":"a","n":1}
           {"app":"c","n":3}
ok     right
1 passed, 1 failed
`
  t.equal(bad.stdout, expected)

  const changed = await command(['test', 'changed.yaml'], { cwd: folder })
  t.match(changed.stdout, '+ {"app":"a","n":2,"throttle":{"component":"limit_app","bucket":"a","limit":1,')

  const unknown = await command(['test', 'unknown.yaml'], { cwd: folder })
  t.equal(unknown.code, 78)
  t.match(unknown.stderr, /^unknown\.yaml:14:21: tests\[0\]\.steps\[0\]\.into: .*did you mean "app_logs"\?$/m)
  t.match(unknown.stderr, /steps\[1\]\.into: there is no source limit_app/)
  t.match(unknown.stderr, /expect\.limit_ap: there is no component limit_ap; did you mean "limit_app"\?/)
  t.match(unknown.stderr, /limit_app \(type throttle\) has no side output of this name/)

  const none = await command(['test', join(checkout, 'config/examples/stdin-pipe.yaml')])
  t.same([none.code, none.stdout], [1, ''])
  t.match(none.stderr, /there are no tests/)
})

t.test('the tests of the examples hold', async t => {
  const folder = join(checkout, 'config/examples')
  const tested = readdirSync(folder).filter(name => /^tests:/m.test(readFileSync(join(folder, name), 'utf8')))
  t.ok(tested.length > 0)
  for (const name of tested) {
    const { code, stdout } = await command(['test', join(folder, name)])
    t.equal(code, 0, `${name}: ${stdout}`)
  }
})

t.test('the topology as text, for Mermaid and for Graphviz', async t => {
  const folder = testFolder(t, { 'sluice.yaml': CONFIG })
  const graph = (...args: string[]) => command(['graph', ...args, 'sluice.yaml'], { cwd: folder })
  t.equal(
    (await graph()).stdout,
    `app_logs (file)
└─ limit_app (throttle)
   ├─ upstream (http)
   └─ .discarded → rest (file)
sys (file)
└─ upstream (http) ↑
`,
  )
  const { stdout: mermaid } = await graph('--format', 'mermaid')
  t.match(mermaid, /^flowchart LR\n/)
  t.match(mermaid, /\n {2}limit_app -\. discarded \.-> rest\n/)
  const { stdout: dot } = await graph('--format=dot')
  t.match(dot, /^digraph sluice \{\n/)
  t.match(dot, / {2}"sys" -> "upstream"\n/)
  const keywords = 'sources: { node: { type: stdin } }\ndestinations: { end: { type: stdout, inputs: [node] } }\n'
  writeFileSync(join(folder, 'sluice.yaml'), keywords)
  t.match((await graph('--format', 'mermaid')).stdout, '  END[("end<br/>stdout")]\n  node --> END\n')
  t.match((await graph('--format', 'dot')).stdout, '  "node" -> "end"\n')
  const wrong = await program(['graph', '--format', 'png', 'sluice.yaml'], folder)
  t.equal(wrong.code, 2)
  t.match(wrong.stderr, /text, mermaid, dot/)
})

t.test('status, top and tap of a running daemon, through its socket', async t => {
  // The path of a socket has to be short.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const log = join(folder, 'app.log')
  writeFileSync(log, '')
  const nobody = `http://${HOST}:${await ownPort()}/`
  const yaml = `data_dir: ./state
metrics: false
shutdown_timeout: 1s
sources: { app: { type: file, include: [${log}], decode: json } }
processors: { lim: { type: throttle, inputs: [app], limit: 3, window: 1h, key_field: .app, limits: [{ when: "if (.hot equal 'yes')", limit: 9 }] } }
destinations:
  out: { type: file, inputs: [lim], path: ./out.log, encoding: raw }
  gone: { type: http, inputs: [lim], url: '${nobody}', buffer: { type: disk, max_bytes: 10MB } }
`
  writeFileSync(join(folder, 'sluice.yaml'), yaml)
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  const socket = join(folder, 'state/sluice.sock')
  t.equal(statSync(socket).mode & 0o777, 0o600, 'for its user alone')
  let n = 0
  const write = (count: number) => {
    for (const end = n + count; n < end; n++) appendFileSync(log, `{"app":"${n % 2 ? 'a' : 'b'}","n":${n}}\n`)
  }
  const writing = setInterval(() => write(5), 20)
  t.teardown(() => clearInterval(writing))
  const look = (...args: string[]) => command([...args, '--config', 'sluice.yaml'], { cwd: folder })
  const events = (text: string) => parsedLines(text)

  const where = ['--where', "if (.app equal 'a')"]
  const tapped = await program(['tap', 'app', '--limit', '4', ...where, '--config', 'sluice.yaml'], folder)
  t.equal(tapped.code, 0, tapped.stderr)
  const [first, ...rest] = events(tapped.stdout)
  t.match([first, ...rest], [{ app: 'a' }, { app: 'a' }, { app: 'a' }, { app: 'a' }])
  t.same(
    rest.map(({ n }) => n - first.n),
    [2, 4, 6],
    'in order, none left out',
  )
  const discarded = await look('tap', 'lim', '--discarded', '--limit', '2')
  t.equal(events(discarded.stdout).length, 2, 'what nobody reads can be watched')
  for (const of of [
    ['--config', 'sluice.yaml'],
    ['--socket', socket],
  ])
    t.same(
      (await program(['complete', 'tap', ...of, ''], folder)).stdout.trim().split('\n'),
      ['app', 'lim', 'out', 'gone', 'lim.discarded'],
      'and its name is completed',
    )
  const unknown = await look('tap', 'limm')
  t.equal(unknown.code, 1)
  t.match(unknown.stderr, /there is no limm; there are app, gone, lim, lim\.discarded, out/)
  t.match(await look('tap', 'app', '--where', 'if (.app equals)'), { code: 2, stderr: /the condition/ })

  const explained = await program(['explain', '{"app":"a"}', '--live', '--config', 'sluice.yaml'], folder)
  t.equal(explained.code, 1, 'it reaches no destination, since its bucket is full')
  t.match(explained.stdout, /^→ lim \(throttle\): discarded \(throttled\), because its bucket is full now$/m)
  t.match(explained.stdout, /^ +→ out \(file\): not reached, it reads lim$/m)
  t.match(explained.stdout, /^ +now: its bucket has passed 3 of 3 in 1h 0m; the window is open from \S+ to \S+$/m)
  t.match(
    explained.stdout,
    /^ +now: [1-9]\d* of its events were discarded in the last hour; discarded events are only c/m,
  )
  t.match(
    (await look('explain', '{"app":"a","hot":"yes"}', '--live')).stdout,
    /→ lim \(throttle\): passed$[^→]*^ +now: its bucket under limits\[0\] \(if \(\.hot equal 'yes'\)\) has passed 0 of 9 in 1h 0m; no window is open$/m,
  )
  // The first request waits a second for other events.
  await daemon.until(() => daemon.stderr.includes('delivery failed; retrying'))
  const failing = (await look('explain', '{"app":"a","hot":"yes"}', '--live')).stdout
  t.match(failing, /→ gone \(http\): would be delivered later$[^→]*^ +now: gone is failing: POST /m)
  t.match(failing, /→ out \(file\): would be delivered$/m)
  const long = JSON.stringify({ app: '😀'.repeat(2500) })
  t.match((await look('explain', long, '--live')).stdout, /^ +now: not known; .* the key is too long/m)
  const document = JSON.parse((await look('explain', '{"n":1}', '--live', '--json')).stdout)
  const step = document.steps.find(({ id }: { id: string }) => id === 'lim')
  t.match(step.bucket, { key: null, used: 0, limit: 3, discarded_last_hour: 0, discarded_to: [] })

  const top = await look('top', '--interval', '1s', '--count', '2')
  t.equal(top.code, 0, top.stderr)
  const screens = top.stdout.split('\n\ncomponent ')
  t.equal(screens.length, 2)
  t.match(screens[1], /^app +[1-9]\d* .* 1 file, \d+B unread$/m)
  t.match(screens[1], /^lim +[1-9]\d* +\S+ +0 +[1-9]\d* +\d+ +2 keys$/m)
  t.match(screens[1], /^gone .* failing, 6 buffered$/m)
  t.match(screens[1], /^lim: throttled +[1-9]/m)
  t.match(
    screens[1],
    /^lim: busiest keys .* window +discard\/h\n[ab] +0 +[1-9]\d* +3\/3 +[1-9]\S*\n[ab] +0 +[1-9]\d* +3\/3 +[1-9]\S*\ndiscarded events are only counted/m,
  )
  t.ok(
    top.stdout.split('\n').every(line => line.length <= 80 && !line.includes('\x1b')),
    '80 columns, no colour',
  )

  const drawn = (...args: string[]) => command(['graph', '--live', 'sluice.yaml', ...args], { cwd: folder })
  const { stdout: tree } = await drawn()
  t.match(tree, /^app \(file\) {2}\S+\/s out; 1 file, \S+ unread$/m)
  t.match(tree, /^└─ lim \(throttle\) {2}[1-9]\S*\/s in, 0\/s out, [1-9]\S*\/s discarded.*; 2 keys$/m)
  t.match(tree, /^ {3}└─ gone \(http\) {2}0\/s in, 0\/s out, 6 in flight; failing, 6 buffered$/m)
  const { stdout: chart } = await drawn('--format', 'mermaid', '--interval', '200ms')
  t.match(chart, /\n {2}lim -- "0\/s" --> gone\n/)
  t.match(chart, /\n {2}style gone stroke:#d00/)
  t.match(await drawn('--interval', '1'), { code: 2 })

  const status = await program(['status', '--config', 'sluice.yaml'], folder)
  t.equal(status.code, 1, 'something is wrong')
  const gone = `! gone is failing: POST ${nobody}: nothing accepts connections there`
  t.match(status.stdout.replaceAll(/\s+/g, ' '), gone)
  t.match(status.stdout, /^ {2}Since \S+, \d+ failed attempts?, /m)
  t.match(status.stdout, /No events are lost/)
  t.match(status.stdout, /^Oldest event to deliver: gone \d+\S/m)
  t.match(status.stdout, /^disk buffers +events +used +room left\ngone +6 +\d+B +10\.0MB$/m)
  const shown = JSON.parse((await look('status', '--json')).stdout)
  t.same(statusDocument.omit({ series: true }).parse(shown), shown, 'as its schema says')
  const { ready, problems, components } = shown
  t.match({ ready, problems }, { ready: false, problems: [{ what: /^gone is failing/ }] })
  t.match(components[1], { id: 'lim', kind: 'processor', sent: 6 })
  const asked = JSON.parse(await textOf(await askSocket(socket, { path: '/status' })))
  t.match(asked, {
    version: 1,
    at: /^20\d\d-/,
    ready: false,
    config: join(folder, 'sluice.yaml'),
    data_dir: join(folder, 'state'),
    problems: [{ what: /^gone is failing/, todo: /No events are lost/ }],
    notices: [],
    sources: [],
    series: { sluice_buffer_events: [{ labels: { component_id: 'gone' }, value: 6 }] },
  })
  const { per_second } = (asked.components as ComponentStatus[])[0]!
  t.ok(per_second!.received > 0 && per_second!.received_bytes > per_second!.received, 'rates')

  clearInterval(writing)
  const received = async () => JSON.parse((await look('status', '--json')).stdout).components[0].received as number
  await until('all lines', async () => (await received()) === n, { show: received })
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  t.match(JSON.parse(daemon.stderr.trimEnd().split('\n').at(-1)!), { received: n })
  t.match(await look('status'), { code: 1, stderr: /does not run|there is no daemon/ })
  t.match(await command(['status'], { cwd: testFolder(t) }), { code: 2, stderr: /--config FILE or --socket PATH/ })
})

t.test('a decode and a key that fit no line are told at once, in the log and in status', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const lines = Array.from({ length: 100 }, (_, n) => `Nov 25 12:00:00 host app[1]: request ${n}\n`).join('')
  const config = `data_dir: ./state
metrics: false
sources: { app: { type: file, include: [./app.log], decode: json } }
processors: { lim: { type: throttle, inputs: [app], limit: 1000, window: 1h, key_field: .app } }
destinations: { out: { type: file, inputs: [lim], path: ./out.log } }
`
  for (const [name, text] of Object.entries({ 'app.log': lines, 'sluice.yaml': config }))
    writeFileSync(join(folder, name), text)
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  t.teardown(() => daemon.child.kill('SIGKILL'))
  const status = async () => (await command(['status', '--config', 'sluice.yaml'], { cwd: folder })).stdout
  await daemon.until(() => daemon.stderr.includes('SLUICE_KEY_MISSING'))
  t.match(daemon.stderr, /"SLUICE_NOTHING_DECODED".*not one of the first 100 lines is a JSON object: kept as text/)
  t.match(
    daemon.stderr,
    /"SLUICE_KEY_MISSING".*not one of the first 100 events has the key \.app: all share one bucket/,
  )
  const bad = await status()
  t.match(bad, 'app: 100 of its 100 lines could not be read as json')
  t.match(bad, 'lim: not one of 100 events had the key, so all share one bucket')
  appendFileSync(join(folder, 'app.log'), '{"app":"a"}\n'.repeat(101))
  await daemon.until(
    () => existsSync(join(folder, 'out.log')) && /"a"/.test(readFileSync(join(folder, 'out.log'), 'utf8')),
  )
  t.match(await status(), 'Nothing is wrong.', 'an event with the key, and more lines of the codec than others')
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  t.equal(daemon.stderr.match(/SLUICE_KEY_MISSING|SLUICE_NOTHING_DECODED/g)?.length, 2, 'once each')
})

t.test('status of a destination that delivers again: its last outage is history, and nothing is wrong', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const answers = [503, 503]
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(answers.shift() ?? 200).end())
  })
  const port = await listening(t, receiver)
  const text = `data_dir: ./state
metrics: false
sources: { in: { type: stdin } }
destinations:
  up: { type: http, inputs: [in], url: "http://${HOST}:${port}/", batch: { max_wait: 100ms }, retry: { initial: 100ms, max: 100ms } }
`
  writeFileSync(join(folder, 'sluice.yaml'), text)
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  t.teardown(() => daemon.child.kill('SIGKILL'))
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  daemon.child.stdin!.write('one\n')
  await daemon.until(() => daemon.stderr.includes('delivery works again'))
  const status = await command(['status', '--config', 'sluice.yaml'], { cwd: folder })
  t.equal(status.code, 0, status.stdout)
  t.match(status.stdout, /^Nothing is wrong\.$/m)
  t.match(
    status.stdout.replace(/\n {4}/g, ' '),
    /^Past outages; delivery works again:\n {2}up: \d\d:\d\d:\d\d to \d\d:\d\d:\d\d \(\d+s\), 2 failed attempts: .*503/m,
  )
  const json = await command(['status', '--config', 'sluice.yaml', '--json'], { cwd: folder })
  t.match(JSON.parse(json.stdout).destinations[0].last_outage, {
    since: /^20/,
    until: /^20/,
    failures: 2,
    error: /503/,
  })
  daemon.child.stdin!.end()
  t.equal(await daemon.exit, 0)
})
