// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration, not of the test
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { ConfigError, formatProblem } from '../../../../src/core/errors.js'
import { Secret } from '../../../../src/core/options/options.js'
import { type Config, loadConfig, parseConfig } from '../../../../src/engine/config/load.js'
import { testFolder } from '../../../support/folder.js'
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
const LIMIT = ['type: limit', 'inputs: [in]', 'limit: 5', 'window: 1s']

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
  const cases: [string, string[]][] = [
    ['data_dri: x', ['1:1: data_dri: unknown option; did you mean "data_dir"?']],
    ['procesors: {}', ['1:1: procesors: unknown option; did you mean "processors"?']],
    [
      'workers: 2',
      ['1:1: workers: start a second instance: systemctl enable --now sluice@NAME, and move some sources there'],
    ],
    ['sinks: {}', ['1:1: sinks: unknown option; did you mean "destinations"?']],
    ['transforms: {}', ['1:1: transforms: unknown option; did you mean "processors"?']],
    [
      'zzz: {}',
      [
        '1:1: zzz: unknown option; known are sources, processors, destinations, data_dir, metrics, log, reload, shutdown_timeout, plugins, discard_orphans, tests, managed, service',
      ],
    ],
    ['data_dir: 5', ['1:11: data_dir: must be text, not a number; put it in quotes']],
    ['data_dir: ""', ['1:11: data_dir: must not be empty']],
    ['data_dir:', ['1:1: data_dir: has no value; it must be text']],
    ['metrics: true', ['1:10: metrics: must be false, or a mapping such as {listen: 127.0.0.1:9598}']],
    [
      'metrics: { listen: 9598x }',
      ['1:20: metrics.listen: must be HOST:PORT, as in 127.0.0.1:9598 or [::1]:9598, or systemd:NAME, not "9598x"'],
    ],
    ['metrics: { lissten: 127.0.0.1:1 }', ['1:12: metrics.lissten: unknown option; did you mean "listen"?']],
    ['shutdown_timeout: 30', ['1:19: shutdown_timeout: has no unit; write 30s for seconds, or 30ms']],
    ['tests: 5', ['1:8: tests: must be a list, as in [a, b], not a number']],
    ['service: []', ['1:10: service: must be a mapping of options, not a list']],
    ['processors: []', ['1:13: processors: must be a mapping from the id of each processor to its options']],
    ['data_dir: a\ndata_dir: b', ['2:1: data_dir: is here twice; the first is in line 1']],
  ]
  for (const [text, lines] of cases)
    t.same(
      told(text + rest),
      lines.map(line => `c.yaml:${line}`),
      text,
    )

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
  const cases: [string, string[]][] = [
    [limit('inputs: [in]'), ['4:3: processors.lim.type: is missing; it must be one of limit, pass']],
    [
      limit('type: limt', 'inputs: [inn]', 'limitt: 5'),
      [
        '5:11: processors.lim.type: must be one of limit, pass, not "limt"; did you mean "limit"?',
        '6:14: processors.lim.inputs[0]: there is no source or processor "inn"; did you mean "in"?',
      ],
    ],
    [
      limit('type: keep', 'inputs: [in]'),
      ['5:11: processors.lim.type: keep is a destination, and belongs under destinations'],
    ],
    [limit('type: 5', 'inputs: [in]'), ['5:11: processors.lim.type: must be one of limit, pass']],
    [
      limit('type: limit'),
      [
        '4:3: processors.lim.inputs: is missing; it must list what this processor reads, as in [app_logs]',
        '4:3: processors.lim.limit: is missing; it must be a whole number',
        '4:3: processors.lim.window: is missing; it must be a duration such as "10 Seconds", "500ms" or {value: 10, unit: Seconds}',
      ],
    ],
    [limit('type: pass', 'inputs: in'), ['6:13: processors.lim.inputs: must be a list, as in [a, b], not text']],
    [limit('type: pass', 'inputs: []'), ['6:13: processors.lim.inputs: must not be empty']],
    [
      limit('type: pass', 'inputs:', '  - in', '  - 5', '  - [in]'),
      [
        '8:9: processors.lim.inputs[1]: must be text, not a number; put it in quotes',
        '9:9: processors.lim.inputs[2]: must be text, not a list',
      ],
    ],
    [
      limit('type: pass', 'inputs: [in]', 'speed: 1'),
      ['7:5: processors.lim.speed: unknown option of pass; known are type, inputs, renamed_from, on_error'],
    ],
    [
      'processors: { a: , b: 5, C-d: { type: pass, inputs: [in] }, 1x: [] }',
      [
        '1:15: processors.a: must be a mapping of options, the type first',
        '1:20: processors.b: must be a mapping of options, the type first',
        '1:26: processors.C-d: an id is made of a-z, 0-9 and _, and begins with a letter, such as c_d',
        '1:61: processors."1x": an id is made of a-z, 0-9 and _, and begins with a letter, such as x',
        '1:61: processors."1x": must be a mapping of options, the type first',
      ],
    ],
    [
      'sources:\n  in: { type: tail, include: [a], inputs: [x], folow: 1, max_line_bytes: 2KB }',
      [
        '2:35: sources.in.inputs: a source has no inputs',
        '2:48: sources.in.folow: unknown option of tail; did you mean "follow"?',
        '2:74: sources.in.max_line_bytes: must be at most 1024 bytes, not "2KB"',
      ],
    ],
  ]
  const rest = {
    sources: '\nsources: { in: { type: tail, include: [a] } }',
    destinations: '\ndestinations: { out: { type: keep, inputs: [in], path: p } }',
  }
  for (const [text, lines] of cases) {
    const missing = Object.entries(rest).flatMap(([section, yaml]) => (text.includes(`${section}:`) ? [] : [yaml]))
    t.same(
      told(text + missing.join('')),
      lines.map(line => `c.yaml:${line.replace('"1x"', '1x')}`),
      text,
    )
  }
  t.same(
    told('sources: { a: { type: tail, include: [x] } }\ndestinations: { a: { type: keep, inputs: [a], path: p } }'),
    [
      'c.yaml:2:1: destinations: there is no destination: at least one is needed',
      'c.yaml:2:17: destinations.a: the id is taken by the source at c.yaml:1:12',
    ],
    'an id of two kinds',
  )
})

t.test('options', async t => {
  const [type, inputs, five, second] = LIMIT as [string, string, string, string]
  const cases: [string, string[]][] = [
    [limit(type, inputs, 'limit: 0', second), ['7:12: processors.lim.limit: must be at least 1']],
    [limit(type, inputs, 'limit: 1001', second), ['7:12: processors.lim.limit: must be at most 1000']],
    [limit(type, inputs, 'limit: 1.5', second), ['7:12: processors.lim.limit: must be a whole number, not 1.5']],
    [
      limit(type, inputs, 'limit: "5"', second),
      ['7:12: processors.lim.limit: must be a whole number, not text; remove the quotes'],
    ],
    [limit(type, inputs, 'limit: many', second), ['7:12: processors.lim.limit: must be a whole number, not text']],
    [limit(type, inputs, 'limit: [5]', second), ['7:12: processors.lim.limit: must be a whole number, not a list']],
    [limit(type, inputs, 'limit:', second), ['7:5: processors.lim.limit: has no value; it must be a whole number']],
    [limit(type, inputs, 'limit: ~', second), ['7:5: processors.lim.limit: has no value; it must be a whole number']],
    [
      limit(type, inputs, five, 'window: 10 Sekunden'),
      [
        '8:13: processors.lim.window: must be a duration such as "10 Seconds", "500ms" or {value: 10, unit: Seconds}, not "10 Sekunden"',
      ],
    ],
    [limit(type, inputs, five, 'window: 50ms'), ['8:13: processors.lim.window: must be at least 100 ms, not "50ms"']],
    [
      limit(type, inputs, five, 'window: { value: 0, unit: Second, unt: 1 }'),
      [
        '8:22: processors.lim.window.value: must be more than 0',
        '8:39: processors.lim.window.unt: unknown option; did you mean "unit"?',
      ],
    ],
    [
      limit(type, inputs, five, 'window:', '  value: 1', '  unit: Weeks'),
      ['10:13: processors.lim.window.unit: must be one of Milliseconds, Seconds, Minutes, Hours, Days'],
    ],
    [
      limit(type, inputs, five, 'window:', '  unit: Hours'),
      ['8:5: processors.lim.window.value: is missing; it must be a number'],
    ],
    [
      limit(type, inputs, five, 'window: [1]'),
      ['8:13: processors.lim.window: must be a duration such as "10 Seconds", "500ms" or {value: 10, unit: Seconds}'],
    ],
    [
      limit(...LIMIT, 'mode: slidng', 'key_field: app', 'pattern: "("', 'limt: 5'),
      [
        '9:11: processors.lim.mode: must be one of fixed, sliding, not "slidng"; did you mean "sliding"?',
        '10:16: processors.lim.key_field: a field path starts with a dot: write .app (column 1 of the path)',
        '11:14: processors.lim.pattern: not a regular expression: /(/u: Unterminated group',
        '12:5: processors.lim.limt: unknown option of limit; did you mean "limit"?',
      ],
    ],
    [limit(...LIMIT, 'mode: sliding', 'ratio: 1'), ['10:12: processors.lim.ratio: must be less than 1']],
    [limit(...LIMIT, 'ratio: 0.5'), ['4:3: processors.lim: ratio needs mode: sliding']],
    [
      limit(...LIMIT, 'weights: { a: x, B: 1 }'),
      [
        '9:19: processors.lim.weights.a: must be a number, not text',
        '9:22: processors.lim.weights.B: is not a possible name here',
      ],
    ],
    [limit(...LIMIT, 'mode: yes'), ['9:11: processors.lim.mode: must be one of fixed, sliding, not "yes"']],
    [
      'sources: { in: { type: tail, include: [], follow: yes } }',
      ['1:39: sources.in.include: must not be empty', '1:51: sources.in.follow: must be true or false, not text'],
    ],
    [
      'sources: { in: { type: tail, include: [a, 5, {}] } }',
      [
        '1:43: sources.in.include[1]: must be text, not a number; put it in quotes',
        '1:46: sources.in.include[2]: must be text, not a mapping',
      ],
    ],
    [send('url: example.com'), ['6:10: destinations.out.url: must be a URL, as in https://example.com/path']],
    [
      send('auth: { type: tokn, key: x }'),
      ['6:19: destinations.out.auth.type: must be one of token, basic, not "tokn"; did you mean "token"?'],
    ],
    [send('auth: { key: x }'), ['6:5: destinations.out.auth.type: is missing; it must be one of token, basic']],
    [send('auth: token'), ['6:11: destinations.out.auth: must be a mapping of options, not text']],
    [
      send('auth: { type: basic, usr: me, key: x }'),
      [
        '6:5: destinations.out.auth.user: is missing; it must be text',
        '6:5: destinations.out.auth.password: is missing; it must be text',
        '6:26: destinations.out.auth.usr: unknown option; did you mean "user"?',
        '6:35: destinations.out.auth.key: unknown option; known are type, user, password',
      ],
    ],
    [
      send('targets:', '  - { host: a, port: 70000 }', '  - host: ""', '    prot: 1'),
      [
        '7:26: destinations.out.targets[0].port: must be at most 65535',
        '8:9: destinations.out.targets[1].port: is missing; it must be a whole number',
        '8:15: destinations.out.targets[1].host: must not be empty',
        '9:9: destinations.out.targets[1].prot: unknown option; did you mean "port"?',
      ],
    ],
    [
      send('via: { by: post, pace: quick, size: big, color: red }'),
      [
        '6:28: destinations.out.via.pace: must be a whole number, not text',
        '6:41: destinations.out.via.size: must be a whole number, not text',
        '6:46: destinations.out.via.color: unknown option; known are by, pace, size',
      ],
    ],
    [
      send('targets: [{}]'),
      [
        '6:15: destinations.out.targets[0].host: is missing; it must be text',
        '6:15: destinations.out.targets[0].port: is missing; it must be a whole number',
      ],
    ],
    [
      send('targets:', ...['a', 'b', 'c'].map(host => `  - { host: ${host}, port: 1 }`)),
      ['6:5: destinations.out.targets: must have at most 2 items'],
    ],
    [
      send('batch: { max_events: 0, max_byte: 1 }', 'max_events: 5', 'on_reject: drop', 'retyr: {}', 'timeout: soon'),
      [
        '6:26: destinations.out.batch.max_events: must be at least 1',
        '6:29: destinations.out.batch.max_byte: unknown option; did you mean "max_bytes"?',
        '7:5: destinations.out.max_events: unknown option of send; write it as max_events in batch: { max_events: … }',
        '8:16: destinations.out.on_reject: must be one of dead_letter, discard, not "drop"',
        '9:5: destinations.out.retyr: unknown option of send; did you mean "retry"?',
        '10:14: destinations.out.timeout: must be a duration such as "10 Seconds", "500ms" or {value: 10, unit: Seconds}, not "soon"',
      ],
    ],
  ]
  const missing = '\ndestinations: { out: { type: keep, inputs: [in], path: p } }'
  for (const [text, lines] of cases) {
    t.same(
      told(text.includes('destinations:') ? text : text + missing),
      lines.map(line => `c.yaml:${line}`),
      text,
    )
  }
})

t.test('topology', async t => {
  const config = (...processors: string[]) =>
    [
      'sources: { in: { type: tail, include: [a] } }',
      'destinations: { out: { type: keep, inputs: [a], path: p } }',
      'processors:',
      ...processors.map(processor => `  ${processor}`),
    ].join('\n')
  const pass = (id: string, inputs: string) => `${id}: { type: pass, inputs: [${inputs}] }`
  const cases: [string, string[]][] = [
    [
      config(pass('a', 'inn')),
      ['4:29: processors.a.inputs[0]: there is no source or processor "inn"; did you mean "in"?'],
    ],
    [config(pass('a', 'elsewhere')), ['4:29: processors.a.inputs[0]: there is no source or processor "elsewhere"']],
    [
      config(pass('a', 'in, out')),
      [
        '4:33: processors.a.inputs[1]: out is a destination: nothing comes out of it but what it refuses, as out.rejected',
      ],
    ],
    [
      config(pass('a', 'in, out.refused')),
      [
        '4:33: processors.a.inputs[1]: out is a destination: nothing comes out of it but what it refuses, as out.rejected',
      ],
    ],
    [
      config(pass('a', 'in, out.rejected')),
      ['2:45: destinations.out.inputs[0]: events would go round in a circle: out -> a -> out'],
    ],
    [
      config(pass('a', 'in'), pass('b', 'out.rejected')).replace('path: p', 'path: p, on_reject: discard'),
      ['5:29: processors.b.inputs[0]: out drops what it refuses: without on_reject: discard it could be read here'],
    ],
    [config(pass('a', 'in, in')), ['4:33: processors.a.inputs[1]: is listed twice']],
    [
      config(pass('a', 'in.discarded')),
      ['4:29: processors.a.inputs[0]: in (type tail) has no side outputs; its events are read as in'],
    ],
    [
      config('b: { type: limit, inputs: [in], limit: 1, window: 1s }', pass('a', 'b.dropped, b')),
      ['5:29: processors.a.inputs[0]: b (type limit) has no side output of this name; it has b.discarded'],
    ],
    [config(pass('a', 'a')), ['4:29: processors.a.inputs[0]: events would go round in a circle: a -> a']],
    [
      config(pass('a', 'in, c'), pass('b', 'a'), pass('c', 'b')),
      ['5:29: processors.b.inputs[0]: events would go round in a circle: b -> c -> a -> b'],
    ],
    [
      config(pass('a', 'b'), pass('b', 'a'), pass('c', 'd'), pass('d', 'in, c')),
      [
        '5:29: processors.b.inputs[0]: events would go round in a circle: b -> a -> b',
        '7:33: processors.d.inputs[1]: events would go round in a circle: d -> c -> d',
      ],
    ],
    [
      config(pass('a', 'p11'), pass('p0', 'a'), ...Array.from({ length: 11 }, (_, i) => pass(`p${i + 1}`, `p${i}`))),
      [
        '5:30: processors.p0.inputs[0]: events would go round in a circle: p0 -> p1 -> p2 -> p3 -> p4 -> … -> p9 -> p10 -> p11 -> a -> p0',
      ],
    ],
    [
      config(pass('a', 'in'), pass('b', 'a'), pass('d', 'a, b')),
      ['accepted', '6:3: processors.d: nobody reads what it passes on: add d to the inputs of a component'],
    ],
    [
      config('a: { type: limit, inputs: [in], limit: 1, window: 1s }').replace('[a], path', '[a.discarded], path'),
      ['accepted', '4:3: processors.a: nobody reads what it passes on: add a to the inputs of a component'],
    ],
    [
      config(pass('a', 'in')).replace('[a] } }', '[a] }, other: { type: tail, include: [b] } }'),
      ['accepted', '1:46: sources.other: nobody reads its events: add other to the inputs of a component'],
    ],
  ]
  for (const [text, lines] of cases) {
    t.same(
      told(text),
      lines.map(line => (line === 'accepted' ? line : `c.yaml:${line}`)),
      text,
    )
  }
})

t.test('YAML that is none', async t => {
  const cases: [string, string[]][] = [
    ['a:\n\tb: 1\n', ['2:1: a tab is used as indentation; use spaces']],
    ['a: [1, 2\nb: 3\n', ['1:4: the bracket that opens here is not closed']],
    ["a: 'x\nb: 1\n", ['1:4: the quote that opens here is not closed']],
    ['a: "x" y\n', ['1:8: this is not expected here; check the quotes and brackets before it, and the indentation']],
    ['a: b: c\n', ['1:4: a mapping cannot begin here; quote a value that holds ": ", and check the indentation below']],
    ['a:\n  b: 1\n c: 2\n', ['3:2: the indentation does not fit the lines above']],
    ['a\nb: 1\n', ['1:1: a key must be in one line and followed by ": "']],
    ['data_dir: 1\n---\ndata_dir: 2\n', ['2:1: a second document begins here; one file holds one document']],
    ['%YAML 1.1\n---\na: yes\n', ['1:1: must be YAML 1.2; remove the %YAML line']],
    ['[a]: 1\n', ['1:1: a key must be text']],
  ]
  for (const [text, lines] of cases)
    t.same(
      told(text).slice(0, 1),
      lines.map(line => `c.yaml:${line}`),
      text.slice(0, 40),
    )

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
    [free('&a { b: *a }'), [`${column(9)}${FREE}.b: the alias *a is inside of what it stands for`]],
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

const PATH_WANTED = 'must be a field path, which starts with a dot, as in .app'

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

  const SECRET = 'hunter2-hunter2'
  const faults: [string, Env, string[]][] = [
    [
      limit(...LIMIT, 'key_field: ${PATH_OF_KEY}'),
      {},
      [
        '9:16: processors.lim.key_field: the environment variable PATH_OF_KEY is not set; set it, or give a default: ${PATH_OF_KEY:-default}',
      ],
    ],
    [
      limit('type: limit', 'inputs: [in]', 'limit: ${A}${B}', 'window: 1s'),
      {},
      [
        '7:12: processors.lim.limit: the environment variable A is not set; set it, or give a default: ${A:-default}',
        '7:12: processors.lim.limit: the environment variable B is not set; set it, or give a default: ${B:-default}',
      ],
    ],
    ...['${A', '${A-b}'].map((text): [string, Env, string[]] => [
      limit(...LIMIT, `key_field: "${text}"`),
      {},
      [
        '9:16: processors.lim.key_field: "${" begins an environment variable, as in ${NAME} or ${NAME:-default}; write $${ for "${" itself',
      ],
    ]),
    [
      limit(...LIMIT, 'key_field: "${.app}"'),
      {},
      [
        '9:16: processors.lim.key_field: ${.app} stands for the value of a field, and this option is the same for all events; write $${ for "${" itself',
      ],
    ],
    [
      limit(...LIMIT, 'mode: ${V}'),
      { V: SECRET },
      ['9:11: processors.lim.mode: must be one of fixed, sliding, not ${V}'],
    ],
    [
      limit(...LIMIT, 'ratio: ${V}'),
      { V: SECRET },
      ['9:12: processors.lim.ratio: must be a number, not the text of ${V}'],
    ],
    [limit(...LIMIT, 'mode: sliding', 'ratio: ${V}'), { V: '7' }, ['10:12: processors.lim.ratio: must be less than 1']],
    [
      limit(...LIMIT, 'ratio: "${V}"'),
      { V: '.5' },
      ['9:12: processors.lim.ratio: must be a number, not the text of ${V}'],
    ],
    [
      limit('type: limit', 'inputs: [in]', 'limit: 5', 'window: ${V}'),
      { V: SECRET },
      [
        '8:13: processors.lim.window: must be a duration such as "10 Seconds", "500ms" or {value: 10, unit: Seconds}, not ${V}',
      ],
    ],
    [limit(...LIMIT, 'pattern: (${V}'), { V: SECRET }, ['9:14: processors.lim.pattern: (${V} is not valid here']],
    [limit(...LIMIT, 'key_field: .a${V}'), { V: ']' }, [`9:16: processors.lim.key_field: ${PATH_WANTED}, not .a\${V}`]],
    [limit(...LIMIT, 'key_field: ${V}'), { V: SECRET }, [`9:16: processors.lim.key_field: ${PATH_WANTED}, not \${V}`]],
    [
      limit('type: ${V}', 'inputs: [in]'),
      { V: SECRET },
      ['5:11: processors.lim.type: must be one of limit, pass, not ${V}'],
    ],
    [
      limit('type: pass', 'inputs: ["${V}"]'),
      { V: SECRET },
      ['6:14: processors.lim.inputs[0]: there is no source or processor ${V}'],
    ],
    [send('auth: { type: token, key: "" }'), {}, ['6:31: destinations.out.auth.key: must not be empty']],
    [
      send('auth: { type: token, key: [hunter2-hunter2] }'),
      {},
      ['6:31: destinations.out.auth.key: must be text, not a list'],
    ],
    [
      send('auth: { type: basic, user: me, password: 12345678 }'),
      {},
      ['6:46: destinations.out.auth.password: must be text, not a number; put it in quotes'],
    ],
  ]
  for (const [text, env, lines] of faults)
    t.same(
      told(text, env),
      lines.map(line => `c.yaml:${line}`),
      lines[0]!,
    )
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

t.test('a large bad file takes no more than its share', async t => {
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
  t.same(
    [config.sources, config.processors, config.destinations].flat().map(({ id }) => id),
    ['in', 'lim', 'out'],
  )
  t.same(linesOf('twice'), [
    'twice/b.yaml:1:1: data_dir: is here twice; the first is at twice/a.yaml:1:1',
    'twice/b.yaml:2:12: sources.in: is here twice; the first is at twice/a.yaml:2:12',
    'twice/b.yaml:2:61: sources.other.type: must be one of tail, not "tial"; did you mean "tail"?',
    'twice/b.yaml:3:1: tests: cannot be joined with the one at twice/a.yaml:3:1',
    'twice/c.yaml:1:17: destinations.in: the id is taken by the source at twice/a.yaml:2:12',
  ])
  t.match(linesOf('broken'), [
    /^broken\/a.yaml:1:10: the bracket/,
    /^broken\/b.yaml:1:17: destinations.out.path: is missing/,
    /^broken\/b.yaml:1:50: destinations.out.pth/,
  ])
  t.same(linesOf('empty'), ['empty:1:1: there is no *.yaml or *.yml file in this folder'])
  t.same(linesOf('gone.yaml'), ['gone.yaml:1:1: there is no such file or folder'])
  writeFileSync(join(dir, 'latin.yaml'), Buffer.from('sources: {}\n# caf\xe9\n', 'latin1'))
  t.same(linesOf('latin.yaml'), ['latin.yaml:2:1: is not valid UTF-8'])
})
