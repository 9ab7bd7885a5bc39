import { readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { built, checkout } from './checkout.js'

/** The tables of a test, from `cases/NAME.yaml` beside it; `url` is the `import.meta.url` of NAME.test.ts. */
export function casesOf<Tables>(url: string): Tables {
  const path = relative(built, fileURLToPath(url))
  const name = `${basename(path).replace(/\..*/, '')}.yaml`
  return parse(readFileSync(join(checkout, dirname(path), 'cases', name), 'utf8'), { customTags: ['binary'] })
}
