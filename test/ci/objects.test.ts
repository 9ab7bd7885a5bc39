import { appendFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HOST } from '../support/address.js'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { receiver } from '../support/destination.js'
import { testFolder } from '../support/folder.js'
import { refusal, S3 } from '../support/s3.js'

/** What becomes of the spool of a destination for objects, at stops, reloads, and under another name. */

async function room(t: Test) {
  const folder = testFolder(t, { 'in.log': '' })
  const to = await receiver(t)
  const server = new S3()
  to.otherwise = server.answer
  let written = 0
  const write = (count: number) => {
    const lines = Array.from({ length: count }, () => `{"n":${written++}}\n`)
    appendFileSync(join(folder, 'in.log'), lines.join(''))
  }
  const config = (id: string, more = '') => `sources: { in: { type: file, include: [in.log], decode: json } }
destinations:
  ${id}:
    type: s3
    inputs: [in]
    bucket: logs
    endpoint: ${to.url('/')}
    auth: { access_key_id: AKID, secret_access_key: secret }
    batch: { max_wait: 10ms }
    retry: { initial: 10ms, max: 50ms }
    ${more}
`
  const start = (text: string) => startDaemon(t, folder, text)
  /** Resolves with the log line about it. */
  const reload = async (daemon: Daemon, text: string) => {
    const before = daemon.logs().length
    const head = `data_dir: ${join(folder, 'state')}\nmetrics: { listen: ${HOST}:0 }\n`
    writeFileSync(daemon.configPath, head + text)
    daemon.child.kill('SIGHUP')
    return await daemon.until(() =>
      daemon
        .logs()
        .slice(before)
        .find(({ msg }) => /^(configuration reloaded|cannot apply)/.test(String(msg))),
    )
  }
  const stored = () =>
    [...server.objects].flatMap(([, contents]) => {
      t.equal(contents.length, 1, 'no object comes twice')
      return contents[0]!
        .split('\n')
        .slice(0, -1)
        .map(line => (JSON.parse(line) as { n: number }).n)
    })
  const spool = (id: string) =>
    readdirSync(join(folder, 'state/spool', id)).filter(name => /(object|closed)$/.test(name))
  return { folder, to, server, write, config, start, reload, stored, spool }
}

const spooled = (daemon: Daemon, events: number) =>
  daemon.scrapedUntil(scrape => scrape.sum('sluice_spool_events') === events)
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)
const sorted = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b)

t.test('stops and reloads leave objects open, and nothing is sent early or twice', async t => {
  const { to, write, config, start, reload, stored } = await room(t)
  write(100)
  let daemon = await start(config('out'))
  await spooled(daemon, 100)
  t.equal((await daemon.stop(t)).undelivered, 100)
  daemon = await start(config('out'))
  await spooled(daemon, 100)
  t.match(await daemon.stop(t), { received: 0, passed: 0, undelivered: 0 }, 'these are of the run before')
  daemon = await start(config('out'))
  write(100)
  await spooled(daemon, 200)
  t.match(await reload(daemon, config('out', 'object: { max_age: 10 Minutes }')), { msg: 'configuration reloaded' })
  write(100)
  await spooled(daemon, 300)
  t.match((await daemon.scrape()).sum('sluice_spool_objects', { state: 'open' }), 1)
  t.equal(to.requests.length, 0)
  t.match(await reload(daemon, config('out', 'object: { max_age: 1s }')), { msg: 'configuration reloaded' })
  await daemon.scrapedUntil(scrape => scrape.events('out').sent >= 300)
  await daemon.stop(t)
  t.equal(to.requests.length, 1)
  t.same(stored(), upTo(300))
})

t.test('a destination that goes leaves no events behind, and one with another name takes them over', async t => {
  const { to, server, write, config, start, reload, stored, spool } = await room(t)
  to.otherwise = refusal(403, 'AccessDenied')
  write(100)
  let daemon = await start(config('old', 'object: { max_age: 1s }'))
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_delivery_holding') === 1)
  t.equal((await daemon.scrape()).sum('sluice_spool_objects', { state: 'closed' }), 1)
  const status = await command(['status', '--config', daemon.configPath])
  t.match(status.stdout + status.stderr, /holding[\s\S]*s3:PutObject/)
  t.match(status.stdout, /^spools +events +open objects +closed .*\nold +100 +0 +1 /m)
  await daemon.stop(t)

  daemon = await start(config('new', 'object: { max_age: 1s }'))
  await daemon.until(() => daemon.logs().some(({ code, kind }) => code === 'SLUICE_ORPHANED' && kind === 'spool'))
  const validated = await command(['validate', daemon.configPath])
  t.match(validated.stderr, /old is not configured and has 100 events \(spool\)/)
  await daemon.stop(t)
  t.equal(spool('old').length, 1)

  to.otherwise = server.answer
  daemon = await start(config('third', 'object: { max_age: 1s }\n    renamed_from: old'))
  await daemon.scrapedUntil(scrape => scrape.events('third').sent >= 100)
  write(10)
  await daemon.scrapedUntil(scrape => scrape.events('third').sent >= 110)
  t.match(await reload(daemon, config('third', 'object: { max_age: 1s }')), { msg: 'configuration reloaded' })
  await daemon.stop(t)
  t.same(sorted(stored()), upTo(110))
})

t.test('dead letters are sent as objects', async t => {
  const { folder, write, config, start, stored } = await room(t)
  write(10)
  const daemon = await start(config('out', "key: '${.team}/'"))
  await daemon.scrapedUntil(scrape => scrape.events('out').discarded === 10)
  await daemon.stop(t)
  const mended = config('out', "key: '${.team:-none}/'")
  writeFileSync(daemon.configPath, `data_dir: ${join(folder, 'state')}\n${mended}`)
  const sent = await command(['resend', '--config', daemon.configPath, '--destination', 'out'])
  t.match(sent, { code: 0 })
  t.same(stored(), upTo(10))
})
