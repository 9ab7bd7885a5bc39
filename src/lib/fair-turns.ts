import type { Clock } from './time.js'

interface Queue {
  /** The time that counts as used when its first entry began to wait. */
  readonly start: number
  readonly waiting: { readonly weight: number; readonly go: () => void }[]
}

/**
 * Shares the time of the event loop fairly among groups of callers. The next turn goes to the group that has used the
 * least time. The cost of a turn is measured when all the work that follows from it in the same event loop turn is
 * done, and is charged to its group. A group that was idle gets no credit for that time.
 *
 * Only one event loop turn can be measured, so it is limited by `maxWeight`; later work in timers and threads is not
 * charged.
 */
export class FairTurns {
  readonly #clock: Clock
  readonly #maxWeight: number
  readonly #queues = new Map<string, Queue>()
  /** When the last turn of each group ends in virtual time, if that is in the future. */
  readonly #usedUntil = new Map<string, number>()
  /** The start of the latest turn in virtual time. */
  #now = 0
  #taking = false

  constructor(clock: Clock, maxWeight: number) {
    this.#clock = clock
    this.#maxWeight = maxWeight
  }

  /** Number of groups with waiting callers. */
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
    // All microtasks and ticks that follow from the turn run before the next immediate.
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
