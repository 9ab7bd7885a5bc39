import type { ComponentConfig } from '../config/load.js'
import { componentsOf, type Loaded } from './loaded-files.js'
import { sameOptions } from './same-options.js'

/** Ids of the components that are the same in both, with their inputs, delivery and the bytes of their files. */
function unchanged(before: Loaded, next: Loaded): Set<string> {
  const others = new Map(componentsOf(next.config).map(component => [component.id, component]))
  const sameLimits = sameOptions(before.config.managed, next.config.managed)
  const same = componentsOf(before.config).filter(component => {
    const other = others.get(component.id)
    if (!other || other.definition.plugin !== component.definition.plugin) return false
    if ((component.reach || other.reach) && !sameLimits) return false
    if (before.files.get(component.id) !== next.files.get(component.id)) return false
    return sameOptions(compared(component), compared(other))
  })
  return new Set(same.map(({ id }) => id))
}

/** The options as they were given, where they are kept: parsed ones may have private state. */
const compared = ({ kind, type, inputs, options, given = options, delivery, onError }: ComponentConfig) => ({
  kind,
  type,
  inputs,
  given,
  delivery,
  onError,
})

/** Whether a configuration has the same components as the one before it, so that none needs to be replaced. */
export function isUnchanged(before: Loaded, next: Loaded): boolean {
  const same = unchanged(before, next)
  return same.size === componentsOf(before.config).length && same.size === componentsOf(next.config).length
}
