import type { EventBatch } from '../../../core/event/batch.js'
import { BoundedMap } from '../../../lib/bounded-map.js'
import type { EventKey } from '../buckets/event-key.js'
import { EXCLUDED, LATE, TOO_LATE } from '../decisions.js'

const MOST_KEYS = 1000
/** Most events of a key are late if it has this many late events more than others. */
const MOSTLY = 20
/** Events that are inspected at first; later, one in SHARE. */
const FIRST = 10_000
const SHARE = 16

/** Finds keys most of whose events are late, so that their limit does not hold. Inspects events only if some are late. */
export class LateKeys {
  /** By the hash of a key: how many more of its events were late than not, up to 2 * MOSTLY. */
  readonly #surplus = new BoundedMap<number, number>(MOST_KEYS)
  readonly #key: EventKey
  #credit = FIRST

  constructor(key: EventKey) {
    this.#key = key
  }

  /** Number of keys most of whose last events were late. */
  get count(): number {
    return [...this.#surplus.values()].filter(surplus => surplus >= MOSTLY).length
  }

  /** `late`: the number of late events in the batch. Returns the bucket of a key most of whose events are now late. */
  see(batch: EventBatch, decisions: Uint8Array, late: number): string | null | undefined {
    this.#credit = Math.min(this.#credit + batch.length / SHARE, FIRST)
    if ((late === 0 && this.#surplus.size === 0) || this.#credit < 0) return undefined
    this.#credit -= batch.length
    let found: string | null | undefined
    for (let i = 0; i < batch.length; i++) {
      const decision = decisions[i]
      if (decision === EXCLUDED) continue
      this.#key.load(batch, i)
      const { hash } = this.#key
      const before = this.#surplus.get(hash) ?? 0
      const isLate = decision === LATE || decision === TOO_LATE
      const surplus = isLate ? Math.min(before + 1, 2 * MOSTLY) : before - 1
      if (surplus > 0) this.#surplus.set(hash, surplus)
      else if (before > 0) this.#surplus.delete(hash)
      if (isLate && surplus === MOSTLY) found = this.#key.name()
    }
    return found
  }
}
