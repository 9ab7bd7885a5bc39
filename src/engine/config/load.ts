import { join, resolve } from 'node:path'
import { withCodecs } from '../../core/codecs/options.js'
import type { AnyDefinition, Kind } from '../../core/component.js'
import { ConfigError, type Problem } from '../../core/errors.js'
import { NearestName } from '../../lib/nearest.js'
import type { ListenAddress } from '../../lib/network/inherited-sockets.js'
import { documentPath } from '../../lib/version.js'
import { checkFields, checkTimes } from './checks/component-warnings.js'
import { checkTests } from './checks/config-tests.js'
import { Explainer } from './checks/diagnostics.js'
import type { FileCheck } from './checks/file-checks.js'
import { foreignDocument, foreignProgram } from './checks/foreign-files.js'
import { checkDataDir, checkOutputs, checkRenames } from './checks/outputs.js'
import { checkTemplates } from './checks/template-hints.js'
import { checkTopology } from './checks/topology.js'
import { type ComponentConfig, ComponentReader, checkNode, type Draft } from './component-config.js'
import type { Components } from './inputs.js'
import { checkPaths } from './path-hints.js'
import { type ServicePlugin, servicePlugins, withPlugins } from './plugins/read-plugins.js'
import type { ManagedOptions } from './published/managed-options.js'
import { KINDS, SECTIONS, type Settings, settings } from './schema.js'
import type { ServiceOptions } from './service-options.js'
import type { StatusPageOptions } from './status-page-options.js'
import type { ConfigTest } from './test-options.js'
import { dataDirFrom, stateFolder } from './user-folders.js'
import { digestOf, writtenDataDir } from './yaml/config-files.js'
import { readDocument } from './yaml/document.js'
import { type ConfigSource, configFile, readConfig } from './yaml/files.js'
import { mergeInto } from './yaml/merge.js'
import { type ConfigNode, type MapEntry, type MapNode, placeText, SourceText } from './yaml/node.js'
import { Problems } from './yaml/problems.js'

export type { ComponentConfig } from './component-config.js'

export type LogFormat = NonNullable<Settings['log']['format']>

/** The section `service`. The path of the data folder is absolute, and each plugin names the file that lists it. */
type ServiceConfig = Omit<ServiceOptions, 'data_dir' | 'plugins'> & {
  readonly dataDir: string
  readonly plugins: readonly ServicePlugin[]
}

export interface Config extends Components {
  /** An absolute path. */
  readonly dataDir: string
  /** The address that serves metrics; undefined if there is none. */
  readonly metrics: ListenAddress | undefined
  /** Whether the configuration sets the address of metrics, or has `metrics: false`. */
  readonly metricsGiven: boolean
  readonly statusPage?: StatusPageOptions | undefined
  /** The document as written. Present only with a status page, because only this page shows the document. */
  readonly root?: MapNode
  /** Undefined: the format depends on whether standard error is a terminal. */
  readonly logFormat: LogFormat | undefined
  readonly shutdownTimeoutMs: number
  /** Whether the daemon applies changes of the configuration files without a signal. */
  readonly watched: boolean
  /** Ids of removed components whose data is to be deleted. */
  readonly discardOrphans: readonly string[]
  readonly files: readonly string[]
  readonly digest: string
  readonly warnings: readonly Problem[]
  readonly tests: readonly ConfigTest[]
  /** Whether this is the local part of a managed daemon's configuration. A published pipeline adds the other part. */
  readonly isLocalPart: boolean
  readonly managed: ManagedOptions
  readonly service: ServiceConfig | undefined
}

export interface LoadOptions {
  readonly env: NodeJS.ProcessEnv
  readonly components: readonly AnyDefinition[]
  /** Whether a configuration with a section `service` may have no components. */
  readonly serviceAlone?: boolean
  /** Predefined sources, whose ids the configuration must not use. */
  readonly given?: readonly ComponentConfig<'source'>[]
  /** Only for `parseDocument`: the check ends at the first problem after this number of them. */
  readonly mostProblems?: number
  /** Only for `parseDocument`: changes each text. References to the environment then stay as they are. */
  readonly adapt?: ((text: string) => string) | undefined
  /** An additional document, already parsed. It has its own environment. `name`: its file name in messages. */
  readonly addition?: { readonly document: unknown; readonly name: string; readonly env: NodeJS.ProcessEnv }
  /** Whether this is only a part of a configuration, so that missing components may be in other parts. */
  readonly partial?: boolean
  /** Whether a configuration with a `managed` section is read as the local part of a managed daemon's configuration. */
  readonly localPart?: boolean
  /**
   * Whether the configuration will run on this machine. If so, the files to which destinations write are examined, but
   * they are not opened.
   */
  readonly onThisMachine?: boolean
  /** If the configuration does not set an address for metrics: whether metrics are served only on the Unix socket. */
  readonly metricsOnSocket?: boolean | undefined
  /** Checks the files that the configuration names. Optional, so that the check's code is loaded only if needed. */
  readonly fileCheck?: FileCheck | undefined
}

/** Loads a configuration from its files, or from a path as `readConfig` does. Opens no other files. Throws ConfigError. */
export function loadConfig(from: ConfigSource | string | undefined, options: LoadOptions): Config {
  const source = typeof from === 'object' ? from : readConfig(from)
  const problems = new Problems()
  problems.addAll(source.problems)
  const { root, isWhole } = merged(source, options, problems)
  return assemble(root, isWhole, source, options, problems)
}

/** Like `loadConfig`, for a text. `file`: its file name in messages. */
export function parseConfig(text: string, file: string, options: LoadOptions): Config {
  return loadConfig({ path: file, files: [configFile(file, text)], problems: new Problems() }, options)
}

/**
 * Like `loadConfig`, for a value such as a JSON body. `name`: the file name in messages. Lines and columns in these
 * messages have no meaning.
 */
export function parseDocument(document: unknown, name: string, options: LoadOptions): Config {
  const problems = new Problems(options.mostProblems)
  const root = readDocument(document, name, problems, options.adapt ?? options.env)
  if (root.kind === 'map') return assemble(root, true, { path: '', files: [] }, options, problems)
  problems.add(root, [], NOT_A_MAPPING)
  throw new ConfigError(problems.list())
}

const NOT_A_MAPPING = 'must be a mapping: sources, destinations and so on'

/** The data_dir of a configuration. Ignores problems in components, but throws ConfigError for other problems. */
export function dataDirOf(path: string, env: NodeJS.ProcessEnv): string {
  const { dataDir, problems } = dataDirIn(path, env)
  if (problems.length > 0) throw new ConfigError(problems)
  return dataDir
}

/** Like `dataDirOf`, but returns the problems instead of throwing them. If settings are invalid, guesses data_dir. */
export function dataDirIn(path: string, env: NodeJS.ProcessEnv): { dataDir: string; problems: readonly Problem[] } {
  const source = readConfig(path)
  const found = source.problems
  const { root } = merged(source, { env }, found)
  const parsed = readSettings(root, new Explainer(found, new NearestName()), found)
  // Ignores problems in components, because their variables are often set only in the daemon's environment.
  const problems = found.list().filter(({ path }) => !KINDS.some(kind => path.startsWith(`${SECTIONS[kind]}.`)))
  const data_dir = parsed ? parsed.data_dir : writtenDataDir(source.files)
  return { dataDir: dataDirFrom(data_dir, path, env), problems }
}

const notOurs = (program: string): string =>
  `this is a configuration of ${program}; Sluice has its own format. sluice init writes a configuration; examples are in ${documentPath('config/examples')}`

/** Merges the documents of all files. `isWhole`: whether all files could be read. */
function merged(
  { files, path }: ConfigSource,
  { env, addition }: Pick<LoadOptions, 'env' | 'addition'>,
  problems: Problems,
): { root: MapNode; isWhole: boolean } {
  let isWhole = problems.size === 0
  const entries = new Map<string, MapEntry>()
  let root: MapNode | undefined
  for (const { file, text, tree } of files) {
    const foreign = foreignProgram(text)
    if (foreign) {
      const { program, offset } = foreign
      problems.add({ source: new SourceText(file, text), offset }, [], notOurs(program))
      isWhole = false
      continue
    }
    const own = new Problems()
    const read = tree(env, own)
    const document = read?.kind === 'map' ? foreignDocument(read) : undefined
    if (document) {
      problems.add(document.place, [], notOurs(document.program))
      isWhole = false
      continue
    }
    problems.addAll(own)
    if (!read) isWhole &&= own.size === 0
    else if (read.kind !== 'map') {
      problems.add(read, [], NOT_A_MAPPING)
      isWhole = false
    } else {
      root ??= { ...read, entries }
      mergeInto(entries, read, problems)
    }
  }
  root ??= { kind: 'map', source: new SourceText(path, ''), offset: 0, flow: false, entries, size: 1 }
  if (addition) {
    const more = readDocument(addition.document, addition.name, problems, addition.env)
    if (more.kind === 'map') mergeInto(entries, more, problems)
    else problems.add(more, [], NOT_A_MAPPING)
  }
  return { root, isWhole }
}

function assemble(
  root: MapNode,
  /** Whether all files could be read. If not, components that seem to be missing may be in the unread files. */
  isWhole: boolean,
  { files, path, plugins }: Pick<ConfigSource, 'files' | 'path' | 'plugins'>,
  {
    env,
    components: builtIn,
    serviceAlone = false,
    given = [],
    partial = false,
    onThisMachine = false,
    metricsOnSocket = false,
    ...more
  }: LoadOptions,
  problems: Problems,
): Config {
  const { addition, fileCheck, localPart = false } = more
  const isLocalPart = localPart && root.entries.has('managed')
  const warnings = new Problems()
  const found = { problems, warnings }
  const explainer = new Explainer(problems, new NearestName())
  const before = problems.size
  const known = withPlugins(root, builtIn, plugins, found)
  const hasAll = problems.size === before
  const { components } = known
  const forService = servicePlugins(root, plugins, found)
  const parsed = readSettings(root, explainer, problems)
  root = withSectionsMeant(root, explainer)
  const reader = new ComponentReader(components, problems, explainer, hasAll)
  const drafts = withCodecs(known.codecs, () => readComponents(root, reader, problems))
  for (const source of given) addPredefined(source, drafts, root, problems)
  const reads = checkPaths(root, drafts, found)
  checkTemplates(drafts, warnings)
  checkOutputs(drafts, onThisMachine, found)
  if (isWhole && !partial && !isLocalPart) {
    if (!(serviceAlone && isServiceAlone(root))) reportEmptySections(root, drafts, problems, localPart)
    checkTopology(drafts, found, explainer)
    checkFields(drafts, warnings, explainer)
    checkTimes(drafts, warnings)
    checkRenames(drafts, parsed?.discard_orphans ?? [], root, problems)
    checkTests(parsed?.tests ?? [], root, drafts, problems, explainer)
  }
  const dataDir = dataDirFrom(parsed?.data_dir, path, env)
  fileCheck?.(root, drafts, parsed?.service, found, dataDir)
  if (onThisMachine) checkDataDir(dataDir, root.entries.get('data_dir')?.value ?? root, found)
  if (problems.size > 0 || !parsed) throw new ConfigError(problems.list(), warnings.list())
  const configs = [...drafts.values()].map(({ id, config }) => ({ ...config!, reads: reads.get(id) ?? [] }))
  const metrics = root.entries.get('metrics')?.value
  const metricsGiven = metrics?.kind === 'map' ? metrics.entries.has('listen') : metrics !== undefined
  const ofKind = <K extends Kind>(kind: K) => configs.filter(({ kind: own }) => own === kind) as ComponentConfig<K>[]
  return {
    dataDir,
    metrics: parsed.metrics === false || (metricsOnSocket && !metricsGiven) ? undefined : parsed.metrics.listen,
    metricsGiven,
    statusPage: parsed.status_page || undefined,
    ...(parsed.status_page && { root }),
    logFormat: parsed.log.format,
    shutdownTimeoutMs: parsed.shutdown_timeout,
    watched: parsed.reload === 'watch',
    discardOrphans: parsed.discard_orphans,
    sources: ofKind('source'),
    processors: ofKind('processor'),
    destinations: ofKind('destination'),
    files: files.map(({ file }) => file),
    digest: digestOf(addition ? [...files, { file: addition.name, text: JSON.stringify(addition.document) }] : files),
    warnings: warnings.list(),
    tests: parsed.tests ?? [],
    isLocalPart,
    managed: parsed.managed,
    service: parsed.service && { ...serviceOf(parsed.service, stateFolder(path, env)), plugins: forService },
  }
}

/** `state`: the folder of systemd or of the user. `dataDir`: the option data_dir, else `state`, else `./state`. */
function serviceOf({ data_dir, ...options }: ServiceOptions, state: string | undefined) {
  return { ...options, dataDir: resolve(data_dir ?? (state ? join(state, 'service') : 'service-state')) }
}

function isServiceAlone(root: MapNode): boolean {
  return root.entries.has('service') && !KINDS.some(kind => root.entries.has(SECTIONS[kind]))
}

const TOP_LEVEL: readonly string[] = [...Object.values(SECTIONS), ...Object.keys(settings.shape)]

/** Misspelled sections were reported before. Corrects their names, so that their components are checked, too. */
function withSectionsMeant(root: MapNode, explainer: Explainer): MapNode {
  const entries = new Map(root.entries)
  for (const [name, entry] of root.entries) {
    const section = TOP_LEVEL.includes(name) ? undefined : explainer.meant(name, TOP_LEVEL)
    if (section === undefined || !isSection(section) || entries.has(section)) continue
    entries.delete(name)
    entries.set(section, entry)
  }
  return { ...root, entries }
}

/** The advice on the option `workers`, which earlier versions had for worker threads. */
const NO_WORKERS = 'start a second instance: systemctl enable --now sluice@NAME, and move some sources there'

const UNINDENTED = 'unknown option; if this is a component of the section above, put spaces before it'

const isSection = (name: string): boolean => KINDS.some(kind => SECTIONS[kind] === name)

function readSettings(root: MapNode, explainer: Explainer, problems: Problems): Settings | undefined {
  const entries = new Map([...root.entries].filter(([name]) => !isSection(name)))
  const node: MapNode = { ...root, entries }
  const checked = checkNode(settings, node, [], problems)
  if (!('issues' in checked)) return checked.value
  const unknown = (key: string) => {
    if (key === 'workers') return NO_WORKERS
    const value = root.entries.get(key)?.value
    return value?.kind === 'map' && value.entries.has('type') ? UNINDENTED : explainer.unknownOption(key, TOP_LEVEL)
  }
  explainer.explain(checked.issues, { node, path: [], key: undefined }, unknown)
  return undefined
}

/** Whether the value is missing, or has a problem that was already reported. */
const isEmpty = (node: ConfigNode): boolean => node.kind === 'scalar' && (node.broken || node.value === null)

function readComponents(root: MapNode, reader: ComponentReader, problems: Problems): Map<string, Draft> {
  const drafts = new Map<string, Draft>()
  const readSection = (kind: Kind, { value }: MapEntry) => {
    const path = [SECTIONS[kind]]
    if (value.kind !== 'map') {
      if (!isEmpty(value)) problems.add(value, path, `must be a mapping from the id of each ${kind} to its options`)
      return
    }
    let before: string | undefined
    for (const [id, entry] of value.entries) {
      const section = KINDS.find(kind => SECTIONS[kind] === id)
      if (section && (entry.value.kind === 'map' ? !entry.value.entries.has('type') : isEmpty(entry.value))) {
        problems.add(entry.key, [...path, id], `is a section; write ${id}: without spaces before it`)
        readSection(section, entry)
        continue
      }
      if (entry.value.kind !== 'map' && !section && TOP_LEVEL.includes(id)) {
        problems.add(entry.key, [...path, id], `is not a ${kind}; write ${id}: without spaces before it`)
        continue
      }
      const draft = reader.read(kind, id, entry, before)
      const first = drafts.get(id)
      if (first)
        problems.add(entry.key, [...path, id], `the id is taken by the ${first.kind} ${placeText(first.entry.key)}`)
      // The second component of an id is checked, too. No input can name it, because an id has no space.
      drafts.set(first ? `${kind} ${id}` : id, draft)
      if (!value.flow && (entry.value.kind === 'map' || isEmpty(entry.value))) before = id
    }
  }
  for (const kind of KINDS) {
    const section = root.entries.get(SECTIONS[kind])
    if (section) readSection(kind, section)
  }
  return drafts
}

function addPredefined(
  source: ComponentConfig<'source'>,
  drafts: Map<string, Draft>,
  root: MapNode,
  problems: Problems,
): void {
  const { id, kind, definition } = source
  const other = drafts.get(id)
  if (other) problems.add(other.entry.key, [SECTIONS[other.kind], id], `the source ${id} is built in; use another id`)
  drafts.set(id, { id, kind, definition, entry: { key: root, value: root }, inputs: [], config: source })
}

/** `localPart`: see `LoadOptions`. */
function reportEmptySections(
  root: MapNode,
  drafts: ReadonlyMap<string, Draft>,
  problems: Problems,
  localPart: boolean,
): void {
  let advice = ''
  if (localPart) advice = '. If a managed daemon uses this file (sluice run --pipeline), add "managed: {}" to it'
  else if (root.entries.has('managed'))
    advice = '. This file has a section "managed"; a managed daemon is started with sluice run --pipeline URL'
  for (const kind of ['source', 'destination'] as const) {
    const name = SECTIONS[kind]
    const section = root.entries.get(name)
    if (section && section.value.kind !== 'map' && !(section.value.kind === 'scalar' && section.value.value === null))
      continue
    if ([...drafts.values()].some(draft => draft.kind === kind)) continue
    problems.add(section?.key ?? root, [name], `there is no ${kind}: at least one is needed${advice}`)
    advice = ''
  }
}
