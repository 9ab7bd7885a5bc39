import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

function above(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : above(dirname(folder))
}

/** The folder of the checkout that this was built in. */
export const CHECKOUT = above(dirname(fileURLToPath(import.meta.url)))
/** The page that the benchmarks write their tables into. */
export const PERFORMANCE_PAGE = join(CHECKOUT, 'docs/performance.md')
