import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { encodeLines } from '../../../../src/core/codecs/encode.js'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { batchOf } from '../../../support/batches.js'
import { agreesWithFields, fuzz } from '../../../support/codecs.js'
import { seeded } from '../../../support/seeded.js'

const FROM = { host: 'h', timestamp: '1970-01-01T00:00:00.000Z' }

/** What `logfmt` makes of a line, without what is added to it; a text where it is not logfmt. */
function read(line: string | Buffer): unknown {
  const batch = batchOf([line], { decode: 'logfmt', host: 'h' })
  const undecoded = batch.scan()
  const { host, timestamp, ...fields } = batch.fields(0)
  return undecoded ? fields.message : fields
}

t.test('pairs as programs write them', t => {
  t.same(read('level=info msg="user logged in" user=ada'), { level: 'info', msg: 'user logged in', user: 'ada' })
  t.same(read('  a=1\t b=2  '), { a: '1', b: '2' })
  t.same(read('a= b="" c'), { a: '', b: '', c: true }, 'no value, and no equals sign')
  t.same(read('n=1 n n=2 '), { n: '2' }, 'the last value counts')
  t.same(read('n=2 n'), { n: true })
  t.same(read('url=/x?a=1&b=2 q=it\'s"so'), { url: '/x?a=1&b=2', q: 'it\'s"so' }, 'unquoted up to the next space')
  t.same(read(String.raw`a="\"\\\/\'\b\f\n\r\t\u00e9\ud83d\ude00" b="C:\dir\u12"`), {
    a: '"\\/\'\b\f\n\r\té😀',
    b: 'C:\\dir\\u12',
  })
  t.same(read('a.b=1 é="ü €" __proto__=x'), { 'a.b': '1', é: 'ü €', ['__proto__']: 'x' })
  for (const line of [
    '',
    '   ',
    'plain words',
    '=1',
    'a=1 =',
    'a="',
    'a="b',
    'a="b\\"',
    'a="b"c',
    '"a"=1',
    'a"=1',
    'a=1 "b"',
  ])
    t.equal(read(line), line, `no logfmt: ${line}`)
  t.end()
})

t.test('where a line comes from is added to what it has', t => {
  const batch = batchOf(['file=main.go host=web-07 n=1', 'no logfmt', Buffer.from('a=\xff', 'latin1')], {
    decode: 'logfmt',
    host: 'h',
    path: '/x.log',
  })
  t.equal(batch.scan(), 1)
  const { timestamp } = FROM
  t.same(batch.fields(0), { file: 'main.go', host: 'web-07', n: '1', timestamp })
  t.same(batch.fields(1), { message: 'no logfmt', file: '/x.log', ...FROM })
  t.same(batch.fields(2), { a: '\ufffd', file: '/x.log', ...FROM, raw: 'YT3/' })
  t.end()
})

t.test('what is written is read again', t => {
  const random = seeded(5)
  const pick = (from: readonly string[]) => from[Math.floor(random() * from.length)]!
  const text = () =>
    Array.from({ length: Math.floor(random() * 5) }, () => pick(['a', '"', '=', ' ', '\\', 'é', '\n', '\x07'])).join('')
  const { encode } = codecOf('logfmt')!
  for (let n = 0; n < 500; n++) {
    const fields = { a: text(), 'b.c': text(), d: text() }
    const line = encode!(fields)
    t.notMatch(line, /\n/)
    t.same(read(line), fields, line)
  }
  const batch = batchOf(['{"n":1.50,"o":{"a":null},"bad key=":true,"":null}', 'text'], { host: 'h' })
  t.equal(
    Buffer.concat(encodeLines(codecOf('logfmt')!, [batch]).parts).toString(),
    `n=1.5 o="{\\"a\\":null}" bad_key_=true _=null\nmessage=text host=h timestamp=${FROM.timestamp}\n`,
  )
  t.end()
})

t.test('what is written is the object that the line is, whatever its JSON looks like', t => {
  const { encode } = codecOf('logfmt')!
  const lines = [
    '{"a":1,"b":2,"a":3}',
    '{"b":1,"7":2,"0a":3}',
    '{"\\u0061":1,"k\\"":2,"a":"\\ud800 x"}',
    '{ "a" : 1e3 , "b" : -0 , "c" : 0.0000001 , "d" : 1234567890123456.5 , "e" : 1.50 , "f" : -0.5 }',
    `{${Array.from({ length: 70 }, (_, n) => `"k${n % 66}":${n}`)}}`,
    '{}',
  ]
  const batch = batchOf(lines)
  const written = Buffer.concat(encodeLines(codecOf('logfmt')!, [batch]).parts).toString()
  const pairs = (fields: Record<string, unknown>) =>
    Object.entries(fields).map(([name, value]) => encode!({ [name]: value }))
  t.equal(written, lines.map(line => `${pairs(JSON.parse(line)).join(' ')}\n`).join(''))
  t.end()
})

/** By regular expressions. */
function model(line: string): Record<string, unknown> | undefined {
  const pair = /([^\x00-\x20="]+)(?:=("(?:[^"\\]|\\[\s\S])*"|(?!")[^\x00-\x20]*))?(?=[\x00-\x20]|$)|[\x00-\x20]+/y
  const fields = new Map<string, unknown>()
  let pairs = 0
  for (let at = 0; at < line.length; at = pair.lastIndex) {
    pair.lastIndex = at
    const [whole, key, value] = pair.exec(line) ?? []
    if (!whole) return undefined
    if (key === undefined) continue
    if (value !== undefined) pairs++
    fields.set(key, value === undefined ? true : value.startsWith('"') ? quoted(value) : value)
  }
  return pairs > 0 ? Object.fromEntries(fields) : undefined
}

function quoted(value: string): string {
  let text = ''
  for (let i = 1; i < value.length - 1; i++) {
    const next = value[i + 1]!
    const hex = /^\\u([0-9a-f]{4})/i.exec(value.slice(i, -1))?.[1]
    if (value[i] !== '\\') text += value[i]
    else if (hex) text += String.fromCharCode(Number.parseInt(hex, 16))
    else if ('bfnrt'.includes(next)) text += JSON.parse(`"\\${next}"`)
    else if (`"'\\/`.includes(next)) text += next
    else text += `\\${next}`
    if (value[i] === '\\') i += hex ? 5 : 1
  }
  return text
}

t.test('a number beyond the range of a double is written as it was read', t => {
  const batch = batchOf(['{"n":1e400,"o":{"l":[ -1e400,null]}}', '{"n":1,"n":1e400}'])
  const written = Buffer.concat(encodeLines(codecOf('logfmt')!, [batch]).parts).toString()
  t.equal(written, 'n=1e400 o="{\\"l\\":[-1e400,null]}"\nn=1e400\n')
  t.end()
})

t.test('any bytes: as the model has it, and by field as a whole', t => {
  const parts = ['a', 'b=', '=', '"', ' ', '\\', '\\"', 'a="x" ', 'é', '\t', 'u0041', '\\u00e9', 'n']
  for (const line of fuzz(13, 4000, parts)) {
    const [found, wanted] = [read(line), model(line) ?? line]
    if (!isDeepStrictEqual(found, wanted)) t.same(found, wanted, JSON.stringify(line))
  }
  const lines = ['a=1 b', 'a="x\\ty" a=', 'host=x timestamp=y', 'b=1 b="\\u00e9"', 'none', 'c=1']
  agreesWithFields(t, 'logfmt', ['a', 'b', 'host', 'timestamp', 'message', 'file'], lines)
  t.end()
})
