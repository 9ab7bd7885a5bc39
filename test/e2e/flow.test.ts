import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { codecOf, codecs } from '../../src/core/codecs/list.js'
import { HOST, listening } from '../support/address.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { longTest } from '../support/long-test.js'
import { startReceiver } from '../support/receiver.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

function linesOf(path: string): string[] {
  return readFileSync(path, 'utf8').split('\n').slice(0, -1)
}

t.test('a refused key holds: nothing is lost, and the new key is taken from its file', async t => {
  const receiver = await startReceiver({ authorization: 'Token second' })
  t.teardown(() => receiver.close())
  const folder = testFolder(t, { 'in.log': '{"n":0}\n', key: 'first\n' })
  const yaml = `
sources: { log: { type: file, include: [in.log], decode: json } }
destinations:
  up:
    type: http
    inputs: [log]
    url: "${receiver.url()}"
    validate: "${receiver.url('/v3/pipeline')}"
    auth: { key_file: key }
    batch: { max_wait: 20ms }
`
  const daemon = await startDaemon(t, folder, yaml)
  const held = () => daemon.logs().filter(({ msg }) => String(msg).includes('is paused until the cause')).length
  const readiness = async () => (await daemon.get('/readyz')).status
  const statusOf = (status: number, why: string) =>
    until(why, async () => (await readiness()) === status, { show: readiness })
  let written = 1
  const write = (n: number) => {
    let text = ''
    for (const end = written + n; written < end; written++) text += `{"n":${written}}\n`
    appendFileSync(join(folder, 'in.log'), text)
  }
  const numbers = () => receiver.lines().map(line => JSON.parse(line).n as number)

  await statusOf(503, 'not ready while the key is refused')
  t.match((await daemon.get('/healthz')).status, 200, 'alive nevertheless')
  write(500)
  const holding = await daemon.scrapedUntil(scrape => scrape.events('up').inFlight === 501)
  holding.conserves(t, 'while it holds')
  t.same(numbers(), [], 'nothing was accepted')
  writeFileSync(join(folder, 'key'), 'second\n')
  await statusOf(200, 'ready with the new key')
  await daemon.scrapedUntil(scrape => scrape.events('up').sent === 501)
  t.equal(held(), 1, 'told once')

  receiver.authorization = 'Token third'
  write(500)
  await statusOf(503, 'not ready when the key is revoked')
  write(500)
  ;(await daemon.scrapedUntil(scrape => scrape.events('up').received === 1501)).conserves(t, 'while it holds again')
  writeFileSync(join(folder, 'key'), 'third\n')
  await statusOf(200, 'ready again')
  await daemon.scrapedUntil(scrape => scrape.events('up').sent === 1501)
  t.equal(held(), 2, 'told once more')
  t.match(await daemon.stop(t), { received: 1501, passed: 1501, discarded: {}, undelivered: 0 })
  t.same(
    numbers().sort((a, b) => a - b),
    Array.from({ length: 1501 }, (_, i) => i),
    'every event, once',
  )
  t.notMatch(daemon.stderr, /first|second|third/, 'no key is logged')
})

longTest('a destination on hold does not put off the end: its events are still in their files', async t => {
  const receiver = await startReceiver({ authorization: 'Token right' })
  t.teardown(() => receiver.close())
  const folder = testFolder(t, { 'in.log': '{"n":0}\n{"n":1}\n', key: 'wrong\n' })
  // If the daemon waited for the destination, it would not end.
  const config = `
shutdown_timeout: 1 Hours
sources:
  log: { type: file, include: [in.log], decode: json }
  piped: { type: stdin }
destinations:
  up: { type: http, inputs: [log], url: "${receiver.url()}", auth: { key_file: key }, batch: { max_wait: 20ms } }
  copy: { type: file, inputs: [log, piped], path: out.log }
`
  const first = await startDaemon(t, folder, config)
  await first.scrapedUntil(scrape => scrape.sum('sluice_delivery_holding') === 1 && scrape.events('copy').sent === 2)
  t.match(await first.stop(t), { undelivered: 2 })
  t.match(first.stderr, /not waiting for paused or failing destinations/)
  writeFileSync(join(folder, 'key'), 'right\n')
  const second = await startDaemon(t, folder, config)
  await second.scrapedUntil(scrape => scrape.events('up').sent === 2)
  await second.stop(t)
  t.same(receiver.lines(), ['{"n":0}', '{"n":1}'], 'they are delivered after the next start')

  // Nor does a pause that the receiver asked for, where that takes longer.
  const short = config.replace('1 Hours', '50 Minutes')
  receiver.otherwise = { status: 503, headers: { 'retry-after': '3600' } }
  writeFileSync(join(folder, 'in.log'), '{"n":0}\n{"n":1}\n{"n":9}\n')
  const paused = await startDaemon(t, folder, short)
  await paused.scrapedUntil(scrape => scrape.sum('sluice_delivery_paused_seconds') > 3300)
  t.match(await paused.stop(t), { undelivered: 1 })
  receiver.otherwise = 200
  const resumed = await startDaemon(t, folder, config)
  await resumed.scrapedUntil(scrape => scrape.events('up').sent === 1)
  await resumed.stop(t)
  t.same(receiver.lines(), ['{"n":0}', '{"n":1}', '{"n":9}'])

  // Standard input cannot be read again: it is worth waiting for.
  writeFileSync(join(folder, 'key'), 'wrong\n')
  const waiting = await startDaemon(t, folder, config.replace('inputs: [log], url', 'inputs: [log, piped], url'))
  waiting.child.stdin!.write('{"n":2}\n')
  await waiting.scrapedUntil(scrape => scrape.events('up').inFlight === 1)
  waiting.child.kill('SIGTERM')
  await waiting.until(() => waiting.stderr.includes('stopping'))
  writeFileSync(join(folder, 'key'), 'right\n')
  t.match(await waiting.ended(t), { undelivered: 0 })
  t.equal(receiver.lines().length, 4)
})

longTest('what a receiver accepted before it failed is not sent again after the end', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const lines = Array.from({ length: 8000 }, (_, n) => `${n} ${'x'.repeat(20)}`)
  const folder = testFolder(t, { 'in.log': `${lines.join('\n')}\n` })
  const config = `
shutdown_timeout: 500ms
sources: { log: { type: file, include: [in.log] } }
destinations:
  up: { type: http, inputs: [log], url: "${receiver.url()}", encoding: raw, max_in_flight: 1, batch: { max_events: 300 } }
`
  let accepted = 0
  receiver.otherwise = () => (accepted++ < 8 ? 200 : 503)
  const first = await startDaemon(t, folder, config)
  await first.scrapedUntil(
    scrape => scrape.events('up').sent === 2400 && scrape.sum('sluice_delivery_retries_total') > 0,
  )
  t.match(await first.stop(t), { undelivered: 5600 })
  receiver.otherwise = 200
  const second = await startDaemon(t, folder, config)
  await second.scrapedUntil(scrape => scrape.events('up').sent >= 5600)
  await second.stop(t)
  t.equal(receiver.lines().length, lines.length)
  t.ok(receiver.lines().join() === lines.join(), 'every line, once and in order')
})

longTest('what a receiver refused as too large is not sent again and again', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  receiver.otherwise = ({ body }) => (body.length > 60_000 ? 413 : 200)
  const lines = Array.from({ length: 20_000 }, (_, n) => `${n} ${'x'.repeat(90)}`)
  const folder = testFolder(t, { 'in.log': `${lines.join('\n')}\n` })
  const yaml = `
sources: { log: { type: file, include: [in.log] } }
destinations:
  up: { type: http, inputs: [log], url: "${receiver.url()}", encoding: raw, max_in_flight: 1 }
`
  const daemon = await startDaemon(t, folder, yaml)
  await daemon.scrapedUntil(scrape => scrape.events('up').sent === lines.length)
  t.match(await daemon.stop(t), { undelivered: 0, discarded: {} })
  t.ok(receiver.lines().join() === lines.join(), 'every line, in order')
  const refused = receiver.requests.filter(({ status }) => status === 413).length
  t.ok(refused > 0 && refused < 10, `${refused} of ${receiver.requests.length} requests were refused`)
})

t.test('several sources, fan-out, and a side output: what passed and what was discarded is what came in', async t => {
  const line = (source: string, i: number) => `{"app":"${i % 7}","source":"${source}","n":${i}}`
  const lines = (source: string) => Array.from({ length: 4000 }, (_, i) => line(source, i))
  const sources = ['a', 'b', 'c']
  const folder = testFolder(
    t,
    Object.fromEntries(sources.map(source => [`${source}.log`, `${lines(source).join('\n')}\n`])),
  )
  const daemon = await startDaemon(
    t,
    folder,
    `
sources:
${sources.map(source => `  ${source}: { type: file, include: [${source}.log], decode: json }`).join('\n')}
processors:
  limit_app: { type: throttle, inputs: [a, b, c], limit: 100, window: 1h, key_field: .app }
  of_b: { type: filter, inputs: [limit_app.discarded, limit_app], condition: if (.source equal 'b') }
destinations:
  passed: { type: file, inputs: [limit_app], path: passed.log }
  discarded: { type: file, inputs: [limit_app.discarded], path: discarded.log }
  of_b_only: { type: file, inputs: [of_b], path: b.out }
  of_a_and_c: { type: file, inputs: [of_b.discarded], path: ac.out }
  all: { type: file, inputs: [c, a, b], path: all.log }
`,
  )
  const all = sources.flatMap(lines)
  const scrape = await daemon.scrapedUntil(scrape => {
    const sent = ['passed', 'discarded', 'of_b_only', 'of_a_and_c', 'all'].map(id => scrape.events(id).sent)
    return sent.reduce((sum, n) => sum + n) === 3 * all.length
  })
  scrape.conserves(t)
  t.same(scrape.events('limit_app'), { received: all.length, sent: 700, discarded: all.length - 700, inFlight: 0 })
  await daemon.stop(t)

  const read = (name: string) => linesOf(join(folder, name))
  const sorted = (lines: string[]) => lines.toSorted()
  t.equal(read('passed.log').length, 700)
  t.same(sorted([...read('passed.log'), ...read('discarded.log')]), sorted(all), 'passed and discarded')
  t.same(sorted([...read('b.out'), ...read('ac.out')]), sorted(all), 'behind two inputs')
  t.same(sorted(read('b.out')), sorted(lines('b')))
  for (const source of sources) {
    const own = read('all.log').filter(line => line.includes(`"source":"${source}"`))
    t.same(own, lines(source), `the order of ${source} is kept`)
  }
})

longTest('a destination that does not keep up: memory is bounded, and everything arrives', async t => {
  const LINES = 150_000
  const REST = 'x'.repeat(980)
  const seen = new Uint8Array(LINES)
  let open = () => {}
  const gate = new Promise<void>(resolve => {
    open = resolve
  })
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', async () => {
      await gate
      for (const line of Buffer.concat(chunks).toString('latin1').split('\n').slice(0, -1))
        seen[Number(line.slice(0, 8))]!++
      response.end()
    })
  })
  const port = await listening(t, server)
  const folder = testFolder(t)
  for (let at = 0; at < LINES; ) {
    let text = ''
    for (const end = Math.min(LINES, at + 10_000); at < end; at++) text += `${String(at).padStart(8, '0')} ${REST}\n`
    appendFileSync(join(folder, 'in.log'), text)
  }
  const yaml = `
sources: { log: { type: file, include: [in.log] }, other: { type: file, include: [in.log] } }
processors: { all: { type: filter, inputs: [log], condition: if (.message starts_with '0') } }
destinations:
  up: { type: http, inputs: [all], encoding: raw, url: "http://${HOST}:${port}/", batch: { max_wait: 10ms } }
  copy: { type: file, inputs: [all], path: out.log }
  free: { type: blackhole, inputs: [other] }
`
  const daemon = await startDaemon(t, folder, yaml)
  const rssMb = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))![1]) /
    1000
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_delivery_requests_in_flight', { component_id: 'up' }) >= 4)
  // Another source reads the whole file meanwhile.
  const waiting = await daemon.scrapedUntil(scrape => scrape.events('free').sent === LINES)
  waiting.conserves(t, 'while it waits')
  const { received } = waiting.events('log')
  t.ok(received < LINES / 2, `it stopped reading after ${received} of ${LINES} lines`)
  open()
  const done = await daemon.scrapedUntil(
    scrape => scrape.events('up').sent === LINES && scrape.events('copy').sent === LINES,
  )
  done.conserves(t, 'at the end')
  const peak = rssMb('VmHWM')
  // All of the input in memory would be 150 MB above what an idle daemon has, which is about 90.
  t.ok(peak <= 220, `at most ${Math.round(peak)} MB were in memory`)
  t.match(await daemon.stop(t), { received: 2 * LINES, undelivered: 0 })
  t.ok(
    seen.every(times => times === 1),
    'every line, once',
  )
  t.equal(
    readFileSync(join(folder, 'out.log')).compare(readFileSync(join(folder, 'in.log'))),
    0,
    'the copy is the same',
  )
})

/** Processors that keep events between batches, in a daemon that is reloaded and killed. */

const config = (more = '', key = '.id') => `sources: { app: { type: file, include: [in.log], decode: json } }
processors:
  requests: { type: reduce, inputs: [app], key_field: ${key}, timeout: 1h, merge: { .n: sum }, ends_when: "if (.end equal 'true')" }
  rates: { type: aggregate, inputs: [app], every: 1h, counters: { lines: {}, sum: { sum: .n } } }
destinations:
  out: { type: file, inputs: [requests], path: out.log }
  rates_out: { type: file, inputs: [rates], path: rates.log }
${more}`

const lines = (...events: object[]) => events.map(event => `${JSON.stringify(event)}\n`).join('')
const read = (path: string) =>
  existsSync(path)
    ? readFileSync(path, 'utf8')
        .split('\n')
        .slice(0, -1)
        .map(line => JSON.parse(line) as Record<string, unknown>)
    : []

t.test('open groups and intervals survive a reload and a kill, and nothing counts twice', async t => {
  const folder = testFolder(t, { 'in.log': '' })
  const write = (...events: object[]) => appendFileSync(join(folder, 'in.log'), lines(...events))
  const out = () => read(join(folder, 'out.log'))
  let daemon = await startDaemon(t, folder, config())
  const taken = (events: number) =>
    daemon.scrapedUntil(
      scrape => scrape.sum('sluice_component_received_events_total', { component_id: 'rates' }) === events,
    )
  write({ id: 1, n: 1 }, { id: 2, n: 5 })
  await taken(2)

  const head = `data_dir: ${join(folder, 'state')}\nmetrics: { listen: ${HOST}:0 }\n`
  const reload = async (text: string) => {
    const before = daemon.logs().length
    writeFileSync(daemon.configPath, head + text)
    daemon.child.kill('SIGHUP')
    const about = () =>
      daemon
        .logs()
        .slice(before)
        .find(({ msg }) => /^(configuration reloaded|cannot apply)/.test(String(msg)))
    t.match(await daemon.until(about), { msg: 'configuration reloaded' })
  }
  await reload(config('  none: { type: blackhole, inputs: [app] }\n'))
  t.same(out(), [], 'a reload ends no group')
  write({ id: 1, n: 2, end: true }, { id: 2, n: 7 })
  await daemon.until(() => out().length === 1)
  t.same(out(), [{ id: 1, n: 3, end: true }])
  await taken(4)

  daemon.child.kill('SIGKILL')
  await daemon.exit
  daemon = await startDaemon(t, folder, config())
  write({ id: 2, n: 100, end: true })
  await daemon.until(() => out().some(({ id }) => id === 2))
  t.same(
    out().find(({ id }) => id === 2),
    { id: 2, n: 112, end: true },
    'it is read again from its first event',
  )
  await taken(5)

  await reload(config('', '.other'))
  t.match(read(join(folder, 'rates.log')), [], 'the interval of the processor that did not change goes on')
  await daemon.stop(t)
  t.match(read(join(folder, 'rates.log')), [{ key: null, lines: 5, sum: 115 }])
})

t.test('the id that a step puts into events is the same after a kill, and differs for equal lines', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const folder = testFolder(t, { 'in.log': '{"message":"same"}\n'.repeat(1000) })
  const yaml = `
sources:
  files: { type: file, include: [in.log], decode: json }
processors:
  ids: { type: edit, inputs: [files], steps: [{ set: { .env: prod } }, { event_id: { field: .id } }] }
destinations:
  up: { type: http, inputs: [ids], url: "${receiver.url()}", batch: { max_events: 100 } }
`
  const seen = () =>
    receiver.requests.map(({ body }) => body.split('\n', 100).map(line => JSON.parse(line) as Record<string, string>))
  receiver.otherwise = { hang: 'after_body' }
  const killed = await startDaemon(t, folder, yaml)
  await until('some have arrived', async () => seen().length >= 2)
  killed.child.kill('SIGKILL')
  const [first] = seen()
  const before = receiver.requests.length
  receiver.otherwise = 200
  const daemon = await startDaemon(t, folder, yaml)
  await daemon.scrapedUntil(scrape => scrape.events('up').sent === 1000)
  await daemon.stop(t)
  const ids = seen()
    .slice(before)
    .flat()
    .map(({ id }) => id!)
  t.equal(new Set(ids).size, 1000)
  t.match(ids[0], /^[\w-]{24}$/)
  t.ok(
    first!.every(({ id, env }) => env === 'prod' && ids.includes(id!)),
    'what was sent before the kill had these ids',
  )
})

t.test('one event for which code fails stops nothing: it is rejected, and its neighbors are delivered', async t => {
  const lines = Array.from({ length: 50 }, (_, n) => `{"n":${n}}\n`)
  const folder = testFolder(t, {
    'in.log': lines.join(''),
    'fragile.js': `import { appendFileSync } from 'node:fs'
import { defineDestination, defineProcessor, encodeAlone, JSON_OBJECTS, written, z } from '@sluice-logs/sluice/plugin'
const shape = { contract: 1, summary: 'Fails.', options: z.strictObject({}), examples: [{ title: 'All', yaml: '' }] }
const fails = (batch, i, n) => batch.fields(i).n === n && null.encoded
export const judge = defineProcessor({ ...shape, type: 'judge', create: () => ({
  process(batch) { for (let i = 0; i < batch.length; i++) fails(batch, i, 7) },
}) })
export const fragile = defineDestination({ ...shape, type: 'fragile', create: () => ({
  async write(request) {
    for (const batch of request) for (let i = 0; i < batch.length; i++) fails(batch, i, 31)
    appendFileSync('out.log', written(encodeAlone('raw', request)))
  },
}) })
`,
  })
  const daemon = await startDaemon(
    t,
    folder,
    `plugins: [./fragile.js]
sources: { log: { type: file, include: [in.log], decode: json } }
processors: { judge: { type: judge, inputs: [log], on_error: dead_letter } }
destinations: { up: { type: fragile, inputs: [judge], retry: { initial: 50ms } } }
`,
  )
  const ended = await daemon.scrapedUntil(scrape => scrape.events('up').discarded === 1)
  ended.conserves(t)
  t.match(await daemon.stop(t), {
    passed: 48,
    discarded: { judge: { processing_failed: 1 }, up: { internal_error: 1 } },
    undelivered: 0,
  })
  t.same(
    linesOf(join(folder, 'out.log')).map(line => JSON.parse(line).n),
    Array.from({ length: 50 }, (_, n) => n).filter(n => n !== 7 && n !== 31),
    'in order',
  )
})

t.test('redact lets no credentials and no card out, whatever the codec of the lines is', async t => {
  const folder = testFolder(t, {
    'in.txt': 'GET / Authorization: Basic dXNlcjpwYXNz\r\nauthorization: Bearer sekret x\ncard 135410014004955\n',
    'in.json': '{"headers":{"authorization":["Digest user=\\"a\\", key=\\"b\\""]},"card":"3530111333300000001"}\n',
    'in.logfmt': 'authorization="Token sekret" card=213100000000001\n',
  })
  const source = (name: string, decode: string) => `${decode}: { type: file, include: [${name}], decode: ${decode} }`
  const config = `
sources: { ${source('in.txt', 'text')}, ${source('in.json', 'json')}, ${source('in.logfmt', 'logfmt')} }
processors: { clean: { type: redact, inputs: [text, json, logfmt], presets: [bearer, card] } }
destinations: { out: { type: file, inputs: [clean], path: out.ndjson, encoding: json } }
`
  const daemon = await startDaemon(t, folder, config)
  await daemon.scrapedUntil(scrape => scrape.events('out').sent === 5)
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  const events = linesOf(join(folder, 'out.ndjson')).map(line => JSON.parse(line))
  const values = events.map(({ message, headers, authorization, card }) => message ?? [headers ?? authorization, card])
  t.same(values.map(value => JSON.stringify(value)).sort(), [
    '"GET / Authorization: Basic ***"',
    '"authorization: Bearer *** x"',
    '"card ***"',
    '["***","***"]',
    '[{"authorization":["***"]},"***"]',
  ])
})

t.test('deep lines, and names that repeat, stop no destination and cost no other line', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const encodings = codecs.flatMap(({ name }) => (codecOf(name)?.encode ? [name] : []))
  const files = encodings.map(
    name => `  ${name}: { type: file, inputs: [in], path: ${name}.out, encoding: ${name}, batch: { max_events: 5 } }`,
  )
  const folder = testFolder(t, {
    'sluice.yaml': `
metrics: { listen: "${HOST}:0" }
sources: { in: { type: stdin, decode: json } }
destinations:
${files.join('\n')}
  protobuf: { type: otlp, inputs: [in], url: "${receiver.url()}" }
  text: { type: otlp, inputs: [in], url: "${receiver.url()}", encoding: json }
`,
  })
  const deep = '{"a":'.repeat(20_000) + '['.repeat(20_000) + ']'.repeat(20_000) + '}'.repeat(20_000)
  const twice = `{"x":${'{"x":'.repeat(20)}1${',"a":1,"a":2}'.repeat(20)}}`
  const equal = Array.from({ length: 15_000 }, (_, i) => `"${'x'.repeat(32)}${i}":"${i}"`).join()
  const lines = [
    '{"message":"first"}',
    `{"message":${deep},"app":${deep},"timestamp":${deep}}`,
    `{"more":${deep}}`,
    `{"message":"m","facility":{"toString":1},"structured_data":{"a":${deep}}}`,
    twice,
    `{"message":"m","structured_data":{"a":{${equal}}}}`,
    '{"message":"last"}',
  ]
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  daemon.child.stdin!.end(lines.map(line => `${line}\n`).join(''))
  t.equal(await daemon.exit, 0, daemon.stderr)
  const delivered = Object.fromEntries([...encodings, 'protobuf', 'text'].map(name => [name, lines.length]))
  t.match(JSON.parse(daemon.stderr.trimEnd().split('\n').at(-1)!), {
    received: lines.length,
    undelivered: 0,
    delivered,
  })
  for (const name of encodings) {
    const written = readFileSync(join(folder, `${name}.out`), 'latin1')
    t.ok(written.indexOf('first') < 200 && written.lastIndexOf('last') > written.length - 200, name)
  }
})

t.test('the encoding text writes one field of each event to every destination of lines', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const cwd = testFolder(t, {
    'sluice.yaml': `
data_dir: state
metrics: false
sources: { in: { type: stdin, decode: json } }
destinations:
  shown: { type: stdout, inputs: [in], encoding: { codec: text, field: .log } }
  kept: { type: file, inputs: [in], path: out.log, encoding: { codec: text, field: .log } }
  sent: { type: http, inputs: [in], url: "${receiver.url()}", encoding: { codec: text, field: .log } }
  whole: { type: file, inputs: [in], path: message.log, encoding: text }
`,
  })
  const run = sluice(['run', '--config', 'sluice.yaml'], { cwd })
  run.child.stdin!.end('{"log":"one\\ntwo","message":"a"}\n{"other":1}\n')
  t.equal(await run.exit, 0, run.stderr)
  const lines = ['one two', '{"other":1}']
  t.same(run.stdout.split('\n').slice(0, -1), lines)
  t.same(linesOf(join(cwd, 'out.log')), lines)
  t.same(receiver.lines(), lines)
  t.same(linesOf(join(cwd, 'message.log')), ['a', '{"other":1}'])
  const missing = run.stderr.split('\n').filter(line => line.includes('SLUICE_FIELD_MISSING'))
  t.equal(missing.length, 4, 'each destination logs that an event lacks the field')
})
