import type { AnyDefinition } from '../../../../core/component.js'
import { ConfigError, type Fault } from '../../../../core/errors.js'
import { type Config, parseDocument } from '../../../../engine/config/load.js'
import { holdersIn, literalSecrets, misplacedSecrets } from '../../../../engine/config/published/secret-places.js'
import { SECTIONS } from '../../../../engine/config/yaml/path.js'
import { isDeeper } from '../../../../lib/formats/json-text.js'
import { compilingWithin } from '../../../../lib/pattern.js'
import { Feed, ingestSource } from '../../../ingest/worker/feed.js'
import { ApiError, MOST_ERRORS } from '../errors.js'

const MOST_LEVELS = 64
/** Maximum length of all names on the path of a value. Each check of a value takes time for the whole path. */
const LONGEST_PATH = 1000
/** Limit of the CPU time to compile the regular expressions of a pipeline. Other accounts wait meanwhile. */
const PATTERNS_MS = 1000

/** Replaces the real source when a pipeline is checked but does not run. */
const standIn = ingestSource(new Feed().definition)

/** Checks the size of the configuration of a pipeline, and its secrets. Throws ApiError 400. */
export function checkSizeAndSecrets(
  config: Readonly<Record<string, unknown>>,
  components: readonly AnyDefinition[],
  most: { readonly configBytes: number; readonly components: number },
): void {
  // This check must come first, because a value of unlimited depth cannot even be serialized.
  if (isDeeper(config, MOST_LEVELS)) throw unfit(`must not be nested deeper than ${MOST_LEVELS} levels`)
  const bytes = Buffer.byteLength(JSON.stringify(config))
  if (bytes > most.configBytes) throw unfit(`must not be larger than ${most.configBytes} bytes`)
  if (hasLongerPath(config, LONGEST_PATH)) throw unfit(`must not have paths of more than ${LONGEST_PATH} characters`)
  if (countComponents(config) > most.components) throw unfit(`must not have more than ${most.components} components`)
  const holders = holdersIn(config, components)
  const secrets = [...misplacedSecrets(config, holders), ...literalSecrets(holders)]
  if (secrets.length > 0) throw invalid(secrets.slice(0, MOST_ERRORS).map(fault), secrets.length)
}

/**
 * Checks the configuration with the schemas of the daemon, after its size. References to the environment stay as they
 * are, since only the runner of the pipeline has the values. Throws ApiError 400 with the places of the faults.
 */
export function checkPipelineConfig(config: unknown, components: readonly AnyDefinition[]): Config {
  try {
    return compilingWithin(PATTERNS_MS, () =>
      parseDocument(config, 'config', {
        env: {},
        components,
        adapt: withoutReferences,
        given: [standIn],
        mostProblems: MOST_ERRORS,
      }),
    )
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    throw invalid(error.problems.map(fault), error.count)
  }
}

/** Replaces secret references by a word, and escapes names of variables. Otherwise templates read them as fields. */
function withoutReferences(text: string): string {
  return text.replace(/(?<!\$)\$\{(?:secret:[^{}]*\}|(?!\.))/g, found => (found.endsWith('}') ? 'x' : '$${'))
}

function countComponents(config: Readonly<Record<string, unknown>>): number {
  return Object.values(SECTIONS).reduce((count, section) => {
    const components = config[section]
    return count + (typeof components === 'object' && components !== null ? Object.keys(components).length : 0)
  }, 0)
}

function hasLongerPath(value: unknown, most: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  const members = value as Record<string, unknown>
  return Object.keys(value).some(name => name.length > most || hasLongerPath(members[name], most - name.length))
}

function fault({ path, message }: Fault): Fault {
  const place =
    path === '' ? 'config' : path.startsWith('[') || path.startsWith('"') ? `config[${path}]` : `config.${path}`
  return { path: place, message }
}

const unfit = (message: string): ApiError => invalid([{ path: 'config', message }])

function invalid(errors: readonly Fault[], count = errors.length): ApiError {
  return new ApiError(400, 'invalid_pipeline', 'this configuration cannot run', { errors, count })
}
