import type { Logger } from 'pino'
import type { Wait } from '../../../core/status-document.js'
import { LogLimit } from '../../../lib/log-limit.js'
import type { Clock } from '../../../lib/time.js'
import { ProgressWatch, type Watched } from './progress.js'

export const INSPECT_MS = 1000
/** A component that makes no progress between this many inspections is still. */
const STILL = 5

/** The components of an engine. `owes`: false while a component delays events on purpose. */
export interface Flow {
  /** `isBlocked`: whether the source waits until it may send more events. */
  readonly sources: readonly (Watched & { isBlocked(): boolean })[]
  /** `holds`: whether a processor or destination that nothing blocks has unacknowledged events of a source, or any. */
  readonly readers: readonly (Watched & { holds(source?: string): boolean })[]
  reaches(source: string, component: string): boolean
}

/**
 * Finds components that wait for others. A blocked source waits for the still components that hold its events. Another
 * still component waits if every source that reaches it does.
 */
export class WaitWatch {
  readonly #log: Pick<Logger, 'warn' | 'info'>
  readonly #clock: Clock
  readonly #limit: LogLimit
  readonly #progress = new ProgressWatch(STILL, ({ id }) => id)
  /** The logged causes of present waits, by component. */
  readonly #logged = new Map<string, string>()
  /** The components that waited at the last inspection. */
  all: readonly Wait[] = []

  constructor(log: Pick<Logger, 'warn' | 'info'>, clock: Clock) {
    this.#log = log
    this.#clock = clock
    this.#limit = new LogLimit(clock)
  }

  /** Call it every INSPECT_MS. */
  inspect(flow: Flow): void {
    const before = new Map(this.all.map(({ id, since }) => [id, since]))
    const since = new Date(this.#clock.wall() - STILL * INSPECT_MS).toISOString()
    const code = 'SLUICE_WAITING'
    this.all = [...this.#causes(flow)].map(([id, roots]) => ({ id, for: roots, since: before.get(id) ?? since }))
    for (const { id: component, ...wait } of this.all) {
      before.delete(component)
      if (this.#logged.get(component) === `${wait.for}` || !this.#limit.next(component)) continue
      this.#logged.set(component, `${wait.for}`)
      this.#log.warn({ component, code, ...wait }, 'waiting for components that make no progress')
    }
    for (const [component, since] of before)
      if (this.#logged.delete(component)) this.#log.info({ component, code, since }, 'no longer waiting')
  }

  #causes({ sources, readers, reaches }: Flow): Map<string, string[]> {
    const still = new Set(this.#progress.look([...sources, ...readers]))
    const causes = new Map<string, string[]>()
    for (const { id, isBlocked } of sources) {
      if (!still.has(id) || !isBlocked()) continue
      const reached = readers.filter(one => still.has(one.id) && reaches(id, one.id))
      const holders = reached.filter(one => one.holds(id))
      // A processor that also reads other sources may be blocked by a component that only has their events.
      const roots = holders.length > 0 ? holders : reached.filter(one => one.holds())
      const ids = roots.map(root => root.id)
      if (ids.length > 0) causes.set(id, ids)
    }
    const roots = new Set([...causes.values()].flat())
    if (roots.size === 0) return causes
    for (const { id } of readers) {
      if (!still.has(id) || roots.has(id)) continue
      const feeding = sources.filter(source => reaches(source.id, id)).map(source => causes.get(source.id))
      if (feeding.length > 0 && !feeding.includes(undefined)) causes.set(id, [...new Set(feeding.flatMap(ids => ids!))])
    }
    return causes
  }
}
