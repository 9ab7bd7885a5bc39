import { z } from 'zod'
import { type ComponentContext, defineProcessor, type Processor } from '../../core/component.js'
import { compileCondition, condition, type EventTest } from '../../core/condition/condition.js'
import type { Condition } from '../../core/condition/parse.js'
import type { EventBatch } from '../../core/event/batch.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import type { Finding } from '../../core/explain.js'
import { type BatchScope, MAIN, output } from '../../core/processor.js'

const NAME = /^[a-z][a-z0-9_]*$/

const options = z.strictObject({
  routes: z
    .record(z.string().regex(NAME, 'must be made of a-z, 0-9 and _, and begin with a letter'), condition())
    .refine(routes => Object.keys(routes).length > 0, 'must have at least one route')
    .describe('Condition of each route, by name. Other components read the events of route `errors` as `id.errors`.'),
  match: z
    .enum(['first', 'all'])
    .default('first')
    .describe(
      'For events that match several conditions. first: they go to the first matching route. all: each matching route gets a copy.',
    ),
})
type Options = z.output<typeof options>

const conditionsOf = ({ routes }: Options): [name: string, condition: Condition][] => Object.entries(routes)

class Route implements Processor {
  readonly #tests: readonly EventTest[]
  readonly #sendsToAll: boolean

  constructor(options: Options, context: ComponentContext) {
    this.#tests = conditionsOf(options).map(([, condition]) => compileCondition(condition, path => context.field(path)))
    this.#sendsToAll = options.match === 'all'
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    const tests = this.#tests
    for (let i = 0; i < batch.length; i++) {
      for (let n = 0; n < tests.length; n++) {
        if (!tests[n]!(batch, i)) continue
        if (to[i] !== MAIN) scope.copy(i, n)
        else {
          to[i] = output(n)
          if (!this.#sendsToAll) break
        }
      }
    }
  }
}

export const routeProcessor = defineProcessor({
  type: 'route',
  summary: 'Divides events among outputs by conditions.',
  notes:
    'Each route is a side output: other components read `id.errors` for a route named `errors`, and `id.else` for the events that match no route. They cannot read `id` itself. If no component reads an output, its events are discarded with the reason `unrouted`, and `sluice validate` warns of it. To discard them on purpose, let a `blackhole` read the output. An output that is read slowly blocks the others.\n\nWith `match: all` the copies count as `sluice_component_emitted_events_total`.',
  options,
  plan: ({ routes, match }) => ({
    outputs: Object.keys(routes),
    main: 'else',
    copies: match === 'all',
    option: 'routes',
  }),
  examples: [
    {
      title: 'Errors, slow requests, and all other events',
      yaml: "routes:\n  errors: if (.level equal 'error')\n  slow: if (.took_ms greater 1000)\n",
      input: ['{"level":"error","took_ms":2000}', '{"level":"info","took_ms":1001}', '{"level":"info","took_ms":12}'],
      outputs: {
        errors: ['{"level":"error","took_ms":2000}'],
        slow: ['{"level":"info","took_ms":1001}'],
        else: ['{"level":"info","took_ms":12}'],
      },
    },
    {
      title: 'Each team gets its events, and some events go to both teams',
      yaml: "match: all\nroutes:\n  payments: if (.app starts_with 'pay')\n  on_call: if (.level equal 'error')\n",
      input: ['{"app":"pay-1","level":"error"}', '{"app":"shop","level":"info"}'],
      outputs: {
        payments: ['{"app":"pay-1","level":"error"}'],
        on_call: ['{"app":"pay-1","level":"error"}'],
        else: ['{"app":"shop","level":"info"}'],
      },
    },
  ],
  copiesLines: () => true,
  usesFields: ({ routes }) => fieldsIn({ routes }),
  create: (options, context) => new Route(options, context),
  checks: async () => {
    const { lostWarnings } = await import('../../core/condition/without-field.js')
    return {
      warnings: options =>
        conditionsOf(options).flatMap(([name, condition]) =>
          lostWarnings(['routes', name], condition, `does not go to ${name}`),
        ),
    }
  },
  explains: async () => {
    const { explainCondition } = await import('../../core/condition/explain.js')
    return {
      findings(options, context) {
        const explained = conditionsOf(options).map(
          ([name, condition]) => [name, explainCondition(condition, path => context.field(path))] as const,
        )
        return batch => {
          const findings: Finding[] = []
          for (const [name, explain] of explained) {
            const found = explain(batch, 0)
            findings.push({ text: name, holds: found.holds, parts: [found] })
            if (found.holds && options.match === 'first') break
          }
          return findings
        }
      },
    }
  },
})
