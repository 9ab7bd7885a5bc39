import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Apt, libraryFolders } from './apt.js'

/** An executable, with what it needs to run where it is. */
export interface Program {
  readonly file: string
  readonly version: string
  readonly env: Readonly<Record<string, string>>
  /** The folder that its packages were unpacked into. */
  readonly root?: string
}

export interface Wanted {
  readonly name: string
  /** Debian packages that have it; the first one is the main one. */
  readonly packages: readonly string[]
  /** Where the executable is in the packages. */
  readonly path: string
  /** Folders in the packages with further libraries. */
  readonly libraries?: readonly string[]
  readonly versionOption: string
  /** The path that the user gave. */
  readonly given?: string | undefined
}

/** The program at the given path, else from Debian packages, else from PATH; undefined when it is nowhere. */
export function findProgram(wanted: Wanted, apt: Apt): Program | undefined {
  if (wanted.given !== undefined) return programAt(wanted.given, wanted.versionOption)
  const root = apt.unpack(wanted.packages)
  if (root !== undefined && existsSync(join(root, wanted.path))) {
    const folders = [...libraryFolders(root), ...(wanted.libraries ?? []).map(folder => join(root, folder))]
    const [file, env] = [join(root, wanted.path), { LD_LIBRARY_PATH: folders.join(delimiter) }]
    return { file, version: versionOf(file, wanted.versionOption, env), env, root }
  }
  const found = inPath(wanted.name)
  return found === undefined ? undefined : programAt(found, wanted.versionOption)
}

/** A program that needs nothing besides its executable. */
export function programAt(file: string, versionOption: string): Program {
  return { file, version: versionOf(file, versionOption), env: {} }
}

/** The first version number that the program prints. */
function versionOf(file: string, option: string, env: Readonly<Record<string, string>> = {}): string {
  const { stdout, stderr, error } = spawnSync(file, [option], { encoding: 'utf8', env: { ...process.env, ...env } })
  const version = /\d+\.\d+(\.\d+)*/.exec(stdout ?? '')?.[0]
  if (version !== undefined) return version
  throw new Error(`${file} ${option} printed no version: ${error?.message ?? (stderr || stdout).trim()}`)
}

/** Daemons are often in folders that the PATH of a user lacks. */
export function inPath(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']
  return folders.map(folder => join(folder, name)).find(existsSync)
}
