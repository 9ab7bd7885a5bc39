import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { transformSync } from '@swc/wasm-typescript'
import { checkout } from '../../support/checkout.js'

/** The commit `base`. */
const BASE = '63b5f196e443bae57528cef656a6ed0a747a593d'

/** A built program. */
export interface Product {
  readonly name: string
  /** For node. */
  readonly main: string
}

/** What the main branch had before its last commit or merge that changed the program. */
export function productBefore(): Product {
  const changed = run('git', ['log', '-1', '--first-parent', '--format=%H', '--', 'src'], checkout).trim()
  return builtProduct(`${changed}^`)
}

/**
 * Builds the program of a commit, or of `base`, in a folder of its own. The checkout keeps the result. A build takes some
 * seconds and, if the commit depends on other packages than this checkout, npm's registry.
 */
export function builtProduct(commit: string): Product {
  const name = commit === 'base' ? BASE : commit
  const id = run('git', ['rev-parse', '--verify', '--quiet', `${name}^{commit}`], checkout, UNKNOWN).trim()
  const folder = join(checkout, '.build/same', id)
  const product = { name: `${commit} (${id.slice(0, 8)})`, main: join(folder, 'dist/src/cli/main.js') }
  if (existsSync(folder)) return product
  process.stderr.write(`building ${product.name} ...\n`)
  mkdirSync(join(checkout, '.build/same'), { recursive: true })
  const building = mkdtempSync(`${folder}.`)
  try {
    run('sh', ['-c', `git -C "$0" archive ${id} | tar -x`, checkout], building)
    if (isSame('package-lock.json', building))
      symlinkSync(join(checkout, 'node_modules'), join(building, 'node_modules'))
    else run('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund'], building)
    buildSources(building)
    // Another process may have built it in the meantime.
    if (!existsSync(folder)) renameSync(building, folder)
  } finally {
    rmSync(building, { recursive: true, force: true })
  }
  return product
}

const isSame = (file: string, folder: string) =>
  readFileSync(join(folder, file)).equals(readFileSync(join(checkout, file)))

const TYPES = { mode: 'transform' } as const

/** Removes the types, as tsc does without checking them: that takes a tenth of the time. */
function buildSources(folder: string): void {
  for (const file of readdirSync(join(folder, 'src'), { encoding: 'utf8', recursive: true })) {
    if (!/\.(c?ts|wasm|css|js|grok)$/.test(file) || file.includes('/assembly/')) continue
    const path = join(folder, 'src', file)
    const out = join(folder, 'dist/src', file.replace(/ts$/, 'js'))
    mkdirSync(dirname(out), { recursive: true })
    if (!file.endsWith('ts')) cpSync(path, out)
    else
      writeFileSync(out, transformSync(readFileSync(path, 'utf8'), { ...TYPES, module: !file.endsWith('.cts') }).code)
  }
  // At `base` the compiled kernel was not in the repository.
  const kernel = join(folder, 'src/kernel/assembly/index.ts')
  if (existsSync(kernel)) {
    const asc = join(checkout, 'node_modules/assemblyscript/bin/asc.js')
    const memory = ['--importMemory', '--initialMemory', '645', '--maximumMemory', '645']
    const options = ['-O3', '--runtime', 'stub', '--enable', 'simd', '--use', 'abort=', ...memory]
    run(process.execPath, [asc, kernel, ...options, '-o', join(folder, 'dist/src/kernel/kernel.wasm')], folder)
  }
  chmodSync(join(folder, 'dist/src/cli/main.js'), 0o755)
}

/** Copies the built program of this checkout to `folder`, because the checkout may be built again during a run. */
export function presentProduct(folder: string): Product {
  for (const path of ['package.json', 'dist/src', 'config', 'docs'])
    cpSync(join(checkout, path), join(folder, path), { recursive: true })
  symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'))
  return { name: 'this checkout', main: join(folder, 'dist/src/cli/main.js') }
}

const UNKNOWN = 'There is no such commit in this clone. If the clone is shallow, run `git fetch --unshallow`.'

function run(program: string, args: readonly string[], cwd: string, advice = ''): string {
  try {
    return execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${[program, ...args].join(' ')} failed. ${advice}\n${stdout}${stderr}`)
  }
}
