import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { CountingReceiver } from '../../bench/counting.js'
import { writeBetweenMarkers } from '../../bench/docs.js'
import { eachRecord, framedMessages } from '../../bench/peers/otlp.js'
import { Pairs } from '../../bench/peers/pairs.js'
import { components } from '../../src/components/list.js'
import { codecs } from '../../src/core/codecs/list.js'
import { built, checkout } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { needsServer } from '../support/needs.js'
import { parsedLines } from '../support/parsed-lines.js'
import { valuesOf } from '../support/values-of.js'

t.jobs = 2

interface Line {
  readonly job?: string
  readonly peer?: string
  readonly seconds?: number
  readonly cpu_seconds?: number
  readonly rss_bytes?: number
  readonly failed?: string
  readonly missing?: readonly { id: string; reason: string }[]
}

/** Runs `npm run bench:peers` with a small input. */
async function bench(t: Test, folder: string, ...options: readonly string[]) {
  const args = [join(built, 'bench/peers/main.js'), '--lines', '2000', '--runs', '1', ...options]
  for (const name of ['folder', 'cache', 'out']) args.push(`--${name}`, join(folder, name))
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => child.kill())
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  const out = (name: string) => readFileSync(join(folder, 'out', name), 'utf8')
  const lines = () => parsedLines<Line>(out('peers.jsonl'))
  return { code, stdout, stderr, lines, picture: () => out('peers.svg') }
}

t.test('every job is run in turn by Sluice and by the loop', { skip: process.platform !== 'linux' }, async t => {
  const folder = testFolder(t)
  const { code, stdout, stderr, lines, picture } = await bench(t, folder, '--peers', 'loop')
  t.equal(code, 0, stderr)
  const [about, ...runs] = lines()
  t.match(about, { machine: { cores: Number, kernel: String }, lines: 2000, runs: 1, missing: [] })
  const jobs = ['J1', 'J2', 'J3', 'J4', 'J6', 'J7', 'J8']
  t.same(
    runs.map(({ job, peer, failed }) => failed ?? `${job} ${peer}`),
    jobs.flatMap(job => [`${job} sluice`, `${job} loop`]),
  )
  for (const { seconds, cpu_seconds: cpu, rss_bytes: rss } of runs)
    t.ok(seconds! > 0 && cpu! >= 0 && rss! > 10e6, `${seconds} s, ${cpu} CPU s, ${rss} bytes`)
  for (const job of jobs) t.match(stdout, `**${job}, `)
  t.match(stdout, /\| bare loop in Node.js \| +\d+\.\d\d M \| +\d+\.\d\d \| +\d+ MB \| +\d+\.\d\d × \| +\d+\.\d\d × \|/)
  t.match(picture(), /^<svg [^>]*>[\s\S]*prefers-color-scheme: dark[\s\S]*J4, raw lines: TCP → file[\s\S]*<\/svg>\n$/)
  t.notOk(existsSync(join(folder, 'folder/sluice-bench-2000.ndjson')), 'the input is removed')
})

t.test('every line arrives at what stands in for a server', { skip: process.platform !== 'linux' }, async t => {
  const jobs = ['J5', 'J6', 'J7', 'J8', ...(needsServer(t, 'kafka') ? ['J9'] : [])]
  const itself = ['--peers', 'earlier', '--earlier', join(built, 'src/cli/main.js')]
  const { code, stderr, lines } = await bench(t, testFolder(t), ...itself, '--jobs', jobs.join())
  t.equal(code, 0, stderr)
  t.same(
    lines()
      .slice(1)
      .map(({ job, peer, failed }) => failed ?? `${job} ${peer}`),
    jobs.flatMap(job => [`${job} sluice`, `${job} earlier`]),
  )
})

/** Stands in for rsyslogd: says that it has its version, and writes as many bytes as it read, of which one is wrong. */
const WRONG = `#!${process.execPath}
import { readFileSync, writeFileSync } from 'node:fs'
if (process.argv[2] === '-v') console.log('rsyslogd 1.2.3')
else {
  const config = readFileSync(process.argv[4], 'utf8')
  const lines = readFileSync(/File="(.*?)"/.exec(config)[1], 'latin1')
  writeFileSync(/ file="(.*?)"/.exec(config)[1], lines.replace('request', 'Request'), 'latin1')
  setInterval(() => {}, 1e6)
}
`

t.test('a program whose output is wrong has no figures', { skip: process.platform !== 'linux' }, async t => {
  const folder = testFolder(t, { 'rsyslogd.mjs': WRONG })
  const wrong = join(folder, 'rsyslogd.mjs')
  const missing = join(folder, 'vector')
  chmodSync(wrong, 0o755)
  const options = ['--jobs', 'J1', '--peers', 'rsyslog,vector', '--rsyslog', wrong, '--vector', missing]
  const { code, stdout, stderr, lines } = await bench(t, folder, ...options)
  t.equal(code, 1)
  const [about, , failed] = lines()
  t.match(about?.missing, [{ id: 'vector', reason: 'ENOENT' }])
  t.match(failed, { peer: 'rsyslog', version: '1.2.3', job: 'J1', failed: /is not what was read/ })
  t.match(stdout, /^- vector was left out: /m)
  t.match(stdout, /^- rsyslog failed on J1: .* is not what was read$/m)
  t.match(stderr, 'rsyslog failed on J1')
})

t.test('loops that do the least are measured beside Sluice', { skip: process.platform !== 'linux' }, async t => {
  const options = ['--lines', '1000', '--runs', '1', '--folder', testFolder(t), '--json']
  const { stdout } = await promisify(execFile)(process.execPath, [join(built, 'bench/bounds/main.js'), ...options])
  const { results } = JSON.parse(stdout) as { results: { job: string; title: string; rssBytes: number }[] }
  t.same(valuesOf(results, 'job'), ['J1', 'J1', 'J1', 'J1', 'J1', 'J1', 'J3', 'J3', 'J3'])
  for (const { title, rssBytes } of results) t.ok(rssBytes > 10e6, title)
})

t.test('a curve has a cost for each of its values', async t => {
  const folder = testFolder(t)
  const options = ['--curves', 'destinations', '--lines', '1000', '--runs', '1', '--folder', folder, '--json']
  const { stdout } = await promisify(execFile)(process.execPath, [join(built, 'bench/curves/main.js'), ...options])
  const { curves } = JSON.parse(stdout)
  t.same(
    curves.map(({ id, costs }: { id: string; costs: { value: number }[] }) => [id, costs.map(({ value }) => value)]),
    [['destinations', [1, 2, 4, 8]]],
  )
  for (const { costs } of curves) for (const { rssBytes } of costs) t.ok(rssBytes > 10e6)
})

t.test('every line has a latency', { skip: process.platform !== 'linux' }, async t => {
  const options = ['--rate', '100', '--seconds', '1', '--json']
  const { stdout } = await promisify(execFile)(process.execPath, [join(built, 'bench/latency.js'), ...options])
  const { milliseconds } = JSON.parse(stdout) as { milliseconds: number[] }
  t.equal(milliseconds.length, 100)
  t.ok(milliseconds.every(ms => ms > 0))
})

t.test('every stage has a cost', async t => {
  const args = [join(built, 'bench/micro/main.js'), '--rounds', '2', '--json']
  const { stdout } = await promisify(execFile)(process.execPath, args)
  const { rows } = JSON.parse(stdout) as { rows: { id: string; ratio: number }[] }
  for (const id of ['frame', 'decode_json', 'throttle', 'encode_raw', 'buffer_write'])
    t.ok(rows.find(row => row.id === id)!.ratio > 0, id)
})

t.test('every processor and codec has a rate beside JSON.parse and JSON.stringify', async t => {
  const folder = testFolder(t)
  const args = [join(built, 'bench/processors.js'), '--rounds', '1', '--batches', '1', '--folder', folder]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  const rows = JSON.parse(stdout) as { id: string; lines_per_second: number; ratio: number }[]
  for (const { id, lines_per_second: rate, ratio } of rows) t.ok(rate > 0 && ratio > 0, id)
  const ids = rows.map(({ id }) => id)
  for (const { kind, type } of components)
    if (kind === 'processor')
      t.ok(
        ids.some(id => id.split(/[ ,]/)[0] === type),
        type,
      )
  for (const { name } of codecs) t.ok(ids.includes(`decode ${name}`), name)
})

t.test('a profile is drawn as a flame graph', async t => {
  const folder = testFolder(t)
  const args = [join(built, 'bench/profile/main.js'), 'J2', '--lines', '2000', '--folder', folder, '--out', folder]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  t.match(stdout, join(folder, 'J2.svg'))
  t.match(readFileSync(join(folder, 'J2.svg'), 'utf8'), /<svg [\s\S]*<title>.* \d+\.\d %[\s\S]*<\/svg>\n$/)
})

t.test('wrong options are refused', async t => {
  const folder = testFolder(t)
  for (const [options, error] of [
    [['--peers', 'logstash'], 'bench:peers: --peers: unknown "logstash"; known are loop, rsyslog'],
    [['--runs', '0'], 'bench:peers: --runs must be a whole number of at least 1, not 0'],
  ] as const) {
    const { code, stderr } = await bench(t, folder, ...options)
    t.equal(code, 1)
    t.match(stderr, error)
  }
})

t.test('texts are read from messages of the OpenTelemetry protocol and of Loki', async t => {
  const field = (number: number, content: Buffer | string) =>
    Buffer.concat([Buffer.from([(number << 3) | 2, content.length]), Buffer.from(content)])
  const other = Buffer.from([0x10, 0x96, 0x01, 0x59, 1, 2, 3, 4, 5, 6, 7, 8, 0x45, 1, 2, 3, 4])
  const record = (body: string) => field(2, Buffer.concat([other, field(3, 'INFO'), field(5, field(1, body))]))
  const scope = field(2, Buffer.concat([field(1, 'scope'), record('first'), record('second')]))
  const message = field(1, Buffer.concat([field(1, 'resource'), scope]))
  const texts: string[] = []
  const framed = Buffer.concat([Buffer.from([0, 0, 0, message.length]), message])
  const file = Buffer.concat([framed, framed])
  for (const one of framedMessages([file.subarray(0, 3), file.subarray(3, 60), file.subarray(60)]))
    eachRecord(one, (bytes, begin, end) => texts.push(bytes.toString('utf8', begin, end)))
  t.same(texts, ['first', 'second', 'first', 'second'])
  t.throws(() => [...framedMessages([file.subarray(1)])], { message: /unfinished message/ })
  const entry = (line: string) => field(2, Buffer.concat([field(1, 'time'), field(2, line), field(3, 'metadata')]))
  const push = field(1, Buffer.concat([field(1, '{job="a"}'), entry('third'), entry('fourth')]))
  texts.length = 0
  eachRecord(push, (bytes, begin, end) => texts.push(bytes.toString('utf8', begin, end)), 'loki')
  t.same(texts, ['third', 'fourth'])
})

t.test('records are the lines that were read, in their order or, where that is allowed, in another', async t => {
  const pair = (anyOrder: boolean, lines: string, records: string) => () => {
    const pairs = new Pairs(anyOrder)
    for (let i = 0; i < lines.length; i++) pairs.add(Buffer.from(lines[i]!), Buffer.from(records[i]!))
    pairs.end()
  }
  for (const anyOrder of [false, true]) t.doesNotThrow(pair(anyOrder, 'abca', 'abca'))
  t.throws(pair(false, 'abc', 'bac'), { message: 'a record is not the line that was read: b' })
  t.doesNotThrow(pair(true, 'abcda', 'bcaad'))
  t.throws(pair(true, 'abc', 'bbc'), { message: 'no record is this line: a' })
  t.throws(pair(true, 'aabc', 'abcb'), { message: 'no record is this line: a' })
})

t.test('the receiver counts bodies however they arrive', async t => {
  const receiver = await CountingReceiver.start()
  t.teardown(() => receiver.close())
  const whole = `${'a line\n'.repeat(1000)}and one without a line end`
  const head = 'POST /ingest HTTP/1.1\r\nHost: here\r\n'
  const chunks = `${'7\r\na line\n\r\n'.repeat(3)}0\r\n\r\n`
  const requests = [
    `${head}Content-Length: ${whole.length}\r\n\r\n${whole}`,
    `${head}Transfer-Encoding: chunked\r\n\r\n${chunks}`,
    `${head}Expect: 100-continue\r\nContent-Length: 7\r\n\r\na line\n`,
    `HEAD /ingest HTTP/1.1\r\nConnection: close\r\n\r\n`,
  ].join('')
  const answers = 'OK OK Continue OK OK'
  for (const size of [1, 100, requests.length]) {
    const before = await receiver.counts()
    const socket = connect(receiver.port, '127.0.0.1').setNoDelay()
    for (let at = 0; at < requests.length; at += size) {
      socket.write(requests.slice(at, at + size))
      await nextTurn()
    }
    const said = (await text(socket)).match(/\b(OK|Continue)\b/g)?.join(' ')
    const { lines, bytes } = await receiver.counts()
    t.equal(said, answers)
    t.equal(lines - before.lines, 1001 + 3 + 1, `parts of ${size} bytes`)
    t.equal(bytes - before.bytes, whole.length + 1 + 21 + 7)
  }
})

t.test('the receiver answers as the bulk API of Elasticsearch does', async t => {
  const receiver = await CountingReceiver.start(['--bulk'])
  t.teardown(() => receiver.close())
  const url = `http://127.0.0.1:${receiver.port}`
  t.match(await (await fetch(url)).json(), { version: { number: '7.17.29' }, license: { status: 'active' } })
  for (const events of [3, 1]) {
    const reply = await fetch(`${url}/_bulk`, { method: 'POST', body: '{"create":{}}\n{}\n'.repeat(events) })
    t.same(await reply.json(), {
      took: 1,
      errors: false,
      items: new Array(events).fill({ create: { status: 201 } }),
    })
  }
})

t.test('the pictures of window modes in docs are what the simulator makes', async t => {
  const folder = testFolder(t, { out: {} })
  const out = join(folder, 'out')
  await promisify(execFile)(process.execPath, [join(built, 'bench/windows.js'), '--out', out])
  const pictures = readdirSync(out)
  t.ok(pictures.length >= 3)
  for (const name of pictures)
    t.ok(
      readFileSync(join(out, name)).equals(readFileSync(join(checkout, 'docs', name))),
      `npm run bench windows: ${name}`,
    )
})

t.test('a table replaces the one that is between the markers of a page', async t => {
  const folder = testFolder(t)
  const path = join(folder, 'page.md')
  const page = (text: string) =>
    `before\n\n<!-- bench:peers begin -->\n\n${text}\n\n<!-- bench:peers end -->\n\nafter\n`
  writeFileSync(path, page('old'))
  const table = `| ${'wide '.repeat(30)}|`
  writeBetweenMarkers(path, 'bench:peers', `${table}\n\n- ${'word '.repeat(30)}end`)
  t.equal(readFileSync(path, 'utf8'), page(`${table}\n\n- ${'word '.repeat(22)}word\n  ${'word '.repeat(7)}end`))
  writeFileSync(path, 'nothing')
  t.throws(() => writeBetweenMarkers(path, 'bench:peers', 'x'), { message: /lacks the lines/ })
})

t.test('npm run bench reloads, a short one: nothing is lost, repeated or left behind', async t => {
  const script = join(built, 'bench/reloads.js')
  const args = [script, '--count', '10', '--rate', '20000', '--seed', '3', '--wrong', '0.3']
  // A group of its own: its daemon ends with it, however this ends.
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const kill = () => {
    if (child.exitCode === null) process.kill(-child.pid!, 'SIGKILL')
  }
  t.teardown(kill)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  if (code !== 0) t.comment(stdout, stderr)
  const report = JSON.parse(stdout)
  t.match(report, { reloads: 10, lost: 0, repeated: 0 })
  t.same(report.wrong, [])
  t.equal(code, 0)
  t.ok(report.refused > 0 && report.refused < 10, `${report.refused} configurations were wrong`)
  t.ok(report.events > 1000, `${report.events} events`)
})
