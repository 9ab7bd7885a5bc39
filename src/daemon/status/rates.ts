import type { ComponentStatus } from '../../core/status-document.js'
import type { Amount, ComponentCounters } from '../../engine/flow/counters.js'
import { type Clock, systemClock } from '../../lib/time.js'

/** Events and bytes per second. */
export type Rate = NonNullable<ComponentStatus['per_second']>

interface Noted {
  readonly at: number
  readonly counts: ReadonlyMap<ComponentCounters, Rate>
}

/** No rate is computed from two moments that are closer together than this. */
const SHORTEST_MS = 1000

/** The average rates of components from a noted moment until now. */
export class Rates {
  readonly #components: () => Iterable<ComponentCounters>
  readonly #clock: Clock
  /** The noted moments, oldest first. */
  #noted: readonly Noted[] = []
  readonly #grown = new WeakMap<Amount, { readonly events: number; readonly at: number }>()

  constructor(components: () => Iterable<ComponentCounters>, clock: Clock = systemClock) {
    this.#components = components
    this.#clock = clock
    this.note()
  }

  /** Notes the current counts. Call it every few seconds. */
  note(): void {
    const counts = new Map([...this.#components()].map(one => [one, countsOf(one)]))
    this.#noted = [...this.#noted.slice(-1), { at: this.#clock.now(), counts }]
    for (const { discards } of counts.keys()) for (const amount of discards.values()) this.grownAt(amount)
  }

  /** When the number of discarded events last grew, as far as was noted; wall clock in milliseconds. */
  grownAt(amount: Amount): number {
    let seen = this.#grown.get(amount)
    if (seen?.events !== amount.events) {
      seen = { events: amount.events, at: this.#clock.wall() }
      this.#grown.set(amount, seen)
    }
    return seen.at
  }

  /** The rates by component id. Empty if all counts were noted less than a second ago. */
  all(): ReadonlyMap<string, Rate> {
    const now = this.#clock.now()
    const before = this.#noted.findLast(({ at }) => now - at >= SHORTEST_MS)
    if (!before) return new Map()
    return new Map(
      [...this.#components()].map(one => {
        const [old, current] = [before.counts.get(one), countsOf(one)]
        const rate = (name: keyof Rate) => ((current[name] - (old?.[name] ?? 0)) * 1000) / (now - before.at)
        const [received, received_bytes] = [rate('received'), rate('received_bytes')]
        return [one.id, { received, received_bytes, sent: rate('sent'), discarded: rate('discarded') }]
      }),
    )
  }
}

function countsOf({ received, passed, aside, discards }: ComponentCounters): Rate {
  const sum = (amounts: ReadonlyMap<string, { readonly events: number }>) =>
    [...amounts.values()].reduce((all, { events }) => all + events, 0)
  return {
    received: received.events,
    received_bytes: received.bytes,
    sent: passed.events + sum(aside),
    discarded: sum(discards),
  }
}
