import { appendFileSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { encodeLines } from '../../src/core/codecs/encode.js'
import { createCodec } from '../../src/core/codecs/list.js'
import { batchOf } from '../support/batches.js'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { fileText } from '../support/file-text.js'
import { testFolder } from '../support/folder.js'
import { seeded } from '../support/seeded.js'
import { sluice } from '../support/sluice.js'
import { whileStopped } from '../support/stopped.js'

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

interface Event {
  readonly message: string
  readonly partial?: string
}

/** The events that a file destination wrote as JSON. */
function eventsIn(path: string): Event[] {
  if (!statSync(path, { throwIfNoEntry: false })) return []
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1)
  return lines.map(line => JSON.parse(line) as Event)
}

const messages = (path: string) => eventsIn(path).map(({ message }) => message)

async function delivered(daemon: Daemon, path: string, count: number): Promise<void> {
  await daemon.until(() => messages(path).length >= count)
}

const LOG = [
  '2026-01-01 12:00:00 INFO started\n',
  '2026-01-01 12:00:01 ERROR sale failed\njava.lang.IllegalStateException: no\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException\n\t... 1 more\n',
  '2026-01-01 12:00:02 INFO on\n',
  '2026-01-01 12:00:03 ERROR job\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: é\n',
  'panic: no\n\ngoroutine 1 [running]:\nmain.main()\n\t/srv/main.go:3 +0x1d\nexit status 2\n',
  '/srv/a.js:1\nthrow new Error("no")\n^\n\nError: no\n    at f (/srv/a.js:1:1) {\n  code: 1\n}\n\nNode.js v20.20.2\n',
  '2026-01-01 12:00:04 INFO done\r\n',
] as const
const MESSAGES = LOG.map(event => event.replace(/\r?\n$/, ''))

t.test('stack traces of four languages, from stdin and from a file, as JSON and byte for byte', async t => {
  const folder = testFolder(t, { 'app.log': LOG.join('') })
  const config = `
sources:
  in: { type: stdin, multiline: { preset: [java, python, go, node], timeout: 1h } }
  log: { type: file, include: [app.log], follow: false, multiline: { preset: [java, python, go, node], timeout: 1h } }
destinations:
  in_json: { type: file, inputs: [in], path: in.ndjson, encoding: json }
  in_raw: { type: file, inputs: [in], path: in.raw, encoding: raw }
  log_json: { type: file, inputs: [log], path: log.ndjson, encoding: json }
  log_raw: { type: file, inputs: [log], path: log.raw, encoding: raw }
`
  const daemon = await startDaemon(t, folder, config)
  const input = Buffer.from(LOG.join(''))
  for (let at = 0; at < input.length; at += 97) {
    daemon.child.stdin!.write(input.subarray(at, at + 97))
    await pause(2)
  }
  daemon.child.stdin!.end()
  t.match(await daemon.ended(t), { received: 2 * LOG.length, passed: 2 * LOG.length, undelivered: 0 })
  for (const name of ['in', 'log']) {
    t.same(messages(join(folder, `${name}.ndjson`)), MESSAGES, name)
    t.ok(readFileSync(join(folder, `${name}.raw`)).equals(input), `${name}: byte for byte`)
    t.notOk(
      eventsIn(join(folder, `${name}.ndjson`)).some(event => event.partial),
      `${name}: whole`,
    )
  }
})

t.test('FB#4918: the timeout delivers what waits, SIGTERM too; what is too large comes in pieces', async t => {
  const folder = testFolder(t)
  const out = join(folder, 'out.ndjson')
  const destination = 'destinations: { out: { type: file, inputs: [in], path: out.ndjson, encoding: json } }\n'
  const waits = await startDaemon(
    t,
    folder,
    `sources: { in: { type: stdin, multiline: { start: '^\\S', timeout: 50ms, max_lines: 3 } } }\n${destination}`,
  )
  waits.child.stdin!.write('a\n b\n')
  await delivered(waits, out, 1)
  t.same(messages(out), ['a\n b'])
  waits.child.stdin!.write(' c\nd\n 1\n 2\n 3\n 4\n')
  await delivered(waits, out, 4)
  t.match(eventsIn(out).slice(1), [
    { message: ' c', partial: 'last' },
    { message: 'd\n 1\n 2', partial: 'first' },
    { message: ' 3\n 4', partial: 'last' },
  ])
  t.equal((await waits.scrape()).sum('sluice_line_pieces_total', { component_id: 'in' }), 1)
  await waits.stop(t)

  const killed = await startDaemon(
    t,
    folder,
    `sources: { in: { type: stdin, multiline: { until: ';$', timeout: 1h } } }\n${destination}`,
  )
  killed.child.stdin!.write('SELECT 1\nFROM a;\nSELECT 2\nFR')
  await delivered(killed, out, 5)
  t.match(await killed.stop(t), { received: 2, undelivered: 0 })
  t.same(messages(out).slice(4), ['SELECT 1\nFROM a;', 'SELECT 2\nFR'], 'what waited was delivered at the end')
})

const FILE = (options: string) => `
sources: { log: { type: file, include: [app.log], multiline: { start: '^S', ${options} } } }
destinations: { out: { type: file, inputs: [log], path: out.ndjson, encoding: json } }
`

t.test('file: an event that waits is neither lost nor cut by a kill or an end', async t => {
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    const folder = testFolder(t, { 'app.log': 'S1\n a\nS2\n b\n' })
    const path = join(folder, 'app.log')
    const out = join(folder, 'out.ndjson')
    const first = await startDaemon(t, folder, FILE('timeout: 1h'))
    await delivered(first, out, 1)
    appendFileSync(path, ' c\n d')
    await first.scrapedUntil(scrape => scrape.sum('sluice_file_unread_bytes') === 11)
    t.same(messages(out), ['S1\n a'], `${signal}: the second event waits`)
    // So that the first is not delivered again.
    const saved = join(folder, 'state/checkpoints/log.json')
    await first.until(() => /"offset":6,"continues"/.test(fileText(saved)))
    if (signal === 'SIGKILL') {
      first.child.kill(signal)
      t.equal(await first.exit, signal)
    } else await first.stop(t)
    t.same(messages(out), ['S1\n a'], `${signal}: it was kept`)
    appendFileSync(path, 'd\n e\nS3\n')
    const next = await startDaemon(t, folder, FILE('timeout: 100ms'))
    await delivered(next, out, 3)
    await next.stop(t)
    t.same(messages(out), ['S1\n a', 'S2\n b\n c\n dd\n e', 'S3'], `${signal}: then it was delivered, whole and once`)
    t.notOk(eventsIn(out).some(event => event.partial))
  }
})

t.test('file: the timeout delivers, also the last event of a file that was rotated, truncated or deleted', async t => {
  const folder = testFolder(t, { 'app.log': 'S1\n a\n' })
  const path = join(folder, 'app.log')
  const out = join(folder, 'out.ndjson')
  const daemon = await startDaemon(t, folder, FILE('timeout: 150ms'))
  await delivered(daemon, out, 1)
  await whileStopped(daemon.pid, () => {
    appendFileSync(path, 'S2\n a\n')
    renameSync(path, `${path}.1`)
    appendFileSync(`${path}.1`, ' b\n')
    writeFileSync(path, 'S3\n a\n')
  })
  await delivered(daemon, out, 3)
  t.same(messages(out).sort(), ['S1\n a', 'S2\n a\n b', 'S3\n a'])
  t.match(await daemon.stop(t), { received: 3, undelivered: 0 })

  const waits = await startDaemon(t, folder, FILE('timeout: 1h'))
  appendFileSync(path, 'S4\n a\nS5\n a\n')
  // S5 was read with it, and waits.
  await delivered(waits, out, 4)
  writeFileSync(path, 'S6\nS7\n')
  await delivered(waits, out, 6)
  t.same(messages(out).slice(3).sort(), ['S4\n a', 'S5\n a', 'S6'], 'what was read of a file that was truncated')
  await waits.stop(t)
})

t.test('file: killed again and again while events are written, each is delivered whole', async t => {
  const folder = testFolder(t, { 'app.log': '' })
  const path = join(folder, 'app.log')
  const out = join(folder, 'out.ndjson')
  const random = seeded(3)
  const events: string[] = []
  let writing = true
  const writer = (async () => {
    for (; writing; await pause(3)) {
      let text = ''
      for (let i = 0; i < 20; i++) {
        const lines = Array.from(
          { length: Math.floor(random() * 6) },
          (_, i) => `\n line ${i} ${'x'.repeat(random() * 200)}`,
        )
        events.push(`S${events.length}${lines.join('')}`)
        text += `${events.at(-1)}\n`
      }
      // In two writes, torn anywhere.
      const at = Math.floor(random() * text.length)
      appendFileSync(path, text.slice(0, at))
      await pause(random() * 3)
      appendFileSync(path, text.slice(at))
    }
  })()
  t.teardown(() => {
    writing = false
  })
  const config = FILE('timeout: 1h').replace('path: out', 'batch: { max_wait: 20ms, max_events: 50 }, path: out')
  for (let i = 0; i < 4; i++) {
    const before = statSync(out, { throwIfNoEntry: false })?.size ?? 0
    const daemon = await startDaemon(t, folder, config)
    await daemon.until(() => (statSync(out, { throwIfNoEntry: false })?.size ?? 0) > before)
    await pause(100 * i)
    daemon.child.kill('SIGKILL')
    t.equal(await daemon.exit, 'SIGKILL')
  }
  writing = false
  await writer
  const last = await startDaemon(t, folder, config.replace('timeout: 1h', 'timeout: 100ms'))
  const whole = new Set(events)
  // A kill may have torn what the destination was writing: such a line is no JSON.
  const got = () =>
    readFileSync(out, 'utf8')
      .split('\n')
      .flatMap(line => (line.startsWith('{"') && line.endsWith('"}') ? [JSON.parse(line) as Event] : []))
  await last.until(() => new Set(got().map(({ message }) => message)).size >= whole.size)
  await last.stop(t)
  const strange = got().filter(({ message, partial }) => partial !== undefined || !whole.has(message))
  t.same(strange.slice(0, 3), [], 'no event was cut or joined to another')
  t.same(new Set(got().map(({ message }) => message)), whole, `${whole.size} events`)
})

t.test('what is wrong with the options is told where it stands', async t => {
  const folder = testFolder(t, {
    'wrong.yaml': `sources:
  a: { type: stdin, decode: json, multiline: { preset: java } }
  b: { type: file, include: [x], decode: json, multiline: { start: '^S' } }
  c: { type: file, include: [x], multiline: { timeout: 1s } }
  d: { type: file, include: [x], multiline: { start: '^S', until: 'E$' } }
  e: { type: file, include: [x], multiline: { start: '(' } }
  f: { type: file, include: [x], multiline: { preset: jave } }
destinations: { out: { type: stdout, inputs: [a, b, c, d, e, f] } }
`,
  })
  const { code, stderr } = await command(['validate', 'wrong.yaml'], { cwd: folder })
  t.equal(code, 78)
  for (const text of [
    /wrong\.yaml:2:\d+: sources\.a\.multiline: cannot be used with decode: json/,
    /wrong\.yaml:3:\d+: sources\.b\.multiline: cannot be used with decode: json/,
    /wrong\.yaml:4:\d+: sources\.c\.multiline: needs exactly one of start, continue, until and preset; none given/,
    /wrong\.yaml:5:\d+: sources\.d\.multiline: needs exactly one of .*; start and until given/,
    /wrong\.yaml:6:\d+: sources\.e\.multiline\.start: not a regular expression/,
    /wrong\.yaml:7:\d+: sources\.f\.multiline\.preset: .*java/,
  ])
    t.match(stderr, text)
})

const { descriptor } = JSON.parse(readFileSync(join(checkout, 'test/support/protobuf-vectors.json'), 'utf8')) as {
  descriptor: string
}

t.test('records go from one format to another and back, through throttles, disk buffers and files', async t => {
  const protobuf = createCodec('protobuf', { descriptor, message: 'acme.logs.All' })
  const events = Array.from({ length: 500 }, (_, n) => ({
    s: `é ${n}`,
    i64: String(2n ** 60n + BigInt(n)),
    i32: n % 7,
  }))
  const input = Buffer.concat(encodeLines(protobuf, [batchOf(events)]).parts)
  const cwd = testFolder(t, {
    'there.yaml': `data_dir: ./there
metrics: false
sources:
  in: { type: stdin, decode: { codec: protobuf, descriptor_file: ./all.binpb, message: acme.logs.All } }
processors:
  limit: { type: throttle, inputs: [in], limit: 10, window: 1 Hours, key_field: .i32, mode: shadow }
destinations:
  out: { type: file, inputs: [limit], path: ./events.msgpack, encoding: msgpack, buffer: { type: disk } }
`,
    'back.yaml': `data_dir: ./back
metrics: false
sources:
  in: { type: file, include: [./events.msgpack], decode: msgpack, read_from: beginning, follow: false }
destinations:
  out:
    type: file
    inputs: [in]
    path: ./events.binpb
    encoding: { codec: protobuf, descriptor_file: ./all.binpb, message: acme.logs.All }
`,
  })
  const missing = await command(['validate', 'there.yaml'], { cwd })
  t.equal(missing.code, 0, 'the file may be where it will run')
  t.match(
    missing.stderr,
    /there\.yaml:4:\d+: sources\.in\.decode: warning: descriptor_file \.\/all\.binpb \(.*\) cannot be read/,
  )
  const early = sluice(['run', 'there.yaml'], { cwd })
  t.not(await early.exit, 0)
  t.match(early.stderr + early.stdout, /descriptor_file \.\/all\.binpb \(.*\) cannot be read/)
  writeFileSync(join(cwd, 'all.binpb'), 'no definition')
  const wrong = await command(['validate', 'there.yaml'], { cwd })
  t.not(wrong.code, 0)
  t.match(
    wrong.stderr,
    /there\.yaml:4:\d+: sources\.in\.decode: descriptor_file \.\/all\.binpb \(.*\) is not a set of descriptors/,
  )
  writeFileSync(join(cwd, 'all.binpb'), Buffer.from(descriptor, 'base64'))
  const there = sluice(['run', 'there.yaml'], { cwd })
  there.child.stdin!.end(input)
  t.equal(await there.exit, 0, there.stderr)
  const back = sluice(['run', 'back.yaml'], { cwd })
  t.equal(await back.exit, 0, back.stderr)
  const output = readFileSync(join(cwd, 'events.binpb'))
  const wanted = Buffer.concat(encodeLines(protobuf, [batchOf(events)]).parts)
  t.ok(output.equals(wanted), `${output.length} bytes, not ${wanted.length}`)
})

t.test('values that do not fit the definition are counted, and logged once without what they are', async t => {
  const folder = testFolder(t, { 'in.ndjson': '' })
  writeFileSync(join(folder, 'all.binpb'), Buffer.from(descriptor, 'base64'))
  const config = `
sources: { in: { type: file, include: [in.ndjson], decode: json } }
destinations:
  out:
    type: file
    inputs: [in]
    path: out.binpb
    encoding: { codec: protobuf, descriptor_file: all.binpb, message: acme.logs.All }
`
  const daemon = await startDaemon(t, folder, config)
  appendFileSync(join(folder, 'in.ndjson'), '{"i32":"secret","b":true}\n{"i32":1,"b":5}\n{"i32":2}\n')
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_left_out_values_total') === 2)
  const told = daemon.logs().filter(({ code }) => code === 'SLUICE_VALUE_LEFT_OUT')
  t.match(told, [{ level: 40, component: 'out', codec: 'protobuf', field: 'i32' }])
  t.equal(told.length, 1)
  t.notMatch(daemon.stderr, /secret/)
  await daemon.stop(t)
})
