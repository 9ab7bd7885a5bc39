import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { kafka } from '../../../../src/components/kafka/destination.js'
import { checkTopic } from '../../../../src/components/kafka/kafka-destination.js'
import { murmur2 } from '../../../../src/components/kafka/murmur2.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import type { Reach } from '../../../../src/core/options/reach.js'
import { listening } from '../../../support/address.js'
import { batchesOf } from '../../../support/batches.js'
import { attempts, deliver, failure, json, make, never, ns, started, upTo } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import { type KafkaBroker, kafkaBroker, type Part } from '../../../support/kafka-broker.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

/** With a stand-in for a broker, which keeps to the rules of sequence numbers: test/ci/kafka.test.ts has a real one. */

const batch = (lines: readonly string[]) => batchesOf(lines.map(line => `${line}\n`).join(''), json)[0]!
const numbered = (count: number, from = 0) => upTo(count).map(n => `{"n":${n + from},"app":"a${(n + from) % 5}"}`)
const optionsOf = (broker: KafkaBroker, more: object = {}) => ({
  brokers: [broker.address],
  topic: 'logs',
  key_field: '.app',
  ...more,
})
const valuesAt = (broker: KafkaBroker, topic = 'logs') =>
  broker.stored(topic).map(messages => messages.map(({ value }) => value))
const numbersOf = (broker: KafkaBroker, topic?: string) => ns(valuesAt(broker, topic).flat())
const inOrder = (broker: KafkaBroker) =>
  valuesAt(broker).every(values => ns(values).every((n, i, all) => i === 0 || n > all[i - 1]!))
const sorted = (numbers: number[]) => numbers.sort((a, b) => a - b)

t.test('the hash of keys is that of Kafka', async t => {
  const hashOf = (text: string) => murmur2(Buffer.from(text), 0, Buffer.byteLength(text))
  // From the tests of Kafka.
  t.equal(hashOf('21'), -973932308)
  t.equal(hashOf('foobar'), -790332482)
  t.equal(hashOf('a-little-bit-long-string'), -985981536)
  t.equal(hashOf('a-little-bit-longer-string'), -1486304829)
  t.equal(hashOf('lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8'), -58897971)
  t.equal(hashOf('abc'), 479470107)
})

t.test('messages: key, value, headers, time and partition', async t => {
  const broker = await kafkaBroker(t)
  const options = optionsOf(broker, { headers: { host: '${.host}', fixed: 'é' }, id_header: 'id' })
  const { destination } = await started(t, options, kafka)
  const lines = [
    '{"app":"a","timestamp":"2026-01-02T03:04:05.678Z","host":"h"}',
    '{"app":"a","timestamp":"2026-01-02T03:04:04Z"}',
    '{"app":7,"timestamp":1767323045}',
    '{"app":null}',
  ]
  await destination.write([batch(lines)], never)
  const stored = broker.stored('logs').flat()
  const of = (n: number) => stored.find(({ value }) => value === lines[n])!
  t.match(of(0), { key: 'a', timestamp: Date.UTC(2026, 0, 2, 3, 4, 5, 678), headers: { host: 'h', fixed: 'é' } })
  t.match(of(1), { key: 'a', timestamp: Date.UTC(2026, 0, 2, 3, 4, 4) })
  t.same(Object.keys(of(1).headers), ['fixed', 'id'], 'an empty header is left out')
  t.match(of(2), { key: '7', timestamp: 1767323045000 })
  t.equal(of(3).key, null)
  t.equal(of(3).timestamp, batch(['{}']).receivedAt)
  t.equal(new Set(stored.map(({ headers }) => headers.id)).size, 4)
  const [requested] = broker.requests
  t.equal(
    requested!.find(({ messages }) => messages[0]!.key === 'a')!.partition,
    (murmur2(Buffer.from('a'), 0, 1) & 0x7fffffff) % 3,
  )
  t.equal(broker.requests.length, 1, 'one request has all partitions')
})

t.test('compressions, and encodings', async t => {
  for (const [compression, number] of Object.entries({ none: 0, gzip: 1, snappy: 2, lz4: 3 })) {
    const broker = await kafkaBroker(t)
    const { destination } = await started(t, optionsOf(broker, { compression, encoding: 'json' }), kafka)
    await destination.write([batch(numbered(500))], never)
    t.same(new Set(broker.requests[0]!.map(part => part.compression)), new Set([number]), compression)
    t.same(sorted(numbersOf(broker)), upTo(500))
  }
})

/** A destination behind a delivery. */
async function delivering(
  t: Test,
  broker: KafkaBroker,
  more: object = {},
  delivery: object = {},
  folder = testFolder(t),
) {
  const made = await make(optionsOf(broker, more), kafka)
  const behind = deliver(folder, made, { batch: { max_wait: '5ms', max_events: 100 }, ...delivery })
  t.teardown(() => behind.delivery.stop(AbortSignal.abort()))
  const settled: AckStatus[] = []
  let count = 0
  const put = (events: number, lines = numbered(events, count)) => {
    count += events
    behind.delivery.write(batchesOf(lines.map(line => `${line}\n`).join(''), json, status => settled.push(status))[0]!)
  }
  const all = async (batches: number) => await until('all is settled', () => settled.length === batches)
  const reasons = () => Object.fromEntries([...made.counters.discards].map(([reason, { events }]) => [reason, events]))
  const counter = (name: string) => made.counters.counter(name, '').value
  await behind.delivery.start()
  return { ...made, ...behind, settled, put, all, reasons, counter }
}

t.test('a partition that fails is sent again, in order, and others are not', async t => {
  const broker = await kafkaBroker(t)
  const { put, all, settled } = await delivering(t, broker)
  let failing = 3
  broker.otherwise = () => ({ code: part => (part.partition === 1 && failing-- > 0 ? 6 : 0) })
  for (let n = 0; n < 5; n++) put(50)
  await all(5)
  t.same(
    settled,
    Array.from({ length: 5 }, () => 'delivered'),
  )
  t.same(sorted(numbersOf(broker)), upTo(250))
  t.ok(inOrder(broker))
  const others = broker.requests.flat().filter(({ partition }) => partition !== 1)
  const stored = [0, 2].flatMap(partition => broker.stored('logs')[partition]!)
  t.equal(others.flatMap(({ messages }) => messages).length, stored.length)
})

t.test('a partition without a leader keeps no events of others waiting', async t => {
  const broker = await kafkaBroker(t)
  broker.leaderless.add(1)
  const { put, all, settled, delivery } = await delivering(t, broker, {}, { retry: { initial: '5ms', max: '20ms' } })
  const isBad = (n: number) => (murmur2(Buffer.from(`a${n % 5}`), 0, 2) & 0x7fffffff) % 3 === 1
  const bad = upTo(2000).filter(isBad)
  t.ok(bad.length > 100 && bad.length < 1900)
  for (let n = 0; n < 20; n++) put(100)
  await until('all others are stored', () => numbersOf(broker).length === 2000 - bad.length)
  t.match(delivery.reason, /topic logs: partition 1 has no leader now; .*; only the events that go there wait/)
  t.same(settled, [], 'each batch has an event of the partition')
  broker.leaderless.delete(1)
  await all(20)
  t.same(sorted(numbersOf(broker)), upTo(2000))
  t.ok(inOrder(broker))
})

for (const how of ['store and cut', 'cut'] as const)
  t.test(`without an answer (${how}) events come once, in order, by the same numbers`, async t => {
    const broker = await kafkaBroker(t)
    const { put, all, counter } = await delivering(t, broker)
    broker.script.push({}, { instead: how }, { instead: how })
    for (let n = 0; n < 4; n++) put(100)
    await all(4)
    t.same(sorted(numbersOf(broker)), upTo(400))
    t.ok(inOrder(broker))
    t.equal(broker.producers, 1n)
    t.equal(counter('sluice_kafka_new_producers_total'), 0)
    t.equal(counter('sluice_kafka_possible_duplicates_total'), 0)
  })

t.test('of two brokers one is silent: what the other one has is not sent again', async t => {
  const [broker, peer] = [await kafkaBroker(t), await kafkaBroker(t)]
  broker.peer = peer
  const { put, all, counter } = await delivering(t, broker, {}, { timeout: '300ms' })
  peer.script.push({ instead: 'hang' }, { instead: 'store and cut' })
  for (let n = 0; n < 3; n++) put(100)
  await all(3)
  t.same(sorted([...numbersOf(broker), ...numbersOf(peer)]), upTo(300))
  t.ok(inOrder(broker) && inOrder(peer))
  t.equal(counter('sluice_kafka_possible_duplicates_total'), 0)
})

t.test('of two brokers one stays silent: what the other one has is no dead letter', async t => {
  const [broker, peer] = [await kafkaBroker(t), await kafkaBroker(t)]
  broker.peer = peer
  const limits = { timeout: '1s', retry: { max_attempts: 2 } }
  const { put, all, reasons, counters } = await delivering(t, broker, {}, limits)
  peer.otherwise = () => ({ instead: 'hang' })
  put(100)
  await all(1)
  const stored = numbersOf(broker).length
  t.ok(stored > 0)
  t.same(reasons(), { retries_exhausted: 100 - stored })
  t.equal(counters.passed.events, stored)
})

t.test('a reload while one of two brokers is silent: what the other one has is not left to the successor', async t => {
  const [broker, peer] = [await kafkaBroker(t), await kafkaBroker(t)]
  broker.peer = peer
  broker.topic = peer.topic = name => ({ partitions: name === 'other' ? 1 : 3 })
  const first = await started(t, optionsOf(broker), kafka)
  peer.script.push({ instead: 'hang' })
  const cut = new AbortController()
  const over = failure(first.destination.write([batch(numbered(100))], cut.signal))
  await until('both are asked', () => broker.requests.length > 0 && peer.requests.length > 0)
  // A broker answers requests in order, so it has confirmed the first one then.
  await first.destination.write([batch(numbered(1))], never, 'other')
  cut.abort(new Error('a reload'))
  const error = await over
  const stored = numbersOf(broker)
  t.match(error, { failure: 'retry', message: 'a reload', rejected: [] })
  t.same(
    error.again,
    upTo(100).filter(n => !stored.includes(n)),
  )
  const { value } = first.destination.handOver!()!
  const { destination, counters } = await make(optionsOf(broker), kafka, undefined, value)
  t.teardown(() => destination.stop!(never))
  await destination.start!(never)
  await destination.write([batch(error.again.map(n => numbered(1, n)[0]!))], never)
  t.same(sorted([...numbersOf(broker), ...numbersOf(peer)]), upTo(100))
  t.equal(counters.counter('sluice_kafka_possible_duplicates_total', '').value, 0)
})

t.test('replicas that do not confirm in time: what is stored is not stored again', async t => {
  const broker = await kafkaBroker(t)
  const { put, all } = await delivering(t, broker)
  broker.script.push({ code: () => 20, stored: [20] }, { code: () => 7, stored: [7] }, { code: () => 19 })
  put(100)
  await all(1)
  t.same(sorted(numbersOf(broker)), upTo(100))
})

t.test('a session that the broker does not accept any more is replaced, in order and counted', async t => {
  for (const code of [45, 47, 59, 90]) {
    const broker = await kafkaBroker(t)
    const { put, all, counter, settled } = await delivering(t, broker)
    put(100)
    await all(1)
    let refusals = 1
    broker.otherwise = () => ({ code: part => (part.partition === 0 && refusals-- > 0 ? code : 0) })
    for (let n = 0; n < 3; n++) put(100)
    await all(4)
    t.notOk(settled.includes('rejected'))
    t.same(sorted(numbersOf(broker)), upTo(400))
    t.ok(inOrder(broker), String(code))
    t.equal(counter('sluice_kafka_new_producers_total'), 1)
    t.equal(counter('sluice_kafka_possible_duplicates_total'), 0, 'nothing was stored of what was refused')
  }
})

t.test('a broker that forgot its producers', async t => {
  const broker = await kafkaBroker(t)
  const { put, all } = await delivering(t, broker)
  put(100)
  await all(1)
  broker.forget()
  put(100)
  await all(2)
  t.same(sorted(numbersOf(broker)), upTo(200))
})

t.test('another batch in the place of one whose outcome is not known has another producer', async t => {
  const broker = await kafkaBroker(t)
  broker.topic = () => ({ partitions: 1 })
  const { destination, counters } = await started(t, optionsOf(broker), kafka)
  broker.script.push({ instead: 'store and cut' })
  t.match(await failure(destination.write([batch(numbered(2))], never)), { failure: 'retry', reason: 'reset' })
  await destination.write([batch(numbered(2, 2))], never)
  t.same(numbersOf(broker), [0, 1, 2, 3], 'the broker did not take it for the one before')
  t.equal(counters.counter('sluice_kafka_new_producers_total', '').value, 1)
  await destination.write([batch(numbered(2, 4))], never)
  t.equal(broker.producers, 2n)
  broker.script.push({ code: () => 7, stored: [7] }, { code: () => 19 })
  for (const code of [7, 19])
    t.match(await failure(destination.write([batch(numbered(2, 6))], never)), { status: code })
  await destination.write([batch(numbered(2, 8))], never)
  t.same(numbersOf(broker), upTo(10), 'a later refusal says nothing about the first attempt')
  const before = counters.counter('sluice_kafka_possible_duplicates_total', '').value
  broker.script.push({ instead: 'store and cut' })
  await failure(destination.write([batch(numbered(3, 10))], never))
  await destination.write([batch(numbered(1, 13))], never)
  const after = counters.counter('sluice_kafka_possible_duplicates_total', '').value
  t.equal(after - before, 3, 'all that may be stored of it')
})

t.test('a leader that moved, and a broker that says that it has the events', async t => {
  const [broker, peer] = [await kafkaBroker(t), await kafkaBroker(t)]
  broker.topic = peer.topic = () => ({ partitions: 2 })
  const { destination } = await started(t, optionsOf(broker), kafka)
  const isOdd = ({ partition }: Part) => partition === 1
  broker.otherwise = () => ({ code: part => (isOdd(part) ? 6 : 0) })
  const all = attempts({ destination }, [batch(numbered(20))])
  t.match(await failure(all()), { failure: 'retry', reason: 'leader' })
  broker.peer = peer
  await all()
  t.same(sorted([...numbersOf(broker), ...numbersOf(peer)]), upTo(20))
  peer.script.push({ instead: 'store and cut' }, { code: () => 46 })
  const next = attempts({ destination }, [batch(numbered(20, 20))])
  await failure(next())
  broker.peer = peer
  await next()
  t.same(sorted([...numbersOf(broker), ...numbersOf(peer)]), upTo(40))
})

t.test('without idempotence, what may come twice is counted', async t => {
  const broker = await kafkaBroker(t)
  const { put, all, counter } = await delivering(t, broker, { acks: 1, idempotence: false })
  broker.script.push({ instead: 'store and cut' })
  put(10)
  await all(1)
  t.same(sorted(numbersOf(broker)), sorted([...upTo(10), ...upTo(10)]))
  t.equal(counter('sluice_kafka_possible_duplicates_total'), 10)
  t.equal(broker.producers, 0n)
})

t.test('refused messages are dead letters with the words of the broker, and others are sent', async t => {
  const broker = await kafkaBroker(t)
  const { put, all, reasons, settled, logs } = await delivering(t, broker)
  const bad = (part: Part) =>
    part.messages.flatMap(({ value }, n): [number, string][] =>
      (JSON.parse(value) as { n: number }).n % 10 === 3 ? [[n, 'its time is wrong']] : [],
    )
  broker.otherwise = () => ({ code: part => (bad(part).length > 0 ? 32 : 0), errors: bad })
  put(50)
  await all(1)
  t.same(settled, ['rejected'])
  t.same(reasons(), { timestamp: 5 })
  t.same(
    sorted(numbersOf(broker)),
    upTo(50).filter(n => n % 10 !== 3),
  )
  t.match(valuesOf(logs, 'error').join(), /partition \d: INVALID_TIMESTAMP: its time is wrong; .*correct "timestamp"/)
})

t.test('what is too large is divided, and an event that does not fit is rejected', async t => {
  const broker = await kafkaBroker(t)
  const long = 'x'.repeat(20_000)
  const lines = upTo(40).map(n => `{"n":${n},"app":"a${n % 5}","more":"${n === 7 ? long : 'y'.repeat(900)}"}`)
  const options = { compression: 'none', max_message_bytes: 10_000 }
  const { put, all, reasons, settled } = await delivering(t, broker, options)
  put(40, lines)
  await all(1)
  t.same(settled, ['rejected'])
  t.same(reasons(), { too_long: 1 })
  t.same(
    sorted(numbersOf(broker)),
    upTo(40).filter(n => n !== 7),
  )
  const sizes = broker.requests.flat().map(({ messages }) => messages.reduce((sum, { value }) => sum + value.length, 0))
  t.ok(Math.max(...sizes) < 10_000)

  const other = await kafkaBroker(t)
  other.otherwise = () => ({ code: part => (part.messages.some(({ value }) => value === lines[7]) ? 10 : 0) })
  const second = await delivering(t, other, { compression: 'none' })
  second.put(40, lines)
  await second.all(1)
  t.same(second.reasons(), { too_long: 1 }, 'as the broker says')
  t.equal(numbersOf(other).length, 39)

  const small = await kafkaBroker(t)
  small.otherwise = () => ({ code: () => 10 })
  const third = await delivering(t, small, {}, { batch: { max_events: 1 } })
  third.put(8)
  await third.all(1)
  t.same(third.reasons(), { too_long: 8 }, 'the destination does not pause')
})

t.test('a topic that is missing pauses the destination, and its creation ends that', async t => {
  const broker = await kafkaBroker(t)
  let there = false
  broker.topic = () => (there ? { partitions: 2 } : { code: 29 })
  const { put, all, delivery, settled } = await delivering(t, broker)
  put(10)
  await until('it is paused', () => delivery.state === 'holding')
  t.match(delivery.reason, /topic logs: TOPIC_AUTHORIZATION_FAILED; the user needs the rights Write/)
  there = true
  await all(1)
  t.same(settled, ['delivered'])
})

t.test('of topics that events name, one that cannot be keeps no other waiting', async t => {
  const broker = await kafkaBroker(t)
  broker.topic = name => (name === 'app-a1' ? { code: 29 } : { partitions: 1 })
  const { put, all, reasons } = await delivering(t, broker, { topic: 'app-${.app}', key_field: '.n' })
  put(50)
  await all(1)
  t.same(reasons(), { topic_denied: 10 })
  t.equal(numbersOf(broker, 'app-a0').length, 10)
  put(2, ['{"n":1}', '{"n":2,"app":"no name!"}'])
  await all(2)
  t.same(reasons(), { topic_denied: 10, partition: 2 })
})

t.test('events without a key avoid partitions without a leader', async t => {
  const broker = await kafkaBroker(t)
  broker.topic = () => ({ partitions: 8 })
  for (const n of [0, 1, 2, 4, 5, 6, 7]) broker.leaderless.add(n)
  const { put, all } = await delivering(t, broker, { key_field: '.none' })
  for (let n = 0; n < 3; n++) put(100)
  await all(3)
  t.equal(broker.stored('logs')[3]!.length, 300)
  t.ok(
    broker.requests.every(parts => parts.length === 1),
    'those of a request go to one partition',
  )
})

t.test('without idempotence, events without a key avoid a lost leader also after a lost answer', async t => {
  const broker = await kafkaBroker(t)
  const { destination } = await started(t, optionsOf(broker, { key_field: '.none', idempotence: false }), kafka)
  broker.script.push({ instead: 'cut' })
  const attempt = attempts({ destination }, [batch(numbered(10))])
  await failure(attempt())
  broker.leaderless.add(broker.requests[0]![0]!.partition)
  await attempt()
  t.same(sorted(numbersOf(broker)), upTo(10))
})

t.test('a password that is refused pauses, and a replaced one is used', async t => {
  const folder = testFolder(t, { password: 'first-pass-1' })
  const broker = await kafkaBroker(t)
  const seen: string[] = []
  broker.sasl = (mechanism, bytes) => {
    seen.push(`${mechanism} ${bytes.toString().replaceAll('\0', '|')}`)
    return { code: bytes.toString() === '\0me\0second-pass-2' ? 0 : 58 }
  }
  const auth = { type: 'plain', username: 'me', password_file: join(folder, 'password') }
  const { put, all, delivery, logs } = await delivering(t, broker, { auth }, {}, folder)
  put(10)
  await until('it is paused', () => delivery.state === 'holding')
  t.match(
    delivery.reason,
    /SASL_AUTHENTICATION_FAILED: refused by the stand-in: .*me.*\[hidden\]; the user or the password was refused; put a new one in .*password/,
  )
  writeFileSync(auth.password_file, 'second-pass-2\n')
  await all(1)
  t.equal(seen[0], 'PLAIN |me|first-pass-1')
  t.notMatch(JSON.stringify(logs), /(first|second)-pass/)
})

t.test('a token; sessions that end; a mechanism that is not offered', async t => {
  const folder = testFolder(t, { token: 'eyJ.token' })
  const broker = await kafkaBroker(t)
  broker.sessionMs = 1n
  const refused = { code: 0, bytes: Buffer.from('{"status":"invalid_token"}') }
  broker.sasl = (_, bytes) => (bytes.toString() === 'n,,\x01auth=Bearer eyJ.token\x01\x01' ? { code: 0 } : refused)
  const options = (file: string, type = 'oauthbearer') =>
    optionsOf(broker, {
      auth: { type, ...(type !== 'oauthbearer' ? { username: 'a', password_file: file } : { key_file: file }) },
    })
  const { destination } = await started(t, options(join(folder, 'token')), kafka)
  let written = 0
  // Each session is replaced before the broker ends it. A fast machine writes several times in one.
  for (; broker.connections < 3; written += 2) await destination.write([batch(numbered(2, written))], never)
  t.same(sorted(numbersOf(broker)), upTo(written))
  writeFileSync(join(folder, 'other'), 'eyJ.other')
  const other = await started(t, options(join(folder, 'other')), kafka)
  const error = await failure(other.destination.write([batch(numbered(1))], never))
  t.match(error, {
    failure: 'hold',
    reason: 'auth',
    message: /invalid_token.*; the token was refused; put a new one in .*other/,
  })
  broker.mechanisms = ['SCRAM-SHA-256']
  broker.sasl = (_, bytes) => ({ code: 0, bytes: Buffer.from(`${/r=.*/.exec(String(bytes))}x,s=AAAA,i=2000000000`) })
  const slow = await started(t, options(join(folder, 'token'), 'scram_sha_256'), kafka)
  const asked = await failure(slow.destination.write([batch(numbered(1))], never))
  t.match(asked, { message: /too many iterations/ })
  broker.sasl = () => ({ code: 0, bytes: Buffer.alloc(1024 * 1024, 'a') })
  // The client would take hours to read it.
  const endless = await failure(slow.destination.write([batch(numbered(1))], never))
  t.match(endless, { failure: 'hold', reason: 'protocol', message: /its answer of \d+ bytes is too long/ })
  broker.mechanisms = ['GSSAPI']
  const third = await started(t, options(join(folder, 'token'), 'plain'), kafka)
  const why = await failure(third.destination.write([batch(numbered(1))], never))
  t.match(why, { failure: 'hold', reason: 'sasl_mechanism', message: /broker offers GSSAPI; correct auth.type/ })
  broker.mechanisms = []
  const none = await failure(third.destination.write([batch(numbered(1))], never))
  t.match(none, { message: /PLAIN is not offered; the broker offers none: is that its port for SASL\?/ })
})

t.test('a password that others can read on its way is logged as such', async t => {
  const auth = { type: 'plain', username: 'me', password: 'a-password' }
  const warnings = async (more: object) => {
    const { logs } = await make({ brokers: ['kafka.example.com:9092'], topic: 'logs', auth, ...more }, kafka)
    return logs.map(({ msg }) => msg)
  }
  t.match(await warnings({}), [/sent without encryption; set "tls"/])
  for (const safe of [{ tls: {} }, { brokers: ['127.0.0.1:9092'] }, { auth: { ...auth, type: 'scram_sha_256' } }])
    t.same(await warnings(safe), [])
})

t.test('a broker that wants a user closes the connection: the advice names "auth"', async t => {
  const broker = await kafkaBroker(t)
  broker.sasl = () => ({ code: 0 })
  const { destination } = await started(t, optionsOf(broker), kafka)
  const error = await failure(destination.write([batch(numbered(1))], never))
  t.match(error, { failure: 'retry', reason: 'reset', message: /; it may expect "auth"$/ })
})

t.test('an address that is advertised and cannot be reached: attempts and the check say whose it is', async t => {
  const [broker, gone] = [await kafkaBroker(t), await kafkaBroker(t)]
  const [address, port] = gone.address.split(':') as [string, string]
  gone.close()
  broker.advertised = { address, port: Number(port) }
  const { destination, context } = await started(t, optionsOf(broker), kafka)
  const said = {
    failure: 'retry',
    reason: 'refused',
    message: /; broker 0 advertises this address: see its advertised/,
  }
  t.match(await failure(destination.write([batch(numbered(1))], never)), said)
  t.match(await failure(checkTopic(kafka.options.parse(optionsOf(broker)), context, never)), said)
  broker.advertised = { address: 'no name', port: 9092 }
  const error = await failure(destination.write([batch(numbered(1))], never))
  t.match(error, {
    failure: 'retry',
    message: /advertises an invalid address: see its advertised.listeners/,
  })
  broker.advertised = undefined
  await destination.write([batch(numbered(1))], never)
})

t.test('another cluster in the place of one: its producers are others', async t => {
  const broker = await kafkaBroker(t)
  const { destination } = await started(t, optionsOf(broker), kafka)
  await destination.write([batch(numbered(10))], never)
  broker.script.push({ instead: 'cut' })
  await failure(destination.write([batch(numbered(10, 10))], never))
  // There, another client may have the same id, and have sent as many messages.
  broker.clusterId = 'other'
  await destination.write([batch(numbered(10, 10))], never)
  t.same(sorted(numbersOf(broker)), upTo(20))
  t.equal(broker.producers, 2n)
})

t.test(
  'a reload while it is not known what is stored: the successor repeats it as it was, and more behind it',
  async t => {
    const broker = await kafkaBroker(t)
    const first = await started(t, optionsOf(broker), kafka)
    broker.script.push({}, { instead: 'store and cut' })
    await first.destination.write([batch(numbered(20))], never)
    await failure(first.destination.write([batch(numbered(20, 20))], never))
    const { value } = first.destination.handOver!()!
    await first.destination.stop!(never)
    const { destination } = await make(optionsOf(broker), kafka, undefined, value)
    t.teardown(() => destination.stop!(never))
    await destination.start!(never)
    broker.script.push({ instead: 'cut' })
    const more = [batch(numbered(20, 20)), batch(numbered(60, 40))]
    await failure(destination.write(more, never))
    await destination.write(more, never)
    t.same(sorted(numbersOf(broker)), upTo(100))
    t.ok(inOrder(broker))
    t.equal(broker.producers, 1n)
  },
)

t.test('a leader that is replaced while it waits for others may have stored events', async t => {
  const broker = await kafkaBroker(t)
  const { destination } = await started(t, optionsOf(broker), kafka)
  broker.script.push({ code: () => 6, stored: [6] })
  t.match(await failure(destination.write([batch(numbered(20))], never)), { failure: 'retry', reason: 'leader' })
  await destination.write([batch(numbered(20)), batch(numbered(20, 20))], never)
  t.same(sorted(numbersOf(broker)), upTo(40))
  t.equal(broker.producers, 1n)
})

t.test('more partitions while it is not known what is stored: the same events go to the same ones', async t => {
  const broker = await kafkaBroker(t)
  const { put, all, counter } = await delivering(t, broker)
  broker.script.push({ instead: 'store and cut' })
  broker.topic = () => ({ partitions: broker.requests.length === 0 ? 3 : 7 })
  for (let n = 0; n < 3; n++) put(100)
  await all(3)
  t.same(sorted(numbersOf(broker)), upTo(300))
  t.equal(counter('sluice_kafka_new_producers_total'), 0)
  t.ok(valuesAt(broker)[6]!.length > 0, 'later events use them')
})

t.test('a quota: the pause that a broker asks for is kept if a request would time out within it', async t => {
  const broker = await kafkaBroker(t)
  const { destination } = await started(t, optionsOf(broker), kafka)
  broker.throttleMs = 1000
  for (let n = 0; n < 2; n++) await destination.write([batch(numbered(3))], never)
  broker.throttleMs = 40_000
  await destination.write([batch(numbered(3))], never)
  const error = await failure(destination.write([batch(numbered(3))], never))
  t.match(error, { failure: 'retry', reason: 'quota', message: /a quota .* is used up, and broker 0 asks for a pause/ })
  t.ok(error.retryAfterMs! > 10_000)
  t.equal(broker.requests.length, 3)
})

t.test('a silent broker: bounded attempts, one connection each, and a quick end', async t => {
  const broker = await kafkaBroker(t)
  broker.otherwise = () => ({ instead: 'hang' })
  // Long enough to get as far as the request that is not answered.
  const { put, delivery } = await delivering(t, broker, {}, { timeout: '500ms' })
  put(100)
  put(100)
  await until('it retries', () => broker.requests.length >= 4)
  t.ok(broker.connections <= broker.requests.length + 1)
  const left = await delivery.stop(AbortSignal.timeout(50))
  t.equal(left.events, 200)
})

t.test('the first broker is silent for longer than an attempt takes: the next attempt begins with another', async t => {
  const broker = await kafkaBroker(t)
  let isOver = false
  const over = () => {
    isOver = true
  }
  const silent = createServer(socket => socket.on('error', over).on('close', over).resume())
  const port = await listening(t, silent)
  const { address } = silent.address() as { address: string }
  const brokers = [`${address}:${port}`, broker.address]
  const { put, all } = await delivering(t, broker, { brokers, connect_timeout: '5s' }, { timeout: '300ms' })
  put(10)
  await all(1)
  t.equal(numbersOf(broker).length, 10)
  t.notOk(isOver, 'the time to connect to the first one is not over')
})

t.test('many requests over one connection, which ends: no warning, and all of them are sent again', async t => {
  const broker = await kafkaBroker(t)
  const warnings: Error[] = []
  const warned = (warning: Error) => void warnings.push(warning)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  broker.otherwise = () => ({ instead: 'hang' })
  const { put, all } = await delivering(t, broker, { topic: 'app-${.n}' }, { max_in_flight: 40 })
  put(40)
  await until('it is asked', () => broker.requests.length > 0)
  broker.otherwise = () => ({})
  broker.cut()
  await all(1)
  t.equal([...broker.log.values()].flat().length, 40)
  t.same(warnings, [])
})

t.test('what does not speak Kafka, TLS in its place, and nothing at all', async t => {
  const answers = async (text: string | Buffer) => {
    const server = createServer(socket => socket.on('error', () => {}).on('data', () => socket.end(text)))
    const port = await listening(t, server)
    const { address } = server.address() as { address: string }
    const { destination } = await started(t, { brokers: [`${address}:${port}`], topic: 'logs' }, kafka)
    return await failure(destination.write([batch(numbered(1))], never))
  }
  t.match(await answers('HTTP/1.1 400 Bad Request\r\n\r\n'), {
    failure: 'hold',
    reason: 'protocol',
    message: /see "brokers"/,
  })
  t.match(await answers(Buffer.from('15030300020150', 'hex')), { failure: 'hold', message: /it speaks TLS there/ })
  t.match(await answers(''), { failure: 'retry', reason: 'reset', message: /it may expect "auth", or "tls"/ })
  // A size within bounds, and an answer that nobody asked for.
  t.match(await answers(Buffer.from('000000080000ffff00000000', 'hex')), { failure: 'hold', reason: 'protocol' })
  // Brokers before Kafka 2.4 say in their own form that they do not know this version of the request.
  t.match(await answers(Buffer.from('0000000a00000001002300000000', 'hex')), {
    message: /Kafka 2.8 or newer is needed/,
  })
  // A controller has nothing but the request for versions.
  const controller = '00000013000000010000020012000000040000000000' + '00'
  t.match(await answers(Buffer.from(controller, 'hex')), { failure: 'hold', message: /is it a controller/ })
})

t.test('as many brokers as are named are asked', async t => {
  const broker = await kafkaBroker(t)
  const gone = await kafkaBroker(t)
  const { address } = gone
  gone.close()
  const { destination } = await started(t, { ...optionsOf(broker), brokers: [address, broker.address] }, kafka)
  await destination.write([batch(numbered(3))], never)
  t.equal(numbersOf(broker).length, 3)
})

t.test('a published pipeline connects to no other brokers than those that it names', async t => {
  const [broker, peer] = [await kafkaBroker(t), await kafkaBroker(t)]
  broker.peer = peer
  const { context } = await make(optionsOf(broker), kafka)
  const reach = { deniedAddress: () => undefined } as unknown as Reach
  const write = async (brokers: string[]) => {
    const destination = await kafka.create(kafka.options.parse({ brokers, topic: 'logs' }), { ...context, reach })
    t.teardown(() => destination.stop?.(never))
    await destination.start?.(never)
    for (let n = 0; n < 20; n++) await destination.write([batch(numbered(1, n))], never)
  }
  await write([broker.address, peer.address])
  t.match(await failure(write([broker.address])), { failure: 'hold', reason: 'address_denied' })
})

t.test('the check connects, and sends no event', async t => {
  const broker = await kafkaBroker(t)
  const check = async (more: object) => {
    const made = await make(optionsOf(broker, more), kafka)
    return await checkTopic(kafka.options.parse(optionsOf(broker, more)), made.context, never)
  }
  t.equal(await check({}), 'the topic logs can be written to: 3 partitions')
  t.match(
    await check({ topic: '${.app}' }),
    /^connects, but did not check whether topics can be written to: .app has no default/,
  )
  broker.producerCode = 31
  t.match(await failure(check({})), { message: /CLUSTER_AUTHORIZATION_FAILED; .*idempotence: false/ })
  t.match(await check({ idempotence: false }), /can be written to/)
  broker.topic = () => ({ code: 3 })
  t.match(await failure(check({})), { message: /topic logs: UNKNOWN_TOPIC_OR_PARTITION; create the topic/ })
  t.same(broker.requests, [])
})

t.test('options that cannot work are refused', async t => {
  const problem = (more: object) =>
    kafka.options.safeParse({ brokers: ['127.0.0.1:9092'], topic: 'a', ...more }).error?.issues[0]?.message
  t.equal(problem({}), undefined)
  t.equal(problem({ brokers: ['[::1]:9092', 'kafka'] }), undefined)
  const { brokers } = kafka.options.parse({ brokers: 'a:9092, b', topic: 'a' })
  t.same(brokers, ['kafka://a:9092', 'kafka://b:9092'], 'as other programs write them')
  for (const wrong of [['http://kafka:9092'], 'a:9092,http://b']) t.match(problem({ brokers: wrong }), /HOST:PORT/)
  t.match(problem({ brokers: [] }), /1 to 100/)
  t.match(problem({ acks: 1 }), /idempotence: false/)
  t.match(problem({ acks: 0 }), /all or 1/)
  t.match(problem({ auth: { type: 'plain', password_file: 'a' } }), /needs username/)
  t.match(problem({ auth: { username: 'a' } }), /no use with type: none|no use/)
  t.match(problem({ auth: { type: 'oauthbearer', password: 'a' } }), /write type: plain or scram/)
  t.match(problem({ id_header: 'a', headers: { a: 'b' } }), /is also in "headers"/)
})
