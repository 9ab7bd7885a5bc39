import { spawnSync } from 'node:child_process'
import { appendFileSync, chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { HOST, listening } from '../support/address.js'
import { sluiceMain } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { startDaemon, type Totals } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { longTest } from '../support/long-test.js'
import { needs } from '../support/needs.js'
import { startReceiver } from '../support/receiver.js'
import { sluice } from '../support/sluice.js'

const TAIL_TO_FILE = `
sources: { log: { type: file, include: [in.log] } }
destinations: { copy: { type: file, inputs: [log], path: out.log } }
`

t.test('the worked case: of six events three leave', async t => {
  const events = [
    '{"app":"a","host":"h1","n":1}',
    '{"app":"b","host":"h1","n":2}',
    '{"app":"a","host":"h2","n":3}',
    '{"app":"a","host":"exempt","n":4}',
    '{"app":"b","host":"h2","n":5}',
    '{"app":"a","host":"h1","n":6}',
  ]
  const config = `
sources: { in: { type: stdin, decode: json } }
processors:
  limit_app:
    type: throttle
    inputs: [in]
    limit: 1
    window: 1 Seconds
    key_field: .app
    exclude: if (.host equal 'exempt')
destinations: { out: { type: stdout, inputs: [limit_app] } }
`
  const daemon = await startDaemon(t, testFolder(t), config)
  daemon.child.stdin!.end(`${events.join('\n')}\n`)
  t.match(await daemon.ended(t), { received: 6, passed: 3, discarded: { limit_app: { throttled: 3 } }, undelivered: 0 })
  t.same(daemon.stdout.split('\n'), [events[0], events[1], events[3], ''])
})

t.test('the last line of a run counts what was routed, split and collected', async t => {
  const config = `
sources: { in: { type: stdin, decode: json } }
processors:
  by_parity: { type: test_parity, inputs: [in] }
  parts: { type: test_split, inputs: [by_parity.even] }
  sum: { type: test_collect, inputs: [by_parity.odd] }
destinations:
  out: { type: file, inputs: [parts, sum], path: out.log, encoding: json }
  negative: { type: file, inputs: [by_parity.discarded], path: negative.log }
`
  const folder = testFolder(t)
  const processors = new URL('../support/making-processors.js', import.meta.url).href
  const daemon = await startDaemon(t, folder, config, { NODE_OPTIONS: `--import ${processors}` })
  daemon.child.stdin!.write('{"n":1}\n{"n":2}\n{"n":3}\n{"n":-1}\n{"n":4}\n')
  const scrape = await daemon.scrapedUntil(scrape => scrape.events('out').sent === 6)
  scrape.conserves(t)
  t.equal(scrape.sum('sluice_component_sent_events_total', { component_id: 'by_parity', output: 'odd' }), 2)
  daemon.child.stdin!.end('{"n":0}\n')
  const { delivered, ...totals } = await daemon.ended(t)
  t.match(totals, {
    received: 6,
    emitted: { parts: 6, sum: 1 },
    consumed: { parts: 3, sum: 2 },
    discarded: { by_parity: { negative: 1 } },
    passed: 7,
    undelivered: 0,
  })
  t.same(delivered, { out: 7, negative: 1 })
  const lines = readFileSync(join(folder, 'out.log'), 'utf8').split('\n').sort()
  t.same(lines.slice(-2), ['{"n":4,"part":3}', '{"sum":4}'])
})

t.test('standard input: a last line without its end, nothing at all, and metrics on the way', async t => {
  const config = `
sources: { in: { type: stdin } }
destinations: { out: { type: stdout, inputs: [in] }, copy: { type: file, inputs: [in], path: out.log } }
`
  const folder = testFolder(t)
  const daemon = await startDaemon(t, folder, config)
  const text = Buffer.from('one\r\n\n\0two\xff\nthree', 'latin1')
  daemon.child.stdin!.write(text)
  const scrape = await daemon.scrapedUntil(scrape => scrape.events('copy').sent === 3)
  scrape.conserves(t)
  t.equal(scrape.sum('sluice_component_sent_bytes_total', { component_id: 'copy' }), text.length - 'three'.length)
  daemon.child.stdin!.end()
  const delivered = { out: 4, copy: 4 }
  t.match(await daemon.ended(t), { received: 4, passed: 4, delivered, discarded: {}, undelivered: 0 })
  t.same(readFileSync(join(folder, 'out.log')), text)

  const silent = await startDaemon(t, testFolder(t), config)
  silent.child.stdin!.end()
  t.match(await silent.ended(t), { received: 0, passed: 0, discarded: {}, undelivered: 0 })
})

longTest('patterns that a backtracking matcher needs minutes for hold nobody up', async t => {
  const folder = testFolder(t, { 'in.log': `${'a'.repeat(60)}!\n`, [`${'a'.repeat(200)}.log`]: 'b\n' })
  const config = `
sources:
  log:
    type: file
    include: ['*.log']
    exclude: ['*a*a*a*a*a*a*a*a*a*a*a*x']
    multiline: { start: '^(a+)+$|^' }
processors: { evil: { type: filter, inputs: [log], condition: "if (NOT .message regex_match '(a|a)*$|(a+)+c')" } }
destinations: { out: { type: blackhole, inputs: [log, evil] } }
`
  const daemon = await startDaemon(t, folder, config)
  await daemon.scrapedUntil(scrape => scrape.events('out').received === 2)
  await daemon.stop(t)
})

t.test('its pages: metrics as promtool wants them, alive, ready', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const daemon = await startDaemon(
    t,
    testFolder(t, { 'in.log': '{"app":"a"}\n{"app":"a"}\nnot json\n' }),
    `
sources: { log: { type: file, include: [in.log], decode: json } }
processors: { limit_app: { type: throttle, inputs: [log], limit: 1, window: 1h, key_field: .app } }
destinations:
  upstream: { type: http, inputs: [limit_app], url: "${receiver.url()}", batch: { max_wait: 10ms } }
  copy: { type: file, inputs: [limit_app.discarded], path: out.log }
`,
  )
  const scrape = await daemon.scrapedUntil(({ text }) => /_sent_events_total\{component_id="upstream".*\} 2/.test(text))
  scrape.conserves(t)
  t.same(scrape.events('limit_app'), { received: 3, sent: 2, discarded: 1, inFlight: 0 })
  for (const [decision, n] of [
    ['passed', 2],
    ['excluded', 0],
    ['discarded', 1],
    ['fail_open', 0],
  ] as const) {
    t.equal(scrape.sum('sluice_throttle_events_total', { component_id: 'limit_app', decision }), n, decision)
  }
  t.equal(scrape.sum('sluice_throttle_buckets', { component_id: 'limit_app' }), 1)
  t.equal(scrape.sum('sluice_not_json_lines_total'), 1)
  for (const path of ['/livez', '/healthz']) t.match(await daemon.get(path), { status: 200, body: /"alive"/ }, path)
  t.match(await daemon.get('/readyz'), { status: 200 })
  t.match(await daemon.get('/nothing'), { status: 404 })
  const promtool = needs(t, 'promtool')
  if (promtool) {
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'metrics'], {
      input: scrape.text,
      encoding: 'utf8',
    })
    t.same({ status, stdout, stderr }, { status: 0, stdout: '', stderr: '' }, 'promtool check metrics')
  }
  await daemon.stop(t, 'SIGINT')
})

t.test('SIGTERM: what was read is delivered, and nothing is read twice after a start', async t => {
  const folder = testFolder(t, { 'in.log': 'one\ntwo\n' })
  const first = await startDaemon(t, folder, TAIL_TO_FILE)
  await first.scrapedUntil(scrape => scrape.events('copy').sent === 2)
  appendFileSync(join(folder, 'in.log'), 'three\n')
  await first.scrapedUntil(scrape => scrape.events('copy').sent === 3)
  const totals = await first.stop(t)
  t.match(totals, { received: 3, passed: 3, discarded: {}, undelivered: 0 })
  appendFileSync(join(folder, 'in.log'), 'four\n')
  const second = await startDaemon(t, folder, TAIL_TO_FILE)
  await second.scrapedUntil(scrape => scrape.events('copy').sent > 0)
  t.match(await second.stop(t), { received: 1, passed: 1, undelivered: 0 })
  t.equal(readFileSync(join(folder, 'out.log'), 'utf8'), 'one\ntwo\nthree\nfour\n')
})

longTest('a destination that does not answer: the deadline, a second signal, and delivery after all', async t => {
  const bodies: string[] = []
  let answers = false
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', chunk => (body += chunk))
    request.on('end', () => {
      if (!answers) return
      bodies.push(body)
      response.end()
    })
  })
  const port = await listening(t, server)
  // More than there is room for on the way.
  const lines = Array.from({ length: 40_000 }, (_, i) => `line ${i} ${'-'.repeat(100)}\n`)
  const folder = testFolder(t, { 'in.log': lines.join('') })
  const config = (timeout: string) => `
shutdown_timeout: ${timeout}
sources: { log: { type: file, include: [in.log] } }
processors:
  some: { type: filter, inputs: [log], condition: if (.message exists) }
  more: { type: throttle, inputs: [some], limit: 1000000, window: 1h }
destinations:
  up: { type: http, inputs: [more], encoding: raw, url: "http://${HOST}:${port}/", batch: { max_wait: 10ms } }
`
  const late = await startDaemon(t, folder, config('300ms'))
  await late.scrapedUntil(scrape => scrape.events('log').received > 10_000)
  const { received, passed, undelivered } = await late.stop(t)
  t.same({ passed, undelivered }, { passed: 0, undelivered: received }, 'all that was read is told to be undelivered')
  t.ok(received > 10_000, `${received} lines were read`)

  const forced = await startDaemon(t, folder, config('1h'))
  await forced.scrapedUntil(scrape => scrape.sum('sluice_delivery_requests_in_flight') > 0)
  forced.child.kill('SIGTERM')
  await forced.until(() => forced.stderr.includes('"stopping'))
  // A signal that comes at once repeats the first one.
  await forced.until(() => !forced.child.kill('SIGTERM') || forced.stderr.includes('"ended at once'))
  t.equal(await forced.exit, 1, 'it does not wait for its shutdown_timeout')
  const totals = forced.logs().at(-1) as unknown as Totals
  t.match(totals, { passed: 0, undelivered: totals.received })

  answers = true
  const last = await startDaemon(t, folder, config('1h'))
  await last.scrapedUntil(scrape => scrape.events('up').sent === lines.length)
  t.match(await last.stop(t), { received: lines.length, passed: lines.length, undelivered: 0 })
  const numbers = bodies
    .join('')
    .trimEnd()
    .split('\n')
    .map(line => Number(line.split(' ')[1]))
  t.same(
    numbers.sort((a, b) => a - b),
    lines.map((_, i) => i),
    'every line, once',
  )
})

t.test('the reader of standard output leaves: the other destinations get everything, and it ends', async t => {
  let answered = ''
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', chunk => (body += chunk))
    request.on('end', () =>
      setTimeout(() => {
        if (response.destroyed) return
        answered += body
        response.end()
      }, 300),
    )
  })
  const port = await listening(t, server)
  const folder = testFolder(t)
  const config = `
shutdown_timeout: 1h
sources: { in: { type: stdin } }
destinations:
  out: { type: stdout, inputs: [in] }
  copy: { type: file, inputs: [in], path: out.log }
  slow: { type: http, inputs: [in], encoding: raw, url: "http://${HOST}:${port}/", batch: { max_wait: 10ms } }
`
  const daemon = await startDaemon(t, folder, config)
  const { stdin, stdout } = daemon.child
  stdin!.on('error', () => {})
  let written = 0
  const writing = setInterval(() => stdin!.write(`line ${written++}\n`), 20)
  t.teardown(() => clearInterval(writing))
  await daemon.until(() => daemon.stdout.includes('\n'))
  stdout!.destroy()
  await daemon.until(() => daemon.stderr.includes('SLUICE_STDOUT_GONE'))
  t.equal(await daemon.exit, 1, 'it does not wait for its shutdown_timeout')
  const last = daemon.logs().at(-1)!
  const lines = readFileSync(join(folder, 'out.log'), 'utf8').split('\n').slice(0, -1)
  t.same(
    lines,
    lines.map((_, i) => `line ${i}`),
  )
  t.match(last, { msg: 'ended', received: lines.length }, 'every line that was read is in the file')
  t.same(answered.split('\n').sort(), ['', ...lines].sort(), 'one that answers late has taken them all')
  t.ok((last.undelivered as number) > 0, 'what standard output did not get is told')
  t.equal(daemon.logs().filter(({ code }) => code === 'SLUICE_STDOUT_GONE').length, 1)
  t.notMatch(daemon.stderr, /will be read again/)
})

t.test('a reader of standard output that took nothing more leaves: it ends at once, and promises nothing', async t => {
  const daemon = await startDaemon(
    t,
    testFolder(t),
    'shutdown_timeout: 1h\nsources: { in: { type: stdin } }\ndestinations: { out: { type: stdout, inputs: [in], retry: { initial: 1ms } } }\n',
  )
  const { stdin, stdout } = daemon.child
  stdin!.on('error', () => {})
  stdout!.pause()
  // One write that is more than the pipe takes: it is never done.
  stdin!.write(`${'x'.repeat(1_000_000)}\n`)
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_delivery_requests_in_flight') > 0)
  stdout!.destroy()
  t.equal(await daemon.exit, 1, 'it does not wait for its shutdown_timeout')
  t.notMatch(daemon.stderr, /retrying/)
  t.match(daemon.logs().at(-1), { msg: 'ended' })
})

longTest('what keeps it from starting', async t => {
  const folder = testFolder(t, { 'in.log': 'one\n', 'wrong.js': 'export default {}\n', 'wrong.json': '{' })
  const daemon = await startDaemon(t, folder, TAIL_TO_FILE)
  const named = (options: string) => `data_dir: named
sources: { in: { type: stdin } }
processors: { p: { ${/type:/.test(options) ? '' : 'type: script, '}inputs: [in], ${options} } }
destinations: { out: { type: blackhole, inputs: [p] } }
`
  const address = /"url":"http:\/\/([\d.:]+)/.exec(daemon.stderr)![1]
  const config = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return name
  }
  const cases = [
    [
      'the data_dir is in use',
      config('again.yaml', `data_dir: state\nmetrics: false\n${TAIL_TO_FILE}`),
      1,
      /another daemon|in use/,
    ],
    [
      'the port is taken',
      config('port.yaml', `data_dir: other\nmetrics: { listen: ${address} }\n${TAIL_TO_FILE}`),
      1,
      new RegExp(`${address}.*(listens|free port)`),
    ],
    [
      'a wrong configuration',
      config('bad.yaml', 'data_dir: bad\nsources: { a: { type: fil } }\nwrong: 1\n'),
      78,
      /^bad\.yaml:2:\d+: sources\.a\.type: .*\n(.*\n)*bad\.yaml:3:\d+: wrong: /m,
    ],
    ['no configuration', 'missing.yaml', 78, /missing\.yaml/],
    ...Object.entries({
      'code: "event => {"': /^named-\d\.yaml:3:\d+: processors\.p\.code: line 1, column 11 of the code: /m,
      'file: none.js': /^named-\d\.yaml:3:\d+: processors\.p\.file: the file .*none\.js does not exist$/m,
      'file: wrong.js':
        /^named-\d\.yaml:3:\d+: processors\.p\.file: the default export of .*wrong\.js must be a function/m,
      'type: parse, field: .m, codec: protobuf, message: M, descriptor_file: wrong.js':
        /^named-\d\.yaml:3:\d+: processors\.p\.descriptor_file: descriptor_file wrong\.js .* is not a set/m,
      'type: enrich, table: wrong.json, key_field: .m, target: .t': /wrong\.json:1:1: /,
      'type: throttle, limit: 1, window: 1s, limits_file: wrong.json': /wrong\.json:1:1: /,
      'type: redact, fields: [.m], presets: [card], action: { hash: { key_file: none } }': /^none:1:1: cannot read/m,
    }).map(
      ([options, message], n) =>
        [options, config(`named-${n}.yaml`, named(options)), 78, message] as readonly [string, string, number, RegExp],
    ),
    [
      'a plugin that is no module',
      config('plugin.yaml', `plugins: [./wrong.json]\n${TAIL_TO_FILE}`),
      78,
      /^plugin\.yaml:1:\d+: plugins\[0\]: /m,
    ],
  ] as const
  for (const [what, file, code, message] of cases) {
    const other = sluice(['run', '--config', file], { cwd: folder })
    t.equal(await other.exit, code, what)
    t.match(other.stderr, message, what)
    t.notMatch(other.stderr, /^\s+at /m, `${what}: no stack`)
  }
  await daemon.scrapedUntil(scrape => scrape.events('copy').sent === 1)
  await daemon.stop(t)
})

longTest(
  'a data_dir that other users can write to is reported, and one of the daemon is for its user alone',
  async t => {
    const folder = testFolder(t, { 'in.log': 'one\n' })
    const state = join(folder, 'state')
    const run = async () => {
      const daemon = await startDaemon(t, folder, TAIL_TO_FILE)
      await daemon.stop(t)
      return daemon.logs().filter(({ code }) => code === 'SLUICE_DATA_DIR_EXPOSED')
    }
    const validate = async () => (await command(['validate', 'sluice.yaml'], { cwd: folder })).stderr
    t.same(await run(), [])
    t.equal(statSync(state).mode & 0o777, 0o700)
    t.equal(await validate(), '')
    chmodSync(state, 0o777)
    const why = `every user of this machine can write to ${state}: chmod 700 ${state}`
    t.match(await run(), [{ level: 40, data_dir: state, why }])
    t.equal(await validate(), `sluice.yaml: warning: data_dir: ${why}\n`)
    chmodSync(state, 0o700)
    chmodSync(folder, 0o777)
    t.match(
      await validate(),
      `can write to ${folder} and put another folder in the place of ${state}: chmod o-w ${folder}, or`,
    )
    chmodSync(folder, 0o1777)
    t.equal(await validate(), '', 'nobody can replace it in a sticky folder')
    chmodSync(folder, 0o755)
  },
)

const LINES = Array.from({ length: 30_000 }, (_, n) => `${n} ${'é'.repeat(n % 50)}${n % 1000 === 7 ? '\r' : ''}`)
LINES[3000] = 'x'.repeat(700_000)
const TEXT = `${LINES.join('\n')}\nunfinished`

const CONFIG = `data_dir: ./state
metrics: { listen: 127.0.0.1:0 }
sources: { in: { type: stdin } }
destinations: { out: { type: file, inputs: [in], path: out.log, encoding: raw } }
`

for (const [what, command, output] of [
  ['a file', '"$@" <in.log', TEXT],
  ['a file that somebody else has begun to read', '{ read -r first; "$@"; } <in.log', undefined],
  ['a pipe', 'cat in.log | "$@"', TEXT],
  ['a pipe with pauses', '{ head -c 100000 in.log; sleep 0.1; tail -c +100001 in.log; } | "$@"', TEXT],
  ['empty', '"$@" </dev/null', ''],
  ['closed', '"$@" <&-', ''],
] as const) {
  t.test(`standard input that is ${what}`, async t => {
    const folder = testFolder(t, { 'in.log': TEXT, 'sluice.yaml': CONFIG })
    const args = ['-c', command, 'sh', process.execPath, sluiceMain, 'run', '--config', 'sluice.yaml']
    const { status, stderr } = spawnSync('sh', args, { cwd: folder, encoding: 'utf8' })
    t.equal(status, 0, stderr)
    const written = output === '' ? '' : readFileSync(join(folder, 'out.log'), 'utf8')
    // How much the shell has read is not ours to know.
    if (output === undefined) t.ok(written.length < TEXT.length && TEXT.endsWith(written))
    else t.ok(written === output, `${written.length} of ${output.length} characters`)
  })
}

t.test(
  'standard input passes from one source to the next when it is reloaded, and nothing is lost or comes twice',
  async t => {
    const folder = testFolder(t)
    const config = (timeout: string) => `
sources: { in: { type: stdin, partial_line_timeout: ${timeout} } }
destinations: { out: { type: file, inputs: [in], path: out.log } }
`
    const daemon = await startDaemon(t, folder, config('60s'))
    const { stdin } = daemon.child
    let written = 0
    const write = () => {
      for (let n = 0; n < 500; n++) stdin!.write(`${written++} ${'x'.repeat(100)}\n`)
    }
    for (let reloads = 1; reloads <= 3; reloads++) {
      write()
      writeFileSync(daemon.configPath, readFileSync(daemon.configPath, 'utf8').replace(/\d+s \}/, `${60 + reloads}s }`))
      daemon.child.kill('SIGHUP')
      write()
      await daemon.until(() => daemon.logs().filter(({ msg }) => msg === 'configuration reloaded').length === reloads)
    }
    write()
    stdin!.end()
    t.match(await daemon.ended(t), { received: written, undelivered: 0 })
    const numbers = readFileSync(join(folder, 'out.log'), 'utf8')
      .trimEnd()
      .split('\n')
      .map(line => Number(line.split(' ')[0]))
    t.same(
      numbers,
      Array.from({ length: written }, (_, n) => n),
    )
  },
)
