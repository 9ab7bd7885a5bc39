import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Client, ServiceError } from '../../src/client.js'
import type { InitResult } from '../../src/daemon/client/documents.js'
import { HOST } from '../support/address.js'
import { command } from '../support/cli.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { type Running, sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

/** On a connection of its own: one that was kept may belong to a service that was killed, or that closes it meanwhile. */
const fetchOnce: typeof fetch = (url, init) => {
  const headers = new Headers(init?.headers)
  headers.set('connection', 'close')
  return fetch(url, { ...init, headers })
}

const soon = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** The real service in a folder of its own; it can be killed, and comes back at the same address. */
async function startService(t: Test, folder: string) {
  const path = join(folder, 'service.yaml')
  let listen = `${HOST}:0`
  const configure = () =>
    writeFileSync(
      path,
      `metrics: false\nservice: { listen: '${listen}', data_dir: ${join(folder, 'service')}, ingest: { allow_files: ['${folder}/**'] } }\n`,
    )
  configure()
  const init = await command(['admin', 'init', '--config', path, '--json'])
  t.equal(init.code, 0, init.stderr)
  const made = JSON.parse(init.stdout) as InitResult
  let running: Running | undefined
  const start = async () => {
    const child = sluice(['serve', '--config', path], { cwd: folder })
    running = child
    const url = await child.until(() => /"url":"([^"]+)\/v3"/.exec(child.stderr)?.[1])
    listen = new URL(url).host
    configure()
    return url
  }
  const kill = async () => {
    running?.child.kill('SIGKILL')
    await running?.exit
  }
  t.teardown(kill)
  const url = await start()
  const manager = new Client({ url, key: made.manager.key, retries: 0, fetch: fetchOnce })
  const client = new Client({ url, key: made.service_account.key, retries: 0, fetch: fetchOnce })
  const id = (await client.pipelines.create({ title: 'test', config: pipeline(folder) })).id
  await client.pipelines.publish(id)
  return { url, made, manager, client, id, start, kill, stderr: () => running!.stderr }
}

/** All that is sent goes to a file. */
function pipeline(folder: string, processors?: Record<string, object>) {
  const inputs = processors ? Object.keys(processors).flatMap(id => [id, `${id}.discarded`]) : ['ingest']
  const out = { type: 'file', inputs, path: join(folder, 'out.ndjson') }
  return { ...(processors ? { processors } : {}), destinations: { out } }
}

const linesOf = (path: string) => readFileSync(path, 'utf8').split('\n').filter(Boolean)

function shipping(folder: string, url: string, id: string, key: string): string {
  writeFileSync(join(folder, 'key'), key, { mode: 0o600 })
  return `
sources: { app: { type: file, include: [${folder}/app.log], decode: json } }
destinations:
  upstream:
    type: http
    inputs: [app]
    url: ${url}/v3/ingest/${id}
    auth: { key_file: ${folder}/key }
    retry: { initial: 100ms }
`
}

t.test('the key is rotated while events flow, and revoked: nothing is lost, nothing comes twice', async t => {
  const folder = testFolder(t)
  const { url, made, manager, id } = await startService(t, folder)
  let lines = 0
  const log = join(folder, 'app.log')
  const write = (more: number) => {
    let text = ''
    for (const end = lines + more; lines < end; lines++) text += `{"n":${lines}}\n`
    appendFileSync(log, text)
  }
  write(30_000)
  const account = made.service_account.id
  const daemon = await startDaemon(t, folder, shipping(folder, url, id, made.service_account.key))
  const rotate = async () => writeFileSync(join(folder, 'key'), (await manager.serviceAccounts.rotate(account)).key)
  for (let rotations = 0; rotations < 3; rotations++) {
    // The key changes while these lines are on their way.
    const before = lines
    write(30_000)
    await daemon.scrapedUntil(scrape => scrape.events('upstream').sent > before)
    await rotate()
  }
  await daemon.scrapedUntil(scrape => scrape.events('upstream').sent === lines)
  const out = join(folder, 'out.ndjson')
  t.equal(new Set(linesOf(out)).size, lines, 'every event arrived')
  t.equal(linesOf(out).length, lines, 'once')

  await manager.serviceAccounts.revoke(account)
  const before = lines
  write(1)
  const readiness = async () => (await daemon.get('/readyz')).body
  await until('a destination on hold', async () => (await readiness()).includes('"holding"'), { show: readiness })
  write(99)
  await daemon.scrapedUntil(scrape => scrape.events('upstream').inFlight === 100)
  t.equal(linesOf(out).length, before, 'nothing gets in')
  await rotate()
  await daemon.scrapedUntil(scrape => scrape.events('upstream').sent === lines)
  t.equal(linesOf(out).length, lines)
  t.equal(new Set(linesOf(out)).size, lines)
  const totals = await daemon.stop(t)
  t.match(totals, { received: lines, passed: lines, undelivered: 0 })
})

const KILLS = 3

t.test('kill -9 of the service in the middle of publishes and ingests: nothing acknowledged is gone', async t => {
  const folder = testFolder(t)
  const service = await startService(t, folder)
  const { client, id } = service
  const acknowledged = { revision: 1, batches: new Set<number>(), cutShort: 0 }
  let running = true
  const publishes = async () => {
    for (let n = 1; running; n++) {
      const condition = `if (.n less '${n}')`
      const config = pipeline(folder, { split: { type: 'filter', inputs: ['ingest'], condition } })
      for (let done = false; !done; ) {
        try {
          await client.pipelines.update(id, { config })
          const { published_revision } = await client.pipelines.publish(id)
          acknowledged.revision = published_revision!
          done = true
        } catch (error) {
          if (error instanceof ServiceError && error.status < 500) throw error
          await soon(20)
        }
      }
      // There is a limit of changes.
      await soon(50)
    }
  }
  const ingests = async (sender: number) => {
    for (let n = 0; running; n++) {
      const batch = n * 3 + sender
      const body = Array.from({ length: 50 }, (_, i) => `{"batch":${batch},"n":${i}}`).join('\n')
      for (let done = false; !done; ) {
        try {
          await client.ingest(id, body, { idempotencyKey: `batch-${batch}` })
          done = true
        } catch (error) {
          if (error instanceof ServiceError && error.status < 500) throw error
          const nobody = /ECONNREFUSED/.test(String((error as Error).cause))
          if (!(error instanceof ServiceError) && !nobody) acknowledged.cutShort++
          await soon(20)
        }
      }
      acknowledged.batches.add(batch)
    }
  }
  const kills = async () => {
    for (let count = 1; count <= KILLS; count++) {
      // Not before the pipeline runs again: its process takes its time to start.
      const { size } = acknowledged.batches
      await until('another batch', () => acknowledged.batches.size > size)
      await soon(137 * count)
      const before = acknowledged.revision
      await service.kill()
      await service.start()
      const { published_revision } = await client.pipelines.one(id)
      t.ok(published_revision! >= before, `revision ${before} is published after kill ${count}`)
    }
    running = false
  }
  await Promise.all([kills(), publishes(), ...[0, 1, 2].map(ingests)])
  const final = await client.pipelines.one(id)
  t.equal(final.published_revision, acknowledged.revision)
  const got = new Map<string, number>()
  for (const line of linesOf(join(folder, 'out.ndjson'))) got.set(line, (got.get(line) ?? 0) + 1)
  let missing = 0
  for (const batch of acknowledged.batches)
    for (let i = 0; i < 50; i++) if (!got.has(`{"batch":${batch},"n":${i}}`)) missing++
  t.equal(missing, 0, `every event of ${acknowledged.batches.size} batches is there`)
  const twice = [...got.values()].filter(times => times > 1).length
  t.ok(twice <= 50 * acknowledged.cutShort, `${twice} came twice, of ${acknowledged.cutShort} requests cut short`)
})

/** A daemon under management, its local part in `folder`. */
async function startManaged(t: Test, folder: string, url: string, id: string) {
  const args = ['run', '--pipeline', `${url}/v3/pipeline/${id}`, '--key-file', join(folder, 'key')]
  const daemon = sluice([...args, '--config', join(folder, 'local.yaml')], { cwd: folder })
  t.teardown(async () => {
    daemon.child.kill('SIGKILL')
    await daemon.exit
  })
  await daemon.until(() => daemon.stderr.includes('"started"'))
  return daemon
}

t.test('a daemon runs what is published: a revision under traffic, a bad one, the service away', async t => {
  const folder = testFolder(t)
  const { url, made, client, id, start, kill } = await startService(t, folder)
  writeFileSync(join(folder, 'key'), made.service_account.key, { mode: 0o600 })
  const out = join(folder, 'out.ndjson')
  const local = `data_dir: ${folder}/state
metrics: { listen: ${HOST}:0 }
sources: { app: { type: file, include: [${folder}/app.log] } }
managed: { allow_files: [${out}], poll_interval: 1s, report_interval: 1s }
`
  writeFileSync(join(folder, 'local.yaml'), local)
  let n = 0
  let writing = true
  const writer = (async () => {
    for (; writing; await soon(5)) for (let i = 0; i < 20; i++) appendFileSync(join(folder, 'app.log'), `line ${n++}\n`)
  })()
  let daemon = await startManaged(t, folder, url, id)
  const fleet = async () => (await client.fleet()).items[0]
  const runs = (revision: number) =>
    until(`a daemon with revision ${revision}`, async () => (await fleet())?.revision === revision, { show: fleet })
  await runs(1)
  for (let revision = 2; revision <= 3; revision++) {
    const condition = `if (.message contains '${revision}')`
    await client.pipelines.update(id, {
      config: pipeline(folder, { f: { type: 'filter', inputs: ['ingest'], condition } }),
    })
    await client.pipelines.publish(id)
    await runs(revision)
  }
  await client.pipelines.update(id, {
    config: { destinations: { out: { type: 'file', inputs: ['ingest'], path: '/etc/x' } } },
  })
  await client.pipelines.publish(id)
  const reported = await until('an error', async () => {
    const found = (await fleet())!
    return found.error !== null && found
  })
  t.match(reported, { revision: 3, published_revision: 4, behind: true, health: 'ready' })
  t.match(reported.error, /revision 4 cannot run: .*\/etc\/x is not among the files that the pipeline may use/)

  await kill()
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  daemon = await startManaged(t, folder, url, id)
  t.match(daemon.stderr, /running the cached revision/)
  await start()
  await client.pipelines.publish(id, { revision: 2 })
  await runs(2)
  writing = false
  await writer
  await until('all lines', () => linesOf(out).length >= n, { show: () => [linesOf(out).length, n] })
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  const lines = linesOf(out)
  t.equal(lines.length, n, 'no event is lost, none comes twice')
  t.equal(new Set(lines).size, n)
  t.notMatch(daemon.stderr, /SLUICE_CONSERVATION/)
  t.notOk(daemon.stderr.includes(made.service_account.key), 'no key in the log')
})
