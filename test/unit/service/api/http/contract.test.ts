import { once } from 'node:events'
import { request } from 'node:http'
import { join } from 'node:path'
import { json as jsonOf } from 'node:stream/consumers'
import t from 'tap'
import { StoreError } from '../../../../../src/service/api/store/store.js'
import { Answers, identityFaults } from '../../../../fuzz/answers.js'
import { fuzz } from '../../../../fuzz/run.js'
import { FakeIngest } from '../../../../support/fake-ingest.js'
import { testFolder } from '../../../../support/folder.js'
import { rounds } from '../../../../support/long-test.js'
import { type Got, pipelineConfig, type Sending, startService, type TestService } from '../../../../support/service.js'
import { until } from '../../../../support/until.js'

/** Every route with every status that the API's description has for it, and the answers held to that description. */

const NOBODY = '0'.repeat(24)
const NDJSON = { 'content-type': 'application/x-ndjson' }

/** A service with one of everything. */
class World {
  readonly running: TestService
  readonly ingest: FakeIngest
  readonly keys: { manager: string; sender: string; enterprise: string; viewer: string; reader: string }
  readonly ids: Record<string, string>

  private constructor(running: TestService, ingest: FakeIngest, keys: World['keys'], ids: Record<string, string>) {
    this.running = running
    this.ingest = ingest
    this.keys = keys
    this.ids = ids
  }

  static async make(folder: string): Promise<World> {
    const ingest = new FakeIngest()
    const running = await startService(folder, { ingest })
    ingest.service = running.service
    const { manager, service_account, enterprise_service_account } = running.made
    const make = async (path: string, json: object) => {
      const got = await running.send('POST', path, { key: manager.key, json })
      if (got.status > 201) throw new Error(got.text)
      return got.body.data
    }
    const viewer = await make('/v3/user', { email: 'viewer@example.com', role: 'viewer' })
    const keys = {
      manager: manager.key,
      sender: (await make('/v3/service-account', { scopes: ['ingest:write'] })).key,
      reader: service_account.key,
      enterprise: enterprise_service_account.key,
      viewer: viewer.key,
    }
    const published = await make('/v3/pipeline', { title: 'published', config: pipelineConfig() })
    await make(`/v3/pipeline/${published.id}/publish`, {})
    return new World(running, ingest, keys, {
      pipeline: published.id,
      draft: (await make('/v3/pipeline', { title: 'draft', config: pipelineConfig() })).id,
      throttled: (await make('/v3/pipeline', { title: 'throttled', config: pipelineConfig(true) })).id,
      serviceAccount: (await make('/v3/service-account', { title: 'one' })).id,
      user: viewer.id,
      manager: manager.id,
      key: (await make('/v3/user/key', { title: 'mine' })).id,
    })
  }

  /** The id of a thing made for this case alone. */
  async fresh(path: string, json: object): Promise<string> {
    const { status, text, body } = await this.running.send('POST', path, { key: this.keys.manager, json })
    if (status !== 201) throw new Error(text)
    return body.data.id
  }
}

type Made = Sending & { readonly path?: string; readonly params?: Readonly<Record<string, string>> }
type Case = (world: World) => Made | Promise<Made>

const json =
  (value: object): Case =>
  () => ({ json: value })
let users = 0
const email = (name = `user-${users++}`) => ({ email: `${name}@example.com`, role: 'viewer' })
const PIPELINE = { title: 'x', config: pipelineConfig() }
const report = (pipeline: string) => ({
  daemon_id: 'd-1',
  pipeline_id: pipeline,
  host: 'h',
  version: '1',
  revision: 1,
  health: 'ready',
  totals: { received: 1 },
})
const of =
  (name: string): Case =>
  world => ({ params: { id: world.ids[name]! } })
const known =
  (path: string): Case =>
  async world => {
    const { running, ids, keys } = world
    const got = await running.send('GET', path.replace('{id}', ids.pipeline!), { key: keys.manager })
    return { params: { id: ids.pipeline! }, headers: { 'if-none-match': got.headers.get('etag') ?? '' } }
  }
const stale =
  (sending: Sending = {}): Case =>
  world => ({
    ...sending,
    params: { id: world.ids.draft! },
    headers: { 'if-match': '"another"' },
  })
const fresh =
  (path: string, input: () => object = () => ({})): Case =>
  async world => ({ params: { id: await world.fresh(path, input()) } })
const ingest =
  (body: string, id = 'pipeline', headers: Record<string, string> = NDJSON): Case =>
  world => ({
    params: { id: world.ids[id]! },
    body,
    headers,
    key: world.keys.sender,
  })
const byEnterprise =
  (made: Made = {}): Case =>
  world => ({ ...made, key: world.keys.enterprise })

/** What every operation needs to be answered well, and what gives its own refusals. */
const CASES: Readonly<Record<string, Readonly<Record<number, Case>>>> = {
  getToken: { 200: json0 },
  listAccounts: { 200: byEnterprise(), 400: byEnterprise({ path: '?limit=0' }) },
  createAccount: {
    201: byEnterprise({ json: { title: 'another', manager: { email: 'm@example.com' } } }),
    400: byEnterprise({ json: { titel: 'x' } }),
  },
  getAccount: { 200: json0 },
  getFeature: { 200: () => ({ params: { feature: 'throttle' } }) },
  setFeature: {
    200: () => ({ params: { feature: 'throttle' }, json: { enabled: false } }),
    404: () => ({ params: { feature: 'nope' }, json: { enabled: true } }),
    400: () => ({ params: { feature: 'throttle' }, json: { enabled: 'yes' } }),
  },
  listPipelines: { 200: json0 },
  createPipeline: {
    201: json(PIPELINE),
    400: json({ title: 'x', config: { destinations: { out: { type: 'nope' } } } }),
  },
  getPipeline: { 200: of('pipeline'), 304: known('/v3/pipeline/{id}') },
  updatePipeline: {
    200: world => ({ params: { id: world.ids.draft! }, json: { title: 'y' } }),
    412: stale({ json: { title: 'z' } }),
  },
  deletePipeline: { 204: fresh('/v3/pipeline', () => PIPELINE), 412: stale() },
  publishPipeline: { 200: of('pipeline'), 403: of('throttled'), 412: stale() },
  getPublishedPipeline: { 200: of('pipeline'), 304: known('/v3/pipeline/{id}/published'), 409: of('draft') },
  listRevisions: { 200: of('pipeline') },
  getRevision: {
    200: world => ({ params: { id: world.ids.pipeline!, revision: '1' } }),
    404: world => ({ params: { id: world.ids.pipeline!, revision: '77' } }),
  },
  ingest: {
    202: ingest('{"a":1}\n'),
    400: ingest('bad\n'),
    413: ingest('{"a":1}\n'.repeat(2000)),
    415: ingest('<a/>', 'pipeline', { 'content-type': 'text/xml' }),
    503: world => {
      world.ingest.full = true
      return { params: { id: world.ids.pipeline! }, body: '{}\n', headers: NDJSON }
    },
  },
  listSecrets: { 200: json0 },
  setSecret: { 200: () => ({ params: { name: 'upstream' }, json: { value: 'a key' } }) },
  deleteSecret: {
    204: async ({ running, keys }) => {
      await running.send('PUT', '/v3/secret/gone', { key: keys.manager, json: { value: 'a key' } })
      return { params: { name: 'gone' } }
    },
  },
  listServiceAccounts: { 200: json0 },
  createServiceAccount: { 201: json({ title: 'two', expires_in: '1 Hours' }), 400: json({ scopes: ['account:rule'] }) },
  getServiceAccount: { 200: of('serviceAccount') },
  deleteServiceAccount: { 204: fresh('/v3/service-account') },
  rotateServiceAccountKey: {
    200: world => ({ params: { id: world.ids.serviceAccount! }, json: { grace: '1 Minutes' } }),
  },
  revokeServiceAccountKey: { 204: fresh('/v3/service-account') },
  listUsers: { 200: json0 },
  createUser: { 201: () => ({ json: email() }), 409: json(email('viewer')) },
  getUser: { 200: of('user') },
  updateUser: {
    200: world => ({ params: { id: world.ids.user! }, json: { role: 'viewer' } }),
    409: world => ({ params: { id: world.ids.manager! }, json: { role: 'viewer' } }),
  },
  deleteUser: { 204: fresh('/v3/user', email), 409: of('manager') },
  inviteUser: { 200: of('user') },
  listUserKeys: { 200: json0 },
  createUserKey: { 201: json({ scopes: ['pipeline:read'], expires_in: 3600 }), 400: json({ expires_in: -1 }) },
  revokeUserKey: { 204: fresh('/v3/user/key') },
  listDaemons: { 200: json0 },
  reportDaemon: { 200: world => ({ json: report(world.ids.pipeline!) }), 404: json(report(NOBODY)) },
  listAudit: { 200: json0 },
  getDescription: { 200: json0 },
}

function json0(): Made {
  return {}
}

interface Operation {
  readonly operationId: string
  readonly 'x-scope'?: string
  readonly requestBody?: { readonly content: object }
  readonly parameters: readonly { readonly name: string }[]
  readonly responses: Readonly<Record<string, unknown>>
}

/** A key without the scope. */
const without = (scope: string, { keys }: World): string =>
  ({
    'pipeline:read': keys.sender,
    'pipeline:write': keys.viewer,
    'ingest:write': keys.viewer,
    'user:key': keys.reader,
  })[scope] ?? (scope === 'account:manage' ? keys.viewer : keys.manager)

/** What gives a status at any operation. */
function usual(
  status: number,
  { 'x-scope': scope, requestBody }: Operation,
  good: Made,
  world: World,
): Made | undefined {
  if (status === 400) return requestBody ? { ...good, json: { no_such: 1 } } : { ...good, path: '?limit=0' }
  if (status === 401) return { ...good, key: `sts_${'0'.repeat(40)}` }
  if (status === 403 && scope) return { ...good, key: without(scope, world) }
  if (status === 403)
    return { ...good, headers: { ...good.headers, 'x-delegate-account-id': world.running.made.account.id } }
  if (status === 404) return { ...good, params: {} }
  if (status === 413) return { ...good, json: { title: 'x'.repeat(300_000) } }
  if (status === 415) return { ...good, json: undefined, body: 'x', headers: { 'content-type': 'text/xml' } }
  return undefined
}

t.test('every status of every route, as the description says', { timeout: 120_000 }, async t => {
  const folder = testFolder(t)
  const world = await World.make(join(folder, 'state'))
  const busy = await startService(join(folder, 'busy'), {
    limits: { requestsPerKey: { limit: 1, windowMs: 3_600_000 } },
  })
  const full = await startService(join(folder, 'full'), {
    limits: { accounts: 1, users: 1, serviceAccounts: 1, pipelines: 1, secrets: 0, daemons: 0, keysPerUser: 1 },
  })
  const broken = await startService(join(folder, 'broken'))
  t.teardown(() => Promise.all([world.running, busy, full, broken].map(running => running.close())))
  broken.service.authenticate = () => Promise.reject(new StoreError('SLUICE_STORE_UNUSABLE', 'no connection'))
  const { running, keys } = world
  const document = (await running.send('GET', '/v3/openapi.json', { key: keys.manager })).body
  t.equal(document.openapi, '3.1.0')
  const answers = new Answers(document)
  await busy.send('GET', '/v3/auth/token', { key: busy.made.manager.key })
  const only = await full.send('POST', '/v3/pipeline', { key: full.made.manager.key, json: PIPELINE })
  full.service.pipelines.sizes.hasRoom = () => false
  /** There the things of the world are not known. */
  const inFull: Record<string, Made> = {
    inviteUser: { params: { id: full.made.manager.id } },
    reportDaemon: { json: report(only.body.data.id) },
    updatePipeline: { params: { id: only.body.data.id }, json: { config: pipelineConfig(true) } },
    createAccount: { json: { title: 'x' }, key: full.made.enterprise_service_account.key },
  }
  const reached = new Set<string>()
  for (const [template, item] of Object.entries(document.paths as Record<string, Record<string, Operation>>)) {
    for (const [name, operation] of Object.entries(item)) {
      const method = name.toUpperCase()
      const own = CASES[operation.operationId] ?? {}
      const [wellStatus] = Object.keys(own)
      for (const status of Object.keys(operation.responses).map(Number)) {
        world.ingest.full = false
        const good = await own[Number(wellStatus)]!(world)
        const made =
          (await own[status]?.(world)) ??
          (status === 404 && !template.includes('{') ? undefined : usual(status, operation, good, world))
        const atLimit = status === 409 && !own[409]
        const isBroken = status === 503 && !own[503]
        const target = status === 429 ? busy : isBroken ? broken : atLimit ? full : running
        const there = { ...good, key: undefined, ...(atLimit ? inFull[operation.operationId] : {}) }
        const sent = target === running ? (made ?? good) : there
        const path = template.replace(/\{(\w+)\}/g, (_, name) => sent.params?.[name] ?? NOBODY) + (sent.path ?? '')
        const key = sent.key ?? target.made.manager.key
        const got = await target.send(method, path, { ...sent, key })
        const what = `${method} ${template} ${status}`
        t.equal(got.status, status, `${what}: ${got.text.slice(0, 300)}`)
        t.same(answers.faults(template, method, got), [], what)
        if (status === 429 || status === 503)
          t.ok(Number(got.headers.get('retry-after')) >= 1, `${what}: when to try again`)
        t.notOk(got.text.includes(key.slice(4)), `${what}: no answer has the key of its request`)
        if (status === 401) {
          t.match(got.headers.get('www-authenticate'), /^Token\b/, what)
          t.notMatch([...got.headers.keys()].join(), 'x-auth-', `${what}: nobody was recognized`)
        }
        reached.add(`${operation.operationId} ${status}`)
      }
    }
  }
  t.ok(reached.size > 250, `${reached.size} statuses`)
  t.notMatch(running.logged(), /st[sea]_[0-9a-f]{40}/, 'no key is logged')
})

t.test('a key without the right is refused before the query and the body are looked at', async t => {
  const world = await World.make(join(testFolder(t), 'state'))
  const { running, keys } = world
  t.teardown(() => running.close())
  const document = (await running.send('GET', '/v3/openapi.json', { key: keys.manager })).body
  let tried = 0
  for (const [template, item] of Object.entries(document.paths as Record<string, Record<string, Operation>>)) {
    for (const [method, { requestBody, parameters, 'x-scope': scope }] of Object.entries(item)) {
      const hasLimit = parameters.some(({ name }) => name === 'limit')
      if (scope === undefined || !(requestBody || hasLimit)) continue
      const path = template.replace(/\{\w+\}/g, NOBODY) + (hasLimit ? '?limit=0' : '')
      const [type] = Object.keys(requestBody?.content ?? {})
      const body = type === undefined ? {} : { body: '{', headers: { 'content-type': type } }
      const refused = { status: 403, body: { code: /^(?!invalid)/ } }
      const what = `${method} ${path}`
      const send = (key: string) => running.send(method.toUpperCase(), path, { ...body, key })
      t.match(await send(without(scope, world)), refused, what)
      if (type !== undefined) {
        const headers = { authorization: `Token ${without(scope, world)}`, 'content-type': type, 'content-length': 9 }
        const sent = request(running.url + path, { method, headers })
        sent.flushHeaders()
        const [response] = await once(sent, 'response')
        t.equal(response.statusCode, 403, `${what}: before the body is sent`)
        sent.on('error', () => {}).destroy()
      }
      if (type !== undefined && /pipeline|secret|user/.test(path))
        t.match(await send(keys.enterprise), refused, `${what} at enterprise scope`)
      tried++
    }
  }
  t.ok(tried > 20, `${tried} operations`)
})

t.test('a key that ends while a body arrives is refused, and nothing is accepted', async t => {
  const world = await World.make(join(testFolder(t), 'state'))
  const { running, keys, ids, ingest } = world
  t.teardown(() => running.close())
  const send = (method: string, path: string, json?: object) => running.send(method, path, { key: keys.manager, json })
  /** Sends a part of a body; the returned function sends the rest. */
  const begin = async (method: string, path: string, type: string, key: string, part: string) => {
    const { authenticated } = running.service.counts()
    const headers = { authorization: `Token ${key}`, 'content-type': type }
    const sent = request(running.url + path, { method, headers })
    const answer = new Promise<{ status: number | undefined; code: unknown; headers: object }>((resolve, reject) =>
      sent.once('error', reject).once('response', response => {
        const { statusCode: status, headers } = response
        jsonOf(response).then(body => resolve({ status, code: (body as { code?: unknown }).code, headers }), reject)
      }),
    )
    sent.write(part)
    await until('the key to be looked at', () => running.service.counts().authenticated > authenticated)
    return (rest: string) => {
      sent.end(rest)
      return answer
    }
  }
  const change = (key: string) => begin('PUT', `/v3/pipeline/${ids.draft}`, 'application/json', key, '{"title":')
  const events = (key: string) => begin('POST', `/v3/ingest/${ids.pipeline}`, 'application/x-ndjson', key, '{"n":1}\n')
  const shown = async () => (await send('GET', `/v3/pipeline/${ids.draft}`)).body.data.title

  const account = (await send('POST', '/v3/service-account', {})).body.data
  const both = [await change(account.key), await events(account.key)] as const
  await send('DELETE', `/v3/service-account/${account.id}/key`)
  for (const [i, finish] of both.entries()) {
    const answer = await finish(i === 0 ? '"taken"}' : '{"n":2}\n')
    t.match(answer, { status: 401, code: 'token_revoked' })
    t.notMatch(Object.keys(answer.headers).join(), 'x-auth-', 'nobody is recognized')
  }
  t.equal(await shown(), 'draft')
  t.same(ingest.bodies, [])

  const user = (await send('POST', '/v3/user', { email: 'e@example.com', role: 'editor' })).body.data
  const less = await change(user.key)
  await send('PUT', `/v3/user/${user.id}`, { role: 'viewer' })
  t.match(await less('"taken"}'), { status: 403, code: 'scope_missing' }, 'a right that ends counts as well')

  const unchanged = [await change(keys.reader), await events(keys.reader)] as const
  await send('DELETE', `/v3/user/${user.id}`)
  t.match(await unchanged[0]('"changed"}'), { status: 200 }, 'keys of others may end')
  t.match(await unchanged[1]('{"n":2}\n'), { status: 202 })
  t.equal(await shown(), 'changed')
  t.same(ingest.bodies, ['{"n":1}\n{"n":2}\n'])
})

t.test('HEAD is GET without a body; other methods are 405; unknown paths are 404', async t => {
  const running = await startService(join(testFolder(t), 'state'))
  t.teardown(() => running.close())
  const { key } = running.made.manager
  const document = (await running.send('GET', '/v3/openapi.json', { key })).body
  for (const [template, item] of Object.entries(document.paths as Record<string, object>)) {
    const path = template.replace(/\{\w+\}/g, NOBODY)
    const own = Object.keys(item).map(method => method.toUpperCase())
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY']) {
      if (own.includes(method)) continue
      const got = await running.send(method, path, { key })
      if (method === 'HEAD' && own.includes('GET')) {
        const whole = await running.send('GET', path, { key })
        t.same([got.status, got.text], [whole.status, ''], `HEAD ${template}`)
        const length = (from: Got) => from.headers.get('content-length')
        t.equal(length(got), length(whole), `HEAD ${template} tells the length`)
      } else {
        t.equal(got.status, 405, `${method} ${template}`)
        const allow = own.includes('GET') ? [...own, 'HEAD'] : own
        t.same(got.headers.get('allow')?.split(', ').sort(), allow.sort(), `${method} ${template}: allow`)
      }
      t.same(identityFaults(got), [], `${method} ${template}: who asked`)
    }
  }
  for (const path of [
    '/',
    '/v3',
    '/v3/',
    '/v3/pipelines',
    `/v3/pipeline/${NOBODY}/x`,
    '/v3/%zz',
    `/v3/pipeline/${'a'.repeat(500)}`,
  ]) {
    for (const sending of [{ key }, {}]) {
      const got = await running.send('GET', path, sending)
      t.match(got, { status: 404, body: { code: 'not_found', errors: [] } }, path)
      t.match(got.headers.get('x-request-id'), /^[0-9a-f-]{36}$/, path)
    }
  }
})

t.test('requests made of the description find nothing that it does not say', { timeout: 60_000 }, async t => {
  const { statuses, problems } = await fuzz(join(testFolder(t), 'state'), 20_310_203, rounds(600, 150))
  t.same(problems.slice(0, 5), [])
  t.ok(Object.keys(statuses).length >= 7, JSON.stringify(statuses))
})
