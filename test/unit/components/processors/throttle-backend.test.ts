import { createServer, type Server } from 'node:net'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { RedisBackend } from '../../../../src/components/processors/throttle/cluster/redis-backend.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { systemClock } from '../../../../src/lib/time.js'
import type { RedisConnection } from '../../../../src/net/redis/connection.js'
import { RedisConnector } from '../../../../src/net/redis/connector.js'
import { redisOptions } from '../../../../src/net/redis/options.js'
import { HOST, listening } from '../../../support/address.js'

const log = pino({ level: 'silent' })
const PART = Buffer.alloc(64 * 1024, 'x')

async function connectorTo(t: Test, server: Server): Promise<RedisConnector> {
  const url = `redis://${HOST}:${await listening(t, server)}`
  return new RedisConnector(redisOptions.parse({ url }), { log, clock: systemClock })
}

t.test('a server that never stops to reply is left, whether or not somebody waits', async t => {
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
    })
    const connector = await connectorTo(t, server)
    const left = new Promise<Error>(resolve => {
      void connector.connect(resolve, AbortSignal.timeout(30_000)).then(connection => {
        t.teardown(() => connection.destroy())
        if (isAsked) connection.command(Buffer.alloc(0), ['PING']).catch(() => {})
      }, resolve)
    })
    t.match((await left).message, /sent a reply that no request can cause/)
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
  })
  const connector = await connectorTo(t, server)
  const connection = await connector.connect(() => t.fail('it was left'), AbortSignal.timeout(30_000))
  for (let n = 0; n < 200; n++) {
    const answered = await connection.command(Buffer.alloc(0), ['ECHO', Buffer.alloc(60_000)])
    if (String(answered).length !== 200_000) t.fail('another reply')
  }
  connection.destroy()
})

t.test('a server that lets nobody read the buckets is away, however well it replies otherwise', async t => {
  const asked: string[] = []
  const connection: RedisConnection = {
    isCluster: false,
    async command(_key, [name, , keys]) {
      asked.push(String(name))
      if (keys !== '0') throw new Error('NOPERM this user has no permissions to access one of the keys')
      return [Date.now() * 1000]
    },
    destroy() {},
  }
  const metrics = new ComponentCounters('p', 'processor', 'throttle')
  const options = { group: 'g', timeoutMs: 10_000, onFailure: 'local_share' } as const
  const backend = new RedisBackend(async () => connection, options, { log, clock: systemClock, metrics })
  t.teardown(() => backend.close())
  await backend.start()
  t.same(asked, ['EVALSHA'])
  t.notOk(backend.isUp)
  t.match(backend.outage, { reason: /the user lacks a permission/, attempts: 1 })
})
