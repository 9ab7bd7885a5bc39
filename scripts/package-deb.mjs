// Builds the Debian package: sluice_VERSION_ARCH.deb, with the packages of npm that it needs, and a supported Node.js.
// The same input gives the same bytes.
//
//   node scripts/package-deb.mjs [--without-node] [--out FOLDER] [--arch ARCH] [--version VERSION] [--built FOLDER]
//
// The version names the Node.js that is in it: VERSION+nodeVERSION. With --without-node, the package depends on the
// package nodejs. --arch is amd64 or arm64, by default that of this machine; any machine builds both. --built names a
// folder of built files; without it the checkout is prepared first. SOURCE_DATE_EPOCH is the time of everything in the
// package, without it that of the last commit.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import { programOptions } from './options.mjs'
import {
  copy,
  epoch,
  files,
  LIB,
  licences,
  manifest,
  NODE,
  nodeFor,
  OWN_NODE,
  prepare,
  ROOT,
  settle,
  stageNode,
  stageProgram,
  write,
} from './staged.mjs'

/** Licences whose texts each Debian has. */
const COMMON = { 'Apache-2.0': 'The text is in /usr/share/common-licenses/Apache-2.0.' }
const DOC = 'usr/share/doc/sluice'
const UNITS = 'usr/lib/systemd/system'
/** Of `config`: what the units run, and what belongs to whoever changes it. */
const CONFIGS = ['sluice.yaml', 'service.yaml']

const { values: options } = programOptions({
  options: {
    'without-node': { type: 'boolean', default: false },
    out: { type: 'string', default: join(ROOT, 'dist') },
    arch: { type: 'string' },
    version: { type: 'string', default: manifest.version },
    built: { type: 'string' },
  },
})
const { version } = options
const withNode = !options['without-node']
const debVersion = version.replace('-', '~') + (withNode ? `+node${NODE}` : '')
const arch = options.arch ?? execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim()
const built = resolve(options.built ?? join(ROOT, 'dist'))
const needed = /\d[\d.]*/.exec(manifest.engines.node)[0]
const DESCRIPTION = [
  'log shipper daemon',
  ' Reads files, the journal, TCP, HTTP and Redis, throttles events by key, and',
  ' delivers at least once to Loki, Elasticsearch, OpenSearch, OTLP, Kafka, S3,',
  ' HTTP endpoints and files. Prometheus metrics account for every event.',
]
const BRINGS_NODE = [` It runs with Node.js ${NODE}, which is in this package.`]
const NEEDS_NODE = [
  ` It needs Node.js ${needed} or newer as the package nodejs. Where that is older,`,
  ' as in Debian 12, Ubuntu 22.04 and Ubuntu 24.04, install the package whose',
  ' version names a Node.js, which is in it.',
]

/** The lowest version of the C library that has what the compiled code asks for. */
function libc(stage) {
  const asked = [...files(join(stage, LIB))]
    .filter(path => path.endsWith('.node') || path === join(stage, OWN_NODE))
    .flatMap(path => fs.readFileSync(path, 'latin1').match(/GLIBC_2\.\d+/g) ?? [])
    .map(text => Number(text.slice('GLIBC_2.'.length)))
  return `2.${Math.max(...asked)}`
}

/** A unit as it is installed by hand, for the place where the package puts the program. */
function unit(text, path) {
  const body = text.replace(/^(#.*\n)+\n?/, '').replaceAll('/usr/bin/env sluice', '/usr/bin/sluice')
  return `# Of the package sluice. Changes go to \`systemctl edit ${basename(path)}\`.\n\n${body}`
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
    copy(
      join(ROOT, folder),
      join(doc, folder),
      path => !/\.test\.yaml$|^container\//.test(path) && !CONFIGS.includes(path),
    )
  for (const path of ['spec.md', 'decisions']) fs.rmSync(join(doc, 'docs', path), { recursive: true, force: true })
  for (const path of ['README.md', 'CHANGELOG.md']) write(join(doc, path), fs.readFileSync(join(ROOT, path)))
  const date = new Date(epoch * 1000).toUTCString().replace('GMT', '+0000')
  const changes = `sluice (${debVersion}) stable; urgency=medium\n\n  * Version ${version}.\n\n -- ${manifest.author}  ${date}\n`
  write(join(doc, 'changelog.gz'), gzipSync(changes, { level: 9 }))
  write(join(doc, 'copyright'), licences(withNode && nodeFor(arch), COMMON))
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
    const script = fs.readFileSync(join(ROOT, 'scripts/deb', name), 'utf8')
    const filled = script
      .replaceAll('@ALL@', whole.join(' '))
      .replaceAll('@OTHERS@', others.join(' '))
      .replaceAll('@STATE@', state.join(' '))
    write(join(debian, name), filled, 0o755)
  }
}

const stage = fs.mkdtempSync(join(tmpdir(), 'sluice-deb-'))
try {
  if (!options.built) prepare()
  const sluice = stageProgram(stage, { built, version, arch, node: withNode ? OWN_NODE : 'usr/bin/node' })
  if (withNode) stageNode(stage, nodeFor(arch))
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
