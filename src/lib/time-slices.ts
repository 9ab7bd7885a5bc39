import { type Clock, nextTurn } from './time.js'

/** How long synchronous work may block the event loop, in milliseconds. */
const SLICE_MS = 2

/** Divides long runs of short synchronous calls into slices. Between two slices, the event loop gets its turn. */
export class TimeSlices {
  busyMs = 0
  readonly #clock: Clock
  #since: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.now()
  }

  get due(): boolean {
    return this.#clock.now() - this.#since >= SLICE_MS
  }

  /** Yields to the event loop. Call when `due`. */
  async pause(): Promise<void> {
    this.stop()
    await nextTurn()
    this.restart()
  }

  /** Calls `use` for each item. */
  async each<T>(items: Iterable<T>, use: (item: T) => unknown): Promise<void> {
    for (const item of items) {
      if (this.due) await this.pause()
      use(item)
    }
  }

  /** The items, which may take long to make. */
  async all<T>(items: Iterable<T>): Promise<T[]> {
    const all: T[] = []
    await this.each(items, item => all.push(item))
    return all
  }

  /** Waits without counting the time as work. */
  async without<T>(wait: () => Promise<T>): Promise<T> {
    this.stop()
    const result = await wait()
    this.restart()
    return result
  }

  restart(): void {
    this.#since = this.#clock.now()
  }

  stop(): void {
    this.busyMs += this.#clock.now() - this.#since
  }
}
