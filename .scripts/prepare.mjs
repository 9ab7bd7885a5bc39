// Makes a checkout ready to run, and with --test ready to test: installs, builds. Does only what is not done yet.
// No dependencies: it runs before there are any.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
process.chdir(ROOT)
const SOURCES = ['src', 'test', 'bench']
const BUILD_STAMP = 'dist/.sources'
/** The sources in AssemblyScript, and what becomes of them. */
const KERNEL = 'src/kernel/assembly'
const KERNEL_OUT = 'dist/src/kernel/kernel.wasm'
const KERNEL_STAMP = 'dist/.kernel'
const LOCK = '.build/prepare.lock'

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
  return Object.entries(wanted).every(([path, { version, integrity, optional }]) => {
    if (path === '') return true
    const found = present[path]
    return found ? found.version === version && found.integrity === integrity : optional === true
  })
}

/** Whether tap was generated with the plugins that package.json asks for: it must be, after each installation. */
function tapBuilt() {
  const plugins = json('package.json').tap.plugin
  try {
    const code = readFileSync('node_modules/@tapjs/test/test-built/dist/esm/index.js', 'utf8')
    const signature = /export const signature = `([^`]*)`/.exec(code)?.[1].split('\n') ?? []
    return plugins.every(plugin => signature.includes(plugin.replace('!', '')) !== plugin.startsWith('!'))
  } catch {
    return false
  }
}

function* files(folder) {
  if (!existsSync(folder)) return
  for (const entry of readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* files(path)
    else yield path
  }
}

/** Changes when a source in `folders`, the compilers or their settings do. */
function digestOf(...folders) {
  const digest = createHash('sha256')
  for (const path of [
    '.scripts/prepare.mjs',
    'tsconfig.json',
    'package.json',
    'package-lock.json',
    ...folders.flatMap(dir => [...files(dir)]),
  ]) {
    const { size, mtimeMs } = statSync(path)
    digest.update(`${path} ${size} ${mtimeMs}\n`)
  }
  return digest.digest('hex')
}

function built(stamp, digest) {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === digest
}

/** Compiles the kernel to WebAssembly. Its memory is that of `src/lib/lines/chunk-memory.ts`, of the same size. */
async function buildKernel() {
  const digest = digestOf(KERNEL)
  if (built(KERNEL_STAMP, digest) && existsSync(KERNEL_OUT)) return
  const pages = ['--importMemory', '--initialMemory', '645', '--maximumMemory', '645']
  const options = ['-O3', '--runtime', 'stub', '--enable', 'simd', '--use', 'abort=', ...pages, '-o', KERNEL_OUT]
  const entry = join(KERNEL, 'index.ts')
  await step('building the kernel', ...node('node_modules/assemblyscript/bin/asc.js', entry, ...options))
  writeFileSync(KERNEL_STAMP, digest)
}

/** Removes what was compiled from sources that are gone: a test would go on running. */
function removeOrphans() {
  for (const path of SOURCES.flatMap(dir => [...files(join('dist', dir))])) {
    if (path === KERNEL_OUT) continue
    const source = path.slice('dist/'.length).replace(/(\.d\.(c?)ts|\.(c?)js|\.(c?)js\.map)$/, '.$2$3$4ts')
    if (!existsSync(source)) rmSync(path)
  }
}

async function step(text, command, ...args) {
  const begin = performance.now()
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += chunk))
  process.stderr.write(`${text} ...`)
  const code = await new Promise(resolve => child.on('error', resolve).on('close', resolve))
  process.stderr.write(code === 0 ? ` ${((performance.now() - begin) / 1000).toFixed(1)} s\n` : ' failed\n')
  if (code === 0) return
  const told = `${code instanceof Error ? code.message : output}`.trimEnd()
  throw new Error(`${told}\n\n${[command, ...args].join(' ')} failed in ${ROOT}`)
}

function node(script, ...args) {
  return [process.execPath, script, ...args]
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
  for (let told = false; ; ) {
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
      if (!told) process.stderr.write('waiting for another preparation of this checkout ...\n')
      told = true
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

async function prepare(forTests) {
  if (!installed()) await step('installing packages', 'npm', 'ci', '--include=dev', '--no-audit', '--no-fund')
  if (forTests && !tapBuilt()) await step('setting up tap', ...node('node_modules/tap/dist/esm/run.mjs', 'build'))
  const digest = digestOf(...SOURCES)
  if (built(BUILD_STAMP, digest)) return
  await step('building', ...node('node_modules/typescript/bin/tsc', '-p', '.'))
  await buildKernel()
  removeOrphans()
  chmodSync(json('package.json').bin.sluice, 0o755)
  writeFileSync(BUILD_STAMP, digest)
}

const [major, minor] = process.versions.node.split('.').map(Number)
try {
  if (major < 20 || (major === 20 && minor < 18))
    throw new Error(`Node.js 20.18 or newer is needed, not ${process.version}`)
  const forTests = process.argv.includes('--test')
  const ready = installed() && built(BUILD_STAMP, digestOf(...SOURCES)) && (!forTests || tapBuilt())
  if (!ready) await locked(() => prepare(forTests))
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
