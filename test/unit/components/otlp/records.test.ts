import t from 'tap'
import { otlp } from '../../../../src/components/otlp/destination.js'
import { ExportRequest } from '../../../../src/components/otlp/export-request.js'
import { LogRecords } from '../../../../src/components/otlp/log-record.js'
import type { OtlpOptions } from '../../../../src/components/otlp/options.js'
import { ProtobufRecords } from '../../../../src/components/otlp/protobuf-records.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { GrowingBytes } from '../../../../src/lib/formats/growing-bytes.js'
import { CHUNK_BYTES } from '../../../../src/lib/lines/chunk-memory.js'
import { freeChunk, takeChunk } from '../../../../src/lib/lines/chunk-pool.js'
import { batchesOf, batchOf } from '../../../support/batches.js'
import { json, make } from '../../../support/destination.js'
import { JsonLines } from '../../../support/json-lines.js'
import { accessLine, dockerLine } from '../../../support/log-lines.js'
import { rounds } from '../../../support/long-test.js'
import { messageOf } from '../../../support/protobuf-messages.js'
import { Seeded } from '../../../support/seeded.js'

/** Requests in protobuf, most of whose records the kernel writes, held to records that JavaScript writes one by one. */

const { context } = await make({ url: 'http://127.0.0.1' }, otlp)
const ROUNDS = rounds(80, 24)
const AT_ONCE = 100
const hex = (random: Seeded, digits: number) =>
  Array.from({ length: digits }, () => random.pick([...'0123456789abcdefABCDEF'])).join('')

/** Fields that mean something: what they mostly are, and what else. */
const FIELDS: readonly (readonly [name: string, usual: (random: Seeded) => unknown, others: readonly unknown[]])[] = [
  [
    'timestamp',
    random => `2026-0${1 + random.below(9)}-28T2${random.below(4)}:59:59.${random.below(1e9)}Z`,
    [
      ...['2026-01-31T12:00:00Z', '2024-02-29T23:59:59.123456789123+05:30', '2026-03-01T00:00:00-11:00'],
      ...['2026-02-30T00:00:00Z', '1969-12-31T23:59:59Z', '1970-01-01T00:00:00Z', '2600-01-01T00:00:00Z'],
      ...['2026-01-31 12:00:00', '2026-01-31T12:00:00,5Z', '2026-01-31T12:00:00z', 1_767_319_445_123, null],
    ],
  ],
  ['level', random => random.pick(['info', 'WARN', 'dpanic', 'Informational', 'odd', 'é', '']), ['30', 30, null, {}]],
  ['severity', () => 'e', ['more than any word of them', '3']],
  ['trace_id', random => hex(random, 32), ['0'.repeat(32), 'x'.repeat(32), 'a'.repeat(31), 7]],
  ['spanId', random => hex(random, 16), ['0'.repeat(16), 'a'.repeat(17), '']],
  ['trace', () => ({ id: 'a'.repeat(32) }), ['a']],
  ['app', () => 'shop', ['cart', '', 'a"b', null, 5]],
  ['host', () => 'h', ['web-07', 'h ']],
]
const OTHERS = ['a', 'b', 'é', 'ab', 'ba', 'x'.repeat(130)]

/** An object as programs log it. */
function logged(random: Seeded): string {
  const text = () => {
    const of = 'some text, \\ "quoted" é 漢 😀\n\t/'.slice(random.below(20), 12 + random.below(30))
    return of.repeat(random.chance(0.02) ? 600 : 1 + random.below(4))
  }
  const value = () => random.pick([text(), random.below(1e6), -random.below(1e9), random.below(1e6) / 1000, true, null])
  const rare = () => random.pick([random.next(), [1], '\u0001', 1e21])
  const fields: [string, unknown][] = [
    [
      random.pick(['message', 'message', 'msg', 'body', 'no body']),
      random.chance(0.95) ? text() : random.pick([5, null]),
    ],
  ]
  for (const [name, usual, others] of FIELDS) {
    if (random.chance(0.15)) fields.push([name, random.chance(0.8) ? usual(random) : random.pick(others)])
  }
  const first = random.below(OTHERS.length)
  for (const name of OTHERS.slice(first, first + random.below(6))) {
    fields.push([random.chance(0.02) ? 'a' : name, random.chance(0.95) ? value() : rare()])
  }
  const members = fields.map(([name, value]) => `"${name}":${JSON.stringify(value)}`)
  return `{${members.sort(() => random.next() - 0.5).join(random.pick([',', ',', ', ']))}}`
}

/** Counts the records that JavaScript writes. */
let added = 0
const { add } = LogRecords.prototype
LogRecords.prototype.add = function (...given) {
  added++
  add.apply(this, given)
}

/** The request, and the records that JavaScript writes. */
function bothOf(batch: EventBatch, more: object): { sent: Buffer; records: Buffer } {
  const options = otlp.options.parse({ url: 'http://127.0.0.1', ...more }) as OtlpOptions
  const sent = Buffer.concat(new ExportRequest(options, context).encode([batch]).parts)
  const alone = new LogRecords(options)
  const records = new ProtobufRecords()
  records.to = new GrowingBytes()
  for (let i = 0; i < batch.length; i++) alone.add(batch, i, records)
  return { sent, records: records.to.bytes.subarray(0, records.to.length) }
}

t.test('records are the same bytes as in JavaScript', async t => {
  const random = new Seeded(20_260_101)
  const lines = new JsonLines(random)
  /** Members in every way of writing JSON, behind a body. */
  const written = () => random.pick([lines.line(), lines.shaped()]).toString('latin1').replace('{"', '{"body":"b","')
  for (const [from, most] of [
    [() => logged(random), 0.6],
    [() => Buffer.from(written(), 'latin1'), 0.95],
  ] as const) {
    let all = 0
    added = 0
    for (let round = 0; round < ROUNDS; round++) {
      const texts = Array.from({ length: AT_ONCE }, () => from())
      const [batch] = batchesOf(Buffer.concat(texts.flatMap(text => [Buffer.from(text), Buffer.from('\n')])), json)
      const chunk = random.chance(0.5) ? takeChunk(CHUNK_BYTES) : undefined
      if (chunk && batch!.chunk.length < chunk.length) {
        batch!.chunk.copy(chunk)
        batch!.chunk = chunk
      }
      for (let i = 0; i < batch!.length; i++) {
        // Those that a processor has changed lie elsewhere, in another order.
        if (random.chance(0.2)) batch!.modify(random.below(batch!.length), { message: 'changed', ...batch!.fields(i) })
      }
      const { sent, records } = bothOf(batch!, { resource: {}, scope: '' })
      if (!sent.subarray(-records.length).equals(records)) t.same(messageOf(sent), messageOf(records), texts.join('\n'))
      all += batch!.length
      if (chunk) freeChunk(chunk)
    }
    const left = added - all
    t.ok(left <= all * most, `${left} of ${all} left to JavaScript`)
  }
})

t.test('events of a resource and a scope are together, in their order', async t => {
  const random = new Seeded(20_260_102)
  for (let round = 0; round < ROUNDS / 10; round++) {
    const [batch] = batchesOf(Array.from({ length: AT_ONCE }, () => `${logged(random)}\n`).join(''), json)
    // What the scan of the lines has found is gone when their bytes have moved.
    batch!.scan()
    batch!.move(Buffer.from(batch!.chunk), batch!.starts.slice(), batch!.ends.slice())
    const [protobuf, text] = ['protobuf', 'json'].map(encoding => bothOf(batch!, { encoding }).sent)
    t.same(messageOf(protobuf!), JSON.parse(text!.toString()))
  }
})

t.test('lines of other formats', async t => {
  const random = new Seeded(20_260_103)
  for (let round = 0; round < ROUNDS / 4; round++) {
    const [decode, line] = random.pick([
      ['nginx', accessLine],
      ['docker_json', dockerLine],
      ['logfmt', () => `level=warn msg="a \\"b\\"" 1=2 app=${random.pick(['a', 'b'])}`],
    ] as const)
    const lines = Array.from({ length: AT_ONCE }, () => line(random))
    const batch = batchOf(lines, { decode, wanted: json.wanted, path: '/var/log/"a".log' })
    if (random.chance(0.5)) batch.modify(random.below(batch.length), { message: 'changed' })
    const { sent, records } = bothOf(batch, { resource: {}, scope: '' })
    if (!sent.subarray(-records.length).equals(records)) t.same(messageOf(sent), messageOf(records), decode)
    const [protobuf, text] = ['protobuf', 'json'].map(encoding => bothOf(batch, { encoding }).sent)
    t.same(messageOf(protobuf!), JSON.parse(text!.toString()))
  }
})

t.test('more events, and longer ones, than fit into the memory of the kernel at a time', async t => {
  const texts = (i: number) => (i % 1000 === 999 ? 'x'.repeat(200_000) : i === 1234 ? 'y'.repeat(600_000) : `${i}`)
  const lines = Array.from({ length: 5000 }, (_, i) => `{"message":"${texts(i)}","n":${i}}`)
  const { sent, records } = bothOf(batchOf(lines, { decode: 'json', wanted: json.wanted }), { resource: {}, scope: '' })
  t.ok(sent.subarray(-records.length).equals(records))
})
