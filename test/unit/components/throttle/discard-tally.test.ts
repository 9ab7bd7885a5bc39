import t from 'tap'
import { EventKey } from '../../../../src/components/throttle/buckets/event-key.js'
import { DiscardTally } from '../../../../src/components/throttle/counts/discard-tally.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf, readerOf } from '../../../support/batches.js'

t.test('events of buckets that are known by their ids are counted, however large the ids are', t => {
  const wanted = new WantedNames()
  const key = new EventKey([readerOf('.k', wanted)], 1)
  const many = 4000
  const batch = batchOf(
    Array.from({ length: many }, (_, k) => ({ k })),
    { wanted },
  )
  const tally = new DiscardTally(false)
  // As with rules: the number of a bucket, and that of its group.
  const idOf = (i: number) => (i * 25) << 3
  const { arrayBuffers } = process.memoryUsage()
  let known = 0
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < many; i++) {
      if (tally.addKnown(7, idOf(i), batch, i, round)) known++
      else {
        key.load(batch, i)
        tally.add(key, batch, i, round)
        tally.know(7, idOf(i))
      }
    }
  }
  t.ok(process.memoryUsage().arrayBuffers - arrayBuffers < 1_000_000)
  t.ok(known > many, `${known} of ${many * 3} were not looked up by their bytes`)
  t.notOk(tally.addKnown(8, idOf(0), batch, 0, 3), 'an id of other buckets')
  t.notOk(tally.addKnown(7, idOf(many), batch, 0, 3))
  t.notOk(tally.addKnown(7, -1, batch, 0, 3))
  const counts: unknown[] = []
  tally.drain(({ bucket, events, first, last }) => counts.push([bucket, events, first, last]))
  t.same(
    counts,
    Array.from({ length: many }, (_, k) => [`${k}`, 3, 0, 2]),
  )
  t.notOk(tally.addKnown(7, idOf(0), batch, 0, 3), 'its row is gone')
  t.end()
})
