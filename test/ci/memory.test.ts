import t from 'tap'
import { parse } from 'yaml'
import { components } from '../../src/components/list.js'
import type { AnyDefinition } from '../../src/core/component.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { LINES } from '../../src/engine/testing/check-processor.js'
import { batchOf } from '../support/batches.js'
import { heldBytes } from '../support/heap.js'
import { settle } from '../support/manual-time.js'
import { loadedStageOf } from '../support/stage.js'

/** What holds for every processor of the list, with the options of its first example. */

const processors = components.filter(
  (definition): definition is AnyDefinition<'processor'> => definition.kind === 'processor',
)

for (const definition of processors) {
  t.test(`${definition.type}: its memory stays flat`, async t => {
    const [{ yaml }] = definition.examples
    const { stage, wanted } = await loadedStageOf(definition, parse(yaml) ?? {})
    stage.on('data', (batch: EventBatch) => batch.ack.settle('delivered'))
    const short = LINES.filter(({ length }) => length < 1000)
    const lines = Array.from({ length: 1000 }, (_, i) => short[i % short.length]!)
    const send = async (batches: number) => {
      for (let n = 0; n < batches; n++)
        if (!stage.write(batchOf(lines, { wanted }))) await new Promise(resolve => stage.once('drain', resolve))
      await settle()
      return heldBytes()
    }
    const before = await send(40)
    const grown = (await send(200)) - before
    t.ok(grown < 1024 * 1024, `${Math.round(grown / 1024)} KiB more after 200,000 events`)
    stage.destroy()
  })
}
