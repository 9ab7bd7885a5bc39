import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { httpDestination } from '../../../../src/components/http/destination.js'
import type { Reach } from '../../../../src/core/options/reach.js'
import { dialOptions } from '../../../../src/net/dial-options.js'
import { Dialer } from '../../../../src/net/dialer.js'
import { ProxySettings, variableFor } from '../../../../src/net/proxy.js'
import { makeCertificates } from '../../../support/certificates.js'
import { events, failure, make, never, receiver, started } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'

interface ProxyServer {
  readonly url: string
  /** What it was asked for: `CONNECT host:port`, `POST http://...`. */
  readonly asked: string[]
  /** The credentials of each request. */
  readonly authorized: (string | undefined)[]
  /** What it refuses with; undefined: it passes on. */
  status: number | undefined
  password: string | undefined
  close(): Promise<void>
}

/** A proxy as squid is one: CONNECT, and requests with whole addresses. */
async function startProxy(t: Test): Promise<ProxyServer> {
  const sockets = new Set<Socket>()
  const server = createServer((incoming, outgoing) => {
    const status = answerTo(incoming)
    if (status !== undefined) return outgoing.writeHead(status).end('from the proxy')
    const { method, url, headers } = incoming
    const { 'proxy-authorization': _, ...rest } = headers
    const passed = request(url!, { method: method!, headers: rest }, answer => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    })
    passed.on('error', () => outgoing.writeHead(502).end())
    incoming.pipe(passed)
  })
  const answerTo = ({ method, url, headers }: IncomingMessage): number | undefined => {
    proxy.asked.push(`${method} ${url}`)
    proxy.authorized.push(headers['proxy-authorization'])
    if (proxy.status !== undefined) return proxy.status
    const wanted = proxy.password && `Basic ${Buffer.from(`sluice:${proxy.password}`).toString('base64')}`
    return wanted && headers['proxy-authorization'] !== wanted ? 407 : undefined
  }
  server.on('connection', socket => void sockets.add(socket.on('error', () => {})))
  server.on('connect', (incoming: IncomingMessage, socket: Socket) => {
    socket.on('error', () => {})
    const status = answerTo(incoming)
    if (status !== undefined) return socket.end(`HTTP/1.1 ${status} No\r\n\r\n`)
    const [host, port] = incoming.url!.split(':')
    const through = connect(Number(port), host)
    through.on('error', () => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'))
    through.on('connect', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      through.pipe(socket).pipe(through)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const close = async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => server.close(resolve))
  }
  const proxy: ProxyServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: [],
    authorized: [],
    status: undefined,
    password: undefined,
    close,
  }
  t.teardown(() => server.listening && close())
  return proxy
}

t.test('through a proxy: http as a whole address, https with CONNECT', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const dir = testFolder(t)
  const files = makeCertificates(openssl, dir, ['server', 'client'])
  const proxy = await startProxy(t)
  const plain = await receiver(t)
  const tls = {
    cert: files.pem('server.pem'),
    key: files.pem('server.key'),
    ca: files.pem('ca.pem'),
    requestCert: true,
    rejectUnauthorized: true,
  }
  const secure = await receiver(t, { tls })
  const password = join(dir, 'password')
  writeFileSync(password, 'first-secret\n', { mode: 0o600 })
  proxy.password = 'first-secret'
  const auth = { user: 'sluice', password_file: password }
  const client = {
    ca_file: files.path('ca.pem'),
    cert_file: files.path('client.pem'),
    key_file: files.path('client.key'),
  }
  const all: string[] = []
  for (const to of [plain, secure]) {
    const { destination, logs } = await started(t, {
      url: to.url('/in?a=1'),
      tls: client,
      proxy: { url: proxy.url, auth },
    })
    for (let i = 0; i < 2; i++) await destination.write(events(2), never)
    t.equal(to.lines().length, 4)
    t.match(logs, [{ level: 30, proxy: proxy.url, msg: 'sending requests through a proxy' }])
    t.notOk(to.requests.some(({ headers }) => 'proxy-authorization' in headers))
    t.equal(to.requests[0]!.headers.host, new URL(to.url()).host)
    t.equal(to.connections, 1, 'kept alive')

    proxy.password = 'second-secret'
    if (to === secure) await destination.stop!(never)
    const again = await started(t, { url: to.url('/in?a=1'), tls: client, proxy: { url: proxy.url, auth } })
    const refused = await failure(again.destination.write(events(1), never))
    t.match(refused, { failure: 'hold' })
    t.match(
      refused.message,
      /proxy .*407.*(it wants another user or password: see proxy.auth)|407.*a proxy answered this; it wants another user or password: see proxy.auth/,
    )
    writeFileSync(password, 'second-secret\n')
    t.ok(await again.destination.changed!(), 'a replaced password ends the hold')
    await again.destination.write(events(1), never)
    proxy.password = 'first-secret'
    writeFileSync(password, 'first-secret\n')
    all.push(JSON.stringify(logs), JSON.stringify(again.logs), refused.message)
  }
  t.match(proxy.asked[0], `POST ${plain.url('/in?a=1')}`)
  t.ok(proxy.asked.includes(`CONNECT ${new URL(secure.url()).host}`))
  t.notMatch(all.join(), /-secret|c2x1aWNl/)
})

t.test('what goes wrong at the proxy is told as its own', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const files = makeCertificates(openssl, testFolder(t), ['server'])
  const proxy = await startProxy(t)
  const secure = await receiver(t, { tls: { cert: files.pem('server.pem'), key: files.pem('server.key') } })
  const plain = await receiver(t)
  const options = { tls: { ca_file: files.path('ca.pem') }, proxy: { url: proxy.url } }
  const attempt = async (url: string, more: Record<string, unknown> = {}) => {
    const { destination } = await started(t, { ...options, url, ...more })
    return await failure(destination.write(events(1), never))
  }
  const statuses: [number, Record<string, string>, RegExp][] = [
    [407, { failure: 'hold', reason: 'proxy_407' }, /it wants another user or password: see proxy.auth/],
    [403, { failure: 'hold', reason: 'proxy_403' }, /it does not allow connections to this host and port/],
    [502, { failure: 'retry', reason: 'proxy_502' }, /it cannot reach the receiver/],
  ]
  for (const [status, wanted, text] of statuses) {
    proxy.status = status
    const error = await attempt(secure.url())
    t.match(error, wanted)
    t.match(error.message, text)
    t.match(error.message, `: the proxy ${proxy.url} answered ${status}`)
  }
  const unclear = await attempt(plain.url())
  t.match(unclear, { failure: 'retry', status: 502 })
  // Either of the two may have answered.
  t.match(unclear.message, `502 from POST ${plain.url()} through the proxy ${proxy.url}`)
  proxy.status = undefined
  t.match(
    (await attempt(secure.url(), { tls: {} })).message,
    /^POST https:.*: the authority of the receiver's certificate is not known/,
  )
  const away = secure.url()
  await secure.close()
  t.match((await attempt(away)).message, /answered 502 .*it cannot reach the receiver/)
  await proxy.close()
  const gone = new RegExp(`the proxy ${proxy.url}: nothing accepts connections there \\(ECONNREFUSED\\)`)
  t.match(await attempt('https://logs.invalid/'), { failure: 'retry', reason: 'proxy_refused', message: gone })
  t.match((await attempt(plain.url())).message, gone)
})

t.test('which proxy the environment and the options name', async t => {
  const context = { log: { child: () => ({}) } } as never
  const env = {
    https_proxy: 'http://u%40x:p%3A1@secure:3128',
    HTTP_PROXY: 'plain:8080',
    NO_PROXY: 'localhost, .internal,10.0.0.0/8 *.example.org,[::1],exact:8443',
  }
  const settings = new ProxySettings('environment', context, env)
  const via = async (url: string) => {
    const found = await settings.viaFor(new URL(url))
    return (
      found && `${found.url.host} ${found.authorization ? Buffer.from(found.authorization.slice(6), 'base64') : '-'}`
    )
  }
  t.equal(await via('https://logs.example.com/'), 'secure:3128 u@x:p:1')
  t.equal(await via('http://logs.example.com/'), 'plain:8080 -')
  for (const direct of [
    'https://localhost/',
    'https://a.internal/',
    'https://internal/',
    'http://10.1.2.3/',
    'https://A.Example.org:99/',
    'https://[::1]:5/',
    'https://exact:8443/',
  ])
    t.equal(await via(direct), undefined, direct)
  for (const proxied of ['https://notinternal/', 'https://11.0.0.1/', 'https://exact/', 'https://example.com/'])
    t.ok(await via(proxied), proxied)
  const target = new URL('https://logs.example.com/')
  t.equal(variableFor(target, { ALL_PROXY: 'x' }), 'ALL_PROXY')
  t.equal(variableFor(target, { HTTPS_PROXY: 'x', no_proxy: '*' }), undefined)
  t.throws(
    () => new ProxySettings('environment', context, { HTTPS_PROXY: 'socks5://u:secret@x' }).urlFor(target),
    /^(?!.*secret).*variable HTTPS_PROXY must be the address of a proxy/,
  )
  t.throws(
    () => new ProxySettings('environment', { ...(context as object), reach: {} } as never),
    /not available to a published pipeline/,
  )

  process.env.HTTPS_PROXY = 'http://u:hidden-secret@127.0.0.1:9'
  t.teardown(() => delete process.env.HTTPS_PROXY)
  const url = 'https://logs.invalid/'
  const unused = await started(t, { url })
  t.match(unused.logs, [
    {
      level: 30,
      variable: 'HTTPS_PROXY',
      msg: 'the environment names a proxy that is not used; set "proxy: environment" to use it',
    },
  ])
  const used = await started(t, { url, proxy: 'environment' })
  const { message } = await failure(used.destination.write(events(1), never))
  t.match(message, 'the proxy http://127.0.0.1:9: nothing accepts connections there')
  t.notMatch(JSON.stringify([used.logs, unused.logs, message]), 'hidden-secret')
  delete process.env.HTTPS_PROXY
  t.match((await started(t, { url, proxy: 'environment' })).logs, [
    { level: 40, msg: /the environment does not name a proxy for this host; connecting directly/ },
  ])
  t.equal((await make({ url })).logs.length, 0)
})

t.test('wrong options of a proxy', t => {
  const url = 'https://example.com/in'
  const table: [unknown, string, RegExp][] = [
    ['system', 'proxy', /./],
    [{ url: 'socks5://proxy:1' }, 'proxy.url', /begins with http/],
    [{ url: 'http://u:p@proxy:1' }, 'proxy.url', /must not hold a user name or password/],
    [{ url: 'http://proxy:1/path' }, 'proxy.url', /a scheme, a host and a port/],
    [
      { url: 'http://proxy:1', auth: { user: 'a' } },
      'proxy.auth',
      /exactly one of password, password_file and credential; none given/,
    ],
    [{ url: 'http://proxy:1', auth: { user: 'a:b', password: 'x' } }, 'proxy.auth.user', /without a colon/],
    [{ url: 'http://proxy:1', no_proxy: ['a b'] }, 'proxy.no_proxy.0', /must be a host, a domain/],
  ]
  for (const [proxy, path, text] of table) {
    const { error } = httpDestination.options.safeParse({ url, proxy })
    const [issue] = error?.issues ?? []
    const inner = issue?.code === 'invalid_union' ? issue.errors.flat().find(({ path }) => path.length > 0) : undefined
    t.equal([...(issue?.path ?? []), ...(inner?.path ?? [])].join('.'), path, text.source)
    t.match((inner ?? issue)?.message, text)
  }
  t.ok(
    httpDestination.options.safeParse({
      url,
      proxy: { url: 'http://proxy:1', no_proxy: ['*', '.a.b', '10.0.0.0/8', 'h:1', '::1', '[::1]:80'] },
    }).success,
  )
  t.match(httpDestination.options.safeParse({ url, headers: { 'Proxy-Authorization': 'x' } }).error?.issues, [
    { message: /is set by proxy.auth/ },
  ])
  t.end()
})

t.test('no tunnel is opened to an address that must not be connected to', async t => {
  const proxy = await startProxy(t)
  const reach = {
    deniedAddress: (address: string) => (address === '10.0.0.1' ? 'private' : undefined),
  } as Partial<Reach> as Reach
  const { context } = await make({ url: 'https://10.0.0.1/' })
  const through = dialOptions.proxy.parse({ url: proxy.url })
  const dialer = new Dialer({ tls: {}, connect_timeout: 1000, proxy: through }, { ...context, reach })
  t.teardown(() => dialer.close())
  const target = new URL('https://10.0.0.1')
  await dialer.open(target, () => {})
  await t.rejects(dialer.dial(target), { message: /10\.0\.0\.1 is private/ })
  t.same(proxy.asked, [])
})
