import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { HOST, listening } from '../support/address.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { startReceiver } from '../support/receiver.js'
import { until } from '../support/until.js'

const DEEP = Buffer.alloc(16_000_000, '[')

/** A server that answers each request with a body, which may depend on what it got. Returns its address and how often it was asked. */
async function answering(
  t: Test,
  body: string | Buffer | ((got: string) => string | Buffer),
  headers: Record<string, string> = { 'content-type': 'application/json' },
  statuses = [200],
) {
  const asked = { times: 0, url: '' }
  const server = createHttpServer(async (request, response) => {
    const got = await text(request)
    asked.times++
    response
      .on('error', () => {})
      .writeHead(statuses[asked.times % statuses.length]!, headers)
      .end(typeof body === 'function' ? body(got) : body)
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
  list: { type: elasticsearch, inputs: [log], url: "${list.url}", index: logs, retry: { initial: 1m, max: 1m }, batch: { max_wait: 5ms } }
  whole: { type: elasticsearch, inputs: [log], url: "${whole.url}", index: logs, batch: { max_wait: 5ms } }
  partial: { type: otlp, inputs: [log], url: "${partial.url}", encoding: json, batch: { max_wait: 5ms } }
  other: { type: http, inputs: [log], url: "${other.url}", retry: { initial: 1m, max: 1m }, batch: { max_wait: 5ms } }
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

t.test('an event whose result cannot be read is kept as rejected, and never counts as delivered', async t => {
  const errors = (list: (index: number) => object[]) => (got: string) => {
    const index = got.split('\n').findIndex(line => line.includes('"n":7}'))
    return JSON.stringify({ errors: index < 0 ? [] : list(index) })
  }
  const odd = await answering(
    t,
    errors(() => [{ index: 99, status: 400 }]),
  )
  const known = await answering(
    t,
    errors(index => [{ index: String(index), status: 'bad' }]),
  )
  const long = await answering(t, got => (got.includes('"n":7}') ? `{"errors":[${'{},'.repeat(300)}{}]}` : '{}'))
  const open = (got: string) => (got.includes('"n":7}') ? '{"errors":[{"index":' : '{}')
  const bare = await answering(t, open, {})
  const packed = await answering(t, got => gzipSync(errors(index => [{ index }])(got)), {
    'content-type': 'application/json',
    'content-encoding': 'gzip',
  })
  const varied = await answering(t, open, undefined, [200, 202])
  const folder = testFolder(t, { 'in.log': Array.from({ length: 10 }, (_, n) => `{"n":${n}}\n`).join('') })
  const urls = Object.entries({ odd, known, long, bare, packed, varied })
  const common =
    'type: http, inputs: [log], max_in_flight: 1, retry: { initial: 10ms, max: 10ms }, hold_after_refusals: 0'
  const daemon = await startDaemon(
    t,
    folder,
    `
sources:
  log: { type: file, include: [in.log], decode: json }
destinations:
${urls.map(([id, { url }]) => `  ${id}: { ${common}, url: "${url}", batch: { max_wait: 200ms } }`).join('\n')}
`,
  )
  const scrape = await daemon.scrapedUntil(scrape =>
    urls.every(([id]) => scrape.events(id).received === 10 && scrape.events(id).inFlight === 0),
  )
  t.match(scrape.events('known'), { sent: 9, discarded: 1 })
  for (const id of ['long', 'bare', 'varied']) t.match(scrape.events(id), { sent: 9, discarded: 1 }, id)
  t.match(scrape.events('packed'), { sent: 0, discarded: 10 }, 'each answer is compressed')
  const discarded = (component_id: string, reason: string) =>
    scrape.sum('sluice_component_discarded_events_total', { component_id, reason })
  t.equal(discarded('known', 'rejected'), 1)
  for (const id of ['long', 'bare', 'varied']) t.equal(discarded(id, 'answer_too_large'), 1, id)
  t.ok(discarded('odd', 'unknown_result') >= 1)
  for (const [id] of urls) {
    t.match(readFileSync(join(folder, `state/dead-letter/${id}.ndjson`), 'utf8'), '"n":7', id)
  }
  scrape.conserves(t)
})
