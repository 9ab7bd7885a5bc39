import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { HOST } from '../support/address.js'
import { testFolder } from '../support/folder.js'
import { type Answer, type Received, startReceiver } from '../support/receiver.js'
import { startService } from '../support/service.js'
import { type Running, sluice } from '../support/sluice.js'
import { until } from '../support/until.js'
import { builtProduct } from './same/product.js'

/**
 * The present daemon continues from the `data_dir` of an earlier commit: no event is missing and none comes twice. The
 * test runs the earlier daemon, because saved positions name files by their inode.
 */
t.setTimeout(1_200_000)

/** The oldest commit whose data is read. */
const base = builtProduct('65624d766b5bae5f2de2ab2537d9630629598a1f').main

/** Several reads of a file, and more than three segments of a buffer. */
const LINES = 30_000
/** Number of lines of a file that base delivers. */
const HALF = 10_000
const lineOf = (file: string, n: number) =>
  `${file} ${String(n).padStart(6, '0')} ${'something happened '.repeat(1 + (n % 4))}`
const linesOf = (file: string, from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => lineOf(file, from + i))
const textOf = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')
const appLines = (counts: Readonly<Record<string, number>>) =>
  Object.entries(counts).flatMap(([app, count]) => Array.from({ length: count }, () => JSON.stringify({ app })))

/** Base delivers half of these files: the receiver does not respond to the second half. */
const HALVES = ['appended', 'rotated', 'packed']

const configOf = (url: string) => `
data_dir: state
metrics: false
shutdown_timeout: 1s
sources:
${[...HALVES, 'buffered', 'strict'].map(id => `  ${id}: { type: file, include: [log/${id}.log], scan_interval: 50ms }\n`).join('')}
  app: { type: file, include: [log/app.log], decode: json, scan_interval: 50ms }
processors:
  limit: { type: throttle, inputs: [app], limit: 5, window: 30 Days, key_field: .app, persist: true, on_backlog: as_live }
destinations:
${HALVES.map(id => `  to_${id}: { type: http, inputs: [${id}], url: '${url}/${id}', encoding: raw, max_in_flight: 1 }\n`).join('')}
  to_buffered:
    type: http
    inputs: [buffered]
    url: ${url}/buffered
    encoding: raw
    buffer: { type: disk, max_bytes: 4MB }
    retry: { initial: 10ms, max: 50ms }
  to_strict: { type: http, inputs: [strict], url: '${url}/strict', encoding: raw }
  limited: { type: file, inputs: [limit], path: limited.log }
`

/** Starts a daemon that ends with the test, and waits until it has started. */
async function started(t: Test, args: readonly string[], cwd: string, main?: string): Promise<Running> {
  const daemon = sluice(args, { cwd, ...(main === undefined ? {} : { main }) })
  t.teardown(async () => {
    daemon.child.kill('SIGKILL')
    await daemon.exit
  })
  await daemon.until(() => daemon.stderr.includes('"started"'))
  return daemon
}

async function stopped(t: Test, daemon: Running): Promise<void> {
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0, daemon.stderr)
}

const read = (path: string) => (existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : [])
const segments = (folder: string) =>
  (readdirSync(folder, { recursive: true }) as string[]).filter(name => name.endsWith('.segment')).length

t.test('a data_dir of base is read on', async t => {
  const folder = testFolder(t)
  const log = (name: string) => join(folder, 'log', name)
  mkdirSync(join(folder, 'log'))
  const arrived = new Map<string, string[]>()
  const held = new Set<string>()
  let isBase = true
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  receiver.otherwise = ({ path, body }: Received): Answer => {
    const name = path.split('/').at(-1)!
    const lines = body.split('\n').filter(Boolean)
    const accept = (some: readonly string[]) => arrived.set(name, [...(arrived.get(name) ?? []), ...some])
    if (isBase && name === 'buffered') return { status: 503 }
    if (isBase && name === 'strict') {
      const isRefused = (index: number) => index % 3 === 2
      accept(lines.filter((_, index) => !isRefused(index)))
      const errors = lines.flatMap((_, index) => (isRefused(index) ? { index, status: 400 } : []))
      return { status: 207, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ errors }) }
    }
    if (isBase && lines[0]! >= lineOf(name, HALF)) {
      held.add(name)
      return { hang: 'after_body' }
    }
    accept(lines)
    return { status: 200 }
  }

  for (const name of HALVES) writeFileSync(log(`${name}.log`), textOf(linesOf(name, 0, HALF)))
  writeFileSync(log('buffered.log'), textOf(linesOf('buffered', 0, LINES)))
  writeFileSync(log('strict.log'), textOf(linesOf('strict', 0, 300)))
  writeFileSync(log('app.log'), textOf(appLines({ a: 3, b: 7 })))
  const config = join(folder, 'sluice.yaml')
  writeFileSync(config, configOf(receiver.url('')))
  const before = await started(t, ['run', '--config', config], folder, base)
  const letters = join(folder, 'state/dead-letter/to_strict.ndjson')
  // A read that is not delivered completely is read again from its beginning, so each half has reads of its own.
  await until('the first halves', () => HALVES.every(name => arrived.get(name)?.length === HALF), {
    show: () => [...arrived].map(([name, lines]) => [name, lines.length]),
  })
  for (const name of HALVES) appendFileSync(log(`${name}.log`), textOf(linesOf(name, HALF, LINES)))
  await until('a request of each second half', () => HALVES.every(name => held.has(name)), { show: () => held })
  await until('three segments', () => segments(join(folder, 'state')) >= 3)
  await until('dead letters', () => read(letters).length === 100, { show: () => read(letters).length })
  await until('what the throttle passes', () => read(join(folder, 'limited.log')).length === 8)
  await stopped(t, before)
  t.ok(segments(join(folder, 'state')) >= 3, 'the buffer holds three segments')
  t.notOk(arrived.has('buffered'), 'of which nothing is delivered')

  renameSync(log('rotated.log'), log('rotated.log.1'))
  writeFileSync(log('rotated.log'), textOf(linesOf('rotated', LINES, LINES + 10)))
  writeFileSync(log('packed.log.1.gz'), gzipSync(readFileSync(log('packed.log'))))
  rmSync(log('packed.log'))
  for (const name of ['appended', 'buffered'])
    appendFileSync(log(`${name}.log`), textOf(linesOf(name, LINES, LINES + 10)))
  appendFileSync(log('app.log'), textOf(appLines({ a: 9, b: 2, c: 1 })))

  isBase = false
  writeFileSync(config, configOf(receiver.url('')))
  const now = await started(t, ['run', '--config', config], folder)
  const expected = (name: string) => linesOf(name, 0, name === 'packed' ? LINES : LINES + 10)
  const missing = () =>
    [...HALVES, 'buffered'].flatMap(name => {
      const found = new Set(arrived.get(name))
      const lines = expected(name).filter(line => !found.has(line))
      return lines.length > 0 ? [`${name}: ${lines.length} lines, first ${lines[0]}`] : []
    })
  await until('all lines', () => missing().length === 0, { every: 200, show: missing })
  await until('what the throttle passes', () => read(join(folder, 'limited.log')).some(line => line.includes('"c"')))
  await stopped(t, now)
  for (const name of [...HALVES, 'buffered'])
    t.equal(arrived.get(name)!.length, expected(name).length, `${name}: nothing twice`)
  t.same(read(join(folder, 'limited.log')).sort(), appLines({ a: 5, b: 5, c: 1 }), 'buckets are as full as they were')

  t.equal(read(letters).length, 100, 'the dead letters are still there')
  const resend = sluice(['resend', '--config', config, '--destination', 'to_strict'], { cwd: folder })
  t.equal(await resend.exit, 0, resend.stderr)
  t.same(arrived.get('strict')!.sort(), linesOf('strict', 0, 300), 'and are sent again')
})

t.test('a service reads the reports of base, whose cached revision runs while the service is away', async t => {
  const folder = testFolder(t, { service: {}, 'app.log': textOf(linesOf('app', 0, 1000)) })
  const service = await startService(join(folder, 'service'))
  let isOpen = true
  const close = async () => {
    if (isOpen) await service.close()
    isOpen = false
  }
  t.teardown(close)
  const { key } = service.made.service_account
  const client = service.client(key)
  const out = join(folder, 'out.log')
  const destinations = { out: { type: 'file', inputs: ['ingest'], path: out } }
  const { id } = await client.pipelines.create({ title: 'web', config: { destinations } })
  await client.pipelines.publish(id)
  writeFileSync(join(folder, 'key'), key, { mode: 0o600 })
  const local = join(folder, 'local.yaml')
  const text = `data_dir: state
metrics: false
sources: { app: { type: file, include: [app.log], scan_interval: 50ms } }
managed: { allow_files: [${out}] }
`
  writeFileSync(local, text)
  const args = ['run', '--pipeline', `${service.url}/v3/pipeline/${id}`, '--key-file', 'key', '--config', local]
  const before = await started(t, args, folder, base)
  await until('the first lines', () => read(out).length === 1000)
  const reported = async () => (await client.fleet()).items[0]
  await until('a report of base', async () => (await reported())?.revision === 1, { show: reported })
  await stopped(t, before)
  t.match(await reported(), { health: 'ready', error: null, totals: { received: 1000, delivered: 1000 } })
  await close()
  appendFileSync(join(folder, 'app.log'), textOf(linesOf('app', 1000, 2000)))
  const now = await started(t, args, folder)
  await until('all lines', () => read(out).length >= 2000)
  await stopped(t, now)
  t.same(read(out), linesOf('app', 0, 2000))
})

t.test('the store of a service of base is read', async t => {
  const config = `service: { listen: ${HOST}:0, data_dir: service }\nmetrics: false\n`
  const folder = testFolder(t, { 'service.yaml': config })
  const init = sluice(['admin', 'init', '--config', 'service.yaml', '--json'], { cwd: folder, main: base })
  t.equal(await init.exit, 0, init.stderr)
  const { service_account } = JSON.parse(init.stdout) as { service_account: { id: string; key: string } }
  const service = sluice(['serve', '--config', 'service.yaml'], { cwd: folder })
  t.teardown(async () => {
    service.child.kill('SIGKILL')
    await service.exit
  })
  const ready = /"url":"(http[^"]+\/v3)"/
  await service.until(() => ready.test(service.stderr))
  const [, url] = ready.exec(service.stderr)!
  const answer = await fetch(`${url}/auth/token`, { headers: { authorization: `Token ${service_account.key}` } })
  t.match(await answer.json(), { data: { type: 'service_account', subject: { id: service_account.id } } })
})
