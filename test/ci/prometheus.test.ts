import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseDocument } from 'yaml'
import { commands } from '../../src/cli/commands.js'
import { findCommand } from '../../src/daemon/process/command-line.js'
import { HOST, ownPort } from '../support/address.js'
import { bound } from '../support/bound.js'
import { type Certificates, makeCertificates } from '../support/certificates.js'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { type Receiver, startReceiver } from '../support/receiver.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

interface Sample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [number, string]
}

interface Rule {
  readonly name: string
  readonly type: 'alerting' | 'recording'
  readonly health: string
  readonly lastError?: string
  readonly query: string
  readonly state?: string
}

/** A real Prometheus that scrapes. */
interface Prometheus {
  /** What an expression gives now; throws what Prometheus has against it. */
  query(expr: string): Promise<readonly Sample[]>
  /** Exemplars of the last minute. */
  exemplars(
    expr: string,
  ): Promise<readonly { readonly labels: Readonly<Record<string, string>>; readonly value: string }[]>
  rules(): Promise<readonly Rule[]>
  readonly log: string
}

/** Starts it in `folder`; jobs by their name with the addresses they scrape. It does not outlive the test. */
async function startPrometheus(
  t: Test,
  program: string,
  folder: string,
  jobs: Readonly<Record<string, string>>,
  rules: readonly string[],
): Promise<Prometheus> {
  const scrapes = Object.entries(jobs).map(([job_name, address]) => ({
    job_name,
    static_configs: [{ targets: [address] }],
  }))
  // YAML takes JSON.
  const config = {
    // A machine with much to do answers within two seconds.
    global: { scrape_interval: '2s', scrape_timeout: '2s', evaluation_interval: '1s' },
    rule_files: rules,
    scrape_configs: scrapes,
  }
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config))
  const url = `http://${HOST}:${await ownPort()}`
  const options = {
    'config.file': join(folder, 'prometheus.yml'),
    'storage.tsdb.path': join(folder, 'prometheus'),
    'web.listen-address': url.slice('http://'.length),
    'enable-feature': 'exemplar-storage',
  }
  const child = spawn(
    ...bound(
      program,
      Object.entries(options).map(([name, value]) => `--${name}=${value}`),
    ),
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let log = ''
  child.stderr.setEncoding('utf8').on('data', text => (log += text))
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const ended = once(child, 'close').then(() => process.removeListener('exit', kill))
  t.teardown(async () => {
    kill()
    await ended
  })
  const get = async <T>(path: string, parameters: Record<string, string> = {}): Promise<T> => {
    const answer = await fetch(`${url}/api/v1/${path}`, { method: 'POST', body: new URLSearchParams(parameters) })
    const { data, error } = (await answer.json()) as { data: T; error?: string }
    if (error !== undefined) throw new Error(`${error}: ${parameters.query ?? path}`)
    return data
  }
  const list = async <T>(path: string): Promise<T> =>
    ((await (await fetch(`${url}/api/v1/${path}`)).json()) as { data: T }).data
  const isReady = async () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`Prometheus ended:\n${log}`)
    return await fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    )
  }
  await until('Prometheus to be ready', isReady, { show: () => log })
  return {
    get log() {
      return log
    },
    query: async query => (await get<{ result: readonly Sample[] }>('query', { query })).result,
    async exemplars(query) {
      const now = Date.now() / 1000
      const range = { start: String(now - 60), end: String(now + 60) }
      const found = await get<{ exemplars: { labels: Record<string, string>; value: string }[] }[]>('query_exemplars', {
        query,
        ...range,
      })
      return found.flatMap(({ exemplars }) => exemplars)
    },
    rules: async () => (await list<{ groups: { rules: Rule[] }[] }>('rules')).groups.flatMap(group => group.rules),
  }
}

/** How often Prometheus is asked, in milliseconds. */
const every = 250
const folder = join(checkout, 'config/prometheus')
/** The alerts that somebody should get up for, and examples of others. */
const RULES = ['sluice.rules.yaml', 'sluice.examples.rules.yaml'] as const
const dashboardPath = join(checkout, 'config/grafana/sluice.json')
const read = (path: string) => readFileSync(path, 'utf8')

interface RuleText {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}
interface Rules {
  groups: { rules: RuleText[] }[]
}
const rulesOf = (name: string) =>
  (parseDocument(read(join(folder, name))).toJS() as Rules).groups.flatMap(group => group.rules)
const rules = RULES.flatMap(rulesOf)

/** Alerts for what no test should bring about: their expressions are tried without the bounds. */
const NOT_HERE = `SluiceAbsent SluiceAccountDiskFull SluiceAccountRequestsFull SluiceBacklogGrows
    SluiceCertificateExpired SluiceCheckpointOld SluiceConnectionsRefused SluiceConservationBroken
    SluiceDiskUnwritable SluiceDeletedFilesUndelivered SluiceDown SluiceFileBytesLost
    SluiceFileSystemSilent SluiceKeysExpireSoon SluicePipelineProcessEnded SluicePositionsNotSaved
    SluiceServiceUnreachable SluiceStoreUnwritable SluiceThrottleStateUnsaved`.split(/\s+/)

interface Dashboard {
  readonly annotations: { readonly list: readonly { readonly expr: string }[] }
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] }
  readonly panels: readonly {
    readonly id: number
    readonly type: string
    readonly title: string
    readonly description?: string
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
    readonly targets?: readonly { readonly expr: string }[]
    readonly fieldConfig?: { readonly defaults: { readonly unit?: string } }
  }[]
}
const dashboard = JSON.parse(read(dashboardPath)) as Dashboard

t.test('the rules for Prometheus do what their tests say', async t => {
  const promtool = needs(t, 'promtool')
  if (!promtool) return
  const run = (...args: string[]) => execFileSync(promtool, args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' })
  t.match(run('check', 'rules', ...RULES), /SUCCESS/)
  t.match(run('test', 'rules', 'sluice.rules.test.yaml'), /SUCCESS/)
  const tested = read(join(folder, 'sluice.rules.test.yaml'))
  for (const { alert } of rules) if (alert) t.ok(tested.includes(`alertname: ${alert}`), `${alert} is tested`)
})

t.test('nine alerts get somebody up, and say what is at risk and what to type first', async t => {
  const [page, examples] = RULES.map(rulesOf)
  t.equal(page!.length, 9)
  for (const { alert, labels, annotations } of page!) {
    t.equal(labels?.severity, 'critical', `${alert}`)
    const { description = '' } = annotations ?? {}
    const [, first = ''] = /At risk: .*\. First command: `([^`]+)`/.exec(description) ?? []
    t.match(first, /^(sluice|systemctl|journalctl|df|openssl) \w*/, `${alert}: ${description}`)
    const [name, ...args] = first.split(' ')
    if (name === 'sluice') t.ok(findCommand(args, commands), first)
  }
  t.notOk(examples!.some(({ labels }) => labels?.severity === 'critical'))
})

t.test('the dashboard is what its table makes, and every panel has its place, unit and description', async t => {
  const script = join(checkout, 'scripts/dashboard.mjs')
  t.equal(execFileSync(process.execPath, [script, '--print'], { encoding: 'utf8' }), read(dashboardPath))
  const taken = new Map<string, string>()
  for (const { id, type, title, description, gridPos, fieldConfig } of dashboard.panels) {
    if (type !== 'row') t.ok(description && fieldConfig?.defaults.unit, `${title} is described`)
    const { x, y, w, h } = gridPos
    t.ok(x >= 0 && x + w <= 24, `${title} is as wide as there is room`)
    for (let i = 0; i < w * h; i++) {
      const cell = `${x + (i % w)} ${y + Math.floor(i / w)}`
      if (taken.has(cell)) t.fail(`${title} lies over ${taken.get(cell)}`)
      taken.set(cell, title)
    }
    t.equal(dashboard.panels.filter(other => other.id === id).length, 1)
  }
})

const BEHIND = '{ type: file, include: [behind.log] }'

/** `nobody`: an address at which nobody listens. */
const CONFIG = (receiver: Receiver, certificates: Certificates, nobody: string) => `sources:
  logs: { type: file, include: [in.log, loop.log], decode: json }
  sent: { type: tcp, listen: "127.0.0.1:0", decode: syslog }
  pushed: { type: http, listen: "127.0.0.1:0" }
  secure: { type: tcp, listen: "127.0.0.1:0", tls: { cert_file: ${certificates.path('daemon.pem')}, key_file: ${certificates.path('daemon.key')} } }
  journal: { type: journald }
  behind: ${BEHIND}
  many: { type: file, include: [many.log] }
processors:
  limit: { type: throttle, inputs: [logs], limit: 1, window: 1h, key_field: .app, max_keys: 2, per_key_metrics: { top: 1 }, summary: { every: 100ms, max_per_interval: 1 } }
  full: { type: throttle, inputs: [logs], limit: 1, window: 1h, key_field: .app, max_keys: 2, on_max_keys: discard, limits_file: limits.yaml }
  shadow: { type: throttle, inputs: [logs], limit: 1, window: 1h, mode: shadow, persist: true }
  caught: { type: throttle, inputs: [behind], limit: 1, window: 1h }
  paced: { type: throttle, inputs: [behind], limit: 1, window: 1h, on_backlog: pace }
  timed: { type: throttle, inputs: [logs], limit: 5, window: 1s, time_field: .time, on_error: dead_letter }
  shared: { type: throttle, inputs: [logs], limit: 1, window: 1h, scope: cluster, redis: { url: "redis://${nobody}" }, expected_members: 2 }
destinations:
  up: { type: http, inputs: [limit.discarded], url: "${receiver.url('/up')}", batch: { max_wait: 50ms }, buffer: { type: disk } }
  held: { type: http, inputs: [logs], url: "${receiver.url('/held')}", retry: { initial: 10s }, buffer: { type: disk, max_bytes: 1MB, when_full: drop_newest } }
  failing: { type: http, inputs: [timed], url: "http://${nobody}/", retry: { initial: 100ms, max: 200ms }, buffer: { type: disk } }
  refused: { type: http, inputs: [timed.discarded], url: "${receiver.url('/refused')}", batch: { max_wait: 50ms, max_events: 20 }, hold_after_refusals: 0 }
  blocking: { type: http, inputs: [many], url: "http://${nobody}/" }
  nowhere: { type: blackhole, inputs: [sent, pushed, secure, journal, shared, full, caught, paced] }
shutdown_timeout: 1s
`

/** A journalctl whose output is an entry and something undecodable, ten times a second. */
const JOURNALCTL = `#!/bin/sh
while echo '{"__CURSOR":"c","__REALTIME_TIMESTAMP":"1763640000000000","MESSAGE":"m"}' && echo undecodable; do sleep 0.1; done
`

/** Leaves more in a file than a throttle keeps waiting, of which one line was read. */
async function fallBehind(t: Test, own: string): Promise<void> {
  writeFileSync(join(own, 'behind.log'), 'first\n')
  const daemon = await startDaemon(
    t,
    own,
    `sources: { behind: ${BEHIND} }\ndestinations: { nowhere: { type: blackhole, inputs: [behind] } }\n`,
  )
  await daemon.scrapedUntil(scrape => scrape.events('nowhere').sent === 1)
  await daemon.stop(t)
  appendFileSync(join(own, 'behind.log'), 'more\n'.repeat(12_000))
}

/** A daemon with components of every kind; some work, others fail. */
async function busyDaemon(t: Test, own: string, receiver: Receiver, certificates: Certificates) {
  receiver.otherwise = ({ path }) => (path === '/held' ? 401 : path === '/refused' ? 400 : 202)
  // A link to itself cannot be opened, not even by root.
  symlinkSync('loop.log', join(own, 'loop.log'))
  await fallBehind(t, own)
  // More than the destination takes into memory, to which nobody answers.
  writeFileSync(join(own, 'many.log'), `${'x'.repeat(99)}\n`.repeat(200_000))
  writeFileSync(join(own, 'limits.yaml'), '- { key: a*, limit: 1 }\n')
  mkdirSync(join(own, 'bin'))
  writeFileSync(join(own, 'bin/journalctl'), JOURNALCTL, { mode: 0o755 })
  const daemon = await startDaemon(t, own, CONFIG(receiver, certificates, `${HOST}:${await ownPort()}`), {
    PATH: `${join(own, 'bin')}:${process.env.PATH}`,
  })
  const address = (source: string) =>
    daemon.until(
      () => daemon.logs().find(({ component, address }) => component === source && address)?.address as string,
    )
  const socket = connect(Number((await address('sent')).split(':').at(-1)), '127.0.0.1').on('error', () => {})
  t.teardown(() => socket.destroy())
  const pushed = `http://${await address('pushed')}/`
  const secure = Number((await address('secure')).split(':').at(-1))
  let n = 0
  const write = () => {
    let text = 'not JSON\n'
    for (let i = 0; i < 40; i++, n++) {
      const time = i < 5 ? 'never' : new Date(Date.now() - (i > 37 ? 3_600_000 : 0)).toISOString()
      text += `{"app":"a${n % 3}","time":"${time}","rest":"${'x'.repeat(500)}"}\n`
    }
    appendFileSync(join(own, 'in.log'), text)
    socket.write('one\n')
    // Not TLS, and refused therefore.
    const plain = connect(secure, '127.0.0.1', () => plain.write('one, and no handshake\n')).on('error', () => {})
    fetch(pushed, { method: 'POST', body: 'one\n' }).then(
      answer => answer.arrayBuffer(),
      () => {},
    )
  }
  const writing = setInterval(write, 100)
  t.teardown(() => clearInterval(writing))
  return daemon
}

/** The service, with a key that is right and one that is not. */
async function busyService(t: Test, own: string) {
  const config = join(own, 'service.yaml')
  writeFileSync(config, `metrics: { listen: 127.0.0.1:0 }\nservice: { listen: 127.0.0.1:0, data_dir: ${own}/state }\n`)
  const made = JSON.parse((await command(['admin', 'init', '--config', config, '--json'])).stdout)
  const running = sluice(['serve', '--config', config], { cwd: own })
  t.teardown(async () => {
    running.child.kill('SIGKILL')
    await running.exit
  })
  const url = await running.until(() => /"url":"(http:[^"]+)\/v3"/.exec(running.stderr)?.[1])
  const metrics = await running.until(() => /"url":"http:\/\/([^"]+)\/metrics"/.exec(running.stderr)?.[1])
  const ask = () => {
    for (const key of [made.service_account.key, `sts_${'0'.repeat(40)}`])
      fetch(`${url}/v3/pipeline`, { headers: { authorization: `Token ${key}` } }).then(
        answer => answer.arrayBuffer(),
        () => {},
      )
  }
  const asking = setInterval(ask, 200)
  const ingesting = await refusedIngest(url, made.service_account.key)
  t.teardown(() => clearInterval(ingesting.timer))
  t.teardown(() => clearInterval(asking))
  const managed = await refusedDaemon(t, own, `${url}/v3/pipeline/${ingesting.id}`, made.service_account.key)
  return { metrics, managed }
}

/** A managed daemon that cannot run its pipeline, since it has no source. */
async function refusedDaemon(t: Test, own: string, pipeline: string, key: string) {
  const [config, keyFile] = [join(own, 'local.yaml'), join(own, 'key')]
  writeFileSync(config, `metrics: { listen: 127.0.0.1:0 }\ndata_dir: ${own}/managed\n`)
  writeFileSync(keyFile, key, { mode: 0o600 })
  const running = sluice(['run', '--pipeline', pipeline, '--key-file', keyFile, '--config', config])
  t.teardown(async () => {
    running.child.kill('SIGKILL')
    await running.exit
  })
  return await running.until(() => /"url":"http:\/\/([^"]+)\/metrics"/.exec(running.stderr)?.[1])
}

/** Sends events to a published pipeline that cannot run in the service, again and again. */
async function refusedIngest(url: string, key: string) {
  const headers = { authorization: `Token ${key}`, 'content-type': 'application/json' }
  const post = async (path: string, body: unknown) => {
    const answer = await fetch(`${url}/v3/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await answer.json()) as { data: { id: string } }
  }
  const config = { destinations: { out: { type: 'stdout', inputs: ['ingest'] } } }
  const { data } = await post('pipeline', { title: 'cannot run', config })
  await post(`pipeline/${data.id}/publish`, {})
  return { id: data.id, timer: setInterval(() => void post(`ingest/${data.id}`, [{ a: 1 }]).catch(() => {}), 200) }
}

/** Waits until each of the expressions gives something. */
async function answered(prometheus: Prometheus, all: ReadonlyMap<string, string>): Promise<void> {
  for (const [name, expr] of all)
    await until(`an answer to ${name}`, async () => (await prometheus.query(expr)).length > 0, {
      every,
      show: () => prometheus.log,
    })
}

async function reload(daemon: Daemon, change: (text: string) => string, said: RegExp): Promise<void> {
  const before = daemon.logs().length
  writeFileSync(daemon.configPath, change(read(daemon.configPath)))
  daemon.child.kill('SIGHUP')
  await daemon.until(() =>
    daemon
      .logs()
      .slice(before)
      .find(({ msg }) => said.test(String(msg))),
  )
}

t.test('a real Prometheus: every query of the dashboard and of the rules has an answer', async t => {
  const program = needs(t, 'prometheus')
  const promtool = needs(t, 'promtool')
  const openssl = needs(t, 'openssl')
  if (!program || !promtool || !openssl) return
  const receiver = await startReceiver()
  // Before the folder is asked for: what is torn down later than that would find it gone.
  t.teardown(() => receiver.close())
  const orphans = { 'dead-letter': { 'gone.ndjson': '{}\n' } }
  const own = testFolder(t, { certificates: {}, daemon: { 'in.log': '', state: orphans }, service: {}, prometheus: {} })
  const [daemon, api] = await Promise.all([
    busyDaemon(t, join(own, 'daemon'), receiver, makeCertificates(openssl, join(own, 'certificates'), ['daemon'])),
    busyService(t, join(own, 'service')),
  ])
  const { host } = new URL(/"url":"([^"]+)","msg":"metrics are served"/.exec(daemon.stderr)![1]!)
  const jobs = { sluice: host, 'sluice-api': api.metrics, 'sluice-managed': api.managed }
  const prometheus = await startPrometheus(
    t,
    program,
    join(own, 'prometheus'),
    jobs,
    RULES.map(name => join(folder, name)),
  )

  const filled = (expr: string) =>
    expr.replaceAll(/\$(job|instance|component)\b/g, '.*').replaceAll('$__rate_interval', '5m')
  const queries = new Map<string, string>()
  for (const { title, targets = [] } of dashboard.panels)
    for (const [i, { expr }] of targets.entries()) queries.set(`${title}, ${i + 1}`, filled(expr))
  for (const { expr } of dashboard.annotations.list) queries.set('annotation', filled(expr))
  for (const { name, definition } of dashboard.templating.list) {
    const [, series, label] = /^label_values\((.+), (\w+)\)$/.exec(definition ?? '') ?? []
    if (definition !== undefined) queries.set(`$${name}`, `count by (${label}) (${filled(series!)})`)
  }
  for (const { alert, record, expr } of rules) {
    // Only a node that is gone has such a series: test/ci/nodes.
    if (alert === 'SluiceServiceNodeGone') continue
    if (alert === undefined || !NOT_HERE.includes(alert)) queries.set(`${alert ?? record}`, expr)
    else {
      const unbounded = expr.replaceAll(/ (>|==|<=) ([\d.e]+|time\(\))/g, '').replaceAll('absent(', 'count(')
      queries.set(`${alert}, without its bounds`, unbounded)
    }
  }
  t.ok(queries.size > 150, `${queries.size} queries`)
  for (const expr of queries.values()) t.notMatch(expr.replace('"$1"', ''), /\$/, 'every variable is known')

  // What only a reload, and one that fails, shows.
  await prometheusSees(prometheus, 'count(up == 1) == 3')
  await reload(daemon, text => `${text}# another\n`, /configuration reloaded/)
  await prometheusSees(prometheus, queries.get('annotation')!)
  queries.delete('annotation')
  await reload(daemon, text => `${text}nonsense: 1\n`, /cannot apply the new/)
  // No configuration could be loaded with it.
  writeFileSync(join(own, 'daemon/limits.yaml'), 'broken')
  await answered(prometheus, queries)

  await prometheusSees(prometheus, 'count(up == 1) == 3')
  let wrong: string[] = []
  const isEvaluated = async () => {
    const found = await prometheus.rules()
    wrong = found.flatMap(({ name, health, lastError }) => (health === 'ok' ? [] : `${name}: ${lastError}`))
    return wrong.length === 0 && found.length === rules.length
  }
  await until('every rule to be evaluated', isEvaluated, { every, show: () => wrong })

  const waiting = async () => (await prometheus.rules()).find(({ name }) => name === 'SluiceComponentsWait')!.state
  t.match(await waiting(), /pending|firing/, 'it fires after its time')

  const ids = (all: readonly { labels: Readonly<Record<string, string>> }[]) =>
    all.map(({ labels }) => labels.request_id)
  const given = () => receiver.requests.map((_, i) => `request-${i + 1}`)
  for (const name of ['sluice_delivery_attempt_seconds_bucket', 'sluice_http_requests_total']) {
    const exemplars = async () => {
      const found = ids(await prometheus.exemplars(`${name}{component_id="up"}`))
      return found.length > 0 && found
    }
    const shown = await until(`exemplars of ${name}`, exemplars, { every })
    t.same(
      shown.filter(id => !given().includes(id!)),
      [],
      `exemplars of ${name} are ids of requests`,
    )
  }
  const metrics = (await daemon.get('/metrics')).body
  const ofThrottles = [...metrics.matchAll(/^# TYPE (sluice_(?:throttle|component_waiting(?!_for))_\w+) /gm)].map(
    ([, name]) => name!,
  )
  t.ok(ofThrottles.length > 15)
  t.same(
    ofThrottles.filter(name => !read(dashboardPath).includes(name)),
    [],
    'all metrics of throttles are on the dashboard',
  )
  const text = metrics.replaceAll(/^# (HELP|TYPE) (?!sluice_).*\n/gm, '')
  const checked = execFileSync(promtool, ['check', 'metrics'], {
    input: text.replaceAll(/^(?!sluice_|#).*\n/gm, ''),
    encoding: 'utf8',
    stdio: 'pipe',
  })
  t.equal(checked, '', 'promtool has nothing against its metrics')
})

/** What `test` gives as soon as that is something. */
async function prometheusSees(prometheus: Prometheus, expr: string): Promise<void> {
  await answered(prometheus, new Map([[expr, expr]]))
}
