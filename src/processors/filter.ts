import { z } from 'zod'
import { compileCondition, condition, type EventTest, pathsOf } from '../condition/condition.js'
import { explainCondition } from '../condition/explain.js'
import type { EventBatch } from '../core/batch.js'
import { BatchTransform, SideOutlet } from '../core/batch-transform.js'
import { type ComponentContext, defineProcessor } from '../core/component.js'

const options = z.strictObject({
  condition: condition().describe(
    "Events that match are kept, as in `if (.level equal 'error')`; the others are discarded.",
  ),
})
type Options = z.output<typeof options>

class Filter extends BatchTransform {
  override readonly outlets = { discarded: new SideOutlet() }
  readonly #keeps: EventTest

  constructor(options: Options, context: ComponentContext) {
    super(context)
    this.#keeps = compileCondition(options.condition, path => context.field(path))
  }

  protected override apply(batch: EventBatch): void {
    this.discard(batch, i => this.#keeps(batch, i), 'filtered', this.outlets.discarded)
  }
}

export const filter = defineProcessor({
  type: 'filter',
  summary: 'Keeps the events that match a condition, and discards the others.',
  notes: 'Discarded events are counted (reason `filtered`) and can be read at the output `discarded`.',
  options,
  outlets: ['discarded'],
  examples: [
    {
      title: 'Errors, and whatever took longer than a second',
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
      title: 'Everything but health checks from inside',
      yaml: `condition: if (NOT (.path starts_with '/health' AND .client is_ip_in_cidr_range '10.0.0.0/8'))\n`,
      input: [
        '{"path":"/healthz","client":"10.1.2.3"}',
        '{"path":"/healthz","client":"192.0.2.7"}',
        '{"path":"/orders","client":"10.1.2.3"}',
      ],
      output: ['{"path":"/healthz","client":"192.0.2.7"}', '{"path":"/orders","client":"10.1.2.3"}'],
    },
  ],
  usesFields: ({ condition }) => pathsOf(condition).map(path => ({ option: 'condition', path })),
  create: (options, context) => new Filter(options, context),
  explain(options, context) {
    const condition = explainCondition(options.condition, path => context.field(path))
    return batch => {
      const { holds, ...found } = condition(batch, 0)
      const findings = [{ text: 'condition', holds, parts: [{ ...found, holds }] }]
      return holds ? { outcome: 'passed', findings } : { outcome: 'discarded', reason: 'filtered', findings }
    }
  },
})
