import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import t, { type Test } from 'tap'
import { encodeLines } from '../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../src/core/codecs/json.js'
import { type Destination, type DestinationContext, defineDestination } from '../../../src/core/component.js'
import type { EventBatch } from '../../../src/core/event/batch.js'
import { checkDestination } from '../../../src/engine/testing/check-destination.js'
import { Connection, writeAll } from '../../../src/net/connection.js'
import { type DialOptions, dialOptions } from '../../../src/net/dial-options.js'
import { z } from '../../../src/plugin/contract/v1/plugin.js'
import { HOST } from '../../support/address.js'
import { makeCertificates } from '../../support/certificates.js'
import { events, failure, make, never } from '../../support/destination.js'
import { testFolder } from '../../support/folder.js'
import { needs } from '../../support/needs.js'
import { until } from '../../support/until.js'

/** Lines over TCP. With `acknowledged`, the receiver answers each line with a byte. */
class Lines implements Destination {
  readonly #connection: Connection
  readonly #acknowledged: boolean
  #answers = 0
  #waiting: (() => void)[] = []

  constructor(
    { url, acknowledged, ...options }: DialOptions & { url: string; acknowledged: boolean },
    context: DestinationContext,
  ) {
    this.#acknowledged = acknowledged
    this.#connection = new Connection(url, options, context, socket => {
      this.#answers = 0
      socket.on('data', ({ length }) => {
        this.#answers += length
        for (const wake of this.#waiting.splice(0)) wake()
      })
    })
  }

  start = (signal: AbortSignal) => this.#connection.open(signal)
  changed = () => this.#connection.changed()
  stop = (deadline: AbortSignal) => this.#connection.stop(deadline)

  async write(request: readonly EventBatch[], signal: AbortSignal): Promise<void> {
    const { parts } = encodeLines(JSON_OBJECTS, request)
    const lines = request.reduce((sum, { length }) => sum + length, 0)
    await this.#connection.use(signal, async socket => {
      const wanted = this.#answers + lines
      await writeAll(socket, parts)
      while (this.#acknowledged && this.#answers < wanted) await new Promise<void>(wake => this.#waiting.push(wake))
    })
  }
}

const lines = defineDestination({
  type: 'lines',
  summary: 'Lines over TCP.',
  options: z.strictObject({ url: z.string(), acknowledged: z.boolean().default(false), ...dialOptions }),
  examples: [{ title: 'x', yaml: 'url: tcp://h:1\n' }],
  create: (options, context) => new Lines(options, context),
})

/** A receiver that answers each line. `refuses`: so many of the next lines end the connection. */
class Peer {
  text = ''
  refuses = 0
  isSilent = false
  connections = 0
  readonly sockets = new Set<Socket>()
  readonly server: Server

  constructor(t: Test, make: (serve: (socket: Socket) => void) => Server) {
    this.server = make(socket => {
      this.connections++
      this.sockets.add(socket)
      let part = ''
      socket.on('error', () => {}).on('close', () => this.sockets.delete(socket))
      socket.on('data', bytes => {
        const all = (part + bytes.toString()).split('\n')
        part = all.pop()!
        for (const line of all) {
          if (this.refuses > 0) {
            this.refuses--
            socket.destroy()
            return
          }
          this.text += `${line}\n`
          if (!this.isSilent) socket.write('.')
        }
      })
    })
    t.teardown(() => this.close())
  }

  async listen(): Promise<string> {
    this.server.listen(0, HOST)
    await once(this.server, 'listening')
    return `${HOST}:${(this.server.address() as AddressInfo).port}`
  }

  close(): void {
    this.server.close()
    for (const socket of this.sockets) socket.destroy()
  }
}

async function peer(t: Test) {
  const peer = new Peer(t, serve => createServer(serve))
  return { peer, url: `tcp://${await peer.listen()}` }
}

const started = async (t: Test, options: object) => {
  const made = await make({ acknowledged: true, ...options }, lines)
  t.teardown(() => made.destination.stop!(AbortSignal.abort()))
  return made.destination
}

t.test('a destination over a connection keeps to the contract, whether its receiver acknowledges or not', async t => {
  for (const acknowledged of [false, true]) {
    const found = await checkDestination(lines, async () => {
      const { peer: to, url } = await peer(t)
      const fail = (attempts: number) => void (to.refuses = attempts)
      return {
        options: { url, acknowledged },
        arrived: () => to.text,
        ...(acknowledged && { fail }),
        close: () => to.close(),
      }
    })
    t.same(found, [], `acknowledged: ${acknowledged}`)
  }
})

t.test('one that was closed while it was idle is made again before anything is sent', async t => {
  const { peer: to, url } = await peer(t)
  const destination = await started(t, { url })
  await destination.start!(never)
  await destination.write(events(1), never)
  for (const socket of to.sockets) socket.end()
  await until(() => to.sockets.size === 0)
  await destination.write(events(2, 1), never)
  t.equal(to.text, '{"n":0}\n{"n":1}\n{"n":2}\n')
  t.equal(to.connections, 2)
})

t.test('what goes wrong is a reason to try again, or to hold', async t => {
  const { peer: to, url } = await peer(t)
  const destination = await started(t, { url })
  await destination.start!(never)
  to.refuses = 1
  t.match(await failure(destination.write(events(1), never)), { failure: 'retry', reason: 'reset', message: /^tcp:/ })
  await destination.write(events(1), never)
  to.isSilent = true
  const over = new AbortController()
  const late = destination.write(events(1), over.signal)
  await until(() => to.text.split('\n').length === 3)
  const reason = new Error('too late')
  over.abort(reason)
  await t.rejects(late, reason)
  await until(() => to.sockets.size === 0)
  to.close()
  t.match(await failure(destination.write(events(1), never)), { failure: 'retry', reason: 'refused' })
  const denied = await started(t, { url, tls: { ca_file: '/nowhere/ca.pem' } })
  t.match(await failure(denied.start!(never)), { failure: 'hold', reason: 'tls_files' })
})

t.test('over TLS: the receiver is verified, and renewed certificates make another connection', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const files = makeCertificates(openssl, testFolder(t), ['server', 'client'])
  const tls = {
    cert: files.pem('server.pem'),
    key: files.pem('server.key'),
    ca: files.pem('ca.pem'),
    requestCert: true,
  }
  const to = new Peer(t, serve => createTlsServer(tls, serve) as Server)
  const url = `tls://${await to.listen()}`
  const own = { cert_file: files.path('client.pem'), key_file: files.path('client.key') }
  const options = { url, tls: { ca_file: files.path('ca.pem'), ...own } }
  const destination = await started(t, options)
  await destination.start!(never)
  await destination.write(events(1), never)
  files.make('client')
  await until(async () => {
    await destination.write(events(1), never)
    return to.connections === 2
  })
  await until(() => to.sockets.size === 1)
  const stranger = await started(t, { url })
  t.match(await failure(stranger.start!(never)), { failure: 'retry', reason: 'tls', message: /tls\.ca_file/ })
  const plain = await started(t, { ...options, url: url.replace('tls', 'tcp') })
  await plain.start!(never)
  await failure(plain.write(events(1), never))
})
