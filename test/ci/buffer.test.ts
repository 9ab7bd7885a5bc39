import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HOST, listening } from '../support/address.js'
import { command } from '../support/cli.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { startReceiver } from '../support/receiver.js'
import { sluice } from '../support/sluice.js'

const RETRY = 'retry: { initial: 20ms, max: 50ms }'
const DISK = 'buffer: { type: disk }'

const line = (n: number) => `{"n":${n}}`
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)
const text = (from: number, to: number) =>
  range(from, to)
    .map(n => `${line(n)}\n`)
    .join('')

/** A receiver that remembers how often it has taken each number, and answers as it is told. */
async function startCounter(t: Test) {
  const seen = new Map<number, number>()
  const state = { status: 200, seen }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      const { status } = state
      if (status === 200) {
        for (const [, n] of Buffer.concat(chunks)
          .toString('latin1')
          .matchAll(/"n":(\d+)/g)) {
          seen.set(Number(n), (seen.get(Number(n)) ?? 0) + 1)
        }
      }
      response.writeHead(status).end()
    })
  })
  return Object.assign(state, { url: `http://${HOST}:${await listening(t, server)}/` })
}

const once = (seen: ReadonlyMap<number, number>, count: number) =>
  seen.size === count && [...seen.values()].every(times => times === 1)

t.test('one dead destination stops nobody: with a buffer of its own, not even its sources', async t => {
  const LINES = 200_000
  const rest = 'x'.repeat(200)
  const folder = testFolder(t)
  for (let n = 0; n < LINES; n += 10_000) {
    appendFileSync(
      join(folder, 'in.log'),
      range(n, n + 10_000)
        .map(n => `{"n":${n},"rest":"${rest}"}\n`)
        .join(''),
    )
  }
  const [dead, alive] = [await startCounter(t), await startCounter(t)]
  dead.status = 503
  const config = `
sources: { log: { type: file, include: [in.log], decode: json } }
destinations:
  dead: { type: http, inputs: [log], url: "${dead.url}", ${RETRY}, ${DISK} }
  alive: { type: http, inputs: [log], url: "${alive.url}" }
`
  const daemon = await startDaemon(t, folder, config)
  const apart = await daemon.scrapedUntil(scrape => scrape.events('alive').sent === LINES)
  apart.conserves(t, 'while one is down')
  t.equal(apart.events('dead').sent, 0)
  const waiting = await daemon.scrapedUntil(scrape => scrape.sum('sluice_source_unacknowledged_bytes') === 0)
  waiting.conserves(t, 'all of it is acknowledged')
  t.equal(waiting.sum('sluice_buffer_events'), LINES)
  t.ok(waiting.sum('sluice_buffer_bytes') > LINES * 200)
  t.equal(waiting.sum('sluice_buffer_max_bytes'), 1e9)
  dead.status = 200
  const drained = await daemon.scrapedUntil(scrape => scrape.events('dead').sent === LINES)
  drained.conserves(t, 'at the end')
  t.ok(once(dead.seen, LINES) && once(alive.seen, LINES), 'every line, once')
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_buffer_events') === 0)
  t.match(await daemon.stop(t), { undelivered: 0 })
  t.same(readdirSync(join(folder, 'state/buffer/dead')), ['ledger'])
})

t.test('without a buffer it holds its own sources, and nothing else', async t => {
  const [dead, alive] = [await startCounter(t), await startCounter(t)]
  dead.status = 503
  const folder = testFolder(t, { 'a.log': text(0, 5000), 'b.log': text(5000, 10_000) })
  const config = `
sources: { a: { type: file, include: [a.log], decode: json }, b: { type: file, include: [b.log], decode: json } }
destinations:
  dead: { type: http, inputs: [a], url: "${dead.url}", ${RETRY} }
  alive: { type: http, inputs: [b], url: "${alive.url}" }
`
  const daemon = await startDaemon(t, folder, config)
  ;(await daemon.scrapedUntil(scrape => scrape.events('alive').sent === 5000)).conserves(t)
  appendFileSync(join(folder, 'b.log'), text(10_000, 10_100))
  await daemon.scrapedUntil(scrape => scrape.events('alive').sent === 5100)
  dead.status = 200
  await daemon.scrapedUntil(scrape => scrape.events('dead').sent === 5000)
  await daemon.stop(t)
  t.ok(once(dead.seen, 5000) && once(alive.seen, 5100))
})

t.test('killed: what a source that cannot be read again has given is there, and delivered after the start', async t => {
  const receiver = await startCounter(t)
  receiver.status = 503
  const config = `
sources: { in: { type: stdin, decode: json } }
destinations: { up: { type: http, inputs: [in], url: "${receiver.url}", ${RETRY}, ${DISK} } }
`
  const folder = testFolder(t)
  let next = 0
  const safe: number[] = []
  for (let life = 0; life < 2; life++) {
    const daemon = await startDaemon(t, folder, config)
    const { stdin } = daemon.child
    stdin!.on('error', () => {})
    const before = (await daemon.scrape()).sum('sluice_buffer_events')
    for (let i = 1; i <= 3; i++) {
      stdin!.write(text(next, next + 500))
      safe.push(...range(next, next + 500))
      next += 500
      await daemon.scrapedUntil(scrape => scrape.sum('sluice_buffer_events') === before + i * 500)
    }
    // Killed while more of it comes: some of that may be there, too.
    stdin!.write(text(next, next + 20_000))
    next += 20_000
    await new Promise(resolve => setTimeout(resolve, life * 7))
    daemon.child.kill('SIGKILL')
    await daemon.exit
  }
  receiver.status = 200
  const last = await startDaemon(t, folder, config)
  last.child.stdin!.end(text(next, next + 10))
  t.match(await last.ended(t), { received: 10, undelivered: 0 })
  t.ok(
    [...safe, ...range(next, next + 10)].every(n => receiver.seen.has(n)),
    'every line that was acknowledged arrived',
  )
  t.ok(once(receiver.seen, receiver.seen.size), 'and none twice, since none was delivered before')
})

t.test('SIGTERM while the receiver is away: retries are kept for the next start', async t => {
  const receiver = await startCounter(t)
  receiver.status = 503
  const folder = testFolder(t)
  const config = (shutdown: string) => `
shutdown_timeout: ${shutdown}
sources: { in: { type: stdin, decode: json } }
destinations: { up: { type: http, inputs: [in], url: "${receiver.url}", ${RETRY}, ${DISK} } }
`
  const first = await startDaemon(t, folder, config('300ms'))
  first.child.stdin!.write(text(0, 3000))
  await first.scrapedUntil(scrape => scrape.events('up').inFlight === 3000)
  t.match(await first.stop(t), { received: 3000, passed: 0, discarded: {}, undelivered: 3000 })
  receiver.status = 200
  const second = await startDaemon(t, folder, config('10s'))
  const scrape = await second.scrapedUntil(scrape => scrape.events('up').sent === 3000)
  t.equal(scrape.sum('sluice_buffer_replayed_events_total'), 3000)
  t.equal(scrape.events('up').received, 3000, 'they count as received again')
  second.child.stdin!.write(text(3000, 3100))
  await second.scrapedUntil(scrape => scrape.events('up').sent === 3100)
  await second.stop(t)
  t.ok(once(receiver.seen, 3100), 'every line, once')
  const third = await startDaemon(t, folder, config('10s'))
  third.child.stdin!.end()
  t.match(await third.ended(t), { passed: 0 }, 'nothing is repeated')
})

t.test('SIGTERM when a part of a batch was accepted: only the rest of it comes at the next start', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const folder = testFolder(t, { 'in.log': text(0, 8000) })
  const config = `
sources: { in: { type: file, include: [in.log], decode: json } }
destinations: { up: { type: http, inputs: [in], url: "${receiver.url()}", batch: { max_events: 1000 }, ${RETRY}, ${DISK} } }`
  for (const goal of [2000, 3000]) {
    receiver.otherwise = () => (receiver.lines().length < goal && receiver.requests.length % 3 === 0 ? 200 : 503)
    const daemon = await startDaemon(t, folder, config)
    await daemon.until(() => receiver.lines().length === goal)
    await daemon.stop(t)
  }
  receiver.otherwise = 200
  const last = await startDaemon(t, folder, config)
  await last.until(() => new Set(receiver.lines()).size === 8000)
  await last.stop(t)
  t.same(receiver.lines().sort(), range(0, 8000).map(line).sort(), 'every line, once')
})

t.test('what was delivered while another request waited for its retry does not come again after a kill', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  receiver.otherwise = ({ body }) => (body.includes(line(0)) ? 503 : 200)
  const accepted = () =>
    receiver.requests.flatMap(({ body, status }) => (status === 200 ? body.trimEnd().split('\n') : []))
  const folder = testFolder(t)
  const config = `sources: { in: { type: stdin, decode: json } }
destinations: { up: { type: http, inputs: [in], url: "${receiver.url()}", ${RETRY}, batch: { max_wait: 10ms }, ${DISK} } }`
  const first = await startDaemon(t, folder, config)
  first.child.stdin!.write(text(0, 10))
  await first.until(() => receiver.requests.length > 0)
  first.child.stdin!.write(text(10, 20))
  await first.until(() => accepted().length >= 10)
  const ledger = join(folder, 'state/buffer/up/ledger')
  await first.until(() => existsSync(ledger) && readFileSync(ledger, 'latin1').includes('"ahead":[{'))
  first.child.kill('SIGKILL')
  await first.exit
  receiver.otherwise = 200
  const second = await startDaemon(t, folder, config)
  await second.until(() => accepted().includes(line(0)))
  await second.stop(t)
  t.same(accepted().sort(), range(0, 20).map(line).sort(), 'every line, once')
})

t.test('killed while one partition is refused: no event is lost, and each arrives where it belongs', async t => {
  for (const buffer of ['', DISK]) {
    const receiver = await startReceiver()
    t.teardown(() => receiver.close())
    receiver.otherwise = ({ path }) => (path === '/b' ? 503 : 200)
    const folder = testFolder(t)
    const lines = range(0, 400).map(n => `{"n":${n},"app":"${'abc'[n % 3]}"}`)
    writeFileSync(join(folder, 'in.log'), `${lines.join('\n')}\n`)
    const accepted = (path: string) =>
      receiver.requests.flatMap(of => (of.status === 200 && of.path === path ? of.body.trimEnd().split('\n') : []))
    const url = receiver.url('/${.app}')
    const config = `sources: { in: { type: file, include: [in.log], decode: json } }
destinations: { up: { type: http, inputs: [in], url: "${url}", ${RETRY}, batch: { max_events: 20, max_wait: 10ms }, ${buffer} } }`
    const first = await startDaemon(t, folder, config)
    await first.until(() => accepted('/a').length >= 20 && accepted('/c').length >= 20)
    await first.until(() => receiver.requests.filter(({ path }) => path === '/b').length >= 2)
    first.child.kill('SIGKILL')
    await first.exit
    t.same(accepted('/b'), [])
    receiver.otherwise = 200
    const second = await startDaemon(t, folder, config)
    await second.until(() => new Set(['/a', '/b', '/c'].flatMap(accepted)).size === 400)
    await second.stop(t)
    for (const [i, path] of ['/a', '/b', '/c'].entries()) {
      const wanted = lines.filter((_, n) => n % 3 === i)
      t.same([...new Set(accepted(path))].sort(), [...wanted].sort(), `all of ${path}, and nothing else`)
    }
    t.same(
      [...new Set(accepted('/b'))],
      lines.filter((_, n) => n % 3 === 1),
      'in order',
    )
  }
})

t.test('V#16525: a torn end is cut, the middle stepped over; a buffer nobody uses is told and kept', async t => {
  const receiver = await startCounter(t)
  receiver.status = 503
  const folder = testFolder(t)
  const source = 'sources: { in: { type: stdin, decode: json } }'
  const buffered = `${source}\ndestinations: { up: { type: http, inputs: [in], url: "${receiver.url}", ${RETRY}, ${DISK} } }`
  const first = await startDaemon(t, folder, buffered)
  for (let n = 0; n < 600; n += 100) {
    first.child.stdin!.write(text(n, n + 100))
    await first.scrapedUntil(scrape => scrape.sum('sluice_buffer_events') === n + 100)
  }
  await first.until(() => existsSync(join(folder, 'state/buffer/up/ledger')))
  first.child.kill('SIGKILL')
  await first.exit

  const unused = await startDaemon(t, folder, `${source}\ndestinations: { up: { type: blackhole, inputs: [in] } }`)
  unused.child.stdin!.end()
  await unused.ended(t)
  t.match(
    unused.logs().find(({ code }) => code === 'SLUICE_ORPHANED'),
    { level: 40, kind: 'buffer', component: 'up', events: 600 },
  )

  const [name = ''] = readdirSync(join(folder, 'state/buffer/up'))
  const path = join(folder, 'state/buffer/up', name)
  const bytes = readFileSync(path)
  bytes[bytes.indexOf(line(250))]! ^= 0xff
  writeFileSync(path, bytes)
  truncateSync(path, statSync(path).size - 10)
  receiver.status = 200
  const second = await startDaemon(t, folder, buffered)
  // The last line of the last batch that is not torn.
  await second.until(() => receiver.seen.has(499))
  const scrape = await second.scrapedUntil(scrape => scrape.events('up').inFlight === 0)
  scrape.conserves(t, 'what is missing is accounted for')
  const { received, sent, discarded } = scrape.events('up')
  t.same({ received, sent }, { received: sent + discarded, sent: receiver.seen.size })
  t.ok(discarded >= 100 && discarded <= 200, `${discarded} events were damaged`)
  t.ok(receiver.seen.has(0) && receiver.seen.has(499) && !receiver.seen.has(250))
  t.ok(scrape.sum('sluice_buffer_corrupt_bytes_total') > 0)
  t.ok(scrape.sum('sluice_buffer_torn_bytes_total') > 0)
  await second.stop(t)
})

t.test('dead letters are sent again, beside the daemon that writes them', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  receiver.otherwise = ({ body }) => (body.includes('"bad"') ? 422 : 200)
  const folder = testFolder(t)
  const config = `
sources: { in: { type: stdin, decode: json } }
destinations: { up: { type: http, inputs: [in], url: "${receiver.url()}", batch: { max_events: 1 }, max_in_flight: 1 } }
`
  const daemon = await startDaemon(t, folder, config)
  const events = ['{"n":1}', '{"n":2,"bad":1.0}', '{"n":3,"bad":2.0}', '{"n":4}']
  daemon.child.stdin!.write(`${events.join('\n')}\n`)
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_dead_letter_events_total') === 2)
  const path = join(folder, 'state/dead-letter/up.ndjson')
  const resend = (...args: string[]) =>
    command(['resend', '--config', daemon.configPath, '--destination', 'up', ...args], { cwd: folder })
  t.match(await resend('--dry-run'), { code: 0, stdout: `up: 2 to send (status_422: 2), from ${path}\n` })
  t.match(await resend(), { code: 1, stdout: `up: 0 sent; 2 rejected again (status_422: 2), and back in ${path}\n` })
  t.match(JSON.parse(readFileSync(path, 'utf8').split('\n')[0]!), {
    destination: 'up',
    reason: 'status_422',
    status: 422,
    request_id: 'request-5',
    event: { n: 2 },
  })
  receiver.otherwise = 200
  t.match(await resend(), { code: 0, stdout: 'up: 2 sent\n' })
  t.same(receiver.lines(), ['{"n":1}', '{"n":4}', events[1], events[2]], 'as they were, to the digit')
  t.notOk(existsSync(path) || existsSync(`${path}.sending`))
  t.match(await resend('--dry-run'), { code: 0, stdout: 'up: nothing to send\n' })
  t.match(await resend(), { code: 0, stderr: /nothing to send/ })
  const inferred = await command(['resend', '-c', daemon.configPath, '--dry-run'])
  t.match(inferred, { code: 0, stdout: 'up: nothing to send\n' })
  t.match(await resend('nowhere.ndjson'), { code: 1, stderr: 'sluice: the file nowhere.ndjson does not exist\n' })
  const other = sluice(['resend', '-c', daemon.configPath, '--destination', 'upp'], { cwd: folder })
  t.equal(await other.exit, 2)
  t.match(other.stderr, 'the configuration has no destination or processor upp; did you mean up?')
  await daemon.stop(t)
})

t.test('dead letters are reported after a restart, by commands that work, until they are sent again', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const letter = (n: number) =>
    `${JSON.stringify({ time: new Date(Date.now() - 7_380_000).toISOString(), destination: 'up', reason: 'status_422', error: 'no', event: { n } })}\n`
  mkdirSync(join(folder, 'state/dead-letter'), { recursive: true })
  writeFileSync(join(folder, 'state/dead-letter/up.ndjson'), letter(1) + letter(2))
  const orphaned = join(folder, 'state/dead-letter/former.ndjson')
  writeFileSync(orphaned, letter(3))
  mkdirSync(join(folder, 'state/checkpoints'))
  writeFileSync(join(folder, 'state/checkpoints/removed.json'), '{}')
  const yaml = `data_dir: state
metrics: false
sources: { in: { type: stdin, decode: json } }
destinations:
  up: { type: http, inputs: [in], url: "${receiver.url()}" }
  other: { type: http, inputs: [in], url: "${receiver.url()}" }
`
  writeFileSync(join(folder, 'sluice.yaml'), yaml)
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  const call = (args: readonly string[], cwd: string, env = {}) => command(args, { cwd, env })
  const status = () => call(['status', '--config', 'sluice.yaml'], folder)
  const before = await status()
  t.match(before, { code: 1, stdout: /^! up: 2 events in the dead-letter queue, the oldest for 2h \d+m$/m })
  const elsewhere = testFolder(t)
  const shown = await call(['status', '--socket', join(folder, 'state/sluice.sock')], elsewhere)
  const [first, second] = [...shown.stdout.matchAll(/^ {4}sluice (resend .*)$/gm)].map(([, line]) => line!.split(' '))
  t.match(await call(first!, elsewhere), { code: 0, stdout: /^up: 2 to send \(status_422: 2\)/ })
  const asked = await call(['resend', '--dry-run'], elsewhere, { SLUICE_SOCKET: join(folder, 'state/sluice.sock') })
  t.match(asked, { code: 0, stdout: /^up: 2 to send/ })
  t.match(await call(second!, elsewhere), { code: 0, stdout: 'up: 2 sent\n' })
  t.same(receiver.lines(), ['{"n":1}', '{"n":2}'])
  const left = await status()
  t.match(left, { code: 1, stdout: /^! former is not configured any more and left 1 rejected event /m })
  t.notMatch(left.stdout, /Nothing is wrong|! removed/)
  rmSync(orphaned)
  const notices = await status()
  t.match(notices, {
    code: 0,
    stdout: /^Nothing is wrong\.\n\n- removed is not configured any more and left saved positions /m,
  })
  t.match(notices.stdout, /^ {2}If the source has another name now, /m)
  const { stdout } = await call(['status', '--config', 'sluice.yaml', '--json'], folder)
  t.match(JSON.parse(stdout), { problems: [], notices: [{ what: /^removed is not/, todo: /discard_orphans/ }] })
  const none = await call(['resend', '-c', 'sluice.yaml'], folder)
  t.match(none, { code: 0, stdout: /^nothing to send: there are no rejected events in / })
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
})

t.test('what is acknowledged after data_dir was removed is there after a kill', async t => {
  const folder = testFolder(t)
  const counter = await startCounter(t)
  counter.status = 503
  const config = `
sources: { web: { type: http, listen: ${HOST}:0 } }
destinations: { up: { type: http, inputs: [web], url: "${counter.url}", ${DISK}, ${RETRY}, batch: { max_wait: 20ms } } }
`
  const post = async (n: number) => {
    const headers = { 'content-type': 'application/x-ndjson' }
    const { status } = await fetch(`http://${address}/`, { method: 'POST', body: line(n), headers })
    t.equal(status, 202)
  }
  const daemon = await startDaemon(t, folder, config)
  const address = await daemon.until(() => /"address":"([^"]+)".*"msg":"listening"/.exec(daemon.stderr)?.[1])
  await post(1)
  rmSync(join(folder, 'state'), { recursive: true })
  await post(2)
  await daemon.until(() => daemon.stderr.includes('SLUICE_DATA_DIR_REPLACED'))
  await post(3)
  await daemon.until(() => existsSync(join(folder, 'state/sluice.sock')))
  const other = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  t.equal(await other.exit, 1)
  t.match(other.stderr, /is in use by another sluice/, 'the folder is locked again')
  daemon.child.kill('SIGKILL')
  await daemon.exit
  counter.status = 200
  const next = await startDaemon(t, folder, config)
  await next.until(() => counter.seen.size === 2)
  await next.stop(t)
  t.same([...counter.seen.keys()], [2, 3])
})

t.test('lines that a codec with options reads are the same events behind a buffer, a kill and a restart', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  receiver.otherwise = 503
  const folder = testFolder(t)
  const config = (decode: string) => `
sources: { in: { type: stdin, decode: ${decode} } }
processors: { few: { type: throttle, inputs: [in], limit: 2, window: 1h, key_field: .user } }
destinations:
  up: { type: http, inputs: [few], url: "${receiver.url()}", batch: { max_wait: 20ms }, ${RETRY}, ${DISK} }
  out: { type: file, inputs: [few], path: out.log, encoding: logfmt }
`
  const first = await startDaemon(t, folder, config("{ codec: csv, delimiter: ';', columns: [user, note] }"))
  first.child.stdin!.write('ada;one\nada;"two; ""2"""\nada;three\nbob;\nonly one\n')
  const scrape = await first.scrapedUntil(
    scrape => scrape.sum('sluice_buffer_events') === 4 && scrape.events('out').sent === 4,
  )
  t.equal(scrape.sum('sluice_not_csv_lines_total'), 1)
  t.equal(scrape.sum('sluice_not_json_lines_total'), 0)
  scrape.conserves(t)
  const [one, two, bob, none] = readFileSync(join(folder, 'out.log'), 'utf8').split('\n')
  t.match(one, /^user=ada note=one host=\S+ timestamp=\S+Z$/)
  t.match(two, /^user=ada note="two; \\"2\\"" host=/)
  t.match([bob, none], [/^user=bob note= host=/, /^message="only one" host=/])
  await first.until(() => existsSync(join(folder, 'state/buffer/up/ledger')))
  first.child.kill('SIGKILL')
  await first.exit

  receiver.otherwise = 200
  // What is in the buffer is read as it was when it came, however lines are read now.
  const second = await startDaemon(t, folder, config('json'))
  second.child.stdin!.end('{"user":"eve"}\n')
  t.match(await second.ended(t), { undelivered: 0 })
  const events = receiver.lines().map(line => JSON.parse(line))
  t.match(events, [
    { user: 'ada', note: 'one' },
    { user: 'ada', note: 'two; "2"' },
    { user: 'bob', note: '' },
    { message: 'only one' },
    { user: 'eve' },
  ])
  t.same(Object.keys(events[0]), ['user', 'note', 'host', 'timestamp'])
})
