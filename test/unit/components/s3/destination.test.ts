import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { s3 } from '../../../../src/components/s3/destination.js'
import { bucketUrl, regionOf } from '../../../../src/components/s3/store.js'
import { newReading } from '../../../../src/core/event/event-id.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { sign } from '../../../../src/net/aws/sign.js'
import { batchOf } from '../../../support/batches.js'
import { makeCertificates } from '../../../support/certificates.js'
import { deliver, json, type Made, make, never, receiver } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import type { Received } from '../../../support/receiver.js'
import { refusal, S3 } from '../../../support/s3.js'
import { until } from '../../../support/until.js'

const SECRET = 'Very-Secret-Access-Key'

/** A destination, its delivery and a server. `start` makes another one with the same spool. */
async function started(t: Test, own: object = {}) {
  const folder = testFolder(t)
  const to = await receiver(t)
  const server = new S3()
  to.otherwise = server.answer
  const options = {
    bucket: 'logs',
    key: '%Y/%m/%d/${.app:-none}/',
    endpoint: to.url('/'),
    compression: 'none',
    auth: { access_key_id: 'AKID', secret_access_key: SECRET },
    ...own,
  }
  const start = async (more: object = {}) => {
    const made = await make({ ...options, ...more }, s3, undefined, undefined, folder)
    const run = deliver(folder, made, { batch: { max_wait: '5ms' } })
    t.teardown(() => run.delivery.stop(AbortSignal.abort()))
    await run.delivery.start()
    /** `reading`: what they are read from, each at its index from `from` on. */
    const put = async (lines: readonly string[], reading?: string, from = 0) => {
      const before = run.settled.length
      const onSettled = (status: 'delivered' | 'rejected' | 'errored') => void run.settled.push(status)
      const batch = batchOf([...lines], { wanted: json.wanted, onSettled })
      const places = Float64Array.from(lines, (_, i) => from + i)
      if (reading) batch.places = new SentOffsets(0, { reading, at: 0 }, places)
      run.delivery.write(batch)
      await until(() => run.settled.length > before)
    }
    return { ...run, ...made, put }
  }
  return { to, server, start, options, spool: join(folder, 'spool') }
}

const line = (n: number, app = 'cart', day = 1) => JSON.stringify({ n, app, timestamp: `2026-02-0${day}T23:59:59.5Z` })

const counted = ({ counters }: Made) => counters.imbalance()

t.test('an object for each day and app, whose name says when it was opened', async t => {
  const { server, start, to } = await started(t, {
    storage_class: 'STANDARD_IA',
    sse: { type: 'aws:kms', kms_key_id: 'k' },
  })
  const run = await start()
  await run.put([line(0), line(1, 'a/b'), line(2), line(3, 'cart', 2)])
  t.same(run.settled, ['delivered'])
  t.same(server.objects.size, 0, 'taken over, and not sent')
  t.match(run.delivery.spooled, { events: 4, open: 3, closed: 0, max_bytes: 2_000_000_000 })
  t.same(run.counters.passed.events, 0)
  t.same(counted(run), { events: 0, bytes: 0 })
  t.same(await run.end(), { events: 0, bytes: 0 })
  t.same(counted(run), { events: 0, bytes: 0 })
  t.equal(run.counters.passed.events, 4)
  const objects = [...server.objects].sort(([a], [b]) => (a < b ? -1 : 1))
  t.same(
    objects.map(([key]) => key.replace(/\/\d{8}T\d{6}Z-[0-9a-f]{16}\.ndjson$/, '')),
    ['2026/02/01/a%2Fb', '2026/02/01/cart', '2026/02/02/cart'],
  )
  t.same(
    objects.map(([, contents]) => contents),
    [[`${line(1, 'a/b')}\n`], [`${line(0)}\n${line(2)}\n`], [`${line(3, 'cart', 2)}\n`]],
  )
  t.match(to.requests[0]!.headers, {
    'content-type': 'application/x-ndjson',
    'x-amz-storage-class': 'STANDARD_IA',
    'x-amz-server-side-encryption': 'aws:kms',
    'x-amz-server-side-encryption-aws-kms-key-id': 'k',
    authorization:
      /^AWS4-HMAC-SHA256 Credential=AKID\/\d{8}\/us-east-1\/s3\/aws4_request, SignedHeaders=content-type;host;/,
  })
  t.notOk(to.requests.some(({ headers }) => headers['content-md5']))
})

t.test('a bucket that requires a checksum gets it, from the second request on', async t => {
  const { server, start, to } = await started(t, { object: { max_bytes: 1 } })
  server.isLocked = true
  const run = await start()
  await run.put([line(0)])
  await run.put([line(1)])
  await until(() => server.objects.size === 2)
  const sums = to.requests.map(({ headers }) => headers['content-md5'])
  const md5 = ({ body }: Received) => createHash('md5').update(body).digest('base64')
  t.same(sums, [undefined, ...to.requests.slice(1).map(md5)])
  t.equal(sums.length, 3)
  t.same([...run.counters.failures.keys()], [], 'no attempt failed')
})

t.test('with TLS, the signature covers the object only if the receiver requires it', async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const { server, start, spool } = await started(t, { object: { max_bytes: 1 } })
  const files = makeCertificates(openssl, dirname(spool), ['server'])
  const to = await receiver(t, { tls: { cert: files.pem('server.pem'), key: files.pem('server.key') } })
  to.otherwise = server.answer
  const hashes = () => to.requests.map(({ headers }) => headers['x-amz-content-sha256'])
  const run = await start({ endpoint: to.url('/'), tls: { ca_file: files.path('ca.pem') } })
  await run.put([line(0)])
  await until(() => server.objects.size === 1)
  t.same(hashes(), ['UNSIGNED-PAYLOAD'])
  to.script.push(refusal(403, 'AccessDenied'))
  await run.put([line(1)])
  await run.put([line(2)])
  await until(() => server.objects.size === 3)
  const sha256 = ({ body }: Received) => createHash('sha256').update(body).digest('hex')
  t.same(hashes().slice(1), ['UNSIGNED-PAYLOAD', ...to.requests.slice(2).map(sha256)])
  t.same([...run.counters.failures.keys()], [], 'no attempt failed')
})

t.test('what is not sent at a stop is sent by the next run', async t => {
  const { server, start, to } = await started(t)
  const first = await start()
  await first.put([line(0)])
  first.delivery.rest()
  await first.end()
  t.equal(to.requests.length, 0)
  t.same(counted(first), { events: 0, bytes: 0 })
  const second = await start({ key: 'other/' })
  t.same(counted(second), { events: 0, bytes: 0 })
  t.equal(second.counters.received.events, 1)
  await second.put([line(1)])
  await second.end()
  t.match([...server.objects.keys()].sort(), [/^2026\/02\/01\/cart\//, /^other\//])
})

t.test('what a source reads again after a kill is in no second object, sent or not', async t => {
  const { server, start } = await started(t)
  const reading = newReading()
  const first = await start()
  await first.put([line(0), line(1, 'shop'), line(2)], reading)
  await first.delivery.stop(AbortSignal.abort())

  const second = await start({ object: { max_bytes: 1 } })
  await second.put([line(2), line(3)], reading, 2)
  await until(() => server.objects.size === 3)
  await second.delivery.stop(AbortSignal.abort())
  t.same(counted(second), { events: 0, bytes: 0 })

  const third = await start()
  await third.put([line(0), line(1, 'shop'), line(2), line(3), line(4)], reading)
  t.same(third.settled, ['delivered'])
  await third.end()
  t.same(counted(third), { events: 0, bytes: 0 })
  const lines = [...server.objects.values()].flatMap(([content = '']) => content.split('\n').slice(0, -1))
  t.same(lines.sort(), [line(0), line(1, 'shop'), line(2), line(3), line(4)].sort())
  t.equal(third.counters.counter('sluice_spool_repeated_events_total', '').value, 4)
})

t.test('a large object in parts: an attempt that fails repeats one request, a kill the whole object', async t => {
  const { server, start, to, spool } = await started(t, { encoding: 'raw', object: { max_bytes: '30MB' } })
  const run = await start()
  const large = (n: number) =>
    JSON.stringify({ n, app: 'cart', timestamp: '2026-02-01T00:00:00Z', x: 'x'.repeat(900_000) })
  const lines = Array.from({ length: 20 }, (_, n) => large(n))
  for (const one of lines) await run.put([one])
  to.script.push(server.answer, server.answer, 503, server.answer, { reset: 'after_body' })
  run.delivery.end()
  await until(() => run.counters.passed.events === 20)
  const [[key, contents]] = [...server.objects] as [[string, string[]]]
  t.ok(key.endsWith('.log'))
  t.equal(contents!.length, 1)
  t.ok(contents![0] === lines.map(one => `${one}\n`).join(''))
  t.same(
    to.requests.map(({ path, method }) => `${method} ${new URL(path, 'http://s3').search}`),
    [
      'POST ?uploads=',
      'PUT ?partNumber=1&uploadId=upload-1',
      'PUT ?partNumber=2&uploadId=upload-1',
      'PUT ?partNumber=2&uploadId=upload-1',
      'PUT ?partNumber=3&uploadId=upload-1',
      'PUT ?partNumber=3&uploadId=upload-1',
      'POST ?uploadId=upload-1',
    ],
  )
  await until('the file is removed', () => !readdirSync(spool).some(name => /(object|closed)$/.test(name)))
})

t.test('an upload that was aborted elsewhere, and an error behind the status 200', async t => {
  const { server, start, to } = await started(t, { encoding: 'raw' })
  const run = await start()
  await run.put([JSON.stringify({ app: 'cart', x: 'x'.repeat(9e6) })])
  to.script.push(
    server.answer,
    received => {
      server.uploads.clear()
      return server.answer(received)
    },
    // The object is not stored, the rest of the upload is aborted, and another one begins.
    ...Array.from({ length: 5 }, () => server.answer),
    { body: refusal(200, 'InternalError').body! },
  )
  await run.end()
  t.equal(server.objects.size, 1)
  t.equal([...server.objects.values()][0]!.length, 1)
  t.same(
    run.logs.flatMap(({ reason }) => reason ?? []),
    ['no_such_upload', 'internal_error'],
  )
})

t.test('an upload whose completion is answered too late is delivered once', async t => {
  const { server, start, to } = await started(t, { encoding: 'raw' })
  const run = await start()
  await run.put([JSON.stringify({ app: 'cart', x: 'x'.repeat(9e6) })])
  const late = (received: Received) => ({ ...server.answer(received), reset: 'after_body' as const })
  to.script.push(server.answer, server.answer, server.answer, late, server.answer, 503)
  await run.end()
  t.same(
    [...server.objects.values()].map(contents => contents.length),
    [1],
  )
  t.equal(run.counters.passed.events, 1)
  t.same(
    to.requests.slice(3).map(({ method }) => method),
    ['POST', 'POST', 'HEAD', 'POST', 'HEAD'],
  )
})

t.test('an upload that a kill has left behind is aborted', async t => {
  const { server, start, to } = await started(t, { encoding: 'raw' })
  const run = await start()
  await run.put([JSON.stringify({ app: 'cart', x: 'x'.repeat(9e6) })])
  to.script.push(server.answer, { hang: 'after_body' })
  run.delivery.end()
  await until(() => to.requests.length === 2)
  await run.delivery.stop(AbortSignal.abort())
  t.equal(server.uploads.size, 1)
  const next = await start()
  await next.end()
  t.equal(server.uploads.size, 0)
  t.equal(server.objects.size, 1)
})

t.test('a list of uploads that has only beginnings is read once', async t => {
  const ms: number[] = []
  for (const word of ['<upload>', '<Upload>']) {
    const { start, to } = await started(t, { encoding: 'raw' })
    const run = await start()
    await run.put([JSON.stringify({ app: 'cart', x: 'x'.repeat(9e6) })])
    to.script.push({ hang: 'after_body' })
    run.delivery.end()
    await until(() => to.requests.length === 1)
    await run.delivery.stop(AbortSignal.abort())
    const next = await start()
    let [from, began] = [0, 0]
    to.script.push(() => {
      const { user } = process.cpuUsage()
      ;[from, began] = [user, to.requests.length]
      return { body: word.repeat(8192) }
    })
    next.delivery.end()
    await until(() => to.requests.length > began && began > 0)
    ms.push((process.cpuUsage().user - from) / 1000)
    await next.end()
  }
  t.ok(ms[1]! < ms[0]! + 250, `${ms}`)
})

const REFUSALS: readonly (readonly [status: number, code: string, advice: RegExp, state?: string])[] = [
  [404, 'NoSuchBucket', /create the bucket/],
  [403, 'AccessDenied', /s3:PutObject/],
  [403, 'SignatureDoesNotMatch', /does not belong to the access key ID/],
  [403, 'InvalidAccessKeyId', /does not know the access key ID/],
  [400, 'ExpiredToken', /have expired/],
  [403, 'RequestTimeTooSkewed', /synchronize it/, 'failing'],
  [301, 'PermanentRedirect', /correct "region" and "endpoint"/],
  [400, 'AuthorizationHeaderMalformed', /another region.*names the region eu-west-1/],
  [503, 'SlowDown', /fewer or larger objects/, 'failing'],
  [400, 'EntityTooLarge', /object\.max_bytes/],
  [400, 'InvalidStorageClass', /storage_class/],
  [400, 'InvalidBucketName', /correct "bucket"/],
  [507, 'XMinioStorageFull', /disks of the receiver are full/, 'failing'],
  [400, 'SomethingNew', /SomethingNew: SomethingNew/],
]
t.test('refusals: each says what to do, events go on into the spool, and all is sent when it is mended', async t => {
  const refused = async ([status, code, advice, state = 'holding']: (typeof REFUSALS)[number]) => {
    const { server, start, to } = await started(t, { object: { max_bytes: 1 } })
    const run = await start()
    to.otherwise = refusal(status, code, code, '<Region>eu-west-1</Region>')
    await run.put([line(0)])
    await until(code, () => run.delivery.state === state)
    t.match(run.delivery.reason, advice, code)
    await run.put([line(1)])
    t.same(run.settled, ['delivered', 'delivered'], code)
    t.same(counted(run), { events: 0, bytes: 0 }, code)
    to.otherwise = server.answer
    run.destination.changed = async () => true
    await until(code, () => run.counters.passed.events === 2)
    t.equal(server.objects.size, 2, code)
    t.notMatch(JSON.stringify(run.logs), SECRET)
    await run.end()
  }
  await Promise.all(REFUSALS.map(refused))
})

t.test('encryption by KMS: signed, for whole objects and uploads of parts; a wrong key pauses', async t => {
  const [right, wrong] = ['a', 'b'].map(id => `arn:aws:kms:eu-west-1:1:key/${id}`) as [string, string]
  const { server, start, to } = await started(t, {
    encoding: 'raw',
    sse: { type: 'aws:kms', kms_key_id: right, bucket_key: true },
  })
  server.kmsKeys = new Set([wrong])
  const run = await start()
  await run.put([line(0)])
  await run.put([JSON.stringify({ app: 'large', x: 'x'.repeat(9e6) })])
  run.delivery.end()
  await until(() => run.delivery.state === 'holding')
  t.match(run.delivery.reason, /400 .*KMS.NotFoundException: Key '.*key\/a' does not exist; .*kms:GenerateDataKey/)
  t.same([...run.counters.failures.keys()], ['kms'])
  server.kmsKeys = new Set([right])
  run.destination.changed = async () => true
  await until(() => run.counters.passed.events === 2)
  t.equal(server.objects.size, 2)
  const begun = to.requests.filter(({ headers }) => headers['x-amz-server-side-encryption'])
  t.same(new Set(begun.map(({ method }) => method)), new Set(['PUT', 'POST']))
  for (const { method, path, headers, body } of begun) {
    t.match(headers, {
      'x-amz-server-side-encryption': 'aws:kms',
      'x-amz-server-side-encryption-aws-kms-key-id': right,
      'x-amz-server-side-encryption-bucket-key-enabled': 'true',
    })
    t.equal(headers.authorization, signatureOf(method, path, headers, body), 'what came is what was signed')
  }
})

/** The signature of a request as it came. */
function signatureOf(method: string, path: string, headers: Received['headers'], body: string): string {
  const names = /SignedHeaders=([^,]*)/.exec(headers.authorization!)![1]!.split(';')
  const added = new Set(['host', 'x-amz-date', 'x-amz-content-sha256'])
  const signed = names.filter(name => !added.has(name)).map(name => [name, String(headers[name])])
  const url = new URL(path, 'http://s3')
  const time = String(headers['x-amz-date']).replace(/^(....)(..)(..T..)(..)/, '$1-$2-$3:$4:')
  const request = {
    method,
    host: headers.host!,
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: Object.fromEntries(signed) as Record<string, string>,
    body: [Buffer.from(body)],
  }
  const keys = { accessKeyId: 'AKID', secretAccessKey: SECRET }
  return sign(request, keys, { region: 'us-east-1', service: 's3' }, Date.parse(time)).authorization!
}

t.test('a code that only the receiver knows is in no label of a metric, and a text of it is short', async t => {
  const { start, to } = await started(t, { object: { max_bytes: 1 } })
  const run = await start()
  let count = 0
  const long = 'x'.repeat(10_000)
  to.otherwise = () => refusal(503, `Code${count++}`, 'a &#34;b&#34; &amp;', `<Region>${long}</Region>${long}`)
  await run.put([line(0)])
  await until(() => count > 3)
  t.same([...run.counters.failures.keys()], ['status_503'])
  t.match(run.delivery.reason, /503 from PUT http:.*\/logs\/2026\/02\/01\/cart\/[^ ]*: Code\d+: a "b" &/)
  let signature = ''
  to.otherwise = ({ headers }) => {
    signature = headers.authorization!.slice(-64)
    return refusal(404, 'Unheard', `${headers.authorization} ${SECRET} ${long}`)
  }
  await until(() => run.delivery.state === 'holding')
  t.notMatch(run.delivery.reason, /correct "bucket"/, 'an answer with a code is one of S3')
  t.ok(run.delivery.reason!.length < 1000)
  t.match(run.delivery.reason, /AKID.*hidden/)
  t.notMatch(JSON.stringify(run.logs), new RegExp(`${signature}|${SECRET}`))
})

t.test('while the bucket refuses objects and the spool is full, both are shown', async t => {
  const { start, to } = await started(t, { object: { max_bytes: 1 }, spool: { max_bytes: 1_000_000 } })
  to.otherwise = refusal(403, 'AccessDenied')
  const run = await start()
  const large = JSON.stringify({ app: 'cart', x: 'x'.repeat(900_000) })
  await run.put([large])
  void run.put([large])
  await until(() => /s3:PutObject.*the spool has/.test(run.delivery.reason ?? ''))
  t.equal(run.delivery.state, 'holding')
})

t.test('a write has all events of a second, also of many values', async t => {
  const { start } = await started(t, { key: '${.app}/', object: { max_bytes: '1MB' } })
  const run = await start()
  const apps = Array.from({ length: 250 }, (_, n) => `app-${n}`)
  await run.put([...apps, ...apps].map((app, n) => line(n, app)))
  t.equal(run.delivery.spooled!.open, 250)
  const { counts } = run.counters.histograms.get('sluice_delivery_attempt_seconds')!
  t.equal(
    counts.reduce((sum, count) => sum + count, 0),
    250,
    'a write for each',
  )
})

t.test('what is being written to the spool when the time is over counts once', async t => {
  const { start } = await started(t, { key: '${.app}/' })
  const run = await start()
  void run.put(Array.from({ length: 250 }, (_, n) => line(n, `app-${n}`)))
  while (run.delivery.spooled!.open < 20) await new Promise(setImmediate)
  await run.delivery.stop(AbortSignal.abort())
  t.same(counted(run), { events: 0, bytes: 0 })
})

t.test('the compressed pieces of an object can be read as one', async t => {
  const { server, start } = await started(t, { compression: 'gzip' })
  const run = await start()
  await run.put([line(0)])
  await run.put([line(1)])
  await run.end()
  const [[key, [content]]] = [...server.objects] as [[string, string[]]]
  t.match(key, /\.ndjson\.gz$/)
  t.equal(content, `${line(0)}\n${line(1)}\n`)
})

t.test('requests without an answer are counted by their reason', async t => {
  const { start, to } = await started(t)
  const run = await start()
  await run.put([line(0)])
  to.script.push({ reset: 'after_body' })
  await run.end()
  const requests = (status: string) => run.counters.counter('sluice_http_requests_total', '', { status }).value
  t.same([requests('reset'), requests('200')], [1, 1])
})

t.test('an answer without a tag comes from somebody else', async t => {
  const { server, start, to } = await started(t)
  const run = await start()
  await run.put([line(0)])
  to.script.push(200)
  await run.end()
  t.equal(server.objects.size, 1)
  t.match(
    run.logs.map(({ error }) => error),
    [/502 from PUT .*does not contain an ETag/],
  )
})

t.test('check writes nothing, and says what is wrong', async t => {
  const { server, to, options } = await started(t, { key: '${.app}/' })
  const check = async () => {
    const parsed = s3.options.parse(options)
    const { check } = await s3.inspects!()
    return await check!(parsed, (await make(options, s3, undefined, undefined, testFolder(t))).context, never)
  }
  t.equal(await check(), 'may write objects')
  t.match(to.requests[0]!.path, /\/none\/sluice-check\?uploads=$/)
  t.equal(server.objects.size, 0)
  t.equal(server.uploads.size, 0)
  to.otherwise = refusal(403, 'AccessDenied')
  await t.rejects(check(), /403 from POST .*AccessDenied.*s3:PutObject/)
})

t.test('options', async t => {
  const problem = (own: object) => s3.options.safeParse({ bucket: 'logs', ...own }).error?.issues[0]?.message
  t.equal(problem({}), undefined)
  t.match(problem({ key: '%Y/%j/' }), /does not begin %Y/)
  t.equal(problem({ key: 'date=%F/' }), undefined)
  t.match(problem({ key: '/logs/' }), /must not begin with/)
  t.match(problem({ key: 'a/../b' }), /step/)
  t.match(problem({ key: 'a\n/' }), /control characters/)
  t.match(problem({ key: `${'%Y/'.repeat(225)}` }), /longer than 900 bytes/)
  t.equal(problem({ key: `${'%m/'.repeat(225)}` }), undefined)
  t.match(problem({ key: `${'x'.repeat(256)}/` }), /a step that is longer than 255 bytes/)
  t.match(problem({ key: `${'x'.repeat(255)}/${'x'.repeat(192)}` }), /a step that is longer than 191 bytes/)
  t.match(problem({ sse: { type: 'AES256', kms_key_id: 'k' } }), /need type: aws:kms/)
  t.match(problem({ bucket: 'Logs' }), /name of a bucket/)
  const url = (own: object, region = 'eu-central-1') => bucketUrl(s3.options.parse({ bucket: 'logs', ...own }), region)
  t.equal(url({}), 'https://logs.s3.eu-central-1.amazonaws.com')
  t.equal(url({ bucket: 'my.logs' }), 'https://s3.eu-central-1.amazonaws.com/my.logs')
  t.equal(url({}, 'cn-north-1'), 'https://logs.s3.cn-north-1.amazonaws.com.cn')
  t.equal(url({ endpoint: 'http://127.0.0.1:9000/' }), 'http://127.0.0.1:9000/logs')
  const { AWS_REGION = '' } = process.env
  process.env.AWS_REGION = ''
  t.equal(regionOf(s3.options.parse({ bucket: 'logs' }), { reach: undefined }), 'us-east-1', 'a variable may be empty')
  process.env.AWS_REGION = AWS_REGION
  t.equal(url({ endpoint: 'http://s3.test:9000', path_style: false }), 'http://logs.s3.test:9000')
})

t.test('an event whose name cannot be made, or that other servers would refuse, is rejected', async t => {
  const { start, server } = await started(t, { key: '%Y/${.team}' })
  const run = await start()
  for (const own of [{}, { team: 'x'.repeat(200) }, { team: 'é'.repeat(40) }])
    await run.put([JSON.stringify({ timestamp: '2026-02-01T00:00:00Z', ...own })])
  t.same(run.settled, ['rejected', 'rejected', 'rejected'])
  t.equal(run.counters.discards.get('partition')?.events, 3)
  t.match(run.logs, [{ error: /is missing/ }])
  await run.put([JSON.stringify({ team: 'é'.repeat(30) })])
  await run.end()
  const [key = ''] = [...server.objects.keys()]
  t.ok(key.split('/').every(step => step.length <= 255))
  const folders = await started(t, { key: '${.team}/' }).then(({ start }) => start())
  await folders.put([JSON.stringify({ team: 'x'.repeat(255) })])
  await folders.put([JSON.stringify({ team: 'x'.repeat(256) })])
  await folders.put([JSON.stringify({ team: '..' })])
  t.same(folders.settled, ['delivered', 'rejected', 'rejected'])
  await folders.end()
})
