import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { parse } from '../../../../src/components/processors/parse.js'
import { type Codec, loadCodecs } from '../../../../src/core/codec.js'
import { encodeLines } from '../../../../src/core/codecs/encode.js'
import { createCodec } from '../../../../src/core/codecs/list.js'
import { OutOfReach, type Reach } from '../../../../src/core/options/reach.js'
import { FramedSplitter } from '../../../../src/lib/lines/framed-splitter.js'
import { batchOf } from '../../../support/batches.js'
import { checkout } from '../../../support/checkout.js'
import { readFields } from '../../../support/codecs.js'
import { testFolder } from '../../../support/folder.js'

interface Vectors {
  /** Of `message All` of proto3, with a field of every type. */
  readonly descriptor: string
  /** As the library of Protocol Buffers for Python writes them, and their JSON. */
  readonly cases: readonly { name: string; bytes: string; json: Record<string, unknown> }[]
}

const { descriptor, cases } = JSON.parse(
  readFileSync(join(checkout, 'test/support/protobuf-vectors.json'), 'utf8'),
) as Vectors
/** `message Old` of proto2: required int32 id = 1; repeated int32 list = 2, packed = 3; group Part = 4; string text = 5. */
const OLD =
  'CqsBCgl0d28ucHJvdG8SBGFjbWUilwEKA09sZBIOCgJpZBgBIAIoBVICaWQSEgoEbGlzdBgCIAMoBVIEbGlzdBIaCgZwYWNrZWQYAyADKAVCAhABUgZwYWNrZWQSIgoEcGFydBgEIAEoCjIOLmFjbWUuT2xkLlBhcnRSBHBhcnQSFgoEdGV4dBgFIAEoCToCaGlSBHRleHQaFAoEUGFydBIMCgF4GAEgASgFUgF4'

const all = createCodec('protobuf', { descriptor, message: 'acme.logs.All' })
const old = createCodec('protobuf', { descriptor: OLD, message: 'acme.Old' })
const EXACT = new Set(cases.map(({ name }) => name).filter(name => !/^(any|maps|messages|known|empty)/.test(name)))
const bytesOf = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex')

/** With a varint of its length, of two bytes at most. */
function record(message: Buffer): Buffer {
  const { length } = message
  return Buffer.concat([Buffer.from(length < 128 ? [length] : [(length & 127) | 128, length >> 7]), message])
}

function linesOf(records: Buffer, codec: Codec): string[] {
  const frame = new FramedSplitter(codec.framing!, 1 << 20).push(records)
  return frame ? frame.chunk.toString('utf8', 0, frame.bytes).trimEnd().split('\n') : []
}

const read = (hex: string, codec = all) => linesOf(record(bytesOf(hex)), codec)[0]
const written = (json: string, codec = all) => Buffer.concat(encodeLines(codec, [batchOf([json])]).parts)
const rewritten = (json: string) => linesOf(written(json), all)[0]

t.test('messages of every type are the JSON that the library makes of them, and are written as they were', t => {
  for (const { name, bytes, json } of cases) {
    t.same(JSON.parse(read(bytes)!), json, name)
    // Nothing says of what type it was.
    if (name.startsWith('any')) continue
    const again = linesOf(written(JSON.stringify(json)), all)[0]!
    t.same(JSON.parse(again), json, `${name}, written`)
    // Maps have any order, and zeros may be left out.
    if (EXACT.has(name)) t.equal(written(JSON.stringify(json)).toString('hex'), record(bytesOf(bytes)).toString('hex'))
  }
  t.end()
})

t.test('the examples of the documentation of the encoding', t => {
  t.equal(read('08 96 01', old), '{"id":150}')
  t.equal(read('2a 07 74 65 73 74 69 6e 67', old), '{"text":"testing"}')
  t.equal(read('1a 06 03 8e 02 9e a7 05', old), '{"packed":[3,270,86942]}')
  t.equal(written('{"packed":[3,270,86942]}', old).toString('hex'), '081a06038e029ea705')
  t.equal(written('{"list":[3,270]}', old).toString('hex'), '051003108e02', 'not packed in proto2')
  t.equal(written('{"packed":[]}', old).toString('hex'), '00')
  t.end()
})

t.test('fields that are unknown, groups, and wire types that do not fit are left out', t => {
  for (const [hex, line] of [
    ['08 01 f8 07 05', '{"id":1}'],
    ['08 01 fa 07 02 68 69', '{"id":1}'],
    ['08 01 f9 07 0000000000000000 fd 07 00000000', '{"id":1}'],
    ['23 08 01 24 08 02', '{"id":2}'],
    ['fb 07 0b 08 01 0c fc 07 08 02', '{"id":2}'],
    ['0d 00000000', '{}'],
    ['28 01', '{}'],
  ] as const)
    t.equal(read(hex, old), line, hex)
  t.end()
})

t.test('a field that comes again: the last one, all elements, one message', t => {
  for (const [hex, line] of [
    ['08 01 08 02', '{"id":2}'],
    ['10 01 08 05 10 02', '{"list":[1,2],"id":5}'],
    ['12 02 01 02 10 03', '{"list":[1,2,3]}'],
    ['12 00 10 03', '{"list":[3]}'],
    ['12 00', '{"list":[]}'],
    ['18 01 1a 01 02', '{"packed":[1,2]}'],
  ] as const)
    t.equal(read(hex, old), line, hex)
  // child { s: "a" }, child { i32: 5 }
  t.equal(read('b2 01 03 4a 01 61 b2 01 02 28 05'), '{"child":{"s":"a","i32":5}}')
  t.equal(read('c2 01 01 61 c8 01 05'), '{"name_number":5}', 'a oneof')
  t.equal(read('a2 01 03 0a 01 61 40 01 a2 01 05 0a 01 62 10 03'), '{"counts":{"a":"0","b":"3"},"b":true}')
  t.end()
})

t.test('names and integers as they are wanted', t => {
  const codec = createCodec('protobuf', { descriptor, message: 'acme.logs.All', field_names: 'json', int64: 'number' })
  t.equal(read('18 ff ff ff ff ff ff ff ff 7f c8 01 05', codec), '{"i64":9223372036854775807,"nameNumber":5}')
  t.equal(rewritten('{"nameNumber":5}'), '{"name_number":5}')
  t.end()
})

t.test('what is not of the message is kept in base64, and what follows it is read', t => {
  const deep = (levels: number) => {
    let message = Buffer.alloc(0)
    for (let n = 0; n < levels; n++) message = Buffer.concat([Buffer.from([0xb2, 0x01]), record(message)])
    return message
  }
  for (const [name, bytes] of [
    ['cut off', bytesOf('08')],
    ['a length beyond the end', bytesOf('4a 05 61')],
    ['a long varint', bytesOf('08 ff ff ff ff ff ff ff ff ff ff 01')],
    ['a group that does not end', bytesOf('23 08 01')],
    ['the end of a group', bytesOf('24')],
    ['a packed number that does not end', bytesOf('8a 01 01 80')],
    ['a message with more than its length', bytesOf('b2 01 02 4a 03 61 61 61')],
    ['no time', bytesOf('d2 01 0b 08 ff ff ff ff ff ff ff ff ff 7f 01')],
    ['too deep', deep(100)],
  ] as const) {
    const lines = linesOf(Buffer.concat([record(bytes), record(bytesOf('40 01'))]), all)
    t.same(lines, [bytes.toString('base64'), '{"b":true}'], name)
  }
  t.match(linesOf(record(deep(99)), all)[0], /^\{"child":\{"child":.*\}$/)
  t.end()
})

t.test('records of both framings, in portions of any size, and ones that are too long', t => {
  const events = [...cases.map(({ json }) => json), { s: 'x'.repeat(300) }].filter(json => !('any' in json))
  for (const framing of ['varint', 'length_delimited']) {
    const codec = createCodec('protobuf', { descriptor, message: 'acme.logs.All', framing })
    const records = Buffer.concat(events.map(json => written(JSON.stringify(json), codec)))
    for (const size of [1, 3, 100, 10_000]) {
      let skipped = 0
      const splitter = new FramedSplitter(codec.framing!, 250, () => skipped++)
      const found: unknown[] = []
      for (let at = 0; at < records.length; at += size) {
        const frame = splitter.push(records.subarray(at, at + size))
        if (!frame) continue
        const lines = frame.chunk.toString('utf8', 0, frame.bytes).trimEnd().split('\n')
        found.push(...lines.map(line => JSON.parse(line) as unknown))
      }
      t.same([skipped, splitter.pending], [1, 0], `${framing}, portions of ${size}`)
      t.ok(isDeepStrictEqual(found, events.slice(0, -1)), `${framing}, portions of ${size}`)
    }
  }
  t.end()
})

t.test('a record is also too long if its JSON is many times as long', t => {
  const splits = (packed: number) => {
    let skipped = 0
    const zeros = Buffer.alloc(packed)
    const message = Buffer.concat([bytesOf('aa 02'), record(zeros)])
    const frame = new FramedSplitter(all.framing!, 1024, () => skipped++).push(record(message))
    return [frame?.length, skipped]
  }
  // Each zero is "LEVEL_UNKNOWN".
  t.same(splits(500), [1, 0])
  t.same(splits(1000), [undefined, 1])
  t.end()
})

t.test('a record cannot become JSON of more than 64 times its size', t => {
  const part = (tag: number, content: Buffer | string) =>
    Buffer.concat([Buffer.from([tag]), record(Buffer.from(content))])
  const field = (name: string, rest: string) =>
    part(0x12, Buffer.concat([part(0x0a, name), bytesOf(rest), part(0x32, '.M')]))
  // repeated M m = 1; int32 xxx… = 2;
  const inner = part(0x12, Buffer.concat([part(0x0a, 'x'.repeat(600)), bytesOf('18 02 20 01 28 05')]))
  const type = part(0x22, Buffer.concat([part(0x0a, 'M'), field('m', '18 01 20 03 28 0b'), inner]))
  const file = part(0x0a, Buffer.concat([part(0x0a, 'm.proto'), type, part(0x62, 'proto3')]))
  const codec = createCodec('protobuf', { descriptor: file.toString('base64'), message: 'M' })
  const one = bytesOf('0a 02 10 01')
  t.match(linesOf(record(one), codec)[0], /^\{"m":\[\{"x{600}":1\}\]\}$/)
  const many = Buffer.concat(Array.from({ length: 100 }, () => one))
  t.equal(linesOf(record(many), codec)[0], many.toString('base64'))
  t.end()
})

t.test('behind a length that no message has nothing is read, and the error has its place', t => {
  const delimited = createCodec('protobuf', { descriptor, message: 'acme.logs.All', framing: 'length_delimited' })
  for (const [codec, hex, error] of [
    [all, '02 40 01 ff ff ff ff ff 01', 'byte 3: this is not the length of a message'],
    [all, '02 40 01 ff ff ff ff 0f', 'byte 3: 4294967295 is not the length of a message'],
    [delimited, '00000002 40 01 80000000', 'byte 6: 2147483648 is not the length of a message'],
  ] as const) {
    const splitter = new FramedSplitter(codec.framing!, 1 << 20)
    t.equal(splitter.push(bytesOf(hex))?.length, 1)
    t.equal(splitter.problem?.message, error)
  }
  t.end()
})

t.test('values are written into the field that there is, and those that do not fit are left out', t => {
  for (const [json, line] of [
    ['{"nothing_of":1,"b":true}', '{"b":true}'],
    ['{"s":5,"texts":[true,{"a":[1]},null]}', '{"s":"5","texts":["true","{\\"a\\":[1]}","null"]}'],
    [
      '{"i32":"12","u64":18446744073709551615,"i64":"-9","u32":1.0,"s32":-1e2}',
      '{"i32":12,"u64":"18446744073709551615","i64":"-9","u32":1,"s32":-100}',
    ],
    ['{"i32":2147483648,"u32":-1,"u64":-1,"i64":1.5,"s32":"x","f32":"","by":"?","b":1,"d":"x"}', '{}'],
    ['{"i32":null,"s":null,"child":null,"child2":null}', '{}'],
    ['{"level":"INFO","levels":[0,"ERROR","NONE",5]}', '{"level":"INFO","levels":["LEVEL_UNKNOWN","ERROR",5]}'],
    ['{"by":"_-8=","b":"true","d":"NaN","f":"-Infinity"}', '{"by":"/+8=","b":true,"d":"NaN","f":"-Infinity"}'],
    ['{"packed":[1,"x",2],"unpacked":3}', '{"packed":[1,2],"unpacked":[3]}'],
    ['{"child":5,"many":[{},5,{"b":true}],"nested":{"n":1}}', '{"many":[{},{"b":true}],"nested":{"n":1}}'],
    [
      '{"counts":{"a":1,"b":"x","c\\n":2},"by_flag":{"true":1,"x":1}}',
      '{"counts":{"a":"1","c\\n":"2"},"by_flag":{"true":"INFO"}}',
    ],
    ['{"at":"2026-01-31T13:00:00.5+01:00","took":"1s"}', '{"at":"2026-01-31T12:00:00.500Z","took":"1s"}'],
    ['{"at":1.25,"took":-1.5}', '{"at":"1970-01-01T00:00:01.250Z","took":"-1.500s"}'],
    ['{"at":"yesterday","took":"1h","mask":5,"data":[],"list":{},"any":{}}', '{}'],
    ['{"\\u0073":"\\u00e9\\n"}', '{"s":"é\\n"}'],
  ] as const)
    t.equal(rewritten(json), line, json)
  const deep = `${'{"child":'.repeat(5000)}{}${'}'.repeat(5000)}`
  t.match(rewritten(deep), /^\{.*\}$/, 'of many levels the outer ones')
  t.end()
})

t.test('each value that does not fit is told by the name of its field, and nothing else is', t => {
  const codec = createCodec('protobuf', { descriptor, message: 'acme.logs.All' })
  const fields: string[] = []
  codec.onLeftOut = field => fields.push(field)
  for (const [json, told] of [
    ['{"nothing_of":1,"s":5,"i32":null,"packed":[],"child":{}}', []],
    ['{"i32":2147483648,"b":1,"i64":"1"}', ['i32', 'b']],
    ['{"packed":[1,"x",2,"y"],"many":[{},5]}', ['packed', 'packed', 'many']],
    ['{"child":{"i32":"x"},"counts":{"a":1,"b":"x"},"by_flag":5}', ['i32', 'counts', 'by_flag']],
    ['{"at":"yesterday","any":{}}', ['at', 'any']],
  ] as const) {
    fields.length = 0
    written(json, codec)
    t.same(fields, told, json)
  }
  t.end()
})

t.test('long messages have their lengths, and do not end up in one another', t => {
  const events = ['a', 'b', 'c'].map(letter => `{"child":{"child":{"s":"${letter.repeat(20_000)}"}}}`)
  const records = Buffer.concat(encodeLines(all, [batchOf(events)]).parts)
  t.same(linesOf(records, all), events)
  t.end()
})

t.test('a field has a message in base64, without its length, or JSON', t => {
  t.same(readFields(all, Buffer.from(bytesOf('40 01').toString('base64'))), { b: true })
  t.same(readFields(all, Buffer.from('{"x":1}')), { x: 1 })
  t.equal(readFields(all, Buffer.from(bytesOf('08').toString('base64'))), undefined)
  t.end()
})

t.test('what is wrong with a definition is said', t => {
  const make = (options: object) => () => createCodec('protobuf', { message: 'acme.logs.All', ...options })
  t.throws(make({}), { message: /needs either descriptor_file or descriptor/ })
  t.throws(make({ descriptor, descriptor_file: '/x' }), { message: /needs either/ })
  t.throws(make({ descriptor: 'AAAA' }), { message: 'descriptor is not a set of descriptors' })
  t.throws(make({ descriptor, message: 'acme.log.All' }), {
    message: 'descriptor has no message acme.log.All; did you mean acme.logs.All?',
  })
  // Messages of google.protobuf: Timestamp; of acme.logs: Other, Event.
  const two =
    'CjoKAWcSD2dvb2dsZS5wcm90b2J1ZiIcCglUaW1lc3RhbXASDwoHc2Vjb25kcxgBIAEoA2IGcHJvdG8zCngKAWUSCWFjbWUubG9ncyIvCgVPdGhlchImCgJhdBgBIAEoCzIaLmdvb2dsZS5wcm90b2J1Zi5UaW1lc3RhbXAiLwoFRXZlbnQSJgoCYXQYASABKAsyGi5nb29nbGUucHJvdG9idWYuVGltZXN0YW1wYgZwcm90bzM='
  for (const [message, near] of [
    ['Event', 'acme.logs.Event'],
    ['Line', 'acme.logs.Other'],
    ['google.protobuf.Timestmp', 'google.protobuf.Timestamp'],
  ])
    t.throws(make({ descriptor: two, message }), {
      message: `descriptor has no message ${message}; did you mean ${near}?`,
    })
  t.throws(make({ descriptor, message: 'google.protobuf.Timestamp' }), { message: /is not an object in JSON$/ })
  // The last file alone, which needs the others.
  const whole = Buffer.from(descriptor, 'base64')
  const last = whole.subarray(whole.lastIndexOf('all.proto') - 5)
  t.throws(make({ descriptor: last.subarray(last.indexOf(0x0a)).toString('base64') }), {
    message:
      /^descriptor lacks google\.protobuf\.\w+, which acme\.logs\.All uses; write the file with protoc --include_imports/,
  })
  t.end()
})

t.test('fields that come again at every level are read in linear time', t => {
  // message A { A a = 1; int32 x = 2; }
  const nested = createCodec('protobuf', {
    descriptor: 'CioKAWYiHQoBQRINCgFhGAEgASgLMgIuQRIJCgF4GAIgASgFYgZwcm90bzM=',
    message: 'A',
  })
  let message: Buffer = Buffer.alloc(0)
  for (let n = 0; n < 40; n++) message = Buffer.concat([bytesOf('0a'), record(message), bytesOf('10 01 10 02')])
  t.equal(linesOf(record(message), nested)[0], `${'{"a":'.repeat(40)}{}${',"x":2}'.repeat(40)}`)
  t.end()
})

t.test('how long a field that comes again takes does not depend on how many fields there are', t => {
  const part = (number: number, bytes: Buffer) =>
    Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes])
  const varint = (n: number): Buffer => (n < 128 ? Buffer.of(n) : Buffer.of((n & 127) | 128, ...varint(n >> 7)))
  // message A { int32 f1 = 1; int32 f2 = 2; … }
  const codecWith = (count: number) => {
    const fields = Array.from({ length: count }, (_, i) => {
      const head = [part(1, Buffer.from(`f${i + 1}`)), Buffer.of(0x18), varint(i + 1), bytesOf('20 01 28 05')]
      return part(2, Buffer.concat(head))
    })
    const file = part(4, Buffer.concat([part(1, Buffer.from('A')), ...fields]))
    return createCodec('protobuf', { descriptor: part(1, file).toString('base64'), message: 'A' })
  }
  const again = Buffer.alloc(400_000, bytesOf('08 01'))
  const costOf = (count: number) => {
    const each = Array.from({ length: count }, (_, i) => Buffer.concat([varint((i + 1) << 3), Buffer.of(1)]))
    const message = Buffer.concat([...each, again])
    const records = Buffer.concat([varint(message.length), message])
    const codec = codecWith(count)
    const costs = [1, 2, 3].map(() => {
      const before = process.cpuUsage()
      t.match(linesOf(records, codec)[0], /^\{"f1":1/)
      const { user, system } = process.cpuUsage(before)
      return user + system
    })
    return Math.min(...costs)
  }
  const [few, many] = [costOf(2), costOf(2000)]
  t.ok(many < few * 20, `${few} µs with 2 fields, ${many} µs with 2000`)
  t.end()
})

t.test('an enum whose type is a message is an error of the definition', t => {
  // message A { enum A a = 1; }
  const given = { descriptor: 'Ch8KAWYiEgoBQRINCgFhGAEgASgOMgIuQWIGcHJvdG8z', message: 'A' }
  t.throws(() => createCodec('protobuf', given), { message: /^descriptor lacks A, which A uses/ })
  t.end()
})

t.test('a record with a FieldMask that is defined otherwise cannot be read', t => {
  // message FieldMask { int32 paths = 1; }
  const odd = createCodec('protobuf', {
    descriptor:
      'CjgKAWYSD2dvb2dsZS5wcm90b2J1ZiIaCglGaWVsZE1hc2sSDQoFcGF0aHMYASABKAViBnByb3RvMwo3CgFnIioKAUESJQoBbRgBIAEoCzIaLmdvb2dsZS5wcm90b2J1Zi5GaWVsZE1hc2tiBnByb3RvMw==',
    message: 'A',
  })
  t.equal(read('0a 02 08 05', odd), 'CgIIBQ==')
  t.end()
})

t.test('a wrapper that is defined otherwise is its value, or the record cannot be read', t => {
  // message StringValue { string va:l = 1; } message BoolValue { bool a = 1; bool b = 2; }
  // message A { StringValue t = 1; BoolValue u = 2; }
  const odd = createCodec('protobuf', {
    descriptor:
      'ClwKAWcSD2dvb2dsZS5wcm90b2J1ZiIbCgtTdHJpbmdWYWx1ZRIMCgR2YTpsGAEgASgJIiEKCUJvb2xWYWx1ZRIJCgFhGAEgASgIEgkKAWIYAiABKAhiBnByb3RvMwpgCgFhIlMKAUESJwoBdBgBIAEoCzIcLmdvb2dsZS5wcm90b2J1Zi5TdHJpbmdWYWx1ZRIlCgF1GAIgASgLMhouZ29vZ2xlLnByb3RvYnVmLkJvb2xWYWx1ZWIGcHJvdG8z',
    message: 'A',
  })
  t.equal(read('0a 03 0a 01 78', odd), '{"t":"x"}')
  t.equal(read('12 04 08 01 10 01', odd), Buffer.from('120408011001', 'hex').toString('base64'))
  t.end()
})

t.test('of an unreadable record the message is kept, for another attempt to read it', t => {
  for (const framing of ['varint', 'length_delimited']) {
    const one = createCodec('protobuf', { descriptor, message: 'acme.logs.All', framing })
    const message = bytesOf('2a 07 74 65 73 74 69 6e 67 0a')
    const size = framing === 'varint' ? bytesOf('0a') : bytesOf('0000000a')
    const [line] = linesOf(Buffer.concat([size, message]), one)
    t.equal(line, message.toString('base64'), framing)
  }
  t.end()
})

t.test('a file is read when the codec is used, and another one is another codec', t => {
  const path = join(testFolder(t), 'all.binpb')
  const make = () => createCodec('protobuf', { descriptor_file: path, message: 'acme.logs.All' })
  t.throws(() => make().load!(), { message: /^descriptor_file .*all\.binpb cannot be read \(ENOENT/ })
  const endless = createCodec('protobuf', { descriptor_file: '/dev/zero', message: 'acme.logs.All' })
  t.throws(() => endless.load!(), { message: 'descriptor_file /dev/zero cannot be read (it is not a regular file)' })
  t.ok(make().isSame(make()))
  writeFileSync(path, Buffer.from(descriptor, 'base64'))
  const codec = make()
  codec.load!()
  t.equal(read('40 01', codec), '{"b":true}')
  t.ok(codec.isSame(make()))
  writeFileSync(path, Buffer.concat([Buffer.from(descriptor, 'base64'), Buffer.from(OLD, 'base64')]))
  t.notOk(codec.isSame(make()))
  t.end()
})

t.test('a file is read within the limits of who uses it only', t => {
  const path = join(testFolder(t), 'all.binpb')
  writeFileSync(path, Buffer.from(descriptor, 'base64'))
  const make = () => createCodec('protobuf', { descriptor_file: path, message: 'acme.logs.All' })
  t.throws(() => written('{"b":true}', make()), { message: /is used before it was loaded$/ })
  const asked: string[] = []
  const reach = {
    realFile(file: string) {
      asked.push(file)
      if (asked.length > 1) throw new OutOfReach('not any more')
      return file
    },
  } as Reach
  const codec = make()
  codec.load!(reach)
  t.notOk(codec.isSame(make()), 'it cannot be read any more')
  t.notOk(make().isSame(codec))
  t.same(asked, [path, path, path])
  t.throws(() => loadCodecs({ to: [{ encoding: make() }] }, reach), { message: /not any more/ }, 'wherever it is named')
  t.end()
})

t.test('validate looks at the files of parse', async t => {
  const path = join(testFolder(t, { 'wrong.binpb': 'no definition' }), 'wrong.binpb')
  const { checkFiles } = await parse.checks!()
  const problemsOf = (given: object) => checkFiles!(parse.options.parse(given))
  const given = { codec: 'protobuf', message: 'M' }
  t.match(await problemsOf({ ...given, descriptor_file: path }), [
    { path: ['descriptor_file'], message: /is not a set of descriptors$/, isWarning: undefined },
  ])
  t.match(await problemsOf({ try: [{ codec: 'json' }, { ...given, descriptor_file: `${path}x` }] }), [
    { path: ['try', 1, 'descriptor_file'], message: /cannot be read/, isWarning: true },
  ])
  t.same(await problemsOf({ codec: 'json' }), [])
})
