import { spawnSync } from 'node:child_process'
import { readFileSync } from '../files/remote/guarded-fs.js'
import { moduleFiles } from './module-files.js'

const FOUND = /^\[stdin\]:(\d+)\n/m

/**
 * Where the syntax error in a module is, or in what it imports by relative paths, as `/etc/sluice/mine.js:3`. Node.js
 * does not say it when the module is imported. Undefined if there is none in JavaScript.
 */
export function syntaxPlace(path: string): string | undefined {
  for (const file of moduleFiles(path)) {
    if (!/\.m?js$/.test(file)) continue
    const options = { input: readFileSync(file), encoding: 'utf8', timeout: 5000 } as const
    const { stderr } = spawnSync(process.execPath, ['--input-type=module', '--check', '-'], options)
    const line = FOUND.exec(stderr ?? '')?.[1]
    if (line !== undefined) return `${file}:${line}`
  }
  return undefined
}
