import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { HOST } from './address.js'
import { parsedLines } from './parsed-lines.js'
import { Series, samplesIn } from './series.js'
import { type Running, sluice } from './sluice.js'
import { until } from './until.js'

/** What one scrape of /metrics said. */
export class Scrape extends Series {
  readonly text: string

  constructor(text: string) {
    super(samplesIn(text))
    this.text = text
  }

  /** Events that reached a component, left it, were discarded there, and are inside it. */
  events(id: string): Balance {
    return this.#balance('events', id)
  }

  #balance(unit: 'events' | 'bytes', component_id: string): Balance {
    return {
      received: this.sum(`sluice_component_received_${unit}_total`, { component_id }),
      sent: this.sum(`sluice_component_sent_${unit}_total`, { component_id }),
      discarded: this.sum(`sluice_component_discarded_${unit}_total`, { component_id }),
      inFlight: this.sum(`sluice_component_in_flight_${unit}`, { component_id }),
    }
  }

  /** Asserts for every component that received + emitted = sent + discarded + consumed + in flight, also in bytes. */
  conserves(t: Test, message = 'every event is accounted for'): void {
    const ids = this.by('component_id', 'sluice_component_in_flight_events')
    const off: Record<string, Balance> = {}
    for (const id of ids.keys()) {
      for (const unit of ['events', 'bytes'] as const) {
        const balance = this.#balance(unit, id)
        const made = this.sum('sluice_component_emitted_events_total', { component_id: id })
        const consumed = this.sum('sluice_component_consumed_events_total', { component_id: id })
        // There are no such metrics of bytes.
        if (unit === 'bytes' && made + consumed > 0) continue
        const { received, sent, discarded, inFlight } = balance
        if (received + made !== sent + discarded + consumed + inFlight || inFlight < 0) off[`${id} ${unit}`] = balance
      }
    }
    t.ok(ids.size > 0, `${message}: there are components`)
    t.same(off, {}, message)
    t.equal(this.sum('sluice_conservation_errors_total'), 0, `${message}: so says the daemon`)
  }
}

export interface Balance {
  readonly received: number
  readonly sent: number
  readonly discarded: number
  readonly inFlight: number
}

/** What the last log line of a run counts. */
export interface Totals {
  readonly received: number
  readonly passed?: number
  readonly emitted?: Readonly<Record<string, number>>
  readonly consumed?: Readonly<Record<string, number>>
  readonly discarded: Readonly<Record<string, Readonly<Record<string, number>>>>
  readonly delivered: Readonly<Record<string, number>>
  readonly undelivered: number
}

export interface Daemon extends Running {
  readonly configPath: string
  /** The log lines so far. */
  logs(): Record<string, unknown>[]
  /** The answer of one of its own pages, `/readyz` for example. */
  get(path: string): Promise<{ status: number; body: string }>
  scrape(): Promise<Scrape>
  /** Scrapes until `test` is true. */
  scrapedUntil(test: (scrape: Scrape) => boolean): Promise<Scrape>
  /** The returned function waits for a retry for this reason, after those that there were. */
  retryFor(reason: string): Promise<() => Promise<Scrape>>
  /** Asserts that it ends with exit code 0, everything accounted for, and tells what it counted. */
  ended(t: Test): Promise<Totals>
  /** Asserts the balance of a scrape, then ends it by a signal and asserts as `ended` does. */
  stop(t: Test, signal?: NodeJS.Signals): Promise<Totals>
}

/**
 * Starts the real program with this configuration (without `data_dir` and `metrics`, which are put in `folder` and on
 * a free port), and waits until it serves its metrics. It does not outlive the test.
 */
export async function startDaemon(
  t: Test,
  folder: string,
  config: string,
  env: NodeJS.ProcessEnv = {},
): Promise<Daemon> {
  const configPath = join(folder, 'sluice.yaml')
  writeFileSync(configPath, `data_dir: ${join(folder, 'state')}\nmetrics: { listen: ${HOST}:0 }\n${config}`)
  const running = sluice(['run', '--config', configPath], { cwd: folder, env })
  t.teardown(async () => {
    running.child.kill('SIGKILL')
    await running.exit
  })
  const metricsUrl = await running.until(() => /"url":"([^"]+)\/metrics"/.exec(running.stderr)?.[1])
  const get = async (path: string) => {
    // The server may be closing a connection that is kept.
    const response = await fetch(metricsUrl + path, { headers: { connection: 'close' } })
    return { status: response.status, body: await response.text() }
  }
  const scrape = async () => new Scrape((await get('/metrics')).body)
  const scrapedUntil = (test: (scrape: Scrape) => boolean) => {
    let found: Scrape | undefined
    const look = async () => {
      found = await scrape()
      return test(found) && found
    }
    return until(String(test), look, { every: 30, show: () => `${found?.text}\n${running.stderr}` })
  }
  const logs = () => parsedLines<Record<string, unknown>>(running.stderr)
  const ended = async (t: Test) => {
    t.equal(await running.exit, 0, 'exit code')
    t.notMatch(running.stderr, /SLUICE_CONSERVATION/, 'every event is accounted for at the end')
    const last = logs().at(-1) ?? {}
    t.equal(last.msg, 'ended', 'the last log line')
    const { received, passed, discarded, consumed = {}, emitted = {}, undelivered } = last as unknown as Totals
    const gone = [...Object.values(discarded), consumed].flatMap(counts => Object.values(counts))
    const rest = gone.reduce((sum, events) => sum + events, undelivered)
    const made = Object.values(emitted).reduce((sum, events) => sum + events, 0)
    if (passed !== undefined) t.equal(passed + rest, received + made, 'the totals add up')
    return last as unknown as Totals
  }
  // Not a copy: what it wrote so far grows.
  return Object.assign(running, {
    configPath,
    logs,
    get,
    scrape,
    scrapedUntil,
    async retryFor(reason: string) {
      const retries = (scrape: Scrape) => scrape.sum('sluice_delivery_retries_total', { reason })
      const before = retries(await scrape())
      return () => scrapedUntil(scrape => retries(scrape) > before)
    },
    ended,
    async stop(t: Test, signal: NodeJS.Signals = 'SIGTERM') {
      ;(await scrape()).conserves(t)
      running.child.kill(signal)
      return ended(t)
    },
  })
}
