// Builds all that is published, twice, each time in a clone of the last commit, compares the bytes, checks and tests the
// results, and prints the commands that publish them. It publishes nothing itself.
//
//   node scripts/release.mjs [--dry-run] [--only npm|deb|image]... [--untested] [--out FOLDER]
//
// It refuses to run while package.json has placeholders, the version has not been released in CHANGELOG.md, or files have
// changed since the last commit; --dry-run only prints these reasons. --untested leaves out the tests of the artefacts.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { programOptions } from './options.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const PUBLINT = 'publint@0.3.25'
const ATTW = '@arethetypeswrong/cli@0.18.5'
/** Of what ships: each lets others pass it on with its text, which is in the packages. */
const LICENCES = new Set(['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'BlueOak-1.0.0'])

/** Arguments of npm that build into a folder, and of node that test what was built. The tests of `deb` need root. */
const ARTEFACTS = {
  npm: {
    build: out => [
      ['pack', '--silent', '--pack-destination', out],
      ['run', '--silent', 'build', 'library', '--', '--built', 'dist', '--out', out],
    ],
    test: ['scripts/test.mjs', '--ci', 'test/ci/package.test.ts'],
    publish: file => `npm publish --provenance ${file}`,
  },
  deb: {
    script: 'package:deb',
    build: out =>
      ['amd64', 'arm64'].flatMap(arch =>
        [[], ['--without-node']].map(own => [
          'run',
          '--silent',
          'package:deb',
          '--',
          ...own,
          '--arch',
          arch,
          '--out',
          out,
        ]),
      ),
    test: ['dist/test/systemd/main.js', 'the Debian package'],
    publish: file => `reprepro includedeb stable ${file}`,
  },
  image: {
    script: 'image',
    build: out => [['run', '--silent', 'image', '--', '--out', out]],
    test: ['scripts/test.mjs', '--ci', 'test/ci/image.test.ts'],
    publish: file => `podman load -i ${file}, and podman push of its name`,
  },
}

const { values: options } = programOptions({
  options: {
    'dry-run': { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: Object.keys(ARTEFACTS) },
    untested: { type: 'boolean', default: false },
    out: { type: 'string', default: join(ROOT, 'dist/release') },
  },
})
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const out = resolve(options.out)
const scratch = mkdtempSync(join(tmpdir(), 'sluice-release-'))

const say = text => process.stdout.write(`${text}\n`)
const git = (...args) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim()
const npm = (args, cwd, stdout = 'ignore') =>
  execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', stdout, 'inherit'] })

/** Why it must not be published. */
function objections() {
  const found = Object.entries(manifest).filter(([, value]) => JSON.stringify(value).includes('.invalid'))
  const placeholders = found.map(([name]) => `package.json has a placeholder in ${name}`)
  const changes = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')
  const isDated = new RegExp(`^## ${manifest.version.replaceAll('.', '\\.')} \\(\\d{4}-\\d\\d-\\d\\d\\)$`, 'm').test(
    changes,
  )
  return [
    ...placeholders,
    ...(isDated ? [] : [`CHANGELOG.md has no "## ${manifest.version} (DATE)"`]),
    ...(git('status', '--porcelain') === '' ? [] : ['files have changed since the last commit']),
  ]
}

/** Builds in a clone, so that nothing in this checkout but its packages has a part in it. Returns the sums by file. */
function build(kind, round) {
  const clone = join(scratch, `${kind}-${round}`)
  const to = join(scratch, `${kind}-${round}-out`)
  mkdirSync(to)
  git('clone', '--quiet', '--no-hardlinks', ROOT, clone)
  symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'))
  for (const args of ARTEFACTS[kind].build(to)) npm(args, clone)
  rmSync(clone, { recursive: true })
  const sum = name =>
    createHash('sha256')
      .update(readFileSync(join(to, name)))
      .digest('hex')
  return { to, sums: new Map(readdirSync(to).map(name => [name, sum(name)])) }
}

/** What is published has the same bytes whenever it is built. */
function buildTwice(kind) {
  const [{ to, sums }, again] = [build(kind, 1), build(kind, 2)]
  if (sums.size === 0) throw new Error(`${kind}: nothing was built`)
  for (const [name, sum] of sums) {
    if (again.sums.get(name) !== sum) throw new Error(`${name} has other bytes when it is built again`)
    say(`${sum}  ${name}`)
  }
  mkdirSync(out, { recursive: true })
  cpSync(to, out, { recursive: true })
  return [...sums.keys()].map(name => join(out, name))
}

function checkTypes(file) {
  npm(['exec', '--yes', '--package', PUBLINT, '--', 'publint', file, '--strict'], scratch)
  // Each Node.js that is supported loads ES modules with require().
  const rules = ['--profile', 'node16', '--ignore-rules', 'cjs-resolves-to-esm']
  npm(['exec', '--yes', '--package', ATTW, '--', 'attw', file, ...rules], scratch)
}

/** Writes the bill of materials of an installation of `file` beside it. Throws if a licence is not an accepted one. */
function checkContents(file) {
  const project = join(scratch, 'project')
  mkdirSync(project)
  writeFileSync(join(project, 'package.json'), '{ "name": "installation", "version": "0.0.0" }')
  const peers = Object.entries(manifest.peerDependencies).map(([name, range]) => `${name}@${range}`)
  npm(['install', '--silent', '--no-audit', '--no-fund', file], project)
  const bill = JSON.parse(npm(['sbom', '--sbom-format', 'cyclonedx'], project, 'pipe'))
  delete bill.serialNumber
  bill.metadata.timestamp = new Date(Number(git('log', '-1', '--format=%ct')) * 1000).toISOString()
  writeFileSync(file.replace(/tgz$/, 'cdx.json'), `${JSON.stringify(bill, null, 2)}\n`)
  npm(['install', '--silent', '--no-audit', '--no-fund', ...peers], project)
  const licences = [
    ...JSON.parse(npm(['sbom', '--sbom-format', 'cyclonedx'], project, 'pipe')).components.map(
      ({ name, licenses = [] }) => [name, licenses[0]?.license?.id],
    ),
    ...bundled(join(project, 'node_modules', manifest.name, 'dist/src')),
  ]
  for (const [name, licence] of licences)
    if (!LICENCES.has(licence)) throw new Error(`${name} has the licence ${licence}, which nobody has accepted yet`)
  say(`${bill.components.length} packages in an installation; ${licences.length} licences are accepted`)
}

/** The packages in bundles, with their licences. */
function bundled(folder) {
  const lists = ['page/web', 'net'].map(layer => readFileSync(join(folder, layer, 'bundle/LICENSES.txt'), 'utf8'))
  return lists.flatMap(text =>
    [...text.matchAll(/^(\S+) \d\S* \((.+)\)$/gm)].map(([, name, licence]) => [name, licence]),
  )
}

function test(kind) {
  const { test } = ARTEFACTS[kind]
  const isMissing = test.some(name => name.startsWith('test/') && !existsSync(join(ROOT, name)))
  if (options.untested || isMissing) return say(`${kind}: not tested`)
  // Without CI, tests that take long are left out.
  const env = { ...process.env, CI: 'true', SLUICE_ARTEFACTS: out }
  execFileSync(process.execPath, test, { cwd: ROOT, env, stdio: 'inherit' })
}

try {
  const against = objections()
  for (const reason of against) say(`must not be published: ${reason}`)
  if (against.length > 0 && !options['dry-run']) throw new Error('nothing was built; --dry-run builds all the same')
  const commands = []
  for (const kind of options.only) {
    const { script, publish } = ARTEFACTS[kind] ?? {}
    if (!publish) throw new Error(`--only is one of ${Object.keys(ARTEFACTS).join(', ')}, not ${kind}`)
    if (script && !manifest.scripts[script]) say(`${kind}: there is no npm run ${script}`)
    else {
      const files = buildTwice(kind)
      if (kind === 'npm') {
        for (const file of files) checkTypes(file)
        checkContents(files.find(file => file.includes('-sluice-')))
      }
      test(kind)
      commands.push(...files.map(publish))
    }
  }
  say(`\nall of it is in ${out}; what publishes it:\n${commands.join('\n')}`)
} catch (error) {
  process.stderr.write(`release: ${error.message}\n`)
  process.exitCode = 1
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
