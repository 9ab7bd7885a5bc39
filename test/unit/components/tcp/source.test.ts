import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { type ConnectionOptions, createServer as createTlsServer, connect as tlsConnect } from 'node:tls'
import t, { type Test } from 'tap'
import { tcp } from '../../../../src/components/tcp/source.js'
import { sleep, systemClock } from '../../../../src/lib/time.js'
import { Listener } from '../../../../src/net/listen.js'
import { HOST, listening } from '../../../support/address.js'
import { makeCertificates } from '../../../support/certificates.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import { contextOf, startPushed, Taker } from '../../../support/pushed.js'
import { turns, until } from '../../../support/until.js'

const start = (t: Test, options: Record<string, unknown> = {}, with_?: Parameters<typeof startPushed>[3]) =>
  startPushed(t, tcp, options, with_)

async function dial(t: Test, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  socket.setNoDelay(true)
  await once(socket, 'connect')
  return socket
}

t.test('lines of several connections: each in order, byte for byte, with the address of its sender', async t => {
  const { out, port, count } = await start(t)
  const input = (n: number) => `${n} one\r\n${n} two\n\n${n} \0 three ${'x'.repeat(300_000)}\n${n} unfinished`
  const sockets = await Promise.all(Array.from({ length: 5 }, () => dial(t, port)))
  for (const [n, socket] of sockets.entries()) socket.end(input(n))
  await Promise.all(sockets.map(socket => once(socket, 'close')))
  await until(() => out.events === 20)
  for (const [n] of sockets.entries()) {
    const own = out.lines.filter(line => line.startsWith(`${n} `))
    t.same(
      own.map(line => line.slice(0, 7).trim()),
      [`${n} one`, `${n} two`, `${n} \0 thr`, `${n} unfin`].map(line => line.slice(0, 7).trim()),
    )
  }
  t.equal(out.bytes, 5 * (input(0).length - 1), 'all but the empty lines')
  t.match(out.fields[0], { peer: '127.0.0.1', host: 'here', message: String })
  t.equal(count('sluice_source_connections'), 0)
  t.equal(count('connection') + count('bug'), 0)
})

t.test('empty messages are no events, however they are delimited', async t => {
  for (const [decode, text, wanted] of [
    ['text', '\n\r\n\n \na\n\r\n\n', [' ', 'a']],
    ['json', '\n{"message":"a"}\n\r\n\n', ['a']],
    ['gelf', '\0{"short_message":"a"}\0\n\0{"short_message":"b"}\r\n\0\0', ['a', 'b']],
    ['syslog', '\n<13>a: x\n\n<13>a: y\r\n\r\n', ['x', 'y']],
    ['syslog', '9 <13>a: x\n1 \n2 \r\n9 <13>a: y\n', ['x', 'y']],
  ] as const) {
    const { out, port } = await start(t, { decode })
    const whole = await dial(t, port)
    whole.end(text)
    await once(whole, 'close')
    const parted = await dial(t, port)
    for (const byte of text) {
      parted.write(byte)
      await new Promise(resolve => setImmediate(resolve))
    }
    parted.end()
    await once(parted, 'close')
    await until(() => out.events >= 2 * wanted.length)
    t.same(
      out.fields.map(({ message }) => message),
      [...wanted, ...wanted],
      decode,
    )
    const lone = await dial(t, port)
    lone.end('\n'.repeat(100_000))
    await once(lone, 'close')
    t.equal(out.events, 2 * wanted.length)
  }
})

t.test('a slow sender: a byte at a time', async t => {
  const { out, port } = await start(t, { decode: 'syslog' })
  const socket = await dial(t, port)
  for (const byte of '12 <13>a[1]: x\n8 <14>b: y6 <15>c:') {
    socket.write(byte)
    await new Promise(resolve => setImmediate(resolve))
  }
  await until(() => out.events === 3)
  t.match(out.fields, [
    { app: 'a', pid: '1', message: 'x', facility: 'user', severity: 'notice', host: '127.0.0.1' },
    { app: 'b', message: 'y', severity: 'info' },
    { app: 'c', message: '', severity: 'debug' },
  ])
  socket.write('20 <13>cut')
  socket.end()
  await until(() => out.events === 4)
  t.match(out.fields[3], { message: 'cut' })
})

t.test('nothing is read faster than there is room, whoever sends', async t => {
  const out = new Taker()
  const { port } = await start(t, {}, { out })
  out.block()
  const many = await Promise.all(Array.from({ length: 20 }, () => dial(t, port)))
  const megabyte = Buffer.from(`${'x'.repeat(1023)}\n`.repeat(1024))
  for (const socket of many) socket.end(megabyte)
  await until(() => out.events > 0)
  const one = await dial(t, port)
  for (let n = 0; n < 48; n++) one.write(megabyte)
  one.end()
  await until(() => one.writableLength < 48 << 20)
  await turns()
  t.equal(out.batches.length, 1, 'one batch, and nobody else reads')
  t.ok(one.writableLength > 16 << 20, `the sender waits with ${one.writableLength} bytes`)
  out.settlesAs = 'delivered'
  out.settle('delivered')
  out.unblock()
  await until(() => out.bytes === 68 << 20)
  t.equal(out.events, 68 * 1024)
})

t.test('as many connections as allowed', async t => {
  const { port, out, logs, count } = await start(t, { max_connections: 2, max_connections_per_address: 2 })
  const [first, second] = [await dial(t, port), await dial(t, port)]
  for (const socket of [first, second]) socket.write('x\n')
  await until(() => out.events === 2)
  for (let n = 0; n < 3; n++) await once(await dial(t, port), 'close')
  t.equal(count('sluice_source_refused_connections_total'), 3)
  t.equal(logs().filter(({ msg }) => String(msg).startsWith('refused a connection')).length, 1, 'logged once')
  first.destroy()
  await until(() => count('sluice_source_connections') === 1)
  const silent = await dial(t, port)
  await until(() => count('sluice_source_connections') === 2)
  const last = await dial(t, port)
  await once(silent, 'close')
  last.write('y\n')
  await until(() => out.events === 3)
  t.equal(count('sluice_source_closed_connections_total'), 1, 'one that has sent nothing makes room')
  t.equal(count('sluice_source_refused_connections_total'), 3)
})

t.test('the connections of one address are bounded, except for addresses that many share', async t => {
  const { port, out, count } = await start(t, {
    max_connections: 10,
    max_connections_per_address: 2,
    shared_addresses: ['127.0.0.3', '127.0.1.0/24'],
  })
  const from = async (localAddress: string) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress })
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    const closed = once(socket, 'close').then(() => 'refused')
    await once(socket, 'connect')
    const before = out.events
    socket.write('x\n')
    return Promise.race([closed, until(() => out.events > before).then(() => 'taken')])
  }
  const outcomes: string[] = []
  for (const address of ['127.0.0.1', '127.0.0.1', '127.0.0.1', '127.0.0.2']) outcomes.push(await from(address))
  t.same(outcomes, ['taken', 'taken', 'refused', 'taken'])
  for (const address of ['127.0.0.3', '127.0.0.3', '127.0.0.3', '127.0.1.9']) t.equal(await from(address), 'taken')
  t.equal(count('sluice_source_refused_connections_total'), 1)
})

t.test('an idle connection is closed where that is asked for; its unfinished line is delivered', async t => {
  const { out, port } = await start(t, { idle_timeout: '80ms' })
  const socket = await dial(t, port)
  socket.write('one\ntwo')
  await once(socket, 'close')
  t.same(out.lines, ['one', 'two'])
})

t.test('a connection that is reset: what was read is delivered, others go on', async t => {
  const { out, port, count } = await start(t)
  const [bad, good] = [await dial(t, port), await dial(t, port)]
  bad.write('read\nhalf')
  await until(() => out.events === 1)
  bad.resetAndDestroy()
  await until(() => out.events === 2)
  good.write('still here\n')
  await until(() => out.events === 3)
  t.same(out.lines, ['read', 'half', 'still here'])
  t.equal(count('connection'), 1)
})

t.test('the end: senders are told, what is on its way is read, nobody is let in', async t => {
  const { out, port, run, abort } = await start(t)
  const [polite, quiet] = [await dial(t, port), await dial(t, port)]
  polite.write('before\n')
  quiet.write('unfinished')
  await until(() => out.events === 1)
  abort()
  await once(polite, 'end')
  t.equal(quiet.destroyed, false)
  quiet.write(' line\n')
  await run
  t.same(out.lines.sort(), ['before', 'unfinished line'])
  await t.rejects(dial(t, port), { code: 'ECONNREFUSED' })
})

t.test('what was on its way at the end is read, however long that takes', async t => {
  let time = 0
  // Each look at the clock takes a tenth of a second.
  const clock = { ...systemClock, now: () => (time += 100) }
  const { out, port, run, abort } = await start(t, {}, { clock })
  out.block()
  const socket = await dial(t, port)
  socket.end(`${'x'.repeat(1023)}\n`.repeat(12 * 1024))
  await until(() => out.events > 0)
  abort()
  out.unblock()
  await run
  t.equal(out.events, 12 * 1024)
})

t.test('the end comes although a sender never stops', async t => {
  let jump = 0
  const clock = { ...systemClock, now: () => systemClock.now() + jump, wall: () => systemClock.wall() }
  const { out, port, run, abort } = await start(t, {}, { clock })
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  socket.on('data', () => {})
  const chatter = setInterval(() => socket.write('more\n'), 5)
  t.teardown(() => clearInterval(chatter))
  await until(() => out.events > 3)
  abort()
  const before = out.events
  await until(() => out.events > before + 20)
  jump = 2000
  await run
  t.ok(new Set(out.lines).size === 1)
})

t.test('a batch that cannot be sent is reported, and reading goes on', async t => {
  const out = new Taker('delivered')
  const { send } = out
  out.send = async batch => {
    await send.call(out, batch)
    if (out.batches.length === 1) throw new Error('a fault')
  }
  const { port, count, logs } = await start(t, {}, { out })
  const socket = await dial(t, port)
  socket.write('one\n')
  await until(() => count('bug') === 1)
  t.match(logs().at(-1), { level: 50, error: 'a fault', msg: 'cannot pass on the data of a connection' })
  socket.end('two\n')
  await until(() => out.events === 2)
  t.same(out.lines, ['one', 'two'])
})

t.test('what is not delivered is counted', async t => {
  const { port, count, out } = await start(t, {}, { out: new Taker('errored') })
  ;(await dial(t, port)).end('x\n')
  await until(() => out.events === 1)
  t.equal(count('undelivered'), 1)
})

t.test('over-long lines, JSON of several lines, broken framing', async t => {
  const long = await start(t, { max_line_bytes: 1024 })
  ;(await dial(t, long.port)).end(`${'x'.repeat(2500)}\n`)
  await until(() => long.out.events === 3)
  t.equal(long.count('sluice_line_pieces_total'), 2)
  t.same(long.out.raw.toString(), `${'x'.repeat(2500)}\n`)
  const json = await start(t, { decode: 'json', framing: 'octet_counted' })
  ;(await dial(t, json.port)).end('10 {"a":\n[1]}oops\n')
  await until(() => json.out.events === 2)
  t.same(json.out.raw.toString(), '{"a": [1]}\noops\n')
  t.match(json.out.fields[1], { message: 'oops', peer: '127.0.0.1' })
  t.equal(json.count('sluice_framing_errors_total'), 1)
})

t.test('unfinished lines of all connections are bounded together, and lose nothing', async t => {
  const { out, port } = await start(t, { max_line_bytes: '256MiB' })
  const part = Buffer.alloc(1 << 20, 'y')
  const sockets = await Promise.all(Array.from({ length: 3 }, () => dial(t, port)))
  for (let n = 0; n < 20; n++) for (const socket of sockets) socket.write(part)
  await until(() => out.bytes > 20 << 20)
  for (const socket of sockets) socket.end('\n')
  await until(() => out.bytes === 3 * ((20 << 20) + 1))
  t.ok(out.events > 3, 'in pieces')
})

t.test('what cannot listen says why', async t => {
  const port = await listening(t, createServer())
  const tls = { cert_file: '/nowhere/cert.pem', key_file: '/nowhere/key.pem' }
  const cases: [Record<string, unknown>, RegExp][] = [
    [{ listen: `${HOST}:${port}` }, new RegExp(`cannot listen on ${HOST}:${port}: another program listens there`)],
    [{ listen: '203.0.113.9:0' }, /cannot listen on 203.0.113.9:0: this machine does not have that address/],
    [{ listen: '[2001:db8::1]:0' }, /cannot listen on \[2001:db8::1\]:0: /],
    [{ tls }, /tls.cert_file: \/nowhere\/cert.pem cannot be read: the file does not exist/],
  ]
  for (const [options, message] of cases) await t.rejects(start(t, options), { message })
})

t.test('TLS', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const files = makeCertificates(openssl, testFolder(t, { foreign: {} }), ['server', 'client'])
  const tls = { cert_file: files.path('server.pem'), key_file: files.path('server.key') }
  const ca = files.pem('ca.pem')
  const client = { cert: files.pem('client.pem'), key: files.pem('client.key') }
  const say = async (port: number, text: string, options: ConnectionOptions = {}) => {
    const socket = tlsConnect({ port, host: '127.0.0.1', ca, ...options })
    t.teardown(() => socket.destroy())
    // With TLS 1.3 a client learns only afterwards that it was not let in.
    socket.on('data', () => {})
    socket.end(text)
    return await new Promise<string | undefined>(resolve => {
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code))
      socket.once('close', () => resolve(undefined))
    })
  }
  const open = await start(t, { tls, decode: 'syslog' })
  t.equal(await say(open.port, '<13>a: over TLS'), undefined)
  await until(() => open.out.events === 1)
  t.match(open.out.fields[0], { app: 'a', message: 'over TLS', peer: '127.0.0.1' })
  const plain = await dial(t, open.port)
  plain.end('<13>a: in the clear\n')
  await once(plain, 'close')
  t.equal(open.count('tls'), 1, 'not TLS')
  const big = await start(t, { tls })
  t.equal(await say(big.port, `${'z'.repeat(99)}\n`.repeat(30_000)), undefined)
  await until(() => big.out.bytes === 3_000_000)

  const closed = await start(t, { tls: { ...tls, client_ca_file: files.path('ca.pem') } })
  t.equal(await say(closed.port, 'known\n', client), undefined)
  await until(() => closed.out.events === 1)
  await say(closed.port, 'nobody\n')
  await until(() => closed.count('tls') === 1)
  const foreign = makeCertificates(openssl, files.path('foreign'), ['client'])
  await say(closed.port, 'stranger\n', { cert: foreign.pem('client.pem'), key: foreign.pem('client.key') })
  await until(() => closed.count('tls') === 2)
  t.same(closed.out.lines, ['known'])

  // Each reason by its name, with the address of the first client, once.
  await say(closed.port, 'nobody\n')
  const http = await dial(t, closed.port)
  http.end('GET / HTTP/1.1\r\n\r\n')
  await until(() => closed.count('tls') === 4)
  const refused = (closed.logs() as Record<string, unknown>[]).filter(({ code }) => code === 'SLUICE_TLS_REFUSED')
  const line = { level: 40, peer: '127.0.0.1', msg: 'refused a TLS connection', connections: 1 }
  t.match(refused, [
    {
      ...line,
      reason: 'no_certificate',
      error: 'peer did not return a certificate',
      why: /tls.client_ca_file requires one/,
    },
    { ...line, reason: 'unknown_authority', why: /is not from an authority in tls.client_ca_file/ },
    { ...line, reason: 'plain_http', why: /must begin with https:/ },
  ])
  t.equal(refused.length, 3)
  const total = (reason: string) =>
    closed.counters.counter('sluice_tls_refused_connections_total', '', { reason }).value
  t.same(['no_certificate', 'unknown_authority', 'plain_http'].map(total), [2, 1, 1])
  const ages = [...closed.counters.series.get('sluice_tls_last_refusal_age_seconds')![0]!.read()]
  t.same(
    ages.map(({ labels }) => labels.reason),
    ['no_certificate', 'unknown_authority', 'plain_http'],
  )
  t.ok(ages.every(({ value }) => value >= 0 && value < 60))
})

t.test('a TLS handshake that is not completed is ended, and others go on', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const files = makeCertificates(openssl, testFolder(t), ['server'])
  const tls = { cert_file: files.path('server.pem'), key_file: files.path('server.key') }
  const { port, out, counters, count } = await start(t, { tls, handshake_timeout: '200ms' })
  const secured = () =>
    new Promise<Socket | undefined>(resolve => {
      const socket = tlsConnect({ port, host: '127.0.0.1', ca: files.pem('ca.pem') }, () => resolve(socket))
      t.teardown(() => socket.destroy())
      socket.on('error', () => resolve(undefined))
    })
  const good = await until('a handshake in time', secured)
  const silent = await dial(t, port)
  const slow = await dial(t, port)
  const drip = setInterval(() => slow.write('\x16'), 20)
  t.teardown(() => clearInterval(drip))
  await Promise.all([silent, slow].map(socket => new Promise(resolve => socket.once('close', resolve))))
  const closed = counters.series.get('sluice_source_closed_connections_total')!.flatMap(one => [...one.read()])
  t.match(
    closed.filter(({ value }) => value > 0),
    [{ labels: { reason: 'handshake' } }],
  )
  good.end('x\n')
  await until(() => out.events === 1)
  await until(() => count('sluice_source_connections') === 0)
})

t.test('a renewed certificate is used without a restart, and a broken one is not', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const files = makeCertificates(openssl, testFolder(t), ['server'])
  const tls = { cert_file: files.path('server.pem'), key_file: files.path('server.key') }
  const { context, logs } = contextOf('tcp')
  const listener = new Listener({ max_connections: 9, handshake_timeout: 1000, shared_addresses: [], tls }, context)
  await listener.open(
    { host: '127.0.0.1', port: 0 },
    options => {
      t.ok(options!.handshakeTimeout! > 60 * 60 * 1000, 'Node.js ends no handshake before handshake_timeout')
      return createTlsServer(options!)
    },
    10,
  )
  t.teardown(() => listener.close())
  const serial = async () => {
    const socket = tlsConnect({
      port: Number(listener.address.split(':')[1]),
      host: '127.0.0.1',
      ca: files.pem('ca.pem'),
    })
    await once(socket, 'secureConnect')
    const { serialNumber } = socket.getPeerCertificate()
    socket.destroy()
    return serialNumber
  }
  const first = await serial()
  const told = (message: string) => logs().filter(({ msg }) => String(msg).startsWith(message)).length
  const good = files.pem('server.pem')
  writeFileSync(files.path('server.pem'), 'no certificate\n')
  await until(() => told('cannot use the renewed TLS files') === 1)
  t.equal(await serial(), first, 'the old one stays in use')
  rmSync(files.path('server.pem'))
  await until(() => told('cannot use the renewed TLS files') === 2)
  // A timer of the interval at which it looks for changes: it has looked again when this one rings.
  for (let looks = 0; looks < 3; looks++) await sleep(10)
  t.match(
    logs()
      .filter(({ msg }) => String(msg).startsWith('cannot use the renewed TLS files'))
      .map(({ error }) => error),
    [/server.pem holds no PEM block/, /server.pem cannot be read: the file does not exist/],
    'each once',
  )
  writeFileSync(files.path('server.pem'), good)
  await until(() => told('TLS files were renewed') > 0)
  files.make('server')
  await until('the renewed certificate', async () => (await serial()) !== first)
})

t.test('many unfinished lines of others do not cut a long line', async t => {
  const { out, port } = await start(t)
  const others = await Promise.all(Array.from({ length: 37 }, () => dial(t, port)))
  for (const socket of others) socket.write(Buffer.alloc(900_000, 'x'))
  // The last one has read all of it when nothing more is to be written.
  await until(() => others.every(({ writableLength }) => writableLength === 0))
  const honest = await dial(t, port)
  const line = 'y'.repeat(300_000)
  honest.write(line)
  await until(() => out.events > 0)
  honest.write('z\n')
  await until(() => out.lines.some(one => one.endsWith('z')))
  t.ok(out.lines.includes(`${line}z`), 'it comes whole')
  t.ok(out.lines.filter(one => one.startsWith('x')).length > 0, 'the largest of the others were given up')
})
