import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse as parseYaml } from 'yaml'
import { z } from 'zod'
import { validate } from '../../../../src/cli/check/validate.js'
import { docs, generatedFiles, generatedPages } from '../../../../src/cli/docs.js'
import { components } from '../../../../src/components/list.js'
import { deliveryOptions } from '../../../../src/core/options/delivery-options.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { inputSchema, type JsonSchema, jsonSchema } from '../../../../src/engine/config/reference/json-schema.js'
import { referenceText } from '../../../../src/engine/config/reference/reference.js'
import { withFiles } from '../../../../src/engine/run/loaded-files.js'
import { compare } from '../../../../src/engine/run/same-components.js'
import { checkout } from '../../../support/checkout.js'
import { testFolder } from '../../../support/folder.js'
import { components as fakes } from './fake-components.js'

const read = (...path: string[]) => readFileSync(join(checkout, ...path), 'utf8')

/** Streams that keep what is written. */
function capture() {
  const texts = { stdout: '', stderr: '' }
  const stream = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      texts[name] += text
    },
  })
  return { texts, out: { stdout: stream('stdout'), stderr: stream('stderr') } as never }
}

t.test('the reference of a known list', async t => {
  const text = referenceText(fakes)
  const expected = [
    'Types: [tail](#source-tail).',
    '<a id="processor-limit"></a>\n\n### Processor `limit`\n\nLimits.\n\nWith notes.\n\nEvents are discarded for these reasons, and can be read at the output `discarded`:\n\n- `limited`: Beyond the limit.\n',
    '| `limit` | whole number | **required** | at least 1, at most 1000 | How many. |',
    '| `window` | duration | **required** | at least 100 ms | How long. |',
    '| `key_field` | field path |  |  | By what. |',
    '| `pattern` | regular expression |  |  | Which \\| ones. |',
    '| `mode` | `fixed`, `sliding` | `fixed` |  | How. |',
    '| `ratio` | number |  | more than 0, less than 1 | A share. |',
    '| `weights` | mapping of number |  |  | By name. |',
    '| `include` | list of text | **required** | not empty | Files. |',
    '| `max_line_bytes` | size | `1KiB` | at least 16 bytes, at most 1024 bytes | Longest line. |',
    '| `follow` | `true`, `false` | `true` |  | Whether to go on. |',
    '| `auth.type` | `token` or `basic` | **required** |  |  |',
    '| `auth.key` | secret | **required** | not empty | With `type: token`: The key. |',
    '| `auth.password` | secret | **required** | not empty | With `type: basic`: Word. |',
    '| `targets[].port` | whole number | **required** | at most 65535 | Port. |',
    'It has no options of its own.',
    'Other defaults than usual: `batch.max_events` `50000`, `batch.max_wait` `10ms`, `max_in_flight` `1`.',
    'processors:\n  example:\n    type: limit\n    inputs: [app_logs]\n    limit: 1\n    window: 1s\n```\n\nIn:\n\n```json\n{"a":1}\n```',
    '| `metrics.listen` | address | `127.0.0.1:9598` |  | HOST:PORT, or systemd:NAME. `sluice serve`: by default 127.0.0.1:9599. |',
    '| `retry.max` | duration | `30 Seconds` |',
  ]
  for (const part of expected) t.ok(text.includes(part), part)
  t.notMatch(text, /9007199254740991|undefined|\[object/)
  for (const [, target] of text.matchAll(/\]\(#([^)]+)\)/g)) {
    const heading = target!.replaceAll('-', ' ')
    const there = text.includes(`<a id="${target}"></a>`) || new RegExp(`^#+ ${heading}$`, 'im').test(text)
    t.ok(there, `#${target} leads somewhere`)
  }
})

t.test('the options that most configurations need are in a table of their own, in this order', async t => {
  const limit = fakes.find(({ type }) => type === 'limit')!
  const text = referenceText([{ ...limit, usualOptions: ['window', 'limit'] }])
  const head = '\\| Option [\\s\\S]*?\\n\\| --- [\\s\\S]*?\\n'
  t.match(
    text,
    new RegExp(`${head}\\| .window. [^\\n]*\\n\\| .limit. [^\\n]*\\n\\nMore options:\\n\\n${head}\\| .key_field. `),
  )
  for (const { type, options, usualOptions = [] } of components)
    for (const name of usualOptions) t.ok(Object.hasOwn(options.shape, name), `${type}: ${name}`)
})

t.test('the JSON Schema of a known list', async t => {
  const schema = z.fromJSONSchema(jsonSchema(fakes) as never)
  const config = {
    sources: { in: { type: 'tail', include: ['a'], max_line_bytes: 20 } },
    processors: {
      lim: { type: 'limit', inputs: ['in'], limit: 1, window: { value: 1, unit: 'Seconds' }, mode: 'fixed' },
    },
    destinations: { out: { type: 'keep', inputs: ['lim'], path: 'p', batch: { max_wait: '1s' } } },
  }
  const changed = (change: (copy: typeof config) => unknown) => {
    const copy = structuredClone(config)
    change(copy)
    return schema.safeParse(copy).success
  }
  t.ok(schema.safeParse(config).success)
  t.ok(changed(copy => Object.assign(copy, { metrics: false, tests: [], shutdown_timeout: '1m' })))
  t.ok(changed(copy => Object.assign(copy.processors.lim, { limit: '${LIMIT:-5}', mode: '${MODE}' })))
  t.ok(
    changed(copy => Object.assign(copy.destinations.out, { renamed_from: 'old_${NAME}' })),
    'in a text with a form',
  )
  t.notOk(changed(copy => Object.assign(copy.destinations.out, { renamed_from: 'Old' })))
  t.notOk(changed(copy => Object.assign(copy.processors.lim, { limit: 'five' })))
  t.notOk(changed(copy => Object.assign(copy.processors.lim, { limit: 0 })))
  t.notOk(changed(copy => Object.assign(copy.processors.lim, { limt: 1 })))
  t.notOk(changed(copy => Object.assign(copy.processors.lim, { type: 'limt' })))
  t.notOk(changed(copy => Object.assign(copy.processors.lim, { window: 5 })))
  t.notOk(changed(copy => Object.assign(copy.processors, { 'Not-An-Id': copy.processors.lim })))
  t.notOk(changed(copy => Reflect.deleteProperty(copy.processors.lim, 'inputs')))
  t.notOk(changed(copy => Object.assign(copy, { sink: {} })))
  t.ok(schema.safeParse({ service: { data_dir: 'state' } }).success, 'a service alone')
})

t.test('what is committed is what the code says', async t => {
  for (const [name, text] of Object.entries(generatedFiles())) {
    t.ok(read('config', name) === text, `config/${name} is up to date (else: npm run docs)`)
  }
  for (const [name, text] of Object.entries(generatedPages()))
    t.ok(read('docs', name) === text, `docs/${name} is up to date (else: npm run docs)`)
  const sections = generatedPages()['sources.md']!.match(/^## .*/gm)
  const sources = components.filter(({ kind, type }) => kind === 'source' && type !== 'demo')
  t.same(
    sections,
    [...sources.map(({ type }) => `## ${type}`), '## UDP', '## Containers'],
    'each source has its section',
  )
  const dir = testFolder(t)
  const { texts, out } = capture()
  t.equal(await docs(out, { out: dir }), 0)
  t.equal(texts.stdout, `${join(dir, 'schema.json')}\n${join(dir, 'reference.md')}\n`)
  t.equal(readFileSync(join(dir, 'reference.md'), 'utf8'), generatedFiles()['reference.md'])
})

/** Every option, inner ones too, by name. */
function optionsOf(schema: JsonSchema, name: string): [string, JsonSchema][] {
  if (schema.title !== undefined) return []
  const variants = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.items ? [schema.items] : [])]
  const own = Object.entries(schema.properties ?? {}).flatMap(([key, option]): [string, JsonSchema][] => [
    [`${name}.${key}`, option],
    ...optionsOf(option, `${name}.${key}`),
  ])
  return [...own, ...variants.flatMap(variant => optionsOf(variant, name))]
}

t.test('every component is told in full', async t => {
  const schemas = components.map(({ kind, type, options }) => [`${kind} ${type}`, inputSchema(options)] as const)
  for (const [name, schema] of [...schemas, ['delivery', inputSchema(deliveryOptions)] as const]) {
    for (const [option, { description }] of optionsOf(schema, name))
      t.match(description, /\.$/, `${option} is described`)
  }
  for (const { kind, type, summary, examples } of components) {
    t.match(summary, /\.$/)
    for (const { title, yaml } of examples) {
      const id = { source: 'in', processor: 'step', destination: 'out' }[kind]
      const inputs = kind === 'source' ? '' : '\n    inputs: [in]'
      const component = `${kind}s:\n  ${id}:\n    type: ${type}${inputs}\n${yaml.replace(/^(?=.)/gm, '    ')}\n`
      const source = kind === 'source' ? '' : 'sources: { in: { type: stdin } }\n'
      const destination = kind === 'destination' ? '' : 'destinations: { out: { type: blackhole, inputs: [in] } }\n'
      const text = source + destination + component
      const parsed = () => withFiles(parseConfig(text, `${type}: ${title}`, { env: {}, components }))
      t.doesNotThrow(parsed, `${type}: ${title}`)
      t.ok(compare(parsed(), parsed()).isUnchanged, `${type}: ${title}: a reload without a change leaves it alone`)
    }
  }
})

t.test('the examples hold', async t => {
  const schema = z.fromJSONSchema(JSON.parse(read('config', 'schema.json')))
  const folder = join(checkout, 'config', 'examples')
  const files = readdirSync(folder)
  t.ok(files.length >= 4)
  for (const file of files) {
    const { texts, out } = capture()
    t.equal(await validate([join(folder, file)], { SLUICE_ACCESS_KEY: 'key' }, out), 0, file)
    // Files that the example names are not on this machine.
    const warnings = texts.stderr.split('\n').filter(line => !/ matches no file now| does not exist here/.test(line))
    t.same(warnings, [''], `${file}: no warnings`)
    const text = read('config', 'examples', file)
    t.match(text, /^# yaml-language-server: \$schema=\.\.\/schema\.json\n# \S/, `${file} says what it is for`)
    // Variables in brackets are no YAML before they are replaced.
    const checked = schema.safeParse(parseYaml(text))
    t.ok(checked.success, `${file}: ${checked.error?.message}`)
  }
  for (const file of ['sluice.yaml', 'service.yaml'])
    t.notMatch(read('config', file), '$schema', `${file} is copied to /etc/sluice, where there is no schema`)
})

t.test('validate', async t => {
  const dir = testFolder(t, {
    'good.yaml': 'sources: { in: { type: stdin } }\ndestinations: { out: { type: stdout, inputs: [in] } }\n',
    'unread.yaml':
      'sources: { in: { type: stdin }, b: { type: file, include: [b] } }\ndestinations: { out: { type: stdout, inputs: [in] } }\n',
    'bad.yaml': 'sources: { in: { type: stdn } }\ndestinations: { out: { type: stdout, inputs: [inn] } }\n',
    'keys.yaml':
      'sources: { in: { type: stdin } }\ndestinations: { up: { type: http, inputs: [in], url: http://x/, auth: { key_file: /not/there } } }\n',
  })
  const run = async (...names: string[]) => {
    const { texts, out } = capture()
    const code = await validate(
      names.map(name => join(dir, name)),
      {},
      out,
    )
    return [code, texts.stdout.replaceAll(`${dir}/`, ''), texts.stderr.replaceAll(`${dir}/`, '')]
  }
  const good = 'good.yaml: ok (1 source, 0 processors, 1 destination)\n'
  t.same(await run('good.yaml'), [0, `${good}0 errors, 0 warnings\n`, ''])
  t.same(await run('keys.yaml'), [
    0,
    'keys.yaml: ok (1 source, 0 processors, 1 destination)\n0 errors, 2 warnings\n',
    'keys.yaml:2:54: destinations.up.url: warning: the access key is sent without encryption to another machine; use https\n' +
      'keys.yaml:2:83: destinations.up.auth.key_file: warning: /not/there does not exist here; create it where this configuration is used, with the key in it\n',
  ])
  t.same(await run('unread.yaml'), [
    0,
    'unread.yaml: ok (2 sources, 0 processors, 1 destination)\n0 errors, 2 warnings\n',
    'unread.yaml:1:33: sources.b: warning: nobody reads its events: add b to the inputs of a component\n' +
      `unread.yaml:1:60: sources.b.include[0]: warning: b (${join(process.cwd(), 'b')}) matches no file now; files created later are read\n`,
  ])
  const sources = components.flatMap(({ kind, type }) => (kind === 'source' ? [type] : []))
  const bad =
    `bad.yaml:1:24: sources.in.type: must be one of ${sources.join(', ')}, not "stdn"; did you mean "stdin"?\n` +
    'bad.yaml:2:47: destinations.out.inputs[0]: there is no source or processor "inn"; did you mean "in"?\n'
  t.same(await run('bad.yaml'), [78, '2 errors, 0 warnings\n', bad])
  t.same(await run('gone.yaml'), [78, '1 error, 0 warnings\n', 'gone.yaml:1:1: the file or folder does not exist\n'])
  t.same(await run('gone.yaml', 'good.yaml', 'bad.yaml'), [
    78,
    `${good}3 errors, 0 warnings\n`,
    `gone.yaml:1:1: the file or folder does not exist\n${bad}`,
  ])
})
