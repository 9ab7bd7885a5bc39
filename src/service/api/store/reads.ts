import { Recent } from './recent.js'
import type { Entry, ListOptions } from './store.js'

/** Weight of an entry in addition to its text. */
const OWN_BYTES = 200
/** Limit of cached parts of one list. */
const MOST_PARTS = 32

interface Lists {
  readonly parts: Map<string, readonly Entry[]>
  weight: number
}

/** Caches reads for a single process. `generation` detects reads that began before a write: these are not cached. */
export class Reads {
  readonly #values: Recent<unknown>
  readonly #lists: Recent<Lists>
  #generation = 0

  constructor(mostBytes: number) {
    this.#values = new Recent(mostBytes)
    this.#lists = new Recent(mostBytes)
  }

  get generation(): number {
    return this.#generation
  }

  value(key: string): { readonly value: unknown } | undefined {
    return this.#values.get(key)
  }

  keep(key: string, value: unknown, bytes: number, generation: number): void {
    if (generation === this.#generation) this.#values.set(key, value, bytes + key.length + OWN_BYTES)
  }

  list(prefix: string, options: ListOptions): readonly Entry[] | undefined {
    return this.#lists.get(prefix)?.value.parts.get(partOf(options))
  }

  keepList(prefix: string, options: ListOptions, list: readonly Entry[], bytes: number, generation: number): void {
    if (generation !== this.#generation) return
    let lists = this.#lists.get(prefix)?.value
    if (!lists || lists.parts.size >= MOST_PARTS) lists = { parts: new Map(), weight: 0 }
    lists.parts.set(partOf(options), list)
    lists.weight += bytes + list.length * OWN_BYTES + OWN_BYTES
    this.#lists.set(prefix, lists, lists.weight)
  }

  forgetAll(): void {
    this.#generation++
    this.#values.clear()
    this.#lists.clear()
  }

  /** Invalidates keys that were written, or may have been. */
  forget(keys: Iterable<string>): void {
    this.#generation++
    for (const key of keys) {
      this.#values.delete(key)
      for (let at = key.indexOf('/'); at !== -1; at = key.indexOf('/', at + 1)) this.#lists.delete(key.slice(0, at + 1))
    }
  }
}

function partOf({ after = '', limit = 0, reverse = false }: ListOptions): string {
  return `${reverse ? '-' : '+'}${limit} ${after}`
}
