import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { encodeLines } from '../../src/core/codecs/encode.js'
import { createCodec } from '../../src/core/codecs/list.js'
import { batchOf } from '../support/batches.js'
import { checkout } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { sluice } from '../support/sluice.js'

const { descriptor } = JSON.parse(readFileSync(join(checkout, 'test/support/protobuf-vectors.json'), 'utf8')) as {
  descriptor: string
}

t.test('records go from one format to another and back, through throttles, disk buffers and files', async t => {
  const protobuf = createCodec('protobuf', { descriptor, message: 'acme.logs.All' })
  const events = Array.from({ length: 500 }, (_, n) => ({
    s: `é ${n}`,
    i64: String(2n ** 60n + BigInt(n)),
    i32: n % 7,
  }))
  const input = Buffer.concat(encodeLines(protobuf, [batchOf(events)]).parts)
  const cwd = testFolder(t, {
    'there.yaml': `data_dir: ./there
metrics: false
sources:
  in: { type: stdin, decode: { codec: protobuf, descriptor_file: ./all.binpb, message: acme.logs.All } }
processors:
  limit: { type: throttle, inputs: [in], limit: 10, window: 1 Hours, key_field: .i32, mode: shadow }
destinations:
  out: { type: file, inputs: [limit], path: ./events.msgpack, encoding: msgpack, buffer: { type: disk } }
`,
    'back.yaml': `data_dir: ./back
metrics: false
sources:
  in: { type: file, include: [./events.msgpack], decode: msgpack, read_from: beginning, follow: false }
destinations:
  out:
    type: file
    inputs: [in]
    path: ./events.binpb
    encoding: { codec: protobuf, descriptor_file: ./all.binpb, message: acme.logs.All }
`,
  })
  const missing = await command(['validate', 'there.yaml'], { cwd })
  t.equal(missing.code, 0, 'the file may be where it will run')
  t.match(
    missing.stderr,
    /there\.yaml:4:\d+: sources\.in\.decode: warning: descriptor_file \.\/all\.binpb \(.*\) cannot be read/,
  )
  const early = sluice(['run', 'there.yaml'], { cwd })
  t.not(await early.exit, 0)
  t.match(early.stderr + early.stdout, /descriptor_file \.\/all\.binpb \(.*\) cannot be read/)
  writeFileSync(join(cwd, 'all.binpb'), 'no definition')
  const wrong = await command(['validate', 'there.yaml'], { cwd })
  t.not(wrong.code, 0)
  t.match(
    wrong.stderr,
    /there\.yaml:4:\d+: sources\.in\.decode: descriptor_file \.\/all\.binpb \(.*\) is not a set of descriptors/,
  )
  writeFileSync(join(cwd, 'all.binpb'), Buffer.from(descriptor, 'base64'))
  const there = sluice(['run', 'there.yaml'], { cwd })
  there.child.stdin!.end(input)
  t.equal(await there.exit, 0, there.stderr)
  const back = sluice(['run', 'back.yaml'], { cwd })
  t.equal(await back.exit, 0, back.stderr)
  const output = readFileSync(join(cwd, 'events.binpb'))
  const wanted = Buffer.concat(encodeLines(protobuf, [batchOf(events)]).parts)
  t.ok(output.equals(wanted), `${output.length} bytes, not ${wanted.length}`)
})

t.test('values that do not fit the definition are counted, and logged once without what they are', async t => {
  const folder = testFolder(t, { 'in.ndjson': '' })
  writeFileSync(join(folder, 'all.binpb'), Buffer.from(descriptor, 'base64'))
  const daemon = await startDaemon(
    t,
    folder,
    `
sources: { in: { type: file, include: [in.ndjson], decode: json } }
destinations:
  out:
    type: file
    inputs: [in]
    path: out.binpb
    encoding: { codec: protobuf, descriptor_file: all.binpb, message: acme.logs.All }
`,
  )
  appendFileSync(join(folder, 'in.ndjson'), '{"i32":"secret","b":true}\n{"i32":1,"b":5}\n{"i32":2}\n')
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_left_out_values_total') === 2)
  const told = daemon.logs().filter(({ code }) => code === 'SLUICE_VALUE_LEFT_OUT')
  t.match(told, [{ level: 40, component: 'out', codec: 'protobuf', field: 'i32' }])
  t.equal(told.length, 1)
  t.notMatch(daemon.stderr, /secret/)
  await daemon.stop(t)
})
