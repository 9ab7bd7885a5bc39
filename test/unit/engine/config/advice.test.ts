import { existsSync } from 'node:fs'
import t from 'tap'
import type { z } from 'zod'
import { components } from '../../../../src/components/list.js'
import { codecs } from '../../../../src/core/codecs/list.js'
import { ConfigError, type Problem } from '../../../../src/core/errors.js'
import { MEANT } from '../../../../src/engine/config/checks/foreign-names.js'
import { loadConfig, parseConfig } from '../../../../src/engine/config/load.js'
import { componentSchema, SECTIONS, settings, shapeOf, unwrapped } from '../../../../src/engine/config/schema.js'
import { casesOf } from '../../../support/cases.js'
import { testFolder } from '../../../support/folder.js'

/** Everything that is wrong with a text. */
function problemsOf(text: string, env: NodeJS.ProcessEnv = {}): readonly Problem[] {
  try {
    parseConfig(text, 'c.yaml', { env, components })
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems
  }
}

const HOME = { HOME: '/root' }

/** What each kind of advice says to put in the place of what stands there, to the end of the value. */
const ADVICE: readonly [RegExp, (rest: string, advised: string) => string][] = [
  [/did you mean "([^"]+)"\?/, (rest, name) => name + rest.replace(/^[\w."]+/, '')],
  [/; write (\S+) for /, (rest, value) => value + rest.replace(/^[^\s,}]+/, '')],
  [/: write (\..+) \(column/, (rest, path) => rest.replace(/^('[^']*'|[^\s,}\]]+)/, `'${path}'`)],
  [/, or (\$\{HOME\}\S*)$/, (rest, path) => rest.replace(/^[^\s,}\]]+/, path)],
  [/write it as \w+ in (\w+: \{ \w+: )… \}$/, (rest, option) => rest.replace(/^[\w.]+: ([^,}\n]+)/, `${option}$1 }`)],
  [/; for the text, write ('[^']+')$/, (rest, text) => rest.replace(/^[^\s,}\]]+/, text)],
  [/put it in quotes$/, rest => rest.replace(/^[^\s,}\]]+/, '"$&"')],
  [/remove the quotes$/, rest => rest.replace(/^"([^"]*)"/, '$1')],
]

/** Does what the first error says, literally. */
function followed(text: string, { line, column, message }: Problem): string {
  const lines = text.split('\n')
  const at = lines[line - 1]!
  for (const [pattern, change] of ADVICE) {
    const found = pattern.exec(message)
    if (!found) continue
    const rest = at.slice(column - 1)
    lines[line - 1] = at.slice(0, column - 1) + change(rest, found[1] ?? '')
    return lines.join('\n')
  }
  throw new Error(`no advice: ${message}`)
}

const config = ({
  sources = 'sources',
  processors = 'processors',
  destinations = 'destinations',
  top = '',
  lim = '',
}) =>
  [
    top,
    `${sources}:`,
    '  in: { type: stdin, decode: json }',
    `${processors}:`,
    '  lim:',
    '    type: throttle',
    '    inputs: [in]',
    ...(lim || 'limit: 5\nwindow: 1s').split('\n').map(option => `    ${option}`),
    `${destinations}:`,
    '  out: { type: stdout, inputs: [lim] }',
    '',
  ].join('\n')

type Pairs = readonly (readonly [string, string])[]
const foreign = casesOf<Record<string, Pairs>>(import.meta.url, 'foreign')

t.test('whoever does what an error says has a configuration that holds', async t => {
  const cases: readonly string[] = [
    config({ lim: 'limit: 5\nwindow: 1s\nkey_field: client' }),
    config({ lim: 'limit: 5\nwindow: 1s\nkey_field: $.client.ip' }),
    config({ lim: 'limit: 5\nwindow: 1s\ntime_field: x y' }).replace('x y', "'x y'"),
    config({}).replace('type: stdout', 'type: http, url: "http://127.0.0.1:1/", batch_size: 5'),
    config({}).replace('type: stdout', 'type: http, url: "http://127.0.0.1:1/", retry_limit: 5'),
    config({}).replace('type: stdin', 'type: file, include: [~/x.log]'),
    config({ top: 'data_dir: ~/x' }),
    config({ lim: 'limit: 5\nwindow: 10' }),
    config({ lim: 'limit: 5\nwindow: "10"' }),
    config({ lim: 'limit: "5"\nwindow: 1s' }),
    config({ lim: 'limit: 5\nwindow: 1s\nkey: .app' }),
    config({ lim: 'threshold: 5\nwindow_secs: 1s\ngroup_by: .app' }),
    config({ lim: 'rate: 5\nperiod: 5 secs' }),
    config({ top: 'metrics: { listen: 9598 }' }),
    config({ top: 'metrics: { listen: ":9598" }' }),
    config({ top: 'shutdown_timeout: 30' }),
    config({ top: 'path.data: x' }),
    config({ top: 'data_dir: *x' }),
    config({ lim: 'limit: 5\nwindow_ms: 1s' }),
    config({ processors: 'transforms', destinations: 'sinks' }),
    config({ sources: 'receivers', processors: 'filters', destinations: 'exporters' }),
    config({ sources: 'inputs', processors: 'procesors', destinations: 'outputs' }),
    config({}).replace('type: stdout', 'type: console'),
    config({}).replace('type: throttle', 'type: rate_limit'),
    config({}).replace('decode: json', 'codec: ndjson'),
    config({}).replace(
      'type: stdout',
      'type: http, url: "http://127.0.0.1:1/", batch: { timeout_secs: 1s }, retry: { max_delay: 1s }, buffer: { type: disk, max_size: 1MiB }',
    ),
  ]
  for (const text of cases) {
    let now = text
    let steps = 0
    t.not(problemsOf(now, HOME).length, 0, text)
    for (let problems = problemsOf(now, HOME); problems.length > 0 && steps < 6; problems = problemsOf(now, HOME)) {
      // A required option that is missing may be there under another name, which is the next error.
      now = followed(now, problems.find(({ message }) => !message.startsWith('is missing')) ?? problems[0]!)
      steps++
    }
    t.same(problemsOf(now, HOME), [], now)
  }
})

t.test('a section under a wrong name makes one error, and its components are checked', async t => {
  const text = config({ destinations: 'sinks' }).replace('inputs: [lim]', 'inputs: [limm]')
  t.same(
    problemsOf(text).map(({ line, message }) => `${line}: ${message}`),
    [
      '10: unknown option; did you mean "destinations"?',
      '11: there is no source or processor "limm"; did you mean "lim"?',
    ],
  )
})

t.test('usual forms of units are taken', async t => {
  for (const window of ['1 sec', '2 secs', '5 min', '5mins', '1 hr', '2 hrs', '100 msec', '1 day', '1d', '1 MIN'])
    t.same(problemsOf(config({ lim: `limit: 5\nwindow: ${window}` })), [], window)
})

const BASE = config({}).slice(1)

/** The problems of the text in short: line, path, message. */
const shown = (text: string) => problemsOf(text).map(({ line, path, message }) => `${line} ${path}: ${message}`)

t.test('a wrong indentation is an error at its line', async t => {
  const unfit = ': the indentation does not fit the lines above'
  const cases: readonly [string, string, string][] = [
    ['    limit: 5', '   limit: 5', `7 ${unfit}`],
    ['    limit: 5', '     limit: 5', `7 ${unfit}`],
    ['    inputs: [in]', ' inputs: [in]', `6 ${unfit}`],
    ['processors:', ' processors:', `3 ${unfit}; write processors: without spaces before it`],
    ['destinations:', ' destinations:', `9 ${unfit}; write destinations: without spaces before it`],
    ['    limit: 5', '\tlimit: 5', '7 : a tab is used as indentation; use spaces'],
    ['    limit: 5\n    window: 1s', '\tlimit: 5\n\twindow: 1s', '7 : a tab is used as indentation; use spaces'],
  ]
  for (const [right, wrong, expected] of cases) t.same(shown(BASE.replace(right, wrong)), [expected], wrong)
})

t.test('an indentation that means something else leads to where it belongs', async t => {
  const beside = (option: string) =>
    `${option}: must be a mapping of options, the type first; if this is an option of lim, put more spaces before it`
  t.same(shown(BASE.replace(/^ {4}(?=type|inputs|limit|window)/gm, '  ')), [
    '4 processors.lim: must be a mapping of options, the type first',
    beside('5 processors.type'),
    beside('6 processors.inputs'),
    beside('7 processors.limit'),
    beside('8 processors.window'),
  ])
  t.same(shown(BASE.replace('    window: 1s', '  window: 1s')), [
    '4 processors.lim.window: is missing; it must be a duration such as "10 Seconds"',
    beside('8 processors.window'),
  ])
  const inside = BASE.replace('destinations:\n  out', '  destinations:\n    out')
  t.same(shown(inside), ['9 processors.destinations: is a section; write destinations: without spaces before it'])
  t.same(shown(inside.replace('  destinations:', 'destinations:')), [], 'as it says')
  t.match(shown(BASE.replace('processors:', '  processors:')), [/^3 sources\.processors: is a section; /, /^5 /])
  t.same(
    shown(BASE.replace('destinations:\n  out', '    destinations:\n      out')),
    [
      '1 destinations: there is no destination: at least one is needed',
      '9 processors.lim.destinations: is a section; write destinations: without spaces before it',
    ],
    'among the options of a component',
  )
  t.same(shown(`${BASE}  tests: []\n`), [
    '11 destinations.tests: is not a destination; write tests: without spaces before it',
  ])
  t.same(shown(`${BASE}tests: []\n`), [], 'as it says')
  const flat = BASE.replace(/^ {2}(?! )lim:/m, 'lim:')
  const spaces = 'unknown option; if this is a component of the section above, put spaces before it'
  t.same(shown(flat), [`4 lim: ${spaces}`, '10 destinations.out.inputs[0]: there is no source or processor "lim"'])
  t.same(shown(flat.replace(/^lim:/m, ' lim:')), [], 'as it says')
  t.same(shown(BASE.replace('  out:', 'out:')), [
    '9 destinations: there is no destination: at least one is needed',
    `10 out: ${spaces}`,
  ])
})

t.test('what is not a component is not said to be unread', async t => {
  const flat = 'sources:\n  in:\n  type: stdin\ndestinations: { out: { type: stdout, inputs: [in] } }\n'
  try {
    parseConfig(flat, 'c.yaml', { env: {}, components })
    t.fail('it is wrong')
  } catch (error) {
    t.match(error, { problems: [{ line: 2 }, { line: 3 }] })
    t.same((error as ConfigError).warnings, [])
  }
})

t.test('an error in the structure of a file is one error, and the other files are checked', async t => {
  const dir = testFolder(t, {
    'a.yaml': BASE.replace('limit: 5', ' limit: 5').replace('type: stdin', 'type: stdinn'),
    'b.yaml': 'destinations:\n  more: { type: stdout, inputs: [lim, elsewhere], colour: red }\n',
  })
  const failed = await Promise.resolve()
    .then(() => loadConfig(dir, { env: {}, components }))
    .catch(error => error)
  t.match(failed.problems, [
    { file: `${dir}/a.yaml`, line: 7, message: /^the indentation/ },
    { file: `${dir}/b.yaml`, line: 2, message: /^unknown option of stdout/ },
  ])
  t.equal(failed.problems.length, 2, 'what is not found may be in the other file')
})

t.test('ids are short enough for the names of files and the labels of metrics', async t => {
  const named = (id: string) =>
    problemsOf(`sources: { in: { type: stdin } }\ndestinations:\n  ${id}: { type: blackhole, inputs: [in] }\n`)
  t.same(named('d'.repeat(128)), [])
  t.match(named('d'.repeat(129)), [{ line: 3, column: 3, message: 'an id has at most 128 characters' }])
  t.equal(named('d'.repeat(129)).length, 1)
})

/** The names of options that a schema has, with a dot those in options. */
function optionNames(schema: z.core.$ZodType, before = ''): string[] {
  const { options } = unwrapped(schema)._zod.def as { options?: readonly z.core.$ZodType[] }
  if (options) return options.flatMap(option => optionNames(option, before))
  return Object.entries(shapeOf(schema) ?? {}).flatMap(([name, inner]) => [
    before + name,
    name,
    ...optionNames(inner, `${name}.`),
  ])
}

t.test('a name from another log shipper leads to an option that exists', async t => {
  const named = new Set<string>([...Object.values(SECTIONS), ...optionNames(settings)])
  for (const definition of components) {
    named.add(definition.type)
    for (const name of optionNames(componentSchema(definition))) named.add(name)
  }
  for (const { name, options } of codecs) {
    named.add(name)
    for (const option of optionNames(options)) named.add(option)
  }
  named.add('raw')
  for (const [name, meant] of MEANT) for (const option of meant) t.ok(named.has(option), `${name}: ${option}`)

  for (const [component, cases] of Object.entries(foreign)) {
    for (const [option, advice] of cases) {
      const section = /^(in|out|lim)/.exec(component)![1]!
      const name = { in: 'sources', out: 'destinations', lim: 'processors' }[section]
      const found = problemsOf(`${name}:\n  ${component}, ${option} }\n`).find(({ message }) =>
        message.startsWith('unknown option'),
      )
      t.ok(found, `${component}, ${option}`)
      const meant = /did you mean "(.*)"\?|write it as (.*)/.exec(found!.message) ?? /; (.*)/.exec(found!.message)
      t.match(meant?.slice(1).find(Boolean), new RegExp(advice), `${component}, ${option}: ${found!.message}`)
    }
  }
  for (const top of ['log: { level: debug }', 'log_level: debug'])
    t.match(problemsOf(config({ top })), [{ message: /SLUICE_LOG_LEVEL=debug/ }], top)
})

t.test('nothing that comes from the environment is shown', async t => {
  const env = { V: 'hushhush1', P: '/nowhere/hushhush1', T: '~/hush', Q: '.hush' }
  const values = {
    sources: [
      "type: file, include: ['${P}-%Y', '${T}'], multiline: { start: '${V}(' }",
      "type: http, listen: '${V}', path: '${V}', auth: { key: '${V} x' }, decode: '${V}'",
      "type: journald, priority: '${V}', directory: '${T}', renamed_from: '${P}'",
    ],
    processors: [
      "type: throttle, inputs: ['${V}'], limit: '${V}', window: '${V}', window_mode: '${V}', key_field: '${V}'",
      'type: filter, inputs: [s0], condition: "exists(.a) && .a == \'${V}\'"',
      "type: filter, inputs: [s0], condition: '${V}'",
      "type: filter, inputs: [s0], condition: '/${V}/'",
    ],
    destinations: [
      "type: http, inputs: [s0], url: '${V}', compression: '${V}', tls: { ca_file: '${T}' }, proxy: '${V}'",
      "type: file, inputs: [s0], path: '${T}', mode: '${V}', encoding: '${V}'",
    ],
  }
  const text = Object.entries(values)
    .map(([section, all]) => `${section}:\n${all.map((one, i) => `  ${section[0]}${i}: { ${one} }\n`).join('')}`)
    .join('')
  const found = problemsOf(`data_dir: '\${T}'\nlog: { format: '\${V}' }\n${text}`, env)
  t.ok(found.length > 20, String(found.length))
  t.same(
    found.map(({ message }) => message).filter(message => /hush/.test(message)),
    [],
  )
  // What is wrong with a configuration as a whole.
  const whole = `sources: { a: { type: file, include: ['\${P}*'] } }
processors:
  t: { type: throttle, inputs: [a], limit: 1, window: 1s, key_field: '\${Q}', exclude: "if (\${Q} exists)" }
destinations:
  b: { type: file, inputs: [t], path: '\${P}' }
  c: { type: file, inputs: [t], path: '\${P}' }
`
  const problems = problemsOf(whole, env)
  t.equal(problems.length, 3)
  const { warnings } = parseConfig(
    whole.replace(/\n {2}[bc].*/g, '\n  b: { type: blackhole, inputs: [t] }').replace(/(\n {2}b: .*)\n {2}b.*/, '$1'),
    'c.yaml',
    { env, components },
  )
  t.equal(warnings.length, 2)
  for (const { message } of [...problems, ...warnings]) t.notMatch(message, /hush/)
})

t.test('a codec that only reads is no encoding', async t => {
  for (const encoding of ['klog', 'cri'])
    t.match(problemsOf(config({}).replace('type: stdout', `type: stdout, encoding: ${encoding}`)), [
      {
        message: new RegExp(`^${encoding} can only be used to decode lines; use one of raw, json(, \\w+)*$`),
      },
    ])
})

t.test('signs in paths that other programs replace', async t => {
  const warned = (source: string, destination: string) =>
    parseConfig(
      `sources: { a: { type: file, include: [${source}] } }\ndestinations: { b: { type: file, inputs: [a], path: ${destination} } }\n`,
      'c.yaml',
      { env: {}, components },
    ).warnings.map(({ path, message }) => `${path}: ${message}`)
  t.same(warned('/a/b.log', '/c/100%.log'), [])
  t.match(warned("'/a/b-%Y-%m-%d.log'", '/c/d.log'), [/^sources.a.include\[0\]: %Y .*Write \/a\/b-\*\.log$/])
  for (const path of ["'/c/%Y.log'", "'/c/{{ app }}.log'", "'/c/%{app}.log'", "'/c/<%Y>.log'"])
    t.match(warned('/a/b.log', path), [/^destinations.b.path: .* is not replaced: .*logrotate/], path)
})

t.test('what is written for another program is recognized', t => {
  const fluentBit = '[SERVICE]\n    flush 1\n\n[INPUT]\n    name tail\n'
  const otel = 'receivers:\n  filelog: { include: [/x] }\nexporters:\n  debug:\nservice:\n  pipelines:\n    logs: {}\n'
  const vector =
    'sources:\n  in: { type: stdin }\nsinks:\n  out:\n    type: file\n    inputs: [in]\n    encoding:\n      codec: json\n'
  for (const [program, text] of [
    ['Fluent Bit', fluentBit],
    ['Fluentd', '# tail\n<source>\n  @type tail\n</source>\n'],
    ['Vector', '[sources.in]\ntype = "file"\n'],
    ['Filebeat', 'filebeat.inputs:\n  - type: filestream\noutput.elasticsearch: {}\n'],
    ['Logstash', 'input { file { path => "/x" } }\n'],
    ['the OpenTelemetry Collector', otel],
    ['Promtail', 'clients:\n  - url: http://x\nscrape_configs:\n  - job_name: x\n'],
    ['rsyslog', 'module(load="imfile")\n'],
    [
      'the OpenTelemetry Collector',
      '{ receivers: { otlp: }, service: { pipelines: { logs: { receivers: [otlp] } } } }\n',
    ],
    ['the OpenTelemetry Collector', 'service:\n  pipelines: { logs: { exporters: [debug] } }\n'],
    [
      'the OpenTelemetry Collector',
      '{"exporters": {"otlp": {"endpoint": "${env:TO}"}}, "service": {"pipelines": {}}}\n',
    ],
    ['Fluent Bit', '{ pipeline: { inputs: [{ name: tail }] } }\n'],
    ['Filebeat', '{ filebeat: { inputs: [] }, output.elasticsearch: { password: "${ES_PASSWORD}" } }\n'],
    ['Promtail', '{ scrape_configs: [{ job_name: x }] }\n'],
    ['Vector', vector],
    ['Vector', `{ sources: { in: { type: stdin } }, sinks: { out: { type: loki, inputs: [in] } } }\n`],
    ['Vector', `{ transforms: { t: { type: remap, inputs: [in] } }, sinks: { out: { type: http, inputs: [t] } } }\n`],
  ]) {
    const problems = problemsOf(text!)
    t.equal(problems.length, 1, `${program}: ${text}`)
    const [, examples] = /; Sluice has its own format.* examples are in (\/.*)$/.exec(problems[0]!.message) ?? []
    t.ok(existsSync(`${examples}/nginx-to-elasticsearch.yaml`), 'where the examples are in this installation')
    t.match(problems[0]!.message, `this is a configuration of ${program};`)
  }
  t.match(problemsOf('# tail\n<source>\n')[0], { line: 2, column: 1 })
  t.match(problemsOf(vector)[0], { line: 3, column: 1 })
  const inText = `tests:\n  - name: x\n    steps:\n      - into: in\n        events:\n          - |\n            [INPUT]\n            input {\n`
  t.notMatch(JSON.stringify(problemsOf(inText)), 'configuration of')
  t.end()
})

t.test('a source that there is not yet: what the advice says, holds', t => {
  const listen = ', listen: "127.0.0.1:1"'
  const options: Record<string, string> = { http: listen, tcp: listen, otlp: `, http: {${listen.slice(1)} }` }
  const text = (source: string) =>
    `sources: { in: { type: ${source} } }\ndestinations: { out: { type: stdout, inputs: [in] } }\n`
  for (const type of 'opentelemetry syslog udp kafka loki docker kubernetes exec fluent_forward socket gelf'.split(
    ' ',
  )) {
    const [{ message, path }] = problemsOf(text(type)) as [Problem]
    t.equal(path, 'sources.in.type')
    const [, use] = /^there is no source \w+ yet: use (.*?)(?:, |\. |$)/.exec(message)!
    const [first, ...more] = use!.split(/ with | and /)
    t.same(problemsOf(text([`${first}${options[first!] ?? ''}`, ...more].join(', '))), [], message)
  }
  for (const type of ['TCP', 'Tcp']) t.match(problemsOf(text(type))[0]!.message, `not "${type}"; did you mean "tcp"?`)
  t.match(problemsOf(text('blackhole'))[0], { message: /belongs under destinations$/ })
  t.end()
})

t.test('a destination that there is not yet, and a key that is a template', t => {
  const text = (type: string, key: string) =>
    `sources: { in: { type: stdin } }\nprocessors: { l: { type: throttle, inputs: [in], limit: 1, window: 1s, key_field: '${key}' } }\ndestinations: { out: { type: ${type}, inputs: [l] } }\n`
  const messages = (type: string, key: string) => problemsOf(text(type, key)).map(({ message }) => message)
  for (const type of ['opensearch', 'OpenSearch', 'Elastic', 'es'])
    t.match(messages(type, '.app'), [/^use elasticsearch, which sends to OpenSearch, too/], type)
  for (const type of ['Loki', 'Elasticsearch', 'OTLP'])
    t.match(messages(type, '.app'), [`did you mean "${type.toLowerCase()}"`])
  for (const type of ['nats', 'syslog', 'tcp', 'udp'])
    t.match(messages(type, '.app'), [
      `there is no destination ${type} yet: use otlp, and send to a program with an output`,
    ])
  t.match(messages('zonk', '.app'), [/^must be one of /])
  for (const key of ['{{app}}', '{{ .app }}', '%{app}'])
    t.match(messages('stdout', key), [/: write \.app \(column 1 of the path\)$/], key)
  t.end()
})
