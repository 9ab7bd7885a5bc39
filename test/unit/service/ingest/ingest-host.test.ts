import dns from 'node:dns'
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { crc32, gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { components as usual } from '../../../../src/components/list.js'
import { LimitedReach } from '../../../../src/engine/config/published/limited-reach.js'
import type { Permissions } from '../../../../src/engine/config/published/managed-options.js'
import { AddressRules } from '../../../../src/lib/network/address-rules.js'
import { systemClock } from '../../../../src/lib/time.js'
import { RequestMemory } from '../../../../src/net/http/server/quota.js'
import { AccountQuotas } from '../../../../src/service/ingest/account/account-quota.js'
import { hostedConfig } from '../../../../src/service/ingest/hosted-config.js'
import { Feed } from '../../../../src/service/ingest/worker/feed.js'
import { HOST, listening } from '../../../support/address.js'
import { testFolder } from '../../../support/folder.js'
import { BUFFERED, OUT, PIPELINE, resetStage, stage, startIngestHost } from '../../../support/ingest-host.js'
import { hurried } from '../../../support/manual-time.js'
import { turns, until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

function closeGate(): () => void {
  let open = () => {}
  stage.gate = new Promise(resolve => {
    open = resolve
  })
  return open
}

/** From now on this name resolves to the address. */
function resolveName(t: Test, host: string, address: string): void {
  const { lookup } = dns
  const fake = (name: string, ...rest: unknown[]) => {
    if (name !== host) return (lookup as (...all: unknown[]) => void)(name, ...rest)
    ;(rest.at(-1) as (error: null, found: dns.LookupAddress[]) => void)(null, [{ address, family: 4 }])
  }
  const use = (one: unknown) => {
    dns.lookup = one as typeof lookup
    syncBuiltinESMExports()
  }
  use(fake)
  t.teardown(() => use(lookup))
}

const line = (n: number) => `{"n":${n}}`

t.beforeEach(resetStage)

t.test('every kind of body, and an answer when the events are delivered', async t => {
  const { publish, post, unanswered } = await startIngestHost(t)
  await publish(PIPELINE)
  t.match(await post(`${line(1)}\n${line(2)}\n`), { status: 202, received: 2 })
  t.match(await post(`[${line(3)},\n${line(4)}]`, { 'content-type': 'application/json' }), { status: 202, received: 2 })
  t.match(await post('five\nsix', { 'content-type': 'text/plain' }), { status: 202, received: 2 })
  t.match(await post(gzipSync(`${line(7)}\n`), { 'content-encoding': 'gzip' }), { status: 202, received: 1 })
  t.match(await post(''), { status: 202, received: 0 })
  t.same(stage.got, [line(1), line(2), line(3), line(4), 'five', 'six', line(7)])
  t.match(await post(`[${line(1)},`, { 'content-type': 'application/json' }), { status: 400, code: 'malformed' })
  t.match(await post('x', { 'content-type': 'text/html' }), { status: 415 })
  t.match(await post('x'.repeat(200_000)), { status: 413 })
  t.match(await post(gzipSync('x'.repeat(200_000)), { 'content-encoding': 'gzip' }), { status: 413 })
  t.match(await post('x', { 'idempotency-key': 'a b' }), { status: 400, code: 'invalid_idempotency_key' })
  t.equal(stage.got.length, 7, 'nothing of what is refused is taken')
  const open = closeGate()
  let answered = false
  const answer = post(line(8)).then(result => {
    answered = true
    return result
  })
  await unanswered(1)
  await turns()
  t.notOk(answered, 'no answer while it is on its way')
  open()
  t.match(await answer, { status: 202, received: 1 })
})

t.test('too much at a time is refused with a time to come again', async t => {
  const { publish, post, unanswered } = await startIngestHost(t, { maxUnsettled: 150_000 })
  await publish(PIPELINE)
  const open = closeGate()
  const first = post(`"${'x'.repeat(90_000)}"`)
  await unanswered(1, 90_000)
  t.match(await post(`"${'x'.repeat(90_000)}"`), { status: 503, code: 'overloaded', retryAfter: '1' })
  open()
  t.match(await first, { status: 202 })
})

t.test('an idempotency-key counts once', async t => {
  const { publish, post, stop, folder, unanswered } = await startIngestHost(t)
  await publish(PIPELINE)
  const key = { 'idempotency-key': 'one' }
  t.match(await post(line(1), key), { status: 202, received: 1, repeated: undefined })
  t.match(await post(line(1), key), { status: 202, received: 1, repeated: true })
  t.match(await post(line(2), key), { status: 422, code: 'idempotency_key_reused' })
  const open = closeGate()
  const tries = [0, 1, 2].map(() => post(line(3), { 'idempotency-key': 'two' }))
  await unanswered(3, 3 * line(1).length)
  t.match(await post(line(4), { 'idempotency-key': 'two' }), { status: 422 }, 'also while it is under way')
  open()
  for (const answer of await Promise.all(tries)) t.match(answer, { status: 202, received: 1 })
  t.same(stage.got, [line(1), line(3)])

  stage.holds = true
  const waits = post(line(5), { 'idempotency-key': 'three' })
  await unanswered(1, line(1).length)
  await stop(AbortSignal.abort())
  const refused = await waits.catch(() => ({ status: 0 }))
  t.not(refused.status, 202)
  stage.holds = false
  const again = await startIngestHost(t, { folder })
  await again.publish(PIPELINE)
  t.match(await again.post(line(1), key), { status: 202, repeated: true }, 'known after a restart')
  t.match(await again.post(line(5), { 'idempotency-key': 'three' }), { status: 202, received: 1, repeated: undefined })
  t.same(stage.got, [line(1), line(3), line(5)], 'what was not acknowledged is not taken for done')
})

t.test('another body with the same checksum is another body', async t => {
  const { publish, post } = await startIngestHost(t)
  await publish(PIPELINE)
  const [real, forged] = ['{"pay":"yXEj6h3M"}', '{"pay":"Hoockp72"}']
  t.equal(crc32(real), crc32(forged))
  const key = { 'idempotency-key': 'k' }
  t.match(await post(real, key), { status: 202, received: 1 })
  t.match(await post(forged, key), { status: 422, code: 'idempotency_key_reused' })
  t.match(await post(real, { ...key, 'content-type': 'text/plain' }), { status: 422 }, 'nor is it the same as text')
  t.match(await post(real, key), { status: 202, repeated: true })
  t.same(stage.got, [real])
})

t.test('a publish in the middle of requests: nothing is lost, nothing comes twice', async t => {
  const { publish, post, metrics, host } = await startIngestHost(t)
  const shapes = [
    PIPELINE,
    {
      processors: { f: { type: 'filter', inputs: ['ingest'], condition: "if (.n less '500')" } },
      destinations: { out: { type: 'blackhole', inputs: ['f', 'f.discarded'] } },
    },
    BUFFERED,
  ]
  await publish(PIPELINE)
  await post('')
  let n = 0
  let publishing = true
  const sender = async () => {
    while (publishing) {
      const body = Array.from({ length: 20 }, () => line(n++)).join('\n')
      for (let done = false; !done; ) done = (await post(body, { 'idempotency-key': `key-${n}` })).status === 202
    }
  }
  const senders = [sender(), sender(), sender()]
  for (let i = 0; i < 12; i++) {
    await publish(shapes[i % 3])
    const { length } = stage.got
    await until(() => stage.got.length > length)
  }
  publishing = false
  await Promise.all(senders)
  await until(() => stage.got.length >= n)
  t.ok(n > 200, `${n} events`)
  t.equal(stage.got.length, n)
  t.equal(new Set(stage.got).size, n)
  t.ok(metrics.checkConservation())
  t.match(String(await metrics.render()), /received_events_total\{component_id="p\/out"/)
  await host.remove('p')
  t.notMatch(String(await metrics.render()), /component_id="p\/out"/, 'a pipeline that is gone is not shown any more')
})

t.test('which revision runs is noted once, whoever waited for it; a failure is logged once, and its end', async t => {
  const { publish, post, logs, folder } = await startIngestHost(t)
  const note = join(folder, 'p', 'revision.json')
  let revision = 0
  const next = async () => {
    revision++
    await publish(BUFFERED, 'p', { tell: false })
    await Promise.all(Array.from({ length: 6 }, (_, n) => post(line(n))))
  }
  for (let i = 0; i < 5; i++) {
    await next()
    t.same(JSON.parse(readFileSync(note, 'utf8')), { revision })
  }
  t.notMatch(logs(), /cannot save the number/, 'those who wait for one revision do not write over each other')
  mkdirSync(`${note}.new`)
  for (let i = 0; i < 3; i++) await next()
  t.equal(logs().match(/cannot save the number of the running revision/g)?.length, 1)
  t.notMatch(logs(), /saved again/)
  rmdirSync(`${note}.new`)
  await next()
  t.same(JSON.parse(readFileSync(note, 'utf8')), { revision })
  t.equal(logs().match(/the number of the running revision can be saved again/g)?.length, 1)
})

t.test('of two publications that start a pipeline, the last one runs', async t => {
  const { publish, logs, folder } = await startIngestHost(t)
  mkdirSync(join(folder, 'p/state/buffer'), { recursive: true })
  const out = { ...OUT, buffer: { type: 'disk', max_bytes: '300MB' } }
  await Promise.all([publish(BUFFERED), publish({ destinations: { out } })])
  await until(() => /"revision":2,.*"msg":"a published (revision|pipeline) runs"/.test(logs()))
})

t.test('a revision that cannot run leaves the one before it', async t => {
  const { publish, post, logs } = await startIngestHost(t)
  await publish(PIPELINE)
  await post(line(1))
  await publish({ destinations: { out: { ...OUT, broken: true } } })
  t.match(await post(line(2)), { status: 202 })
  t.match(logs(), /"SLUICE_REVISION_REFUSED","revision":2,"error":"it is broken"/)
  await publish({ destinations: { out: { ...OUT, inputs: ['somewhere'] } } })
  t.match(await post(line(3)), { status: 202 })
  await publish(BUFFERED)
  t.match(await post(line(4)), { status: 202 })
  t.same(stage.got.slice(0, 3), [line(1), line(2), line(3)])
})

t.test('a revision with a number that was used before replaces the one before it', async t => {
  const { publish, post, folder } = await startIngestHost(t)
  await publish(PIPELINE, 'p', { revision: 1, published_at: '2026-01-01T00:00:00.000Z' })
  await post(line(1))
  await publish(BUFFERED, 'p', { revision: 1, published_at: '2026-01-01T00:00:01.000Z' })
  t.match(await post(line(2)), { status: 202 })
  t.ok(existsSync(join(folder, 'p/state/buffer/out')))
})

t.test('a revision that could not run for a passing reason is tried again', async t => {
  let passed = 0
  const clock = { ...hurried(20), now: () => systemClock.now() + passed }
  const { publish, post, logs } = await startIngestHost(t, { clock })
  await publish(PIPELINE)
  await post(line(1))
  await publish({ destinations: { out: { ...OUT, broken: true } } })
  stage.isMended = true
  t.teardown(() => {
    stage.isMended = false
  })
  await post(line(2))
  t.notMatch(logs(), /a published revision runs/)
  passed += 60_000
  await post(line(3))
  t.match(logs(), /"revision":2,.*"a published revision runs"/)
})

t.test('a revision that would leave buffered events behind waits for them', async t => {
  let passed = 0
  const clock = { ...hurried(20), now: () => systemClock.now() + passed }
  const { publish, post, logs, metrics, folder, host } = await startIngestHost(t, { clock })
  await publish(BUFFERED)
  stage.holds = true
  await post(line(1))
  const holding = /errors_total\{component_id="p\/out".*kind="status_401"\} [1-9]/
  await until(async () => holding.test(String(await metrics.render())))
  const other = { destinations: { other: { ...OUT, buffer: { type: 'disk' } } } }
  const waits = { path: '', message: /^the disk buffer of out holds events/ }
  t.match((await host.boundsOf('p', other)).at(-1), waits, 'whoever publishes it is told')
  t.notMatch((await host.boundsOf('q', other)).at(-1), waits)
  await publish(other)
  t.match(await post(line(2)), { status: 202 })
  const refusals = () => logs().match(/"SLUICE_REVISION_REFUSED","revision":2,"error":"the disk buffer of out holds/g)
  t.equal(refusals()?.length, 1)
  passed += 10_000
  t.match(await post(line(3)), { status: 202 })
  t.equal(refusals()?.length, 1, 'which is logged once')
  t.notOk(existsSync(join(folder, 'p/state/buffer/other')))
  stage.holds = false
  await until(() => {
    passed += 60_000
    return stage.got.length >= 3
  })
  t.same([...stage.got].sort(), [1, 2, 3].map(line))
  t.match(await post(line(4)), { status: 202 })
  t.ok(existsSync(join(folder, 'p/state/buffer/other')), 'then it runs')
  t.notMatch(logs(), /SLUICE_ORPHANED/)

  stage.holds = true
  t.match(await post(line(5)), { status: 202 })
  await publish({ ...PIPELINE, discard_orphans: ['other'] })
  stage.holds = false
  t.match(await post(line(6)), { status: 202 }, 'unless it says that they are not needed')
  await until(() => !existsSync(join(folder, 'p/state/buffer/other')))
})

t.test('a host knows what its disk buffers hold, also when it has ended', async t => {
  const first = await startIngestHost(t)
  await first.publish(BUFFERED)
  t.equal(first.host.buffered, 0)
  const open = closeGate()
  for (const n of [1, 2]) await first.post(line(n))
  await first.stop(AbortSignal.abort())
  t.equal(first.host.buffered, 2)
  open()
  const broken = await startIngestHost(t, { folder: first.folder })
  mkdirSync(join(first.folder, 'removed/state/buffer'), { recursive: true })
  for (const id of ['p', 'removed', 'without'])
    await broken.publish({ destinations: { out: { ...OUT, broken: true } } }, id)
  stage.holds = true
  await broken.publish(BUFFERED)
  t.equal(broken.host.buffered, undefined, 'while one that may have events has not run')
  await broken.host.remove('removed')
  t.equal(broken.host.buffered, 2)
  await broken.stop(AbortSignal.abort())
  t.equal(broken.host.buffered, 2)
  const again = await startIngestHost(t, { folder: first.folder })
  stage.holds = true
  await again.publish(BUFFERED)
  await again.post(line(3))
  await until(async () => /status_401"\} [1-9]/.test(String(await again.metrics.render())))
  await again.stop(new AbortController().signal)
  t.equal(again.host.buffered, 3, 'an end does not wait for a destination that fails')
  stage.holds = false
  const last = await startIngestHost(t, { folder: first.folder })
  await last.publish(BUFFERED)
  await until(() => stage.got.length >= 3)
  await last.post(line(4))
  await last.stop(new AbortController().signal)
  t.same([...new Set(stage.got)].sort(), [1, 2, 3, 4].map(line))
  t.equal(last.host.buffered, 0)
})

t.test('a pipeline whose files cannot be read is tried again, with the revision that has the events', async t => {
  const history = new Map()
  const first = await startIngestHost(t, { history })
  await first.publish(BUFFERED)
  stage.holds = true
  await first.post(line(1))
  await first.stop(AbortSignal.abort())
  stage.holds = false
  const ledger = join(first.folder, 'p/state/buffer/out/ledger')
  renameSync(ledger, `${ledger}.away`)
  mkdirSync(ledger)

  const again = await startIngestHost(t, { history, folder: first.folder, turnMs: 30 })
  await again.publish({ destinations: { other: { ...OUT, buffer: { type: 'disk' } } } }, 'p', { revision: 2 })
  const refusal = { status: 503, code: 'pipeline_files_unreadable', retryAfter: '10', message: /ledger: EISDIR/ }
  for (const n of [2, 3]) t.match(await again.post(line(n)), refusal)
  t.equal(again.host.buffered, undefined)
  const starts = () => again.logs().match(/"started a process for the pipelines of an account"/g)!.length
  await until(() => starts() > 2)
  t.equal(again.logs().match(/"SLUICE_STATE_UNREADABLE","pipeline":"p"/g)?.length, 1, 'which is logged once')
  rmdirSync(ledger)
  renameSync(`${ledger}.away`, ledger)
  await until(() => stage.got.length > 0)
  t.same(stage.got, [line(1)])
})

t.test('after a restart, the revision that has buffered events runs first', async t => {
  const history = new Map()
  const { get } = history
  const first = await startIngestHost(t, { history })
  await first.publish(BUFFERED)
  stage.holds = true
  await first.post(line(1))
  await until(async () => /status_401"\} [1-9]/.test(String(await first.metrics.render())))
  const other = { destinations: { other: { ...OUT, buffer: { type: 'disk' } } } }
  await first.publish(other)
  await first.stop(AbortSignal.abort())

  let passed = 0
  const clock = { ...hurried(20), now: () => systemClock.now() + passed }
  const again = await startIngestHost(t, { history, folder: first.folder, clock })
  history.get = () => {
    throw new Error('the store cannot be read')
  }
  await again.publish(other, 'p', { revision: 2 })
  t.match(await again.post(line(2)), { status: 503, code: 'pipeline_cannot_run', message: /the store cannot be read/ })
  history.get = get
  const note = join(first.folder, 'p', 'revision.json')
  renameSync(note, `${note}.away`)
  mkdirSync(note)
  passed += 10_000
  t.match(await again.post(line(2)), { status: 503, code: 'pipeline_cannot_run', message: /revision\.json: EISDIR/ })
  rmdirSync(note)
  renameSync(`${note}.away`, note)
  passed += 10_000
  t.notMatch(again.logs(), / published (pipeline|revision) runs/)

  await again.publish(other, 'p', { revision: 2 })
  t.match(again.logs(), /"revision":1,"bounds":"[^"]+","msg":"a published pipeline runs"/)
  t.match(await again.post(line(2)), { status: 202 })
  stage.holds = false
  await until(() => {
    passed += 60_000
    return stage.got.length >= 2
  })
  t.same([...stage.got].sort(), [1, 2].map(line))
  t.match(await again.post(line(3)), { status: 202 })
  t.match(again.logs(), /"revision":2,"before":1,.*"msg":"a published revision runs"/)
  t.notMatch(again.logs(), /SLUICE_ORPHANED/)
  await again.stop()

  const last = await startIngestHost(t, { history, folder: first.folder })
  await last.publish(other, 'p', { revision: 2 })
  await last.post(line(4))
  t.match(
    last.logs(),
    /"revision":2,"bounds":"[^"]+","msg":"a published pipeline runs"/,
    'once they are delivered, no more',
  )
})

t.test('events in a spool count, and wait for their revision as those in a disk buffer do', async t => {
  const auth = { access_key_id: 'sluice', secret_access_key: 'made up' }
  const out = { type: 's3', inputs: ['ingest'], bucket: 'logs', endpoint: 'http://127.0.0.1:9', auth }
  const history = new Map()
  const first = await startIngestHost(t, { history })
  await first.publish({ destinations: { out } })
  t.match(await first.post(line(1)), { status: 202 })
  await first.stop(AbortSignal.abort())
  t.equal(first.host.buffered, 1)

  const again = await startIngestHost(t, { history, folder: first.folder })
  await again.publish(PIPELINE, 'p', { revision: 2 })
  t.match(again.logs(), /"revision":1,"bounds":"[^"]+","msg":"a published pipeline runs"/)
  t.match(again.logs(), /"SLUICE_REVISION_REFUSED","revision":2,"error":"the spool of out holds/)
  await until(() => again.host.buffered === 1)
})

t.test('a pipeline that cannot start says so, until another revision is published', async t => {
  const { publish, post } = await startIngestHost(t)
  await publish({ destinations: { out: { ...OUT, cannot_start: true } } })
  await until(async () => (await post(line(1))).code === 'pipeline_cannot_run')
  t.match(await post(line(1)), { status: 503, code: 'pipeline_cannot_run', retryAfter: '30' })
  await publish(PIPELINE)
  t.match(await post(line(2)), { status: 202 })
  await publish({ destinations: { out: { ...OUT, cannot_start: true } } })
  for (let n = 3; n < 6; n++) t.match(await post(line(n)), { status: 202 }, 'the one before runs again')
  t.same(new Set(stage.got), new Set([2, 3, 4, 5].map(line)))
})

t.test('what cannot run here holds what is sent, and says why', async t => {
  const none: Permissions = {
    files: ['/var/log/sluice/**'],
    never: [],
    urls: ['https://logs.example.com/v3'],
    listen: [],
    credentials: [],
  }
  const { publish, post } = await startIngestHost(t, { permitted: none })
  const refused = async (destination: object, why: RegExp) => {
    await publish({ destinations: { out: { ...destination, inputs: ['ingest'] } } })
    const answer = await post(line(1))
    t.match(answer, { status: 503, code: 'pipeline_cannot_run', retryAfter: '30', message: why })
  }
  await refused(
    { type: 'file', path: '/etc/cron.d/x' },
    /destinations\.out\.path: \/etc\/cron\.d\/x is not among the files/,
  )
  await refused({ type: 'file', path: '/var/log/sluice/../../x' }, /not among the files/)
  await refused({ type: 'http', url: 'http://169.254.169.254/' }, /not among the addresses/)
  await refused(
    { type: 'http', url: 'https://logs.example.com/v3', auth: { key_file: '/etc/shadow' } },
    /auth\.key_file/,
  )
  await refused({ type: 'http', url: 'https://logs.example.com/v3', auth: { key: '${SECRET}' } }, /SECRET is not set/)
  const script = { type: 'script', inputs: ['ingest'], code: 'event => event' }
  await publish({ processors: { script }, destinations: { out: { ...OUT, inputs: ['script'] } } })
  t.match(await post(line(1)), { status: 503, message: /processors\.script\.code: .* must not run code/ })
  await publish({ sources: { mine: { type: 'stdin' } }, destinations: { out: { ...OUT, inputs: ['mine'] } } })
  t.match(await post(line(1)), { status: 503, message: /events from ingest do not reach a destination/ })
  await publish({
    sources: { mine: { type: 'file', include: ['/etc/*'] } },
    destinations: { out: { ...OUT, inputs: ['mine', 'ingest'] } },
  })
  t.match(await post(line(1)), { status: 202 }, 'sources of daemons are no matter here')
})

t.test('two destinations of a pipeline never write to one file, by links either', async t => {
  const folder = realpathSync(testFolder(t, { out: { a: '' } }))
  const at = (name: string) => join(folder, 'out', name)
  symlinkSync(at('a'), at('link'))
  linkSync(at('a'), at('hard'))
  const permitted: Permissions = { files: [`${folder}/out/**`], never: [], urls: [], listen: [], credentials: [] }
  const { publish, post } = await startIngestHost(t, { permitted, folder: join(folder, 'ingest') })
  const file = (name: string) => ({ type: 'file', inputs: ['ingest'], path: at(name) })
  for (const other of ['link', 'hard', 'a']) {
    await publish({ destinations: { one: file('a'), two: file(other) } })
    const message = /destinations\.two\.path: the destination one writes to .*two destinations need two files/
    t.match(await post(line(1)), { status: 503, code: 'pipeline_cannot_run', message }, other)
  }
  await publish({ destinations: { one: file('a'), two: file('b') } })
  t.match(await post(line(2)), { status: 202 })
  for (const name of ['a', 'b']) t.equal(readFileSync(at(name), 'utf8'), `${line(2)}\n`)
})

t.test('a pipeline takes a bounded part of the memory and the connections of all', async t => {
  const many = (length: number, more: object) => ({
    destinations: Object.fromEntries(Array.from({ length }, (_, i) => [`d${i}`, { ...more, inputs: ['ingest'] }])),
  })
  const { publish, post } = await startIngestHost(t)
  await publish(many(33, OUT))
  t.match(await post(line(1)), { status: 503, message: /reach 33 destinations.*at most 32/ })
  const given = { name: 'p', dataDir: '/x', components: usual, secrets: {}, maxDisk: 1e9 }
  const options = { ...given, ingest: new Feed().definition }
  const permitted = { files: [], never: [], urls: 'all', listen: [], credentials: [] } as const
  const wide = {
    type: 'http',
    url: 'http://192.0.2.1/',
    max_in_flight: 1000,
    batch: { max_bytes: '1GB', max_events: 1e6 },
  }
  const hastily = { ...wide, retry: { initial: '1ms', max: '1ms' } }
  const throttle = { type: 'throttle', inputs: ['ingest'], limit: 1, window: '1h', key_field: '.k' }
  const processors = { a: { ...throttle, max_keys: 1e7 }, b: { ...throttle, inputs: ['a'] } }
  const { config: made, bounds } = hostedConfig({ ...many(16, hastily), processors }, { ...options, permitted })
  t.match(made.destinations[0]!.delivery, {
    max_in_flight: 4,
    batch: { max_bytes: 4 * 1024 ** 2, max_events: 50_000 },
    retry: { initial: 1000, max: 10_000 },
  })
  t.same(
    made.processors.map(({ options }) => (options as { max_keys: number }).max_keys),
    [500_000, 100_000],
  )
  t.ok(
    [...made.processors, ...made.destinations].every(({ reach }) => reach),
    'and what it opens is checked',
  )
  const runsWith = (path: string, message: string) =>
    t.match(
      bounds.find(bound => bound.path === path),
      { message: `the service uses ${message}` },
    )
  runsWith('processors.a.max_keys', '500000 instead of 10000000')
  runsWith('destinations.d15.max_in_flight', '4 instead of 1000')
  runsWith('destinations.d0.batch.max_bytes', '4.2 MB instead of 1.0 GB')
  runsWith('destinations.d0.batch.max_events', '50000 instead of 1000000')
  runsWith('destinations.d0.retry.initial', '1s instead of 1ms')
  runsWith('destinations.d0.retry.max', '10s instead of 1ms')
  t.match(bounds.at(-1), { path: '', message: /share 1\.0 GB of disk space for disk buffers, dead-letter queues/ })
  t.equal(bounds.length, 1 + 16 * 5 + 1)
  const counting = { type: 'aggregate', inputs: ['ingest'], counters: { a: {}, b: {} }, max_keys: 1e6 }
  const took = { field: '.took', buckets: Array.from({ length: 100 }, (_, n) => n) }
  const aggregates = (more: object) => ({ ...many(1, OUT), processors: { c: counting, d: { ...counting, ...more } } })
  const kept = hostedConfig(aggregates({ histograms: { took } }), { ...options, permitted })
  t.same(
    kept.config.processors.map(({ options }) => (options as { max_keys: number }).max_keys),
    [2498, 45],
    'series of metrics are shared as well',
  )
  const histograms = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`h${n}`, took]))
  t.throws(() => hostedConfig(aggregates({ histograms }), { ...options, permitted }), {
    message: /processors\.d: its counters and buckets need too many series of metrics: the service shows at most 10000/,
  })
  const discards = { ...OUT, type: 'blackhole', on_reject: 'discard' }
  t.same(hostedConfig(many(1, discards), { ...options, permitted }).bounds, [])
  const large = { ...discards, buffer: { type: 'disk', max_bytes: '10GB' } }
  t.match(hostedConfig(many(1, large), { ...options, permitted }).bounds, [
    { path: 'destinations.d0.buffer.max_bytes', message: /^10\.0 GB exceeds the 1\.0 GB / },
    { path: '', message: /disk buffers/ },
  ])
  const { config: usualOnes, bounds: few } = hostedConfig(many(2, { type: 'http', url: 'http://192.0.2.1/' }), {
    ...options,
    permitted,
  })
  t.match(usualOnes.destinations[0]!.delivery, {
    max_in_flight: { atMost: 32 },
    batch: { max_bytes: 1e6, max_events: 1000 },
    retry: { initial: 1000, max: 30_000 },
  })
  t.same(
    few.filter(({ path }) => path !== ''),
    [],
    'auto is no number that it could have been promised',
  )
})

t.test('what cannot run is not read again for each request', async t => {
  const { publish, post, logs } = await startIngestHost(t)
  const filter = {
    type: 'filter',
    inputs: ['ingest'],
    condition: `if (${Array(900).fill('.a equal 1').join(' and ')})`,
  }
  const processors = Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`f${i}`, filter]))
  const config = { processors, destinations: { out: { ...OUT, inputs: ['f0'], broken: true } } }
  await publish(config)
  for (let i = 0; i < 20; i++) t.match(await post(line(i)), { status: 503, code: 'pipeline_cannot_run' })
  const refused = () => logs().split('SLUICE_REVISION_REFUSED').length - 1
  t.ok(refused() <= 3, `${refused()} times for 20 requests`)
  await publish({ destinations: { out: { ...OUT, inputs: ['ingest'] } } })
  t.match(await post(line(1)), { status: 202 }, 'another revision is read at once')
})

t.test('files and addresses are checked again when they are opened', async t => {
  const root = realpathSync(
    testFolder(t, { out: {}, state: { secret: 'key-of-the-service' }, elsewhere: { secret: 'key-of-root' } }),
  )
  const path = (name: string) => join(root, name)
  for (const [link, to] of [
    ['out/link', 'elsewhere/secret'],
    ['out/folder', 'elsewhere'],
    ['out/dangling', 'elsewhere/new'],
    ['out/state', 'state'],
    ['operators', 'out'],
  ] as const)
    symlinkSync(path(to), path(link))
  let connections = 0
  const inside = createTcpServer(socket => {
    connections++
    socket.destroy()
  })
  const port = await listening(t, inside, '127.0.0.1')
  resolveName(t, 'rebinds.example', '127.0.0.1')

  const permitted: Permissions = {
    files: [path('operators/**')],
    never: [path('state')],
    urls: 'all',
    addresses: new AddressRules([]),
    listen: [],
    credentials: [],
  }
  const { publish, post, stop, metrics, logs } = await startIngestHost(t, { permitted, folder: path('ingest') })
  const cases: [id: string, destination: object, kind: string][] = [
    ['link', { type: 'file', path: path('operators/link') }, 'file_denied'],
    ['folder', { type: 'file', path: path('operators/folder/new') }, 'file_denied'],
    ['state', { type: 'file', path: path('operators/state/secret') }, 'file_denied'],
    ['dangling', { type: 'file', path: path('operators/dangling') }, 'file_denied'],
    ['key', { type: 'http', url: 'http://a.example/', auth: { key_file: path('operators/link') } }, 'file_denied'],
    ['ca', { type: 'http', url: 'http://a.example/', tls: { ca_file: path('operators/link') } }, 'file_denied'],
    ['name', { type: 'http', url: `http://rebinds.example:${port}/` }, 'address_denied'],
    [
      'validate',
      { type: 'http', url: 'http://8.8.8.8/', validate: `http://rebinds.example:${port}/` },
      'address_denied',
    ],
  ]
  for (const [id, destination, kind] of cases) {
    await publish({ destinations: { out: { ...destination, inputs: ['ingest'] } } }, id)
    post(line(1), {}, id).catch(() => {})
    const counted = new RegExp(`errors_total\\{component_id="${id}/out".*kind="${kind}"\\} [1-9]`)
    await until(async () => counted.test(String(await metrics.render()))).catch(() => t.fail(`${id}: ${kind}`))
  }
  await publish(
    { destinations: { out: { type: 'file', path: path('operators/fine/new'), inputs: ['ingest'] } } },
    'fine',
  )
  t.match(await post(line(1), {}, 'fine'), { status: 202 }, "the operator's own link is followed")
  t.equal(readFileSync(path('out/fine/new'), 'utf8'), `${line(1)}\n`)
  t.equal(connections, 0)
  t.match(logs(), /rebinds\.example resolves to 127\.0\.0\.1, which is a loopback address/)
  t.notMatch(logs(), /key-of/)
  await stop(AbortSignal.abort())
  t.same(readdirSync(path('elsewhere')), ['secret'])
  t.same(
    [readFileSync(path('elsewhere/secret'), 'utf8'), readFileSync(path('state/secret'), 'utf8')],
    ['key-of-root', 'key-of-the-service'],
  )

  const reach = new LimitedReach(permitted)
  const real = reach.realFile(path('operators/fine/new'))
  await reach.confirm(real, statSync(real))
  await t.rejects(reach.confirm(real, statSync(path('elsewhere/secret'))), { message: /replaced by a link/ })
})

t.test('what an account takes on the disk is bounded, counted, and removed with its pipelines', async t => {
  const { publish, post, host, metrics, folder, logs, stop } = await startIngestHost(t, { maxDiskPerAccount: 40_000 })
  const gauge = async (name: string) =>
    Number(new RegExp(`^${name} (\\d+)`, 'm').exec(String(await metrics.render()))?.[1])
  const REFUSING = { destinations: { out: { ...OUT, refuses: true } } }
  await publish(BUFFERED, 'buffered')
  await publish(BUFFERED, 'neighbour')
  await publish(REFUSING, 'refusing')
  await publish(BUFFERED, 'other', { account: 'another' })
  const line = (n: number) => `{"n":${n},"x":"${'x'.repeat(9000)}"}`
  stage.holds = true
  for (let n = 0; n < 3; n++) t.match(await post(line(n), {}, 'buffered'), { status: 202 })
  t.match(await post(line(3), {}, 'refusing'), { status: 202 }, 'a dead letter')
  const errors = (id: string) =>
    new RegExp(`errors_total\\{component_id="${id}/out".*kind="account_disk_full"\\} [1-9]`)
  const waiting = ['buffered', 'neighbour', 'refusing'].map(id => post(line(4), {}, id))
  for (const id of ['buffered', 'neighbour', 'refusing'])
    await until(`${id} waits`, async () => errors(id).test(String(await metrics.render())))
  const used = await gauge('sluice_ingest_disk_bytes')
  t.ok(used > 36_000 && used <= 40_000, `${used} bytes`)
  t.equal(await gauge('sluice_ingest_full_accounts'), 1)
  t.match(logs(), /"SLUICE_ACCOUNT_DISK_FULL","account":"account"/)
  t.match(await post(line(5), {}, 'other'), { status: 202 }, 'another account has its own')

  stage.holds = false
  t.same(valuesOf(await Promise.all(waiting.slice(0, 2)), 'status'), [202, 202], 'what is delivered makes room')
  t.match(await waiting[2], { status: 202 })
  await until('all is delivered', () => stage.got.length === 6)
  const letters = statSync(join(folder, 'refusing/state/dead-letter/out.ndjson')).size
  const before = await gauge('sluice_ingest_disk_bytes')
  await host.remove('refusing')
  t.notOk(existsSync(join(folder, 'refusing')))
  t.match(await post(line(6), {}, 'refusing'), { status: 404 }, 'nothing comes after it')
  t.notOk(existsSync(join(folder, 'refusing')))
  t.ok((await gauge('sluice_ingest_disk_bytes')) <= before - letters)
  await host.remove('buffered')
  await host.remove('neighbour')
  await host.remove('other')
  t.equal(await gauge('sluice_ingest_disk_bytes'), 0)
  await stop()
})

t.test('after a restart, what is on the disk counts', async t => {
  const folder = testFolder(t, { p: { state: { 'dead-letter': { 'out.ndjson': 'x'.repeat(39_000) } } }, lost: {} })
  const { publish, post, metrics, host, logs } = await startIngestHost(t, { folder, maxDiskPerAccount: 40_000 })
  await publish(PIPELINE)
  await publish(BUFFERED, 'q')
  t.match(String(await metrics.render()), /^sluice_ingest_disk_bytes 39000$/m)
  const waits = post(`{"x":"${'x'.repeat(2000)}"}`, {}, 'q')
  const full = /errors_total\{component_id="q\/out".*kind="account_disk_full"\} [1-9]/
  await until(async () => full.test(String(await metrics.render())))
  await publish({ destinations: { renamed: { ...OUT, renamed_from: 'out' } } })
  t.match(await post(''), { status: 202 })
  t.ok(existsSync(join(folder, 'p/state/dead-letter/renamed.ndjson')))
  t.match(String(await metrics.render()), /^sluice_ingest_disk_bytes 39000$/m, 'once, under another name, too')
  await host.tellOrphans(new Set(['p', 'q']))
  t.match(logs(), /"SLUICE_ORPHANED_PIPELINE","folder":"[^"]*lost"/)
  t.ok(existsSync(join(folder, 'lost')))
  await host.remove('p')
  t.match(await waits, { status: 202 })
})

t.test('an account that is idle makes room; while none is, there is none', async t => {
  const { publish, post, host, unanswered } = await startIngestHost(t, { maxProcesses: 2 })
  for (const id of ['a', 'b', 'c', 'd']) await publish(PIPELINE, id, { account: id })
  t.match(await post(line(1), {}, 'a'), { status: 202 })
  t.match(await post(line(2), {}, 'b'), { status: 202 })
  t.match(await post(line(3), {}, 'c'), { status: 202 })
  const open = closeGate()
  const waiting = [post(line(4), {}, 'a'), post(line(5), {}, 'b')]
  await unanswered(2, 2 * line(1).length)
  t.match(await post(line(6), {}, 'd'), { status: 503, code: 'too_many_pipelines' })
  open()
  for (const answer of await Promise.all(waiting)) t.match(answer, { status: 202 })
  t.match(await post(line(6), {}, 'd'), { status: 202 })
  await host.remove('d')
  t.match(await post(line(7), {}, 'c'), { status: 202 })
})

t.test('a disk buffer: the answer comes at once, the events after a restart', async t => {
  const { publish, post, stop, folder } = await startIngestHost(t)
  await publish(BUFFERED)
  stage.holds = true
  t.match(await post(line(1), { 'idempotency-key': 'x' }), { status: 202 })
  await stop(AbortSignal.abort())
  stage.holds = false
  t.ok(existsSync(join(folder, 'p/state/buffer')))
  const again = await startIngestHost(t, { folder })
  await again.publish(BUFFERED)
  await until(() => stage.got.length > 0)
  t.match(await again.post(line(1), { 'idempotency-key': 'x' }), { status: 202, received: 1, repeated: true })
  t.same(stage.got, [line(1)])
})

/** Takes requests, and answers them from `answer` on. */
async function startSilent(t: Test) {
  const waiting: ServerResponse[] = []
  let answers = false
  const server = createServer((request, response) => {
    request.resume()
    if (answers) response.end()
    else waiting.push(response)
  })
  const url = `http://${HOST}:${await listening(t, server)}/`
  return {
    destination: { type: 'http', url, inputs: ['ingest'], batch: { max_wait: '1ms' } },
    answer() {
      answers = true
      for (const response of waiting) response.end()
    },
  }
}

t.test('an account with many pipelines takes one process, and no client of another one waits for it', async t => {
  const { publish, post, metrics, unanswered, logs, stop } = await startIngestHost(t, { maxProcesses: 2 })
  const { destination } = await startSilent(t)
  const greedy = ['g1', 'g2', 'g3', 'g4', 'g5']
  for (const id of greedy) await publish({ destinations: { out: destination } }, id, { account: 'greedy' })
  for (const id of ['m1', 'm2', 'm3']) await publish(PIPELINE, id, { account: 'modest' })
  await publish(PIPELINE, 'third', { account: 'third' })
  const waiting = greedy.map(id => post(line(1), {}, id))
  await unanswered(5, 5)
  const open = closeGate()
  const answers = [post(line(2), {}, 'm1'), post(line(3), {}, 'm2')]
  await unanswered(7, 7)
  t.match(await post(line(4), {}, 'third'), {
    status: 503,
    code: 'too_many_pipelines',
    message: /^the service runs pipelines of at most 2 accounts at a time/,
  })
  open()
  t.match(await Promise.all(answers), [{ status: 202 }, { status: 202 }])
  t.match(await post(line(4), {}, 'third'), { status: 202 })
  t.match(await post(line(5), {}, 'm3'), { status: 202 })
  await unanswered(5, 5)
  const text = String(await metrics.render())
  t.match(text, /sluice_ingest_refused_requests_total\{reason="too_many_pipelines"\} 1/)
  t.match(text, /sluice_ingest_ended_pipelines_total\{state="idle"\} 3/)
  t.notMatch(logs(), /"account":"greedy","demand"/, 'nobody ends it while clients wait')
  await stop(AbortSignal.abort())
  await Promise.allSettled(waiting)
})

t.test('what nobody waits for makes room for another account', async t => {
  const { publish, post, unanswered, metrics } = await startIngestHost(t, { maxProcesses: 1 })
  const { destination } = await startSilent(t)
  await publish({ destinations: { out: destination } }, 'a', { account: 'x' })
  await publish(PIPELINE, 'b', { account: 'y' })
  const gone = new AbortController()
  const left = post(line(1), {}, 'a', gone.signal).catch(() => 'gone')
  await unanswered(1)
  t.match(await post(line(2), {}, 'b'), { status: 503 }, 'not while a client waits')
  gone.abort()
  await left
  let answer = await post(line(2), {}, 'b')
  for (let i = 0; i < 200 && answer.status !== 202; i++) answer = await post(line(2), {}, 'b')
  t.match(answer, { status: 202 })
  t.match(String(await metrics.render()), /sluice_ingest_ended_pipelines_total\{state="unattended"\} 1/)
})

t.test('what is in disk buffers makes room, and has its turn again', async t => {
  const { publish, post, metrics } = await startIngestHost(t, { maxProcesses: 1, turnMs: 30 })
  const silent = await startSilent(t)
  const buffered = { destinations: { out: { ...silent.destination, buffer: { type: 'disk' } } } }
  for (const id of ['a', 'a2']) await publish(buffered, id, { account: 'x' })
  await publish(buffered, 'b', { account: 'z' })
  await publish(PIPELINE, 'c', { account: 'y' })
  const ids = ['a', 'a2', 'b']
  for (const id of ids) t.match(await post(line(1), {}, id), { status: 202 })
  t.match(await post(line(3), {}, 'c'), { status: 202 })
  silent.answer()
  const sent = (text: string) =>
    ids.every(id =>
      text.includes(`sent_events_total{component_id="${id}/out",component_kind="destination",component_type="http"} 1`),
    )
  let text = ''
  await until(async () => {
    text = String(await metrics.render())
    return sent(text)
  })
  t.match(text, /sluice_ingest_parked_pipelines 0/)
})

t.test('what waits for its turn starts with the secrets of that time', async t => {
  const { publish, post, unanswered, host, logs } = await startIngestHost(t, { maxProcesses: 1, turnMs: 30 })
  const silent = await startSilent(t)
  const names = ['up']
  const x = { account: 'x', revision: 1, secrets: { version: '1', names, values: () => ({ up: 'old' }) } }
  await publish(BUFFERED, 'a', x)
  await publish({ destinations: { out: silent.destination } }, 'b', { account: 'y' })
  stage.holds = true
  t.match(await post(line(1), {}, 'a'), { status: 202 })
  const waiting = post(line(2), {}, 'b')
  await unanswered(1)
  stage.holds = false
  const values = () => {
    throw new Error('the secret up does not exist')
  }
  await publish(BUFFERED, 'a', { ...x, secrets: { version: 'none', names, values }, tell: false })
  await host.endUsersOf(new Set(['a']), 'up')
  silent.answer()
  t.match(await waiting, { status: 202 })
  await until(() => /"pipeline":"a",.*"msg":"cannot start a pipeline whose disk buffers/.test(logs()))
  t.same(stage.got, [])
  await publish(BUFFERED, 'a', { ...x, secrets: { version: '2', names, values: () => ({ up: 'new' }) } })
  await until(() => stage.got.length > 0)
  t.same(stage.got, [line(1)])
})

t.test('in an account that takes much memory, a pipeline that nobody uses ends', async t => {
  let passed = 0
  const clock = { ...hurried(20), now: () => systemClock.now() + passed }
  const { publish, post, metrics, memory } = await startIngestHost(t, { clock, maxMemory: 1000, turnMs: 60 })
  for (const id of ['used', 'unused']) {
    await publish(PIPELINE, id)
    t.match(await post(line(1), {}, id), { status: 202 })
  }
  const ended = /^sluice_ingest_ended_pipelines_total\{state="idle"\} 1$/m
  passed += 310_000
  t.match(await post(line(2), {}, 'used'), { status: 202 })
  const seen = stage.got.length
  for (const account of ['other', 'another']) {
    await publish(PIPELINE, account, { account })
    t.match(await post(line(3), {}, account), { status: 202 })
  }
  t.equal(stage.got.length, seen + 2)
  t.notMatch(String(await metrics.render()), ended, 'not while there is memory')
  memory.set('account', 501)
  await until(async () => ended.test(String(await metrics.render())))
  t.match(String(await metrics.render()), /^sluice_ingest_pipelines 3$/m)
  memory.delete('account')
  t.match(await post(line(4), {}, 'unused'), { status: 202 }, 'it starts again')
})

t.test('every account has its share of the memory and of the requests', async t => {
  const quotas = new AccountQuotas({ requests: 100, bytes: 1000 })
  const all = Array.from({ length: 75 }, () => quotas.lease('greedy'))
  const pipeline = new RequestMemory(100, 1000)
  t.throws(() => quotas.lease('greedy', pipeline.lease()), {
    code: 'account_share_exceeded',
    message: /75 requests that wait to be delivered; with this request it would have 76\./,
  })
  t.equal(pipeline.requests, 0, 'nor does it hold a share of its pipeline')
  const modest = quotas.lease('modest', pipeline.lease())
  all[0]!.hold(700)
  t.throws(() => all[1]!.hold(100), {
    code: 'account_share_exceeded',
    message: /750 bytes that wait to be delivered; with this request it would have 800\./,
  })
  modest.hold(200)
  t.equal(pipeline.bytes, 200)
  t.throws(() => modest.hold(301), { code: 'overloaded' })
  for (const lease of [...all, modest]) lease.release()
  t.same([quotas.requests, quotas.bytes, pipeline.requests], [0, 0, 0])
})
