import { defineProcessor, type OptionProblem } from '../../core/component.js'
import type { EventFields } from '../../core/event/event-fields.js'
import { codecFrom, codecProblems } from './parse/codec-options.js'
import { type ParseOptions, parseProcessorOptions, SHOWN_NAMES } from './parse/options.js'

/** Returns the fields that parsing can add. Undefined: it can add any. */
function addedFields({ target, try: tried, ...rest }: ParseOptions): EventFields | undefined {
  if (target) return { names: [target.segments[0]] }
  const all = (tried ?? [rest]).map(given => codecFrom(given).eventFields)
  if (all.includes(undefined)) return undefined
  const others = all.flatMap(fields => fields?.others ?? [])
  return {
    names: [...new Set(all.flatMap(fields => fields!.names))],
    ...(others.length > 0 && {
      others: {
        test: (name: string) => others.some(({ test }) => test(name)),
        text: others.map(({ text }) => text).join(', '),
      },
    }),
  }
}

const dividedText = (codec: string) =>
  `a line that the container runtime has divided is not joined here, because each event is read by itself; with "decode: ${codec}" the sources file and stdin join its parts`

function dividedTexts({ try: tried, ...rest }: ParseOptions): OptionProblem[] {
  return (tried ?? [rest]).flatMap((given, n) =>
    codecFrom(given).definition.readPart === undefined
      ? []
      : [{ path: tried ? ['try', n, 'codec'] : ['codec'], message: dividedText(given.codec!) }],
  )
}

function unknownTypes(options: ParseOptions): OptionProblem[] {
  const found = addedFields({ ...options, target: undefined })
  if (!found) return []
  return Object.keys(options.types).flatMap(name =>
    found.names.includes(name) || found.others?.test(name)
      ? []
      : [{ path: ['types', name], message: `has no effect: the fields that can be found are ${shownNames(found)}` }],
  )
}

function shownNames({ names, others }: EventFields): string {
  const more = names.length > SHOWN_NAMES ? ['others'] : []
  return [...names.slice(0, SHOWN_NAMES), ...more, ...(others ? [others.text] : [])].join(', ')
}

export const parse = defineProcessor({
  type: 'parse',
  summary: 'Reads the text of a field with a codec, and merges the found fields into the event.',
  notes:
    'The field is `.message` by default, which has the whole line if the source has `decode: text`. The field stays unless `remove_field` is set or the result has a field of the same name. For example, syslog, klog, cri, docker_json and the error logs of nginx and apache give a `.message`. To keep the whole line too, set a `target`, or copy the line with `edit` before. ' +
    'If the codecs cannot read the text, or the event lacks the field, the event is handled as set by `on_error`. ' +
    'The codec timestamp reads a field that has only a time. The result is ISO 8601 in UTC with all digits of the fraction. A time without a zone is read in `time_zone`; if clocks are set back and repeat that hour, it counts as the first of the two hours. ' +
    'A time without a year is read in the year that makes it nearest to the present. ' +
    'In `decode` of a source, the same codecs read lines without a processor. Use `parse` if the lines have several formats, if the text is in another field, or for `types` and `target`.',
  options: parseProcessorOptions,
  fields: addedFields,
  usesFields: ({ field }) => [{ option: 'field', path: field, without: 'no event can be parsed' }],
  examples: [
    {
      title: 'JSON objects and logfmt in one file',
      yaml: 'try: [{ codec: json }, { codec: logfmt }]\nremove_field: true\n',
      input: ['{"message":"{\\"level\\":\\"info\\",\\"took_ms\\":12}"}', '{"message":"level=warn disk=/dev/sda1"}'],
      output: ['{"level":"info","took_ms":12}', '{"level":"warn","disk":"/dev/sda1"}'],
    },
    {
      title: 'The time of an access log replaces the text in its field',
      yaml: "field: .time\ncodec: timestamp\nformat: '%d/%b/%Y:%H:%M:%S %z'\ntarget: .time\n",
      input: ['{"time":"31/Jan/2026:12:00:00 +0100"}'],
      output: ['{"time":"2026-01-31T11:00:00.000Z"}'],
    },
    {
      title: 'Requests of nginx',
      yaml: 'codec: nginx\nremove_field: true\n',
      input: [
        '{"message":"192.0.2.7 - - [31/Jan/2026:12:00:00 +0000] \\"GET /a HTTP/1.1\\" 200 612 \\"-\\" \\"curl/8.5.0\\""}',
      ],
      output: [
        '{"client":"192.0.2.7","timestamp":"2026-01-31T12:00:00.000Z","method":"GET","path":"/a","protocol":"HTTP/1.1","status":200,"bytes":612,"user_agent":"curl/8.5.0"}',
      ],
    },
    {
      title: 'The message of a line of syslog, and the whole line beside it',
      yaml: 'codec: syslog\ntarget: .log\n',
      input: ['{"message":"<34>1 2026-01-31T12:00:00Z web-07 su 77 - - it failed"}'],
      output: [
        '{"message":"<34>1 2026-01-31T12:00:00Z web-07 su 77 - - it failed","log":{"message":"it failed","timestamp":"2026-01-31T12:00:00Z","host":"web-07","app":"su","pid":"77","facility":"auth","severity":"crit","severity_code":2}}',
      ],
    },
    {
      title: 'Named columns below a field, one of them as a number',
      yaml: 'codec: csv\ncolumns: [time, user, took_ms]\ntarget: .row\ntypes: { took_ms: int }\n',
      input: ['{"message":"2026-01-31T12:00:00Z,ada,12"}'],
      output: [
        '{"message":"2026-01-31T12:00:00Z,ada,12","row":{"time":"2026-01-31T12:00:00Z","user":"ada","took_ms":12}}',
      ],
    },
  ],
  create: async (options, context) => new (await import('./parse/parser.js')).Parser(options, context),
  checks: async () => ({
    warnings: options => [...dividedTexts(options), ...unknownTypes(options)],
    checkFiles: codecProblems,
  }),
  explains: async () => ({ findings: (await import('./parse/parser.js')).explainParse }),
})
