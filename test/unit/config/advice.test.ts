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
    config({ processors: 'transforms', destinations: 'sinks' }),
    config({ sources: 'receivers', processors: 'filters', destinations: 'exporters' }),
    config({ sources: 'inputs', processors: 'procesors', destinations: 'outputs' }),
    config({}).replace('type: stdout', 'type: console'),
    config({}).replace('type: throttle', 'type: rate_limit'),
    config({}).replace('decode: json', 'codec: ndjson'),
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
