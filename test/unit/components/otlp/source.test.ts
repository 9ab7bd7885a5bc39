import type http from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import * as zlib from 'node:zlib'
import t, { type Test } from 'tap'
import { otlpSource } from '../../../../src/components/otlp/source.js'
import { loadCodecs } from '../../../../src/core/codec.js'
import { checkSource } from '../../../../src/engine/testing/check-source.js'
import { HOST } from '../../../support/address.js'
import { type Answered, type Called, clientOf, EXPORT, post, retryDelayOf } from '../../../support/otlp-client.js'
import { EVERYTHING, type ExportJson, exportMessage, messageOf, text } from '../../../support/otlp-messages.js'
import { contextOf, Taker } from '../../../support/pushed.js'
import { until } from '../../../support/until.js'

const PEER = '127.0.0.1'

/** Runs the source with both protocols. */
async function start(t: Test, more: object = {}, out = new Taker('delivered')) {
  const { context, counters, logs } = contextOf('otlp')
  const options = otlpSource.options.parse({ http: { listen: `${HOST}:0` }, grpc: { listen: `${HOST}:0` }, ...more })
  loadCodecs(options, undefined)
  const source = await otlpSource.create(options, context)
  const controller = new AbortController()
  await source.start?.(controller.signal)
  const run = source.run(out, controller.signal)
  const end = async () => {
    controller.abort()
    out.settlesAs = 'delivered'
    out.unblock()
    out.settle('delivered')
    await run
    await source.stop?.(AbortSignal.timeout(1000))
  }
  t.teardown(end)
  const ports = () =>
    logs()
      .filter(({ msg }) => msg === 'listening')
      .map(({ address }) => Number(String(address).split(':')[1]))
  await until(() => ports().length === 2)
  const [httpPort, grpcPort] = ports() as [number, number]
  const count = (name: string) =>
    [...(counters.series.get(name) ?? [])].flatMap(one => [...one.read()]).reduce((sum, { value }) => sum + value, 0)
  const events = () =>
    out.batches.flatMap(batch => Array.from({ length: batch.length }, (_, i) => batch.fields(i, true)))
  return { out, logs, end, httpPort, grpcPort, events, count }
}

const requestOf = (logRecords: readonly object[], attributes: readonly object[] = []): ExportJson => ({
  resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords }] }],
})
const ONE = requestOf([{ body: text('hello') }], [{ key: 'service.name', value: text('shop') }])

const resource = { service: { name: 'shop', version: '1' }, 'process.pid': 17, process: 'in the way', 'a..b': true }
const scope = { name: 'lib', version: '2', attributes: { 'x.y': 'z' } }
const EVENTS = [
  {
    'http.route': '/a',
    n: -9223372036854775808n,
    small: -5,
    d: 2,
    f: -0.25,
    yes: true,
    none: null,
    bytes: 'YWI=',
    list: ['a', 1, []],
    map: { 'k.l': 'v' },
    attributes: { resource: 'taken', peer: 1 },
    severity_number: 13,
    severity: 'WARN',
    message: 'é "q"\n\u0001',
    dropped_attributes_count: 3,
    flags: 1,
    trace_id: '5b8efff798038103d269b633813fc60c',
    span_id: 'eee19b7ec3c1b174',
    event_name: 'sold',
    timestamp: '2025-12-31T23:59:59.123456789Z',
    observed_timestamp: '2026-01-01T00:00:00Z',
  },
  { message: { a: 'b' }, timestamp: '2026-01-01T00:00:00Z', observed_timestamp: '2026-01-01T00:00:00Z' },
  {},
].map(fields => ({ ...fields, resource: { ...resource }, scope, peer: PEER }))

t.test('every part of a record has its field, in both formats and by both protocols', async t => {
  const { httpPort, grpcPort, events, out } = await start(t)
  const message = exportMessage(EVERYTHING)
  const wanted = [...EVENTS, { message: 7, peer: PEER }]
  const zip = zlib.gzipSync(message)
  const posts: [Buffer | string, http.OutgoingHttpHeaders][] = [
    [message, {}],
    [zip, { 'content-encoding': 'gzip' }],
    [JSON.stringify(EVERYTHING), { 'content-type': 'application/json; charset=utf-8' }],
  ]
  for (const [body, headers] of posts) {
    out.batches.length = 0
    const answer = await post(httpPort, body, headers)
    t.equal(answer.status, 200)
    const isJson = String(headers['content-type']).includes('json')
    t.equal(answer.headers['content-type'], isJson ? 'application/json' : 'application/x-protobuf')
    t.equal(answer.body.toString().trim(), isJson ? '{}' : '')
    t.strictSame(events(), wanted)
  }
  const gzip = { 'grpc.default_compression_algorithm': 2 }
  for (const options of [{}, gzip]) {
    out.batches.length = 0
    const answer = await clientOf(t, grpcPort, options)(message)
    t.equal(answer.code, 0, answer.details)
    t.equal(answer.message!.length, 0)
    t.strictSame(events(), wanted)
  }
})

t.test('zstd, where Node.js has it', async t => {
  const { httpPort, events } = await start(t)
  const { zstdCompressSync } = zlib as { zstdCompressSync?: (bytes: Buffer) => Buffer }
  const body = zstdCompressSync?.(exportMessage(ONE)) ?? Buffer.from('x')
  const { status } = await post(httpPort, body, { 'content-encoding': 'zstd' })
  t.equal(status, zstdCompressSync ? 200 : 415)
  t.equal(events().length, zstdCompressSync ? 1 : 0)
})

t.test('records that cannot be taken are refused, and the others are accepted', async t => {
  const { httpPort, grpcPort, events, count } = await start(t, { max_line_bytes: 2000 })
  let deep: object = text('x')
  for (let n = 0; n < 40; n++) deep = { arrayValue: { values: [deep] } }
  const mixed = requestOf([
    { body: text('one') },
    { body: text('x'.repeat(3000)) },
    { body: deep },
    { body: text('two') },
  ])
  const why = 'a record has more than 2000 bytes as JSON'
  const partialSuccess = { rejectedLogRecords: '2', errorMessage: why }
  const json = await post(httpPort, JSON.stringify(mixed), { 'content-type': 'application/json' })
  t.same(JSON.parse(json.body.toString()), { partialSuccess })
  const proto = await post(httpPort, exportMessage(mixed))
  t.same([proto.status, messageOf('Exported', proto.body)], [200, { partialSuccess }])
  const called = await clientOf(t, grpcPort)(exportMessage(mixed))
  t.same([called.code, messageOf('Exported', called.message!)], [0, { partialSuccess }])
  t.same(
    events().map(({ message }) => message),
    ['one', 'two', 'one', 'two', 'one', 'two'],
  )
  t.equal(count('sluice_otlp_refused_records_total'), 6)
  const bad = await post(
    httpPort,
    JSON.stringify(requestOf([{ body: { intValue: 'x' } }, { traceId: 'zz' }, { attributes: 1 }])),
    {
      'content-type': 'application/json',
    },
  )
  t.match(JSON.parse(bad.body.toString()), { partialSuccess: { rejectedLogRecords: '3', errorMessage: /not valid/ } })
})

t.test('a small request does not become many times as much memory', async t => {
  const { httpPort, events } = await start(t)
  const attributes = [{ key: 'x', value: text('y'.repeat(50_000)) }]
  const request = requestOf(
    Array.from({ length: 2000 }, () => ({ body: text('z') })),
    attributes,
  )
  const { body } = await post(httpPort, exportMessage(request))
  const { rejectedLogRecords } = messageOf('Exported', body).partialSuccess as { rejectedLogRecords: string }
  t.ok(events().length > 10 && events().length < 200, `${events().length} events`)
  t.equal(events().length + Number(rejectedLogRecords), 2000)
})

t.test('requests that are not exports of logs are refused whole, in their format', async t => {
  const { httpPort, grpcPort, events, logs } = await start(t, { max_bytes: 100_000 })
  const call = clientOf(t, grpcPort)
  const asJson = { 'content-type': 'application/json' }
  const statusOf = ({ status, headers, body }: Answered) => {
    const isJson = headers['content-type'] === 'application/json'
    const { code, message } = isJson ? JSON.parse(body.toString()) : messageOf('Status', body)
    return [status, code, message]
  }
  const cut = exportMessage(ONE).subarray(0, -3)
  t.match(statusOf(await post(httpPort, cut)), [400, 3, /not an export request/])
  t.match(statusOf(await post(httpPort, '{"resourceLogs":[', asJson)), [400, 3, /not a JSON object/])
  t.match(statusOf(await post(httpPort, '', asJson)), [400, 3, /not a JSON object/])
  t.match(statusOf(await post(httpPort, 'x'.repeat(100_001))), [413, 8, /larger than/])
  t.match(statusOf(await post(httpPort, zlib.gzipSync('x'.repeat(200_000)), { 'content-encoding': 'gzip' })), [
    413,
    8,
    /larger/,
  ])
  t.match(statusOf(await post(httpPort, 'x', { 'content-encoding': 'gzip' })), [400, 3, /gzip/])
  t.match(statusOf(await post(httpPort, 'x', { 'content-encoding': 'br' })), [415, 12, /content-encoding/])
  t.match(statusOf(await post(httpPort, 'x', { 'content-type': 'text/plain' })), [415, 12, /content-type/])
  t.match(statusOf(await post(httpPort, '{}', asJson, '/')), [404, 12, /v1\/logs/])
  for (let n = 0; n < 2; n++) {
    t.match(statusOf(await post(httpPort, '{}', asJson, '/v1/metrics')), [
      404,
      12,
      /only takes logs; do not send metrics/,
    ])
    const path = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'
    t.match(await call(Buffer.alloc(0), { path }), { code: 12, details: /only takes logs; do not send trace to it/ })
  }
  t.same(
    logs().flatMap(({ msg }) => (/^refusing/.test(String(msg)) ? [msg] : [])),
    ['refusing metrics: this source only takes logs', 'refusing trace: this source only takes logs'],
    'said once',
  )
  t.match(await call(cut), { code: 3, details: /not an export request/ })
  t.match(await call(Buffer.alloc(100_001)), { code: 8 })
  t.match(await call(Buffer.alloc(0), { path: '/x/Y' }), { code: 12 })
  t.same(events(), [])
  t.equal((await call(Buffer.alloc(0))).code, 0, 'no records are fine')
})

t.test('the answer comes when the events are safe, and says when they are not', async t => {
  const out = new Taker()
  const { httpPort, grpcPort } = await start(t, {}, out)
  const message = exportMessage(ONE)
  const call = clientOf(t, grpcPort)
  let answered = 0
  const both = [post(httpPort, message), call(message)]
  for (const one of both) void one.then(() => answered++)
  await until(() => out.batches.length === 2)
  t.equal(answered, 0)
  out.settle('errored')
  const [overHttp, overGrpc] = (await Promise.all(both)) as [Answered, Called]
  t.equal(overHttp.status, 503)
  t.equal(overHttp.headers['retry-after'], '5')
  t.equal(overGrpc.code, 14)
  const [details] = overGrpc.metadata!.get('grpc-status-details-bin') as Buffer[]
  t.equal(retryDelayOf(details!), 5000)
  t.match(messageOf('Status', details!), {
    code: 14,
    details: [{ typeUrl: 'type.googleapis.com/google.rpc.RetryInfo' }],
  })
  t.equal((await call(message, { deadlineMs: 200 })).code, 4, 'the deadline of the client')
})

t.test('without room, clients are told to come again', async t => {
  const out = new Taker('delivered')
  out.block()
  const { httpPort, grpcPort, events } = await start(t, {}, out)
  const message = exportMessage(ONE)
  const first = post(httpPort, message)
  await until(() => out.batches.length === 1)
  const [overHttp, overGrpc] = await Promise.all([post(httpPort, message), clientOf(t, grpcPort)(message)])
  t.same([overHttp.status, overHttp.headers['retry-after']], [429, '1'])
  t.equal(overGrpc.code, 8)
  t.equal(retryDelayOf((overGrpc.metadata!.get('grpc-status-details-bin') as Buffer[])[0]!), 1000)
  t.equal(events().length, 1)
  out.unblock()
  t.equal((await first).status, 200)
  t.equal((await post(httpPort, message)).status, 200)
})

t.test('a key is required by both protocols', async t => {
  const { httpPort, grpcPort, events } = await start(t, { auth: { type: 'bearer', key: 'abc' } })
  const message = exportMessage(ONE)
  const call = clientOf(t, grpcPort)
  t.equal((await post(httpPort, message)).status, 401)
  t.equal((await call(message)).code, 16)
  t.equal((await post(httpPort, message, { authorization: 'Bearer abc' })).status, 200)
  t.equal((await call(message, { headers: { authorization: 'Bearer abc' } })).code, 0)
  t.equal(events().length, 2)
})

t.test('callers that are slow, silent or do not speak gRPC are ended', async t => {
  const { grpcPort, count, events } = await start(t, { request_timeout: '200ms', idle_timeout: '300ms' })
  const silent = connect(grpcPort, HOST)
  const nonsense = connect(grpcPort, HOST)
  nonsense.write('GET / HTTP/1.1\r\n\r\n')
  const session = connectHttp2(`http://${HOST}:${grpcPort}`)
  session.on('error', () => {})
  const slow = session.request({ ':method': 'POST', ':path': EXPORT, 'content-type': 'application/grpc' })
  slow.write(Buffer.from([0, 0, 0, 0, 9, 1]))
  let status: unknown
  slow
    .on('response', headers => (status = headers['grpc-status']))
    .on('error', () => {})
    .resume()
  const wrong = session.request({ ':method': 'POST', ':path': EXPORT, 'content-type': 'text/plain' })
  let wrongStatus: unknown
  wrong
    .on('response', headers => (wrongStatus = headers['grpc-status']))
    .on('error', () => {})
    .resume()
  wrong.end()
  for (const socket of [silent, nonsense]) socket.on('error', () => {}).resume()
  await until(() => silent.closed && nonsense.closed && session.destroyed)
  t.same([status, wrongStatus], ['4', '12'])
  await until(() => count('sluice_source_connections') === 0)
  t.equal((await clientOf(t, grpcPort)(exportMessage(ONE))).code, 0, 'another client is served')
  t.equal(events().length, 1)
})

t.test('an end answers what was taken, and refuses the rest', async t => {
  const out = new Taker()
  const { grpcPort, end, count } = await start(t, {}, out)
  const call = clientOf(t, grpcPort)
  const taken = call(exportMessage(ONE))
  await until(() => out.batches.length === 1)
  const session = connectHttp2(`http://${HOST}:${grpcPort}`)
  session.on('error', () => {})
  const open = session.request({ ':method': 'POST', ':path': EXPORT, 'content-type': 'application/grpc' })
  let status: unknown
  open
    .on('response', headers => (status = headers['grpc-status']))
    .on('error', () => {})
    .resume()
  await until(() => count('sluice_http_unanswered_requests') === 2)
  await end()
  t.equal((await taken).code, 0)
  await until(() => session.destroyed)
  t.equal(status, '14')
})

t.test('over gRPC, it keeps to the contract, also beside peers that misbehave', async t => {
  const open = () => {
    let call: ReturnType<typeof clientOf> | undefined
    return {
      options: { grpc: { listen: `${PEER}:0` } },
      answers: true as const,
      write: async (lines: readonly string[], port: number) => {
        call ??= clientOf(t, port, {}, PEER)
        const { code } = await call(exportMessage(requestOf(lines.map(line => ({ body: text(line) })))))
        return code === 0 ? 200 : 503
      },
    }
  }
  t.same(await checkSource(otlpSource, open), [])
})
