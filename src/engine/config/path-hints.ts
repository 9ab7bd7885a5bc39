import type { z } from 'zod'
import { type TextOption, textOptions } from '../../core/options/reach.js'
import type { Draft } from './component-config.js'
import { SECTIONS, settings } from './schema.js'
import { type ConfigNode, type MapEntry, type MapNode, placeOf, type ScalarNode } from './yaml/node.js'
import type { Path } from './yaml/path.js'
import type { FoundProblem } from './yaml/problems.js'

/** Placeholders that other programs replace in paths, but Sluice does not. */

const TILDE = /^~[^/]*(?=\/|$)/
/** Syntax of strftime, Logstash, Vector, Fluentd and Jinja. */
const TEMPLATE = /%[-_0^#E]?[aAbBdeFHIjmMpsSTuUVwWyYZ](?![a-zA-Z])|%\{[^}]*\}|\{\{[^{}]*\}\}|<%[^>]*>/
const DATES = /%[-_0^#E]?[aAbBdeFHIjmMpsSTuUVwWyYZ]|%\{[^}]*\}|\{\{[^{}]*\}\}/g

interface Named {
  readonly path: Path
  readonly node: ScalarNode
  readonly key: MapEntry['key'] | undefined
}

/**
 * Checks every option that names a file or folder. By component id, returns the files (such as keys and tables) that
 * the component reads besides its events.
 */
export function checkPaths(
  root: MapNode,
  drafts: ReadonlyMap<string, Draft>,
  found: FoundProblem,
): ReadonlyMap<string, readonly string[]> {
  const files = new Map<string, string[]>()
  const known = new Map<z.ZodObject, ReturnType<typeof placesIn>>()
  const pathsIn = (schema: z.ZodObject, root: ConfigNode, base: Path): Named[] => {
    const places = known.get(schema) ?? placesIn(schema, ({ reaches }) => reaches === 'files')
    known.set(schema, places)
    return places.flatMap(path => scalarsAt({ node: root, path: base, key: undefined }, path))
  }
  for (const named of pathsIn(settings, root, [])) check(named, undefined, found)
  for (const { kind, id, definition, entry } of drafts.values()) {
    if (!definition) continue
    const read: string[] = []
    files.set(id, read)
    for (const named of pathsIn(definition.options, entry.value, [SECTIONS[kind], id])) {
      const { path, node } = named
      const use = path.at(-1) === definition.writes ? 'writes' : path.includes('include') ? 'reads' : undefined
      check(named, use, found)
      const isEvents = kind === 'source' && !String(path.at(-1)).endsWith('_file')
      if (use === undefined && !isEvents) read.push(String(node.value))
    }
  }
  return files
}

function check(
  { path, node, key }: Named,
  use: 'writes' | 'reads' | undefined,
  { problems, warnings }: FoundProblem,
): void {
  const text = String(node.value)
  const place = placeOf({ node, key, nearest: node })
  const tilde = TILDE.exec(text)?.[0]
  if (tilde !== undefined) {
    const home = node.environment || tilde !== '~' ? '' : `, or \${HOME}${text.slice(1)}`
    problems.add(place, path, `"~" is not expanded; write an absolute path${home}`)
    return
  }
  const template = TEMPLATE.exec(text)?.[0]
  if (template === undefined || use === undefined) return
  const sign = node.environment ? 'a template of a date or a field' : template
  const advice = {
    writes:
      'a path cannot have templates. All events go to one file with this literal name. Write a path without a template; logrotate can put the date into the names of older files (dateext)',
    reads: `a pattern cannot have templates.${node.environment ? '' : ` Write ${text.replace(DATES, '*').replace(/\*(?:[-_.]?\*)+/g, '*')}`}`,
  }[use]
  warnings.add(place, path, `${sign} is not replaced: ${advice}`)
}

/** Finds those options of a schema that `fits` accepts. */
export function placesIn(schema: z.ZodObject, fits: (option: TextOption) => boolean): (readonly string[])[] {
  const places = textOptions(schema).filter(fits)
  return [...new Map(places.map(({ path }) => [path.join('\0'), path])).values()]
}

/** The texts at a place, in which `*` stands for any list item or mapping key. */
export function scalarsAt(from: { node: ConfigNode; path: Path; key: Named['key'] }, path: readonly string[]): Named[] {
  const { node } = from
  const [step, ...rest] = path
  if (step === undefined) {
    return node.kind === 'scalar' && typeof node.value === 'string' && !node.broken ? [{ ...from, node }] : []
  }
  if (node.kind === 'list' && step === '*')
    return node.items.flatMap((item, i) => scalarsAt({ node: item, path: [...from.path, i], key: undefined }, rest))
  if (node.kind !== 'map') return []
  const entries = [...node.entries].filter(([name]) => step === '*' || step === name)
  return entries.flatMap(([name, { key, value }]) => scalarsAt({ node: value, path: [...from.path, name], key }, rest))
}
