import { chmodSync, existsSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { APPS, writtenBy } from '../../src/cli/quickstart/apps.js'
import { announce, freePort, makePlan, type Plan, planYaml } from '../../src/cli/quickstart/plan.js'
import { LiveView } from '../../src/cli/quickstart/view.js'
import { components } from '../../src/components.js'
import { parseConfig } from '../../src/config/load.js'
import type { KeyCounts } from '../../src/core/component.js'
import { compileGlobs } from '../../src/sources/file/discovery/glob.js'
import { Scrape } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { startReceiver } from '../support/receiver.js'
import { type Running, sluice } from '../support/sluice.js'

const KEYS = { SLUICE_URL: 'http://127.0.0.1:1/v3/ingest/abc?a=secret', SLUICE_ACCESS_KEY: 'the-key' }
const PLAN: Plan = {
  folder: '/here',
  log: '/var/log/syslog',
  fallback: false,
  readFrom: 'end',
  http: false,
  port: 9600,
}

t.test('what it reads: the first log that is readable and has something in it', async t => {
  const folder = testFolder(t, { empty: '', folder: {}, locked: 'x', small: 'x\n', large: '', 'README.md': '# x\n' })
  const path = (name: string) => join(folder, name)
  chmodSync(path('locked'), 0)
  truncateSync(path('large'), 1024 ** 3)
  const all = ['missing', 'empty', 'folder', 'small', 'large'].map(path)
  const readme = path('README.md')
  const base = { folder, fallback: false, readFrom: 'beginning', http: false, port: 1 }
  const plan = (logs: readonly string[], fallback: string, env: NodeJS.ProcessEnv = {}) =>
    makePlan(logs, fallback, env, folder, 1)
  t.same(plan(all, readme), { ...base, log: path('small') })
  t.same(plan([path('large'), path('small')], readme), { ...base, log: path('large'), readFrom: 'end' })
  t.same(plan(all.slice(0, 3), readme), { ...base, log: readme, fallback: true })
  if (process.getuid?.() !== 0) t.equal(plan([path('locked')], readme).log, readme)
  t.equal(plan(all, readme, KEYS).http, true)
  t.equal(plan(all, readme, { ...KEYS, SLUICE_ACCESS_KEY: '' }).http, false)
})

t.test('the configuration it writes is valid, whatever the paths are', async t => {
  for (const log of ['/var/log/syslog', "/it's/a [b]/{c,d}/$" + '{e}/f*g?/(h)/!i\\j: #/README.md']) {
    for (const http of [false, true]) {
      const yaml = planYaml({ ...PLAN, log, http, folder: `/state of${log}` })
      t.notMatch(yaml, /the-key|secret/, 'no key is written down')
      const config = parseConfig(yaml, 'quickstart.yaml', { env: KEYS, components })
      t.same(config.warnings, [])
      t.same(config.metrics, { host: '127.0.0.1', port: 9600 })
      t.equal(config.dataDir, `/state of${log}/state`)
      t.same(
        config.destinations.map(({ id, type }) => `${id} ${type}`),
        [http ? 'upstream http' : 'upstream file'],
      )
      const includes = config.sources.map(({ options }) => (options as { include: string[] }).include)
      const parts = (path: string) => [path.split('/').slice(1)]
      t.same(includes.map(compileGlobs), [parts(`/state of${log}/apps.log`), parts(log)], 'each is that path alone')
    }
  }
})

t.test('what it says first fits 80 columns, and shows no key', async t => {
  const folder = join(process.cwd(), '.sluice-quickstart')
  const say = (change: Partial<Plan>, env: NodeJS.ProcessEnv = {}) => announce({ ...PLAN, folder, ...change }, env)
  t.match(say({}), / reads +\.sluice-quickstart\/apps\.log: /)
  t.match(say({}), /^ +\/var\/log\/syslog \(new lines only\)\n/m)
  t.match(say({ readFrom: 'beginning' }), /^ +\/var\/log\/syslog\n/m)
  t.match(say({}), / metrics +http:\/\/127\.0\.0\.1:9600\/metrics \(9598 is taken\)\n/)
  t.match(say({}), / limits +each app to 20 events per second/)
  t.match(say({}), / sends +what passes to \.sluice-quickstart\/passed\.log\n/)
  const service = { url: 'http://127.0.0.1:8080', account: 'acc', ingest: 'i', keyFile: `${folder}/access-key` }
  const both = say({ service: { ...service, received: `${folder}/received.ndjson` } })
  t.match(both, / sends +what passes to the service at http:\/\/127\.0\.0\.1:8080\n/)
  t.match(both, / service +its keys are in \.sluice-quickstart\/access-key\*/)
  t.match(say({ http: true }, KEYS), / sends +what passes to http:\/\/127\.0\.0\.1:1\n/)
  t.notMatch(say({ http: true }, KEYS), /secret|the-key/)
  t.match(say({ fallback: true, log: '/x/README.md' }), /README\.md of this package: no usual log is readable/)
  for (const text of [both, say({}), say({ fallback: true, log: '/x/README.md' }), say({ http: true }, KEYS)])
    for (const line of text.split('\n')) t.ok(line.length <= 80, line)
})

t.test('the made-up apps: steady rates, and one that goes wild within the first seconds and again', async t => {
  const between = (name: string, from: number, to: number) => {
    const app = APPS.find(app => app.name === name)!
    return writtenBy(app, to) - writtenBy(app, from)
  }
  t.equal(between('web', 0, 10_000), 80)
  t.equal(between('batch', 0, 3000), 3)
  t.equal(between('batch', 3000, 7000), 1200)
  t.equal(between('batch', 7000, 18_000), 11)
  t.equal(between('batch', 18_000, 22_000), 1200)
})

t.test('a line each second that tells by app what passed and what was held back, and a summary', async t => {
  const turns: KeyCounts['keys'][] = [
    [
      { key: 'web', passed: 8, discarded: 0 },
      { key: 'batch', passed: 20, discarded: 1280 },
    ],
    [],
    [{ key: null, passed: 1, discarded: 2 }],
  ]
  const reads = [5374, 5374, 5375]
  const counts = {
    watch: () => ({ end: () => ({ exact: true, keys: turns.shift() ?? [] }) }),
    read: () => reads.shift() ?? 5375,
  }
  const view = new LiveView(counts, '/var/log/a-very-long-name.log')
  const lines = [view.next('14:03:12'), view.next('14:03:13'), view.next('14:03:14')].join('').split('\n')
  t.match(lines[0], /^passed +web +checkout +mail +batch +a-very-lo… +held back: over 20\/s$/)
  t.match(lines[1], /^14:03:12 +8 +0 +0 +20 +5,374 +1,280 of batch$/)
  t.match(lines[2], /^14:03:13 +0 +0 +0 +0 +0$/)
  t.match(lines[3], /^14:03:14 .* 2 of \(none\)$/)
  const totals = { received: 5400, discarded: {}, delivered: { upstream: 5403 }, undelivered: 7 }
  const summary = view.summary(72_000, totals, 'the service at http://127.0.0.1:8080', '.sluice-quickstart/sluice.yaml')
  t.match(summary, /^ {2}batch +20 +1,280 {2}over 20 events per second$/m)
  t.match(summary, /^ {2}a-very-lo… +5,375 +0 {2}not limited$/m)
  t.match(summary, 'Delivered: 5,403 events to the service at http://127.0.0.1:8080; 7 not yet.')
  for (const line of [...lines, ...summary.split('\n')]) t.ok(line.length <= 80, line)
})

t.test('a taken port: the next free one', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  t.ok((await freePort(port)) > port)
})

async function scrape(running: Running): Promise<Scrape> {
  const url = await running.until(() => /http:\/\/127\.0\.0\.1:\d+\/metrics/.exec(running.stdout)?.[0])
  const last = performance.now() + 15_000
  for (;;) {
    const text = await fetch(url).then(
      response => response.text(),
      () => '',
    )
    if (/^sluice_component_sent_events_total/m.test(text)) return new Scrape(text)
    if (performance.now() > last) throw new Error(`no metrics at ${url}:\n${running.stderr}`)
    await new Promise(resolve => setTimeout(resolve, 30))
  }
}

t.test('the real thing: twice, to a service of its own and over HTTP; Ctrl-C ends it', async t => {
  const receiver = await startReceiver({ authorization: 'Token the-key' })
  t.teardown(() => receiver.close())
  const folder = testFolder(t)
  for (const env of [{}, { SLUICE_URL: receiver.url(), SLUICE_ACCESS_KEY: 'the-key' }]) {
    const running = sluice(['quickstart'], { cwd: folder, env })
    t.teardown(async () => {
      running.child.kill('SIGKILL')
      await running.exit
    })
    ;(await scrape(running)).conserves(t)
    // Each start is alive: lines that pass, and before long lines that are held back.
    await running.until(() => /^\d\d:\d\d:\d\d +[1-9]\d* +[1-9]/m.test(running.stdout))
    await running.until(() => / of batch/.test(running.stdout))
    const own = join(folder, '.sluice-quickstart')
    if (!('SLUICE_URL' in env)) {
      const received = await running.until(() => {
        const path = join(own, 'received.ndjson')
        return (
          existsSync(path) &&
          readFileSync(path, 'utf8')
            .split('\n')
            .find(line => line.includes('"app":"web"'))
        )
      })
      t.match(JSON.parse(received), { app: 'web', message: 'GET / 200' }, 'through the service')
      t.equal(statSync(join(own, 'access-key')).mode & 0o777, 0o600)
      t.match(readFileSync(join(own, 'access-key'), 'utf8'), /^sts_[0-9a-f]{40}\n$/)
    } else await running.until(() => receiver.requests.length > 0)
    running.child.kill('SIGINT')
    t.equal(await running.exit, 0)
    t.match(running.stdout, /^Ended after .*\n +passed +held back\n {2}web +[1-9]/m)
    t.match(running.stdout, /^ {2}batch +\d+ +[1-9][\d,]* +over 20 events per second$/m)
    const [, delivered] = /^Delivered: ([\d,]+) events to /m.exec(running.stdout) ?? []
    const shown = [...running.stdout.matchAll(/^ {2}\S+ +([\d,]+) +[\d,]+/gm)].map(([, passed]) => passed)
    const number = (text = '') => Number(text.replaceAll(',', ''))
    t.equal(
      shown.reduce((sum, passed) => sum + number(passed), 0),
      number(delivered),
      'the summary adds up',
    )
    t.equal(running.stderr, '')
    t.notMatch(running.stdout, /the-key|st[sea]_|"level"/)
    for (const line of running.stdout.split('\n')) t.ok(line.length <= 80, line)
  }
  t.ok(existsSync(join(folder, '.sluice-quickstart/sluice.yaml')), 'its configuration stays, to continue with')
})
