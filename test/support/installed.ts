import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { built, checkout } from './checkout.js'

/**
 * Makes `folder` a project of its own that has the package installed, as it was built for this test, and the other
 * packages that its examples use; copies `files` of the checkout there and returns their new paths.
 */
export function install(folder: string, files: readonly string[]): string[] {
  const modules = join(folder, 'node_modules')
  const own = join(modules, '@sluice-logs/sluice')
  mkdirSync(own, { recursive: true })
  const { dependencies, exports } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8'))
  writeFileSync(join(own, 'package.json'), JSON.stringify({ name: '@sluice-logs/sluice', type: 'module', exports }))
  symlinkSync(built, join(own, 'dist'))
  for (const name of Object.keys(dependencies)) {
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(checkout, 'node_modules', name), join(modules, name))
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
  return files.map(file => {
    const copy = join(folder, basename(file))
    copyFileSync(join(checkout, file), copy)
    return copy
  })
}
