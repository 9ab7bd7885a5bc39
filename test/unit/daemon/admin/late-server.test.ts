import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { LateServer } from '../../../../src/daemon/admin/late-server.js'
import { listenOn } from '../../../../src/lib/network/inherited-sockets.js'

/** A late server on a port of its own; `load` makes what answers. */
async function listening(t: Test, load: () => Promise<Server>) {
  const logged: { msg: string }[] = []
  const late = new LateServer(load, pino({}, { write: line => void logged.push(JSON.parse(line)) }))
  await listenOn(late.listening, { host: '127.0.0.1', port: 0 })
  t.teardown(() => late.close())
  const { port } = late.listening.address() as AddressInfo
  return { late, logged, port, url: `http://127.0.0.1:${port}/` }
}

/** What the other side sends on a connection until its end. */
function answerOn(port: number, sent: string): Promise<string> {
  return new Promise(resolve => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => void socket.write(sent))
    socket.setEncoding('latin1').on('data', part => {
      text += part
    })
    socket.on('error', () => {}).on('close', () => resolve(text))
  })
}

t.test('what arrives before the server is loaded is answered, and later requests by the same server', async t => {
  let loads = 0
  let go = () => {}
  const ready = new Promise<void>(resolve => {
    go = resolve
  })
  const { url } = await listening(t, async () => {
    loads++
    await ready
    return createServer((request, response) => void response.end(request.url))
  })
  t.equal(loads, 0)
  const early = [fetch(`${url}a`), fetch(`${url}b`)]
  setTimeout(go, 50)
  t.same(await Promise.all(early.map(async answer => (await answer).text())), ['/a', '/b'])
  t.equal(await (await fetch(`${url}c`)).text(), '/c')
  t.equal(loads, 1)
})

t.test('a server is loaded without any connection, soon after the start', async t => {
  await new Promise<void>(resolve => {
    void listening(t, async () => {
      resolve()
      return createServer()
    })
  })
})

t.test('connections are closed when the server cannot be loaded, and the log says why', async t => {
  const { port, logged } = await listening(t, () => Promise.reject(new Error('no such module')))
  t.equal(await answerOn(port, 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'), '')
  t.match(logged, [{ error: 'no such module', msg: /cannot load the server/ }])
})

t.test('the timeouts of the server hold', async t => {
  const { port } = await listening(t, async () =>
    createServer({ headersTimeout: 100, requestTimeout: 100, connectionsCheckingInterval: 20 }),
  )
  t.match(await answerOn(port, 'GET / HTTP/1.1\r\n'), /^HTTP\/1.1 408 /)
})

t.test('closing ends connections that wait and connections that are open', async t => {
  const waiting = await listening(t, () => new Promise(() => {}))
  const ended = answerOn(waiting.port, 'GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  await new Promise(resolve => waiting.late.listening.once('connection', resolve))
  waiting.late.close()
  t.equal(await ended, '')
  const open = await listening(t, async () => createServer(() => open.late.close()))
  t.equal(await answerOn(open.port, 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'), '')
})
