import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { httpSource as source } from '../../../../src/components/http/source.js'
import { makeCertificates } from '../../../support/certificates.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import { startPushed, Taker } from '../../../support/pushed.js'
import { turns, until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

const start = (t: Test, options: Record<string, unknown> = {}, out?: Taker) =>
  startPushed(t, source, options, out ? { out } : {})

interface Answered {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: Record<string, unknown>
}

type RequestOptions = https.RequestOptions & { body?: string | Buffer; type?: string }

function ask(
  port: number,
  { body = '', type = 'application/x-ndjson', ...options }: RequestOptions = {},
): Promise<Answered> {
  const headers = { 'content-type': type, 'content-length': Buffer.byteLength(body), ...(options.headers as object) }
  const request = (options.protocol === 'https:' ? https : http).request({
    host: '127.0.0.1',
    port,
    method: 'POST',
    agent: false,
    ...options,
    // Undefined: without that header.
    headers: Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined)),
  })
  request.end(body)
  return answerOf(request)
}

function answerOf(request: http.ClientRequest): Promise<Answered> {
  return new Promise((resolve, reject) => {
    request.on('error', reject)
    request.on('response', response => {
      let text = ''
      response.setEncoding('utf8').on('data', part => (text += part))
      response.on('error', reject)
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, body: text ? JSON.parse(text) : {} }),
      )
    })
  })
}

/** A request that is refused at once. When it was answered, the server has seen everything that was sent before. */
const another = (port: number) => ask(port, { method: 'GET' })

/** A connection that says what it is told to; all that comes back is collected. */
async function dial(
  t: Test,
  port: number,
  text = '',
): Promise<{ socket: Socket; said: () => string; closed: Promise<unknown> }> {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  let said = ''
  socket.setEncoding('latin1').on('data', part => (said += part))
  socket.on('error', () => {})
  const closed = new Promise(resolve => socket.once('close', resolve))
  await once(socket, 'connect')
  if (text) socket.write(text)
  return { socket, said: () => said, closed }
}

/** A connection whose client does not close its side, whatever it gets. */
async function keepOpen(t: Test, port: number, text: string) {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  let said = ''
  socket.setEncoding('latin1').on('data', part => (said += part))
  socket.on('error', () => {})
  const closed = new Promise(resolve => socket.once('end', resolve).once('close', resolve))
  await once(socket, 'connect')
  if (text) socket.write(text)
  return { socket, said: () => said, closed }
}

/** Nothing else happens in this process meanwhile. */
function blockFor(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

const head = (...lines: string[]) =>
  `${['POST / HTTP/1.1', 'Host: x', 'Content-Type: text/plain', ...lines].join('\r\n')}\r\n\r\n`

t.test('every kind of body becomes events', async t => {
  const { out, port, count } = await start(t)
  const cases: [name: string, options: RequestOptions, raw: string][] = [
    ['JSON lines', { body: '{"a":1}\nnot json\r\n\n{"a":2}' }, '{"a":1}\nnot json\r\n{"a":2}\n'],
    ['an array', { type: 'application/json; charset=utf-8', body: '[{"a":\n1}, {"b":2}]' }, '{"a": 1}\n{"b":2}\n'],
    ['objects', { type: 'application/json', body: '{"a":1}\n{"b":2}' }, '{"a":1}\n{"b":2}\n'],
    ['text', { type: 'Text/Plain', body: 'one\r\n\ntwo' }, 'one\r\n\ntwo\n'],
    ['invalid UTF-8', { type: 'text/plain', body: Buffer.from([0xff, 0x0a]) }, Buffer.from([0xff, 0x0a]).toString()],
    ['PUT, a query', { method: 'PUT', path: '/?a=b', body: '{}' }, '{}\n'],
    ['gzip', { headers: { 'content-encoding': 'gzip' }, body: gzipSync('{"a":1}\n') }, '{"a":1}\n'],
    [
      'gzip in parts',
      { headers: { 'content-encoding': 'x-gzip' }, body: Buffer.concat([gzipSync('{"a":'), gzipSync('1}')]) },
      '{"a":1}\n',
    ],
    [
      'chunked',
      {
        headers: { 'content-encoding': 'identity', 'transfer-encoding': 'chunked', 'content-length': undefined },
        body: '{"a":1}',
      },
      '{"a":1}\n',
    ],
    ['nothing', {}, ''],
    ['an empty array', { type: 'application/json', body: '[]' }, ''],
    ['gzip of nothing', { headers: { 'content-encoding': 'gzip' }, body: gzipSync('') }, ''],
  ]
  for (const [name, options, raw] of cases) {
    out.batches.length = 0
    const answer = await ask(port, options)
    t.equal(answer.status, 202, name)
    t.same(answer.body, { received: out.events }, `${name}: as many as there are`)
    t.equal(out.raw.toString(), raw, name)
  }
  out.batches.length = 0
  await ask(port, { body: 'x\n{"a":1}' })
  t.match(out.fields, [{ message: 'x', peer: '127.0.0.1', host: 'here' }, { a: 1 }])
  t.same(out.fields[1], { a: 1 })
  const pairs = await start(t, { decode: 'logfmt' })
  await ask(pairs.port, { type: 'text/plain', body: 'a=1 b\nnone' })
  await ask(pairs.port, { body: '{"c":"d=1"}' })
  t.match(pairs.out.fields, [{ a: '1', b: true, peer: '127.0.0.1' }, { message: 'none' }, { c: 'd=1' }])
  const table = await start(t, { decode: { codec: 'csv', columns: ['a', 'b'] } })
  t.equal((await ask(table.port, { type: 'Text/CSV; charset=utf-8', body: '1,2\r\n3,4' })).status, 202)
  t.match(table.out.fields, [
    { a: '1', b: '2' },
    { a: '3', b: '4' },
  ])
  t.match(await ask(table.port, { type: 'text/html' }), {
    status: 415,
    body: { message: /, text\/plain or text\/csv$/ },
  })
  t.match(await ask(port, { type: 'text/csv' }), { status: 415, body: { message: / or text\/plain$/ } })
  t.equal(count('bug'), 0)
  const large = `${'z'.repeat(119)}\n`.repeat(80_000)
  out.batches.length = 0
  t.same((await ask(port, { type: 'text/plain', body: large })).body, { received: 80_000 })
  t.equal(out.raw.toString(), large)
})

t.test('the answer comes when all events are settled, and says how', async t => {
  const out = new Taker()
  const { port, count } = await start(t, {}, out)
  const big = `{"n":"${'1'.repeat(90)}"}\n`.repeat(6000)
  for (const [status, ...settled] of [
    [202, 'delivered'],
    [202, 'delivered', 'rejected'],
    [503, 'delivered', 'errored', 'rejected'],
    [503, 'errored'],
  ] as const) {
    let answered = false
    const answer = ask(port, { body: big }).finally(() => (answered = true))
    await until(() => out.events % 6000 === 0 && out.unsettled.length > 2)
    const [first, ...others] = out.unsettled.splice(0)
    first!.settle(settled[0])
    others[0]!.settle(settled[1] ?? settled[0])
    await another(port)
    t.equal(answered, false, 'not before all are')
    t.equal(count('sluice_http_unanswered_requests'), 1)
    t.ok(count('sluice_http_unanswered_bytes') >= big.length)
    for (const ack of others.slice(1)) ack.settle(settled[2] ?? settled[0])
    const { status: found, body, headers } = await answer
    t.equal(found, status, settled.join(', '))
    if (status === 202) t.same(body, { received: 6000 })
    else t.match([body, headers], [{ code: 'not_delivered' }, { 'retry-after': '5' }])
  }
  t.equal(count('sluice_http_unanswered_requests') + count('sluice_http_unanswered_bytes'), 0)
})

t.test('what is not acceptable is refused, whole', async t => {
  const { out, port, count } = await start(t, { path: '/in', max_body_bytes: '2KiB', auth: { key: 'right' } })
  const headers = { authorization: 'Token right' }
  const path = '/in'
  const gzip = { ...headers, 'content-encoding': 'gzip' }
  const noise = Buffer.from(Array.from({ length: 6000 }, (_, n) => (n * n * 31) % 251))
  const cases: [status: number, options: RequestOptions, code: RegExp | string][] = [
    [401, { path }, 'unauthorized'],
    [401, { path, headers: { authorization: 'Token wrong' } }, 'unauthorized'],
    [401, { path, headers: { authorization: 'Token right2' } }, 'unauthorized'],
    [401, { path, headers: { authorization: 'Bearer right' } }, 'unauthorized'],
    [401, { path, headers: { authorization: 'right' } }, 'unauthorized'],
    [401, { path, headers: { authorization: 'Token' } }, 'unauthorized'],
    [401, { path: '/other' }, 'unauthorized'],
    [401, { method: 'HEAD', path }, ''],
    [403, { path, headers: { ...headers, origin: 'https://example.com' } }, 'web_page'],
    [404, { path: '/in/', headers }, 'not_found'],
    [404, { path: '/', headers }, 'not_found'],
    [405, { path, headers, method: 'GET' }, 'method_not_allowed'],
    [405, { path, headers, method: 'DELETE' }, 'method_not_allowed'],
    [413, { path, headers, body: 'x'.repeat(2049) }, 'too_large'],
    [
      413,
      {
        path,
        headers: { ...headers, 'transfer-encoding': 'chunked', 'content-length': undefined },
        body: 'x'.repeat(5000),
      },
      'too_large',
    ],
    [413, { path, headers: gzip, body: gzipSync('x'.repeat(2049)) }, 'too_large'],
    [
      413,
      {
        path,
        headers: { ...gzip, 'transfer-encoding': 'chunked', 'content-length': undefined },
        body: gzipSync(noise),
      },
      'too_large',
    ],
    [
      413,
      {
        path,
        headers: { ...gzip, 'transfer-encoding': 'chunked', 'content-length': undefined },
        body: Buffer.concat(Array(200).fill(gzipSync(''))),
      },
      'too_large',
    ],
    [415, { path, headers, type: 'text/html', body: 'x' }, 'unsupported_content'],
    [415, { path, headers, type: '', body: 'x' }, 'unsupported_content'],
    [415, { path, headers, type: 'constructor', body: 'x' }, 'unsupported_content'],
    [415, { path, headers: { ...headers, 'content-encoding': 'br' }, body: 'x' }, 'unsupported_encoding'],
    [415, { path, headers: { ...headers, 'content-encoding': 'gzip, gzip' }, body: 'x' }, 'unsupported_encoding'],
    [400, { path, headers: gzip, body: 'not gzip' }, 'not_gzip'],
    [400, { path, headers: gzip, body: gzipSync('{"a":1}').subarray(0, -4) }, 'not_gzip'],
    [400, { path, headers: gzip, body: '' }, 'not_gzip'],
    [400, { path, headers, type: 'application/json', body: '[{"a":1},\n{"b"]' }, 'malformed'],
  ]
  for (const [status, options, code] of cases) {
    const answer = await ask(port, options)
    t.match(
      [answer.status, answer.body.code ?? ''],
      [status, code],
      JSON.stringify({ ...options, body: options.body?.length }),
    )
  }
  t.equal(out.batches.length, 0, 'nothing was taken')
  t.match(
    (await ask(port, { path, headers, type: 'application/json', body: '[{"a":1},\n{"b"]' })).body.message,
    /^line 2 of the body: element 2 /,
  )
  t.equal((await ask(port, { path })).headers['www-authenticate'], 'Token')
  t.equal((await ask(port, { path, headers, method: 'GET' })).headers.allow, 'POST, PUT, HEAD')
  t.equal(
    (await ask(port, { path, headers: { ...headers, 'content-encoding': 'br' } })).headers['accept-encoding'],
    'gzip',
  )
  t.equal(
    (await ask(port, { path, headers: { authorization: 'token  right' }, body: 'x'.repeat(2048) })).status,
    202,
    'just as much as allowed',
  )
  t.equal((await ask(port, { path, headers: gzip, body: gzipSync('y'.repeat(2048)) })).status, 202)
  t.equal((await ask(port, { method: 'HEAD', headers })).status, 200, 'the key can be tried')
  t.equal(out.events, 2)
  t.equal(count('sluice_http_answers_total'), cases.length + 7)
  t.equal(count('sluice_http_unanswered_requests') + count('sluice_http_unanswered_bytes'), 0)
})

t.test('a gzip bomb costs little', async t => {
  const { out, port } = await start(t, { max_body_bytes: '1MiB' })
  const bomb = gzipSync(Buffer.alloc(300 << 20))
  const before = process.memoryUsage().rss
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => ask(port, { headers: { 'content-encoding': 'gzip' }, body: bomb })),
  )
  t.same(valuesOf(answers, 'status'), [413, 413, 413, 413, 413])
  t.ok(process.memoryUsage().rss - before < 100 << 20)
  t.equal(out.batches.length, 0)
})

t.test('a body in very small parts costs little', async t => {
  const { out, port, count } = await start(t)
  const ones = (bytes: Buffer) => Array.from(bytes, byte => `1\r\n${String.fromCharCode(byte)}\r\n`).join('')
  const chunked = 'Transfer-Encoding: chunked'
  const few = await dial(t, port, `${head(chunked)}${ones(Buffer.alloc(4000, 'x'))}0\r\n\r\n`)
  const larger = await dial(t, port, `${head(chunked)}${'10\r\n0123456789abcdef\r\n'.repeat(6000)}0\r\n\r\n`)
  await until(() => [few, larger].every(({ said }) => said().startsWith('HTTP/1.1 202 ')))
  t.equal(out.bytes, 4001 + 96_001)
  const many = await dial(t, port, `${head(chunked)}${ones(Buffer.alloc(5000, 'x'))}`)
  await many.closed
  t.match(many.said(), /^HTTP\/1.1 400 .*connection: close.*"tiny_parts"/is)
  // The name of the file, before anything can be inflated.
  const name = Buffer.concat([Buffer.from([31, 139, 8, 8, 0, 0, 0, 0, 0, 3]), Buffer.alloc(4000, 'n')])
  const waiting = await dial(t, port)
  waiting.socket.write(Buffer.from(`${head(chunked, 'Content-Encoding: gzip')}${ones(name)}`, 'latin1'))
  await until(() => count('sluice_http_unanswered_bytes') > 4000)
  t.equal(count('sluice_http_unanswered_requests'), 1, 'what waits to be inflated is counted')
  t.equal(out.bytes, 4001 + 96_001)
})

t.test('senders of incomplete bodies keep nobody else out', async t => {
  const { out, port, logs, count } = await start(t, {
    max_unsettled_bytes: '64KiB',
    max_body_bytes: '64KiB',
    max_connections: 3,
    max_connections_per_address: 3,
  })
  const from = async (localAddress: string, body: string) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress })
    t.teardown(() => socket.destroy())
    let said = ''
    socket.setEncoding('latin1').on('data', part => (said += part))
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(head(`Content-Length: 60000`) + body)
    return { socket, said: () => said }
  }
  const slow = await from('127.0.0.2', 'x'.repeat(59_000))
  await until(() => count('sluice_http_unanswered_bytes') > 59_000)
  t.equal((await ask(port, { type: 'text/plain', body: 'x'.repeat(30_000) })).status, 202)
  await until(() => slow.said() !== '')
  t.match(slow.said(), /^HTTP\/1.1 503 .*"overloaded"/s)
  const large = await from('127.0.0.2', 'x'.repeat(40_000))
  await until(() => count('sluice_http_unanswered_bytes') > 40_000)
  const same = await from('127.0.0.2', 'x'.repeat(59_000))
  await until(() => same.said() !== '')
  t.match(same.said(), /^HTTP\/1.1 503 /, 'who holds the most makes no room for itself')
  const other = ask(port, { localAddress: '127.0.0.3', type: 'text/plain', body: 'x'.repeat(30_000) })
  t.equal((await other).status, 202)
  t.match(large.said(), /^HTTP\/1.1 503 /)

  for (const { socket } of [slow, large, same]) socket.destroy()
  await until(() => count('sluice_source_connections') === 0)
  out.batches.length = 0
  for (let n = 2; n < 5; n++) await from(`127.0.0.${n}`, 'x')
  await until(() => count('sluice_http_unanswered_requests') === 3)
  for (let answered = false; !answered; ) {
    const answer = await ask(port, { type: 'text/plain', body: 'honest\n' }).catch(() => undefined)
    answered = answer?.status === 202
  }
  t.same(out.lines, ['honest'])
  t.match(
    logs().find(({ msg }) => /very slow request/.test(String(msg))),
    { level: 40, peer: '127.0.0.2' },
  )
})

t.test('the key can be in a file, which is read again, in another header, without a scheme', async t => {
  const folder = testFolder(t, { key: 'first\n' })
  const file = join(folder, 'key')
  const { port } = await start(t, { auth: { key_file: file, header: 'X-Key', scheme: '' } })
  const status = async (key: string) => (await ask(port, { headers: { 'x-key': key }, body: '{}' })).status
  t.same([await status('first'), await status('second')], [202, 401])
  writeFileSync(file, 'second\n')
  t.same([await status('first'), await status('second')], [401, 202])
  await t.rejects(start(t, { auth: { key_file: join(folder, 'none') } }), {
    message: /no access key from .*none: the file does not exist/,
  })
})

t.test('senders with a user and a password, or another scheme', async t => {
  const basic = await start(t, { auth: { type: 'basic', username: 'shop', password: 'p: w' } })
  const bearer = await start(t, { auth: { type: 'bearer', key: 'right' } })
  const status = async (port: number, authorization: string) =>
    (await ask(port, { headers: { authorization }, body: '{}' })).status
  const encoded = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
  t.equal(await status(basic.port, encoded('shop:p: w')), 202)
  for (const wrong of [encoded('shop:p'), encoded('shop2:p: w'), 'Basic p: w', 'Token p: w'])
    t.equal(await status(basic.port, wrong), 401, wrong)
  t.same([await status(bearer.port, 'bearer right'), await status(bearer.port, 'Token right')], [202, 401])
})

t.test('what waits for its answer is bounded, and the rest is told to come again', async t => {
  const out = new Taker()
  const { port, count } = await start(t, { max_unsettled_bytes: '64KiB', max_body_bytes: '64KiB' }, out)
  const first = ask(port, { type: 'text/plain', body: 'x'.repeat(40_000) })
  await until(() => out.events === 1)
  const second = await ask(port, { type: 'text/plain', body: 'x'.repeat(30_000) })
  t.match([second.status, second.headers['retry-after'], second.body.code], [503, '1', 'overloaded'])
  t.equal(out.events, 1)
  out.settle('delivered')
  t.equal((await first).status, 202)
  out.settlesAs = 'delivered'
  t.equal((await ask(port, { type: 'text/plain', body: 'x'.repeat(60_000) })).status, 202)

  const few = await start(t, { max_connections: 2, max_connections_per_address: 2 }, new Taker())
  const waiting = await dial(t, few.port, ['a', 'b', 'c'].map(body => head('Content-Length: 1') + body).join(''))
  await until(() => few.out.events === 2)
  few.out.settle('delivered')
  await until(() => waiting.said().split('HTTP/1.1 ').length === 4)
  t.same(
    waiting.said().match(/HTTP\/1.1 \d+/g),
    ['HTTP/1.1 202', 'HTTP/1.1 202', 'HTTP/1.1 503'],
    'also of one connection, in order',
  )
  t.equal(count('sluice_http_unanswered_bytes'), 0)
})

t.test('one sender with many requests leaves room for others', async t => {
  const out = new Taker()
  const { port, count } = await start(
    t,
    { max_connections: 8, max_unsettled_bytes: '64KiB', max_body_bytes: '64KiB' },
    out,
  )
  const many = await dial(t, port, `${head('Content-Length: 2')}m\n`.repeat(8))
  await until(() => out.events === 4)
  const other = ask(port, { localAddress: '127.0.0.2', type: 'text/plain', body: 'other\n' })
  await until(() => out.events === 5)
  out.settle('delivered')
  t.equal((await other).status, 202)
  await until(() => many.said().split('HTTP/1.1 ').length === 9)
  t.equal(many.said().split('HTTP/1.1 503').length, 5)
  const large = Array.from({ length: 4 }, () => ask(port, { type: 'text/plain', body: 'x'.repeat(20_000) }))
  await until(() => out.events === 7 && count('sluice_http_unanswered_requests') === 2)
  const third = ask(port, { localAddress: '127.0.0.2', type: 'text/plain', body: 'x'.repeat(20_000) })
  await until(() => out.events === 8)
  out.settle('delivered')
  t.equal((await third).status, 202)
  t.same((await Promise.all(large)).map(({ status }) => status).sort(), [202, 202, 503, 503])
})

t.test('who closes its side of the connection behind a request is answered', async t => {
  const out = new Taker()
  const { port, count } = await start(t, {}, out)
  const client = await keepOpen(t, port, `${head('Content-Length: 2')}a\n`)
  client.socket.end()
  await until(() => out.events === 1)
  // The server has seen the end by then.
  await another(port)
  out.settle('delivered')
  await client.closed
  t.match(client.said(), /^HTTP\/1.1 202 /)
  await until(() => count('sluice_source_connections') === 0)
  const half = await keepOpen(t, port, `${head('Content-Length: 9')}a\n`)
  half.socket.end()
  await half.closed
  t.match(half.said(), /^HTTP\/1.1 400 /)
  t.equal(out.events, 1)
})

t.test('there is room only as fast as events are passed on', async t => {
  const out = new Taker('delivered')
  const { port } = await start(t, {}, out)
  out.block()
  const answer = ask(port, { type: 'text/plain', body: 'line\n'.repeat(200_000) })
  await until(() => out.batches.length === 1)
  await another(port)
  t.equal(out.batches.length, 1)
  out.unblock()
  t.same((await answer).body, { received: 200_000 })
})

t.test('slow, broken and hostile clients', async t => {
  const hasty = await start(t, { headers_timeout: '300ms', request_timeout: '600ms' })
  const { out, port, count, logs } = await start(t, { keep_alive_timeout: '500ms' })
  const said = async (text: string, to = port) => {
    const { said, closed } = await dial(t, to, text)
    await closed
    return said().split('\r\n')[0]
  }
  const slow = await Promise.all([
    said('', hasty.port),
    said('POST / HT', hasty.port),
    said(head('Content-Length: 9').slice(0, -2), hasty.port),
    said(`${head('Content-Length: 9')}x`, hasty.port),
    said(`${head('Transfer-Encoding: chunked')}1\r\nx\r\n`, hasty.port),
  ])
  t.match(slow, Array(5).fill('HTTP/1.1 408 Request Timeout'), 'too slow at every point')
  const begin = performance.now()
  const idle = await dial(t, port, `${head('Content-Length: 2')}x\n`)
  await idle.closed
  t.match(idle.said(), /^HTTP\/1.1 202 /)
  t.ok(performance.now() - begin > 400, 'kept alive for a while')
  const aborted = count('sluice_http_answers_total')
  for (const [i, text] of [
    `${head('Content-Length: 9')}x`,
    `${head('Transfer-Encoding: chunked')}5\r\nx`,
    `${head('Content-Encoding: gzip', 'Content-Length: 99')}\x1f\x8b`,
  ].entries()) {
    const { socket } = await dial(t, port, text)
    await until(() => count('sluice_http_unanswered_requests') === 1)
    socket.resetAndDestroy()
    await until(() => count('sluice_http_answers_total') === aborted + i + 1)
  }
  t.equal(out.events, 1, 'of what did not come whole nothing is taken')

  const malformed: [string, RegExp][] = [
    ['\x16\x03\x01 TLS\r\n\r\n', /^HTTP\/1.1 400 /],
    ['<13>Nov 20 08:14:26 host app: syslog\n', /^HTTP\/1.1 400 /],
    [head('Content-Length: x'), /^HTTP\/1.1 400 /],
    [head('Content-Length: -1'), /^HTTP\/1.1 400 /],
    [`${head('Content-Length: 1', 'Transfer-Encoding: chunked')}1\r\nx\r\n0\r\n\r\n`, /^HTTP\/1.1 400 /],
    [`${head('Transfer-Encoding: chunked')}zz\r\n`, /^HTTP\/1.1 400 /],
    [`${head('Transfer-Encoding: chunked')}1\r\nxyz`, /^HTTP\/1.1 400 /],
    [head(`X: ${'y'.repeat(20_000)}`), /^HTTP\/1.1 431 /],
    ['CONNECT / HTTP/1.1\r\nHost: x\r\n\r\n', /^HTTP\/1.1 405 /],
    [head('Content-Length: 1', 'Connection: close').replace('Host: x\r\n', ''), /^HTTP\/1.1 400 /],
    [head('Expect: more', 'Content-Length: 1', 'Connection: close'), /^HTTP\/1.1 417 /],
    [`${head('Transfer-Encoding: gzip, chunked', 'Connection: close')}1\r\nx\r\n0\r\n\r\n`, /^HTTP\/1.1 501 /],
  ]
  const counted = count('sluice_http_answers_total')
  for (const [text, answer] of malformed) t.match(await said(text), answer, JSON.stringify(text.slice(0, 99)))
  t.equal(out.events, 1)
  t.equal(count('sluice_http_answers_total'), counted + malformed.length, 'each is counted')
  const refused = [...hasty.logs(), ...logs()].filter(({ msg }) => /^refused a request/.test(String(msg)))
  t.match(refused.find(({ code }) => code === 'no_request')?.peer, '127.0.0.1', 'and logged with its sender')
  t.equal(logs().filter(({ code }) => code === 'no_request').length, 1)
  const codes = ['too_slow', 'aborted', 'malformed', 'no_host', 'unsupported_expectation']
  t.same(
    codes.filter(code => refused.filter(one => one.code === code).length !== 1),
    [],
    'once in a while',
  )
  const longer = await dial(t, port, `${head('Content-Length: 2')}a\nb\nc\n`)
  await longer.closed
  t.match(longer.said(), /^HTTP\/1.1 202 /, 'more than announced: what was announced is taken')
  t.equal(out.events, 2)
  t.equal(count('bug') + hasty.count('bug') + hasty.out.events, 0)
})

t.test('clients that send little or nothing, and never close, hold no connection', async t => {
  const { port, count } = await start(t, {
    max_connections: 5,
    max_connections_per_address: 5,
    headers_timeout: '200ms',
    request_timeout: '300ms',
  })
  const left = [
    await keepOpen(t, port, ''),
    await keepOpen(t, port, 'GET / HTTP/1.1\r\nX: '),
    await keepOpen(t, port, `${head('Content-Length: 9')}x`),
    await keepOpen(t, port, 'no HTTP\r\n\r\n'),
    await keepOpen(t, port, `${head('Content-Length: 2', 'Connection: close')}a\n`),
  ]
  await until(() => left.slice(3).every(({ said }) => said() !== ''))
  // Node.js finds all of them overdue, also the one that was answered.
  blockFor(500)
  await until(() => left.every(({ said }) => said() !== ''))
  t.same(
    left.map(({ said }) => said().split(' ')[1]),
    ['408', '408', '408', '400', '202'],
  )
  await until(() => count('sluice_source_connections') === 0)
  t.equal(count('sluice_source_closed_connections_total'), 1, 'one was left open after an answer that is no time-out')
})

t.test('when as many connections as possible are open, those that are in no use make room', async t => {
  const out = new Taker()
  const { port, counters, count, logs } = await start(t, { max_connections: 4, max_connections_per_address: 4 }, out)
  for (let n = 0; n < 4; n++) await keepOpen(t, port, n % 2 ? '' : 'POST / HTTP/1.1\r\nX: ')
  await until(() => count('sluice_source_connections') === 4)
  const busy = [await keepOpen(t, port, `${head('Content-Length: 2')}a\n`)]
  await until(() => out.events === 1)
  out.settle('delivered')
  await until(() => busy[0]!.said() !== '')
  t.match(busy[0]!.said(), /^HTTP\/1.1 202 /)
  for (let n = 0; n < 4; n++) busy.push(await keepOpen(t, port, `${head('Content-Length: 2')}b\n`))
  await until(() => out.events === 5)
  const closed = counters.series.get('sluice_source_closed_connections_total')!.flatMap(one => [...one.read()])
  const reasons = closed.filter(({ value }) => value > 0).map(({ labels, value }) => `${value} ${labels.reason}`)
  t.same(reasons, ['4 unused', '1 idle'], 'what is idle makes room before new ones, whose request may be on its way')
  const refused = await keepOpen(t, port, `${head('Content-Length: 2')}c\n`)
  await refused.closed
  t.equal(count('sluice_source_refused_connections_total'), 1, 'one that waits for its answer does not')
  out.settle('delivered')
  await until(() => busy.slice(1).every(({ said }) => / 202 /.test(said())))
  const warned = logs().filter(({ msg }) => / a(n idle)? connection/.test(String(msg)))
  t.equal(warned.length, 3, 'each reason is logged once')
})

t.test('garbage behind requests that wait takes nothing of their answers away', async t => {
  const out = new Taker()
  const { port } = await start(t, {}, out)
  const one = `${head('Content-Length: 2')}a\n`
  const { said, closed, socket } = await dial(t, port, `${one}${one}garbage\r\n\r\n`)
  await until(() => out.events === 2)
  socket.write('more of it')
  await another(port)
  t.equal(said(), '', 'no answer that is not about them')
  out.settle('delivered')
  await closed
  t.same(said().match(/HTTP\/1.1 \d+|Connection: close/g), ['HTTP/1.1 202', 'HTTP/1.1 202', 'Connection: close'])
  const broken = await dial(t, port, `${one}${head('Transfer-Encoding: chunked')}zz\r\n`)
  await until(() => out.events === 3)
  out.settle('delivered')
  await broken.closed
  t.same(broken.said().match(/HTTP\/1.1 \d+|connection: close/g), ['HTTP/1.1 202', 'HTTP/1.1 400', 'connection: close'])
})

t.test('a client that asks before it sends the body', async t => {
  const { out, port } = await start(t, { auth: { key: 'k' }, max_body_bytes: '1KiB' })
  const good = await dial(t, port, head('Authorization: Token k', 'Expect: 100-continue', 'Content-Length: 2'))
  await until(() => good.said() === 'HTTP/1.1 100 Continue\r\n\r\n')
  good.socket.write('a\n')
  await until(() => / 202 /.test(good.said()))
  for (const [status, ...lines] of [
    [401, 'Content-Length: 2'],
    [413, 'Content-Length: 9999', 'Authorization: Token k'],
    [417, 'Content-Length: 9', 'Authorization: Token k'],
  ] as const) {
    const refused = await dial(t, port, head(status === 417 ? 'Expect: more' : 'Expect: 100-continue', ...lines))
    await until(() => refused.said().includes(`HTTP/1.1 ${status} `))
    t.notMatch(refused.said(), / 100 /)
    if (status !== 417) await refused.closed
  }
  t.equal(out.events, 1)
})

t.test('a refused client gets to see why, though it goes on sending; not for ever', async t => {
  const { port } = await start(t, { max_body_bytes: '1KiB', headers_timeout: '500ms', request_timeout: '1s' })
  const { socket, said } = await dial(t, port, head('Content-Length: 500000'))
  for (let n = 0; n < 50; n++) socket.write('x'.repeat(10_000))
  await until(() => / 413 /.test(said()))
  socket.write(`${head('Content-Length: 2')}a\n`)
  await until(() => / 202 /.test(said()))
  const endless = await dial(t, port, head('Content-Length: 500000000000'))
  const more = setInterval(() => endless.socket.write('x'.repeat(100_000)), 1)
  t.teardown(() => clearInterval(more))
  await until(() => endless.socket.destroyed)
  const stalled = await dial(t, port, `${head('Content-Length: 5000')}x`)
  await until(() => / 413 /.test(stalled.said()))
  await until(() => stalled.socket.destroyed)
  t.same(stalled.said().match(/HTTP\/1.1 \d+/g), ['HTTP/1.1 413'], 'one answer')
})

t.test('the end', async t => {
  const out = new Taker()
  const { port, run, abort, source } = await start(t, {}, out)
  const agent = new http.Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const waiting = ask(port, { agent, body: '{"a":1}' })
  const erring = ask(port, { body: '{"b":1}' })
  await until(() => out.events === 2)
  const half = await dial(t, port, `${head('Content-Length: 9')}half`)
  const idle = await dial(t, port, `${head('Content-Length: 0')}`)
  await until(() => / 202 /.test(idle.said()))
  const later = await dial(t, port, `${head('Content-Length: 2')}`)
  await until(() => out.events === 2)
  abort()
  await run
  await idle.closed
  await Promise.all([half.closed, later.closed])
  t.match(half.said(), /^HTTP\/1.1 503 [\s\S]*retry-after: 1/, 'a body that is not whole is to be sent again')
  t.equal(out.events, 2)
  await t.rejects(ask(port, { body: '{}' }), { code: 'ECONNREFUSED' })
  const [delivered, errored] = out.unsettled.splice(0)
  delivered!.settle('delivered')
  errored!.settle('errored')
  await source.stop?.(AbortSignal.timeout(1000))
  t.match([await waiting, await erring], [{ status: 202, headers: { connection: 'close' } }, { status: 503 }])
})

t.test('the end waits for what is being passed on', async t => {
  const out = new Taker('delivered')
  const { port, run, abort } = await start(t, {}, out)
  out.block()
  const answer = ask(port, { type: 'text/plain', body: 'line\n'.repeat(200_000) })
  await until(() => out.batches.length === 1)
  let ended = false
  abort()
  void run.then(() => (ended = true))
  await until(() =>
    another(port).then(
      () => false,
      () => true,
    ),
  )
  await turns()
  t.equal(ended, false)
  out.unblock()
  await run
  t.equal(out.events, 200_000, 'all of it, before the run is over')
  t.equal((await answer).status, 202)
})

t.test('clients that leave before the answer', async t => {
  const out = new Taker()
  const { port, count } = await start(t, {}, out)
  const gone = await dial(t, port, `${head('Content-Length: 2')}a\n`)
  await until(() => out.events === 1)
  gone.socket.resetAndDestroy()
  await until(() => count('sluice_source_connections') === 0)
  t.equal(count('sluice_http_unanswered_requests'), 1, 'what it sent is still on its way')
  out.settle('delivered')
  await until(() => count('sluice_http_unanswered_requests') === 0)
  t.equal(count('bug'), 0)
})

t.test('TLS, and warnings about what is open', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const files = makeCertificates(openssl, testFolder(t), ['server', 'client'])
  const tls = {
    cert_file: files.path('server.pem'),
    key_file: files.path('server.key'),
    client_ca_file: files.path('ca.pem'),
  }
  const { port, out, count } = await start(t, { tls })
  const options = { protocol: 'https:', ca: files.pem('ca.pem'), body: '{"a":1}' }
  t.equal((await ask(port, { ...options, cert: files.pem('client.pem'), key: files.pem('client.key') })).status, 202)
  await t.rejects(ask(port, options))
  await t.rejects(ask(port, { body: '{}' }))
  t.equal(out.events, 1)
  t.equal(count('tls'), 2)
  const warnings = async (options: Record<string, unknown>) =>
    (await start(t, { listen: '0.0.0.0:0', ...options }))
      .logs()
      .filter(({ level }) => level === 40)
      .map(({ msg }) => msg)
  t.match(await warnings({}), [/everyone who can reach this address can send/])
  t.match(await warnings({ auth: { key: 'k' } }), [/access keys are sent without encryption/])
  t.same(await warnings({ tls }), [])
  t.same(await warnings({ tls, auth: { key: 'k' } }), [])
})

t.test('options that do not go together', async t => {
  const cases: [Record<string, unknown>, string, RegExp][] = [
    [
      { max_body_bytes: '2MiB', max_unsettled_bytes: '1MiB' },
      'max_body_bytes',
      /must not be more than max_unsettled_bytes/,
    ],
    [{ headers_timeout: '9s', request_timeout: '8s' }, 'headers_timeout', /must not be more than request_timeout/],
    [{ path: 'in' }, 'path', /must begin with a slash/],
    [{ path: '/in?x' }, 'path', /without "\?"/],
    [{ auth: {} }, 'auth', /exactly one of key, key_file, credential and exec/],
    [{ auth: { exec: ['a'] } }, 'auth.exec', /write the key to a key_file/],
    [{ tls: { cert_file: 'x' } }, 'tls', /./],
    [{ listen: '8080' }, 'listen', /write 127\.0\.0\.1:8080 for/],
  ]
  for (const [options, path, message] of cases) {
    const { error } = source.options.safeParse({ listen: '127.0.0.1:0', ...options })
    t.match(error?.issues[0], { path: path.split('.'), message }, JSON.stringify(options))
  }
})
