import type { TimerClock } from '../../src/lib/time.js'

interface Due {
  readonly at: number
  readonly order: number
  readonly fn: () => void
}

/** Time that passes from event to event. `now` is the server's clock, in milliseconds. */
export class World {
  now = 1_700_000_000_000
  readonly #heap: Due[] = []
  #order = 0

  /** Runs `fn` at a time. The result cancels it. */
  at(at: number, fn: () => void): () => void {
    let isCancelled = false
    const due = { at: Math.max(at, this.now), order: this.#order++, fn: () => isCancelled || fn() }
    this.#push(due)
    return () => {
      isCancelled = true
    }
  }

  /** Runs everything up to a time; after each event, all that follows from it at once. */
  async run(until: number): Promise<void> {
    for (;;) {
      const next = this.#heap[0]
      if (!next || next.at > until) break
      this.#pop()
      this.now = next.at
      next.fn()
      // Promises that are settled now go on now.
      await new Promise(resolve => setImmediate(resolve))
    }
    this.now = until
  }

  /** A daemon's clock, which is off and runs at a speed of its own. */
  clock(offset: number, speed: number): TimerClock {
    return {
      now: () => (this.now - 1_700_000_000_000) * speed + offset,
      wall: () => this.now + offset,
      after: (ms, fn) => this.at(this.now + ms / speed, fn),
    }
  }

  #push(due: Due): void {
    const heap = this.#heap
    let at = heap.push(due) - 1
    while (at > 0 && before(heap[at]!, heap[(at - 1) >> 1]!)) at = swap(heap, at, (at - 1) >> 1)
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()!
    if (heap.length === 0) return
    heap[0] = last
    for (let at = 0; ; ) {
      let least = at
      for (const child of [at * 2 + 1, at * 2 + 2])
        if (child < heap.length && before(heap[child]!, heap[least]!)) least = child
      if (least === at) return
      at = swap(heap, at, least)
    }
  }
}

const before = (a: Due, b: Due) => a.at < b.at || (a.at === b.at && a.order < b.order)

function swap(heap: Due[], a: number, b: number): number {
  const held = heap[a]!
  heap[a] = heap[b]!
  heap[b] = held
  return b
}
