import type { AnyDefinition } from '../../../core/component.js'
import { KINDS, SECTIONS, settings } from '../schema.js'
import type { ConfigNode, Entry, MapNode } from './node.js'
import type { Problems } from './problems.js'

/**
 * Corrects documents that are valid YAML but wrongly indented. Reports each such place, and returns the document as it
 * was probably meant, which avoids follow-up errors.
 */
export function withIndentationMeant(root: MapNode, components: readonly AnyDefinition[], problems: Problems): MapNode {
  if (root.flow) return root
  const types = new Set(components.map(one => one.type))
  const isComponent = (node: ConfigNode): boolean => hasType(node, types)
  const entries = new Map<string, Entry>()
  let section: string | undefined
  for (const [name, entry] of root.entries) {
    const isKnown = isSection(name) || Object.hasOwn(settings.shape, name)
    if (isKnown) section = isSection(name) ? name : undefined
    const parent = section === undefined ? undefined : entries.get(section)
    if (isKnown || !parent || !isComponent(entry.value) || !(isEmpty(parent.value) || parent.value.kind === 'map')) {
      entries.set(name, entry)
      continue
    }
    problems.add(entry.key, [name], `is not indented: in ${section} it needs at least one space before it`)
    entries.set(section!, { ...parent, value: extended(parent.value, entry, name) })
  }
  for (const kind of KINDS) {
    const options = new Set(
      components.flatMap(one => (one.kind === kind ? ['type', 'inputs', ...Object.keys(one.options.shape)] : [])),
    )
    const entry = entries.get(SECTIONS[kind])
    if (entry?.value.kind !== 'map' || entry.value.flow) continue
    const value = {
      ...entry.value,
      entries: readSection(SECTIONS[kind], entry.value, options, isComponent, entries, problems),
    }
    entries.set(SECTIONS[kind], { ...entry, value })
  }
  return { ...root, entries }
}

/** The components of a section, without the options beside them. Sections inside it are moved to `top`. */
function readSection(
  section: string,
  node: MapNode,
  options: ReadonlySet<string>,
  isComponent: (node: ConfigNode) => boolean,
  top: Map<string, Entry>,
  problems: Problems,
): Map<string, Entry> {
  const found = new Map<string, Entry>()
  let last: string | undefined
  let reported: string | undefined
  for (const [name, entry] of node.entries) {
    const before = last === undefined ? undefined : found.get(last)
    if (name !== section && isSection(name) && isSectionValue(entry.value) && !top.has(name)) {
      problems.add(
        entry.key,
        [section, name],
        `is indented as if it were in ${section}; write ${name}: without spaces before it`,
      )
      top.set(name, entry)
    } else if (
      before &&
      options.has(name) &&
      !isComponent(entry.value) &&
      (isEmpty(before.value) || isComponent(before.value))
    ) {
      const message = `is indented like ${last}; an option of ${last} needs more spaces before it than ${last} has`
      if (reported !== last) problems.add(entry.key, [section, last!, name], message)
      reported = last
      found.set(last!, { ...before, value: extended(before.value, entry, name) })
    } else {
      found.set(name, entry)
      last = name
    }
  }
  return found
}

const isSection = (name: string): boolean => KINDS.some(kind => SECTIONS[kind] === name)

const isEmpty = (node: ConfigNode): boolean => node.kind === 'scalar' && node.value === null && !node.broken

/** Whether this is a component rather than an option such as `auth: { type: token }`, which has other types. */
function hasType(node: ConfigNode, types: ReadonlySet<string>): boolean {
  if (node.kind !== 'map') return false
  const type = node.entries.get('type')?.value
  return type?.kind === 'scalar' && (!node.flow || node.entries.has('inputs') || types.has(String(type.value)))
}

function isSectionValue(node: ConfigNode): boolean {
  return (
    node.kind === 'map' && !node.entries.has('type') && [...node.entries.values()].some(one => one.value.kind === 'map')
  )
}

/** The mapping with one more entry; an empty value becomes a mapping. */
function extended(node: ConfigNode, entry: Entry, name: string): MapNode {
  const entries = new Map(node.kind === 'map' ? node.entries : [])
  entries.set(name, entry)
  const { source, offset, size } = node
  return { kind: 'map', source, offset, flow: false, entries, size: size + entry.value.size }
}
