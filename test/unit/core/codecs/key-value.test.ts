import t from 'tap'
import { encodeLines } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { batchOf } from '../../../support/batches.js'
import { agreesWithFields, fuzz, readFields } from '../../../support/codecs.js'

const read = (line: string, options: object = {}) => readFields(codecOf('key_value', options)!, Buffer.from(line))

t.test('pairs with the usual delimiters', t => {
  t.same(read('ook=pook @timestamp=2020-12-31T12:43:22.2Z key#hash=value "k=with=special"=v key="with special=x"'), {
    ook: 'pook',
    '@timestamp': '2020-12-31T12:43:22.2Z',
    'key#hash': 'value',
    'k=with=special': 'v',
    key: 'with special=x',
  })
  t.same(read('foo= bar= tar=data alone'), { foo: '', bar: '', tar: 'data', alone: true })
  t.same(read('a = 1\tb  =  "2"'), { a: '1', b: '2' })
  t.same(read(String.raw`level=info field="escaped \t \\ \" \' \n <-"`), {
    level: 'info',
    field: 'escaped \\t \\ " \' \n <-',
  })
  t.same(read(String.raw`\="oh boy" "say \"x\""=1`), { '\\': 'oh boy', 'say "x"': '1' })
  t.same(read('Cc:"tom" Cc:"bob"', { key_value_delimiter: ':' }), { Cc: 'bob' })
  for (const line of ['', ' ', 'no pairs', 'level=info =(key)', '""=1']) t.equal(read(line), undefined, line)
  t.end()
})

t.test('other delimiters', t => {
  const zork = { 'zork one': 'zoog"zink"zork', nonk: 'nink' }
  const colon = { key_value_delimiter: ':', field_delimiter: ',' }
  t.same(read('"zork one" : "zoog\\"zink\\"zork"        nonk          : nink', { key_value_delimiter: ':' }), zork)
  t.same(read('"zork one":"zoog\\"zink\\"zork", nonk:nink', colon), zork)
  t.same(read('"zork one" : "zoog\\"zink\\"zork"  ,      nonk          : nink,', colon), zork)
  const long = { key_value_delimiter: '--', field_delimiter: '||' }
  t.same(read('"zork one" -- "zoog\\"zink\\"zork"  ||    nonk          -- nink', long), zork)
  t.equal(read('I am not a valid line.', long), undefined)
  t.same(read('zork: zoog, nonk: nink norgle: noog', colon), { zork: 'zoog', nonk: 'nink norgle: noog' })
  t.same(read('zork: zoog, nonk: "nink" norgle: noog', colon), { zork: 'zoog', nonk: '"nink" norgle: noog' })
  t.same(read(`key1:val1,key2:'some "nested" value'`, colon), { key1: 'val1', key2: 'some "nested" value' })
  t.same(read('foo:bar ,   foobar   ', colon), { foo: 'bar', foobar: true })
  const lines = { key_value_delimiter: ':', field_delimiter: '\n' }
  t.same(read('To: tom\ntest: "tom" test', lines), { To: 'tom', test: '"tom" test' })
  t.same(read('To: tom\ntest: "tom test"  ', lines), { To: 'tom', test: 'tom test' })
  t.end()
})

t.test('slots, objects and JSON of random lines are the same', t => {
  const parts = ['a', 'host', '=', ' ', '"', "'", '\\', '=1 ', 'é', '"x" ', '\t']
  agreesWithFields(t, 'key_value', ['a', 'host', 'é'], fuzz(7, 700, parts))
  const decode = { codec: 'key_value', key_value_delimiter: ': ', field_delimiter: ';' }
  agreesWithFields(t, decode, ['a', 'host'], fuzz(8, 400, [...parts, ': ', ';']))
  t.end()
})

t.test('klog', t => {
  const codec = codecOf('klog')!
  const klog = (line: string) => readFields(codec, Buffer.from(line))
  const hello = {
    level: 'info',
    timestamp: '2001-05-05T17:59:40.692994Z',
    id: 28133,
    file: 'klog.go',
    line: 70,
    message: 'hello from klog',
  }
  t.same(klog('I0505 17:59:40.692994   28133 klog.go:70] hello from klog'), hello)
  t.same(klog('\n     I0505 17:59:40.692994   28133 klog.go:70] hello from klog    \n'), hello)
  t.same(klog('W1231 17:59:40.692994 1 a.go:7]'), {
    ...{ level: 'warning', timestamp: '2001-12-31T17:59:40.692994Z', id: 1, file: 'a.go', line: 7, message: '' },
  })
  const wrong: readonly (readonly [string, RegExp])[] = [
    ['not a klog line', /the letter of a level: I, W, E or F at column 1$/],
    ['X0505 17:59:40.692994   28133 klog.go:70] hello', /the letter of a level/],
    ['I0000 17:59:40.692994   28133 klog.go:70] hello', /a time such as .* at column 2$/],
    ['I0505 17:59:40.692994   99999999999999999999999999999 klog.go:70] x', /the number of a thread at column 25$/],
    ['I0505 17:59:40.692994 1 klog.go:70 x', /FILE:LINE and "\]" at column 25$/],
  ]
  for (const [line, problem] of wrong) {
    const bytes = Buffer.from(line)
    t.equal(klog(line), undefined)
    t.match(codec.problem!(bytes, 0, bytes.length), problem)
  }
  t.end()
})

t.test('klog: the 29th of February is a day, and has a time where a year near has it', t => {
  const line = 'I0229 17:59:40.692994 1 a.go:7] x'
  const timestampAt = (receivedAt: number) => batchOf([line], { decode: 'klog', receivedAt }).fields(0).timestamp
  t.equal(timestampAt(Date.UTC(2024, 2, 1)), '2024-02-29T17:59:40.692994Z')
  t.equal(timestampAt(Date.UTC(2026, 2, 1)), '2026-03-01T00:00:00.000Z', 'when it was received')
  agreesWithFields(
    t,
    'klog',
    ['timestamp', 'level', 'line'],
    [line, line.replace('0229', '0230'), 'I0505 17:59:40.000001 1 b.go:1] y'],
  )
  t.end()
})

t.test('klog: each line has its own fraction, and the time of its second', t => {
  const times = [
    '0505 17:59:40.692994',
    '0505 17:59:40.000001',
    '0505 17:59:41.000001',
    '0506 17:59:41.5',
    '0505 17:59:40.692994',
  ]
  const batch = batchOf(
    times.map(time => `I${time} 1 a.go:7] x`),
    { decode: 'klog', receivedAt: 1e12 },
  )
  const lines = Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts)
    .toString()
    .trimEnd()
    .split('\n')
  t.same(
    lines.map(line => JSON.parse(line).timestamp),
    [
      '2001-05-05T17:59:40.692994Z',
      '2001-05-05T17:59:40.000001Z',
      '2001-05-05T17:59:41.000001Z',
      '2001-09-09T01:46:40.000Z',
      '2001-05-05T17:59:40.692994Z',
    ],
  )
  t.end()
})
