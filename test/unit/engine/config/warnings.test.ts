import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { validate } from '../../../../src/cli/check/validate.js'
import { components } from '../../../../src/components/list.js'
import { codecOf, codecs } from '../../../../src/core/codecs/list.js'
import { TEXT_LINES } from '../../../../src/core/codecs/text.js'
import { defineProcessor } from '../../../../src/core/component.js'
import { lineFields } from '../../../../src/core/event/event.js'
import { fieldsOfLines } from '../../../../src/core/event/event-fields.js'
import { DECODED, INVALID } from '../../../../src/core/event/flags.js'
import { ANY_FIELD } from '../../../../src/engine/config/checks/component-warnings.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { PIECE } from '../../../../src/lib/lines/line-splitter.js'
import { testFolder } from '../../../support/folder.js'
import { madeUp } from '../../../support/made-up.js'
import { valuesOf } from '../../../support/values-of.js'

/** The warnings of a configuration, without their file. */
function warningsOf(text: string, env: NodeJS.ProcessEnv = {}): string[] {
  return parseConfig(text, 'c.yaml', { env, components }).warnings.map(
    ({ line, column, path, message }) => `${line}:${column}: ${path}: ${message}`,
  )
}

/** What `sluice validate` writes to its standard error, by line. */
async function validated(folder: string, text: string): Promise<string[]> {
  const path = join(folder, 'c.yaml')
  writeFileSync(path, `metrics: false\n${text}`)
  const io = { stdout: { write: () => true }, stderr: { text: '', write: (text: string) => (io.stderr.text += text) } }
  await validate([path], {}, io as never)
  return io.stderr.text.split('\n').filter(Boolean)
}

const throttled = (source: string, ...options: string[]) =>
  [
    `sources: { in: { ${source} }, json: { type: http, listen: '127.0.0.1:0' } }`,
    'processors:',
    '  first: { type: filter, inputs: [in], condition: if (.message exists) }',
    '  lim:',
    '    type: throttle',
    '    inputs: [first.discarded]',
    '    limit: 5',
    '    window: 1s',
    ...options.map(option => `    ${option}`),
    'destinations: { out: { type: stdout, inputs: [lim, json, first] } }',
    '',
  ].join('\n')

t.test('a field that no event can have', async t => {
  // Options of a codec without required options are read by its name alone; an alias has the name of another codec.
  const anyField = codecs.filter(({ name }) => {
    const codec = codecOf(name)
    return codec?.name === name && codec.eventFields === undefined && !codec.framing
  })
  t.same(valuesOf(anyField, 'name'), ANY_FIELD)
  const text = throttled('type: stdin', 'key_field: .client')
  t.match(warningsOf(text), [
    '9:16: processors.lim.key_field: no event that comes here can have .client, and all events share one bucket. ' +
      'in (decode: text) has .message, .host, .timestamp, .partial, .raw; if its lines have fields, set "decode: json" ' +
      'or "decode: logfmt" or "decode: key_value" or "decode: gelf" in in, or add a processor of type parse after it',
  ])
  t.same(warningsOf(text.replace('type: stdin', 'type: stdin, decode: json')), [], 'as it says')
  t.same(warningsOf(text.replace('[first.discarded]', '[first, json]')), [], 'one that has it is enough')
  const cases: readonly [string, string, RegExp | undefined][] = [
    ['type: stdin', 'key_field: .message', undefined],
    ['type: stdin, decode: logfmt', 'key_field: .any', undefined],
    ['type: stdin, decode: csv', 'key_field: .column_12', undefined],
    ['type: stdin, decode: csv', 'key_field: .app', /in \(decode: csv\) has .*, \.column_1, \.column_2 and so on$/],
    ['type: stdin, decode: { codec: csv, columns: [time, app] }', 'key_field: .app', undefined],
    [
      'type: stdin, decode: { codec: csv, columns: [time, app] }',
      'key_field: .apps',
      /did you mean "\.app"\?.*\.time, \.app$/,
    ],
    ['type: stdin', 'key_field: .hots', /did you mean "\.host"\? in \(decode: text\) has/],
    ['type: stdin', 'key_field: .file', /can have \.file/],
    ['type: file, include: [a]', 'key_field: .file', undefined],
    ["type: tcp, listen: '127.0.0.1:0'", 'key_field: .peer', undefined],
    ['type: stdin, decode: syslog', 'key_field: .app', undefined],
    ['type: stdin, decode: syslog', 'key_field: .client', /\(decode: syslog\) has .*\.severity/],
    ['type: stdin', 'time_field: .ts', /time_field: .* and each event counts when it arrives\. in/],
    ['type: stdin', "exclude: if (.level equal 'error' AND .message exists)", /exclude: .* can have \.level\. in/],
    ['type: journald', 'key_field: .unit', undefined],
    ['type: journald', 'key_field: ._SYSTEMD_SLICE', undefined],
    ['type: journald', 'key_field: .client', /in has \.message, .*, the journal's own fields, in capitals$/],
    ['type: journald, include_fields: [_EXE]', 'key_field: ._EXE', undefined],
    ['type: journald, include_fields: [_EXE]', 'key_field: ._COMM', /\._EXE$/],
  ]
  for (const [source, option, warning] of cases) {
    const found = warningsOf(throttled(source, option))
    t.equal(found.length, warning ? 1 : 0, `${source} ${option}: ${found}`)
    if (warning) t.match(found[0], warning)
  }
  const behind = (options: string) =>
    warningsOf(
      throttled('type: stdin', 'key_field: .client')
        .replace('[first.discarded]', '[parsed]')
        .replace('processors:', `processors:\n  parsed: { type: parse, inputs: [in], ${options} }`),
    )
  t.same(behind('codec: json'), [], 'parse adds it')
  t.same(behind('codec: csv, columns: [client]'), [])
  t.match(behind('codec: csv, columns: [app]'), [/can have \.client.* parsed adds \.app; in \(decode: text\) has/])
  t.match(behind('codec: csv, columns: [client], target: .row'), [/parsed adds \.row/])
  const filtered = throttled('type: stdin').replace('.message exists', '.level exists')
  t.match(warningsOf(filtered), [/^3:\d+: processors\.first\.condition: no event .* can have \.level\./])
})

t.test('the fields that are listed are those that events have', async t => {
  const lines = ['plain', '<13>1 2026-01-02T03:04:05Z h app 1 id [a b="c"] text', '<13>Jan  2 03:04:05 h app[1]: text']
  for (const codec of [TEXT_LINES, codecOf('syslog')!]) {
    const known = fieldsOfLines(codec, ['file', 'peer'])!.names
    for (const line of lines) {
      const origin = { source: 's', path: 'p', peer: 'q', host: 'h', codec, wanted: new WantedNames() }
      const chunk = Buffer.from(line)
      const fields = lineFields(
        origin,
        0,
        PIECE | INVALID | (line.startsWith('<') ? DECODED : 0),
        chunk,
        0,
        chunk.length,
      )
      t.same(
        Object.keys(fields).filter(name => !known.includes(name)),
        [],
        `${codec} ${line}`,
      )
    }
  }
})

t.test('what validate warns of, and what it says to do', async t => {
  const dir = testFolder(t, { logs: { 'a.log': '' }, empty: {} })
  mkdirSync(join(dir, 'nested/deep'), { recursive: true })
  writeFileSync(join(dir, 'nested/deep/x.log'), '')
  const run = async (text: string, env: NodeJS.ProcessEnv = {}) => {
    const path = join(dir, 'c.yaml')
    writeFileSync(path, text, { mode: 0o640 })
    let said = ''
    const out = { stdout: { write: () => true }, stderr: { write: (line: string) => (said += line) } }
    await validate([path], { STATE_DIRECTORY: join(dir, 'state'), ...env }, out as never)
    return said.replaceAll(`${dir}/`, '')
  }
  const local = 'sources: { in: { type: stdin } }\n'
  t.match(
    await run(local),
    /: destinations: there is no destination: .*\. If a managed daemon uses this file .*, add "managed: \{\}" to it/,
  )
  t.equal(await run(`${local}managed: {}\n`), '', 'as it says')
  const complete = `${local}destinations: { out: { type: stdout, inputs: [in] } }\n`
  t.match(
    await run(`${complete}managed: {}\n`),
    /c\.yaml: warning: checked only as the local part.*Remove "managed" if/,
  )
  t.equal(await run(complete), '', 'as it says')
  const reading = (...include: string[]) =>
    `sources: { in: { type: file, include: [${include.map(path => `'${join(dir, path)}'`).join(', ')}] } }\ndestinations: { out: { type: stdout, inputs: [in] } }\n`
  t.match(await run(reading('logs')), /include\[0\]: warning: logs is a folder, .* write logs\/\* for the files in it/)
  t.match(await run(reading('logs/')), /write logs\/\* for/)
  for (const good of ['logs/*', 'logs/a.log', '**/x.log', '*/deep/*.log', '{logs,none}/*.log', 'nested/**'])
    t.equal(await run(reading(good)), '', good)
  for (const none of ['logs/b.log', 'empty/*', 'none/*.log', '**/y.log'])
    t.match(
      await run(reading('logs/*', none)),
      /include\[1\]: warning: .* matches no file now; files created later/,
      none,
    )
  t.match(await run(reading('nested/*')), /nested\/\* is a folder/)
  writeFileSync(join(dir, 'logs/b.gz'), gzipSync('line\n'))
  t.equal(await run(reading('logs/*')), '', 'a compressed file that is read')
  writeFileSync(join(dir, 'logs/b'), Buffer.from('\xfd7zXZ\0', 'latin1'))
  t.match(
    await run(reading('logs/*')),
    /include\[0\]: warning: logs\/\* matches b, which is compressed with xz; .* exclude: \['/,
  )
  t.equal(await run(reading('logs/*').replace('] } }', "], exclude: ['b'] } }")), '', 'as it says')
  rmSync(join(dir, 'logs/b'))
  rmSync(join(dir, 'logs/b.gz'))
  const hidden = await run(reading('logs').replace(`'${dir}/logs'`, '"${LOGS}"'), { LOGS: join(dir, 'logs') })
  t.match(hidden, /warning: \$\{LOGS\} is a folder/, 'not what the environment says')

  const sending = (url: string, auth = '{ key: abc }') =>
    `sources: { in: { type: stdin } }\ndestinations: { up: { type: http, inputs: [in], url: '${url}', auth: ${auth} } }\n`
  t.match(await run(sending('http://logs.example.com/')), /up\.url: warning: the access key is sent without encryption/)
  for (const quiet of ['https://logs.example.com/', 'http://127.0.0.1:8080/', 'http://localhost/'])
    t.equal(await run(sending(quiet)), '', quiet)
  t.equal(await run(sending('http://logs.example.com/', '{ type: none }')), '')
  const keyed = sending('https://logs.example.com/', `{ key_file: ${join(dir, 'key')} }`)
  t.match(await run(keyed), /up\.auth\.key_file: warning: key does not exist here; create it/)
  writeFileSync(join(dir, 'key'), 'abc\n')
  t.equal(await run(keyed), '', 'once it is there')
  const open = sending('https://logs.example.com/')
  chmodSync(join(dir, 'c.yaml'), 0o644)
  t.match(
    await run(open),
    /c\.yaml: warning: destinations\.up\.auth\.key is written here, and every user .*: chmod 640 c\.yaml/,
  )
  t.equal(await run(open.replace('abc', '"${KEY}"'), { KEY: 'abc' }), '', 'not in the file')
  chmodSync(join(dir, 'c.yaml'), 0o640)
  t.equal(await run(open), '', 'as it says')
  const named = await run(open.replace('abc', '$KEY'), { KEY: 'abc' })
  t.match(named, /destinations\.up\.auth\.key begins with \$ and is used as it is written; .* write \$\{NAME\}/)
  t.notMatch(named, 'KEY', 'the key itself may begin so')
  t.match(
    await run(`${local}managed: { allow_files: [logs/**] }\n`),
    /managed\.allow_files\[0\]: must be an absolute path or pattern, as in \/var\/log\/app\/\*\*/,
  )
  t.match(
    await run(`${complete}metrics: { listen: '0.0.0.0:1' }\n`),
    /metrics\.listen: everybody who can reach this machine/,
  )
  t.equal(await run(`${complete}metrics: { listen: '10.0.0.7:1' }\n`), '', 'as it says')
  const shows = (page: string) => run(`${complete}status_page: ${page}\n`)
  for (const listen of ['0.0.0.0:1', 'systemd:page', '10.0.0.7:1']) {
    t.match(
      await shows(`{ listen: '${listen}' }`),
      /listen: may be reached from other machines, so the page needs a token/,
    )
    t.match(
      await shows(`{ listen: '${listen}', credential: page }`),
      /warning: status_page\.listen: the page is not encr/,
    )
  }
  t.match(await shows('{ token: short }'), /token: the token has fewer than 16 characters; make one with: openssl/)
  t.match(await shows('{ token: 0123456789abcdef, credential: a }'), /needs one of .*; token and credential given/)
  const filed = `{ token_file: '${join(dir, 'page-token')}' }`
  t.match(
    await shows(filed),
    /warning: status_page\.token_file: page-token does not exist here; .* with the token in it/,
  )
  writeFileSync(join(dir, 'page-token'), '0123456789abcdef', { mode: 0o644 })
  chmodSync(join(dir, 'page-token'), 0o644)
  t.match(await shows(filed), /status_page\.token_file: every user of this machine can read it: chmod 600/)
  chmodSync(join(dir, 'page-token'), 0o600)
  t.equal(await shows(filed), '', 'as it says')
  chmodSync(join(dir, 'c.yaml'), 0o644)
  t.match(await shows('{ token: 0123456789abcdef }'), /status_page\.token is written here, and every user/)
  t.equal(await run(`${complete}status_page: { token: '\${TOKEN}' }\n`, { TOKEN: '0123456789abcdef' }), '')
  chmodSync(join(dir, 'c.yaml'), 0o640)
  const filtering = (condition: string) =>
    `sources: { in: { type: stdin, decode: json } }\nprocessors:\n  f: { type: filter, inputs: [in], condition: "${condition}" }\n  r: { type: route, inputs: [in], routes: { x: "${condition}" } }\ndestinations: { out: { type: stdout, inputs: [f, r.x, r.else] } }\n`
  const lost = await run(filtering(".path not_equal '/healthz'"))
  t.match(
    lost,
    /f\.condition: warning: an event without \.path is discarded, because .* write NOT \.path equal 'value' to/,
  )
  t.match(lost, /r\.routes\.x: warning: an event without \.path does not go to x, because/)
  t.equal(await run(filtering("NOT .path equal '/healthz'")), '', 'as it says')
  const listening = `sources: { in: { type: http, listen: '0.0.0.0:1', auth: { key: abc } } }\ndestinations: { out: { type: stdout, inputs: [in] } }\n`
  t.match(await run(listening), /in\.listen: warning: access keys are sent without encryption: set "tls"/)
})

t.test('what a throttle adds to events that nobody reads', async t => {
  const text = throttled('type: stdin', 'annotate: true', 'summary: { to: both }')
  t.match(warningsOf(text), [
    '9:15: processors.lim.annotate: nobody reads lim.discarded, where annotated events go: add lim.discarded to the inputs of a component',
    '10:14: processors.lim.summary: nobody reads lim.discarded, where summaries go: add lim.discarded to the inputs of a component',
  ])
  t.same(warningsOf(text.replace('first] }', 'first, lim.discarded] }')), [], 'as it says')
  const marked = throttled('type: stdin', 'annotate: true', 'over_limit: mark')
  t.same(warningsOf(marked), [], 'marked events pass')
})

t.test('a throttle in shadow needs no reader', async t => {
  const unread = (mode: string) => throttled('type: stdin', `mode: ${mode}`).replace('inputs: [lim, ', 'inputs: [')
  t.same(warningsOf(unread('shadow')), [])
  t.match(warningsOf(unread('enforce')), [/nobody reads the events that it passes/])
})

const CLUSTER = ['scope: cluster', 'redis: { url: redis://127.0.0.1 }', 'expected_members: 2']

t.test('members of a cluster have no credit for what a source missed', async t => {
  const folder = testFolder(t)
  const warningsFor = async (source: string, ...options: string[]) =>
    (await validated(folder, throttled(source, ...options))).filter(line =>
      /that were written before (a|the first) start/.test(line),
    )
  writeFileSync(join(folder, 'a.log'), '')
  const file = `type: file, include: [${join(folder, 'a.log')}]`
  for (const source of [file, 'type: journald']) {
    t.same(await warningsFor(source), [])
    const [warning, ...others] = await warningsFor(source, ...CLUSTER)
    t.match(
      warning,
      /:5:3: processors\.lim: warning: lines of in that were written before a start arrive .* are discarded; set on_backlog: pace.* time_field: auto/,
    )
    t.same(others, [])
  }
  for (const option of [
    'on_backlog: pace',
    'on_backlog: pass',
    'on_backlog: as_live',
    'time_field: auto',
    'time_field: .timestamp',
    'mode: shadow',
    'over_limit: mark',
  ])
    t.same(await warningsFor(file, option), [], option)
  t.match(await validated(folder, throttled(file, ...CLUSTER, 'on_backlog: credit')), [
    /processors\.lim\.on_backlog: warning: has no effect with scope: cluster/,
  ])
  t.match(await validated(folder, throttled(file, ...CLUSTER, 'max_credit: 1h')), [
    /processors\.lim\.max_credit: warning: has no effect with scope: cluster/,
  ])
  t.equal((await validated(folder, throttled(file, ...CLUSTER, 'on_backlog: credit', 'max_credit: 1h'))).length, 1)
  for (const source of ['type: stdin', "type: tcp, listen: '127.0.0.1:0'"])
    t.same(await warningsFor(source), [], source)
})

t.test('what a first start would discard is said with its size, also where it is chosen', async t => {
  const folder = testFolder(t, {
    'a.log': 'x'.repeat(2_500_000),
    'b.log': 'y\n',
    'c.log': Buffer.from('\xfd7zXZ\0', 'latin1'),
  })
  const source = `type: file, include: ['${folder}/*.log'], exclude: [b.log]`
  const there = ': a first start would read 2.5 MB in 1 file; sluice simulate counts the events that this discards'
  const warningsFor = async (source: string, option: string) =>
    (await validated(folder, throttled(source, option))).filter(line =>
      /that were written before (a|the first) start/.test(line),
    )
  for (const [option, place] of [
    ['max_keys: 5', '5:3: processors.lim'],
    ['on_backlog: as_live', '10:17: processors.lim.on_backlog'],
    ['on_backlog: credit', '10:17: processors.lim.on_backlog'],
  ] as const) {
    for (const more of ['', ', follow: false']) {
      const [warning = '', ...others] = await warningsFor(source + more, option)
      t.ok(warning.includes(`${place}: warning: `) && warning.includes(`are discarded${there}`), warning)
      t.same(others, [])
    }
  }
  t.same(await warningsFor(`${source}, read_from: end`, 'on_backlog: as_live'), [])
  t.notMatch(await warningsFor(`${source}, read_from: end`, 'max_keys: 5'), [/would read/])
  mkdirSync(join(folder, 'state/checkpoints'), { recursive: true })
  writeFileSync(join(folder, 'state/checkpoints/in.json'), '{}')
  const started = await validated(folder, `data_dir: ${join(folder, 'state')}\n${throttled(source, 'max_keys: 5')}`)
  t.notMatch(started, [/first start/], 'after the first start')
})

t.test('on_backlog says nothing where windows are in the time of the events', async t => {
  const folder = testFolder(t)
  for (const time of ['.timestamp', 'auto']) {
    const text = throttled('type: stdin, decode: json', 'on_backlog: pace', `time_field: ${time}`)
    const [warning, ...others] = await validated(folder, text)
    t.match(warning, /:10:17: processors\.lim\.on_backlog: warning: has no effect with time_field/)
    t.same(others, [])
    t.match(await validated(folder, throttled('type: stdin, decode: json', 'max_credit: 1h', `time_field: ${time}`)), [
      /:10:17: processors\.lim\.max_credit: warning: has no effect with time_field/,
    ])
  }
  t.same(await validated(folder, throttled('type: stdin, decode: json', 'on_backlog: pace')), [])
})

t.test('a rule behind one that takes all of its events never holds', async t => {
  const folder = testFolder(t)
  const warned = async (...rules: string[]) =>
    (await validated(folder, throttled('type: stdin, decode: json', 'key_field: .k', `limits: [${rules}]`))).map(text =>
      text.replace(/^.*(processors\.lim\.\S+ warning: .*?) comes before.*$/, '$1'),
    )
  const [a, any, under] = [
    '{ key: a, limit: 1 }',
    "{ key: '*', limit: 2 }",
    '{ key: a, when: if (.b exists), limit: 3 }',
  ]
  t.same(await warned(under, a, any, '{ when: if (.c exists), limit: 4 }'), [])
  t.same(await warned(a, under, a, any, '{ key: b, limit: 5 }'), [
    'processors.lim.limits[1]: warning: never holds: limits[0]',
    'processors.lim.limits[2]: warning: never holds: limits[0]',
    'processors.lim.limits[4]: warning: never holds: limits[3]',
  ])
})

t.test('time_field: auto finds nothing in lines that have no time', t => {
  for (const decode of ['text', '{ codec: csv, columns: [level, message] }']) {
    const [warning, ...others] = warningsOf(throttled(`type: stdin, decode: ${decode}`, 'time_field: auto'))
    t.match(
      warning,
      /^9:17: processors\.lim\.time_field: finds no time in the lines of in, .* set decode in in, as in decode: json, .* replace time_field with on_backlog: pace$/,
      decode,
    )
    t.same(others, [])
  }
  for (const source of [
    'type: stdin, decode: json',
    'type: stdin, decode: logfmt',
    'type: stdin, decode: syslog',
    'type: stdin, decode: { codec: csv, columns: [time, message] }',
    'type: journald',
  ])
    t.same(warningsOf(throttled(source, 'time_field: auto')), [], source)
  t.same(warningsOf(throttled('type: stdin, decode: text', 'on_backlog: pace')), [])
  t.end()
})

t.test('lines that are parts of one, where nothing joins them', async t => {
  const folder = testFolder(t)
  const yaml = (source: string, parser: string) =>
    `sources: { in: { ${source} } }\nprocessors: { p: { type: parse, inputs: [in], ${parser} } }\ndestinations: { out: { type: stdout, inputs: [p] } }\n`
  const found = await validated(folder, yaml('type: stdin', 'try: [{ codec: json }, { codec: cri }]'))
  t.match(
    found.join('\n'),
    /c\.yaml:3:\d+: processors\.p\.try\[1\]\.codec: warning: a line .* "decode: cri" the sources file and stdin/,
  )
  const tcp = 'type: tcp, listen: "127.0.0.1:0", decode: docker_json'
  t.match(
    (await validated(folder, yaml(tcp, 'codec: json'))).join('\n'),
    /sources\.in\.decode: warning: .* marked \.partial/,
  )
  t.notMatch((await validated(folder, yaml('type: stdin, decode: cri', 'codec: json'))).join('\n'), /divided/)
})

t.test(
  'a file that is missing is named with its whole path, from the current directory or the configuration',
  async t => {
    const folder = testFolder(t)
    const here = (name: string) => join(process.cwd(), name)
    const found = (
      await validated(
        folder,
        `sources: { in: { type: http, listen: '127.0.0.1:0', tls: { cert_file: none.pem, key_file: ./none.key } } }
processors:
  rows: { type: enrich, inputs: [in], table: none.csv, key_field: .app, column: app, target: .o }
  lim: { type: throttle, inputs: [rows], limit: 1, window: 1s, key_field: .app, limits_file: none.yaml }
destinations: { out: { type: http, inputs: [lim], url: 'https://a.example/', auth: { key_file: ../none } } }
`,
      )
    ).join('\n')
    for (const text of [
      `cert_file: warning: none.pem (${here('none.pem')}) cannot be read`,
      `key_file: warning: ./none.key (${here('none.key')}) cannot be read`,
      `table: warning: ${here('none.csv')} cannot be read`,
      `limits_file: warning: none.yaml (${here('none.yaml')}) cannot be read`,
      `key_file: warning: ../none (${here('../none')}) does not exist here`,
    ])
      t.ok(found.includes(text), `${text}\n${found}`)
    const script = `sources: { in: { type: stdin } }\nprocessors: { s: { type: script, inputs: [in], file: ./none.js } }\ndestinations: { out: { type: stdout, inputs: [s] } }\n`
    t.match((await validated(folder, script)).join('\n'), join(folder, 'none.js'))
    t.match((await validated(folder, `plugins: [./none.js]\n${script}`)).join('\n'), join(folder, 'none.js'))
  },
)

t.test('each component of a long chain is asked once for its fields', async t => {
  let asked = 0
  const adds = defineProcessor({
    type: 'adds',
    ...madeUp('Adds a field.'),
    fields() {
      asked++
      return { names: ['added'] }
    },
    create: () => ({ process() {} }),
  })
  const numbers = Array.from({ length: 20 }, (_, n) => n)
  const yaml = [
    'sources: { in: { type: stdin, decode: text } }',
    'processors:',
    ...numbers.flatMap(n => [
      `  p${n}: { type: adds, inputs: [${n > 0 ? `f${n - 1}` : 'in'}] }`,
      `  f${n}: { type: filter, inputs: [p${n}], condition: if (.other exists) }`,
    ]),
    'destinations: { out: { type: blackhole, inputs: [f19] } }',
  ]
  const { warnings } = parseConfig(yaml.join('\n'), 'c.yaml', { env: {}, components: [...components, adds] })
  t.equal(warnings.filter(({ message }) => /no event that comes here can have \.other/.test(message)).length, 20)
  t.equal(asked, 20)
})

t.test('placeholders of other programs in texts with fields, and events that choose where they go', t => {
  const lone = (field: string) =>
    `begins with a field, so whoever writes the events chooses the whole name. Begin with a text of your own, as in logs-\${${field}}`
  const DATE =
    'is not replaced: this option has no dates. Put the date into a field with a processor of type edit, and write ${.FIELD}'
  const OTHER_DATE = 'is not replaced: of dates, only %Y, %m, %d, %F, %H and %M are'
  const written = (sign: string, path: string) => `${sign} is not replaced: write \${${path}} for the value of a field`
  const [KAFKA, LOKI] = ['type: kafka, brokers: [a]', "type: loki, url: 'http://127.0.0.1:1'"]
  const [ELASTIC, S3] = ["type: elasticsearch, url: 'http://127.0.0.1:1'", 'type: s3, bucket: logs']
  const cases: [options: string, warnings: string[]][] = [
    [`${KAFKA}, topic: 'log-{{ app }}-%Y'`, [written('{{ app }}', '.app'), `%Y ${DATE}`]],
    [`${KAFKA}, topic: '$topic'`, [written('$topic', '.topic')]],
    [`${KAFKA}, topic: '%{[fields][log_topic]}'`, [written('%{[fields][log_topic]}', '.fields.log_topic')]],
    [`${KAFKA}, topic: '\${.topic}'`, [lone('.topic')]],
    [`${KAFKA}, topic: '\${.topic:-x}-a'`, [lone('.topic')]],
    [`${KAFKA}, topic: 'logs-\${.topic}', headers: { a: '\${.a}' }`, []],
    [`${KAFKA}, topic: '\${TOPIC}'`, ['a template of a date or a field is not replaced']],
    [`${LOKI}, labels: { app: '%{app}', b: '\${.b}' }`, [written('%{app}', '.app')]],
    [`${LOKI}, labels: { app: "$sub['stream']" }`, [written("$sub['stream']", '.sub.stream')]],
    [`${LOKI}, labels: { a: b }, structured_metadata: { day: '%d' }`, [`%d ${DATE}`]],
    [`${LOKI}, labels: { a: b }, tenant: '\${.team}'`, [lone('.team')]],
    ["type: http, url: 'http://127.0.0.1:1/%d0%20/{{ .app }}?token=$abc'", [written('{{ .app }}', '.app')]],
    ["type: http, url: 'http://127.0.0.1:1', headers: { x: 'Bearer a$b' }", []],
    ["type: otlp, url: 'http://127.0.0.1:1', resource: { a: '{{ a-b }}', b: '${.b}' }", [written('{{ a-b }}', '.a-b')]],
    [`${ELASTIC}, index: 'logs-%Y.%m.%d-%F'`, []],
    [`${ELASTIC}, index: 'logs-%j'`, [`%j ${OTHER_DATE}`]],
    [`${ELASTIC}, index: '<logs-{now/d}>'`, []],
    [`${ELASTIC}, index: '\${.app:-none}-%F'`, [lone('.app')]],
    [`${S3}, key: 'date=%F/$TAG/'`, [written('$TAG', '.TAG')]],
    [`${S3}, key: '%Y/\${.app}/'`, []],
  ]
  const sources = 'sources: { in: { type: stdin, decode: json } }'
  for (const [options, warnings] of cases) {
    const text = `${sources}\ndestinations: { out: { inputs: [in], ${options} } }\n`
    const found = warningsOf(text, { TOPIC: '%Y' }).map(warning => warning.replace(/^.*? destinations\.[^ ]*: /, ''))
    t.same(found, warnings, options)
  }
  const edit = "processors: { e: { type: edit, inputs: [in], steps: [{ set: { .a: '%{b}' } }] } }"
  const found = warningsOf(`${sources}\n${edit}\ndestinations: { out: { type: stdout, inputs: [e] } }\n`)
  t.match(found, [/set.*%\{b\} is not replaced: write \$\{\.b\}/], 'in a processor')
  t.end()
})

t.test('destinations of one source, of which some may keep the others waiting', async t => {
  const config = (...destinations: string[]) => `
sources: { a: { type: file, include: [/a.log], decode: json }, b: { type: file, include: [/b.log], decode: json } }
processors:
  lim: { type: throttle, inputs: [a], limit: 1, window: 1s }
  by: { type: route, inputs: [b], routes: { x: if (.x exists) } }
destinations:
  rest: { type: stdout, inputs: [by.else] }
${destinations.map(one => `  ${one}\n`).join('')}`
  const http = 'type: http, url: "http://127.0.0.1:1"'
  const up = `up: { ${http}, inputs: [lim] }`
  const found = (...destinations: string[]) =>
    warningsOf(config('x: { type: file, inputs: [by.x], path: /x }', ...destinations)).filter(text =>
      text.includes(' destinations.'),
    )
  t.same(found(up), [], 'alone')
  t.same(found(up, 'gone: { type: file, inputs: [lim.discarded], path: /d }'), [], 'with what is discarded')
  const [warning, ...more] = found(up, 'copy: { type: file, inputs: [a], path: /c }')
  t.match(
    warning,
    /^9:3: destinations\.up: while its receiver is slow or away, the other destinations of a wait, too\. /,
  )
  t.same(more, [], 'once')
  for (const [, option] of warning!.matchAll(/add (buffer: \{.*?\})/g))
    t.same(
      found(`up: { ${http}, inputs: [lim], ${option} }`, 'copy: { type: file, inputs: [a], path: /c }'),
      [],
      option!,
    )
  t.equal([...warning!.matchAll(/add buffer/g)].length, 2)
  t.match(found(`y: { ${http}, inputs: [by.x] }`, `z: { ${http}, inputs: [by.else] }`), [
    /destinations\.y: while a receiver of y or z is slow .* of b wait, too\. .* to y and z; to accept/,
  ])
  const spool = 'type: s3, bucket: logs, region: eu-central-1, key: "a/${.app}"'
  t.same(found(up, `objects: { ${spool}, inputs: [a] }`).length, 1, 'not for one with a spool')
  t.same(found(`objects: { ${spool}, inputs: [a] }`, 'copy: { type: file, inputs: [a], path: /c }'), [])
})
