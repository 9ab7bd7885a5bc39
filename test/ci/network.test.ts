import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { InitResult } from '../../src/daemon/client/documents.js'
import type { PostgresOptions } from '../../src/engine/config/store-options.js'
import { bound } from '../support/bound.js'
import { sluiceMain } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { newDatabase, startPostgres } from '../support/postgres.js'
import { startProxy, type Proxy as TestProxy } from '../support/proxy.js'
import { type Got, pipelineConfig, type Sending, send } from '../support/service.js'
import { until } from '../support/until.js'

/**
 * Two nodes of the service and PostgreSQL in network namespaces, which end with this process. The test, PostgreSQL and
 * its proxies share one. Each node has one of its own with two cables: for its callers, and to its proxy.
 */

/** How long a request may take, as in postgresql-trouble. */
const MOST_MS = 20_000
/** How long a node may need after a trouble. */
const HEALED_MS = 20_000
const INSIDE = 'SLUICE_TEST_NETWORK'
const CABLES = { callers: 1, database: 2 } as const

const ip = (text: string) => execFileSync('ip', text.split(' '), { stdio: 'pipe' })

class Node {
  readonly #name: string
  readonly #number: number
  readonly #holder: number
  readonly #proxy: TestProxy
  readonly folder: string
  log = ''

  static async start(t: Test, name: string, number: number, database: PostgresOptions, secret?: string) {
    const holder = spawn(...bound('unshare', ['--net', 'sleep', '1000000']), { stdio: 'ignore' })
    t.teardown(() => holder.kill('SIGKILL'))
    const comm = () => readFileSync(`/proc/${holder.pid}/comm`, 'utf8')
    await until('it to have a namespace', () => comm() === 'sleep\n')
    for (const [cable, net] of Object.entries(CABLES)) {
      const here = `${cable}${number}`
      ip(`link add ${here} type veth peer name ${cable} netns ${holder.pid}`)
      ip(`address add 10.${number}.${net}.1/24 dev ${here}`)
      ip(`link set ${here} up`)
    }
    const { port } = new URL(database.url)
    const proxy = await startProxy(t, Number(port), `10.${number}.${CABLES.database}.1`)
    const node = new Node(t, name, number, holder.pid!, proxy)
    node.#inside('ip', 'link', 'set', 'lo', 'up')
    for (const [cable, net] of Object.entries(CABLES)) {
      node.#inside('ip', 'address', 'add', `10.${number}.${net}.2/24`, 'dev', cable)
      node.#inside('ip', 'link', 'set', cable, 'up')
    }
    if (secret) cpSync(secret, join(node.folder, 'state/secret'))
    node.#serve(t, database)
    await until('it to listen', () => node.log.includes('the service is ready'), { show: () => node.log })
    return node
  }

  private constructor(t: Test, name: string, number: number, holder: number, proxy: TestProxy) {
    this.#name = name
    this.#number = number
    this.#holder = holder
    this.#proxy = proxy
    this.folder = join(t.testdirName, name)
    mkdirSync(join(this.folder, 'state'), { recursive: true, mode: 0o700 })
  }

  get #config(): string {
    return join(this.folder, 'service.yaml')
  }

  get #address(): string {
    return `10.${this.#number}.${CABLES.callers}.2`
  }

  #args(command: readonly string[]): string[] {
    return [`--net=/proc/${this.#holder}/ns/net`, ...command]
  }

  #inside(...command: string[]): void {
    execFileSync('nsenter', this.#args(command), { stdio: 'pipe' })
  }

  /** The proxy of the test answers meanwhile. */
  async init(): Promise<InitResult> {
    const command = [process.execPath, sluiceMain, 'admin', 'init', '--json', '--config', this.#config]
    return JSON.parse((await promisify(execFile)('nsenter', this.#args(command))).stdout)
  }

  #serve(t: Test, { url, password_file }: PostgresOptions): void {
    const place = url.replace(/@[^/]+/, `@10.${this.#number}.${CABLES.database}.1:${this.#proxy.port}`)
    const tls = { ca_file: join(password_file!, '../ca.pem'), server_name: 'localhost' }
    const store = { type: 'postgresql', url: place, password_file, tls }
    const service = { listen: `${this.#address}:8080`, data_dir: join(this.folder, 'state'), store }
    writeFileSync(this.#config, JSON.stringify({ metrics: { listen: `${this.#address}:9599` }, service }))
    const command = [process.execPath, sluiceMain, 'serve', '--config', this.#config]
    const child = spawn(...bound('nsenter', this.#args(command)), { stdio: ['ignore', 'ignore', 'pipe'] })
    child.stderr.setEncoding('utf8').on('data', text => (this.log += text))
    t.teardown(() => child.kill('SIGKILL'))
  }

  async send(method: string, path: string, sending: Sending): Promise<Got> {
    return await send(`http://${this.#address}:8080`, method, path, sending)
  }

  async ready(): Promise<number> {
    return (await fetch(`http://${this.#address}:9599/readyz`, { headers: { connection: 'close' } })).status
  }

  /** Cuts the cable to the database. */
  cut(is: boolean): void {
    ip(`link set database${this.#number} ${is ? 'down' : 'up'}`)
  }

  /** Loses the packets of one direction: they go to a machine that does not exist. */
  lose(direction: 'queries' | 'answers', is: boolean): void {
    const [from, to, cable] = { queries: [2, 1, 'database'], answers: [1, 2, `database${this.#number}`] }[direction]!
    const change = is ? ['lladdr', '02:00:00:00:00:99', 'nud', 'permanent'] : []
    const neighbour = `10.${this.#number}.${CABLES.database}.${to}`
    const command = ['neighbour', is ? 'replace' : 'delete', neighbour, ...change, 'dev', `${cable}`]
    if (from === 2) this.#inside('ip', ...command)
    else ip(command.join(' '))
  }

  slow(delayMs: number): void {
    this.#proxy.delayMs = delayMs
  }

  toString(): string {
    return this.#name
  }
}

async function troubles(t: Test): Promise<void> {
  testFolder(t)
  ip('link set lo up')
  const server = await startPostgres(t)
  if (!server) return
  const database = await newDatabase(server.options)
  const whole = await Node.start(t, 'whole', 1, database)
  const { key } = (await whole.init()).manager
  const troubled = await Node.start(t, 'troubled', 2, database, join(whole.folder, 'state/secret'))
  const saved: string[] = []

  /** Answers within their time: changes are known to be saved, or refused as unusable. */
  const change = async (node: Node): Promise<boolean> => {
    const began = performance.now()
    const { status, body, text } = await node.send('POST', '/v3/pipeline', {
      key,
      json: { title: 'x', config: pipelineConfig() },
    })
    const took = Math.round(performance.now() - began)
    t.ok(took < MOST_MS, `${node} answers ${status} after ${took} ms`)
    if (status === 201) saved.push(body.data.id)
    else t.match({ status, code: body?.code }, { status: 503, code: 'store_unusable' }, text)
    return status === 201
  }
  const reads = async (node: Node) => (await node.send('GET', '/v3/pipeline?limit=1', { key })).status === 200
  const heals = async (what: string) => {
    const began = performance.now()
    await until('it to heal', async () => (await reads(troubled)) && (await troubled.ready()) === 200, {
      show: () => troubled.log,
    })
    const took = Math.round(performance.now() - began)
    t.ok(took < HEALED_MS, `it works again ${took} ms after ${what}`)
    t.ok(await change(troubled), 'it saves')
    for (const node of [whole, troubled])
      for (const id of saved)
        if ((await node.send('GET', `/v3/pipeline/${id}`, { key })).status !== 200)
          t.fail(`${node} does not know ${id}, which was acknowledged`)
    saved.length = 0
  }

  for (const node of [whole, troubled]) t.ok(await change(node), `${node} saves`)
  const kinds: Record<string, (is: boolean) => void> = {
    'the cable is cut': is => troubled.cut(is),
    'its queries are lost': is => troubled.lose('queries', is),
    'the answers are lost': is => troubled.lose('answers', is),
  }
  for (const [what, set] of Object.entries(kinds)) {
    // The troubled node may hold the lock of the account, until the database ends its transaction.
    const under = [change(troubled), change(troubled), change(whole)]
    set(true)
    t.ok(await reads(whole), 'the other reads meanwhile')
    await Promise.all(under)
    t.notOk(await change(troubled), `${what}: it refuses`)
    await until('it not to be ready', async () => (await troubled.ready()) === 503)
    // A lock of the troubled node may last until the database ends its transaction.
    await until('the other to save', () => change(whole))
    t.notOk((await Promise.all(Array.from({ length: 20 }, () => change(troubled)))).includes(true), 'many are refused')
    set(false)
    await heals(what)
  }

  troubled.slow(400)
  for (let n = 0; n < 3; n++) t.ok(await change(troubled), 'it saves slowly')
  t.ok(await reads(troubled), 'it reads slowly')
  t.equal(await troubled.ready(), 200)
  troubled.slow(0)
  await heals('a slow network')
}

if (process.env[INSIDE])
  t.test('a node is cut off, hears nothing, is not heard, and is far from the database', troubles)
else if (needs(t, 'ip') && needs(t, 'nsenter')) {
  const tried = spawnSync('unshare', ['--net', 'ip', 'link', 'add', 'cable', 'type', 'veth'], { encoding: 'utf8' })
  if (tried.status === 0) {
    const command = ['--net', process.execPath, fileURLToPath(import.meta.url)]
    t.spawn('unshare', command, { env: { ...process.env, [INSIDE]: '1' } }, 'in network namespaces')
  } else {
    const reason = `network namespaces cannot be made here: ${tried.error?.message ?? tried.stderr}`
    if (process.env.CI) t.pass(`left out: ${reason}`)
    else t.pass('needs root', { skip: reason })
  }
}
