import { Codec, codecsIn } from '../../core/codec.js'
import { conditionText } from '../../core/condition/condition-text.js'
import type { Condition } from '../../core/condition/parse.js'
import { Secret } from '../../core/options/options.js'
import { Pattern } from '../../lib/pattern.js'
import { componentsOf } from '../config/inputs.js'
import type { ComponentConfig } from '../config/load.js'
import type { Loaded } from './loaded-files.js'

/**
 * How the components of a configuration compare with the next configuration. All ids are from the first configuration.
 */
export interface ConfigComparison {
  /** Components whose options, delivery and files (by content) do not change. Their inputs may change. */
  readonly same: ReadonlySet<string>
  /**
   * Components that have a successor with the same options in the next configuration. The successor can take over their
   * state. A processor's successor may have another id, if it has `renamed_from`.
   */
  readonly succeeded: ReadonlySet<string>
  /** Whether all components stay the same and read the same outputs. */
  readonly isUnchanged: boolean
}

export function compare(before: Loaded, next: Loaded): ConfigComparison {
  const [all, others] = [componentsOf(before.config), componentsOf(next.config)]
  const byId = new Map(others.map(component => [component.id, component]))
  const heirs = new Map(byId)
  for (const processor of next.config.processors) if (processor.renamedFrom) heirs.set(processor.renamedFrom, processor)
  const sameLimits = sameOptions(before.config.managed, next.config.managed)
  const sameFiles = (a: ComponentConfig, b: ComponentConfig) => before.files.get(a.id) === next.files.get(b.id)
  const isSucceeded = (a: ComponentConfig, b: ComponentConfig | undefined): b is ComponentConfig =>
    a.kind === b?.kind &&
    a.type === b.type &&
    a.definition.plugin === b.definition.plugin &&
    // Parsed options may hide private state. The `given` options are plain data, but do not show changes of files.
    (sameOptions(a.options, b.options) || (sameFiles(a, b) && sameGiven(a, b)))
  const isSame = (a: ComponentConfig) => {
    const b = byId.get(a.id)
    if (!isSucceeded(a, b) || !sameFiles(a, b) || ((a.reach || b.reach) && !sameLimits)) return false
    return sameOptions(a.delivery, b.delivery) && a.onError === b.onError
  }
  const same = all.filter(isSame)
  return {
    same: new Set(same.map(({ id }) => id)),
    succeeded: new Set(all.flatMap(one => (isSucceeded(one, heirs.get(one.id)) ? [one.id] : []))),
    isUnchanged:
      same.length === all.length &&
      same.length === others.length &&
      all.every(({ id, inputs }) => sameOptions(inputs, byId.get(id)!.inputs)),
  }
}

/** Whether parsed options are equal. Also compares the private state of secrets, patterns, codecs and conditions. */
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

/** Whether the codecs and the options before parsing are equal. */
function sameGiven(a: ComponentConfig, b: ComponentConfig): boolean {
  const codecs = ({ options }: ComponentConfig) => [...codecsIn(options as object)]
  return a.given !== undefined && sameOptions(a.given, b.given) && sameOptions(codecs(a), codecs(b))
}

/** Recognizes a comparison in a condition. Two equal comparisons have different functions as predicates. */
function isComparison(value: object): value is Condition {
  return 'holds' in value && typeof value.holds === 'function'
}
