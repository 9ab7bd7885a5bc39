import t from 'tap'
import { encodeAlone, encodeLines, eventText, RawEncoder } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { codecOf, createCodec } from '../../../../src/core/codecs/list.js'
import { writer } from '../../../../src/core/codecs/options.js'
import { Ack } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { LineSplitter } from '../../../../src/lib/lines/line-splitter.js'
import { batchesOf, batchOf, originOf } from '../../../support/batches.js'
import { parsedLines } from '../../../support/parsed-lines.js'
import { Seeded, seeded } from '../../../support/seeded.js'

const text = (encoded: { parts: Buffer[]; bytes: number }) => {
  const all = Buffer.concat(encoded.parts)
  t.equal(all.length, encoded.bytes, 'the size that is said is the size that is there')
  return all.toString()
}
const raw = (batches: EventBatch[], open?: boolean) => text(new RawEncoder(open).encode(batches))
const ndjson = (batches: EventBatch[]) => text(encodeLines(JSON_OBJECTS, batches))

t.test('raw: lines as they came', async t => {
  const cases: [string, string][] = [
    ['plain', 'a\nb\nc\n'],
    ['no line end at the end', 'a\nb'],
    ['carriage returns', 'a\r\nb\r\n\r\nc\n'],
    ['empty lines', '\n\n\na\n\n'],
    ['NUL and control bytes', 'a\0b\n\x01\x7f\n'],
    ['nothing but an unfinished line', 'abc'],
  ]
  for (const [name, input] of cases) {
    t.equal(raw(batchesOf(input, originOf('text'))), input, name)
    t.equal(raw(batchesOf(input, originOf('json'))), input, `${name}, decoded as JSON`)
  }
  const invalid = Buffer.from([0x61, 0xff, 0xfe, 0x0a, 0xc3, 0x0a])
  t.same(Buffer.concat(new RawEncoder().encode(batchesOf(invalid, originOf('text'))).parts), invalid, 'invalid UTF-8')
})

t.test('memory of copies is used again once they are released, and only then', t => {
  const encoded = (text: string) => encodeAlone('raw', [batchOf([text.repeat(1000)])])
  const one = encoded('a')
  const other = encoded('b')
  t.equal(Buffer.concat(one.parts).toString(), `${'a'.repeat(1000)}\n`)
  t.equal(Buffer.concat(other.parts).toString(), `${'b'.repeat(1000)}\n`)
  one.release?.()
  one.release?.()
  const [next, another] = [encoded('c'), encoded('d')]
  t.equal(next.parts[0]!.buffer, one.parts[0]!.buffer)
  t.equal(Buffer.concat(other.parts).toString(), `${'b'.repeat(1000)}\n`)
  t.equal(Buffer.concat(next.parts).toString(), `${'c'.repeat(1000)}\n`)
  t.equal(Buffer.concat(another.parts).toString(), `${'d'.repeat(1000)}\n`, 'not given out twice')
  t.end()
})

t.test('raw: an unfinished line is only continued by its own rest', async t => {
  const a = originOf('text', '/a')
  const b = originOf('text', '/b')
  const splitter = new LineSplitter(1 << 20)
  const first = batchesOf('begin', a, undefined, splitter)
  const rest = batchesOf(' end\n', a, undefined, splitter)
  const other = batchesOf('other\n', b)
  t.equal(raw([...first, ...rest, ...other]), 'begin end\nother\n')
  t.equal(raw([...batchesOf('begin', a), ...batchesOf('other\n', b)]), 'begin\nother\n')
  t.equal(
    raw([...batchesOf('one', a), ...batchesOf('two', a)]),
    'one\ntwo',
    'the next line of the same origin is not the rest',
  )
  const encoder = new RawEncoder(true)
  t.equal(text(encoder.encode(batchesOf('x\n', a))), '\nx\n', 'after a file that ended in the middle of a line')
  t.equal(text(new RawEncoder(true).encode(rest)), ' end\n', 'unless it is the rest of it')
})

t.test('raw: over-long lines come out whole, changed events as JSON', async t => {
  const long = `${'é'.repeat(3000)}\nshort\n`
  t.equal(raw(batchesOf(long, originOf('text'), undefined, new LineSplitter(1024))), long)
  const [batch] = batchesOf('{"a":1}\n{"a":2}\n{"a":3}\n', originOf('json'))
  batch!.scan()
  batch!.modify(1, { a: 'changed' })
  t.equal(raw([batch!]), '{"a":1}\n{"a":"changed"}\n{"a":3}\n')
})

t.test('raw and NDJSON of what is left after dropping events', async t => {
  const random = seeded(7)
  for (let round = 0; round < 200; round++) {
    const lines = Array.from({ length: 1 + Math.floor(random() * 40) }, (_, n) => {
      const size = random() < 0.05 ? 20_000 : random() * 60
      return JSON.stringify({ n, pad: 'x'.repeat(size) }) + (random() < 0.3 ? '\r\n' : '\n')
    })
    const [batch] = batchesOf(lines.join(''), originOf('json'))
    batch!.scan()
    const share = random()
    const kept = lines.map(() => random() < share)
    batch!.retain(i => kept[i]!)
    const changed = new Set(kept.flatMap((keep, i) => (keep && random() < 0.2 ? [i] : [])))
    let at = 0
    for (const [i, keep] of kept.entries()) {
      if (!keep) continue
      if (changed.has(i)) batch!.modify(at, { changed: i })
      at++
    }
    const expected = (line: (i: number) => string) =>
      kept.map((keep, i) => (keep ? (changed.has(i) ? `{"changed":${i}}\n` : line(i)) : '')).join('')
    if (random() < 0.5) batch!.compact()
    if (raw([batch!]) !== expected(i => lines[i]!)) return t.fail(`raw differs in round ${round}`)
    const plain = expected(i => lines[i]!.replace('\r\n', '\n'))
    if (ndjson([batch!]) !== plain) return t.fail(`NDJSON differs in round ${round}`)
  }
})

t.test('NDJSON', async t => {
  const time = new Date(1_700_000_000_000).toISOString()
  const meta = { file: '/x', host: 'h', timestamp: time }
  const parsed = (batches: EventBatch[]) => parsedLines(ndjson(batches))
  t.same(parsed(batchesOf('plain\n"quoted" \\ \t\nünï\n\n', originOf('text', '/x'))), [
    { message: 'plain', ...meta },
    { message: '"quoted" \\ \t', ...meta },
    { message: 'ünï', ...meta },
    { message: '', ...meta },
  ])
  t.same(parsed(batchesOf('no path\n', originOf('text'))), [{ message: 'no path', host: 'h', timestamp: time }])
  t.equal(ndjson(batchesOf('{"a":1}\r\n {"b":2} \n{"c":3}', originOf('json'))), '{"a":1}\n {"b":2} \n{"c":3}\n')
  t.same(parsed(batchesOf('{"a":1}\nnot json\n[1]\n{"a":2}\n', originOf('json', '/x'))), [
    { a: 1 },
    { message: 'not json', ...meta },
    { message: '[1]', ...meta },
    { a: 2 },
  ])
  const bytes = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff]), Buffer.from('"}\n')])
  const line = bytes.subarray(0, -1)
  t.same(parsed(batchesOf(bytes, originOf('json'))), [{ a: '\ufffd', raw: line.toString('base64') }], 'invalid UTF-8')
  const pieces = batchesOf(`${'y'.repeat(2500)}\nz\n`, originOf('text', '/x'), undefined, new LineSplitter(1024))
  t.same(parsed(pieces), [
    { message: 'y'.repeat(1024), ...meta, partial: 'first' },
    { message: 'y'.repeat(1024), ...meta, partial: 'middle' },
    { message: 'y'.repeat(452), ...meta, partial: 'last' },
    { message: 'z', ...meta },
  ])
  t.equal(ndjson([]), '')
})

t.test('one event by itself is written as among others', t => {
  const lines = ['{"a":1}', '{"b": "\\u00e4"}', 'no JSON', '', '{"c":2}\r']
  for (const decode of ['json', 'text']) {
    const [batch] = batchesOf(`${lines.join('\n')}\n`, originOf(decode)) as [EventBatch]
    batch.modify(4, { changed: true })
    for (const encoding of ['raw', JSON_OBJECTS] as const) {
      const alone = Array.from({ length: batch.length }, (_, i) => `${eventText(encoding, batch, i)}\n`)
      t.equal(alone.join(''), text(encodeAlone(encoding, [batch])), `${decode}, as ${encoding}`)
    }
  }
  const [invalid] = batchesOf(Buffer.from([0x61, 0xff, 0x0a]), originOf('text')) as [EventBatch]
  t.match(JSON.parse(eventText('raw', invalid, 0)), { raw: 'Yf8=' }, 'what is not text, as the event that has it')
  t.end()
})

t.test('text becomes the same JSON as by way of an object, byte for byte', t => {
  const random = new Seeded(9)
  const parts = [
    'a',
    'plain text ',
    '"',
    '\\',
    '\t',
    '\0',
    '\x1f',
    '\x7f',
    'é',
    '😀',
    '\u2028',
    '\r',
    'x'.repeat(3000),
    '"'.repeat(3000),
  ]
  for (let round = 0; round < 300; round++) {
    const lines = Array.from({ length: 1 + random.below(5) }, () => {
      const line = Array.from({ length: random.below(6) }, () => random.pick(parts)).join('')
      return random.chance(0.05) ? Buffer.from([0x61, 0xff, 0x22]) : line
    })
    const origin = { ...(random.chance(0.5) && { path: '/a "b"' }), ...(random.chance(0.5) && { peer: '192.0.2.1' }) }
    const batch = batchOf(lines, { decode: 'text', maxLineBytes: random.pick([50, 1e6]), receivedAt: round, ...origin })
    if (batch.length > 1 && random.chance(0.3)) batch.modify(1, { message: 'changed' })
    const objects = Array.from({ length: batch.length }, (_, i) => `${JSON.stringify(batch.fields(i))}\n`)
    if (ndjson([batch]) !== objects.join('')) return t.equal(ndjson([batch]), objects.join(''), `round ${round}`)
  }
  t.pass('300 batches')
  t.end()
})

t.test('lines of csv and logfmt become the same JSON as by way of an object, byte for byte', t => {
  const random = new Seeded(10)
  const texts = [
    '',
    'a',
    'plain',
    '"x y"',
    '"a ""b"""',
    '"\\"\\n\\\\"',
    'é😀',
    '\\',
    'a\\tb',
    '\x01',
    '"\\ud800"',
    '"a\\u00e9"',
    'true',
  ]
  const keys = [
    'a',
    'b',
    'host',
    'timestamp',
    'file',
    'partial',
    '__proto__',
    '7',
    'k\\"',
    'é',
    'level',
    'message',
    '7a',
    '',
  ]
  const columns = ['a', 'host', 'x"y', 'é', 'message', '__proto__', 'file', 'timestamp', '1']
  for (let round = 0; round < 2000; round++) {
    const own = columns.filter(() => random.chance(0.5))
    const isCsv = random.chance(0.4) && own.length > 0
    const cells = () => Array.from({ length: random.chance(0.9) ? own.length : 2 }, () => random.pick(texts)).join(',')
    const pair = () => random.pick(keys) + (random.chance(0.9) ? `=${random.pick(texts)}` : '')
    const line = () =>
      isCsv ? cells() : Array.from({ length: random.below(random.chance(0.02) ? 80 : 6) }, pair).join(' ')
    const lines = Array.from({ length: 1 + random.below(4) }, () => random.pick(['', '', '\ufeff']) + line())
    const decode = isCsv ? { codec: 'csv', columns: own } : 'logfmt'
    const batch = batchOf(lines, { decode, maxLineBytes: random.pick([30, 1e6]), path: '/a', peer: '192.0.2.1' })
    const objects = Array.from({ length: batch.length }, (_, i) => `${JSON.stringify(batch.fields(i))}\n`).join('')
    if (ndjson([batch]) !== objects) return t.same([lines, ndjson([batch])], [lines, objects])
  }
  t.pass('2,000 batches')
  t.end()
})

t.test('many keys, other times of one origin, and long texts with escapes', t => {
  const keys = batchOf([Array.from({ length: 70 }, (_, n) => `k${n}=${n}`).join(' ')], { decode: 'logfmt' })
  t.same(JSON.parse(ndjson([keys])), keys.fields(0))
  const origin = originOf('text')
  const at = (time: number) =>
    new EventBatch(new LineSplitter(100).push(Buffer.from('a\n'))!, origin, time, new Ack(() => {}))
  const times = ndjson([at(0), at(1000), at(0)])
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line).timestamp.slice(17, 19))
  t.same(times, ['00', '01', '00'])
  const texts = ['"', '\t', '\u0001'].map(character => character.repeat(20_000))
  const long = ndjson([batchOf(texts, { decode: 'text' })])
    .split('\n')
    .slice(0, -1)
  t.ok(long.every((line, i) => JSON.parse(line).message === texts[i]))
  const requests = ['a', 'b'].map(
    path => `192.0.2.7 - - [31/Jan/2026:12:00:00 +0000] "GET /${path.repeat(20_000)} HTTP/1.1" 200 1`,
  )
  for (const lines of [requests, requests.map(line => `${line} \\`)]) {
    const batch = batchOf(lines, { decode: 'nginx' })
    t.same(
      parsedLines(ndjson([batch])),
      lines.map((_, i) => batch.fields(i)),
    )
  }
  t.end()
})

t.test('an event is written as a message of RFC 5424', async t => {
  const syslog = codecOf('syslog')!
  const time = '2026-01-31T12:00:00.123456+01:00'
  const deep = '['.repeat(20_000) + ']'.repeat(20_000)
  const cases: [string, object, string][] = [
    [
      'all fields',
      { message: 'a b', timestamp: time, host: 'h', app: 'a', pid: 7, msgid: 'm', facility: 'cron', severity: 'err' },
      `<75>1 ${time} h a 7 m - a b`,
    ],
    ['none', {}, '<14>1 - - - - - -'],
    ['a severity by another name', { message: 'm', level: 'ERROR' }, '<11>1 - - - - - - m'],
    ['the severity before the level', { message: 'm', severity: 'debug', level: 'error' }, '<15>1 - - - - - - m'],
    ['a severity by number', { message: 'm', severity: 'x', severity_code: 2 }, '<10>1 - - - - - - m'],
    ['numbers that are no severity', { message: 'm', severity_code: 8, level: 30 }, '<14>1 - - - - - - m'],
    ['another timestamp', { message: 'm', timestamp: 'Jan 31 12:00:00' }, '<14>1 - - - - - - m'],
    ['words', { message: 'm', host: 'a b\n\u00e9', app: 'x'.repeat(60) }, `<14>1 - a_b__ ${'x'.repeat(48)} - - - m`],
    ['line ends', { message: 'a\r\nb\nc\r' }, '<14>1 - - - - - - a b c '],
    [
      'structured data',
      { message: '', structured_data: { 'a@1': { 'x y=': 'q"b]\\\n', n: 1, l: ['a', 'b'] }, e: {}, s: 'text' } },
      '<14>1 - - - - - [a@1 x_y_="q\\"b\\]\\\\ " n="1" l="a" l="b"][e][s]',
    ],
    [
      'names that become the same',
      { structured_data: { 'a b': { x: 1 }, a_b: { x: 2, 'y]': 3 } } },
      '<14>1 - - - - - [a_b x="1" x="2" y_="3"]',
    ],
    ['no structured data', { message: 'm', structured_data: [1] }, '<14>1 - - - - - - m'],
    ['no message', { host: 'h', user: 'u', n: 1 }, '<14>1 - h - - - - {"user":"u","n":1}'],
    ['a message that is no text', { message: { a: 1 } }, '<14>1 - - - - - - {"a":1}'],
    ['a facility that has no text', { message: 'm', facility: { toString: 1 } }, '<14>1 - - - - - - m'],
    ['a deep message', { message: JSON.parse(deep) }, `<14>1 - - - - - - ${deep}`],
    ['another deep field', { a: JSON.parse(deep) }, `<14>1 - - - - - - {"a":${deep}}`],
    [
      'deep structured data',
      { structured_data: { a: { b: [JSON.parse(deep)] } } },
      `<14>1 - - - - - [a b="${deep.replaceAll(']', '\\]')}"]`,
    ],
  ]
  for (const [what, event, line] of cases) {
    t.ok(syslog.encode!(event as never) === line, what)
    const batch = batchOf([line], { decode: 'syslog' })
    t.equal(batch.scan(), 0, what)
    const read = syslog.fields(batch.chunk, batch.starts[0]!, batch.ends[0]!, 0)
    if (what !== 'none') t.equal(syslog.encode!(read), line, `${what}, read again`)
  }
})

t.test('text: one field of each event, as one line', async t => {
  const encoding = (field: string) => createCodec('text', { field }, writer)
  const written: [line: string, text: string][] = [
    ['{"m":"one"}', 'one'],
    ['{"m":""}', ''],
    ['{"m":"a\\nb\\r\\nc\\rd"}', 'a b c d'],
    ['{"m":{"a":[1, 2]}}', '{"a":[1,2]}'],
    ['{"m":12345678901234567890}', '12345678901234567890'],
    ['{"m":true}', 'true'],
    ['{"other":1}', '{"other":1}'],
    ['{"m":null}', '{"m":null}'],
  ]
  const codec = encoding('.m')
  const missing: string[] = []
  codec.onLeftOut = field => missing.push(field)
  const batch = batchOf(written.map(([line]) => line))
  t.equal(text(encodeLines(codec, [batch])), written.map(([, text]) => `${text}\n`).join(''))
  t.same(missing, ['.m', '.m'], 'whole events')
  t.equal(eventText(codec, batch, 2), 'a\nb\r\nc\rd', 'line ends, where events are separate')
  batch.modify(0, { m: 'changed' })
  t.match(text(encodeLines(codec, [batch])), /^changed\n/)
  const lines = batchesOf('plain\r\nlines\n', originOf('text'))
  t.equal(text(encodeLines(encoding('.message'), lines)), 'plain\nlines\n')
  t.equal(text(encodeLines(encoding('.host'), batchesOf('a\n', originOf('text')))), `${lines[0]!.origin.host}\n`)
})
