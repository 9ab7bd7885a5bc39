// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration, not of the test
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { ConfigError, formatProblem } from '../../../../src/core/errors.js'
import { Secret } from '../../../../src/core/options/options.js'
import { type Config, loadConfig, parseConfig } from '../../../../src/engine/config/load.js'
import { casesOf } from '../../../support/cases.js'
import { testFolder } from '../../../support/folder.js'
import { longTest } from '../../../support/long-test.js'
import { valuesOf } from '../../../support/values-of.js'
import { components } from './fake-components.js'

type Env = Record<string, string>

function parse(text: string, env: Env = {}): Config {
  return parseConfig(text, 'c.yaml', { env, components })
}

/** Everything that is told about a text that must not be accepted. */
function told(text: string, env: Env = {}): string[] {
  return problemsOf(() => parse(text, env))
}

function problemsOf(read: () => Config): string[] {
  try {
    const { warnings } = read()
    return ['accepted', ...warnings.map(formatProblem)]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(formatProblem)
  }
}

/** A configuration around the options of one component, which begin in line 5, column 5. */
function limit(...options: string[]): string {
  return [
    'sources: { in: { type: tail, include: [a] } }',
    'destinations: { out: { type: keep, inputs: [lim], path: p } }',
    'processors:',
    '  lim:',
    ...options.map(option => `    ${option}`),
    '',
  ].join('\n')
}

function send(...options: string[]): string {
  const head = [
    'sources: { in: { type: tail, include: [a] } }',
    'destinations:',
    '  out:',
    '    type: send',
    '    inputs: [in]',
  ]
  return [...head, ...options.map(option => `    ${option}`), ''].join('\n')
}

interface Row {
  readonly text?: string
  readonly processor?: string
  readonly limit?: string
  readonly send?: string
  readonly env?: Env
  readonly says: string | readonly string[]
}
type Tables = Record<'top' | 'components' | 'options' | 'topology' | 'structure' | 'variables', readonly Row[]>
const tables = casesOf<Tables>(import.meta.url)

/** Tells what the row says about its configuration, which `complete` makes one. */
function holds(t: Test, row: Row, complete = (text: string) => text): void {
  const options = row.limit === undefined ? row.processor : `type: limit\ninputs: [in]\n${row.limit}`
  const text = row.text ?? (options === undefined ? send(...row.send!.split('\n')) : limit(...options.split('\n')))
  const said = [row.says].flat().map(line => (line === 'accepted' ? line : `c.yaml:${line.replace('"1x"', '1x')}`))
  t.same(told(complete(text), row.env), said, text)
}

t.test('a configuration that holds', async t => {
  const config = parse(
    `
data_dir: ./state/here
metrics: { listen: '[::1]:0' }
shutdown_timeout: 5 Seconds
sources:
  in: { type: tail, include: [a.log, b.log], follow: false }
processors:
  lim: { type: limit, inputs: [in], limit: 5, window: 1 Seconds, key_field: .app }
destinations:
  up: { type: send, inputs: [lim, in], auth: { type: token, key: hunter2 } }
  rest:
    type: keep
    inputs:
      - lim.discarded
    path: ./rest
    batch: { max_wait: 2s }
    max_in_flight: 3
`,
  )
  t.equal(config.dataDir, resolve('state/here'))
  t.same(config.metrics, { host: '::1', port: 0 })
  t.equal(config.shutdownTimeoutMs, 5000)
  t.same(config.files, ['c.yaml'])
  t.same(config.warnings, [])
  t.match(config.sources, [
    { id: 'in', kind: 'source', type: 'tail', inputs: [], options: { include: ['a.log', 'b.log'], follow: false } },
  ])
  t.match(config.processors[0], {
    inputs: ['in'],
    options: { limit: 5, window: 1000, mode: 'fixed', key_field: { segments: ['app'] } },
    definition: { type: 'limit' },
    delivery: undefined,
  })
  const [up, rest] = config.destinations
  t.ok((up!.options as { auth: { key: unknown } }).auth.key instanceof Secret)
  t.match(up, {
    inputs: ['lim', 'in'],
    delivery: { batch: { max_events: 1000, max_bytes: 1_000_000, max_wait: 1000 } },
  })
  t.equal((up!.options as { timeout: number }).timeout, 5000, 'an option of its own in the place of a delivery option')
  t.equal(up!.delivery!.timeout, 5000, 'counts for the delivery, too')
  t.match(rest, { inputs: ['lim.discarded'], options: { path: './rest' } })
  t.same(rest!.options, { path: './rest' }, 'delivery options are no options of the component')
  t.match(rest!.delivery, { batch: { max_events: 50_000, max_wait: 2000 }, max_in_flight: 3, timeout: 30_000 })
})

t.test('defaults', async t => {
  const text =
    'sources: { in: { type: tail, include: [a] } }\ndestinations: { out: { type: keep, inputs: [in], path: p } }'
  const config = parse(text)
  t.equal(config.dataDir, resolve('state'))
  t.same(config.metrics, { host: '127.0.0.1', port: 9598 })
  t.equal(config.shutdownTimeoutMs, 30_000)
  t.equal(parse(text, { STATE_DIRECTORY: '/var/lib/sluice:/var/lib/b' }).dataDir, '/var/lib/sluice')
  t.equal(parse(`data_dir: x\n${text}`, { STATE_DIRECTORY: '/var/lib/sluice' }).dataDir, resolve('x'))
  t.equal(parse(`metrics: false\n${text}`).metrics, undefined)
  t.same(parse(`metrics: {}\n${text}`).metrics, { host: '127.0.0.1', port: 9598 })
  t.same(told(`tests: []\nservice: { listen: 127.0.0.1:0 }\n${text}`), ['accepted'])
  t.same(told(`${text}\nprocessors:\n`), ['accepted'], 'an empty section')
  t.same(told(`\uFEFF${text.replaceAll('\n', '\r\n')}`), ['accepted'], 'a byte order mark and CRLF')
  t.same(
    told(
      JSON.stringify(
        JSON.parse(
          '{"sources":{"in":{"type":"tail","include":["a"]}},"destinations":{"out":{"type":"keep","inputs":["in"],"path":"p"}}}',
        ),
      ),
    ),
    ['accepted'],
    'JSON',
  )
})

t.test('the top level', async t => {
  const rest =
    '\nsources: { in: { type: tail, include: [a] } }\ndestinations: { out: { type: keep, inputs: [in], path: p } }'
  for (const row of tables.top) holds(t, row, text => text + rest)

  const empty = [
    'c.yaml:1:1: destinations: there is no destination: at least one is needed',
    'c.yaml:1:1: sources: there is no source: at least one is needed',
  ]
  for (const text of ['', '# nothing\n', '---\n', '{}']) t.same(told(text).sort(), empty, JSON.stringify(text))
  t.same(told('sources: {}\n\ndestinations:\n'), [
    'c.yaml:1:1: sources: there is no source: at least one is needed',
    'c.yaml:3:1: destinations: there is no destination: at least one is needed',
  ])
  for (const text of ['just text', '[1, 2]', '5']) {
    t.same(told(text), ['c.yaml:1:1: must be a mapping: sources, destinations and so on'], text)
  }
})

t.test('components', async t => {
  const rest = {
    sources: '\nsources: { in: { type: tail, include: [a] } }',
    destinations: '\ndestinations: { out: { type: keep, inputs: [in], path: p } }',
  }
  for (const row of tables.components)
    holds(t, row, text =>
      Object.entries(rest).reduce((all, [section, yaml]) => (text.includes(`${section}:`) ? all : all + yaml), text),
    )
  t.same(
    told('sources: { a: { type: tail, include: [x] } }\ndestinations: { a: { type: keep, inputs: [a], path: p } }'),
    ['c.yaml:2:17: destinations.a: the id is taken by the source at c.yaml:1:12'],
    'an id of two kinds',
  )
})

t.test('options', async t => {
  const missing = '\ndestinations: { out: { type: keep, inputs: [in], path: p } }'
  for (const row of tables.options) holds(t, row, text => (text.includes('destinations:') ? text : text + missing))
})

t.test('topology', async t => {
  for (const row of tables.topology) holds(t, row)
})

t.test('YAML that is none', async t => {
  for (const { text, says } of tables.structure) t.equal(told(text!)[0], `c.yaml:${says}`, text!)

  const rest =
    '\nsources: { in: { type: tail, include: [a] } }\ndestinations: { out: { type: keep, inputs: [in], path: p } }'
  // What an event of a test consists of is free.
  const open = 'tests: [{ name: t, expect: {}, steps: [{ into: in, events: ['
  const FREE = 'tests[0].steps[0].events[0]'
  const free = (yaml: string) => `${open}${yaml}] }] }]`
  const column = (at: number) => `1:${open.length + at}: `
  const kept: [string, string[]][] = [
    ['data_dir: @x', ['1:11: a value that begins with this character must be in quotes']],
    ['data_dir: "\\q"', ['1:12: this escape sequence is not known; write \\\\ for a backslash, or use single quotes']],
    ['data_dir: !x y', ['1:11: this tag has no meaning here; remove it']],
    [free('&a { b: *a }'), [`${column(9)}${FREE}.b: the alias *a is inside the value that it stands for`]],
    [
      'data_dir: *x',
      [
        '1:11: data_dir: a value that begins with * is an alias of YAML, and there is no anchor of this name above; for the text, put it in quotes',
      ],
    ],
    [free('{ <<: 1 }'), [`${column(3)}${FREE}.<<: merging with << is not part of YAML 1.2; write the options out`]],
    [free('{ __proto__: 1 }'), [`${column(3)}${FREE}.__proto__: is not a possible name`]],
    [free('{ a: 1, b: 2, a: 3 }'), [`${column(15)}${FREE}.a: is here twice; the first is in line 1`]],
    [
      free(`{ a: ${'['.repeat(70)}1${']'.repeat(70)} }`),
      [`${column(64)}${FREE}.a${'[0]'.repeat(58)}: must not be nested deeper than 64 levels`],
    ],
  ]
  for (const [text, lines] of kept) {
    t.same(
      told(text + rest),
      lines.map(line => `c.yaml:${line.replace('.<<', '."<<"')}`),
      text,
    )
  }
  t.match(told(`data_dir: @x\nmetrics: 5${rest}`), { length: 2 }, 'the rest is checked when the structure is right')
  t.match(told('a: 1\n b: 2\n'), { length: 1 }, 'one problem in a line')
  t.same(told('\uFEFFa: "b" c'), told('a: "b" c'), 'a byte order mark takes no column')
  for (const deep of ['[', '- ', '? ', '[\n ', '{ a: '].map(open => open.repeat(50_000)))
    t.match(told(`a:\n  ${deep}`), [/^c.yaml:\d+:\d+: must not be nested this deeply$/], deep.slice(0, 9))
  const quoting = [
    'a: "secret-word" secret-word',
    'b: &secret-word *other',
    'c: [secret-word: ]]',
    'd: !secret-word x',
  ].map(text => told(text))
  for (const problems of quoting) t.ok(problems.length > 0)
  t.notMatch(quoting.join(), /secret-word/, 'nothing of the document is quoted')
})

t.test('aliases', async t => {
  const text = (more: string) =>
    `sources:\n  a: &tail { type: tail, include: &files [x, y] }\n  b: *tail\n  c: { type: tail, include: *files }\n${more}`
  const rest = 'destinations: { out: { type: keep, inputs: [a, b, c], path: p } }'
  t.match(
    parse(text(rest)).sources,
    [1, 2, 3].map(() => ({ options: { include: ['x', 'y'] } })),
  )
  const bomb = `tests:\n- name: t\n  expect: {}\n  steps:\n  - into: a\n    events:\n    -`.split('\n')
  bomb.push('      a0: &a0 [x, x, x, x, x, x, x, x, x, x]')
  for (let i = 1; i < 12; i++) bomb.push(`      a${i}: &a${i} [${`*a${i - 1}, `.repeat(10)}]`)
  const lines = told(text(`${rest}\n${bomb.join('\n')}`))
  t.match(lines[0], /^c.yaml:16:\d+: tests.*\[0\]\.a3\[\d\]: aliases stand for more than 10000 values$/)
})

t.test('variables', async t => {
  const pathOf = (yaml: string, env: Env) => {
    const text = `sources: { in: { type: tail, include: [a] } }\ndestinations:\n  out:\n    { type: keep, inputs: [in], path: ${yaml} }`
    return (parse(text, env).destinations[0]!.options as { path: string }).path
  }
  const urls: [string, Env, string][] = [
    ['${URL}', { URL: 'http://a/b' }, 'http://a/b'],
    ['"http://${HOST}:${PORT}/"', { HOST: 'h', PORT: '80' }, 'http://h:80/'],
    ['http://${HOST:-localhost}/', {}, 'http://localhost/'],
    ['http://${HOST:-localhost}/', { HOST: '' }, 'http://localhost/'],
    ['${URL:-http://x, y: z # {w}', {}, 'http://x, y: z # {w'],
    ["'${URL:-http://a/}'", {}, 'http://a/'],
    ['http://x/$${HOST}', {}, 'http://x/${HOST}'],
    ['http://x/$$${HOST}', {}, 'http://x/$${HOST}'],
    ['http://x/$HOST', {}, 'http://x/$HOST'],
    ['http://x/${A}', { A: '${B}' }, 'http://x/${B}'],
    ['http://x/${A}', { A: '"], b: [}\n- x' }, 'http://x/"], b: [}\n- x'],
  ]
  for (const [yaml, env, expected] of urls) t.equal(pathOf(yaml, env), expected, yaml)

  const key = parse(send('auth: { type: token, key: ${KEY} }'), { KEY: '123456' }).destinations[0]!.options as {
    auth: { key: Secret }
  }
  t.equal(key.auth.key.reveal(), '123456', 'in brackets; a secret of digits stays text')

  const numbers = limit(
    'type: limit',
    'inputs: [ "${IN}" ]',
    'limit: ${N}',
    'window: { value: ${N}, unit: ${U:-Seconds} }',
    'ratio: ${R}',
    'mode: sliding',
  )
  t.match(parse(numbers, { IN: 'in', N: '12', R: '.5' }).processors[0]!.options, {
    limit: 12,
    window: 12_000,
    ratio: 0.5,
  })
  t.match(
    parse(
      'sources: { in: { type: tail, include: [a], follow: ${F}, max_line_bytes: ${B} } }\ndestinations: { out: { type: keep, inputs: [in], path: "${F}" } }\nmetrics: ${M}',
      { F: 'false', B: '512', M: 'false' },
    ),
    {
      metrics: undefined,
      sources: [{ options: { follow: false, max_line_bytes: 512 } }],
      destinations: [{ options: { path: 'false' } }],
    },
  )

  for (const row of tables.variables) holds(t, row)
})

t.test('every problem at once, in order', async t => {
  const lines = told(`
sources:
  in: { type: tail }
processors:
  lim: { type: limit, inputs: [inn, lim2], limit: x, window: 1s, wnidow: 2s }
  lim2: { type: limit, inputs: [lim], limit: \${NONE}, window: {} }
destinations: { out: { type: keep, inputs: [lim] } }
metrics: 1
`)
  t.same(
    lines.map(line => line.replace(/(: \S+): .*/, '$1')),
    [
      'c.yaml:3:3: sources.in.include',
      'c.yaml:5:32: processors.lim.inputs[0]',
      'c.yaml:5:51: processors.lim.limit',
      'c.yaml:5:66: processors.lim.wnidow',
      'c.yaml:6:33: processors.lim2.inputs[0]',
      'c.yaml:6:46: processors.lim2.limit',
      'c.yaml:6:55: processors.lim2.window.value',
      'c.yaml:6:55: processors.lim2.window.unit',
      'c.yaml:7:17: destinations.out.path',
      'c.yaml:8:10: metrics',
    ],
  )
})

longTest('a large bad file takes no more than its share', async t => {
  const processors = Array.from(
    { length: 3000 },
    (_, i) => `  p_${i}: { type: limit, inputs: [x_${i}, in.y, out_${i}], limt: 5, limit: 0, window: 5 foo }`,
  )
  const text = [
    'sources: { in: { type: tail, include: [a] } }',
    'processors:',
    ...processors,
    'destinations:',
    ...processors.map(line => line.replace('p_', 'out_')),
  ].join('\n')
  const before = process.cpuUsage()
  const lines = told(text)
  const { user } = process.cpuUsage(before)
  t.equal(lines.length, 3000 * 10)
  t.ok(user < 15e6, `took ${user / 1e6} s`)
})

t.test('files and folders', async t => {
  const dir = testFolder(t, {
    'one.yaml':
      'sources: { in: { type: tail, include: [a] } }\ndestinations: { out: { type: keep, inputs: [in], path: p } }\n',
    bad: 'sources: [',
    folder: {
      '20-out.yml':
        'destinations: { out: { type: keep, inputs: [lim, in], path: p } }\ntests: [{ name: a, expect: {}, steps: [{ into: in, events: [x] }] }]\n',
      '10-in.yaml': 'data_dir: d\nsources: { in: { type: tail, include: [a] } }\nprocessors:\n',
      '15-lim.yaml':
        'processors: { lim: { type: limit, inputs: [in], limit: 1, window: 1s } }\ntests: [{ name: b, expect: {}, steps: [{ into: in, events: [x] }] }]\n',
      '17-empty.yaml': '# nothing\n',
      '.hidden.yaml': 'nonsense: [',
      'notes.txt': 'nonsense: [',
    },
    twice: {
      'a.yaml': 'data_dir: a\nsources: { in: { type: tail, include: [a] } }\ntests: []\n',
      'b.yaml': 'data_dir: b\nsources: { in: { type: tail, include: [b] }, other: { type: tial } }\ntests: {}\n',
      'c.yaml':
        'destinations: { in: { type: keep, inputs: [gone], path: p }, out: { type: keep, inputs: [in], path: p } }\n',
    },
    broken: {
      'a.yaml': 'sources: { in: { type: tail',
      'b.yaml': 'destinations: { out: { type: keep, inputs: [in], pth: p } }\n',
    },
    empty: {},
  })
  const load =
    (path: string, env: Env = {}) =>
    () =>
      loadConfig(join(dir, path), { env, components })
  const linesOf = (path: string) => problemsOf(load(path)).map(line => line.replaceAll(`${dir}/`, ''))

  t.same(load('one.yaml')().files, [join(dir, 'one.yaml')])
  const config = load('folder')()
  t.same(
    config.files,
    ['10-in.yaml', '15-lim.yaml', '17-empty.yaml', '20-out.yml'].map(name => join(dir, 'folder', name)),
  )
  t.equal(config.dataDir, resolve('d'))
  t.same(valuesOf([config.sources, config.processors, config.destinations].flat(), 'id'), ['in', 'lim', 'out'])
  t.same(linesOf('twice'), [
    'twice/b.yaml:1:1: data_dir: is here twice; the first is at twice/a.yaml:1:1',
    'twice/b.yaml:2:12: sources.in: is here twice; the first is at twice/a.yaml:2:12',
    'twice/b.yaml:2:61: sources.other.type: must be one of tail, not "tial"; did you mean "tail"?',
    'twice/b.yaml:3:1: tests: cannot be merged with the value at twice/a.yaml:3:1',
    'twice/c.yaml:1:17: destinations.in: the id is taken by the source at twice/a.yaml:2:12',
    'twice/c.yaml:1:44: destinations.in.inputs[0]: there is no source or processor "gone"',
  ])
  t.match(linesOf('broken'), [
    /^broken\/a.yaml:1:10: the bracket/,
    /^broken\/b.yaml:1:17: destinations.out.path: is missing/,
    /^broken\/b.yaml:1:50: destinations.out.pth/,
  ])
  t.same(linesOf('empty'), ['empty:1:1: there is no *.yaml or *.yml file in this folder'])
  t.same(linesOf('gone.yaml'), ['gone.yaml:1:1: the file or folder does not exist'])
  writeFileSync(join(dir, 'latin.yaml'), Buffer.from('sources: {}\n# caf\xe9\n', 'latin1'))
  t.same(linesOf('latin.yaml'), ['latin.yaml:2:1: is not valid UTF-8'])
  writeFileSync(join(dir, 'large.yaml'), '#'.repeat(1024 * 1024 + 1))
  t.same(linesOf('large.yaml'), ['large.yaml:1:1: is larger than 1.0 MB'])
  symlinkSync('/dev/zero', join(dir, 'zero.yaml'))
  t.same(linesOf('zero.yaml'), ['zero.yaml:1:1: is a device, not a file'])
  mkdirSync(join(dir, 'pipes'))
  execFileSync('mkfifo', [join(dir, 'pipes/a.yaml')])
  t.same(linesOf('pipes'), ['pipes/a.yaml:1:1: is not a file'])
})
