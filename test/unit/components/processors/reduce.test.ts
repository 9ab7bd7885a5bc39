import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { reduce } from '../../../../src/components/processors/reduce.js'
import { RawEncoder } from '../../../../src/core/codecs/encode.js'
import type { AckStatus } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { batchOf, collectLines, linesOf } from '../../../support/batches.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import { loadedStageOf } from '../../../support/stage.js'

async function reduced(options: object, ...events: object[]): Promise<unknown[]> {
  const { stage, wanted, counters } = await loadedStageOf(reduce, options)
  const out: string[] = []
  const batch = batchOf(events, { wanted })
  counters.arrived(batch.length, batch.bytes)
  await pipeline(Readable.from([batch]), stage, collectLines(out))
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  return out.map(line => JSON.parse(line))
}

t.test('each rule merges the values of a field', async t => {
  const events = [{ v: 2, t: 'a' }, { v: '3', t: 'b' }, { v: 2, t: 1 }, { v: null, t: { x: 1 } }, { t: true }]
  for (const [rule, v, text] of [
    ['first', 2, 'a'],
    ['last', 2, true],
    ['sum', 7, 1],
    ['min', 2, 1],
    ['max', 3, 1],
    ['concat', '2 3 2', 'a b 1 true'],
    ['array', [2, '3', 2], ['a', 'b', 1, { x: 1 }, true]],
    ['unique', [2, '3'], ['a', 'b', 1, { x: 1 }, true]],
    ['count', 3, 5],
  ] as const)
    t.same(await reduced({ merge: { '.v': rule, '.t': rule } }, ...events), [{ v, t: text }], rule)
})

t.test('fields that come later are added, and rules reach into objects', async t => {
  const events = [{ a: { n: 1, x: 'x' } }, { a: { n: 2 }, b: 1 }, { a: 5, c: { n: 1 } }]
  t.same(await reduced({ merge: { '.a.n': 'sum', '.c.m': 'count', '.d.e': 'sum' } }, ...events), [
    { a: { n: 3, x: 'x' }, b: 1, c: { n: 1, m: 0 } },
  ])
  t.same(await reduced({ merge: { '.a.n': 'sum' } }, { a: 1 }, { a: { n: 4 } }), [{ a: 1 }])
})

t.test('a value of any depth is merged, and no event counts twice for it', async t => {
  const { stage, wanted, counters } = await loadedStageOf(reduce, { merge: { '.n': 'sum', '.v': 'unique' } })
  const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`
  const batch = batchOf(['{"n":1}', `{"n":1,"v":${deep}}`, `{"n":1,"v":${deep}}`], { wanted })
  counters.arrived(batch.length, batch.bytes)
  const merged: string[] = []
  await pipeline(Readable.from([batch]), stage, async all => {
    for await (const one of all as AsyncIterable<EventBatch>) {
      merged.push(Buffer.concat(new RawEncoder().encode([one]).parts).toString())
      one.ack.settle('delivered')
    }
  })
  t.same(merged, [`{"n":3,"v":[${deep}]}\n`])
})

t.test('conditions and bounds end groups', async t => {
  const ids = (...ids: number[]) => ids.map((id, n) => ({ id, n }))
  const count = { merge: { '.n': 'array' } }
  const groups = async (options: object, ...events: object[]) =>
    ((await reduced({ ...count, ...options }, ...events)) as { n: number[] }[]).map(({ n }) => n)
  t.same(await groups({ ends_when: 'if (.id equal 9)' }, ...ids(1, 2, 9, 1, 9)), [
    [0, 1, 2],
    [3, 4],
  ])
  t.same(await groups({ starts_when: 'if (.id equal 1)' }, ...ids(3, 1, 2, 1, 2)), [[0], [1, 2], [3, 4]])
  t.same(await groups({ max_events: 2 }, ...ids(1, 1, 1)), [[0, 1], [2]])
  t.same(await groups({ key_field: '.id', max_groups: 2 }, ...ids(1, 2, 1, 3, 2)), [[0, 2], [1, 4], [3]])
  const long = { id: 1, n: 'x'.repeat(600) }
  t.equal((await groups({ max_bytes: 2000, merge: { '.n': 'array' } }, long, long, long, long)).length, 2)
  t.equal((await groups({ max_bytes: 2000, merge: { '.n': 'count' } }, long, long, long, long)).length, 1)
  const empty = { id: 1, n: Array.from({ length: 100 }, () => ({})) }
  const many = Array.from({ length: 20 }, () => empty)
  t.equal((await groups({ max_bytes: '64KiB', merge: { '.n': 'array' } }, ...many)).length, 3, 'small values')
  const grown = [1, 2, 3].flatMap(id => [
    { id, n: '' },
    { id, n: 'x'.repeat(900) },
  ])
  const kept = { key_field: '.id', max_bytes: 3000, merge: { '.n': 'last' } }
  t.equal((await reduced({ ...kept, ends_when: 'if (.id equal 3)' }, ...grown)).length, 4, 'a last value that grew')
})

t.test('time ends groups, and what is delivered is acknowledged', async t => {
  const clock = new ManualTime()
  const options = { key_field: '.id', timeout: '2 Seconds', max_duration: '5 Seconds', merge: { '.n': 'count' } }
  const { stage, wanted } = await loadedStageOf(reduce, options, { clock })
  await stage.start(new AbortController().signal)
  const settled: string[] = []
  const send = async (name: string, ...ids: number[]) => {
    const events = ids.map(id => ({ id, n: 0 }))
    stage.write(batchOf(events, { wanted, onSettled: (status: AckStatus) => settled.push(`${name} ${status}`) }))
    await settle()
  }
  const left = async (ms: number) => {
    await clock.advance(ms)
    await settle()
    const batch = stage.read()
    const events = batch ? linesOf(batch) : []
    batch?.ack.settle('delivered')
    return events
  }
  await send('a', 1, 2)
  t.same(await left(1500), [])
  await send('b', 2, 2)
  t.same(await left(600), ['{"id":1,"n":1}'])
  t.same(settled, [], 'the other group has events of the first batch')
  await send('c', 2)
  t.same(await left(1500), [])
  await send('d', 2)
  t.same(await left(1600), ['{"id":2,"n":5}'], 'it has lasted for five seconds')
  t.same(settled, ['a delivered', 'b delivered', 'c delivered', 'd delivered'])
  stage.destroy()
})

t.test('open groups pass to a successor with the same options', async t => {
  const settled: AckStatus[] = []
  const options = { key_field: '.id', merge: { '.n': 'sum' } }
  const first = await loadedStageOf(reduce, options)
  const send = async ({ stage, wanted }: typeof first, source?: string) => {
    const more = source === undefined ? {} : { source }
    stage.write(batchOf([{ id: 1, n: 2 }], { wanted, onSettled: status => settled.push(status), ...more }))
    await settle()
  }
  await send(first)
  first.stage.isReplaced = true
  first.stage.resume()
  first.stage.end()
  await settle()
  const second = await loadedStageOf(reduce, options, { inherited: first.processor.handOver!()!.value })
  await send(second)
  t.same(settled, [])
  const out: string[] = []
  second.stage.end()
  await pipeline(Readable.from(second.stage), collectLines(out))
  t.same(out, ['{"id":1,"n":4}'])
  t.same(settled, ['delivered', 'delivered'])
})
