import { defineProcessor } from '../../core/component.js'
import { fieldsIn } from '../../core/event/event-fields.js'
import { enrichOptions } from './enrich/options.js'

export const enrich = defineProcessor({
  type: 'enrich',
  summary: 'Looks up a field in a table, and adds the found row to the event.',
  notes:
    'Tables are CSV, JSON or MaxMind databases; the key can be a text, an IP address in a range, or a number in a range. ' +
    'Values of CSV are strings, and empty values are left out. Without a table, facts about the machine or environment variables are put into every event. ' +
    'An event without a row stays as it is, or gets the `default`. `sluice_enrich_events_total` counts events with and without a row.',
  options: enrichOptions,
  fields: ({ target }) => ({ names: [target.segments[0]] }),
  usesFields: ({ key_field }) => fieldsIn({ key_field }, { key_field: 'no event gets a row of the table' }),
  examples: [
    {
      title: 'An environment variable',
      yaml: 'environment: [REGION_OF_THIS_HOST]\ntarget: .deployment\n',
      input: ['{"app":"cart"}'],
      output: ['{"app":"cart","deployment":{}}'],
    },
    {
      title: 'The owner of an app',
      yaml: 'table: ./owners.csv\nkey_field: .app\ncolumn: app\ntarget: .owner\n',
      files: { 'owners.csv': 'app,team,pager\ncart,shop,shop-oncall\nledger,"money, mostly",\n' },
      input: ['{"app":"cart"}', '{"app":"ledger"}', '{"app":"new"}'],
      output: [
        '{"app":"cart","owner":{"team":"shop","pager":"shop-oncall"}}',
        '{"app":"ledger","owner":{"team":"money, mostly"}}',
        '{"app":"new"}',
      ],
    },
    {
      title: 'The network of a client; the smallest range counts',
      yaml: 'table: ./networks.json\nkey_field: .client\nmatch: cidr\ntarget: .network\ndefault: { name: internet }\n',
      files: {
        'networks.json': '{ "10.0.0.0/8": { "name": "office" }, "10.1.2.0/24": { "name": "printers" } }\n',
      },
      input: ['{"client":"10.1.2.3"}', '{"client":"10.9.9.9"}', '{"client":"192.0.2.7"}'],
      output: [
        '{"client":"10.1.2.3","network":{"name":"printers"}}',
        '{"client":"10.9.9.9","network":{"name":"office"}}',
        '{"client":"192.0.2.7","network":{"name":"internet"}}',
      ],
    },
  ],
  create: async (options, context) => (await import('./enrich/enricher.js')).openEnricher(options, context),
  checks: async () => ({ checkFiles: (await import('./enrich/read-table.js')).tableProblems }),
  explains: async () => ({ findings: (await import('./enrich/enricher.js')).enrichFindings }),
})
