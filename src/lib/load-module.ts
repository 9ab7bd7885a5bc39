import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { readFileSync } from './files/disk/disk.js'
import { moduleDigest, moduleFiles } from './modules/module-files.js'
import { load, PACKAGE, resolve as resolveHook, VERSION_PARAMETER, versioned } from './modules/module-hooks.js'
import { importedPackages, markedPlace, placeInPlugin } from './modules/plugin-place.js'

export type ModuleExports = Readonly<Record<string, unknown>>

let prepared = false
/** For each imported URL: how often its import failed. Node.js repeats the error of a URL, so another URL is used. */
const failures = new Map<string, number>()

/**
 * Imports a user's module from any folder. The module is JavaScript, or TypeScript whose types are stripped. It may
 * import `@sluice-logs/sluice` and its subpaths, and gets the modules of the running program. With `fresh`, loads the
 * module again if its file, or a file that it imports by a relative path, has changed. The code of earlier versions
 * stays in memory until the process ends. Throws the error of the module or of Node.js; `loadErrorText` describes it.
 */
export async function loadModule(path: string, { fresh = false }: { fresh?: boolean } = {}): Promise<ModuleExports> {
  prepare()
  const file = resolve(path)
  const first = versioned(pathToFileURL(file).href, fresh ? moduleDigest(file) : '0')
  const failed = failures.get(first)
  const url = failed ? versioned(first, `${new URL(first).searchParams.get(VERSION_PARAMETER)}.${failed}`) : first
  // `import` caches a CommonJS module by its path. Without this deletion, `import` would not load a changed file.
  if (failed === undefined) delete nodeModule.createRequire(import.meta.url).cache[file]
  try {
    const exports = (await import(url)) as ModuleExports
    failures.set(first, failed ?? 0)
    return exports
  } catch (error) {
    failures.set(first, (failed ?? 0) + 1)
    throw error
  }
}

/** Imports the package `name` as a file in `folder` would import it. Changes after the first import have no effect. */
export async function loadPackage(name: string, folder: string): Promise<ModuleExports> {
  prepare()
  importedPackages.push(join('node_modules', name, '/'))
  const asked = [name, pathToFileURL(join(resolve(folder), 'plugins.js')).href]
  return (await import(`${PACKAGE}${encodeURIComponent(JSON.stringify(asked))}`)) as ModuleExports
}

/** Describes on one line an error that `loadModule` threw for this path, with the place of the error if it is known. */
export function loadErrorText(error: unknown, path: string): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ERR_MODULE_NOT_FOUND' && !existsSync(path)) return `the file ${resolve(path)} does not exist`
  const message = error.message.replace(/\s+/g, ' ')
  const place = placeInPlugin(error)
  if (place !== undefined) return `${message} (${place})`
  const broken = error.name === 'SyntaxError' && !message.includes(path) ? syntaxPlace(path) : undefined
  return broken === undefined ? message : `${message} (${broken})`
}

function prepare(): void {
  if (prepared) return
  prepared = true
  const { registerHooks } = nodeModule as { registerHooks?: (hooks: { resolve: unknown; load: unknown }) => void }
  if (registerHooks) registerHooks({ resolve: resolveHook, load })
  else nodeModule.register(new URL('./modules/module-hooks.js', import.meta.url))
}

/**
 * Returns the place of a syntax error in a module or its relative imports, such as `/etc/sluice/mine.js:3:9`. The error
 * that `import` throws does not contain this place. Returns undefined if the JavaScript has no syntax error.
 */
function syntaxPlace(path: string): string | undefined {
  for (const file of moduleFiles(path)) {
    if (!/\.[cm]?js$/.test(file)) continue
    const options = { input: readFileSync(file), encoding: 'utf8', timeout: 5000 } as const
    const type = file.endsWith('.cjs') ? 'commonjs' : 'module'
    const { stderr } = spawnSync(process.execPath, [`--input-type=${type}`, '--check', '-'], options)
    const place = markedPlace(stderr ?? '', '[stdin]')
    if (place) return `${file}:${place.line}:${place.column}`
  }
  return undefined
}
