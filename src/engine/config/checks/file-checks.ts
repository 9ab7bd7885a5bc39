import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Codec } from '../../../core/codec.js'
import type { OptionProblem } from '../../../core/component.js'
import { errorCode, errorText, type FileProblem } from '../../../core/errors.js'
import { shownPath } from '../../../lib/files/shown-path.js'
import { inspectTls, TLS_OPTIONS, type TlsPaths } from '../../../net/tls-check.js'
import { type Draft, notDescribed, report } from '../component-config.js'
import { upstreamOf } from '../inputs.js'
import { SECTIONS } from '../schema.js'
import type { ServiceOptions } from '../service-options.js'
import { type ConfigNode, locate, type MapNode, placeOf, SourceText, withVariable } from '../yaml/node.js'
import type { Path } from '../yaml/path.js'
import type { FoundProblem } from '../yaml/problems.js'

export type FileCheck = (
  root: MapNode,
  drafts: ReadonlyMap<string, Draft>,
  service: ServiceOptions | undefined,
  found: FoundProblem,
  dataDir: string,
) => void

/**
 * Checks the certificate and key files that a configuration names. A broken file is a problem. A missing or unreadable
 * file is a warning, since it may exist where the configuration will be used. `wall`: the time at which certificates
 * must be valid.
 */
export function checkTlsFiles(
  root: MapNode,
  drafts: ReadonlyMap<string, Draft>,
  service: ServiceOptions | undefined,
  { problems, warnings }: FoundProblem,
  wall: number,
): void {
  const check = (node: ConfigNode | undefined, path: Path, tls: TlsPaths | undefined) => {
    if (!node || !tls) return
    for (const { option, file, message, kind } of inspectTls(tls, wall).problems) {
      const at = locate(node, [option]).node ?? node
      const to = kind === 'broken' ? problems : warnings
      const text = `${shownPath(file)} ${message}`
      const shown = withoutEnvironment(node, tls, text)
      to.add(at, [...path, option], shown, kind === 'absent' && shown === text ? file : undefined)
    }
  }
  for (const { id, kind, entry, config } of drafts.values()) {
    const options = (config?.options ?? {}) as { readonly tls?: TlsPaths; readonly redis?: TlsPaths }
    for (const name of ['tls', 'redis'] as const)
      check(locate(entry.value, [name]).node, [SECTIONS[kind], id, name], options[name])
  }
  const { tls, store, limits } = service ?? {}
  const places: [Path, TlsPaths | undefined][] = [
    [['service', 'tls'], tls],
    [['service', 'store', 'tls'], store?.type === 'postgresql' ? store.tls : undefined],
    [['service', 'limits', 'redis'], limits?.redis],
  ]
  for (const [path, paths] of places) check(locate(root, path).node, path, paths)
}

/** In the text, replaces each path that came from the environment with its reference in the file, such as `${NAME}`. */
function withoutEnvironment(node: ConfigNode, tls: TlsPaths, text: string): string {
  return TLS_OPTIONS.reduce((shown, option) => {
    const { node: value } = locate(node, [option])
    const inFile = value?.kind === 'scalar' ? value.environment?.text : undefined
    return inFile === undefined || !tls[option] ? shown : shown.replaceAll(tls[option], inFile)
  }, text)
}

/** Asks the components for problems of their options, and for warnings. `dataDir`: where saved positions are. */
export async function checkComponents(
  drafts: ReadonlyMap<string, Draft>,
  dataDir: string,
  found: FoundProblem,
): Promise<void> {
  for (const draft of drafts.values()) {
    const { config, entry, kind, id } = draft
    if (!config) continue
    const { definition, options } = config
    checkCodecs(draft, options as object, found)
    const upstream = upstreamOf(draft, drafts).flatMap(({ id, config }) => {
      const hasStarted = () => existsSync(join(dataDir, 'checkpoints', `${id}.json`))
      return config ? [{ ...config, id, hasStarted }] : []
    })
    try {
      const checks = await definition.checks?.()
      for (const warning of (await checks?.warnings?.(options, upstream)) ?? []) addWarning(draft, warning, found)
      for (const problem of (await checks?.checkFiles?.(options)) ?? []) {
        if ('file' in problem) addFileProblem(draft, problem, found)
        else report(problem.isWarning ? found.warnings : found.problems, draft, problem.path, problem.message)
      }
    } catch (error) {
      if (definition.plugin === undefined) throw error
      found.problems.add(entry.key, [SECTIONS[kind], id], notDescribed(error))
    }
  }
}

function addWarning(
  { id, kind, entry }: Draft,
  { path, message, unusable }: OptionProblem,
  { warnings }: FoundProblem,
): void {
  const located = locate(entry.value, path, entry.key)
  const place = path.length === 0 ? entry.key : placeOf(located)
  const shown = (text: string) => withVariable(located.nearest, text)
  const known = unusable !== undefined && shown(unusable) === unusable ? unusable : undefined
  warnings.add(place, [SECTIONS[kind], id, ...path], shown(message), known)
}

function addFileProblem({ id, kind, entry }: Draft, problem: FileProblem, { problems, warnings }: FoundProblem): void {
  const { option, file, line, path, message, isMissing, isWarning } = problem
  if (isMissing) {
    const located = locate(entry.value, [option], entry.key)
    const isHidden = located.node?.kind === 'scalar' && located.node.environment !== undefined
    const place = [SECTIONS[kind], id, option]
    if (isHidden) warnings.add(placeOf(located), place, 'the file cannot be read')
    else warnings.add(placeOf(located), place, `${shownPath(file)} ${message}`, file)
  } else {
    const source = new SourceText(file, '\n'.repeat(line - 1))
    const to = isWarning ? warnings : problems
    to.add({ source, offset: line - 1 }, path, message)
  }
}

/** Loads the files of the codecs in the options, and reports problems. */
function checkCodecs(draft: Draft, options: object, { problems, warnings }: FoundProblem): void {
  for (const [option, value] of Object.entries(options)) {
    if (!(value instanceof Codec)) continue
    try {
      value.load?.()
    } catch (error) {
      const isMissing = errorCode((error as Error).cause) !== undefined
      report(isMissing ? warnings : problems, draft, [option], errorText(error))
    }
  }
}
