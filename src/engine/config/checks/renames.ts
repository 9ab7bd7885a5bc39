import type { Draft } from '../component-config.js'
import { SECTIONS } from '../schema.js'
import { locate, type MapNode, placeOf } from '../yaml/node.js'
import type { Problems } from '../yaml/problems.js'

/** Checks that the old ids in `renamed_from` and `discard_orphans` are not in use. */
export function checkRenames(
  drafts: ReadonlyMap<string, Draft>,
  discarded: readonly string[],
  root: MapNode,
  problems: Problems,
): void {
  const successors = new Map<string, string>()
  for (const { id, kind, entry, config } of drafts.values()) {
    const from = config?.renamedFrom
    if (from === undefined) continue
    const at = placeOf(locate(entry.value, ['renamed_from'], entry.key))
    const path = [SECTIONS[kind], id, 'renamed_from']
    const key = `${kind} ${from}`
    const successor = successors.get(key)
    if (drafts.get(from)?.kind === kind) problems.add(at, path, `the ${kind} ${from} is still configured`)
    else if (successor !== undefined) problems.add(at, path, `${successor} takes over what ${from} left already`)
    successors.set(key, id)
  }
  const entry = root.entries.get('discard_orphans')
  for (const [i, id] of discarded.entries()) {
    const draft = drafts.get(id)
    const isUsed = draft && (draft.kind !== 'destination' || draft.config?.delivery?.buffer.type === 'disk')
    const at = placeOf(locate(entry!.value, [i], entry!.key))
    if (isUsed) problems.add(at, ['discard_orphans', i], `the ${draft.kind} ${id} is configured and uses its data`)
    else if (Object.keys(SECTIONS).some(kind => successors.has(`${kind} ${id}`)))
      problems.add(at, ['discard_orphans', i], `its data is taken over by "renamed_from: ${id}"; remove one of the two`)
  }
}
