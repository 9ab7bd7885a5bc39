import { cpSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { systemClock } from '../../../../src/lib/time.js'
import { Refusal } from '../../../../src/net/http/server/refusal.js'
import { type Nodes, SINGLE_NODE } from '../../../../src/service/api/nodes.js'
import { KEYS, openSqlite } from '../../../../src/service/api/store/sqlite.js'
import { IdempotencyKeys, KEY_BYTES } from '../../../../src/service/ingest/idempotency-keys.js'
import { limitFileSize } from '../../../support/file-limit.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

// Node.js ignores it, but not where the test runner listens to it.
process.on('SIGXFSZ', () => {})

/** A service on the store in `folder`, whose clock stands still. */
async function startService(
  t: Test,
  folder: string,
  options: { at?: number; mostKeys?: number; isAlone?: boolean; nodes?: Nodes; secret?: Buffer } = {},
) {
  const { at = 0, ...rest } = options
  let now = 1_000_000 + at
  const logged: object[] = []
  const log = pino({}, { write: line => void logged.push(JSON.parse(line)) })
  const store = await openSqlite(folder, undefined, undefined, KEYS)
  const clock = { ...systemClock, wall: () => now }
  const keys = await IdempotencyKeys.open(store, { clock, log, secret: Buffer.alloc(32), ...rest })
  t.teardown(async () => {
    await keys.stop()
    await store.close()
  })
  const send = (key: string, take: () => Promise<{ received: number }>, more: object = {}) => {
    const bytes = Buffer.from(`${key} `)
    const body = { bytes, size: bytes.length, content: 'lines', peer: undefined } as const
    return keys.once({ account: 'a', pipeline: 'p', key, body, noRoom: undefined, ...more }, take)
  }
  return { store, keys, logged, send, pass: (ms: number) => (now += ms) }
}

const one = async () => ({ received: 1 })
const never = async () => t.fail('it was taken') as never
const UNDER_WAY = { status: 503, code: 'not_delivered_yet', headers: { 'retry-after': '1' } }

/** A request that waits from `begun` until it is let go. */
function held() {
  let [begin, go] = [() => {}, () => {}]
  const begun = new Promise<void>(resolve => (begin = resolve))
  const answer = new Promise<{ received: number }>(resolve => {
    go = () => resolve({ received: 1 })
  })
  const take = () => {
    begin()
    return answer
  }
  return { take, begun, go }
}

t.test('one key in two services at once is taken once', async t => {
  const folder = testFolder(t)
  const [a, b] = [await startService(t, folder), await startService(t, folder)]
  for (let n = 0; n < 30; n++) {
    let taken = 0
    const take = async () => ({ received: ++taken })
    const answers = await Promise.allSettled([a.send(`${n}`, take), b.send(`${n}`, take)])
    t.equal(taken, 1)
    for (const answer of answers)
      if (answer.status === 'rejected') t.match(answer.reason, UNDER_WAY)
      else t.equal(answer.value.received, 1)
    for (const { send } of [a, b]) t.same(await send(`${n}`, never), { received: 1, repeated: true })
  }
  t.equal((await startService(t, folder)).keys.size, 30)
})

t.test('a service is killed between the claim and the answer', async t => {
  const folder = testFolder(t, { live: {} })
  const live = await startService(t, join(folder, 'live'))
  const kill = (name: string) => {
    for (const file of ['store.sqlite', 'store.sqlite-wal'])
      cpSync(join(folder, 'live', file), join(folder, name, file))
    return join(folder, name)
  }
  const { take, begun, go } = held()
  await live.send('before', one)
  const answer = live.send('k', take)
  await begun
  const next = await startService(t, kill('claimed'))
  t.same(await next.send('before', never), { received: 1, repeated: true })
  await t.rejects(next.send('k', never), UNDER_WAY)
  next.pass(MINUTE_MS)
  const repeated = next.send('k', never)
  await Promise.all([t.rejects(repeated, UNDER_WAY, 'for a minute'), next.keys.sweep()])
  next.pass(1)
  t.same(await next.send('k', one), { received: 1 }, 'it was not acknowledged')
  go()
  t.same(await answer, { received: 1 })
  t.same(await (await startService(t, kill('answered'))).send('k', never), { received: 1, repeated: true })
})

t.test('a claim lasts as long as its request; what is refused leaves none', async t => {
  const folder = testFolder(t)
  const [a, b] = [await startService(t, folder), await startService(t, folder)]
  const { take, begun, go } = held()
  const answer = a.send('k', take)
  await begun
  for (let n = 0; n < 5; n++) {
    for (const { pass } of [a, b]) pass(MINUTE_MS / 2)
    await a.keys.sweep()
    await b.keys.sweep()
    await t.rejects(b.send('k', never), UNDER_WAY)
  }
  go()
  // Its number waits to be saved when the claim is renewed.
  for (let n = 0; n < 5; n++) await undefined
  await a.keys.sweep()
  t.same(await answer, { received: 1 })
  t.same(await b.send('k', never), { received: 1, repeated: true })
  const refusal = new Refusal(503, 'not_delivered', 'x')
  await t.rejects(
    a.send('other', async () => {
      throw refusal
    }),
    refusal,
  )
  t.equal(a.keys.size, 1)
  t.same(await b.send('other', one), { received: 1 })
})

// Buffered: the limit applies to standard output too when that is a file, and a failed write there ends the process.
t.test('a full disk: no new key is taken, none that was taken is forgotten', { buffered: true }, async t => {
  const prlimit = needs(t, 'prlimit')
  if (!prlimit) return
  const folder = testFolder(t)
  const [a, b] = [await startService(t, folder), await startService(t, folder)]
  await a.send('before', one)
  const { take, begun, go } = held()
  const underWay = a.send('k', take)
  await begun
  t.teardown(() => limitFileSize(prlimit, undefined))
  limitFileSize(prlimit, statSync(join(folder, 'store.sqlite-wal')).size)
  const unsaved = {
    status: 503,
    code: 'store_unusable',
    message: /key cannot be saved/,
    headers: { 'retry-after': '1' },
  }
  await t.rejects(a.send('new', never), unsaved)
  t.same(await a.send('before', never, { noRoom: new Refusal(503, 'x', 'x') }), { received: 1, repeated: true })
  go()
  t.same(await underWay, { received: 1 }, 'its events are safe')
  t.same(await a.send('k', never), { received: 1 }, 'and known here')
  await t.rejects(a.keys.sweep(), { code: 'SLUICE_STORE_UNUSABLE' })
  t.same(await a.send('k', never), { received: 1 })
  limitFileSize(prlimit, undefined)
  await a.keys.sweep()
  t.same(await b.send('k', never), { received: 1, repeated: true }, 'saved when there is room again')
  t.same(await a.send('k', never), { received: 1, repeated: true })
  t.same(await a.send('new', one), { received: 1 })
})

t.test('a service that is alone claims nothing, and counts each key once', { buffered: true }, async t => {
  const prlimit = needs(t, 'prlimit')
  if (!prlimit) return
  const folder = testFolder(t)
  const { store, keys, send, pass } = await startService(t, folder, { isAlone: true })
  const { take, begun, go } = held()
  const [first, same] = [send('k', take), send('k', never)]
  await begun
  t.same(await store.all('SELECT key FROM idempotency'), [])
  go()
  t.same(await Promise.all([first, same]), [{ received: 1 }, { received: 1 }])
  t.same(await send('k', never), { received: 1, repeated: true })
  t.equal(keys.size, 1)
  pass(12 * HOUR_MS + 1)
  t.same(await send('k', one), { received: 1 }, 'it has expired')
  t.same(await send('k', never), { received: 1, repeated: true })
  await t.rejects(
    send('refused', () => Promise.reject(new Refusal(503, 'x', 'x'))),
    { code: 'x' },
  )
  t.same(await send('refused', one), { received: 1 })

  t.teardown(() => limitFileSize(prlimit, undefined))
  limitFileSize(prlimit, statSync(join(folder, 'store.sqlite-wal')).size)
  t.same(await send('unsaved', one), { received: 1 }, 'its events are safe')
  await t.rejects(send('new', never), { status: 503, code: 'store_unusable' })
  t.same(await send('unsaved', never), { received: 1 })
  limitFileSize(prlimit, undefined)
  t.same(await send('new', one), { received: 1 })
  const next = await startService(t, folder, { isAlone: true })
  for (const key of ['unsaved', 'new']) t.same(await next.send(key, never), { received: 1, repeated: true })
  t.equal(next.keys.size, 4)
  const other = await startService(t, folder, { isAlone: true, secret: Buffer.alloc(32, 1) })
  // Nobody can compute a digest without the secret.
  await t.rejects(other.send('k', never), { code: 'idempotency_key_reused' })
})

t.test('keys are bounded in time and by account, and go with their pipeline', async t => {
  const { keys, send, pass, logged } = await startService(t, testFolder(t), { mostKeys: 40 })
  const { take, go } = held()
  const underWay = send('under way', take)
  const sent = (account: string, pipeline: string, ...ns: number[]) =>
    Promise.all(ns.map(n => send(`${account}${n}`, one, { account, pipeline })))
  for (let n = 0; n < 60; n++) {
    await sent('a', 'p', n)
    await sent('other', 'q', n % 30)
    pass(1)
  }
  await keys.sweep()
  t.equal(keys.size, 40 + 30)
  t.equal(keys.forgotten, 21, 'those of one account, and not what is under way')
  t.match(logged, [{ code: 'SLUICE_KEYS_FORGOTTEN', account: 'a', forgotten: 21, max: 40 }])
  for (const n of [21, 59]) t.match(await sent('a', 'p', n), [{ repeated: true }])
  t.match(await sent('a', 'p', 20), [{ repeated: undefined }])
  await keys.remove('q')
  t.equal(keys.size, 41)
  t.match(await sent('other', 'q', 29), [{ repeated: undefined }])
  go()
  await underWay
  pass(12 * HOUR_MS)
  await keys.sweep()
  t.match(await sent('a', 'p', 20), [{ repeated: true }], 'for 12 hours')
  pass(1)
  await keys.sweep()
  t.equal(keys.size, 0)
  t.equal(keys.bytesOf('a'), 0)
})

t.test('nodes that share the keys: one of them removes those of all', async t => {
  const folder = testFolder(t)
  const turns = { a: false, b: true }
  const nodeOf = (name: 'a' | 'b') => ({ mostKeys: 20, nodes: { ...SINGLE_NODE, takes: async () => turns[name] } })
  const [a, b] = [await startService(t, folder, nodeOf('a')), await startService(t, folder, nodeOf('b'))]
  for (let n = 0; n < 30; n++) await (n % 2 ? a : b).send(`${n}`, one)
  t.equal(a.keys.bytesOf('a'), 0, 'they are not on its disk')
  t.equal(a.keys.size, 0, 'the node that removes them reports their number')
  await a.keys.sweep()
  t.equal(a.keys.forgotten, 0)
  await b.keys.sweep()
  t.same([b.keys.forgotten, b.keys.size], [10, 20])
  for (const { pass } of [a, b]) pass(12 * HOUR_MS + 1)
  turns.a = true
  await a.keys.sweep()
  t.same([a.keys.forgotten, a.keys.size], [0, 0])
  t.same(await b.store.all('SELECT key FROM idempotency'), [])
  t.equal(b.keys.size, 20)
  turns.b = false
  await b.keys.sweep()
  t.equal(b.keys.size, 0, 'another node does it now')
})

t.test('what a key takes on the disk is what is counted', async t => {
  const { store, keys, send } = await startService(t, testFolder(t))
  const pipeline = 'f'.repeat(24)
  await Promise.all(Array.from({ length: 3000 }, (_, n) => send(`${n}`, one, { account: pipeline, pipeline })))
  const { bytes } = (await store.get<{ bytes: number }>(
    'SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()',
  ))!
  t.ok(bytes / 3000 <= KEY_BYTES && bytes / 3000 > KEY_BYTES / 2, `${bytes / 3000} bytes`)
  t.equal(keys.bytesOf(pipeline), 3000 * KEY_BYTES)
  await keys.remove(pipeline)
  t.equal(keys.size, 0, 'more than one statement removes')
})
