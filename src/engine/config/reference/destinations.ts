import type { AnyDefinition } from '../../../core/component.js'

/** Generates the page about what destinations over the network promise. */
export function destinationsText(components: readonly AnyDefinition[]): string {
  return `${[
    '# Destinations over the network',
    [
      'Generated from the code by `npm run docs`. The [reference](../config/reference.md#destinations) has all options.',
      '[Delivery](delivery.md) describes what holds for all destinations, and',
      '[what a kill can repeat](delivery.md#what-a-kill-can-repeat). Whole configurations:',
      '[the access log of nginx to Elasticsearch](../config/examples/nginx-to-elasticsearch.yaml),',
      '[JSON of apps to Loki](../config/examples/app-json-to-loki.yaml). Before you start one, check it with',
      '`sluice validate --online FILE`, which connects and sends no event.',
    ].join('\n'),
    ...components.flatMap(({ kind, type, summary, promises }) => {
      if (!promises) return []
      const { guarantee, order, duplicates, limits, tested } = promises
      const rows = Object.entries({ guarantee, order, duplicates, limits, 'tested with': tested })
      return [
        `## ${type}`,
        `${summary} [Options](../config/reference.md#${kind}-${type}).`,
        ['| | |', '|---|---|', ...rows.map(([name, text]) => `| ${name} | ${text} |`)].join('\n'),
      ]
    }),
  ].join('\n\n')}\n`
}
