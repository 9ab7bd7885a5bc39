import type { Draft } from '../component-config.js'
import { SECTIONS } from '../schema.js'
import type { Problems } from '../yaml/problems.js'
import { sourcesOf } from './upstream.js'

/** Reports processors that discard what a source reads while it catches up, unless their options say that they do. */
export function checkBacklog(drafts: ReadonlyMap<string, Draft>, warnings: Problems): void {
  for (const draft of drafts.values()) {
    const { config, entry, kind, id } = draft
    const consequence = config?.definition.onBacklog?.(config.options as never)
    if (consequence === undefined) continue
    const behind = sourcesOf(draft, drafts).filter(
      ({ config: source }) => source?.definition.catchesUp?.(source.options as never) === true,
    )
    if (behind.length === 0) continue
    const names = behind.map(source => source.id).join(', ')
    const text = `when ${names} ${behind.length === 1 ? 'has' : 'have'} fallen behind, after a stop for example, what was missed arrives all at once, and ${consequence}`
    warnings.add(entry.key, [SECTIONS[kind], id], text)
  }
}
