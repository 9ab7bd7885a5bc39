import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { keyGate } from '../support/key-gate.js'
import { ordeal } from '../support/ordeal.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'

/**
 * `sluice run` with a real OpenSearch and a real Elasticsearch 7, and what they answer. Read back are the documents that a
 * search finds.
 */

let server = await startServer(t, 'opensearch', testFolder(t))
const PAGE = 10_000

type Document = Record<string, unknown> & { readonly n: number }

async function ask(method: string, path: string, body?: object): Promise<unknown> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${server!.url}/${path}`, { method, headers, body: body ? JSON.stringify(body) : null })
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
  return await response.json()
}

/** All documents below an index, in the order of their numbers, by pages. */
async function stored(index: string): Promise<Document[]> {
  await ask('POST', `${index}/_refresh`)
  const all: Document[] = []
  for (let search_after: unknown[] | undefined; ; ) {
    const query = { size: PAGE, sort: ['n', '_id'], ...(search_after && { search_after }) }
    const found = (await ask('POST', `${index}/_search`, query)) as {
      hits: { hits: { _source: Document; sort: unknown[] }[] }
    }
    const { hits } = found.hits
    all.push(...hits.map(({ _source }) => _source))
    if (hits.length < PAGE) return all
    search_after = hits.at(-1)!.sort
  }
}

const configOf = (url: string, more = 'index: "app-${.app:-none}"') =>
  `sources: { in: { type: file, include: [app.ndjson], decode: json } }
destinations:
  out:
    type: elasticsearch
    inputs: [in]
    url: ${url}
    batch: { max_wait: 50ms }
    retry: { initial: 50ms, max: 500ms }
    timeout: 5s
    ${more}
`

const lineOf = (n: number, more: object = {}) =>
  JSON.stringify({ timestamp: new Date(1.7e12 + n).toISOString(), n, app: n % 3, message: `é "${n}" \\`, ...more })

const inbox = (folder: string, lines: readonly string[]) =>
  appendFileSync(join(folder, 'app.ndjson'), lines.map(line => `${line}\n`).join(''))

const settled = (daemon: Daemon, events: number) =>
  daemon.scrapedUntil(scrape => scrape.events('out').sent + scrape.events('out').discarded >= events)

const range = (count: number) => Array.from({ length: count }, (_, n) => n)

/** Kills of both sides and silence: every event is stored once and unchanged. */
async function kills(t: Test, count: number): Promise<void> {
  const folder = testFolder(t)
  const lines = range(count).map(n => lineOf(n))
  const PART = count / 10
  let next = 0
  const write = () => inbox(folder, lines.slice(next, (next += PART)))
  const start = () => startDaemon(t, folder, configOf(server!.url))

  const isOver = () => next >= count
  const daemon = await ordeal({ server: server!, start, write, isOver, begun: one => settled(one, 1) })

  t.equal(next, count)
  const counted = async () => ((await ask('GET', 'app-*/_count')) as { count: number }).count
  for (let now = await counted(); now < count; now = await counted())
    await until('more events to be stored', async () => (await counted()) > now, { every: 500 })
  t.same((await daemon.stop(t)).discarded, {})
  const all = await stored('app-*')
  t.equal(all.length, count, 'no event is missing, and none is there twice')
  const isChanged = ({ '@timestamp': time, ...document }: Document) =>
    JSON.stringify(document) !== lines[document.n] || time !== document.timestamp
  t.same(all.filter(isChanged).slice(0, 3), [], 'no event is changed')
}

/** A refusal of a part: each event has its reason, and comes in when the cause is mended. */
async function partly(t: Test): Promise<void> {
  const folder = testFolder(t)
  const mappings = { dynamic: 'strict', properties: { '@timestamp': { type: 'date' }, timestamp: { type: 'date' } } }
  const properties = { n: { type: 'long' }, app: { type: 'keyword' }, message: { type: 'text' } }
  await ask('PUT', 'part-1', {
    mappings: { ...mappings, properties: { ...mappings.properties, ...properties } },
  })
  const lines = range(300).map(n => {
    if (n % 10 === 3) return lineOf(n, { app: 1, later: 'x' })
    if (n % 10 === 5) return lineOf(n, { app: 'UPPER' })
    return n % 10 === 7 ? lineOf(n, { app: 'x'.repeat(300) }) : lineOf(n, { app: 1 })
  })
  inbox(folder, lines)
  const daemon = await startDaemon(t, folder, configOf(server!.url, 'index: "part-${.app}"'))
  await settled(daemon, 300)
  const totals = await daemon.stop(t)
  t.same(totals.discarded, { out: { mapping: 30, index_name: 60 } })
  t.equal((await stored('part-*')).length, 210)
  await ask('PUT', 'part-1/_mapping', { properties: { later: { type: 'keyword' } } })
  const args = ['--config', daemon.configPath, '--destination', 'out']
  const resent = await command(['resend', ...args], { cwd: folder })
  t.match(resent.stdout + resent.stderr, /index_name/)
  const all = await stored('part-*')
  t.equal(all.length, 240)
  t.equal(new Set(all.map(({ n }) => n)).size, 240)
}

t.test('OpenSearch: kills of both sides, and silence', { skip: !server }, t => kills(t, 100_000))
t.test('OpenSearch: a refusal of a part', { skip: !server }, partly)

t.test('a data stream, a kill, and a key that is replaced', { skip: !server }, async t => {
  const folder = testFolder(t, { key: 'first-key' })
  await ask('PUT', '_index_template/logs', { index_patterns: ['logs-*'], data_stream: {} })
  const gate = await keyGate(t, server!.url, 'ApiKey', 'first-key')
  const config = configOf(
    gate.url(''),
    'index: logs-app\n    mode: data_stream\n    auth: { type: api_key, key_file: key }',
  )
  inbox(
    folder,
    range(5000).map(n => lineOf(n)),
  )
  let daemon = await startDaemon(t, folder, config)
  await settled(daemon, 1)
  daemon.child.kill('SIGKILL')
  await daemon.exit
  daemon = await startDaemon(t, folder, config)
  await until('all are stored', async () => {
    const { count } = (await ask('GET', 'logs-app/_count')) as { count: number }
    return count >= 5000
  })
  const online = async () => await command(['validate', '--online', daemon.configPath], { cwd: folder })
  t.match(await online(), { code: 0, stdout: /destinations\.out: ok \(accepts requests; OpenSearch \d+\.\d+\.\d+\)/ })
  await until('it has logged the server', () => /"server":"OpenSearch \d/.test(daemon.stderr))
  const other = (index: string, mode: string) => {
    const options = `index: ${index}\n    mode: ${mode}`
    writeFileSync(join(folder, 'other.yaml'), `data_dir: other\n${configOf(server!.url, options)}`)
    return command(['validate', '--online', 'other.yaml'], { cwd: folder })
  }
  t.match(await other('logs-app', 'index'), { code: 1, stderr: /logs-app is a data stream: set mode: data_stream/ })
  await ask('PUT', 'plain')
  t.match(await other('plain', 'data_stream'), { code: 1, stderr: /plain is an index, not a data stream/ })
  t.match(await other('logs-new', 'data_stream'), { code: 0, stdout: /logs-new does not exist yet/ })
  gate.key = 'second-key'
  t.match(await online(), { code: 1, stderr: /destinations\.out: 401 .*the access key was refused/ })
  inbox(
    folder,
    range(1000).map(n => lineOf(5000 + n)),
  )
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_delivery_holding') === 1)
  writeFileSync(join(folder, 'key'), 'second-key')
  await until('the rest is stored', async () => (await stored('logs-app')).length >= 6000)
  t.same((await daemon.stop(t)).discarded, {})
  t.notMatch(daemon.stderr, /(first|second)-key/)
  t.same(
    (await stored('logs-app')).map(({ n }) => n),
    range(6000),
  )
})

t.test('the example runs as it is', { skip: !server }, async t => {
  const folder = testFolder(t, { log: {} })
  const example = readFileSync(join(checkout, 'config/examples/nginx-to-elasticsearch.yaml'), 'utf8')
  // The daemon of a test has these of its own.
  const here = example.replace(/^(data_dir|metrics):.*\n/gm, '').replace('/var/log/nginx', 'log')
  await ask('PUT', '_index_template/logs', { index_patterns: ['logs-*'], data_stream: {} })
  const line = '192.0.2.7 - - [31/Jan/2026:12:00:00 +0000] "GET /a?token=s3cret HTTP/1.1" 200 612 "-" "curl/8.5.0"\n'
  writeFileSync(join(folder, 'log/access.log'), line.repeat(1000))
  const daemon = await startDaemon(t, folder, here, { ELASTICSEARCH_URL: server!.url })
  type Found = { count: number; hits: { hits: { _source: object }[] } }
  await until('all are stored', async () => {
    const { count } = (await ask('GET', 'logs-nginx-default/_count').catch(() => ({}))) as Partial<Found>
    return count === 1000
  })
  await daemon.stop(t)
  const { hits } = (await ask('GET', 'logs-nginx-default/_search?size=1')) as Found
  t.match(hits.hits[0]!._source, { client: '***', path: '/a?token=***', status: 200, '@timestamp': /^2026-01-31T12/ })
})

t.test('Elasticsearch 7', async t => {
  await server?.kill()
  server = await startServer(t, 'elasticsearch', testFolder(t))
  if (!server) return
  await t.test('kills of both sides, and silence', t => kills(t, 30_000))
  await t.test('a refusal of a part', partly)
  const folder = testFolder(t, { 'sluice.yaml': `data_dir: data\n${configOf(server.url)}` })
  const online = await command(['validate', '--online', 'sluice.yaml'], { cwd: folder })
  t.match(online, { code: 0, stdout: /destinations\.out: ok \(accepts requests; Elasticsearch 7\.17\.\d+/ })
})
