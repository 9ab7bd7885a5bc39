import { readLimitsSync } from '../../processors/throttle/limits-file/read-limits.js'
import type { RuledOptions } from '../../processors/throttle/rule-options.js'
import { throttle } from '../../processors/throttle.js'
import type { Draft } from '../component-config.js'
import { SECTIONS } from '../schema.js'
import { locate, type Path, placeOf, SourceText } from '../yaml/node.js'
import type { Problems } from '../yaml/problems.js'

/**
 * Checks the files of rules that throttles name. A broken file is a problem. A missing or unreadable file is a warning,
 * since it may exist where the configuration will be used.
 */
export function checkLimitsFiles(
  drafts: readonly Draft[],
  { problems, warnings }: { readonly problems: Problems; readonly warnings: Problems },
): void {
  for (const { id, kind, entry, config } of drafts) {
    if (config?.definition !== throttle) continue
    const options = config.options as RuledOptions & { readonly limits_file?: string | undefined }
    if (options.limits_file === undefined) continue
    const path = [SECTIONS[kind], id, 'limits_file']
    const located = locate(entry.value, ['limits_file'], entry.key)
    const read = readLimitsSync(options.limits_file, options)
    for (const { file, line, path: within, message, isMissing } of 'problems' in read ? read.problems : []) {
      if (isMissing) {
        const isHidden = located.node?.kind === 'scalar' && located.node.environment !== undefined
        warnings.add(placeOf(located), path, isHidden ? 'the file cannot be read' : `${file} ${message}`)
      } else {
        const source = new SourceText(file, '\n'.repeat(line - 1))
        problems.add({ source, offset: line - 1 }, within as Path, message)
      }
    }
  }
}
