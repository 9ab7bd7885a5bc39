import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { inPath } from './programs.js'

/** The folder in which a program is built. It is removed afterwards, with all modules and object files. */
export interface GoBuild {
  readonly folder: string
  /** A folder in it for the main module, empty at first. */
  readonly sources: string
  /** Runs Go in `sources`, and returns what it prints. */
  go(...args: readonly string[]): string
  /** Runs another program. */
  run(file: string, ...args: readonly string[]): string
}

/** The program `name` in the cache. `sources` makes its main module, and returns the package to build. */
export function builtWithGo(
  cache: string,
  name: string,
  progress: (text: string) => void,
  sources: (build: GoBuild) => string,
): string {
  const file = join(cache, name)
  if (existsSync(file)) return file
  if (inPath('go') === undefined) throw new Error('Go is needed to build it, and is not in PATH')
  progress(`building ${name}; this takes minutes`)
  const folder = join(cache, `${name}.part`)
  const main = join(folder, 'sources')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(main, { recursive: true })
  const flags = spawnSync('go', ['env', 'GOFLAGS'], { encoding: 'utf8' }).stdout.trim()
  const env = {
    ...process.env,
    GOPATH: join(folder, 'path'),
    GOCACHE: join(folder, 'objects'),
    GOBIN: join(folder, 'bin'),
    GOFLAGS: `${flags} -modcacherw`.trim(),
  }
  const run = (cwd: string, file: string, args: readonly string[]) => {
    const { status, stdout, stderr, error } = spawnSync(file, args, { cwd, env, encoding: 'utf8' })
    if (status !== 0) throw new Error(`${file} ${args.join(' ')} failed: ${error?.message ?? lastLines(stderr)}`)
    return stdout
  }
  const go = (...args: readonly string[]) => run(main, 'go', args)
  const built = join(folder, 'program')
  const what = sources({ folder, sources: main, go, run: (file, ...args) => run(folder, file, args) })
  go('build', '-mod=mod', '-trimpath', '-ldflags=-s -w', '-o', built, what)
  renameSync(built, file)
  rmSync(folder, { recursive: true, force: true })
  return file
}

/** Copies a module, which becomes the main one: only then its replace directives count. */
export function copyModule({ go, sources }: GoBuild, module: string): void {
  const { Dir } = JSON.parse(go('mod', 'download', '-json', module)) as { Dir: string }
  cpSync(Dir, sources, { recursive: true })
  // Files of the module cache are read-only. Go adds requirements and sums of a main module.
  for (const name of ['go.mod', 'go.sum']) chmodSync(join(sources, name), 0o644)
}

function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-5).join('\n')
}
