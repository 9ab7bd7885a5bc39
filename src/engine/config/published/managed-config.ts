import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isMapping } from '../../../core/codec.js'
import { withCodecs } from '../../../core/codecs/options.js'
import { ConfigError, errorText, type Problem } from '../../../core/errors.js'
import { trimKey } from '../../../net/key.js'
import { componentsOf } from '../inputs.js'
import { type Config, type LoadOptions, loadConfig } from '../load.js'
import { SECTIONS } from '../schema.js'
import type { ConfigSource } from '../yaml/files.js'
import { secretNamesIn, secretVariable } from './account-secrets.js'
import { LimitedReach } from './limited-reach.js'
import { permittedBy, type SecretPlace } from './managed-options.js'
import { refusedBy } from './permissions.js'
import { holdersIn, misplacedSecrets } from './secret-places.js'

/** The input that stands for all local sources in a published pipeline. */
const INGEST = 'ingest'

type Document = Readonly<Record<string, unknown>>
type Options = Pick<LoadOptions, 'env' | 'components' | 'onThisMachine' | 'metricsOnSocket'>

const NO_PLUGINS =
  'a published pipeline cannot load plugins; list them in the local configuration of this machine. The pipeline can then use their components and codecs'

/**
 * Combines the local part of a configuration with a published document. The local part contributes settings,
 * environment and sources. In the document, `ingest` means the local sources. If a local source has the same id as a
 * source of the document, the local source is used. The section `managed` must permit all other sources of the
 * document, and everything else on this machine that the document names.
 */
export class ManagedConfig {
  readonly local: Config
  /** The local part. If its files change, these texts stay in use until the local part is read again. */
  readonly #source: ConfigSource
  readonly #options: Options

  /** `source`: the local part; without files if this machine has no local part. Throws ConfigError. */
  constructor(source: ConfigSource, options: Options) {
    this.#options = options
    this.#source = source
    this.local = this.#load({ ...options, partial: true })
  }

  /** Returns the complete configuration. `name`: the name of the document in messages. Throws ConfigError. */
  with(document: unknown, name: string): Config {
    const { allow_env } = this.local.managed
    const { env } = this.#options
    const names = allow_env.filter(variable => env[variable] !== undefined)
    const addition = {
      document: this.#adapted(document, name),
      name,
      env: {
        ...Object.fromEntries(names.map(variable => [variable, env[variable]])),
        ...this.#secrets(document, name),
      },
    }
    const config = this.#load({ ...this.#options, onThisMachine: false, addition })
    const local = new Set(componentsOf(this.local).map(({ id }) => id))
    const foreign = <T extends { id: string }>(all: readonly T[]) => all.filter(({ id }) => !local.has(id))
    const { sources, processors, destinations } = config
    const permitted = permittedBy(this.local.managed, this.local.dataDir)
    const refused = refusedBy(permitted, {
      sources: foreign(sources),
      processors: foreign(processors),
      destinations: foreign(destinations),
    })
    if (refused.length > 0)
      throw new ConfigError(
        refused.map(fault => problem(name, fault.path, `${fault.message}; see "managed" in the local configuration`)),
      )
    // Files are examined only after all are permitted, because messages about forbidden files could reveal facts.
    if (this.#options.onThisMachine) this.#load({ ...this.#options, addition })
    const reach = new LimitedReach(permitted)
    const bounded = <T extends { id: string }>(all: readonly T[]) =>
      all.map(one => (local.has(one.id) ? one : { ...one, reach }))
    return {
      ...config,
      sources: bounded(sources),
      processors: bounded(processors),
      destinations: bounded(destinations),
    }
  }

  #load(options: LoadOptions): Config {
    return loadConfig(this.#source, options)
  }

  /** The values that this machine has for the secrets in the document. */
  #secrets(document: unknown, name: string): Record<string, string> {
    const { secrets } = this.local.managed
    const plugins = [...(this.#source.plugins?.values() ?? [])]
    const components = [...this.#options.components, ...plugins.flatMap(({ components }) => components)]
    const codecs = plugins.flatMap(({ codecs }) => codecs)
    const holders = isMapping(document) ? withCodecs(codecs, () => holdersIn(document, components)) : []
    const misplaced = misplacedSecrets(document, holders)
    if (misplaced.length > 0) throw new ConfigError(misplaced.map(({ path, message }) => problem(name, path, message)))
    const values: Record<string, string> = {}
    for (const secret of secretNamesIn(document)) {
      const place = Object.hasOwn(secrets, secret) ? secrets[secret] : undefined
      if (!place) continue
      try {
        values[secretVariable(secret)] = readSecret(place, this.#options.env)
      } catch (error) {
        throw new ConfigError([problem(name, `managed.secrets.${secret}`, errorText(error))])
      }
    }
    return values
  }

  /** The document without the sources that local ones replace. In inputs, the local sources' ids replace `ingest`. */
  #adapted(document: unknown, name: string): Document {
    if (!isMapping(document)) throw new ConfigError([problem(name, '', 'must be a mapping')])
    if (document.plugins !== undefined) throw new ConfigError([problem(name, 'plugins', NO_PLUGINS)])
    const ids = this.local.sources.map(({ id }) => id)
    const sources = isMapping(document.sources)
      ? Object.fromEntries(Object.entries(document.sources).filter(([id]) => !ids.includes(id)))
      : document.sources
    const adapted: Record<string, unknown> = sources === undefined || sources === null ? {} : { sources }
    for (const section of [SECTIONS.processor, SECTIONS.destination]) {
      const components = document[section]
      if (components === undefined) continue
      adapted[section] = isMapping(components)
        ? Object.fromEntries(Object.entries(components).map(([id, one]) => [id, withSources(one, ids)]))
        : components
    }
    if (ids.length === 0 && readsIngest(document)) {
      const message = `the pipeline reads ${INGEST}, which stands for the local sources, but this machine has no local sources: name a local configuration with sources (--config)`
      throw new ConfigError([problem(name, 'sources', message)])
    }
    return adapted
  }
}

function readSecret({ file, credential, env }: SecretPlace, variables: NodeJS.ProcessEnv): string {
  let text: string | undefined
  if (env !== undefined) text = variables[env]
  else if (file !== undefined) text = readFileSync(file, 'utf8')
  else if (variables.CREDENTIALS_DIRECTORY)
    text = readFileSync(join(variables.CREDENTIALS_DIRECTORY, credential!), 'utf8')
  else throw new Error(`CREDENTIALS_DIRECTORY is not set; run under systemd with LoadCredential=${credential}:PATH`)
  const value = text === undefined ? '' : trimKey(text)
  if (value === '')
    throw new Error(env === undefined ? 'the file is empty' : `environment variable ${env} is not set or empty`)
  return value
}

function withSources(component: unknown, ids: readonly string[]): unknown {
  if (!isMapping(component) || !Array.isArray(component.inputs) || !component.inputs.includes(INGEST)) return component
  const inputs = component.inputs.flatMap(input => (input === INGEST ? ids : [input]))
  return { ...component, inputs: [...new Set(inputs)] }
}

function readsIngest(document: Document): boolean {
  return [SECTIONS.processor, SECTIONS.destination]
    .flatMap(section => (isMapping(document[section]) ? Object.values(document[section]) : []))
    .some(one => isMapping(one) && Array.isArray(one.inputs) && one.inputs.includes(INGEST))
}

function problem(file: string, path: string, message: string): Problem {
  return { file, line: 1, column: 1, path, message }
}
