import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { flatten } from '../../../../src/components/processors/flatten.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { batchOf, collectLines } from '../../../support/batches.js'
import { Seeded } from '../../../support/seeded.js'
import { loadedStageOf } from '../../../support/stage.js'

async function written(options: object, lines: readonly string[], decode = 'json'): Promise<string[]> {
  const { stage, wanted } = await loadedStageOf(flatten, options)
  const out: string[] = []
  await pipeline(Readable.from([batchOf(lines, { wanted, decode })]), stage, collectLines(out))
  return out
}

const NEST = { mode: 'nest' }
const ROWS: readonly [options: object, line: string, out: string][] = [
  [{}, '{"a":{"b":{"c":1},"d":"x"},"e":[{"f":1}]}', '{"a.b.c":1,"a.d":"x","e":[{"f":1}]}'],
  [{ arrays: 'index' }, '{"a":[{"b":1},2,[3],[]]}', '{"a.0.b":1,"a.1":2,"a.2.0":3,"a.3":[]}'],
  [{}, '{ "a" : { "b" : 1 , "c" : 2 } }', '{"a.b":1,"a.c":2}'],
  [{}, '{"a":{},"b":{ },"c":1}', '{"a":{},"b":{ },"c":1}'],
  [{}, '{"a":{"b":{}},"c":1}', '{"a.b":{},"c":1}'],
  [{ max_depth: 2 }, '{"a":{"b":{"c":1}}}', '{"a.b":{"c":1}}'],
  [{ separator: '"' }, '{"a":{"b\\"":1}}', '{"a\\"b\\"":1}'],
  [{}, '{"a.b":1,"c":2,"a":{"b":3}}', '{"a.b":3,"c":2}'],
  [{}, '{"a":{"\\u0062":1},"a":{"b":2}}', '{"a.b":2}'],
  [{}, '{"__proto__":{"a":1}}', '{"__proto__.a":1}'],
  [{}, 'no object', 'no object'],
  [NEST, '{"a.b.c":1,"x":0,"a.b.d":2}', '{"a":{"b":{"c":1,"d":2}},"x":0}'],
  [NEST, '{"a":{"b":1},"a.c":2}', '{"a":{"b":1,"c":2}}'],
  [NEST, '{"a.c":2,"a":{"b":1,"c":3}}', '{"a":{"c":3,"b":1}}'],
  [NEST, '{"a.b.c":2,"a":{"b":{"d":1}}}', '{"a":{"b":{"c":2,"d":1}}}'],
  [NEST, '{"a":1,"a.b":2}', '{"a":1,"a.b":2}'],
  [NEST, '{"a.b":2,"a":1}', '{"a.b":2,"a":1}'],
  [NEST, '{"a.b":1,"a.b.c":2}', '{"a":{"b":1},"a.b.c":2}'],
  [NEST, '{"a.b.c":2,"a.b":1}', '{"a":{"b":{"c":2}},"a.b":1}'],
  [{ ...NEST, max_depth: 2 }, '{"a.b.c":1}', '{"a":{"b.c":1}}'],
  [NEST, '{"__proto__.a":1,"a..b":2}', '{"__proto__":{"a":1},"a":{"":{"b":2}}}'],
  [NEST, '{ "a" : 1 }', '{ "a" : 1 }'],
]

t.test('nested fields become fields of one level, and the other way round', async t => {
  for (const [options, line, out] of ROWS)
    t.same((await written(options, [line]))[0], out, `${JSON.stringify(options)} ${line}`)
  const [text] = await written({}, ['no fields'], 'text')
  t.match(text, /^no fields$/, 'a line of text has nothing that is nested')
})

t.test('a name is written once', async t => {
  const { stage, wanted } = await loadedStageOf(flatten, {})
  stage.write(batchOf(['{"a.b":1,"c":2,"a":{"b":3}}'], { wanted }))
  const batch: EventBatch = stage.read()
  t.equal(batch.texts!.text(0).toString(), '{"a.b":3,"c":2}')
})

t.test('nest undoes flatten', async t => {
  const random = new Seeded(7)
  const made = (depth: number): unknown => {
    if (depth === 0 || random.chance(0.4)) return random.pick<unknown>([1, 'x.y', null, [1, { a: 2 }], true, {}])
    const names = ['a', 'b', 'ä"', 'long name'].filter(() => random.chance(0.5))
    return Object.fromEntries(names.map(name => [name, made(depth - 1)]))
  }
  const events = Array.from({ length: 300 }, () => ({ a: made(4), top: made(3) }))
  const flat = await written(
    {},
    events.map(event => JSON.stringify(event)),
  )
  const isFlat = (value: unknown) =>
    typeof value !== 'object' || value === null || Array.isArray(value) || Object.keys(value).length === 0
  t.ok(flat.every(line => Object.values(JSON.parse(line)).every(isFlat)))
  t.same(
    (await written(NEST, flat)).map(line => JSON.parse(line)),
    events,
  )
})

t.test('an event whose names would fill the memory fails, as it came', async t => {
  const inner = Object.fromEntries(Array.from({ length: 2000 }, (_, n) => [`k${n}`, n]))
  const event = { ['x'.repeat(2000)]: inner }
  const [line] = await written({}, [JSON.stringify(event)])
  const { processing_error: error, ...rest } = JSON.parse(line!)
  t.match(error.message, /grow by more than 1 MiB/)
  t.same(rest, event)
})

t.test('of the events of a read, those that grow much may fill 8 MiB, and others are written', async t => {
  const event = { ['x'.repeat(1000)]: Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [n, 0])) }
  const lines = [...Array.from({ length: 10 }, () => JSON.stringify(event)), '{"a":{"b":1}}']
  const all = await written({}, lines)
  t.equal(all.filter(line => line.includes('would grow to more than 8 MiB together')).length, 2)
  t.ok(all.reduce((size, line) => size + line.length, 0) < 8.1 * 1024 * 1024)
  t.equal(all.at(-1), '{"a.b":1}')
})
