// Builds the Debian package: sluice_VERSION_ARCH.deb, with the packages of npm that it needs. The same input gives the same bytes.
//
//   node .scripts/package-deb.mjs [--with-node] [--out FOLDER] [--arch ARCH] [--version VERSION] [--built FOLDER]
//
// --with-node puts the Node.js that runs this into the package, for systems whose own is too old. It has to be one that
// brings its libraries, as those of nodejs.org and NodeSource do. The version of the package names it: VERSION+nodeVERSION.
// --built names a folder of built files; without it the checkout is prepared first. SOURCE_DATE_EPOCH is the
// time of everything in the package, without it that of the last commit.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, extname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { programOptions } from './options.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const LIB = 'usr/lib/sluice'
const DOC = 'usr/share/doc/sluice'
const UNITS = 'usr/lib/systemd/system'
/** Of `config`: what the units run, and what belongs to whoever changes it. */
const CONFIGS = ['sluice.yaml', 'service.yaml']
const QUICKSTART = 'config/examples/quickstart.yaml'

/** The compiled part of the one package that has any: the folder of each architecture, and what is for others in it. */
const COMPILED = {
  amd64: { folder: 'linux-x64', not: /\.musl\.node$/ },
  arm64: { folder: 'linux-arm64', not: /\.musl\.node$/ },
}
const RUNS = new Set(['.js', '.cjs', '.mjs', '.json', '.node', '.wasm'])
/** Folders at the top of a package. */
const FOR_DEVELOPERS =
  /^(tests?|specs?|docs?|examples?|benchmarks?|bench|integration|fixtures|scripts|deps|browser|types)$/
const DEVELOPERS_FILE = /^(eslint\.config|gruntfile|bench|benchmark|test|example|package-lock)\b|\.test\.|^tsconfig/

/** Of the Node.js that comes with the package, below the folder of the program. */
const NODE = 'bin/node'
/** Where its licence is: beside the program in an archive of nodejs.org, in /usr/share/doc from NodeSource. */
const NODE_LICENCES = [join(dirname(dirname(process.execPath)), 'LICENSE'), '/usr/share/doc/nodejs/LICENSE']

const { values: options } = programOptions({
  options: {
    'with-node': { type: 'boolean', default: false },
    out: { type: 'string', default: join(ROOT, 'dist') },
    arch: { type: 'string' },
    version: { type: 'string' },
    built: { type: 'string' },
  },
})
const manifest = JSON.parse(fs.readFileSync(join(ROOT, 'package.json'), 'utf8'))
const version = options.version ?? manifest.version
const withNode = options['with-node']
const debVersion = version.replace('-', '~') + (withNode ? `+node${process.versions.node}` : '')
const arch = options.arch ?? execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim()
const built = resolve(options.built ?? join(ROOT, 'dist'))
const needed = /\d[\d.]*/.exec(manifest.engines.node)[0]
const DESCRIPTION = [
  'log shipper daemon',
  ' Tails files, throttles events by key, delivers at least once to HTTP',
  ' endpoints and files, and accounts for every event in Prometheus metrics.',
]
const BRINGS_NODE = [` It runs with Node.js ${process.versions.node}, which is in this package.`]
const NEEDS_NODE = [
  ` It needs Node.js ${needed} or newer as the package nodejs. That of Debian 12,`,
  ' Ubuntu 22.04 and Ubuntu 24.04 is older: install nodejs from NodeSource, or',
  ' build this package with "npm run package:deb -- --with-node".',
]
const epoch = Number(process.env.SOURCE_DATE_EPOCH ?? lastCommit())

function lastCommit() {
  try {
    return execFileSync('git', ['-C', ROOT, 'log', '-1', '--format=%ct'], { encoding: 'utf8' })
  } catch {
    return fs.statSync(join(ROOT, 'package.json')).mtimeMs / 1000
  }
}

function* files(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* files(path)
    else yield path
  }
}

/** Copies what `wanted` says of the path below `from`. */
function copy(from, to, wanted = () => true) {
  for (const path of files(from)) {
    const inside = relative(from, path)
    if (!wanted(inside)) continue
    const target = join(to, inside)
    fs.mkdirSync(dirname(target), { recursive: true })
    fs.copyFileSync(path, target)
    fs.chmodSync(target, 0o644)
  }
}

function write(path, text, mode) {
  fs.mkdirSync(dirname(path), { recursive: true })
  fs.writeFileSync(path, text)
  if (mode) fs.chmodSync(path, mode)
}

/** The packages that run with the program, by their folder. */
function packages() {
  const lock = JSON.parse(fs.readFileSync(join(ROOT, 'package-lock.json'), 'utf8')).packages
  return Object.entries(lock)
    .filter(([path, { dev, link }]) => path.startsWith('node_modules/') && !dev && !link)
    .map(([path]) => path)
    .filter(path => fs.existsSync(join(ROOT, path)))
    .sort()
}

/** Whether a file of a package is needed at run time: programs of its own are not. */
function runs(root, path, { folder, not }) {
  const parts = path.split('/')
  if (parts.some(part => part === 'node_modules' || part.startsWith('.')) || !RUNS.has(extname(path))) return false
  if (fs.readFileSync(join(root, path), 'latin1').startsWith('#!')) return false
  if (parts[0] === 'prebuilds') return parts[1] === folder && !not.test(path)
  return !(parts.length > 1 && FOR_DEVELOPERS.test(parts[0])) && !DEVELOPERS_FILE.test(basename(path))
}

function nodeLicence() {
  const found = NODE_LICENCES.find(path => fs.existsSync(path))
  if (!found)
    throw new Error(
      `the licence of ${process.execPath} is in none of ${NODE_LICENCES.join(', ')}; take a Node.js from nodejs.org`,
    )
  return found
}

/** Copies the Node.js that runs this, if other machines can run it. */
function stageNode(target) {
  const { host_arch, ...variables } = process.config.variables
  const shared = Object.keys(variables).filter(name => /^node_shared/.test(name) && String(variables[name]) === 'true')
  if (shared.length > 0) {
    const why = 'uses libraries of this system'
    throw new Error(
      `--with-node: ${process.execPath} ${why} (${shared.join(', ')}); run this with a Node.js from nodejs.org or NodeSource`,
    )
  }
  if (COMPILED[arch].folder !== `linux-${process.arch}`)
    throw new Error(
      `--with-node: ${process.execPath} is for ${process.arch}, and the package for ${arch}; build it on a machine of that architecture`,
    )
  fs.mkdirSync(dirname(target), { recursive: true })
  fs.copyFileSync(process.execPath, target)
  fs.chmodSync(target, 0o755)
}

/** Package, licence and its text, of all that is in node_modules. */
function licences(paths) {
  const texts = new Map()
  for (const path of paths) {
    const { name, version, license } = JSON.parse(fs.readFileSync(join(ROOT, path, 'package.json'), 'utf8'))
    const file = fs.readdirSync(join(ROOT, path)).find(entry => /^licen[cs]e/i.test(entry))
    const own = file ? fs.readFileSync(join(ROOT, path, file), 'utf8').trim() : `${license}`
    const text = license === 'Apache-2.0' ? 'The text is in /usr/share/common-licenses/Apache-2.0.' : own
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version} (${license})`])
  }
  if (withNode) texts.set(fs.readFileSync(nodeLicence(), 'utf8').trim(), [`Node.js ${process.versions.node} (MIT)`])
  return [...texts].map(([text, names]) => `${names.join('\n')}\n\n${text}\n`).join(`\n${'-'.repeat(72)}\n\n`)
}

/** The lowest version of the C library that has what the compiled code asks for. */
function libc(stage) {
  const asked = [...files(join(stage, LIB))]
    .filter(path => path.endsWith('.node') || path === join(stage, LIB, NODE))
    .flatMap(path => fs.readFileSync(path, 'latin1').match(/GLIBC_2\.\d+/g) ?? [])
    .map(text => Number(text.slice('GLIBC_2.'.length)))
  return `2.${Math.max(...asked)}`
}

/** A unit as it is installed by hand, for the place where the package puts the program. */
function unit(text, path) {
  const body = text.replace(/^(#.*\n)+\n?/, '').replaceAll('/usr/bin/env sluice', '/usr/bin/sluice')
  return `# Of the package sluice. Changes go to \`systemctl edit ${basename(path)}\`.\n\n${body}`
}

function stageProgram(stage) {
  const lib = join(stage, LIB)
  const { name, description, type, exports, license, engines } = manifest
  const own = { name, version, description, license, type, engines, exports, bin: manifest.bin }
  write(join(lib, 'package.json'), `${JSON.stringify(own, null, 2)}\n`)
  copy(join(built, 'src'), join(lib, 'dist/src'), path => /\.(c?js|wasm|css|grok|txt)$/.test(path))
  const main = join(lib, manifest.bin.sluice)
  // The node that comes with the package or that it depends on, whatever else is in somebody's PATH.
  // What sluice quickstart runs: /usr/share/doc may be left out of an installation.
  write(join(lib, QUICKSTART), fs.readFileSync(join(ROOT, QUICKSTART)))
  const node = withNode ? `/${LIB}/${NODE}` : '/usr/bin/node'
  write(main, fs.readFileSync(main, 'utf8').replace(/^#!.*/, `#!${node}`), 0o755)
  if (withNode) stageNode(join(lib, NODE))
  for (const path of packages()) {
    const from = join(ROOT, path)
    copy(from, join(lib, path), inside => runs(from, inside, COMPILED[arch]))
  }
  fs.mkdirSync(join(stage, 'usr/bin'))
  fs.symlinkSync(`../lib/sluice/${manifest.bin.sluice}`, join(stage, 'usr/bin/sluice'))
  return (...args) =>
    execFileSync(process.execPath, [main, ...args], { env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch) } })
}

function stageSystem(stage, sluice) {
  const share = join(stage, 'usr/share')
  for (const [shell, path] of [
    ['bash', 'bash-completion/completions/sluice'],
    ['zsh', 'zsh/vendor-completions/_sluice'],
    ['fish', 'fish/vendor_completions.d/sluice.fish'],
  ])
    write(join(share, path), sluice('completion', shell))
  write(join(share, 'man/man1/sluice.1.gz'), gzipSync(sluice('docs', 'man'), { level: 9 }))
  const units = fs.readdirSync(join(ROOT, 'systemd')).filter(name => /\.(service|socket)$/.test(name))
  for (const name of units)
    write(join(stage, UNITS, name), unit(fs.readFileSync(join(ROOT, 'systemd', name), 'utf8'), name))
  for (const name of CONFIGS) write(join(stage, 'etc/sluice', name), fs.readFileSync(join(ROOT, 'config', name)))
  return units
}

function stageDocs(stage) {
  const doc = join(stage, DOC)
  for (const folder of ['docs', 'config', 'systemd'])
    copy(join(ROOT, folder), join(doc, folder), path => !path.endsWith('.test.yaml') && !CONFIGS.includes(path))
  for (const path of ['spec.md', 'decisions']) fs.rmSync(join(doc, 'docs', path), { recursive: true, force: true })
  for (const path of ['README.md', 'CHANGELOG.md']) write(join(doc, path), fs.readFileSync(join(ROOT, path)))
  const date = new Date(epoch * 1000).toUTCString().replace('GMT', '+0000')
  const changes = `sluice (${debVersion}) stable; urgency=medium\n\n  * Version ${version}.\n\n -- ${manifest.author}  ${date}\n`
  write(join(doc, 'changelog.gz'), gzipSync(changes, { level: 9 }))
  const own = fs.readFileSync(join(ROOT, 'LICENSE'), 'utf8')
  const head = `Sluice:\n\n${own}\n${'-'.repeat(72)}\n\nWith it come these packages, under licences of their own:\n\n`
  write(join(doc, 'copyright'), head + licences(packages()))
}

function stageControl(stage, units) {
  const debian = join(stage, 'DEBIAN')
  const installed = [...files(stage)].sort()
  const size = installed.reduce((sum, path) => sum + Math.ceil(fs.lstatSync(path).size / 1024), 0)
  const sums = installed
    .filter(path => fs.lstatSync(path).isFile())
    .map(path => `${createHash('md5').update(fs.readFileSync(path)).digest('hex')}  ${relative(stage, path)}\n`)
  const fields = {
    Package: 'sluice',
    Version: debVersion,
    Architecture: arch,
    Maintainer: manifest.author,
    'Installed-Size': size,
    Depends: `${withNode ? '' : `nodejs (>= ${needed}), `}libc6 (>= ${libc(stage)}), libstdc++6, init-system-helpers (>= 1.54)`,
    Section: 'admin',
    Priority: 'optional',
    Description: [...DESCRIPTION, ' .', ...(withNode ? BRINGS_NODE : NEEDS_NODE)].join('\n'),
  }
  write(
    join(debian, 'control'),
    Object.entries(fields)
      .map(([name, value]) => `${name}: ${value}\n`)
      .join(''),
  )
  write(join(debian, 'conffiles'), CONFIGS.map(name => `/etc/sluice/${name}\n`).join(''))
  write(join(debian, 'md5sums'), sums.join(''))
  const state = units
    .flatMap(name => /^StateDirectory=(.*)$/m.exec(fs.readFileSync(join(stage, UNITS, name), 'utf8'))?.[1] ?? [])
    .map(name => name.replace('%i', '*'))
    .flatMap(name => [`/var/lib/${name}`, `/var/lib/private/${name}`])
  // Of a template, only instances can be started and enabled.
  const whole = units.filter(name => !name.includes('@'))
  const others = whole.filter(name => name !== 'sluice.service')
  for (const name of ['postinst', 'prerm', 'postrm']) {
    const script = fs.readFileSync(join(ROOT, '.scripts/deb', name), 'utf8')
    const filled = script
      .replaceAll('@ALL@', whole.join(' '))
      .replaceAll('@OTHERS@', others.join(' '))
      .replaceAll('@STATE@', state.join(' '))
    write(join(debian, name), filled, 0o755)
  }
}

/** The modes and times of all that is there depend on nothing but the input. */
function settle(path) {
  const found = fs.lstatSync(path)
  if (found.isDirectory()) for (const name of fs.readdirSync(path)) settle(join(path, name))
  if (!found.isSymbolicLink()) fs.chmodSync(path, found.isDirectory() || found.mode & 0o100 ? 0o755 : 0o644)
  fs.lutimesSync(path, epoch, epoch)
}

const stage = fs.mkdtempSync(join(tmpdir(), 'sluice-deb-'))
try {
  if (!COMPILED[arch]) throw new Error(`--arch is one of ${Object.keys(COMPILED).join(', ')}, not ${arch}`)
  if (!/^\d[\w.]*(-[\w.]+)?$/.test(version)) throw new Error(`${version} is no version`)
  if (!options.built) execFileSync(process.execPath, [join(ROOT, '.scripts/prepare.mjs')], { stdio: 'inherit' })
  const sluice = stageProgram(stage)
  const units = stageSystem(stage, sluice)
  stageDocs(stage)
  // What is copied is readable to its owner alone where that is so in the checkout.
  settle(stage)
  stageControl(stage, units)
  settle(stage)
  fs.mkdirSync(options.out, { recursive: true })
  const target = join(options.out, `sluice_${debVersion}_${arch}.deb`)
  // Node.js takes more than a minute at the usual level, and is hardly smaller then.
  const level = process.env.DPKG_DEB_COMPRESSOR_LEVEL ?? (withNode ? '2' : '6')
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', `-z${level}`, '--build', stage, target], {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch), DPKG_DEB_THREADS_MAX: '1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  process.stdout.write(`${target}\n`)
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
} finally {
  fs.rmSync(stage, { recursive: true, force: true })
}
