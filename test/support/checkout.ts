import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

function above(folder: string, name: string): string {
  const parent = dirname(folder)
  return existsSync(join(folder, name)) || parent === folder ? folder : above(parent, name)
}

/** The folder of the checkout. */
export const checkout = above(dirname(fileURLToPath(import.meta.url)), 'package.json')
/** The folder that the compiler wrote this test to. */
export const built = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
/** The program, for node. */
export const sluiceMain = join(built, 'src/cli/main.js')
