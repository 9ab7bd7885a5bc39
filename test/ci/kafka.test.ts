import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Admin, Consumer, MessagesStreamModes } from '@platformatic/kafka'
import t from 'tap'
import { HOST } from '../support/address.js'
import { makeCertificates } from '../support/certificates.js'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { type Daemon, type Scrape, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { needs, needsServer } from '../support/needs.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'

/** `sluice run` with a real Kafka, and what it answers. Read back is what a consumer gets. */

const folder = testFolder(t, { tls: {} })
const openssl = needs(t, 'openssl')!
const certificates = makeCertificates(openssl, join(folder, 'tls'), ['broker'])
const tls = join(folder, 'tls/all.pem')
const pem = execFileSync(openssl, ['pkcs8', '-topk8', '-nocrypt', '-in', certificates.path('broker.key')])
writeFileSync(tls, Buffer.concat([pem, certificates.pem('broker.pem'), certificates.pem('ca.pem')]))
const renewed = { 'listener.name.secure.connections.max.reauth.ms': 2000 }
const server = await startServer(t, 'kafka', folder, { tls, ...renewed })
const skip = !server
const broker = (n = 0) => `${HOST}:${server!.ports[n]}`
const EVENTS = 100_000
/** A broker that starts again forgets who has sent what is older than a day. */
const BEGIN = Date.now() - EVENTS - 60_000
const PARTITIONS = 6
const APPS = 20

interface Message {
  readonly key: string | undefined
  readonly partition: number
  readonly value: string
  readonly headers: Map<Buffer, Buffer>
  readonly timestamp: bigint
}

const admin = skip ? undefined : new Admin({ clientId: 'test', bootstrapBrokers: [broker()] })
t.teardown(() => admin?.close())
const create = async (topic: string, config: Record<string, string> = {}) => {
  const configs = Object.entries(config).map(([name, value]) => ({ name, value }))
  await until(`${topic} to be made`, async () => {
    const topics = await admin!.listTopics({}).catch(() => undefined)
    if (topics?.includes(topic)) return true
    await admin!.createTopics({ topics: [topic], partitions: PARTITIONS, replicas: 1, configs }).catch(() => {})
    return false
  })
}

/** All messages of a topic, once `count` different ones are there. */
async function stored(topic: string, count: number): Promise<Message[]> {
  const consumer = new Consumer({ clientId: 'test', groupId: `read-${topic}`, bootstrapBrokers: [broker()] })
  const all: Message[] = []
  const numbers = new Set<number>()
  const stream = await consumer.consume({
    topics: [topic],
    mode: MessagesStreamModes.EARLIEST,
    autocommit: false,
    maxWaitTime: 200,
  })
  stream.on('data', ({ key, partition, value, headers, timestamp }) => {
    const message = { key: key?.toString(), partition, value: value.toString(), headers, timestamp }
    all.push(message)
    numbers.add(numberOf(message))
  })
  const there = async () => {
    const ends = (await consumer.listOffsets({ topics: [topic] })).get(topic)!
    return ends.reduce((sum, end) => sum + Number(end), 0)
  }
  const isComplete = async () => numbers.size >= count && all.length >= (await there())
  await until(`${count} messages`, isComplete, { every: 250, show: () => all.length })
  await stream.close()
  await consumer.close(true)
  return all
}

const configOf = (more: string, brokers = broker()) =>
  `sources: { in: { type: file, include: [app.ndjson], decode: json } }
destinations:
  out:
    type: kafka
    inputs: [in]
    brokers: ['${brokers}']
    key_field: .app
    batch: { max_wait: 50ms }
    retry: { initial: 50ms, max: 500ms }
    timeout: 5s
    ${more}
`

const authOf = (type: string) => `auth: { type: ${type}, username: sluice, password_file: password }`

const lineOf = (n: number, more: object = {}) =>
  JSON.stringify({
    timestamp: new Date(BEGIN + n).toISOString(),
    n,
    app: `app${n % APPS}`,
    message: `é "${n}" \\`,
    ...more,
  })
const numberOf = ({ value }: Message) => (JSON.parse(value) as { n: number }).n
const inbox = (folder: string, lines: readonly string[]) =>
  appendFileSync(join(folder, 'app.ndjson'), lines.map(line => `${line}\n`).join(''))
const range = (count: number, from = 0) => Array.from({ length: count }, (_, n) => from + n)
/** As `scrapedUntil`, with less work for what takes seconds. */
const scraped = (daemon: Daemon, test: (scrape: Scrape) => boolean) =>
  until(String(test), async () => test(await daemon.scrape()), { every: 250, show: () => daemon.stderr })
const settled = (daemon: Daemon, events: number) =>
  scraped(daemon, scrape => scrape.events('out').sent + scrape.events('out').discarded >= events)

/** Each line is there, unchanged, and those of an app in one partition, in order. Returns how many are there twice. */
function twice(t: Tap, all: readonly Message[], lines: readonly string[]): number {
  const seen = new Set<number>()
  const lastOf = new Map<string, number>()
  const placeOf = new Map<string, number>()
  const wrong: Message[] = []
  for (const message of all) {
    const { key = '', value, partition, timestamp } = message
    const n = numberOf(message)
    const isFirst = !seen.has(n)
    const isMoved = (placeOf.get(key) ?? partition) !== partition
    const isLate = isFirst && n <= (lastOf.get(key) ?? -1)
    if (value !== lines[n] || key !== `app${n % APPS}` || Number(timestamp) !== BEGIN + n || isMoved || isLate)
      wrong.push(message)
    if (isFirst) lastOf.set(key, n)
    placeOf.set(key, partition)
    seen.add(n)
  }
  t.same(wrong.slice(0, 3), [], 'no event is changed, in another partition, or out of order')
  t.equal(seen.size, lines.length, 'no event is missing')
  return all.length - seen.size
}
type Tap = Pick<typeof t, 'same' | 'equal'>

t.test('kills of sluice: nothing is lost, and what comes twice is counted', { skip }, async t => {
  await create('kills')
  const folder = testFolder(t, { password: 'plain-password' })
  const lines = range(EVENTS * 0.22).map(n => lineOf(n))
  const PART = lines.length / 8
  let next = 0
  const write = () => inbox(folder, lines.slice(next, (next += PART)))
  const options = `topic: kills\n    compression: lz4\n    ${authOf('plain')}`
  const start = () => startDaemon(t, folder, configOf(options, broker(2)))
  write()
  write()
  let daemon = await start()
  for (let kills = 0; kills < 3; kills++) {
    write()
    await settled(daemon, 1)
    daemon.child.kill('SIGKILL')
    await daemon.exit
    write()
    daemon = await start()
  }
  t.equal(next, lines.length)
  const all = await stored('kills', lines.length)
  t.same((await daemon.stop(t)).discarded, {})
  t.comment(`${twice(t, all, lines)} of ${lines.length} events are there twice after three kills`)
})

t.test('kills of the broker and silence: within a session each event is stored once, in order', { skip }, async t => {
  await create('session')
  const folder = testFolder(t)
  const lines = range(EVENTS * 0.78).map(n => lineOf(n))
  const PART = lines.length / 6
  let next = 0
  const write = () => inbox(folder, lines.slice(next, (next += PART)))
  const daemon = await startDaemon(t, folder, configOf('topic: session'))
  const retried = async () => {
    const of = (scrape: Scrape) => scrape.sum('sluice_delivery_retries_total')
    const before = of(await daemon.scrape())
    return () => scraped(daemon, scrape => of(scrape) > before)
  }
  write()
  await settled(daemon, 1)
  for (let restarts = 0; restarts < 2; restarts++) {
    const isRetried = await retried()
    write()
    await server!.kill()
    write()
    await isRetried()
    await server!.start()
  }
  await settled(daemon, next)
  const isLate = await retried()
  server!.child.kill('SIGSTOP')
  write()
  await isLate()
  server!.child.kill('SIGCONT')
  t.equal(next, lines.length)
  await settled(daemon, lines.length)
  const scrape = await daemon.scrape()
  t.equal(scrape.sum('sluice_kafka_possible_duplicates_total'), 0)
  t.same((await daemon.stop(t)).discarded, {})
  t.equal(twice(t, await stored('session', lines.length), lines), 0, 'none is there twice')
})

t.test('a refusal of a part: each event has its reason, and comes in when the cause is mended', { skip }, async t => {
  await create('part-a', { 'max.message.bytes': '50000' })
  const folder = testFolder(t, { password: 'first-password' })
  const lines = range(100).map(n => {
    if (n === 33) return lineOf(n, { team: 'a', message: randomBytes(60_000).toString('base64') })
    return lineOf(n, { team: n % 10 === 5 ? 'b' : 'a', ...(n === 44 && { timestamp: '2999-01-01T00:00:00Z' }) })
  })
  inbox(folder, lines)
  const options = `topic: "part-\${.team}"\n    compression: snappy\n    id_header: id\n    ${authOf('scram_sha_256')}`
  const daemon = await startDaemon(t, folder, configOf(options, broker(2)))
  await settled(daemon, 100)
  t.same((await daemon.stop(t)).discarded, { out: { too_long: 1, unknown_topic: 10, timestamp: 1 } })
  const ids = (await stored('part-a', 88)).map(({ headers }) => String([...headers.values()][0]))
  t.equal(new Set(ids).size, 88)
  await create('part-b')
  const args = ['--config', daemon.configPath, '--destination', 'out']
  const resent = await command(['resend', ...args], { cwd: folder })
  t.match(resent.stdout + resent.stderr, /MESSAGE_TOO_LARGE/)
  t.equal((await stored('part-b', 10)).length, 10)
})

t.test('a password that is replaced, over TLS; a topic that is deleted', { skip }, async t => {
  await create('secure')
  const folder = testFolder(t, { password: 'first-password' })
  const config = configOf(
    `topic: secure\n    compression: none\n    tls: { ca_file: ${certificates.path('ca.pem')} }\n    ${authOf('scram_sha_512')}`,
    broker(3),
  )
  inbox(
    folder,
    range(1000).map(n => lineOf(n)),
  )
  const daemon = await startDaemon(t, folder, config)
  await settled(daemon, 1000)
  const online = await command(['validate', '--online', daemon.configPath], { cwd: folder })
  t.match(online, {
    code: 0,
    stdout: /destinations\.out: ok \(the topic secure can be written to: 6 partitions\)/,
  })

  const program = needsServer(t, 'kafka')!
  const change =
    '--alter --entity-type users --entity-name sluice --add-config SCRAM-SHA-512=[password=second-password]'
  execFileSync(program, ['kafka.admin.ConfigCommand', '--bootstrap-server', broker(), ...change.split(' ')])
  // The broker wants a session to be renewed; until then, it takes what comes.
  let next = 1000
  await scraped(daemon, scrape => {
    const isHeld = scrape.sum('sluice_delivery_holding') === 1
    if (!isHeld) inbox(folder, [lineOf(next++)])
    return isHeld
  })
  writeFileSync(join(folder, 'password'), 'second-password')
  await settled(daemon, next)

  await admin!.deleteTopics({ topics: ['secure'] })
  await until('the topic to be deleted', async () => !(await admin!.listTopics({})).includes('secure'))
  const again = range(1000, next)
  inbox(
    folder,
    again.map(n => lineOf(n)),
  )
  await scraped(daemon, scrape => scrape.sum('sluice_delivery_holding') === 1)
  await create('secure')
  await settled(daemon, next + again.length)
  t.same((await daemon.stop(t)).discarded, {})
  t.notMatch(daemon.stderr, /(first|second)-password/)
  t.same(
    (await stored('secure', again.length)).map(numberOf).sort((a, b) => a - b),
    again,
  )
})

/** A token without a signature, which ends after `seconds`. */
function tokenFor(seconds: number): string {
  const now = Math.floor(Date.now() / 1000)
  const parts = [{ alg: 'none' }, { sub: 'sluice', iat: now, exp: now + seconds }]
  return `${parts.map(part => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')}.`
}

t.test('a token that ends, and is replaced', { skip }, async t => {
  await create('tokens')
  const folder = testFolder(t, { token: tokenFor(6) })
  let endsAt = Date.now() + 6000
  inbox(
    folder,
    range(1000).map(n => lineOf(n)),
  )
  const auth = 'auth: { type: oauthbearer, key_file: token }'
  const daemon = await startDaemon(t, folder, configOf(`topic: tokens\n    ${auth}`, broker(2)))
  await scraped(daemon, scrape => {
    // On a slow machine, the token ends before everything is delivered.
    if (scrape.sum('sluice_delivery_holding') > 0 && Date.now() > endsAt) {
      writeFileSync(join(folder, 'token'), tokenFor(30))
      endsAt = Date.now() + 30_000
    }
    return scrape.events('out').sent >= 1000
  })
  for (let next = 1000; (await daemon.scrape()).sum('sluice_delivery_holding') === 0; next++)
    inbox(folder, [lineOf(next)])
  const refused = /invalid_token.*put a new one in .*token/
  await until('the refusal is logged', () => refused.test(daemon.stderr), { show: () => daemon.stderr })
  writeFileSync(join(folder, 'token'), tokenFor(3600))
  await scraped(daemon, scrape => scrape.sum('sluice_delivery_holding') === 0)
  t.same((await daemon.stop(t)).discarded, {})
  t.notMatch(daemon.stderr, /eyJ/)
  const read = readFileSync(join(folder, 'app.ndjson'), 'utf8').split('\n').slice(0, -1)
  t.equal(twice(t, await stored('tokens', read.length), read), 0)
})

t.test('the example runs as it is', { skip }, async t => {
  await create('app-logs')
  const folder = testFolder(t, { log: {} })
  const example = readFileSync(join(checkout, 'config/examples/file-to-kafka-by-app.yaml'), 'utf8')
  // The daemon of a test has these of its own.
  const here = example.replace(/^(data_dir|metrics):.*\n/gm, '').replace('/var/log/apps', 'log')
  const lines = range(1000).map(n => lineOf(n))
  writeFileSync(join(folder, 'log/app.log'), lines.map(line => `${line}\n`).join(''))
  const daemon = await startDaemon(t, folder, here, { KAFKA_BROKER: broker() })
  const all = await stored('app-logs', 1000)
  await daemon.stop(t)
  t.equal(twice(t, all, lines), 0)
})
