import { linkSync, mkdirSync, realpathSync, rmdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { managedLine } from '../../../../src/cli/inspect/screen-parts.js'
import { components } from '../../../../src/components/list.js'
import type { DestinationState, Wait } from '../../../../src/core/status-document.js'
import { StateUnreadable } from '../../../../src/core/unreadable.js'
import type { DaemonDocument } from '../../../../src/daemon/client/documents.js'
import { reportInput } from '../../../../src/daemon/client/inputs.js'
import { ManagedPipeline } from '../../../../src/daemon/fleet/managed-pipeline.js'
import { RevisionCache } from '../../../../src/daemon/fleet/revision-cache.js'
import { type PublishedRevision, type Report, readPipelineUrl } from '../../../../src/daemon/fleet/service-link.js'
import { managedMetrics } from '../../../../src/daemon/run/gauges.js'
import type { Config } from '../../../../src/engine/config/load.js'
import { ManagedConfig } from '../../../../src/engine/config/published/managed-config.js'
import { readConfig } from '../../../../src/engine/config/yaml/files.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { EventsLeftBehind } from '../../../../src/engine/run/state/objections.js'
import { NotNow, type ReplaceOptions } from '../../../../src/engine/run/supervisor.js'
import { nextTurn } from '../../../../src/lib/time.js'
import { fleetText } from '../../../../src/service/commands/fleet.js'
import { reportedBy } from '../../../support/facts.js'
import { testFolder } from '../../../support/folder.js'
import { until } from '../../../support/until.js'

const LOCAL = `
data_dir: /state
metrics: { listen: 127.0.0.1:1 }
sources: { piped: { type: stdin }, app: { type: file, include: [/srv/*.log] } }
managed: { allow_files: [/var/log/**], allow_env: [TOKEN], allow_urls: ['http://logs'] }
`
const env = { TOKEN: 'abc123', SECRET: 'def456' }

function localOf(t: Test, yaml = LOCAL): ManagedConfig {
  const path = join(testFolder(t, { 'local.yaml': yaml }), 'local.yaml')
  return new ManagedConfig(readConfig(path), { env, components })
}

t.test('secrets of a published pipeline are found on the machine', async t => {
  const folder = testFolder(t, { key: 'from-a-file\n', credentials: { up: 'from-systemd' }, empty: '' })
  const local = (secrets: string) => {
    const path = join(folder, 'local.yaml')
    writeFileSync(path, `sources: { piped: { type: stdin } }\nmanaged: { secrets: ${secrets} }\n`)
    const variables = { ...env, CREDENTIALS_DIRECTORY: join(folder, 'credentials') }
    return new ManagedConfig(readConfig(path), { env: variables, components })
  }
  const out = (key: string, more = {}) => ({
    destinations: {
      out: {
        type: 'http',
        inputs: ['ingest'],
        url: 'http://logs/',
        auth: { key },
        headers: { a: `Bearer ${key}` },
        ...more,
      },
    },
  })
  const found = (secrets: string) => {
    const { options } = local(secrets).with(out('${secret:up}'), 'doc').destinations[0]!
    const { auth, headers } = options as { auth: { key: { reveal(): string } }; headers: { a: string } }
    return [auth.key.reveal(), headers.a]
  }
  t.same(found(`{ up: { file: ${join(folder, 'key')} } }`), ['from-a-file', 'Bearer from-a-file'])
  t.same(found('{ up: { credential: up } }'), ['from-systemd', 'Bearer from-systemd'])
  t.same(found('{ up: { env: SECRET } }'), ['def456', 'Bearer def456'])
  const url = 'http://logs/?a=b&token=${secret:up}'
  const { options } = local('{ up: { env: SECRET } }').with(out('${secret:up}', { url }), 'doc').destinations[0]!
  t.match(options, { url: 'http://logs/?a=b&token=def456' })
  const bounded = local('{ up: { env: SECRET } }, allow_urls: [http://other/]')
  t.throws(() => bounded.with(out('${secret:up}', { url }), 'doc'), { message: /url: http:\/\/logs\/ is not among/ })
  const refused = (secrets: string, message: RegExp, document: object = out('${secret:up}')) =>
    t.throws(() => local(secrets).with(document, 'doc'), { code: 'SLUICE_CONFIG', message })
  refused('{}', /the secret up is not available here; .*managed\.secrets/)
  refused('{ up: { env: NOPE } }', /managed\.secrets\.up: .*NOPE is not set/)
  refused(`{ up: { file: ${join(folder, 'empty')} } }`, /managed\.secrets\.up: .*file is empty/)
  refused(`{ up: { file: ${join(folder, 'gone')} } }`, /managed\.secrets\.up: .*ENOENT/)
  refused('{ up: { env: SECRET } }', /url: must not refer to a secret/, out('x', { url: 'http://logs/${secret:up}' }))
  refused('{}', /auth\.key: the key is hidden here: write \$\{secret:NAME\}/, out('••••••••', { headers: {} }))
  t.throws(() => local('{ up: { env: A, file: /b } }'), { message: /needs exactly one of file, credential and env/ })
})

t.test('a published pipeline runs code only where the machine allows it; the local part always does', async t => {
  const script = (inputs: string) => ({ type: 'script', inputs: [inputs], code: 'event => event' })
  const out = { type: 'blackhole', inputs: ['mine'] }
  const published = { processors: { mine: script('ingest') }, destinations: { out } }
  const local = (rest: string) => localOf(t, `sources: { piped: { type: stdin } }\n${rest}`)
  const message = /processors\.mine\.code: .* must not run code; .*allow_code: true/
  t.throws(() => local('').with(published, 'doc'), { code: 'SLUICE_CONFIG', message })
  t.ok(local('managed: { allow_code: true }').with(published, 'doc'))
  const own = `processors: { mine: ${JSON.stringify(script('piped'))} }`
  t.ok(local(own).with({ destinations: { out } }, 'doc'))
})

t.test('a configuration of a local part and a published one', async t => {
  const local = localOf(t)
  const out = (more = {}) => ({ out: { type: 'blackhole', inputs: ['ingest'], ...more } })
  const inputs = (document: object) => local.with(document, 'doc').destinations[0]!.inputs
  t.same(inputs({ destinations: out() }), ['piped', 'app'], 'ingest is whatever is there')
  t.same(inputs({ destinations: out({ inputs: ['app', 'ingest'] }) }), ['app', 'piped'])
  const whole = local.with(
    {
      data_dir: '/elsewhere',
      metrics: false,
      managed: { allow_files: ['/**'] },
      sources: { app: { type: 'file', include: ['/etc/shadow'] }, more: { type: 'file', include: ['/var/log/*.log'] } },
      processors: { limit: { type: 'throttle', inputs: ['ingest', 'more'], limit: 5, window: '1s' } },
      destinations: { out: { type: 'http', inputs: ['limit'], url: 'http://logs/x', auth: { key: '${TOKEN}' } } },
    },
    'doc',
  )
  t.match(whole, { dataDir: '/state', metrics: { port: 1 } }, 'settings are local')
  t.same(whole.sources.map(({ id }) => id).sort(), ['app', 'more', 'piped'])
  const bounded = [...whole.sources, ...whole.processors, ...whole.destinations].filter(({ reach }) => reach)
  t.same(bounded.map(({ id }) => id).sort(), ['limit', 'more', 'out'], 'what is not local has bounds while it runs')
  t.match(whole.sources.find(({ id }) => id === 'app')!.options, { include: ['/srv/*.log'] }, 'the local source wins')
  const wrong: [string, object, RegExp][] = [
    [
      'a file',
      { sources: { x: { type: 'file', include: ['/etc/*'] } }, destinations: out({ inputs: ['x'] }) },
      /sources\.x\.include: \/etc\/\* is not among the files/,
    ],
    [
      'the state of the daemon',
      { destinations: out({ type: 'file', path: '/state/x' }) },
      /path: \/state\/x is in the folder where this process keeps its state/,
    ],
    ['an address', { destinations: out({ type: 'http', url: 'http://evil/' }) }, /not among the addresses/],
    [
      'a variable',
      { destinations: out({ type: 'http', url: 'http://logs/', headers: { a: '${SECRET}' } }) },
      /SECRET is not set/,
    ],
    [
      'an id that is taken',
      { processors: { app: { type: 'throttle', inputs: ['ingest'], limit: 1, window: '1s' } }, destinations: out() },
      /the id is taken/,
    ],
    ['an unknown input', { destinations: out({ inputs: ['nothing'] }) }, /there is no source/],
    ['no mapping', [], /must be a mapping/],
  ]
  for (const [what, document, message] of wrong) {
    t.throws(() => local.with(document, 'doc'), { message }, what)
    t.throws(() => local.with(document, 'doc'), { code: 'SLUICE_CONFIG' }, what)
  }
  const path = join(testFolder(t, { 'local.yaml': LOCAL }), 'local.yaml')
  const read = new ManagedConfig(readConfig(path), { env, components })
  writeFileSync(path, 'sources: 1\n')
  t.equal(read.with({ destinations: out() }, 'doc').sources.length, 2, 'what was not read again is as it was')
  const empty = localOf(t, 'metrics: false\n')
  t.throws(() => empty.with({ destinations: out() }, 'doc'), { message: /name a local configuration with sources/ })
  const own = empty.with({ sources: { in: { type: 'stdin' } }, destinations: out({ inputs: ['in'] }) }, 'doc')
  t.equal(own.sources.length, 1, 'standard input is whatever the operator gave')
  t.throws(() => new ManagedConfig(readConfig('/nowhere.yaml'), { env, components }), { code: 'SLUICE_CONFIG' })
})

t.test('files of a published pipeline are examined where it runs', async t => {
  const folder = realpathSync(testFolder(t, { out: { 'a.log': '' }, elsewhere: { 'b.log': '' } }))
  const at = (...names: string[]) => join(folder, ...names)
  symlinkSync(at('out/a.log'), at('out/link.log'))
  linkSync(at('out/a.log'), at('out/hard.log'))
  symlinkSync(at('out'), at('other'))
  symlinkSync(at('out/new.log'), at('out/early.log'))
  mkdirSync(at('out/folder.log'))
  mkdirSync(at('elsewhere/folder.log'))
  const path = at('local.yaml')
  const text = `sources: { piped: { type: stdin } }
data_dir: ${at('state')}
managed: { allow_files: [${at('out')}/**, ${at('other')}/**] }
`
  writeFileSync(path, text)
  const made = (onThisMachine: boolean, ...paths: string[]) => {
    const write = (path: string, i: number) => [`d${i}`, { type: 'file', inputs: ['ingest'], path }]
    const document = { destinations: Object.fromEntries(paths.map(write)) }
    return new ManagedConfig(readConfig(path), { env, components, onThisMachine }).with(document, 'doc')
  }
  const a = at('out/a.log')
  for (const [one, other] of [
    [a, a],
    [a, at('out/link.log')],
    [at('out/hard.log'), a],
    [a, at('other/a.log')],
    [at('out/new.log'), at('other/new.log')],
    [at('out/early.log'), at('out/new.log')],
  ] as const) {
    const message = /doc.*destinations\.d1\.path: the destination d0 writes to .*two destinations need two files/
    t.throws(() => made(true, one, other), { code: 'SLUICE_CONFIG', message }, `${one} ${other}`)
  }
  t.equal(made(true, a, at('out/b.log')).destinations.length, 2)
  t.equal(made(false, a, at('out/link.log')).destinations.length, 2, 'nothing is examined anywhere else')
  t.throws(() => made(true, at('out/folder.log')), { message: /folder\.log cannot be written: it is a folder/ })
  const refused = { message: /is not among the files/ }
  t.throws(() => made(true, at('elsewhere/folder.log')), refused, 'nor is what is not permitted')
  const reads = `sources: { x: { type: file, include: [${a}] } }\ndata_dir: ${at('state')}\nmanaged: { allow_files: [${at('out')}/**] }\n`
  writeFileSync(path, reads)
  const again = { message: /d0\.path: the source x would read .*a\.log/ }
  t.throws(() => made(true, at('out/link.log')), again, 'a local source reads what a destination writes')
})

t.test('addresses of pipelines', async t => {
  const id = '0123456789abcdef01234567'
  t.same(readPipelineUrl(`https://a.example/v3/pipeline/${id}`), { base: 'https://a.example', id })
  t.same(readPipelineUrl(`http://[::1]:8080/behind/v3/pipeline/${id}/`), { base: 'http://[::1]:8080/behind', id })
  for (const text of ['x', `ftp://a/v3/pipeline/${id}`, `http://a/v3/pipeline/1`, `http://u:p@a/v3/pipeline/${id}`])
    t.equal(readPipelineUrl(text), undefined, text)
})

t.test('what is kept on the disk', async t => {
  const folder = testFolder(t)
  const id = '0123456789abcdef01234567'
  let logs = ''
  const log = pino({}, { write: line => void (logs += line) })
  const open = (url = 'http://a') => new RevisionCache(folder, { url, id, log })
  t.equal(await open().read(), undefined)
  const revision = { revision: 3, config: { destinations: {} }, etag: '"3"' }
  await open().write(revision)
  t.same(await open().read(), revision)
  t.equal(await open('http://b').read(), undefined, 'that of another service')
  const path = join(folder, 'managed', `${id}.json`)
  t.equal(statSync(path).mode & 0o777, 0o600)
  const cache = open()
  mkdirSync(`${path}.new`)
  for (let i = 0; i < 3; i++) await cache.write(revision)
  t.equal(logs.match(/cannot cache the running revision/g)?.length, 1, 'once')
  rmdirSync(`${path}.new`)
  for (let i = 0; i < 2; i++) await cache.write(revision)
  t.equal(logs.match(/the running revision is cached again/g)?.length, 1)
})

const revisionOf = (revision: number, limit = revision): PublishedRevision => ({
  revision,
  etag: `"${revision}"`,
  config: {
    processors: { p: { type: 'throttle', inputs: ['ingest'], limit, window: '1s' } },
    destinations: { out: { type: 'blackhole', inputs: ['p'] } },
  },
})

/** A service, a disk and an engine that do as they are told; time passes as fast as it can. */
function setUp(t: Test, kept?: PublishedRevision) {
  const it = {
    published: undefined as PublishedRevision | undefined,
    away: undefined as Error | undefined,
    asked: 0,
    kept,
    keptFails: undefined as Error | undefined,
    unbuildable: new Set<number>(),
    /** The destinations with events that another configuration has no place for. */
    left: [] as { id: string }[],
    ending: false,
    states: [{ id: 'out', state: 'ready', reason: undefined }] as DestinationState[],
    ran: [] as Config[],
    /** What a replacement waits for. */
    replacing: Promise.resolve(),
    reports: [] as Report[],
    slept: [] as number[],
    logs: '',
  }
  const limitOf = (config: Config) => (config.processors[0]!.options as { limit: number }).limit
  const dryRun = async (config: Config) => {
    if (it.unbuildable.has(limitOf(config))) throw new Error('it cannot be built')
  }
  let now = 0
  const managed = new ManagedPipeline(localOf(t), {
    name: 'pipeline x',
    link: {
      async published(etag) {
        it.asked++
        if (it.away) throw it.away
        return it.published?.etag === etag ? undefined : it.published
      },
      async report(report) {
        if (it.away) throw it.away
        it.reports.push(report)
      },
    },
    cache: {
      read: async () => {
        if (it.keptFails) throw it.keptFails
        return it.kept
      },
      write: async revision => {
        it.kept = revision
      },
    },
    dryRun,
    objectionTo: async () => (it.left.length > 0 ? new EventsLeftBehind(it.left) : undefined),
    clock: { now: () => now, wall: () => now },
    random: () => 0.5,
    log: pino({}, { write: line => void (it.logs += line) }),
    daemon: { daemon_id: 'd', host: 'h', version: 'v', started_at: 's' },
    sleep: async (ms, signal) => {
      it.slept.push(ms)
      now += 1000
      if (!signal?.aborted) await nextTurn()
    },
  })
  t.teardown(() => managed.leave())
  const pipeline = {
    states: () => it.states,
    async replace(config: Config, { keepsEvents }: ReplaceOptions) {
      await dryRun(config)
      await it.replacing
      if (it.ending) throw new NotNow('Sluice is stopping')
      if (keepsEvents && it.left.length > 0) throw new EventsLeftBehind(it.left)
      it.ran.push(config)
    },
  }
  const ran = () => it.ran.map(limitOf)
  const first = async (signal = new AbortController().signal) => {
    const config = await managed.first(signal)
    return config && limitOf(config)
  }
  /** The first report from now on that fits. */
  const reported = (fits: (report: Report) => boolean) => {
    const from = it.reports.length
    return until('a report', () => it.reports.slice(from).find(fits), { show: () => it.reports.at(-1) })
  }
  return { it, managed, pipeline, first, reported, ran }
}

t.test('what to start with', async t => {
  const there = setUp(t, revisionOf(1))
  there.it.published = revisionOf(2)
  t.equal(await there.first(), 2)
  t.equal(there.it.kept!.revision, 2, 'which is kept')

  const away = setUp(t, revisionOf(1))
  away.it.away = new Error('ECONNREFUSED')
  t.equal(await away.first(), 1, 'the kept one while the service is away')
  t.match(away.it.logs, /running the cached revision/)
  const leave = away.managed.follow(
    away.pipeline,
    () => ({}),
    async () => [],
  )
  await until(() => away.it.asked > 12)
  t.ok(Math.min(...away.it.slept) >= 1000, `${away.it.slept}`)
  t.ok(Math.max(...away.it.slept) < 60_000, 'it asks at least once a minute')
  await leave()

  const bad = setUp(t, revisionOf(1))
  bad.it.published = revisionOf(2)
  bad.it.unbuildable.add(2)
  t.equal(await bad.first(), 1, 'the kept one while the published one cannot run')
  t.equal(bad.it.kept!.revision, 1)
  const restored = setUp(t, revisionOf(2, 1))
  restored.it.published = revisionOf(2)
  restored.it.unbuildable.add(2)
  t.equal(await restored.first(AbortSignal.timeout(20_000)), 1, 'also if both have the same number')

  const nothing = setUp(t)
  nothing.it.away = new Error('ECONNREFUSED')
  const waiting = nothing.first()
  await until(() => nothing.it.asked > 3)
  nothing.it.away = undefined
  nothing.it.published = revisionOf(7)
  t.equal(await waiting, 7, 'it waits for the first one')
  t.equal(nothing.it.logs.match(/cannot reach the service;/g)?.length, 1, 'and says so once')

  const unreadable = setUp(t)
  unreadable.it.away = new Error('ECONNREFUSED')
  unreadable.it.keptFails = new StateUnreadable('/x/managed/p.json', new Error('EACCES'))
  const held = unreadable.first()
  await until(() => unreadable.it.asked > 3)
  t.match(unreadable.managed.waitsFor, /ECONNREFUSED; cannot read \/x\/managed\/p\.json/)
  unreadable.it.keptFails = undefined
  unreadable.it.kept = revisionOf(5)
  t.equal(await held, 5, 'it is read when that is possible')
  t.equal(unreadable.it.logs.match(/SLUICE_STATE_UNREADABLE/g)?.length, 1)

  const ended = setUp(t)
  const controller = new AbortController()
  const end = ended.first(controller.signal)
  controller.abort()
  t.equal(await end, undefined)
})

t.test('revisions that follow, and reports of them', async t => {
  const { it, managed, pipeline, first, reported, ran } = setUp(t)
  it.published = revisionOf(1)
  await first()
  const problems: string[] = []
  const waits: Wait[] = []
  const leave = managed.follow(
    pipeline,
    () => ({ received: 5 }),
    async () => problems,
    () => waits,
  )
  await until(() => it.reports.length > 0)
  t.match(it.reports[0], { daemon_id: 'd', revision: 1, health: 'ready', error: null, totals: { received: 5 } })
  it.published = revisionOf(2)
  await until(() => it.kept?.revision === 2)
  t.same(ran(), [2])
  await reported(report => report.revision === 2)

  waits.push({ id: 'in', for: ['out'], since: '2026-01-01T00:00:00.000Z' })
  t.match(await reported(report => report.error !== null), { health: 'ready', error: 'in waits for out' })
  waits.pop()
  await reported(report => report.error === null)

  it.unbuildable.add(3)
  it.published = revisionOf(3)
  t.match(await reported(report => report.error !== null), {
    revision: 2,
    health: 'ready',
    error: /^revision 3 cannot run: it cannot be built/,
  })
  t.equal(it.kept!.revision, 2)
  const asked = it.asked
  await until(() => it.asked > asked + 3)
  t.equal(it.logs.match(/SLUICE_REVISION_REFUSED/g)?.length, 1, 'it is not tried again and again')
  it.published = {
    ...revisionOf(4),
    config: { destinations: { out: { type: 'file', path: '/etc/x', inputs: ['ingest'] } } },
  }
  t.match(await reported(report => /revision 4/.test(report.error ?? '')), {
    revision: 2,
    error: /not among the files.*managed/,
  })

  it.published = revisionOf(5)
  t.match(await reported(report => report.revision === 5), { revision: 5, error: null })
  managed.wentBack(new Error('its destination cannot start'), it.ran[1]!, it.ran[0]!)
  t.match(await reported(report => report.revision === 2), {
    revision: 2,
    error: /revision 5 cannot run: its destination/,
  })
  t.equal(it.kept!.revision, 2, 'what runs is kept')

  it.states = [{ id: 'out', state: 'holding', reason: '401 from there', ownReason: 'status 401' }]
  t.match(await reported(report => report.health === 'holding'), { error: /out: status 401/ })
  problems.push('out is holding: 401 from there', 'in: 2 files cannot be read')
  t.match(
    await reported(report =>
      (report.error ?? '').endsWith('; out is holding: 401 from there; in: 2 files cannot be read'),
    ),
    { error: /^revision 5 cannot run: / },
    'and all that is wrong, as status shows it',
  )
  problems.splice(0, 2, `\n in: \u001b[1mcannot read\r\n\ta file\ud800 ${'.'.repeat(1000)}`)
  const odd = await reported(report => /a file/.test(report.error ?? ''))
  t.match(odd.error, /; in: \\u\{1b\}\[1mcannot read a file\\u\{d800\} \.+$/, 'on one line')
  const accepted = [odd]
  // In one of them, the limit is within a pair.
  for (const before of ['a', 'bb']) {
    problems.splice(0, 1, before + '\u{1f4c1}'.repeat(1000))
    accepted.push(await reported(report => report.error?.includes(`; ${before}\u{1f4c1}`) === true))
  }
  for (const { error } of accepted) t.equal(reportInput.shape.error.safeParse(error).data, error, 'it is accepted')

  const before = it.reports.length
  it.away = new Error('ECONNREFUSED')
  const from = it.asked
  await until(() => it.asked > from + 4)
  t.ok(Math.max(...it.slept) >= 38_400 && Math.max(...it.slept) < 60_000, 'asked less often while it is away')
  it.away = undefined
  it.published = revisionOf(6)
  await reported(report => report.revision === 6)
  t.ok(it.reports.length > before)
  it.published = { ...revisionOf(6), etag: '"renamed"' }
  const known = it.asked
  await until(() => it.asked > known + 1)
  t.same(ran(), [2, 5, 6])
  it.published = { ...revisionOf(6, 7), etag: '"restored"' }
  await until('the other revision 6', () => it.kept?.etag === '"restored"')
  t.same(ran(), [2, 5, 6, 7])
  managed.wentBack(new Error('its destination cannot start'), it.ran[3]!, it.ran[2]!)
  await until('the revision before it', () => it.kept?.etag === '"6"')
  const reports = it.reports.length
  await leave()
  t.ok(it.reports.length > reports, 'a last report')
})

t.test('a revision to start with that is refused: reported, and tried again', async t => {
  const { it, managed, reported } = setUp(t)
  it.published = revisionOf(3)
  it.unbuildable.add(3)
  let served = 0
  const config = managed.first(new AbortController().signal, async () => void served++)
  await until(() => it.reports.length > 0)
  const report = { revision: null, health: 'failed', error: 'revision 3 cannot run: it cannot be built' }
  t.match(it.reports[0], report)
  const asked = it.asked
  await until(() => it.asked > asked + 3)
  t.equal(served, 1, 'it can be looked into')
  t.equal(it.logs.match(/SLUICE_REVISION_REFUSED/g)?.length, 1, 'the same refusal is logged once')
  t.match(managed.status, { revision: undefined, published: 3, refused: 3, unreachable: undefined })
  it.unbuildable.clear()
  t.ok(await config, 'the same revision is tried again')
  t.match(managed.status, { revision: 3, refused: undefined })
  managed.held('cannot read a buffer')
  t.match(await reported(report => report.revision === 3), {
    revision: 3,
    health: 'holding',
    error: 'cannot read a buffer',
  })

  const both = setUp(t, revisionOf(1))
  both.it.published = revisionOf(2)
  both.it.unbuildable.add(1).add(2)
  const none = both.first()
  await until(() => both.it.reports.length > 0)
  t.match(both.managed.status, { refused: 2 }, 'the newest matters where the cached one cannot run either')
  both.it.unbuildable.clear()
  t.equal(await none, 2)
})

t.test('a revision that would leave buffered events behind waits until they are delivered', async t => {
  const { it, managed, pipeline, first, reported, ran } = setUp(t, revisionOf(1))
  it.published = revisionOf(2)
  it.left = [{ id: 'up' }]
  t.equal(await first(), 1, 'at a start the cached one runs')
  t.equal(it.kept!.revision, 1)
  managed.follow(pipeline, () => ({}))
  const waits = /^revision 2 cannot run: the disk buffer of up holds events.*"renamed_from: up"/
  await until(() => it.reports.length > 0)
  t.match(it.reports.at(-1), { revision: 1, health: 'ready', error: waits })
  t.match(managed.status, { revision: 1, published: 2, refused: 2, refusal: /the disk buffer of up/ })
  const asked = it.asked
  await until(() => it.asked > asked + 3)
  t.equal(it.logs.match(/SLUICE_REVISION_REFUSED/g)?.length, 1, 'it is logged once')
  t.same(it.ran, [])
  it.left = []
  t.match(await reported(report => report.revision === 2), { revision: 2, error: null })
  t.same(ran(), [2], 'the same revision is tried again')
  t.equal(it.kept!.revision, 2)
  it.left = [{ id: 'up' }]
  it.published = revisionOf(3)
  await reported(report => report.error !== null)
  it.left = []
  t.match(await reported(report => report.revision === 3), { revision: 3, error: null }, 'under way, too')
  it.ending = true
  it.published = revisionOf(4)
  const before = it.asked
  await until(() => it.asked > before + 3)
  t.match(it.reports.at(-1), { revision: 3, error: null }, 'an end is no fault of a revision')
  it.ending = false
  await reported(report => report.revision === 4)

  const alone = setUp(t)
  alone.it.published = revisionOf(1)
  alone.it.left = [{ id: 'gone' }]
  t.equal(await alone.first(), 1, 'what no revision delivers keeps none from running')
  const broken = setUp(t, revisionOf(1))
  broken.it.published = revisionOf(2)
  broken.it.left = [{ id: 'up' }]
  broken.it.unbuildable.add(1)
  t.equal(await broken.first(), 2, 'nor does one that cannot run')
})

t.test('a revision that is tried is not reported as the one that runs', async t => {
  const { it, managed, pipeline, first, reported, ran } = setUp(t)
  it.published = revisionOf(1)
  await first()
  managed.follow(pipeline, () => ({}))
  it.left = [{ id: 'up' }]
  it.published = revisionOf(2)
  await reported(report => report.error !== null)
  const waits = { revision: 1, error: /^revision 2 cannot run: the disk buffer of up/ }
  let go = () => {}
  it.replacing = new Promise(resolve => {
    go = resolve
  })
  const asked = it.asked
  await until(() => it.asked > asked)
  const before = it.reports.length
  await until(() => it.reports.length > before + 2)
  t.match(it.reports.at(-1), waits, 'while it is tried again')
  t.match(managed.status, { revision: 1, refused: 2 })

  const local = localOf(t)
  let reread: Config | undefined
  const reload = managed.inTurn(async () => {
    reread = managed.reread(local)
    it.ran.push(reread)
  })
  await until(() => it.reports.length > before + 4)
  t.equal(reread, undefined, 'a reload waits for that')
  go()
  await reload
  t.same(ran(), [1], 'and keeps the revision that runs')

  it.left = []
  await reported(report => report.revision === 2)
  const two = it.ran[1]!
  await managed.inTurn(async () => {
    it.ran.push(managed.reread(local))
  })
  managed.wentBack(new Error('the port is taken'), it.ran[2]!, two)
  t.match(
    managed.status,
    { revision: 2, refused: undefined },
    'a local part that cannot start is no fault of a revision',
  )
  t.equal(it.kept!.revision, 2)
})

t.test('what an operator of a managed daemon reads', async t => {
  const usual = {
    pipeline: 'p',
    service: 'http://s',
    revision: 4,
    published: 4,
    refused: undefined,
    refusal: undefined,
    last_contact: 100,
    unreachable_seconds: undefined,
    unreachable: undefined,
    report_problem: undefined,
  }
  const line = (more: object) => managedLine({ managed: { ...usual, ...more }, wall: 103_000 })
  t.equal(line({}), 'Pipeline p, revision 4; last contact 3s ago with http://s')
  t.match(line({ published: 5 }), /revision 4 \(5 is published\);/)
  t.match(line({ revision: undefined, last_contact: undefined }), /no revision runs \(4 is published\); no contact yet/)
  t.equal(managedLine({ wall: 0 }), undefined, 'another daemon')
  const problems = (more: object) => {
    const metrics = new Metrics(pino({ level: 'silent' }))
    managedMetrics(metrics, () => ({ ...usual, ...more }))
    return reportedBy(metrics)
  }
  t.same(problems({}), [])
  t.same(problems({ unreachable_seconds: 59, unreachable: 'ECONNREFUSED' }), [], 'a service that is restarted')
  t.match(problems({ unreachable_seconds: 60, unreachable: 'ECONNREFUSED' }), [
    { what: /has not sent the pipeline for .*: ECONNREFUSED/, todo: /^Revision 4 keeps running\./ },
  ])
  t.match(problems({ refused: 5, refusal: 'why' }), [{ what: /revision 5 .* cannot run here: why/ }])
  t.match(problems({ report_problem: 'no room' }), [{ what: /does not accept the reports .*: no room/ }])
})

t.test('the fleet as a table', async t => {
  const daemon = (host: string, more: object) =>
    ({
      id: host,
      host,
      started_at: null,
      reported_at: '2026-01-01T00:00:00.000Z',
      pipeline_id: 'p',
      version: '1',
      revision: 3,
      published_revision: 3,
      behind: false,
      silent: false,
      health: 'ready',
      error: null,
      totals: { received: 1500, delivered: 20 },
      ...more,
    }) as DaemonDocument
  t.match(fleetText([], 80), /No daemon/)
  const refused = fleetText([daemon('web-1', { error: 'the pipeline cannot run on this host '.repeat(5) })], 80)
  t.same(
    refused.split('\n').filter(line => line.length > 80),
    [],
    'nothing is wider than the terminal',
  )
  const text = fleetText(
    [
      daemon('web-1', {}),
      daemon('web-2', { revision: 2, behind: true, error: 'why' }),
      daemon('web-3', { silent: true }),
    ],
    80,
  )
  t.match(text, /^web-1 +p +3 +ready +1.50k +20 +1$/m)
  t.match(text, /^web-2 +p +2 of 3 +ready/m)
  t.match(text, /^web-3 .*silent/m)
  t.match(text, /^! web-2: why$/m)
  t.match(text, /3 daemons, 1 behind, 1 silent$/)
})
