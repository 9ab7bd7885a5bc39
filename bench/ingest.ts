import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { NONE, programOptions } from '../test/support/program-options.js'
import { seriesIn } from '../test/support/series.js'
import { EXCLUDED_HOST, makeInput } from './input.js'
import { cpuSeconds, median, withChildren } from './measure.js'
import { type Served, startService } from './service.js'

/**
 * Events a second that the service takes: the real program, a published pipeline with a throttle, requests of 1,000
 * events over loopback, each answered when its events are done with. As a program it prints one JSON document; with
 * `--against FILE`, it compares this build with the `main.js` of another one.
 */

const BATCH = 1000
const BATCHES = 40
const CONNECTIONS = 8
const SECONDS = 4
const ROUNDS = 3
/** Rounds of a comparison, and the events of each: both builds must have compiled the same part of their code. */
const [COMPARED, COMPARED_EVENTS] = [40, 400_000] as const

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

interface Result {
  readonly events_per_second: number
  /** Of the service and its processes. */
  readonly cpu_seconds_per_million: number
  readonly events: number
}

export async function measureIngest(folder: string): Promise<Result> {
  const ingest = await Ingest.start(folder)
  try {
    for (let round = 0; round < ROUNDS; round++) await ingest.measure(after(SECONDS * 1000))
    return await ingest.result()
  } finally {
    ingest.stop()
  }
}

/** The same for this build and another one, in turns: their results, and the median of the ratios of CPU times. */
async function compare(folder: string, other: string): Promise<object> {
  const [own, against] = [await Ingest.start(folder), await Ingest.start(folder, other)]
  try {
    for (let round = 0; round < COMPARED; round++)
      for (const one of round % 2 === 0 ? [own, against] : [against, own])
        await one.measure(events => events >= COMPARED_EVENTS)
    const ratios = own.cpu.map((cpu, round) => cpu / against.cpu[round]!)
    return { own: await own.result(), against: await against.result(), cpu: Number(median(ratios).toFixed(3)) }
  } finally {
    own.stop()
    against.stop()
  }
}

/** A service whose ingest is measured. */
class Ingest {
  readonly rates: number[] = []
  readonly cpu: number[] = []
  readonly #served: Served
  readonly #id: string
  readonly #requests: readonly Buffer[]
  #sent = 0

  private constructor(served: Served, id: string, requests: readonly Buffer[]) {
    this.#served = served
    this.#id = id
    this.#requests = requests
  }

  static async start(folder: string, command?: string): Promise<Ingest> {
    const served = await startService(folder, {}, { command })
    const { call, made, work } = served
    const { key } = made.service_account
    await call('PUT', '/v3/account/feature/throttle', made.manager.key, { enabled: true })
    const { id } = await call('POST', '/v3/pipeline', key, { title: 'bench', config: PIPELINE })
    await call('POST', `/v3/pipeline/${id}/publish`, key, {})
    const ingest = new Ingest(served, id, makeRequests(work, id, key))
    await ingest.#send(after(1000))
    return ingest
  }

  async measure(isOver: IsOver): Promise<void> {
    const spent = () => withChildren(this.#served.pid).reduce((sum, one) => sum + cpuSeconds(one), 0)
    const before = spent()
    const began = performance.now()
    const events = await this.#send(isOver)
    this.rates.push((events / (performance.now() - began)) * 1000)
    this.cpu.push((spent() - before) / (events / 1e6))
  }

  async result(): Promise<Result> {
    const scrape = seriesIn(await (await fetch(this.#served.metrics)).text())
    const count = (name: string) =>
      scrape.sum(`sluice_component_${name}_events_total`, { component_id: `${this.#id}/limit_app` })
    const events = this.#sent
    const done = count('sent') + count('discarded')
    if (count('received') !== events || done !== events)
      throw new Error(`sent ${events}, received ${count('received')}, done with ${done}`)
    return {
      events_per_second: Math.round(median(this.rates)),
      cpu_seconds_per_million: Number(median(this.cpu).toFixed(2)),
      events,
    }
  }

  stop(): void {
    this.#served.stop()
  }

  async #send(isOver: IsOver): Promise<number> {
    const events = await send(Number(new URL(this.#served.url).port), this.#requests, isOver)
    this.#sent += events
    return events
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

/** Whether to send no more, after this many events. */
type IsOver = (events: number) => boolean

function after(ms: number): IsOver {
  const end = performance.now() + ms
  return () => performance.now() >= end
}

let keys = 0

/** One request after the other on each connection, each with a key of its own. Counts the events that were taken. */
async function send(port: number, requests: readonly Buffer[], isOver: IsOver): Promise<number> {
  let taken = 0
  const run = (connection: number) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      let at = connection
      const next = () => {
        if (isOver(taken)) {
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
  const { folder, against } = programOptions({ folder: tmpdir(), against: NONE }).options
  const result = await (against ? compare(folder, against) : measureIngest(folder))
  process.stdout.write(`${JSON.stringify(result)}\n`)
}
