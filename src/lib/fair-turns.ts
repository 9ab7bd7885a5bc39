import type { Clock } from './time.js'

interface Queue {
  /** Time that was used when its first entry began to wait. */
  readonly start: number
  readonly waiting: { readonly weight: number; readonly go: () => void }[]
}

/**
 * Shares the time of the event loop out among groups of callers. Who waits for a turn is let in by the group that has
 * used the least time; what a turn costs is measured when everything that follows from it at once is done, and is charged to its
 * group. A group that comes back gets no credit for the time in which it had nothing to do.
 *
 * Only one turn of the event loop can be measured, so it is bounded by `maxWeight`, and what happens later in timers and
 * threads is not charged.
 */
export class FairTurns {
  readonly #clock: Clock
  readonly #maxWeight: number
  readonly #queues = new Map<string, Queue>()
  /** When the last turn of a group ends in the time of all, where that is in the future. */
  readonly #usedUntil = new Map<string, number>()
  /** The start of the turn that was given last. */
  #now = 0
  #taking = false

  constructor(clock: Clock, maxWeight: number) {
    this.#clock = clock
    this.#maxWeight = maxWeight
  }

  /** Groups with callers that wait. */
  get waiting(): number {
    return this.#queues.size
  }

  /** Resolves when it is the turn of `group`. Several callers of a group share a turn, up to `maxWeight`. */
  take(group: string, weight: number): Promise<void> {
    return new Promise(go => {
      let queue = this.#queues.get(group)
      if (!queue) {
        queue = { start: Math.max(this.#now, this.#usedUntil.get(group) ?? 0), waiting: [] }
        this.#queues.set(group, queue)
      }
      queue.waiting.push({ weight, go })
      if (this.#taking) return
      this.#taking = true
      setImmediate(() => this.#turn())
    })
  }

  #turn(): void {
    let group = ''
    let queue: Queue | undefined
    for (const [name, one] of this.#queues) if (!queue || one.start < queue.start) [group, queue] = [name, one]
    if (!queue) {
      this.#taking = false
      this.#forgetPast()
      return
    }
    this.#now = queue.start
    const began = this.#clock.now()
    let weight = 0
    do {
      const { weight: own, go } = queue.waiting.shift()!
      weight += own
      go()
    } while (queue.waiting.length > 0 && weight + queue.waiting[0]!.weight <= this.#maxWeight)
    // All microtasks and ticks that follow run before the next immediate.
    const { start, waiting } = queue
    setImmediate(() => {
      const until = start + this.#clock.now() - began
      this.#usedUntil.set(group, until)
      if (waiting.length > 0) this.#queues.set(group, { start: until, waiting })
      else this.#queues.delete(group)
      this.#turn()
    })
  }

  #forgetPast(): void {
    for (const [group, until] of this.#usedUntil) if (until <= this.#now) this.#usedUntil.delete(group)
  }
}
