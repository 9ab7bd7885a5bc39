import { type Stats, statfsSync, statSync } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import type { AnyDefinition } from '../../../core/component.js'
import type { Fault } from '../../../core/errors.js'
import { fileSystems } from '../../../lib/files/disk/file-systems.js'
import { fileIdentity, finalPath } from '../../../lib/files/final-path.js'
import { irregular } from '../../../lib/files/regular-file.js'
import { type ComponentConfig, type Draft, report } from '../component-config.js'
import { sourcesOf } from '../inputs.js'
import { SECTIONS } from '../schema.js'
import { type ConfigNode, type ConfigPlace, locate, type MapNode, placeOf, placeText } from '../yaml/node.js'
import type { FoundProblem, Problems } from '../yaml/problems.js'

interface Output {
  readonly draft: Draft
  readonly option: string
  readonly path: string
  /** The path to show, without values from the environment. */
  readonly shown: string
  readonly place: ConfigPlace
}

/**
 * Checks that no two destinations write to one file, and that no source reads a file that receives this source's
 * events. With `onThisMachine`, also resolves symbolic links, and checks that existing outputs are regular files.
 */
export function checkOutputs(drafts: ReadonlyMap<string, Draft>, onThisMachine: boolean, found: FoundProblem): void {
  const { problems } = found
  const first = new Map<string, Output>()
  for (const output of outputsOf(drafts)) {
    const mayTouch = onThisMachine && isLocal(output.path)
    const wrong = mayTouch ? notRegular(output.path, output.shown) : undefined
    if (wrong !== undefined) {
      problems.add(output.place, pathOf(output), wrong)
      continue
    }
    for (const source of sourcesOf(output.draft, drafts)) reportReadAgain(output, source, onThisMachine, found)
    const identity = mayTouch ? fileIdentity(output.path) : resolve(output.path)
    const other = first.get(identity)
    if (!other) {
      first.set(identity, output)
      continue
    }
    problems.add(
      output.place,
      pathOf(output),
      sharedText(output.path === other.path, other.shown, other.draft.id, other.place),
    )
  }
}

/**
 * Finds each destination that writes to the same file as a destination before it, directly or through links. Call this
 * only if the files of all destinations are permitted.
 */
export function sharedOutputs(destinations: readonly ComponentConfig<'destination'>[]): Fault[] {
  const first = new Map<string, { readonly id: string; readonly path: string }>()
  return destinations.flatMap(({ id, definition, options }) => {
    const path = outputOf(definition, options)
    if (path === undefined) return []
    const identity = isLocal(path) ? fileIdentity(path) : resolve(path)
    const other = first.get(identity)
    if (other)
      return [
        {
          path: `destinations.${id}.${definition.writes}`,
          message: sharedText(path === other.path, other.path, other.id),
        },
      ]
    first.set(identity, { id, path })
    return []
  })
}

/**
 * Whether the path is on a local file system. Access to any other file system may block, so symbolic links there are
 * resolved only at runtime.
 */
function isLocal(path: string): boolean {
  return fileSystems.mountOf(path) === undefined
}

function sharedText(isSame: boolean, other: string, destination: string, place?: ConfigPlace): string {
  const names = isSame ? 'this file' : `the same file as ${other}`
  const at = place ? ` ${placeText(place)}` : ''
  return `the destination ${destination} writes to ${names}${at}; two destinations need two files`
}

function outputOf({ writes }: AnyDefinition, options: unknown): string | undefined {
  const path = writes === undefined ? undefined : (options as Record<string, unknown> | undefined)?.[writes]
  return typeof path === 'string' ? path : undefined
}

/**
 * Reports a source that reads the file to which a destination writes this source's events. These events would be read
 * and written without end.
 */
function reportReadAgain(
  output: Output,
  { id, definition, config, entry }: Draft,
  onThisMachine: boolean,
  { problems, warnings }: FoundProblem,
): void {
  if (!definition?.reads || !config) return
  const reads = testOf(definition, config.options, onThisMachine)
  const paths = [resolve(output.path), ...(onThisMachine && isLocal(output.path) ? [finalPath(output.path)] : [])]
  const path = paths.find(reads)
  if (path !== undefined) {
    const place = placeText(placeOf(locate(entry.value, ['include'], entry.key)))
    const name = output.shown === output.path ? path : output.shown
    const text = `the source ${id} would read ${name}, so every event would be read and written again without end: write to a file that the include ${place} does not match, or add this file to the exclude of ${id}`
    problems.add(output.place, pathOf(output), text)
    return
  }
  const rotated = paths.map(path => `${path}.1`).find(reads)
  if (rotated === undefined) return
  const isShown = output.shown === output.path
  const again = isShown ? ` as ${rotated}` : ''
  const text = `once this file is rotated, the source ${id} would read it again${again}: add ${isShown ? `${basename(output.path)}*` : 'the names of its rotated copies'} to its exclude`
  warnings.add(output.place, pathOf(output), text)
}

/**
 * Returns a function that says whether the source reads a path. If a pattern is invalid, this function always returns
 * false. Creating the source reports the pattern.
 */
function testOf({ reads }: AnyDefinition, options: unknown, onThisMachine: boolean): (path: string) => boolean {
  try {
    return reads?.(options as never, onThisMachine) ?? (() => false)
  } catch {
    return () => false
  }
}

function outputsOf(drafts: ReadonlyMap<string, Draft>): Output[] {
  return [...drafts.values()].flatMap(draft => {
    const option = draft.definition?.writes
    const path = draft.definition && outputOf(draft.definition, draft.config?.options)
    if (option === undefined || path === undefined) return []
    const located = locate(draft.entry.value, [option], draft.entry.key)
    return [{ draft, option, path, shown: fileText(located.node, path), place: placeOf(located) }]
  })
}

function pathOf({ draft, option }: Output): string[] {
  return [SECTIONS[draft.kind], draft.id, option]
}

/** Reports why `data_dir` cannot be used. `place`: this option's node, or the whole document if it is not set. */
export function checkDataDir(dataDir: string, place: ConfigNode, { problems, warnings }: FoundProblem): void {
  const mount = fileSystems.mountOf(dataDir)
  if (mount !== undefined) {
    const text = `${fileText(place, dataDir)} is on ${mount}, a network file system: while it does not respond, the daemon cannot continue; choose a folder on a local disk`
    return void warnings.add(place, ['data_dir'], text)
  }
  const wrong = statsOf(dataDir)?.isDirectory() === false ? 'it is not a folder' : refusedPlace(dataDir)
  if (wrong !== undefined) problems.add(place, ['data_dir'], `${fileText(place, dataDir)} cannot be used: ${wrong}`)
}

/** The path, or the option as written in the file if it refers to the environment. */
function fileText(node: ConfigNode | undefined, path: string): string {
  return (node?.kind === 'scalar' && node.environment?.text) || path
}

function notRegular(path: string, shown: string): string | undefined {
  const stats = statsOf(path)
  const why = refusedPlace(path) ?? (stats && irregular(stats))
  return why && `${shown} cannot be written: ${why}`
}

/** Undefined if the path does not exist or cannot be examined. The daemon reports such a path when it starts. */
function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

/** Kernel file systems that cannot store files, by statfs type. */
const KERNEL: Readonly<Record<number, string>> = {
  40864: 'proc',
  1650812274: 'sysfs',
  1667723888: 'cgroup2',
  2613483: 'cgroup',
  1684170528: 'debugfs',
  1953653091: 'tracefs',
  1935894131: 'securityfs',
}

/**
 * Returns the reason why no file can be stored at `path`: the path is on a kernel file system or below a file. Returns
 * undefined if a file can be stored.
 */
function refusedPlace(path: string): string | undefined {
  const whole = finalPath(path)
  for (let at = whole; ; at = dirname(at)) {
    try {
      const type = KERNEL[Number(statfsSync(at).type)]
      if (type !== undefined) return `${at} belongs to the kernel (${type}), and files cannot be kept there`
      return at === whole || statSync(at).isDirectory() ? undefined : `${at} is not a folder`
    } catch {
      // `at` does not exist yet, or cannot be examined.
    }
    if (at === dirname(at)) return undefined
  }
}

/** Checks that the old ids in `renamed_from` and `discard_orphans` are not in use. */
export function checkRenames(
  drafts: ReadonlyMap<string, Draft>,
  discarded: readonly string[],
  root: MapNode,
  problems: Problems,
): void {
  const successors = new Map<string, string>()
  for (const draft of drafts.values()) {
    const { id, kind, config } = draft
    const from = config?.renamedFrom
    if (from === undefined) continue
    const add = (message: string) => report(problems, draft, ['renamed_from'], message)
    const key = `${kind} ${from}`
    const successor = successors.get(key)
    if (drafts.get(from)?.kind === kind) add(`the ${kind} ${from} is still configured`)
    else if (successor !== undefined) add(`${successor} already takes over the data of ${from}`)
    successors.set(key, id)
  }
  const entry = root.entries.get('discard_orphans')
  for (const [i, id] of discarded.entries()) {
    const draft = drafts.get(id)
    const isUsed = draft && (draft.kind !== 'destination' || draft.config?.delivery?.buffer.type === 'disk')
    const at = placeOf(locate(entry!.value, [i], entry!.key))
    if (isUsed) problems.add(at, ['discard_orphans', i], `the ${draft.kind} ${id} is configured and uses its data`)
    else if (Object.keys(SECTIONS).some(kind => successors.has(`${kind} ${id}`)))
      problems.add(
        at,
        ['discard_orphans', i],
        `its data is taken over by "renamed_from: ${id}"; remove that option, or this entry`,
      )
  }
}
