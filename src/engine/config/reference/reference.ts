import type { z } from 'zod'
import type { CodecDefinition } from '../../../core/codec.js'
import { codecsInUse, writer } from '../../../core/codecs/options.js'
import type { AnyDefinition, Kind } from '../../../core/component.js'
import { FUNCTIONS } from '../../../core/condition/functions.js'
import { OPERATORS } from '../../../core/condition/operators.js'
import { PAIR_TESTS } from '../../../core/condition/pairs.js'
import type { Example } from '../../../core/explain.js'
import { deliveryOptions } from '../../../core/options/delivery-options.js'
import { commonSchema, deliverySchema, inputs, KINDS, SECTIONS, settings } from '../schema.js'
import { inputSchema, type JsonSchema } from './json-schema.js'

const ABOUT: Readonly<Record<Kind, string>> = {
  source: 'Where events come from. [Sources](../docs/sources.md) lists the guarantees of each source.',
  processor:
    'What happens to events on the way. Each processor has `inputs`, and the [options of every processor](#options-of-every-processor).',
  destination:
    'Where events go. Each destination has `inputs`, and the [options of every destination](#options-of-every-destination).',
}

export function referenceText(components: readonly AnyDefinition[]): string {
  const sections = KINDS.flatMap(kind => {
    const definitions = components.filter(definition => definition.kind === kind)
    const types = definitions.map(({ type }) => `[${type}](#${kind}-${type})`).join(', ')
    return [`## ${capital(SECTIONS[kind])}`, `${ABOUT[kind]} Types: ${types}.`, ...definitions.flatMap(componentText)]
  })
  return `${[
    '# Reference of the configuration',
    'Generated from the code by `npm run docs`. `config/schema.json` has the same content for editors: put `# yaml-language-server: $schema=PATH` in the first line of a file. Complete configurations are in `config/examples`.',
    'A configuration is one YAML 1.2 file, or a folder of `*.yaml` and `*.yml` files, which are read in the order of their names and merged.',
    ...valuesText(),
    '## Top level',
    optionTable(settings),
    '`sources`, `processors` and `destinations` are mappings from the id of a component to its options. An id consists of a-z, 0-9 and _, begins with a letter, and must be unique.',
    '## Inputs',
    `${inputs.description} A list, as in \`inputs: [app_logs, limit_app.discarded]\`. Processors and destinations have inputs. Any connections without a cycle are possible, if they copy one event at most 1000 times. With more than 250 connections, the limit is four copies for each connection.`,
    ...sections,
    '## Codecs',
    ...codecsText(),
    '## Options of every source and destination',
    optionTable(commonSchema('source')),
    '## Options of every processor',
    optionTable(commonSchema('processor')),
    '## Options of every destination',
    optionTable(deliveryOptions),
  ].join('\n\n')}\n`
}

function valuesText(): string[] {
  return [
    '## Values',
    [
      '- **duration**: `10 Seconds`, `500 Milliseconds`, `1 Minutes`, `2 Hours`; also in the singular, in upper or lower case, and abbreviated (`10s`, `5 sec`, `500ms`, `1m`, `10min`, `2h`, `1d`); or `{value: 10, unit: Seconds}`. At least 1 ms unless stated otherwise. `0` needs no unit.',
      '- **size**: `1MB`, `64KiB` (k, M, G, T; with i: powers of 1024), or a number of bytes.',
      '- **field path**: `.app`, `.a.b`, `."x-y"`, `.list[0]`.',
      '- **template**: text with values of fields of the event, as in `${.host}-${.app}`. A missing field becomes the empty string; values other than strings are formatted as JSON. `${.app:-none}` gives a default for a field that is missing, null or an empty string. `$${` is a literal `${`. In other options `${.app}` is an error.',
      "- **condition**: `if (.host equal 'web-07')`, see [below](#conditions).",
      "- **codec**, **encoding**: `json`, or with options `{ codec: csv, delimiter: ';' }`, see [Codecs](#codecs).",
      '- **secret**: text that is never printed. Keep it in the environment, in a separate file or in a systemd credential rather than in the configuration.',
      '- **paths**: a relative path begins at the current directory of the process, not at the folder of the configuration. Only the paths of code (`plugins`, and `file` of a script) begin at the folder of the file that names them. `sluice validate` names the whole path of a missing file. Under systemd, use absolute paths: the current directory is `/`, unless the unit has a `WorkingDirectory=`.',
      '- `${NAME}` in a value is replaced by the environment variable; it is an error if NAME is not set. `${NAME:-default}` has a default for a variable that is unset or empty. `$${` is a literal `${`. Variables are replaced after the YAML was parsed: their content is never parsed as YAML, but a value that is only an unquoted `${NAME}` can be a number or a boolean.',
    ].join('\n'),
    '## Conditions',
    ...conditionReference(),
  ]
}

function codecsText(): string[] {
  const codecs = codecsInUse()
  const encoders = codecs.filter(writer)
  const links = (definitions: readonly CodecDefinition[]) =>
    definitions.map(({ name }) => `[${name}](#codec-${name})`).join(', ')
  return [
    "A codec turns lines into events, and events into lines. `decode` of a source names a codec: by its name alone, as in `decode: json`, or with options, as in `decode: { codec: csv, delimiter: ';' }`. " +
      `\`encoding\` of a destination is specified in the same way. Codecs: ${links(codecs)}. As an encoding: ${links(encoders)}.`,
    'A line that its codec cannot read is kept as text, in `.message`, and counted by `sluice_not_NAME_lines_total`. ' +
      'Events get the fields `.file` or `.peer`, `.host` and `.timestamp`, which show where and when their line was read, unless the line itself has them. ' +
      'Events decoded by json get no additional fields.',
    ...codecs.flatMap(codecText),
  ]
}

function codecText({ name, summary, notes, options, examples, encoder }: CodecDefinition): string[] {
  return [
    `<a id="codec-${name}"></a>`,
    `### Codec \`${name}\``,
    summary,
    ...(notes ? [notes] : []),
    Object.keys(options.shape).length > 0 ? optionTable(options) : 'It has no options.',
    ...(encoder ? [encoder.notes!, optionTable(encoder.options)] : []),
    ...examples.flatMap(({ title, yaml, line, record, event }) => {
      const decode =
        yaml === ''
          ? [`decode: ${name}`]
          : [
              'decode:',
              `  codec: ${name}`,
              ...yaml
                .trimEnd()
                .split('\n')
                .map(option => `  ${option}`),
            ]
      return [
        `${title}:`,
        fence('yaml', decode),
        record === undefined ? 'In:' : 'In, as hexadecimal bytes:',
        fence('text', [record ?? line]),
        'Out:',
        fence('json', [JSON.stringify(event)]),
      ]
    }),
  ]
}

function componentText(definition: AnyDefinition): string[] {
  const { kind, type, summary, notes, reasons, examples, usualOptions } = definition
  const options = definition.options as z.ZodObject
  return [
    `<a id="${kind}-${type}"></a>`,
    `### ${capital(kind)} \`${type}\``,
    summary,
    ...(notes ? [notes] : []),
    ...(reasons ? reasonsText(reasons) : []),
    Object.keys(options.shape).length > 0 ? optionTable(options, usualOptions) : 'It has no options of its own.',
    ...deliveryText(definition),
    ...examples.flatMap(example => exampleText(definition, example)),
  ]
}

function reasonsText(reasons: Readonly<Record<string, string>>): string[] {
  const rows = Object.entries(reasons).map(([reason, meaning]) => `- ${code(reason)}: ${meaning}`)
  return ['Events are discarded for these reasons, and can be read at the output `discarded`:', rows.join('\n')]
}

/** Lists the delivery options whose defaults for this type differ from the usual ones. */
function deliveryText(definition: AnyDefinition): string[] {
  if (definition.kind !== 'destination') return []
  const usual = new Map(rowsOf(inputSchema(deliveryOptions)).map(row => [row.name, row.preset]))
  const changed = rowsOf(inputSchema(deliverySchema(definition))).filter(row => usual.get(row.name) !== row.preset)
  if (changed.length === 0) return []
  return [`Other defaults than usual: ${changed.map(row => `${code(row.name)} ${row.preset}`).join(', ')}.`]
}

/** The lines of a configuration that has only the component of the example. */
export function exampleConfig({ kind, type }: AnyDefinition, { yaml }: Example): string[] {
  const lines = [`type: ${type}`, ...(kind === 'source' ? [] : ['inputs: [app_logs]']), ...yaml.trimEnd().split('\n')]
  return [`${SECTIONS[kind]}:`, '  example:', ...lines.filter(line => line !== '').map(line => `    ${line}`)]
}

function exampleText(definition: AnyDefinition, example: Example): string[] {
  const { title, files = {}, input, output, outputs = {} } = example
  const texts = [`${title}:`, fence('yaml', exampleConfig(definition, example))]
  for (const [name, text] of Object.entries(files))
    texts.push(`${code(name)}:`, fence(name.replace(/^.*\./, ''), text.trimEnd().split('\n')))
  if (input) texts.push('In:', fence('json', input))
  if (output) texts.push('Out:', fence('json', output))
  for (const [name, lines] of Object.entries(outputs)) texts.push(`Out, ${code(name)}:`, fence('json', lines))
  return texts
}

export const fence = (language: string, lines: readonly string[]): string =>
  [`\`\`\`${language}`, ...lines, '```'].join('\n')
const code = (text: string): string => `\`${text}\``
const capital = (text: string): string => text[0]!.toUpperCase() + text.slice(1)

interface Row {
  readonly name: string
  readonly type: string
  readonly preset: string
  readonly limits: string
  readonly text: string
}

/**
 * Returns a table of all options. With `first`, returns two tables. The first table has the options in `first` and
 * their inner options. The second table has all other options.
 */
function optionTable(schema: z.ZodType, first?: readonly string[]): string {
  const rows = rowsOf(inputSchema(schema))
  if (first === undefined) return tableOf(rows)
  const place = ({ name }: Row) => first.indexOf(name.split(/[.[]/)[0]!)
  const usual = rows.filter(row => place(row) >= 0).sort((a, b) => place(a) - place(b))
  return [tableOf(usual), 'More options:', tableOf(rows.filter(row => place(row) < 0))].join('\n\n')
}

function tableOf(rows: readonly Row[]): string {
  const cells = rows.map(({ name, type, preset, limits, text }) =>
    [code(name), type, preset, limits, text].map(cell => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')),
  )
  const table = [['Option', 'Type', 'Default', 'Limits', 'Meaning'], ['---', '---', '---', '---', '---'], ...cells]
  return table.map(row => `| ${row.join(' | ')} |`).join('\n')
}

/** The options of a mapping, including the options of inner mappings, such as `batch.max_events`. */
function rowsOf(schema: JsonSchema, prefix = ''): Row[] {
  const { required = [] } = schema
  return Object.entries(schema.properties ?? {}).flatMap(([key, option]) => {
    const name = prefix + key
    const row = {
      name,
      type: typeText(option),
      preset: presetText(option, required.includes(key)),
      limits: limitsText(option),
      text: option.description ?? '',
    }
    return [row, ...innerRows(option, `${name}.`)]
  })
}

/**
 * The options inside an option that may be a mapping. If the outer option has several variants, each row says which
 * variants have the inner option.
 */
function innerRows(option: JsonSchema, prefix: string): Row[] {
  if (option.title !== undefined) return []
  const list = option.items && !option.items.title ? innerRows(option.items, prefix.replace(/\.$/, '[].')) : []
  const variants = [option, ...(option.anyOf ?? []), ...(option.oneOf ?? [])].filter(variant => variant.properties)
  const rows = new Map<string, Row>()
  for (const variant of variants) {
    const only = variants.length > 1 ? whenText(variant) : ''
    for (const row of rowsOf(variant, prefix)) {
      const earlier = rows.get(row.name)
      if (!earlier)
        rows.set(row.name, only && !isConstant(variant, row, prefix) ? { ...row, text: `${only} ${row.text}` } : row)
      else if (isConstant(variant, row, prefix))
        rows.set(row.name, { ...earlier, type: `${earlier.type} or ${row.type}` })
    }
  }
  return [...rows.values(), ...list]
}

function isConstant(variant: JsonSchema, row: Row, prefix: string): boolean {
  return variant.properties?.[row.name.slice(prefix.length)]?.const !== undefined
}

/** For a variant whose option `type` always has the value `token`, returns the text `With type: token:`. */
function whenText(variant: JsonSchema): string {
  const [name, schema] =
    Object.entries(variant.properties ?? {}).find(([, { const: value }]) => value !== undefined) ?? []
  return name === undefined ? '' : `With ${code(`${name}: ${schema!.const}`)}:`
}

function typeText(schema: JsonSchema): string {
  if (schema.title !== undefined) return schema.title
  if (schema.const !== undefined) return code(String(schema.const))
  if (schema.enum) return schema.enum.map(value => code(String(value))).join(', ')
  const variants = schema.anyOf ?? schema.oneOf
  if (variants) return [...new Set(variants.map(typeText))].join(' or ')
  if (Array.isArray(schema.type)) return schema.type.map(type => typeText({ type })).join(' or ')
  switch (schema.type) {
    case 'string':
      return 'text'
    case 'integer':
      return 'whole number'
    case 'boolean':
      return '`true`, `false`'
    case 'array':
      return `list of ${schema.items ? typeText(schema.items) : 'anything'}`
    case 'object': {
      const { additionalProperties: values } = schema
      return typeof values === 'object' && Object.keys(values).length > 0 ? `mapping of ${typeText(values)}` : 'mapping'
    }
    default:
      return schema.type ?? 'anything'
  }
}

function presetText(schema: JsonSchema, required: boolean): string {
  if (required) return '**required**'
  const { default: preset } = schema
  if (preset === undefined || (typeof preset === 'object' && Object.keys(preset ?? {}).length === 0)) return ''
  return code(typeof preset === 'string' ? preset : JSON.stringify(preset))
}

function limitsText(schema: JsonSchema): string {
  const unit = schema.title === 'duration' ? ' ms' : schema.title === 'size' ? ' bytes' : ''
  const limits: string[] = []
  if (schema.minimum !== undefined) limits.push(`at least ${schema.minimum}${unit}`)
  if (schema.exclusiveMinimum !== undefined) limits.push(`more than ${schema.exclusiveMinimum}`)
  if (schema.maximum !== undefined) limits.push(`at most ${schema.maximum}${unit}`)
  if (schema.exclusiveMaximum !== undefined) limits.push(`less than ${schema.exclusiveMaximum}`)
  if (schema.minLength === 1 || schema.minItems === 1) limits.push('not empty')
  if (schema.maxLength !== undefined) limits.push(`at most ${schema.maxLength} characters`)
  if (schema.pattern !== undefined) limits.push(code(schema.pattern))
  return limits.join(', ')
}

const AFTER = { nothing: '', value: " '…'", list: ' (…)' }

/** The section of the reference about conditions. Each item is one Markdown block. */
export function conditionReference(): string[] {
  const rows = [...OPERATORS].map(([name, { takes, text }]) => `| \`${name}${AFTER[takes]}\` | ${text} |`)
  const functions = [...FUNCTIONS].map(([name, { text }]) => `| \`${name}(…)\` | ${text} |`)
  const withFields = [...PAIR_TESTS.keys()].map(name => `\`${name}\``).join(', ')
  return [
    "A condition is `if (<field> <operator> '<value>')`, as in `if (.host equal 'web-07')`. Inside the parentheses, comparisons are combined with `AND`, `OR` and `NOT`, in any case, and nested parentheses: `if (.level equal 'error' AND NOT (.app starts_with 'test-' OR .path exists))`. `NOT` has the highest precedence, then `AND`, then `OR`. [Conditions](../docs/conditions.md) has the grammar, and what each operator does with each kind of value.",
    'A value is enclosed in single or double quotes; `\\\'`, `\\"` and `\\\\` in it escape the character; any other backslash is literal. Numbers, `true` and `false` need no quotes. A list of values is in parentheses: `if (.status in (502, 503, 504))`.',
    ['| Operator | Holds for |', '| --- | --- |', ...rows].join('\n'),
    `Instead of a value, these take a field: ${withFields}. So \`if (.took_ms greater .limit_ms)\` compares two fields of the event.`,
    ['| Function | Gives |', '| --- | --- |', ...functions].join('\n'),
    "A function may stand in the place of a field: `if (length(.message) greater 1000 OR lower(.level) equal 'error')`. If the field is missing, or the function does not apply to its value, the result counts as missing.",
    [
      '- Comparisons use the text of the value and are case-sensitive: strings as they are, numbers and booleans as JavaScript writes them (`500`, `1.5`, `true`), and integers beyond 2^53 with all their digits. So `500` and `"500"` are both `equal \'500\'`.',
      "- A missing field, null, an object and an array have no text: no comparison holds for them, not even `not_equal`. `NOT .app equal 'a'` holds for all events whose app is not a, and for events without an app. `is_empty` requires a value, too: a missing field or null is not empty.",
      '- If the value is a number, the ordering operators compare numbers, and a field whose text is not a number does not match. Otherwise they compare texts, which orders ISO 8601 times correctly. Two fields are compared as numbers if both are numbers, and as texts if neither is.',
      '- Regular expressions have the syntax of JavaScript with the flag `u`, and match anywhere in the text. The flags i, m and s are written in front: `(?i)error`. Matching takes time proportional to the length of the text. Therefore back-references (`\\1`) are refused, and so are patterns that become very large when their counted repeats are expanded.',
      "- `is_ip_in_cidr_range` takes one range, or several separated by commas: `'10.0.0.0/8, 2001:db8::/32'`. An IPv4 address written in IPv6 (`::ffff:10.0.0.1`) is in the ranges of both.",
    ].join('\n'),
  ]
}
