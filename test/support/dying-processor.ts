import { existsSync, writeFileSync } from 'node:fs'
import { z } from 'zod'
import { components } from '../../src/components.js'
import { type AnyDefinition, defineProcessor } from '../../src/core/component.js'

/** Loaded into the daemon (`node --import`): ends the thread that it runs on, or keeps it busy for ever, once. */

const options = z.strictObject({ marker: z.string() })

const dies = defineProcessor({
  type: 'dies',
  summary: 'Ends its thread, or never returns, at the first event that says so.',
  options,
  movable: true,
  examples: [{ title: '', yaml: '' }],
  create: ({ marker }) => ({
    process(batch) {
      for (let i = 0; i < batch.length; i++) {
        const { die } = batch.fields(i)
        if (die === undefined || existsSync(marker)) continue
        writeFileSync(marker, '')
        while (die === 'never');
        setImmediate(() => {
          throw new Error('a thread fell')
        })
      }
    },
  }),
})

;(components as AnyDefinition[]).push(dies)
