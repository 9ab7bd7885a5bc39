import { STALL_MS } from '../../engine/flow/stall.js'
import type { Clock } from '../../lib/time.js'
import type { Taken } from './entries.js'
import { takenAt } from './fields.js'

/**
 * Whether entries of the journal are backlog: journald took them before reading began again, after a start or a stall.
 * The first entry that it took later ends that, and so does a pause, because entries of other machines have their time.
 */
export class CatchUp {
  readonly #clock: Clock
  #until = Number.NEGATIVE_INFINITY
  #idleSince = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Reading begins again now, where it had stopped before. */
  begin(): void {
    this.#until = this.#clock.wall()
    this.#idleSince = Number.POSITIVE_INFINITY
  }

  /** The number of entries at the beginning of `taken` that are backlog, or not, like the first of them. */
  same(taken: readonly Taken[]): { readonly count: number; readonly isBacklog: boolean } {
    if (this.#clock.now() - this.#idleSince >= STALL_MS) this.#until = Number.NEGATIVE_INFINITY
    const until = this.#until
    const live = taken.findIndex(({ entry }) => (takenAt(entry) ?? until) >= until)
    if (live === 0) this.#until = Number.NEGATIVE_INFINITY
    return live > 0 ? { count: live, isBacklog: true } : { count: taken.length, isBacklog: live < 0 }
  }

  /** Sends a batch, which may take long. */
  async during(send: Promise<void>): Promise<void> {
    const began = this.#clock.now()
    await send
    const now = this.#clock.now()
    if (now - began >= STALL_MS) this.begin()
    this.#idleSince = now
  }
}
