import type { AnyDefinition } from '../../../core/component.js'
import { exampleConfig, fence } from './reference.js'

export function destinationsText(components: readonly AnyDefinition[]): string {
  return `${[
    '# Destinations over the network',
    [
      'These destinations deliver at least once. [Delivery](delivery.md) describes retries, buffers, rejected events,',
      'and [which events a kill repeats](delivery.md#what-a-kill-repeats). `sluice validate --online FILE` connects to',
      'the receivers without sending an event.',
      '',
      'Times keep up to nine digits of the fraction. A leap second (`23:59:60Z`) is the first second of the next minute.',
      '',
      'Complete configurations: [the access log of nginx to Elasticsearch](../config/examples/nginx-to-elasticsearch.yaml),',
      '[JSON of apps to Loki](../config/examples/app-json-to-loki.yaml),',
      '[all JSON to S3, a limited stream to Loki](../config/examples/app-json-to-s3-and-loki.yaml). Every option is in',
      '[the reference](../config/reference.md#destinations). `npm run docs` generates this page.',
    ].join('\n'),
    ...components.flatMap(definition => {
      const { kind, type, summary, promises, examples } = definition
      if (!promises) return []
      const { guarantee, order, duplicates, limits, tested, advice } = promises
      const rows = Object.entries({ guarantee, order, duplicates, limits, 'tested with': tested })
      return [
        `## ${type}`,
        `${summary} [Options](../config/reference.md#${kind}-${type}).`,
        fence('yaml part', exampleConfig(definition, examples[0]!)),
        ['| | |', '|---|---|', ...rows.map(([name, text]) => `| ${name} | ${text} |`)].join('\n'),
        ...(advice === undefined ? [] : [advice.replaceAll(/(?=.{121})(.{1,120}) /g, '$1\n')]),
      ]
    }),
  ].join('\n\n')}\n`
}
