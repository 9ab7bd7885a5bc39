import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { defineProcessor, type Processor } from '../../../../src/core/component.js'
import { FAILED } from '../../../../src/core/processor.js'
import { batchOf, collectLines } from '../../../support/batches.js'
import { madeUp } from '../../../support/made-up.js'
import { stageOf } from '../../../support/stage.js'

/** Changes all events, takes back what it did to odd ones, and throws at 3. */
const processor: Processor = {
  process(batch, to, scope) {
    for (let i = 0; i < batch.length; i++) {
      const n = batch.fields(i).n as number
      batch.changeTo(i, Buffer.from(`{"n":${n},"changed":true}`))
      if (n === 3) throw new Error('no threes')
      if (n % 2 === 0) continue
      batch.restoreEvent(i)
      to[i] = FAILED
      scope.because(i, 'odd')
    }
  },
}
const definition = defineProcessor({
  type: 'odd',
  ...madeUp('Fails.'),
  create: () => processor,
})

t.test('what a processor takes back of an event stays back, also when another event makes it throw', async t => {
  for (const count of [3, 4]) {
    const { stage, wanted, counters } = stageOf(definition, {})
    const lines = Array.from({ length: count }, (_, n) => `{"n":${n}}`)
    const batch = batchOf(lines, { wanted })
    batch.changeTo(1, Buffer.from('{"n":1,"before":true}'))
    counters.arrived(batch.length, batch.bytes)
    const out: string[] = []
    await pipeline(Readable.from([batch]), stage, collectLines(out))
    const failed = (message: string) => ({ processing_error: { component: 'p', message } })
    const expected = [
      { n: 0, changed: true },
      { n: 1, before: true, ...failed('odd') },
      { n: 2, changed: true },
    ]
    const events = out.map(line => JSON.parse(line))
    t.same(events.slice(0, 3), expected)
    if (count === 4) t.same(events[3], { n: 3, ...failed('no threes') })
  }
})
