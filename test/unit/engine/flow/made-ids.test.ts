import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { aggregate } from '../../../../src/components/processors/aggregate.js'
import { explode } from '../../../../src/components/processors/explode.js'
import { reduce } from '../../../../src/components/processors/reduce.js'
import type { AnyDefinition } from '../../../../src/core/component.js'
import { Ack } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { appendEventId, eventId, eventSums } from '../../../../src/core/event/event-id.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { BatchDecoder, encodeBatch } from '../../../../src/engine/flow/disk-buffer/record.js'
import { GrowingBytes } from '../../../../src/lib/formats/growing-bytes.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../../support/batches.js'
import { loadedStageOf } from '../../../support/stage.js'

/** The ids of what becomes of these lines, which come in batches of so many, read from the same place each time. */
async function idsOf(
  lines: readonly string[],
  size: number,
  ...steps: [definition: AnyDefinition<'processor'>, options: object][]
) {
  const ids: string[] = []
  const wanted = new WantedNames()
  wanted.areIdsUsed = true
  const stages = await Promise.all(steps.map(([definition, options]) => loadedStageOf(definition, options, { wanted })))
  let at = 0
  const batches: EventBatch[] = []
  for (let from = 0; from < lines.length; from += size) {
    const part = lines.slice(from, from + size)
    const batch = batchOf(part, { wanted })
    batch.sentOffsets = new SentOffsets(batch.starts[0]!, { reading: '00112233aabbccdd', at })
    at += batch.bytes
    batches.push(batch)
  }
  const end = new Writable({
    objectMode: true,
    write(batch: EventBatch, _encoding, done) {
      const text = new GrowingBytes()
      for (let i = 0; i < batch.length; i++) ids.push(eventId(batch, i))
      for (let i = 0; i < batch.length; i++) appendEventId(batch, i, eventSums(batch)[i]!, text)
      t.equal(text.bytes.toString('latin1', 0, text.length), ids.slice(-batch.length).join(''))
      const kept = new BatchDecoder(wanted).decode(encodeBatch(batch, 0, undefined, true), new Ack(() => {}))
      const inBuffer = Array.from({ length: batch.length }, (_, i) => eventId(kept, i))
      t.same(inBuffer, ids.slice(-batch.length), 'a disk buffer keeps them')
      batch.ack.settle('delivered')
      done()
    },
  })
  await pipeline([Readable.from(batches), ...stages.map(({ stage }) => stage), end])
  return ids
}

t.test('events that replace another one have the same ids again, and none is that of another', async t => {
  const lines = ['{"a":[1,1,2]}', '{"b":1}', '{"a":[1]}', '{"a":[[1,1],[1,1]]}', '{"a":[1]}']
  const explodes: [AnyDefinition<'processor'>, object] = [explode, { field: '.a' }]
  const once = await idsOf(lines, 5, explodes)
  t.equal(new Set(once).size, 8)
  t.same(await idsOf(lines, 2, explodes), once, 'in other batches, too')
  const twice = await idsOf(lines, 5, explodes, explodes)
  t.equal(new Set(twice).size, 10, 'what is exploded again')
  t.same(await idsOf(lines, 1, explodes, explodes), twice)
})

t.test('so have merged events, by the first event of their group', async t => {
  const lines = ['{"k":1,"end":0}', '{"k":2,"end":0}', '{"k":1,"end":1}', '{"k":2,"end":1}', '{"k":1,"end":1}']
  const merges: [AnyDefinition<'processor'>, object] = [
    reduce,
    { key_field: '.k', ends_when: 'if (.end equal 1)', merge: { '.end': 'sum' } },
  ]
  const once = await idsOf(lines, 5, merges)
  t.equal(new Set(once).size, 3)
  t.same([...(await idsOf(lines, 2, merges))].sort(), [...once].sort())
})

t.test('events of aggregate have ids of their own', async t => {
  const counts: [AnyDefinition<'processor'>, object] = [aggregate, { key_field: '.k', counters: { events: {} } }]
  const lines = ['{"k":1}', '{"k":2}', '{"k":1}']
  const ids = [...(await idsOf(lines, 2, counts)), ...(await idsOf(lines, 2, counts))]
  t.equal(new Set(ids).size, 4, 'also where they count the same')
})
