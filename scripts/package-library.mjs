// Builds the package of the library: sluice-logs-library-VERSION.tgz, with the files that its entries import, and no others.
// It depends on the packages that these files import. The same input gives the same files.
//
//   node scripts/package-library.mjs [--out FOLDER] [--built FOLDER]
//
// --built names a folder of built files and declarations; without it the checkout is built first.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { programOptions } from './options.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const NAME = '@sluice-logs/library'
/** Of the entries in package.json. */
const ENTRIES = ['.', './client']

const { values: options } = programOptions({
  options: { out: { type: 'string', default: join(ROOT, 'dist') }, built: { type: 'string' } },
})
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const built = resolve(options.built ?? join(ROOT, 'dist'))

/** What a built file or a declaration imports. */
function importsOf(path) {
  const code = readFileSync(path, 'utf8').replace(/\/\*[\s\S]*?\*\//g, '')
  const found = code.matchAll(
    /^(?:import|export)\s(?:[^;'"=]*?\bfrom\s*)?['"]([^'"]+)['"]|\bimport\(['"]([^'"]+)['"]\)/gm,
  )
  return [...found].map(([, statement, expression]) => statement ?? expression)
}

/** Files that the code at `path` loads from its own folder. */
function loadedBy(path) {
  const found = readFileSync(path, 'utf8').matchAll(/new URL\('(\.\/[^']+)', import\.meta\.url\)/g)
  return [...found].map(([, file]) => join(dirname(path), file))
}

/** Adds `path` and everything that it imports to `files`, and packages to `packages`. */
function collect(path, files, packages) {
  if (files.has(path)) return
  files.add(path)
  for (const file of loadedBy(path)) if (file.endsWith('.wasm')) files.add(file)
  for (const specifier of importsOf(path)) {
    if (specifier.startsWith('.')) {
      const target = join(dirname(path), specifier)
      collect(path.endsWith('.d.ts') ? target.replace(/\.js$/, '.d.ts') : target, files, packages)
    } else if (!specifier.startsWith('node:')) packages.add(specifier)
  }
}

const stage = mkdtempSync(join(tmpdir(), 'sluice-library-'))
try {
  if (!options.built) execFileSync('npm', ['run', '--silent', 'build', 'types'], { cwd: ROOT, stdio: 'inherit' })
  const files = new Set()
  const packages = new Set()
  const exports = Object.fromEntries(ENTRIES.map(entry => [entry, manifest.exports[entry]]))
  for (const entry of Object.values(exports))
    for (const path of Object.values(entry)) collect(join(built, relative('dist', path)), files, packages)
  for (const path of files) {
    const target = join(stage, 'dist', relative(built, path))
    mkdirSync(dirname(target), { recursive: true })
    copyFileSync(path, target)
  }
  const { version, license, author, homepage, repository, bugs, publishConfig, type, engines } = manifest
  const dependencies = Object.fromEntries([...packages].sort().map(name => [name, manifest.dependencies[name]]))
  const description = 'The throttle of Sluice as a stream, and the client of its service.'
  const about = { license, author, homepage, repository, bugs, publishConfig }
  const own = { name: NAME, version, description, ...about, type, engines, exports, dependencies }
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(own, null, 2)}\n`)
  copyFileSync(join(ROOT, 'docs/library.md'), join(stage, 'README.md'))
  copyFileSync(join(ROOT, 'LICENSE'), join(stage, 'LICENSE'))
  mkdirSync(options.out, { recursive: true })
  const out = resolve(options.out)
  const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', out]
  const name = execFileSync('npm', args, { cwd: stage, encoding: 'utf8' }).trim()
  process.stdout.write(`${join(out, name)}\n`)
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
} finally {
  rmSync(stage, { recursive: true, force: true })
}
