import t from 'tap'
import { encodeLines, RawEncoder } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { Ack, type AckStatus } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { eventId } from '../../../../src/core/event/event-id.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { BatchDecoder, BatchRecordError, encodeBatch } from '../../../../src/engine/flow/disk-buffer/record.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { type BatchOptions, batchOf, fieldReaderOf } from '../../../support/batches.js'
import { Seeded } from '../../../support/seeded.js'

const decode = (record: Buffer, decoder = new BatchDecoder(new WantedNames())) =>
  decoder.decode(record, new Ack(() => {}))
const again = (batch: EventBatch) => decode(encodeBatch(batch))

/** All that anybody can see of a batch. */
function seen(batch: EventBatch) {
  const { length, bytes, receivedAt, origin } = batch
  const { source, path, host, codec } = origin
  const events = Array.from({ length }, (_, i) => {
    const size = batch.size(i)
    const [line, fields, modified] = [batch.line(i), batch.fields(i), (batch.flags[i]! & 128) !== 0]
    return { line: modified ? undefined : line.toString('latin1'), fields, modified, size, flags: batch.look(i) }
  })
  const text = (encoded: { parts: Buffer[] }) => Buffer.concat(encoded.parts).toString('latin1')
  return {
    ...{ length, bytes, receivedAt, source, path, host, codec, events },
    json: text(encodeLines(JSON_OBJECTS, [batch])),
    raw: text(new RawEncoder().encode([batch])),
  }
}

t.test('a batch comes back as it was', async t => {
  const cases: [string, EventBatch][] = [
    ['objects', batchOf(['{"a":1}', '{"b":"é"}'], { path: '/var/log/ä "b".log', receivedAt: 1_700_000_000_123 })],
    ['text', batchOf(['one', '', 'a "b" \\ \t', 'crlf\r'], { decode: 'text', source: 'other' })],
    ['not JSON, and half of it', batchOf(['nope', '{"a":', '{"a":1}\r', '[1]'])],
    ['bytes that are no text', batchOf([Buffer.from('\xff\x00\xfe', 'latin1'), Buffer.from('{"a":"\xff"}', 'latin1')])],
    ['no line end', batchOf(['no end'], { decode: 'text', unterminated: true })],
    ['pieces', batchOf(['x'.repeat(100), 'short'], { decode: 'text', maxLineBytes: 16 })],
    ['the longest with two bytes of a length', batchOf(['x'.repeat(65_535), 'short'], { decode: 'text' })],
    ['the shortest with four', batchOf(['x'.repeat(65_536), 'short'], { decode: 'text' })],
    ['nothing', batchOf([])],
  ]
  for (const [name, batch] of cases) {
    t.same(seen(again(batch)), seen(batch), name)
    batch.scan()
    t.same(seen(again(batch)), seen(batch), `${name}, looked at before`)
  }
  const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
  const changed = batchOf(['{"a":1}', 'text', '{"c":3}'])
  changed.modify(1, { message: 'new', list: [1, { x: null }], ['__proto__']: 1 })
  changed.modify(2, JSON.parse(`{"deep":${deep}}`))
  const copy = again(changed)
  t.equal(seen(copy).json, seen(changed).json, 'changed fields, deeper than the stack')
  t.equal(copy.bytes, changed.bytes, 'the size is that of the line as it was read')
  t.ok(copy.texts!.has(1) && !copy.texts!.has(0))
})

t.test('events keep their ids, if they are to', async t => {
  const ids = (batch: EventBatch) => Array.from({ length: batch.length }, (_, i) => eventId(batch, i))
  const batch = batchOf(['{"a":1}', '{"a":1}', '{"a":2}', '{"a":3}', 'text'])
  batch.sentOffsets = new SentOffsets(batch.starts[0]!, { reading: '0123456789abcdef', at: 2 ** 40 })
  const all = ids(batch)
  t.equal(new Set(all).size, 5)
  batch.modify(2, { changed: true })
  batch.retain(i => i !== 1)
  const left = ids(batch)
  t.same([left[0], left[2], left[3]], [all[0], all[3], all[4]])
  const kept = decode(encodeBatch(batch, 0, undefined, true))
  t.same(ids(kept), left)
  t.equal(seen(kept).json, seen(batch).json, 'and all else')
  kept.sentOffsets = new SentOffsets(kept.starts[0]!)
  const part = kept.fork(1, 4)
  part.retain(i => i > 0)
  part.move(Buffer.from(part.chunk), part.starts.slice(), part.ends.slice())
  t.same(ids(part), left.slice(2), 'and in parts')
  t.same(ids(decode(encodeBatch(part, 0, undefined, true))), left.slice(2), 'and once more')
  t.notSame(ids(again(batch)), left, 'where nobody asks, there is nothing to read')
})

t.test('the line of a modified event is not in it, since it may hold what was removed', async t => {
  const batch = batchOf(['{"a":"secret"}', 'secret', '{"kept":1}'])
  batch.modify(0, { b: 1 })
  batch.changeTo(1, Buffer.from('{"c":2}'))
  const record = encodeBatch(batch)
  t.notMatch(record.toString(), /secret/)
  t.match(record.toString(), /"kept"/)
  t.equal(decode(record).bytes, batch.bytes)
})

t.test('it is taken out of what it came in, whatever became of that', async t => {
  const random = new Seeded(3)
  for (let round = 0; round < 300; round++) {
    const lines = Array.from({ length: 1 + random.below(40) }, (_, i) =>
      random.pick([
        `{"n":${i},"s":"${'x'.repeat(random.below(50))}"}`,
        'x'.repeat(random.below(60)),
        '{"broken',
        'é\r',
      ]),
    )
    const options: BatchOptions = { decode: random.pick(['json', 'text']), maxLineBytes: random.pick([20, 1000]) }
    const batch = batchOf(lines, options)
    if (random.chance(0.5)) batch.scan()
    batch.retain(() => random.chance(0.7))
    for (let i = 0; i < batch.length; i++) if (random.chance(0.1)) batch.modify(i, { changed: i })
    const before = seen(batch)
    const record = encodeBatch(batch, 40)
    const copy = decode(record.subarray(40))
    if (JSON.stringify(seen(copy)) !== JSON.stringify(before)) return t.same(seen(copy), before, `round ${round}`)
    if (JSON.stringify(seen(batch)) !== JSON.stringify(before)) return t.same(seen(batch), before, 'it stays as it is')
  }
  t.pass('300 rounds')
})

t.test('fields are found in it, and origins are shared', async t => {
  const wanted = new WantedNames()
  const reader = fieldReaderOf('.app', wanted)
  const decoder = new BatchDecoder(wanted)
  const batch = batchOf(['{"app":"a"}', '{"x":{"app":1},"app":"b"}'], { wanted })
  batch.scan()
  const first = decode(encodeBatch(batch), decoder)
  reader.load(first, 1)
  t.equal(reader.text(), 'b')
  t.equal(decode(encodeBatch(batch), decoder).origin, first.origin, 'the same object')
  const other = decode(encodeBatch(batchOf(['{}'], { path: 'p', wanted })), decoder)
  t.not(other.origin, first.origin)
  t.equal(other.origin.path, 'p')
  for (let i = 0; i < 2500; i++) decode(encodeBatch(batchOf(['{}'], { path: `p${i}` })), decoder)
  t.equal(decode(encodeBatch(batchOf(['{}'], { path: 'p' })), decoder).origin.path, 'p', 'also after very many')
  const settled: AckStatus[] = []
  decoder.decode(encodeBatch(batch), new Ack(status => settled.push(status))).ack.settle('rejected')
  t.same(settled, ['rejected'], 'its ack is the one given')
})

t.test('what is no record is refused, not misread', async t => {
  const batch = batchOf(['{"a":1}', 'b'])
  batch.modify(1, { b: 1 })
  const record = encodeBatch(batch)
  for (let size = 0; size < record.length; size++) {
    t.throws(() => decode(record.subarray(0, size)), { code: 'SLUICE_BATCH_RECORD' })
  }
  t.throws(
    () => decode(Buffer.concat([record, Buffer.from('x')])),
    { code: 'SLUICE_BATCH_RECORD' },
    'more than a record',
  )
  const version = Buffer.from(record)
  version[0] = 2
  t.throws(() => decode(version), { message: 'a record of an unknown version' })
  // Damage that a checksum would have found: an error of ours or a batch that adds up, never anything else.
  for (let at = 0; at < record.length; at++) {
    for (const value of [0, 1, 127, 255]) {
      const damaged = Buffer.from(record)
      damaged[at] = value
      try {
        const { length, bytes } = decode(damaged)
        if (length > 2 || bytes > record.length) t.fail(`byte ${at} as ${value}`)
      } catch (error) {
        if (!(error instanceof BatchRecordError)) t.fail(`byte ${at} as ${value}: ${error}`)
      }
    }
  }
})

t.test('records that were written with the first format are read', t => {
  const written = {
    syslog:
      'AQICAC0AAAADAAAANwAAAAAAgFb+vHhCeyJzb3VyY2UiOiJpbiIsInBlZXIiOiIxOTIuMC4yLjciLCJob3N0IjoiaCJ9KAAEAAgAMRFxPDM0PjEgMjAyNi0wMS0zMVQxMjowMDowMFogaCBzdSAtIC0gLSBubwpub25lCjwxMz5hOiD/Cg==',
    json: 'AQECAC0AAAADAAAAFwAAAAAAgFb+vHhCeyJzb3VyY2UiOiJpbiIsInBlZXIiOiIxOTIuMC4yLjciLCJob3N0IjoiaCJ9BwAEAAkAMRFxeyJhIjoxfQpub25lCnsiYSI6Iv8ifQo=',
    text: 'AQACAC0AAAACAAAABgAAAAAAgFb+vHhCeyJzb3VyY2UiOiJpbiIsInBlZXIiOiIxOTIuMC4yLjciLCJob3N0IjoiaCJ9AwABABFRb25lCv8K',
  }
  const latin1 = (text: string) => Buffer.from(text, 'latin1')
  const lines = {
    syslog: ['<34>1 2026-01-31T12:00:00Z h su - - - no', 'none', latin1('<13>a: \xff')],
    json: ['{"a":1}', 'none', latin1('{"a":"\xff"}')],
    text: ['one', latin1('\xff')],
  }
  const from = { source: 'in', host: 'h', peer: '192.0.2.7', receivedAt: 1_700_000_000_000 }
  for (const name of ['syslog', 'json', 'text'] as const) {
    const record = Buffer.from(written[name], 'base64')
    t.same(seen(decode(record)), seen(batchOf(lines[name], { ...from, decode: name })), name)
    t.same(
      encodeBatch(decode(record)).subarray(0, record[4]! + 24),
      record.subarray(0, record[4]! + 24),
      'and written so',
    )
  }
  t.end()
})

t.test('backlog stays backlog', async t => {
  for (const isBacklog of [false, true]) {
    t.equal(again(batchOf(['a', 'b'], { isBacklog })).isBacklog, isBacklog)
  }
})
