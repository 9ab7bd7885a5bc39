import { z } from 'zod'
import { components } from '../../src/components/list.js'
import { type AnyDefinition, defineProcessor } from '../../src/core/component.js'
import { sleep } from '../../src/lib/time.js'

/**
 * Loaded into the daemon by `--require`, as `--import` takes a third of a start: processors that do nothing to events, and
 * make that as hard as they can.
 */

const about = { options: z.strictObject({}), examples: [{ title: '', yaml: '' }] } as const

/** Has several batches at a time for 20 ms and more each, the later ones sometimes for less. */
const waits = defineProcessor({
  ...about,
  type: 'chaos_waits',
  summary: 'Waits with each batch.',
  plan: () => ({ concurrency: 4 }),
  create() {
    let n = 0
    return { process: (_batch, _to, { signal }) => sleep(20 + (n++ % 3) * 10, signal) }
  },
})

/** Cannot process a batch in which one of a hundred lines is, unless that line is alone. */
const throws = defineProcessor({
  ...about,
  type: 'chaos_throws',
  summary: 'Throws for one event of a hundred.',
  create: () => ({
    process(batch) {
      for (let i = 0; i < batch.length && batch.length > 1; i++) {
        let sum = 0
        for (let at = batch.starts[i]!; at < batch.ends[i]!; at++) sum += batch.chunk[at]!
        if (sum % 100 === 0) throw new Error('one event of a hundred')
      }
    },
  }),
})

;(components as AnyDefinition[]).push(waits, throws)
