import { once } from 'node:events'
import t from 'tap'
import { defineProcessor } from '../../../../src/core/component.js'
import { Ack } from '../../../../src/core/event/ack.js'
import type { Emitted } from '../../../../src/core/processor.js'
import { lineBatch } from '../../../../src/engine/flow/made-batch.js'
import { batchOf, originOf } from '../../../support/batches.js'
import { madeUp } from '../../../support/made-up.js'
import { stageOf } from '../../../support/stage.js'

/** The counts of a processor with the side output `own`, which nobody reads, and that emits events at its end. */
async function emits(...events: Emitted[]) {
  const definition = defineProcessor({
    type: 'emits',
    ...madeUp(),
    plan: () => ({ outputs: ['own'], reasons: ['one'] }),
    create: () => ({ process() {}, emit: why => (why === 'drain' ? events : []) }),
  })
  const { stage, counters, wanted } = stageOf(definition, {})
  const batch = batchOf(['{"n":1}'], { wanted })
  counters.arrived(batch.length, batch.bytes)
  stage.resume()
  stage.end(batch)
  await once(stage, 'end')
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  return counters
}

t.test('what is emitted to an output that nobody reads is counted as unrouted', async t => {
  const counters = await emits({ fields: { a: 1 }, to: 'own' }, { fields: { b: 1 } })
  t.same(counters.discards.get('unrouted'), { events: 1, bytes: '{"a":1}\n'.length })
  t.equal(counters.emittedEvents.events, 2)
  t.equal(counters.passed.events, 2)
})

t.test('what is emitted beside discarded events that nobody reads is not made', async t => {
  const counters = await emits({ fields: { a: 1 }, to: 'discarded' })
  t.equal(counters.emittedEvents.events, 0)
  t.equal(counters.discards.size, 0)
})

t.test('to emit to an output that the plan does not have is a fault, and counted', async t => {
  const counters = await emits({ fields: { a: 1 }, to: 'other' })
  t.equal(counters.discards.get('unrouted')?.events, 1)
  t.equal(counters.failures.get('bug'), 1)
})

t.test('a batch of long lines that were made gives its memory back when it is settled', async t => {
  const lines = Buffer.from(`{"n":"${'x'.repeat(300_000)}"}\n`)
  const made = () => lineBatch(lines, originOf('json'), 0, new Ack(() => {}))
  const batch = made()
  const { chunk } = batch
  const other = made()
  t.not(other.chunk, chunk, 'it takes memory')
  other.ack.settle('delivered')
  batch.ack.settle('delivered')
  const next = made()
  t.equal(next.chunk, chunk)
  next.ack.settle('delivered')
})
