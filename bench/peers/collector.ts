import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { builtWithGo } from './go-build.js'
import { type Program, programAt } from './programs.js'

/** An OpenTelemetry Collector with the components of conf/otelcol-builder.yaml, built by its builder. */
export function builtCollector(cache: string, builderConfig: string, progress: (text: string) => void): Program {
  const config = readFileSync(builderConfig, 'utf8')
  const version = /^ {2}version: (\S+)$/m.exec(config)![1]!
  // With other components it is another program.
  const digest = createHash('sha256').update(config).digest('hex').slice(0, 8)
  const file = builtWithGo(cache, `otelcol-${version}-${digest}`, progress, ({ folder, sources, go, run }) => {
    go('install', `go.opentelemetry.io/collector/cmd/builder@v${version}`)
    run(join(folder, 'bin/builder'), '--config', builderConfig, '--skip-get-modules', '--skip-compilation')
    // The builder would fetch everything that the tests of all modules need, which is several times as much.
    const modules = [...config.matchAll(/gomod: (.*)/g)].map(([, module]) => module)
    modules.push(`go.opentelemetry.io/collector/otelcol v${version}`)
    // Without a version of the language, Go would read the requirements of thousands of modules.
    writeFileSync(join(sources, 'go.mod'), `module otelcol\n\ngo 1.24\n\nrequire (\n${modules.join('\n')}\n)\n`)
    return '.'
  })
  return programAt(file, '--version')
}
