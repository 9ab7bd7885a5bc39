import { existsSync, writeFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'
import { z } from 'zod'
import { components } from '../../src/components.js'
import { type AnyDefinition, defineProcessor } from '../../src/core/component.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { eventually } from './patience.js'

/** Loaded into the daemon (`node --import`): ends the thread that it runs on, or keeps it busy for ever, once. */

/** `slow`: on a thread, after the marker is there, its creation waits until this file is there. */
const options = z.strictObject({
  marker: z.string(),
  refuses: z.boolean().default(false),
  slow: z.string().optional(),
})

const dies = defineProcessor({
  type: 'dies',
  summary: 'Ends its thread, or never returns, at the first event that says so.',
  options,
  movable: true,
  examples: [{ title: '', yaml: '' }],
  create: async ({ marker, refuses, slow }) => {
    if (refuses && !isMainThread) throw new Error('not on a thread')
    if (slow !== undefined && existsSync(marker)) await eventually(() => existsSync(slow))
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
