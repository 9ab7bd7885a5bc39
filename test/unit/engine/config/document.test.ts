// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration, not of the test
import t from 'tap'
import { z } from 'zod'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { defineProcessor } from '../../../../src/core/component.js'
import type { Problem } from '../../../../src/core/errors.js'
import { type Config, type LoadOptions, parseConfig, parseDocument } from '../../../../src/engine/config/load.js'
import { parseOptions } from '../../../../src/engine/config/parse-options.js'
import { problemsOf } from '../../../support/problems.js'
import { valuesOf } from '../../../support/values-of.js'
import { components } from './fake-components.js'

const tail = components.find(({ type }) => type === 'tail') as Extract<(typeof components)[number], { kind: 'source' }>
const ingest = {
  id: 'ingest',
  kind: 'source',
  type: 'tail',
  inputs: [],
  options: { own: 1 },
  definition: tail,
} as const
const lim = { type: 'limit', inputs: ['ingest'], limit: 5, window: '1s' }
const out = { type: 'keep', inputs: ['lim'], path: 'p' }
const GOOD = { processors: { lim }, destinations: { out } }

type Options = Partial<Parameters<typeof parseDocument>[2]>
const parse = (document: unknown, options: Options = {}): Config =>
  parseDocument(document, 'it', { env: {}, components, given: [ingest], adapt: text => text, ...options })

const byPath = { format: ({ path, message }: Problem) => `${path}: ${message}` }
const told = (document: unknown, options?: Options) => problemsOf(() => parse(document, options), byPath)

t.test('a document with a source that is built in', async t => {
  const config = parse(GOOD)
  t.same(config.sources, [{ ...ingest, reads: [] }])
  t.equal(config.sources[0]?.options, ingest.options)
  t.same(
    config.processors.map(({ id, inputs }) => [id, inputs]),
    [['lim', ['ingest']]],
  )
  t.same(config.files, [])
  t.same(told(GOOD, { given: [] }), [
    'sources: there is no source: at least one is needed',
    'processors.lim.inputs[0]: there is no source or processor "ingest"',
  ])
  const own = { ...GOOD, sources: { ingest: { type: 'tail', include: ['a'] } } }
  t.same(told(own), ['sources.ingest: the source ingest is built in; use another id'])
  t.match(told({ ...GOOD, destinations: { out, ingest: out } }), [
    'destinations.ingest: the source ingest is built in; use another id',
  ])
  const more = { ...GOOD, sources: { other: { type: 'tail', include: ['a'] } } }
  t.same(valuesOf(parse(more).sources, 'id'), ['other', 'ingest'])
  const output = { ...GOOD, destinations: { out: { ...out, inputs: ['ingest.more'] } } }
  t.match(told(output), [/^destinations.out.inputs\[0\]: ingest \(type tail\) has no side outputs/])
})

t.test('what is wrong is told by path, in the order of the document', async t => {
  const table: [unknown, RegExp[]][] = [
    [[], [/^: must be a mapping/]],
    ['text', [/^: must be a mapping/]],
    [null, [/^: must be a mapping/]],
    [{}, [/^destinations: there is no destination/]],
    [{ ...GOOD, nope: 1, metrics: 3 }, [/^nope: unknown option/, /^metrics: must be false, or a mapping/]],
    [
      {
        processors: { lim: { ...lim, limit: 0, windw: '1s' } },
        destinations: { out: { type: 'kep', inputs: ['lim'] } },
      },
      [/^processors.lim.limit: must be at least 1/, /lim.windw: .*did you mean "window"/, /out.type: .*"keep"/],
    ],
    [
      JSON.parse('{"destinations":{"__proto__":{},"out":{"__proto__":1}}}'),
      [/__proto__: is not a possible name/, /out/],
    ],
    [JSON.parse(`{"tests":${'['.repeat(70)}${']'.repeat(70)}}`), [/must not be nested deeper than 64 levels/]],
    [{ ...GOOD, tests: undefined }, [/^tests: is not a value that JSON has/]],
  ]
  for (const [document, expected] of table) {
    const problems = told(document)
    for (const pattern of expected) t.match(problems.join('\n'), new RegExp(pattern.source, 'm'))
  }
  t.equal(({} as { out?: unknown }).out, undefined, 'nothing got into all objects')
})

t.test('references to the environment', async t => {
  const document = { ...GOOD, destinations: { out: { ...out, path: 'x-${HOME_OF}' } } }
  const pathOf = (options: Options) => (parse(document, options).destinations[0]!.options as { path: string }).path
  t.equal(pathOf({ env: { HOME_OF: 'secret' } }), 'x-${HOME_OF}', 'literally what is there: nothing of ours gets out')
  t.equal(pathOf({ env: { HOME_OF: 'here' }, adapt: undefined }), 'x-here')
  t.match(told(document, { adapt: undefined }), [/^destinations.out.path: the environment variable HOME_OF is not set/])
})

t.test('it agrees with the same document as a file', async t => {
  const options: LoadOptions = { env: {}, components, given: [ingest] }
  const parts = [
    lim,
    { ...lim, limit: 'x' },
    { ...lim, limit: 1.5 },
    {},
    [],
    null,
    { type: 'limit' },
    { ...lim, key_field: 3 },
  ]
  for (const part of parts) {
    const document = { processors: { lim: part }, destinations: { out } }
    const fromFile = problemsOf(() => parseConfig(JSON.stringify(document), 'it', options), byPath)
    t.same(told(document, { adapt: undefined }), fromFile, JSON.stringify(part))
  }
})

const faults = (options: unknown) => {
  const parsed = parseOptions(throttle.options, options)
  return 'faults' in parsed ? parsed.faults.map(({ path, message }) => `${path}: ${message}`) : parsed.value
}

t.test('options of a program are parsed, and refused, as those of a file', async t => {
  t.match(faults({ limit: 3, window: '1 Minutes', key_field: '.a', exclude: undefined }), { limit: 3, window: 60_000 })
  const cases: [unknown, string[]][] = [
    [{ limit: 0, window: '1s' }, ['limit: must be at least 1']],
    [
      { limit: '5', window: 7 },
      ['limit: must be a whole number, not text; remove the quotes', 'window: has no unit; write 7s for seconds'],
    ],
    [{}, ['limit: is missing; it must be a whole number', 'window: is missing; it must be a duration']],
    [{ limit: undefined, window: '1s' }, ['limit: is missing']],
    [{ limit: null, window: '1s' }, ['limit: has no value']],
    [{ limit: 1, window: '1s', windw_mode: 'fixed' }, ['windw_mode: unknown option; did you mean "window_mode"?']],
    [
      { limit: 1, window: '1s', window_mode: 'fixd' },
      ['window_mode: must be one of fixed, aligned, sliding, gcra, not "fixd"; did you mean "fixed"?'],
    ],
    [
      { limit: 1, window: { value: 1, unit: 'Week' } },
      ['window.unit: must be one of Milliseconds, Seconds, Minutes, Hours, Days'],
    ],
    [{ limit: 1n, window: '1s' }, ['limit: must be a whole number']],
    [{ limit: () => 1, window: ['1s'] }, ['limit: must be a whole number', 'window: must be a duration']],
    ['limit: 1', [': must be a mapping of options']],
    [undefined, [': ']],
    [[1], [': must be a mapping of options, not a list']],
    [
      { limit: 1, window: '1s', exclude: 'if (.a is 1)' },
      ['exclude: unknown operator "is"; did you mean equal? (column 8'],
    ],
  ]
  for (const [options, expected] of cases) {
    const got = faults(options) as string[]
    t.equal(got.length, expected.length, got.join(' | '))
    for (const [i, text] of expected.entries()) t.ok(got[i]?.startsWith(text), `${got[i]} begins with ${text}`)
  }
})

t.test('a text with ${…} is not taken from the environment', async t => {
  const parsed = faults({ limit: 1, window: '1s', exclude: "if (.a equal '${HOME}')" })
  t.match(parsed, { exclude: { values: ['${HOME}'] } })
})

t.test('problems beyond the most that are listed are not described, and without a bound all are listed', t => {
  let described = 0
  const error = () => {
    described++
    return 'is wrong'
  }
  const options = z.strictObject({ list: z.array(z.string().refine(() => false, { error })) })
  const wrong = defineProcessor({
    type: 'wrong',
    summary: 'x',
    options,
    examples: [{ title: 'x', yaml: '' }],
    create: () => ({ process() {} }),
  })
  const document = {
    processors: { one: { type: 'wrong', inputs: ['ingest'], list: Array(2000).fill('x') } },
    destinations: { out: { ...out, inputs: ['one'] } },
  }
  const all = [...components, wrong]
  t.equal(told(document, { components: all, mostProblems: 50 }).length, 50)
  t.ok(described <= 51, `${described}`)
  t.equal(told(document, { components: all }).length, 2000)
  t.end()
})
