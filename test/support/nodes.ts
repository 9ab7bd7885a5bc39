import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import type { InitResult } from '../../src/daemon/client/documents.js'
import type { PostgresOptions } from '../../src/engine/config/store-options.js'
import { HOST, ownPort } from './address.js'
import { checkout } from './checkout.js'
import { deliver, make } from './destination.js'
import { seriesIn } from './series.js'
import { type Got, type Sending, send } from './service.js'
import { type Running, sluice } from './sluice.js'
import { until } from './until.js'

/** A node of the service as its operator runs it: `sluice serve`, at a port that stays the same. */
export class ServedNode {
  readonly folder: string
  readonly port: number
  readonly metricsPort: number
  running: Running | undefined
  /** Of the build that it runs. */
  main: string | undefined
  readonly #config: string

  constructor(folder: string, [port, metricsPort]: readonly [number, number], text: string) {
    this.folder = folder
    this.port = port
    this.metricsPort = metricsPort
    this.#config = join(folder, 'service.yaml')
    mkdirSync(join(folder, 'state'), { recursive: true, mode: 0o700 })
    writeFileSync(
      this.#config,
      filled(text, {
        '"${NODE_ADDRESS}:9599"': `${HOST}:${metricsPort}`,
        '"${NODE_ADDRESS}:8080"': `${HOST}:${port}`,
        '/var/lib/sluice-api/service': join(folder, 'state'),
      }),
    )
  }

  get url(): string {
    return `http://${HOST}:${this.port}`
  }

  get log(): string {
    return this.running?.stderr ?? ''
  }

  async start(): Promise<void> {
    this.running = this.command('serve')
    await this.running.until(() => this.log.includes('the service is ready'))
  }

  /** Another process of its program. */
  command(...args: readonly string[]): Running {
    const { folder, main } = this
    return sluice([...args, '--config', this.#config], { cwd: folder, ...(main === undefined ? {} : { main }) })
  }

  /** Resolves when it has ended. */
  async end(signal: NodeJS.Signals): Promise<number | string | undefined> {
    this.running?.child.kill(signal)
    return await this.running?.exit
  }

  send(method: string, path: string, sending?: Sending): Promise<Got> {
    return send(this.url, method, path, sending)
  }

  async ready(): Promise<number> {
    return (await fetch(`http://${HOST}:${this.metricsPort}/readyz`, { headers: { connection: 'close' } })).status
  }

  /** The sum of the series of a metric. */
  async metric(name: string): Promise<number> {
    const response = await fetch(`http://${HOST}:${this.metricsPort}/metrics`, { headers: { connection: 'close' } })
    return seriesIn(await response.text()).sum(name, {})
  }
}

/** Puts the places of a test into an example. */
function filled(text: string, places: Readonly<Record<string, string>>): string {
  return Object.entries(places).reduce((filled, [place, value]) => {
    if (!filled.includes(place)) throw new Error(`the example does not have ${place}`)
    return filled.replace(place, value)
  }, text)
}

/**
 * Starts nodes of config/service-nodes.yaml, with one database and one secret. The first creates the keys. `urls`: what
 * they call the database. `redis`: shares their rate limits. `more`: options of these. `main`: of the build that they
 * run, which has its own example.
 */
export async function startNodes(
  t: Test,
  folder: string,
  { url, password_file, tls }: PostgresOptions,
  {
    count = 2,
    redis = undefined as string | undefined,
    more = '',
    urls = [] as readonly string[],
    main = undefined as string | undefined,
  } = {},
) {
  const nodes: ServedNode[] = []
  t.teardown(async () => {
    for (const node of nodes) await node.end('SIGKILL')
  })
  const build = main ? join(dirname(main), '../../..') : checkout
  const example = readFileSync(join(build, 'config/service-nodes.yaml'), 'utf8')
  const [start, limits = ''] = example.split('  limits:\n')
  const shared =
    redis === undefined ? '' : filled(limits, { '"redis://10.0.0.9:6379"': `${redis}, timeout: 2 Seconds` })
  for (let i = 0; i < count; i++) {
    const text = filled(`${start}  limits:\n${shared}${more}`, {
      'postgresql://sluice@db.example.com:5432/sluice': urls[i] ?? url,
      '/etc/sluice/postgresql-password': password_file!,
      '/etc/sluice/postgresql-ca.pem': tls!.ca_file!,
      // Processes start slowly on a busy machine.
      '["10.0.0.9:6379"]': '["127.0.0.0/8"]\n    process_timeout: 1 Minutes',
    })
    const node = new ServedNode(join(folder, `node-${i}`), [await ownPort(), await ownPort()], text)
    node.main = main
    nodes.push(node)
  }
  const [first, ...others] = nodes as [ServedNode, ...ServedNode[]]
  await first.start()
  const init = first.command('admin', 'init', '--json')
  t.equal(await init.exit, 0, init.stderr)
  const made = JSON.parse(init.stdout) as InitResult
  for (const { folder } of others) cpSync(join(first.folder, 'state/secret'), join(folder, 'state/secret'))
  await Promise.all(others.map(node => node.start()))
  return { nodes, made }
}

/**
 * Daemons, as far as a service sees them: destinations of this process with their deliveries, which retry. Each event is
 * a request. Daemons that are processes would take all CPU.
 */
export class Sinks {
  readonly #sinks: readonly ReturnType<typeof deliver>[]
  /** By each of them. */
  readonly #written: number[]
  readonly #writing: NodeJS.Timeout

  constructor(t: Test, sinks: readonly ReturnType<typeof deliver>[]) {
    this.#sinks = sinks
    this.#written = sinks.map(() => 0)
    // One after the other: how much they send is not what is tested.
    let next = 0
    this.#writing = setInterval(() => this.#write(next++ % sinks.length), 200)
    t.teardown(() => clearInterval(this.#writing))
  }

  static async start(t: Test, count: number, url: string, key: string): Promise<Sinks> {
    const sinks: ReturnType<typeof deliver>[] = []
    // The requests that a node has when it ends may wait for a minute. Others then need a place.
    const options = { batch: { max_events: 1 }, max_in_flight: 8, retry: { initial: '100ms', max: '1s' } }
    for (let i = 0; i < count; i++) {
      const sink = deliver(t.testdirName, await make({ url, auth: { key } }), options)
      await sink.delivery.start()
      t.teardown(() => sink.delivery.stop(AbortSignal.abort()))
      sinks.push(sink)
    }
    return new Sinks(t, sinks)
  }

  #write(i: number): void {
    this.#sinks[i]!.put(1, i * 1_000_000 + this.#written[i]!++)
  }

  /** Waits until the service has acknowledged an event of each that was written after the call: how many milliseconds. */
  async continue(what: string): Promise<number> {
    const from = performance.now()
    const before = [...this.#written]
    // Of the earlier events, some may wait for a node that ended.
    for (const [i, { settled }] of this.#sinks.entries())
      for (let left = before[i]! - settled.length; left >= 0; left--) this.#write(i)
    const all = () => this.#sinks.every(({ settled }, i) => settled.length > before[i]!)
    const show = () => this.#sinks.map(({ settled }, i) => settled.length - before[i]!)
    await until(`new requests to succeed after ${what}`, all, { show })
    return Math.round(performance.now() - from)
  }

  /** Writes no more, waits until all events are acknowledged, and resolves with their numbers. */
  async stop(): Promise<number[]> {
    clearInterval(this.#writing)
    const all = () => this.#sinks.every(({ settled }, i) => settled.length === this.#written[i])
    await until('everything to be acknowledged', all)
    const refused = this.#sinks.flatMap(({ settled }) => settled).filter(status => status !== 'delivered')
    if (refused.length > 0) throw new Error(`${refused.length} events were refused`)
    return this.#written.flatMap((count, i) => Array.from({ length: count }, (_, n) => i * 1_000_000 + n))
  }
}
