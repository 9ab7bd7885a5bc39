import t from 'tap'
import { components } from '../../../../src/components/list.js'
import type { AnyDefinition } from '../../../../src/core/component.js'
import { checkProcessor } from '../../../../src/engine/testing/check-processor.js'

/** What holds for every processor of the list, with the options of each of its examples. */

const processors = components.filter(
  (definition): definition is AnyDefinition<'processor'> => definition.kind === 'processor',
)

for (const definition of processors) {
  t.test(`${definition.type}: it keeps to the contract, as plugins are held to it`, async t => {
    t.same(await checkProcessor(definition), [])
  })
}
