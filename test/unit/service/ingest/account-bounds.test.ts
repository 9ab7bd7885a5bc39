import { readdirSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { type DeliveryOptions, deliveryOptions } from '../../../../src/core/options/delivery-options.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { Delivery } from '../../../../src/engine/flow/delivery/delivery.js'
import { Input } from '../../../../src/engine/flow/fan-out.js'
import { systemClock } from '../../../../src/lib/time.js'
import { AccountDisk } from '../../../../src/service/ingest/account/account-disk.js'
import { KEY_BYTES } from '../../../../src/service/ingest/idempotency-keys.js'
import { AccountRequests } from '../../../../src/service/ingest/worker/account-requests.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { BUFFERED, OUT, PIPELINE, resetStage, stage, startIngestHost } from '../../../support/ingest-host.js'
import { turns, until } from '../../../support/until.js'

const silent = pino({ level: 'silent' })

t.beforeEach(resetStage)

t.test('idempotency keys take a part of the disk space of their account', async t => {
  const { publish, post, metrics, host } = await startIngestHost(t, { maxDiskPerAccount: 4000 })
  const used = async () => Number(/^sluice_ingest_disk_bytes (\d+)/m.exec(String(await metrics.render()))?.[1])
  await publish(PIPELINE)
  await publish(PIPELINE, 'neighbour')
  await publish(PIPELINE, 'other', { account: 'another' })
  let kept = 0
  for (let n = 0; n < 100; n++) {
    const { status } = await post(`{"n":${n}}`, { 'idempotency-key': `k${n}` }, n % 2 === 0 ? 'p' : 'neighbour')
    if (status !== 202) break
    kept++
  }
  t.ok(kept > 10 && kept < 25, `${kept} keys`)
  t.match(await post('{}', { 'idempotency-key': 'more' }), {
    status: 503,
    code: 'account_disk_full',
    retryAfter: '30',
    message: /idempotency-key cannot be saved.*4\.0 kB/,
  })
  t.match(await post('{"n":0}', { 'idempotency-key': 'k0' }), { status: 202, repeated: true }, 'known ones are')
  t.match(await post('{}'), { status: 202 }, 'as are requests without one')
  t.match(await post('{}', { 'idempotency-key': 'more' }, 'other'), { status: 202 }, 'and other accounts')
  const before = await used()
  t.equal(before, (kept + 1) * KEY_BYTES)
  await host.remove('p')
  t.equal(await used(), before - Math.ceil(kept / 2) * KEY_BYTES, 'and they go with the pipeline')
  t.match(await post('{}', { 'idempotency-key': 'more' }, 'neighbour'), { status: 202 })
})

t.test('revisions are a part of the disk space, and events always leave some to them', async t => {
  const { publish, post, host, metrics } = await startIngestHost(t, {
    maxDiskPerAccount: 32_000,
    revisionBytes: 20_000,
  })
  await publish(BUFFERED)
  t.ok(host.hasRoomForRevisions('account', 12_000))
  t.notOk(host.hasRoomForRevisions('account', 12_001))
  stage.holds = true
  t.match(await post(`"${'x'.repeat(9000)}"\n`), { status: 202 })
  // What the process takes is known when it was looked at.
  await metrics.render()
  t.notOk(host.hasRoomForRevisions('account', 4000))
  t.ok(host.hasRoomForRevisions('another', 12_000))

  const alone = await startIngestHost(t, { maxDiskPerAccount: 32_000 })
  await alone.publish({ destinations: { out: { ...OUT, buffer: { type: 'disk' } } } })
  t.match(await alone.post(`"${'x'.repeat(29_000)}"\n`), { status: 202 })
  const waits = alone.post(`"${'x'.repeat(1500)}"\n`)
  const full = /kind="account_disk_full"\} [1-9]/
  await until(async () => full.test(String(await alone.metrics.render())))
  t.ok(alone.host.hasRoomForRevisions('account', 2000), 'a sixteenth')
  t.notOk(alone.host.hasRoomForRevisions('account', 3000))
  stage.holds = false
  t.match(await waits, { status: 202 })
})

t.test('what a pipeline left in a process that has ended counts in the next one', async t => {
  const folder = testFolder(t, { idle: { state: { 'dead-letter': { 'out.ndjson': 'x'.repeat(5000) } } } })
  const options = { folder, maxDiskPerAccount: 32_000, maxProcesses: 1 }
  const { publish, post, host, metrics } = await startIngestHost(t, options)
  const used = async () => Number(/^sluice_ingest_disk_bytes (\d+)/m.exec(String(await metrics.render()))?.[1])
  await publish(PIPELINE, 'idle')
  t.equal(await used(), 5000)
  await host.remove('idle')
  t.equal(await used(), 0, 'without a process, too')
  await publish({ destinations: { out: { ...OUT, refuses: true } } }, 'refusing')
  await publish(BUFFERED, 'buffered')
  await publish(PIPELINE, 'other', { account: 'another' })
  t.match(await post(`"${'x'.repeat(20_000)}"`, {}, 'refusing'), { status: 202 }, 'a dead letter')
  t.match(await post('{}', {}, 'other'), { status: 202 }, 'and the process goes to another account')
  const left = await used()
  t.ok(left > 20_000, `${left} bytes`)
  t.notOk(host.hasRoomForRevisions('account', 12_000))
  const waits = post(`"${'y'.repeat(12_000)}"`, {}, 'buffered')
  const full = /errors_total\{component_id="buffered\/out".*kind="account_disk_full"\} [1-9]/
  await until(async () => full.test(String(await metrics.render())))
  await host.remove('refusing')
  t.match(await waits, { status: 202 })
})

t.test('a spool counts before its pipeline runs, and once while it runs', async t => {
  const auth = { access_key_id: 'sluice', secret_access_key: 'made up' }
  const out = { type: 's3', inputs: ['ingest'], bucket: 'logs', endpoint: 'http://127.0.0.1:9', auth }
  const usedIn = async ({ metrics }: Awaited<ReturnType<typeof startIngestHost>>) =>
    Number(/^sluice_ingest_disk_bytes (\d+)/m.exec(String(await metrics.render()))?.[1])
  const first = await startIngestHost(t)
  await first.publish({ destinations: { out } })
  t.match(await first.post('{"n":1}'), { status: 202 })
  await first.stop()
  const spool = join(first.folder, 'p/state/spool/out')
  const bytes = readdirSync(spool).reduce((sum, name) => sum + statSync(join(spool, name)).size, 0)
  t.ok(bytes > 0)

  const again = await startIngestHost(t, { folder: first.folder })
  await again.publish({ destinations: { out: { ...OUT, broken: true } } })
  t.equal(await usedIn(again), bytes)
  await again.publish({ destinations: { out } })
  t.match(again.logs(), /"pipeline":"p".* published pipeline runs/)
  // A spool that runs counts as whole blocks.
  const used = await until('its spool to count', async () => (await usedIn(again)) || undefined)
  t.ok(used >= bytes && used < bytes + 4096, `${used} bytes, with ${bytes} in the file`)
  await again.host.remove('p')
  t.ok((await usedIn(again)) <= used - bytes)
})

t.test('the pipelines of an account share the requests to their receivers', async t => {
  const SIX = { ...OUT, max_in_flight: 64, batch: { max_events: 1 } }
  const { publish, post } = await startIngestHost(t, { maxUnsettled: 1e6 })
  const lines = Array.from({ length: 100 }, (_, n) => `{"n":${n}}\n`).join('')
  let open = () => {}
  stage.gate = new Promise(resolve => {
    open = resolve
  })
  let waiting = 0
  const gate = stage.gate
  Object.defineProperty(stage, 'gate', {
    configurable: true,
    get() {
      waiting++
      return gate
    },
  })
  t.teardown(() => Object.defineProperty(stage, 'gate', { value: undefined, writable: true, configurable: true }))
  const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  for (const id of ids) await publish({ destinations: { out: SIX } }, id)
  await publish({ destinations: { out: SIX } }, 'other', { account: 'another' })
  const answers = ids.map(id => post(lines, {}, id))
  const waits = async (count: number) => {
    await until(() => waiting >= count)
    await turns()
    t.equal(waiting, count)
  }
  await waits(256 + ids.length)
  answers.push(post(lines, {}, 'other'))
  await waits(256 + ids.length + 64)
  open()
  t.same([...new Set((await Promise.all(answers)).map(({ status }) => status))], [202])
})

t.test('the bodies of the requests of an account take a bounded amount of memory', async t => {
  let full = 0
  const pool = new AccountRequests({ requests: 2, bytes: 100 }, () => full++)
  const open = new Map<string, (() => void)[]>()
  const began: string[] = []
  const deliver = (id: string) => {
    const counters = new ComponentCounters(id, 'destination', 'fake')
    const { took, sent, discarded, failed } = counters
    const write = (_: unknown, signal: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        began.push(id)
        open.set(id, [...(open.get(id) ?? []), resolve])
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    const options = deliveryOptions.parse({ batch: { max_events: 1, max_wait: '1ms' } }) as DeliveryOptions
    const delivery = new Delivery({ write }, options, {
      ...{ id, log: silent, clock: systemClock, random: () => 1, requests: pool, metrics: counters },
      deadLetter: { write: async () => {} },
      counters: {
        received: took.bind(counters),
        sent: sent.bind(counters),
        discarded: discarded.bind(counters),
        failed: failed.bind(counters),
      },
    })
    const input = new Input(delivery, counters)
    input.feed()
    const stop = new AbortController()
    t.teardown(() => delivery.stop(AbortSignal.abort()))
    return {
      delivery,
      start: () => delivery.start(stop.signal),
      put: (...sizes: number[]) => {
        const text = sizes.map(size => `${'x'.repeat(size - 1)}\n`).join('')
        void input.write(batchesOf(text, originOf('text'))[0]!)
      },
      answer: () => open.get(id)?.shift()?.(),
    }
  }
  const begins = async (...expected: string[]) => {
    await until(() => began.length >= expected.length)
    await turns()
    t.same(began, expected)
  }
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(deliver) as [
    ReturnType<typeof deliver>,
    ...ReturnType<typeof deliver>[],
  ]
  await Promise.all([a, b!, c!, d!].map(one => one.start()))
  a.put(30, 30, 30)
  await begins('a', 'a')
  b!.put(50)
  await begins('a', 'a', 'b')
  t.equal(pool.figures().requestBytes, 110)
  c!.put(10, 10)
  d!.put(10)
  await begins('a', 'a', 'b')
  t.same([pool.figures().waiting, full], [2, 2], 'others wait, the first one of a destination too')
  a.answer()
  await begins('a', 'a', 'b', 'c', 'd')
  t.equal(pool.figures().waiting, 0)
  t.equal(pool.figures().requestBytes, 100, 'more than one only while half of it is free')
  b!.answer()
  a.answer()
  await begins('a', 'a', 'b', 'c', 'd', 'a')
  c!.answer()
  await begins('a', 'a', 'b', 'c', 'd', 'a', 'c')
  for (const one of [a, c!, d!]) one.answer()
  await until(() => pool.figures().requestBytes === 0)

  // One that ends while it waits is in nobody's way.
  b!.put(200)
  await begins('a', 'a', 'b', 'c', 'd', 'a', 'c', 'b')
  a.put(5)
  d!.put(5)
  await until(() => pool.figures().waiting >= 2)
  await a.delivery.stop(AbortSignal.abort())
  b!.answer()
  await begins('a', 'a', 'b', 'c', 'd', 'a', 'c', 'b', 'd')
})

t.test('a file of an account counts at every moment, also when it gets another name', async t => {
  const folder = testFolder(t, { p: { state: { 'dead-letter': { 'out.ndjson': 'x'.repeat(900) } } } })
  const path = (name: string) => join(folder, 'p/state/dead-letter', name)
  const options = {
    account: 'a',
    folder,
    max: 1000,
    inStore: () => ({ keys: 0, revisions: 0 }),
    log: silent,
    clock: systemClock,
  }
  const disk = new AccountDisk(options)
  await disk.measure(join(folder, 'p'))
  t.equal(disk.files, 900)
  renameSync(path('out.ndjson'), path('renamed.ndjson'))
  const measured = disk.measure(join(folder, 'p'))
  let isMeasured = false
  void measured.then(() => (isMeasured = true))
  while (!isMeasured) {
    if (disk.files < 900) return t.fail(`${disk.files} bytes`)
    await new Promise(resolve => setImmediate(resolve))
  }
  t.equal(disk.files, 900)
})
