import t from 'tap'
import { jsonText } from '../../../src/lib/formats/json-text.js'

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
  const circular: unknown[] = []
  circular.push(circular)
  t.throws(() => jsonText(circular), TypeError)
})
