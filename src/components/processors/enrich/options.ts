import { z } from 'zod'
import { fieldPath, refuseAt } from '../../../core/options/options.js'
import { filePath, reaches } from '../../../core/options/reach.js'
import { FACT_NAMES } from './host-facts.js'

const MOST_COLUMNS = 1000

export const name = () => reaches('nothing', z.string().min(1))

export const enrichOptions = z
  .strictObject({
    table: filePath()
      .optional()
      .describe(
        'File of rows: CSV with a header, JSON (`.json`: a list of objects, or an object of objects by key) or MaxMind (`.mmdb`). CSV and JSON: at most 64 MiB. Sluice reads a changed file again; if it is broken, the previous rows stay in use.',
      ),
    key_field: fieldPath().optional().describe('Field whose text is looked up in the table.'),
    match: z
      .enum(['exact', 'cidr', 'range'])
      .default('exact')
      .describe(
        'How to find a row. exact: the key of the row equals the text. cidr: the key of the row is an IP address or range (10.0.0.0/8). range: the row has two keys, the first and the last number or IP address. The smallest matching range is used.',
      ),
    column: reaches(
      'nothing',
      z.union([name(), z.tuple([name(), name()])], {
        error: 'must be the name of a column, or of two for match: range',
      }),
    )
      .optional()
      .describe('Column with the key; two columns for `match: range`. Default: the first column, or the first two.'),
    columns: z
      .array(name())
      .min(1)
      .max(MOST_COLUMNS)
      .optional()
      .describe(
        'Columns to add. For a MaxMind database: paths such as country.iso_code. Default: all columns except the key.',
      ),
    ignore_case: z
      .boolean()
      .default(false)
      .describe('With `match: exact`: whether upper and lower case are treated as equal.'),
    default: z
      .record(name(), z.union([reaches('nothing', z.string()), z.number(), z.boolean()]))
      .optional()
      .describe('Row for events whose text is not in the table. Default: these events stay unchanged.'),
    facts: z
      .array(reaches('host', z.enum(FACT_NAMES as [(typeof FACT_NAMES)[number]])))
      .min(1)
      .optional()
      .describe('Instead of a table: facts about this machine.'),
    environment: z
      .array(reaches('host', z.string().min(1)))
      .min(1)
      .max(MOST_COLUMNS)
      .optional()
      .describe('Instead of a table: environment variables of the daemon. Unset variables are omitted.'),
    target: fieldPath().describe('Field that receives the row as an object, replacing an existing value.'),
  })
  .superRefine((given, context) => {
    const { table, facts, environment } = given
    if (table === undefined) {
      if (!facts && !environment) refuseAt(context, ['table'], 'is missing; give table, facts or environment')
      for (const option of ['key_field', 'column', 'columns', 'default'] as const) {
        if (given[option] !== undefined) refuseAt(context, [option], 'can only be used with table')
      }
      return
    }
    for (const option of ['facts', 'environment'] as const) {
      if (given[option]) refuseAt(context, [option], 'cannot be used with table; use another processor of type enrich')
    }
    if (!given.key_field) refuseAt(context, ['key_field'], 'is missing; it names the field that is looked up')
    const isPair = Array.isArray(given.column)
    if (given.column !== undefined && isPair !== (given.match === 'range'))
      refuseAt(context, ['column'], isPair ? 'may be two columns only with match: range' : 'must be two columns')
  })
export type EnrichOptions = z.output<typeof enrichOptions>
