import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { createGunzip } from 'node:zlib'
import t, { type Test } from 'tap'
import { HOST, listening } from '../support/address.js'
import { command } from '../support/cli.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { until } from '../support/until.js'

/** A receiver with several targets, as indices or URLs, of which one does not work. */

const LINES = 20_000
const BLOCK = 'index [logs-bad] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark]'

interface Stored {
  readonly n: number
  readonly app: string
}

/** One event in 100 goes to the target that fails. A batch of a source then has few of them, between many others. */
const appOf = (n: number) => (n % 100 === 50 ? 'bad' : `good${n % 3}`)

async function receiving(t: Test) {
  const it = { failing: 429 as number | undefined, stored: [] as Stored[], tries: 0, url: '' }
  const take = (line: string) => void it.stored.push(JSON.parse(line))
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.end('{}')
    const body = request.headers['content-encoding'] === 'gzip' ? request.pipe(createGunzip()) : request
    const lines = (await text(body)).trimEnd().split('\n')
    const { failing } = it
    if (!request.url!.startsWith('/_bulk')) {
      if (request.url === '/bad' && failing) {
        it.tries++
        response.statusCode = failing
      } else lines.forEach(take)
      return response.end('{}')
    }
    const items = Array.from({ length: lines.length / 2 }, (_, i) => {
      const isBad = JSON.parse(lines[2 * i]!).create._index === 'logs-bad'
      if (!isBad || !failing) {
        take(lines[2 * i + 1]!)
        return { create: { status: 201 } }
      }
      it.tries++
      return { create: { status: failing, error: { type: 'cluster_block_exception', reason: BLOCK } } }
    })
    response.setHeader('content-type', 'application/json')
    return response.end(JSON.stringify({ errors: true, items }))
  })
  it.url = `http://${HOST}:${await listening(t, server)}`
  return it
}

const bulk = (url: string) => `type: elasticsearch, url: '${url}', index: 'logs-\${.app}'`
const urls = (url: string) => `type: http, url: '${url}/\${.app}', encoding: json`
const cases = [
  ['an index that answers 429', 429, bulk, ''],
  ['an index that answers 403, with one request at a time', 403, bulk, 'max_in_flight: 1'],
  ['a URL that answers 503', 503, urls, 'max_in_flight: 2'],
  ['a URL that answers 503, behind a disk buffer', 503, urls, 'max_in_flight: 2, buffer: { type: disk }'],
] as const

for (const [what, status, destination, options] of cases)
  t.test(`${what} keeps no events for others waiting`, async t => {
    const receiver = await receiving(t)
    receiver.failing = status
    const rest = 'x'.repeat(1000)
    const lines = Array.from({ length: LINES }, (_, n) => `{"n":${n},"app":"${appOf(n)}","rest":"${rest}"}\n`)
    const folder = testFolder(t, { 'in.log': lines.join('') })
    const retry = 'retry: { initial: 20ms, max: 100ms }, batch: { max_wait: 20ms }'
    const daemon = await startDaemon(
      t,
      folder,
      `sources: { log: { type: file, include: [in.log], decode: json } }
destinations: { up: { inputs: [log], ${destination(receiver.url)}, ${retry}${options && `, ${options}`} } }
`,
    )
    const good = LINES - LINES / 100
    await until('all others are stored', () => receiver.stored.length === good, { show: () => receiver.stored.length })
    const waiting = await daemon.scrapedUntil(scrape => scrape.events('up').inFlight === LINES / 100)
    waiting.conserves(t, 'while it fails')
    t.ok(receiver.tries > 0)
    const { stdout } = await command(['status'], { cwd: folder })
    const said = stdout.replace(/\s+/g, ' ')
    t.match(said, /! up is retrying: .*; only the events that go there wait /)
    t.match(said, destination === bulk ? 'logs-bad' : `${receiver.url}/bad`)
    receiver.failing = undefined
    await until('the rest is stored', () => receiver.stored.length === LINES)
    const numbers = receiver.stored.slice(good).map(({ n }) => n)
    // Several bulk requests at a time keep no order.
    if (options === '') numbers.sort((a, b) => a - b)
    t.same(
      numbers,
      Array.from({ length: LINES / 100 }, (_, i) => 100 * i + 50),
      'in order',
    )
    t.match(await daemon.stop(t), { received: LINES, passed: LINES, undelivered: 0 })
  })
