import type { EditedField, EventEditor } from '../../src/core/event/event-editor.js'
import { type PathSegment, valueAt } from '../../src/core/event/field-path.js'
import type { Seeded } from './seeded.js'

/** Random changes of events, made by an editor and, to compare, of objects. */

type Fields = Record<string, unknown>

const VALUES: readonly unknown[] = [
  ...[1, -0.5, 'text', '', 'quote " and \\', 'line\nend\u0001', 'é😀', '\ud800', true, false, null],
  ...[{}, [], { a: 1 }, { a: { b: [1, { c: 2 }] } }, [0, { x: 1 }]],
]

export interface Edit {
  readonly what: 'set' | 'setJson' | 'setText' | 'remove' | 'rename'
  readonly field: EditedField
  readonly to: EditedField
  readonly value: unknown
}

export function randomEdit(random: Seeded, fields: readonly EditedField[]): Edit {
  const what = random.pick(['set', 'setJson', 'setText', 'remove', 'rename', 'rename'] as const)
  const value = what === 'setText' ? random.pick(['', 'plain', 'a "b" \\ \t\u0000é']) : random.pick(VALUES)
  return { what, field: random.pick(fields), to: random.pick(fields), value }
}

/** Makes the edit with the editor. */
export function edit(editor: EventEditor, { what, field, to, value }: Edit): boolean {
  if (what === 'remove') return editor.remove(field)
  if (what === 'rename') return editor.rename(field, to)
  if (what === 'set') return editor.set(field, value)
  if (what === 'setText') return editor.setText(field, Buffer.from(`<${value}>`), 1, 1 + Buffer.byteLength(`${value}`))
  return editor.setJson(field, Buffer.from(JSON.stringify(value)))
}

/** Makes the edit of an object, which is not changed. Returns the new object; undefined if there is nothing to change. */
export function edited(object: Fields, { what, field, to, value }: Edit): Fields | undefined {
  const path = field.path.segments
  const copy = structuredClone(object)
  if (what === 'remove') return removed(copy, path) ? copy : undefined
  if (what !== 'rename') return set(copy, path, structuredClone(value)) ? copy : undefined
  const target = to.path.segments
  const moved = valueAt(copy, path)
  if (moved === undefined) return undefined
  if (JSON.stringify(path) === JSON.stringify(target)) return copy
  const [last, name] = [path.at(-1), target.at(-1)]
  const areSiblings = JSON.stringify(path.slice(0, -1)) === JSON.stringify(target.slice(0, -1))
  if (areSiblings && typeof last === 'string' && typeof name === 'string') {
    const parent = valueAt(copy, path.slice(0, -1)) as Fields
    const members = Object.entries(parent).filter(([key]) => key !== name)
    for (const key of Object.keys(parent)) delete parent[key]
    for (const [key, member] of members) own(parent, key === last ? name : key, member)
    return copy
  }
  return removed(copy, path) && set(copy, target, moved) ? copy : undefined
}

function removed(object: Fields, path: readonly PathSegment[]): boolean {
  if (valueAt(object, path) === undefined) return false
  const parent = valueAt(object, path.slice(0, -1))
  const last = path.at(-1)!
  if (Array.isArray(parent)) parent.splice(last as number, 1)
  else delete (parent as Fields)[last]
  return true
}

function set(object: Fields, path: readonly PathSegment[], value: unknown): boolean {
  let depth = path.length - 1
  while (valueAt(object, path.slice(0, depth)) === undefined) depth--
  const missing = path.slice(depth + 1)
  const parent = valueAt(object, path.slice(0, depth))
  const isThere = valueAt(object, path.slice(0, depth + 1)) !== undefined
  if (isThere ? missing.length > 0 : missing.some(one => typeof one === 'number')) return false
  if (Array.isArray(parent)) {
    if (!isThere) return false
    parent[path[depth] as number] = value
    return true
  }
  if (typeof parent !== 'object' || parent === null || typeof path[depth] === 'number') return false
  own(
    parent as Fields,
    path[depth] as string,
    missing.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value),
  )
  return true
}

function own(object: Fields, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
}
