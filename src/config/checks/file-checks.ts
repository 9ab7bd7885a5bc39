import type { AnyDefinition } from '../../core/component.js'
import type { FileProblem } from '../../core/errors.js'
import { shownPath } from '../../lib/files/shown-path.js'
import type { Draft } from '../component-config.js'
import { SECTIONS } from '../schema.js'
import { locate, placeOf, SourceText } from '../yaml/node.js'
import type { Problems } from '../yaml/problems.js'

/** Finds problems in the files that the options of a component name. */
export type FileChecks = ReadonlyMap<AnyDefinition, (options: never) => readonly FileProblem[]>

/** Imports the checks of all components that have one. */
export async function fileChecksOf(components: readonly AnyDefinition[]): Promise<FileChecks> {
  const found = components.flatMap(definition =>
    definition.fileCheck ? [{ definition, check: definition.fileCheck }] : [],
  )
  return new Map(await Promise.all(found.map(async ({ definition, check }) => [definition, await check()] as const)))
}

/**
 * Checks the files that components name. A broken file is a problem. A missing or unreadable file is a warning, since
 * it may exist where the configuration will be used.
 */
export function checkFiles(
  checks: FileChecks,
  drafts: readonly Draft[],
  { problems, warnings }: { readonly problems: Problems; readonly warnings: Problems },
): void {
  for (const { id, kind, entry, config } of drafts) {
    if (!config) continue
    for (const problem of checks.get(config.definition)?.(config.options as never) ?? []) {
      const { option, file, line, path, message } = problem
      if (problem.isMissing) {
        const located = locate(entry.value, [option], entry.key)
        const isHidden = located.node?.kind === 'scalar' && located.node.environment !== undefined
        const place = [SECTIONS[kind], id, option]
        warnings.add(placeOf(located), place, isHidden ? 'the file cannot be read' : `${shownPath(file)} ${message}`)
      } else {
        const source = new SourceText(file, '\n'.repeat(line - 1))
        problems.add({ source, offset: line - 1 }, path, message)
      }
    }
  }
}
