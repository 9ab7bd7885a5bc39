import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { loadErrorText, loadModule } from '../../../src/lib/load-module.js'
import { testFolder } from '../../support/folder.js'

const TYPED = `
import { n } from './other.ts'
import type { Nothing } from './nowhere.ts'
interface Shape { readonly a: number }
export const shape: Shape = { a: n satisfies number }
export function generic<T>(value: T): T { return value as T }
`

t.test('a module is found by its path, in JavaScript and in TypeScript, in a folder without package.json', async t => {
  const folder = testFolder(t, {
    'package.json': '{}',
    'one.js': `import { n } from './other.js'\nexport const one = n`,
    'other.js': 'export const n = 1',
    'two.mjs': 'export default 2',
    'three.cjs': 'module.exports = { three: 3 }',
    'four.ts': TYPED,
    'other.ts': 'export const n: number = 4',
    'five.mts': 'const five: number = 5; export default five',
    'six.js': 'module.exports = { six: 6 }',
  })
  t.match(await loadModule(join(folder, 'one.js')), { one: 1 })
  t.match(await loadModule(join(folder, 'two.mjs')), { default: 2 })
  t.match(await loadModule(join(folder, 'three.cjs')), { default: { three: 3 } })
  const { shape, generic } = await loadModule(join(folder, 'four.ts'))
  t.match({ shape, same: (generic as (value: number) => number)(4) }, { shape: { a: 4 }, same: 4 })
  t.match(await loadModule(join(folder, 'five.mts')), { default: 5 })
  t.match(await loadModule(join(folder, 'six.js')), { default: { six: 6 } })
})

t.test('a module imports the exports of the running program', async t => {
  const folder = testFolder(t, { 'own.mjs': `export { createThrottle } from '@sluice-logs/sluice'` })
  const { createThrottle } = await import('../../../src/index.js')
  t.equal((await loadModule(join(folder, 'own.mjs'))).createThrottle, createThrottle, 'the same instance')
})

t.test('fresh takes up what has changed, also in a module that it imports, and nothing else', async t => {
  const folder = testFolder(t, {
    'a.mjs': `export { b } from './b.mjs'`,
    'b.mjs': 'export const b = 1',
    'c.cjs': 'exports.c = 1',
  })
  const [a, c] = [join(folder, 'a.mjs'), join(folder, 'c.cjs')]
  const before = await loadModule(a, { fresh: true })
  t.equal(await loadModule(a, { fresh: true }), before, 'the same while nothing changes')
  writeFileSync(join(folder, 'b.mjs'), 'export const b = 2')
  t.match(await loadModule(a, { fresh: true }), { b: 2 })
  t.match(before, { b: 1 }, 'what is in use stays as it is')
  t.match(await loadModule(c, { fresh: true }), { default: { c: 1 } })
  writeFileSync(c, 'exports.c = 2')
  t.match(await loadModule(c, { fresh: true }), { default: { c: 2 } })
})

t.test('a module that failed is tried again', async t => {
  const folder = testFolder(t, { 'a.mjs': `if (!globalThis.there) throw new Error('not yet')\nexport const a = 1` })
  const path = join(folder, 'a.mjs')
  for (const fresh of [false, true]) await t.rejects(loadModule(path, { fresh }), { message: 'not yet' })
  Object.assign(globalThis, { there: true })
  for (const fresh of [false, true]) t.match(await loadModule(path, { fresh }), { a: 1 })
})

t.test('an error says where it is', async t => {
  const cases: Record<string, [text: string, message: RegExp]> = {
    'a.mjs': ['export const a = = 1', /^Unexpected token '=' \(\/.*a\.mjs:1:18\)$/],
    'a.ts': ['export const a: number = 1\nexport const b: = 2', /^[^\n]*Unexpected token[^\n]*$/],
    'b.ts': ['\nexport enum A { b }', /enum is not supported/],
    'c.mjs': [
      `import { nope } from '@sluice-logs/sluice'`,
      /does not provide an export named 'nope' \(\/.*c\.mjs:1\)$/,
    ],
    'd.mjs': ['\nundefined.x', /reading 'x'\) \(\/.*d\.mjs:2:11\)$/],
    'e.mjs': [`import './nowhere.js'`, /Cannot find module .*nowhere\.js.* imported from .*e\.mjs$/],
    'f.mjs': [`throw 'a text'`, /^a text$/],
  }
  const folder = testFolder(t, Object.fromEntries(Object.entries(cases).map(([name, [text]]) => [name, text])))
  for (const [name, [, message]] of Object.entries(cases)) {
    const path = join(folder, name)
    const error = await loadModule(path).catch(error => error)
    t.match(loadErrorText(error, path), message, name)
    if (name.endsWith('.ts')) t.match(loadErrorText(error, path), new RegExp(`${name}:2`), 'with the line')
  }
})

t.test('a file that is missing is named, and nothing of the program', async t => {
  const path = join(testFolder(t, {}), 'gone.js')
  t.equal(loadErrorText(await loadModule(path).catch(error => error), path), `the file ${path} does not exist`)
})

t.test('a worker thread loads modules as well', async t => {
  const folder = testFolder(t, { 'a.ts': `import '@sluice-logs/sluice'\nexport const a: number = 1` })
  const load = new URL('../../../src/lib/load-module.js', import.meta.url).href
  const code = `const { parentPort } = require('node:worker_threads')
import(${JSON.stringify(load)}).then(({ loadModule }) => loadModule(${JSON.stringify(join(folder, 'a.ts'))}))
  .then(({ a }) => parentPort.postMessage(a), error => parentPort.postMessage(error.message))`
  const worker = new Worker(code, { eval: true })
  t.equal(await new Promise(resolve => worker.once('message', resolve)), 1)
  await worker.terminate()
})
