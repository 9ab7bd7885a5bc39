import { once } from 'node:events'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { socketPath } from '../../src/daemon/admin/socket.js'
import { HOST, listening } from '../support/address.js'
import { command } from '../support/cli.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { sluice } from '../support/sluice.js'

const DAEMON = `data_dir: state
metrics: false
sources: { log: { type: file, include: [in.log] } }
destinations: { copy: { type: file, inputs: [log], path: out.log } }
`
const SERVICE = 'metrics: false\nservice: { data_dir: service, listen: 127.0.0.1:0 }\n'

/** Ends the process at each signal that nothing else listens to, as agents do that write something at the end. */
const AGENT = `for (const name of ['SIGHUP', 'SIGINT', 'SIGTERM', 'SIGXFSZ'])
  process.on(name, () => process.listenerCount(name) === 1 && process.exit(9));`

/** Options of Node.js that send `signals` to the process while it loads `module`, before anything runs. */
function signalWhileLoading(signals: NodeJS.Signals[], module: string, preloaded = ''): NodeJS.ProcessEnv {
  const hooks = `let sent
    export async function resolve(specifier, context, next) {
      if (!sent && specifier.endsWith(${JSON.stringify(module)})) {
        sent = true
        for (const signal of ${JSON.stringify(signals)}) process.kill(process.pid, signal)
        await new Promise(resolve => setTimeout(resolve, 50))
      }
      return next(specifier, context)
    }`
  const url = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`
  const preload = `import { register } from 'node:module'; register(${JSON.stringify(url(hooks))}); ${preloaded}`
  return { NODE_OPTIONS: `--import ${url(preload)}` }
}

function setUp(t: Test): string {
  const folder = testFolder(t, { 'in.log': 'one\n', 'daemon.yaml': DAEMON, 'service.yaml': SERVICE })
  return folder
}

t.test('signals while the program is loaded', async t => {
  const cwd = setUp(t)
  const start = (args: string[], signals: NodeJS.Signals[], module: string, preloaded?: string) =>
    sluice(args, { cwd, env: signalWhileLoading(signals, module, preloaded) })
  // What is loaded before any command is known, and what the commands import late.
  const modules = { run: '/program.js', serve: '/serve.js' }
  const daemons = Object.entries(modules).map(async ([name, module]) => {
    const args = [name, '-c', name === 'run' ? 'daemon.yaml' : 'service.yaml']
    const ended = start(args, ['SIGTERM'], module, AGENT)
    t.equal(await ended.exit, 0, `${name}: SIGTERM ends it in order`)
    t.match(ended.stderr, /"msg":"ended"/, 'and says so')
    const running = start(args, ['SIGXFSZ', 'SIGHUP'], module, AGENT)
    const answer = name === 'run' ? /configuration reloaded/ : /SIGHUP is ignored: the service reads/
    await running.until(() => answer.test(running.stderr))
    running.child.kill('SIGTERM')
    t.equal(await running.exit, 0, `${name}: SIGHUP and SIGXFSZ do not end it`)
  })
  // They have the same data_dir.
  await Promise.all(daemons)
  const args = ['run', '-c', 'daemon.yaml']
  const early = start(args, ['SIGHUP'], '/preload.js', "process.on('SIGTERM', () => process.emitWarning('late'));")
  await early.until(() => /configuration reloaded/.test(early.stderr))
  early.child.kill('SIGTERM')
  t.equal(await early.exit, 0, 'SIGHUP does not end it, before anything else of the program is loaded')
  t.match(early.stderr, /"name":"Warning","error":"late","msg":"warning of Node.js"/)
  t.same(
    early.stderr.split('\n').filter(line => !/^({.*}|)$/.test(line)),
    [],
    'a warning at the end is a line of the log',
  )
  const other = start(['validate', 'daemon.yaml'], ['SIGTERM'], '/commands.js')
  t.equal(await other.exit, 'SIGTERM', 'what is no daemon ends as programs do')
})

t.test('SIGUSR1 opens no debugger', async t => {
  const daemon = await startDaemon(
    t,
    testFolder(t, { 'in.log': 'one\n' }),
    DAEMON.replace(/^(data_dir|metrics).*\n/gm, ''),
  )
  daemon.child.kill('SIGUSR1')
  // Its thread would have said so long before this is delivered.
  writeFileSync(join(t.testdirName, 'in.log'), 'two\n', { flag: 'a' })
  await daemon.scrapedUntil(scrape => scrape.events('copy').sent === 2)
  t.notMatch(daemon.stderr, /Debugger/)
  await daemon.stop(t)

  // Sent before the program begins to load: Node.js has opened it by then.
  const cwd = setUp(t)
  const preload = `import inspector from 'node:inspector'
    process.kill(process.pid, 'SIGUSR1')
    while (!inspector.url()) await new Promise(resolve => setTimeout(resolve, 5))`
  const NODE_OPTIONS = `--inspect-port=${HOST}:0 --import data:text/javascript,${encodeURIComponent(preload)}`
  const early = sluice(['run', '-c', 'daemon.yaml'], { cwd, env: { NODE_OPTIONS } })
  await early.until(() => /"msg":"started"/.test(early.stderr))
  const port = Number(/Debugger listening on ws:\/\/[\d.]+:(\d+)/.exec(early.stderr)?.[1])
  t.ok(port > 0)
  t.equal(await answers(port), false, 'it is closed again')
  early.child.kill('SIGTERM')
  t.equal(await early.exit, 0)
})

function answers(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, HOST)
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}

t.test('standard output that nobody reads: a signal ends the daemon all the same', async t => {
  const folder = testFolder(t, { 'in.log': '' })
  const daemon = await startDaemon(
    t,
    folder,
    'shutdown_timeout: 500ms\nsources: { log: { type: file, include: [in.log] } }\ndestinations: { out: { type: stdout, inputs: [log] } }\n',
  )
  daemon.child.stdout!.pause()
  // One write that is more than the pipe takes: it is never done.
  writeFileSync(join(folder, 'in.log'), `${'x'.repeat(1_000_000)}\n`)
  await daemon.scrapedUntil(scrape => scrape.events('out').inFlight > 0)
  const exited = once(daemon.child, 'exit')
  daemon.child.kill('SIGTERM')
  t.same(await exited, [0, null])
  daemon.child.stdout!.resume()
  t.ok(((await daemon.ended(t)).undelivered ?? 0) > 0, 'what was not taken is counted')
})

/** A daemon that got SIGTERM, and still delivers to a receiver that does not answer. */
async function stopping(t: Test) {
  const server = createServer(request => void request.resume())
  const folder = testFolder(t, { 'in.log': 'one\n' })
  const url = `http://${HOST}:${await listening(t, server)}/`
  const config = `shutdown_timeout: 1h
sources: { log: { type: file, include: [in.log] } }
destinations: { up: { type: http, inputs: [log], encoding: raw, url: "${url}", batch: { max_wait: 10ms } } }
`
  const daemon = await startDaemon(t, folder, config)
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_delivery_requests_in_flight') > 0)
  const status = async (...args: string[]) =>
    (await command(['status', '--socket', socketPath(join(folder, 'state')), ...args])).stdout
  t.match(await daemon.get('/readyz'), { status: 200, body: /^{"status":"ready"/ })
  t.match(await status(), /memory, ready$/m)
  daemon.child.kill('SIGTERM')
  await daemon.until(() => daemon.stderr.includes('"stopping'))
  return { daemon, status }
}

/** Sends a second signal. One that comes too soon after the first one is taken for the same. */
async function endedAtOnce({ child, exit }: Awaited<ReturnType<typeof stopping>>['daemon']) {
  const timer = setInterval(() => child.kill('SIGTERM'), 100)
  return await exit.finally(() => clearInterval(timer))
}

t.test('while a signal ends the daemon, it is alive, and not ready', async t => {
  const { daemon, status } = await stopping(t)
  t.match(await daemon.get('/readyz'), { status: 503, body: /^{"status":"stopping"/ })
  t.match(await daemon.get('/healthz'), { status: 200 })
  t.equal((await daemon.scrape()).sum('sluice_ready'), 0)
  t.match(await status(), /memory, stopping$/m)
  t.match(JSON.parse(await status('--json')), { ready: false, stopping: true })
  t.equal(await endedAtOnce(daemon), 1)
})

t.test('a reload that a signal overtakes is given up, which is no error', async t => {
  const { daemon } = await stopping(t)
  daemon.child.kill('SIGHUP')
  await daemon.until(() => daemon.stderr.includes('the reload was given up: the daemon is stopping'))
  t.same(
    daemon.logs().filter(({ level }) => Number(level) >= 40),
    [],
  )
  const scrape = await daemon.scrape()
  t.equal(scrape.sum('sluice_config_reloads_total', { result: 'failed' }), 0)
  t.equal(scrape.sum('sluice_config_last_reload_successful'), 1)
  t.equal(await endedAtOnce(daemon), 1)
})

/** Stops while events wait in a throttle, with the real daemon. */

const configOf = (throttle: string) => `
sources:
  app: { type: file, include: [app.log], decode: json }
processors:
  limit_app: { type: throttle, inputs: [app], window: 1 Seconds, ${throttle} }
destinations:
  out: { type: file, inputs: [limit_app], path: out.ndjson, encoding: raw }
`

const all = (to: number) => Array.from({ length: to }, (_, n) => n)

function numbersIn(folder: string): number[] {
  const path = join(folder, 'out.ndjson')
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : []
  return lines.map(line => JSON.parse(line).n)
}

t.test('a stop while events wait keeps what came before the first of them', async t => {
  const half = `
  half: { type: filter, inputs: [app], condition: if (.half equal true) }
  limit_app: { type: throttle, inputs: [half],`
  const cases = [
    { config: configOf('limit: 20, on_backlog: pace'), keeps: () => true, repeats: 0 },
    { config: configOf('limit: 20, over_limit: { wait: 1 Minutes }'), keeps: () => true, repeats: 0 },
    // Of the events that a filter leaves, only that they are in order is known: at most as many come again.
    {
      config: configOf('limit: 10, on_backlog: pace').replace('\n  limit_app: { type: throttle, inputs: [app],', half),
      keeps: (n: number) => n % 2 === 0,
      repeats: 30,
    },
  ]
  for (const { config, keeps, repeats } of cases) {
    const folder = testFolder(t, { 'app.log': '' })
    const first = await startDaemon(t, folder, config)
    await first.stop(t)
    for (let n = 0; n < 60; n++) appendFileSync(join(folder, 'app.log'), `{"n":${n},"half":${n % 2 === 0}}\n`)
    let passed = 0
    for (let run = 0; run < 9 && passed < all(60).filter(keeps).length; run++) {
      const daemon = await startDaemon(t, folder, config)
      await daemon.scrapedUntil(scrape => scrape.events('out').sent >= 10)
      await daemon.stop(t)
      const { size } = new Set(numbersIn(folder))
      t.ok(size > passed, 'each run comes further')
      passed = size
    }
    const numbers = numbersIn(folder)
    t.same(
      [...new Set(numbers)].sort((a, b) => a - b),
      all(60).filter(keeps),
      'nothing is lost',
    )
    t.ok(numbers.length - new Set(numbers).size <= repeats, `${numbers.length} lines`)
  }
})
