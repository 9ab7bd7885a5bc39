import { z } from 'zod'
import { defineDestination } from '../../core/component.js'
import { LOCAL_DEFAULTS } from '../../core/options/delivery-options.js'

const options = z.strictObject({})

export const blackhole = defineDestination({
  type: 'blackhole',
  summary: 'Accepts every event and drops it, for measurements and tests.',
  options,
  examples: [{ title: 'Nothing to set', yaml: '' }],
  delivery: LOCAL_DEFAULTS,
  copiesLines: () => true,
  create: () => ({ write: async () => {} }),
  explains: async () => ({
    explain: () => () => ({ outcome: 'delivered', findings: [{ text: 'it is dropped' }], bytes: Buffer.alloc(0) }),
  }),
})
