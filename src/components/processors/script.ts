import { defineProcessor } from '../../core/component.js'
import { scriptOptions } from './script/options.js'

/** Maximum batches that a script has at a time, even if `concurrency` allows more calls. */
const MOST_BATCHES = 16

export const script = defineProcessor({
  type: 'script',
  summary: 'Calls your own function in JavaScript or TypeScript with each event or each batch.',
  notes:
    'The function returns one of these: the event, changed or unchanged; `null`, to discard the event; an array of events that take its place; `context.to(NAME, event)`. ' +
    'It may be async. It runs in a process of its own. `docs/scripts.md` explains it.',
  options: scriptOptions,
  plan: ({ outputs, concurrency }) => ({
    outputs,
    option: 'outputs',
    reasons: ['dropped'],
    // The script gets one batch that it does not work on yet, so that the next batch is always ready.
    concurrency: Math.min(concurrency, MOST_BATCHES) + 1,
  }),
  reasons: { dropped: 'The function returned `null` or an empty array.' },
  examples: [
    {
      title: 'A field is computed, and health checks are discarded',
      yaml: `code: |
  event => {
    if (event.path === '/health') return null
    return { ...event, slow: event.took_ms > 1000 }
  }
`,
      input: ['{"path":"/orders","took_ms":1204}', '{"path":"/health","took_ms":1}'],
      output: ['{"path":"/orders","took_ms":1204,"slow":true}'],
    },
    {
      title: 'An event for each item of an order',
      yaml: `code: ({ items, ...order }) => (items ?? []).map(item => ({ ...order, item }))\n`,
      input: ['{"order":7,"items":["a","b"]}'],
      output: ['{"order":7,"item":"a"}', '{"order":7,"item":"b"}'],
    },
  ],
  // A script may add any field.
  fields: () => undefined,
  module: 'file',
  checks: async () => ({ checkFiles: (await import('./script/script-process.js')).scriptProblems }),
  create: async (options, context) =>
    (await import('./script/script-processor.js')).ScriptProcessor.open(options, context),
})
