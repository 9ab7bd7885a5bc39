import { BoundedMap } from '../../../lib/bounded-map.js'
import type { Clock } from '../../../lib/time.js'

/** The second death in a row is waited after for so long; each further one doubles it. */
const FIRST_MS = 1000
const LONGEST_MS = 60_000
/** A process that dies later than this after the one before it did not die for the same reason. */
const FORGOTTEN_MS = 5 * 60_000
const MOST = 10_000

/** Holds the processes of accounts back that die again and again: each start costs the machine a part of a second. */
export class Restarts {
  readonly #clock: Clock
  readonly #deaths = new BoundedMap<string, { count: number; at: number }>(MOST)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  died(account: string): void {
    const now = this.#clock.now()
    const known = this.#deaths.get(account)
    const count = known && now - known.at < FORGOTTEN_MS ? known.count + 1 : 1
    this.#deaths.set(account, { count, at: now })
  }

  /** Milliseconds until the next start. */
  waitOf(account: string): number {
    const known = this.#deaths.get(account)
    if (!known || known.count < 2) return 0
    const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** (known.count - 2))
    return Math.max(0, known.at + wait - this.#clock.now())
  }
}
