import { once } from 'node:events'
import { appendFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { httpSource } from '../../../../src/components/http/source.js'
import { stdout } from '../../../../src/components/stdio/destination.js'
import { stdin } from '../../../../src/components/stdio/source.js'
import { tcp } from '../../../../src/components/tcp/source.js'
import { encodeLines } from '../../../../src/core/codecs/encode.js'
import { codecOf, codecs } from '../../../../src/core/codecs/list.js'
import { batchOf } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { freeChunks } from '../../../support/free-chunks.js'
import { contextOf, startPushed, Taker } from '../../../support/pushed.js'
import { arrived, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

const codec = codecOf('msgpack')!
const records = (...events: string[]) => Buffer.concat(encodeLines(codec, [batchOf(events)]).parts)
const NO_RECORD = Buffer.from('no record')

t.test('tcp: a connection is read record by record, and closed where they cannot be delimited', async t => {
  const { out, port, count, logs } = await startPushed(t, tcp, { decode: 'msgpack', max_line_bytes: 1024 })
  const dial = async (bytes: Buffer) => {
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(bytes)
    return socket
  }
  const first = records('{"n":1}', `{"n":"${'x'.repeat(2000)}"}`, '{"n":2}')
  const place = first.length
  const socket = await dial(first)
  await until(() => out.events === 2)
  t.same(out.fields, [{ n: 1 }, { n: 2 }])
  t.equal(count('sluice_skipped_records_total'), 1)
  const half = records('{"n":3}')
  socket.end(half.subarray(0, -1))
  await once(socket, 'close')
  t.equal(count('sluice_framing_errors_total'), 1, 'one that does not end')
  t.match(
    logs().filter(({ msg }) => msg === 'a connection ended within a record'),
    [
      {
        code: 'SLUICE_FRAMING',
        error: `byte ${place}: the last record is incomplete: it ended after 3 bytes`,
        peer: '127.0.0.1',
      },
    ],
  )
  const corrupt = await dial(Buffer.concat([records('{"n":4}'), NO_RECORD, records('{"n":5}')]))
  await once(corrupt, 'close')
  await until(() => out.events === 3)
  t.same(out.fields[2], { n: 4 })
  t.equal(count('sluice_framing_errors_total'), 2)
  t.match(
    logs().filter(({ msg }) => msg === 'closed a connection that cannot be read'),
    [{ code: 'SLUICE_FRAMING', error: 'byte 4: 0x6e does not begin a map of MessagePack', peer: '127.0.0.1' }],
  )
})

t.test('tcp: a connection gives its memory back, whether its bytes are records or not', async t => {
  const { port, logs } = await startPushed(t, tcp, { decode: 'msgpack' })
  const long = records(`{"n":"${'x'.repeat(200_000)}"}`)
  const before = freeChunks()
  for (const bytes of [long, long.subarray(0, -1), Buffer.concat([records('{"n":1}'), NO_RECORD, long])]) {
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    socket.end(bytes)
    await new Promise(resolve => socket.once('close', resolve))
  }
  await until(() => logs().filter(({ msg }) => msg === 'connection ended').length === 3)
  t.equal(freeChunks(), before)
})

const post = (port: number, type: string, body: Buffer) =>
  fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers: { 'content-type': type }, body })

t.test('http: a body is records, and nothing is taken of one with anything else in it', async t => {
  const { out, port } = await startPushed(t, httpSource, { decode: 'msgpack' })
  for (const type of ['application/msgpack', 'application/x-msgpack', 'application/octet-stream']) {
    const answer = await post(port, type, records('{"n":1}', '{"n":2}'))
    t.same([answer.status, await answer.json()], [202, { received: 2 }], type)
  }
  t.equal(out.events, 6)
  const refused: [body: Buffer, message: RegExp][] = [
    [Buffer.concat([records('{"n":1}'), NO_RECORD]), /^byte 4 of the body: 0x6e does not begin a map/],
    [records('{"n":1}').subarray(0, -1), /the last record does not end; no events of this request were accepted$/],
  ]
  for (const [body, message] of refused) {
    const answer = await post(port, 'application/msgpack', body)
    t.equal(answer.status, 400)
    t.match(await answer.json(), { code: 'malformed', message })
  }
  t.equal((await post(port, 'application/x-ndjson', Buffer.from('{"n":3}\n'))).status, 202, 'lines of JSON')
  t.equal(out.events, 7)
  t.equal((await post(port, 'application/x-protobuf', Buffer.from(''))).status, 415)
})

t.test('http: with framing none a body is one message', async t => {
  const [{ yaml, record }] = codecs.find(({ name }) => name === 'protobuf')!.examples
  const decode = { codec: 'protobuf', ...(parse(yaml) as object), framing: 'none' }
  const { out, port } = await startPushed(t, httpSource, { decode })
  const message = Buffer.from(record!.replaceAll(' ', ''), 'hex').subarray(1)
  const long = Buffer.concat(Array.from({ length: 30_000 }, () => message))
  for (const body of [message, long]) t.equal((await post(port, 'application/x-protobuf', body)).status, 202)
  t.equal(out.events, 2)
  t.match(out.fields[0], { message: 'hi', took_ms: 12, tags: ['a', 'bc'] })
  t.equal((out.fields[1]!.tags as string[]).length, 60_000, 'of several portions')
  const needs = { issues: [{ path: ['decode'], message: /needs a framing/ }] }
  t.match(tcp.options.safeParse({ listen: '127.0.0.1:1', decode }).error, needs)
  t.match(stdin.options.safeParse({ decode }).error, needs)
  t.match(stdout.options.safeParse({ encoding: decode }).error, {
    issues: [{ path: ['encoding'], message: /need a framing/ }],
  })
})

/** Reads so many bytes at a time. */
async function fromStdin(t: Test, input: Buffer, portion = 1) {
  const { context, counters, logs } = contextOf('stdin')
  const stream = new PassThrough()
  const out = new Taker('delivered')
  const source = await stdin.create(stdin.options.parse({ decode: 'msgpack' }), { ...context, stdin: stream } as never)
  const run = source.run(out, new AbortController().signal)
  for (let at = 0; at < input.length; at += portion) {
    stream.write(input.subarray(at, at + portion))
    await new Promise(resolve => setImmediate(resolve))
  }
  stream.end()
  await run
  t.ok(counters)
  return { fields: out.fields, errors: logs().filter(({ level }) => Number(level) >= 50) }
}

t.test('stdin: the end of the input, or of what can be read', async t => {
  t.same(await fromStdin(t, records('{"n":1}', '{"n":2}')), { fields: [{ n: 1 }, { n: 2 }], errors: [] })
  const cut = await fromStdin(t, records('{"n":1}', '{"n":2}').subarray(0, -1))
  t.same(cut.fields, [{ n: 1 }])
  t.match(cut.errors, [{ error: 'the last record does not end', bytes: 3 }])
  const corrupt = await fromStdin(t, Buffer.concat([records('{"n":1}'), NO_RECORD]))
  t.same(corrupt.fields, [{ n: 1 }])
  t.match(corrupt.errors, [{ error: 'byte 4: 0x6e does not begin a map of MessagePack' }])
})

t.test('stdin: what was read gives its memory back, also where it ends within a record', async t => {
  const long = records(`{"n":"${'x'.repeat(200_000)}"}`)
  const before = freeChunks()
  t.equal((await fromStdin(t, long, 65_536)).fields.length, 1)
  t.equal(freeChunks(), before)
  t.equal((await fromStdin(t, long.subarray(0, -1), 65_536)).fields.length, 0)
  t.equal(freeChunks(), before)
})

t.test('file: it is read on behind the last record that ended, also after a restart', async t => {
  const dir = testFolder(t)
  const path = join(dir, 'a.msgpack')
  const events = Array.from({ length: 500 }, (_, n) => `{"n":${n},"text":"${'x'.repeat(n % 7)}"}`)
  const all = records(...events)
  writeFileSync(path, all.subarray(0, 301))
  const options = { include: [path], decode: 'msgpack', read_from: 'beginning' }
  const first = await tail(options)
  await arrived(first, 1)
  await first.stop()
  const before = first.out.lines.length
  t.ok(before > 5 && before < 500)
  appendFileSync(path, all.subarray(301, 4000))
  const second = await tail(options, first.checkpoints)
  await arrived(second, 1)
  appendFileSync(path, all.subarray(4000))
  await arrived(second, 500 - before)
  await second.stop()
  t.same([...first.out.texts(), ...second.out.texts()], events)
  t.same(
    [...first.log, ...second.log].filter(({ level }) => level >= 40),
    [],
    'it was not taken for another file',
  )
})

t.test('file: what cannot be delimited is reported, and read again when it has become something else', async t => {
  const dir = testFolder(t)
  const path = join(dir, 'a.msgpack')
  writeFileSync(path, Buffer.concat([records('{"n":1}'), NO_RECORD]))
  const run = await tail({ include: [path], decode: 'msgpack', read_from: 'beginning' })
  await arrived(run, 1)
  await until('it is reported', () => run.log.some(({ code }) => code === 'SLUICE_FILE_UNREADABLE'))
  t.match(
    run.log.filter(({ code }) => code === 'SLUICE_FILE_UNREADABLE'),
    [{ file: path, error: 'byte 4: 0x6e does not begin a map of MessagePack' }],
  )
  appendFileSync(path, records('{"n":2}'))
  await run.scanned(2)
  t.same(run.out.texts(), ['{"n":1}'])
  t.equal(run.value('sluice_files_unreadable'), 1)
  await run.stop()
  const again = await tail({ include: [path], decode: 'msgpack' }, run.checkpoints)
  await until('it is reported again', () => again.log.some(({ code }) => code === 'SLUICE_FILE_UNREADABLE'))
  t.match(again.log, [{ error: /^byte 4: / }], 'with its place in the file')
  writeFileSync(path, records('{"n":3}'))
  await arrived(again, 1)
  t.same(again.out.texts(), ['{"n":3}'])
  await again.stop()
})
