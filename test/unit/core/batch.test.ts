import t from 'tap'
import type { AckStatus } from '../../../src/core/event/ack.js'
import type { EventBatch } from '../../../src/core/event/batch.js'
import type { FieldReader } from '../../../src/core/event/field-reader.js'
import { DECODED, INVALID, MODIFIED, SCANNED } from '../../../src/core/event/flags.js'
import { SentOffsets } from '../../../src/core/event/sent-offsets.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { CONTINUES, LINE_END, PIECE } from '../../../src/lib/lines/line-splitter.js'
import { batchOf, fieldReaderOf, linesOf } from '../../support/batches.js'
import { Seeded } from '../../support/seeded.js'

const objects = (count: number) => Array.from({ length: count }, (_, i) => ({ n: i, name: `event ${i}` }))

/** The sizes add up, and each event's text, fields and reader say the same. */
function check(batch: EventBatch, n: number[], reader: ReturnType<typeof fieldReaderOf>): string | undefined {
  if (batch.length !== n.length) return `${batch.length} events, not ${n.length}`
  let bytes = 0
  for (let i = 0; i < batch.length; i++) {
    bytes += batch.size(i)
    reader.load(batch, i)
    if (reader.value() !== n[i]) return `event ${i} reads ${reader.value()}, not ${n[i]}`
    if (batch.fields(i).n !== n[i]) return `event ${i} has ${batch.fields(i).n}, not ${n[i]}`
  }
  if (batch.isRun && !isRun(batch)) return 'it is no run of lines as they were read'
  return bytes === batch.bytes ? undefined : `${batch.bytes} bytes, not ${bytes}`
}

function isRun({ length, starts, ends, flags }: EventBatch): boolean {
  for (let i = 0; i < length; i++) {
    if ((flags[i]! & LINE_END) === 0 || (flags[i]! & MODIFIED) !== 0) return false
    if (i > 0 && starts[i] !== ends[i - 1]! + (flags[i - 1]! & LINE_END)) return false
  }
  return true
}

t.test('a batch knows whether it is one run of lines as they were read', async t => {
  const lines = ['{"n":0}', '{"n":1}\r', '', '{"n":3}']
  const after = (change: (batch: EventBatch) => EventBatch | undefined) => {
    const batch = batchOf(lines)
    return (change(batch) ?? batch).isRun
  }
  const changed = (batch: EventBatch) => batch.modify(0, { n: 1 })
  t.ok(after(() => undefined))
  t.ok(after(batch => batch.fork(1, 3)))
  t.equal(batchOf(lines).fork(1, 3).bytes, 10)
  t.notOk(
    after(batch => void batch.retain(i => i !== 1)),
    'some are gone',
  )
  t.notOk(
    after(batch => void batch.changeTo(2, Buffer.from('{"n":2}'))),
    'a changed text',
  )
  t.notOk(
    after(batch => void changed(batch)),
    'a changed event',
  )
  t.notOk(
    after(batch => {
      const event = batch.snapshot(0, 1)
      changed(event)
      batch.takeOver(event, 0)
      return batch
    }),
    'an event changed elsewhere',
  )
  t.notOk(batchOf(['abcdefghi'], { maxLineBytes: 4 }).isRun, 'pieces of a line')
  t.notOk(batchOf(['abc'], { unterminated: true }).isRun, 'no line end')
})

t.test('sizes are those of the lines as read, with their line ends', async t => {
  const batch = batchOf(['abc', 'ä\r', '', '\r', '{"a":1}'], { decode: 'text' })
  t.same(
    [0, 1, 2, 3, 4].map(i => batch.size(i)),
    [4, 4, 1, 2, 8],
  )
  t.equal(batch.bytes, 19)
  t.ok(batch.held >= 19)
  batch.modify(0, { message: 'a much longer message than before' })
  t.equal(batch.size(0), 4, 'whatever was changed since')
  const last = batchOf(['abc'], { unterminated: true })
  t.equal(last.size(0), 3)
  t.equal(last.flags[0]! & LINE_END, 0)
  t.equal(batchOf([]).bytes, 0)
})

t.test('retain keeps in order what is wanted, and counts what goes', async t => {
  const wanted = new WantedNames()
  const reader = fieldReaderOf('.n', wanted)
  const batch = batchOf(objects(10), { wanted })
  const asked: number[] = []
  const keep = (i: number) => {
    asked.push(i)
    reader.load(batch, i)
    return (reader.value() as number) % 3 !== 1
  }
  t.equal(batch.retain(keep), 3)
  t.same(asked, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 'each is asked once, by the index it had')
  t.equal(check(batch, [0, 2, 3, 5, 6, 8, 9], reader), undefined)
  t.equal(
    batch.retain(() => true),
    0,
  )
  t.equal(batch.retain(keep), 0)
  t.equal(
    batch.retain(() => false),
    7,
  )
  t.same([batch.length, batch.bytes], [0, 0])
})

t.test('a fork is another holder: what one changes or drops the other does not see', async t => {
  const settled: AckStatus[] = []
  const wanted = new WantedNames()
  const reader = fieldReaderOf('.n', wanted)
  const batch = batchOf(objects(6), { wanted, onSettled: status => settled.push(status) })
  batch.modify(2, { n: 20 })
  const copy = batch.fork()
  t.notOk(batch.ack.isHeldBy(1))
  copy.modify(1, { n: 100 })
  copy.retain(i => i !== 0)
  batch.modify(3, { n: 300 })
  t.equal(check(batch, [0, 1, 20, 300, 4, 5], reader), undefined)
  t.equal(check(copy, [100, 20, 3, 4, 5], reader), undefined)

  const part = batch.fork(2, 5)
  t.equal(check(part, [20, 300, 4], reader), undefined)
  part.retain(i => i === 1)
  t.equal(check(batch, [0, 1, 20, 300, 4, 5], reader), undefined)

  copy.ack.settle('delivered')
  batch.ack.settle('delivered')
  t.same(settled, [])
  part.ack.settle('rejected')
  t.same(settled, ['rejected'])
})

t.test(
  'names that are numbered anew, as by a reload: a batch is read after `renew`, also what was changed',
  async t => {
    const wanted = new WantedNames()
    const reader = fieldReaderOf('.n', wanted)
    const batch = batchOf([...objects(4), 'no object'], { wanted })
    batch.modify(1, { n: 10, m: 'one' })
    t.equal(check(batch.snapshot(0, 4), [0, 10, 2, 3], reader), undefined)
    batch.retain(i => i !== 2)
    wanted.clear()
    fieldReaderOf('.other', wanted)
    const readers = [fieldReaderOf('.n', wanted), fieldReaderOf('.m', wanted)]
    batch.renew()
    const read = [0, 1, 2, 3].map(i =>
      readers.map(reader => {
        reader.load(batch, i)
        return reader.value()
      }),
    )
    t.same(read, [
      [0, undefined],
      [10, 'one'],
      [3, undefined],
      [undefined, undefined],
    ])
  },
)

t.test('pick makes a batch of some events, or none, and leaves the others where they are', async t => {
  const settled: AckStatus[] = []
  const wanted = new WantedNames()
  const reader = fieldReaderOf('.n', wanted)
  const batch = batchOf(objects(5), { wanted, onSettled: status => settled.push(status) })
  const odd = batch.pick(i => i % 2 === 1)!
  t.equal(check(odd, [1, 3], reader), undefined)
  t.equal(check(batch, [0, 1, 2, 3, 4], reader), undefined)
  t.equal(
    batch.pick(() => false),
    undefined,
  )
  batch.ack.settle('delivered')
  t.same(settled, [], 'odd is still held, the empty one is not')
  odd.ack.settle('delivered')
  t.same(settled, ['delivered'])
})

t.test('a predicate that throws leaves no holder behind, and the sizes as they were', async t => {
  const settled: AckStatus[] = []
  const batch = batchOf(objects(5), { onSettled: status => settled.push(status) })
  const { bytes, length } = batch
  const fails = (i: number) => {
    if (i === 3) throw new Error('no')
    return i % 2 === 0
  }
  t.throws(() => batch.pick(fails), { message: 'no' })
  t.ok(batch.ack.isHeldBy(1))
  t.throws(() => batch.retain(fails), { message: 'no' })
  t.same([batch.bytes, batch.length], [bytes, length])
  batch.ack.settle('delivered')
  t.same(settled, ['delivered'])
})

t.test('a few events of a large chunk let go of it, and stay what they are', async t => {
  const shrunk: number[] = []
  const wanted = new WantedNames()
  const reader = fieldReaderOf('.n', wanted)
  const lines = Array.from({ length: 400 }, (_, i) => `{"n":${i},"text":"${'é'.repeat(20)}"}${i % 2 ? '\r' : ''}`)
  const batch = batchOf(lines, { wanted, onShrink: bytes => shrunk.push(bytes) })
  const chunk = batch.chunk
  batch.compact()
  t.equal(batch.chunk, chunk, 'all of it is needed')
  const copy = batch.fork()
  copy.retain(i => i >= 390)
  copy.compact()
  t.equal(copy.chunk, chunk, 'others need it')
  copy.ack.settle('delivered')

  // Some events were looked at before, some not, one has an object, one was changed.
  batch.look(391)
  batch.modify(394, { n: -394 })
  t.equal(
    batch.retain(i => i >= 390),
    390,
  )
  const raw = linesOf(batch)
  const before = batch.held
  batch.compact()
  t.not(batch.chunk, chunk)
  t.equal(batch.chunk.length, batch.bytes)
  t.same(shrunk, [chunk.length - batch.bytes])
  t.ok(batch.held < before)
  t.same(linesOf(batch), raw)
  batch.look(9)
  t.equal(check(batch, [390, 391, 392, 393, -394, 395, 396, 397, 398, 399], reader), undefined)
  t.equal(batch.line(3).toString(), lines[393]!.replace('\r', ''))
  t.equal(batch.line(3).buffer, batch.chunk.buffer, 'an object that was there before lets go of it too')
  t.equal(check(batch.fork(2, 6), [392, 393, -394, 395], reader), undefined)
  const moved = batch.chunk
  batch.compact()
  t.equal(batch.chunk, moved, 'nothing to gain any more')
})

t.test('a batch knows what comes before its first event in the batch that was sent, wherever its bytes are', t => {
  const batch = batchOf(objects(400).map(one => JSON.stringify(one)))
  const starts = [...batch.starts]
  const before = ({ sentOffsets, starts }: EventBatch) => sentOffsets?.before(starts)
  t.equal(before(batch), undefined, 'before it is sent')
  batch.sentOffsets = new SentOffsets(batch.starts[0]!)
  t.equal(before(batch), 0)
  const copy = batch.fork(7)
  t.equal(before(copy), starts[7])
  batch.ack.settle('delivered')
  copy.retain(i => i >= 300 && i % 2 === 0)
  t.equal(before(copy), starts[308 - 1])
  copy.compact()
  t.equal(before(copy), starts[307], 'in other memory')
  copy.retain(i => i > 1)
  t.equal(before(copy), starts[311])
  t.equal(before(copy.fork(2)), starts[315])
  const selected = copy.select([2, 5])
  t.same([selected.place(0), selected.place(1)], [starts[315], starts[321]])
  t.end()
})

t.test('any order of retain, fork, pick, modify and compact', async t => {
  const random = new Seeded(5)
  const wanted = new WantedNames()
  const readers = [fieldReaderOf('.name', wanted), fieldReaderOf('.n', wanted)]
  const wrong: string[] = []
  for (let round = 0; round < 400; round++) {
    let settled = 0
    const lines = Array.from({ length: 200 }, (_, i) => `{"name":"event ${i}","n":${i}}`)
    let held: { batch: EventBatch; n: number[] }[] = []
    held.push({ batch: batchOf(lines, { wanted, onSettled: () => settled++ }), n: lines.map((_, i) => i) })
    const steps: string[] = []
    for (let step = 0; step < 12 && held.length > 0; step++) {
      const one = random.pick(held)
      const kind = random.pick(['look', 'modify', 'retain', 'fork', 'pick', 'compact', 'settle'])
      steps.push(kind)
      const i = random.below(Math.max(1, one.batch.length))
      const share = random.pick([0.05, 0.5, 0.95])
      const chosen = one.n.map(() => random.chance(share))
      if (kind === 'look' && one.n.length > 0) one.batch.look(i)
      if (kind === 'modify' && one.n.length > 0) {
        one.n[i] = 1000 + step
        one.batch.modify(i, { n: 1000 + step })
      }
      if (kind === 'retain') {
        one.batch.retain(k => chosen[k]!)
        one.n = one.n.filter((_, k) => chosen[k])
      }
      if (kind === 'fork') held.push({ batch: one.batch.fork(i), n: one.n.slice(i) })
      if (kind === 'pick') {
        const batch = one.batch.pick(k => chosen[k]!)
        if (batch) held.push({ batch, n: one.n.filter((_, k) => chosen[k]) })
        else if (chosen.includes(true)) wrong.push('nothing picked')
      }
      if (kind === 'compact') one.batch.compact()
      if (kind === 'settle') {
        one.batch.ack.settle('delivered')
        held = held.filter(other => other !== one)
      }
    }
    for (const { batch, n } of held) {
      const problem = check(batch, n, readers[1]!)
      if (problem) wrong.push(`${problem} after ${steps.join(' ')}`)
      if (settled !== 0) wrong.push(`settled too early after ${steps.join(' ')}`)
      batch.ack.settle('delivered')
    }
    if (settled !== 1) wrong.push(`settled ${settled} times after ${steps.join(' ')}`)
  }
  t.same(wrong, [])
})

t.test('what a line is, is found out once and only when asked', async t => {
  const invalid = Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d])
  const batch = batchOf(['{"a":1}', 'text', '[1]', invalid, '{"a":"é"}', Buffer.from([0xc3])])
  t.same([...batch.flags], [1, 1, 1, 1, 1, 1], 'nothing was asked yet')
  t.equal(batch.scan(), 3, 'lines that are no objects')
  const seen = SCANNED | 1
  t.same([...batch.flags], [seen | DECODED, seen, seen, seen | DECODED | INVALID, seen | DECODED, seen | INVALID])

  const text = batchOf(['{"a":1}', Buffer.from([0xff])], { decode: 'text' })
  t.equal(text.scan(), 0, 'text is not expected to be JSON')
  t.same([text.look(0), text.look(1)], [seen, seen | INVALID])

  const pieces = batchOf(['{"a":"0123456789"}'], { maxLineBytes: 8 })
  t.equal(pieces.scan(), 3, 'a piece of an object is none')
  const whole = batchOf(['{"a":1234}{"b":12}'], { maxLineBytes: 10 })
  t.equal(whole.scan(), 2, 'nor is a piece that looks like one')
  t.same([...whole.flags], [SCANNED | PIECE, SCANNED | CONTINUES | 1])
})

t.test('the fields of an event', async t => {
  const receivedAt = Date.UTC(2025, 0, 2, 3, 4, 5, 678)
  const text = { decode: 'text', host: 'h1', receivedAt } as const
  const timestamp = '2025-01-02T03:04:05.678Z'
  const invalid = Buffer.concat([Buffer.from('a'), Buffer.from([0xff, 0xc3]), Buffer.from('z')])
  const raw = invalid.toString('base64')
  const cases: readonly (readonly [name: string, batch: EventBatch, fields: readonly object[]])[] = [
    [
      'text with a file',
      batchOf(['one', '', '\ufeffé\r'], { ...text, path: '/var/log/x' }),
      ['one', '', '\ufeffé'].map(message => ({ message, file: '/var/log/x', host: 'h1', timestamp })),
    ],
    ['text without a file', batchOf(['{"a":1}'], text), [{ message: '{"a":1}', host: 'h1', timestamp }]],
    [
      'pieces of a line',
      batchOf(['abcdefghij', 'k'], { ...text, maxLineBytes: 4 }),
      [
        { message: 'abcd', host: 'h1', timestamp, partial: 'first' },
        { message: 'efgh', host: 'h1', timestamp, partial: 'middle' },
        { message: 'ij', host: 'h1', timestamp, partial: 'last' },
        { message: 'k', host: 'h1', timestamp },
      ],
    ],
    ['bytes that are no text', batchOf([invalid], text), [{ message: 'a\ufffd\ufffdz', host: 'h1', timestamp, raw }]],
    ['an object', batchOf(['{"a":[1],"a":2,"__proto__":3}']), [JSON.parse('{"a":2,"__proto__":3}') as object]],
    [
      'an object with bytes that are no text',
      batchOf([Buffer.concat([Buffer.from('{"raw":1,"m":"'), invalid, Buffer.from('"}')])]),
      [
        {
          raw: Buffer.concat([Buffer.from('{"raw":1,"m":"'), invalid, Buffer.from('"}')]).toString('base64'),
          m: 'a\ufffd\ufffdz',
        },
      ],
    ],
    [
      'what is no object under json',
      batchOf(['[1]', '{"a":1'], { host: 'h1', receivedAt, path: 'f' }),
      ['[1]', '{"a":1'].map(message => ({ message, file: 'f', host: 'h1', timestamp })),
    ],
  ]
  for (const [name, batch, fields] of cases) {
    t.strictSame(
      Array.from({ length: batch.length }, (_, i) => batch.fields(i)),
      fields,
      name,
    )
  }
})

t.test('names that are wanted later: who read before reads on, and others read after `renew`', async t => {
  for (const decode of ['json', 'logfmt']) {
    const wanted = new WantedNames()
    const before = fieldReaderOf('.b', wanted)
    // Short ones are scanned line by line, long ones in the kernel.
    for (const count of [4, 4000]) {
      const line = (n: number) => (decode === 'json' ? `{"x":${n},"b":${n},"c":${-n}}` : `x=${n} b=${n} c=${-n}`)
      const batch = batchOf(
        Array.from({ length: count }, (_, n) => line(n)),
        { wanted, decode },
      )
      const read = (batch: EventBatch, reader: FieldReader) =>
        Array.from({ length: batch.length }, (_, i) => {
          reader.load(batch, i)
          return Number(reader.value())
        })
      const changed = batch.fork()
      for (let i = 0; i < count; i += 2) changed.changeTo(i, Buffer.from(`{"b":${i},"c":${-i}}`))
      const numbers = read(batch, before)
      t.same(read(changed, before), numbers)
      const unscanned = batch.snapshot()
      const after = fieldReaderOf(`.c`, wanted)
      const more = fieldReaderOf(`.more_${count}`, wanted)
      for (const one of [batch, changed, unscanned]) {
        t.same(read(one, before), numbers, `${decode}: not renewed`)
        const fork = one.fork(1)
        t.same(read(fork, before), numbers.slice(1), `${decode}: a fork`)
        for (const renewed of [one, fork]) {
          renewed.renew()
          const expected = numbers.slice(renewed === one ? 0 : 1)
          t.same(read(renewed, before), expected)
          t.same(
            read(renewed, after),
            expected.map(n => (n === 0 ? 0 : -n)),
            `${decode}: renewed`,
          )
          more.load(renewed, 0)
          t.equal(more.value(), undefined)
        }
      }
    }
  }
})
