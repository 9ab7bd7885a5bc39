import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { listening } from '../../../support/address.js'
import { type Certificates, makeCertificates } from '../../../support/certificates.js'
import { deliver, events, failure, make, never, ns, receiver, started, upTo } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import { until } from '../../../support/until.js'

/** A server on loopback that gets each request as soon as it is whole, and writes what it likes. */
async function rawServer(t: Test, answer: (socket: Socket, request: string) => void): Promise<number> {
  const sockets = new Set<Socket>()
  const server: Server = createServer(socket => {
    sockets.add(socket)
    let text = ''
    socket
      .on('error', () => {})
      .on('data', data => {
        text += data
        for (;;) {
          const head = text.indexOf('\r\n\r\n') + 4
          const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
          if (head < 4 || text.length < head + length) return
          const request = text.slice(0, head + length)
          text = text.slice(head + length)
          answer(socket, request)
        }
      })
  })
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  return await listening(t, server, '127.0.0.1')
}

t.test('interim answers are skipped, however many and however they come', async t => {
  const requests: string[] = []
  const body = 'HTTP/1.1 100 Continue\r\n\r\n'
  const final = `HTTP/1.1 400 Bad Request\r\nContent-Length: ${body.length}\r\n\r\n`
  const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n'
  const pieces: string[][] = [
    ['HTTP/1.1 100 Continue\r\n\r\n'],
    [`HTTP/1.1 100 Continue\r\n\r\n${'HTTP/1.1 102 Processing\r\n\r\n'.repeat(500)}${hints}`],
    ['HTTP', '/1.1 10', '0 Continue\r', '\n\r\nHT', 'TP/1.1 199 Whatever\r\nA: b\r\n', '\r', '\n'],
    [],
  ]
  const port = await rawServer(t, (socket, request) => {
    requests.push(request)
    socket.setNoDelay(true)
    const parts = [...(pieces[requests.length - 1] ?? []), final, body]
    const next = () => {
      const part = parts.shift()
      if (part !== undefined) socket.write(part, () => setImmediate(next))
    }
    next()
  })
  const { destination } = await started(t, { url: `http://127.0.0.1:${port}/` })
  for (const part of pieces) {
    const error = await failure(destination.write(events(1), never))
    // What looks like an interim answer in a body is the body.
    t.match(error, { failure: 'reject', status: 400, message: /: HTTP\/1\.1 100 Continue$/ }, JSON.stringify(part))
  }
  t.equal(requests.length, pieces.length, 'each was sent once')

  const upgrading = await rawServer(t, socket => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n')
  })
  const other = await started(t, { url: `http://127.0.0.1:${upgrading}/` })
  t.match(await failure(other.destination.write(events(1), never)), { failure: 'retry', reason: 'protocol' })
})

t.test('a status line of 000, a body without end: the events are sent again, and are not rejected', async t => {
  const JSON_TYPE = 'Content-Type: application/json\r\n'
  const part = `10000\r\n${' '.repeat(65_536)}\r\n`
  let sent = 0
  for (const [status, head] of [
    [0, 'HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n'],
    [42, 'HTTP/1.1 042 x\r\nContent-Length: 0\r\n\r\n'],
    [200, `HTTP/1.1 200 OK\r\n${JSON_TYPE}Transfer-Encoding: chunked\r\n\r\n`],
    [400, `HTTP/1.1 400 Bad\r\n${JSON_TYPE}Transfer-Encoding: chunked\r\n\r\n`],
  ] as const) {
    const port = await rawServer(t, socket => {
      socket.write(head)
      if (!head.includes('chunked')) return
      const more = () => {
        while (!socket.destroyed && socket.write(part)) sent += part.length
      }
      socket.on('drain', more)
      more()
    })
    const { destination } = await started(t, { url: `http://127.0.0.1:${port}/` })
    const error = await failure(destination.write(events(1), never))
    t.match(error, { failure: status === 400 ? 'reject' : 'retry', status })
    if (status < 200) continue
    t.match(error.reason, 'answer_too_large')
    t.match(await failure(destination.write(events(2), never)), { failure: 'too_large', status })
  }
  t.ok(sent < 64 * 1024 * 1024, `${sent} bytes were sent`)
})

t.test(
  'a connection is used again, unless its receiver closes idle connections soon or has closed this one',
  async t => {
    const connections: Socket[] = []
    let more = ''
    const port = await rawServer(t, socket => {
      if (!connections.includes(socket)) connections.push(socket)
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${more}\r\n`)
    })
    const { destination } = await started(t, { url: `http://127.0.0.1:${port}/` })
    const write = () => destination.write(events(1), never)
    for (let i = 0; i < 5; i++) await write()
    t.equal(connections.length, 1)
    const closed = once(connections[0]!, 'close')
    connections[0]!.end()
    await closed
    await write()
    t.equal(connections.length, 2, 'it was closed')
    more = 'Keep-Alive: timeout=2\r\n'
    for (let i = 0; i < 3; i++) await write()
    t.equal(connections.length, 4, 'the second one had said nothing before')
  },
)

t.test('an answer may be longer than what it answers', async t => {
  const to = await receiver(t)
  const headers = { 'content-type': 'application/json' }
  const message = `not this: ${'\\"x\\u00e9'.repeat(400)}`
  const refused = upTo(200).filter(n => n % 2 === 1)
  const entry = (index: number) =>
    `{"message":"${message}","echo":{"errors":[{"index":0}]},"index":${index},"status":422}`
  const long = `{"errors_of":"[","other":{"errors":[{"index":0}]},"errors":[${refused.map(entry).join(', ')}]}`
  t.ok(long.length > 256 * 1024)
  const made = await make({ url: to.url() })
  to.script.push({ status: 200, headers, body: long })
  const { delivery, put, end, settled, letters } = deliver(testFolder(t), made, { batch: { max_wait: '5ms' } })
  await delivery.start()
  put(200, 0)
  await until(() => settled.length === 1)
  t.same(await end(), { events: 0, bytes: 0 })
  t.equal(to.requests.length, 1, 'what was taken is not sent again')
  const kept = readFileSync(letters.path, 'utf8').trimEnd().split('\n')
  t.same(
    kept.map(line => (JSON.parse(line) as { event: { n: number } }).event.n),
    refused,
  )
  t.match(JSON.parse(kept[0]!), { status: 422, error: /not this: "xé"xé/ })

  const { destination } = await started(t, { url: to.url() })
  const filler = `"x":"${'y'.repeat(1000 * 1024)}"`
  for (const body of [`{${filler},"errors":[]}`, `{"errors":{},${filler}}`, `{"errors":false,${filler}}`]) {
    to.script.push({ status: 200, headers, body })
    await destination.write(events(2), never)
  }
  // The destination does not read it to its end, so it cannot know what it says.
  for (const body of [`{"errors":[{"index":1}],${filler}`, `{"errors":[${'{"index":1},'.repeat(40)}{}]}`]) {
    to.script.push({ status: 200, headers, body })
    t.match(await failure(destination.write(events(2), never)), { failure: 'too_large', reason: 'answer_too_large' })
  }
  const strange = `{"errors":[{"index":0,"all":"${'y'.repeat(16 * 1024 * 1024)}"}]}`
  for (const status of [200, 400]) {
    to.script.push({ status, headers, body: strange })
    const error = await failure(destination.write(events(2), never))
    t.match(error, { failure: 'too_large', reason: 'answer_too_large', status })
    t.match(error.message, /too long.*sent again in smaller requests/)
  }
  to.otherwise = ({ body }) => (body.includes('\n{') ? { status: 200, headers, body: strange } : 200)
  const halving = await make({ url: to.url() })
  const parts = deliver(t.testdirName, halving, { batch: { max_wait: '5ms' } })
  await parts.delivery.start()
  to.requests.length = 0
  parts.put(4, 0)
  await until(() => parts.settled.length > 0)
  t.same(await parts.end(), { events: 0, bytes: 0 })
  t.same(
    to.requests.filter(({ body }) => !body.includes('\n{')).flatMap(({ body }) => ns([body])),
    upTo(4),
  )
})

t.test('TLS: files that are replaced are used, and requests under way end as they are', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const files = makeCertificates(openssl, testFolder(t, { other: {} }), ['server', 'client', 'next'])
  const serials: string[] = []
  const to = await receiver(t, {
    tls: { cert: files.pem('server.pem'), key: files.pem('server.key'), ca: files.pem('ca.pem'), requestCert: true },
  })
  to.otherwise = ({ socket }) => {
    serials.push((socket as TLSSocket).getPeerCertificate().subject.CN as unknown as string)
    return 200
  }
  const tls = { ca_file: files.path('ca.pem'), cert_file: files.path('client.pem'), key_file: files.path('client.key') }
  const { destination, logs, counters } = await started(t, { url: to.url(), tls })
  await destination.write(events(1), never)
  const told = (text: RegExp) => logs.filter(({ msg }) => text.test(msg))
  const attempt = async () => {
    await destination.write(events(1), never)
    return serials.at(-1)
  }

  let free = () => {}
  to.script.push({
    status: 200,
    wait: new Promise<void>(resolve => {
      free = resolve
    }),
  })
  const held = destination.write(events(1), never)
  copyFileSync(files.path('next.key'), tls.key_file)
  t.ok(await destination.changed!(), 'a hold would end')
  await until(async () => (await attempt()) === 'client' && told(/keeping the current ones/).length === 1)
  t.match(told(/cannot use the renewed/), [
    { level: 50, code: 'SLUICE_TLS_FILES', error: /client.key does not belong to the certificate in .*client.pem/ },
  ])
  t.equal(counters.failures.get('tls_files'), 1)
  copyFileSync(files.path('next.pem'), tls.cert_file)
  await until(async () => (await attempt()) === 'next')
  t.equal(told(/TLS files were renewed/).length, 1)
  free()
  await held
  t.match([...counters.series.keys()], ['sluice_tls_certificate_expiry_timestamp_seconds'])
})

t.test('TLS: who refused what, and where to look', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const dir = testFolder(t, { other: {} })
  const files = makeCertificates(openssl, dir, ['server', 'client'])
  const other = makeCertificates(openssl, join(dir, 'other'), ['stranger'])
  const ca = { ca_file: files.path('ca.pem') }
  const of = (from: Certificates, name: string) => ({
    cert_file: from.path(`${name}.pem`),
    key_file: from.path(`${name}.key`),
  })
  const attempt = async (url: string, tls: Record<string, unknown> = ca) => {
    const { destination } = await started(t, { url, tls })
    const first = await failure(destination.write(events(1), never))
    return first.message
  }
  const asking = {
    cert: files.pem('server.pem'),
    key: files.pem('server.key'),
    ca: files.pem('ca.pem'),
    requestCert: true,
    rejectUnauthorized: true,
  }
  const node = await receiver(t, { tls: asking })
  const plain = await receiver(t)
  // OpenSSL sends alerts as other servers do; Node.js only closes the connection.
  const alerting = spawn(
    openssl,
    `s_server -accept 127.0.0.1:0 -www -Verify 1 -verify_return_error -CAfile ca.pem -cert server.pem -key
        server.key`.split(/\s+/),
    { cwd: dir, stdio: ['ignore', 'pipe', 'ignore'] },
  )
  t.teardown(() => alerting.kill())
  let said = ''
  alerting.stdout.on('data', data => {
    said += data
  })
  await until(() => /ACCEPT .*:\d+/.test(said))
  const alerts = `https://127.0.0.1:${/ACCEPT .*:(\d+)/.exec(said)![1]}/`
  const cases: [string, string, Record<string, unknown>, RegExp][] = [
    [
      'no certificate',
      alerts,
      ca,
      /wants a client certificate; set tls.cert_file and tls.key_file \(ERR_SSL_.*CERTIFICATE_REQUIRED\)/,
    ],
    [
      'a stranger',
      alerts,
      { ...ca, ...of(other, 'stranger') },
      /(does not know the authority of|refused) the client certificate in tls.cert_file \(.*stranger.pem\)/,
    ],
    [
      'a stranger, without an alert',
      node.url(),
      { ...ca, ...of(other, 'stranger') },
      /it may refuse the client certificate in tls.cert_file \(.*stranger.pem\)/,
    ],
    [
      'an unknown authority',
      node.url(),
      {},
      /authority of the receiver's certificate is not known; name its certificate in tls.ca_file/,
    ],
    [
      'another authority',
      node.url(),
      { ca_file: other.path('ca.pem') },
      /not from an authority in tls.ca_file \(.*other.ca.pem\)/,
    ],
    [
      'another name',
      node.url(),
      { ...ca, server_name: 'logs.internal' },
      /is for another name; set tls.server_name to a name that it contains. Host: logs.internal/,
    ],
    ['https to http', plain.url().replace('http:', 'https:'), ca, /does not speak TLS there: use http:\/\//],
    [
      'http to https',
      node.url().replace('https:', 'http:'),
      {},
      /does it expect https:\/\/ there\?|it speaks TLS there: use https/,
    ],
  ]
  for (const [name, url, tls, text] of cases) t.match(await attempt(url, tls), text, name)
})

t.test('a web server that wants TLS, or another certificate, is no receiver that refuses events', async t => {
  const to = await receiver(t)
  const { destination } = await started(t, { url: to.url() })
  const page = (title: string) => `<html>\n<head><title>400 ${title}</title></head><body>nginx</body></html>`
  const cases: [string, RegExp][] = [
    [page('The plain HTTP request was sent to HTTPS port'), /it speaks TLS there: use https/],
    ['Client sent an HTTP request to an HTTPS server.\n', /it speaks TLS there: use https/],
    ["Reason: You're speaking plain HTTP to an SSL-enabled server port.", /it speaks TLS there: use https/],
    [page('No required SSL certificate was sent'), /it wants a client certificate: set tls.cert_file/],
    [page('The SSL certificate error'), /it refuses the client certificate in tls.cert_file/],
  ]
  for (const [body, text] of cases) {
    to.script.push({ status: 400, headers: { 'content-type': 'text/html' }, body })
    t.match(await failure(destination.write(events(1), never)), { failure: 'hold', status: 400, message: text })
  }
  to.script.push({ status: 400, body: 'the event says: No required SSL certificate was sent' })
  t.match(await failure(destination.write(events(1), never)), { failure: 'reject' })
})
