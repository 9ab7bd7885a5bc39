import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { encodeUri, queryText, sign } from '../../src/net/aws/sign.js'
import { HOST, listening } from '../support/address.js'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { ordeal } from '../support/ordeal.js'
import { S3_KEYS, startServer } from '../support/server.js'
import { until } from '../support/until.js'

/** `sluice run` with a real server that speaks S3. Objects are read back by listing and getting them. */

const server = await startServer(t, 'versitygw', testFolder(t))
const EVENTS = 100_000
const KEYS = { accessKeyId: S3_KEYS.access_key_id, secretAccessKey: S3_KEYS.secret_access_key }

async function ask(
  method: string,
  path: string,
  query: Record<string, string> = {},
  at = server!.url,
): Promise<Buffer> {
  const url = new URL(at)
  const signable = { method, host: url.host, path, query, headers: {}, body: [] }
  const headers = sign(signable, KEYS, { region: 'us-east-1', service: 's3' }, Date.now())
  const response = await fetch(`${url.origin}${path}?${queryText(query)}`, { method, headers })
  const body = Buffer.from(await response.arrayBuffer())
  if (!response.ok) throw new Error(`${response.status} to ${method} ${path}: ${body}`)
  return body
}

const texts = (xml: Buffer, name: string) =>
  Array.from(xml.toString().matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g')), ([, text = '']) => text)

/** The names of all objects, by pages. */
async function listed(bucket: string, at?: string): Promise<string[]> {
  const all: string[] = []
  for (let token: string | undefined; ; ) {
    const more = token === undefined ? {} : { 'continuation-token': token }
    const page = await ask('GET', `/${bucket}`, { 'list-type': '2', ...more }, at)
    all.push(...texts(page, 'Key'))
    ;[token] = texts(page, 'NextContinuationToken')
    if (token === undefined) return all
  }
}

async function objectAt(bucket: string, key: string, at?: string): Promise<string> {
  const body = await ask('GET', `/${bucket}/${key.split('/').map(encodeUri).join('/')}`, {}, at)
  return (key.endsWith('.gz') ? gunzipSync(body) : body).toString()
}

const linesOf = (content: string) => content.split('\n').slice(0, -1)

/** The lines of all objects. */
async function stored(bucket: string, at?: string): Promise<string[]> {
  const lines: string[] = []
  for (const key of await listed(bucket, at)) lines.push(...linesOf(await objectAt(bucket, key, at)))
  return lines
}

const configOf = (bucket: string, more: string, url = server!.url) =>
  `sources: { in: { type: file, include: [app.ndjson], decode: json } }
destinations:
  out:
    type: s3
    inputs: [in]
    bucket: ${bucket}
    endpoint: ${url}
    auth: { access_key_id: ${S3_KEYS.access_key_id}, secret_access_key_file: secret }
    batch: { max_wait: 50ms }
    retry: { initial: 50ms, max: 500ms }
    timeout: 5s
    ${more}
`

const lineOf = (n: number) =>
  JSON.stringify({ timestamp: new Date(1.7e12 + n * 1e4).toISOString(), n, app: n % 3, message: `é "${n}" \\` })

const range = (count: number) => Array.from({ length: count }, (_, n) => n)

const inbox = (folder: string, lines: readonly string[]) =>
  appendFileSync(join(folder, 'app.ndjson'), lines.map(line => `${line}\n`).join(''))

/** A folder with the secret, and a bucket. */
async function room(t: Test, bucket: string): Promise<string> {
  await ask('PUT', `/${bucket}`)
  return testFolder(t, { secret: S3_KEYS.secret_access_key })
}

const sent = (daemon: Daemon, events: number) => daemon.scrapedUntil(scrape => scrape.events('out').sent >= events)

t.test('kills of both sides and silence: every line arrives unchanged, no object twice', { skip: !server }, async t => {
  const folder = await room(t, 'logs')
  const lines = range(EVENTS).map(lineOf)
  const PART = EVENTS / 10
  let next = 0
  const write = () => inbox(folder, lines.slice(next, (next += PART)))
  const config = configOf('logs', "key: '${.app:-none}/%Y/%m/%d/'\n    object: { max_bytes: 100KB, max_age: 2s }")
  const start = () => startDaemon(t, folder, config)

  const isOver = () => next >= EVENTS
  const daemon = await ordeal({
    server: server!,
    start,
    write,
    isOver,
    begun: one => one.scrapedUntil(scrape => scrape.sum('sluice_spool_events') + scrape.events('out').sent > 0),
  })

  t.equal(next, EVENTS)
  const isDone = async () => {
    const scrape = await daemon.scrape()
    return scrape.sum('sluice_spool_events') === 0 && scrape.sum('sluice_file_unread_bytes') === 0
  }
  await until('all to be sent', isDone, { every: 200 })
  const totals = await daemon.stop(t)
  t.same(totals.discarded, {})
  const all = await stored('logs')
  const seen = new Set(all)
  t.same(lines.filter(line => !seen.has(line)).slice(0, 3), [], 'no line is missing')
  const known = new Set(lines)
  t.same(all.filter(line => !known.has(line)).slice(0, 3), [], 'no line is changed or torn')
  const keys = await listed('logs')
  t.equal(new Set(keys.map(key => key.replace(/.*-/, ''))).size, keys.length, 'each object has a name of its own')
  t.comment(`${all.length - EVENTS} lines came twice after three kills, in ${keys.length} objects`)
  t.equal(all.length, EVENTS, 'no line came twice')
})

t.test('a large object in parts: kills of both sides leave one object, and no parts', { skip: !server }, async t => {
  const folder = await room(t, 'large')
  const COUNT = 6000
  const lines = range(COUNT).map(n => `${lineOf(n).slice(0, -1)},"more":"${'x'.repeat(1800)}"}`)
  inbox(folder, lines)
  const gate = await refusing(t)
  gate.refuses = /partNumber=2/
  const more = "key: ''\n    encoding: raw\n    compression: none\n    object: { max_bytes: 100MB, max_age:"
  const start = (age: string) => startDaemon(t, folder, configOf('large', `${more} ${age} }`, gate.url))
  let daemon = await start('1 Hours')
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_spool_events') === COUNT)
  await daemon.stop(t)
  const isSentInPart = () => daemon.scrapedUntil(scrape => scrape.sum('sluice_delivery_holding') === 1)
  daemon = await start('1 Seconds')
  await isSentInPart()
  daemon.child.kill('SIGKILL')
  await daemon.exit
  daemon = await start('1 Seconds')
  await isSentInPart()
  await server!.kill()
  await server!.start()
  gate.refuses = undefined
  await sent(daemon, COUNT)
  await daemon.stop(t)
  const keys = await listed('large')
  t.equal(keys.length, 1)
  t.same(linesOf(await objectAt('large', keys[0]!)), lines)
  t.same(texts(await ask('GET', '/large', { uploads: '' }), 'UploadId'), [])
})

/** A proxy before the server, which refuses requests for some names. */
async function refusing(t: Test) {
  const proxy = createServer((from, to) => {
    if (gate.refuses?.test(from.url!)) {
      from.resume()
      to.writeHead(403).end('<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>')
      return
    }
    const options = { method: from.method!, headers: from.headers }
    const forwarded = request(server!.url + from.url, options, answer => {
      to.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(to)
    })
    forwarded.on('error', () => to.destroy())
    from.pipe(forwarded)
  })
  const port = await listening(t, proxy)
  const gate: { readonly url: string; refuses: RegExp | undefined } = {
    url: `http://${HOST}:${port}`,
    refuses: undefined,
  }
  return gate
}

t.test('refusals of one object and of all, and keys that are replaced: nothing is lost', { skip: !server }, async t => {
  const folder = testFolder(t, { secret: 'wrong-s3-secret' })
  const gate = await refusing(t)
  const config = configOf('later', "key: '${.app:-none}/'\n    object: { max_age: 1s }", gate.url)
  inbox(folder, range(3000).map(lineOf))
  const daemon = await startDaemon(t, folder, config)
  const online = async () => await command(['validate', '--online', daemon.configPath], { cwd: folder })
  const status = async () => (await command(['status', '--config', daemon.configPath], { cwd: folder })).stdout
  const reason = (pattern: RegExp) => until(`${pattern}`, async () => pattern.test(await status()), { every: 1000 })
  await reason(/SignatureDoesNotMatch/)
  t.match(await online(), { code: 1, stderr: /destinations\.out: 403 .*the secret access key does not belong/ })
  writeFileSync(join(folder, 'secret'), S3_KEYS.secret_access_key)
  await reason(/NoSuchBucket/)
  t.match(await online(), { code: 1, stderr: /destinations\.out: 404 .*create the bucket/ })
  gate.refuses = /\/later\/1\//
  await ask('PUT', '/later')
  t.match(await online(), { code: 0, stdout: /destinations\.out: ok \(may write objects\)/ })
  await reason(/AccessDenied/)
  t.match(await status(), /out .*holding.*buffered/)
  inbox(folder, range(6000).slice(3000).map(lineOf))
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_spool_events') + scrape.events('out').sent >= 6000)
  gate.refuses = undefined
  await sent(daemon, 6000)
  t.same((await daemon.stop(t)).discarded, {})
  t.notMatch(daemon.stderr, /(wrong|first)-s3-secret/)
  t.same((await stored('later')).sort(), range(6000).map(lineOf).sort())
})

t.test('MinIO: an object in parts, names with other characters, a storage class that it does not know', async t => {
  const folder = testFolder(t, { secret: S3_KEYS.secret_access_key })
  const minio = await startServer(t, 'minio', folder)
  if (!minio) return
  // It says that it is ready before it takes requests.
  const made = () =>
    ask('PUT', '/logs', {}, minio.url).then(
      () => true,
      () => false,
    )
  await until('the bucket', made, { every: 100 })
  const lines = range(6000).map(
    n => `${lineOf(n).slice(0, -1)},"dir":"${n === 7 ? 'é + b/c=%' : 'a'}","x":"${'x'.repeat(1800)}"}`,
  )
  inbox(folder, lines)
  const more = "key: 'app (1)/${.dir:-none}/'\n    encoding: raw\n    compression: none\n    object: { max_age: 2s }"
  const wrong = await startDaemon(t, folder, configOf('logs', `${more}\n    storage_class: COLD`, minio.url))
  await wrong.scrapedUntil(scrape => scrape.sum('sluice_delivery_holding') === 1)
  const online = async () => await command(['validate', '--online', wrong.configPath], { cwd: folder })
  t.match(await online(), { code: 1, stderr: /InvalidStorageClass/ })
  await wrong.stop(t)
  const daemon = await startDaemon(t, folder, configOf('logs', more, minio.url))
  t.match(await online(), { code: 0, stdout: /may write objects/ })
  await sent(daemon, 6000)
  await daemon.stop(t)
  t.same((await stored('logs', minio.url)).sort(), [...lines].sort())
  t.same(texts(await ask('GET', '/logs', { uploads: '' }, minio.url), 'UploadId'), [])
})

t.test('the example runs as it is', { skip: !server }, async t => {
  await ask('PUT', '/app-logs')
  await ask('PUT', '/app-logs-discarded')
  const folder = testFolder(t, { log: {} })
  const example = readFileSync(join(checkout, 'config/examples/app-json-to-s3.yaml'), 'utf8')
  // The daemon of a test has these of its own.
  const here = example.replace(/^(data_dir|metrics):.*\n/gm, '').replaceAll('/var/log/app', 'log')
  const lines = range(1000).map(n =>
    JSON.stringify({ timestamp: new Date(1.7e12 + n * 100).toISOString(), app: 'cart', n }),
  )
  writeFileSync(join(folder, 'log/cart.log'), lines.map(line => `${line}\n`).join(''))
  const env = {
    S3_ENDPOINT: server!.url,
    AWS_ACCESS_KEY_ID: KEYS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: KEYS.secretAccessKey,
  }
  const daemon = await startDaemon(t, folder, here, env)
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_spool_events') === 1000)
  // What is open is sent when it is old enough, or when its source ends.
  await daemon.stop(t)
  const once = here.replace('decode: json', 'decode: json\n    follow: false')
  await startDaemon(t, folder, once, env).then(({ exit }) => exit)
  const [passed, discarded] = [await stored('app-logs'), await stored('app-logs-discarded')]
  t.ok(passed.length >= 300 && discarded.length > 300, `${passed.length} passed, ${discarded.length} discarded`)
  t.same([...passed, ...discarded].sort(), [...lines].sort())
})
