import type { Codec } from '../../../core/codec.js'
import type { Draft } from '../component-config.js'
import { SECTIONS } from '../schema.js'
import { locate, placeOf } from '../yaml/node.js'
import type { Problems } from '../yaml/problems.js'

/** Reports sources that do not join the parts of a line, although their codec knows what parts are. */
export function checkDividedLines(drafts: ReadonlyMap<string, Draft>, warnings: Problems): void {
  for (const { config, entry, kind, id } of drafts.values()) {
    const { decode } = (config?.options ?? {}) as { readonly decode?: Codec }
    // Sources that join lines have an option that says which.
    const joins = config !== undefined && 'multiline' in config.definition.options.shape
    if (kind !== 'source' || decode?.definition.joiner === undefined || joins) continue
    const text = `a line that the container runtime has divided is not joined again here, and its parts are events marked .partial; the sources file and stdin join them`
    warnings.add(placeOf(locate(entry.value, ['decode'], entry.key)), [SECTIONS[kind], id, 'decode'], text)
  }
}
