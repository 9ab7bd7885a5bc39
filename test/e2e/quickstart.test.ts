import { chmodSync, existsSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { announce, freePort, makePlan, type Plan, plainLog, planYaml } from '../../src/cli/quickstart.js'
import { components } from '../../src/components.js'
import { parseConfig } from '../../src/config/load.js'
import { compileGlobs } from '../../src/sources/file/glob.js'
import { Scrape } from '../support/daemon.js'
import { startReceiver } from '../support/receiver.js'
import { type Running, sluice } from '../support/sluice.js'

const KEYS = { SLUICE_URL: 'http://127.0.0.1:1/v3/ingest/abc?a=secret', SLUICE_ACCESS_KEY: 'the-key' }

t.test('what it reads: the first log that is readable and has something in it', async t => {
  const folder = t.testdir({ empty: '', folder: {}, locked: 'x', small: 'x\n', large: '', 'README.md': '# x\n' })
  const path = (name: string) => join(folder, name)
  chmodSync(path('locked'), 0)
  truncateSync(path('large'), 1024 ** 3)
  const all = ['missing', 'empty', 'folder', 'small', 'large'].map(path)
  const readme = path('README.md')
  const base = { fallback: false, readFrom: 'beginning', http: false, port: 1 }
  t.same(makePlan(all, readme, {}, 1), { ...base, log: path('small') })
  t.same(makePlan([path('large'), path('small')], readme, {}, 1), { ...base, log: path('large'), readFrom: 'end' })
  t.same(makePlan(all.slice(0, 3), readme, {}, 1), { ...base, log: readme, fallback: true })
  if (process.getuid?.() !== 0) t.equal(makePlan([path('locked')], readme, {}, 1).log, readme)
  t.equal(makePlan(all, readme, KEYS, 1).http, true)
  t.equal(makePlan(all, readme, { ...KEYS, SLUICE_ACCESS_KEY: '' }, 1).http, false)
})

t.test('the configuration it writes holds, whatever the paths are', async t => {
  const plan: Plan = { log: '/var/log/syslog', fallback: false, readFrom: 'end', http: false, port: 9600 }
  for (const log of ['/var/log/syslog', "/it's/a [b]/{c,d}/$" + '{e}/f*g?/(h)/!i\\j: #/README.md']) {
    for (const http of [false, true]) {
      const yaml = planYaml({ ...plan, log, http }, `/state of${log}`)
      t.notMatch(yaml, /the-key|secret/, 'no key is written down')
      const config = parseConfig(yaml, 'quickstart.yaml', { env: KEYS, components })
      t.same(config.warnings, [])
      t.same(config.metrics, { host: '127.0.0.1', port: 9600 })
      t.equal(config.dataDir, `/state of${log}`)
      t.same(
        config.destinations.map(({ id }) => id),
        http ? ['terminal', 'upstream'] : ['terminal'],
      )
      const { include } = config.sources[0]!.options as { include: string[] }
      t.same(compileGlobs(include), [log.split('/').slice(1)], 'the pattern is that path and nothing else')
    }
  }
})

t.test('what it says first', async t => {
  const plan: Plan = { log: '/var/log/syslog', fallback: false, readFrom: 'beginning', http: false, port: 9598 }
  const say = (change: Partial<Plan>, env: NodeJS.ProcessEnv = {}, resumed = false) =>
    announce({ ...plan, ...change }, 'x.yaml', env, resumed)
  t.match(say({}), / reads +\/var\/log\/syslog \(from its beginning\)\n/)
  t.match(say({}), / metrics +http:\/\/127\.0\.0\.1:9598\/metrics\n/)
  t.match(say({}), / limits +to 20 events per second;/)
  t.match(say({}), / sends +to this terminal\n/)
  const folder = `${process.cwd()}/.sluice-quickstart`
  const service = { url: 'http://127.0.0.1:8080', account: 'acc', ingest: 'i', keyFile: `${folder}/access-key` }
  const both = say({ service: { ...service, received: `${folder}/received.ndjson` } })
  t.match(both, / sends +to this terminal, and the service\n/)
  t.match(both, /service +http:\/\/127\.0\.0\.1:8080\/v3, account acc; keys in \.sluice-quickstart\/access-key\*\n/)
  t.match(both, /with SLUICE_URL and SLUICE_ACCESS_KEY set, events go there instead\n/)
  t.match(say({ http: true }, KEYS), / sends +to this terminal, and http:\/\/127\.0\.0\.1:1\n/)
  t.notMatch(say({ http: true }, KEYS), /secret|the-key/)
  t.match(say({ port: 9600 }), /:9600\/metrics \(port 9598 is taken\)\n/)
  t.match(say({ fallback: true }), /, since none of the usual logs is readable \(from its beginning\)/)
  t.match(say({ readFrom: 'end' }), /\(new lines only, since it is large\)/)
  t.match(say({}, {}, true), /\(from where the last run stopped; delete \.sluice-quickstart to begin anew\)/)
  let text = ''
  const log = plainLog({ write: chunk => Boolean((text += chunk)) })
  log.write('{"level":30,"time":1,"pid":2,"received":3,"discarded":{"throttled":1},"msg":"ended"}\n')
  log.write('not JSON\n')
  t.equal(text, 'sluice: ended received=3 discarded={"throttled":1}\nnot JSON\n')
})

t.test('a taken port: the next free one', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  t.ok((await freePort(port)) > port)
})

async function scrape(running: Running): Promise<Scrape> {
  const url = await running.until(() => /http:\/\/127\.0\.0\.1:\d+\/metrics/.exec(running.stderr)?.[0])
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

t.test('the real thing: twice, to the terminal and over HTTP; Ctrl-C ends it', async t => {
  const receiver = await startReceiver({ authorization: 'Token the-key' })
  t.teardown(() => receiver.close())
  const folder = t.testdir({})
  for (const [i, env] of [{}, { SLUICE_URL: receiver.url(), SLUICE_ACCESS_KEY: 'the-key' }].entries()) {
    const running = sluice(['quickstart'], { cwd: folder, env })
    t.teardown(async () => {
      running.child.kill('SIGKILL')
      await running.exit
    })
    ;(await scrape(running)).conserves(t)
    const log = await running.until(() => / reads +(\S.*?)(?:,| \()/.exec(running.stderr)?.[1])
    t.ok(existsSync(log), `${log} is there`)
    if (i === 0) {
      await running.until(() => running.stdout.includes('\n'))
      const first = (text: string) => text.slice(0, text.indexOf('\n'))
      t.equal(first(running.stdout), first(readFileSync(log, 'utf8')), 'the log appears as it is')
      await running.until(() => running.stderr.includes('destination accepts the access key'))
      const own = join(folder, '.sluice-quickstart')
      const received = await running.until(() => {
        const path = join(own, 'received.ndjson')
        const [line, rest] = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : []
        return rest !== undefined && line
      })
      t.match(JSON.parse(received), { message: first(running.stdout), file: log }, 'through the service, too')
      t.equal(statSync(join(own, 'access-key')).mode & 0o777, 0o600)
      t.match(readFileSync(join(own, 'access-key'), 'utf8'), /^sts_[0-9a-f]{40}\n$/)
    }
    t.equal(running.stderr.includes('from where the last run stopped'), i === 1)
    t.equal(running.stderr.includes(', and http://127.0.0.1:'), i === 1)
    t.equal(running.stderr.includes(', and the service'), i === 0)
    running.child.kill('SIGINT')
    t.equal(await running.exit, 0)
    t.equal(
      running.stderr.match(/^sluice: ended .*received=\d+ passed=\d+ discarded=.*$/gm)?.length,
      1,
      'one line of totals',
    )
    t.notMatch(running.stderr, /the-key|st[sea]_|"level"/)
  }
  t.ok(existsSync(join(folder, '.sluice-quickstart/sluice.yaml')), 'its configuration stays, to go on from')
})
