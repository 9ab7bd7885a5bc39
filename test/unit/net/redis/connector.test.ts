import { createServer } from 'node:net'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Reach } from '../../../../src/core/options/reach.js'
import { AddressRules } from '../../../../src/lib/network/address-rules.js'
import { systemClock } from '../../../../src/lib/time.js'
import { RedisConnector } from '../../../../src/net/redis/connector.js'
import { redisOptions } from '../../../../src/net/redis/options.js'
import { HOST, listening } from '../../../support/address.js'

/** A server that counts its connections and never replies. */
async function listener(t: Test) {
  const server = createServer(socket => socket.on('error', () => {}))
  const counted = { connections: 0, port: 0 }
  server.on('connection', socket => {
    counted.connections++
    socket.destroy()
  })
  counted.port = await listening(t, server, '127.0.0.1')
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
  const context = { log: pino({ level: 'silent' }), clock: systemClock, reach: within, bound: () => {} }
  const connector = new RedisConnector(redisOptions.parse(options), context)
  try {
    const connection = await connector.connect(() => {}, AbortSignal.timeout(10_000))
    connection.destroy()
    return ''
  } catch (error) {
    return String(error)
  }
}

t.test('replies are bounded by nothing but what the user of a connection says', async t => {
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
  let bounded = 0
  const context = { log: pino({ level: 'silent' }), clock: systemClock, bound: () => void bounded++ }
  const connector = new RedisConnector(redisOptions.parse({ url }), context)
  const connection = await connector.connect(() => {}, AbortSignal.timeout(30_000))
  t.equal(String(await connection.command(Buffer.alloc(0), ['GET', 'a'])).length, LARGE)
  t.equal(bounded, 1, 'each connection is handed over to be bounded')
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
