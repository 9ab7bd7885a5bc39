import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { components } from '../../../src/components/list.js'
import { componentsNamed, loadQuickly } from '../../../src/components/named.js'
import { codecs } from '../../../src/core/codecs/list.js'
import { configFile, readConfig } from '../../../src/engine/config/yaml/files.js'
import { Problems } from '../../../src/engine/config/yaml/problems.js'
import { checkout } from '../../support/checkout.js'
import { testFolder } from '../../support/folder.js'
import { valuesOf } from '../../support/values-of.js'

const sourceOf = (...texts: string[]) => ({
  path: '',
  files: texts.map((text, n) => configFile(`${n}.yaml`, text)),
  problems: new Problems(),
})

t.test('every component is found by its type', async t => {
  const text = components.map(({ type }, n) => `a${n}: { type: ${type} }`).join('\n')
  t.same(new Set(await componentsNamed(sourceOf(text), {})), new Set(components))
})

t.test('every destination that connects to a server says what it promises', async t => {
  for (const { kind, type, inspects, promises } of components)
    if (kind === 'destination' && (await inspects?.())?.check) t.ok(promises, type)
})

t.test('every codec is in a file with its name, or in a folder with its name, where it is looked for', async t => {
  for (const { name } of codecs) {
    const isFolder = existsSync(join(checkout, 'src/core/codecs', name, `${name}.ts`))
    const module = (await import(`../../../src/core/codecs/${isFolder ? `${name}/` : ''}${name}.js`)) as object
    t.ok(
      Object.values(module).some(one => codecs.includes(one)),
      name,
    )
  }
})

t.test('only what is named is loaded', async t => {
  const text = `x: { type: throttle }\ny: [{ "type": 'stdin' }]\nz: { ? type : "\${TYPE}" }\n# type: tcp\nd: "type: http"\n`
  const found = await componentsNamed(sourceOf(text, 'a: { "t\\x79pe": blackhole }\nb: { type: ../../net/http }'), {
    TYPE: 'demo',
  })
  t.same(found.map(({ type }) => type).sort(), ['blackhole', 'demo', 'stdin', 'throttle'])
})

t.test('a configuration is read once, and errors know all types', async t => {
  const folder = testFolder(t, {
    'wrong.yaml': 'sources: { a: { type: stdn } }\ndestinations: { b: { type: stdout, inputs: [a] } }\n',
  })
  await t.rejects(loadQuickly(readConfig(join(folder, 'wrong.yaml')), { env: {} }), /did you mean "stdin"/)
  const plain = testFolder(t, {
    'odd.yaml': 'sources: { a: { ? type : stdin } }\ndestinations: { b: { "t\\x79pe": stdout, inputs: [a] } }\n',
  })
  const source = readConfig(join(plain, 'odd.yaml'))
  rmSync(plain, { recursive: true })
  await loadQuickly(source, { env: {} })
  const config = await loadQuickly(source, { env: {} })
  t.same(valuesOf(config.destinations, 'type'), ['stdout'])
})
