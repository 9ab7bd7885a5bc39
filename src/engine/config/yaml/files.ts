import { isUtf8 } from 'node:buffer'
import { errorCode, errorText } from '../../../core/errors.js'
import { readFileSync, statSync } from '../../../lib/files/disk/disk.js'
import { formatSize } from '../../../lib/units.js'
import type { Plugins } from '../plugins/load-plugins.js'
import { configFiles, MOST_BYTES } from './config-files.js'
import { parseYaml, type TreeOf } from './load-yaml.js'
import { SourceText } from './node.js'
import { Problems } from './problems.js'

/** The files of a configuration, read and parsed once. */
export interface ConfigSource {
  /** Empty: there is no file. */
  readonly path: string
  readonly files: readonly ConfigFile[]
  /** Why files could not be read. */
  readonly problems: Problems
  /** The loaded plugins. Undefined: the configuration must not list plugins. */
  readonly plugins?: Plugins
}

export interface ConfigFile {
  readonly file: string
  readonly text: string
  readonly tree: TreeOf
}

export const configFile = (file: string, text: string): ConfigFile => ({ file, text, tree: parseYaml(text, file) })

/** Reads a file, or all YAML files in a folder. If `path` is undefined, there are no files. */
export function readConfig(path: string | undefined): ConfigSource {
  const problems = new Problems()
  const files: ConfigFile[] = []
  for (const file of path === undefined ? [] : filesOf(path, problems)) {
    const text = readText(file, problems, file !== path)
    if (text !== undefined) files.push(configFile(file, text))
  }
  return { path: path ?? '', files, problems }
}

function filesOf(path: string, problems: Problems): string[] {
  try {
    const files = configFiles(path)
    if (files.length === 0) report(path, 'there is no *.yaml or *.yml file in this folder', problems)
    return files
  } catch (error) {
    const missing = errorCode(error) === 'ENOENT'
    report(path, missing ? 'the file or folder does not exist' : `cannot be read: ${errorText(error)}`, problems)
    return []
  }
}

/** `isOfFolder`: nobody named the file, so waiting for what writes to a pipe could take forever. */
function readText(file: string, problems: Problems, isOfFolder: boolean): string | undefined {
  try {
    const stats = statSync(file)
    if (stats.isCharacterDevice() || stats.isBlockDevice()) return report(file, 'is a device, not a file', problems)
    if (isOfFolder && !stats.isFile()) return report(file, 'is not a file', problems)
    if (stats.size > MOST_BYTES) return report(file, `is larger than ${formatSize(MOST_BYTES)}`, problems)
    const bytes = readFileSync(file)
    if (isUtf8(bytes)) return bytes.toString()
    let line = 0
    for (let at = 0; isUtf8(bytes.subarray(at, lineEnd(bytes, at))); at = lineEnd(bytes, at)) line++
    problems.add({ source: new SourceText(file, '\n'.repeat(line)), offset: line }, [], 'is not valid UTF-8')
  } catch (error) {
    report(file, `cannot be read: ${errorText(error)}`, problems, file)
  }
  return undefined
}

function lineEnd(bytes: Buffer, from: number): number {
  const end = bytes.indexOf(10, from)
  return end === -1 ? bytes.length : end + 1
}

function report(file: string, message: string, problems: Problems, unusable?: string): undefined {
  problems.add({ source: new SourceText(file, ''), offset: 0 }, [], message, unusable)
}
