import { z } from 'zod'
import { type ComponentContext, defineProcessor, type Processor } from '../../core/component.js'
import { type BatchTest, compileBatchTest, condition, pathsOf } from '../../core/condition/condition.js'
import type { EventBatch } from '../../core/event/batch.js'
import { discard, MAIN } from '../../core/processor.js'

const FILTERED = discard(0)

const options = z.strictObject({
  condition: condition().describe(
    "Condition, as in `if (.level equal 'error')`. Matching events pass; all other events are discarded.",
  ),
})
type Options = z.output<typeof options>

class Filter implements Processor {
  readonly #keeps: BatchTest

  constructor({ condition }: Options, context: ComponentContext) {
    this.#keeps = compileBatchTest(condition, path => context.field(path))
  }

  process(batch: EventBatch, to: Uint8Array): void {
    this.#keeps(batch, to)
    for (let i = 0; i < batch.length; i++) to[i] = to[i] === 1 ? MAIN : FILTERED
  }
}

export const filter = defineProcessor({
  type: 'filter',
  summary: 'Keeps the events that match a condition, and discards the others.',
  options,
  plan: () => ({ reasons: ['filtered'] }),
  reasons: { filtered: 'The condition does not hold.' },
  examples: [
    {
      title: 'Errors, and events that took longer than a second',
      yaml: `condition: if (.level equal 'error' OR .took_ms greater 1000)\n`,
      input: [
        '{"level":"info","took_ms":12}',
        '{"level":"error","took_ms":9}',
        '{"level":"info","took_ms":1001}',
        '{"message":"no level"}',
      ],
      output: ['{"level":"error","took_ms":9}', '{"level":"info","took_ms":1001}'],
    },
    {
      title: 'All events except internal health checks',
      yaml: `condition: if (NOT (.path starts_with '/health' AND .client is_ip_in_cidr_range '10.0.0.0/8'))\n`,
      input: [
        '{"path":"/healthz","client":"10.1.2.3"}',
        '{"path":"/healthz","client":"192.0.2.7"}',
        '{"path":"/orders","client":"10.1.2.3"}',
      ],
      output: ['{"path":"/healthz","client":"192.0.2.7"}', '{"path":"/orders","client":"10.1.2.3"}'],
    },
  ],
  copiesLines: () => true,
  usesFields: ({ condition }) => pathsOf(condition).map(path => ({ option: 'condition', path })),
  create: (options, context) => new Filter(options, context),
  checks: async () => {
    const { lostWarnings } = await import('../../core/condition/without-field.js')
    return { warnings: ({ condition }) => lostWarnings(['condition'], condition, 'is discarded') }
  },
  explains: async () => {
    const { explainCondition } = await import('../../core/condition/explain.js')
    return {
      findings({ condition }, context) {
        const explain = explainCondition(condition, path => context.field(path))
        return batch => {
          const found = explain(batch, 0)
          return [{ text: 'condition', holds: found.holds, parts: [found] }]
        }
      },
    }
  },
})
