import type { Share } from '../../../core/event/ack.js'
import type { Fields } from '../../../core/event/event-fields.js'
import { type FieldPath, type PathSegment, valueAt } from '../../../core/event/field-path.js'
import { type Collector, collectorOf, GROWING, type MergeRule } from './merge-rules.js'

/** Approximate bytes of a group besides the values of its events. */
const OVERHEAD = 500
/** Approximate bytes of a field without its value. A rule of GROWING adds these bytes again for each kept value. */
const FIELD_OVERHEAD = 32

export interface FieldRule {
  readonly path: FieldPath
  readonly rule: MergeRule
}

interface Collected {
  readonly path: FieldPath
  readonly collector: Collector
  readonly rule: MergeRule
  /** Bytes of the value that the rule `last` keeps. */
  held: number
}

export class EventGroup {
  /** Identifies the first event of the group by its place in the source. Undefined if this place is unknown. */
  readonly name: string | undefined
  readonly since: number
  readonly shares: Share[] = []
  last: number
  events = 0
  bytes = OVERHEAD
  /** The number of the last batch with an event of this group. */
  batch = 0
  readonly #fields: Fields = {}
  readonly #collected: readonly Collected[]

  constructor(rules: readonly FieldRule[], now: number, name: string | undefined) {
    this.name = name
    this.since = now
    this.last = now
    this.#collected = rules.flatMap(({ path, rule }) => {
      const collector = collectorOf(rule)
      return collector ? [{ path, collector, rule, held: 0 }] : []
    })
  }

  add(fields: Fields, now: number): void {
    for (const name of Object.keys(fields)) {
      if (Object.hasOwn(this.#fields, name)) continue
      setOwn(this.#fields, name, fields[name])
      this.bytes += FIELD_OVERHEAD + name.length + memoryOf(fields[name])
    }
    for (const collected of this.#collected) {
      const { path, collector, rule } = collected
      const value = valueAt(fields, path.segments)
      if (value === undefined || value === null) continue
      collector.add(value)
      if (GROWING.includes(rule)) this.bytes += FIELD_OVERHEAD + memoryOf(value)
      if (rule !== 'last') continue
      const held = memoryOf(value)
      this.bytes += held - collected.held
      collected.held = held
    }
    this.events++
    this.last = now
  }

  merged(): Fields {
    for (const { path, collector } of this.#collected) {
      const value = collector.result()
      if (value !== undefined) setAt(this.#fields, path.segments, value)
    }
    return this.#fields
  }
}

/**
 * Sets a field. Copies the objects on the path of the field, because these objects belong to an event. Does nothing if
 * a value on the path is not an object.
 */
function setAt(fields: Fields, [name, ...rest]: readonly PathSegment[], value: unknown): void {
  if (rest.length === 0) {
    setOwn(fields, String(name), value)
    return
  }
  const inner = Object.hasOwn(fields, name!) ? fields[name!] : {}
  if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return
  const copy = { ...inner } as Fields
  setAt(copy, rest, value)
  setOwn(fields, String(name), copy)
}

/** Sets an own property, even one named `__proto__`. */
function setOwn(fields: Fields, name: string, value: unknown): void {
  if (name !== '__proto__') fields[name] = value
  else Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true })
}

/** Bytes that V8 needs for an object or array, for a text besides its characters, and for a reference. */
const OBJECT_BYTES = 56
const TEXT_BYTES = 24
const PLACE_BYTES = 16

/** Approximate memory of a value decoded from JSON, in bytes. For example, `{}` needs far more than its two bytes. */
function memoryOf(value: unknown): number {
  if (typeof value === 'string') return PLACE_BYTES + TEXT_BYTES + value.length
  if (typeof value !== 'object' || value === null) return PLACE_BYTES
  let bytes = 0
  // A loop, not recursion, because JSON may be nested deeper than the stack.
  const left: unknown[] = [value]
  while (left.length > 0) {
    const one = left.pop()
    bytes += PLACE_BYTES
    if (typeof one === 'string') bytes += TEXT_BYTES + one.length
    if (typeof one !== 'object' || one === null) continue
    bytes += OBJECT_BYTES
    if (Array.isArray(one)) for (const item of one) left.push(item)
    else for (const name in one) left.push(one[name as keyof typeof one])
  }
  return bytes
}
