import t from 'tap'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { newReading } from '../../../../src/core/event/event-id.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { encodeIds, KnownIds, writtenAt } from '../../../../src/engine/flow/spool/ids.js'
import { batchOf } from '../../../support/batches.js'
import { Seeded } from '../../../support/seeded.js'

/** A batch whose events were read at these places. */
function batchAt(reading: string, places: readonly number[], text = 'event'): EventBatch {
  const batch = batchOf(places.map(place => `${text} ${place}`))
  batch.places = new SentOffsets(0, { reading, at: 0 }, Float64Array.from(places))
  return batch
}

const indices = ({ length }: EventBatch) => Array.from({ length }, (_, i) => i)

t.test('an event is known by its reading, its place and its content', async t => {
  const random = new Seeded(3)
  const [one, other] = [newReading(), newReading()]
  const places = Array.from({ length: 2000 }, () => random.below(2 ** 30) * 2 ** random.below(19))
  const records = [
    encodeIds([batchAt(one, places.slice(0, 500)), batchAt(other, [5, 3, 2 ** 48 - 1, 0])], 1),
    encodeIds([batchAt(one, places.slice(500))], 2),
  ]
  t.same(records.map(writtenAt), [1, 2])
  const known = new KnownIds(records)
  const all = batchAt(one, places)
  t.same(
    indices(all).filter(i => !known.has(all, i)),
    [],
  )
  const inOther = batchAt(other, [0, 1, 2, 3, 5, 2 ** 48 - 1])
  t.same(
    indices(inOther).filter(i => known.has(inOther, i)),
    [0, 3, 4, 5],
  )
  const changed = batchAt(one, places.slice(0, 10), 'changed')
  t.same(
    indices(changed).filter(i => known.has(changed, i)),
    [],
  )
  const elsewhere = batchAt(newReading(), places.slice(0, 10))
  t.same(
    indices(elsewhere).filter(i => known.has(elsewhere, i)),
    [],
  )
})

t.test('events without places are never known', async t => {
  const batch = batchOf(['a', 'b'])
  const ids = encodeIds([batch], 7)
  t.equal(ids.length, 8)
  t.equal(new KnownIds([ids]).has(batch, 0), false)
  t.ok(new KnownIds([ids]).isEmpty)
})
