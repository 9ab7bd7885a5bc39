import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Reach } from '../../../../src/core/options/reach.js'
import { AddressRules } from '../../../../src/lib/network/address-rules.js'
import { systemClock } from '../../../../src/lib/time.js'
import { RedisConnector } from '../../../../src/net/redis/connector.js'
import { redisOptions } from '../../../../src/net/redis/options.js'

/** A server that counts its connections and never replies. */
async function listener(t: Test) {
  const server = createServer(socket => socket.on('error', () => {}))
  const counted = { connections: 0, port: 0 }
  server.on('connection', socket => {
    counted.connections++
    socket.destroy()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  counted.port = (server.address() as AddressInfo).port
  return counted
}

const PART = Buffer.alloc(64 * 1024, 'x')

const rules = new AddressRules([])
const reach: Reach = {
  realFile: () => {
    throw new Error('no file may be used')
  },
  confirm: async () => {},
  deniedAddress: (address, port) => rules.denied(address, port),
}

async function failure(options: object, within?: Reach): Promise<string> {
  const context = { log: pino({ level: 'silent' }), clock: systemClock, reach: within }
  const connector = new RedisConnector(redisOptions.parse(options), context)
  try {
    const connection = await connector.connect(() => {}, AbortSignal.timeout(10_000))
    connection.destroy()
    return ''
  } catch (error) {
    return String(error)
  }
}

async function connectorTo(t: Test, server: Server): Promise<RedisConnector> {
  t.teardown(() => server.close())
  await once(server, 'listening')
  const url = `redis://127.0.0.1:${(server.address() as AddressInfo).port}`
  return new RedisConnector(redisOptions.parse({ url }), { log: pino({ level: 'silent' }), clock: systemClock })
}

t.test('a server that never stops to reply is left, whether or not somebody waits', { timeout: 60_000 }, async t => {
  const MOST = 512 * 1024 * 1024
  for (const isAsked of [false, true]) {
    let sent = 0
    const server = createServer(socket => {
      socket.on('error', () => {})
      const more = () => {
        while (sent < MOST) {
          sent += PART.length
          if (!socket.write(PART)) break
        }
      }
      socket.write('$1000000000000\r\n')
      socket.on('drain', more)
      more()
    }).listen(0, '127.0.0.1')
    const connector = await connectorTo(t, server)
    const left = new Promise<Error>(resolve => {
      void connector.connect(resolve, AbortSignal.timeout(30_000)).then(connection => {
        t.teardown(() => connection.destroy())
        if (isAsked) connection.command(Buffer.alloc(0), ['PING']).catch(() => {})
      }, resolve)
    })
    t.match((await left).message, /sends what it was not asked for/)
    t.ok(sent < MOST / 4, `after ${sent >> 20} MiB`)
  }
})

t.test('replies that are large for what they are asked with pass for as long as one likes', async t => {
  const reply = Buffer.from(`$200000\r\n${'x'.repeat(200_000)}\r\n`)

  const REQUEST = '*2\r\n$4\r\nECHO\r\n$60000\r\n\r\n'.length + 60_000
  const server = createServer(socket => {
    let asked = 0
    socket.on('data', ({ length }) => {
      for (asked += length; asked >= REQUEST; asked -= REQUEST) socket.write(reply)
    })
  }).listen(0, '127.0.0.1')
  const connector = await connectorTo(t, server)
  const connection = await connector.connect(() => t.fail('it was left'), AbortSignal.timeout(30_000))
  for (let n = 0; n < 200; n++) {
    const answered = await connection.command(Buffer.alloc(0), ['ECHO', Buffer.alloc(60_000)])
    if (String(answered).length !== 200_000) t.fail('another reply')
  }
  connection.destroy()
})

t.test('a published pipeline connects to no address of this machine, however it is written', async t => {
  const server = await listener(t)
  for (const host of ['127.0.0.1', 'localhost', '127.1', '[::ffff:127.0.0.1]'])
    t.match(await failure({ url: `redis://${host}:${server.port}` }, reach), /is a loopback address/, host)
  t.equal(server.connections, 0)
  await failure({ url: `redis://127.0.0.1:${server.port}` })
  t.equal(server.connections, 1, 'others may')
})

t.test('a published pipeline uses no Sentinels and no Redis Cluster, which name further addresses', async t => {
  const server = await listener(t)
  for (const more of [{ sentinel: { name: 'main' } }, { cluster: true }])
    t.match(await failure({ url: `redis://127.0.0.1:${server.port}`, ...more }, reach), /name further addresses/)
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
