import { mkdirSync, statfsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { HOST, listening } from '../support/address.js'
import { testFolder } from '../support/folder.js'
import { Mounts, mayMount } from '../support/mounts.js'
import { init, serve } from '../support/served.js'
import { send } from '../support/service.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

const OPTIONS = { timeout: 180_000, ...(!mayMount() && { skip: 'small file systems need root' }) }
const MEGABYTE = 1_000_000

t.test('an account that fills the disk leaves room to the store, and is answered at once', OPTIONS, async t => {
  const folder = testFolder(t)
  const mounts = new Mounts()
  t.teardown(mounts.end)
  const state = join(folder, 'state')
  mkdirSync(state, { mode: 0o700 })
  mounts.make(state, '32m')
  let takes = false
  const receiver = createServer((request, response) => {
    request.resume().once('end', () => response.writeHead(takes ? 200 : 503).end())
  })
  const address = `${HOST}:${await listening(t, receiver)}`
  const { url, config, running } = await serve(t, folder, `  ingest: { allow_addresses: ['${address}'] }\n`)
  const { manager, service_account } = await init(t, config)
  const { key } = manager
  const out = { type: 'http', url: `http://${address}`, inputs: ['ingest'], retry: { initial: '1s', max: '1s' } }
  const destinations = { out: { ...out, buffer: { type: 'disk', max_bytes: '500MB' } } }
  const created = await send(url, 'POST', '/v3/pipeline', { key, json: { title: 'x', config: { destinations } } })
  const { id } = created.body.data
  t.equal((await send(url, 'POST', `/v3/pipeline/${id}/publish`, { key, json: {} })).status, 200)
  const body = JSON.stringify([{ message: 'x'.repeat(MEGABYTE) }])
  const headers = { 'content-type': 'application/json' }
  const post = () => send(url, 'POST', `/v3/ingest/${id}`, { key, body, headers })

  let refused = await post()
  for (let n = 0; n < 100 && refused.status === 202; n++) refused = await post()
  t.match(refused, { status: 503, body: { code: 'disk_full' } })
  t.ok(Number(refused.headers.get('retry-after')) > 0)
  const { bavail, bsize } = statfsSync(state)
  t.ok(bavail * bsize > MEGABYTE, `${bavail * bsize} bytes are free`)
  const metrics = /"url":"(http:[^"]+)\/metrics"/.exec(running.stderr)![1]!
  // The store may free some space at any time. A request then takes it.
  await until('a full disk to be shown while it is one', async () => {
    const again = await post()
    const [numbers, ready] = await Promise.all(['metrics', 'readyz'].map(path => fetch(`${metrics}/${path}`)))
    const shown = [await numbers!.text(), `${ready!.status} ${await ready!.text()}`]
    return (
      again.status === 503 && /^sluice_ingest_disk_full 1$/m.test(shown[0]!) && /^200.*almost full/s.test(shown[1]!)
    )
  })
  t.match(running.stderr, /SLUICE_DISK_FULL/)

  const made = await send(url, 'POST', '/v3/user/key', { key, json: {} })
  t.equal(made.status, 201, made.text)
  t.equal((await send(url, 'DELETE', `/v3/user/key/${made.body.data.id}`, { key })).status, 204)
  const rotated = await send(url, 'POST', `/v3/service-account/${service_account.id}/key/rotate`, { key, json: {} })
  t.equal(rotated.status, 200, rotated.text)

  takes = true
  await until('events to be accepted again', async () => (await post()).status === 202)
  t.match(await (await fetch(`${metrics}/metrics`)).text(), /^sluice_ingest_disk_full 0$/m)
})

t.test('a daemon saves its positions although its buffer fills the disk', OPTIONS, async t => {
  const folder = testFolder(t)
  const mounts = new Mounts()
  t.teardown(mounts.end)
  const state = join(folder, 'state')
  mkdirSync(state, { mode: 0o700 })
  mounts.make(state, '32m')
  let takes = false
  const got: string[] = []
  const receiver = createServer(async (request, response) => {
    const body = await text(request)
    if (takes) got.push(...body.trimEnd().split('\n'))
    response.writeHead(takes ? 200 : 503).end()
  })
  const address = `${HOST}:${await listening(t, receiver)}`
  const lines = 40_000
  writeFileSync(join(folder, 'app.log'), Array.from({ length: lines }, (_, n) => `${n} ${'x'.repeat(1000)}\n`).join(''))
  const retry = 'retry: { initial: 200ms, max: 500ms }'
  const config = join(folder, 'sluice.yaml')
  writeFileSync(
    config,
    `data_dir: ${state}\nmetrics: false\nshutdown_timeout: 1s\nsources: { app: { type: file, include: [${join(folder, 'app.log')}] } }
destinations:
  out: { type: http, url: 'http://${address}', inputs: [app], encoding: raw, ${retry}, buffer: { type: disk, max_bytes: 1GB } }\n`,
  )
  const first = sluice(['run', '--config', config], { cwd: folder })
  t.teardown(() => first.child.kill('SIGKILL'))
  await first.until(
    () => /the disk is almost full, and the rest is reserved for positions; sources wait/.exec(first.stderr)?.[0],
  )
  const { bavail, bsize } = statfsSync(state)
  t.ok(bavail * bsize > MEGABYTE, `${bavail * bsize} bytes are free`)
  first.child.kill('SIGTERM')
  await first.exit
  t.notMatch(first.stderr, 'SLUICE_CHECKPOINT_NOT_SAVED')
  takes = true
  const second = sluice(['run', '--config', config], { cwd: folder })
  t.teardown(() => second.child.kill('SIGKILL'))
  await until('all lines to arrive', () => new Set(got).size === lines)
  t.equal(got.length, lines, 'no line comes twice')
})
