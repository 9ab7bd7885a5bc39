import type { ComponentCounters, ComponentSet, CounterSet } from '../../../engine/flow/counters.js'

/** Counters of one pipeline among those of others: the ids begin with its own. */
export class ScopedCounters implements CounterSet {
  readonly components = new Map<string, ComponentCounters>()
  readonly #all: ComponentSet
  readonly #prefix: string

  constructor(all: ComponentSet, prefix: string) {
    this.#all = all
    this.#prefix = prefix
  }

  component(id: string, kind: ComponentCounters['kind'], type: string): ComponentCounters {
    const counters = this.#all.component(`${this.#prefix}/${id}`, kind, type)
    const known = this.components.get(id)
    if (known && known !== counters) this.components.set(`${id} ${known.kind} ${known.type}`, known)
    this.components.set(id, counters)
    return counters
  }
}
