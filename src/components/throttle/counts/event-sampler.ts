import type { Clock } from '../../../lib/time.js'

/** Chooses the events to inspect: every event, or a random sample if the events per second exceed a maximum. */
export class EventSampler {
  #stands: number
  /** Whether some events were not inspected. */
  sampled: boolean
  readonly #most: number
  readonly #clock: Clock
  #secondAt: number
  #looks = 0
  /** Number of events to skip before the next inspection. */
  #skip = 0
  #chance = 1

  /** `most`: maximum number of events inspected per second. `stands`: the value of `stands` of the previous sampler. */
  constructor(clock: Clock, most: number, stands = 1) {
    this.#clock = clock
    this.#most = most
    this.#stands = stands
    this.sampled = stands > 1
    this.#secondAt = clock.now()
  }

  /** How many events each inspected event represents now. */
  get oneIn(): number {
    return this.#stands
  }

  /** For the next sampler: how many events each inspected event should represent if the event rate stays the same. */
  get stands(): number {
    return this.#looks < this.#most / 4 ? Math.max(1, this.#stands / 2) : this.#stands
  }

  /**
   * Chooses events of the next batch. Calls `inspect` with the index of each chosen event, and with the number of
   * events that it represents.
   */
  choose(length: number, inspect: (i: number, stands: number) => void): void {
    const now = this.#clock.now()
    if (now - this.#secondAt >= 1000) {
      this.#secondAt = now
      this.#stands = this.stands
      this.#looks = 0
    }
    let i = this.#skip
    for (; i < length; i += this.#step()) {
      if (++this.#looks > this.#most) {
        // Until this second ends, inspects only half as many events as before.
        this.#looks = (this.#most * 3) / 4
        this.#stands *= 2
        this.sampled = true
      }
      inspect(i, this.#stands)
    }
    this.#skip = i - length
  }

  /** A random distance to the next event to inspect. A constant distance could miss keys that alternate. */
  #step(): number {
    if (this.#stands === 1) return 1
    this.#chance = (Math.imul(this.#chance, 1_103_515_245) + 12_345) & 0x7fffffff
    return 1 + ((this.#chance >>> 8) % (this.#stands * 2 - 1))
  }
}
