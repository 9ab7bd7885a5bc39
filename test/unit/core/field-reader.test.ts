import t from 'tap'
import type { EventBatch } from '../../../src/core/event/batch.js'
import {
  PathError,
  type PathSegment,
  parseFieldPath,
  readFieldPath,
  valueAt,
} from '../../../src/core/event/field-path.js'
import {
  ARRAY_VALUE,
  BOOLEAN,
  type FieldReader,
  MISSING,
  NULL_VALUE,
  NUMBER,
  OBJECT_VALUE,
  parsedNumber,
  STRING_VALUE,
  type ValueKind,
} from '../../../src/core/event/field-reader.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { batchOf, fieldReaderOf } from '../../support/batches.js'
import { casesOf } from '../../support/cases.js'
import { Seeded } from '../../support/seeded.js'

function load(line: string | object, path: string): FieldReader {
  const wanted = new WantedNames()
  const reader = fieldReaderOf(path, wanted)
  reader.load(batchOf([line], { wanted }), 0)
  return reader
}

t.test('kind, value, text and number of a JSON value', async t => {
  const cases: readonly (readonly [json: string, kind: ValueKind, value: unknown, text: string, number: number])[] = [
    ['"web"', STRING_VALUE, 'web', 'web', Number.NaN],
    ['""', STRING_VALUE, '', '', Number.NaN],
    ['"é😀"', STRING_VALUE, 'é😀', 'é😀', Number.NaN],
    ['"a\\u0062\\n"', STRING_VALUE, 'ab\n', 'ab\n', Number.NaN],
    ['"\\ud83d\\ude00"', STRING_VALUE, '😀', '😀', Number.NaN],
    ['"12"', STRING_VALUE, '12', '12', 12],
    ['" -1.5e3 "', STRING_VALUE, ' -1.5e3 ', ' -1.5e3 ', -1500],
    ['"\\u0031"', STRING_VALUE, '1', '1', 1],
    ['"0x10"', STRING_VALUE, '0x10', '0x10', Number.NaN],
    ['0', NUMBER, 0, '0', 0],
    ['-0', NUMBER, -0, '0', -0],
    ['-7', NUMBER, -7, '-7', -7],
    ['1.50', NUMBER, 1.5, '1.5', 1.5],
    ['1e3', NUMBER, 1000, '1000', 1000],
    ['1E-7', NUMBER, 1e-7, '1e-7', 1e-7],
    ['1e21', NUMBER, 1e21, '1e+21', 1e21],
    ['1e999', NUMBER, Number.POSITIVE_INFINITY, 'Infinity', Number.POSITIVE_INFINITY],
    ['999999999999999', NUMBER, 999999999999999, '999999999999999', 999999999999999],
    ['9007199254740993', NUMBER, 9007199254740992, '9007199254740993', 9007199254740992],
    ['12345678901234567890', NUMBER, 12345678901234567000, '12345678901234567890', 12345678901234567000],
    ['true', BOOLEAN, true, 'true', Number.NaN],
    ['false', BOOLEAN, false, 'false', Number.NaN],
    ['null', NULL_VALUE, null, '', Number.NaN],
    ['{ "b" : [1, 2.0] }', OBJECT_VALUE, { b: [1, 2] }, '{"b":[1,2]}', Number.NaN],
    ['{"b":1,"b":2}', OBJECT_VALUE, { b: 2 }, '{"b":2}', Number.NaN],
    ['[ ]', ARRAY_VALUE, [], '[]', Number.NaN],
  ]
  for (const [json, kind, value, text, number] of cases) {
    // The same value at the first level, below an object, below an array, and in an event that was changed.
    const places: readonly [line: string, path: string][] = [
      [`{"a":${json}}`, '.a'],
      [`{"o":{"a" : ${json} }}`, '.o.a'],
      [`{"o":{"x":{"a":${json}}}}`, '.o.x.a'],
      [`{"list":[0,${json}]}`, '.list[1]'],
      [`{"o":{"list":[${json}]}}`, '.o.list[0]'],
    ]
    for (const [line, path] of places) {
      const reader = load(line, path)
      t.equal(reader.kind, kind, `${line}: kind`)
      t.strictSame(reader.value(), value, `${line}: value`)
      t.equal(reader.text(), text, `${line}: text`)
      t.ok(Object.is(reader.number(), number), `${line}: number ${reader.number()}`)
      if (reader.plain) t.equal(reader.bytes.toString('utf8', reader.start, reader.end), text, `${line}: plain`)
    }
    const wanted = new WantedNames()
    const reader = fieldReaderOf('.a', wanted)
    const batch = batchOf(['{"a":"before"}'], { wanted })
    batch.changeTo(0, Buffer.from(`{"a":${json}}`))
    reader.load(batch, 0)
    t.strictSame(
      [reader.kind, reader.value(), reader.text(), reader.number()],
      [kind, value, text, number],
      `${json}: changed`,
    )
  }
})

t.test('short numbers are read without making their text, to the last bit', async t => {
  const random = new Seeded(9)
  const wrong: string[] = []
  for (let round = 0; round < 20_000; round++) {
    const digits = String(random.next()).slice(2, 3 + random.below(16))
    const point = random.below(digits.length)
    const whole = String(Number(digits.slice(0, point + 1)))
    const fraction = digits.slice(point + 1)
    const json = `${random.pick(['', '-'])}${whole}${fraction && `.${fraction}`}${random.pick(['', '', '', 'e-3', 'E2'])}`
    const reader = load(`{"a":${json}}`, '.a')
    if (!Object.is(reader.number(), JSON.parse(json))) wrong.push(`${json}: ${reader.number()}`)
  }
  t.same(wrong, [])
})

t.test('what has its text in the line needs no string', async t => {
  const plain: readonly (readonly [json: string, plain: boolean])[] = casesOf(import.meta.url, 'plain')
  for (const [json, expected] of plain) t.equal(load(`{"a":${json}}`, '.a').plain, expected, json)
})

t.test('a path that leads nowhere', async t => {
  const line = '{"a":{"b":1,"list":[1]},"s":"text","n":null,"list":[{"a":1}],"1":2}'
  for (const path of '.x .a.x .a.b.c .s.length .s[0] .n.x .a[0] .list.a .list[1] .list[0].b .a.list[1]'.split(' ')) {
    const reader = load(line, path)
    t.strictSame([reader.kind, reader.value(), reader.text()], [MISSING, undefined, ''], path)
  }
  t.equal(load(line, '.1').value(), 2)
  t.equal(load('{"a":{"b":1},"a":{"c":2}}', '.a.b').kind, MISSING, 'the last of two objects counts')
  t.equal(load('{"a":{"b":1,"b":{"c":2}}}', '.a.b.c').value(), 2)
})

t.test('a reader goes from event to event, whatever they are', async t => {
  const wanted = new WantedNames()
  const readers = `.message ."message" .file .host .timestamp .partial .raw .message.x .x`
    .split(/\s+/)
    .map(path => fieldReaderOf(path, wanted))
  const values = (batch: EventBatch, i: number) =>
    readers.map(reader => {
      reader.load(batch, i)
      return reader.value()
    })
  const timestamp = '1970-01-01T00:00:01.000Z'
  const options = { wanted, path: '/log', host: 'h1', receivedAt: 1000 }
  const invalid = Buffer.from('{"message":"\xff"}', 'latin1')
  const json = batchOf(
    ['{"message":"m","file":1,"host":[2],"x":true}', 'no json', '{"message":{"x":1}}', invalid, '{}', '{"x":5}'],
    options,
  )
  json.modify(5, { x: 6 })
  const none = undefined
  t.same(values(json, 0), ['m', 'm', 1, [2], none, none, none, none, true])
  t.same(values(json, 1), ['no json', 'no json', '/log', 'h1', timestamp, none, none, none, none])
  t.same(values(json, 2), [{ x: 1 }, { x: 1 }, none, none, none, none, none, 1, none])
  t.same(values(json, 3), ['\ufffd', '\ufffd', none, none, none, none, invalid.toString('base64'), none, none])
  t.same(
    values(json, 4),
    readers.map(() => undefined),
  )
  t.same(values(json, 5), [none, none, none, none, none, none, none, none, 6])
  t.same(values(json, 0), ['m', 'm', 1, [2], none, none, none, none, true], 'and back')

  const text = batchOf(['{"x":1}', 'abcdefgh', Buffer.from([0xff])], { ...options, decode: 'text', maxLineBytes: 7 })
  t.same(values(text, 0), ['{"x":1}', '{"x":1}', '/log', 'h1', timestamp, none, none, none, none])
  t.same(values(text, 1), ['abcdefg', 'abcdefg', '/log', 'h1', timestamp, 'first', none, none, none])
  t.same(values(text, 2), ['h', 'h', '/log', 'h1', timestamp, 'last', none, none, none])
  t.same(values(text, 3), ['\ufffd', '\ufffd', '/log', 'h1', timestamp, none, '/w==', none, none])
  t.same(values(batchOf(['a'], { wanted, decode: 'text' }), 0).slice(2, 4), [none, 'test-host'], 'no file')
  text.modify(0, { message: 'new' })
  t.same(values(text, 0), ['new', 'new', none, none, none, none, none, none, none])
})

t.test('numbers in text', async t => {
  const cases: readonly (readonly [text: string, number: number])[] = casesOf(import.meta.url, 'numbers')
  for (const [text, number] of cases) t.equal(parsedNumber(text), number, JSON.stringify(text))
  for (const text of ['', ' ', '.', '-', '1 2', '1e', '0x1', '0b1', 'Infinity', 'NaN', '1_000', '1,5', '10ms', '١']) {
    t.ok(Number.isNaN(parsedNumber(text)), JSON.stringify(text))
  }
  // Looked at in one pass: this would take minutes otherwise.
  t.ok(Number.isNaN(parsedNumber(`${'1'.repeat(200_000)}x`)))
})

t.test('paths, as they are written', async t => {
  const cases: readonly (readonly [text: string, segments: readonly PathSegment[]])[] = casesOf(
    import.meta.url,
    'paths',
  )
  for (const [text, segments] of cases) t.same(parseFieldPath(text), { text, segments }, text)
})

t.test('what is no path is told with its column', async t => {
  const cases: readonly (readonly [text: string, column: number, message: string])[] = casesOf(import.meta.url, 'wrong')
  for (const [text, column, message] of cases) {
    try {
      parseFieldPath(text)
      t.fail(`${text} was taken`)
    } catch (error) {
      t.ok(error instanceof PathError, text)
      t.match(error, { message: new RegExp(message), column }, text)
    }
  }
})

t.test('a path inside other text', async t => {
  t.same(readFieldPath('if (.a[0]."b c" exists)', 4), {
    path: { text: '.a[0]."b c"', segments: ['a', 0, 'b c'] },
    end: 15,
  })
  t.same(readFieldPath('.a)', 0).end, 2)
  t.throws(() => readFieldPath('if (host)', 4), { column: 5 } as unknown as Error)
})

t.test('values, only of what JSON has', async t => {
  const value = JSON.parse(
    '{"a":{"b":[10,[20,{"c":null}]],"0":"zero"},"s":"text","__proto__":{"x":1},"n":null}',
  ) as unknown
  const cases: readonly (readonly [segments: readonly PathSegment[], expected: unknown])[] = [
    [[], value],
    [['a', 'b', 0], 10],
    [['a', 'b', 1, 1, 'c'], null],
    [['a', 'b', 2], undefined],
    [['a', 'b', '0'], undefined],
    [['a', 'b', 'length'], undefined],
    [['a', 0], undefined],
    [['a', '0'], 'zero'],
    [['s', 0], undefined],
    [['s', 'length'], undefined],
    [['n', 'x'], undefined],
    [['__proto__', 'x'], 1],
    [['constructor'], undefined],
    [['a', 'toString'], undefined],
    [['missing', 'x'], undefined],
  ]
  for (const [segments, expected] of cases) t.strictSame(valueAt(value, segments), expected, JSON.stringify(segments))
})
