import { mkdirSync, statfsSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { HOST, listening } from '../support/address.js'
import { testFolder } from '../support/folder.js'
import { Mounts, mayMount } from '../support/mounts.js'
import { init, serve } from '../support/served.js'
import { send } from '../support/service.js'
import { until } from '../support/until.js'

const SKIP = mayMount() ? {} : { skip: 'small file systems need root' }
const MEGABYTE = 1_000_000

t.test('an account that fills the disk leaves room to the store, and is answered at once', SKIP, async t => {
  const folder = testFolder(t)
  const mounts = new Mounts()
  t.teardown(mounts.end)
  const state = join(folder, 'state')
  mkdirSync(state, { mode: 0o700 })
  mounts.make(state, '48m')
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
  t.ok(bavail * bsize > 2 * MEGABYTE, `${bavail * bsize} bytes are free`)
  t.match(await post(), { status: 503, body: { code: 'disk_full' } })
  const metrics = /"url":"(http:[^"]+)\/metrics"/.exec(running.stderr)![1]!
  t.match(await (await fetch(`${metrics}/metrics`)).text(), /^sluice_ingest_disk_full 1$/m)
  const ready = await fetch(`${metrics}/readyz`)
  t.match([ready.status, await ready.text()], [200, /almost full/])
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
