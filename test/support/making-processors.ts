import { z } from 'zod'
import { components } from '../../src/components/list.js'
import { type AnyDefinition, defineProcessor } from '../../src/core/component.js'
import type { Share } from '../../src/core/event/ack.js'
import { CONSUMED, discard, type Emitted, FAILED, output } from '../../src/core/processor.js'

/** Loaded into the daemon (`node --import`): processors that route, split and collect events by their number `.n`. */

const about = { options: z.strictObject({}), examples: [{ title: '', yaml: '' }] as const }

/** Numbers below 0 are discarded; the others go to `even` and `odd`. */
const parity = defineProcessor({
  ...about,
  type: 'test_parity',
  summary: 'Routes even and odd numbers.',
  plan: () => ({ outputs: ['even', 'odd'], reasons: ['negative'] }),
  create: () => ({
    process(batch, to) {
      for (let i = 0; i < batch.length; i++) {
        const n = Number(batch.fields(i).n)
        to[i] = n < 0 ? discard(0) : output(n % 2)
      }
    },
  }),
})

/** An event becomes as many as its number says. */
const split = defineProcessor({
  ...about,
  type: 'test_split',
  summary: 'Makes n events of one.',
  create: () => ({
    process(batch, _to, scope) {
      for (let i = 0; i < batch.length; i++) {
        const { n } = batch.fields(i)
        scope.replace(
          i,
          Array.from({ length: Number(n) }, (_, part) => ({ n, part })),
        )
      }
    },
  }),
})

/** All events become one, the sum of their numbers. */
const collect = defineProcessor({
  ...about,
  type: 'test_collect',
  summary: 'Makes one event of all.',
  create() {
    const shares: Share[] = []
    let sum = 0
    return {
      process(batch, to, scope) {
        for (let i = 0; i < batch.length; i++) {
          const n = Number(batch.fields(i).n)
          to[i] = Number.isNaN(n) ? FAILED : CONSUMED
          if (to[i] === CONSUMED) sum += n
        }
        shares.push(scope.share())
      },
      emit(why): Emitted[] {
        return why === 'time' || shares.length === 0 ? [] : [{ fields: { sum }, shares: shares.splice(0) }]
      },
    }
  },
})

;(components as AnyDefinition[]).push(parity, split, collect)
