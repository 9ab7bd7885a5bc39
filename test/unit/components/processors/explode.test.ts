import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { explode } from '../../../../src/components/processors/explode.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import type { OnError } from '../../../../src/core/processor.js'
import { type BatchOptions, batchOf, collectLines } from '../../../support/batches.js'
import { stageOf } from '../../../support/stage.js'

async function exploded(
  options: object,
  lines: readonly string[],
  more: BatchOptions & { readonly onError?: OnError; readonly change?: (batch: EventBatch) => void } = {},
) {
  const { onError = 'pass', change, ...batchOptions } = more
  const { stage, wanted, counters } = stageOf(explode, options, { onError })
  const batch = batchOf(lines, { wanted, ...batchOptions })
  change?.(batch)
  counters.arrived(batch.length, batch.bytes)
  const out: string[] = []
  await pipeline(Readable.from([batch]), stage, collectLines(out))
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  return out
}

const ROWS: readonly [title: string, options: object, line: string, out: string[]][] = [
  [
    'values of every kind',
    { field: '.a' },
    '{"a":[1,"x",null,{"b":[2]},[3]]}',
    ['1', '"x"', 'null', '{"b":[2]}', '[3]'].map(v => `{"a":${v}}`),
  ],
  ['spaces', { field: '.a' }, '{ "a" : [ 1 , 2 ] , "b":3}', ['{ "a" : 1 , "b":3}', '{ "a" : 2 , "b":3}']],
  ['a nested array', { field: '.a.b' }, '{"a":{"b":[1,2],"c":3}}', ['{"a":{"b":1,"c":3}}', '{"a":{"b":2,"c":3}}']],
  ['an array in an array', { field: '.a[1].b' }, '{"a":[0,{"b":[1,2]}]}', ['{"a":[0,{"b":1}]}', '{"a":[0,{"b":2}]}']],
  ['a name that occurs twice', { field: '.a' }, '{"a":[9],"a":[1,2]}', ['{"a":[9],"a":1}', '{"a":[9],"a":2}']],
  ['a nested target', { field: '.a', target: '.x.y' }, '{"a":[1,2],"x":{}}', ['{"x":{"y":1}}', '{"x":{"y":2}}']],
  ['the whole event is the array', { field: '.a', target: '.b' }, '{"a":[1]}', ['{"b":1}']],
  ['an empty array', { field: '.a' }, '{"a":[ ]}', ['{"a":[ ]}']],
  ['no array', { field: '.a' }, '{"a":{"b":1}}', ['{"a":{"b":1}}']],
  ['no object', { field: '.a' }, '["a"]', ['["a"]']],
]

t.test('each item becomes an event', async t => {
  for (const [title, options, line, out] of ROWS) t.same(await exploded(options, [line]), out, title)
  const all = await exploded({ field: '.a' }, ['{"a":[1,2]}', '{"n":1}', '{"a":[3]}', '{"a":[]}', '{"a":[4]}'])
  t.same(all, ['{"a":1}', '{"a":2}', '{"n":1}', '{"a":3}', '{"a":[]}', '{"a":4}'], 'in order')
})

t.test('an event that was changed before, also to an object, is exploded as it is now', async t => {
  const modified = await exploded({ field: '.a', target: '.b' }, ['{"a":[0]}'], {
    change: batch => batch.modify(0, { a: [1, { c: 'é' }], d: 2 }),
  })
  t.same(modified, ['{"d":2,"b":1}', '{"d":2,"b":{"c":"é"}}'])
  const text = await exploded({ field: '.a' }, ['{"a":[0]}'], {
    change: batch => batch.changeTo(0, Buffer.from('{"a":[{"x":\n1},\n2],\n"d":2}')),
  })
  t.same(text, ['{"a":{"x": 1}, "d":2}', '{"a":2, "d":2}'], 'line ends between values are none between events')
})

t.test('what cannot be exploded follows on_error, as it came', async t => {
  const rows: [options: object, line: string, why: RegExp][] = [
    [{ field: '.a', max_items: 2 }, '{"a":[1,2,3]}', /3 items, more than max_items/],
    [{ field: '.a', when_no_array: 'fail' }, '{"b":1}', /\.a is not an array/],
    [{ field: '.a', target: '.b.c' }, '{"a":[1,2],"b":3}', /\.b\.c cannot be set/],
    [{ field: '.a' }, `{"a":[${Array(2000).fill(1)}],"b":"${'x'.repeat(9000)}"}`, /more than 16 MiB together/],
    [{ field: '.a', target: `.${'b'.repeat(9000)}` }, `{"a":[${Array(2000).fill(1)}]}`, /more than 16 MiB together/],
  ]
  for (const [options, line, why] of rows) {
    const [kept, ...others] = await exploded(options, [line])
    t.same(others, [])
    const { processing_error: error, ...event } = JSON.parse(kept!)
    t.match(error.message, why)
    t.same(event, JSON.parse(line))
    t.same(await exploded(options, [line], { onError: 'discard' }), [])
  }
})

t.test('events that grow much are bounded together, and others beside them are exploded anyway', async t => {
  const large = `{"a":[${Array(1500).fill(1)}],"b":"${'x'.repeat(9000)}"}`
  const out = await exploded({ field: '.a' }, [large, large, large, '{"a":[1,2]}'])
  t.equal(out.length, 2 * 1500 + 3)
  t.match(out.at(-3), /would grow to more than 32 MiB together/)
})
