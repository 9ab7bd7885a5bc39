import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { socketPath } from '../../src/daemon/admin/socket.js'
import { HOST, ownPort } from '../support/address.js'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { longTest } from '../support/long-test.js'
import { parsedLines } from '../support/parsed-lines.js'
import { startReceiver } from '../support/receiver.js'
import { sluice } from '../support/sluice.js'
import { PATIENCE_MS, until } from '../support/until.js'

const RUNS = 'configuration reloaded'
const ABOUT = /^(configuration reloaded|cannot apply the new configuration)/

/** A daemon, and what changes its configuration while lines are written to its file. */
async function reloading(t: Test, config: string, more: Record<string, string> = {}) {
  const folder = testFolder(t, { 'in.log': '', 'sluice.yaml': config, ...more })
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  t.teardown(() => daemon.child.kill('SIGKILL'))
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  const logs = () => parsedLines<{ msg: string; error?: string }>(daemon.stderr)
  let written = 0
  const write = (count: number) => {
    let text = ''
    for (const end = written + count; written < end; written++) text += `{"n":${written}}\n`
    appendFileSync(join(folder, 'in.log'), text)
  }
  /** Resolves with what the log says of it. */
  const reload = async (config: string) => {
    const before = logs().length
    writeFileSync(join(folder, 'sluice.yaml'), config)
    daemon.child.kill('SIGHUP')
    return await daemon.until(() =>
      logs()
        .slice(before)
        .find(({ msg }) => ABOUT.test(msg)),
    )
  }
  const numbers = (...names: string[]) =>
    names.flatMap(name => {
      const path = join(folder, name)
      const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : []
      return lines.map(line => (JSON.parse(line) as { n: number }).n)
    })
  return { folder, daemon, logs, write, reload, numbers, written: () => written }
}

const SOURCE = 'data_dir: ./state\nsources: { app: { type: file, include: [in.log], decode: json } }\n'
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)

t.test('reloads that follow each other do not delay what a processor emits in time', async t => {
  const to = (n: number) =>
    `${SOURCE}metrics: false\nprocessors:
  counts: { type: aggregate, inputs: [app], every: 3s, counters: { n: {} } }
  some: { type: filter, inputs: [app], condition: if (.n greater ${n}) }
destinations:
  out: { type: file, inputs: [counts], path: counts.log }
  none: { type: blackhole, inputs: [some] }\n`
  const { folder, write, reload } = await reloading(t, to(0))
  write(1)
  let n = 0
  const emitted = () => existsSync(join(folder, 'counts.log')) && readFileSync(join(folder, 'counts.log'), 'utf8')
  for (const end = Date.now() + PATIENCE_MS / 2; !emitted() && Date.now() < end; ) await reload(to(++n))
  t.match(emitted(), /"n":1/)
})

t.test('SIGHUP: another configuration takes over, and a wrong one changes nothing', async t => {
  const to = (path: string, rest = '') =>
    `${SOURCE}metrics: { listen: ${HOST}:0 }\n${rest}destinations: { out: { type: file, inputs: [app], path: ${path} } }\n`
  const { folder, daemon, logs, write, reload, numbers, written } = await reloading(t, to('a.log'))
  write(100)
  await daemon.until(() => numbers('a.log').length === 100)
  t.match(await reload(to('b.log')), { msg: 'configuration reloaded', changed: true })
  t.match(await reload(to('b.log')), { msg: 'configuration reloaded', changed: false })
  write(100)
  await daemon.until(() => numbers('b.log').length === 100)

  const wrong = await reload(to('c.log').replace('type: file, inputs', 'type: fiel, inputs'))
  t.match(wrong, { error: /^sluice\.yaml:4:\d+: destinations\.out\.type: .*did you mean "file"\?/ })
  t.match(await reload(to('c.log').replace('./state', './elsewhere')), { error: /data_dir/ })
  write(100)
  await daemon.until(() => numbers('b.log').length === 200)
  t.notOk(existsSync(join(folder, 'c.log')))

  const url = /"url":"([^"]+)"/.exec(daemon.stderr)![1]!
  const scrape = await (await fetch(url)).text()
  t.match(scrape, /^sluice_config_reloads_total\{result="done"\} 2$/m)
  t.match(scrape, /^sluice_config_reloads_total\{result="failed"\} 2$/m)
  t.match(scrape, /^sluice_config_last_reload_successful 0$/m)
  t.match(scrape, /^sluice_component_received_events_total\{component_id="app".*\} 300$/m, 'counts go on')

  const status = await command(['status', '--socket', socketPath(join(folder, 'state'))])
  t.equal(status.code, 1)
  t.match(status.stdout, /^! the last reload failed: the previous configuration is still running$/m)

  // Another address for the metrics.
  await reload(to('b.log').replace(`metrics: { listen: ${HOST}:0 }`, 'metrics: false'))
  await t.rejects(fetch(url))
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  t.same(numbers('a.log', 'b.log'), upTo(written()), 'nothing is lost, nothing is there twice')
  t.match(logs().at(-1), { msg: 'ended', received: 300, undelivered: 0 })
})

longTest(
  'a reload that removes a failing destination is no failure of the source, which reads again what was not delivered',
  async t => {
    const url = `http://${HOST}:${await ownPort()}/`
    const config = (id: string) =>
      `${SOURCE}metrics: false
destinations: { ${id}: { type: http, inputs: [app], url: '${url}', batch: { max_wait: 10ms } } }
`
    const { daemon, logs, write, reload, folder } = await reloading(t, config('up'))
    write(10)
    await daemon.until(() => daemon.stderr.includes('delivery failed; retrying'))
    t.match(await reload(config('other')), { msg: RUNS })
    const again = 'events were not delivered before the reload; the source reads them again from its checkpoint'
    await daemon.until(() => logs().some(({ msg }) => msg === again))
    const failures = () => daemon.stderr.split('delivery failed; retrying').length - 1
    await daemon.until(() => failures() >= 2)
    t.notMatch(daemon.stderr, /source failed/)
    const status = await command(['status', '--socket', socketPath(join(folder, 'state'))])
    t.notMatch(status.stdout, /app fails/)
    t.match(status.stdout, /^! other is failing/m, 'what is wrong is the destination')
  },
)

t.test('the totals name what a reload gave back, and have no sum when that is discarded twice', async t => {
  const url = `http://${HOST}:${await ownPort()}/`
  const config = (id: string) =>
    `${SOURCE}metrics: false
shutdown_timeout: 100ms
processors: { some: { type: filter, inputs: [app], condition: if (.n less 4) } }
destinations: { ${id}: { type: http, inputs: [some], url: '${url}', batch: { max_wait: 10ms } } }
`
  const { daemon, logs, write, reload } = await reloading(t, config('up'))
  write(10)
  await daemon.until(() => daemon.stderr.includes('delivery failed; retrying'))
  t.match(await reload(config('other')), { msg: RUNS })
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  t.match(logs().at(-1), { msg: 'ended', received: 10, given_back: 10, passed: undefined, delivered: { other: 0 } })
})

longTest('the totals count an event once that a reload reads again', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  let refused = '{"n":0}'
  receiver.otherwise = ({ body }) => (body.includes(refused) ? 503 : 200)
  const config = (id: string) =>
    `${SOURCE}metrics: false
destinations: { ${id}: { type: http, inputs: [app], url: '${receiver.url()}', batch: { max_wait: 10ms } } }
`
  const { daemon, logs, write, reload } = await reloading(t, config('up'))
  const accepted = (n: number) =>
    receiver.requests.some(({ body, status }) => status === 200 && body.includes(`{"n":${n}}`))
  write(10)
  await daemon.until(() => daemon.stderr.includes('delivery failed; retrying'))
  write(10)
  await daemon.until(() => accepted(19))
  t.match(await reload(config('other')), { msg: RUNS })
  refused = 'nothing'
  await daemon.until(() => accepted(0))
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  t.match(logs().at(-1), { received: 20, given_back: 10, passed: 20, delivered: { other: 20 }, undelivered: 0 })
})

t.test('what stays the same keeps what it has: open windows and connections', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const config = ({ limit = 5, timeField = '', discards = 'file, path: a.log', url = receiver.url() }) =>
    `${SOURCE}metrics: false
processors:
  lim: { type: throttle, inputs: [app], limit: ${limit}, window: 1h }
  timed: { type: throttle, inputs: [app], limit: ${limit}, window: 1h${timeField} }
destinations:
  up: { type: http, inputs: [lim], url: "${url}", batch: { max_wait: 1ms } }
  kept: { type: file, inputs: [timed], path: timed.log }
  no: { type: ${discards}, inputs: [lim.discarded] }
`
  const byTime = ', time_field: .t'
  const { daemon, write, reload, numbers } = await reloading(t, config({ timeField: byTime }))
  const passed = () => receiver.lines().length
  write(20)
  await daemon.until(() => passed() === 5 && numbers('a.log').length === 15 && numbers('timed.log').length === 5)
  const { connections } = receiver
  t.ok(connections > 0)

  t.match(await reload(config({ timeField: byTime, discards: 'file, path: b.log' })), { msg: RUNS })
  write(20)
  await daemon.until(() => numbers('b.log').length === 20)
  t.equal(passed(), 5, 'the window goes on')
  t.equal(numbers('timed.log').length, 5, 'that in the time of the events, too')

  t.match(await reload(config({ limit: 6, discards: 'file, path: c.log' })), { msg: RUNS })
  write(20)
  await daemon.until(() => numbers('c.log').length === 14 && passed() === 11)
  t.equal(receiver.connections, connections, 'over the same connection')

  t.match(await reload(config({ limit: 7, url: receiver.url('/other') })), { msg: RUNS })
  write(20)
  await daemon.until(() => passed() === 18)
  t.ok(receiver.connections > connections, 'what has other options begins anew')
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
})

longTest('a script alone has changed: it is applied, while a request of another branch is under way', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  let answer = () => {}
  receiver.script.push({ wait: new Promise<void>(resolve => (answer = resolve)) })
  const config = `${SOURCE}metrics: false
processors: { mine: { type: script, inputs: [app], file: mine.js } }
destinations:
  up: { type: http, inputs: [app], url: "${receiver.url()}", batch: { max_wait: 1ms }, max_in_flight: 1 }
  out: { type: file, inputs: [mine], path: out.log }
`
  const script = (add: number) => `export default event => ({ n: event.n + ${add} })\n`
  const { daemon, folder, write, reload, numbers } = await reloading(t, config, {
    'mine.js': script(100),
  })
  write(5)
  await daemon.until(() => numbers('out.log').length === 5 && receiver.requests.length === 1)
  for (const add of [200, 300]) {
    writeFileSync(join(folder, 'mine.js'), script(add))
    t.match(await reload(config), { msg: RUNS })
    write(5)
    await daemon.until(() => numbers('out.log').at(-1)! > add)
  }
  await daemon.until(() => numbers('out.log').length === 15)
  t.same(numbers('out.log'), [...upTo(5).map(n => n + 100), 205, 206, 207, 208, 209, 310, 311, 312, 313, 314])
  t.match([receiver.requests.length, receiver.connections], [1, 1], 'the request was neither cut nor sent again')
  answer()
  await daemon.until(() => receiver.lines().length === 15)
  t.equal(receiver.connections, 1, 'the others follow on its connection')
  t.same(
    receiver.lines().map(line => (JSON.parse(line) as { n: number }).n),
    upTo(15),
  )
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
})

t.test('reload: watch', async t => {
  const to = (path: string, how = 'watch') =>
    `${SOURCE}metrics: { listen: ${HOST}:0 }\nreload: ${how}\ndestinations: { out: { type: file, inputs: [app], path: ${path} } }\n`
  const { folder, daemon, logs, write, numbers } = await reloading(t, to('a.log'))
  const path = join(folder, 'sluice.yaml')
  const url = await daemon.until(() => /"url":"([^"]+)"/.exec(daemon.stderr)?.[1])
  const scrape = async () => await (await fetch(url)).text()
  const hash = async () => /^sluice_config_info\{hash="(\w{12})"\} 1$/m.exec(await scrape())?.[1]
  const first = await hash()
  const since = Number(/^sluice_config_last_reload_success_timestamp_seconds (\S+)$/m.exec(await scrape())![1])
  t.ok(first)
  const changed = (text: string) => {
    const before = logs().length
    writeFileSync(`${path}.new`, text)
    renameSync(`${path}.new`, path)
    return daemon.until(() =>
      logs()
        .slice(before)
        .find(({ msg }) => ABOUT.test(msg)),
    )
  }
  t.match(await changed(to('b.log')), { msg: RUNS, hash: /^\w{12}$/ })
  const second = await hash()
  t.not(second, first)
  t.match(await changed(to('b.log').replace('type: file', 'type: fiel')), { error: /did you mean "file"/ })
  const text = await scrape()
  t.match(text, /^sluice_config_last_reload_successful 0$/m)
  t.match(text, /^sluice_config_reloads_total\{result="failed"\} 1$/m)
  t.ok(Number(/^sluice_config_last_reload_success_timestamp_seconds (\S+)$/m.exec(text)![1]) > since)
  t.equal(await hash(), second, 'what runs is still the one before')
  t.match(await changed(to('c.log', 'signal')), { msg: RUNS })
  write(10)
  await daemon.until(() => numbers('c.log').length === 10)
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
})

t.test('an address for the metrics that cannot be had changes nothing', async t => {
  const { url: taken, close } = await startReceiver().then(one => ({
    url: new URL(one.url()),
    close: () => one.close(),
  }))
  t.teardown(close)
  const to = (path: string, listen: string) =>
    `${SOURCE}metrics: { listen: "${listen}" }\ndestinations: { out: { type: file, inputs: [app], path: ${path} } }\n`
  const { daemon, reload, write, numbers } = await reloading(t, to('a.log', `${HOST}:0`))
  t.match(await reload(to('b.log', taken.host)), { error: /another program listens there/ })
  write(10)
  await daemon.until(() => numbers('a.log').length === 10)
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
})

longTest('a file of lines that goes to one file, whatever is reloaded: every line once, in order', async t => {
  const variants = [
    'destinations: { out: { type: file, inputs: [app], path: out.log, encoding: raw } }\n',
    `processors: { all: { type: filter, inputs: [app], condition: if (.n exists) } }\ndestinations: { out: { type: file, inputs: [all], path: out.log } }\n`,
    `processors: { lim: { type: throttle, inputs: [app], limit: 1000000000, window: 1h } }\ndestinations: { out: { type: file, inputs: [lim], path: out.log }, no: { type: blackhole, inputs: [lim, app] } }\n`,
  ]
  const config = (i: number) => `${SOURCE}metrics: false\n${variants[i % variants.length]}`
  const { daemon, write, reload, numbers, written } = await reloading(t, config(0))
  const writing = setInterval(() => write(500), 5)
  t.teardown(() => clearInterval(writing))
  for (let i = 1; i <= 15; i++) {
    const { msg, error } = await reload(config(i * 7 + (i >> 1)))
    if (msg !== 'configuration reloaded') t.fail(error ?? msg)
  }
  await until('enough lines', () => written() > 5000)
  clearInterval(writing)
  await daemon.until(() => numbers('out.log').length >= written())
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  t.same(numbers('out.log'), upTo(written()))
})

t.test('a line that is unfinished at a reload is not cut, whether or not its source changes', async t => {
  const config = (scan: string) => `data_dir: ./state
metrics: false
sources: { app: { type: file, include: [in.log], scan_interval: ${scan} } }
destinations: { out: { type: file, inputs: [app], path: out.ndjson, encoding: json } }
`
  const { folder, daemon, reload } = await reloading(t, config('50ms'))
  const append = (text: string) => appendFileSync(join(folder, 'in.log'), text)
  const out = join(folder, 'out.ndjson')
  const messages = () =>
    existsSync(out)
      ? readFileSync(out, 'utf8')
          .split('\n')
          .slice(0, -1)
          .map(line => JSON.parse(line).message)
      : []
  append('begins\nthis ')
  await daemon.until(() => messages().length === 1)
  t.match(await reload(config('60ms')), { msg: RUNS })
  append('line ')
  t.match(await reload(config('60ms').replace('metrics: false', 'metrics: false\nshutdown_timeout: 9s')), { msg: RUNS })
  append('ends\n')
  await daemon.until(() => messages().length > 1)
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
  t.same(messages(), ['begins', 'this line ends'])
})
