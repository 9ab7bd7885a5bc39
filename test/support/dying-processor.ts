import { existsSync, writeFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'
import { z } from 'zod'
import { components } from '../../src/components.js'
import { type AnyDefinition, defineProcessor } from '../../src/core/component.js'
import type { EventBatch } from '../../src/core/event/batch.js'

/** Loaded into the daemon (`node --import`): ends the thread that it runs on, or keeps it busy for ever, once. */

const options = z.strictObject({ marker: z.string(), refuses: z.boolean().default(false) })

const dies = defineProcessor({
  type: 'dies',
  summary: 'Ends its thread, or never returns, at the first event that says so.',
  options,
  movable: true,
  examples: [{ title: '', yaml: '' }],
  create: ({ marker, refuses }) => {
    if (refuses && !isMainThread) throw new Error('not on a thread')
    return { process: batch => look(batch, marker) }
  },
})

function look(batch: EventBatch, marker: string): void {
  for (let i = 0; i < batch.length; i++) {
    const { die } = batch.fields(i)
    if (die === undefined || existsSync(marker)) continue
    writeFileSync(marker, '')
    while (die === 'never');
    setImmediate(() => {
      throw new Error('a thread fell')
    })
  }
}

;(components as AnyDefinition[]).push(dies)
