import type { Config } from '../config/load.js'
import { sameOptions } from './same-options.js'

/** Ids of the components that have equal options in both configurations, and run on the same thread. */
export async function sameComponents(before: Config, next: Config): Promise<Set<string>> {
  const all = ({ sources, processors, destinations }: Config) => [...sources, ...processors, ...destinations]
  const others = new Map(all(next).map(component => [component.id, component]))
  const same = all(before).filter(({ id, kind, type, options }) => {
    const other = others.get(id)
    return other?.kind === kind && other.type === type && sameOptions(options, other.options)
  })
  const ids = new Set(same.map(({ id }) => id))
  if (before.workers === undefined && next.workers === undefined) return ids
  const { planParts, threadsBy } = await import('./workers/plan.js')
  const [from, to] = [threadsBy(planParts(before)), threadsBy(planParts(next))]
  for (const id of ids) if (from.get(id) !== to.get(id)) ids.delete(id)
  return ids
}
