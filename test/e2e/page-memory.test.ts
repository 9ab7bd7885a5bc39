import { appendFileSync, chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { EventStep, FoundEvents } from '../../src/page/server/watch/find.js'
import type { ThrottleView, WhatIf } from '../../src/page/server/watch/throttle-watch.js'
import type { EvidenceEvent } from '../../src/page/server/watch/watch.js'
import { HOST } from '../support/address.js'
import { asked } from '../support/asked.js'
import { startDaemon } from '../support/daemon.js'
import { receiver } from '../support/destination.js'
import { testFolder } from '../support/folder.js'
import { until } from '../support/until.js'

const TOKEN = 'a-token-that-is-long-enough-for-this'

/** A pipeline with everything that the page remembers. */
const pipeline = (url: string, limit = 2) => `status_page: { listen: '${HOST}:0', token_file: ./token }
sources:
  app: { type: file, include: [./app.log], decode: json }
processors:
  no_debug: { type: filter, inputs: [app], condition: if (not .level equal 'debug') }
  limit_app: { type: throttle, inputs: [no_debug], limit: ${limit}, window: 1 Hours, key_field: .app }
  ways: { type: route, inputs: [limit_app], routes: { errors: if (.level equal 'error') } }
destinations:
  out: { type: http, inputs: [ways.errors, ways.else], url: '${url}', batch: { max_events: 1 }, retry: { initial: 10ms, max: 20ms } }
`

/** What was written before the source began to read is backlog. */
const shown = ({ component, what, reason }: EventStep) => [component, what, reason?.replace('_backlog', '')]

async function pageOf(t: Test) {
  const refuses = await receiver(t)
  refuses.otherwise = ({ body }) => (body.includes('poison') ? { status: 400, body: 'no poison, please' } : 200)
  const folder = testFolder(t, { 'app.log': '', token: TOKEN })
  chmodSync(join(folder, 'token'), 0o600)
  const daemon = await startDaemon(t, folder, pipeline(refuses.url()))
  const url = await daemon.until(() => /"url":"([^"]+)","msg":"the page is served"/.exec(daemon.stderr)?.[1])
  const get = async <T>(path: string, token: string | undefined = TOKEN) => {
    const headers = { connection: 'close', ...(token && { authorization: `Bearer ${token}` }) }
    const response = await fetch(`${url}api/v1/${path}`, { headers })
    return { status: response.status, body: (await response.json()) as T }
  }
  const write = (...events: object[]) =>
    appendFileSync(join(folder, 'app.log'), events.map(event => `${JSON.stringify(event)}\n`).join(''))
  const find = async (q: string) => (await get<FoundEvents>(`find?q=${encodeURIComponent(q)}`)).body
  const steps = async (q: string) => (await find(q)).found.map(({ steps }) => steps.map(shown))
  return {
    folder,
    daemon,
    url,
    get,
    write,
    find,
    steps,
    receives: refuses,
    reload: (limit: number) => {
      writeFileSync(
        daemon.configPath,
        `data_dir: ${join(folder, 'state')}\nmetrics: { listen: ${HOST}:0 }\n${pipeline(refuses.url(), limit)}`,
      )
      daemon.child.kill('SIGHUP')
    },
  }
}

t.test('the page finds what happened to an event, and shows why others did not arrive', async t => {
  const { daemon, get, write, find, steps } = await pageOf(t)
  write(
    { app: 'cart', n: 1, text: 'first "quoted"' },
    { app: 'cart', n: 2, text: 'second' },
    { app: 'cart', n: 3, text: 'third' },
    { app: 'shop', n: 4, level: 'debug', text: 'noise' },
    { app: 'shop', n: 5, text: 'poison' },
    { app: 'shop', n: 6, level: 'error', text: 'sixth' },
  )
  await until(async () => (await find('sixth')).found[0]?.steps.some(({ what }) => what === 'delivered'))
  await until(async () => (await find('poison')).found[0]?.steps.some(({ what }) => what === 'rejected'))
  const arrived = [
    ['app', 'read', undefined],
    ['out', 'passed', undefined],
    ['out', 'delivered', undefined],
  ]
  t.same(await steps('first "quoted"'), [arrived])
  t.same(await steps('.n equal 6'), [arrived])
  t.same(await steps('third'), [
    [
      ['app', 'read', undefined],
      ['limit_app', 'discarded', 'throttled'],
    ],
  ])
  t.same(await steps("if (.level equal 'debug')"), [
    [
      ['app', 'read', undefined],
      ['no_debug', 'discarded', 'filtered'],
    ],
  ])
  t.same((await steps('poison'))[0]!.at(-1), ['out', 'rejected', 'status_400'])
  const { found } = await find(".app equal 'shop'")
  t.same(found.map(({ event }) => (event as { n: number }).n).sort(), [4, 5, 6])
  t.same(await steps(found[0]!.id!), [found[0]!.steps.map(shown)])
  t.match(await find('nowhere'), { as: 'text', found: [], more: false })
  t.match((await find('nowhere')).looked_at, [
    { kind: 'discarded', kept: 2, one_in: 1 },
    { kind: 'rejected', kept: 1, one_in: 1 },
    { kind: 'passed', one_in: 1 },
  ])
  t.match((await get('find?q=if(')).body, { status: /^the condition: / })
  const evidence = async (query: string) => (await get<{ events: EvidenceEvent[] }>(`evidence?component=${query}`)).body
  t.match((await evidence('limit_app')).events, [
    { reason: /^throttled/, words: /^Beyond `limit`/, bucket: 'cart', event: { n: 3 } },
  ])
  t.match((await evidence('limit_app&bucket=shop')).events, [])
  t.match((await evidence('out')).events, [{ reason: 'status_400', words: /no poison, please/, event: { n: 5 } }])
  t.match((await get('evidence?component=nobody')).body, { status: /there is no nobody/ })
  const letters = (token?: string) => get('dead-letters?component=out', token).then(({ body }) => body)
  const reason = { reason: 'status_400', words: /no poison, please/, count: 1 }
  t.match(await letters(TOKEN), {
    total: 1,
    reasons: [{ ...reason, sample: { n: 5 } }],
    command: /^sluice resend --config \S+ --destination out\b/,
  })
  t.strictSame(
    ((await letters('')) as { reasons: object[] }).reasons.map(one => Object.keys(one)),
    [['reason', 'count', 'newest_at']],
    'without the token, neither an event nor what the receiver said of it',
  )
  for (const path of ['find?q=a', 'evidence?component=out', 'what-if?component=limit_app&key_field=.n'])
    t.equal((await get(path, '')).status, 401, path)
  await daemon.stop(t)
})

t.test('what a throttle let through, by key, and what other limits would, also after a reload', async t => {
  const { daemon, get, write, find, reload } = await pageOf(t)
  const events = (app: string, count: number) => Array.from({ length: count }, (_, n) => ({ app, n }))
  write(...events('cart', 5), ...events('shop', 1))
  const view = async () => (await get<ThrottleView & { buckets: number }>('throttles/limit_app', '')).body
  const whatIf = async (query: string) => (await get<WhatIf>(`what-if?component=limit_app&${query}`, '')).body
  await until(async () => (await whatIf('limit=3')).events === 6)
  const [cart, shop] = (await view()).keys
  t.match(await view(), {
    key_field: ['.app'],
    limits: [{ limit: 2, unit: 'events', window_ms: 3_600_000 }],
    buckets: 2,
    max_keys: 100_000,
    counted: { exact: true, step_ms: 1, keys: 2, of: 'every event, in steps of 1 ms' },
  })
  t.match(
    [cart, shop],
    [
      { key: 'cart', used: 2, limit: 2, since: /^\d/ },
      { key: 'shop', used: 1, limit: 2, since: null },
    ],
  )
  t.equal(
    cart!.history.discarded.reduce((sum, n) => sum + n, 0),
    3,
  )
  t.match(await whatIf('limit=3'), {
    exact: true,
    was: { passed: 3, discarded: 3 },
    would: { passed: 4, discarded: 2 },
    keys_count: 2,
    yaml: 'limit: 3\n',
  })
  reload(4)
  await daemon.until(() => daemon.stderr.includes('configuration reloaded'))
  write(...events('cart', 7))
  // The limit is another one, so its events begin with the reload.
  await until(async () => (await whatIf('limit=1')).events === 7)
  t.match(await whatIf('limit=1'), { was: { passed: 4, discarded: 3 }, would: { passed: 1, discarded: 6 } })
  t.equal((await find('cart')).found.length, 12)
  t.equal((await get('throttles/nobody')).status, 404)
  t.match((await get('what-if?component=nobody')).body, { status: /there is no throttle nobody; there are limit_app/ })
  t.equal((await get('what-if?component=limit_app&limit=x')).status, 400)
  const { body } = await get<{ status_page: { used: number; memory: number } }>('status')
  t.ok(body.status_page.used > 0 && body.status_page.used < body.status_page.memory)
  await daemon.stop(t)
})

t.test('only who has the token, and the owner, see what a receiver said, because it may quote events', async t => {
  const { daemon, folder, url, get, write, receives } = await pageOf(t)
  receives.otherwise = ({ body }) => ({ status: 503, body: `cannot store ${body}` })
  write({ app: 'cart', secret: 'sesame' })
  const text = async (address: string, headers = {}) => {
    const controller = new AbortController()
    const answer = await fetch(address, { headers: { connection: 'close', ...headers }, signal: controller.signal })
    let text = ''
    for await (const part of answer.body!.pipeThrough(new TextDecoderStream())) {
      text += part
      // The stream of `live` does not end.
      if (/^event: status\ndata: .*\n\n/m.test(text)) break
    }
    controller.abort()
    return text
  }
  const bearer = { authorization: `Bearer ${TOKEN}` }
  await until(async () => /out is (failing|retrying): 503 .*sesame/.test(await text(`${url}api/v1/status`, bearer)))
  const readyz = { text: (await daemon.get('/readyz')).body }
  for (const path of ['', 'api/v1/status', 'api/v1/live']) {
    const open = await text(url + path)
    t.match(open, /out is (failing|retrying): status 503/, `${path}: in words of its own`)
    t.notMatch(open, 'sesame', path)
    t.match(await text(url + path, bearer), 'sesame', `${path} with the token`)
  }
  t.match(JSON.parse(readyz.text), {
    destinations: [{ id: 'out', reason: 'status 503', failures: /\d/, since: /^\d{4}-/ }],
  })
  t.notMatch(readyz.text, 'sesame', 'everybody who reaches the metrics sees /readyz')
  for (const path of ['/readyz', '/status', '/', '/api/v1/status']) {
    const { text } = await asked({ socketPath: join(folder, 'state/sluice.sock'), path })
    t.match(text, 'sesame', `the owner at ${path}`)
  }
  t.notMatch(JSON.stringify((await get('throttles/limit_app', '')).body), 'sesame')
  receives.otherwise = 200
  await until(async () => (await text(`${url}api/v1/status`, bearer)).includes('last_outage'))
  t.match(await text(`${url}api/v1/status`, bearer), /"last_outage":\{[^}]*sesame/)
  t.notMatch(await text(`${url}api/v1/status`), 'sesame', 'past reasons neither')
  await daemon.stop(t)
})

t.test(
  'with the limit that a throttle has, what-if says exactly what happened, and a higher limit loses nothing',
  async t => {
    const folder = testFolder(t)
    const processors = ['fixed', 'aligned', 'sliding', 'gcra'].map(
      mode =>
        `  ${mode}: { type: throttle, inputs: [demo], limit: 5, window: 150ms, window_mode: ${mode}, key_field: .app }\n`,
    )
    const yaml = `status_page: { listen: '${HOST}:0' }
sources: { demo: { type: demo, rate: 400, seed: 3 } }
processors:
${processors.join('')}destinations: { out: { type: blackhole, inputs: [fixed, aligned, sliding, gcra] } }
`
    const daemon = await startDaemon(t, folder, yaml)
    const url = await daemon.until(() => /"url":"([^"]+)","msg":"the page is served"/.exec(daemon.stderr)?.[1])
    const whatIf = async (component: string, query = '') =>
      (await (await fetch(`${url}api/v1/what-if?component=${component}${query}`)).json()) as WhatIf
    await until(async () => (await whatIf('fixed')).was.discarded > 500)
    for (const mode of ['fixed', 'aligned', 'sliding', 'gcra']) {
      const { was, would, exact, why_not_exact } = await whatIf(mode)
      t.same(would, was, mode)
      t.same([exact, why_not_exact], [true, undefined], mode)
      t.ok(was.discarded > 0)
      for (const limit of [6, 9, 40]) {
        const { was, would } = await whatIf(mode, `&limit=${limit}`)
        t.ok(would.passed >= was.passed, `${mode}: ${limit} passes ${would.passed}, 5 passes ${was.passed}`)
      }
    }
    await daemon.stop(t)
  },
)
