// Makes a checkout ready to run, and with --test ready to test. It does only what is not done yet.
// It imports no packages: it runs before there are any.
import { spawn } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
process.chdir(ROOT)
const LOCK = '.build/prepare.lock'
/** What `npm run build kernel` and `npm run build bundles` compile, to files that are built here by copying them. */
const COMPILED = [join('src', 'page', 'web', 'kit'), join('src', 'page', 'web', 'page')]
const forTests = process.argv.includes('--test')
const FOLDERS = forTests ? ['src', 'test', 'bench'] : ['src']

function json(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}

/** Whether node_modules holds what package-lock.json says: npm keeps a lock file of what it installed. */
function installed() {
  const wanted = json('package-lock.json')?.packages ?? {}
  const present = json('node_modules/.package-lock.json')?.packages
  if (!present) return false
  return Object.entries(wanted).every(([path, { version, integrity, optional, dev, cpu, os }]) => {
    if (path === '' || (dev && !forTests)) return true
    const found = present[path]
    // Tests use the optional packages that are not for another machine.
    return found
      ? found.version === version && found.integrity === integrity
      : optional === true && (!forTests || (cpu ?? os) !== undefined)
  })
}

/** `npm ci` would remove packages that a daemon of this checkout has yet to load; it serves where there are none. */
function install() {
  const what = forTests || existsSync('node_modules/tap') ? ['--include=dev'] : ['--omit=dev', '--omit=optional']
  const how = existsSync('node_modules') ? ['install', '--no-save'] : ['ci']
  return step('installing packages', 'npm', ...how, ...what, '--no-audit', '--no-fund')
}

function* files(folder) {
  if (!existsSync(folder) || basename(folder) === 'assembly' || COMPILED.includes(folder)) return
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* files(path)
    else yield path
  }
}

/** What is compiled already, is for browsers, or is data, is copied. */
const COPIED = /\.(wasm|css|js|grok|txt)$/

/** What is built of a source: JavaScript of TypeScript, or a copy. Undefined for anything else. */
function builtOf(source) {
  if (/\.c?ts$/.test(source)) return join('dist', source.replace(/ts$/, 'js'))
  return COPIED.test(source) ? join('dist', source) : undefined
}

/** A built file has the time of its source, to about a millisecond. */
function outdated() {
  return FOLDERS.flatMap(folder => [...files(folder)]).filter(source => {
    const out = builtOf(source)
    if (!out) return false
    const built = statSync(out, { throwIfNoEntry: false })
    return Math.abs((built?.mtimeMs ?? 0) - statSync(source).mtimeMs) > 2
  })
}

/** Replaces types by blanks, so that lines and columns stay. Types are checked by `npm run check`. */
function build(sources) {
  const { transformSync } = createRequire(join(ROOT, 'package.json'))('@swc/wasm-typescript')
  for (const source of sources) {
    const out = builtOf(source)
    mkdirSync(dirname(out), { recursive: true })
    if (COPIED.test(source)) copyFileSync(source, `${out}.new`)
    else writeFileSync(`${out}.new`, stripped(transformSync, source))
    const { mtime } = statSync(source)
    utimesSync(`${out}.new`, mtime, mtime)
    // A process of this checkout may be about to load it.
    renameSync(`${out}.new`, out)
  }
  chmodSync(json('package.json').bin.sluice, 0o755)
}

function stripped(transformSync, source) {
  try {
    const options = { mode: 'strip-only', module: !source.endsWith('.cts'), filename: source }
    return transformSync(readFileSync(source, 'utf8'), options).code
  } catch (error) {
    throw new Error(`${source}: ${error?.message ?? error}`)
  }
}

/** Removes what was built from sources that are gone: a test would go on running. */
function removeOrphans() {
  for (const path of FOLDERS.flatMap(folder => [...files(join('dist', folder))])) {
    const copied = path.slice('dist/'.length)
    const compiled = copied.replace(/(\.d\.(c?)ts|\.(c?)js)$/, '.$2$3ts')
    if (!existsSync(compiled) && !existsSync(copied)) rmSync(path)
  }
}

/** Runs a program; a dot a second shows that it works. */
async function step(text, command, ...args) {
  const begin = performance.now()
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += chunk))
  process.stderr.write(`${text} ...`)
  const progress = setInterval(() => process.stderr.write('.'), 1000)
  const code = await new Promise(resolve => child.on('error', resolve).on('close', resolve))
  clearInterval(progress)
  process.stderr.write(code === 0 ? ` ${((performance.now() - begin) / 1000).toFixed(1)} s\n` : ' failed\n')
  if (code === 0) return
  const reason = `${code instanceof Error ? code.message : output}`.trimEnd()
  throw new Error(`${reason}\n\n${[command, ...args].join(' ')} failed in ${ROOT}`)
}

function alive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** One preparation at a time; the lock of a process that is gone is taken over. */
async function locked(work) {
  const owner = join(LOCK, 'pid')
  mkdirSync(dirname(LOCK), { recursive: true })
  for (let said = false; ; ) {
    try {
      mkdirSync(LOCK)
      break
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    const age = Date.now() - (statSync(LOCK, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    const pid = json(owner)
    if (pid ? !alive(pid) : age > 5000) rmSync(LOCK, { recursive: true, force: true })
    else {
      if (!said) process.stderr.write('waiting for another preparation of this checkout ...\n')
      said = true
      await new Promise(resolve => setTimeout(resolve, 200))
    }
  }
  try {
    writeFileSync(owner, String(process.pid))
    return await work()
  } finally {
    rmSync(LOCK, { recursive: true, force: true })
  }
}

async function prepare() {
  if (!installed()) await install()
  const sources = outdated()
  if (sources.length > 0) build(sources)
  removeOrphans()
}

const [major, minor] = process.versions.node.split('.').map(Number)
try {
  if (major < 20 || (major === 20 && minor < 19))
    throw new Error(`Node.js 20.19 or newer is needed, not ${process.version}`)
  const ready = installed() && outdated().length === 0
  if (!ready) await locked(prepare)
  else removeOrphans()
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
