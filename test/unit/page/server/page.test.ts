import { chmodSync, renameSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { components } from '../../../../src/components/list.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { componentsOf } from '../../../../src/engine/config/inputs.js'
import { type Config, parseConfig } from '../../../../src/engine/config/load.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { systemClock } from '../../../../src/lib/time.js'
import { Gone } from '../../../../src/net/http/server/refusal.js'
import { Access } from '../../../../src/page/server/access.js'
import { StatusPage } from '../../../../src/page/server/page.js'
import type { Turn } from '../../../../src/page/server/watch/budget.js'
import { PageWatch } from '../../../../src/page/server/watch/watch.js'
import { HOST } from '../../../support/address.js'
import { asked } from '../../../support/asked.js'
import { batchOf } from '../../../support/batches.js'
import { checkout } from '../../../support/checkout.js'
import { testFolder } from '../../../support/folder.js'
import { ManualTime } from '../../../support/manual-time.js'
import { until } from '../../../support/until.js'

const TOKEN = 'the-token-of-the-page'
const KEY = 'a-key-of-the-destination'
const URL_KEY = 'a-key-in-its-url'
const PATH_KEY = 'B9x8Y7z6W5v4U3t2S1r0Q9p8'
const QUOTED = 'no poison, please'

const PIPELINE = `
sources:
  in: { type: file, include: [/var/log/<b>'"&.log] }
processors:
  limit:
    type: throttle # ${KEY} was here once
    inputs: [in]
    limit: 20
    window: 1 Seconds
    key_field: .app
destinations:
  up:
    type: http
    inputs: [limit]
    url: http://127.0.0.1:1/hooks/${PATH_KEY}?token=${URL_KEY}
    auth: { type: token, key: ${KEY} }
`

/** A page at a port of its own, with what it is asked for. */
async function opened(t: Test, page = `{ listen: '${HOST}:0' }`) {
  const read = (page: string): Config =>
    parseConfig(`status_page: ${page}${PIPELINE}`, '/etc/<i>/sluice.yaml', { env: { PAGE_TOKEN: TOKEN }, components })
  const state = { config: read(page), stopping: false, reason: 'no <script>alert(1)</script> & "so" on' }
  const logged: string[] = []
  const log = pino({}, { write: line => void logged.push(line) })
  const metrics = new Metrics(log)
  const counters = componentsOf(state.config).map(({ id, kind, type }) => metrics.component(id, kind, type))
  const taps = new Set<(batch: EventBatch) => void>()
  const reports = {
    metrics,
    connections: { closed() {}, refused() {} },
    components: () => componentsOf(state.config),
    destinations: () => [{ id: 'up', state: 'holding', reason: `${QUOTED}: ${state.reason}`, ownReason: state.reason }],
    isStopping: () => state.stopping,
    totals: () => ({ received: 10, passed: 7, discarded: { limit: { throttled: 2 } }, delivered: {}, undelivered: 1 }),
    about: () => ({ config: '/etc/<i>/sluice.yaml', data_dir: '/var/lib/sluice' }),
  }
  const nothing = () => undefined
  const tap = (id: string, tap: (batch: EventBatch) => void) => {
    if (id !== 'in') return undefined
    taps.add(tap)
    return () => void taps.delete(tap)
  }
  const links = {
    tap,
    outputs: () => ['in'],
    processor: nothing,
    waiting: nothing,
    readers: () => [],
  }
  const served = new StatusPage(
    { reports, pipeline: { taps: links, follow: () => () => {} }, config: () => state.config, clock: systemClock },
    state.config.statusPage!,
    log,
  )
  t.teardown(() => served.close())
  const change = async (page: string) => {
    const config = read(page)
    const { use } = await served.prepare(config.statusPage!)
    state.config = config
    use()
  }
  await change(page)
  const place = () => {
    const { hostname, port } = new URL(served.url!)
    return { host: hostname, port: Number(port) }
  }
  const get = (path: string, headers: Record<string, string> = {}, method = 'GET', body = '') =>
    asked({ ...place(), path, method, headers }, body)
  return { served, state, get, change, logged, taps, counters, place }
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const API = ['/', '/api/v1/status', '/api/v1/history', '/api/v1/components/up', '/api/v1/tap?component=in']

t.test('the page without a script, and its documents', async t => {
  const { get, state } = await opened(t)
  const page = await get('/')
  t.equal(page.status, 200)
  t.match(page.headers, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': /^default-src 'none'; script-src 'self'; style-src 'self';.* frame-ancestors 'none'$/,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
  })
  t.match(page.text, 'received <b>10</b></span> = <span>passed <b>7</b></span> + <span>discarded <b>2</b>')
  t.match(page.text, 'holding: no &#60;script&#62;alert(1)&#60;/script&#62; &#38; &#34;so&#34; on')
  t.notMatch(page.text, /<script>|style=|onload/, 'what others wrote is text')
  t.match(page.text, /<script [^>]*src="page\.js\?v=/)
  t.match(page.text, /<th scope="row">limit<\/th><td>throttle<\/td><td>in<\/td>/)
  t.equal((await get('/', {}, 'HEAD')).text, '')

  const status = JSON.parse((await get('/api/v1/status')).text)
  t.match(status, {
    books: { received: 10, passed: 7, in_flight: 1 },
    components: [
      { id: 'in', inputs: [] },
      { id: 'limit', inputs: ['in'] },
      { id: 'up', last_error: state.reason },
    ],
  })
  t.match(JSON.parse((await get('/api/v1/history?component=up')).text), {
    step_ms: 1000,
    names: ['received', 'sent', 'discarded', 'in_flight'],
  })
  t.same(Object.keys(JSON.parse((await get('/api/v1/history?points=3')).text).components), ['in', 'limit', 'up'])
  for (const [path, expected] of [
    ['/api/v1/history?component=none', 404],
    ['/api/v1/history?points=0', 400],
    ['/api/v1/history?points=1e9', 400],
    ['/api/v1/components/none', 404],
    ['/api/v1/components/up/more', 404],
    ['/api/v1/components/%ff', 404],
    ['/api/v1/constructor', 404],
    ['/api/v1/', 404],
    ['/api/v2/status', 404],
    ['/../../../etc/passwd', 404],
    ['/..%2f..%2fpackage.json', 404],
    ['/bundle/page.js', 404],
    ['//example.com/', 404],
  ] as const)
    t.equal((await get(path)).status, expected, path)
})

t.test('a component: its configuration with keys hidden, and its numbers with their help', async t => {
  const { get, state } = await opened(t, `{ listen: '${HOST}:0', token: '\${PAGE_TOKEN}' }`)
  const up = await get('/api/v1/components/up')
  t.match(JSON.parse(up.text), {
    id: 'up',
    kind: 'destination',
    type: 'http',
    file: '/etc/<i>/sluice.yaml',
    line: 12,
    summary: /HTTP/,
    docs: `${checkout}/config/reference.md#destination-http`,
  })
  t.match(
    JSON.parse(up.text).config,
    /^up:\n {2}type: http\n {2}inputs: \[ limit \]\n {2}url: http:\S+hooks\/•+\?token=•+\n/,
  )
  const { series } = JSON.parse(up.text)
  t.match(
    series.find(({ name }: { name: string }) => name === 'sluice_component_sent_events_total'),
    {
      help: /^Events passed on/,
      labels: { component_id: 'up' },
      value: 0,
    },
  )
  const all = await Promise.all([...API, '/api/v1/components/limit'].map(path => get(path)))
  for (const { text } of all) for (const secret of [KEY, URL_KEY, PATH_KEY, TOKEN]) t.notMatch(text, secret)
  t.equal(state.config.statusPage?.token?.reveal(), TOKEN)
})

t.test('pages of other sites, and names that lead here, are refused everywhere', async t => {
  const { get, place } = await opened(t)
  const { port } = place()
  const own = `${HOST}:${port}`
  const navigation = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
  const FRAME = 'of a frame that is cut off'
  for (const [headers, why] of [
    [{ host: 'example.com' }, 'a name that leads here'],
    [{ host: `127.0.0.1.example.com:${port}` }, 'one that looks local'],
    [{ host: `localhost.example.com` }, 'another one'],
    [{ host: 'localhost@example.com' }, 'a user'],
    [{ host: '[::2]' }, 'another address'],
    [{ origin: 'http://example.com' }, 'a page of another site'],
    [{ origin: `http://${HOST}:1` }, 'of another port'],
    [{ origin: `http://${own}.example.com` }, 'of a longer name'],
    [{ origin: 'null' }, FRAME],
    [{ origin: 'null', 'sec-fetch-site': 'cross-site' }, 'the same, of another site'],
    [{ 'sec-fetch-site': 'cross-site' }, 'an image'],
    [{ 'sec-fetch-site': 'same-site' }, 'another port of this machine'],
    [{ ...navigation, 'sec-fetch-dest': 'iframe' }, 'a frame'],
  ] as const) {
    for (const path of [...API, '/nothing']) {
      const { status, text } = await get(path, { host: own, ...headers })
      if (status !== 403 || /limit|http:/.test(text)) t.fail(`${path}: ${status} ${text}`)
    }
    const { status } = await get('/api/v1/session', { host: own, ...headers }, 'POST', 'token=x')
    // Forms of the page itself have that origin, and nothing is won by it: the page has no token.
    t.equal(status, why === FRAME ? 400 : 403, why)
  }
  for (const headers of [
    { host: 'localhost' },
    { host: `LOCALHOST:${port}` },
    { host: '127.0.0.1:9599' },
    { host: '[::1]:9599' },
    { host: own, origin: `http://${own}` },
    { host: own, origin: `https://${own}` },
    { host: own, 'sec-fetch-site': 'same-origin' },
    { host: own, 'sec-fetch-site': 'none' },
    { host: 'localhost', origin: 'https://of.a.proxy', 'sec-fetch-site': 'same-origin' },
  ])
    t.equal((await get('/api/v1/status', headers)).status, 200, JSON.stringify(headers))
  const link = { host: own, ...navigation, 'sec-fetch-dest': 'document' }
  t.equal((await get('/', link)).status, 200, 'a link leads to the page')
  t.equal((await get('/api/v1/status', link)).status, 403, 'and to nothing else')
  t.equal((await get('/', { host: own }, 'GET')).headers['access-control-allow-origin'], undefined)

  const socket = connect(port, HOST)
  socket.write('GET /api/v1/status HTTP/1.0\r\n\r\n')
  let text = ''
  for await (const part of socket.setEncoding('latin1')) text += part
  t.match(text, /^HTTP\/1.1 403 /, 'without a name')
})

t.test('nothing but GET and HEAD', async t => {
  const { get } = await opened(t)
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE'])
    for (const path of API) t.equal((await get(path, {}, method)).status, 405, `${method} ${path}`)
  for (const path of ['/api/v1/live', '/api/v1/tap?component=in'])
    t.equal((await get(path, {}, 'HEAD')).status, 405, `HEAD ${path}: it would not end`)
  t.equal((await get('/api/v1/session')).status, 405)
})

t.test('texts of events need the token', async t => {
  const { get, change, taps, place } = await opened(t)
  const path = '/api/v1/tap?component=in&limit=1'
  t.match(await get(path), { status: 401, text: /set status_page\.token_file/ })
  t.match(await get(path, bearer(TOKEN)), { status: 401 }, 'there is none')
  t.equal((await get('/api/v1/session', {}, 'POST', `token=${TOKEN}`)).status, 400)
  const file = join(testFolder(t), 'token')
  writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 })
  await change(`{ listen: '${HOST}:0', token_file: ${file} }`)
  t.match(await get(path), { status: 401, text: /Authorization: Bearer/, headers: { 'www-authenticate': 'Bearer' } })
  const tapped = async (headers: Record<string, string>) => {
    const answer = get(path, headers)
    await until(() => taps.size === 1)
    for (const tap of taps) tap(batchOf(['{"secret":"text"}']))
    return (await answer).text
  }
  t.equal(await tapped(bearer(TOKEN)), '{"secret":"text"}\n')
  const session = await get('/api/v1/session', {}, 'POST', `token=${TOKEN}`)
  const cookie = String(session.headers['set-cookie'])
  t.equal(session.status, 204)
  const { port } = place()
  t.match(cookie, new RegExp(`^sluice_page_${port}=[\\w-]{43}; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict$`))
  const own = { cookie: `theme=dark; ${cookie.split(';')[0]}` }
  t.equal(await tapped(own), '{"secret":"text"}\n')
  for (const forged of [`sluice_page_${port}=`, `sluice_page_${port}=${'A'.repeat(43)}`, `sluice_page=${TOKEN}`])
    t.equal((await get(path, { cookie: forged })).status, 401, forged)
  t.equal((await get(path, { ...own, host: 'localhost:1' })).status, 401, 'another port has its own sessions')

  writeFileSync(`${file}.new`, 'another-token-of-the-page\n', { mode: 0o600 })
  renameSync(`${file}.new`, file)
  t.equal((await get(path, own)).status, 401, 'another token ends the sessions')
  t.equal(await tapped(bearer('another-token-of-the-page')), '{"secret":"text"}\n')
})

t.test('a session by a form, by JSON, and through a proxy with TLS', async t => {
  const { get } = await opened(t, `{ listen: '${HOST}:0', token: '\${PAGE_TOKEN}' }`)
  const post = (body: string, headers: Record<string, string> = {}) => get('/api/v1/session', headers, 'POST', body)
  const html = { accept: 'text/html,*/*;q=0.8', 'content-type': 'application/x-www-form-urlencoded' }
  t.match(await post(`token=${TOKEN}`, html), { status: 303, headers: { location: '../../' } })
  const wrong = await post('token=wrong', html)
  t.match(wrong, { status: 303, headers: { location: '../../?wrong' } })
  t.notOk(wrong.headers['set-cookie'])
  const json = { 'content-type': 'application/json' }
  t.equal((await post(JSON.stringify({ token: TOKEN }), json)).status, 204)
  for (const body of ['', '{}', 'null', '[]', '{"token":1}', '{', '{"token":""}'])
    t.equal((await post(body, json)).status, 400, body)
  t.equal((await post('x'.repeat(1025))).status, 413)
  const host = 'localhost:9599'
  const secure = await post(`token=${TOKEN}`, { host, origin: `https://${host}` })
  t.match(String(secure.headers['set-cookie']), /; Secure$/)
})

t.test('wrong tokens are slow, some at a time, and the right one is not', async t => {
  const { get, logged } = await opened(t, `{ listen: '${HOST}:0', token: '\${PAGE_TOKEN}' }`)
  const path = '/api/v1/tap?component=none'
  const began = performance.now()
  const wrong = await Promise.all(Array.from({ length: 30 }, (_, i) => get(path, bearer(`wrong-${i}`))))
  const took = performance.now() - began
  t.ok(took >= 990, 'it took a second')
  const by = (status: number) => wrong.filter(answer => answer.status === status)
  // What a busy machine reads a second later is among the first ones again.
  if (took < 1980) t.same([by(401).length, by(429).length], [8, 22])
  t.equal(by(429)[0]!.headers['retry-after'], '1')
  t.equal((await get(path, bearer(TOKEN))).status, 404, 'there is no such component')
  t.notMatch(logged.join(''), TOKEN)
})

t.test('an address that others reach shows nothing without the token', async t => {
  const { get } = await opened(t, `{ listen: '0.0.0.0:0', token: '\${PAGE_TOKEN}' }`)
  const host = { host: 'logs.example.com:9599' }
  for (const path of [...API.slice(1), '/api/v1/live'])
    t.match(await get(path, host), { status: 401, text: /needs? (the|a) token/ }, path)
  const login = await get('/', host)
  t.equal(login.status, 401)
  t.match(login.text, /<form method="post" action="api\/v1\/session">/)
  t.notMatch(login.text, /limit|holding|sluice\.yaml/)
  t.match((await get('/?wrong', host)).text, 'That token is wrong.')
  const session = await get('/api/v1/session', host, 'POST', `token=${TOKEN}`)
  const cookie = String(session.headers['set-cookie']).split(';')[0]!
  t.match((await get('/', { ...host, cookie })).text, '<th scope="row">limit</th>')
  t.equal((await get('/api/v1/status', { ...host, ...bearer(TOKEN) })).status, 200)
  t.equal((await get('/api/v1/status', { ...host, cookie, origin: 'http://example.com' })).status, 403)
})

t.test('a token that cannot be used is a mistake at the start, and keeps the last one later', async t => {
  const file = join(testFolder(t), 'token')
  const start = () => opened(t, `{ listen: '${HOST}:0', token_file: ${file} }`)
  await t.rejects(start(), { message: /^no token from .*token: the file does not exist; put the token there$/ })
  writeFileSync(file, TOKEN, { mode: 0o644 })
  chmodSync(file, 0o644)
  await t.rejects(start(), { message: /everyone can read it; run chmod 600 on it/ })
  chmodSync(file, 0o600)
  writeFileSync(file, 'short')
  await t.rejects(start(), { message: /fewer than 16 characters/ })
  writeFileSync(file, TOKEN)
  const { get, logged } = await start()
  const path = '/api/v1/tap?component=none'
  chmodSync(file, 0o644)
  t.equal((await get(path, bearer(TOKEN))).status, 404)
  t.match(logged.join(''), 'cannot read the token again; keeping the current one')
})

t.test('sessions end after twelve hours, and the oldest makes room', async t => {
  const time = new ManualTime()
  const access = new Access({ token: { reveal: () => TOKEN } } as never, pino({ enabled: false }), time)
  const begin = async () => (await access.begin(TOKEN, {})).split(';')[0]!
  const known = (cookie: string) => access.isKnown({ headers: { cookie } } as never)
  const first = await begin()
  t.equal(await known(first), true)
  for (let i = 0; i < 63; i++) await begin()
  t.equal(await known(first), true)
  const last = await begin()
  t.equal(await known(first), false, 'the 65th replaces the first')
  await time.advance(12 * 3_600_000 - 1)
  t.equal(await known(last), true)
  await time.advance(1)
  t.equal(await known(last), false)
  await t.rejects(access.begin('wrong', {}), { message: 'the token is wrong' })
})

t.test('questions know when their client has gone', async t => {
  const { place } = await opened(t, `{ listen: '${HOST}:0', token: '\${PAGE_TOKEN}' }`)
  const turns: Turn[] = []
  const waits = (_q: unknown, ...more: unknown[]) => {
    turns.push(more.find(one => typeof one === 'function') as Turn)
    return new Promise<never>(() => {})
  }
  t.intercept(PageWatch.prototype, 'find', { value: waits })
  t.intercept(PageWatch.prototype, 'whatIf', { value: waits })
  for (const path of ['find?q=a', 'what-if?component=limit']) {
    const { host, port } = place()
    const socket = connect(port, host)
    socket.write(`GET /api/v1/${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`)
    const turn = await until(() => turns.pop())
    const isGone = async () => {
      try {
        await turn()
        return false
      } catch (error) {
        if (!(error instanceof Gone)) throw error
        return true
      }
    }
    t.equal(await isGone(), false, path)
    socket.destroy()
    await until(isGone)
  }
})

t.test('news reach those who read already when another reader comes', async t => {
  const { place, state } = await opened(t)
  const live = () => {
    const { host, port } = place()
    const socket = connect(port, host)
    t.teardown(() => socket.destroy())
    const reader = { text: '' }
    socket.setEncoding('utf8').on('data', part => (reader.text += part))
    socket.write('GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n')
    return reader
  }
  const first = live()
  await until(() => first.text.split('event: status').length > 2)
  state.reason = 'another reason'
  const began = performance.now()
  const second = live()
  await until(() => second.text.includes(state.reason))
  await until(() => first.text.includes(state.reason))
  t.ok(performance.now() - began < 8000, 'it does not wait for the status that is sent every ten seconds')
})
