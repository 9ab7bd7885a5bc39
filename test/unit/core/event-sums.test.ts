import { crc32 } from 'node:zlib'
import t from 'tap'
import { eventSum, eventSums } from '../../../src/core/event/event-id.js'
import { batchesOf, originOf } from '../../support/batches.js'
import { pooledLines } from '../../support/pooled-batch.js'
import { Seeded } from '../../support/seeded.js'

t.test('the checksums of all events are those of each', async t => {
  const random = new Seeded(20_261_130)
  const origin = originOf('text')
  for (let round = 0; round < 40; round++) {
    const lines = Array.from({ length: 1 + random.below(round === 0 ? 9000 : 50) }, () =>
      'a b\u00e9c\u0001"0123456789\u{1f600}'.repeat(random.below(4)).slice(random.below(5)),
    )
    if (round % 10 === 1) lines.push('x'.repeat(600_000), 'after it')
    const text = lines.join('\n')
    const isPooled = text.length < 200_000 && round % 2 === 0
    const batch = isPooled ? pooledLines(text, origin) : batchesOf(`${text}\n`, origin)[0]!
    const each = () => Array.from({ length: batch.length }, (_, i) => eventSum(batch, i))
    t.same([...eventSums(batch).subarray(0, batch.length)], each())
    batch.modify(0, { changed: round })
    t.same([...eventSums(batch).subarray(0, batch.length)], each(), 'a changed event has that of its text')
    t.equal(eventSum(batch, 0), crc32(`{"changed":${round}}`))
  }
})
