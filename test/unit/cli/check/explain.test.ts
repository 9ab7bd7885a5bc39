import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { explain, explainIn } from '../../../../src/cli/check/explain/explain.js'
import type { AskDaemon } from '../../../../src/cli/check/explain/live.js'
import { explainerOf } from '../../../../src/cli/check/explain/processor.js'
import { components } from '../../../../src/components/list.js'
import { defineProcessor } from '../../../../src/core/component.js'
import { EventEditor } from '../../../../src/core/event/event-editor.js'
import type { FieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { silentLog } from '../../../../src/core/silent-log.js'
import type { Io } from '../../../../src/daemon/process/command-line.js'
import { readEvent } from '../../../../src/daemon/process/given-event.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { madeUp } from '../../../support/made-up.js'

const CONFIG = `
sources:
  app_logs: { type: file, include: [/var/log/app/*.log], decode: json }
  sys: { type: tcp, listen: 127.0.0.1:0, decode: syslog }
  plain: { type: stdin, multiline: { start: '^\\S' } }
  units: { type: journald }
processors:
  errors: { type: filter, inputs: [app_logs], condition: "if (.level equal 'error' OR (.ms greater 1000 AND NOT .path starts_with '/h'))" }
  limit_app: { type: throttle, inputs: [errors, sys, units], limit: 2, window: 10s, key_field: .app, exclude: "if (.host equal 'web-07')" }
  timed: { type: throttle, inputs: [plain], limit: 1, window: 1m, window_mode: aligned, time_field: .message, on_max_keys: discard }
destinations:
  upstream: { type: http, inputs: [limit_app], url: 'http://127.0.0.1:9/v3?token=abc', buffer: { type: disk, max_bytes: 1MB } }
  rest: { type: file, inputs: [limit_app.discarded, errors.discarded, timed], path: ./rest.log }
`

interface Ran {
  code: number
  stdout: string
  stderr: string
}

async function run(
  t: Test,
  event: string,
  more: { source?: string; json?: boolean; stdin?: string; ask?: AskDaemon } = {},
): Promise<Ran> {
  const config = join(t.testdirName, 'sluice.yaml')
  const out = { stdout: '', stderr: '' }
  const to = (name: 'stdout' | 'stderr') => ({ write: (text: string) => (out[name] += text) })
  const io = { stdin: Readable.from([more.stdin ?? '']), stdout: to('stdout'), stderr: to('stderr'), env: {} }
  const code = await explain(
    { config, event, source: more.source, json: more.json ?? false, ask: more.ask },
    io as unknown as Io,
  )
  return { code, ...out }
}

t.test('every destination can be explained', async t => {
  for (const { kind, type, explains } of components)
    if (kind === 'destination') t.ok((await explains?.())?.explain, `${kind} ${type}`)
})

t.test('if the bucket has room again, the decision is about now', async t => {
  testFolder(t, { 'sluice.yaml': CONFIG })
  const bucket = { key: 'cart', limit: 2, used: 0, window_ms: 10_000, discarded_to: [], is_exact: true }
  const live = async (discarded: number, used = 0) => {
    const state = { ...bucket, used, discarded_last_hour: discarded, discarded_since: '2026-11-30T10:00:00.000Z' }
    const ask: AskDaemon = { bucket: async () => state, problems: async () => new Map(), past: async () => undefined }
    return (await run(t, '{"app":"cart","level":"error"}', { ask })).stdout
  }
  const now = /^ {2}now: what follows is decided for now; .* is known only with a status_page$/m
  t.match(await live(5), now)
  t.notMatch(await live(0), now, 'nothing was discarded')
  t.notMatch(await live(5, 2), now, 'the event would be discarded')
})

t.test('every component in order, with every decision', async t => {
  testFolder(t, { 'sluice.yaml': CONFIG })
  t.same(await run(t, '{"app":"cart","level":"warn","ms":1200}'), {
    code: 0,
    stderr: '',
    stdout: `app_logs (file): 39 bytes, read as a JSON object
    {"app":"cart","level":"warn","ms":1200}
→ errors (filter): passed
    yes  condition
      yes  any of
        no   .level equal 'error'  (.level is "warn")
        yes  all of
          yes  .ms greater '1000'  (.ms is 1200)
          yes  not
            no   .path starts_with '/h'  (.path is missing)
  → limit_app (throttle): passed
      no   exclude
        no   .host equal 'web-07'  (.host is missing)
      yes  key_field: it counts in the bucket of its value  (.app is "cart")
      window: it opens with the first event and lasts 10s; the first 2 of its bucket pass, later ones are discarded until it ends
      on_backlog: while its source catches up, the first of its bucket pass that the limit allows for all windows since the source fell behind (at most 24h 0m), and one more
      max_keys: while 100000 other buckets are in use, an event of a new bucket passes without being counted
    → upstream (http): would be delivered
        POST http://127.0.0.1:9/v3
        40 bytes: {"app":"cart","level":"warn","ms":1200}
        kept on disk until it is delivered, in batches of up to 1000 events or every 1s
    → rest (file): not reached, it reads limit_app.discarded
  → rest (file): not reached, it reads errors.discarded
`,
  })
  const { code, stdout } = await run(t, '-', { stdin: '{"level":"info"}\n', json: true })
  t.equal(code, 0)
  const { source, steps, would_deliver } = JSON.parse(stdout)
  t.match(source, { id: 'app_logs', bytes: 17, fields: { level: 'info' } })
  t.same(would_deliver, ['rest'])
  t.match(steps, [
    { id: 'errors', outcome: 'discarded', reason: 'filtered', findings: [{ holds: false }] },
    { id: 'limit_app', reached: false, input: 'errors' },
    { id: 'rest', input: 'errors.discarded', reached: true, bytes: 17, written: '{"level":"info"}\n' },
  ])
})

t.test('an event of any depth', async t => {
  testFolder(t, { 'sluice.yaml': CONFIG })
  const deep = '['.repeat(20_000) + ']'.repeat(20_000)
  const event = `{"app":${deep},"level":"error","host":${deep}}`
  const { code, stdout } = await run(t, event, { source: 'app_logs' })
  t.equal(code, 0)
  t.match(stdout, /bucket of its value {2}\(\.app is \[{100}…\)/)
  const { stdout: json } = await run(t, event, { source: 'app_logs', json: true })
  t.match(JSON.parse(json).steps[0], { id: 'errors', outcome: 'passed' })
})

t.test('as each source reads it', async t => {
  testFolder(t, { 'sluice.yaml': CONFIG, event: '{"level":"error","app":null}\n{"level":"error"}\n' })
  const first = await run(t, join(t.testdirName, 'event'))
  t.match(first.stdout, /\.app is null/)
  t.match(first.stdout, /without a value it counts in the default bucket/)
  t.equal(first.stderr, 'sluice explain: only the first of 2 events is explained\n')

  t.match(await run(t, 'no JSON'), {
    stdout: /read as text, because it is not a JSON object\n {4}no JSON\n {2}is \{"message":"no JSON"/,
  })
  const syslog = await run(t, '<34>1 2026-01-01T00:00:00Z web-07 cart - - - boom', { source: 'sys' })
  t.match(syslog.stdout, /a syslog message\n.*\n {2}is \{"message":"boom".*"app":"cart"/)
  t.match(syslog.stdout, /yes {2}exclude\n.*\.host is "web-07"\)\n.*it is excluded: it passes without being counted\n/)
  t.notMatch(syslog.stdout, /window|token/)
  t.match(await run(t, 'x', { source: 'sys' }), { stdout: /because it is not a syslog message/ })

  const several = await run(t, '2026-01-01T00:00:30Z\n next', { source: 'plain' })
  t.match(several.stdout, /26 bytes|27 bytes/)
  t.match(several.stdout, /no {3}time_field: its time cannot be read, so it counts at its arrival/)
  const timed = await run(t, '2026-01-01T00:00:30Z', { source: 'plain' })
  t.match(timed.stdout, /yes {2}time_field: the event counts at its own time/)
  t.match(
    timed.stdout,
    /here from 2026-01-01T00:00:00\.000Z to 2026-01-01T00:01:00\.000Z; in each window, the first of its bucket passes/,
  )
  t.match(timed.stdout, /key_field: not set, so all events count in the default bucket/)
  const ahead = await run(t, '2999-01-01T00:00:30Z', { source: 'plain' })
  t.match(ahead.stdout, /its time is ahead of the clock by more than allowed_lateness/)

  t.match(await run(t, '{"app":"a"}', { source: 'units' }), {
    stdout: /units \(journald\): 11 bytes, read as a JSON object/,
  })
})

t.test('an entry as journalctl writes it, at a source that reads the journal', async t => {
  testFolder(t, { 'sluice.yaml': CONFIG.replace('type: journald }', 'type: journald, include_fields: [_COMM] }') })
  const entry = {
    __CURSOR: 's=1;i=2',
    __REALTIME_TIMESTAMP: '1767225600000001',
    _BOOT_ID: 'b',
    _HOSTNAME: 'web-01',
    _COMM: 'cartd',
    SYSLOG_IDENTIFIER: 'cart',
    PRIORITY: '3',
    MESSAGE: [98, 111, 111, 109, 255],
  }
  const event = {
    timestamp: '2026-01-01T00:00:00.000001Z',
    host: 'web-01',
    severity: 'err',
    severity_code: 3,
    app: 'cart',
    message: 'boom\ufffd',
    raw: 'Ym9vbf8=',
    _COMM: 'cartd',
  }
  const line = JSON.stringify(entry)
  const { code, stdout, stderr } = await run(t, '-', { source: 'units', stdin: `${line}\n${line}\n` })
  t.equal(code, 0)
  t.equal(stderr, 'sluice explain: only the first of 2 events is explained\n')
  const [head, shown] = stdout.split('\n')
  t.equal(
    head,
    `units (journald): ${Buffer.byteLength(JSON.stringify(event)) + 1} bytes, read as an entry of the journal`,
  )
  t.same(JSON.parse(shown!), event)
  t.match(stdout, /key_field: it counts in the bucket of its value {2}\(\.app is "cart"\)/)

  const again = JSON.parse((await run(t, shown!, { source: 'units', json: true })).stdout)
  t.match(again.source, { read_as: 'a JSON object', fields: event }, 'what is an event stays as it is')
  t.match(await run(t, 'no entry', { source: 'units' }), { stdout: /because it is not a JSON object/ })
  const elsewhere = JSON.parse((await run(t, line, { json: true })).stdout)
  t.same(elsewhere.source.fields, entry, 'at another source it is what it is')
})

const TAPPED = `
sources:
  text: { type: file, include: [/var/log/*.log], multiline: { start: '^[A-Z]' } }
  sys: { type: tcp, listen: 127.0.0.1:0, decode: syslog }
  json: { type: file, include: [/var/log/*.json], decode: json }
processors:
  limit_file: { type: throttle, inputs: [text, json], limit: 2, window: 10s, key_field: .file, exclude: if (.message starts_with 'ERR') }
  limit_peer: { type: throttle, inputs: [sys], limit: 2, window: 10s, key_field: .peer, exclude: if (.app equal 'su') }
destinations:
  out: { type: file, inputs: [limit_file, limit_peer], path: ./out.log, encoding: raw }
`
const WHERE = { host: 'web-01', timestamp: '2026-01-01T00:00:00.000Z' }

t.test('an event of text as it is tapped is that event', async t => {
  testFolder(t, { 'sluice.yaml': TAPPED })
  const of = async (event: object, source = 'text') => run(t, '-', { source, stdin: `${JSON.stringify(event)}\n` })
  const file = '/var/log/a.log'
  const excluded = await of({ message: 'ERR more 1', file, ...WHERE })
  t.match(
    excluded.stdout,
    /^text \(file\): 11 bytes, read as the text of an event as sluice tap shows it\n {4}ERR more 1\n/,
  )
  t.match(excluded.stdout, /yes {2}exclude\n.*\.message is "ERR more 1"/)
  t.match(excluded.stdout, / 11 bytes: ERR more 1\n/, 'the line is written, not the JSON')
  for (const source of ['text', 'json']) {
    const { stdout } = await of({ message: 'INFO', file, ...WHERE }, source)
    t.match(stdout, /it counts in the bucket of its value {2}\(\.file is "\/var\/log\/a\.log"\)/, source)
  }
  t.match(await of({ message: 'by hand', file }), { stdout: /in the bucket of its value/ })

  const whole = { message: 'A\n b\ufffd', file, ...WHERE, partial: 'first', raw: 'QQogYv8=' }
  const two = `${JSON.stringify(whole)}\n${JSON.stringify(whole)}\n`
  const { stdout, stderr } = await run(t, two, { json: true })
  t.same(JSON.parse(stdout).source.fields, whole, 'with all that it can have')
  t.match(stderr, /only the first of 2 events/)
})

t.test('a line of text that is JSON stays a line', async t => {
  testFolder(t, { 'sluice.yaml': TAPPED })
  const event = { message: 'ERR', file: '/a', ...WHERE }
  const others = [
    { a: 1 },
    { message: 'ERR' },
    { ...event, level: 'x' },
    { ...event, message: 1 },
    { ...event, file: 1 },
  ]
  for (const other of [...others, { ...event, timestamp: 'today' }, { ...event, raw: 'QQ==' }]) {
    const line = JSON.stringify(other)
    const { source } = JSON.parse((await run(t, line, { json: true })).stdout)
    t.match(source, { read_as: 'text', fields: { message: line } })
  }
  const { stdout } = await run(t, 'INFO')
  t.match(
    stdout,
    /\(\.file is missing, the source sets it: give an event as sluice tap shows it, or \{"message":"…","file":"…"\}\)/,
  )
})

t.test('an event of syslog as it is tapped is that event', async t => {
  testFolder(t, { 'sluice.yaml': TAPPED })
  const event = { message: 'boom', ...WHERE, app: 'su', severity_code: 2, structured_data: { a: {} }, peer: '10.0.0.7' }
  const of = async (event: object) => (await run(t, JSON.stringify(event), { source: 'sys' })).stdout
  t.match(await of(event), /read as an event as sluice tap shows it, without its line\n/)
  t.match(await of(event), /yes {2}exclude\n.*\.app is "su"/)
  t.match(await of({ ...event, app: 'cart' }), /bucket of its value {2}\(\.peer is "10\.0\.0\.7"\)/)
  t.match(await of({ ...event, other: 1 }), /text, because it is not a syslog message/)
  t.match(await of({ app: 'su' }), /text, because it is not a syslog message/)
  t.match(await run(t, '<34>su: boom', { source: 'sys' }), { stdout: /yes {2}exclude/ })
  t.match(await run(t, '<34>cart: boom', { source: 'sys' }), { stdout: /\.peer is missing, the source sets it/ })
})

t.test('a line, or a tapped event, of a codec with options', async t => {
  testFolder(t, {
    'sluice.yaml': `
sources:
  csv: { type: stdin, decode: { codec: csv, columns: [time, app] } }
  pairs: { type: tcp, listen: 127.0.0.1:0, decode: logfmt }
processors:
  limit: { type: throttle, inputs: [csv, pairs], limit: 2, window: 10s, key_field: .app }
destinations: { out: { type: stdout, inputs: [limit], encoding: { codec: csv, columns: [app, host] } } }
`,
  })
  const line = await run(t, '12:00,"web, ""7"""', { source: 'csv' })
  t.match(
    line.stdout,
    /^csv \(stdin\): 18 bytes, read as CSV\n {4}12:00,"web, ""7"""\n {2}is \{"time":"12:00","app":"web/,
  )
  t.match(line.stdout, /it counts in the bucket of its value {2}\(\.app is "web, \\"7\\""\)/)
  t.match(line.stdout, /"web, ""7""",/, 'as it is encoded')
  t.match(await run(t, 'one', { source: 'csv' }), { stdout: /read as text, because it is not CSV/ })
  const of = async (event: object, source: string) => (await run(t, JSON.stringify(event), { source })).stdout
  const tapped = /read as an event as sluice tap shows it, without its line\n/
  t.match(await of({ time: '1', app: 'web', ...WHERE }, 'csv'), tapped)
  t.match(await of({ app: 'web', any: true, ...WHERE }, 'pairs'), tapped)
  t.match(await of({ time: '1', app: 'web', other: '1', ...WHERE }, 'csv'), /because it is not CSV/)
})

t.test('what becomes of events over the limit', async t => {
  const explained = async (option: string) => {
    const throttle = `type: throttle, inputs: [in], limit: 2, window: 10s, ${option}`
    testFolder(t, {
      'sluice.yaml': `sources: { in: { type: stdin } }
processors: { limit: { ${throttle} } }
destinations: { out: { type: blackhole, inputs: [limit] } }
`,
    })
    return (await run(t, 'one')).stdout
  }
  t.match(await explained('mode: shadow'), 'mode: shadow, all events pass; events over the limit are only counted')
  t.match(await explained('over_limit: mark'), 'over_limit: events over the limit pass, with the field .throttle')
  t.match(await explained('over_limit: { pass_one_in: 7 }'), 'over_limit: one in 7 events over the limit passes')
  t.match(
    await explained('over_limit: { wait: 5s }'),
    'over_limit: events over the limit wait for room, for at most 5s',
  )
  t.notMatch(await explained('annotate: false'), 'over_limit')
})

t.test('what goes nowhere, and what cannot be explained', async t => {
  testFolder(t, {
    'sluice.yaml': `
sources: { in: { type: stdin } }
processors: { none: { type: filter, inputs: [in], condition: if (.a exists) } }
destinations: { out: { type: stdout, inputs: [none], encoding: json } }
`,
  })
  const none = await run(t, 'x')
  t.equal(none.code, 1, 'it reaches no destination')
  t.match(
    none.stdout,
    /→ none \(filter\): discarded \(filtered\)[\s\S]*→ out \(stdout\): not reached, it reads none\n$/,
  )
  await t.rejects(run(t, 'x', { source: 'inn' }), {
    code: 'SLUICE_USAGE',
    message: 'there is no source inn; there are in',
  })
  await t.rejects(run(t, '-', { stdin: '' }), { code: 'SLUICE_USAGE', message: /the input is empty/ })
  writeFileSync(join(t.testdirName, 'sluice.yaml'), 'sources: {}')
  await t.rejects(run(t, 'x'), { code: 'SLUICE_CONFIG' })
})

t.test('what an output gets that nobody reads is unrouted', async t => {
  testFolder(t, {
    'sluice.yaml': `
sources: { in: { type: stdin, decode: json } }
processors:
  ways: { type: route, inputs: [in], match: all, routes: { a: if (.a exists), b: if (.b exists) } }
destinations: { out: { type: stdout, inputs: [ways.a] } }
`,
  })
  const { stdout } = await run(t, '{"b":1}')
  t.match(stdout, /→ ways \(route\): discarded \(unrouted\)\n/)
  t.match(
    stdout,
    /nothing reads ways\.b: events that go there are discarded \(unrouted\)\n {2}→ out \(stdout\): not reached/,
  )
  const both = await run(t, '{"a":1,"b":1}')
  t.match(both.stdout, /→ ways \(route\): passed, to ways\.a\n[\s\S]*nothing reads ways\.b/)
  t.match(both.stdout, /→ out \(stdout\): would be delivered/)
  const { steps } = JSON.parse((await run(t, '{"c":1}', { json: true })).stdout)
  t.match(steps[0], { outcome: 'discarded', reason: 'unrouted', output: 'else' })
})

t.test('which codec read the text, and which rules found what', async t => {
  testFolder(t, {
    'sluice.yaml': `
sources: { in: { type: stdin } }
processors:
  parsed: { type: parse, inputs: [in], try: [{ codec: json }, { codec: logfmt }], types: { n: int } }
  clean: { type: redact, inputs: [parsed], presets: [email, card], patterns: [{ name: ticket, pattern: 'T-\\d+' }] }
destinations: { out: { type: stdout, inputs: [clean] } }
`,
  })
  const read = await run(t, 'user=a@example.com n=1 see=T-17')
  t.match(read.stdout, /no {3}codec json: \.message is a JSON object/)
  t.match(read.stdout, /yes {2}codec logfmt: \.message is logfmt\n/)
  t.match(read.stdout, /yes {2}email {2}\(found 2 times\)\n {6}yes {2}ticket {2}\(found 2 times\)\n/)
  t.notMatch(read.stdout, /card/)
  const wrong = await run(t, 'n=x')
  t.match(wrong.stdout, /no {3}codec logfmt: .* {2}\(\.n should be an integer, and is a text of 1 character\)/)
  t.match(wrong.stdout, /no {3}no rule finds anything/)
})

const raise = defineProcessor({
  type: 'raise',
  ...madeUp('Makes every event an error.'),
  create: () => ({
    process(batch) {
      for (let i = 0; i < batch.length; i++) batch.modify(i, { ...batch.fields(i), level: 'error' })
    },
  }),
})

t.test('each step sees and shows the event as the steps before it left it', async t => {
  const yaml = `
sources: { in: { type: stdin, decode: json } }
processors:
  raised: { type: raise, inputs: [in] }
  errors: { type: filter, inputs: [raised], condition: "if (.level equal 'error')" }
  beside: { type: filter, inputs: [in], condition: "if (.level equal 'info')" }
destinations:
  out: { type: file, inputs: [errors], path: ./out.log, encoding: json }
  copy: { type: file, inputs: [beside], path: ./copy.log, encoding: json }
`
  const config = parseConfig(yaml, 'sluice.yaml', { env: {}, components: [...components, raise] })
  const explained = async (json: boolean) => {
    let stdout = ''
    const io = { stdout: { write: (text: string) => (stdout += text) } } as unknown as Io
    t.equal(await explainIn(config, { event: '{"level":"info"}', source: undefined, json }, io), 0)
    return stdout
  }
  const text = await explained(false)
  t.match(
    text,
    /→ raised \(raise\): passed\n {4}the event is now \{"level":"error"\}\n {2}→ errors \(filter\): passed\n/,
  )
  t.match(text, /→ beside \(filter\): passed\n/, 'another reader of the same output has it as it was')
  t.match(text, /→ copy \(file\): would be delivered\n[^→]*\{"level":"info"\}/)
  t.equal(text.match(/the event is now/g)!.length, 1, 'only where it changes')
  const { steps } = JSON.parse(await explained(true))
  const events = Object.fromEntries(steps.map(({ id, event, written }: never) => [id, event ?? written]))
  t.same(events, {
    raised: { level: 'error' },
    errors: { level: 'error' },
    out: '{"level":"error"}\n',
    beside: { level: 'info' },
    copy: '{"level":"info"}\n',
  })
})

t.test('in a terminal no line is wider than that', async t => {
  const dir = testFolder(t, { 'sluice.yaml': CONFIG })
  const told = async (columns: number | undefined) => {
    let stdout = ''
    const to = { isTTY: columns !== undefined, columns, write: (text: string) => (stdout += text) }
    const io = { stdin: Readable.from([]), stdout: to, stderr: to, env: {} } as unknown as Io
    const event = JSON.stringify({ level: 'error', app: 'x'.repeat(90), text: 'several words '.repeat(30) })
    await explain({ config: join(dir, 'sluice.yaml'), event, source: undefined, json: false }, io)
    return stdout
  }
  const whole = await told(undefined)
  t.ok(Math.max(...whole.split('\n').map(line => line.length)) > 200, 'in a pipe a line is a line')
  for (const columns of [80, 40]) {
    const text = await told(columns)
    t.ok(Math.max(...text.split('\n').map(line => line.length)) <= columns)
    t.equal(text.replace(/\s/g, ''), whole.replace(/\s/g, ''), 'and nothing is left out')
  }
})

t.test('a processor that never finishes with the event ends the explanation, and is named', async t => {
  const stuck = defineProcessor({
    type: 'stuck',
    summary: 'Waits for ever.',
    options: z.strictObject({ where: z.enum(['create', 'start', 'process']) }),
    examples: [{ title: '', yaml: 'where: process' }],
    create: async ({ where }) => {
      const never = (at: string) => (at === where ? new Promise<void>(() => {}) : undefined)
      await never('create')
      return { start: async () => never('start'), process: () => never('process') }
    },
  })
  for (const where of ['create', 'start', 'process']) {
    const config = parseConfig(
      `sources: { in: { type: stdin } }\nprocessors: { p: { type: stuck, inputs: [in], where: ${where} } }\ndestinations: { out: { type: stdout, inputs: [p] } }\n`,
      'sluice.yaml',
      { env: {}, components: [...components, stuck] },
    )
    const wanted = new WantedNames()
    const context = {
      id: 'p',
      log: silentLog,
      clock: systemClock,
      field: (path: FieldPath) => new FieldReader(path, wanted),
      editor: () => new EventEditor(wanted),
    }
    const explained = async () => {
      const explains = await explainerOf(config.processors[0]!, context, () => true, 20)
      return explains((await readEvent(config.sources[0]!, Buffer.from('x'), wanted)).batch)
    }
    await t.rejects(explained(), { message: /^p \(stuck\) has not finished with the event after 20ms/ }, where)
  }
})

t.test('of several events that one becomes, the first is followed', async t => {
  const text = `
sources: { in: { type: stdin, decode: json } }
processors:
  items: { type: explode, inputs: [in], field: .items }
  once: { type: dedupe, inputs: [items], fields: [.items], window: 1s }
destinations: { out: { type: stdout, inputs: [once] } }
`
  testFolder(t, { 'sluice.yaml': text })
  const { stdout, code } = await run(t, '{"items":[1,1,2]}')
  t.equal(code, 0)
  t.match(stdout, /it becomes 3 events; the first one is followed here\n +the event is now {"items":1}\n/)
  t.match(stdout, /→ once \(dedupe\): passed\n/)
})
