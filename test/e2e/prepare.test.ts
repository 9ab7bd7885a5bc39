import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkout } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'

/** Stand-ins for npm, tsc, asc and tap: they note that they were called, and leave what the real ones leave. */
const NPM = `#!/bin/sh
echo npm "$@" >> calls
mkdir -p node_modules
sed 's#,"node_modules/for-macs.*#}}#' package-lock.json > node_modules/.package-lock.json
`
const TSC = `
const fs = require('node:fs')
fs.appendFileSync('calls', 'tsc\\n')
if (fs.readFileSync('src/a.ts', 'utf8').includes('error')) {
  console.log('src/a.ts(1,1): error TS1: it is wrong')
  process.exit(2)
}
for (const folder of ['src', 'test']) {
  fs.mkdirSync('dist/' + folder, { recursive: true })
  for (const name of fs.readdirSync(folder).filter(name => name.endsWith('.ts'))) {
    for (const end of ['.js', '.js.map', '.d.ts']) fs.writeFileSync('dist/' + folder + '/' + name.replace('.ts', end), '')
  }
}
`
const TAP = `
import fs from 'node:fs'
fs.appendFileSync('calls', 'tap ' + process.argv.slice(2) + '\\n')
fs.mkdirSync('node_modules/@tapjs/test/test-built/dist/esm', { recursive: true })
fs.writeFileSync('node_modules/@tapjs/test/test-built/dist/esm/index.js', 'export const signature = \`@tapjs/after\`')
`

const ASC = `
const fs = require('node:fs')
fs.appendFileSync('calls', 'asc\\n')
fs.mkdirSync('dist/src/kernel', { recursive: true })
fs.writeFileSync('dist/src/kernel/kernel.wasm', '')
`

const lock = (version: string) =>
  JSON.stringify({
    packages: { '': {}, 'node_modules/x': { version }, 'node_modules/for-macs': { version, optional: true } },
  })

t.test('a checkout is prepared once, and again for what changed', async t => {
  const folder = testFolder(t, {
    'package.json': JSON.stringify({ bin: { sluice: 'dist/src/a.js' }, tap: { plugin: ['!@tapjs/typescript'] } }),
    'package-lock.json': lock('1.0.0'),
    'tsconfig.json': '{}',
    src: { 'a.ts': '', 'b.ts': '', kernel: { assembly: { 'json-lines.ts': '' } } },
    test: { 'a.test.ts': '' },
    bin: { npm: NPM },
    node_modules: {},
  })
  const path = (name: string) => join(folder, name)
  cpSync(join(checkout, '.scripts'), path('.scripts'), { recursive: true })
  spawnSync('chmod', ['+x', path('bin/npm')])
  const script = [path('.scripts/prepare.mjs')]
  const env = { ...process.env, PATH: `${path('bin')}:${process.env.PATH}` }
  for (const [name, code] of [
    ['typescript/bin/tsc', TSC],
    ['assemblyscript/bin/asc.js', ASC],
    ['tap/dist/esm/run.mjs', TAP],
  ] as const) {
    mkdirSync(join(folder, 'node_modules', name, '..'), { recursive: true })
    writeFileSync(join(folder, 'node_modules', name), code)
  }
  const prepare = (...args: string[]) => {
    rmSync(path('calls'), { force: true })
    const { status, stderr } = spawnSync(process.execPath, [...script, ...args], {
      env,
      encoding: 'utf8',
      timeout: 30_000,
    })
    const calls = existsSync(path('calls')) ? readFileSync(path('calls'), 'utf8').trim().split('\n') : []
    return { status, stderr, calls }
  }
  const expect = (args: string[], calls: string[], said: RegExp, message: string) => {
    const { status, stderr, calls: called } = prepare(...args)
    t.match(stderr, said, message)
    t.strictSame({ status, calls: called }, { status: stderr.includes('failed') ? 1 : 0, calls }, message)
  }
  const install = 'npm ci --include=dev --no-audit --no-fund'

  const all = /^installing packages \.\.\. .* s\nbuilding \.\.\. .* s\nbuilding the kernel \.\.\. .* s\n$/
  expect([], [install, 'tsc', 'asc'], all, 'all is to be done')
  expect([], [], /^$/, 'nothing is done twice')
  expect(['--test'], ['tap build'], /^setting up tap/, 'tap is generated where tests are run only')
  expect(['--test'], [], /^$/, 'and once')

  writeFileSync(path('package-lock.json'), lock('2.0.0'))
  expect(['--test'], [install, 'tsc', 'asc'], /^installing/, 'a new lock file')
  utimesSync(path('src/b.ts'), 1, 1)
  expect([], ['tsc'], /^building/, 'another source, older than the build')
  utimesSync(path('src/kernel/assembly/json-lines.ts'), 1, 1)
  expect([], ['tsc', 'asc'], /^building/, 'another source of the kernel')
  rmSync(path('test/a.test.ts'))
  expect([], ['tsc'], /^building/, 'a source less')
  t.notOk(existsSync(path('dist/test/a.test.js')), 'a test that is gone is not run any more')
  t.ok(existsSync(path('dist/src/b.js')))

  writeFileSync(path('src/a.ts'), 'error')
  for (let i = 0; i < 2; i++) {
    const said = /^building \.\.\. failed\nsrc\/a\.ts\(1,1\): error TS1: it is wrong\n/
    expect([], ['tsc'], said, 'what failed is tried again')
  }
  writeFileSync(path('src/a.ts'), '')

  mkdirSync(path('.build/prepare.lock'))
  writeFileSync(path('.build/prepare.lock/pid'), '99999999')
  expect([], ['tsc'], /^building/, 'the lock of a process that is gone')

  writeFileSync(path('src/c.ts'), '')
  rmSync(path('calls'), { force: true })
  const children = [1, 2, 3].map(() => spawn(process.execPath, script, { env, stdio: 'ignore', timeout: 30_000 }))
  t.same(await Promise.all(children.map(async child => (await once(child, 'close'))[0])), [0, 0, 0])
  t.equal(readFileSync(path('calls'), 'utf8'), 'tsc\n', 'at the same time: one does it, the others wait')
})
