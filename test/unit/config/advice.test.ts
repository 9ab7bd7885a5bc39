import t from 'tap'
import { components } from '../../../src/components.js'
import { correctedCondition, parseCondition } from '../../../src/condition/parse.js'
import { parseConfig } from '../../../src/config/load.js'
import { ConfigError, type Problem } from '../../../src/core/errors.js'

/** Everything that is wrong with a text. */
function problemsOf(text: string): readonly Problem[] {
  try {
    parseConfig(text, 'c.yaml', { env: {}, components })
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems
  }
}

/** What each kind of advice says to put in the place of what stands there, to the end of the value. */
const ADVICE: readonly [RegExp, (rest: string, advised: string) => string][] = [
  [/did you mean "([^"]+)"\?/, (rest, name) => name + rest.replace(/^[\w."]+/, '')],
  [/; write (\S+) for /, (rest, value) => value + rest.replace(/^[^\s,}]+/, '')],
  [/write: (if \(.*\)) \(column/, (_rest, condition) => condition],
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

t.test('whoever does what an error says has a configuration that holds', async t => {
  const cases: readonly string[] = [
    config({ lim: "limit: 5\nwindow: 1s\nexclude: .host == 'x'" }),
    config({ lim: "limit: 5\nwindow: 1s\nexclude: .host != 'x' && level =~ '^e'" }),
    config({ lim: 'limit: 5\nwindow: 1s\nexclude: (.host = web-1)' }),
    config({ lim: "limit: 5\nwindow: 1s\nexclude: if .host equals 'x' || ! .a exists" }),
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
    config({ lim: 'limit: 5\nwindow_ms: 1s\nmode: sliding' }),
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
    t.not(problemsOf(now).length, 0, text)
    for (let problems = problemsOf(now); problems.length > 0 && steps < 6; problems = problemsOf(now)) {
      // A required option that is missing may be there under another name, which is the next error.
      now = followed(now, problems.find(({ message }) => !message.startsWith('is missing')) ?? problems[0]!)
      steps++
    }
    t.same(problemsOf(now), [], now)
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

t.test('a condition that is clear but for its form', async t => {
  const cases: readonly [string, string | undefined][] = [
    [".level equal 'error'", "if (.level equal 'error')"],
    [".level == 'error'", "if (.level equal 'error')"],
    ['level == error && (.a != 5 || !.b exists)', "if (.level equal 'error' AND (.a not_equal 5 OR NOT .b exists))"],
    [".a not contains 'x'", "if (NOT .a contains 'x')"],
    [".a not equal 'x'", "if (.a not_equal 'x')"],
    ['if .a exists', 'if (.a exists)'],
    ['.a whatever', undefined],
    ['', undefined],
    ['true', undefined],
  ]
  for (const [text, meant] of cases) {
    t.equal(correctedCondition(text), meant, text)
    if (meant) t.doesNotThrow(() => parseCondition(meant))
  }
})

const BASE = config({}).slice(1)

/** The problems of the text in short: line, path, message. */
const shown = (text: string) => problemsOf(text).map(({ line, path, message }) => `${line} ${path}: ${message}`)

t.test('a wrong indentation is one error, at its line, with the number of spaces that fit', async t => {
  const fit = (n: number) => `: the indentation does not fit the lines above; use ${n} spaces before this`
  const cases: readonly [string, string, readonly string[]][] = [
    ['    limit: 5', '   limit: 5', [`7 ${fit(4)}`]],
    ['    limit: 5', '     limit: 5', [`7 ${fit(4)}`]],
    ['    inputs: [in]', ' inputs: [in]', [`6 ${fit(2)}`]],
    ['    limit: 5', '\tlimit: 5', ['7 : a tab is used as indentation; use spaces']],
    ['    limit: 5\n    window: 1s', '\tlimit: 5\n\twindow: 1s', ['7 : a tab is used as indentation; use spaces']],
  ]
  for (const [right, wrong, expected] of cases) {
    const text = BASE.replace(right, wrong)
    t.same(shown(text), expected, text)
    const { line } = problemsOf(text)[0]!
    const spaces = /use (\d+) space/.exec(expected[0]!)?.[1]
    if (spaces === undefined || spaces === '2') continue
    const lines = text.split('\n')
    lines[line - 1] = ' '.repeat(Number(spaces)) + lines[line - 1]!.trimStart()
    t.same(shown(lines.join('\n')), [], 'as it says')
  }
})

t.test('an indentation that means something else is one error, too', async t => {
  const beside = BASE.replace(/^ {4}(?=type|inputs|limit|window)/gm, '  ')
  t.same(shown(beside), [
    '5 processors.lim.type: is indented like lim; an option of lim needs more spaces before it than lim has',
  ])
  t.same(shown(beside.replace(/^ {2}(?=type|inputs|limit|window)/gm, '   ')), [], 'as it says')
  const one = BASE.replace('    window: 1s', '  window: 1s')
  t.same(shown(one), [
    '8 processors.lim.window: is indented like lim; an option of lim needs more spaces before it than lim has',
  ])
  const inside = BASE.replace('destinations:\n  out', '  destinations:\n    out')
  t.same(shown(inside), [
    '9 processors.destinations: is indented as if it were in processors; write destinations: without spaces before it',
  ])
  t.same(shown(inside.replace('  destinations:', 'destinations:')), [], 'as it says')
  const flat = BASE.replace(/^ {2}(?! )lim:/m, 'lim:')
  t.same(shown(flat), ['4 lim: is not indented: in processors it needs at least one space before it'])
  t.same(shown(flat.replace(/^lim:/m, ' lim:')), [], 'as it says')
})

t.test('an error in the structure hides no other of its file, and none of the graph', async t => {
  const text = [
    'data_dri: x',
    'sources:',
    '  a: { type: stdin, decode: [json }',
    '  b:',
    '    type: file',
    "    include: ['/x",
    '  c: { type: fiel, include: [y] }',
    'processors:',
    '  lim:',
    '    type: throttle',
    '    inputs: [a, b, cc]',
    '     limit: 5',
    '  keep: { type: filter, inputs: [d], condition: .x == 1 }',
    'destinations:',
    '  out:',
    '    type: stdout',
    '    inputs: [lim, keep, limm]',
    '    colour: red',
    '',
  ].join('\n')
  t.same(shown(text), [
    '1 data_dri: unknown option; did you mean "data_dir"?',
    '3 : the bracket that opens here is not closed',
    '6 : the quote that opens here is not closed',
    '7 sources.c.type: must be one of file, stdin, journald, tcp, http, not "fiel"; did you mean "file"?',
    '12 : the indentation does not fit the lines above; use 4 spaces before this',
    '13 processors.keep.inputs[0]: there is no source or processor "d"',
    "13 processors.keep.condition: a condition has the form if (.field operator 'value'); write: if (.x equal 1) (column 1 of the condition)",
    '17 destinations.out.inputs[2]: there is no source or processor "limm"; did you mean "lim"?',
    '18 destinations.out.colour: unknown option of stdout; known are type, inputs, encoding, batch, retry, timeout, max_in_flight, hold_after_refusals, on_reject, buffer, renamed_from',
  ])
})

t.test('ids are short enough for the names of files and the labels of metrics', async t => {
  const named = (id: string) =>
    problemsOf(`sources: { in: { type: stdin } }\ndestinations:\n  ${id}: { type: blackhole, inputs: [in] }\n`)
  t.same(named('d'.repeat(128)), [])
  t.match(named('d'.repeat(129)), [{ line: 3, column: 3, message: 'an id has at most 128 characters' }])
  t.equal(named('d'.repeat(129)).length, 1)
})
