import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HOST, ownPort } from '../support/address.js'
import { asked } from '../support/asked.js'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { until } from '../support/until.js'

/** The page of a daemon as it runs: by reloads, over the socket, and live. */

const TOKEN = 'a-token-that-is-long-enough'
const PIPELINE = `
shutdown_timeout: 500ms
sources: { app: { type: demo, rate: 100 } }
processors: { limit: { type: throttle, inputs: [app], limit: 1, window: 1 Seconds } }
destinations:
  out: { type: blackhole, inputs: [limit] }
  away: { type: http, inputs: [limit.discarded], url: 'http://${HOST}:1/', retry: { initial: 10ms, max: 20ms } }
`

async function started(t: Test, page = '') {
  const folder = testFolder(t)
  writeFileSync(join(folder, 'token'), TOKEN, { mode: 0o600 })
  const daemon = await startDaemon(t, folder, `${page}${PIPELINE}`)
  await daemon.until(() => daemon.logs().some(({ msg }) => msg === 'started'))
  const reload = async (page: string) => {
    const reloads = () =>
      daemon.logs().filter(({ msg }) => /configuration reloaded|cannot apply/.test(String(msg))).length
    const before = reloads()
    writeFileSync(daemon.configPath, `data_dir: ${folder}/state\nmetrics: { listen: ${HOST}:0 }\n${page}${PIPELINE}`)
    daemon.child.kill('SIGHUP')
    await daemon.until(() => reloads() > before)
  }
  const owner = (path: string, headers = {}) => asked({ socketPath: join(folder, 'state/sluice.sock'), path, headers })
  return { daemon, reload, owner }
}

const urlsIn = (daemon: Daemon) =>
  daemon.logs().flatMap(({ msg, url }) => (msg === 'the page is served' ? [String(url)] : []))
const statusOf = (url: string, headers = {}) =>
  fetch(url, { headers: { connection: 'close', ...headers } }).then(
    answer => answer.status,
    () => 'closed',
  )

t.test('a reload brings it, moves it, changes its token, and takes it away', async t => {
  const { daemon, reload, owner } = await started(t)
  t.equal((await owner('/')).status, 404, 'there is none')
  const [first, second, taken] = [await ownPort(), await ownPort(), new URL(await metricsUrl(daemon)).port]
  const at = (port: number | string, more = '') => `status_page: { listen: '${HOST}:${port}'${more} }\n`
  await reload(at(first))
  const url = `http://${HOST}:${first}/`
  await daemon.until(() => urlsIn(daemon)[0] === url)
  t.equal(await statusOf(url), 200)
  const tap = `${url}api/v1/tap?component=none`
  t.equal(await statusOf(tap), 401)
  await reload(at(first, `, token_file: ./token`))
  t.equal(await statusOf(tap, { authorization: `Bearer ${TOKEN}` }), 404, 'it may look: there is no such component')

  await reload(at(taken))
  t.match(
    daemon.stderr,
    `cannot serve the page at ${HOST}:${taken}: this daemon uses the port for ${await metricsUrl(daemon)}/metrics;`,
  )
  t.equal(await statusOf(url), 200, 'the one before stays')
  await reload(at(first, ', token_file: ./none'))
  t.match(daemon.stderr, /cannot serve the page at .*: no token from .*none: the file does not exist/)
  t.equal(await statusOf(tap, { authorization: `Bearer ${TOKEN}` }), 404)

  await reload(at(second))
  t.equal(await statusOf(url), 'closed')
  t.equal(await statusOf(`http://${HOST}:${second}/`), 200)
  t.match(JSON.parse((await owner('/status')).text), { status_page: { token: false, memory: 64_000_000 } })
  await reload('')
  t.equal(await statusOf(`http://${HOST}:${second}/`), 'closed')
  t.equal((await owner('/')).status, 404)
  t.notOk('status_page' in JSON.parse((await owner('/status')).text))
  t.notMatch(daemon.stderr, TOKEN)
  await daemon.stop(t)
})

const metricsUrl = (daemon: Daemon) => daemon.until(() => /"url":"([^"]+)\/metrics"/.exec(daemon.stderr)?.[1])

t.test('the socket serves the same, and everything to its user', async t => {
  const { daemon, owner } = await started(t, `status_page: { listen: '${HOST}:0' }\n`)
  const page = await owner('/', { host: '127.0.0.1:9599' })
  t.match(page, { status: 200, text: /<th scope="row">limit<\/th>/ })
  t.match(page.headers['content-security-policy'], "default-src 'none'")
  t.match((await owner('/api/v1/tap?component=app&limit=1')).text, '"app":')
  const [one, other] = [await owner('/status', { host: 'sluice' }), await owner('/api/v1/status')]
  const members = ({ text }: { text: string }) => Object.keys(JSON.parse(text))
  t.same(members(one), members(other))
  t.match(JSON.parse(one.text), {
    books: { discarded: {} },
    started_at: /^\d{4}-/,
    host: /./,
    version_of_sluice: /^\d/,
  })
  // A page whose name leads to a forwarded port could read it otherwise.
  for (const path of ['/', '/status', '/tap?component=app&limit=1', '/metrics', '/api/v1/status']) {
    t.equal((await owner(path, { host: 'example.com:9599' })).status, 403, path)
    t.equal((await owner(path, { origin: 'http://example.com' })).status, 403, path)
  }
  t.equal((await owner('/healthz')).status, 200)
  await daemon.stop(t)
})

t.test('live: the status, then numbers that add up, and what is news', async t => {
  const { daemon, reload } = await started(t, `status_page: { listen: '${HOST}:0' }\n`)
  const [url] = urlsIn(daemon)
  const answer = await fetch(`${url}api/v1/live`)
  t.equal(answer.headers.get('content-type'), 'text/event-stream')
  let text = ''
  const read = (async () => {
    for await (const part of answer.body!.pipeThrough(new TextDecoderStream())) text += part
  })().catch(() => {})
  const events = () =>
    [...text.matchAll(/^event: (\w+)\ndata: (.*)\n\n/gm)].map(([, name, data]) => ({ name, ...JSON.parse(data!) }))
  const of = (name: string) => events().filter(event => event.name === name)
  await until('seconds', () => of('second').length >= 3, { show: () => text })
  t.equal(events()[0].name, 'status')
  t.notOk('series' in events()[0])
  for (const { books, components } of of('second')) {
    const { received, passed, discarded, in_flight } = books
    const gone = Object.values<Record<string, number>>(discarded).flatMap(reasons => Object.values(reasons))
    t.equal(received, passed + gone.reduce((sum, events) => sum + events, 0) + in_flight)
    const [inLimit, out, over, held] = components.limit
    t.equal(inLimit, out + over + held)
  }
  const failing = ({ problems }: { problems: { what: string }[] }) => problems.some(({ what }) => /^away is/.test(what))
  await until('the problem', () => of('status').some(failing), { show: () => text })
  const before = of('status').length
  await reload(`status_page: { listen: '${HOST}:0', memory: 32MB }\n`)
  await until('the change', () =>
    of('status')
      .slice(before)
      .some(({ status_page }) => status_page.memory === 32_000_000),
  )
  daemon.child.kill('SIGTERM')
  await daemon.exit
  await read
})

t.test('explain reports what happened to an event, beside what would happen now', async t => {
  const folder = testFolder(t, { 'app.log': '', 'text.log': '' })
  const daemon = await startDaemon(
    t,
    folder,
    `status_page: { listen: '${HOST}:0' }
sources:
  app: { type: file, include: [./app.log], decode: json }
  text: { type: file, include: [./text.log] }
processors:
  limit: { type: throttle, inputs: [app, text], limit: 1, window: 1 Seconds, key_field: .app }
destinations: { out: { type: blackhole, inputs: [limit] } }
`,
  )
  await daemon.until(() => daemon.logs().some(({ msg }) => msg === 'started'))
  appendFileSync(join(folder, 'app.log'), '{"app":"cart","n":1}\n{"app":"cart","n":2}\n')
  appendFileSync(join(folder, 'text.log'), 'first\nsecond\n')
  await daemon.scrapedUntil(scrape => scrape.events('limit').received === 4)
  const explained = async (...args: string[]) =>
    (await command(['explain', '--config', daemon.configPath, '--live', ...args], { cwd: folder })).stdout
  // Its window is over by then.
  const now = await until('what would happen now', async () => {
    const text = await explained('{"n": 2, "app": "cart"}')
    return text.includes('→ limit (throttle): passed') && text
  })
  const at = String.raw`at \d\d:\d\d:\d\d`
  const steps = String.raw`${at} app read it; (${at} )?limit discarded it \(throttled\w*: Beyond [^;]*[^.;]; bucket cart\)`
  t.match(now, new RegExp(`^  then: ${steps}$`, 'm'))
  const delivered = `(${at} )?out received it; (${at} )?out delivered it`
  t.match(await explained('{"app":"cart","n":1}'), new RegExp(`^  then: ${at} app read it; ${delivered}$`, 'm'))
  t.match(
    await explained('--source', 'text', 'second'),
    new RegExp(String.raw`^  then: ${at} text read it; .*bucket \(default\)\)$`, 'm'),
    'without the time at which it is read now',
  )
  t.match(
    await explained('{"app":"cart","n":3}'),
    new RegExp(
      `^  then: the daemon has not kept an event like this one; it keeps discarded events since ${at.slice(3)};`,
      'm',
    ),
  )
  const offline = await command(['explain', '--config', daemon.configPath, '{"app":"cart"}'], { cwd: folder })
  t.equal(offline.stderr, 'sluice explain: with --live, the daemon reports past events like this one\n')
  t.notMatch(offline.stdout, 'then:')
  const { past } = JSON.parse(await explained('--json', '{"app":"cart"}'))
  t.match(past.events.map(({ steps }: { steps: { component: string }[] }) => steps.at(-1)!.component).sort(), [
    'limit',
    'out',
  ])
  await daemon.stop(t)
})

t.test('the exact numbers of one key, the rules of a file, and what top shows of them', async t => {
  const folder = testFolder(t, { 'app.log': '', 'limits.csv': 'key,limit\ncart,1\nmail,2\n' })
  const daemon = await startDaemon(
    t,
    folder,
    `status_page: { listen: '${HOST}:0' }
sources: { app: { type: file, include: [./app.log], decode: json } }
processors:
  limit: { type: throttle, inputs: [app], limit: 9, window: 1h, key_field: .app, limits_file: ./limits.csv }
destinations: { out: { type: blackhole, inputs: [limit] } }
`,
  )
  await daemon.until(() => daemon.logs().some(({ msg }) => msg === 'started'))
  const path = (query: string) => ({
    socketPath: join(folder, 'state/sluice.sock'),
    path: `/api/v1/throttles/limit?${query}`,
  })
  const write = (events: number) => appendFileSync(join(folder, 'app.log'), '{"app":"cart"}\n'.repeat(events))
  write(4)
  await daemon.scrapedUntil(scrape => scrape.events('limit').received === 4)
  const counts = { passed: 1, discarded: 3 }
  t.match(JSON.parse((await asked(path('key=cart'))).text), {
    rules: 2,
    found: 1,
    counted: { exact: true },
    keys: [{ key: 'cart', last_minute: counts, ten_minutes: counts }],
  })
  t.match(JSON.parse((await asked(path('q=nothing'))).text), { searched: 1, found: 0, keys: [] })
  const some = setInterval(() => write(1), 50)
  t.teardown(() => clearInterval(some))
  const { stdout } = await command(['top', '--config', daemon.configPath, '--interval', '500ms', '--count', '1'], {
    cwd: folder,
  })
  t.match(stdout, /passed\/min +discard\/min +window +since\ncart +0 +\S+ +1 +([4-9]|\d\d+) +1\/1 +\d\d:/)
  await daemon.stop(t)
})
