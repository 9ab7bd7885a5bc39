import { createHash } from 'node:crypto'
import { basename, join } from 'node:path'
import { readdirSync, readFileSync, statSync } from '../../../lib/files/disk/disk.js'

/** Larger files are rejected, since reading them takes too long. Even long lists of limits are smaller. */
export const MOST_BYTES = 1024 * 1024
const YAML_FILE = /^[^.].*\.ya?ml$/

/** The named file, or all YAML files of a folder. Throws if the path does not exist. */
export function configFiles(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path]
  const names = readdirSync(path).filter(name => YAML_FILE.test(name))
  return names.sort().map(name => join(path, name))
}

/** A short hash of files' names, without their folders, and of their texts: however a path to them is written. */
export function digestOf(files: readonly { readonly file: string; readonly text: string | Buffer }[]): string {
  const digest = createHash('sha256')
  for (const { file, text } of files) digest.update(`${basename(file)}\0${Buffer.byteLength(text)}\0`).update(text)
  return digest.digest('hex').slice(0, 12)
}

/** The current texts of configurations and other files; undefined if a file is larger, or cannot be read. */
export function textsOf(
  paths: readonly string[],
  mostBytes = Number.POSITIVE_INFINITY,
): { file: string; text: Buffer }[] | undefined {
  try {
    const files = paths.flatMap(configFiles).filter(file => statSync(file).isFile())
    if (files.some(file => statSync(file).size > mostBytes)) return undefined
    return files.map(file => ({ file, text: readFileSync(file) }))
  } catch {
    return undefined
  }
}

/** The digest of the current texts of configurations and other files; undefined if a file cannot be read. */
export function digestOfFiles(paths: readonly string[]): string | undefined {
  const files = textsOf(paths)
  return files && digestOf(files)
}

/** The line that sets data_dir, in a file whose structure is not read. */
const DATA_DIR = /^data_dir:[ \t]*(["']?)([^"'#\r\n]*[^"'#\s])\1[ \t]*(?:#.*)?$/m

/** The `data_dir` that these texts seem to set. */
export function writtenDataDir(files: readonly { readonly text: string | Buffer }[]): string | undefined {
  return files.map(({ text }) => DATA_DIR.exec(text.toString())?.[2]).find(Boolean)
}

/**
 * Returns a text that changes when a file of the configuration or of `others` is written or replaced, or when a link to
 * such a file changes. Computing this text takes less time than computing the digest.
 */
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
