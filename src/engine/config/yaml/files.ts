import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { readdirSync, readFileSync, statSync } from '../../../lib/files/remote/guarded-fs.js'

const YAML_FILE = /^[^.].*\.ya?ml$/

/** The files of a configuration: the named one, or all YAML files of a folder. Throws if the path does not exist. */
export function configFiles(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path]
  const names = readdirSync(path).filter(name => YAML_FILE.test(name))
  return names.sort().map(name => join(path, name))
}

/** A short hash of the names and texts of files. */
export function digestOf(files: readonly { readonly file: string; readonly text: string | Buffer }[]): string {
  const digest = createHash('sha256')
  for (const { file, text } of files) digest.update(`${file}\0${Buffer.byteLength(text)}\0`).update(text)
  return digest.digest('hex').slice(0, 12)
}

/** The current digest of configurations and other files; undefined if they cannot be read. */
export function digestOfFiles(paths: readonly string[]): string | undefined {
  try {
    return digestOf(paths.flatMap(configFiles).map(file => ({ file, text: readFileSync(file) })))
  } catch {
    return undefined
  }
}

/** A text that changes when a file of the configuration, or another one, is written, replaced or switched. Cheaper than the digest. */
export function stateOfFiles(path: string, others: readonly string[] = []): string {
  try {
    return [...configFiles(path), ...others]
      .map(file => {
        const { dev, ino, size, mtimeNs, ctimeNs } = statSync(file, { bigint: true })
        return `${file} ${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`
      })
      .join('\n')
  } catch (error) {
    return String(error)
  }
}
