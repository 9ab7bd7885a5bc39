import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Refusal } from '../../../../../src/net/http/server/refusal.js'
import { ConnectionLimits } from '../../../../../src/net/limits.js'
import { DEFAULT_LIMITS } from '../../../../../src/service/api/domain/context.js'
import type { Ingest } from '../../../../../src/service/api/http/ingest.js'
import { openApi } from '../../../../../src/service/api/http/openapi.js'
import { allRoutes } from '../../../../../src/service/api/http/routes.js'
import { hold, RequestCounts } from '../../../../../src/service/api/http/sender.js'
import { AccountQuotas } from '../../../../../src/service/ingest/account/account-quota.js'
import { identityFaults } from '../../../../fuzz/answers.js'
import { checkout } from '../../../../support/checkout.js'
import { testFolder } from '../../../../support/folder.js'
import { parsedLines } from '../../../../support/parsed-lines.js'
import { Seeded } from '../../../../support/seeded.js'
import { type Got, pipelineConfig, startService, type TestService } from '../../../../support/service.js'
import { turns, until } from '../../../../support/until.js'

/** What docs/spec.md names: the service's half of the specification, line by line. */

const ID = /^[0-9a-f]{24}$/
const SHORT_ID = /^\S{9}$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

interface Fixture extends TestService {
  readonly manager: string
  readonly sts: string
  readonly ste: string
  /** Sends and asserts the status. */
  ok(
    status: number,
    method: string,
    path: string,
    key: string,
    json?: unknown,
    headers?: Record<string, string>,
  ): Promise<Got>
}

async function start(t: Test, options: Parameters<typeof startService>[1] = {}): Promise<Fixture> {
  const running = await startService(join(testFolder(t), 'state'), options)
  t.teardown(() => running.close())
  const { manager, service_account, enterprise_service_account } = running.made
  return Object.assign(running, {
    manager: manager.key,
    sts: service_account.key,
    ste: enterprise_service_account.key,
    async ok(
      status: number,
      method: string,
      path: string,
      key: string,
      json?: unknown,
      headers?: Record<string, string>,
    ) {
      const got = await running.send(method, path, { key, json, ...(headers ? { headers } : {}) })
      t.equal(got.status, status, `${method} ${path}: ${got.text.slice(0, 200)}`)
      return got
    },
  })
}

t.test('debug headers on every authenticated answer, in their formats', async t => {
  const { sts, ste, manager, ok, made } = await start(t)
  const answers = [
    await ok(200, 'GET', '/v3/pipeline', sts),
    await ok(200, 'HEAD', '/v3/pipeline', sts),
    await ok(403, 'GET', '/v3/audit', sts),
    await ok(404, 'GET', `/v3/pipeline/${'0'.repeat(24)}`, sts),
    await ok(404, 'GET', '/v3/nowhere', sts),
    await ok(405, 'PATCH', '/v3/pipeline', sts),
    await ok(400, 'POST', '/v3/pipeline', sts, {}),
    await ok(403, 'GET', '/v3/pipeline', sts, undefined, { 'x-delegate-account-id': made.account.id }),
  ]
  for (const got of answers) {
    const { headers } = got
    t.same(identityFaults(got), [])
    t.match(headers.get('x-request-id'), UUID)
    t.equal(headers.get('x-auth-subject-id'), made.service_account.id)
    t.match(headers.get('x-auth-subject-id'), ID)
    t.equal(headers.get('x-auth-account-id'), made.account.id)
    t.equal(headers.get('x-auth-enterprise-id'), made.enterprise.id)
    t.equal(headers.get('x-auth-subject-email'), `${made.service_account.id}@service-account.invalid`)
    t.equal(headers.get('x-auth-account-short-id'), made.account.short_id)
    t.match(headers.get('x-auth-account-short-id'), SHORT_ID)
    t.equal(headers.get('x-auth-access-type'), 'access')
  }
  const ids = new Set(answers.map(({ headers }) => headers.get('x-request-id')))
  t.equal(ids.size, answers.length, 'each request has an id of its own')
  const own = await ok(200, 'GET', '/v3/pipeline', manager, undefined, { 'x-request-id': 'mine' })
  t.match(own.headers.get('x-request-id'), UUID, 'whatever the client says')
  t.equal(own.headers.get('x-auth-subject-email'), made.manager.email)
  const wide = await ok(200, 'GET', '/v3/enterprise/account', ste)
  t.same(identityFaults(wide), [])
  t.notOk(wide.headers.has('x-auth-account-id'), 'at enterprise scope there is no account')
  const within = await ok(200, 'GET', '/v3/pipeline', ste, undefined, { 'x-delegate-account-id': made.account.id })
  t.equal(within.headers.get('x-auth-account-id'), made.account.id)
  t.equal(within.headers.get('x-auth-account-short-id'), made.account.short_id)
})

t.test('every request of a key is answered, whatever characters the address of its user has', async t => {
  const { manager, ok, send } = await start(t)
  const random = new Seeded(9)
  const characters = [
    'a',
    'é',
    'ł',
    'ü',
    '漢',
    '😀',
    '%',
    '%41',
    "'",
    '*',
    '\u007f',
    '\u0080',
    '\u00ff',
    '\u0100',
    '\ufffd',
    '́',
  ]
  const addresses = ['łukasz@example.com', '100%@example.com', 'jörg@exämple.com', '😀@😀.example', '%e5%@x']
  for (let i = 0; i < 40; i++) {
    const part = () =>
      Array.from({ length: 1 + random.below(5) }, () => characters[random.below(characters.length)]).join('')
    addresses.push(`${part()}@${i}.${part()}`)
  }
  // Any character at all, those that only a part of an address may not have included.
  for (let i = 0; i < 40; i++) addresses.push(`${String.fromCodePoint(random.below(0x11_0000))}@${i}.example`)
  let taken = 0
  for (const email of addresses) {
    const made = await send('POST', '/v3/user', { key: manager, json: { email, role: 'viewer' } })
    if (made.status === 400) continue
    taken++
    const { key, email: stored } = made.body.data
    for (const [status, method, path] of [
      [200, 'GET', '/v3/account'],
      [200, 'HEAD', '/v3/account'],
      [404, 'GET', '/v3/nowhere'],
      [405, 'PATCH', '/v3/account'],
      [403, 'GET', '/v3/audit'],
    ] as const) {
      const { headers } = await ok(status, method, path, key)
      const sent = headers.get('x-auth-subject-email')!
      t.match(sent, /^[\x21-\x7e]+$/)
      t.equal(decodeURIComponent(sent), stored, `${method} ${path}`)
    }
  }
  t.ok(taken > 50, `${taken} addresses were accepted`)
  const refused = { email: '\ud800x@example.com', role: 'viewer' }
  await ok(400, 'POST', '/v3/user', manager, refused)
})

t.test('a reply that cannot be written is answered with 500, logged with its id, and counted', async t => {
  const counts = new RequestCounts()
  let headers = {}
  const ingest: Ingest = {
    async ingest() {
      throw new Refusal(503, 'x', 'x', headers)
    },
  }
  const { manager, send, logged } = await start(t, { ingest, counts })
  const post = () => send('POST', `/v3/ingest/${'0'.repeat(24)}`, { key: manager, body: '{}' })
  headers = { 'x-odd': 'ł' }
  const got = await post()
  t.equal(got.status, 500)
  t.match(got.body, { code: 'failed', message: /\w/, errors: [] })
  headers = { 'x odd': 'a' }
  t.equal((await post()).status, 500)
  t.equal(logged().match(/cannot write a response/g)?.length, 2)
  const id = got.headers.get('x-request-id')
  t.ok(
    logged().includes(`"level":50`) && logged().includes(`"request_id":"${id}"`),
    'the log has the id of the request',
  )
  const failed = [...counts.all()].find(({ status }) => status === 500)
  t.match(failed, { method: 'POST', route: '/v3/ingest/{id}', requests: 2 })
  t.equal((await send('GET', '/v3/account', { key: manager })).status, 200, 'the service goes on')
})

t.test('a route that throws anything is answered with 500 in the documented form', async t => {
  const counts = new RequestCounts()
  let act: () => unknown = () => {}
  const ingest: Ingest = { ingest: async () => ({ status: 202, body: await act() }) }
  const { manager, send, logged } = await start(t, { ingest, counts })
  const unreadable = Object.defineProperty(new Error('x'), 'message', { get: () => assert.fail('not its message') })
  const values = [new Error('a bug'), undefined, null, 'text', { statusCode: 204 }, unreadable]
  const thrown = values.map(value => () => Promise.reject(value))
  for (act of [() => Object.create(null, { toJSON: { value: () => assert.fail() } }), ...thrown]) {
    const got = await send('POST', `/v3/ingest/${'0'.repeat(24)}`, { key: manager, body: '{}' })
    t.equal(got.status, 500)
    t.match(got.body, { code: 'failed', message: got.headers.get('x-request-id')!, errors: [] })
  }
  t.equal(logged().match(/"msg":"request failed"/g)?.length, 7)
  t.match([...counts.all()].at(-1), { route: '/v3/ingest/{id}', status: 500, requests: 7 })
})

t.test('clients without a key that send little or nothing hold no connection', async t => {
  const counts = new RequestCounts()
  const closed: string[] = []
  const connections = new ConnectionLimits(
    { max: 4, sendMs: 300, closeMs: 200, closesUsed: true },
    { closed: reason => void closed.push(reason), refused: reason => void closed.push(`refused ${reason}`) },
  )
  const { url, sts, ok } = await start(t, { counts, connections, headersMs: 200, requestMs: 300 })
  const dial = async (text: string) => {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
    t.teardown(() => socket.destroy())
    let said = ''
    socket.setEncoding('latin1').on('data', part => (said += part))
    socket.on('error', () => {})
    const ended = new Promise(resolve => socket.once('end', resolve).once('close', resolve))
    await once(socket, 'connect')
    socket.write(text)
    return { ended, said: () => said }
  }
  const gone = async () => {
    await until(() => connections.size === 0)
  }
  const body = 'POST /v3/pipeline HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n'
  const left = await Promise.all([
    dial(''),
    dial('GET / HTTP/1.1\r\nX: '),
    dial(`${body}\r\nx`),
    dial(`${body}Authorization: Token ${sts}\r\n\r\nx`),
  ])
  await Promise.all(left.map(({ ended }) => ended))
  await gone()
  const statuses = left.map(({ said }) =>
    said()
      .match(/HTTP\/1.1 \d+/g)
      ?.join(),
  )
  t.same(statuses, ['HTTP/1.1 408', 'HTTP/1.1 408', 'HTTP/1.1 401', 'HTTP/1.1 408'], 'one answer each')
  t.match(
    [...counts.all()].filter(({ status }) => status === 408),
    [{ route: 'unknown', requests: 3 }],
  )
  t.same(closed, [])
  for (let n = 0; n < 9; n++) await dial('GET ')
  await ok(200, 'GET', '/v3/account', sts)
  // On a busy machine, the time for headers is over first for some of them.
  const first = closed.slice(0, 6)
  t.ok(first.length > 0 && first.every(reason => reason === 'unused'), `what nobody uses makes room: ${closed}`)
})

t.test('a client that was told that it does not speak HTTP has a moment to read that, whatever it does', async t => {
  const closed: string[] = []
  const limits = { max: 4, sendMs: 300, closeMs: 200, closesUsed: true }
  const connections = new ConnectionLimits(limits, { closed: reason => void closed.push(reason), refused: () => {} })
  const { url } = await start(t, { connections, headersMs: 200, requestMs: 300 })
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  socket.write('no HTTP\r\n\r\n')
  const [answer] = await once(socket, 'data')
  t.match(String(answer), /^HTTP\/1.1 400 /)
  socket.write('nor this\r\n\r\n')
  // Node.js finds it overdue meanwhile.
  for (const end = performance.now() + 500; performance.now() < end; );
  await until(() => connections.size === 0)
  t.same(closed, ['left_open'])
})

t.test('a request that came whole is answered, whatever comes behind it', async t => {
  const ingest: Ingest = {
    async ingest() {
      // What comes behind the request has been parsed.
      await turns()
      return { received: 1 }
    },
  }
  const { url, sts } = await start(t, { ingest, headersMs: 100, requestMs: 100 })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.write(
    `POST /v3/ingest/${'0'.repeat(24)} HTTP/1.1\r\nHost: x\r\nAuthorization: Token ${sts}\r\nContent-Length: 0\r\n\r\nno HTTP\r\n\r\n`,
  )
  let text = ''
  for await (const part of socket.setEncoding('latin1')) text += part
  t.same(text.match(/HTTP\/1.1 \d+/g), ['HTTP/1.1 202'])
})

t.test('x-request-id on every answer at all, also to what is no request', async t => {
  const { url } = await start(t)
  const texts: [string, number][] = [
    ['GET /v3/pipeline HTTP/1.1\r\n\r\n', 401],
    ['GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n', 404],
    ['GET /v3/%zz HTTP/1.1\r\nHost: x\r\n\r\n', 404],
    ['GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n', 404],
    ['PROPFIND /v3/pipeline HTTP/1.1\r\nHost: x\r\n\r\n', 404],
    ['GET / HTTP/1.1\r\nHost: x\r\nExpect: more\r\n\r\n', 417],
    [`GET / HTTP/1.1\r\nHost: x\r\nA: ${'b'.repeat(20_000)}\r\n\r\n`, 431],
    ['nonsense\r\n\r\n', 400],
    ['CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n', 405],
  ]
  for (const [text, status] of texts) {
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(text))
      socket.on('error', reject).once('data', part => {
        resolve(String(part))
        socket.destroy()
      })
    })
    t.ok(answer.startsWith(`HTTP/1.1 ${status} `), `${text.slice(0, 40)}: ${answer.slice(0, 40)}`)
    t.match(/^x-request-id: (.*)\r$/im.exec(answer)?.[1], UUID, text.slice(0, 40))
    t.match(answer, /"code":"\w+","message":".+","errors":\[\]/, text.slice(0, 40))
  }
})

t.test('x-delegate-account-id is for enterprise tokens only', async t => {
  const { sts, ste, manager, ok, made } = await start(t)
  const child = (await ok(201, 'POST', '/v3/enterprise/account', ste, { title: 'child' })).body.data
  for (const key of [sts, manager]) {
    const got = await ok(403, 'GET', '/v3/pipeline', key, undefined, { 'x-delegate-account-id': made.account.id })
    t.match(got.body, { code: /^[a-z_]+$/, message: /enterprise/ }, 'a clear error')
  }
  const within = { 'x-delegate-account-id': child.id }
  const pipeline = (await ok(201, 'POST', '/v3/pipeline', ste, { title: 'p', config: pipelineConfig() }, within)).body
    .data
  t.equal(pipeline.account_id, child.id)
  t.match((await ok(200, 'GET', '/v3/auth/token', ste, undefined, within)).body.data, {
    account_id: child.id,
    account_short_id: child.short_id,
    delegated: true,
  })
  await ok(404, 'GET', `/v3/pipeline/${pipeline.id}`, sts)
  await ok(404, 'GET', `/v3/pipeline/${pipeline.id}`, ste, undefined, { 'x-delegate-account-id': made.account.id })
  for (const wrong of ['0'.repeat(24), 'x', '', `${child.id}, ${child.id}`])
    await ok(403, 'GET', '/v3/pipeline', ste, undefined, { 'x-delegate-account-id': wrong })
})

t.test('revoking acts on connections that are open', async t => {
  const { manager, ok, url } = await start(t)
  const { id, key } = (await ok(201, 'POST', '/v3/service-account', manager, { title: 'one' })).body.data
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.teardown(() => socket.destroy())
  const ask = () =>
    new Promise<string>(resolve => {
      socket.once('data', part => resolve(String(part).slice(0, 12)))
      socket.write(`HEAD /v3/pipeline HTTP/1.1\r\nHost: x\r\nAuthorization: Token ${key}\r\n\r\n`)
    })
  t.equal(await ask(), 'HTTP/1.1 200')
  await ok(204, 'DELETE', `/v3/service-account/${id}/key`, manager)
  t.equal(await ask(), 'HTTP/1.1 401')
})

t.test('limits: of a key, of failed tries, with when to try again', async t => {
  let now = 1e12
  const clock = { now: () => now, wall: () => now }
  const { sts, manager, ok } = await start(t, {
    clock,
    limits: { requestsPerKey: { limit: 3, windowMs: 60_000 }, failedTries: { limit: 2, windowMs: 60_000 } },
  })
  const remaining = []
  for (let i = 0; i < 3; i++)
    remaining.push((await ok(200, 'HEAD', '/v3/pipeline', sts)).headers.get('ratelimit-remaining'))
  t.same(remaining, ['2', '1', '0'])
  const got = await ok(429, 'GET', '/v3/pipeline', sts)
  t.equal(got.headers.get('retry-after'), '60')
  t.equal(got.headers.get('ratelimit-limit'), '3')
  await ok(200, 'GET', '/v3/pipeline', manager)
  now += 60_000
  await ok(200, 'GET', '/v3/pipeline', sts)
  const wrong = `sts_${'0'.repeat(40)}`
  await ok(401, 'GET', '/v3/pipeline', wrong)
  await ok(401, 'GET', '/v3/pipeline', wrong)
  const held = await ok(429, 'GET', '/v3/pipeline', wrong)
  t.ok(Number(held.headers.get('retry-after')) >= 1)
  await ok(200, 'GET', '/v3/pipeline', manager)
})

t.test('the request log: a line for each request, and no key', async t => {
  const { sts, ok, logged, url, made } = await start(t, { requestLog: true })
  const got = await ok(404, 'GET', `/v3/pipeline/${'a'.repeat(24)}?after=${sts}`, sts)
  await ok(404, 'GET', `/v3/pipeline/${sts}`, sts)
  await ok(401, 'GET', `/v3/${sts}`, `sts_${'0'.repeat(40)}`)
  const plain = connect(Number(new URL(url).port), '127.0.0.1', () => plain.write('nonsense\r\n\r\n'))
  plain.resume()
  await once(plain, 'close')
  const lines = parsedLines(logged())
  const common = { level: 30, account: made.account.id, subject: made.service_account.id, address: '127.0.0.1' }
  t.match(
    lines.filter(({ msg }) => msg === 'request'),
    [
      { ...common, request_id: got.headers.get('x-request-id'), route: '/v3/pipeline/{id}', id: 'a'.repeat(24) },
      { ...common, method: 'GET', route: '/v3/pipeline/{id}', id: undefined, status: 404, ms: Number },
      { level: 30, route: 'unknown', status: 401, account: undefined, address: '127.0.0.1' },
    ],
  )
  t.match(
    lines.filter(({ msg }) => msg === 'not a request'),
    [{ level: 30, status: 400, address: '127.0.0.1' }],
  )
  t.notMatch(logged(), new RegExp(sts))
})

t.test('fixed limits stand in the description of the API and in the documentation', async t => {
  const description = JSON.stringify(openApi(allRoutes(undefined)))
  const page = readFileSync(join(checkout, 'docs/service.md'), 'utf8')
  const { accounts, users, serviceAccounts, pipelines, secrets, daemons, keysPerUser } = DEFAULT_LIMITS
  const limits = { accounts, users, 'service accounts': serviceAccounts, pipelines, secrets, daemons }
  for (const [what, most] of Object.entries({ ...limits, 'personal keys': keysPerUser })) {
    t.match(description, `${most} ${what}`)
    t.match(page, new RegExp(`\\| ${what}[^|]* \\| ${most.toLocaleString('en')} `))
  }
})

t.test('behind trusted proxies the address of the client counts', async t => {
  const limits = { failedTries: { limit: 1, windowMs: 60_000 } }
  const wrong = `sts_${'0'.repeat(40)}`
  const from = (address: string) => ({ 'x-forwarded-for': address })
  const behind = await start(t, { limits, trustedProxies: ['127.0.0.0/8'] })
  await behind.ok(401, 'GET', '/v3/pipeline', wrong, undefined, from('192.0.2.1'))
  await behind.ok(429, 'GET', '/v3/pipeline', wrong, undefined, from('192.0.2.1'))
  await behind.ok(401, 'GET', '/v3/pipeline', wrong, undefined, from('192.0.2.2'))
  await behind.ok(429, 'GET', '/v3/pipeline', wrong, undefined, from('192.0.2.9, 192.0.2.2'))
  await behind.ok(401, 'GET', '/v3/pipeline', wrong, undefined, from('<b>1</b>'))
  await behind.ok(429, 'GET', '/v3/pipeline', wrong, undefined, from('<b>2</b>'))
})

t.test('a body: its size, its type, its shape', async t => {
  const { sts, send: ask } = await start(t, { maxBody: 2000 })
  const post = (body: string, headers: Record<string, string> = { 'content-type': 'application/json' }) =>
    ask('POST', '/v3/pipeline', { key: sts, body, headers })
  const cases: [string, Record<string, string> | undefined, number, object][] = [
    ['{"title":"x"', undefined, 400, { code: 'invalid_json' }],
    ['{"value": SECRET}', undefined, 400, { message: "the body is not valid JSON: Unexpected token 'S'" }],
    ['["a" "SECRET"]', undefined, 400, { message: /^(?!.*SECRET)the body is not valid JSON: / }],
    ['[{"a":9007199254740993}]', undefined, 400, { message: /contains 9007199254740993, .* write it in quotes/ }],
    ['undefined', undefined, 400, { message: 'the body is not valid JSON: Unexpected token' }],
    ['"x"', undefined, 400, { code: 'invalid_body' }],
    ['', undefined, 400, { code: 'invalid_body' }],
    ['{"__proto__":{}}', undefined, 400, { code: 'invalid_json' }],
    [`{"a":${'['.repeat(80)}${']'.repeat(80)}}`, undefined, 400, { code: 'invalid_json' }],
    ['x'.repeat(2001), undefined, 413, { code: 'body_too_large' }],
    ['{}', { 'content-type': 'text/plain' }, 415, { code: 'unsupported_content' }],
    ['{}', { 'content-type': 'application/json', 'content-encoding': 'gzip' }, 415, { code: 'unsupported_encoding' }],
    [
      '{"titel":"x","config":{}}',
      undefined,
      400,
      {
        errors: [
          { path: 'title', message: /missing/ },
          { path: 'titel', message: 'unknown option; did you mean "title"?' },
        ],
      },
    ],
    [
      '{"title":"x","config":{"destinations":{"out":{"type":"blackhole","inputs":["ingst"]}}}}',
      undefined,
      400,
      { errors: [{ path: /^config\.destinations\.out\.inputs/, message: /ingest/ }] },
    ],
  ]
  for (const [body, headers, status, expected] of cases) {
    const got = await post(body, headers)
    t.equal(got.status, status, `${body.slice(0, 40)}: ${got.text}`)
    t.match(got.body, expected, body.slice(0, 40))
  }
  const headers = { 'content-type': 'application/json' }
  const optional = await ask('POST', `/v3/pipeline/${'0'.repeat(24)}/publish`, { key: sts, body: 'null', headers })
  t.match(optional, { status: 400, body: { code: 'invalid_body' } }, 'null is not an empty body')
  t.equal(
    (
      await ask('POST', '/v3/pipeline', {
        key: sts,
        body: Buffer.from([0x7b, 0xff, 0x7d]),
        headers: { 'content-type': 'application/json' },
      })
    ).status,
    400,
  )
})

t.test('a body with very many mistakes is answered briefly, and soon', async t => {
  const { manager, sts, send: ask } = await start(t, { maxBody: 1_000_000 })
  const names = (many: number, name = 'n', value: unknown = 0) =>
    Object.fromEntries(Array.from({ length: many }, (_, i) => [name + i.toString(36), value]))
  const post = async (path: string, key: string, body: unknown) => {
    const headers = { 'content-type': 'application/json' }
    return await ask('POST', path, { key, headers, body: typeof body === 'string' ? body : JSON.stringify(body) })
  }
  const many: [path: string, key: string, body: unknown][] = [
    ['/v3/pipeline', sts, names(9000)],
    ['/v3/pipeline', sts, { title: 'x', config: { destinations: {}, ...names(9000) } }],
    ['/v3/fleet/report', sts, names(900)],
    ['/v3/user', manager, names(900)],
    [`/v3/pipeline/${'0'.repeat(24)}/publish`, sts, names(900)],
  ]
  for (const [path, key, body] of many) {
    const got = await post(path, key, body)
    t.match(got, { status: 400, body: { message: /at least \d+ errors; the first 50 are listed$/ } }, path)
    t.equal(got.body.errors.length, 50)
    t.ok(got.text.length < 64 * 1024, `${path}: ${got.text.length}`)
  }
  const totals = { totals: names(900, 'N', 'x') }
  const tooMany = /^the body is too large: it has more than 1000 values/
  const few: [path: string, key: string, body: unknown, error: RegExp][] = [
    ['/v3/fleet/report', sts, totals, /^the body is not valid: daemon_id is missing.*, and 6 more$/],
    ['/v3/user', manager, { ['x'.repeat(900_000)]: 1 }, /, and 2 more$/],
    ['/v3/user/key', manager, { expires_in: '1'.repeat(900_000) }, /expires_in has no unit/],
    [
      '/v3/pipeline',
      sts,
      `{"title":[${'1,'.repeat(200_000)}1]}`,
      /^the body is too large: it has more than 10000 values/,
    ],
    [
      '/v3/pipeline',
      sts,
      `{"title":[${'{},'.repeat(200_000)}1]}`,
      /^the body is too large: it has more than 10000 values/,
    ],
    ['/v3/pipeline', sts, `{"title":"${'\\",['.repeat(200_000)}"}`, /^the body is not valid: title must have/],
    ['/v3/user', manager, '{"\\u005f_proto__":1}', /__proto__/],
    ['/v3/user/key', manager, names(75_000), tooMany],
    ['/v3/fleet/report', sts, { totals: names(75_000) }, tooMany],
    [`/v3/pipeline/${'0'.repeat(24)}/publish`, sts, names(75_000), tooMany],
  ]
  for (const [path, key, body, error] of few) {
    const got = await post(path, key, body)
    t.match(got, { status: 400, body: { message: error } }, `${error}: ${got.text.slice(0, 200)}`)
    t.ok(got.text.length < 16 * 1024, `${got.text.length}`)
  }
  // Ordinary: one text of the same size.
  const cost = async (path: string, key: string, body: string) => {
    const times: number[] = []
    for (let i = 0; i < 5; i++) {
      const before = process.cpuUsage()
      await post(path, key, body)
      const { user, system } = process.cpuUsage(before)
      times.push(user + system)
    }
    return Math.min(...times)
  }
  for (const [path, key, of] of [
    ['/v3/user/key', manager, names(75_000)],
    ['/v3/pipeline', sts, { title: 'x', config: names(75_000) }],
  ] as const) {
    const body = JSON.stringify(of)
    const [ordinary, hostile] = [
      await cost(path, key, `{"title":"${'x'.repeat(body.length)}"}`),
      await cost(path, key, body),
    ]
    t.ok(hostile < 8 * ordinary, `${path}: ${hostile} µs instead of ${ordinary}`)
  }
  // Just within the bounds. Ordinary: the same body, which is refused before its configuration is checked.
  const out = { type: 'http', inputs: ['ingest'], url: 'http://127.0.0.1' }
  const config = { destinations: names(250, 'n', { ...out, ...names(30) }) }
  const [ordinary, hostile] = [
    await cost('/v3/pipeline', sts, JSON.stringify({ config, title: 1 })),
    await cost('/v3/pipeline', sts, JSON.stringify({ config, title: 'x' })),
  ]
  t.ok(hostile < 14 * ordinary, `components: ${hostile} µs instead of ${ordinary}`)
})

t.test('lists come in pages', async t => {
  const { manager, ok, client } = await start(t)
  for (let i = 0; i < 5; i++)
    await ok(201, 'POST', '/v3/pipeline', manager, { title: `p${i}`, config: pipelineConfig() })
  const titles: string[] = []
  let after = ''
  for (let pages = 1; ; pages++) {
    const { meta, data } = (await ok(200, 'GET', `/v3/pipeline?limit=2${after && `&after=${after}`}`, manager)).body
    titles.push(...data.map(({ title }: { title: string }) => title))
    after = meta.page.next
    if (after === null) {
      t.equal(pages, 3)
      break
    }
  }
  t.same(titles.sort(), ['p0', 'p1', 'p2', 'p3', 'p4'])
  const { items, next } = await client(manager).pipelines.all({ limit: 3 })
  t.same([items.length, typeof next], [3, 'string'])
})

t.test('large lists come in small pages', async t => {
  const { manager, ok } = await start(t)
  const large = { destinations: { out: { type: 'blackhole', inputs: ['ingest'] } }, tests: [] }
  const config = { ...large, data_dir: 'x'.repeat(100_000) }
  for (let i = 0; i < 15; i++) await ok(201, 'POST', '/v3/pipeline', manager, { title: `p${i}`, config })
  const first = await ok(200, 'GET', '/v3/pipeline?limit=100', manager)
  t.ok(first.text.length < 1_100_000)
  const rest = await ok(200, 'GET', `/v3/pipeline?limit=100&after=${first.body.meta.page.next}`, manager)
  t.equal(first.body.data.length + rest.body.data.length, 15)
  t.equal(rest.body.meta.page.next, null)
})

t.test('answers that nobody reads take a bounded part of the memory', async t => {
  const unsent = new AccountQuotas({ requests: Number.POSITIVE_INFINITY, bytes: 1_000_000 })
  const socket = new EventEmitter()
  const send = (account: string, bytes: number) => {
    const answer = Object.assign(new EventEmitter(), { req: { socket } })
    // Each character takes two bytes.
    hold(unsent, account, 'é'.repeat(bytes / 2), answer as unknown as ServerResponse)
    return answer
  }
  const full = { status: 503, code: 'overloaded', headers: { 'retry-after': '1' } }
  const answers = Array.from({ length: 7 }, () => send('a', 100_000))
  t.throws(() => send('a', 100_000), full, 'an account leaves something for others')
  t.doesNotThrow(() => send('a', 1000), 'short answers go on')
  t.doesNotThrow(() => send('b', 100_000))
  t.throws(() => send('b', 150_000), full)
  answers[0]!.emit('close')
  t.doesNotThrow(() => send('b', 150_000), 'as soon as one is read there is room')
  socket.emit('close')
  t.doesNotThrow(() => send('b', 700_000), 'when a connection closes, so do replies that waited for earlier ones')
})

t.test('bodies that are under way take a bounded part of the memory', async t => {
  const { url, sts, ok } = await start(t, { maxBody: 5 << 20 }) // They leave some of the share.
  const said: string[] = []
  const sockets = Array.from({ length: 8 }, () => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.on('error', () => {}).on('data', part => said.push(String(part)))
    const headers = [
      'Host: x',
      `Authorization: Token ${sts}`,
      'Content-Type: application/json',
      'Content-Length: 5242880',
    ]
    socket.write(`POST /v3/pipeline HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`)
    socket.write(Buffer.alloc((5 << 20) - 1, '['))
    return socket
  })
  await until(() => said.length > 0)
  t.match(said[0], /^HTTP\/1.1 503 .*"account_share_exceeded".*may have \d+ \w+ that are not answered yet/s)
  t.equal((await ok(201, 'POST', '/v3/pipeline', sts, { title: 'p', config: pipelineConfig() })).status, 201)
  for (const socket of sockets) socket.destroy()
})

t.test('an end waits for what is under way, and for no connection that is open', async t => {
  let release = () => {}
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  let came = () => {}
  const taken = new Promise<void>(resolve => {
    came = resolve
  })
  const running = await startService(join(testFolder(t), 'state'), {
    keepAliveMs: 600_000,
    ingest: {
      async ingest() {
        came()
        await held
      },
    },
  })
  const { key } = running.made.manager
  await running.send('HEAD', '/v3/pipeline', { key })
  const under = running.send('POST', '/v3/ingest/x', { key, body: '{}' })
  await taken
  const closed = running.close()
  await until(() =>
    running.send('HEAD', '/v3/pipeline', { key }).then(
      () => false,
      () => true,
    ),
  )
  release()
  const got = await under
  t.equal(got.status, 202)
  t.equal(got.headers.get('connection'), 'close')
  await closed
  t.pass('though the client would have kept its connection for minutes')
})
