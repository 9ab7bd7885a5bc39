import t from 'tap'
import { Ack } from '../../../../src/core/event/ack.js'
import { lineBatch } from '../../../../src/engine/flow/made-batch.js'
import { originOf } from '../../../support/batches.js'
import { freeChunks } from '../../../support/free-chunks.js'

t.test('a batch of long lines that were made gives its memory back when it is settled', async t => {
  const before = freeChunks()
  const lines = Buffer.from(`{"n":"${'x'.repeat(300_000)}"}\n`)
  const batch = lineBatch(lines, originOf('json'), 0, new Ack(() => {}))
  t.ok(freeChunks() < before, 'it takes memory')
  batch.ack.settle('delivered')
  t.equal(freeChunks(), before)
})
