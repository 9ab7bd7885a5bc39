import { BoundedMap } from '../../lib/bounded-map.js'
import type { Clock } from '../../lib/time.js'
import type { Refusal } from '../../net/http/server/refusal.js'
import { type HostedRevision, versionName } from './hosted-revision.js'

/** The wait after a failed start is this many times the duration of the failed start. */
const TIMES_AS_LONG = 20
const LONGEST_REFUSAL_MS = 10_000
const MOST_REFUSALS = 10_000

interface Known {
  readonly version: string
  readonly until: number
  readonly refusal: Refusal
}

/** Remembers for a short time which versions cannot run. Otherwise each request would parse the configuration again. */
export class RecentFailures {
  readonly #clock: Clock
  readonly #known = new BoundedMap<string, Known>(MOST_REFUSALS)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  of(published: HostedRevision): Refusal | undefined {
    const known = this.#known.get(published.id)
    if (!known) return undefined
    if (known.version === versionName(published) && this.#clock.now() < known.until) return known.refusal
    this.#known.delete(published.id)
    return undefined
  }

  add(published: HostedRevision, refusal: Refusal, tookMs: number): void {
    const until = this.#clock.now() + Math.min(LONGEST_REFUSAL_MS, tookMs * TIMES_AS_LONG)
    this.#known.set(published.id, { version: versionName(published), until, refusal })
  }
}
