import t from 'tap'
import { jsonText, parseJsonWithin } from '../../../src/lib/formats/json-text.js'
import { normalJson } from '../../../src/lib/formats/normal-json.js'
import { longestParsed } from '../../support/parsed-json.js'

/** The result for a value that has other bytes around it. */
function normal(json: string): string {
  const bytes = Buffer.from(`[${json},1e400]\n`)
  return normalJson(bytes, 1, Buffer.byteLength(json) + 1)
}

t.test('values that doubles can hold are as JSON.stringify has them', async t => {
  const values = [
    '1.50',
    'null',
    ' [ 1E3 , null ]',
    '{"b":-0,"1":"1e400","b":null}',
    '"\\u0041\\ud800é"',
    '[1.79e308,1e-400]',
  ]
  for (const json of values) t.equal(normal(json), JSON.stringify(JSON.parse(json)), json)
})

t.test('numbers beyond it are as they were written', async t => {
  const digits = '9'.repeat(400)
  const cases: readonly (readonly [json: string, expected: string])[] = [
    ['1e400', '1e400'],
    ['-1E+0999', '-1E+0999'],
    [`[${digits}.50, 1.50]`, `[${digits}.50,1.5]`],
    [
      '{ "a" : 1e400, "2": 2e400, "1": [null, "\\"1e400", 3e400] }',
      '{"1":[null,"\\"1e400",3e400],"2":2e400,"a":1e400}',
    ],
    ['{"a":1e400,"a":1}', '{"a":1}'],
    ['{"a":null,"a":2e400,"b":1e400}', '{"a":2e400,"b":1e400}'],
    ['{"1e400":1e400,"é":"$1 1e400"}', '{"1e400":1e400,"é":"$1 1e400"}'],
  ]
  for (const [json, expected] of cases) t.equal(normal(json), expected, json)
})

t.test('integers have all of their digits', async t => {
  const cases: readonly (readonly [json: string, expected: string])[] = [
    ['9007199254740993', '9007199254740993'],
    ['-12345678901234567890', '-12345678901234567890'],
    ['9007199254740992', '9007199254740992'],
    [`1${'0'.repeat(21)}`, `1${'0'.repeat(21)}`],
    ['[ 1234567890123456789, 1234567890123456.5, 1.0 ]', '[1234567890123456789,1234567890123456.5,1]'],
    ['{"a":"1234567890123456789","b":1234567890123456789}', '{"a":"1234567890123456789","b":1234567890123456789}'],
  ]
  for (const [json, expected] of cases) t.equal(normal(json), expected, json)
})

t.test('JSON with too many values or levels is refused before it is parsed', async t => {
  const most = 1000
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  const strings = `["${'[{,'.repeat(most)}","\\"${'['.repeat(most)}\\\\"]`
  for (const json of [nested(100), strings, '{"a":[1,{"b":2}]}', ' 1 ', `[${'0,'.repeat(most - 2)}0]`])
    t.same(parseJsonWithin(Buffer.from(json), most), JSON.parse(json))
  const longest = longestParsed(t)
  for (const json of [
    nested(101),
    '['.repeat(1e6),
    '{"a":'.repeat(1e6),
    `[${'[],'.repeat(most)}[]]`,
    ','.repeat(most + 1),
  ])
    t.throws(() => parseJsonWithin(Buffer.from(json), most), { message: 'it has more than 1000 values or 100 levels' })
  t.equal(longest(), 0)
  for (const json of ['', '"a', '"\\', '["\u0001', ']]]][[[', '{"a":1'])
    t.throws(() => parseJsonWithin(Buffer.from(json), most), SyntaxError)
})

t.test('at any depth', async t => {
  const deep = (value: string) => `${'[0,'.repeat(20_000)}${value}${']'.repeat(20_000)}`
  t.ok(normal(deep('1e400')) === deep('1e400'))
  t.ok(normal(deep('null')) === jsonText(JSON.parse(deep('null'))))
})

const VALUES = [
  '{"a":[1,"x\\n\\ud800é",null,{"":{}},[]],"__proto__":-0.5,"b":true}',
  '[[],[[]],{}]',
  '"x"',
  'null',
  '1e21',
  '{}',
]

t.test('the text that JSON.stringify makes, at any depth', async t => {
  for (const json of VALUES) {
    const value = JSON.parse(json) as unknown
    t.equal(jsonText(value), JSON.stringify(value), json)
    for (const [open, close] of [
      ['[', ']'],
      ['[0,', ',1]'],
      ['{"x":', '}'],
      ['{"x":1,"y":', ',"z":[]}'],
    ] as const) {
      const deep = (text: string) => open.repeat(20_000) + text + close.repeat(20_000)
      const parsed = JSON.parse(deep(json)) as unknown
      t.ok(jsonText(parsed) === deep(JSON.stringify(value)), `${json} in ${open}`)
    }
  }
  let deep: unknown = { kept: 1, dropped: undefined, list: [undefined] }
  for (let level = 0; level < 20_000; level++) deep = [deep]
  t.match(jsonText(deep), /^\[+\{"kept":1,"list":\[null\]\}\]+$/, 'undefined as JSON.stringify has it')
  t.match(jsonText([deep, new Date(0)]), /\]+,"1970-01-01T00:00:00.000Z"\]$/, 'toJSON, too')
  const circular: unknown[] = []
  circular.push(circular)
  t.throws(() => jsonText(circular), TypeError)
})
