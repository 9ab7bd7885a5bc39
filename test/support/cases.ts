import { readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { built, checkout } from './checkout.js'

/**
 * The tables of a test, or one of them, from `cases/NAME.yaml` beside it; `url` is the `import.meta.url` of NAME.test.ts.
 * The type is that of the variable, or is given.
 */
export function casesOf<Cases>(url: string, table?: string): Cases {
  const path = relative(built, fileURLToPath(url))
  const name = `${basename(path).replace(/\..*/, '')}.yaml`
  const all = parse(readFileSync(join(checkout, dirname(path), 'cases', name), 'utf8'), { customTags: ['binary'] })
  return table === undefined ? all : all[table]
}
