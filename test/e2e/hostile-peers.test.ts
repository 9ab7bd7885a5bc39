import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HOST, listening } from '../support/address.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { startReceiver } from '../support/receiver.js'
import { until } from '../support/until.js'

const JSON_TYPE = { 'content-type': 'application/json' }
const DEEP = Buffer.alloc(16_000_000, '[')

/** A server that answers each request with a body. Returns its address and how often it was asked. */
async function answering(t: Test, body: string | Buffer, headers: Record<string, string> = JSON_TYPE) {
  const asked = { times: 0, url: '' }
  const server = createHttpServer((request, response) => {
    request.resume().on('end', () => {
      asked.times++
      response
        .on('error', () => {})
        .writeHead(200, headers)
        .end(body)
    })
  })
  t.teardown(() => server.closeAllConnections())
  asked.url = `http://${HOST}:${await listening(t, server, HOST)}`
  return asked
}

/** A server that answers whatever it gets with a text. */
async function writing(t: Test, text: string) {
  const asked = { times: 0, url: '' }
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket
      .on('error', () => {})
      .on('data', () => {
        asked.times++
        socket.write(text)
      })
  })
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  asked.url = `${HOST}:${await listening(t, server, HOST)}`
  return asked
}

t.test('receivers and servers whose answers have no measure harm nobody else, and no event is lost', async t => {
  const good = await startReceiver()
  t.teardown(() => good.close())
  const list = await answering(t, DEEP)
  const whole = await answering(t, '['.repeat(900_000))
  const partial = await answering(t, '['.repeat(100_000))
  const other = await answering(t, DEEP)
  const zero = await writing(t, 'HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n')
  const queue = await writing(t, '*33000000\r\n'.repeat(30))
  const folder = testFolder(t, { 'in.log': Array.from({ length: 300 }, (_, n) => `{"n":${n}}\n`).join('') })
  const daemon = await startDaemon(
    t,
    folder,
    `
sources:
  log: { type: file, include: [in.log], decode: json }
  queue: { type: redis, url: "redis://${queue.url}", stream: logs }
destinations:
  good: { type: http, inputs: [log, queue], url: "${good.url()}", batch: { max_wait: 5ms } }
  list: { type: elasticsearch, inputs: [log], url: "${list.url}", index: logs, batch: { max_wait: 5ms } }
  whole: { type: elasticsearch, inputs: [log], url: "${whole.url}", index: logs, batch: { max_wait: 5ms } }
  partial: { type: otlp, inputs: [log], url: "${partial.url}", encoding: json, batch: { max_wait: 5ms } }
  other: { type: http, inputs: [log], url: "${other.url}", batch: { max_wait: 5ms } }
  zero: { type: http, inputs: [log], url: "http://${zero.url}", batch: { max_wait: 5ms } }
`,
  )
  const hostile = { list, whole, partial, other, zero, queue }
  const times = () => Object.entries(hostile).map(([id, { times }]) => `${id}: ${times}`)
  await until('each is asked again', () => Object.values(hostile).every(({ times }) => times >= 3), { show: times })
  await daemon.scrapedUntil(scrape => scrape.events('good').sent === 300)
  t.same(new Set(good.lines()).size, 300)
  const scrape = await daemon.scrapedUntil(scrape => scrape.events('zero').inFlight === 300)
  for (const id of Object.keys(hostile)) {
    if (id !== 'queue') t.match(scrape.events(id), { sent: 0, discarded: 0, inFlight: 300 }, id)
  }
  scrape.conserves(t)
  const [, most] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(join('/proc', String(daemon.pid), 'status'), 'utf8')) ?? []
  t.ok(Number(most) < 450_000, `${most} kB were used`)
})
