import { statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { HOST, listening } from '../support/address.js'
import { limitFileSize } from '../support/file-limit.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { init, serve } from '../support/served.js'
import { pipelineConfig, send } from '../support/service.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

t.test('one account does not stall the others', async t => {
  let held = 0
  const silent = createServer(() => held++)
  const address = `${HOST}:${await listening(t, silent)}`
  const limits = `  ingest: { max_processes: 2, allow_addresses: ['${address}'] }\n`
  const { url, config, running } = await serve(t, testFolder(t), limits)
  const made = await init(t, config)
  const greedy = made.manager.key
  const account = async (title: string): Promise<string> => {
    const json = { title, manager: { email: `${title}@example.com` } }
    const created = await send(url, 'POST', '/v3/enterprise/account', {
      key: made.enterprise_service_account.key,
      json,
    })
    return created.body.data.manager.key
  }
  const [modest, third] = [await account('second'), await account('third')]
  const create = (key: string, config: object) =>
    send(url, 'POST', '/v3/pipeline', { key, json: { title: 'x', config } })
  const publish = async (key: string, config: object) => {
    const { id } = (await create(key, config)).body.data as { id: string }
    t.equal((await send(url, 'POST', `/v3/pipeline/${id}/publish`, { key, json: {} })).status, 200)
    return id
  }
  const post = (key: string, id: string, message: string) =>
    send(url, 'POST', `/v3/ingest/${id}`, { key, json: [{ message }] })

  const filtered = (pattern: string) => ({
    processors: { f: { type: 'filter', inputs: ['ingest'], condition: `if (.message regex_match '${pattern}')` } },
    destinations: { out: { type: 'blackhole', inputs: ['f'] } },
  })
  const evil = await publish(greedy, filtered('(a+)+$'))
  t.match(await post(greedy, evil, `${'a'.repeat(60)}!`), { status: 202 }, 'a pattern that V8 needs ages for')
  t.match(await create(greedy, filtered('(a+)\\1b')), {
    status: 400,
    body: { errors: [{ path: 'config.processors.f.condition', message: /back-reference \\1 at character 5/ }] },
  })
  const levels = Array.from({ length: 24 }, (_, i) => {
    const inputs = i === 0 ? ['ingest'] : [i === 1 ? 'ingest' : `f${i - 2}`, `f${i - 1}`]
    return [`f${i}`, { type: 'filter', inputs, condition: 'if (.message exists)' }]
  })
  t.match(
    await create(greedy, {
      processors: Object.fromEntries(levels),
      destinations: { out: { type: 'blackhole', inputs: ['f23'] } },
    }),
    { status: 400, body: { errors: [{ message: /one of its events would be copied \d+ times .*: f1, f2, f3/ }] } },
  )

  const out = { type: 'http', url: `http://${address}/`, inputs: ['ingest'] }
  const waiting: Promise<unknown>[] = []
  for (let i = 0; i < 7; i++)
    waiting.push(post(greedy, await publish(greedy, { destinations: { out } }), 'x').catch(() => undefined))
  await until('the requests', () => held >= 7, { show: () => held })
  for (let i = 0; i < 2; i++) {
    for (const key of [modest, third]) {
      const id = await publish(key, pipelineConfig())
      t.match(await post(key, id, 'x'), { status: 202 }, 'two accounts take turns in the other process')
    }
  }
  const metrics = await fetch(/"url":"([^"]+\/metrics)"/.exec(running.stderr)![1]!)
  const text = await metrics.text()
  t.match(text, /^sluice_ingest_ended_pipelines_total\{state="idle"\} 3$/m)
  t.match(text, /^sluice_ingest_unanswered_requests 7$/m, 'and nobody ends the one that clients wait for')
  running.child.kill('SIGKILL')
  await Promise.all(waiting)
})

t.test('a disk without room: changes are refused, and what is acknowledged afterwards survives a kill', async t => {
  const prlimit = needs(t, 'prlimit')
  if (!prlimit) return
  const { running, url, config, state } = await serve(t, testFolder(t))
  const made = await init(t, config)
  const { key } = made.manager
  const accounts: { id: string; key: string }[] = []
  for (let i = 0; i < 8; i++) {
    const got = await send(url, 'POST', '/v3/service-account', {
      key,
      json: { title: `s${i}`, scopes: ['ingest:write'] },
    })
    accounts.push(got.body.data)
  }
  limitFileSize(prlimit, statSync(join(state, 'store', 'store.sqlite-wal')).size + 50, running.pid)
  const newPipeline = (title: string) =>
    send(url, 'POST', '/v3/pipeline', { key, json: { title, config: pipelineConfig() } })
  for (let i = 0; i < 3; i++) {
    t.match(await newPipeline('refused'), {
      status: 503,
      body: { code: 'store_unusable', message: /check whether the change was saved/ },
    })
  }
  t.equal((await send(url, 'GET', '/v3/pipeline', { key })).status, 200, 'it answers reads')
  const metricsUrl = /"url":"([^"]+\/metrics)"/.exec(running.stderr)![1]!
  const metric = async (name: string) =>
    new RegExp(`^${name} (.*)$`, 'm').exec(await (await fetch(metricsUrl)).text())?.[1]
  t.equal(await metric('sluice_store_writable'), '0')
  limitFileSize(prlimit, undefined, running.pid)
  for (const { id } of accounts.slice(0, 4))
    t.equal((await send(url, 'DELETE', `/v3/service-account/${id}`, { key })).status, 204)
  const rotated: string[] = []
  for (const { id } of accounts.slice(4)) {
    const got = await send(url, 'POST', `/v3/service-account/${id}/key/rotate`, { key })
    t.equal(got.status, 200)
    rotated.push(got.body.data.key)
  }
  for (let i = 0; i < 4; i++) t.equal((await newPipeline(`p${i}`)).status, 201)
  t.equal(await metric('sluice_store_writable'), '1')
  t.ok(Number(await metric('sluice_store_failed_writes_total')) >= 3)
  t.match(running.stderr, /"code":"SLUICE_STORE_WRITE_FAILED"/)
  running.child.kill('SIGKILL')
  await running.exit

  const again = sluice(['serve', '--config', config])
  t.teardown(async () => {
    again.child.kill('SIGKILL')
    await again.exit
  })
  const next = await again.until(() => /"url":"(https?:[^"]+)\/v3"/.exec(again.stderr)?.[1])
  const status = async (own: string) => (await send(next, 'GET', '/v3/auth/token', { key: own })).status
  for (const { key } of accounts) t.equal(await status(key), 401, 'revoked or rotated')
  for (const key of rotated) t.equal(await status(key), 200)
  const pipelines = (await send(next, 'GET', '/v3/pipeline', { key })).body.data as { title: string }[]
  t.same(
    pipelines.map(({ title }) => title).filter(title => title !== 'refused'),
    ['p0', 'p1', 'p2', 'p3'],
  )
})
