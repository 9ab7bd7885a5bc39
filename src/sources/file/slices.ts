import { type Clock, nextTurn } from '../../lib/time.js'

/** How long synchronous work may keep everything else waiting. */
const SLICE_MS = 2

/** Cuts a long run of quick synchronous calls into slices, so that the event loop gets its turn. */
export class Slices {
  /** Time spent in the work itself so far. */
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

  /** Call it when `due`. */
  async pause(): Promise<void> {
    this.stop()
    await nextTurn()
    this.restart()
  }

  /** Waits for something that is not counted. */
  async without<T>(wait: () => Promise<T>): Promise<T> {
    this.stop()
    const result = await wait()
    this.restart()
    return result
  }

  /** The event loop had its turn anyway. */
  restart(): void {
    this.#since = this.#clock.now()
  }

  /** Ends the measurement. */
  stop(): void {
    this.busyMs += this.#clock.now() - this.#since
  }
}
