import { constants, statSync } from 'node:fs'
import { componentsNamed } from '../../components/named.js'
import type { AnyDefinition } from '../../core/component.js'
import { ConfigError, errorText, formatProblem, type Problem } from '../../core/errors.js'
import { silentLog } from '../../core/silent-log.js'
import { type CachedRevision, cachedRevision } from '../../daemon/fleet/revision-cache.js'
import { completed } from '../../daemon/managed/local-part.js'
import type { Io } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { checkComponents, checkTlsFiles, type FileCheck } from '../../engine/config/checks/file-checks.js'
import type { Draft } from '../../engine/config/component-config.js'
import { type Config, type LoadOptions, loadConfig } from '../../engine/config/load.js'
import { readWithPlugins } from '../../engine/config/plugins/read-plugins.js'
import { literalKeys } from '../../engine/config/published/secret-places.js'
import type { StoreOptions } from '../../engine/config/store-options.js'
import type { ConfigFile, ConfigSource } from '../../engine/config/yaml/files.js'
import { locate, type MapNode, placeOf } from '../../engine/config/yaml/node.js'
import { writtenValue } from '../../engine/config/yaml/plain-yaml.js'
import { type FoundProblem, Problems } from '../../engine/config/yaml/problems.js'
import { exposureOf, thisUser } from '../../engine/run/state/exposure.js'
import { adviceFor, dataName } from '../../engine/run/state/inventory.js'
import { leftBehind, refuseRepeats } from '../../engine/run/state/objections.js'
import { fileSystems } from '../../lib/files/disk/file-systems.js'
import { refusalOf } from '../../lib/files/refusal.js'
import { shownPath } from '../../lib/files/shown-path.js'
import type { ListenAddress } from '../../lib/network/inherited-sockets.js'
import { printableText } from '../../lib/printable.js'
import { systemClock } from '../../lib/time.js'
import { counted } from '../../lib/units.js'
import { fileWarning } from '../../net/key.js'
import { isLocal } from '../../net/listen-options.js'
import { loadService } from '../wings.js'

/**
 * Checks configurations without side effects. Opens only the certificates, keys, limits files, tables and modules that
 * the configurations name. Examines the files that destinations write to, but does not open them. Searches data_dir for
 * data that would belong to no component. Uses the network only with `online`, to connect to the servers that the
 * components of valid configurations use.
 *
 * Prints one line for each error and warning to stderr, and one line for each valid configuration to stdout. Ends with
 * the numbers of errors and warnings.
 */
export async function validate(
  paths: readonly string[],
  env: NodeJS.ProcessEnv,
  out: Pick<Io, 'stdout' | 'stderr'>,
  known?: readonly AnyDefinition[],
  online = false,
): Promise<number> {
  const counts = { error: 0, failure: 0, warning: 0, ok: 0 }
  for (const path of paths) {
    for (const { kind, text } of (await inspectConfig(path, env, known, online)).remarks) {
      counts[kind]++
      const to = kind === 'ok' ? out.stdout : out.stderr
      to.write(`${printableText(text)}\n`)
    }
  }
  const errors = counted(counts.error + counts.failure, 'error')
  out.stdout.write(`${errors}, ${counted(counts.warning, 'warning')}\n`)
  if (counts.error > 0) return EXIT.config
  return counts.failure > 0 ? EXIT.failed : EXIT.done
}

/** One result of the checks, as a line of text. `failure`: a check that used the network. */
export interface Remark {
  readonly kind: 'error' | 'failure' | 'warning' | 'ok'
  readonly text: string
  /** The file or folder that is missing, or that this user cannot use. */
  readonly unusable?: string | undefined
}

interface Inspection {
  /** In order. */
  readonly remarks: Remark[]
  /** Undefined if the configuration is invalid. */
  readonly config?: Config
}

/** `known`: all components that the configuration may use. Default: those of Sluice. */
export async function inspectConfig(
  path: string,
  env: NodeJS.ProcessEnv,
  known: readonly AnyDefinition[] | undefined,
  online: boolean,
): Promise<Inspection> {
  // Loading all components takes longer than all checks of a usual configuration.
  if (known) return inspectWith(path, env, async () => known, online)
  const found = await inspectWith(path, env, namedIn, online)
  if (found.config) return found
  return inspectWith(path, env, allComponents, online)
}

const allComponents = async (): Promise<readonly AnyDefinition[]> =>
  (await import('../../components/list.js')).components

/** The components that a configuration names; all if it may use others. */
async function namedIn(source: ConfigSource, env: NodeJS.ProcessEnv): Promise<readonly AnyDefinition[]> {
  const mayUseOthers = source.plugins?.size || source.files.some(({ text }) => /^managed:/m.test(text))
  return mayUseOthers ? allComponents() : componentsNamed(source, env)
}

async function inspectWith(
  path: string,
  env: NodeJS.ProcessEnv,
  componentsOf: typeof namedIn,
  online: boolean,
): Promise<Inspection> {
  const remarks: Remark[] = []
  const add = (kind: Remark['kind'], text: string, unusable?: string) => void remarks.push({ kind, text, unusable })
  const warn = (text: string, unusable?: string) => add('warning', text, unusable)
  const warnOf = (found: readonly Problem[]) => {
    for (const warning of found)
      warn(formatProblem({ ...warning, message: `warning: ${warning.message}` }), warning.unusable)
  }
  try {
    let drafts: { readonly all: ReadonlyMap<string, Draft>; readonly dataDir: string } | undefined
    let service: { readonly root: MapNode; readonly store: StoreOptions } | undefined
    const fileCheck: FileCheck = (root, all, options, found, dataDir) => {
      checkTlsFiles(root, all, options, found, systemClock.wall())
      if (options) service = { root, store: options.store }
      drafts = { all, dataDir }
    }
    const source = await readWithPlugins(path, env)
    const known = await componentsOf(source, env)
    const here = { env, components: known, onThisMachine: true }
    const config = tried(() => loadConfig(source, { ...here, serviceAlone: true, localPart: true, fileCheck }))
    const found = { problems: new Problems(), warnings: new Problems() }
    if (service) await checkService(service.root, service.store, found)
    if (drafts) await checkComponents(drafts.all, drafts.dataDir, found)
    const problems = [...(config instanceof ConfigError ? config.problems : []), ...found.problems.list()]
    const allWarnings = [...config.warnings, ...found.warnings.list()]
    if (config instanceof ConfigError || problems.length > 0) throw new ConfigError(problems, allWarnings)
    warnOf(allWarnings)
    for (const one of source.files)
      for (const written of writtenKeys(one, known)) warn(`${one.file}: warning: ${written}`)
    if (isReachable(config.metrics)) warn(`${path}: warning: ${REACHABLE}`)
    for (const warning of pageWarnings(config.statusPage)) warn(`${path}: warning: ${warning}`)
    const mount = fileSystems.mountOf(config.dataDir)
    const answers = mount === undefined || (await fileSystems.answers(mount))
    const refused = answers ? refusedDataDir(config.dataDir) : `data_dir: the file system at ${mount} does not answer`
    if (refused !== undefined) warn(`${path}: warning: ${refused}`, config.dataDir)
    else if (answers) for (const exposed of exposedFolders(config)) warn(`${path}: warning: ${exposed}`)
    const parts =
      config.isLocalPart && answers ? await checkLocalPart(path, source, config, here, warn) : amounts(config)
    if (answers && !config.isLocalPart && (!config.service || config.sources.length > 0))
      await reportOrphans(config, path, warn)
    add('ok', `${path}: ok (${parts})`)
    if (online) {
      const { checkOnline } = await import('./online.js')
      for (const { isProblem, line } of await checkOnline(path, config)) add(isProblem ? 'failure' : 'ok', line)
    }
    return { remarks, config }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) add('error', formatProblem(problem), problem.unusable)
    warnOf(error.warnings)
    return { remarks }
  }
}

async function checkService(root: MapNode, store: StoreOptions, { problems, warnings }: FoundProblem): Promise<void> {
  const place = (path: string[]) => placeOf(locate(root, path))
  const { missingPackages } = await loadService()
  const missing = missingPackages(store)
  if (missing) problems.add(place(['service']), ['service'], missing)
  const file = store.type === 'postgresql' ? store.password_file : undefined
  const warning = file === undefined ? undefined : fileWarning(file, 'password')
  const path = ['service', 'store', 'password_file']
  if (warning) warnings.add(place(path), path, warning)
}

/** Loads a configuration. If loading throws a ConfigError, returns this error. */
export function tried(load: () => Config): Config | ConfigError {
  try {
    return load()
  } catch (error) {
    if (error instanceof ConfigError) return error
    throw error
  }
}

const LOCAL_PART =
  'checked only as the local part of a managed daemon (sluice run --pipeline), because it has a section "managed"; the connections between components were not checked. Remove "managed" if the daemon runs with this file alone'

/**
 * Checks the local part of a managed daemon together with the published revision that the daemon ran last. Throws
 * ConfigError.
 */
async function checkLocalPart(
  path: string,
  source: ConfigSource,
  config: Config,
  options: Pick<LoadOptions, 'env' | 'components' | 'onThisMachine'>,
  warn: (line: string) => void,
): Promise<string> {
  const part = `the local part of a managed daemon: ${amounts(config)}`
  let cached: CachedRevision | undefined
  try {
    cached = await cachedRevision(config.dataDir)
  } catch (error) {
    warn(`${path}: warning: checked without the published revision: ${errorText(error)}`)
  }
  if (!cached) {
    if (config.destinations.length > 0) warn(`${path}: warning: ${LOCAL_PART}`)
    return part
  }
  const whole = completed(source, cached, options)
  await reportOrphans(whole, path, warn)
  const { pipeline, revision, savedAt } = cached
  const saved = `revision ${revision} of pipeline ${pipeline}, saved ${new Date(savedAt).toISOString()}`
  return `${part}; with ${saved}: ${amounts(whole)}`
}

/**
 * Warns about data in data_dir that would belong to no component of this configuration. Throws ConfigError if a source
 * would again read what another source has read.
 */
async function reportOrphans(config: Config, path: string, warn: (line: string) => void): Promise<void> {
  await refuseRepeats(config)
  for (const orphan of await leftBehind(config, silentLog)) {
    const { kind, id, events, path: place } = orphan
    const isState = kind === 'checkpoint' || kind === 'buckets'
    const unknown = isState ? `saved ${dataName(kind)}` : `a ${dataName(kind)} that cannot be read now`
    const amount = events === undefined ? unknown : `${events} events (${dataName(kind)})`
    warn(`${path}: warning: ${id} is not configured and has ${amount} in ${place}. ${adviceFor(orphan)}`)
  }
}

/** Warnings about access keys that are written in a file. */
function writtenKeys({ file, tree }: ConfigFile, known: readonly AnyDefinition[]): string[] {
  const root = tree({}, new Problems())
  const document = root?.kind === 'map' ? (writtenValue(root) as Record<string, unknown>) : {}
  const { token } = (document.status_page || {}) as { readonly token?: unknown }
  const isToken = typeof token === 'string' && !token.startsWith('${')
  const keys = [...literalKeys(document, known), ...(isToken ? [{ path: 'status_page.token', value: token }] : [])]
  const isOpen = isReadByAll(file)
  return keys.flatMap(({ path, value }) => {
    // Does not show the text, because the text may be the key itself.
    if (/^\$[A-Za-z_]\w*$/.test(value))
      return [`${path} begins with $ and is used as it is written; for an environment variable, write \${NAME}`]
    if (!isOpen) return []
    return [
      `${path} is written here, and every user of this machine can read this file: chmod 640 ${file}, or keep it in a file of its own, a credential or an environment variable`,
    ]
  })
}

const isReadByAll = (file: string): boolean => ((statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o004) !== 0

function pageWarnings(page: Config['statusPage']): string[] {
  if (!page) return []
  const { listen, token_file } = page
  const missing = token_file === undefined ? undefined : fileWarning(token_file, 'token')
  const isRead = token_file !== undefined && isReadByAll(token_file)
  return [
    ...(isLocal(listen) ? [] : [UNENCRYPTED]),
    ...(missing === undefined ? [] : [`status_page.token_file: ${missing}`]),
    ...(isRead ? [`status_page.token_file: every user of this machine can read it: chmod 600 ${token_file}`] : []),
  ]
}

const UNENCRYPTED =
  'status_page.listen: the page is not encrypted, so the token and events can be read on the way: listen on 127.0.0.1, and use ssh -L or a proxy with TLS'

const REACHABLE =
  'metrics.listen: everybody who can reach this machine can read the metrics, with the names of hosts, files and keys in them: listen on 127.0.0.1 or on an address of a private network'

/** Whether an address listens on all networks, including public ones. */
function isReachable(listen: ListenAddress | undefined): boolean {
  return listen !== undefined && 'host' in listen && (listen.host === '0.0.0.0' || listen.host === '::')
}

/** A warning if this user cannot use an existing data_dir. */
function refusedDataDir(dataDir: string): string | undefined {
  const code = refusalOf(dataDir, constants.R_OK | constants.W_OK | constants.X_OK)
  if (code !== 'EACCES' && code !== 'EROFS') return undefined
  return `data_dir: this user cannot read and write ${shownPath(dataDir)} (${code}); check that the user of the daemon has access`
}

/**
 * Warnings about data folders that other users can change. If root runs the check, the owner of the folder is assumed
 * to be the daemon's user.
 */
function exposedFolders({ dataDir, service, sources }: Config): string[] {
  const user = process.geteuid?.() === 0 ? undefined : thisUser()
  const folders = {
    ...((!service || sources.length > 0) && { data_dir: dataDir }),
    ...(service && { 'service.data_dir': service.dataDir }),
  }
  return Object.entries(folders).flatMap(([option, folder]) => {
    const why = exposureOf(folder, user)
    return why === undefined ? [] : [`${option}: ${why}`]
  })
}

function amounts(config: Config): string {
  const { service, sources, processors, destinations } = config
  if (service && sources.length === 0) return 'the service'
  return `${counted(sources.length, 'source')}, ${counted(processors.length, 'processor')}, ${counted(destinations.length, 'destination')}`
}
