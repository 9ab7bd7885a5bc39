import { Codec } from '../../core/codec.js'
import { conditionText } from '../../core/condition/condition-text.js'
import type { Condition } from '../../core/condition/parse.js'
import { Secret } from '../../core/options/options.js'
import { Pattern } from '../../lib/pattern.js'
import type { Config } from '../config/load.js'
import { componentsOf } from './loaded-files.js'

/** Whether parsed options are equal, including secrets, patterns, codecs and conditions, which have private state. */
export function sameOptions(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (a instanceof Secret || b instanceof Secret) {
    return a instanceof Secret && b instanceof Secret && a.reveal() === b.reveal()
  }
  if (a instanceof Codec || b instanceof Codec) return a instanceof Codec && b instanceof Codec && a.isSame(b)
  if (a instanceof Pattern || b instanceof Pattern)
    return a instanceof Pattern && b instanceof Pattern && String(a) === String(b)
  if (isComparison(a) && isComparison(b)) return conditionText(a) === conditionText(b)
  const [prototype, other] = [Object.getPrototypeOf(a), Object.getPrototypeOf(b)]
  // Instances of other classes may have private state, so they never count as equal.
  if (prototype !== other || (prototype !== Object.prototype && prototype !== Array.prototype && prototype !== null))
    return false
  const names = Object.keys(a)
  if (names.length !== Object.keys(b).length) return false
  return names.every(
    name =>
      Object.hasOwn(b, name) && sameOptions((a as Record<string, unknown>)[name], (b as Record<string, unknown>)[name]),
  )
}

/** A part of a condition with a predicate, which is a new one each time the condition is parsed. */
function isComparison(value: object): value is Condition {
  return 'holds' in value && typeof value.holds === 'function'
}

/**
 * Ids of the components that have equal options in both configurations. A processor may have another id in the next
 * one, with `renamed_from`.
 */
export function sameComponents(before: Config, next: Config): Set<string> {
  const others = new Map(componentsOf(next).map(component => [component.id, component]))
  for (const processor of next.processors) if (processor.renamedFrom) others.set(processor.renamedFrom, processor)
  const same = componentsOf(before).filter(({ id, kind, type, options, definition: { plugin } }) => {
    const other = others.get(id)
    if (other?.kind !== kind || other.type !== type || other.definition.plugin !== plugin) return false
    return sameOptions(options, other.options)
  })
  return new Set(same.map(({ id }) => id))
}
