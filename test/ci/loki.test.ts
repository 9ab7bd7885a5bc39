import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { command } from '../support/cli.js'
import { type Daemon, type Scrape, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { keyGate } from '../support/key-gate.js'
import { ordeal } from '../support/ordeal.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'

/** `sluice run` with a real Loki, and what it answers. Read back are the lines that its query shows. */

const EVENTS = 100_000
const APPS = 8
const PAGE = 20_000
const HOUR_MS = 3_600_000

interface Stored {
  readonly stream: Readonly<Record<string, string>>
  readonly nanos: string
  readonly line: string
}

interface Found {
  readonly data: { readonly result: readonly { stream: Stored['stream']; values: [string, string][] }[] }
}

const query = async (url: string, path: string, values: Record<string, string>) => {
  const response = await fetch(`${url}/loki/api/v1/${path}?${new URLSearchParams(values)}`)
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
  return (await response.json()) as Found
}

/** All lines of `{job="test"}` in the order of their times, by pages. */
async function stored(url: string): Promise<Stored[]> {
  const all = new Map<string, Stored>()
  const end = `${Date.now() + HOUR_MS}000000`
  for (let start = `${Date.now() - 30 * 24 * HOUR_MS}000000`; ; ) {
    const asked = { query: '{job="test"}', direction: 'forward', limit: String(PAGE), start, end }
    const { result } = (await query(url, 'query_range', asked)).data
    let count = 0
    for (const { stream, values } of result)
      for (const [nanos, line] of values) {
        count++
        all.set(`${stream.app} ${nanos} ${line}`, { stream, nanos, line })
        if (nanos > start) start = nanos
      }
    // The next page begins with the last time of this one.
    if (count < PAGE) return [...all.values()]
  }
}

async function count(url: string, labels = 'job="test"'): Promise<number> {
  const { data } = await query(url, 'query', { query: `sum(count_over_time({${labels}}[6h]))` })
  const [sum] = data.result as unknown as { value: [number, string] }[]
  return Number(sum?.value[1] ?? 0)
}

const configOf = (url: string, more = '') =>
  `sources: { in: { type: file, include: [app.ndjson], decode: json } }
destinations:
  out:
    type: loki
    inputs: [in]
    url: ${url}
    labels: { job: test, app: "\${.app:-none}" }
    batch: { max_wait: 50ms }
    retry: { initial: 50ms, max: 500ms }
    timeout: 2s
${more}`

const lineOf = (n: number, app: string, at: number, more = '') =>
  JSON.stringify({ timestamp: new Date(at).toISOString(), app, n, message: `é "${n}" \\ ${more}` })

const inbox = (folder: string, lines: readonly string[]) =>
  appendFileSync(join(folder, 'app.ndjson'), lines.map(line => `${line}\n`).join(''))

/** As `scrapedUntil`, with less work for what takes seconds. */
const scraped = (daemon: Daemon, test: (scrape: Scrape) => boolean) =>
  until(String(test), async () => test(await daemon.scrape()), { every: 250, show: () => daemon.stderr })

const sent = (daemon: Daemon, more: number) =>
  scraped(daemon, scrape => scrape.events('out').sent + scrape.events('out').discarded >= more)

const numberOf = ({ line }: Stored) => (JSON.parse(line) as { n: number }).n

/** Limits of a Loki that refuses little. */
const WIDE = {
  max_entries_limit_per_query: PAGE,
  ingestion_rate_mb: 100,
  ingestion_burst_size_mb: 100,
  per_stream_rate_limit: '100MB',
  per_stream_rate_limit_burst: '100MB',
}

t.test('kills of both sides and silence: every event is stored once and unchanged', async t => {
  const folder = testFolder(t)
  const loki = await startServer(t, 'loki', folder, WIDE)
  if (!loki) return
  const begin = Date.now() - EVENTS - 60_000
  const lines = Array.from({ length: EVENTS }, (_, n) => lineOf(n, `app${n % APPS}`, begin + n))
  const PART = EVENTS / 10
  let next = 0
  const write = () => inbox(folder, lines.slice(next, (next += PART)))
  const start = () => startDaemon(t, folder, configOf(loki.url))

  const isOver = () => next >= EVENTS
  const daemon = await ordeal({ server: loki, start, write, isOver, begun: one => sent(one, 1) })
  // Equal lines of one millisecond.
  const same = lineOf(-1, 'same', begin)
  inbox(
    folder,
    Array.from({ length: 5000 }, () => same),
  )

  t.equal(next, EVENTS)
  // The server counts an event that was sent again twice. Nothing is sent again after the last kill.
  const areLastStored = async () => (await count(loki.url, 'app="same"')) >= 5000
  await until('the last events are stored', areLastStored, { every: 2000 })
  // Earlier requests may still be sent again after a timeout.
  await scraped(daemon, scrape => scrape.sum('sluice_file_unread_bytes') === 0 && scrape.events('out').inFlight === 0)
  const totals = await daemon.stop(t)
  t.same(totals.discarded, {})
  const all = await stored(loki.url)
  const [apps, equal] = [false, true].map(is => all.filter(({ line }) => (line === same) === is)) as [
    Stored[],
    Stored[],
  ]
  t.equal(equal.length, 5000, 'equal lines of one millisecond are all kept')
  t.equal(apps.length, EVENTS, 'no event is missing, and none is there twice')
  t.equal(new Set(apps.map(numberOf)).size, EVENTS)
  const isChanged = (one: Stored) =>
    one.line !== lines[numberOf(one)] || one.stream.app !== `app${numberOf(one) % APPS}`
  t.same(apps.filter(isChanged).slice(0, 3), [], 'no event is changed, or in another stream')
})

t.test('a refusal of a part: each event is found, and the others are stored once', async t => {
  const folder = testFolder(t)
  const limits = { max_line_size: '2KB', max_structured_metadata_size: '1KB', max_label_value_length: 100 }
  const loki = await startServer(t, 'loki', folder, { ...WIDE, ...limits })
  if (!loki) return
  const now = Date.now() - 60_000
  const lines: string[] = []
  const expected: Record<string, number> = {}
  const wrong = (n: number, app: string): [reason: string, line: string][] => [
    ['too_far_behind', lineOf(n, app, now - 2 * HOUR_MS + n)],
    ['too_old', lineOf(n, app, now - 8 * 24 * HOUR_MS + n)],
    ['too_new', lineOf(n, app, now + 24 * HOUR_MS)],
    ['too_long', lineOf(n, app, now + n, 'x'.repeat(2500))],
    ['labels', lineOf(n, `${app}${'y'.repeat(200)}`, now + n)],
    ['metadata', lineOf(n, app, now + n).replace('{', `{"trace":"${'z'.repeat(1200)}",`)],
  ]
  for (let n = 0; n < 1000; n++) {
    const app = `app${n % 5}`
    // The first events of each stream are new ones.
    const isGood = n < 20 || n % 7 !== 0
    const kind = (n / 7) % 6
    // Too old is also too far behind, in a stream that has newer events.
    const [reason, line] = isGood ? ['', lineOf(n, app, now + n)] : wrong(n, kind === 1 ? 'old' : app)[kind]!
    lines.push(line)
    if (reason) expected[reason] = (expected[reason] ?? 0) + 1
  }
  inbox(folder, lines)
  const metadata = '    structured_metadata: { trace: "${.trace}" }\n    hold_after_refusals: 0\n'
  const daemon = await startDaemon(t, folder, configOf(loki.url, metadata))
  await sent(daemon, lines.length)
  const totals = await daemon.stop(t)
  t.same(totals.discarded, { out: expected })
  const rejected = Object.values(expected).reduce((sum, events) => sum + events, 0)
  t.equal(totals.delivered.out, lines.length - rejected)
  const all = await stored(loki.url)
  t.equal(all.length, lines.length - rejected)
  t.ok(all.every(one => one.line === lines[numberOf(one)]))
})

t.test('limits of a rate and of streams: the streams concerned wait, the others do not', async t => {
  const folder = testFolder(t)
  const limits = { ...WIDE, per_stream_rate_limit: '10KB', per_stream_rate_limit_burst: '10KB' }
  const loki = await startServer(t, 'loki', folder, { ...limits, max_global_streams_per_user: 2 })
  if (!loki) return
  const now = Date.now() - 60_000
  const daemon = await startDaemon(t, folder, configOf(loki.url))
  const made = (app: string, from: number, to: number, more = '') =>
    Array.from({ length: to - from }, (_, i) => lineOf(from + i, app, now + from + i, more))
  const put = (...lines: string[][]) => inbox(folder, lines.flat())
  const retries = (reason: string) =>
    scraped(daemon, scrape => scrape.sum('sluice_delivery_retries_total', { reason }) > 0)
  put(made('quiet', 0, 1))
  await sent(daemon, 1)
  // They are read together: of several streams in a request, Loki would report the last one only.
  put(made('loud', 1, 51, 'x'.repeat(500)), made('quiet', 51, 61))
  await retries('per_stream_rate_limit')
  await until('the quiet stream is stored', async () => {
    const found = await stored(loki.url)
    return found.filter(({ stream }) => stream.app === 'quiet').length === 11
  })
  put(made('new', 61, 71), made('quiet', 71, 81))
  await retries('max_global_streams_per_user')
  await sent(daemon, 71)
  t.notOk((await stored(loki.url)).some(({ stream }) => stream.app === 'new'))
  await loki.kill()
  // What the administrator may also do.
  await loki.start({ ...WIDE, block_ingestion_until: new Date(now + 24 * HOUR_MS).toISOString() })
  await retries('ingestion_blocked')
  await loki.kill()
  await loki.start({ ...WIDE, ingestion_rate_mb: 0.01, ingestion_burst_size_mb: 0.01 })
  put(made('quiet', 81, 121, 'y'.repeat(500)))
  await retries('ingestion_rate_mb')
  await sent(daemon, 121)
  t.same((await daemon.stop(t)).discarded, {})
  t.same(
    (await stored(loki.url)).map(numberOf).sort((a, b) => a - b),
    Array.from({ length: 121 }, (_, n) => n),
  )
})

t.test('a key that is replaced, and an address that is wrong until it is corrected', async t => {
  const folder = testFolder(t)
  const loki = await startServer(t, 'loki', folder, WIDE)
  if (!loki) return
  const gate = await keyGate(t, loki.url, 'Bearer', 'first-key')
  const now = Date.now() - 60_000
  writeFileSync(join(folder, 'key'), 'first-key')
  const lines = Array.from({ length: 3000 }, (_, n) => lineOf(n, 'app', now + n))
  inbox(folder, lines.slice(0, 1000))
  const config = (path: string) => configOf(gate.url(path), '    auth: { scheme: Bearer, key_file: key }\n')
  let daemon = await startDaemon(t, folder, config(''))
  await sent(daemon, 1000)
  gate.key = 'second-key'
  inbox(folder, lines.slice(1000, 2000))
  const isHeld = () => scraped(daemon, scrape => scrape.sum('sluice_delivery_holding') === 1)
  await isHeld()
  writeFileSync(join(folder, 'key'), 'second-key')
  await sent(daemon, 2000)
  t.notMatch(daemon.stderr, /(first|second)-key/)
  t.same((await daemon.stop(t)).discarded, {})

  inbox(folder, lines.slice(2000))
  daemon = await startDaemon(t, folder, config('/wrong').replace('50ms }', '50ms, max_events: 100 }'))
  await isHeld()
  t.match(daemon.stderr, /404 page not found/)
  writeFileSync(daemon.configPath, readFileSync(daemon.configPath, 'utf8').replace('/wrong', ''))
  daemon.child.kill('SIGHUP')
  await sent(daemon, 1000)
  const { discarded, delivered } = await daemon.stop(t)
  // Four requests were rejected before it paused.
  t.same({ discarded, delivered }, { discarded: { out: { status_404: 400 } }, delivered: { out: 600 } })
  const resent = await command(['resend', '--config', daemon.configPath, '--destination', 'out'], { cwd: folder })
  t.equal(resent.code, 0, resent.stderr)
  const all = await stored(loki.url)
  t.same(
    all.map(numberOf).sort((a, b) => a - b),
    Array.from({ length: 3000 }, (_, n) => n),
  )
})

t.test('compression: gzip: the same is stored, and a time that Loki does not have is refused', async t => {
  const folder = testFolder(t)
  const loki = await startServer(t, 'loki', folder, WIDE)
  if (!loki) return
  const config = configOf(loki.url, '    compression: gzip\n    structured_metadata: { trace: "${.trace}", host: h }\n')
  const now = Date.now() - 60_000
  const lines = Array.from({ length: 5000 }, (_, n) =>
    n % 1000 === 7
      ? lineOf(n, `app${n % APPS}`, Date.UTC(2300, 0))
      : lineOf(n, `app${n % APPS}`, now + n).replace('{', `{"trace":"t${n}",`),
  )
  inbox(folder, lines)
  const daemon = await startDaemon(t, folder, config)
  const online = await command(['validate', '--online', daemon.configPath], { cwd: folder })
  t.match(online.stdout + online.stderr, /accepts requests/)
  await sent(daemon, lines.length)
  t.same((await daemon.stop(t)).discarded, { out: { no_time: 5 } })
  const all = await stored(loki.url)
  t.equal(all.length, 4995)
  const isChanged = (one: Stored) =>
    one.line !== lines[numberOf(one)] || one.stream.trace !== `t${numberOf(one)}` || one.stream.host !== 'h'
  t.same(all.filter(isChanged).slice(0, 3), [])
})

t.test('VictoriaLogs takes the same requests', async t => {
  const folder = testFolder(t)
  const server = await startServer(t, 'victorialogs', folder)
  if (!server) return
  const now = Date.now() - 60_000
  const lines = Array.from({ length: 5000 }, (_, n) => lineOf(n, `app${n % APPS}`, now + n))
  inbox(folder, lines.slice(0, 2500))
  let daemon = await startDaemon(t, folder, configOf(`${server.url}/insert`))
  await sent(daemon, 2500)
  t.same((await daemon.stop(t)).discarded, {})
  inbox(folder, lines.slice(2500))
  daemon = await startDaemon(t, folder, configOf(`${server.url}/insert`, '    compression: gzip\n'))
  await sent(daemon, 2500)
  t.same((await daemon.stop(t)).discarded, {})
  const shown = async () => {
    const response = await fetch(`${server.url}/select/logsql/query?query=*&limit=10000`)
    return (await response.text()).split('\n').filter(Boolean)
  }
  await until('all are shown', async () => (await shown()).length >= lines.length, { every: 300 })
  const found = (await shown()).map(line => JSON.parse(line) as Record<string, string>)
  // It makes fields of what is JSON.
  const shownAs = ({ app, n, message }: Record<string, unknown>) => `${app} ${n} ${message}`
  t.same(found.map(shownAs).sort(), lines.map(line => shownAs(JSON.parse(line))).sort())
})
