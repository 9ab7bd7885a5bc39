import { type MapEntry, type MapNode, placeText } from './node.js'
import { SECTIONS } from './path.js'
import type { Problems } from './problems.js'

const JOINED: readonly string[] = [...Object.values(SECTIONS), 'plugins', 'tests']

/** Merges the top level of a file into the merged entries of previous files. */
export function mergeInto(merged: Map<string, MapEntry>, file: MapNode, problems: Problems): void {
  for (const [name, entry] of file.entries) {
    const earlier = merged.get(name)
    if (!earlier) {
      merged.set(name, entry)
      continue
    }
    const [a, b] = [earlier.value, entry.value]
    if (!JOINED.includes(name)) problems.add(entry.key, [name], `is here twice; the first is ${placeText(earlier.key)}`)
    else if (a.kind === 'map' && b.kind === 'map') {
      const entries = new Map(a.entries)
      for (const [id, member] of b.entries) {
        const first = entries.get(id)
        if (first) problems.add(member.key, [name, id], `is here twice; the first is ${placeText(first.key)}`)
        else entries.set(id, member)
      }
      merged.set(name, { ...earlier, value: { ...a, entries } })
    } else if (a.kind === 'list' && b.kind === 'list') {
      merged.set(name, { ...earlier, value: { ...a, items: [...a.items, ...b.items] } })
    } else if (a.kind === 'scalar' && a.value === null) merged.set(name, entry)
    else if (b.kind !== 'scalar' || b.value !== null) {
      problems.add(entry.key, [name], `cannot be merged with the value ${placeText(earlier.key)}`)
    }
  }
}
