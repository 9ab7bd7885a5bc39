import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Debian packages, unpacked into a folder instead of being installed: no root is needed, and nothing else changes on
 * the machine.
 */
export class Apt {
  readonly #cache: string
  readonly #progress: (text: string) => void
  /** Options that give apt package lists of its own; undefined until it is clear whether it needs them. */
  #options: readonly string[] | undefined

  constructor(cache: string, progress: (text: string) => void) {
    this.#cache = cache
    this.#progress = progress
  }

  /**
   * The folder with the files of these packages and of the packages that they need and the machine lacks. Undefined where
   * there is no apt or no such package.
   */
  unpack(packages: readonly string[]): string | undefined {
    const folder = join(this.#cache, packages[0]!)
    if (existsSync(folder)) return folder
    if (!runs('apt-get', '--version') || !runs('dpkg', '--version')) return undefined
    if (!packages.every(name => this.#has(name))) return undefined
    this.#progress(`fetching ${packages.join(', ')} from apt`)
    const work = `${folder}.part`
    rmSync(work, { recursive: true, force: true })
    mkdirSync(join(work, 'root'), { recursive: true })
    const wanted = new Set([...packages, ...this.#needed(packages)])
    must(work, 'apt-get', ...this.#lists(), 'download', ...wanted)
    for (const file of readdirSync(work))
      if (file.endsWith('.deb')) must(work, 'dpkg', '-x', join(work, file), join(work, 'root'))
    renameSync(join(work, 'root'), folder)
    rmSync(work, { recursive: true })
    return folder
  }

  /** Whether a repository has the package; an installed one that none has cannot be fetched. */
  #has(name: string): boolean {
    const { stdout } = spawnSync('apt-cache', [...this.#lists(), 'policy', name], { encoding: 'utf8', env: ENGLISH })
    return /^ +-?\d+ \w+:/m.test(stdout ?? '')
  }

  /** The packages that an installation would add. It is only simulated. */
  #needed(packages: readonly string[]): string[] {
    const args = [...this.#lists(), '--simulate', '--no-install-recommends', 'install', ...packages]
    return [...must(this.#cache, 'apt-get', ...args).matchAll(/^Inst (\S+)/gm)].map(([, name = '']) => name)
  }

  /** A machine without package lists, such as a container, gets some in the cache. */
  #lists(): readonly string[] {
    if (this.#options) return this.#options
    this.#options = []
    if (this.#has('libc6')) return this.#options
    const lists = join(this.#cache, 'apt')
    mkdirSync(join(lists, 'lists/partial'), { recursive: true })
    mkdirSync(join(lists, 'cache/archives/partial'), { recursive: true })
    this.#options = ['-o', `Dir::State::lists=${lists}/lists`, '-o', `Dir::Cache=${lists}/cache`]
    this.#progress('fetching the package lists of apt')
    must(this.#cache, 'apt-get', ...this.#options, 'update')
    return this.#options
  }
}

/** Folders below `root` in which its programs find their libraries. */
export function libraryFolders(root: string): string[] {
  return ['usr/lib', 'lib']
    .map(folder => join(root, folder))
    .filter(existsSync)
    .flatMap(folder => readdirSync(folder).map(name => join(folder, name)))
    .filter(folder => /-linux-gnu\w*$/.test(folder))
}

function runs(command: string, ...args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0
}

function must(cwd: string, command: string, ...args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8', env: ENGLISH })
  if (status === 0) return stdout
  throw new Error(`${command} ${args.join(' ')} failed: ${error?.message ?? stderr.trim()}`)
}

const ENGLISH = { ...process.env, LC_ALL: 'C' }
