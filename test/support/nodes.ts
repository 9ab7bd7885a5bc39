import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { PostgresOptions } from '../../src/engine/config/store-options.js'
import { HOST, ownPort } from './address.js'
import { checkout } from './checkout.js'
import { seriesIn } from './series.js'
import { init } from './served.js'
import { type Got, type Sending, send } from './service.js'
import { type Running, sluice } from './sluice.js'

/** A node of the service as its operator runs it: `sluice serve`, at a port that stays the same. */
export class ServedNode {
  readonly folder: string
  readonly port: number
  readonly metricsPort: number
  running: Running | undefined
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
    this.running = sluice(['serve', '--config', this.#config], { cwd: this.folder })
    await this.running.until(() => this.log.includes('the service is ready'))
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
 * they call the database.
 */
export async function startNodes(
  t: Test,
  folder: string,
  { url, password_file, tls }: PostgresOptions,
  { count = 2, more = '', urls = [] as readonly string[] } = {},
) {
  const nodes: ServedNode[] = []
  t.teardown(async () => {
    for (const node of nodes) await node.end('SIGKILL')
  })
  for (let i = 0; i < count; i++) {
    const text = filled(readFileSync(join(checkout, 'config/service-nodes.yaml'), 'utf8') + more, {
      'postgresql://sluice@db.example.com:5432/sluice': urls[i] ?? url,
      '/etc/sluice/postgresql-password': password_file!,
      '/etc/sluice/postgresql-ca.pem': tls!.ca_file!,
      // Processes start slowly on a busy machine.
      '["10.0.0.9:6379"]': '["127.0.0.0/8"]\n    process_timeout: 1 Minutes',
    })
    nodes.push(new ServedNode(join(folder, `node-${i}`), [await ownPort(), await ownPort()], text))
  }
  const [first, ...others] = nodes as [ServedNode, ...ServedNode[]]
  await first.start()
  const made = await init(t, join(first.folder, 'service.yaml'))
  for (const { folder } of others) cpSync(join(first.folder, 'state/secret'), join(folder, 'state/secret'))
  await Promise.all(others.map(node => node.start()))
  return { nodes, made }
}

/**
 * Sends events, one a request, until it is stopped: each one again with its key until it is acknowledged, or a node that
 * ended holds the key.
 */
export class Writer {
  readonly acknowledged: string[] = []
  /** When the last acknowledged request began. */
  lastBegan = 0
  readonly failures = new Map<string, number>()
  #stopped = false
  readonly #done: Promise<void>

  constructor(name: string, url: string, key: string, pipeline: string) {
    this.#done = this.#run(name, `${url}/v3/ingest/${pipeline}`, key)
  }

  async #run(name: string, url: string, key: string): Promise<void> {
    for (let n = 0; !this.#stopped; n++) {
      const id = `${name}-${n}`
      while (!(await this.#sent(id, url, key)) && !this.#stopped) await new Promise(resolve => setTimeout(resolve, 50))
    }
  }

  async #sent(id: string, url: string, key: string): Promise<boolean> {
    const began = performance.now()
    const headers = { authorization: `Token ${key}`, 'content-type': 'application/json', 'idempotency-key': id }
    const request = { method: 'POST', headers, body: JSON.stringify([{ id }]), signal: AbortSignal.timeout(20_000) }
    const answer = await fetch(url, request).then(
      async response => `${response.status} ${(await response.text()).slice(0, 80)}`,
      error => String(error.cause ?? error),
    )
    if (answer.startsWith('202')) {
      this.acknowledged.push(id)
      this.lastBegan = began
      // What one writer sends in a second is not what is tested.
      await new Promise(resolve => setTimeout(resolve, 20))
      return true
    }
    this.failures.set(answer, (this.failures.get(answer) ?? 0) + 1)
    return answer.includes('not_delivered_yet')
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#done
  }
}
