import { components } from '../components.js'
import { type Config, loadConfig } from '../config/load.js'
import type { AnyDefinition } from '../core/component.js'
import { ConfigError, formatProblem } from '../core/errors.js'
import { systemClock } from '../lib/time.js'
import type { Io } from './command-line.js'
import { EXIT } from './dispatch.js'

/**
 * Checks configurations without doing anything with them: no network, and no other file is opened than the certificates
 * and keys that they name; of the files that destinations write to it is only examined what they are. Every problem is a
 * line on stderr; a configuration that holds is a line on stdout.
 */
export function validate(
  paths: readonly string[],
  env: NodeJS.ProcessEnv,
  out: Pick<Io, 'stdout' | 'stderr'>,
  known: readonly AnyDefinition[] = components,
): number {
  let code: number = EXIT.done
  for (const path of paths) {
    try {
      const here = { onThisMachine: true, inspectTls: { wall: systemClock.wall() } }
      const config = loadConfig(path, { env, components: known, serviceAlone: true, ...here })
      for (const warning of config.warnings) {
        out.stderr.write(`${formatProblem({ ...warning, message: `warning: ${warning.message}` })}\n`)
      }
      out.stdout.write(`${path}: ok (${amounts(config)})\n`)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      out.stderr.write(`${error.message}\n`)
      code = EXIT.config
    }
  }
  return code
}

function amounts(config: Config): string {
  const count = (name: 'source' | 'processor' | 'destination') => {
    const { length } = config[`${name}s`]
    return `${length} ${name}${length === 1 ? '' : 's'}`
  }
  if (config.service && config.sources.length === 0) return 'the service'
  return `${count('source')}, ${count('processor')}, ${count('destination')}`
}
