import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { join, relative } from 'node:path'
import t, { type Test } from 'tap'
import { Machine } from '../../src/cli/init/machine.js'
import {
  type Announced,
  announce,
  continueText,
  readerOf,
  runningText,
  shown,
} from '../../src/cli/quickstart/announce.js'
import { chooseLog, exampleYaml, planYaml, type Receiver } from '../../src/cli/quickstart/plan.js'
import { startOwnService } from '../../src/cli/quickstart/service.js'
import { LiveView } from '../../src/cli/quickstart/view.js'
import { Client } from '../../src/client.js'
import { compileGlobs } from '../../src/components/file/discovery/glob.js'
import { components } from '../../src/components/list.js'
import type { KeyCounts } from '../../src/components/throttle/keyed-processor.js'
import { parseConfig } from '../../src/engine/config/load.js'
import { baseAddress as addressOf } from '../../src/service/commands/api.js'
import { checkout } from '../support/checkout.js'
import { Scrape } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { longTest } from '../support/long-test.js'
import { type Running, sluice } from '../support/sluice.js'
import { until } from '../support/until.js'
import { valuesOf } from '../support/values-of.js'

const OWN: Receiver = {
  url: 'http://127.0.0.1:41001',
  pipeline: '0123456789abcdef01234567',
  keyFile: '/here/.sluice-quickstart/access-key',
  received: '/here/.sluice-quickstart/received.ndjson',
  metrics: 'http://127.0.0.1:41002/metrics',
}
const GIVEN: Receiver = { url: 'https://logs.example.com', pipeline: OWN.pipeline, caFile: undefined }
const READER = { folder: '/here', program: 'npx sluice' }

t.test('the log: the largest one that grows and is readable, or the one that is asked for', async t => {
  const folder = testFolder(t, {
    var: { log: { empty: '', folder: {}, locked: 'locked\n', 'small.log': 'x\n', 'a[b].log': 'x\ny\n' } },
    large: '',
  })
  const path = (name: string) => join(folder, name)
  chmodSync(path('var/log/locked'), 0)
  truncateSync(path('large'), 1024 ** 3)
  const machine = new Machine(folder)
  const isRoot = process.getuid?.() === 0
  const largest = isRoot ? '/var/log/locked' : '/var/log/a[b].log'
  t.match(chooseLog(undefined, machine, '/'), { path: largest, isLong: false })
  t.equal(chooseLog(undefined, new Machine(path('var')), '/'), undefined)
  const own = new Machine('/')
  t.match(chooseLog('large', own, folder), { path: path('large'), isLong: true })
  t.match(chooseLog('a[b].log', own, path('var/log')), { path: path('var/log/a[b].log'), isLong: false })
  t.match(chooseLog('empty', own, path('var/log')), { path: path('var/log/empty'), isLong: false })
  t.throws(() => chooseLog('missing', own, folder), /--log: .*missing is not a file that this user can read/)
  t.throws(() => chooseLog('var', own, folder), /--log/)
  if (!isRoot) t.throws(() => chooseLog('var/log/locked', own, folder), /--log/)
})

t.test('the configuration that runs is valid, whatever the paths are, and has no key in it', async t => {
  const odd = "/it's/a [b]/{c,d}/$" + '{e}/f*g?/(h)/!i\\j: #/x.log'
  for (const path of ['/var/log/syslog', odd]) {
    for (const receiver of [
      { ...OWN, keyFile: `${path}/key` },
      { ...GIVEN, caFile: `${path}/ca` },
    ]) {
      const yaml = planYaml(`/state of${path}`, { path, isLong: true }, receiver, `${path}/token`)
      const env = { SLUICE_ACCESS_KEY: 'the-key' }
      const config = parseConfig(yaml, 'quickstart.yaml', { env, components })
      t.same(config.warnings, [])
      t.equal(config.dataDir, `/state of${path}`)
      t.same(config.metrics, { host: '127.0.0.1', port: 0 }, 'a free port, which two can never share')
      t.match(config.statusPage, { listen: { host: '127.0.0.1', port: 0 }, token_file: `${path}/token` })
      const [upstream, ...more] = config.destinations
      t.same(more, [])
      t.same(upstream!.inputs, ['limit_apps', 'log'])
      t.match(upstream!.options, { url: `${receiver.url}/v3/ingest/${receiver.pipeline}` })
      const include = config.sources.find(({ id }) => id === 'log')!.options as { include: string[] }
      t.same(compileGlobs(include.include), [path.split('/').slice(1)], 'that path alone')
      t.notMatch(yaml, 'the-key')
      t.notMatch(yaml, 'tests:')
    }
    const example = parseConfig(exampleYaml({ path, isLong: true }), 'my-sluice.yaml', { env: {}, components })
    const { include } = example.sources.find(({ id }) => id === 'log')!.options as { include: string[] }
    t.same(compileGlobs(include), [path.split('/').slice(1)], 'the offered copy reads the log that was found')
  }
  const none = parseConfig(planYaml('/state', undefined, OWN, '/token'), 'quickstart.yaml', { env: {}, components })
  t.same(valuesOf(none.sources, 'id'), ['apps'])
  t.notMatch(exampleYaml(undefined), '/var/log', 'and the offered copy reads no log that is not there')
})

t.test('what it says first fits 80 columns', async t => {
  const page = `http://127.0.0.1:41004/#token=${'x'.repeat(43)}`
  const base: Announced = {
    page,
    configPath: '/here/.sluice-quickstart/sluice.yaml',
    apps: ['web', 'checkout', 'mail', 'batch'],
    rate: 100,
    limit: 20,
    log: { path: '/var/log/syslog', isLong: false },
    receiver: OWN,
    metricsUrl: 'http://127.0.0.1:41003/metrics',
  }
  const own = announce(base, READER)
  t.ok(own.split('\n').includes(`  ${page}`), 'the page has a line of its own')
  t.match(own, /^ {2}apps +4 invented apps make 100 events per second/m)
  t.match(own, /^ {2}log +\/var\/log\/syslog$/m)
  t.match(own, /^ {2}limit +20 events per second of each app/m)
  t.match(own, /^ {2}service +http:\/\/127\.0\.0\.1:41001, started for this run$/m)
  t.match(own, /^ {2}received +\.sluice-quickstart\/received\.ndjson has the events that arrived$/m)
  t.match(
    own,
    /^ {2}metrics +http:\/\/127\.0\.0\.1:41003\/metrics\n +http:\/\/127\.0\.0\.1:41002\/metrics of the service$/m,
  )
  t.match(own, /^ {2}look +npx sluice status --config \.sluice-quickstart\/sluice\.yaml$/m)
  const given = announce({ ...base, receiver: GIVEN, log: undefined }, READER)
  t.match(given, /^ {2}service +https:\/\/logs\.example\.com$/m)
  t.match(given, /^ {2}log +not delivered; --log FILE delivers one to the service$/m)
  t.notMatch(given, 'received')
  const end = announce({ ...base, log: { path: '/var/log/syslog', isLong: true } }, READER)
  t.match(end, /^ {2}log +\/var\/log\/syslog, new lines only$/m)
  const none = announce({ ...base, log: undefined }, READER)
  t.match(none, /^ {2}log +this user can read no log of this machine; name one with --log FILE$/m)
  const texts = [own, given, end, none, continueText('/here/config/examples/quickstart.yaml', READER)]
  for (const text of [...texts, runningText(4711, base.configPath, READER)])
    for (const line of text.split('\n')) t.ok(line.length <= 80, line)
})

t.test('commands are shown as they can be typed where the reader stands', async t => {
  const main = join(checkout, 'dist/src/cli/main.js')
  const program = (env: NodeJS.ProcessEnv, path = main) => readerOf(env, path).program
  t.equal(program({ npm_command: 'start', INIT_CWD: checkout }), 'npx sluice')
  t.equal(program({ npm_command: 'start', INIT_CWD: join(checkout, 'docs') }), 'npx sluice')
  t.equal(
    program({ npm_command: 'start', INIT_CWD: join(checkout, '..') }),
    `node ${relative(join(checkout, '..'), main)}`,
  )
  t.equal(program({}, '/usr/bin/sluice'), 'sluice')
  t.equal(program({}, '/my/node_modules/.bin/sluice'), 'npx sluice')
  t.equal(readerOf({ INIT_CWD: '/elsewhere' }, main).folder, process.cwd(), 'without npm, INIT_CWD is of others')
  t.equal(shown('/here/a b/it', '/here'), "'a b/it'")
  t.equal(shown("/here/it's", '/here'), "'it'\\''s'")
  t.equal(shown('/usr/lib/it', '/here/and/there'), '/usr/lib/it')
  for (const folder of [checkout, join(checkout, 'docs')])
    t.match(await typed('npx sluice --version', folder), /^sluice \d/, folder)
})

t.test('SLUICE_URL is the base address of a service', async t => {
  const advice = '. Name the pipeline with --pipeline'
  const baseAddress = (url: string) => addressOf(url, 'SLUICE_URL=', advice, 'quickstart')
  t.equal(baseAddress('http://127.0.0.1:8080'), 'http://127.0.0.1:8080')
  t.equal(baseAddress('https://example.com/logs/'), 'https://example.com/logs')
  for (const wrong of ['127.0.0.1:8080', 'ftp://example.com', 'http://', 'http:///v3'])
    t.throws(() => baseAddress(wrong), /^SLUICE_URL must be the address of a service, as in SLUICE_URL=http/, wrong)
  const only =
    /^SLUICE_URL must be only the address of the service: SLUICE_URL=http:\/\/a:1\. Name the pipeline with --pipeline$/
  for (const more of ['http://a:1/v3/ingest/abc', 'http://a:1/v3', 'http://a:1?a=secret', 'http://secret:word@a:1/'])
    t.throws(() => baseAddress(more), only, more)
})

t.test(
  'a line each second that tells by app what passed and what was discarded, and a summary that adds up',
  async t => {
    const turns: KeyCounts['keys'][] = [
      [
        { key: 'web', passed: 8, discarded: 0 },
        { key: 'batch', passed: 20, discarded: 1280 },
      ],
      [],
      [
        { key: null, passed: 1, discarded: 2 },
        { key: 'batch', passed: 41, discarded: 3 },
      ],
      [],
      [{ key: 'web', passed: 1, discarded: 0 }],
    ]
    const long = { key: 'an-app-with-a-long-name', passed: 2, discarded: 1280 }
    const reads = [5374, 5374, 5375]
    const counts = {
      watch: () => ({ end: () => ({ exact: true, keys: turns.shift() ?? [] }) }),
      read: () => reads.shift() ?? 5375,
    }
    const about = { apps: ['web', 'checkout', 'batch'], limit: 20, log: 'a-very-long-name.log', isCut: true }
    const view = new LiveView(about, counts)
    const lines = ['14:03:12', '14:03:13', '14:03:14'].map(time => view.next(time)).join('')
    const expected = `passed      web  checkout  batch  a-very-lo…  discarded: over 20/s
14:03:12      8         0     20       5,374  partial: 1,280 of batch
14:03:13      0         0      0           0
14:03:14      0         0     41           1  in 3 s: 2 of (none), 3 of…
`
    t.equal(lines, expected)
    t.equal(view.next('14:03:15', true), '', 'nothing is said of nothing')
    const file = new LiveView(
      { ...about, isCut: false },
      { ...counts, watch: () => ({ end: () => ({ exact: true, keys: [long] }) }) },
    )
    t.match(file.next('14:03:12'), / {2}partial: 1,280 of an-app-with-a-long-name\n$/, 'a file has the whole name')
    t.match(file.next('14:03:13'), / {2}1,280 of an-app-with-a-long-name\n$/)
    t.match(file.next('14:03:14', true), / {2}partial: 1,280 of an-app\S+\n$/)
    long.discarded = 0
    t.match(file.next('14:03:14', true), / {2}partial\n$/)
    const outcome = {
      ms: 72_000,
      received: 6731,
      emitted: { limit_apps: 2 },
      delivered: { upstream: 5444 },
      undelivered: 4,
      url: 'http://127.0.0.1:41001',
      arrived: { lines: 5444, file: '.sluice-quickstart/received.ndjson' },
    }
    const yaml = `
Ended after 1m 12s.
                  events      passed   discarded
  web                  9           9           0
  checkout             0           0           0
  batch            1,344          61       1,283   over 20 per second
  (none)               3           1           2   over 20 per second
  a-very-lo…       5,375       5,375           0   not limited
  summaries            2           2           0   events made by the throttle
  together         6,733       5,448       1,285

Delivered: 5,444 events to the service at http://127.0.0.1:41001; 4 were not delivered.
Received:  5,444 events, one per line in .sluice-quickstart/received.ndjson.
`
    t.equal(view.summary(outcome), yaml, 'what the last line does not show is in it')
    const reloaded = view.summary({ ...outcome, received: 6821, delivered: { upstream: 5509 }, undelivered: 0 })
    t.match(reloaded, '  others              90          61          29   in a reload\n')
    t.match(reloaded, '  together         6,823       5,509       1,314\n')
    const forced = view.summary({ ...outcome, received: 6741, undelivered: 14 })
    t.match(forced, '  others              10          10           0   under way at the end\n')
  },
)

const number = (text = '') => Number(text.replaceAll(',', ''))

/** Runs a line that the screen advises, as a reader types it, until it ends or `enough`. Resolves with what it wrote. */
async function typed(line: string, cwd: string, enough: (written: string) => boolean = () => false): Promise<string> {
  const child = spawn('sh', ['-c', line], { cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let written = ''
  let ended = false
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (written += text))
  const gone = once(child, 'close').then(([code]) => {
    ended = true
    return code as number | null
  })
  await until(`${line} to end`, () => ended || enough(written), { show: () => written })
  const stopped = !ended
  if (stopped) process.kill(-child.pid!, 'SIGINT')
  const code = await gone
  if (!stopped && code !== 0) throw new Error(`${line} ended with ${code}: ${written}`)
  return written
}

/** Starts the quickstart in `folder`. It does not outlive the test. */
function started(t: Test, folder: string, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Running {
  const running = sluice(['quickstart', ...args], { cwd: folder, env })
  t.teardown(async () => {
    running.child.kill('SIGKILL')
    await running.exit
  })
  return running
}

/** Waits for two lines of seconds with what a limit discards, and until the log of that name has so many lines passed. */
const alive = (running: Running, log?: string, lines = 0) =>
  until(
    'lines with numbers',
    () => {
      const { stdout } = running
      const has = log === undefined || (passedIn(stdout)[log] ?? 0) >= lines
      return has && / of \w+$/m.test(stdout) && /^\d\d:.*\n\d\d:.*\n/m.test(stdout)
    },
    { show: () => running.stdout + running.stderr },
  )

/** What passed of each source, by the lines of seconds. */
function passedIn(stdout: string): Record<string, number> {
  const head = /^passed +(.*?) +discarded/m.exec(stdout)?.[1]?.split(/ +/) ?? []
  const seconds = [...stdout.matchAll(/^\d\d:\d\d:\d\d +([\d, ]*\d)(?: {2}(\S.*))?$/gm)]
  const cells = seconds.map(([, text]) => text!.split(/ +/))
  return Object.fromEntries(head.map((name, i) => [name, cells.reduce((sum, of) => sum + number(of[i]), 0)]))
}

interface Ended {
  readonly delivered: number
  /** By row of the summary: read, passed, discarded. */
  readonly rows: Readonly<Record<string, readonly number[]>>
}

/** Ends it by Ctrl-C, which npm repeats, and asserts that all numbers on the screen add up. */
async function ended(t: Test, running: Running): Promise<Ended> {
  running.child.kill('SIGINT')
  running.child.kill('SIGTERM')
  t.equal(await running.exit, 0)
  t.equal(running.stderr, '')
  const { stdout } = running
  for (const line of stdout.split('\n')) t.ok(line.length <= 80 || /^\d\d:/.test(line), line)
  const times = [...stdout.matchAll(/^\d\d:\d\d:\d\d(?= {2})/gm)].map(([time]) => time)
  t.same(times, [...new Set(times)], 'a line for each second')
  const [, text = ''] = /^Ended after .*\n.*\n((?: {2}\S+ +[\d,]+ +[\d,]+ +[\d,]+.*\n)+)/m.exec(stdout) ?? []
  const rows = Object.fromEntries(
    text
      .trimEnd()
      .split('\n')
      .map(line => line.trim().split(/ +/))
      .map(([name, ...cells]) => [name, cells.slice(0, 3).map(number)]),
  ) as Record<string, number[]>
  const { together, ...parts } = rows
  for (const [name, [read, passed, discarded]] of Object.entries(rows)) t.equal(read, passed! + discarded!, name)
  const sums = [0, 1, 2].map(i => Object.values(parts).reduce((sum, cells) => sum + cells[i]!, 0))
  t.same(together, sums, 'the rows add up')

  const passed = passedIn(stdout)
  const ofParts = Object.keys(passed).map(name => [name, parts[name]![1]])
  t.same(passed, Object.fromEntries(ofParts), 'the lines of each second add up')
  const [, delivered] = /^Delivered: ([\d,]+) events to the service at http:\S+\.$/m.exec(stdout) ?? []
  t.equal(number(delivered), together![1], 'all that passed is delivered')
  return { delivered: number(delivered), rows }
}

const linesOf = (path: string) => readFileSync(path, 'utf8').split('\n').slice(0, -1)

t.test('to a service of its own: what it says holds, and every number is explained by another one', async t => {
  const folder = testFolder(t, { 'app.log': 'one\ntwo\n' })
  const own = join(folder, '.sluice-quickstart')
  const running = started(t, folder, ['--log', 'app.log'])
  await alive(running, 'app.log', 2)

  const urls = [...running.stdout.matchAll(/http:\/\/127\.0\.0\.1:\d+\/metrics/g)].map(([url]) => url)
  t.equal(urls.length, 2)
  new Scrape(await (await fetch(urls[0]!)).text()).conserves(t)
  t.match(await (await fetch(urls[1]!)).text(), /^sluice_api_requests_total/m, 'the service has metrics')
  const [, page, token] = /^ {2}(http:\/\/127\.0\.0\.1:\d+\/)#token=([\w-]{43})$/m.exec(running.stdout) ?? []
  t.equal(readFileSync(join(own, 'page-token'), 'utf8').trim(), token)
  t.equal(statSync(join(own, 'page-token')).mode & 0o777, 0o600)
  t.match(await (await fetch(page!)).text(), '<th scope="row">limit_apps</th>')
  const tap = `${page}api/v1/tap?component=apps&limit=1`
  t.equal((await fetch(tap)).status, 401)
  t.match(await (await fetch(tap, { headers: { authorization: `Bearer ${token}` } })).text(), '"app":')
  const [, url] = /^ {2}service +(\S+),/m.exec(running.stdout) ?? []
  const key = readFileSync(join(own, 'access-key'), 'utf8').trim()
  t.equal(statSync(join(own, 'access-key')).mode & 0o777, 0o600)
  const { items } = await new Client({ url: url!, key }).pipelines.all()
  t.same(
    items.map(({ title, config }) => [title, Object.keys(config)]),
    [['quickstart', ['destinations']]],
    'no limit is hidden in the service',
  )

  const advised = [...running.stdout.matchAll(/^ +(?:look +)?(\S.* --config .*)$/gm)].map(([, line]) => line!)
  t.equal(advised.length, 2)
  t.match(await typed(advised[0]!, folder), /Nothing is wrong\.[\s\S]*apps .*[\s\S]*limit_apps /)
  t.match(await typed(advised[1]!, folder, written => /limit_apps/.test(written)), 'limit_apps')

  const config = readFileSync(join(own, 'sluice.yaml'), 'utf8')
  const second = started(t, folder)
  t.equal(await second.exit, 1)
  t.match(second.stderr, `a quickstart already runs in this folder: process ${running.pid}\n`)
  const [, look = ''] = /look at it: +(.*)/.exec(second.stderr) ?? []
  t.equal(look, advised[0])
  t.equal(second.stdout, '')
  t.equal(readFileSync(join(own, 'sluice.yaml'), 'utf8'), config, 'the configuration of the first is as it was')

  const { delivered, rows } = await ended(t, running)
  t.same(rows['app.log'], [2, 2, 0])
  t.equal(linesOf(join(own, 'received.ndjson')).length, delivered, 'what is delivered lies at the receiver')
  t.match(
    running.stdout,
    `\nReceived:  ${delivered.toLocaleString('en-US')} events, one per line in .sluice-quickstart/received.ndjson.\n`,
  )
  const received = linesOf(join(own, 'received.ndjson')).map(
    line => JSON.parse(line) as { app?: string; message: string },
  )
  for (const app of ['web', 'checkout', 'mail', 'batch'])
    t.equal(received.filter(event => event.app === app).length, rows[app]![1], app)
  const others = received.filter(({ app }) => app === undefined).map(({ message }) => message)
  t.same(others.filter(message => message !== 'throttled').sort(), ['one', 'two'])
  t.same(rows.summaries, [others.length - 2, others.length - 2, 0], 'each summary of what was discarded has arrived')
  t.ok(rows.summaries![0]! > 0)
  t.notMatch(running.stdout, /st[sea]_[0-9a-f]|"level"/)

  const advice = /^To continue .*\n((?: {2}.*\n)+)/m.exec(running.stdout)?.[1]?.trimEnd().split('\n') ?? []
  const [copy, run] = advice.map(line => line.trim())
  await typed(copy!, folder)
  const copied = readFileSync(join(folder, 'my-sluice.yaml'), 'utf8')
  t.match(copied, /^# `npm start` runs/, 'without what is beside it')
  t.match(copied, `include: [ ${join(folder, 'app.log')} ]`)
  await typed(
    run!,
    folder,
    () => existsSync(join(folder, 'delivered.ndjson')) && linesOf(join(folder, 'delivered.ndjson')).length > 9,
  )
})

longTest('twice at once in two folders, and again in the same one: each run has its own numbers', async t => {
  const folder = testFolder(t, { first: { 'a.log': 'one\n' }, second: { 'a.log': 'one\ntwo\n' } })
  const folders = [join(folder, 'first'), join(folder, 'second')]
  for (const round of [folders, folders.slice(0, 1)]) {
    const both = round.map(folder => started(t, folder, ['--log', 'a.log']))
    await Promise.all(both.map((running, i) => alive(running, 'a.log', i + 1)))
    for (const [i, running] of both.entries()) {
      const { delivered, rows } = await ended(t, running)
      t.same(rows['a.log'], [i + 1, i + 1, 0])
      t.equal(linesOf(join(folders[i]!, '.sluice-quickstart/received.ndjson')).length, delivered)
    }
  }
  const left = readdirSync(join(folders[0]!, '.sluice-quickstart')).filter(name => name.startsWith('service-'))
  t.equal(left.length, 1, 'nothing of an earlier run stays')
})

longTest('to the service at SLUICE_URL: the apps, and a log only if that is asked for', async t => {
  const folder = testFolder(t, { service: {}, here: { 'app.log': 'one\ntwo\n' } })
  const service = await startOwnService(join(folder, 'service'), process)
  t.teardown(() => service.stop())
  const env = { SLUICE_URL: `${service.url}/`, SLUICE_ACCESS_KEY: readFileSync(service.keyFile!, 'utf8').trim() }
  const runs: Ended[] = []
  for (const args of [[], ['--log', 'app.log', '--pipeline', 'quickstart']]) {
    const running = started(t, join(folder, 'here'), args, env)
    await alive(running)
    runs.push(await ended(t, running))
    t.notMatch(running.stdout, env.SLUICE_ACCESS_KEY)
    t.notMatch(readFileSync(join(folder, 'here/.sluice-quickstart/sluice.yaml'), 'utf8'), env.SLUICE_ACCESS_KEY)
  }
  t.same(
    runs.map(({ rows }) => Object.keys(rows).slice(4)),
    [
      ['summaries', 'together'],
      ['app.log', 'summaries', 'together'],
    ],
    'beside the four apps',
  )

  const failing = async (change: NodeJS.ProcessEnv, ...args: string[]) => {
    const running = started(t, join(folder, 'here'), args, { ...env, ...change })
    const code = await running.exit
    t.equal(running.stdout, '')
    return `${code} ${running.stderr}`
  }
  t.match(
    await failing({ SLUICE_URL: `${service.url}/v3/ingest/abc` }),
    /^2 sluice: SLUICE_URL must be only the address/,
  )
  t.match(await failing({ SLUICE_ACCESS_KEY: '' }), /^2 .*SLUICE_ACCESS_KEY/)
  t.match(
    await failing({ SLUICE_ACCESS_KEY: `${env.SLUICE_ACCESS_KEY}x` }),
    /^1 .*answered 401: .*check the key in SLUICE_ACCESS_KEY/,
  )
  t.match(await failing({}, '--pipeline', 'quickstar'), /^1 .*did you mean "quickstart"\?/)
  t.match(
    await failing({ SLUICE_URL: undefined }, '--pipeline', 'x'),
    /^2 .*--pipeline has no effect without SLUICE_URL/,
  )
  const { pipelines } = new Client({ url: service.url, key: env.SLUICE_ACCESS_KEY })
  const { id } = await pipelines.create({
    title: 'web',
    config: { destinations: { out: { type: 'blackhole', inputs: ['ingest'] } } },
  })
  await pipelines.publish(id)
  t.match(await failing({}), /^2 .*name the pipeline with --pipeline\. \S+ has these published pipelines: .*"web"/)
  await service.stop()
  t.equal(
    linesOf(service.received!).length,
    runs.reduce((sum, { delivered }) => sum + delivered, 0),
    'what is delivered lies at the receiver',
  )
  t.match(await failing({}), /^1 .*cannot reach /)
})
