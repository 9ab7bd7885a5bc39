import { Codec } from '../core/codec.js'
import { Secret } from '../core/options/options.js'
import { Pattern } from '../lib/pattern.js'

/** Whether parsed options are equal, including secrets, patterns and codecs, which have private state. */
export function sameOptions(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (a instanceof Secret || b instanceof Secret) {
    return a instanceof Secret && b instanceof Secret && a.reveal() === b.reveal()
  }
  if (a instanceof Codec || b instanceof Codec) return a instanceof Codec && b instanceof Codec && a.isSame(b)
  if (a instanceof Pattern || b instanceof Pattern)
    return a instanceof Pattern && b instanceof Pattern && String(a) === String(b)
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
