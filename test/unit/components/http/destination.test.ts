import { execFileSync } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { ClientRequest } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { inspect } from 'node:util'
import zlib from 'node:zlib'
import t, { type Test } from 'tap'
import { httpDestination } from '../../../../src/components/http/destination.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import { Ack } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { CHUNK_BYTES } from '../../../../src/lib/lines/chunk-memory.js'
import { freeChunk, takeChunk } from '../../../../src/lib/lines/chunk-pool.js'
import { systemClock } from '../../../../src/lib/time.js'
import { HOST, listening } from '../../../support/address.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import {
  attempts,
  deliver,
  events,
  failure,
  json,
  KEY,
  make,
  never,
  ns,
  receiver,
  started,
  upTo,
} from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import { parsedLines } from '../../../support/parsed-lines.js'
import type { Step } from '../../../support/receiver.js'
import { turns, until } from '../../../support/until.js'

t.test('a request says what it should', async t => {
  const to = await receiver(t)
  to.script.push(503)
  const { destination } = await started(t, {
    url: to.url('/v3/ingest/abc?a=1'),
    auth: { key: `${KEY}\n` },
    delegate_account_id: '0123456789abcdef01234567',
    headers: { 'X-Team': 'platform', 'User-Agent': 'mine' },
  })
  const request = batchesOf('{"a":1}\nno json\n{"b":[2]}\r\n', json)
  const attempt = attempts({ destination }, request)
  t.equal((await failure(attempt())).status, 503)
  await attempt()
  await destination.write(events(1), never)
  const [first, again, other] = to.requests
  t.match(first, { method: 'POST', path: '/v3/ingest/abc?a=1' })
  t.match(first!.headers, {
    authorization: `Token ${KEY}`,
    'x-delegate-account-id': '0123456789abcdef01234567',
    'content-type': 'application/x-ndjson',
    'content-encoding': undefined,
    'content-length': String(Buffer.byteLength(first!.body)),
    accept: 'application/json',
    'accept-encoding': 'identity',
    'user-agent': 'mine',
    'x-team': 'platform',
    'idempotency-key': /^[0-9a-f-]{36}$/,
  })
  const lines = first!.body.split('\n')
  t.same([lines[0], lines[2], lines[3]], ['{"a":1}', '{"b":[2]}', ''])
  t.match(JSON.parse(lines[1]!), { message: 'no json', file: '/var/log/app.log' })
  const id = 'idempotency-key'
  t.equal(again!.headers[id], first!.headers[id], 'the same for the same request')
  t.not(other!.headers[id], first!.headers[id])
  const alone = events(1)
  to.script.push({ status: 200, body: '{"errors":[' })
  const write = attempts({ destination }, alone)
  t.match(await failure(write()), { reason: 'answer_too_large' })
  await write()
  const [unread, resent] = to.requests.slice(-2)
  t.equal(resent!.headers[id], unread!.headers[id], 'the same after an answer that cannot be read')
  t.equal(to.connections, 1, 'kept alive')

  const raw = await started(t, {
    url: to.url(),
    method: 'PUT',
    encoding: 'raw',
    auth: { key: KEY, scheme: '', header: 'X-Api-Key' },
  })
  await raw.destination.write(batchesOf(Buffer.from('a\r\n\xff\0\nlast', 'latin1'), originOf('text')), never)
  const last = to.requests.at(-1)!
  t.match(last, { method: 'PUT', body: 'a\r\n\ufffd\0\nlast' })
  t.match(last.headers, { 'x-api-key': KEY, authorization: undefined, 'content-type': /^text\/plain/ })
  t.match(last.headers['user-agent'], /^sluice\/\d+\.\d+\.\d+/)
  t.equal(last.headers['x-delegate-account-id'], undefined)
})

t.test('compression', async t => {
  const to = await receiver(t)
  const kinds = 'zstdCompress' in zlib ? ['gzip', 'zstd'] : ['gzip']
  for (const compression of kinds) {
    const { destination } = await started(t, { url: to.url(), compression })
    await destination.write(events(500), never)
    const { headers, body } = to.requests.at(-1)!
    t.equal(headers['content-encoding'], compression)
    t.ok(Number(headers['content-length']) < body.length / 2)
    t.same(ns(body.trimEnd().split('\n')), upTo(500))
  }
  const { success, error } = httpDestination.options.safeParse({ url: 'http://a', compression: 'zstd' })
  t.equal(success, 'zstdCompress' in zlib)
  if (error) t.match(error.issues[0]!.message, /no zstd; take gzip/)
})

t.test('what an answer means', async t => {
  const to = await receiver(t)
  const { destination, counters } = await started(t, { url: to.url('/x?token=abc'), auth: { key: KEY } })
  const later = new Date(systemClock.wall() + 90_000).toUTCString()
  const table: [Step, Partial<DeliveryError> | undefined][] = [
    [200, undefined],
    [202, undefined],
    [204, undefined],
    [{ status: 200, body: 'x'.repeat(300_000) }, undefined],
    [{ status: 200, reset: 'in_answer' }, undefined],
    [301, { failure: 'hold' }],
    [400, { failure: 'reject' }],
    [401, { failure: 'hold' }],
    [403, { failure: 'hold' }],
    [404, { failure: 'reject' }],
    [408, { failure: 'retry' }],
    [413, { failure: 'too_large' }],
    [422, { failure: 'reject' }],
    [425, { failure: 'retry' }],
    [
      { status: 429, headers: { 'retry-after': '7' } },
      { failure: 'retry', retryAfterMs: 7000 },
    ],
    [
      { status: 429, headers: { 'retry-after': 'soon' } },
      { failure: 'retry', retryAfterMs: undefined },
    ],
    [
      { status: 429, headers: { 'retry-after': '-3' } },
      { failure: 'retry', retryAfterMs: undefined },
    ],
    [500, { failure: 'retry' }],
    [{ status: 503, headers: { 'retry-after': 'Tue, 14 Nov 2023 22:13:20 GMT' } }, { retryAfterMs: 0 }],
    [599, { failure: 'retry' }],
  ]
  for (const [step, wanted] of table) {
    to.script.push(step)
    const status = typeof step === 'number' ? step : (step as { status: number }).status
    if (!wanted) {
      await destination.write(events(1), never)
      t.pass(`${status} is delivered`)
      continue
    }
    const error = await failure(destination.write(events(1), never))
    const requestId = `request-${to.requests.length}`
    const { failure: what, reason, retryAfterMs } = error
    t.match(
      { failure: what, reason, status: error.status, requestId: error.requestId, retryAfterMs },
      {
        reason: `status_${status}`,
        status,
        requestId,
        ...wanted,
      },
    )
    t.match(error.message, `${status} from POST ${to.url('/x')}`, 'without the query')
    t.notMatch(error.message, /abc/)
  }
  to.script.push({ status: 503, headers: { 'retry-after': later } })
  const { retryAfterMs } = await failure(destination.write(events(1), never))
  t.ok(retryAfterMs! > 85_000 && retryAfterMs! <= 91_000, 'a date')
  to.script.push({ status: 400, body: `{"message":\n"bad\u0000 thing"}${'y'.repeat(10_000)}` })
  const { message } = await failure(destination.write(events(1), never))
  t.match(message, '{"message": "bad thing"}yyy', 'what the receiver says, on one line')
  t.ok(message.length < 500)
  to.script.push({ status: 302, headers: { location: 'https://u:p@login.example.com/in?secret=1' } })
  const redirect = await failure(destination.write(events(1), never))
  t.match(redirect.message, 'it redirects to https://login.example.com/in; redirects are not followed')
  to.script.push(401)
  const { message: refused } = await failure(destination.write(events(1), never))
  t.match(refused, 'the access key was refused: put another in the configuration')
  const { requests } = to
  t.equal(requests.length, table.length + 4)
  const count = (status: string) => counters.counter('sluice_http_requests_total', '', { status }).value
  t.same([count('200'), count('429'), count('401'), count('503')], [3, 3, 2, 2])
})

t.test('when there is no answer', async t => {
  const to = await receiver(t)
  const { destination, counters } = await started(t, { url: to.url() })
  for (const step of [{ reset: 'before_body' }, { reset: 'after_body' }] as const) {
    to.script.push(step)
    const error = await failure(destination.write(events(3), never))
    t.match(error, { failure: 'retry', reason: 'reset', status: undefined })
    t.match(error.message, 'the connection was closed before the answer')
    await destination.write(events(1), never)
  }
  t.equal(counters.counter('sluice_http_requests_total', '', { status: 'reset' }).value, 2)
  for (const step of [{ hang: 'before_body' }, { hang: 'after_body' }] as const) {
    to.script.push(step)
    const reason = new DeliveryError('no answer within 20ms', { failure: 'retry', reason: 'timeout' })
    const controller = new AbortController()
    const attempt = failure(destination.write(events(1), controller.signal))
    const before = to.requests.length
    await until(() => to.requests.length > before)
    controller.abort(reason)
    t.equal(await attempt, reason, 'at once')
  }
  t.equal(counters.counter('sluice_http_requests_total', '', { status: 'timeout' }).value, 2)
  await destination.write(events(1), never)

  const big = batchesOf(`{"x":"${'y'.repeat(900_000)}"}\n`, json)
  to.script.push({ status: 413, early: true })
  t.match(await failure(destination.write(big, never)), { failure: 'too_large' }, 'an answer before the body was sent')

  await to.close()
  // Its end of the connection may not have been seen here at the first attempt.
  await until(async () => {
    const { failure: kind, reason } = await failure(destination.write(events(1), never))
    return kind === 'retry' && reason === 'refused'
  })

  // Connecting hangs in the handshake: giving up must not wait for it, and it has a limit of its own.
  const deaf = createServer(socket => void socket.resume().on('error', () => {}))
  const url = `https://${HOST}:${await listening(t, deaf)}`
  const silent = await started(t, { url })
  const controller = new AbortController()
  const attempt = silent.destination.write(events(1), controller.signal).catch(error => error as Error)
  const open = () => new Promise<number>(resolve => deaf.getConnections((_, count) => resolve(count)))
  await until(async () => (await open()) > 0)
  controller.abort(new Error('enough'))
  t.match(await attempt, { message: 'enough' })
  await silent.destination.stop!(never)
  // What is being connected is closed too.
  await until(async () => (await open()) === 0)
  const limited = await started(t, { url, connect_timeout: '30ms' })
  t.match(await failure(limited.destination.write(events(1), never)), { failure: 'retry', reason: 'connect_timeout' })
})

/** A server that gives each connection `answer` as soon as a request begins on it, and reads no further. */
async function answersEarly(t: Test, answer: string): Promise<{ url: string; accepted: Socket[] }> {
  const accepted: Socket[] = []
  const server = createServer(socket => {
    accepted.push(socket.on('error', () => {}))
    socket.once('data', () => socket.pause().write(answer))
  })
  t.teardown(() => {
    for (const socket of accepted) socket.destroy()
  })
  return { url: `http://${HOST}:${await listening(t, server)}`, accepted }
}

t.test('a request that was refused before it was sent is not sent any further', async t => {
  const { url } = await answersEarly(t, 'HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno')
  const closed: Promise<unknown>[] = []
  const note = (message: unknown) => void closed.push(once((message as { socket: Socket }).socket, 'close'))
  subscribe('net.client.socket', note)
  t.teardown(() => unsubscribe('net.client.socket', note))
  const { destination } = await started(t, { url })
  const large = batchesOf(`{"x":"${'y'.repeat(32_000_000)}"}\n`, json)
  t.match(await failure(destination.write(large, never)), { status: 503 })
  t.equal(closed.length, 1)
  await Promise.all(closed)
})

t.test('a chunk is not reused while a refused request is still being sent from it', async t => {
  const { url } = await answersEarly(t, 'HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\nno')
  const closed: Promise<unknown>[] = []
  const note = (message: unknown) => void closed.push(once((message as { socket: Socket }).socket, 'close'))
  subscribe('net.client.socket', note)
  t.teardown(() => unsubscribe('net.client.socket', note))
  const { destination } = await started(t, { url, encoding: 'raw' })
  const chunk = takeChunk(CHUNK_BYTES).fill('x')
  const frame = { chunk, length: 1, starts: Int32Array.of(0), ends: Int32Array.of(chunk.length), bytes: chunk.length }
  const part = new EventBatch({ ...frame, flags: Uint8Array.of(0) }, originOf('text'), 0, new Ack(() => {}))
  const request = Array.from({ length: 100 }, () => part)
  const rejected = failure(destination.write(request, never))
  t.match(await rejected, { status: 400 })
  freeChunk(chunk)
  const other = takeChunk(CHUNK_BYTES)
  t.ok(other !== chunk)
  await Promise.all(closed)
  t.ok(takeChunk(CHUNK_BYTES) === chunk)
})

t.test('a request that was accepted before it was sent is sent before another one', async t => {
  const { url, accepted } = await answersEarly(t, 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  const { destination, counters } = await started(t, { url })
  const text = `{"x":"${'y'.repeat(32_000_000)}"}\n`
  let isOver = false
  const writing = destination.write(batchesOf(text, json), never).then(() => {
    isOver = true
  })
  await until(() => counters.counter('sluice_http_requests_total', '', { status: '200' }).value === 1)
  await turns()
  t.notOk(isOver)
  accepted[0]!.resume()
  await writing
  t.ok(accepted[0]!.bytesRead > text.length / 2, `${accepted[0]!.bytesRead} bytes were read`)
})

t.test('validation at the start', async t => {
  const to = await receiver(t, { authorization: `Token ${KEY}` })
  const headers = {
    'x-auth-subject-id': '0123456789abcdef01234567',
    'x-auth-account-id': '76543210fedcba9876543210',
    'x-auth-account-short-id': 'abc123xyz',
    'x-auth-access-type': 'access',
  }
  const options = { url: to.url(), validate: to.url('/v3/pipeline?x=1'), delegate_account_id: '0'.repeat(24) }
  to.script.push({ headers })
  const good = await started(t, { ...options, auth: { key: KEY } })
  t.match(to.requests, [
    { method: 'HEAD', path: '/v3/pipeline?x=1', headers: { 'x-delegate-account-id': '0'.repeat(24) } },
  ])
  t.match(good.logs, [
    {
      level: 30,
      url: to.url('/v3/pipeline'),
      request_id: 'request-1',
      subject: headers['x-auth-subject-id'],
      account: headers['x-auth-account-id'],
      account_short_id: 'abc123xyz',
      access_type: 'access',
    },
  ])
  const table: [Step, RegExp, Partial<DeliveryError>][] = [
    [403, /lacks a permission/, { failure: 'hold', status: 403 }],
    [404, /nothing at this address; "validate" must be an address that answers HEAD with 200/, { failure: 'hold' }],
    [405, /"validate" must be/, { failure: 'hold', status: 405 }],
    [307, /redirects to elsewhere/, { failure: 'hold' }],
    [{ status: 503, headers: { 'retry-after': '3' } }, /503/, { failure: 'retry', retryAfterMs: 3000 }],
    [{ reset: 'after_body' }, /closed before/, { failure: 'retry', reason: 'reset' }],
  ]
  for (const [step, text, wanted] of table) {
    to.script.push(step)
    const error = await failure(good.destination.start!(never))
    t.match(error, wanted)
    t.match(error.message, text)
  }
  const bad = await make({ ...options, auth: { key: 'wrong-key-9876' } })
  t.teardown(() => bad.destination.stop!(never))
  const refused = await failure(bad.destination.start!(never))
  t.match(refused, { failure: 'hold', status: 401, requestId: 'request-8' })
  const open = await make({ ...options, auth: { type: 'none' } })
  t.teardown(() => open.destination.stop!(never))
  t.match((await failure(open.destination.start!(never))).message, 'it wants an access key: set "auth"')
})

t.test('the key and where it comes from', async t => {
  const to = await receiver(t)
  const dir = testFolder(t)
  const path = join(dir, 'access-key')
  const { destination, logs } = await make({ url: to.url(), auth: { key_file: path } })
  t.teardown(() => destination.stop!(never))
  const start = () => failure(destination.start!(never))
  const unusable: [string | undefined, RegExp][] = [
    [undefined, /no access key from .*access-key: the file does not exist; put the key there/],
    ['', /the key is empty/],
    ['\n', /the key is empty/],
    [`${KEY}\nsecond`, /more than one line/],
    [`${KEY} x`, /character that cannot be in a header/],
    [`${KEY}\u00e4`, /character that cannot be in a header/],
    [KEY.repeat(1000), /too long/],
  ]
  for (const [content, text] of unusable) {
    if (content !== undefined) writeFileSync(path, content)
    const error = await start()
    t.match(error, { failure: 'hold', reason: 'no_key' })
    t.match(error.message, text)
    t.notOk(await destination.changed!(), 'not usable yet')
  }
  chmodSync(path, 0)
  const isRoot = process.geteuid!() === 0
  if (isRoot) process.seteuid!(65_534)
  const denied = await start()
  if (isRoot) process.seteuid!(0)
  t.match(denied, { message: /this user may not read it; `sluice doctor` shows how to allow it/ })
  rmSync(path)
  execFileSync('mkfifo', [path])
  t.match(await start(), { message: /not a file/ }, 'a FIFO is not waited for')
  rmSync(path)
  writeFileSync(path, `${KEY}\r\n`, { mode: 0o600 })
  t.ok(await destination.changed!())
  t.notOk(await destination.changed!(), 'known by now')
  chmodSync(path, 0o644)
  await destination.start!(never)
  await destination.write(events(1), never)
  const warned = logs.filter(({ level }) => level === 40)
  t.match(warned, [{ level: 40, msg: 'the access key file is readable by everyone; run chmod 600 on it' }], 'once')
  t.notOk(await destination.changed!())
  const used = () => to.requests.at(-1)!.headers.authorization
  t.equal(used(), `Token ${KEY}`)

  chmodSync(path, 0o600)
  writeFileSync(path, 'second-key')
  await destination.write(events(1), never)
  t.equal(used(), 'Token second-key', 'used from the next request on')
  t.notOk(await destination.changed!())
  rmSync(path)
  await destination.write(events(1), never)
  await destination.write(events(1), never)
  t.equal(used(), 'Token second-key', 'a missing file does not stop what works')
  const warnings = logs.filter(({ level }) => level === 40).map(({ msg }) => msg)
  t.same(warnings.slice(1), ['cannot read the access key again; keeping the current one'])

  const credential = await make({ url: to.url(), auth: { credential: 'access-key' } })
  t.teardown(() => credential.destination.stop!(never))
  t.teardown(() => delete process.env.CREDENTIALS_DIRECTORY)
  delete process.env.CREDENTIALS_DIRECTORY
  t.match(await failure(credential.destination.start!(never)), {
    failure: 'hold',
    message: /LoadCredential=access-key:PATH/,
  })
  process.env.CREDENTIALS_DIRECTORY = dir
  writeFileSync(path, '')
  t.match((await failure(credential.destination.start!(never))).message, /put the key into the file of LoadCredential=/)
  writeFileSync(path, 'third-key\n')
  await credential.destination.start!(never)
  await credential.destination.write(events(1), never)
  t.equal(used(), 'Token third-key')
})

t.test('a user and a password', async t => {
  const to = await receiver(t)
  const path = join(testFolder(t), 'password')
  const header = 'X-Authorization'
  const made = await make({ url: to.url(), auth: { type: 'basic', username: 'Jürgen', password_file: path, header } })
  const { destination } = made
  t.teardown(() => destination.stop!(never))
  const unusable: [string | undefined, RegExp][] = [
    [undefined, /^no password from .*password: the file does not exist; put the password there$/],
    ['\n', /the password is empty/],
    ['a\nb', /the password has more than one line/],
    ['a\tb', /the password has a control character/],
  ]
  for (const [content, text] of unusable) {
    if (content !== undefined) writeFileSync(path, content)
    t.match(await failure(destination.start!(never)), { failure: 'hold', reason: 'no_key', message: text })
  }
  writeFileSync(path, 'à: b\n', { mode: 0o600 })
  await destination.start!(never)
  await destination.write(events(1), never)
  const [, encoded] = /^Basic (\S+)$/.exec(String(to.requests[0]!.headers['x-authorization']))!
  t.equal(Buffer.from(encoded!, 'base64').toString(), 'Jürgen:à: b')
  for (const [status, text] of [
    [401, /the user or the password was refused: put another in .*password, which is read again automatically/],
    [403, /the user lacks a permission/],
  ] as const) {
    to.script.push(status)
    t.match(await failure(destination.write(events(1), never)), { failure: 'hold', message: text })
  }
})

t.test('a program that prints the key', async t => {
  const to = await receiver(t, { authorization: 'Bearer first-key' })
  const folder = testFolder(t, { key: 'first-key' })
  const auth = { type: 'bearer', exec: ['cat', join(folder, 'key')] }
  const made = await make({ url: to.url(), auth })
  const { delivery, put, end, settled } = deliver(folder, made, { batch: { max_events: 10 } })
  await delivery.start()
  put(10, 0)
  await until(() => settled.length === 1)
  to.authorization = 'Bearer second-key'
  writeFileSync(join(folder, 'key'), 'second-key\n')
  put(10, 10)
  await until(() => settled.length === 2)
  t.same(await end(), { events: 0, bytes: 0 })
  t.same(ns(to.lines()), upTo(20))
  t.match(made.logs, [{ reason: 'status_401', error: /put another where cat gets it; cat is run again automatically/ }])
  t.notMatch(JSON.stringify(made.logs), /-key/)

  const unusable: [exec: string[], text: RegExp][] = [
    [['/nowhere', KEY], /^no access key from \/nowhere: it cannot be run \(ENOENT\)$/],
    [['sh', '-c', 'echo $0; echo $0 >&2; exit 3', KEY], /^no access key from sh: it ended with exit code 3$/],
    [['sh', '-c', 'kill -9 $$', KEY], /: it ended with SIGKILL$/],
    [['yes', KEY], /: it printed more than 16384 bytes$/],
    [['true', KEY], /: the key is empty$/],
    [['printf', `${KEY}\\n${KEY}`], /: the key has more than one line$/],
  ]
  for (const [exec, text] of unusable) {
    const { destination } = await make({ url: to.url(), auth: { exec } })
    const error = await failure(destination.start!(never))
    t.match(error, { failure: 'hold', reason: 'no_key', message: text })
    t.notMatch(inspect(error, { depth: 9 }), KEY)
    await destination.stop!(never)
  }
})

t.test('a program that takes long keeps neither a timeout nor a stop waiting, and runs once at a time', async t => {
  const to = await receiver(t)
  const folder = testFolder(t)
  const script = 'echo >> "$0"; while [ ! -e "$0.go" ]; do sleep 0.05; done; echo key'
  const path = join(folder, 'runs')
  const made = await make({ url: to.url(), auth: { exec: ['sh', '-c', script, path] } })
  t.teardown(() => made.destination.stop!(never))
  for (let starts = 0; starts < 2; starts++) {
    const signal = new AbortController()
    const start = made.destination.start!(signal.signal)
    await until(() => existsSync(path))
    signal.abort(new Error('late'))
    await t.rejects(start, { message: 'late' })
  }
  writeFileSync(`${path}.go`, '')
  await made.destination.start!(never)
  await made.destination.write(events(1), never)
  t.equal(to.requests[0]!.headers.authorization, 'Token key')
  t.equal(readFileSync(path, 'utf8'), '\n')
})

t.test('no key in any text', async t => {
  const to = await receiver(t)
  to.otherwise = ({ headers }) => ({ status: 400, body: `you sent ${JSON.stringify(headers)}` })
  const path = join(testFolder(t, { key: KEY }), 'key')
  const texts: string[] = []
  const others = { headers: { 'x-other-secret': 'hunter2hunter2' } }
  const basic = { type: 'basic', username: 'hunter2hunter2' }
  const ways = [
    { key: KEY },
    { key_file: path },
    { type: 'bearer', key: KEY },
    { ...basic, password: KEY },
    { ...basic, password_file: path },
  ]
  const encoded = Buffer.from(`hunter2hunter2:${KEY}`).toString('base64')
  for (const auth of ways) {
    const url = `${to.url()}?token=hunter2%2Bhunter2`
    const made = await started(t, { url, validate: undefined, auth, ...others })
    for (const status of [400, 401, 403, 500, 302]) {
      to.script.push(({ headers, path }) => {
        const body = JSON.stringify([path, decodeURIComponent(path), headers])
        return { status, headers: { location: `/${KEY}` }, body }
      })
      const error = await failure(made.destination.write(events(1), never))
      texts.push(String(error.stack), inspect(error, { depth: 9 }), JSON.stringify(error), String(error.cause))
    }
    const delivery = deliver(t.testdirName, made, { batch: { max_events: 1 } })
    await delivery.delivery.start()
    delivery.put(1, 0)
    await delivery.end()
    t.notMatch([...texts, JSON.stringify(made.logs)].join(), encoded)
    texts.push(
      JSON.stringify(made.logs),
      readFileSync(delivery.letters.path, 'utf8'),
      inspect(made.destination, { depth: 9 }),
    )
  }
  const { error } = httpDestination.options.safeParse({ url: to.url(), auth: { key: `${KEY} ${KEY}` } })
  texts.push(String(error), JSON.stringify(error!.issues))
  const wrong = await make({ url: to.url(), auth: { key_file: path } })
  writeFileSync(path, `${KEY}\n${KEY}`)
  texts.push(inspect(await failure(wrong.destination.start!(never)), { depth: 9 }))
  t.ok(texts.length > 40)
  t.match(texts.join(), '[hidden]')
  for (const text of texts) t.notOk(text.includes(KEY) || text.includes('hunter2'), text.slice(0, 100))
})

t.test('connections stay open for another successor if the first one stops before it starts', async t => {
  const to = await receiver(t)
  const options = { url: to.url() }
  const first = await started(t, options)
  await first.destination.write(events(1), never)
  const { value } = first.destination.handOver!()!
  await (await make(options, httpDestination, undefined, value)).destination.stop!(AbortSignal.abort())
  const { destination } = await make(options, httpDestination, undefined, value)
  t.teardown(() => destination.stop!(never))
  await destination.start!(never)
  await destination.write(events(1), never)
  t.equal(to.connections, 1)
})

t.test('no key in any text after it was replaced while its request was in flight', async t => {
  const to = await receiver(t)
  const path = join(testFolder(t), 'key')
  for (const auth of [{ key_file: path }, { type: 'basic', username: 'user', password_file: path }]) {
    writeFileSync(path, KEY)
    const made = await started(t, { url: to.url(), validate: undefined, auth })
    to.script.push(({ headers }) => {
      writeFileSync(path, 'another-key')
      const wait = made.destination.write(events(1), never).then(() => {})
      return { status: 422, body: `not with ${headers.authorization}`, wait }
    })
    t.match((await failure(made.destination.write(events(1), never))).message, /not with \w+ \[hidden\]$/)
  }
})

t.test('no key in any text, however a receiver writes it', async t => {
  const to = await receiver(t)
  const html = (text: string) => text.replace(/[^\w]/g, char => `&#${char.charCodeAt(0)};`)
  const octets = (text: string) => text.replace(/[^\w]/g, char => `\\x${char.charCodeAt(0).toString(16)}`)
  const made = await started(t, {
    url: to.url(),
    validate: undefined,
    auth: { key: 'abc/+def==' },
    headers: { 'x-secret': 'Bearer hunter/+2hunter' },
  })
  const secrets = ['abc/+def==', 'hunter/+2hunter']
  const ways = [encodeURIComponent, (text: string) => encodeURIComponent(encodeURIComponent(text)), html, octets]
  const others = [(text: string) => JSON.stringify(JSON.stringify(text)), (text: string) => text.replace('/', '\\/')]
  for (const write of [...ways, ...others]) {
    to.script.push(() => ({ status: 401, body: `unknown: ${secrets.map(write).join(', ')} (sorry)` }))
    const { message } = await failure(made.destination.write(events(1), never))
    t.match(message, /: unknown: "*\W*\[hidden\]\W*, \W*\[hidden\]\W* \(sorry\)/, message)
  }
})

t.test("TLS: verified, with an authority of one's own", async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const dir = testFolder(t, {
    'san.cnf': 'subjectAltName=DNS:logs.internal\n',
  })
  const run = (...args: string[]) => execFileSync(openssl, args, { cwd: dir, stdio: 'pipe' })
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  run('req', '-x509', ...curve, '-subj', '/CN=Test CA', '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2')
  for (const name of ['server', 'client']) {
    run('req', ...curve, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`)
    const sign = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'san.cnf']
    run('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, ...sign)
  }
  const file = (name: string) => join(dir, name)
  const pem = (name: string) => readFileSync(file(name))
  const to = await receiver(t, {
    tls: {
      cert: pem('server.pem'),
      key: pem('server.key'),
      ca: pem('ca.pem'),
      requestCert: true,
      rejectUnauthorized: true,
    },
  })
  const client = { cert_file: file('client.pem'), key_file: file('client.key') }
  const own = { ca_file: file('ca.pem'), server_name: 'logs.internal' }
  t.intercept(process, 'emitWarning', { value: () => {} })
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.teardown(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED)
  const tries: [string, Record<string, unknown>, Partial<DeliveryError>][] = [
    [
      'an unknown authority',
      client,
      {
        failure: 'retry',
        reason: 'tls',
        message: /authority of the receiver's certificate is not known; name its certificate in tls.ca_file/ as never,
      },
    ],
    ['another name', { ...client, ca_file: own.ca_file, server_name: 'other' }, { failure: 'retry', reason: 'tls' }],
    ['no client certificate', own, { failure: 'retry' }],
  ]
  for (const [name, tls, wanted] of tries) {
    const { destination } = await started(t, { url: to.url(), tls })
    t.match(await failure(destination.write(events(1), never)), wanted, name)
  }
  t.equal(to.requests.length, 0)
  const { destination } = await started(t, { url: to.url(), tls: { ...client, ...own }, auth: { key: KEY } })
  await destination.write(events(2), never)
  t.same(ns(to.lines()), [0, 1])
  const missing = await make({ url: to.url(), tls: { ca_file: file('none.pem') } })
  t.match(await failure(missing.destination.start!(never)), {
    failure: 'hold',
    message: /^tls.ca_file: .*none.pem cannot be read: the file does not exist/,
  })
})

t.test('delivery: a refused key is replaced in its file, and nothing is lost', async t => {
  const to = await receiver(t, { authorization: 'Token old-key' })
  const path = join(testFolder(t, { key: 'old-key\n' }), 'key')
  const made = await make({ url: to.url(), validate: to.url('/v3/pipeline'), auth: { key_file: path } })
  const { delivery, put, end, settled } = deliver(t.testdirName, made, { batch: { max_events: 10 }, max_in_flight: 3 })
  await delivery.start()
  for (let i = 0; i < 10; i++) put(10, i * 10)
  await until(() => settled.length === 10)
  to.authorization = 'Token new-key'
  for (let i = 10; i < 16; i++) put(10, i * 10)
  await until(() => delivery.state === 'holding')
  t.match(delivery.reason, /401 from POST .*the access key was refused: put another in .*key, which is read again/)
  const refused = to.requests.length
  await turns()
  t.equal(settled.length, 10)
  writeFileSync(path, 'new-key\n')
  await until(() => settled.length === 16)
  t.same(await end(), { events: 0, bytes: 0 })
  t.same(
    ns(to.lines()).sort((a, b) => a - b),
    upTo(160),
  )
  t.ok(settled.every(status => status === 'delivered'))
  // Two others may have been under way with the first that was refused.
  t.ok(to.requests.length <= refused + 2 + 6 + 1, 'without further attempts in vain')
  t.equal(made.logs.filter(({ level }) => level === 50).length, 1)
})

t.test('an answer may tell events apart', async t => {
  const to = await receiver(t)
  const { destination } = await started(t, { url: to.url() })
  const raw = (await started(t, { url: to.url(), encoding: 'raw' })).destination
  const one = { index: 1, status: 422, message: 'not this' }
  const headers = { 'content-type': 'application/json; charset=utf-8' }
  const answer = (status: number, errors: unknown, more = {}) => ({
    status,
    headers,
    body: JSON.stringify({ errors, ...more }, null, 2),
  })
  // Of four events.
  const table: [Step, Partial<DeliveryError> | undefined][] = [
    [answer(200, []), undefined],
    [
      answer(200, [
        { index: 0, status: 200 },
        { index: 9, status: 201 },
      ]),
      undefined,
    ],
    ...[undefined, null, false, 0, '', {}].map((errors): [Step, undefined] => [answer(200, errors), undefined]),
    ...['null', '[1]', '"errors"', 'ok', '{"error":['].map((body): [Step, undefined] => [
      { status: 200, headers, body },
      undefined,
    ]),
    // Unreadable lists.
    ...[200, 422].flatMap(status =>
      [headers, {}, { ...headers, 'content-encoding': 'gzip' }].map((headers): [Step, Partial<DeliveryError>] => [
        { status, headers, body: '\ufeff{"errors":[' },
        { failure: 'too_large', reason: 'answer_too_large' },
      ]),
    ),
    [{ ...answer(200, []), headers: { ...headers, 'content-encoding': 'br' } }, { reason: 'answer_too_large' }],
    [{ ...answer(200, Array(65).fill(one)), headers: {} }, { reason: 'answer_too_large' }],
    [
      { status: 200, body: '{"errors":[{"index":1', reset: 'in_answer' },
      { failure: 'retry', reason: 'reset' },
    ],
    [
      { status: 422, headers, body: '{"errors":[{"index":1', reset: 'in_answer' },
      { failure: 'too_large', reason: 'answer_too_large' },
    ],
    [
      { status: 422, reset: 'in_answer' },
      { failure: 'reject', reason: 'status_422' },
    ],
    // Readable ones.
    [{ ...answer(200, [one]), headers: { 'content-type': '' } }, { rejected: [1] }],
    [{ ...answer(200, []), headers: { ...headers, 'content-encoding': 'identity' } }, undefined],
    [{ status: 200, headers: { ...headers, 'content-encoding': 'gzip' } }, undefined],
    [{ status: 200, body: '<p>"errors":[' }, undefined],
    [{ status: 200, headers, body: '\ufeff{"errors":[]}' }, undefined],
    [{ status: 200, headers, body: '\ufeff{"errors":[{"index":1,"message":"not this"}]}' }, { rejected: [1] }],
    [answer(200, [{ status: 200 }, { index: null, status: 201 }]), undefined],
    // Which event an error belongs to is unknown, so each event that is not listed counts as rejected.
    ...[{}, { index: 4 }, { index: -1 }, { index: 0.5 }, { index: 'a' }, { message: 'b' }, null, [[1]], 'c']
      .flatMap(odd => [[odd], [odd, { index: 0, status: 200 }]])
      .concat([true, 2, 'all', { 1: { status: 400 } }] as never[])
      .map((errors): [Step, Partial<DeliveryError>] => [
        answer(200, errors),
        { failure: 'reject', reason: 'unknown_result', rejected: [0, 1, 2, 3], again: [] },
      ]),
    [
      answer(200, [{ index: 99 }, one, { index: 2, status: '503' }]),
      {
        failure: 'retry',
        reason: 'status_503',
        rejected: [0, 1, 3],
        reasons: ['unknown_result', 'status_422', 'unknown_result'],
        again: [2],
      },
    ],
    // The event is known.
    [answer(200, { index: 1, status: 422, message: 'not this' }), { failure: 'reject', rejected: [1], again: [] }],
    [answer(200, [{ index: '1', status: '422', message: 'not this' }]), { reason: 'status_422', rejected: [1] }],
    ...['bad', 42, 1000, null, {}, true].map((status): [Step, Partial<DeliveryError>] => [
      answer(200, [{ index: 3, status, message: [] }, one]),
      { failure: 'reject', rejected: [1, 3], reasons: ['status_422', 'rejected'], again: [] },
    ]),
    [answer(422, [one, { index: 99 }, null]), { failure: 'reject', rejected: [1], again: [0, 2, 3] }],
    [answer(422, [{ index: 99 }]), { failure: 'reject', reason: 'status_422', rejected: undefined }],
    [{ ...answer(200, [one]), headers: { 'content-type': 'text/plain' } }, undefined],
    [
      { status: 200, headers, reset: 'in_answer' },
      { failure: 'retry', reason: 'reset', rejected: undefined },
    ],
    [{ status: 200, reset: 'in_answer' }, undefined],
    [
      { ...answer(200, [one]), headers: {} },
      { failure: 'reject', rejected: [1] },
    ],
    [
      { ...answer(200, [one]), headers: { 'content-type': 'text/json' } },
      { failure: 'reject', rejected: [1] },
    ],
    [answer(207, [one]), { failure: 'reject', reason: 'status_422', status: 422, rejected: [1], again: [] }],
    [answer(200, [{ index: 2 }]), { failure: 'reject', reason: 'rejected', rejected: [2], again: [] }],
    [
      answer(200, [{ index: 0, status: 429 }, { index: 3, status: 503 }, one], { more: 'x'.repeat(200_000) }),
      { failure: 'retry', status: 429, reason: 'status_429', statuses: [422], rejected: [1], again: [0, 3] },
    ],
    [answer(200, [{ index: 0, status: 401 }]), { failure: 'hold', status: 401, rejected: [], again: [0] }],
    [answer(422, [one, one]), { failure: 'reject', reason: 'status_422', rejected: [1], again: [0, 2, 3] }],
    [answer(400, [{ index: 3, message: 'no' }]), { reason: 'status_400', rejected: [3], again: [0, 1, 2] }],
    [answer(400, [{ index: 0, status: 413 }]), { failure: 'reject', rejected: [0], again: [1, 2, 3] }],
    [answer(400, [{ message: 'all' }]), { failure: 'reject', rejected: undefined, again: [] }],
    [answer(503, [one]), { failure: 'retry', reason: 'status_503', rejected: undefined }],
    [answer(413, [one]), { failure: 'too_large', rejected: undefined }],
  ]
  for (const sender of [destination, raw]) {
    for (const [step, wanted] of table) {
      to.script.push(step)
      const write = sender.write(events(4), never)
      if (!wanted) {
        await write
        continue
      }
      const error = await failure(write)
      t.match({ ...error }, wanted)
      if (error.rejected?.[0] === 1) t.match(error.byReason()[0]!.message, /: not this$/)
    }
  }
  // Lines are not events where one has several.
  to.script.push(answer(200, [one]))
  const [first] = batchesOf('a\nb\nc\n', originOf('text'))
  first!.ends[0] = first!.ends[1]!
  first!.isRun = false
  t.match(await failure(raw.write([first!], never)), { reason: 'unknown_result', rejected: [0, 1] })
  t.equal(to.script.length, 0)

  // Behind a delivery: what is refused is a dead letter, all else arrives once.
  const made = await make({ url: to.url() })
  const seen = new Map<number, number>()
  to.otherwise = ({ body }) => {
    const numbers = ns(body.trimEnd().split('\n'))
    for (const n of numbers) seen.set(n, (seen.get(n) ?? 0) + 1)
    const errors = numbers.flatMap((n, index) => {
      if (n % 10 === 3) return { index, status: 400, message: `not ${n}` }
      return n % 10 === 7 && seen.get(n)! < 3 ? { index, status: 503 } : []
    })
    return { status: 207, headers, body: JSON.stringify({ errors }) }
  }
  const { delivery, put, end, settled, letters } = deliver(testFolder(t), made, { batch: { max_wait: '5ms' } })
  await delivery.start()
  for (let i = 0; i < 5; i++) put(20, i * 20)
  await until(() => settled.length === 5)
  t.same(await end(), { events: 0, bytes: 0 })
  const records = readFileSync(letters.path, 'utf8').trimEnd().split('\n')
  const letter = (line: string) => JSON.parse(line) as { event: { n: number }; reason: string; status: number }
  t.same(
    records.map(line => letter(line).event.n),
    upTo(100).filter(n => n % 10 === 3),
  )
  t.match(letter(records[0]!), { reason: 'status_400', status: 400, error: /: not 3$/ })
  t.same(
    upTo(100).map(n => seen.get(n)),
    upTo(100).map(n => (n % 10 === 7 ? 3 : 1)),
  )
})

t.test('delivery: through every problem, in order, once', async t => {
  const to = await receiver(t)
  const steps: Step[] = [
    503,
    { reset: 'before_body' },
    { status: 429, headers: { 'retry-after': '0' } },
    { hang: 'after_body' },
    408,
    { delayMs: 20 },
    { status: 500, delayMs: 10 },
    { status: 200, reset: 'in_answer' },
    { reset: 'before_body' },
    502,
  ]
  to.script.push(...steps)
  to.otherwise = ({ body }) =>
    body.length > 60 ? 413 : body.includes('"n":33}') ? { status: 422, body: 'not this' } : 202
  testFolder(t)
  const made = await make({ url: to.url(), compression: 'gzip' })
  const options = { batch: { max_events: 10, max_wait: '20ms' }, max_in_flight: 1, timeout: '5s' }
  const { delivery, put, end, settled, letters } = deliver(t.testdirName, made, options)
  await delivery.start()
  for (let i = 0; i < 10; i++) put(7, i * 7)
  await until(() => settled.length === 10)
  t.same(await end(), { events: 0, bytes: 0 })
  const records = parsedLines<{ event: { n: number } }>(readFileSync(letters.path, 'utf8'))
  const refused = records.map(({ event }) => event.n)
  t.ok(refused.includes(33))
  t.match(records[0], { status: 422, reason: 'status_422', request_id: /^request-\d+$/, error: /not this/ })
  t.same(
    ns(to.lines()),
    upTo(70).filter(n => !refused.includes(n)),
    'in order',
  )
  t.equal(settled.filter(status => status === 'rejected').length, new Set(refused.map(n => Math.floor(n / 7))).size)
  t.equal(to.script.length, 0)
})

t.test('wrong options are told', async t => {
  const url = 'https://example.com/in'
  const table: [Record<string, unknown>, string, RegExp][] = [
    [{}, 'url', /expected string/],
    [{ url: 'ftp://example.com' }, 'url', /begins with http:\/\/ or https:\/\//],
    [{ url: 'https://u:p@example.com' }, 'url', /must not hold a user name or password/],
    [{ url: `${url}#x` }, 'url', /after "#"/],
    [{ url, auth: {} }, 'auth', /exactly one of key, key_file, credential and exec; none given/],
    [{ url, auth: { key: 'a', key_file: 'b' } }, 'auth', /key and key_file given/],
    [{ url, auth: { type: 'none', key: 'a' } }, 'auth.key', /no use with type: none/],
    [{ url, auth: { type: 'none', password: 'a' } }, 'auth.password', /no use with type: none$/],
    [{ url, auth: { key: 'a', username: 'b' } }, 'auth.username', /no use with type: token; write type: basic$/],
    [{ url, auth: { type: 'bearer', key: 'a', scheme: 'b' } }, 'auth.scheme', /no use with type: bearer/],
    [{ url, auth: { type: 'api_key', key_file: 'a', credential: 'b' } }, 'auth', /key_file and credential given/],
    [{ url, auth: { type: 'basic', username: 'a', key: 'b', password: 'c' } }, 'auth.key', /no use with type: basic/],
    [{ url, auth: { type: 'basic', password: 'a' } }, 'auth', /needs username/],
    [
      { url, auth: { type: 'basic', username: 'a' } },
      'auth',
      /exactly one of password, password_file, credential and exec/,
    ],
    [{ url, auth: { type: 'basic', username: 'a:b', password: 'c' } }, 'auth.username', /without a colon/],
    [{ url, auth: { type: 'basic', username: 'a', password: 'b\tc' } }, 'auth.password', /control character/],
    [{ url, auth: { key: 'a b' } }, 'auth.key', /cannot be in a header/],
    [{ url, auth: { key: 'a', scheme: 'a b' } }, 'auth.scheme', /one word/],
    [{ url, auth: { key: 'a', header: 'a:' } }, 'auth.header', /name of a header/],
    [{ url, auth: { key: 'a', header: 'Content-Length' } }, 'auth.header', /set by sluice/],
    [{ url, auth: { credential: '../key' } }, 'auth.credential', /systemd credential/],
    [{ url, auth: { key: 'a' }, headers: { AUTHORIZATION: 'x' } }, 'headers.AUTHORIZATION', /set by auth/],
    [{ url, headers: { 'Content-Length': '1' } }, 'headers.Content-Length', /set by sluice itself/],
    [{ url, headers: { a: 'b\nc' } }, 'headers.a', /one line/],
    [{ url, delegate_account_id: 'xyz' }, 'delegate_account_id', /24 hexadecimal digits/],
    [{ url, tls: { cert_file: 'a' } }, 'tls', /belong together/],
    [{ url, connect_timeout: '2 Hours' }, 'connect_timeout', /at most 1 Hours/],
    [{ url, metod: 'POST' }, '', /metod/],
  ]
  for (const [options, path, text] of table) {
    const { error } = httpDestination.options.safeParse(options)
    t.equal(error?.issues[0]?.path.join('.'), path, text.source)
    t.match(error?.issues[0]?.message, text)
  }
  for (const example of httpDestination.examples) t.ok(example.title)
  const plain = await make({ url: 'http://logs.example.com/in', auth: { key: KEY } })
  t.match(plain.logs, [{ level: 40, msg: 'the access key is sent without encryption; use https' }])
  for (const address of ['http://localhost:1', 'http://127.0.0.1:1', 'http://[::1]:1', url]) {
    t.same((await make({ url: address, auth: { key: KEY } })).logs, [])
  }
})

t.test('a body that was answered before it was sent stays what it is', async t => {
  const SIZE = 1_900_000
  const LETTERS = ['A', 'B', 'C', 'D', 'E', 'F']
  const sockets = new Map<number | undefined, Socket>()
  const got = new Map<Socket, string>()
  const server = createServer(socket => {
    socket.setEncoding('latin1').on('error', () => {})
    socket.on('data', text => got.set(socket, (got.get(socket) ?? '') + text)).pause()
    sockets.set(socket.remotePort, socket)
  })
  const port = await listening(t, server)
  // Each request is answered as soon as it is begun, and nothing of it is read.
  const begun = async (message: unknown) => {
    const { request } = message as { request: ClientRequest }
    if (!request.socket) await once(request, 'socket')
    const port = request.socket!.localPort
    await until(() => sockets.has(port))
    sockets.get(port)!.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
  }
  subscribe('http.client.request.start', begun)
  t.teardown(() => unsubscribe('http.client.request.start', begun))
  const { destination, counters } = await started(t, { url: `http://${HOST}:${port}/`, encoding: 'raw' })
  const writes = LETTERS.map(letter => destination.write(batchesOf(letter.repeat(SIZE), originOf('text')), never))
  await until(() => counters.counter('sluice_http_requests_total', '', { status: '200' }).value === LETTERS.length)
  for (const socket of sockets.values()) socket.resume()
  await Promise.all(writes)
  const bodies = () => [...[...got.values()].join('').matchAll(/([A-F])\1{9,}/g)]
  await until(() => bodies().reduce((sum, [body]) => sum + body.length, 0) >= LETTERS.length * SIZE)
  t.same(
    bodies()
      .map(([body]) => [body[0], body.length] as const)
      .sort(([a], [b]) => (a! < b! ? -1 : 1)),
    LETTERS.map(letter => [letter, SIZE]),
    'each body as it was',
  )
})

t.test('delivery: batch.max_bytes bounds what is sent, whatever the encoding adds', async t => {
  const to = await receiver(t)
  const text = originOf('text', '/var/log/app.log')
  for (const compression of ['none', 'gzip']) {
    const made = await make({ url: to.url(), compression })
    const options = { batch: { max_bytes: 2000, max_wait: '20ms' }, max_in_flight: 1 }
    const { delivery, end } = deliver(testFolder(t), made, options)
    await delivery.start()
    to.requests.length = 0
    const sent: string[] = []
    for (let i = 0; i < 10; i++) {
      const lines = Array.from({ length: 20 }, (_, n) => (n === 7 ? '"\\'.repeat(700) : `${i} ${n}`))
      sent.push(...lines)
      delivery.write(batchesOf(`${lines.join('\n')}\n`, text)[0]!)
    }
    const [changed] = batchesOf('a\nb\n', text)
    for (const i of [0, 1]) changed!.modify(i, { message: `${i}`, added: 'x'.repeat(1500) })
    sent.push('0', '1')
    delivery.write(changed!)
    t.same(await end(), { events: 0, bytes: 0 })
    const lines = to.requests.flatMap(({ body }) => body.trimEnd().split('\n'))
    t.same(
      lines.map(line => (JSON.parse(line) as { message: string }).message),
      sent,
      'in order, once',
    )
    const large = to.requests.filter(({ body }) => body.length > 2000)
    t.same(
      large.map(({ body }) => body.split('\n').length - 1),
      Array(10).fill(1),
      'only a single event is larger',
    )
    t.ok(to.requests.length < 70, `${to.requests.length} requests`)
    t.same(
      made.logs.filter(({ level }) => level > 30),
      [],
    )
  }
})
