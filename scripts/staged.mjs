// What the Debian package and the container image have in common: the program in /usr/lib/sluice, with the packages of npm
// that it needs, and the Node.js that they bring.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { basename, dirname, extname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { licencesOf, licenceText } from './licences.mjs'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
export const LIB = 'usr/lib/sluice'
const QUICKSTART = 'config/examples/quickstart.yaml'
export const manifest = JSON.parse(fs.readFileSync(join(ROOT, 'package.json'), 'utf8'))
/** The time of everything that is built: SOURCE_DATE_EPOCH, without it that of the last commit. */
export const epoch = Number(process.env.SOURCE_DATE_EPOCH ?? lastCommit())

/** A release of Node.js with long-term support, as npm has it for each architecture. Raise it for security fixes. */
export const NODE = '24.22.1'
export const ARCHITECTURES = {
  amd64: {
    node: 'linux-x64',
    integrity: 'sha512-ogMoFZRQLCX7VpzQAtfs7q0DVFa7D79LKhmttHZNGJrz0Yp5/LtU0MISM7gvThSo6AbVelac9uVu9Jfm1464ow==',
  },
  arm64: {
    node: 'linux-arm64',
    integrity: 'sha512-1uD+Qvcu14ZJ6JVhsAiOeAiCQI0Nnu+y60VJnwhq8nGr+1l7XKFnNlZ42f619d+h5UzRQtO3pwpBEM2FYR/83Q==',
  },
}
/** Where Node.js is when it comes with the program. */
export const OWN_NODE = `${LIB}/bin/node`

const RUNS = new Set(['.js', '.cjs', '.mjs', '.json', '.node', '.wasm'])
/** Folders at the top of a package. */
const FOR_DEVELOPERS =
  /^(tests?|specs?|docs?|examples?|benchmarks?|bench|integration|fixtures|scripts|deps|browser|types)$/
const DEVELOPERS_FILE = /^(eslint\.config|gruntfile|bench|benchmark|test|example|package-lock)\b|\.test\.|^tsconfig/

function lastCommit() {
  try {
    return execFileSync('git', ['-C', ROOT, 'log', '-1', '--format=%ct'], { encoding: 'utf8' })
  } catch {
    return fs.statSync(join(ROOT, 'package.json')).mtimeMs / 1000
  }
}

export function* files(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* files(path)
    else yield path
  }
}

/** Copies what `wanted` says of the path below `from`. */
export function copy(from, to, wanted = () => true) {
  for (const path of files(from)) {
    const inside = relative(from, path)
    if (wanted(inside)) write(join(to, inside), fs.readFileSync(path), 0o644)
  }
}

export function write(path, text, mode) {
  fs.mkdirSync(dirname(path), { recursive: true })
  fs.writeFileSync(path, text)
  if (mode) fs.chmodSync(path, mode)
}

/** The packages of npm that run with the program and its service, by their folder. */
function packages() {
  const lock = JSON.parse(fs.readFileSync(join(ROOT, 'package-lock.json'), 'utf8')).packages
  const paths = Object.keys(lock).filter(
    path => path.startsWith('node_modules/') && !lock[path].dev && !lock[path].link,
  )
  const missing = paths.find(path => !lock[path].os && !lock[path].cpu && !fs.existsSync(join(ROOT, path)))
  if (missing) throw new Error(`${missing} is not installed; run npm ci`)
  return paths.filter(path => fs.existsSync(join(ROOT, path))).sort()
}

/** Whether a file of a package is needed at run time: programs of its own are not. */
function runs(root, path, arch) {
  const parts = path.split('/')
  if (parts.some(part => part === 'node_modules' || part.startsWith('.')) || !RUNS.has(extname(path))) return false
  if (fs.readFileSync(join(root, path), 'latin1').startsWith('#!')) return false
  if (parts[0] === 'prebuilds') return parts[1] === ARCHITECTURES[arch].node && !/\.musl\.node$/.test(path)
  return !(parts.length > 1 && FOR_DEVELOPERS.test(parts[0])) && !DEVELOPERS_FILE.test(basename(path))
}

/** Package, licence and its text, of all that comes with the program. */
export function licences(nodeFolder, known) {
  const texts = licencesOf(
    packages().map(path => join(ROOT, path)),
    known,
  )
  if (nodeFolder) texts.set(fs.readFileSync(join(nodeFolder, 'LICENSE'), 'utf8').trim(), [`Node.js ${NODE} (MIT)`])
  const own = fs.readFileSync(join(ROOT, 'LICENSE'), 'utf8')
  return `Sluice:\n\n${own}\n${'-'.repeat(72)}\n\nWith it come these packages, under licences of their own:\n\n${licenceText(texts)}`
}

/** A folder with bin/node and LICENSE. It is brought once. */
export function nodeFor(arch) {
  const { node, integrity } = ARCHITECTURES[arch]
  const kept = join(ROOT, '.build', `node-${node}-${NODE}`)
  if (fs.existsSync(kept)) return kept
  const folder = `${kept}.${process.pid}`
  fs.mkdirSync(folder, { recursive: true })
  try {
    const args = ['pack', `node-${node}@${NODE}`, '--silent', '--pack-destination', folder]
    const archive = join(folder, execFileSync('npm', args, { cwd: folder, encoding: 'utf8' }).trim())
    const sum = `sha512-${createHash('sha512').update(fs.readFileSync(archive)).digest('base64')}`
    if (sum !== integrity) throw new Error(`${basename(archive)} has the checksum ${sum}, not ${integrity}`)
    execFileSync('tar', ['-xzf', archive, '-C', folder, '--strip-components=1', 'package/bin/node', 'package/LICENSE'])
    fs.rmSync(archive)
    // Another build may have been faster.
    if (!fs.existsSync(kept)) fs.renameSync(folder, kept)
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
  return kept
}

/** Copies that Node.js to its place below `stage`. */
export function stageNode(stage, nodeFolder) {
  write(join(stage, OWN_NODE), fs.readFileSync(join(nodeFolder, 'bin/node')), 0o755)
}

/** Makes dist ready. */
export function prepare() {
  execFileSync(process.execPath, [join(ROOT, 'scripts/prepare.mjs')], { stdio: ['ignore', 2, 2] })
}

/** The program of the built files in `built`, run by the Node.js at `node`; gives a function that runs it. */
export function stageProgram(stage, { built, version, arch, node }) {
  if (!/^\d[\w.]*(-[\w.]+)?$/.test(version)) throw new Error(`${version} is no version`)
  if (!ARCHITECTURES[arch]) throw new Error(`--arch is one of ${Object.keys(ARCHITECTURES).join(', ')}, not ${arch}`)
  const lib = join(stage, LIB)
  const { name, description, type, exports, license, engines } = manifest
  const own = { name, version, description, license, type, engines, exports, bin: manifest.bin }
  write(join(lib, 'package.json'), `${JSON.stringify(own, null, 2)}\n`)
  copy(join(built, 'src'), join(lib, 'dist/src'), path => /\.(c?js|wasm|css|grok|txt)$/.test(path))
  // What sluice quickstart runs: /usr/share/doc may be left out of an installation.
  write(join(lib, QUICKSTART), fs.readFileSync(join(ROOT, QUICKSTART)))
  const main = join(lib, manifest.bin.sluice)
  // Whatever else is in somebody's PATH.
  write(main, fs.readFileSync(main, 'utf8').replace(/^#!.*/, `#!/${node}`), 0o755)
  for (const path of packages()) copy(join(ROOT, path), join(lib, path), inside => runs(join(ROOT, path), inside, arch))
  fs.mkdirSync(join(stage, 'usr/bin'), { recursive: true })
  fs.symlinkSync(`../lib/sluice/${manifest.bin.sluice}`, join(stage, 'usr/bin/sluice'))
  return (...args) =>
    execFileSync(process.execPath, [main, ...args], { env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch) } })
}

/** The modes and times of all that is there depend on nothing but the input. */
export function settle(path) {
  const found = fs.lstatSync(path)
  if (found.isDirectory()) for (const name of fs.readdirSync(path)) settle(join(path, name))
  if (!found.isSymbolicLink()) fs.chmodSync(path, found.isDirectory() || found.mode & 0o100 ? 0o755 : 0o644)
  fs.lutimesSync(path, epoch, epoch)
}
