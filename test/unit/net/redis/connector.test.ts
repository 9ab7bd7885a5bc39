import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Reach } from '../../../../src/core/options/reach.js'
import { AddressRules } from '../../../../src/lib/network/address-rules.js'
import { systemClock } from '../../../../src/lib/time.js'
import { RedisConnector } from '../../../../src/net/redis/connector.js'
import { redisOptions } from '../../../../src/net/redis/options.js'
import { redisProblem } from '../../../../src/net/redis/redis-error.js'
import { HOST, listening } from '../../../support/address.js'
import { makeCertificates } from '../../../support/certificates.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'

/** A server that counts its connections and never replies. */
async function listener(t: Test, host = '127.0.0.1') {
  const server = createServer(socket => socket.on('error', () => {}))
  const counted = { connections: 0, port: 0 }
  server.on('connection', socket => {
    counted.connections++
    socket.destroy()
  })
  counted.port = await listening(t, server, host)
  return counted
}

const rules = new AddressRules([])
const reach: Reach = {
  realFile: () => {
    throw new Error('no file may be used')
  },
  confirm: async () => {},
  deniedAddress: (address, port) => rules.denied(address, port),
}

async function failure(options: object, within?: Reach): Promise<string> {
  const context = { log: pino({ level: 'silent' }), clock: systemClock, reach: within, mostReplyBytes: 1024 }
  const connector = new RedisConnector(redisOptions.parse(options), context)
  try {
    const connection = await connector.connect(() => {}, AbortSignal.timeout(10_000))
    connection.destroy()
    return ''
  } catch (error) {
    return String(error)
  }
}

t.test('a reply may have as many bytes as the user of a connection says', async t => {
  const LARGE = 24 * 1024 * 1024
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.on('data', () => {
      socket.write(`$${LARGE}\r\n`)
      socket.write(Buffer.alloc(LARGE, 'x'))
      socket.write('\r\n')
    })
  })
  const url = `redis://${HOST}:${await listening(t, server)}`
  for (const mostReplyBytes of [LARGE + 100, LARGE]) {
    const context = { log: pino({ level: 'silent' }), clock: systemClock, mostReplyBytes }
    const connector = new RedisConnector(redisOptions.parse({ url }), context)
    let lost: Error | undefined
    const connection = await connector.connect(error => (lost = error), AbortSignal.timeout(30_000))
    const reply = connection.command(Buffer.alloc(0), ['GET', 'a'])
    if (mostReplyBytes > LARGE) t.equal(String(await reply).length, LARGE)
    else await t.rejects(reply, { message: 'the server sent a reply that no request can cause' })
    t.equal(lost?.message, mostReplyBytes > LARGE ? undefined : 'the server sent a reply that no request can cause')
    connection.destroy()
  }
})

t.test('a reply that announces more than it may is refused before it takes memory, with TLS too', async t => {
  const bomb = '*33000000\r\n'.repeat(30)
  const servers: [protocol: string, options: object, server: Server][] = [
    ['redis', {}, createServer()],
    ['redis', { cluster: true }, createServer()],
    ['redis', { sentinel: { name: 'main' } }, createServer()],
  ]
  const openssl = needs(t, 'openssl')
  if (openssl) {
    const folder = testFolder(t)
    const certificates = makeCertificates(openssl, folder, ['server'])
    const own = { cert: certificates.pem('server.pem'), key: certificates.pem('server.key') }
    servers.push(['rediss', { ca_file: certificates.path('ca.pem') }, createTlsServer(own)])
  }
  for (const [protocol, more, server] of servers) {
    server.on(protocol === 'redis' ? 'connection' : 'secureConnection', (socket: Socket) =>
      socket.on('error', () => {}).on('data', () => socket.write(bomb)),
    )
    const url = `${protocol}://127.0.0.1:${await listening(t, server, '127.0.0.1')}`
    const context = { log: pino({ level: 'silent' }), clock: systemClock, mostReplyBytes: 1_000_000 }
    const connector = new RedisConnector(redisOptions.parse({ url, ...more }), context)
    const before = process.memoryUsage.rss()
    const asked = async () => {
      const connection = await connector.connect(() => {}, AbortSignal.timeout(30_000))
      t.teardown(() => connection.destroy())
      await connection.command(Buffer.alloc(0), ['GET', 'a'])
    }
    await t.rejects(asked(), /sent a list that no request can cause|root nodes are unavailable/, url)
    t.ok(process.memoryUsage.rss() - before < 100e6)
  }
})

t.test('the nodes of a cluster are asked in RESP2, as single servers are', async t => {
  const asked: string[] = []
  const server = createServer(socket =>
    socket
      .on('error', () => {})
      .on('data', data => {
        const text = String(data)
        asked.push(text)
        const slots = `*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:${port}\r\n`
        socket.write(/HELLO/.test(text) ? '%1\r\n+a\r\n+b\r\n' : /CLUSTER/.test(text) ? slots : '$1\r\n1\r\n')
      }),
  )
  const port = await listening(t, server, '127.0.0.1')
  const context = { log: pino({ level: 'silent' }), clock: systemClock, mostReplyBytes: 1024 }
  const options = redisOptions.parse({ url: `redis://127.0.0.1:${port}`, cluster: true })
  const connection = await new RedisConnector(options, context).connect(() => {}, AbortSignal.timeout(30_000))
  t.teardown(() => connection.destroy())
  t.equal(await connection.command(Buffer.from('a'), ['GET', 'a']), '1')
  t.notMatch(asked.join(''), /HELLO/)
})

t.test('a Sentinel that does not reply leaves time for the next one', async t => {
  const silent = createServer(socket => socket.on('error', () => {}).resume())
  const primary = await listener(t, HOST)
  const answer = `*2\r\n$${HOST.length}\r\n${HOST}\r\n$${String(primary.port).length}\r\n${primary.port}\r\n`
  const second = createServer(socket => socket.on('error', () => {}).on('data', () => socket.write(answer)))
  const [url, next] = [await listening(t, silent), await listening(t, second)].map(port => `redis://${HOST}:${port}`)
  const error = await failure({ url, nodes: [next], sentinel: { name: 'main' } })
  t.equal(primary.connections, 1, error)
})

t.test('a published pipeline connects to no address of this machine, however it is written', async t => {
  const server = await listener(t)
  for (const host of ['127.0.0.1', 'localhost', '127.1', '[::ffff:127.0.0.1]'])
    t.match(await failure({ url: `redis://${host}:${server.port}` }, reach), /is a loopback address/, host)
  t.equal(server.connections, 0)
  await failure({ url: `redis://127.0.0.1:${server.port}` })
  t.equal(server.connections, 1, 'others may')
})

t.test('a published pipeline uses no Sentinels and no Redis Cluster, which return further addresses', async t => {
  const server = await listener(t)
  for (const more of [{ sentinel: { name: 'main' } }, { cluster: true }])
    t.match(await failure({ url: `redis://127.0.0.1:${server.port}`, ...more }, reach), /return further addresses/)
  t.equal(server.connections, 0)
})

t.test('a published pipeline reads no file for its password or certificates', async t => {
  const server = await listener(t)
  const url = `redis://127.0.0.1:${server.port}`
  t.match(await failure({ url, password_file: '/etc/hostname' }, reach), /no file may be used/)
  t.match(
    await failure({ url: url.replace('redis', 'rediss'), ca_file: '/etc/hostname' }, reach),
    /no file may be used/,
  )
  t.equal(server.connections, 0)
})

t.test('what a server replies is shown on one line, without control characters, and not at any length', async t => {
  const { kind, text } = redisProblem(new Error(`ERR \x1b[31m\n${'a'.repeat(100_000)}`))
  t.equal(kind, 'connection')
  t.match(text, /^ERR \\u\{1b\}\[31m\\u\{a\}a+$/)
  t.ok(text.length < 600)
})

t.test('no password is shown that a server without AUTH repeats', async t => {
  for (const name of ["'AUTH'", '`AUTH`', "'auth'"]) {
    const error = new Error(`ERR unknown command ${name}, with args beginning with: 'sluice' 'hunter2' `)
    t.same(redisProblem(error), {
      kind: 'denied',
      text: 'the server does not know the command AUTH; remove the password, or enable the command',
    })
  }
  const other = "ERR unknown command 'HELLO', with args beginning with: '2' 'AUTH' 'sluice' 'hunter2' "
  t.same(redisProblem(new Error(other)), { kind: 'connection', text: "ERR unknown command 'HELLO'" })
})

t.test('no password is shown that a server repeats otherwise, not even its beginning', async t => {
  t.same(redisProblem(new Error('ERR wrong arguments: AUTH sluice hunter2'), ['hunter2']), {
    kind: 'connection',
    text: 'ERR wrong arguments: AUTH sluice [hidden]',
  })
  t.notMatch(redisProblem(new Error(`${'a'.repeat(497)}hunter2`), ['hunter2']).text, 'hun')
})
