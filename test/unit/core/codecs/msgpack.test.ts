import { isUtf8 } from 'node:buffer'
import t from 'tap'
import { encodeLines } from '../../../../src/core/codecs/encode.js'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { FramedSplitter } from '../../../../src/lib/lines/framed-splitter.js'
import { batchOf } from '../../../support/batches.js'
import { casesOf } from '../../../support/cases.js'
import { readFields } from '../../../support/codecs.js'
import { Seeded } from '../../../support/seeded.js'

const codec = codecOf('msgpack')!
const bytesOf = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex')
const linesOf = (records: Buffer, decode = codec) => {
  const frame = new FramedSplitter(decode.framing!, 1 << 20).push(records)
  return frame ? frame.chunk.toString('utf8', 0, frame.bytes).trimEnd().split('\n') : []
}
/** What a value in hexadecimal becomes, as the value of `a`. */
const jsonOf = (hex: string, decode = codec) => /^\{"a":(.*)\}$/.exec(linesOf(bytesOf(`81a161${hex}`), decode)[0]!)?.[1]
const written = (...events: string[]) => Buffer.concat(encodeLines(codec, [batchOf(events)]).parts)

const FORMATS: [name: string, hex: string, json: string][] = casesOf(import.meta.url, 'formats')

t.test('every format of the specification', t => {
  for (const [name, hex, json] of FORMATS) t.equal(jsonOf(hex), json, name)
  const frame = new FramedSplitter(codec.framing!, 1 << 20).push(bytesOf('81a161 a3 61 ff 62'))!
  t.ok(isUtf8(frame.chunk), 'the line of a text that is no UTF-8 is')
  t.equal(jsonOf('c4 03 22 c3 a9', codecOf('msgpack', { binary: 'text' })!), '"\\"é"', 'binary: text')
  t.end()
})

t.test('entries of Fluentd and Fluent Bit are their map, with their time', t => {
  const cases: [hex: string, line: string][] = casesOf(import.meta.url, 'entries')
  for (const [hex, line] of cases) t.same(linesOf(bytesOf(hex)), [line], hex)
  const text = codecOf('msgpack', { binary: 'text' })!
  t.same(
    linesOf(bytesOf('92 01 81 c4 09 74696d657374616d70 c0'), text),
    ['{"timestamp":null}'],
    'a key of the type bin',
  )
  t.end()
})

t.test('what is no event is kept in base64, and what follows it is read', t => {
  const deep = (levels: number) => '91'.repeat(levels)
  const cases: [name: string, hex: string][] = [
    ['an array', '91 01'],
    ['a pair without a time', '92 a1 61 80'],
    ['a pair without a map', '92 01 02'],
    ['an array as a key', '81 90 01'],
    ['an extension as a key', '81 d4 01 00 01'],
    ['too deep', `81 a1 61 ${deep(256)} 01`],
  ]
  for (const [name, hex] of cases) {
    const bytes = bytesOf(hex)
    t.same(linesOf(Buffer.concat([bytes, bytesOf('80')])), [bytes.toString('base64'), '{}'], name)
  }
  t.equal(linesOf(bytesOf(`81 a1 61 ${deep(255)} 01`))[0]!.length, '{"a":1}'.length + 2 * 255)
  t.end()
})

t.test('events are written in the shortest form, with all of their digits', t => {
  const cases: [json: string, hex: string][] = [
    ['{}', '80'],
    ['{"a":[]}', '81 a161 90'],
    [' { "a" : [ 1 , { } ] } ', '81 a161 92 01 80'],
    [
      '{"a":[127,128,255,256,65535,65536,4294967295,4294967296]}',
      '81 a161 98 7f cc80 ccff cd0100 cdffff ce00010000 ceffffffff cf0000000100000000',
    ],
    [
      '{"a":[-1,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649]}',
      '81 a161 99 ff e0 d0df d080 d1ff7f d18000 d2ffff7fff d280000000 d3ffffffff7fffffff',
    ],
    ['{"a":[18446744073709551615,-9223372036854775808]}', '81 a161 92 cfffffffffffffffff d38000000000000000'],
    [
      '{"a":[18446744073709551616,1.5,1.0,2e0]}',
      '81 a161 94 cb43f0000000000000 cb3ff8000000000000 cb3ff0000000000000 cb4000000000000000',
    ],
    ['{"a":[true,false,null,"\\u00e9\\n","é"]}', '81 a161 95 c3 c2 c0 a3c3a90a a2c3a9'],
    [`{"a":"${'x'.repeat(32)}"}`, `81 a161 d920 ${'78'.repeat(32)}`],
    [`{"a":"${'x'.repeat(256)}"}`, `81 a161 da0100 ${'78'.repeat(256)}`],
    [`{"a":"${'x'.repeat(65_536)}"}`, `81 a161 db00010000 ${'78'.repeat(65_536)}`],
    [`{"a":[${Array(16).fill('1')}]}`, `81 a161 dc0010 ${'01'.repeat(16)}`],
    [`{"a":[${Array(65_536).fill('1')}]}`, `81 a161 dd00010000 ${'01'.repeat(65_536)}`],
  ]
  for (const [json, hex] of cases) t.equal(written(json).toString('hex'), hex.replaceAll(' ', ''), json.slice(0, 80))
  t.end()
})

t.test('what is written is read as it was, in portions of any size', t => {
  const random = new Seeded(7)
  const anyText = () =>
    Array.from({ length: random.below(4) }, () => random.pick([...'ab "\\\n', 'é', '\u{1f600}'])).join('')
  const anyValue = (level: number): unknown => {
    const kind = random.below(level > 3 ? 4 : 6)
    if (kind === 0) return random.pick([null, true, false, 0.5, -1e300])
    if (kind === 1) return random.pick([1, -1]) * random.below(2 ** random.below(50))
    if (kind < 4) return anyText().repeat(random.chance(0.1) ? 50 : 1)
    const members = Array.from({ length: random.below(random.chance(0.1) ? 40 : 4) }, () => anyValue(level + 1))
    return kind === 4 ? members : Object.fromEntries(members.map((member, i) => [anyText() + i, member]))
  }
  for (let round = 0; round < 200; round++) {
    const events = Array.from({ length: 5 }, () => JSON.stringify({ a: anyValue(0), b: anyValue(0) }))
    const records = written(...events)
    const splitter = new FramedSplitter(codec.framing!, 1 << 20)
    let lines = ''
    for (let at = 0; at < records.length; ) {
      const size = 1 + random.below(random.pick([1, 9, 1000]))
      const frame = splitter.push(records.subarray(at, at + size))
      at += size
      if (frame) lines += frame.chunk.toString('utf8', 0, frame.bytes)
    }
    if (lines !== `${events.join('\n')}\n`) t.equal(lines, `${events.join('\n')}\n`, `round ${round}`)
    if (splitter.pending !== 0) t.equal(splitter.pending, 0)
  }
  // Deeper than the stack.
  const deep = `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`
  t.equal(written(deep).length, 3 + 15 + 5 * (50_000 - 15))
  t.end()
})

t.test('a record that is too long is skipped, however it comes', t => {
  const records = Buffer.concat([written('{"n":1}'), written(`{"n":"${'x'.repeat(3000)}"}`), written('{"n":2}')])
  for (const size of [1, 700, 10_000]) {
    let skipped = 0
    const splitter = new FramedSplitter(codec.framing!, 2000, () => skipped++)
    let lines = ''
    let most = 0
    for (let at = 0; at < records.length; at += size) {
      const frame = splitter.push(records.subarray(at, at + size))
      if (frame) lines += frame.chunk.toString('utf8', 0, frame.bytes)
      most = Math.max(most, splitter.pending)
    }
    t.same([lines, skipped], ['{"n":1}\n{"n":2}\n', 1], `portions of ${size}`)
    t.ok(most <= 2000, `${most} bytes were kept`)
  }
  t.end()
})

t.test('behind bytes that are no record nothing is read, and the error has their place', t => {
  const record = written('{"n":1}')
  for (const [bytes, error] of [
    ['68', 'byte 1008: 0x68 does not begin a map of MessagePack'],
    ['81 a161 c1', 'byte 1011: 0xc1 is not a type of MessagePack'],
  ] as const) {
    const splitter = new FramedSplitter(codec.framing!, 2000, undefined, 1000)
    t.equal(splitter.push(Buffer.concat([record, record, bytesOf(bytes), record]))?.length, 2)
    t.equal(splitter.problem?.message, error)
    t.throws(() => splitter.push(record), { message: error })
    t.equal(splitter.pending, bytesOf(bytes).length + record.length, 'what could not be read is pending')
  }
  t.end()
})

t.test('a field has a record in base64, or JSON', t => {
  const read = (text: string) => readFields(codec, Buffer.from(text))
  t.same(read(bytesOf('81a16101').toString('base64')), { a: 1 })
  t.same(read(' gaFhAQ== '), { a: 1 })
  t.same(read('{"a":1}'), { a: 1 })
  for (const text of ['', 'gaFhA', 'gaFhAQEB', 'kQE=', '?', 'hello']) t.equal(read(text), undefined, text)
  t.end()
})
