import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { SharedReadServer, SharedReadSocket, SOCKET_READ_BYTES } from '../../../src/lib/network/shared-reads.js'
import { turns, until } from '../../support/until.js'

/** Listens, and collects what each connection sends, in the order of accepting. */
async function listen(t: Test, at: number | string = 0) {
  const accepted: { socket: Socket; parts: Buffer[] }[] = []
  const server = new SharedReadServer(socket => {
    const parts: Buffer[] = []
    accepted.push({ socket, parts })
    socket.on('error', () => {})
    if (!(socket instanceof SharedReadSocket)) return
    socket.receive = bytes => parts.push(Buffer.from(bytes)) > 0
    socket.resume()
  })
  server.listen(at)
  await once(server, 'listening')
  t.teardown(() => {
    for (const { socket } of accepted) socket.destroy()
    server.close()
  })
  const dial = async () => {
    const socket = connect(typeof at === 'string' ? { path: at } : { port: (server.address() as AddressInfo).port })
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    const before = accepted.length
    await once(socket, 'connect')
    await until(() => accepted.length > before)
    return { socket, parts: accepted[before]!.parts }
  }
  return { server, accepted, dial }
}

t.test('connections share the memory of their reads, and none gets bytes of another', async t => {
  const { dial } = await listen(t)
  const [one, other] = [await dial(), await dial()]
  for (let n = 0; n < 50; n++) {
    one.socket.write(`one ${n}\n`)
    other.socket.write(`other ${n} ${'x'.repeat(9999)}\n`)
    await new Promise(resolve => setImmediate(resolve))
  }
  for (const { socket } of [one, other]) socket.end()
  await Promise.all([once(one.socket.resume(), 'close'), once(other.socket.resume(), 'close')])
  t.equal(Buffer.concat(one.parts).toString(), Array.from({ length: 50 }, (_, n) => `one ${n}\n`).join(''))
  t.equal(
    Buffer.concat(other.parts).length,
    Array.from({ length: 50 }, (_, n) => `other ${n} `.length + 1e4).reduce((a, b) => a + b),
  )
})

t.test('a connection over a Unix socket is read so, too', async t => {
  // The path of a socket may have 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const { dial } = await listen(t, join(folder, 'socket'))
  const { socket, parts } = await dial()
  socket.end('all of it')
  await once(socket.resume(), 'close')
  t.equal(String(Buffer.concat(parts)), 'all of it')
})

t.test('a connection is not read while it is paused, and continues where it was', async t => {
  const { accepted, dial } = await listen(t)
  const { socket, parts } = await dial()
  const reading = accepted[0]!.socket as SharedReadSocket
  reading.receive = bytes => {
    parts.push(Buffer.from(bytes))
    return false
  }
  const sent = Buffer.from(Array.from({ length: 600_000 }, (_, n) => n))
  socket.end(sent)
  for (let n = 1; Buffer.concat(parts).length < sent.length; n++) {
    await until(() => parts.length === n)
    await turns()
    t.equal(parts.length, n, 'one read each time')
    reading.resume()
  }
  t.ok(Buffer.concat(parts).equals(sent))
})

t.test('the more connections are open, the smaller are the reads of further ones', async t => {
  const { dial } = await listen(t)
  const largest = async () => {
    const { socket, parts } = await dial()
    socket.end(Buffer.alloc(8 << 20))
    await once(socket.resume(), 'close')
    return Math.max(...parts.map(({ length }) => length))
  }
  t.equal(await largest(), SOCKET_READ_BYTES)
  for (let n = 0; n < 256; n++) await dial()
  t.equal(await largest(), Math.floor((16 << 20) / 257))
})

t.test('the server counts open connections no longer than they are open, and ends', async t => {
  const { server, dial } = await listen(t)
  const { socket } = await dial()
  socket.end()
  await once(socket.resume(), 'close')
  server.close()
  await once(server, 'close')
})

t.test('a socket that Node.js cannot read so stays what it is', async t => {
  const { server, accepted } = await listen(t)
  const socket = new Socket()
  server.emit('connection', socket)
  t.equal(accepted[0]!.socket, socket)
})
