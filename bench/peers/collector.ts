import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inPath, type Program, programAt } from './programs.js'

/**
 * An OpenTelemetry Collector with the components of conf/otelcol-builder.yaml, built by its builder. Modules and
 * object files go into the cache, and are removed afterwards.
 */
export function builtCollector(cache: string, builderConfig: string, progress: (text: string) => void): Program {
  const config = readFileSync(builderConfig, 'utf8')
  const version = /^ {2}version: (\S+)$/m.exec(config)![1]!
  const file = join(cache, `otelcol-${version}`)
  if (!existsSync(file)) build(cache, builderConfig, version, file, progress)
  return programAt(file, '--version')
}

function build(
  cache: string,
  builderConfig: string,
  version: string,
  file: string,
  progress: (text: string) => void,
): void {
  if (inPath('go') === undefined) throw new Error('Go is needed to build it, and is not in PATH')
  progress('building an OpenTelemetry Collector; this takes minutes')
  const work = join(cache, 'otelcol.part')
  const sources = join(work, 'sources')
  rmSync(work, { recursive: true, force: true })
  mkdirSync(sources, { recursive: true })
  const flags = spawnSync('go', ['env', 'GOFLAGS'], { encoding: 'utf8' }).stdout.trim()
  const env = {
    ...process.env,
    GOPATH: join(work, 'path'),
    GOCACHE: join(work, 'objects'),
    GOBIN: join(work, 'bin'),
    GOFLAGS: `${flags} -modcacherw`.trim(),
  }
  const go = (...args: readonly string[]) => {
    const { status, stderr, error } = spawnSync('go', args, { cwd: sources, env, encoding: 'utf8' })
    if (status !== 0) throw new Error(`go ${args.join(' ')} failed: ${error?.message ?? lastLines(stderr)}`)
  }
  go('install', `go.opentelemetry.io/collector/cmd/builder@v${version}`)
  const generated = spawnSync(
    join(work, 'bin/builder'),
    ['--config', builderConfig, '--skip-get-modules', '--skip-compilation'],
    { cwd: work, env, encoding: 'utf8' },
  )
  if (generated.status !== 0) throw new Error(`the builder of the collector failed: ${lastLines(generated.stderr)}`)
  // The builder would fetch everything that the tests of all modules need, which is several times as much.
  const modules = [...readFileSync(builderConfig, 'utf8').matchAll(/gomod: (.*)/g)].map(([, module]) => module)
  modules.push(`go.opentelemetry.io/collector/otelcol v${version}`)
  // Without a version of the language, Go would read the requirements of thousands of modules.
  writeFileSync(join(sources, 'go.mod'), `module otelcol\n\ngo 1.24\n\nrequire (\n${modules.join('\n')}\n)\n`)
  go('build', '-mod=mod', '-trimpath', '-ldflags=-s -w', '-o', join(work, 'otelcol'), '.')
  renameSync(join(work, 'otelcol'), file)
  rmSync(work, { recursive: true, force: true })
}

function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-5).join('\n')
}
