import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { type Logger, pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { serveAdmin, socketServer } from '../../../../src/daemon/admin/server.js'
import type { Taps } from '../../../../src/daemon/admin/tap.js'
import { CONTENT_TYPES, Metrics } from '../../../../src/engine/run/measure/metrics.js'
import type { AdminLimits } from '../../../../src/net/http/server/bounded-server.js'
import { type ConnectionEvents, ConnectionLimits, ConnectionReport } from '../../../../src/net/limits.js'
import { listening } from '../../../support/address.js'
import { until } from '../../../support/until.js'

const OPEN = 'application/openmetrics-text'

/** A page with metrics of two components, and what asks for it. */
async function page(t: Tap, render?: () => Promise<Buffer>, limits?: AdminLimits) {
  const happened: string[] = []
  const connections = {
    closed: (reason: string) => void happened.push(reason),
    refused: (reason: string) => void happened.push(`refused ${reason}`),
  }
  const logged: Record<string, unknown>[] = []
  const metrics = new Metrics({ error: () => {} } as unknown as Logger)
  const up = metrics.component('up', 'destination', 'http')
  up.arrived(3, 30)
  up.took(3, 30)
  up.sent(2, 20)
  up.discarded('status_400', 1, 10)
  const counter = up.counter('sluice_http_requests_total', 'Requests.', { status: '202' })
  counter.value = 2
  counter.exemplar = { requestId: 'req-7', at: 1_700_000_000_123 }
  const times = up.histogram('sluice_delivery_attempt_seconds', 'Time.', [0.5, 1])
  times.observe(0.25, { requestId: 'fast "one"', at: 1_700_000_000_000 })
  times.observe(2, { requestId: 'x'.repeat(119), at: 1_700_000_000_000 })
  times.observe(3)
  up.gauges('sluice_file_unread_bytes', 'Of\na file.', () => [{ labels: { file: 'a"\\\n' }, value: Number.NaN }])
  const server = await serveAdmin(
    { host: '127.0.0.1', port: 0 },
    {
      metrics: Object.assign(metrics, render && { render }),
      destinations: () => [],
      connections,
    },
    pino({}, { write: line => void logged.push(JSON.parse(line)) }),
    limits,
  )
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`
  const get = async (headers: Record<string, string>) => {
    const answer = await fetch(url, { headers: { connection: 'close', ...headers } })
    return {
      type: answer.headers.get('content-type'),
      encoding: answer.headers.get('content-encoding'),
      text: await answer.text(),
    }
  }
  return { metrics, url, get, logged, happened, server }
}
type Tap = Pick<typeof t, 'teardown'>

t.test('the text of Prometheus, and OpenMetrics', async t => {
  const { get } = await page(t)
  const text = await get({ 'accept-encoding': 'identity' })
  t.match(text, { type: 'text/plain; version=0.0.4; charset=utf-8', encoding: null })
  for (const line of [
    '# HELP sluice_component_sent_events_total Events passed on by the component or accepted by its receiver.',
    '# TYPE sluice_component_sent_events_total counter',
    'sluice_component_sent_events_total{component_id="up",component_kind="destination",component_type="http"} 2',
    'sluice_component_discarded_events_total{component_id="up",component_kind="destination",component_type="http",reason="status_400"} 1',
    'sluice_conservation_errors_total{component_id="up"} 0',
    'sluice_http_requests_total{component_id="up",status="202"} 2',
    'sluice_delivery_attempt_seconds_bucket{le="1",component_id="up"} 1',
    'sluice_delivery_attempt_seconds_bucket{le="+Inf",component_id="up"} 3',
    'sluice_delivery_attempt_seconds_sum{component_id="up"} 5.25',
    'sluice_delivery_attempt_seconds_count{component_id="up"} 3',
    '# HELP sluice_file_unread_bytes Of\\na file.',
    'sluice_file_unread_bytes{component_id="up",file="a\\"\\\\\\n"} Nan',
  ])
    t.ok(text.text.split('\n').includes(line), line)
  t.notMatch(text.text, / # |# EOF|# UNIT/)

  const open = await get({ accept: OPEN })
  t.equal(open.type, `${OPEN}; version=1.0.0; charset=utf-8`)
  for (const line of [
    '# TYPE sluice_http_requests counter',
    'sluice_http_requests_total{component_id="up",status="202"} 2 # {request_id="req-7"} 1 1700000000.123',
    // A text that is not an id, and may be anything.
    'sluice_delivery_attempt_seconds_bucket{le="0.5",component_id="up"} 1',
    'sluice_delivery_attempt_seconds_bucket{le="1.0",component_id="up"} 1',
    // An id that is too long to be shown.
    'sluice_delivery_attempt_seconds_bucket{le="+Inf",component_id="up"} 3',
    '# HELP sluice_file_unread_bytes Of\\na file.',
  ])
    t.ok(open.text.split('\n').includes(line), line)
  t.ok(open.text.endsWith('\n# EOF\n'))
  t.notMatch(open.text, /\n\n/)
  const values = (text: string) =>
    text
      .split('\n')
      .filter(line => /^sluice/.test(line))
      .map(line => line.replace(/ # .*/, '').replace('le="1.0"', 'le="1"'))
  t.same(values(open.text), values(text.text), 'the same series and values')
})

t.test('a scraper gets the format that it names first, and gzip if it takes that', async t => {
  const { get } = await page(t)
  for (const [accept, wanted] of [
    ['*/*', 'text/plain'],
    ['text/html, */*;q=0.1', 'text/plain'],
    [`${OPEN};version="1.0.0",text/plain;q=0.5`, OPEN],
    [`${OPEN};version=1.0.0;q=0.5,${OPEN};version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2`, OPEN],
    [`application/vnd.google.protobuf;q=0.6,${OPEN.toUpperCase()}; version=1.0.0;q=0.5,text/plain;q=0.3`, OPEN],
    [`${OPEN};version=0.0.1,text/plain;version=0.0.4;q=0.5`, 'text/plain'],
    [`text/plain;version=0.0.4;q=0.5,${OPEN};version=1.0.0;q=0.4`, 'text/plain'],
  ] as const)
    t.match((await get({ accept })).type, new RegExp(`^${wanted}; `), accept)
  for (const [header, wanted] of [
    ['identity', null],
    ['deflate, GZIP;q=0.5', 'gzip'],
    ['gzip;q=0', null],
    ['gzip;q=0.0, *', null],
  ] as const)
    t.equal((await get({ 'accept-encoding': header })).encoding, wanted, header)
})

t.test('gzip for those who take it', async t => {
  const { url } = await page(t)
  const { get } = await import('node:http')
  const body = await new Promise<{ encoding: unknown; bytes: Buffer }>((resolve, reject) => {
    get(url, { headers: { 'accept-encoding': 'gzip' }, agent: false }, answer => {
      const chunks: Buffer[] = []
      answer.on('data', chunk => chunks.push(chunk))
      answer.on('end', () => resolve({ encoding: answer.headers['content-encoding'], bytes: Buffer.concat(chunks) }))
    }).on('error', reject)
  })
  t.equal(body.encoding, 'gzip')
  t.match(gunzipSync(body.bytes).toString(), /^sluice_conservation_errors_total\{component_id="up"\} 0$/m)
})

t.test('an id that had several types one after the other', async t => {
  const metrics = new Metrics({ error: () => {} } as unknown as Logger)
  const pieces = (type: string, value: number) => {
    const c = metrics.component('in', 'source', type)
    c.counter('sluice_line_pieces_total', 'Pieces.').value += value
    c.gauge('sluice_source_unacknowledged_bytes', 'Memory.', () => value)
    return c
  }
  pieces('file', 2).retire()
  pieces('tcp', 3)
  const lines = String(await metrics.render()).split('\n')
  const of = (name: string) => lines.filter(line => line.startsWith(name))
  t.same(of('sluice_line_pieces_total'), ['sluice_line_pieces_total{component_id="in"} 5'], 'is counted together')
  t.same(of('sluice_source_unacknowledged_bytes'), ['sluice_source_unacknowledged_bytes{component_id="in"} 3'])
  t.equal(of('sluice_component_received_events_total').length, 2, 'where the type is told, each by itself')
  metrics.component('in', 'source', 'tcp').received.events++
  t.match(String(await metrics.render()), /^sluice_conservation_errors_total\{component_id="in"\} 1$/m)
  t.equal(metrics.component('in', 'source', 'file').counter('sluice_line_pieces_total', '').value, 2, 'and goes on')
})

t.test('scrapes that come together have one answer, which begins after they came', async t => {
  const metrics = new Metrics(pino({ enabled: false }))
  let read = 0
  metrics.daemonGauge('sluice_reads', 'How often this was read.', () => ++read)
  const first = metrics.render()
  const others = Array.from({ length: 100 }, () => metrics.render())
  t.match(String(await first), /^sluice_reads 1$/m)
  for (const text of await Promise.all(others)) t.match(String(text), /^sluice_reads 2$/m)
  t.match(String(await metrics.render()), /^sluice_reads 3$/m)
  t.equal(read, 3)
})

t.test('the delay of the event loop is without the interval at which it is measured', async () => {
  const metrics = new Metrics({ error: () => {} } as unknown as Logger)
  // Nothing is measured before the interval has passed for the first time; it is NaN until then. The event loop of a busy
  // machine may really be late at times, but not at the best of them, and not for ever.
  let shown: number[] = []
  await until(
    'a delay below the interval',
    async () => {
      const text = String(await metrics.render())
      shown = [...text.matchAll(/^nodejs_eventloop_lag_(?:min|p50)_seconds (\S+)$/gm)].map(([, n]) => Number(n))
      return shown.length === 2 && shown.every(delay => delay < 0.09)
    },
    // Each reading starts a new measurement.
    { every: 700, show: () => shown },
  )
})

t.test('many series: all of them, while the event loop turns', async t => {
  const metrics = new Metrics({ error: () => {} } as unknown as Logger)
  for (let i = 0; i < 1000; i++) metrics.component(`c${i}`, 'processor', 'filter').discarded('filtered', i, i)
  let turns = 0
  let over = false
  const turn = () => {
    turns++
    if (!over) setImmediate(turn)
  }
  setImmediate(turn)
  const text = String(await metrics.render('openmetrics'))
  over = true
  for (let i = 0; i < 1000; i++) {
    const labels = `component_id="c${i}",component_kind="processor",component_type="filter",reason="filtered"`
    if (!text.includes(`\nsluice_component_discarded_events_total{${labels}} ${i}\n`)) t.fail(`c${i}`)
  }
  // Ten thousand series in slices of five hundred.
  t.ok(turns > 15, `${turns} turns`)
})

t.test('every request is answered, and a failure is logged', async t => {
  const { url, logged } = await page(t, () => Promise.reject(new Error('cannot render')))
  t.equal((await fetch(url)).status, 500)
  t.match(logged, [{ level: 50, method: 'GET', url: '/metrics', error: 'cannot render' }])
  const port = Number(new URL(url).port)
  const socket = connect(port, '127.0.0.1')
  socket.write('GET // HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  let text = ''
  for await (const part of socket.setEncoding('latin1')) text += part
  t.match(text, /^HTTP\/1.1 404 /, 'as on the page')
})

t.test('of the body behind a request that was answered, about a mebibyte is read', async t => {
  const { url } = await page(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const closed = new Promise(resolve => socket.on('error', () => {}).on('close', resolve))
  socket.resume().write(`GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: ${2 ** 40}\r\n\r\n`)
  const part = Buffer.alloc(64 * 1024)
  const send = () => {
    while (!socket.destroyed && socket.write(part));
    if (!socket.destroyed) socket.once('drain', send)
  }
  send()
  await closed
  t.ok(socket.bytesWritten < 64 * 1024 * 1024, `${socket.bytesWritten} bytes`)
})

t.test('HEAD of a stream of events is refused, and opens none', async t => {
  const connections = { closed() {}, refused() {} }
  const reports = { metrics: new Metrics({} as Logger), destinations: () => [], connections }
  let opened = 0
  const taps = { tap: () => void opened++, outputs: () => [] } as unknown as Taps
  const server = socketServer(reports, { taps }, pino({ level: 'silent' }))
  const port = await listening(t, server, '127.0.0.1')
  const answer = await fetch(`http://127.0.0.1:${port}/tap?component=a`, { method: 'HEAD' })
  t.same([answer.status, answer.headers.get('allow'), opened], [405, 'GET', 0])
})

t.test('clients that send nothing, or do not read, do not keep others away', async t => {
  const large = Buffer.alloc(30_000_000, 'x')
  const { url, server, happened } = await page(t, async () => large, { max: 3, timeoutMs: 1000 })
  const dial = async (text: string) => {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    socket.pause()
    await once(socket, 'connect')
    socket.write(text)
  }
  await dial('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n')
  for (let n = 0; n < 4; n++) await dial('G')
  t.equal((await fetch(url.replace('metrics', 'healthz'), { headers: { connection: 'close' } })).status, 200)
  const open = () => new Promise<number>(resolve => server.getConnections((_error, count) => resolve(count)))
  await until(async () => (await open()) === 0)
  t.same(happened.sort(), ['slow_reader', 'unused', 'unused', 'unused'])
})

t.test('the connections of all servers leave descriptors for files', async t => {
  const happened: string[] = []
  const events: ConnectionEvents = {
    closed: reason => void happened.push(`closed ${reason}`),
    refused: (reason, peer) => void happened.push(`refused ${reason} ${peer}`),
  }
  const [first, second] = await Promise.all(
    [false, true].map(async closesUsed => {
      const connections = new ConnectionLimits({ max: 100, maxInProcess: 3, closesUsed }, events)
      const server = createServer()
      connections.attach(server, false)
      server.on('connection', socket => void connections.received(socket.on('error', () => {})))
      t.teardown(() => connections.close())
      return { port: await listening(t, server, '127.0.0.1'), connections }
    }),
  )
  const dial = async (port: number) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
  }
  for (let n = 1; n <= 3; n++) {
    await dial(first!.port)
    await until(() => first!.connections.size === n)
  }
  await dial(second!.port)
  await until(() => happened.length === 1)
  await dial(first!.port)
  await until(() => happened.length === 2)
  t.same(happened, ['refused descriptors 127.0.0.1', 'refused descriptors 127.0.0.1'])
  first!.connections.close()
  await until(() => first!.connections.size === 0)
  for (let n = 0; n < 4; n++) await dial(second!.port)
  await until(() => happened.length === 3)
  t.same(happened[2], 'closed idle')
})

t.test('connections that are refused or closed are counted by reason, and logged sparingly', async t => {
  const metrics = new Metrics({ error: () => {} } as unknown as Logger)
  const logged: object[] = []
  const log = { warn: (fields: object, msg: string) => void logged.push({ ...fields, msg }) }
  const report = new ConnectionReport('sluice_api', (...about) => metrics.daemonCounter(...about), log)
  for (let n = 0; n < 3; n++) report.refused('address', '192.0.2.1')
  report.closed('handshake', undefined)
  const text = String(await metrics.render())
  t.match(text, '\nsluice_api_refused_connections_total{reason="address"} 3\n')
  t.match(text, '\nsluice_api_refused_connections_total{reason="total"} 0\n')
  t.match(text, '\nsluice_api_closed_connections_total{reason="handshake"} 1\n')
  t.equal(text.match(/# TYPE sluice_api_closed_connections_total counter/g)?.length, 1)
  t.match(logged, [
    { peer: '192.0.2.1', connections: 1, msg: /^refused a connection/ },
    { connections: 1, msg: /^closed a connection: its TLS handshake/ },
  ])
  t.equal(logged.length, 2)
})

t.test('the content types are those of prom-client, which writes the pages', async t => {
  t.same(CONTENT_TYPES, {
    text: Registry.PROMETHEUS_CONTENT_TYPE,
    openmetrics: Registry.OPENMETRICS_CONTENT_TYPE,
  })
})
