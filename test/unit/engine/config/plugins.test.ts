import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { components } from '../../../../src/components/list.js'
import type { Codec } from '../../../../src/core/codec.js'
import { codecsInUse } from '../../../../src/core/codecs/options.js'
import { ConfigError, formatProblem } from '../../../../src/core/errors.js'
import { type Config, loadConfig, parseConfig } from '../../../../src/engine/config/load.js'
import { readWithPlugins } from '../../../../src/engine/config/plugins/read-plugins.js'
import { ManagedConfig } from '../../../../src/engine/config/published/managed-config.js'
import { withFiles } from '../../../../src/engine/run/loaded-files.js'
import { compare } from '../../../../src/engine/run/same-components.js'
import { checkPipelineConfig } from '../../../../src/service/api/domain/pipelines/pipeline-config.js'
import { componentsWith } from '../../../../src/service/serve/service-plugins.js'
import { testFolder } from '../../../support/folder.js'

const processor = (type: string, more = 'contract: 1') => `
import { defineProcessor, discard, z } from '@sluice-logs/sluice/plugin'
export const ${type} = defineProcessor({
  ${more}, type: '${type}', summary: 'Discards.',
  options: z.strictObject({ share: z.number().describe('How many.') }),
  reasons: { rolled: 'By chance.' },
  plan: () => ({ reasons: ['rolled'] }),
  examples: [{ title: 'Half', yaml: 'share: 0.5' }],
  create: () => ({ process: (batch, to) => to.fill(discard(0)) }),
})`

const CODEC = `
import { Codec, defineCodec, NO_OPTIONS } from '@sluice-logs/sluice/plugin'
class Shout extends Codec {
  scan() { return true }
  fields(b, start, end) { return { message: b.toString('utf8', start, end).toUpperCase() } }
  encode({ message }) { return String(message).toUpperCase() }
}
export const shout = defineCodec({
  contract: 1, name: 'shout', summary: 'Shouts.', options: NO_OPTIONS, form: 'fields', expects: 'a line',
  undecodedHelp: 'Lines.', joinsLines: true, contentType: 'text/plain',
  examples: [{ title: 'Quiet', yaml: '', line: 'a', event: { message: 'A' } }],
  create: () => new Shout(shout),
})`

const config = (plugins: string, chance = 'chance', decode = 'text') => `plugins: ${plugins}
sources:
  in: { type: file, include: [/nowhere/*.log], decode: ${decode} }
  more: { type: file, include: [/nowhere/*.txt] }
processors:
  some: { type: ${chance}, inputs: [in], share: 0.5 }
destinations:
  out: { type: stdout, inputs: [some, more], encoding: json }
`

async function load(path: string, read = readWithPlugins(path, {})) {
  return loadConfig(await read, { env: {}, components })
}

async function problems(path: string): Promise<string[]> {
  const error = await load(path).catch(error => error)
  if (!(error instanceof ConfigError)) throw new Error('it is valid')
  return error.problems.map(problem => formatProblem({ ...problem, file: 'c.yaml' }))
}

function folder(t: Test, files: Record<string, string>) {
  const at = testFolder(t, { 'package.json': '{}', ...files })
  return { at, path: join(at, 'c.yaml') }
}

t.test('what plugins define is known like what comes with the program', async t => {
  const { at, path } = folder(t, {
    'c.yaml': config('[./chance.mjs, sluice-plugin-shout, "@own/all"]', 'chance', 'shout'),
    'chance.mjs': processor('chance'),
  })
  for (const [name, code] of Object.entries({
    'sluice-plugin-shout': CODEC,
    '@own/all': `${processor('first')}\n${processor('second').replace(/^import.*$/m, '')}\nexport default [first, second]`,
  })) {
    mkdirSync(join(at, 'node_modules', name), { recursive: true })
    writeFileSync(join(at, 'node_modules', name, 'package.json'), '{ "type": "module", "exports": "./main.js" }')
    writeFileSync(join(at, 'node_modules', name, 'main.js'), code)
  }
  writeFileSync(
    path,
    config('[./chance.mjs, sluice-plugin-shout, "@own/all"]', 'chance', 'shout')
      .replace(
        'destinations:',
        '  read: { type: parse, inputs: [more], codec: shout }\n  same: { type: parse, inputs: [more], codec: json }\ndestinations:',
      )
      .replace('[some, more]', '[some, more, read, same]'),
  )
  const { sources, processors, warnings } = await load(path)
  t.equal((sources[0]!.options as { decode: Codec }).decode.name, 'shout')
  t.match(processors[0], { type: 'chance', options: { share: 0.5 }, plan: { reasons: ['rolled'] } })
  t.same(warnings, [])
  t.notOk(
    codecsInUse().some(({ name }) => name === 'shout'),
    'other configurations do not have it',
  )
})

t.test('what is wrong with a plugin is said in its place', async t => {
  const bad = {
    'throws.mjs': `throw new Error('no luck')`,
    'nothing.mjs': 'export const one = 1',
    'later.mjs': processor('later', 'contract: 2'),
    'none.mjs': processor('none').replace('contract: 1,', ''),
    'taken.mjs': `${processor('throttle')}\nexport { chance } from './chance.mjs'`,
    'loose.mjs': processor('loose').replace('strictObject', 'object'),
    'chance.mjs': processor('chance'),
  }
  const { path } = folder(t, {
    ...bad,
    'c.yaml': config(
      `\n  - ./chance.mjs\n${Object.keys(bad)
        .map(name => `  - ./${name}\n`)
        .join('')}  - ./nowhere.js\n  - chance.mjs\n  - ./chance.mjs`,
    ),
  })
  const found = await problems(path)
  const wanted = [
    /^c\.yaml:3:5: plugins\[1\]: cannot be loaded: no luck \(\/.*throws\.mjs:1:7\)$/,
    /plugins\[2\]: cannot be loaded: it does not export a component or codec that was made with defineProcessor, /,
    /plugins\[3\]: cannot be loaded: later is for contract 2, but this version of Sluice supports contract 1 /,
    /plugins\[4\]: cannot be loaded: none\.contract is missing; .*: write contract: 1$/,
    /plugins\[5\]: there already is a processor chance, which is defined by \/.*chance\.mjs; give this one another/,
    /plugins\[5\]: there already is a processor throttle, which comes with Sluice; /,
    /plugins\[6\]: cannot be loaded: loose\.options: must be a z\.strictObject$/,
    /plugins\[8\]: the file \/.*nowhere\.js does not exist$/,
    /plugins\[9\]: there is no package chance\.mjs in node_modules of .*; if you mean the file, write \.\/chance\.mjs$/,
  ]
  t.equal(found.length, wanted.length)
  for (const [i, pattern] of wanted.entries()) t.match(found[i], pattern)
})

t.test('what a variable holds is not in the error of the plugin that it names', async t => {
  const { path } = folder(t, {
    'bad.mjs': 'export const one = 1',
    'c.yaml': config('\n  - ${ONE}\n  - ${TWO}\n  - ${THREE}'),
  })
  const env = { ONE: './s3same.js', TWO: 's3same', THREE: './bad.mjs' }
  const found = await readWithPlugins(path, env)
    .then(read => loadConfig(read, { env, components }))
    .catch(error => error as Error)
  t.match(found, { message: /plugins\[0\]: the file \$\{ONE\} does not exist/ })
  t.match(found, { message: /plugins\[1\]: there is no package \$\{TWO\} in node_modules/ })
  t.notMatch(String((found as Error).message), /s3same|bad\.mjs/)
})

t.test('a plugin whose functions throw while options are read makes them invalid', async t => {
  const { path } = folder(t, {
    'c.yaml': config('[./bad.mjs]', 'bad'),
    'bad.mjs': processor('bad').replace(
      `plan: () => ({ reasons: ['rolled'] })`,
      `plan: () => { throw new Error('no plan') }`,
    ),
  })
  t.same(await problems(path), ['c.yaml:6:3: processors.some: the plugin failed to describe this component: no plan'])
})

t.test('only an operator lists plugins, and a file that all can write is a warning', async t => {
  const { at, path } = folder(t, { 'c.yaml': config('[./chance.mjs]'), 'chance.mjs': processor('chance') })
  t.throws(
    () => parseConfig(config('[./chance.mjs]'), path, { env: {}, components }),
    /plugins: cannot be listed here: /,
  )
  chmodSync(join(at, 'chance.mjs'), 0o666)
  t.match((await load(path)).warnings, [{ line: 1, path: 'plugins[0]', message: /^every user .*: chmod o-w \// }])
})

t.test('a component of a changed plugin is another one, and one of an unchanged plugin is the same', async t => {
  const { at, path } = folder(t, { 'c.yaml': config('[./link.mjs]'), 'chance.mjs': processor('chance') })
  symlinkSync('chance.mjs', join(at, 'link.mjs'))
  const before = await load(path)
  const same = (next: Config) => compare(withFiles(before), withFiles(next)).same
  t.ok(same(await load(path)).has('some'))
  writeFileSync(join(at, 'chance.mjs'), `${processor('chance')}\n// changed`)
  const after = await load(path)
  t.notOk(same(after).has('some'))
  t.ok(same(after).has('in'))
})

t.test('a service has plugins of its own, which pipelines cannot list', async t => {
  const { path } = folder(t, { 'c.yaml': 'service: { plugins: [./chance.mjs] }', 'chance.mjs': processor('chance') })
  const at = { env: {}, components, serviceAlone: true }
  const { service } = loadConfig(await readWithPlugins(path, {}), at)
  const known = await componentsWith(service!.plugins)
  const pipeline = (more: object) => ({
    ...more,
    sources: { in: { type: 'stdin' } },
    processors: { some: { type: 'chance', inputs: ['in'], share: 0.5 } },
    destinations: { out: { type: 'stdout', inputs: ['some'] } },
  })
  t.equal(checkPipelineConfig(pipeline({}), known).processors[0]!.type, 'chance')
  t.throws(() => checkPipelineConfig(pipeline({ plugins: ['./chance.mjs'] }), known), {
    errors: [{ path: 'config.plugins', message: /^cannot be listed here/ }],
  })
  t.throws(() => checkPipelineConfig(pipeline({}), components), { errors: [{ message: /must be one of/ }] })
  writeFileSync(path, 'service: { plugins: [./nowhere.mjs] }')
  const read = await readWithPlugins(path, {})
  t.throws(() => loadConfig(read, at), /c\.yaml:1:22: service\.plugins\[0\]: the file .*nowhere\.mjs does not exist$/)
})

t.test('a managed daemon loads the plugins that its local part lists, and none that the service names', async t => {
  const { path } = folder(t, {
    'c.yaml': 'plugins: [./chance.mjs]\nmanaged: {}\nsources: { in: { type: stdin } }',
    'chance.mjs': processor('chance'),
  })
  const local = new ManagedConfig(await readWithPlugins(path, {}), { env: {}, components })
  const document = {
    processors: { some: { type: 'chance', inputs: ['ingest'], share: 1 } },
    destinations: { out: { type: 'stdout', inputs: ['some'] } },
  }
  t.equal(local.with(document, 'doc').processors[0]!.type, 'chance')
  t.throws(
    () => local.with({ ...document, plugins: ['./chance.mjs'] }, 'doc'),
    /plugins: a published pipeline cannot load/,
  )
})
