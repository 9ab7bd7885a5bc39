import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { Client, type ClientOptions, everything, ServiceError } from '../../../../src/client.js'
import { linkTo } from '../../../../src/daemon/fleet/service-link.js'
import type { AccessKey } from '../../../../src/net/key.js'
import { HOST, listening } from '../../../support/address.js'
import { FakeIngest } from '../../../support/fake-ingest.js'
import { testFolder } from '../../../support/folder.js'
import { install } from '../../../support/installed.js'
import { longestParsed } from '../../../support/parsed-json.js'
import { pipelineConfig, startService } from '../../../support/service.js'

t.test('every call, against the service itself', async t => {
  const ingest = new FakeIngest()
  const running = await startService(join(testFolder(t), 'state'), { ingest })
  ingest.service = running.service
  t.teardown(() => running.close())
  const { url, made } = running
  const manager = running.client(made.manager.key)
  const sender = running.client(made.service_account.key)
  const enterprise = running.client(made.enterprise_service_account.key)

  t.match(await manager.whoami(), { type: 'personal', role: 'manager', subject: { id: made.manager.id } })
  t.equal(await manager.validate(), true)
  t.equal(await running.client(`sts_${'0'.repeat(40)}`).validate(), false)

  const pipeline = await sender.pipelines.create({ title: 'p', config: pipelineConfig(true) })
  t.match(pipeline, { revision: 1, published_revision: null, etag: /^"/ })
  await t.rejects(sender.pipelines.publish(pipeline.id), {
    name: 'ServiceError',
    status: 403,
    code: 'feature_not_enabled',
  })
  t.match(await manager.accounts.setFeature('throttle', true), { features: { throttle: true } })
  const published = await sender.pipelines.publish(pipeline.id, {}, { ifMatch: pipeline.etag })
  t.equal(published.published_revision, 1)
  const changed = await sender.pipelines.update(pipeline.id, { title: 'q' }, { ifMatch: published.etag })
  t.equal(changed.title, 'q')
  const stale = sender.pipelines.update(pipeline.id, { title: 'r' }, { ifMatch: published.etag })
  await t.rejects(stale, { status: 412, code: 'precondition_failed' })
  t.match(await sender.pipelines.one(pipeline.id), { title: 'q', etag: changed.etag })
  t.match(await sender.pipelines.published(pipeline.id), { revision: 1, etag: /^"/ })
  t.match(await sender.pipelines.revision(pipeline.id, 1), { published: true })
  t.match((await sender.pipelines.revisions(pipeline.id)).items, [{ revision: 1 }])
  await t.rejects(sender.pipelines.create({ title: '', config: {} }), { status: 400, errors: [{ path: 'title' }] })

  await sender.ingest(pipeline.id, [{ a: 1 }, { a: 2 }], { idempotencyKey: 'k' })
  await sender.ingest(pipeline.id, '{"a":3}\n')
  t.same(ingest.bodies, ['{"a":1}\n{"a":2}\n', '{"a":3}\n'])

  const account = await manager.serviceAccounts.create({ title: 's', scopes: ['ingest:write'] })
  t.equal(await running.client(account.key).validate(), true, 'a key that cannot read')
  const rotated = await manager.serviceAccounts.rotate(account.id, { grace: 60 })
  t.not(rotated.key, account.key)
  await manager.serviceAccounts.revoke(account.id)
  t.match(await manager.serviceAccounts.one(account.id), { access_key: null })
  await manager.serviceAccounts.delete(account.id)
  t.equal((await manager.serviceAccounts.all()).items.length, 1)

  const user = await manager.users.create({ email: 'u@example.com', role: 'viewer' })
  t.match(await manager.users.update(user.id, { role: 'editor' }), { role: 'editor' })
  t.match(await manager.users.one(user.id), { email: 'u@example.com' })
  const own = running.client((await manager.users.invite(user.id)).key)
  const key = await own.keys.create({ scopes: ['pipeline:read'] })
  t.equal((await own.keys.all()).items.length, 3)
  await own.keys.revoke(key.id)
  await manager.users.delete(user.id)
  t.equal(await own.validate(), false)

  const child = await enterprise.accounts.create({ title: 'child' })
  const within = enterprise.within(child.id)
  t.equal((await within.accounts.current()).id, child.id)
  t.equal((await enterprise.accounts.all()).items.length, 2)
  for (let i = 0; i < 5; i++) await within.pipelines.create({ title: `p${i}`, config: pipelineConfig() })
  const titles: string[] = []
  for await (const { title } of everything(page => within.pipelines.all({ ...page, limit: 2 }))) titles.push(title)
  t.same(titles.sort(), ['p0', 'p1', 'p2', 'p3', 'p4'])

  const report = {
    daemon_id: 'd',
    pipeline_id: pipeline.id,
    host: 'h',
    version: '1',
    revision: 1,
    health: 'ready',
  } as const
  t.match(await sender.report(report), { id: 'd', behind: false })
  t.match((await sender.fleet()).items, [{ id: 'd', host: 'h' }])
  t.ok((await manager.audit()).items.some(({ action }) => /publish/.test(action)))
  t.match((await manager.request('GET', '/v3/openapi.json')).body, { openapi: '3.1.0' })
  await sender.pipelines.delete(pipeline.id)
  const proxied = new Client({ url: `${url}/`, key: () => Promise.resolve(made.manager.key) })
  t.match(await proxied.whoami(), { type: 'personal' }, 'a key that is asked for, a slash at the end')
})

t.test('tries again only what may be sent again', async t => {
  /** Answers in order: a status, or a failure of the connection. */
  const client = (answers: (number | 'broken')[], options: Partial<ClientOptions> = {}) => {
    const calls: string[] = []
    const fetch = async (url: string | URL | Request, init?: RequestInit) => {
      calls.push(`${init?.method} ${url}`)
      const answer = answers.shift() ?? 200
      if (answer === 'broken') throw new TypeError('fetch failed')
      return new Response(answer === 200 ? '{"data":{}}' : '{"code":"later","message":"later"}', {
        status: answer,
        headers: { 'retry-after': '0', 'x-request-id': 'r' },
      })
    }
    return { calls, client: new Client({ url: 'http://service/base', key: 'k', fetch, ...options }) }
  }
  const cases: [method: string, answers: (number | 'broken')[], calls: number, ends: boolean][] = [
    ['GET', [429, 503], 3, true],
    ['GET', ['broken'], 2, true],
    ['GET', [503, 503, 503], 3, false],
    ['GET', [500], 1, false],
    ['GET', [401], 1, false],
    ['POST', [429], 2, true],
    ['POST', [503], 1, false],
    ['POST', ['broken'], 1, false],
  ]
  for (const [method, answers, expected, ends] of cases) {
    const what = `${method} ${answers}`
    const { calls, client: asking } = client([...answers])
    const asked = asking.request(method, '/v3/x', { query: { a: 1, b: undefined } })
    if (ends) await t.resolves(asked, what)
    else await t.rejects(asked, what)
    t.same(calls, Array(expected).fill(`${method} http://service/base/v3/x?a=1`), what)
  }
  const repeatable = client([503, 'broken'])
  await repeatable.client.ingest('p', 'x', { idempotencyKey: 'k' })
  t.equal(repeatable.calls.length, 3, 'events with a key')
  const once = client([503])
  await t.rejects(once.client.ingest('p', 'x'), { status: 503, code: 'later', retryAfterMs: 0, requestId: 'r' })
  t.throws(() => new Client({ url: 'ftp://x', key: 'k' }), /http/)
  const severed = client(['broken'])
  await t.rejects(severed.client.request('POST', '/v3/x'), {
    name: 'UnreachableError',
    message: 'cannot reach http://service/base: fetch failed',
  })
  const page = client([])
  const odd = new Client({ url: 'http://x', key: 'k', fetch: async () => new Response('<html>', { status: 502 }) })
  await t.rejects(
    odd.whoami(),
    new ServiceError({ status: 502, headers: new Headers(), body: '<html>', requestId: undefined }),
  )
  /** A client of a server that is not the service. */
  const astray = (body: string, status: number, headers: Record<string, string> = {}) =>
    new Client({ url: 'http://x', key: 'k', fetch: async () => new Response(body, { status, headers }) })
  const moved = astray('', 301, { location: 'https://x/' })
  const redirected = {
    status: 301,
    message: 'it redirects to https://x/; redirects are not followed',
  }
  await t.rejects(moved.ingest('p', [{ n: 1 }]), redirected, 'events that nobody stored are not reported as sent')
  await t.rejects(moved.validate(), redirected)
  const stranger = { status: 200, message: 'this is not a response of a Sluice service' }
  await t.rejects(astray('<html>', 200).whoami(), stranger)
  await t.rejects(astray('{}', 200).pipelines.all(), stranger)
  await page.client.pipelines.one('a/../b')
  t.same(page.calls, ['GET http://service/base/v3/pipeline/a%2F..%2Fb'])
})

t.test('a service that cannot be reached is named, with the reason', async t => {
  const hole = createServer(socket =>
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{')),
  )
  const mute = createServer(() => {})
  const [broken, silent] = [`http://${HOST}:${await listening(t, hole)}`, `http://${HOST}:${await listening(t, mute)}`]
  const asked = (url: string, timeoutMs = 30_000) => new Client({ url, key: 'k', retries: 0, timeoutMs }).whoami()
  const closed = 'the connection was closed before the answer; does it expect https:// there? (UND_ERR_SOCKET)'
  await t.rejects(asked(broken), { name: 'UnreachableError', message: `cannot reach ${broken}: ${closed}` })
  await t.rejects(asked(silent, 20), { message: `cannot reach ${silent}: no answer within 20 ms` })
  hole.close()
  mute.close()
  await t.rejects(asked(broken), {
    message: new RegExp(`^cannot reach ${broken}: nothing accepts connections there; .* \\(ECONNREFUSED\\)$`),
  })
  const keyless = new Client({ url: broken, key: () => Promise.reject(new Error('no key')) })
  await t.rejects(
    keyless.whoami(),
    { name: 'Error', message: 'no key' },
    'what fails before the request is told as it is',
  )
})

t.test('other programs import it', async t => {
  const folder = testFolder(t)
  install(folder, [])
  writeFileSync(
    join(folder, 'use.js'),
    "import { Client, ServiceError } from '@sluice-logs/sluice/client'\nnew Client({ url: 'http://127.0.0.1:1', key: 'k' })\nconsole.log(typeof ServiceError)\n",
  )
  t.equal(execFileSync(process.execPath, ['use.js'], { cwd: folder, encoding: 'utf8' }), 'function\n')
})

t.test('an answer without end is not read for ever', async t => {
  const part = Buffer.alloc(1024 * 1024, ' ')
  let given = 0
  const endless = () => new ReadableStream({ pull: to => (given++ < 1000 ? to.enqueue(part) : to.close()) })
  const fetch = async () => new Response(endless())
  const client = new Client({ url: 'http://x', key: 'k', fetch, retries: 0 })
  await t.rejects(client.whoami(), { message: 'cannot reach http://x: its answer is longer than 32.0 MB' })
  t.ok(given < 50)
})

t.test('a poll reads no more than a configuration, after decompression', async t => {
  const deep = '['.repeat(900_000)
  const bodies = ['['.repeat(200_000_000), deep, `{"data":[${'[],'.repeat(200_000)}[]]}`].map(text => gzipSync(text))
  t.ok(bodies[0]!.length < 250_000)
  let written = 0
  const server = createHttpServer((_, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(bodies[written++])
  })
  const url = `http://${HOST}:${await listening(t, server, HOST)}`
  const key = { current: async () => 'k' } as AccessKey
  const link = linkTo({ base: url, id: '0123456789abcdef01234567' }, key, undefined)
  const longest = longestParsed(t)
  const before = process.memoryUsage.rss()
  await t.rejects(link.published(undefined), { message: `cannot reach ${url}: its answer is longer than 1.0 MB` })
  for (const _ of bodies.slice(1))
    await t.rejects(link.published(undefined), /did not send a response of a Sluice service/)
  t.ok(longest() < 1000, 'answers with too many values or levels are not parsed')
  t.ok(process.memoryUsage.rss() - before < 100e6)
})
