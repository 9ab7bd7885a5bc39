import { type ExecFileException, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { built, checkout, sluiceMain } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'

interface PackageServer {
  readonly url: string
  close(): Promise<void>
}

interface Locked {
  readonly version: string
  readonly dev?: boolean
  readonly link?: boolean
}

/** What is large and has no part in running. */
const LEFT_OUT = ['./node_modules', './prebuilds/[adw]*', './deps', './docs', './test', '*.ts', '*.cts', '*.map']

/** Versions and their folders, by the name of the package. */
function installed(): Map<string, Map<string, string>> {
  const text = readFileSync(join(checkout, 'package-lock.json'), 'utf8')
  const { packages } = JSON.parse(text) as { packages: Record<string, Locked> }
  const found = new Map<string, Map<string, string>>()
  for (const [path, { version, dev, link }] of Object.entries(packages)) {
    // Some are for other machines.
    if (!path.startsWith('node_modules/') || dev || link || !existsSync(join(checkout, path))) continue
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    if (!found.has(name)) found.set(name, new Map())
    found.get(name)!.set(version, join(checkout, path))
  }
  return found
}

/**
 * Gives npm, on loopback, the packages that this checkout has installed and that are not for developers alone: what a
 * package that asks for less than it uses cannot be installed from, and what needs no network.
 */
async function servePackages(): Promise<PackageServer> {
  const packages = installed()
  const server = createServer((request, response) => {
    const [name = '', version] = decodeURIComponent(request.url!.slice(1)).split('/-/')
    const versions = packages.get(name)
    const folder = versions?.get(version ?? '')
    if (!versions || (version !== undefined && folder === undefined)) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{}')
    } else if (folder !== undefined) {
      const args = ['-c', '-I', 'gzip -1', ...LEFT_OUT.map(pattern => `--exclude=${pattern}`)]
      args.push('--transform=s,^[.]/,package/,', '-C', folder, './')
      const tar = spawn('tar', args, { stdio: ['ignore', 'pipe', 'inherit'] })
      tar.stdout.pipe(response.writeHead(200, { 'content-type': 'application/octet-stream' }))
    } else {
      const manifests = [...versions].map(([version, folder]) => {
        const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as object
        return [version, { ...manifest, dist: { tarball: `${url}${name}/-/${version}` } }]
      })
      const latest = [...versions.keys()].at(-1)
      const body = { name, 'dist-tags': { latest }, versions: Object.fromEntries(manifests) as unknown }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return {
    url,
    async close() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Nothing of the npm that runs the tests reaches the one that is tried. */
const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_|_proxy$/i.test(name)))

function run(program: string, args: readonly string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) {
  const env = { ...clean, NO_COLOR: '1', ...options.env }
  return new Promise<Ended>(resolve => {
    const limits = { ...options, env, timeout: 120_000, maxBuffer: 64 * 1024 * 1024 }
    const child = execFile(program, args, limits, (error: ExecFileException | null, stdout, stderr) => {
      resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr })
    })
    child.stdin?.end()
  })
}

async function done(t: Test, program: string, args: readonly string[], options: Parameters<typeof run>[2] = {}) {
  const ended = await run(program, args, options)
  t.equal(ended.code, 0, `${program} ${args.join(' ')}\n${ended.stderr}`)
  return ended.stdout
}

/** Everything that the packages have of the program's own: an import that leads out of them fails. */
const IMPORT_ALL = `
import { readdirSync } from 'node:fs'
const entries = ['simulate/report/report.js', 'page/web/bundle/page.js', 'lib/files/disk/worker.js', 'service/serve/pipeline-process.js', ...process.argv.slice(1)]
const files = readdirSync('dist/src', { recursive: true }).filter(name => /\\.js$/.test(name) && !/\\bmain\\.js$/.test(name) && !entries.includes(name))
for (const file of files) await import(process.cwd() + '/dist/src/' + file)
console.log(files.length > 100)
`

/** Of all packages below a folder `node_modules`, but for the program. */
function packagesIn(folder: string): string[] {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return paths
    .flatMap(path => /(?:^|node_modules\/)((?:@[^/]+\/)?[^/@]+)\/package\.json$/.exec(path)?.[1] ?? [])
    .filter(name => name !== manifest.name)
}

/** The bytes that a folder takes on a disk with blocks of 4 KiB, without the packages in it. */
function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(path => !path.includes('node_modules'))
    .reduce((sum, path) => sum + Math.ceil(statSync(join(folder, path)).size / 4096) * 4096, 0)
}

const manifest = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
  name: string
  version: string
  engines: { node: string }
  files: readonly string[]
  exports: Record<string, { types: string; default: string }>
}

/** What may be in the packed package, and how much of it. */
const WANTED = [
  /^package\.json$/,
  /^README\.md$/,
  /^(LICENSE|CHANGELOG\.md)$/,
  /^dist\/sluice\.1$/,
  /^dist\/src\/[a-z0-9_/-]+(\.d\.c?ts|\.c?js)$/,
  /^dist\/src\/lib\/kernel\/kernel\.wasm$/,
  /^dist\/src\/simulate\/report\/report\.css$/,
  /^dist\/src\/page\/web\/bundle\/page\.css$/,
  /^dist\/src\/(page\/web|net)\/bundle\/LICENSES\.txt$/,
  /^dist\/src\/core\/codecs\/grok\/[a-z]+\.grok$/,
  /^config\/(sluice\.yaml|service(-nodes)?\.yaml|schema\.json|reference\.md|examples\/[a-z0-9-]+\.yaml)$/,
  /^config\/(prometheus|grafana)\/[a-z0-9.-]+\.(ya?ml|json)$/,
  /^docs\/(?!spec\.)(README|[a-z0-9-]+)\.(md|svg)$/,
  /^docs\/examples\/[a-z0-9-]+\.mjs$/,
  /^docs\/status\.schema\.json$/,
  /^systemd\/[a-z@-]+\.(service|socket)$/,
]
const MOST_BYTES = 2_300_000
/** Of an installation without the packages of the service: it has 30 packages, and 46 MB. */
const MOST_PACKAGES = 35
const MOST_INSTALLED_MB = 50

/** For an npm that leaves nothing outside of `folder`. */
const npmOptions = (folder: string) => [
  ...['--cache', join(folder, 'cache'), '--userconfig', join(folder, 'none')],
  ...['--no-audit', '--no-fund', '--no-update-notifier'],
]

const TSC = join(checkout, 'node_modules/typescript/bin/tsc')

/** A copy of what is built, with the declarations that `npm run build types` adds when it is packed. */
const whole = mkdtempSync(join(tmpdir(), 'sluice-package-'))
process.once('exit', () => rmSync(whole, { recursive: true }))
t.before(async () => {
  await done(t, process.execPath, [TSC, '-p', join(checkout, 'scripts/types.json')])
  cpSync(join(built, 'src'), join(whole, 'src'), { recursive: true })
})

t.test('every package that it needs runs on the oldest Node.js that is promised', async t => {
  interface Locked {
    readonly dev?: boolean
    readonly engines?: { readonly node?: string }
  }
  const lock = JSON.parse(readFileSync(join(checkout, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>
  }
  const promised = /\d+\.\d+/.exec(manifest.engines.node)![0]
  const [major, minor] = promised.split('.').map(Number) as [number, number]
  // The ranges that packages use: alternatives of >=A.B or ^A.B; a patch release of the promised minor one will do.
  const admits = (range: string) =>
    range.split('||').some(part => {
      const [, sign, a, b = 0] = /^\s*(>=|\^|\*|)\s*(\d+)?(?:\.(\d+))?/.exec(part)!
      if (a === undefined) return true
      const [wanted, least] = [Number(a), Number(b)]
      return sign === '>=' && major > wanted ? true : major === wanted && minor >= least
    })
  const needed = Object.entries(lock.packages).filter(([path, { dev }]) => path !== '' && !dev)
  t.ok(needed.length > 20)
  for (const [path, { engines }] of needed) {
    if (!admits(engines?.node ?? '*')) t.fail(`${path} needs Node.js ${engines!.node}, but ${promised} is promised`)
  }
})

t.test('the packed package: what is in it, and what it is once installed', async t => {
  const npm = needs(t, 'npm')
  if (!npm) return
  // Outside of the checkout, whose packages Node.js would find.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-installed-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const name of ['stage', 'cache', 'prefix', 'project/node_modules'])
    mkdirSync(join(folder, name), { recursive: true })
  const path = (...parts: string[]) => join(folder, ...parts)
  for (const name of ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md', 'config', 'docs', 'systemd'])
    cpSync(join(checkout, name), path('stage', name), { recursive: true })
  cpSync(join(whole, 'src'), path('stage/dist/src'), { recursive: true })
  writeFileSync(path('stage/dist/sluice.1'), await done(t, process.execPath, [sluiceMain, 'docs', 'man']))
  for (const name of ['dist/test/a.test.js', 'dist/bench/main.js', 'dist/src/left.js.map', '.build/x', 'dist/a.deb']) {
    mkdirSync(path('stage', name, '..'), { recursive: true })
    writeFileSync(path('stage', name), '')
  }

  const common = npmOptions(folder)
  // The one that a release has built, or one of this build.
  const { SLUICE_ARTEFACTS: artefacts } = process.env
  const source = artefacts ? join(artefacts, `sluice-logs-sluice-${manifest.version}.tgz`) : '.'
  const listed = await done(t, npm, ['pack', source, '--json', '--ignore-scripts', ...common], { cwd: path('stage') })
  const [packed] = JSON.parse(listed) as [{ filename: string; size: number; files: { path: string }[] }]
  const paths = packed.files.map(({ path }) => path)
  t.same(
    paths.filter(path => !WANTED.some(pattern => pattern.test(path)) || /\.test\./.test(path)),
    [],
    'nothing else is in it',
  )
  for (const pattern of WANTED)
    t.ok(
      paths.some(path => pattern.test(path)),
      `it has ${pattern}`,
    )
  t.ok(packed.size < MOST_BYTES, `${packed.size} bytes`)

  const server = await servePackages()
  t.teardown(() => server.close())
  const from = ['--registry', server.url, '--prefix', path('prefix')]
  await done(t, npm, ['install', '-g', path('stage', packed.filename), ...from, ...common], { cwd: path('project') })
  await done(t, npm, ['ls', '-g', '--all', '--prefix', path('prefix')], { cwd: path('project') })

  const env = { PATH: `${path('prefix/bin')}:${process.env.PATH}`, HOME: folder }
  const own = path('prefix/lib/node_modules/@sluice-logs/sluice')
  t.equal(await done(t, 'sluice', ['--version'], { env }), `sluice ${manifest.version}\n`)
  t.ok(existsSync(path('prefix/share/man/man1/sluice.1')), 'man finds the page')
  t.match(await done(t, 'sluice', ['completion', 'bash'], { env }), /^complete -F _sluice sluice$/m)
  const names = packagesIn(path('prefix/lib/node_modules'))
  t.ok(names.length <= MOST_PACKAGES, `${names.length} packages`)
  const mb = (sizeOf(own) + names.reduce((sum, name) => sum + sizeOf(join(checkout, 'node_modules', name)), 0)) / 1e6
  t.ok(mb <= MOST_INSTALLED_MB, `${mb.toFixed(1)} MB`)
  const examples = readdirSync(join(own, 'config/examples')).map(name => join(own, 'config/examples', name))
  const shipper = ['validate', join(own, 'config/sluice.yaml'), ...examples]
  await done(t, 'sluice', shipper, { env: { ...env, SLUICE_ACCESS_KEY: 'sta_0' } })
  const importAll = ['--input-type=module', '-e', IMPORT_ALL]
  await done(t, process.execPath, [...importAll, 'service/api/http/app.js'], { cwd: own })

  writeFileSync(path('project/service.yaml'), 'metrics: false\nservice: { listen: 127.0.0.1:0, data_dir: ./service }\n')
  const without = await run('sluice', ['serve', '--config', 'service.yaml'], { cwd: path('project'), env })
  t.equal(without.code, 78, without.stderr)
  const [, command] = /run "(npm install [^"]+)"/.exec(without.stderr) ?? []
  const npmEnv = {
    npm_config_registry: server.url,
    npm_config_cache: path('cache'),
    npm_config_userconfig: path('none'),
  }
  await done(t, 'sh', ['-c', command ?? without.stderr], { cwd: path('project'), env: { ...env, ...npmEnv } })
  await done(t, 'sluice', ['validate', join(own, 'config/service.yaml')], { env })
  await done(t, process.execPath, importAll, { cwd: own })

  const config = 'sources: { pipe: { type: stdin } }\ndestinations: { out: { type: stdout, inputs: [pipe] } }\n'
  writeFileSync(path('project/pipe.yaml'), `data_dir: ./state\nmetrics: false\n${config}`)
  t.equal(
    await done(t, 'sh', ['-c', 'echo hello | sluice run --config pipe.yaml'], { cwd: path('project'), env }),
    'hello\n',
  )
  const keys = await done(t, 'sluice', ['admin', 'init', '--config', 'service.yaml', '--json'], {
    cwd: path('project'),
    env,
  })
  t.match(JSON.parse(keys), { manager: { key: /^sta_/ } }, 'the store of the service opens')

  mkdirSync(path('project/node_modules/@sluice-logs'))
  symlinkSync(own, path('project/node_modules/@sluice-logs/sluice'))
  const specifiers = Object.keys(manifest.exports).map(name => join(manifest.name, name))
  const code = specifiers
    .map(specifier => `console.log(Object.keys(await import('${specifier}')).length > 0)`)
    .join('\n')
  const imported = await done(t, process.execPath, ['--input-type=module', '-e', code], { cwd: path('project') })
  t.equal(imported, 'true\n'.repeat(specifiers.length), specifiers.join())
  for (const { types } of Object.values(manifest.exports)) t.ok(existsSync(join(own, types)), types)

  const kinds = ['processor', 'source', 'destination', 'codec']
  for (const kind of kinds) await done(t, 'sluice', ['new', kind, kind, '--typescript'], { cwd: path('project'), env })
  const all = path('project/processor')
  mkdirSync(join(all, 'node_modules/@types'))
  symlinkSync(join(checkout, 'node_modules/@types/node'), join(all, 'node_modules/@types/node'))
  for (const kind of kinds.slice(1)) cpSync(path('project', kind, `${kind}.ts`), join(all, `${kind}.ts`))
  const { code: wrong, stdout } = await run(process.execPath, [TSC], { cwd: all })
  t.equal(wrong, 0, `what "sluice new" writes in TypeScript has the types of the contract: ${stdout}`)
})

t.test('the package of the library installs and loads what it uses, and nothing else', async t => {
  const npm = needs(t, 'npm')
  if (!npm) return
  const folder = testFolder(t, { project: { 'package.json': '{}' } })
  const cwd = join(folder, 'project')
  const made = [join(checkout, 'scripts/package-library.mjs'), '--built', whole, '--out', folder]
  const tarball = (await done(t, process.execPath, made)).trim()
  const server = await servePackages()
  t.teardown(() => server.close())
  const from = ['--registry', server.url, ...npmOptions(folder)]
  await done(t, npm, ['install', tarball, ...from], { cwd })
  const modules = join(cwd, 'node_modules')
  t.same(
    readdirSync(modules).filter(name => !name.startsWith('.')),
    ['@sluice-logs', 'zod'],
    'two packages',
  )
  const own = readdirSync(join(modules, '@sluice-logs/library'), { recursive: true, encoding: 'utf8' })
  t.ok(own.includes('README.md'))
  t.same(
    own.filter(name =>
      /(^|\/)(service\/api\/(http|store)|engine\/run|cli|components\/\w+\/destination|service\/ingest)\b/.test(name),
    ),
    [],
    'nothing of the daemon and the service',
  )
  const code = `
import { createThrottle, version } from '@sluice-logs/library'
import { Client } from '@sluice-logs/library/client'
const throttle = createThrottle({ limit: 1, window: '1 Minutes', key_field: '.app' })
throttle.on('data', event => console.log(JSON.stringify(event)))
throttle.on('end', () => console.log(version, throttle.stats.discarded, typeof Client))
for (const n of [1, 2]) throttle.write({ app: 'cart', n })
throttle.end()
`
  const used = await done(t, process.execPath, ['--input-type=module', '-e', code], { cwd })
  t.equal(used, `{"app":"cart","n":1}\n${manifest.version} 1 function\n`)

  const { dependencies } = JSON.parse(readFileSync(join(modules, '@sluice-logs/library/package.json'), 'utf8')) as {
    dependencies: object
  }
  t.same(Object.keys(dependencies), ['zod'], 'which its types need, too')
})
