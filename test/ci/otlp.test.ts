import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { HOST, ownPort } from '../support/address.js'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { keyGate } from '../support/key-gate.js'
import { ordeal } from '../support/ordeal.js'
import { clientOf } from '../support/otlp-client.js'
import { comparableExport, EVERYTHING, exportMessage } from '../support/otlp-messages.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'

/** `sluice run` with a real OpenTelemetry Collector. Read back are the records that it writes into a file. */

const server = await startServer(t, 'otelcol', testFolder(t))
const EVENTS = 100_000

type Value = { readonly stringValue?: string; readonly intValue?: string }
interface Stored {
  readonly timeUnixNano: string
  readonly severityNumber: number
  readonly body: Value
  readonly attributes: readonly { readonly key: string; readonly value: Value }[]
  readonly resource: Record<string, string | undefined>
}

interface RelayedLogs {
  readonly resource: unknown
  readonly scopeLogs: readonly { readonly scope: unknown; readonly logRecords: readonly unknown[] }[]
}

/** All records that the Collector has written. */
function stored(): Stored[] {
  const lines = readFileSync(join(server!.folder, 'out.ndjson'), 'utf8').split('\n').slice(0, -1)
  return lines.flatMap(line => {
    const { resourceLogs } = JSON.parse(line) as {
      resourceLogs: { resource: Pick<Stored, 'attributes'>; scopeLogs: { logRecords: Omit<Stored, 'resource'>[] }[] }[]
    }
    return resourceLogs.flatMap(({ resource, scopeLogs }) => {
      const of = Object.fromEntries(resource.attributes.map(({ key, value }) => [key, value.stringValue]))
      return scopeLogs.flatMap(({ logRecords }) => logRecords.map(record => ({ ...record, resource: of })))
    })
  })
}

const attribute = ({ attributes }: Stored, name: string) => attributes.find(({ key }) => key === name)?.value
const numberOf = (record: Stored) => Number(attribute(record, 'n')?.intValue)
/** Of one test. */
const storedOf = (test: string) => stored().filter(record => attribute(record, 'test')?.stringValue === test)

const configOf = (url: string, more = '') =>
  `sources: { in: { type: file, include: [app.ndjson], decode: json } }
destinations:
  out:
    type: otlp
    inputs: [in]
    url: ${url}
    batch: { max_wait: 50ms }
    retry: { initial: 50ms, max: 500ms }
    timeout: 5s
    ${more}
`

const LEVELS = ['debug', 'info', 'warn', 'error']
const NUMBERS = [5, 9, 13, 17]
const timeOf = (n: number) => new Date(1.7e12 + n).toISOString()
const lineOf = (test: string, n: number, more: object = {}) =>
  JSON.stringify({
    timestamp: timeOf(n),
    level: LEVELS[n % 4],
    n,
    test,
    app: `app-${n % 3}`,
    message: `é "${n}"`,
    ...more,
  })

const inbox = (folder: string, lines: readonly string[]) =>
  appendFileSync(join(folder, 'app.ndjson'), lines.map(line => `${line}\n`).join(''))

const settled = (daemon: Daemon, events: number) =>
  daemon.scrapedUntil(scrape => scrape.events('out').sent + scrape.events('out').discarded >= events)

const range = (count: number) => Array.from({ length: count }, (_, n) => n)

t.test(
  'kills, restarts and silence: every event arrives unchanged, and its repetitions show',
  { skip: !server },
  async t => {
    const folder = testFolder(t)
    const lines = range(EVENTS).map(n => lineOf('all', n))
    const PART = EVENTS / 10
    let next = 0
    const write = () => inbox(folder, lines.slice(next, (next += PART)))
    const start = () => startDaemon(t, folder, configOf(server!.url, 'record_uid: true'))

    // A Collector that is killed would lose what it has taken and not written.
    const isOver = () => next >= EVENTS
    const daemon = await ordeal({
      server: server!,
      start,
      write,
      isOver,
      begun: one => settled(one, 1),
      signal: 'SIGTERM',
    })

    t.equal(next, EVENTS)
    const total = async () => {
      const scrape = await daemon.scrape()
      return scrape.events('in').sent - scrape.events('out').sent
    }
    await until(
      'all to be delivered',
      async () => (await total()) === 0 && new Set(storedOf('all').map(numberOf)).size === EVENTS,
      {
        every: 1000,
      },
    )
    t.same((await daemon.stop(t)).discarded, {})
    const records = storedOf('all')
    const uids = new Map<string, number>()
    for (const record of records) uids.set(attribute(record, 'log.record.uid')!.stringValue!, numberOf(record))
    t.equal(uids.size, EVENTS, 'each event has an id of its own, which its repetitions share')
    t.equal(new Set(uids.values()).size, EVENTS, 'no event is missing')
    t.comment(`${records.length - EVENTS} of ${EVENTS} came again`)
    t.ok(records.length - EVENTS < 7 * 32 * 1000, 'what was in flight at an end came again, and nothing else')
    const isChanged = (record: Stored) => {
      const n = numberOf(record)
      const expected = [`${1.7e12 + n}000000`, NUMBERS[n % 4], `é "${n}"`, `app-${n % 3}`]
      const { timeUnixNano, severityNumber, body, resource } = record
      const found = [timeUnixNano, severityNumber, body.stringValue, resource['service.name']]
      return expected.some((value, i) => value !== found[i])
    }
    t.same(records.filter(isChanged).slice(0, 3), [], 'no event is changed')
  },
)

t.test(
  'a receiver without memory, one that takes short requests only, and its own words',
  { skip: !server },
  async t => {
    const folder = testFolder(t)
    await server!.kill('SIGTERM')
    await server!.start({ limit_mib: 1 })
    inbox(
      folder,
      range(2000).map(n => lineOf('refused', n)),
    )
    const daemon = await startDaemon(t, folder, configOf(server!.url, 'compression: none'))
    await until('the reason is shown', () => /high memory usage.*memory_limiter/.test(daemon.stderr))
    await server!.kill('SIGTERM')
    await server!.start({ max_request_body_size: 50_000 })
    await settled(daemon, 2000)
    inbox(folder, [lineOf('refused', 2000, { long: 'x'.repeat(60_000) }), lineOf('refused', 2001)])
    await settled(daemon, 2002)
    const { discarded } = await daemon.stop(t)
    t.same(discarded, { out: { too_large: 1 } }, 'the long one alone is refused')
    await server!.kill('SIGTERM')
    await server!.start()
    const numbers = storedOf('refused').map(numberOf)
    t.same(new Set(numbers), new Set([...range(2000), 2001]))
    t.equal(numbers.length, 2001, 'none came twice')
  },
)

t.test('JSON, and a key that is replaced', { skip: !server }, async t => {
  const folder = testFolder(t, { key: 'first-key' })
  const gate = await keyGate(t, server!.url, 'Bearer', 'first-key')
  const config = configOf(gate.url(''), 'encoding: json\n    auth: { type: bearer, key_file: key }')
  const put = (from: number) =>
    inbox(
      folder,
      range(1000).map(n => lineOf('key', from + n)),
    )
  put(0)
  const daemon = await startDaemon(t, folder, config)
  await settled(daemon, 1000)
  const online = async () => await command(['validate', '--online', daemon.configPath], { cwd: folder })
  t.match(await online(), { code: 0, stdout: /destinations\.out: ok \(accepts requests\)/ })
  gate.key = 'second-key'
  t.match(await online(), { code: 1, stderr: /destinations\.out: 401 .*the access key was refused/ })
  put(1000)
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_delivery_holding') === 1)
  writeFileSync(join(folder, 'key'), 'second-key')
  await settled(daemon, 2000)
  t.same((await daemon.stop(t)).discarded, {})
  t.notMatch(daemon.stderr, /(first|second)-key/)
  await until('the rest is stored', () => storedOf('key').length >= 2000)
  t.same(
    storedOf('key')
      .map(numberOf)
      .sort((a, b) => a - b),
    range(2000),
  )
})

t.test('the example runs as it is', { skip: !server }, async t => {
  const folder = testFolder(t, { log: {} })
  const example = readFileSync(join(checkout, 'config/examples/apps-to-otlp.yaml'), 'utf8')
  // The daemon of a test has these of its own.
  const here = example.replace(/^(data_dir|metrics):.*\n/gm, '').replace('/var/log/apps', 'log')
  writeFileSync(
    join(folder, 'log/shop.log'),
    range(100)
      .map(n => `${lineOf('example', n)}\n`)
      .join(''),
  )
  const daemon = await startDaemon(t, folder, here, { OTLP_URL: server!.url })
  await until('all are stored', () => storedOf('example').length === 100)
  await daemon.stop(t)
  t.match(storedOf('example')[0], {
    resource: { 'service.name': 'app-0', 'deployment.environment.name': 'production' },
  })
})

/** Others that take OTLP over HTTP: where, and how many events they find. */
const OTHERS = [
  {
    name: 'loki',
    path: '/otlp',
    async count(url: string) {
      const query = new URLSearchParams({ query: 'sum(count_over_time({service_name="others"}[1h]))' })
      const { data } = (await (await fetch(`${url}/loki/api/v1/query?${query}`)).json()) as {
        data: { result: { value: [number, string] }[] }
      }
      return Number(data.result[0]?.value[1] ?? 0)
    },
  },
  {
    name: 'victorialogs',
    path: '/insert/opentelemetry',
    async count(url: string) {
      const query = new URLSearchParams({ query: 'service.name:others | stats count() n' })
      const text = await (await fetch(`${url}/select/logsql/query?${query}`)).text()
      return text === '' ? 0 : Number((JSON.parse(text) as { n: string }).n)
    },
  },
] as const

for (const { name, path, count } of OTHERS)
  t.test(`${name} takes it, too`, async t => {
    const folder = testFolder(t)
    const other = await startServer(t, name, folder)
    if (!other) return
    const now = new Date()
    inbox(
      folder,
      range(500).map(n => lineOf('others', n, { app: 'others', timestamp: new Date(now.getTime() - n).toISOString() })),
    )
    const config = configOf(other.url + path)
    const daemon = await startDaemon(t, folder, config)
    await settled(daemon, 500)
    t.match(await command(['validate', '--online', daemon.configPath], { cwd: folder }), { code: 0 })
    t.same((await daemon.stop(t)).discarded, {})
    await until('all are found', async () => (await count(other.url)) === 500, { every: 250 })
  })

t.test('records that the source otlp takes by gRPC are those that the Collector gets', { skip: !server }, async t => {
  const port = await ownPort()
  const daemon = await startDaemon(
    t,
    testFolder(t),
    `
sources: { in: { type: otlp, grpc: { listen: "${HOST}:${port}" } } }
destinations: { out: { type: otlp, inputs: [in], url: ${server!.url}, resource: .resource, batch: { max_wait: 5ms } } }
`,
  )
  await until(() => daemon.logs().some(({ msg, tls }) => msg === 'listening' && tls === false))
  const call = clientOf(t, port)
  t.equal((await call(exportMessage(EVERYTHING))).code, 0)
  const written = () =>
    readFileSync(join(server!.folder, 'out.ndjson'), 'utf8')
      .split('\n')
      .find(line => line.includes('sold'))
  const line = await until(() => written())
  const [one] = (comparableExport(line) as typeof EVERYTHING).resourceLogs as RelayedLogs[]
  const [wanted] = (comparableExport(EVERYTHING) as typeof EVERYTHING).resourceLogs as RelayedLogs[]
  t.same(one!.resource, wanted!.resource)
  t.same(one!.scopeLogs[0]!.scope, wanted!.scopeLogs[0]!.scope)
  t.same(one!.scopeLogs[0]!.logRecords[0], wanted!.scopeLogs[0]!.logRecords[0])
  await daemon.stop(t)
})
