import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { encodeLines } from '../../../../src/core/codecs/encode.js'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { MISSING } from '../../../../src/core/event/field-reader.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf, fieldReaderOf } from '../../../support/batches.js'
import { agreesWithFields, fuzz } from '../../../support/codecs.js'
import { seeded } from '../../../support/seeded.js'

const FROM = { host: 'h', timestamp: '1970-01-01T00:00:00.000Z' }

/** What `csv` makes of a line, without what is added to it; a text where it is not CSV. */
function read(line: string | Buffer, options: object = {}): unknown {
  const batch = batchOf([line], { decode: { codec: 'csv', ...options }, host: 'h' })
  const undecoded = batch.scan()
  const { host, timestamp, ...fields } = batch.fields(0)
  return undecoded ? fields.message : Object.values(fields)
}

t.test('values as RFC 4180 has them', t => {
  t.same(read('a,b,c'), ['a', 'b', 'c'])
  t.same(read(''), [''])
  t.same(read(',,'), ['', '', ''])
  t.same(read('"a,b","c ""d""",""'), ['a,b', 'c "d"', ''])
  t.same(read(' a , b '), [' a ', ' b '], 'spaces are part of a value')
  t.same(read("a'b;c;", { delimiter: ';' }), ["a'b", 'c', ''])
  t.same(read('a\tb,c', { delimiter: '\t' }), ['a', 'b,c'])
  t.same(read('é,"ü ""€"""'), ['é', 'ü "€"'])
  for (const line of ['"', 'a,"b', 'a"b', '"a"b,c', '"a" ,b', '"a"""" x', 'a\rb'])
    t.equal(read(line), line, `no CSV: ${line}`)
  t.same(read('a,b\r'), ['a', 'b'], 'the line end is not part of it')
  t.end()
})

t.test('columns name the values, and count them', t => {
  const columns = ['time', 'user', '__proto__']
  const batch = batchOf(['1,2,3', '1,2', '1,2,3,4', '"1",,"a""b"'], { decode: { codec: 'csv', columns }, host: 'h' })
  t.equal(batch.scan(), 2, 'lines of another number of values')
  t.same(batch.fields(0), { time: '1', user: '2', ['__proto__']: '3', ...FROM })
  t.same(batch.fields(1), { message: '1,2', ...FROM })
  t.equal(Object.getPrototypeOf(batch.fields(3)), Object.prototype)
  const unnamed = batchOf(['x,y'], { decode: 'csv', host: 'h', path: '/f.csv' })
  t.same(unnamed.fields(0), { column_1: 'x', column_2: 'y', file: '/f.csv', ...FROM })
  const own = batchOf(['x,y,z'], { decode: { codec: 'csv', columns: ['file', 'host', 'timestamp'] }, path: '/f.csv' })
  t.same(own.fields(0), { file: 'x', host: 'y', timestamp: 'z' }, "the line's own fields win")
  t.end()
})

t.test('fields are read from the bytes, also with names that come later', t => {
  const wanted = new WantedNames()
  const codec = codecOf('csv', { columns: ['a', 'b'] })!
  const second = fieldReaderOf('.b', wanted)
  const load = (line: string) => {
    const batch = batchOf([line], { decode: codec.toJSON(), wanted })
    return [second.load(batch, 0), second.value(), second.plain]
  }
  t.same(load('1,"2, 3"').slice(1), ['2, 3', true])
  t.same(load('1,"2 ""3"""').slice(1), ['2 "3"', false])
  const third = fieldReaderOf('.column_3', wanted)
  const batch = batchOf(['1,2,3', '1'], { decode: 'csv', wanted })
  t.same([third.load(batch, 0), third.value()].at(-1), '3')
  t.equal(third.load(batch, 1), MISSING)
  t.end()
})

t.test('what is missing is written as an empty value, and a line is never empty', t => {
  const inherited = codecOf('csv', { columns: ['constructor', '__proto__', 'a'] })!
  t.equal(inherited.encode!({ a: 1 }), ',,1')
  const one = codecOf('csv', { columns: ['a'] })!
  t.same([one.encode!({}), one.encode!({ a: '' }), one.encode!({ a: 'x' })], ['""', '""', 'x'])
  t.end()
})

t.test('options that cannot be', t => {
  for (const options of [
    { delimiter: '' },
    { delimiter: ';;' },
    { delimiter: '"' },
    { delimiter: 'a' },
    { delimiter: '\n' },
    { delimiter: 'é' },
    { columns: [] },
    { columns: ['a', 'a'] },
    { columns: [''] },
    { header: true },
  ])
    t.equal(codecOf('csv', options), undefined, JSON.stringify(options))
  t.equal(codecOf('csv')!.encode, undefined, 'without columns it only decodes')
  t.same(codecOf('csv', { delimiter: ';', columns: ['a'] })!.toJSON(), { codec: 'csv', delimiter: ';', columns: ['a'] })
  t.end()
})

t.test('what is written is read again', t => {
  const random = seeded(7)
  const pick = (from: readonly string[]) => from[Math.floor(random() * from.length)]!
  const text = () =>
    Array.from({ length: Math.floor(random() * 6) }, () => pick(['a', '"', ',', ';', ' ', 'é', '\\'])).join('')
  for (let n = 0; n < 500; n++) {
    const options = { delimiter: pick([',', ';', ' ']), columns: ['a', 'b', 'c'] }
    const fields = { a: text(), b: text(), c: text() }
    const line = codecOf('csv', options)!.encode!(fields)
    t.same(read(line, options), Object.values(fields), line)
  }
  const codec = codecOf('csv', { columns: ['n', 'o', 'none', 'list'] })!
  const batch = batchOf(['{"n":1.50,"o":{"a":null},"list":[true]}', '{"n":null}'])
  t.equal(Buffer.concat(encodeLines(codec, [batch]).parts).toString(), '1.5,"{""a"":null}",,[true]\n,,,\n')
  t.end()
})

/** As a reader of one character at a time has it. */
function model(line: string, delimiter: string): string[] | undefined {
  const values: string[] = []
  for (let rest = line; ; rest = rest.slice(1)) {
    if (rest[0] === '"') {
      const [quoted] = /^"(?:[^"]|"")*"/.exec(rest) ?? []
      if (quoted === undefined) return undefined
      values.push(quoted.slice(1, -1).replaceAll('""', '"'))
      rest = rest.slice(quoted.length)
      if (rest !== '' && rest[0] !== delimiter) return undefined
    } else {
      const at = rest.indexOf(delimiter)
      const value = at < 0 ? rest : rest.slice(0, at)
      if (/["\r\n]/.test(value)) return undefined
      values.push(value)
      rest = rest.slice(value.length)
    }
    if (rest === '') return values
  }
}

t.test('any bytes: as the model has it, and by field as a whole', t => {
  const parts = ['a', '"', '""', ',', ';', ' ', 'é', '\r', 'b,c', '","']
  for (const given of fuzz(11, 4000, parts)) {
    const line = given.replace(/\r$/, '')
    const [found, wanted] = [read(given), model(line, ',') ?? line]
    if (!isDeepStrictEqual(found, wanted)) t.same(found, wanted, JSON.stringify(given))
  }
  agreesWithFields(t, 'csv', ['column_1', 'column_2', 'column_9'], ['a,b', '"a""b",c', ',', 'x', '"', 'é,"€'])
  agreesWithFields(
    t,
    { codec: 'csv', columns: ['host', 'b'] },
    ['host', 'b', 'message', 'timestamp'],
    ['a,b', 'a', '"",""""'],
  )
  t.end()
})
