import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the installed package (or of the checkout): the nearest one above with a package.json. */
export const packageFolder: string = above(dirname(fileURLToPath(import.meta.url)))

function above(folder: string): string {
  const parent = dirname(folder)
  return existsSync(join(folder, 'package.json')) || parent === folder ? folder : above(parent)
}

/** The version of the package, as in `0.1.0`. */
export function packageVersion(): string {
  return (JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8')) as { version: string }).version
}
