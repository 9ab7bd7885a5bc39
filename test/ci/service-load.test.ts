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
  const limits = `  ingest: { max_pipelines: 6, allow_addresses: ['${address}'] }\n`
  const { url, config, running } = await serve(t, testFolder(t), limits)
  const made = await init(t, config)
  const greedy = made.manager.key
  const account = await send(url, 'POST', '/v3/enterprise/account', {
    key: made.enterprise_service_account.key,
    json: { title: 'second', manager: { email: 'second@example.com' } },
  })
  const modest = account.body.data.manager.key as string
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
  const answers: Awaited<ReturnType<typeof post>>[] = []
  const ask = (id: string) =>
    post(greedy, id, 'x').then(
      got => answers.push(got),
      () => undefined,
    )
  for (let i = 0; i < 7; i++) {
    waiting.push(ask(await publish(greedy, { destinations: { out } })))
    // One that has nothing yet would make room.
    if (i < 6) await until('the request', () => held > i || answers.length > 0, { show: () => [held, answers] })
  }
  // On a busy machine others are answered, too: that their process takes too long.
  const refused = await until(() => answers.find(({ body }) => body.code === 'too_many_pipelines'), {
    show: () => answers,
  })
  t.match(refused, {
    status: 503,
    body: { message: /this account runs 6 pipelines with .* and its share of the 6 .* is 6/ },
  })
  for (let i = 0; i < 4; i++) {
    const id = await publish(modest, pipelineConfig())
    t.match(await post(modest, id, 'x'), { status: 202 })
  }
  const metrics = await fetch(/"url":"([^"]+\/metrics)"/.exec(running.stderr)![1]!)
  t.match(await metrics.text(), /^sluice_ingest_refused_requests_total\{reason="too_many_pipelines"\} 1$/m)
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
      body: { code: 'store_unusable', message: /may have been saved or not/ },
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
