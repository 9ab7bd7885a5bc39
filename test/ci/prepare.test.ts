import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkout } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'

/** A stand-in for npm: it notes that it was called, and leaves the lock file that the real one leaves. */
const NPM = `#!/bin/sh
echo npm "$@" >> calls
mkdir -p node_modules
sed 's#,"node_modules/for-macs.*#}}#' package-lock.json > node_modules/.package-lock.json
`

const lock = (version: string) =>
  JSON.stringify({
    packages: {
      '': {},
      'node_modules/x': { version },
      'node_modules/tap': { version, dev: true },
      'node_modules/for-macs': { version, optional: true, os: ['darwin'] },
    },
  })

t.test('a checkout is prepared once, and again for what changed', async t => {
  const folder = testFolder(t, {
    'package.json': JSON.stringify({ type: 'module', bin: { sluice: 'dist/src/a.js' } }),
    'package-lock.json': lock('1.0.0'),
    src: {
      'a.ts': 'export const a: number = 1\n',
      'b.ts': '',
      'page.js': 'alert(1)\n',
      lib: { kernel: { 'kernel.wasm': 'wasm', assembly: { 'x.ts': 'x' } } },
      core: { 'base.grok': 'INT \\d+\n' },
      page: { web: { bundle: { 'LICENSES.txt': 'MIT' }, kit: { 'x.ts': 'x', 'x.css': 'x' } } },
    },
    test: { 'a.test.ts': '' },
    bin: { npm: NPM },
  })
  const path = (name: string) => join(folder, name)
  mkdirSync(path('scripts'))
  cpSync(join(checkout, 'scripts/prepare.mjs'), path('scripts/prepare.mjs'))
  chmodSync(path('bin/npm'), 0o755)
  const swc = 'node_modules/@swc/wasm-typescript'
  const script = path('scripts/prepare.mjs')
  const env = { ...process.env, PATH: `${path('bin')}:${process.env.PATH}` }
  const prepare = (...args: string[]) => {
    rmSync(path('calls'), { force: true })
    const { status, stderr } = spawnSync(process.execPath, [script, ...args], { env, encoding: 'utf8' })
    const calls = existsSync(path('calls')) ? readFileSync(path('calls'), 'utf8').trim().split('\n') : []
    return { status, stderr, calls }
  }
  const installs = (args: string, lines: string[], message: string) => {
    const { status, stderr, calls } = prepare(...args.split(' ').filter(Boolean))
    t.strictSame({ status, calls }, { status: 0, calls: lines }, `${message}: ${stderr}`)
    t.match(stderr, lines.length > 0 ? /^installing packages \.\.\.[. ]+\d+\.\d s\n$/ : /^$/, message)
  }

  // Node.js resolves packages from the folder of the checkout: the compiler is the real one.
  const first = prepare()
  t.strictSame(
    first.calls,
    ['npm ci --omit=dev --omit=optional --no-audit --no-fund'],
    'what runs is installed, and not what tests',
  )
  cpSync(join(checkout, swc), path(swc), { recursive: true })
  installs('', [], 'nothing is installed twice')
  t.equal(readFileSync(path('dist/src/a.js'), 'utf8'), 'export const a         = 1\n', 'types are blanks')
  t.equal(readFileSync(path('dist/src/lib/kernel/kernel.wasm'), 'utf8'), 'wasm')
  t.equal(readFileSync(path('dist/src/page.js'), 'utf8'), 'alert(1)\n', 'what is for browsers is copied')
  t.equal(readFileSync(path('dist/src/core/base.grok'), 'utf8'), 'INT \\d+\n')
  t.notOk(existsSync(path('dist/src/lib/kernel/assembly')), 'the sources of the kernel are no part of the program')
  t.equal(readFileSync(path('dist/src/page/web/bundle/LICENSES.txt'), 'utf8'), 'MIT')
  t.notOk(existsSync(path('dist/src/page/web/kit')), 'nor are those of what browsers load')
  t.notOk(existsSync(path('dist/test')), 'nor are the tests')
  t.ok(statSync(path('dist/src/a.js')).mode & 0o100, 'the program can be run')

  const lockFile = JSON.parse(lock('1.0.0'))
  delete lockFile.packages['node_modules/tap']
  writeFileSync(path('node_modules/.package-lock.json'), JSON.stringify(lockFile))
  const more = ['npm install --no-save --include=dev --no-audit --no-fund']
  installs('--test', more, 'what tests is added, and nothing removed that a daemon of this checkout may yet load')
  t.ok(existsSync(path('dist/test/a.test.js')))
  installs('--test', [], 'and once')
  mkdirSync(path('node_modules/tap'))
  writeFileSync(path('package-lock.json'), lock('2.0.0'))
  installs('', more, 'a new lock file')

  const built = (name: string) => statSync(path(name)).ino
  const [a, b] = [built('dist/src/a.js'), built('dist/src/b.js')]
  utimesSync(path('src/b.ts'), 1, 1)
  installs('', [], 'another source, older than the build')
  t.not(built('dist/src/b.js'), b, 'it is built')
  t.equal(built('dist/src/a.js'), a, 'and no other')
  rmSync(path('test/a.test.ts'))
  installs('--test', [], 'a source less')
  t.notOk(existsSync(path('dist/test/a.test.js')), 'a test that is gone is not run any more')

  writeFileSync(path('src/c.ts'), 'enum Colour { red }')
  for (let i = 0; i < 2; i++)
    t.match(prepare(), { status: 1, stderr: /^src\/c\.ts: .*enum/s }, 'what failed is tried again')
  writeFileSync(path('src/c.ts'), '')

  mkdirSync(path('.build/prepare.lock'))
  writeFileSync(path('.build/prepare.lock/pid'), '99999999')
  installs('', [], 'the lock of a process that is gone')

  writeFileSync(path('package-lock.json'), lock('3.0.0'))
  rmSync(path('calls'), { force: true })
  const children = [1, 2, 3].map(() => spawn(process.execPath, [script], { env, stdio: 'ignore' }))
  t.same(await Promise.all(children.map(async child => (await once(child, 'close'))[0])), [0, 0, 0])
  t.equal(readFileSync(path('calls'), 'utf8'), `${more[0]}\n`, 'at the same time: one does it, the others wait')
})

t.test('what runs the program builds it first', t => {
  const { scripts } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const stale = Object.entries(scripts).filter(([name, line]) => {
    const all = `${scripts[`pre${name}`] ?? ''} && ${line}`
    const [before, runs] = all.split('node dist/')
    return runs !== undefined && !/prepare\.mjs|npm run build/.test(before!)
  })
  t.same(stale, [])
  t.end()
})
