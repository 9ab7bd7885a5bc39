import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { programOptions } from '../test/support/program-options.js'
import { seriesIn } from '../test/support/series.js'
import { EXCLUDED_HOST, makeInput } from './input.js'
import { cpuSeconds, median, withChildren } from './measure.js'
import { startService } from './service.js'

/**
 * Events a second that the service takes: the real program, a published pipeline with a throttle, requests of 1,000
 * events over loopback, each answered when its events are done with. As a program it prints one JSON document.
 */

const BATCH = 1000
const BATCHES = 40
const CONNECTIONS = 8
const SECONDS = 4
const ROUNDS = 3

const PIPELINE = {
  processors: {
    limit_app: {
      type: 'throttle',
      inputs: ['ingest'],
      limit: 100,
      window: '1 Seconds',
      key_field: '.app',
      exclude: `if (.host equal '${EXCLUDED_HOST}')`,
    },
  },
  destinations: { out: { type: 'blackhole', inputs: ['limit_app'] } },
}

/** The CPU seconds are those of the service and its processes. */
export async function measureIngest(folder: string) {
  const served = await startService(folder)
  const { url, call, made, work, pid } = served
  try {
    const { key } = made.service_account
    await call('PUT', '/v3/account/feature/throttle', made.manager.key, { enabled: true })
    const { id } = await call('POST', '/v3/pipeline', key, { title: 'bench', config: PIPELINE })
    await call('POST', `/v3/pipeline/${id}/publish`, key, {})
    const requests = makeRequests(work, id, key)
    const port = Number(new URL(url).port)
    const rates: number[] = []
    const cpu: number[] = []
    let sent = await send(port, requests, 1000)
    for (let round = 0; round < ROUNDS; round++) {
      const spent = () => withChildren(pid).reduce((sum, one) => sum + cpuSeconds(one), 0)
      const before = spent()
      const began = performance.now()
      const events = await send(port, requests, SECONDS * 1000)
      rates.push((events / (performance.now() - began)) * 1000)
      cpu.push((spent() - before) / (events / 1e6))
      sent += events
    }
    const scrape = seriesIn(await (await fetch(served.metrics)).text())
    const count = (name: string) =>
      scrape.sum(`sluice_component_${name}_events_total`, { component_id: `${id}/limit_app` })
    const done = count('sent') + count('discarded')
    if (count('received') !== sent || done !== sent)
      throw new Error(`sent ${sent}, received ${count('received')}, done with ${done}`)
    return {
      events_per_second: Math.round(median(rates)),
      cpu_seconds_per_million: Number(median(cpu).toFixed(2)),
      events: sent,
    }
  } finally {
    served.stop()
  }
}

/** Whole requests, ready to be written. */
function makeRequests(folder: string, id: string, key: string): Buffer[] {
  const input = makeInput(folder, BATCH * BATCHES, () => {})
  const lines = readFileSync(input.path, 'utf8').trimEnd().split('\n')
  return Array.from({ length: BATCHES }, (_, i) => {
    const body = Buffer.from(`${lines.slice(i * BATCH, (i + 1) * BATCH).join('\n')}\n`)
    const head = `POST /v3/ingest/${id} HTTP/1.1\r\nHost: x\r\nAuthorization: Token ${key}\r\nContent-Type: application/x-ndjson\r\nContent-Length: ${body.length}\r\nIdempotency-Key: `
    return Buffer.concat([Buffer.from(head), Buffer.from(`${''.padEnd(16, '-')}\r\n\r\n`), body])
  })
}

let keys = 0

/** One request after the other on each connection, each with a key of its own. Counts the events that were taken. */
async function send(port: number, requests: readonly Buffer[], ms: number): Promise<number> {
  const end = performance.now() + ms
  let taken = 0
  const run = (connection: number) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      let at = connection
      const next = () => {
        if (performance.now() >= end) {
          socket.end()
          resolve()
          return
        }
        const request = requests[at++ % requests.length]!
        request.write((++keys).toString().padStart(16, '0'), request.indexOf('Idempotency-Key: ') + 17, 'latin1')
        socket.write(request)
      }
      socket.setNoDelay(true)
      socket.on('connect', next)
      socket.on('error', reject)
      let answer = ''
      socket.on('data', text => {
        answer += text
        if (!answer.endsWith('}')) return
        if (!answer.startsWith('HTTP/1.1 202')) return reject(new Error(answer))
        answer = ''
        taken += BATCH
        next()
      })
    })
  // Each its own requests: one that is still being written must not change.
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, i) => run(i * Math.floor(requests.length / CONNECTIONS))))
  return taken
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { folder } = programOptions({ folder: tmpdir() }).options
  process.stdout.write(`${JSON.stringify(await measureIngest(folder))}\n`)
}
