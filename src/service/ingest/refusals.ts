import { BoundedMap } from '../../lib/bounded-map.js'
import type { Clock } from '../../lib/time.js'
import type { Refusal } from '../../net/http/server/refusal.js'
import { type Published, versionName } from './published.js'

/** A version that could not be built is not tried again for so many times as long as that took. */
const TIMES_AS_LONG = 20
const LONGEST_MS = 10_000
const MOST = 10_000

interface Known {
  readonly version: string
  readonly until: number
  readonly refusal: Refusal
}

/** Remembers for a moment what cannot run: each request would otherwise read its whole configuration again. */
export class Refusals {
  readonly #clock: Clock
  readonly #known = new BoundedMap<string, Known>(MOST)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  of(published: Published): Refusal | undefined {
    const known = this.#known.get(published.id)
    if (!known) return undefined
    if (known.version === versionName(published) && this.#clock.now() < known.until) return known.refusal
    this.#known.delete(published.id)
    return undefined
  }

  add(published: Published, refusal: Refusal, tookMs: number): void {
    const until = this.#clock.now() + Math.min(LONGEST_MS, tookMs * TIMES_AS_LONG)
    this.#known.set(published.id, { version: versionName(published), until, refusal })
  }
}
